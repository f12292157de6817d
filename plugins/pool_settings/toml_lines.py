"""On which line of a TOML file each key is given: what `tomllib` does not keep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

Path = tuple[str | int, ...]

_KEY = re.compile(r"""\s*(?:"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)\s*""")
# What may hide a bracket or the end of a line: strings of the four kinds, and comments.
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})|\'\'\'.*?\'\'\'(?:\'{0,2})|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|\n|[\[\]{}]',
    re.DOTALL,
)


def key_lines(text: str) -> dict[Path, int]:
    """The line, from 1, of every table header and key of a document that `tomllib` has accepted.

    Tables of an array are numbered from 0. What lies in an inline table or array has the line of its key.
    """
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, statement in _statements(text):
        stripped = statement.lstrip()
        if stripped.startswith("["):
            path = _indexed(_dotted(stripped.lstrip("[")), counts)
            if stripped.startswith("[["):
                counts[path] = counts.get(path, -1) + 1
                path = (*path, counts[path])
            table = path
            lines.setdefault(path, number)
        elif keys := _dotted(statement):
            path = table
            for key in keys:
                path = (*path, key)
                lines.setdefault(path, number)
    return lines


def line_of(lines: Mapping[Path, int], path: Sequence[str | int]) -> int | None:
    """The line of the path, else of the nearest table that holds it."""
    for length in range(len(path), 0, -1):
        if (found := lines.get(tuple(path[:length]))) is not None:
            return found
    return None


def _statements(text: str) -> list[tuple[int, str]]:
    """Each logical line with the number of its first one; values may run over several."""
    statements: list[tuple[int, str]] = []
    line = first = 1
    start = depth = 0
    is_in_value = False
    for token in _TOKEN.finditer(text):
        said = token.group()
        if said in "[{" or said in "]}":
            is_in_value = is_in_value or "=" in text[start : token.start()]
            if is_in_value:
                depth = max(0, depth + (1 if said in "[{" else -1))
        elif said == "\n":
            line += 1
            if not depth:
                statements.append((first, text[start : token.start()]))
                start, first, is_in_value = token.end(), line, False
        else:
            line += said.count("\n")
    statements.append((first, text[start:]))
    return statements


def _dotted(said: str) -> Path:
    """The parts of a dotted key at the start of the text."""
    keys: list[str] = []
    position = 0
    while found := _KEY.match(said, position):
        keys.append(_unquoted(found.group().strip()))
        position = found.end()
        if position >= len(said) or said[position] != ".":
            break
        position += 1
    return tuple(keys)


def _unquoted(key: str) -> str:
    if key[0] == "'":
        return key[1:-1]
    if key[0] == '"':
        return re.sub(r"\\(.)", r"\1", key[1:-1])  # escapes of control characters don't matter for a line number
    return key


def _indexed(keys: Path, counts: Mapping[Path, int]) -> Path:
    """The path with the number of the newest table of every array on the way (not of the last key)."""
    path: Path = ()
    for position, key in enumerate(keys):
        path = (*path, key)
        if position < len(keys) - 1 and path in counts:
            path = (*path, counts[path])
    return path
