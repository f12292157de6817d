"""The three calls of a backend, for gangs that run as processes of this host."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from gang_backends.backend import AttemptState, BackendError, LaunchOrder, Liveness
from gang_backends.local_process import proc_table
from gang_backends.local_process.environment import rank_environment, supervisor_environment
from gang_backends.local_process.evidence import gather
from gang_backends.local_process.identity import ProcessIdentity, from_ref, look_at, surroundings
from gang_backends.local_process.launch_folder import (
    END,
    ORDER,
    STOP,
    SUPERVISOR,
    Ended,
    Order,
    launch_folder,
    locked,
    marks_of,
    write_json,
    write_text,
)
from gang_backends.local_process.launcher import give_up, start_supervisor
from gang_backends.local_process.warm_agent import WarmStart
from gang_scheduler.gang import AttemptKey
from gang_scheduler.verdict import AttemptEnd, Cause

RUN_SPEC = "run_spec.json"
OPEN_LEDGER = "gang_controller.wiring:open_ledger"


class LocalProcessBackend:
    """Runs each attempt under a detached supervisor that is found again by the ref or the launch folder alone.

    `open_ledger` names the function (`module:function`, no arguments) with which a supervisor opens its ledger.
    With `warm`, the ranks of `training.train` are forked by a parent that has torch imported.
    """

    def __init__(
        self, runs_dir: Path, ledger_url_file: Path, open_ledger: str = OPEN_LEDGER, warm: WarmStart | None = None
    ) -> None:
        self._runs_dir = _plain(runs_dir)
        self._ledger_url_file = _plain(ledger_url_file)
        self._open_ledger = open_ledger
        self._warm = warm

    def launch(self, order: LaunchOrder, env: Mapping[str, str]) -> str:
        """Start the attempt's supervisor unless it runs or ran; return its ref.

        `env` is added to the environment of the ranks.

        Raises:
            BackendError: nothing of the attempt runs, and nothing of it will.
        """
        run_dir = self._inside(order.run_dir)
        folder = launch_folder(run_dir, order.key.attempt)
        if not (folder / SUPERVISOR).exists() and not (folder / END).exists():
            self._write_order(order, run_dir, folder, env)
        return start_supervisor(folder, supervisor_environment(self._ledger_url_file, self._runs_dir, self._warm))

    def state(self, ref: str, run_dir: str, key: AttemptKey) -> AttemptState:
        """Whether the attempt lives. A dead supervisor's processes are gone too when this says DEAD."""
        folder = launch_folder(self._inside(run_dir), key.attempt)
        supervisor = from_ref(ref) or _read_supervisor(folder)
        if supervisor is None:
            return self._state_without_supervisor(run_dir, key, folder)
        liveness, proof = look_at(supervisor)
        if liveness is not Liveness.DEAD:
            return AttemptState(liveness, f"its supervisor: {proof}")
        return self._settle(key, self._inside(run_dir), f"its supervisor: {proof}")

    def stop(self, ref: str, run_dir: str, key: AttemptKey, grace: timedelta) -> None:
        """Ask the supervisor to end the attempt with a checkpoint; one that can't be proven to be it gets no signal."""
        folder = launch_folder(self._inside(run_dir), key.attempt)
        supervisor = from_ref(ref) or _read_supervisor(folder)
        if supervisor is None or look_at(supervisor)[0] is not Liveness.ALIVE:
            return
        write_json(folder / STOP, {"grace_s": grace.total_seconds()})
        proc_table.send(supervisor.pid, supervisor.start_time, signal.SIGTERM)

    def _inside(self, run_dir: str) -> Path:
        path = _plain(self._runs_dir / run_dir)
        if not path.is_relative_to(self._runs_dir):
            raise BackendError(
                f"run folder {path} lies outside of {self._runs_dir}, where this backend keeps runs "
                "(PHALANX_RUNS_DIR). Ledger and backend must be given the same folder."
            )
        return path

    def _write_order(self, order: LaunchOrder, run_dir: Path, folder: Path, env: Mapping[str, str]) -> None:
        if len(order.placement.nodes) != 1:
            raise BackendError(
                f"gang '{order.key.gang_id}': placed on {len(order.placement.nodes)} nodes "
                f"({', '.join(order.placement.nodes)}); a local pool has one, this host. Ask for another pool."
            )
        gpus = _gpus_per_rank(order)
        written = Order(
            key=order.key,
            run_dir=str(run_dir),
            command=tuple(part.replace("{run_spec}", str(run_dir / RUN_SPEC)) for part in order.request.command),
            workers=sum(placed.workers for placed in order.placement.workers),
            grace_s=order.request.grace.total_seconds(),
            environment=rank_environment(order, run_dir, env),
            open_ledger=self._open_ledger,
            host=surroundings().host,
            gpus=gpus,
        )
        folder.mkdir(parents=True, exist_ok=True)
        if not (run_dir / RUN_SPEC).exists():
            write_text(run_dir / RUN_SPEC, order.request.run_spec_json)
        if not (folder / ORDER).exists():
            written.write(folder)

    def _state_without_supervisor(self, run_dir: str, key: AttemptKey, folder: Path) -> AttemptState:
        order = Order.read(folder)
        here = surroundings().host
        if order is not None and order.host != here:
            return AttemptState(Liveness.UNKNOWN, f"it was ordered on host {order.host}; this is host {here}")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            is_given_up = give_up(folder, "no supervisor ever took the attempt, and none can any more")
        except BackendError as error:
            return AttemptState(Liveness.UNKNOWN, str(error))
        if not is_given_up:  # one came up just now
            return self.state("", run_dir, key)
        ended = Ended.read(folder)
        assert ended is not None
        return AttemptState(Liveness.DEAD, ended.end.proof, ended.end, ended.result)

    @staticmethod
    def _settle(key: AttemptKey, run_dir: Path, proof: str) -> AttemptState:
        """Make sure that nothing of a dead supervisor's attempt is left, and say how it ended."""
        folder = launch_folder(run_dir, key.attempt)
        folder.mkdir(parents=True, exist_ok=True)  # someone may have removed it; the attempt must end nevertheless
        with locked(folder) as has_lock:
            if not has_lock:
                return AttemptState(Liveness.UNKNOWN, f"{proof}; what it left is being looked at by another process")
            killed, left = proc_table.kill_all(marks_of(key, run_dir))
            if left:
                return AttemptState(Liveness.UNKNOWN, f"{proof}, but its processes {left} don't die")
            if killed:
                proof += f"; killed what it had left behind: {killed}"
            ended = Ended.read(folder)
            if ended is None:
                ended = _last_words(folder, proof)
                ended.write(folder)
        return AttemptState(Liveness.DEAD, proof, ended.end, ended.result)


def _gpus_per_rank(order: LaunchOrder) -> tuple[int, ...]:
    each = {group.name: group.each for group in order.request.worker_groups}
    for placed in order.placement.workers:
        asked = each[placed.group]
        if asked.gpu_share or asked.mig:
            raise BackendError(
                f"gang '{order.key.gang_id}': worker group '{placed.group}' asks for a part of a GPU; the local "
                "backend gives whole ones only (gang_backends/local_process/local_backend.py). Ask for whole GPUs."
            )
    return tuple(each[placed.group].gpus for placed in order.placement.workers for _ in range(placed.workers))


def _last_words(folder: Path, proof: str) -> Ended:
    order = Order.read(folder)
    if order is None:
        return Ended(AttemptEnd(None, proof=proof, forced_cause=Cause.SUPERVISOR_LOST))
    return gather(
        order,
        agent_exit_code=None,
        proof=proof,
        was_asked_to_stop=(folder / STOP).exists(),
        cause_if_unfinished=Cause.SUPERVISOR_LOST,
    )


def _read_supervisor(folder: Path) -> ProcessIdentity | None:
    try:
        return from_ref((folder / SUPERVISOR).read_text())
    except OSError:
        return None


def _plain(path: Path) -> Path:
    """Absolute and without `..`, links left as they are: ranks and their watchers compare this very text."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links
