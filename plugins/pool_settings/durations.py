"""Durations as people write them: "90s", "5m", "2h", "1h30m", "7d"."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator

_SECONDS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_SHAPE = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?", re.ASCII)
_LONGEST_DAYS = 36_500
ALLOWED = 'a duration such as "90s", "5m", "1h30m" or "7d", of at most 100 years'


def duration(said: object) -> timedelta:
    """The duration; what is one already is taken as it is.

    Raises:
        ValueError: it is no such text; the message says what is allowed.
    """
    if isinstance(said, timedelta):
        return said
    found = _SHAPE.fullmatch(said) if isinstance(said, str) and said else None
    if found is None:
        raise ValueError(f"must be {ALLOWED}")
    seconds = sum(float(part or 0) * size for part, size in zip(found.groups(), _SECONDS.values(), strict=True))
    if seconds > _LONGEST_DAYS * _SECONDS["d"]:
        raise ValueError(f"must be {ALLOWED}")
    return timedelta(seconds=seconds)


def written(length: timedelta) -> str:
    """The duration as `duration` reads it."""
    left = length.total_seconds()
    text = ""
    for unit, size in _SECONDS.items():
        if unit != "s" and left >= size:
            count, left = divmod(left, size)
            text += f"{count:.0f}{unit}"
    return text + (f"{left:g}s" if left or not text else "")


def _positive(said: object) -> timedelta:
    length = duration(said)
    if not length:
        raise ValueError("must be longer than nothing")
    return length


def _or_never(said: object) -> timedelta | None:
    if said is None or said == "never":
        return None
    try:
        return duration(said)
    except ValueError as error:
        raise ValueError(f'{error}, or "never"') from None


Duration = Annotated[timedelta, BeforeValidator(duration)]
PositiveDuration = Annotated[timedelta, BeforeValidator(_positive)]
DurationOrNever = Annotated[timedelta | None, BeforeValidator(_or_never)]
