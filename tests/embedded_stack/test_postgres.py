"""A real cluster over a temporary state folder; the tests build on each other, in their order."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from embedded_stack import ports
from embedded_stack.databases import AIRFLOW, LEDGER, Server, make_databases, server_of
from embedded_stack.errors import PartFailed, StackError
from embedded_stack.part import Part
from embedded_stack.postgres import EmbeddedPostgres
from embedded_stack.secret_store import Secrets
from embedded_stack.state_folder import StateFolder
from tests.embedded_stack.phalanx import wait_until


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StateFolder:
    made = StateFolder.at(tmp_path_factory.mktemp("postgres") / "home")
    made.prepare()
    return made


@pytest.fixture(scope="module")
def secrets(folder: StateFolder) -> Secrets:
    return Secrets.of(folder.secrets)


@pytest.fixture
def server(folder: StateFolder, secrets: Secrets) -> Iterator[tuple[EmbeddedPostgres, Part]]:
    postgres = EmbeddedPostgres(folder, secrets.postgres_password)
    part = postgres.start()
    yield postgres, part
    part.ask_to_end()
    assert part.wait(time.monotonic() + 30)


def test_data_and_port_are_kept_when_it_is_started_again(
    folder: StateFolder, server: tuple[EmbeddedPostgres, Part], secrets: Secrets
) -> None:
    postgres, part = server
    with psycopg.connect(postgres.url()) as connection:
        connection.execute("CREATE TABLE kept (number int)")
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
    part.ask_to_end()
    assert part.wait(time.monotonic() + 30)
    again = EmbeddedPostgres(folder, secrets.postgres_password)
    second = again.start()
    try:
        assert again.port == postgres.port
        with psycopg.connect(again.url()) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    finally:
        second.ask_to_end()
        second.wait(time.monotonic() + 30)


def test_it_starts_when_a_killed_server_left_its_pid_file_and_the_pid_is_another_s(
    folder: StateFolder, secrets: Secrets
) -> None:
    postgres = EmbeddedPostgres(folder, secrets.postgres_password)
    part = postgres.start()
    assert part.identity is not None
    os.kill(part.identity.pid, signal.SIGKILL)
    assert part.wait(time.monotonic() + 10)
    pid_file = postgres.cluster / "postmaster.pid"
    content = pid_file.read_text().splitlines()
    pid_file.write_text("\n".join([str(os.getpid()), *content[1:]]))  # this process took the pid
    again = EmbeddedPostgres(folder, secrets.postgres_password).start()
    assert again.health == "healthy"
    again.ask_to_end()
    assert again.wait(time.monotonic() + 30)


def test_it_takes_another_port_when_its_own_is_taken(
    folder: StateFolder, server: tuple[EmbeddedPostgres, Part], secrets: Secrets
) -> None:
    postgres, part = server
    part.ask_to_end()
    part.wait(time.monotonic() + 30)
    with socket.create_server((ports.LOOPBACK, postgres.port)):
        assert EmbeddedPostgres(folder, secrets.postgres_password).port != postgres.port


def test_databases_are_apart_and_made_once(server: tuple[EmbeddedPostgres, Part], secrets: Secrets) -> None:
    postgres, _ = server
    here = Server(ports.LOOPBACK, postgres.port, {})
    for _ in range(2):
        make_databases(postgres.url("postgresql+psycopg"), here, secrets)
    for role, password, other in (
        (AIRFLOW, secrets.airflow_database_password, LEDGER),
        (LEDGER, secrets.ledger_database_password, AIRFLOW),
    ):
        own = here.url("postgresql", role, password)
        with psycopg.connect(own) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS mine (number int)")
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(own.removesuffix(role) + other)


def test_another_home_s_roles_are_not_taken_over(server: tuple[EmbeddedPostgres, Part], secrets: Secrets) -> None:
    postgres, _ = server
    here = Server(ports.LOOPBACK, postgres.port, {})
    make_databases(postgres.url(), here, secrets)
    with pytest.raises(StackError, match="another home uses it"):
        make_databases(postgres.url(), here, Secrets())


def test_a_role_without_superuser_rights_can_make_them(server: tuple[EmbeddedPostgres, Part]) -> None:
    postgres, _ = server
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        for database in (AIRFLOW, LEDGER):
            connection.execute(f"DROP DATABASE IF EXISTS {database}".encode())
            connection.execute(f"DROP ROLE IF EXISTS {database}".encode())
        connection.execute("CREATE ROLE clerk LOGIN CREATEROLE CREATEDB PASSWORD 'clerk'")
    here = Server(ports.LOOPBACK, postgres.port, {})
    mine = Secrets()
    make_databases(f"postgresql://clerk:clerk@{ports.LOOPBACK}:{postgres.port}/postgres", here, mine)
    psycopg.connect(here.url("postgresql", AIRFLOW, mine.airflow_database_password)).close()


def test_a_cluster_that_can_not_start_is_a_clear_error_with_its_log(folder: StateFolder, secrets: Secrets) -> None:
    postgres = EmbeddedPostgres(folder, secrets.postgres_password)
    configuration = postgres.cluster / "postgresql.conf"
    kept = configuration.read_text()
    configuration.write_text("no_such_setting = 1\n")
    try:
        with pytest.raises(PartFailed, match=r"(?s)postgres did not start: ended with exit code 1.*no_such_setting"):
            postgres.start()
    finally:
        configuration.write_text(kept)


def test_a_leftover_server_is_ended_before_the_next(folder: StateFolder, secrets: Secrets) -> None:
    first = EmbeddedPostgres(folder, secrets.postgres_password).start()
    second = EmbeddedPostgres(folder, secrets.postgres_password).start()
    try:
        wait_until(lambda: not first.is_running, "the first server has ended", 10)
        assert second.is_running
    finally:
        second.ask_to_end()
        second.wait(time.monotonic() + 30)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can close a folder to the user that PostgreSQL runs as")
def test_it_runs_as_root_in_a_folder_that_is_closed_to_others(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    folder = StateFolder.at(closed / "home")
    folder.prepare()
    part = EmbeddedPostgres(folder, "secret").start()
    try:
        assert part.identity is not None
        assert Path(f"/proc/{part.identity.pid}").stat().st_uid != 0
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        part.ask_to_end()
        part.wait(time.monotonic() + 30)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://root@localhost/x", "starts with 'mysql'"),
        ("nonsense", "starts with 'nonsense'"),
        ("postgresql:///x?host=/run/postgresql", "socket folder /run/postgresql"),
    ],
    ids=["another database", "no url", "a socket"],
)
def test_a_bad_database_url_is_refused_with_what_is_needed(url: str, message: str) -> None:
    with pytest.raises(StackError, match=message):
        server_of(url)


def test_options_of_a_database_url_are_kept_and_its_credentials_are_not() -> None:
    server = server_of("postgresql+psycopg://admin:secret@db.example:6432/main?sslmode=require")
    assert server.as_json() == {"host": "db.example", "port": 6432, "options": {"sslmode": "require"}}
    assert server.url("postgresql", "phalanx", "a/b") == (
        "postgresql://phalanx:a%2Fb@db.example:6432/phalanx?sslmode=require"
    )
