"""The way from Airflow's processes to the gang controller; imported when it is used, so that DAGs parse quickly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gang_controller.controller import GangController

FROM_AIRFLOW = {"asked_by": "airflow"}
"""The label that tells the gangs of Airflow's tasks from those that others submit."""


def open_gangs() -> GangController:
    """A controller with connections of its own; whoever opens it closes it."""
    from gang_controller.wiring import open_controller

    return open_controller()


@contextmanager
def using_gangs() -> Iterator[GangController]:
    """A controller for a few calls."""
    gangs = open_gangs()
    try:
        yield gangs
    finally:
        gangs.close()


def release_gang(gang_id: str, owner: str, why: str) -> bool:
    """Ask the owner's gang to stop with a checkpoint; False if it isn't this owner's (any more)."""
    with using_gangs() as gangs:
        return gangs.release(gang_id, owner, who="airflow", why=why)
