"""Names with ranges, as hostlists have them: "gpu-[000-127]", "r[1-4]-n[01-16]", "leaf-[0-3,8]"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

MOST = 200_000  # nodes of one table: far above any cluster, and a mistyped range must not fill the memory
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
ALLOWED = 'a name, or one with ranges such as "gpu-[000-127]" or "r[1-4]-n[01-16]"'


def expand(pattern: str) -> tuple[str, ...]:
    """All names of the pattern, in order; the width of a range's first number is kept.

    Raises:
        ValueError: the pattern is malformed or stands for too many names; the message says what is allowed.
    """
    pieces = _RANGE.split(pattern)  # plain, range, plain, range, ..., plain
    ranges = [_numbers(piece) for piece in pieces[1::2]]
    count = 1
    for numbers in ranges:
        count *= len(numbers)
    if count > MOST:
        raise ValueError(f"stands for {count} names; at most {MOST} are allowed in one table. Correct the range")
    plain = pieces[::2]
    names = tuple(
        plain[0] + "".join(number + text for number, text in zip(chosen, plain[1:], strict=True))
        for chosen in product(*ranges)
    )
    if not _PLAIN.fullmatch(names[0]) or any("[" in text or "]" in text for text in plain):
        raise ValueError(
            f"must be {ALLOWED}: of letters, digits, '.', '_' and '-', with a letter or digit at both ends"
        )
    return names


def spread(pattern: str, nodes: int) -> tuple[str, ...]:
    """The pattern's names over so many nodes, each for equally many consecutive ones.

    Raises:
        ValueError: the pattern is malformed, or its names don't divide the nodes.
    """
    names = expand(pattern)
    each, rest = divmod(nodes, len(names))
    if rest or not each:
        raise ValueError(f"stands for {len(names)} domains, which do not divide the {nodes} nodes of this table evenly")
    return tuple(name for name in names for _ in range(each))


def folded(names: Sequence[str], most: int = 4) -> str:
    """Names as a person reads them: the first and the last of many."""
    if len(names) <= most:
        return ", ".join(names)
    return f"{names[0]} ... {names[-1]}"


def _numbers(said: str) -> tuple[str, ...]:
    numbers: list[str] = []
    for part in said.split(","):
        found = _PART.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"must be {ALLOWED}; [{said}] is no range")
        first, last = found.group(1), found.group(2) or found.group(1)
        if int(last) < int(first) or len(last) < len(first):
            raise ValueError(f"must be {ALLOWED}; the range {part.strip()} ends before it begins")
        if int(last) - int(first) >= MOST:
            raise ValueError(f"has the range {part.strip()}; at most {MOST} names are allowed in one table")
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return tuple(numbers)
