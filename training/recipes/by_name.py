"""The recipe that a run spec asks for."""

from __future__ import annotations

from training.recipes.flights import Flights
from training.recipes.flights_spec import FlightsSpec
from training.recipes.language_model import LanguageModel
from training.recipes.language_model_spec import LanguageModelSpec
from training.recipes.recipe import Recipe
from training.spec_file import AnySpec


def recipe_of(spec: AnySpec) -> Recipe:
    """Read the run's data and build its model.

    Raises:
        TrainingEnd: the data is not what the spec says, or it asks for what can't be.
    """
    match spec:
        case FlightsSpec():
            return Flights(spec)
        case LanguageModelSpec():
            return LanguageModel(spec)
