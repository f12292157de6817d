"""Records as JSON text and back; unknown fields are ignored, so a newer minor version may add some."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_json

from gang_ledgers.ledger import Progress
from gang_scheduler.gang import GangRequest, Placement
from gang_scheduler.verdict import AttemptEnd, Verdict

Record = TypeVar("Record")

REQUEST = TypeAdapter(GangRequest)
PLACEMENT = TypeAdapter(Placement)
VERDICT = TypeAdapter(Verdict)
PROGRESS = TypeAdapter(Progress)
END = TypeAdapter(AttemptEnd)


def encode(adapter: TypeAdapter[Record], record: Record) -> str:
    """The record as JSON."""
    return adapter.dump_json(record).decode()


def decode(adapter: TypeAdapter[Record], said: str | None) -> Record | None:
    """The record; None where the column is empty."""
    return None if said is None else adapter.validate_json(said)


def encode_progress(progress: Progress) -> str:
    """Progress as JSON; supervisors hand in a look-alike of their own, since they don't import ledgers."""
    return json.dumps({field.name: getattr(progress, field.name) for field in fields(Progress)})


def storable(text: str) -> str:
    """The text without what no database keeps: NUL, and halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")


def storable_end(end: AttemptEnd) -> AttemptEnd:
    """The facts with every text that came from a program made storable: an end must never fail to be recorded."""
    ranks = tuple(
        replace(
            rank,
            error_type=storable(rank.error_type),
            error_message=storable(rank.error_message),
            traceback=storable(rank.traceback),
        )
        for rank in end.ranks
    )
    return replace(end, ranks=ranks, proof=storable(end.proof), log_tail=storable(end.log_tail))


def encode_mapping(mapping: Mapping[str, Any] | None) -> str:
    """A free mapping, e.g. a result; what JSON does not know is written as its `str`."""
    return to_json(dict(mapping or {}), fallback=str).decode()


def decode_mapping(said: str) -> dict[str, Any]:
    """The mapping again."""
    found: dict[str, Any] = json.loads(said)
    return found
