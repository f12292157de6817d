"""docs/training.md names every field of a run spec with its default."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pydantic_core import PydanticUndefined

from training.optimizer_spec import OptimizerSpec
from training.parallel.layout import Layout
from training.recipes.flights_spec import FlightsParams
from training.recipes.language_model_spec import LanguageModelParams
from training.run_spec import RunSpec
from training.spec_model import SpecModel

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
APART = {"schema_version"}


@pytest.mark.parametrize(
    ("section", "model"),
    [
        ("What every run spec holds", RunSpec),
        ("`layout`", Layout),
        ("`optimizer`", OptimizerSpec),
        ("`params` of `language_model`", LanguageModelParams),
        ("`params` of `flights`", FlightsParams),
    ],
)
def test_the_page_names_every_field_with_its_default(section: str, model: type[SpecModel]) -> None:
    text = PAGE.read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    said = {row[1]: row[2].strip() for row in re.finditer(r"^\| `(\w+)` \|([^|]*)\|", text, re.MULTILINE)}
    fields = {name: field for name, field in model.model_fields.items() if name not in APART}
    assert said.keys() == fields.keys()
    for name, field in fields.items():
        default = field.default
        is_shown = default is not PydanticUndefined and not isinstance(default, SpecModel)
        assert said[name] == (json.dumps(default) if is_shown else ""), name
