"""No input gives a traceback: a settings file is either read, or refused with problems that name it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pool_settings import SettingsInvalid, read_text
from pool_settings.picture import picture_of

EXAMPLE = (Path(__file__).parents[2] / "docs" / "examples" / "pools.toml").read_text()
DOCUMENT = tomllib.loads(EXAMPLE)
WORDS = st.sampled_from(["gpu", "H100", "local", "spine", "never", "5m", "n[1-3]", "kueue", "3g.40gb", "default", ""])
SCALARS = st.one_of(
    WORDS,
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)


def toml(value: Any) -> str:
    """A value written inline."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(key)} = {toml(item)}' for key, item in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, str):
        return (
            json.dumps(value).replace("\\u", "\\\\u")
            if not value.isprintable()
            else json.dumps(value, ensure_ascii=False)
        )
    return json.dumps(value) if isinstance(value, bool) else repr(value)


def paths_of(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place in a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for step, item in inside for found in paths_of(item, (*path, step)))]


PLACES = [path for path in paths_of(DOCUMENT) if path]


def changed(document: Any, path: tuple[str | int, ...], change: str, value: Any) -> Any:
    """A copy of the document with one place replaced, removed or added to."""
    copy = json.loads(json.dumps(document))
    at = copy
    for step in path[:-1]:
        at = at[step]
    if change == "remove":
        del at[path[-1]]
    elif change == "add" and isinstance(at, dict):
        at[str(path[-1]) + "x"] = value
    else:
        at[path[-1]] = value
    return copy


def refusal_of(text: str) -> SettingsInvalid | None:
    try:
        found = read_text(text)
    except SettingsInvalid as error:
        return error
    picture_of(found)
    found.origins.values()
    return None


def read_or_refused(text: str) -> None:
    refusal = refusal_of(text)
    if refusal is not None:
        assert refusal.problems
        assert all(problem.sentence and str(problem).startswith("pools.toml") for problem in refusal.problems)


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text(text: str) -> None:
    read_or_refused(text)


@given(st.sampled_from(PLACES), st.sampled_from(["replace", "remove", "add"]), VALUES)
@settings(max_examples=800, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_example_with_one_place_changed(path: tuple[str | int, ...], change: str, value: Any) -> None:
    document = changed(DOCUMENT, path, change, value)
    read_or_refused("\n".join(f"{key} = {toml(item)}" for key, item in document.items()))


@given(st.dictionaries(st.sampled_from(list(DOCUMENT)), VALUES))
@settings(max_examples=300, deadline=None)
def test_any_document(document: dict[str, Any]) -> None:
    read_or_refused("\n".join(f"{key} = {toml(item)}" for key, item in document.items()))


@given(st.integers(0, len(EXAMPLE) - 1), st.integers(0, 20), st.text(max_size=5))
@settings(max_examples=300, deadline=None)
def test_example_with_some_letters_changed(start: int, length: int, put: str) -> None:
    read_or_refused(EXAMPLE[:start] + put + EXAMPLE[start + length :])
