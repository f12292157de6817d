"""The reference explains every key, and the example uses every key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from pool_settings import Settings, read_text
from pool_settings.tables import PoolsFile


def tables_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Every table that an annotation holds, and those that they hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from tables_in(field.annotation)
            for extra in field.metadata:
                yield from tables_in(extra)
    for inner in get_args(annotation):
        yield from tables_in(inner)


KEYS = sorted({key for table in tables_in(PoolsFile) for key in table.model_fields})


def keys_of(value: Any) -> set[str]:
    """Every key of a document, however deep."""
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_of(inner)}
    return {key for inner in value for key in keys_of(inner)} if isinstance(value, list) else set()


def test_keys_were_found() -> None:
    assert {"memory_gib", "until_hour", "nominal", "max_priority", "per_domain"} <= set(KEYS)


@pytest.mark.parametrize("key", KEYS)
def test_reference_explains_the_key(repository: Path, key: str) -> None:
    text = (repository / "docs" / "pools.md").read_text()
    in_tables = {
        word for row in re.findall(r"^\|([^|]+)\|", text, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)
    }
    in_headings = set(re.findall(r"^#+ `\[+(\w+)[\].]", text, re.MULTILINE))
    within = {key for listed in re.findall(r"`\{ ([a-z_, ]+) \}`", text) for key in listed.split(", ")}
    assert key in in_tables | in_headings | within | {"gpus", "cpus"}


def test_example_uses_every_key(example_file: Path, example: Settings) -> None:
    assert set(KEYS) - keys_of(tomllib.loads(example_file.read_text())) == set()
    assert len(example.nodes) == 356


def test_policy_of_the_example_is_the_default_so_that_both_are_seen(example: Settings) -> None:
    assert example.policy == Settings().policy


def test_examples_of_the_reference_are_valid(repository: Path) -> None:
    text = (repository / "docs" / "pools.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 1
    assert len(read_text(blocks[0]).nodes) == 128
