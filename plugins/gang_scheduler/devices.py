"""Shares of single GPUs: which device of a node each share is of."""

from __future__ import annotations

MILLI = 1000  # shares are counted in thousandths of a device, as device plug-ins do


def milli(share: float) -> int:
    """A share in thousandths, rounded to the nearest."""
    return round(share * MILLI)


def split(share: float, whole_gpus: int, devices: Devices | None) -> int:
    """How many such shares fit, into devices already shared and into whole free ones."""
    asked = milli(share)
    on_whole = whole_gpus * (MILLI // asked)
    return on_whole + (devices.fits(asked) if devices else 0)


class Devices:
    """The shares in use of each device of a node; one without any is whole, or held whole, which the node counts."""

    __slots__ = ("_used",)

    def __init__(self, count: int) -> None:
        """No device is shared."""
        self._used = [0] * count

    def copy(self) -> Devices:
        """An independent copy."""
        other = Devices(0)
        other._used = self._used.copy()
        return other

    @property
    def free(self) -> tuple[int, ...]:
        """Thousandths left of each device that is shared; 0 of any other."""
        return tuple(MILLI - used if used else 0 for used in self._used)

    def open_share(self) -> float:
        """What is left of the devices that are shared already, in devices."""
        return sum(self.free) / MILLI

    def fits(self, asked: int) -> int:
        """How many shares of `asked` thousandths fit into devices that are shared already."""
        return sum((MILLI - used) // asked for used in self._used if used)

    def take(self, share: float, workers: int, devices: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Take a share for each worker, of `devices` if named, else of the fullest that has it.

        Returns the devices, and how many of them were whole until now.
        """
        asked = milli(share)
        taken: list[int] = []
        opened = 0
        for worker in range(workers):
            device = devices[worker] if devices else self._fullest(asked)
            opened += not self._used[device]
            self._used[device] += asked
            taken.append(device)
        return tuple(taken), opened

    def give(self, share: float, devices: tuple[int, ...]) -> int:
        """Free a share of each of the devices; returns how many of them are whole again."""
        closed = 0
        for device in devices:
            self._used[device] -= milli(share)
            closed += not self._used[device]
        return closed

    def _fullest(self, asked: int) -> int:
        fitting = [(-used, number) for number, used in enumerate(self._used) if used and used + asked <= MILLI]
        return min(fitting)[1] if fitting else self._used.index(0)
