"""The launcher: brings the parts up, watches them, and takes them down in order; all in one thread."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from embedded_stack import airflow_schema, airflow_settings, gangs, ports
from embedded_stack.checkup import Checkup
from embedded_stack.child import Command, python
from embedded_stack.databases import AIRFLOW, LEDGER, Server, make_databases, server_of
from embedded_stack.errors import PartFailed, StackError
from embedded_stack.nursery import Nursery
from embedded_stack.part import Part
from embedded_stack.postgres import EmbeddedPostgres
from embedded_stack.processes import ProcessIdentity
from embedded_stack.secret_store import Secrets
from embedded_stack.stack_record import StackRecord, StackState
from embedded_stack.state_folder import StateFolder, read_json, write_json, write_text
from embedded_stack.taking_down import Say, end, end_leftovers, interrupt_gangs

DEFAULT_PORT = 8080
NURSERY = "embedded_stack.airflow_nursery"
HEALTH_LIMIT_S = 300.0  # a machine that is busy with other things included; what dies is noticed at once
HEALTH_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Options:
    """What `phalanx up` was asked for; `database_url` is an administrator's, "" takes the embedded server."""

    folders: airflow_settings.Folders
    port: int = 0
    database_url: str = ""
    health_limit_s: float = HEALTH_LIMIT_S


class StopAsked(Exception):
    """Somebody asked the stack to go down while it was coming up."""


class Launcher:
    """One stack; the caller holds the home's lock, and `stop` may be set from a signal handler."""

    def __init__(self, folder: StateFolder, options: Options, say: Say) -> None:
        """Prepare; `say` is told one line per step."""
        self.folder = folder
        self.stop = threading.Event()
        self.address = ""
        self.is_first_start = False
        self._options = options
        self._say = say
        self._port = StackRecord.read(folder.stack).port  # a start that fails must not forget it
        self._state = StackState.STARTING
        self._since = datetime.now(UTC)
        self._postgres: EmbeddedPostgres | None = None
        self._parts: dict[str, Part] = {}
        self._nursery: Nursery | None = None
        self._checkup: Checkup | None = None
        self._health_at_s = 0.0

    # --- up

    def bring_up(self) -> None:
        """Start everything and wait until all of it is healthy; on any failure the caller takes it down.

        Raises:
            StackError: what failed, with the next step.
            StopAsked: `stop` was set meanwhile.
        """
        self._port = self._choose_port()
        self.address = f"http://{ports.LOOPBACK}:{self._port}"
        self._checkup = Checkup(self.address)
        self._record()
        end_leftovers(self.folder, self._say)
        secrets = Secrets.of(self.folder.secrets)
        server = self._choose_server(secrets)
        write_text(self.folder.ledger_url, server.url("postgresql+psycopg", LEDGER, secrets.ledger_database_password))
        database_url = server.url("postgresql+psycopg2", AIRFLOW, secrets.airflow_database_password)
        chosen = airflow_settings.settings(self.folder, self._options.folders, self._port, database_url, secrets)
        self.is_first_start = airflow_settings.write_settings(self.folder, chosen, secrets)
        environment = airflow_settings.environment(self.folder, chosen, os.environ)
        (self.folder.home / "tmp").mkdir(exist_ok=True)
        # It imports Airflow while PostgreSQL starts.
        nursery = self._nursery = Nursery(self._command("nursery", python(NURSERY), environment))
        self._open_server(server, secrets)
        self._check_stop()
        migration = self._command("migrate", python("airflow", "db", "migrate"), environment)
        if airflow_schema.migrate(self.folder, database_url, migration, nursery.spawn):
            self._say("Airflow's tables are made")
        self._check_stop()
        for command in self._airflow_commands(environment):
            part = self._parts[command.name] = Part(command, nursery.spawn)
            part.start()
        self._say("Airflow is starting: " + ", ".join(n for n in self._parts if n != "postgres"))
        self._record()
        gangs.let_start(self.folder.home)
        self._wait_until_healthy()
        self._state = StackState.UP
        self._record()

    def _choose_port(self) -> int:
        port = self._options.port or StackRecord.read(self.folder.stack).port or DEFAULT_PORT
        # Leftovers of a killed launcher may hold it; they are ended first.
        if not ports.is_free(port):
            end_leftovers(self.folder, self._say)
        if not ports.is_free(port):
            holder = ports.holder_of(port)
            raise StackError(
                f"the UI was to listen on {ports.LOOPBACK}:{port}, but the port is taken"
                f"{f' by {holder}' if holder else ''}. Stop that process, or name another port with --port "
                "(make run PORT=...)."
            )
        return port

    def _choose_server(self, secrets: Secrets) -> Server:
        """Where PostgreSQL is, or will be."""
        known = read_json(self.folder.database) or {}
        if self._options.database_url:
            if known.get("kind") == "embedded":
                raise StackError(
                    f"--database-url was given, but {self.folder.home} has its data in the embedded PostgreSQL. Leave "
                    "the option out, or start another home with --home."
                )
            return server_of(self._options.database_url)
        if known.get("kind") == "url":
            return Server.read(known)
        self._postgres = EmbeddedPostgres(self.folder, secrets.postgres_password)
        return Server(ports.LOOPBACK, self._postgres.port, {})

    def _open_server(self, server: Server, secrets: Secrets) -> None:
        """Start the embedded PostgreSQL if it is to serve; make the databases where they are missing."""
        record = self.folder.database
        if self._postgres is not None:
            part = self._parts["postgres"] = self._postgres.start()
            make_databases(self._postgres.url(), server, secrets)
            write_json(record, {"kind": "embedded", **server.as_json()})
            self._say(f"PostgreSQL is up (pid {part.identity.pid if part.identity else '?'})")
            return
        if self._options.database_url:
            make_databases(self._options.database_url, server, secrets)
            write_json(record, {"kind": "url", **server.as_json()})
        self._say(f"PostgreSQL at {server.host}:{server.port}")

    def _command(
        self, name: str, argv: tuple[str, ...], environment: dict[str, str], *, stop_whole_group: bool = False
    ) -> Command:
        log = self.folder.logs / f"{name}.log"
        return Command(name, argv, log, environment, self.folder.airflow, stop_whole_group=stop_whole_group)

    def _airflow_commands(self, environment: dict[str, str]) -> Iterable[Command]:
        def command(name: str, *arguments: str, stop_whole_group: bool = False) -> Command:
            argv = python("airflow", name, *arguments)
            return self._command(name, argv, environment, stop_whole_group=stop_whole_group)

        # The API server takes longest, so it goes first.
        yield command("api-server")
        # Its workers pass the signal on to running tasks, whose `on_kill` ends what they started.
        yield command("scheduler", "--skip-serve-logs", stop_whole_group=True)
        yield command("dag-processor")
        yield command("triggerer", "--skip-serve-logs")

    def _wait_until_healthy(self) -> None:
        deadline = time.monotonic() + self._options.health_limit_s
        while not self._refresh_health():
            self._check_stop()
            for part in self._parts.values():
                if found := part.exit_description():
                    raise self._failure(part, found)
            if time.monotonic() > deadline:
                late = next(part for part in self._parts.values() if part.health != "healthy")
                raise self._failure(late, f"it is not healthy after {self._options.health_limit_s:.0f} s")
            self.stop.wait(0.2)

    def _failure(self, part: Part, found: str) -> PartFailed:
        advice = f"All parts are stopped again; their logs are in {self.folder.logs}."
        return PartFailed(part.name, found, part.command.log, part.log_tail(), advice)

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise StopAsked

    # --- watch

    def watch(self) -> None:
        """One round: restart what died, refresh the health; call it a few times a second."""
        has_changed = False
        for part in self._parts.values():
            if part.watch():
                has_changed = True
                if part.health == "restarting":
                    self._say(f"{part.name} {part.last_exit}; it is restarted (restart {part.restarts + 1})")
        if time.monotonic() - self._health_at_s >= HEALTH_EVERY_S:
            before = [part.health for part in self._parts.values()]
            self._refresh_health()
            has_changed |= before != [part.health for part in self._parts.values()]
        if has_changed:
            self._record()

    def _refresh_health(self) -> bool:
        self._health_at_s = time.monotonic()
        assert self._checkup is not None
        return self._checkup.refresh(self._parts.values())

    def _record(self) -> None:
        StackRecord(
            self._state,
            ProcessIdentity.of(os.getpid()),
            self.address,
            self._port,
            self._since.isoformat(),
            [part.as_json() for part in self._parts.values()],
        ).write(self.folder.stack)

    # --- down

    def take_down(self, gang_grace_s: float = gangs.GRACE_S) -> None:
        """End Airflow, stop gangs with a checkpoint, end PostgreSQL; afterwards nothing of the stack is alive."""
        if self._state is not StackState.STARTING:
            self._say("stopping: Airflow, then gangs (with a checkpoint), then PostgreSQL")
        self._state = StackState.STOPPING
        self._record()
        postgres = self._parts.pop("postgres", None)
        had_airflow = bool(self._parts)
        # The API server goes last: tasks that are ended report to it.
        server = self._parts.pop("api-server", None)
        end(self._parts.values())
        end([server] if server else [])
        if self._nursery is not None:
            self._nursery.close()
        if had_airflow:
            interrupt_gangs(self.folder, gang_grace_s, self._say)
        self._parts.clear()
        end([postgres] if postgres else [])
        end_leftovers(self.folder, self._say, is_expected=True)
        self._state = StackState.DOWN
        self._record()


def home_of(given: Path | None) -> StateFolder:
    """The state folder that was named, by PHALANX_HOME or not at all: `.phalanx` in the checkout."""
    default = airflow_settings.checkout_folders().dags.parent / ".phalanx"
    return StateFolder.at(given or Path(os.environ.get("PHALANX_HOME") or default))
