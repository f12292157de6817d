"""Databases of the first version are taken over with all that lives in them."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import DateTime, Engine, MetaData, create_engine, insert, text

from gang_ledgers.ledger import ConditionState, Directive, Progress
from gang_ledgers.migrations.upgrade import VERSION_TABLE
from gang_ledgers.sql import SqlLedger
from gang_ledgers.sql_tables import SCHEMA_VERSION, metadata
from gang_scheduler.gang_state import ENDED, GangState
from tests.builders import HOST, a_key, a_node_record
from tests.ledger_steps import DONE, launch, running, tick
from tests.postgres_fixture import new_database

FIRST = Path(__file__).parent / "first_schema"
PROCESSES = 10


@pytest.fixture(params=["sqlite", "postgresql"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database that the first version made, with gangs in every state."""
    url = (
        f"sqlite:///{tmp_path / 'ledger.db'}"
        if request.param == "sqlite"
        else new_database(request.getfixturevalue("postgres_server"))
    )
    engine = create_engine(url)
    _fill(engine)
    yield url
    engine.dispose()


def _fill(engine: Engine) -> None:
    name = engine.dialect.name
    tables = MetaData()
    with engine.begin() as connection:
        for statement in (FIRST / f"{name}.sql").read_text().split(";"):
            if statement.strip():
                connection.execute(text(statement))
        tables.reflect(connection)
        for table, rows in json.loads((FIRST / "rows.json").read_text()).items():
            times = [column.name for column in tables.tables[table].c if isinstance(column.type, DateTime)]
            for row in rows:
                for column in times:
                    at = datetime.fromisoformat(row[column]) if row[column] else None
                    row[column] = at.replace(tzinfo=None) if at and name == "sqlite" else at
            connection.execute(insert(tables.tables[table]), rows)
        if name == "postgresql":  # the rows came with their numbers
            for table in ("history", "outbox"):
                connection.execute(
                    text(
                        f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), (SELECT max(number) FROM {table}))"
                    )
                )


def test_gangs_plan_run_and_end_as_before_when_their_ledger_is_of_the_first_version(
    old_url: str, tmp_path: Path
) -> None:
    ledger = SqlLedger(old_url, runs_dir=tmp_path)
    assert {record.gang_id: record.state for record in ledger.list_gangs()} == {
        "dag/done/train": GangState.SUCCEEDED,
        "dag/failed/train": GangState.FAILED,
        "dag/runs/train": GangState.RUNNING,
        "dag/granted/train": GangState.ADMITTED,
        "dag/waits/train": GangState.QUEUED,
        "dag/recovers/train": GangState.QUEUED,
    }
    assert len(ledger.history("dag/done/train")) == 7
    # One that runs, and goes on running.
    runs = a_key("dag/runs/train")
    assert ledger.renew(runs, Progress(step=50, claimed_attempt=1, last_committed_step=50)) is Directive.GO_ON
    assert tick(ledger) == (), "nobody's lease or start-by is over for the time in which the ledger lay still"
    # One that was granted before and is launched now.
    (item,) = launch(ledger)
    assert item.key == a_key("dag/granted/train")
    assert ledger.start(item.key, "ref")
    for key in (runs, item.key):
        ledger.end_attempt(key, DONE)
    # Those that waited.
    for gang_id in ("dag/waits/train", "dag/recovers/train"):
        record = ledger.state(gang_id)
        assert record is not None
        ledger.end_attempt(running(ledger, record.request), DONE)
    assert all(record.state in ENDED for record in ledger.list_gangs())
    ledger.close()


def test_cordon_of_a_closed_host_is_kept_when_the_ledger_is_of_the_first_version(old_url: str, tmp_path: Path) -> None:
    ledger = SqlLedger(old_url, runs_dir=tmp_path)
    assert {node.node: node.cordon_reason for node in ledger.nodes()} == {
        "localhost": "",
        "node-2": "the host is going down",
    }
    (condition,) = ledger.conditions()
    assert (condition.kind, condition.state) == ("host closed", ConditionState.SET)
    ledger.open_host("host-2")
    assert [node.is_cordoned for node in ledger.nodes()] == [False, False]
    ledger.register_node(a_node_record(cpus=4, host_id=HOST))
    ledger.close()


def test_migrated_tables_are_those_that_the_code_knows(old_url: str, tmp_path: Path) -> None:
    SqlLedger(old_url, runs_dir=tmp_path).close()
    _assert_as_known(old_url)


def test_new_tables_are_those_that_the_code_knows(tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path / 'ledger.db'}", postgres_url):
        SqlLedger(url, runs_dir=tmp_path).close()
        _assert_as_known(url)


def _assert_as_known(url: str) -> None:
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
        assert connection.execute(text("SELECT version FROM ledger_schema")).scalar_one() == SCHEMA_VERSION
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one() == str(SCHEMA_VERSION)
    engine.dispose()


def _open(url: str, runs_dir: str, barrier: object) -> None:
    barrier.wait()  # type: ignore[attr-defined] # multiprocessing's barrier
    SqlLedger(url, runs_dir=Path(runs_dir)).close()


def test_one_migrates_when_ten_processes_open_the_ledger_at_once(old_url: str, tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("forkserver")
    spawning.set_forkserver_preload(["gang_ledgers.sql", "gang_ledgers.migrations.upgrade"])
    barrier = spawning.Barrier(PROCESSES)
    workers = [spawning.Process(target=_open, args=(old_url, str(tmp_path), barrier)) for _ in range(PROCESSES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    _assert_as_known(old_url)
    ledger = SqlLedger(old_url, runs_dir=tmp_path)
    assert len(ledger.list_gangs()) == 6
    ledger.close()


def test_first_version_refuses_what_a_later_one_made(tmp_path: Path) -> None:
    """It reads the number in `ledger_schema`, so every migration has to raise it."""
    SqlLedger(f"sqlite:///{tmp_path / 'ledger.db'}", runs_dir=tmp_path).close()
    engine = create_engine(f"sqlite:///{tmp_path / 'ledger.db'}")
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version FROM ledger_schema")).scalar_one() > 1
    engine.dispose()
