"""Reads what the torchrun agent says at its end about ranks that failed; pure text in, facts out.

The agent prints a table of failures (torch 2.13, `ChildFailedError.format_msg`): one block a rank, the one that it
saw fail first under "Root Cause". Ranks write into files of their own, so nothing of theirs can look like it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^\[\d+\]:\n"
    r"\s+time\s+: .*\n"
    r"\s+host\s+: .*\n"
    r"\s+rank\s+: (?P<rank>\d+) \(local_rank: \d+\)\n"
    r"\s+exitcode\s*: (?P<exit_code>-?\d+) \(pid: (?P<pid>\d+)\).*\n"
    r"\s+error_file: .*\n"
    r"\s+traceback : (?P<message>(?:.*\n?)(?:(?!\[\d+\]:\n|[-=]{5,}\n|[-=]{5,}$).*\n?)*)",
    re.MULTILINE,
)
_ROOT = "Root Cause (first observed failure):"
_NO_TRACEBACK = "To enable traceback see:"


@dataclass(frozen=True, slots=True)
class RankFailure:
    """A rank that failed, as its agent saw it; a negative exit code is the signal that killed it."""

    rank: int
    exit_code: int
    pid: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The failures that an agent reported, the first observed one first."""

    failures: tuple[RankFailure, ...] = ()

    @property
    def root_rank(self) -> int | None:
        """The rank that failed first; None if none is known to have failed."""
        return self.failures[0].rank if self.failures else None


def parse(text: str) -> AgentReport:
    """The last failure table in an agent's output; an empty report if there is none."""
    others, _, root = text.rpartition(_ROOT)
    others = others.rpartition("Failures:\n")[2]
    blocks = [*_BLOCK.finditer(root), *_BLOCK.finditer(others)] if root and others else []
    return AgentReport(tuple(_failure(block) for block in blocks))


def _failure(block: re.Match[str]) -> RankFailure:
    # What a program recorded is shown indented by two, its first line excepted.
    message = "\n".join(line.removeprefix("  ") for line in block["message"].strip().splitlines())
    if message.startswith(_NO_TRACEBACK):
        message = ""
    return RankFailure(int(block["rank"]), int(block["exit_code"]), int(block["pid"]), message)
