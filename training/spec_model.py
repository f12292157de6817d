"""What every part of a run spec is: frozen, strict, and read by people when it is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SpecModel(BaseModel):
    """Frozen, and strict about names: a misspelt parameter is an error, not a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def describe(error: ValidationError) -> str:
    """Every problem as "field = value: rule", for people."""
    return "; ".join(_problems(error)) + "."


def _problems(error: ValidationError) -> Iterable[str]:
    for problem in error.errors(include_url=False):
        field = ".".join(map(str, problem["loc"]))
        message = problem["msg"].removeprefix("Value error, ")
        if not field:  # a rule over several fields names them itself
            yield message
        elif problem["type"] == "missing":
            yield f"{field} is missing"
        elif problem["type"] == "extra_forbidden":
            yield f"{field} = {_short(problem['input'])}: there is no such field"
        else:
            yield f"{field} = {_short(problem['input'])}: {message[0].lower()}{message[1:]}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
