"""The registry protocol and its records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


class RegistryError(Exception):
    """Base of what a registry raises on purpose."""


class ChampionMoved(RegistryError):
    """Somebody else moved the champion pointer in between; the message says who, when and why."""


class UnknownModel(RegistryError):
    """No such model in the registry."""


class NewerRegistry(RegistryError):
    """The registry was written by a newer version of Phalanx; this one refuses to touch it."""


@dataclass(frozen=True, slots=True)
class NewModel:
    """A model to be registered.

    `digest` is its RunSpec's; `data_from` and `data_until` bound the training data; `seen_until` is the end of the
    evaluation interval: the model, or the choice of it, has seen everything before that instant.
    """

    name: str
    digest: str
    gang_id: str
    dag_id: str
    run_id: str
    data_from: datetime
    data_until: datetime
    seen_until: datetime
    uri: str
    model_digest: str
    code_version: str
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Model:
    """A registered model."""

    model_id: int
    facts: NewModel
    created_at: datetime

    @property
    def name(self) -> str:
        """The name that models compete under."""
        return self.facts.name


@dataclass(frozen=True, slots=True)
class Champion:
    """The pointer of one name; `version` grows by one with every move."""

    name: str
    model: Model
    version: int


@dataclass(frozen=True, slots=True)
class ChampionMove:
    """One move of the pointer: what, when, by which run, who and why; `from_model` is None for the first."""

    number: int
    name: str
    from_model: int | None
    to_model: int
    at: datetime
    run: str
    who: str
    why: str
    metrics: Mapping[str, Any] = field(default_factory=dict)


class ModelRegistry(Protocol):
    """Transactional and safe for many processes at once; times are the database's."""

    def close(self) -> None:
        """Close all connections."""
        ...

    def register(self, model: NewModel) -> Model:
        """Register the model; the same name, run and digest again give the model that is there."""
        ...

    def model(self, model_id: int) -> Model:
        """Raises UnknownModel."""
        ...

    def models(self, name: str | None = None, *, limit: int = 200) -> list[Model]:
        """Newest first."""
        ...

    def champion(self, name: str) -> Champion | None: ...
    def as_of(self, name: str, instant: datetime) -> Model | None:
        """The model promoted last, a roll-back included, among those that have seen nothing at or after `instant`."""
        ...

    def history(self, name: str) -> list[ChampionMove]:
        """Every move of the pointer, oldest first."""
        ...

    def move_champion(
        self,
        name: str,
        model_id: int,
        expected: int | None,
        *,
        run: str,
        who: str,
        why: str,
        metrics: Mapping[str, Any] | None = None,
    ) -> Champion:
        """Point to `model_id` if the champion still is model `expected` (None: there is none yet).

        Pointing to the present champion again changes nothing.

        Raises:
            ChampionMoved: the champion is another one by now.
            UnknownModel: there is no such model of that name.
        """
        ...

    def roll_back(self, name: str, *, who: str, why: str, to_model: int | None = None) -> Champion:
        """Move to a former champion, by default to the one before the present; a compare-and-set like any move."""
        ...
