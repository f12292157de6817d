"""Owns one launched attempt: `python -m gang_backends.local_process.supervisor LAUNCH_FOLDER`.

It lives in a session of its own, whatever happens to who started it. Its order of steps is what makes a kill at any
point harmless: lock -> identity -> the ledger's yes -> agent -> (the agent has ended, nothing is left) -> end.json ->
the ledger is told. Nothing here imports torch.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import tenacity

from gang_backends.local_process import proc_table
from gang_backends.local_process.agent import Agent
from gang_backends.local_process.attempt_ledger import STOP, SUPERSEDED, AttemptLedger, open_by_name
from gang_backends.local_process.evidence import gather, read_progress
from gang_backends.local_process.identity import own_identity
from gang_backends.local_process.launch_folder import END, SUPERVISOR, Ended, Order, locked, read_json, write_text
from gang_backends.local_process.launch_folder import STOP as STOP_FILE
from gang_backends.local_process.lease_keeper import LeaseKeeper, PatientLedger, short
from gang_scheduler.verdict import AttemptEnd, Cause

log = logging.getLogger("supervisor")

LOOK_EVERY_S = 0.5
CONFIRM_WITHIN_S = 20.0  # a launch that the ledger doesn't confirm in time lapses anyway
REPORT_WITHIN_S = 600.0  # afterwards whoever probes the attempt reads end.json
REPORT_WHEN_TOLD_TO_GO_S = 20.0  # the host goes down, and perhaps the ledger with it
AGENT_AFTER_RANKS_S = 10.0
TOLD_TO_STOP = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


class Supervisor:
    """One attempt from the ledger's yes to its end."""

    def __init__(self, folder: Path, order: Order) -> None:
        self._folder = folder
        self._order = order
        self._run_dir = Path(order.run_dir)
        self._ledger = PatientLedger(lambda: open_by_name(order.open_ledger))
        self._stop_within_s: float | None = None
        self._stop_at: float | None = None  # monotonic
        self._is_superseded = False
        self._was_told_to_go = False  # by a signal

    def run(self, ref: str) -> None:
        """Run the attempt and report its end."""
        why_not = self._why_not_start(ref)
        if why_not:
            log.warning("nothing was started: %s", why_not)
            cause = Cause.INTERRUPTED if self._was_told_to_go else Cause.LAUNCH_FAILED
            ended = Ended(AttemptEnd(None, proof=why_not, was_asked_to_stop=self._was_told_to_go, forced_cause=cause))
        else:
            ended = self._run_agent()
        ended.write(self._folder)
        self._report(ended)

    def _why_not_start(self, ref: str) -> str:
        """Empty if the ledger says that this attempt is to run."""
        key = self._order.key
        asking = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Exception),
            stop=self._is_over(CONFIRM_WITHIN_S, 0.0),
            wait=tenacity.wait_exponential(0.2, max=2),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            may_run = asking(self._ledger.call, lambda ledger: ledger.start(key, ref))
        except Exception as error:  # noqa: BLE001 - without a yes nothing may run
            return f"the ledger did not confirm the launch ({short(error)})"
        self._sleep(0)
        if self._was_told_to_go:
            return "the supervisor was told to end before it started anything"
        return "" if may_run else "the ledger says that this attempt is not to run (any more)"

    def _run_agent(self) -> Ended:
        keeper = LeaseKeeper(self._ledger, self._order.key)
        agent = Agent(self._order)
        log.info("agent is pid %d", agent.pid)
        while (exit_code := agent.exit_code()) is None:
            keeper.progress = read_progress(self._run_dir, self._order.key.attempt)
            if keeper.directive == SUPERSEDED and not self._is_superseded:
                log.warning("the ledger says that a newer attempt is the current one: killing this one")
                self._is_superseded = True
            elif keeper.directive == STOP:
                self._ask_to_stop("the ledger asks for it")
            self._press(agent)
            self._sleep(LOOK_EVERY_S)
        proof = f"the supervisor saw the agent end with {exit_code}"
        killed, left = proc_table.kill_all(self._order.marks)
        if killed:
            proof += f" and killed what it had left behind: {killed}"
        while left:  # can't die now (uninterruptible): the attempt isn't over before they have
            log.error("processes %s of this attempt don't die", left)
            self._sleep(LOOK_EVERY_S)
            _, left = proc_table.kill_all(self._order.marks)
        keeper.close()
        log.info("%s", proof)
        return gather(
            self._order,
            agent_exit_code=exit_code,
            proof=proof,
            was_asked_to_stop=self._stop_at is not None,
            was_superseded=self._is_superseded,
        )

    def _press(self, agent: Agent) -> None:
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

    def _ask_to_stop(self, why: str) -> None:
        if self._stop_at is None:
            request = read_json(self._folder / STOP_FILE) or {}
            grace_s = float(request.get("grace_s", self._order.grace_s))
            self._stop_at = time.monotonic() + grace_s
            log.info("stopping with a checkpoint, within %.0f s: %s", grace_s, why)

    def _sleep(self, seconds: float) -> None:
        """Wait for signals; these are blocked at all other times, so none interrupts or is lost."""
        end = time.monotonic() + seconds
        while True:
            info = signal.sigtimedwait({*TOLD_TO_STOP, signal.SIGCHLD}, max(0.0, end - time.monotonic()))
            if info is None:
                return
            if info.si_signo == signal.SIGCHLD:
                if seconds > 0:
                    return
                continue
            self._was_told_to_go = True
            self._ask_to_stop(f"got {signal.Signals(info.si_signo).name}")

    def _report(self, ended: Ended) -> None:
        telling = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Exception),
            stop=self._is_over(REPORT_WITHIN_S, REPORT_WHEN_TOLD_TO_GO_S),
            wait=tenacity.wait_exponential(0.5, max=5),
            sleep=self._sleep,
            before_sleep=self._log_first_silence,
            reraise=True,
        )
        key, progress = self._order.key, read_progress(self._run_dir, self._order.key.attempt)

        def tell(ledger: AttemptLedger) -> None:
            if progress is not None:  # an attempt that was over before a renewal could tell of it
                ledger.renew(key, progress)
            ledger.end_attempt(key, ended.end, ended.result)

        try:
            telling(self._ledger.call, tell)
        except Exception as error:  # noqa: BLE001 - end.json says it to whoever probes the attempt
            log.error("the ledger was not told of the end (%s); it is in %s", short(error), self._folder / END)
        else:
            log.info("the ledger knows of the end")

    def _is_over(self, within_s: float, when_told_to_go_s: float) -> Callable[[tenacity.RetryCallState], bool]:
        """A limit for asking the ledger that shrinks once a signal came."""

        def is_over(state: tenacity.RetryCallState) -> bool:
            return (state.seconds_since_start or 0.0) > (when_told_to_go_s if self._was_told_to_go else within_s)

        return is_over

    @staticmethod
    def _log_first_silence(state: tenacity.RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome and (error := state.outcome.exception()):
            log.warning("the ledger can't be told of the end (%s: %s); trying again", type(error).__name__, error)


def detach() -> int:
    """Go on in a child that belongs to nobody; the caller's process ends once that child has said that it is there.

    Returns the descriptor to write a byte into for that. If the child ends without, the process ends with 1.
    """
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        said = os.read(ready, 1)
        os._exit(0 if said else 1)
    os.close(ready)
    return tell


def main() -> None:
    """Supervise the launch whose folder is the first argument, unless that is or was done already."""
    folder = Path(sys.argv[1])
    signal.pthread_sigmask(signal.SIG_BLOCK, {*TOLD_TO_STOP, signal.SIGCHLD})
    tell = detach()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    with contextlib.ExitStack() as stack:
        order = Order.read(folder)
        if order is None:
            log.error("there is no readable order in %s", folder)
            sys.exit(1)
        has_lock = stack.enter_context(locked(folder))
        if not has_lock or (folder / SUPERVISOR).exists() or (folder / END).exists():
            log.info("this attempt has a supervisor already, had one, or was given up; nothing to do")
            os.write(tell, b"1")
            return
        ref = own_identity().to_ref()
        write_text(folder / SUPERVISOR, ref + "\n")
        os.write(tell, b"1")
        os.close(tell)
        log.info("supervising %s as pid %d", order.key, os.getpid())
        Supervisor(folder, order).run(ref)


if __name__ == "__main__":
    main()
