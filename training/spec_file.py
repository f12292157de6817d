"""Reads a run spec from its file, whichever recipe it is of."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import ValidationError

from training.exit_codes import BadSpec
from training.recipes.flights_spec import FlightsSpec
from training.recipes.language_model_spec import LanguageModelSpec
from training.run_spec import SCHEMA_VERSION
from training.spec_model import describe

AnySpec = FlightsSpec | LanguageModelSpec
NEXT_STEP = "What is allowed stands in docs/training.md. Correct it where the run was asked for, and submit again."
OF_RECIPE: dict[str, type[AnySpec]] = {"flights": FlightsSpec, "language_model": LanguageModelSpec}


def load(path: Path) -> AnySpec:
    """Read a run spec.

    Raises:
        BadSpec: it can't be read, is of a newer version or asks for what can't be; it names file, field and value.
    """
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadSpec(f"run spec {path}: can't be read: {error}. Write it again, or name another file.") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise BadSpec(
            f"run spec {path}: schema_version = {version} is newer than {SCHEMA_VERSION}, the newest that this trainer "
            "knows (training/run_spec.py). Run it with a newer trainer."
        )
    recipe = content.get("recipe") if isinstance(content, dict) else None
    if not isinstance(recipe, str) or recipe not in OF_RECIPE:
        known = ", ".join(map(repr, OF_RECIPE))
        raise BadSpec(f"run spec {path}: recipe = {recipe!r}: there are {known}. {NEXT_STEP}")
    try:
        return OF_RECIPE[recipe].model_validate(content)
    except ValidationError as error:
        raise BadSpec(f"run spec {path}: {describe(error)} {NEXT_STEP}") from error
