"""Owns one launched attempt: `python -m gang_backends.local_process.supervisor LAUNCH_FOLDER`.

It lives in a session of its own, whatever happens to who started it. The order of its steps makes a kill at any point
harmless: lock -> identity -> the ledger's yes -> agent -> (agent and ranks are gone) -> end.json -> the ledger is told.
Nothing here imports torch.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from gang_backends.local_process.identity import own_identity
from gang_backends.local_process.launch_folder import END, SUPERVISOR, Order, locked, write_text
from gang_backends.local_process.signal_wait import hold_back
from gang_backends.local_process.supervised_attempt import SupervisedAttempt

log = logging.getLogger(__name__)


def detach() -> int:
    """Go on in a child that belongs to nobody; the process itself ends once that child has said that it is up.

    Returns the descriptor to write a byte into for that. If the child ends without, the process ends with 1.
    """
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        said = os.read(ready, 1)
        os._exit(0 if said else 1)
    os.close(ready)
    return tell


def supervise(folder: Path, tell: int) -> None:
    """Run the launch in `folder` unless someone does or did; say through `tell` that it has its supervisor."""
    order = Order.read(folder)
    if order is None:
        log.error("there is no readable order in %s", folder)
        return
    with locked(folder) as has_lock:
        is_mine = has_lock and not (folder / SUPERVISOR).exists() and not (folder / END).exists()
        ref = own_identity().to_ref()
        if is_mine:
            write_text(folder / SUPERVISOR, ref + "\n")
        os.write(tell, b"1")
        os.close(tell)
        if not is_mine:
            log.info("this attempt has its supervisor, had it, or was given up; pid %d has nothing to do", os.getpid())
            return
        log.info("supervising %s as pid %d", order.key, os.getpid())
        SupervisedAttempt(folder, order).run(ref)


if __name__ == "__main__":
    hold_back()
    told = detach()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    supervise(Path(sys.argv[1]), told)
