"""Taking things down: parts by deadline, gangs with a checkpoint, and what a killed launcher left behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from embedded_stack import gangs, ports, processes
from embedded_stack.databases import LEDGER, Server
from embedded_stack.part import Part
from embedded_stack.postgres import EmbeddedPostgres
from embedded_stack.secret_store import Secrets
from embedded_stack.stack_record import StackRecord, StackState
from embedded_stack.state_folder import StateFolder, read_json, write_text

LEFTOVER_GRACE_S = 10.0
# How long each part may take to end in order: the scheduler waits for running tasks to be ended.
STOP_LIMIT_S = {"scheduler": 20.0, "triggerer": 15.0, "dag-processor": 10.0, "api-server": 10.0, "postgres": 60.0}

Say = Callable[[str], None]


def end(parts: Iterable[Part]) -> None:
    """Ask all of them to end, and kill those that are late."""
    ending = list(parts)
    for part in ending:
        part.ask_to_end()
    now = time.monotonic()
    for part in ending:
        part.wait(now + STOP_LIMIT_S[part.name])
        part.forget()


def interrupt_gangs(folder: StateFolder, grace_s: float, say: Say) -> None:
    """Stop the gangs of this host, and say what became of them; trouble with it must not keep the rest up."""
    try:
        asked, still_running = gangs.interrupt(folder.home, grace_s)
    except Exception as error:  # noqa: BLE001 - whatever it is, the stack goes on going down
        say(f"gangs could not be asked to stop ({type(error).__name__}: {error}); live ones train on")
        return
    if asked:
        say(f"{len(asked) - len(still_running)} of {len(asked)} gangs stopped with a checkpoint")
    for key in still_running:
        say(f"{key} still runs after {grace_s:.0f} s; the next `phalanx up` finds it again")


def end_leftovers(folder: StateFolder, say: Say, *, is_expected: bool = False) -> None:
    """End the processes that an earlier launcher of this home left behind."""
    cluster = folder.postgres / "cluster"
    ended = processes.end_all(lambda: processes.of_stack(folder.home, cluster), LEFTOVER_GRACE_S)
    if ended and not is_expected:
        say(f"{ended} processes that a killed launcher had left were ended")


def take_down_lost(folder: StateFolder, say: Say, gang_grace_s: float = gangs.GRACE_S) -> None:
    """Take down what a killed launcher left: its processes, and the gangs that live on without it."""
    end_leftovers(folder, say)
    known = read_json(folder.database)
    if known is not None:
        secrets = Secrets.of(folder.secrets)
        part: Part | None = None
        if known.get("kind") == "embedded":
            postgres = EmbeddedPostgres(folder, secrets.postgres_password)
            part = postgres.start()
            server = Server(ports.LOOPBACK, postgres.port, {})
        else:
            server = Server.read(known)
        write_text(folder.ledger_url, server.url("postgresql+psycopg", LEDGER, secrets.ledger_database_password))
        interrupt_gangs(folder, gang_grace_s, say)
        end([part] if part else [])
    record = StackRecord.read(folder.stack)
    StackRecord(StackState.DOWN, record.launcher, record.address, record.port, record.since).write(folder.stack)
