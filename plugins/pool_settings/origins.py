"""Where each value comes from: a line of the settings file, the environment, or the defaults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pool_settings.durations import written
from pool_settings.problems import place_of
from pool_settings.tables import PoolsFile
from pool_settings.toml_lines import Path as KeyPath
from pool_settings.toml_lines import line_of

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Value:
    """A value under its key, and where it comes from: `FILE:LINE`, `$VARIABLE` or `default`."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True)
class Origins:
    """Of one settings file."""

    path: Path | None = None
    tables: PoolsFile = field(default_factory=PoolsFile)
    document: Mapping[str, Any] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict)

    def place(self, path: KeyPath) -> str:
        """Where a table is, for messages: `pools.toml:12 [queue.research]`."""
        where = place_of(path, self.document)
        return f"{self.line(path)} {where}" if self.path else where

    def line(self, path: KeyPath) -> str:
        """`FILE:LINE` of what lies at the path."""
        number = line_of(self.lines, path)
        return f"{self.path}:{number}" if number else str(self.path)

    def values(self) -> list[Value]:
        """Every value of every table that there is, in the order of the settings' own reference."""
        return list(self._values(self.tables, (), self.document))

    def _values(self, said: Any, path: KeyPath, given: Any) -> Iterator[Value]:
        is_given = given is not _NOTHING
        children: list[tuple[str | int, Any]] = []
        if isinstance(said, BaseModel):
            children = [(name, getattr(said, name)) for name in type(said).model_fields]
        elif isinstance(said, dict) and (not path or any(isinstance(each, dict | BaseModel) for each in said.values())):
            children = list(said.items())
        elif isinstance(said, list) and any(isinstance(each, BaseModel) for each in said):
            children = list(enumerate(said))
        elif said is not None or is_given:
            yield Value(_dotted(path), plain(said), self.line(path) if is_given else DEFAULT)
        for step, child in children:
            yield from self._values(child, (*path, step), _child(given, step))


_NOTHING = object()


def _child(given: Any, step: str | int) -> Any:
    if isinstance(given, dict):
        return given.get(str(step), _NOTHING)
    if isinstance(given, list) and isinstance(step, int):
        return given[step]
    return given if given is not _NOTHING and step == "nominal" else _NOTHING  # a quota given as a number


def _dotted(path: KeyPath) -> str:
    text = ""
    for step in path:
        text += f"[{step + 1}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def plain(value: Any) -> Any:
    """The value as the file has it."""
    if isinstance(value, timedelta):
        return written(value)
    if isinstance(value, StrEnum):
        return value.value
    return value
