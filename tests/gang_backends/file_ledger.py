"""A ledger with state in a folder: tests say what it answers a supervisor and read what that told it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gang_scheduler.gang import AttemptKey
from gang_scheduler.progress import Directive, Progress
from gang_scheduler.verdict import AttemptEnd


class FileLedger:
    """`answers.json`: may_start, directive, is_reachable, hangs_for_s; `calls.jsonl`: every call that it answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, **answers: Any) -> None:
        temporary = self._folder / "answers.new"
        temporary.write_text(json.dumps({**self._answers(), **answers}))
        temporary.replace(self._folder / "answers.json")

    def calls(self, name: str) -> list[dict[str, Any]]:
        try:
            lines = (self._folder / "calls.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [call for line in lines if (call := json.loads(line))["call"] == name]

    def start(self, key: AttemptKey, backend_ref: str) -> bool:
        return bool(self._told("start", key, lambda answers: answers.get("may_start", True), ref=backend_ref))

    def renew(self, key: AttemptKey, progress: Progress | None) -> Directive:
        said = asdict(progress) if progress else None
        return Directive(self._told("renew", key, lambda answers: answers.get("directive", "go on"), progress=said))

    def end_attempt(self, key: AttemptKey, end: AttemptEnd, result: Mapping[str, Any] | None = None) -> None:
        self._told("end", key, dict.copy, end=asdict(end), result=result)

    def _answers(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self._folder / "answers.json").read_text()))
        except FileNotFoundError:
            return {}

    def _told(self, call: str, key: AttemptKey, answer: Callable[[dict[str, Any]], Any], **what: Any) -> Any:
        answers = self._answers()
        time.sleep(answers.get("hangs_for_s", 0))
        if not answers.get("is_reachable", True):
            raise ConnectionError("connection refused")
        with (self._folder / "calls.jsonl").open("a") as file:
            file.write(json.dumps({"call": call, "attempt": key.attempt, **what}) + "\n")
        return answer(answers)


def open_ledger() -> FileLedger:
    return FileLedger(Path(os.environ["PHALANX_LEDGER_URL_FILE"]).parent)
