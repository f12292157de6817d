"""What pydantic finds wrong with the shape of a document, in our words: what is allowed, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from pool_settings.problems import Findings
from pool_settings.tables import FORMS

_KINDS = {
    "string_type": "must be text in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "list_type": "must be a list in square brackets",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "finite_number": "must be a finite number",
    "too_long": "has too many entries",
    "string_too_short": "must not be empty",
}


def add_shape_errors(error: ValidationError, table: type[BaseModel], findings: Findings) -> None:
    """Add each of the errors to the findings."""
    for found in error.errors():
        path = tuple(step for step in found["loc"] if step != "[key]")
        findings.add(path, _sentence(found["type"], found.get("ctx") or {}, found["msg"], path, table))


def _sentence(
    kind: str, facts: Mapping[str, Any], message: str, path: Sequence[str | int], table: type[BaseModel]
) -> str:
    if kind == "extra_forbidden":
        return _unknown(str(path[-1]), known_keys(table, path[:-1]))
    if kind == "missing":
        return f"{path[-1]} is missing. Give it"
    if kind == "value_error":
        return f"{facts['error']}. Correct it"
    if kind in ("enum", "literal_error"):
        return f"must be one of {str(facts['expected']).replace(' or ', ', ')}. Choose one"
    if kind == "string_pattern_mismatch":
        return f"must be {FORMS.get(facts['pattern'], facts['pattern'])}. Rename it"
    if kind == "string_too_long":
        return f"must have at most {facts['max_length']} letters. Shorten it"
    bounds = {"greater_than_equal": "at least", "less_than_equal": "at most", "greater_than": "more than"}
    if kind in bounds:
        return f"must be {bounds[kind]} {next(iter(facts.values())):.12g}. Correct it"
    return f"{_KINDS.get(kind, message)}. Correct it"


def _unknown(key: str, known: Sequence[str]) -> str:
    close = get_close_matches(key, known, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    return f"{key!r} is not known here. {meant}Known: {', '.join(known)}. Rename or remove it"


def known_keys(table: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys that the table at the path may have."""
    at: Any = table
    for step in path:
        model = _model_in(at)
        if model is not None and step in model.model_fields:
            at = model.model_fields[str(step)].annotation
        elif get_origin(at) in (dict, list):
            at = get_args(at)[-1]
    model = _model_in(at)
    return sorted(model.model_fields) if model is not None else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The table that an annotation means, be it optional or annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (dict, list):
        return None
    for inner in get_args(annotation):
        if (model := _model_in(inner)) is not None:
            return model
    return None
