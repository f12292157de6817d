"""The one place that names concrete ledgers, registries and backends, and where their addresses come from."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from gang_backends.nvml import find_gpus
from gang_controller.controller import GangController
from gang_ledgers.ledger import HostTaken, Ledger, NodeRecord
from gang_scheduler.node import NodeView
from gang_scheduler.resources import Resources
from pool_settings import Settings, SettingsInvalid
from pool_settings.cross_checks import LOCAL_POOL as LOCAL_POOL
from pool_settings.sources import watch

if TYPE_CHECKING:
    from model_registry.registry import ModelRegistry

LOCAL_NODE = "localhost"

log = logging.getLogger(__name__)


class NotWired(Exception):
    """Nothing says where the ledger is; the message says what to do."""


def phalanx_home(home: Path | None = None) -> Path:
    """The state folder: the argument, else PHALANX_HOME, else `.phalanx` in the checkout."""
    return Path(home or os.environ.get("PHALANX_HOME") or Path(__file__).resolve().parents[2] / ".phalanx")


def ledger_url_file(home: Path | None = None) -> Path:
    """The 0600 file that holds the ledger's URL; an explicit `home` outranks PHALANX_LEDGER_URL_FILE."""
    named = os.environ.get("PHALANX_LEDGER_URL_FILE")
    return Path(named) if named and home is None else phalanx_home(home) / "ledger.url"


def runs_dir(home: Path | None = None) -> Path:
    """Where run folders are kept: PHALANX_RUNS_DIR, else `runs` in the state folder."""
    named = os.environ.get("PHALANX_RUNS_DIR")
    return Path(named) if named and home is None else phalanx_home(home) / "runs"


def warm_dir(home: Path | None = None) -> Path:
    """Where warm parents live, from which the ranks of this state folder's gangs are forked."""
    return phalanx_home(home) / "warm"


def warm_idle_s() -> float:
    """How long a warm parent stays when nobody asks it for anything: PHALANX_WARM_MINUTES, else 15; 0: none is used.

    Raises:
        NotWired: it is no number from 0.
    """
    said = os.environ.get("PHALANX_WARM_MINUTES") or "15"
    try:
        minutes = float(said)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes < float("inf"):
        raise NotWired(f"PHALANX_WARM_MINUTES is {said!r}; it must be a number from 0. Correct or remove it")
    return minutes * 60


def open_ledger(home: Path | None = None) -> Ledger:
    """The ledger that the URL file names.

    Raises:
        NotWired: there is no such file.
        NewerSchema: a newer version of Phalanx wrote the database.
    """
    from gang_ledgers.sql import SqlLedger

    return SqlLedger(read_ledger_url(home), runs_dir=runs_dir(home))


def open_registry(home: Path | None = None) -> ModelRegistry:
    """The model registry, in the ledger's database."""
    from gang_ledgers.sql_engine import open_engine
    from model_registry.sql import SqlModelRegistry

    return SqlModelRegistry(open_engine(read_ledger_url(home)))


def open_controller(home: Path | None = None) -> GangController:
    """A controller over the ledger, with this host's slots registered as pool `local`.

    The settings are those of `pool_settings.sources`: read once for all controllers of this process, and again when the
    file changes.
    """
    from gang_backends.local_process import LocalProcessBackend, WarmStart

    ledger = open_ledger(home)
    settings = watch(phalanx_home(home))
    try:
        ledger.register_node(local_node(settings.current()))
    except SettingsInvalid as error:
        # Looking and cancelling go on; by rules that nobody wrote nothing is admitted.
        log.error("no gang is admitted or asked for until the settings are put right:\n%s", error)
    except HostTaken as error:
        # Looking, releasing and cancelling must go on working; gangs are not launched here until that is settled.
        log.error("this host does not serve gang pool '%s': %s", LOCAL_POOL, error)
    idle_s = warm_idle_s()
    warm = WarmStart(warm_dir(home), idle_s) if idle_s else None
    backend = LocalProcessBackend(runs_dir=runs_dir(home), ledger_url_file=ledger_url_file(home), warm=warm)
    return GangController(ledger, {LOCAL_POOL: backend}, host_id=this_host_id(), settings=settings.current)


def read_ledger_url(home: Path | None = None) -> str:
    """The URL; it never leaves this process."""
    path = ledger_url_file(home)
    try:
        return path.read_text().strip()
    except OSError as error:
        raise NotWired(
            f"no ledger: its URL was looked for in {path} ({error.strerror}). Start the embedded stack with "
            "`phalanx up`, or name a file with the URL in PHALANX_LEDGER_URL_FILE"
        ) from error


def this_host_id() -> str:
    """Names this machine, the same over restarts: its machine id, else its host name."""
    try:
        return Path("/etc/machine-id").read_text().strip() or socket.gethostname()
    except OSError:
        return socket.gethostname()


def local_slots() -> float | None:
    """PHALANX_LOCAL_SLOTS; None if it isn't set.

    Raises:
        NotWired: it is no number above 0.
    """
    said = os.environ.get("PHALANX_LOCAL_SLOTS")
    if not said:
        return None
    try:
        slots = float(said)
    except ValueError:
        slots = 0.0
    if not 0 < slots < float("inf"):
        raise NotWired(f"PHALANX_LOCAL_SLOTS is {said!r}; it must be a number above 0. Correct or remove it")
    return slots


def local_node(settings: Settings | None = None) -> NodeRecord:
    """This machine as the one node of pool `local`.

    Its CPUs are PHALANX_LOCAL_SLOTS, else what the settings say of node `localhost`, else those that it has. Its GPUs
    are what the settings say, else those that NVML finds.
    """
    said: NodeView | None = settings.node(LOCAL_POOL, LOCAL_NODE) if settings else None
    slots = local_slots()
    if slots is None:
        # At least two, so that a gang of two workers runs on the smallest laptop as well.
        slots = said.capacity.cpus if said else float(max(2, os.cpu_count() or 2))
    page = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    memory_gib = said.capacity.memory_gib if said else round(page / 2**30, 1)
    if said and settings:
        gpus = said.capacity.gpus + settings.cut_gpus.get((LOCAL_POOL, LOCAL_NODE), 0)
        return NodeRecord(this_host_id(), NodeView(LOCAL_POOL, LOCAL_NODE, Resources(slots, memory_gib, gpus)))
    found = find_gpus()
    view = NodeView(
        LOCAL_POOL,
        LOCAL_NODE,
        Resources(slots, memory_gib, len(found)),
        gpu_model=found[0].name if found else "",
        gpu_memory_gib=min((gpu.memory_gib for gpu in found), default=0.0),
    )
    return NodeRecord(this_host_id(), view)
