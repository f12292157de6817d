"""One attempt from the ledger's yes to its end, as its supervisor lives through it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

from gang_backends.local_process import proc_table
from gang_backends.local_process.agent import Agent
from gang_backends.local_process.attempt_ledger import open_by_name
from gang_backends.local_process.evidence import gather, read_progress
from gang_backends.local_process.launch_folder import STOP as STOP_FILE
from gang_backends.local_process.launch_folder import Ended, Order, read_json
from gang_backends.local_process.lease_keeper import LeaseKeeper, PatientLedger
from gang_backends.local_process.ledger_talk import tell_end, why_not_run
from gang_backends.local_process.rank_devices import HeldGpus, RankDevices, devices_of
from gang_backends.local_process.signal_wait import SignalWait
from gang_backends.local_process.warm_agent import WarmAgent, WarmStart, start_agent
from gang_backends.nvml import find_gpus
from gang_scheduler.progress import Directive
from gang_scheduler.verdict import AttemptEnd, Cause

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
AGENT_AFTER_RANKS_S = 10.0


class SupervisedAttempt:
    """Runs the attempt of a launch folder; to be made and run in the main thread, with signals held back."""

    def __init__(self, folder: Path, order: Order) -> None:
        self._folder = folder
        self._order = order
        self._run_dir = Path(order.run_dir)
        self._ledger = PatientLedger(lambda: open_by_name(order.open_ledger))
        self._wait = SignalWait()
        self._stop_at: float | None = None  # monotonic: when its ranks must have stopped
        self._is_superseded = False
        self._held: HeldGpus | None = None

    def run(self, ref: str) -> None:
        """Run it if the ledger wants that, write down how it ended, then tell the ledger."""
        key = self._order.key
        why_not = why_not_run(self._ledger, key, ref, self._wait)
        ended = self._not_run(why_not) if why_not else self._run()
        try:
            ended.write(self._folder)
        except OSError as error:  # a full disk: then the ledger alone knows
            log.error("the end could not be written: %s", error)
        tell_end(self._ledger, key, ended, read_progress(self._run_dir, key.attempt), self._wait)

    def _not_run(self, why: str) -> Ended:
        log.warning("nothing was started: %s", why)
        is_stop = self._wait.was_told_to_go
        cause = Cause.INTERRUPTED if is_stop else Cause.LAUNCH_FAILED
        return Ended(AttemptEnd(None, proof=why, was_asked_to_stop=is_stop, forced_cause=cause))

    def _run(self) -> Ended:
        keeper = LeaseKeeper(self._ledger, self._order.key)  # before: a warm parent's imports may take a while
        try:
            devices = self._hold_devices()
            agent, why_plain = start_agent(self._order, WarmStart.from_env(os.environ), devices)
        except OSError as error:
            keeper.close()
            return self._not_run(f"the agent can't be started: {error}")
        log.info("the agent is pid %d, %s", agent.pid, f"torchrun's: {why_plain}" if why_plain else "forked")
        while (exit_code := agent.exit_code()) is None:
            keeper.progress = read_progress(self._run_dir, self._order.key.attempt)
            self._heed(keeper.directive)
            self._press(agent)
            self._wait.sleep(LOOK_EVERY_S)
        proof = f"the supervisor saw the agent end with {exit_code}{self._sweep()}"
        keeper.close()
        if self._held is not None:
            self._held.close()
        log.info("%s", proof)
        return gather(
            self._order,
            agent_exit_code=exit_code,
            proof=proof,
            was_asked_to_stop=self._stop_at is not None,
            was_superseded=self._is_superseded,
        )

    def _hold_devices(self) -> Sequence[RankDevices]:
        """What each rank gets; where the host's GPUs can't be seen, ranks take what they find."""
        gpus, asked = find_gpus(), self._order.gpus or [0] * self._order.workers
        if not gpus:
            if any(asked):
                log.warning("%d GPUs were asked for and NVML finds none: ranks take what they find", sum(asked))
            return ()
        self._held = HeldGpus(gpus, asked)
        devices = devices_of(self._held.shares, frozenset(os.sched_getaffinity(0)))
        log.info("devices by rank: %s", "; ".join(each.to_text() for each in devices))
        return devices

    def _heed(self, directive: Directive) -> None:
        if directive is Directive.SUPERSEDED and not self._is_superseded:
            log.warning("the ledger says that this attempt isn't the current one any more: killing it")
            self._is_superseded = True
        if self._stop_at is None and (directive is Directive.STOP or self._wait.was_told_to_go):
            request = read_json(self._folder / STOP_FILE) or {}
            grace_s = float(request.get("grace_s", self._order.grace_s))
            self._stop_at = time.monotonic() + grace_s
            who = "the ledger" if directive is Directive.STOP else "a signal"
            log.info("%s asks to stop: with a checkpoint, within %.0f s", who, grace_s)

    def _press(self, agent: Agent | WarmAgent) -> None:
        """Move the agent towards its end as far as is due."""
        if self._is_superseded:
            agent.kill()
        elif self._stop_at is not None:
            overdue_s = time.monotonic() - self._stop_at
            if overdue_s < 0:
                agent.terminate()
            elif overdue_s < AGENT_AFTER_RANKS_S:
                log.warning("the grace period is over: killing the ranks")
                agent.kill_ranks()
            else:
                agent.kill()

    def _sweep(self) -> str:
        """Kill what the agent and its ranks left behind, and say so; the attempt isn't over before that is dead."""
        all_killed: set[int] = set()
        while True:
            killed, left = proc_table.kill_all(self._order.marks)
            all_killed.update(killed)
            if not left:
                return f", and killed what it had left behind: {sorted(all_killed)}" if all_killed else ""
            log.error("processes %s of this attempt don't die", left)
            self._wait.sleep(LOOK_EVERY_S)
