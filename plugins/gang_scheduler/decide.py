"""One pass over all that wait: who is admitted where, who is asked to stop for whom, and what keeps each other one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import chain

from gang_scheduler.actions import StopReason, WaitReason
from gang_scheduler.board import Board, held_amounts
from gang_scheduler.cost import pools_by_cost
from gang_scheduler.decisions import Admission, Decisions, Obstacle, Stop
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fit, Fitter, lacks_power, lacks_storage
from gang_scheduler.gang import Key, Kind, PlacedWorkers, Placement
from gang_scheduler.gang_state import GangState
from gang_scheduler.line import in_turn
from gang_scheduler.policy import Blocking
from gang_scheduler.pool import Authority
from gang_scheduler.preemption import evict_for
from gang_scheduler.quota_book import QuotaBook
from gang_scheduler.quota_head import End, QuotaHead
from gang_scheduler.resources import Resources
from gang_scheduler.victims import STOPPABLE
from gang_scheduler.working_pool import WorkingPool


def decide(board: Board, held_back: Mapping[Key, Obstacle] | None = None) -> Decisions:
    """Go through the line once; the same board gives the same decisions, and is left as it was.

    Args:
        board: the present; those that have waited long enough are moved forward in its lines.
        held_back: gangs that can't be admitted now for a reason of their own.
    """
    board.age()
    return _Pass(board, held_back or {}).run()


class _Pass:
    """The working state of one pass."""

    def __init__(self, board: Board, held_back: Mapping[Key, Obstacle]) -> None:
        self.board = board
        self.policy = board.policy
        self.decided = Decisions(obstacles=dict(held_back))
        self.quotas = board.quotas
        self.quotas_soon: QuotaBook | None = _without_stopping(board)
        self.standing = _standing(board) if board.related else {}
        self.fitter = Fitter(self.standing, lambda: chain(board.entries.values(), board.holding.values()))
        self.pools = {name: WorkingPool(capacity, board, self.fitter) for name, capacity in board.pools.items()}
        self.hopeless: set[Kind] = set()
        self.left = dict(board.waiting_of)
        self.quota_heads: dict[str, QuotaHead] = {}
        self.too_long: dict[Kind, tuple[float, Obstacle]] = {}
        self.wait_for_power: dict[str, Entry] = {}  # by pool: those behind must not add to what is drawn
        self.could_come = len(board.entries) - len(held_back)

    def run(self) -> Decisions:
        self._close_windows()
        for entry in in_turn(self.board, self.hopeless, lambda: self.quotas):
            key = entry.gang_key
            if key in self.decided.obstacles:
                continue
            obstacle = self._consider(entry)
            if obstacle is not None:
                self.decided.obstacles[key] = obstacle
            if self.decided.closed.keys() >= self.pools.keys() or len(self.hopeless) == len(self.left):
                break
        self._grow()
        return self.decided

    @cached_property
    def ends(self) -> list[End]:
        """When those that hold capacity will end, soonest first."""
        now_s, policy = self.board.now_s, self.policy
        return sorted((entry.end_s(now_s, policy), key, entry) for key, entry in self.board.holding.items())

    # --- one gang

    def _consider(self, entry: Entry) -> Obstacle | None:
        """Admit the gang, or make room for it, or say what keeps it."""
        closed = self._closed_window(entry)
        if closed is not None:
            return self._give_up(entry, closed)
        expected_s = float("inf") if entry.expected_s is None else entry.remaining_s(self.board.now_s, self.policy)
        shorter = self.too_long.get(entry.kind)
        if shorter is not None and expected_s >= shorter[0]:
            return shorter[1]  # one of its kind that would end sooner would delay a reservation already
        obstacles: list[Obstacle] = []
        for name in pools_by_cost(entry, self.board):
            if name not in self.pools:
                continue
            obstacle = self._try(entry, self.pools[name])
            if obstacle is None:
                return None
            obstacles.append(obstacle)
        if not obstacles:
            return self._give_up(entry, Obstacle(WaitReason.NO_NODES, entry.request.gang_pool))
        first = obstacles[0]
        if len(obstacles) > 1:
            first = next((obstacle for obstacle in obstacles if self._might_go(entry, obstacle)), first)
        if first.reason is WaitReason.RESERVED:
            self.too_long[entry.kind] = expected_s, first
            return first
        if first.reason is WaitReason.POWER:
            if self.policy.blocking is not Blocking.NONE and self.pools[first.pool].powers_when_empty(entry):
                self.wait_for_power.setdefault(first.pool, entry)
            return first  # others of its kind may go to nodes that are in use already
        for name in entry.request.pools:
            if name in self.pools and name not in self.decided.closed and self._make_room(entry, self.pools[name]):
                return Obstacle(WaitReason.PREEMPTING, name, detail=first.detail)
        self._block(entry, first)
        return first

    def _might_go(self, entry: Entry, obstacle: Obstacle) -> bool:
        """False where the pool would not hold the gang even when empty: another pool's obstacle tells more."""
        return obstacle.reason is not WaitReason.NO_CAPACITY or self.pools[obstacle.pool].holds_when_empty(entry)

    def _try(self, entry: Entry, pool: WorkingPool) -> Obstacle | None:
        """Admit the gang to the pool; None if that was done."""
        name = pool.name
        if pool.capacity.pool.authority is not Authority.PHALANX:
            return self._pass_through(entry, pool)
        if name in self.decided.closed:
            return self.decided.closed[name]
        amounts = entry.request.least_amounts
        short = self.quotas.short(entry.queue, name, amounts)
        if short is not None:
            return Obstacle(WaitReason.QUOTA, name, detail=short.sentence)
        if lacking := lacks_storage(entry, pool.capacity):
            return Obstacle(WaitReason.STORAGE, name, detail=lacking)
        fit = pool.fit(entry)
        if fit is None:
            return Obstacle(WaitReason.NO_CAPACITY, name)
        end_s = self._end_s(entry, fit)
        fit, before = pool.beside_reservations(entry, fit, end_s)
        if before is not None:
            return Obstacle(WaitReason.RESERVED, name, before)
        if lacking := lacks_power(fit.spots, pool.capacity):
            return Obstacle(WaitReason.POWER, name, detail=lacking)
        first = self.wait_for_power.get(name)
        if first is not None and pool.capacity.new_watts(number for _, number, _ in fit.spots):
            detail = f"would draw more power, for which gang '{first.request.gang_id}' waits before it in pool '{name}'"
            return Obstacle(WaitReason.POWER, name, first, detail)
        head = self.quota_heads.get(entry.queue)
        if head is not None and not head.allows(entry, name, amounts, end_s):
            return Obstacle(WaitReason.RESERVED, name, head.entry)
        self._admit(entry, pool, fit, end_s)
        return None

    def _end_s(self, entry: Entry, fit: Fit) -> float:
        """When it would end; one of unknown duration might never."""
        if entry.expected_s is None:
            return float("inf")
        return self.board.now_s + entry.overhead_s + entry.remaining_s(self.board.now_s, self.policy) / fit.compute

    def _admit(self, entry: Entry, pool: WorkingPool, fit: Fit, end_s: float) -> None:
        placement = pool.admit(entry, fit, end_s)
        self._charge(entry, placement)
        self.decided.admitted.append(Admission(entry, placement))
        self._stand(entry, placement)

    def _charge(self, entry: Entry, placement: Placement, sign: int = 1) -> None:
        if self.quotas is self.board.quotas:
            self.quotas = self.quotas.copy()
        amounts = held_amounts(entry, placement)
        self.quotas.charge(entry.queue, placement.pool, amounts, sign)
        if self.quotas_soon is not None:
            self.quotas_soon.charge(entry.queue, placement.pool, amounts, sign)

    def _stand(self, entry: Entry, placement: Placement) -> None:
        if self.board.related:
            capacity = self.board.pools[placement.pool]
            numbers = [capacity.index[node] for node in placement.nodes]
            self.standing.setdefault(placement.pool, {})[entry.key.gang_id] = numbers

    def _pass_through(self, entry: Entry, pool: WorkingPool) -> Obstacle | None:
        """The cluster behind the pool admits; its one node here stands for all of it."""
        if not pool.capacity.nodes:
            return Obstacle(WaitReason.NO_NODES, pool.name)
        node = pool.capacity.nodes[0].node
        workers = tuple(PlacedWorkers(node, group.name, group.workers) for group in entry.request.worker_groups)
        self.decided.admitted.append(Admission(entry, Placement(pool.name, workers)))
        return None

    # --- one that finds no room

    def _make_room(self, entry: Entry, pool: WorkingPool) -> bool:
        """True if others stop already, or are asked to now, in whose places it fits."""
        if pool.capacity.pool.authority is not Authority.PHALANX:
            return False
        quotas_soon = self.quotas_soon or self.quotas
        if pool.soon is not None and quotas_soon.short(entry.queue, pool.name, entry.request.least_amounts) is None:
            fit = self.fitter.fit(entry, pool.soon)
            if fit is not None and not lacks_storage(entry, pool.soon) and not lacks_power(fit.spots, pool.soon):
                if not self._would_be_let_in(entry, pool, fit):
                    return False
                self._hold_soon(entry, pool, fit)
                return True
        if not self.board.might_stop_others(entry):
            return False
        soon = pool.capacity if pool.soon is None else pool.soon
        eviction = evict_for(entry, self.board, soon, quotas_soon, self.fitter, pool.victims)
        if eviction is None or not self._would_be_let_in(entry, pool, eviction.fit):
            return False
        for victim in eviction.victims:
            self._stop(victim.entry, victim.reason, entry)
        self._hold_soon(entry, pool, eviction.fit)
        return True

    def _would_be_let_in(self, entry: Entry, pool: WorkingPool, fit: Fit) -> bool:
        """True if nobody before it would be delayed; else others would stop for nothing, and again and again."""
        end_s = self._end_s(entry, fit)
        if pool.delayed_by(entry, fit, end_s) is not None:
            return False
        head = self.quota_heads.get(entry.queue)
        return head is None or head.would_allow(pool.name, entry.request.least_amounts, end_s)

    def _hold_soon(self, entry: Entry, pool: WorkingPool, fit: Fit) -> None:
        placement = pool.hold_soon(entry, fit)
        self._soon_quotas().charge(entry.queue, pool.name, held_amounts(entry, placement), 1)

    def _soon_quotas(self) -> QuotaBook:
        if self.quotas_soon is None:
            self.quotas_soon = self.quotas.copy()
        return self.quotas_soon

    def _block(self, entry: Entry, obstacle: Obstacle) -> None:
        """What its waiting means to those behind it."""
        blocking = self.policy.blocking
        behind = Obstacle(WaitReason.BEHIND_ANOTHER_GANG, obstacle.pool, entry)
        if obstacle.reason is WaitReason.QUOTA:
            if blocking is not Blocking.NONE and entry.queue not in self.quota_heads:
                self.quota_heads[entry.queue] = QuotaHead(
                    entry, obstacle.pool, self.quotas, blocking, lambda: self.ends
                )
        elif blocking is Blocking.HEAD:
            for name in entry.request.pools:
                if name in self.pools and self.pools[name].holds_when_empty(entry):
                    self.decided.closed.setdefault(name, behind)
        elif blocking is not Blocking.NONE:
            deepest = 1 if blocking is Blocking.EASY else self.policy.reservation_depth
            if self.pools[obstacle.pool].add_head(entry, deepest) and blocking is Blocking.CONSERVATIVE:
                return  # the next of its kind gets a reservation as well
        self._give_up(entry, obstacle)

    def _give_up(self, entry: Entry, obstacle: Obstacle) -> Obstacle:
        self.hopeless.add(entry.kind)
        self.decided.of_kind.setdefault(entry.kind, obstacle)
        return obstacle

    # --- queues and idle pools

    def _closed_window(self, entry: Entry) -> Obstacle | None:
        queue = self.quotas.queues.get(entry.queue)
        if queue is None or not queue.windows or any(window.holds(self.board.now) for window in queue.windows):
            return None
        hours = ", ".join(f"{window.from_hour:g}-{window.until_hour:g}" for window in queue.windows)
        detail = f"gang queue '{queue.name}' admits at {hours} h UTC only ([queue.{queue.name}] windows)"
        return Obstacle(WaitReason.WINDOW, entry.request.gang_pool, detail=detail)

    def _close_windows(self) -> None:
        """Those that only harvest idle hours stop when their queue closes."""
        if not any(queue.harvests_only for queue in self.quotas.queues.values()):
            return
        for entry in self.board.holding.values():
            queue = self.quotas.queues.get(entry.queue)
            is_running = entry.state in STOPPABLE and not entry.stops
            if queue is not None and queue.harvests_only and is_running and self._closed_window(entry):
                self._stop(entry, StopReason.WINDOW)

    def _stop(self, entry: Entry, reason: StopReason, made_for: Entry | None = None) -> None:
        """Ask it to stop, once; its capacity and quota will be free."""
        self.decided.stopped.append(Stop(entry, reason, made_for))
        assert entry.placement is not None
        pool = self.pools.get(entry.placement.pool)
        if pool is not None:
            pool.victims.stop(entry)
            pool.free_soon(entry)
        self._soon_quotas().charge(entry.queue, entry.placement.pool, held_amounts(entry), -1)

    def _grow(self) -> None:
        """Where nobody waits any more, elastic gangs get what is left: those just let in now, others by a restart."""
        if len(self.decided.admitted) < self.could_come or self.decided.stopped:
            return
        grown = [self._grown(admission) for admission in self.decided.admitted]
        self.decided.admitted = grown
        min_run_s = self.policy.min_run.total_seconds()
        elastic = sorted((key, entry) for key, entry in self.board.holding.items() if entry.request.is_elastic)
        for _, entry in elastic:
            placement = entry.placement
            if placement is None or entry.state is not GangState.RUNNING:
                continue
            pool = self.pools.get(placement.pool)
            if pool is None or entry.stops or entry.ran_s(self.board.now_s) < min_run_s:
                continue
            if self._could_grow(entry, placement, pool):
                self.decided.stopped.append(Stop(entry, StopReason.GROWS))
                return  # one at a time: the next plan sees what is left then

    def _grown(self, admission: Admission) -> Admission:
        entry, pool = admission.entry, self.pools[admission.placement.pool]
        if not entry.request.is_elastic or pool.capacity.pool.authority is not Authority.PHALANX:
            return admission
        self._charge(entry, admission.placement, -1)
        placement = pool.regrow(entry, admission.placement, lambda size: self._is_within_quota(entry, pool, size))
        self._charge(entry, placement)
        return Admission(entry, placement)

    def _could_grow(self, entry: Entry, placement: Placement, pool: WorkingPool) -> bool:
        self._charge(entry, placement, -1)
        could_grow = pool.could_grow(entry, lambda size: self._is_within_quota(entry, pool, size))
        self._charge(entry, placement)
        return could_grow

    def _is_within_quota(self, entry: Entry, pool: WorkingPool, size: Resources) -> bool:
        return self.quotas.short(entry.queue, pool.name, size.amounts) is None


def _without_stopping(board: Board) -> QuotaBook | None:
    """The quotas when those that stop have stopped; None if nobody does."""
    stopping = [entry for entry in board.holding.values() if entry.stops and entry.placement is not None]
    if not stopping:
        return None
    book = board.quotas.copy()
    for entry in stopping:
        if entry.placement is not None:
            book.charge(entry.queue, entry.placement.pool, held_amounts(entry, entry.placement), -1)
    return book


def _standing(board: Board) -> dict[str, dict[str, list[int]]]:
    standing: dict[str, dict[str, list[int]]] = {}
    for (gang_id, _), entry in board.holding.items():
        placement = entry.placement
        if placement is not None and placement.pool in board.pools:
            index = board.pools[placement.pool].index
            numbers = [index[node] for node in placement.nodes if node in index]
            standing.setdefault(placement.pool, {})[gang_id] = numbers
    return standing
