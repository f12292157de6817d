"""What is wrong with a settings file: each problem with its place, its value, what is allowed and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pool_settings.toml_lines import Path, line_of


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong; `where` is the table and key, `sentence` says what is allowed and what to do."""

    file: str
    line: int | None
    where: str
    sentence: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.where}: {self.sentence}" if self.where else f"{place}: {self.sentence}"


class SettingsInvalid(ValueError):
    """The settings can't be used; all that was found is told together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Tell of one problem or more."""
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class Findings:
    """Collects what is wrong with one file."""

    def __init__(self, file: str, document: Mapping[str, object], lines: Mapping[Path, int]) -> None:
        """Speak of the file with this content."""
        self.file = file
        self.problems: list[Problem] = []
        self._document = document
        self._lines = lines

    def add(self, path: Sequence[str | int], sentence: str) -> None:
        """Something is wrong at this path of keys (and of numbers from 0, in arrays)."""
        where = place_of(path, self._document)
        self.problems.append(Problem(self.file, line_of(self._lines, path), where, sentence))

    def raise_if_any(self) -> None:
        """Raise all of them together, in the order of the file.

        Raises:
            SettingsInvalid: there is one at least.
        """
        if self.problems:
            found = sorted(dict.fromkeys(self.problems), key=lambda problem: problem.line or 0)
            raise SettingsInvalid(found)


_ABSENT = object()


def place_of(path: Sequence[str | int], document: object) -> str:
    """The table as it is written, the key and its value: `[[pool.gpu.nodes]] 2: gpu_model = "H10"`."""
    at = document
    table: list[str] = []
    number = ""
    keys = ""
    for step in path:
        if not isinstance(at, dict | list):  # e.g. the nominal of a quota that is given as a number
            break
        at = _child(at, step)
        if isinstance(step, int):
            if keys:
                keys += f"[{step + 1}]"
            else:
                number = f" {step + 1}"
        elif not keys and not number and _holds_tables(at):
            table.append(_key(step))
        else:
            keys += f".{_key(step)}" if keys else _key(step)
    name = ".".join(table)
    header = f"[[{name}]]{number}" if number else f"[{name}]" if name else ""
    value = f" = {shown(at)}" if keys and at is not _ABSENT else ""
    return ": ".join(part for part in (header, keys + value) if part)


def _child(at: object, step: str | int) -> object:
    if isinstance(at, dict):
        return at.get(step, _ABSENT)
    if isinstance(at, list) and isinstance(step, int) and step < len(at):
        return at[step]
    return _ABSENT


def _holds_tables(at: object) -> bool:
    return isinstance(at, dict) or (isinstance(at, list) and bool(at) and all(isinstance(item, dict) for item in at))


def _key(key: object) -> str:
    text = str(key)
    is_bare = bool(text) and all(letter.isascii() and (letter.isalnum() or letter in "_-") for letter in text)
    return text if is_bare else json.dumps(text, ensure_ascii=False)


def shown(value: object, most: int = 80, depth: int = 3) -> str:
    """A value as TOML has it, cut where it is long or deep."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, int) and value.bit_length() > 256:
        text = f"a whole number of {value.bit_length()} bits"
    elif isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, list | dict) and not depth:
        text = "..."
    elif isinstance(value, list):
        text = f"[{', '.join(shown(item, most, depth - 1) for item in value[:20])}{', ...' if len(value) > 20 else ''}]"
    elif isinstance(value, dict):
        inside = (f"{_key(key)} = {shown(item, most, depth - 1)}" for key, item in list(value.items())[:20])
        text = f"{{ {', '.join(inside)} }}" if value else "{}"
    elif isinstance(value, float):
        text = f"{value:.15g}"
    else:
        text = str(value)
    return text if len(text) <= most else f"{text[:most]}..."
