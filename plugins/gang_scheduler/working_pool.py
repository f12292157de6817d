"""A pool during one pass: what is free, what soon will be, and what is kept for those that wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from gang_scheduler.board import Board
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fit, Fitter, amount, lacks_power, still_fits
from gang_scheduler.gang import AttemptKey, Placement
from gang_scheduler.placement import hold
from gang_scheduler.reservation import Holder, Reservation, reserve
from gang_scheduler.resources import Resources
from gang_scheduler.victims import VictimList


class WorkingPool:
    """Starts as the board's own capacity, which is copied before the first change.

    `soon` is the capacity when all that were asked to stop have stopped, with those in their places for whom they did;
    None as long as nobody stops.
    """

    def __init__(self, capacity: PoolCapacity, board: Board, fitter: Fitter) -> None:
        """Nothing has changed yet."""
        self.name = capacity.pool.name
        self.capacity = capacity
        self.soon: PoolCapacity | None = None
        self._board = board
        self._fitter = fitter
        self._is_own = False
        self._heads: list[Entry] = []
        self._reservations: list[Reservation] = []
        self._comers: list[Holder] = []  # who was let in, or will be when others have stopped
        self._leaving: set[AttemptKey] = set()
        self._promised = 0  # the set of nodes where somebody will go when others have stopped
        for entry in board.holding.values():
            if entry.stops:
                self.free_soon(entry)

    def fit(self, entry: Entry) -> Fit | None:
        """The gang's spots in what is free and not kept for those for whom others stop."""
        fit = self._fitter.fit(entry, self.capacity)
        if fit is None or self.soon is None or still_fits(entry, fit.spots, self.soon):
            return fit
        within = self.capacity.usable & ~self._promised  # there will be no less free then than there is now
        fit = self._fitter.fit(entry, self.capacity, within=within)
        return fit if fit is None or still_fits(entry, fit.spots, self.soon) else None

    def beside_reservations(self, entry: Entry, fit: Fit, end_s: float) -> tuple[Fit, Entry | None]:
        """The spots, or others, where the gang delays no reservation; else for whom it has to wait."""
        before = self.delayed_by(entry, fit, end_s)
        if before is None:
            return fit, None
        elsewhere = ~0
        for reservation in self._reservations:
            elsewhere &= ~reservation.nodes
        other = self._fitter.fit(entry, self.capacity, within=elsewhere & self.capacity.usable)
        if other is None or self.delayed_by(entry, other, end_s) is not None:
            return fit, before
        if self.soon is not None and not still_fits(entry, other.spots, self.soon):
            return fit, before
        return other, None

    def delayed_by(self, entry: Entry, fit: Fit, end_s: float) -> Entry | None:
        """Whose reservation would be delayed by the gang at these spots until then; None if nobody's."""
        self._reserve()
        return next((kept.entry for kept in self._reservations if not kept.allows(entry, fit.spots, end_s)), None)

    def _reserve(self) -> None:
        """Make the reservations that are wanted; only when somebody could pass, since most often nobody can."""
        while self._heads:
            head, now_s, policy = self._heads.pop(0), self._board.now_s, self._board.policy
            holders = [
                (other.end_s(now_s, policy), other, other.placement)
                for other in self._board.holding.values()
                if other.placement is not None and other.placement.pool == self.name and other.key not in self._leaving
            ]
            free = self.capacity if self.soon is None else self.soon
            made = reserve(head, now_s, free, holders + self._comers, self._reservations, self._fitter, policy)
            if made is not None:
                self._reservations.append(made)

    def add_head(self, entry: Entry, deepest: int) -> bool:
        """Want a reservation for the gang, if there are not that many; True if it will get one.

        One that would not even fit into the empty pool gets none: it would keep the place of the next in line.
        """
        if len(self._heads) + len(self._reservations) >= deepest or not self.holds_when_empty(entry):
            return False
        self._heads.append(entry)
        return True

    def admit(self, entry: Entry, fit: Fit, end_s: float) -> Placement:
        """Let the gang hold its spots."""
        capacity = self._own()
        placement = hold(entry.request, fit.spots, capacity)
        if self.soon is not None:
            self.soon.move_gang(entry.request, placement, -1)
        for reservation in self._reservations:
            reservation.let_in(entry, fit.spots, end_s)
        self._come(entry, fit, placement)
        return placement

    def regrow(self, entry: Entry, placement: Placement, is_within_quota: Callable[[Resources], bool]) -> Placement:
        """Place an elastic gang that was let in in this pass anew, with as many of its workers as may be."""
        capacity = self._own()
        capacity.move_gang(entry.request, placement, 1)
        fit = self._largest(entry, capacity, is_within_quota)
        if fit is None:
            capacity.move_gang(entry.request, placement, -1)
            return placement
        return hold(entry.request, fit.spots, capacity)

    def could_grow(self, entry: Entry, is_within_quota: Callable[[Resources], bool]) -> bool:
        """True if an elastic gang that runs would find room for more workers if it started anew."""
        assert entry.placement is not None
        then = self.capacity.copy()
        then.move_gang(entry.request, entry.placement, 1)
        fit = self._largest(entry, then, is_within_quota)
        now = sum(placed.workers for placed in entry.placement.workers)
        return fit is not None and sum(workers for _, _, workers in fit.spots) > now

    def _largest(
        self, entry: Entry, capacity: PoolCapacity, is_within_quota: Callable[[Resources], bool]
    ) -> Fit | None:
        for fit in self._fitter.largest_first(entry, capacity):
            if is_within_quota(amount(entry, fit.spots)) and not lacks_power(fit.spots, capacity):
                return fit
        return None

    def holds_when_empty(self, entry: Entry) -> bool:
        """True if the gang would find room if nobody else were here: only then it may keep others waiting."""
        return self._fitter.fit(entry, self.capacity.empty) is not None

    def powers_when_empty(self, entry: Entry) -> bool:
        """True if the gang alone would stay under the pool's power cap."""
        fit = self._fitter.fit(entry, self.capacity.empty)
        return fit is not None and not lacks_power(fit.spots, self.capacity.empty)

    @cached_property
    def victims(self) -> VictimList:
        """Who may be asked to stop here."""
        return VictimList(self._board, self.name)

    def with_soon(self) -> PoolCapacity:
        """`soon`, made if there was none."""
        if self.soon is None:
            self.soon = self.capacity.copy()
        return self.soon

    def free_soon(self, entry: Entry) -> None:
        """The gang will have stopped."""
        if entry.placement is not None and entry.placement.pool == self.name:
            self.with_soon().move_gang(entry.request, entry.placement, 1)
            self._leaving.add(entry.key)

    def hold_soon(self, entry: Entry, fit: Fit) -> Placement:
        """The gang will be there when others have stopped."""
        placement = hold(entry.request, fit.spots, self.with_soon())
        for _, number, _ in fit.spots:
            self._promised |= 1 << number
        self._come(entry, fit, placement)
        return placement

    def _come(self, entry: Entry, fit: Fit, placement: Placement) -> None:
        now_s, policy = self._board.now_s, self._board.policy
        end_s = now_s + entry.overhead_s + entry.remaining_s(now_s, policy) / fit.compute
        self._comers.append((end_s, entry, placement))

    def _own(self) -> PoolCapacity:
        if not self._is_own:
            self.capacity, self._is_own = self.capacity.copy(), True
        return self.capacity
