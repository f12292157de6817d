"""The registry in SQLite or PostgreSQL; the champion pointer moves by compare-and-set only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine, Row, func, insert, select, text, update

from model_registry.registry import Champion, ChampionMove, ChampionMoved, Model, NewModel, RegistryError, UnknownModel
from model_registry.sql_tables import champion_moves, champions, ensure_schema, models, registry_version


@dataclass(frozen=True, slots=True)
class _Change:
    connection: Connection
    now: datetime


class SqlModelRegistry:
    """A registry over SQLAlchemy; safe for many threads and processes at once."""

    def __init__(self, engine: Engine) -> None:
        """Open the registry, and create its tables if they are missing.

        Raises:
            NewerRegistry: a newer version of Phalanx made them.
        """
        self._engine = engine
        ensure_schema(engine)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    # --- models

    def register(self, model: NewModel) -> Model:
        is_same = (
            (models.c.name == model.name)
            & (models.c.run_id == model.run_id)
            & (models.c.digest == model.digest)
            & (models.c.model_digest == model.model_digest)
        )
        with self._changing() as change:
            row = change.connection.execute(select(models).where(is_same)).one_or_none()
            if row is not None:
                return _to_model(row)
            values = {
                "name": model.name,
                "digest": model.digest,
                "gang_id": model.gang_id,
                "dag_id": model.dag_id,
                "run_id": model.run_id,
                "data_from": _stored(model.data_from),
                "data_until": _stored(model.data_until),
                "seen_until": _stored(model.seen_until),
                "uri": model.uri,
                "model_digest": model.model_digest,
                "code_version": model.code_version,
                "metrics": json.dumps(dict(model.metrics), default=str),
                "created_at": _stored(change.now),
            }
            model_id = change.connection.execute(
                insert(models).values(**values).returning(models.c.model_id)
            ).scalar_one()
            return Model(model_id, model, change.now)

    def model(self, model_id: int) -> Model:
        with self._engine.begin() as connection:
            return _find(connection, model_id)

    def models(self, name: str | None = None, *, limit: int = 200) -> list[Model]:
        query = select(models).order_by(models.c.model_id.desc()).limit(limit)
        if name is not None:
            query = query.where(models.c.name == name)
        with self._engine.begin() as connection:
            return [_to_model(row) for row in connection.execute(query)]

    # --- the champion

    def champion(self, name: str) -> Champion | None:
        with self._engine.begin() as connection:
            return _champion(connection, name)

    def as_of(self, name: str, instant: datetime) -> Model | None:
        query = (
            select(models)
            .join(champion_moves, champion_moves.c.to_model == models.c.model_id)
            .where(champion_moves.c.name == name, models.c.seen_until <= _stored(instant))
            .order_by(champion_moves.c.number.desc())
            .limit(1)
        )
        with self._engine.begin() as connection:
            row = connection.execute(query).first()
            return None if row is None else _to_model(row)

    def history(self, name: str) -> list[ChampionMove]:
        with self._engine.begin() as connection:
            return _moves(connection, name)

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
        with self._changing() as change:
            return _move(change, name, model_id, expected, run=run, who=who, why=why, metrics=metrics or {})

    def roll_back(self, name: str, *, who: str, why: str, to_model: int | None = None) -> Champion:
        with self._changing() as change:
            present = _champion(change.connection, name)
            if present is None:
                raise RegistryError(f"model '{name}' has no champion yet, so there is nothing to roll back")
            moves = _moves(change.connection, name)
            former = [move.to_model for move in moves]
            if to_model is None:
                to_model = _before(moves, present.model.model_id)
            if to_model is None and not set(former) - {present.model.model_id}:
                raise RegistryError(
                    f"model '{name}' has had one champion only, model {present.model.model_id}: "
                    "there is none to go back to"
                )
            if to_model is None or to_model not in former:
                known = ", ".join(str(number) for number in dict.fromkeys(former))
                wanted = "a former champion" if to_model is None else f"model {to_model}"
                raise RegistryError(
                    f"roll back '{name}' to {wanted}: its champions so far were {known} "
                    f"(now {present.model.model_id}). Name one of them"
                )
            return _move(change, name, to_model, present.model.model_id, run="rollback", who=who, why=why, metrics={})

    @contextmanager
    def _changing(self) -> Iterator[_Change]:
        """A transaction that waits for the one before it."""
        with self._engine.begin() as connection:
            connection.execute(update(registry_version).values(version=registry_version.c.version + 1))
            yield _Change(connection, _now(connection))


def _before(moves: list[ChampionMove], present: int) -> int | None:
    """The champion that the present one took over from when it was promoted: rolling back twice goes back by two."""
    return next(move.from_model for move in moves if move.to_model == present)


def _move(
    change: _Change,
    name: str,
    model_id: int,
    expected: int | None,
    *,
    run: str,
    who: str,
    why: str,
    metrics: Mapping[str, Any],
) -> Champion:
    model = _find(change.connection, model_id)
    if model.name != name:
        raise UnknownModel(f"model {model_id} is called '{model.name}', so it can't be the champion of '{name}'")
    present = _champion(change.connection, name)
    present_id = None if present is None else present.model.model_id
    if present is not None and present_id == model_id:
        return present
    if present_id != expected:
        raise ChampionMoved(_who_moved(change.connection, name, model_id, expected, present_id))
    version = 1 if present is None else present.version + 1
    if present is None:
        change.connection.execute(insert(champions).values(name=name, model_id=model_id, version=version))
    else:
        change.connection.execute(
            update(champions).where(champions.c.name == name).values(model_id=model_id, version=version)
        )
    change.connection.execute(
        insert(champion_moves).values(
            name=name,
            from_model=present_id,
            to_model=model_id,
            at=_stored(change.now),
            run=run,
            who=who,
            why=why,
            metrics=json.dumps(dict(metrics), default=str),
        )
    )
    return Champion(name, model, version)


def _who_moved(connection: Connection, name: str, model_id: int, expected: int | None, present: int | None) -> str:
    wanted = (
        f"champion of '{name}': asked to move from {_called(expected)} to model {model_id}; it is {_called(present)}"
    )
    moves = _moves(connection, name)
    if not moves:
        return f"{wanted}. Look at it again and decide anew"
    last = moves[-1]
    return (
        f"{wanted}, moved there from {_called(last.from_model)} by {last.who} (run {last.run}) at "
        f"{last.at:%Y-%m-%d %H:%M:%S} UTC: {last.why}. Compare with that one and decide anew"
    )


def _called(model_id: int | None) -> str:
    return "no model" if model_id is None else f"model {model_id}"


def _find(connection: Connection, model_id: int) -> Model:
    row = connection.execute(select(models).where(models.c.model_id == model_id)).one_or_none()
    if row is None:
        newest = connection.execute(select(func.max(models.c.model_id))).scalar_one()
        known = f"the newest is {newest}" if newest else "none is registered"
        raise UnknownModel(f"model {model_id} is not in the registry ({known}); `phalanx models list` shows them")
    return _to_model(row)


def _champion(connection: Connection, name: str) -> Champion | None:
    row = connection.execute(select(champions).where(champions.c.name == name)).one_or_none()
    return None if row is None else Champion(name, _find(connection, row.model_id), row.version)


def _moves(connection: Connection, name: str) -> list[ChampionMove]:
    query = select(champion_moves).where(champion_moves.c.name == name).order_by(champion_moves.c.number)
    return [
        ChampionMove(
            number=row.number,
            name=row.name,
            from_model=row.from_model,
            to_model=row.to_model,
            at=_aware(row.at),
            run=row.run,
            who=row.who,
            why=row.why,
            metrics=json.loads(row.metrics),
        )
        for row in connection.execute(query)
    ]


def _to_model(row: Row[Any]) -> Model:
    facts = NewModel(
        name=row.name,
        digest=row.digest,
        gang_id=row.gang_id,
        dag_id=row.dag_id,
        run_id=row.run_id,
        data_from=_aware(row.data_from),
        data_until=_aware(row.data_until),
        seen_until=_aware(row.seen_until),
        uri=row.uri,
        model_digest=row.model_digest,
        code_version=row.code_version,
        metrics=json.loads(row.metrics),
    )
    return Model(row.model_id, facts, _aware(row.created_at))


def _now(connection: Connection) -> datetime:
    """The database's time, after the wait for the change before."""
    if connection.dialect.name == "postgresql":
        found: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
        return found.astimezone(UTC)
    said = connection.execute(text("SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')")).scalar_one()
    return datetime.fromisoformat(said).replace(tzinfo=UTC)


def _stored(at: datetime) -> datetime:
    """In UTC, so that instants compare on SQLite too, which drops the zone."""
    if at.tzinfo is None:
        raise ValueError(f"{at!r} has no time zone; the registry keeps instants, so give it one")
    return at.astimezone(UTC)


def _aware(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
