from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from gang_ledgers.ledger import GangRecord, HistoryRow, Progress
from gang_scheduler.gang import GangRequest, WorkerGroup
from gang_scheduler.gang_state import GangState
from operators.gang_poller import GangPoller, Update, Watch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_record(gang_id: str, run_dir: Path) -> GangRecord:
    request = GangRequest(gang_id, "d", "local", (WorkerGroup("worker", 2),), ("-m", "m"), "{}", "digest")
    return GangRecord(gang_id, 1, 1, GangState.RUNNING, request, str(run_dir), "owner", NOON)


@dataclass
class World:
    """A ledger's content, and a switch that cuts it off; counts what is asked and which connections are open."""

    records: dict[str, GangRecord] = field(default_factory=dict)
    rows: list[HistoryRow] = field(default_factory=list)
    is_reachable: bool = True
    connections: int = 0
    ticks: int = 0
    histories_asked: int = 0
    asked_together: list[list[str]] = field(default_factory=list)

    def open(self) -> Connection:
        if not self.is_reachable:
            raise ConnectionError("connection refused")
        self.connections += 1
        return Connection(self)

    def change(self, gang_id: str, event: str, state: GangState) -> None:
        number = len(self.rows) + 1
        self.records[gang_id] = replace(self.records[gang_id], state=state)
        self.rows.append(HistoryRow(number, NOON, gang_id, 1, 1, event, f"{event} {number}"))


@dataclass
class Connection:
    world: World

    def _reach(self) -> World:
        if not self.world.is_reachable:
            raise ConnectionError("server closed the connection")
        return self.world

    def tick(self) -> None:
        self._reach().ticks += 1

    def states(self, gang_ids: Sequence[str]) -> dict[str, GangRecord]:
        self._reach().asked_together.append(list(gang_ids))
        return {gang_id: self.world.records[gang_id] for gang_id in gang_ids if gang_id in self.world.records}

    def history(self, gang_id: str | None = None) -> list[HistoryRow]:
        self._reach().histories_asked += 1
        return [row for row in self.world.rows if row.gang_id == gang_id]

    def positions(self) -> dict[str, int]:
        world = self._reach()
        waiting = sorted(name for name, record in world.records.items() if record.state is GangState.QUEUED)
        return {gang_id: place for place, gang_id in enumerate(waiting, start=1)}

    def close(self) -> None:
        self.world.connections -= 1


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World({gang_id: a_record(gang_id, tmp_path) for gang_id in ("d/r/one", "d/r/two")})


@pytest.fixture
def poller(world: World) -> GangPoller:
    return GangPoller(world.open, every_s=0.02, idle_s=0.1)


async def first(watch: Watch, wanted: Callable[[Update], object]) -> Update:
    """The first update that is wanted."""
    async with asyncio.timeout(30):
        async for update in watch:
            if wanted(update):
                return update
    raise AssertionError("unreachable")


def is_at(step: int, update: Update) -> bool:
    return bool(update.record and update.record.progress and update.record.progress.step == step)


def test_all_watched_gangs_are_looked_at_with_one_query_and_a_tick(world: World, poller: GangPoller) -> None:
    async def watch_both() -> None:
        with Watch(poller, "d/r/one") as one, Watch(poller, "d/r/two") as two:
            await asyncio.gather(first(one, lambda u: u.record), first(two, lambda u: u.record))
            await first(one, lambda _: world.ticks > 2)

    asyncio.run(watch_both())
    assert ["d/r/one", "d/r/two"] in world.asked_together


def test_place_in_line_is_told_to_those_that_wait(world: World, poller: GangPoller) -> None:
    world.records["d/r/other"] = replace(world.records["d/r/one"], gang_id="d/r/other", state=GangState.QUEUED)
    world.records["d/r/two"] = replace(world.records["d/r/two"], state=GangState.QUEUED)

    async def watch_both() -> None:
        with Watch(poller, "d/r/one") as runs, Watch(poller, "d/r/two") as waits:
            assert (await first(runs, lambda u: u.record)).place is None
            assert (await first(waits, lambda u: u.place)).place == (2, 2)

    asyncio.run(watch_both())


def test_history_is_read_only_when_more_than_progress_has_changed(world: World, poller: GangPoller) -> None:
    async def watch() -> None:
        with Watch(poller, "d/r/one") as watching:
            await first(watching, lambda u: u.record)
            asked = world.histories_asked
            for step in range(3):
                record = world.records["d/r/one"]
                world.records["d/r/one"] = replace(record, progress=Progress(step=step), change=record.change + 1)
                await first(watching, partial(is_at, step))
            assert world.histories_asked == asked
            world.change("d/r/one", "requeued", GangState.RECOVERING)
            update = await first(watching, lambda u: u.rows)
            assert [row.event for row in update.rows] == ["requeued"]

    asyncio.run(watch())


def test_an_outage_is_told_once_and_its_end_too(
    world: World, poller: GangPoller, caplog: pytest.LogCaptureFixture
) -> None:
    async def watch() -> list[str]:
        notices = []
        with Watch(poller, "d/r/one") as watching:
            await first(watching, lambda u: u.record)
            world.is_reachable = False
            notices.append((await first(watching, lambda u: u.notice)).notice)
            await asyncio.sleep(0.2)  # some more looks fail, of which the task's log says nothing
            world.is_reachable = True
            notices.append((await first(watching, lambda u: u.notice)).notice)
            assert (await first(watching, lambda u: u.record)).record is not None
        return notices

    with caplog.at_level(logging.WARNING):
        cut, back = asyncio.run(watch())
    assert "can't be asked (server closed the connection); a running gang goes on by itself" in cut
    assert "answers again" in back
    assert "connection refused" in caplog.text


def test_connections_are_closed_when_nobody_watches(
    world: World, poller: GangPoller, eventually: Callable[..., None]
) -> None:
    async def watch() -> None:
        with Watch(poller, "d/r/one") as watching:
            await first(watching, lambda u: u.record)
            assert world.connections == 1

    for _ in range(2):  # and it starts again for the next who watches
        asyncio.run(watch())
        eventually(lambda: not poller.is_running and world.connections == 0, "the poller to end")


def test_a_gang_that_the_ledger_does_not_know_is_reported_as_such(world: World, poller: GangPoller) -> None:
    async def watch() -> Update:
        with Watch(poller, "d/r/unknown") as watching:
            return await first(watching, lambda _: True)

    assert asyncio.run(watch()) == Update()
