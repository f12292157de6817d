"""Who gets slots: all workers of a gang or none, by priority, then age; the first in line blocks its pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from gang_scheduler.actions import Action, Admit, Wait, WaitReason
from gang_scheduler.gang import AttemptKey, GangRequest, Placement
from gang_scheduler.placement import place, take
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, NodeView, Snapshot

# A supervisor is a fresh Python process: seconds on an idle machine, far longer on one that is building something.
START_WITHIN = timedelta(seconds=120)


def admit(waiting: Sequence[GangView], snapshot: Snapshot) -> tuple[Action, ...]:
    """Admit whole gangs in order until one does not fit, pool by pool; say to the others why they wait.

    A gang that could not be admitted for a reason of its own (it backs off, waits for its predecessor's end, or would
    not fit into the empty pool) does not stand in the way of the others.
    """
    actions: list[Action] = []
    for pool in sorted({view.request.gang_pool for view in waiting}):
        in_line = sorted((view for view in waiting if view.request.gang_pool == pool), key=_order)
        actions += _admit_into(pool, in_line, snapshot)
    return tuple(actions)


def _order(view: GangView) -> tuple[object, ...]:
    return (-view.request.gang_priority, view.submitted_at, view.request.gang_id, view.submission)


def _admit_into(pool: str, in_line: Sequence[GangView], snapshot: Snapshot) -> list[Action]:
    nodes = sorted((node for node in snapshot.nodes if node.pool == pool), key=lambda node: node.node)
    usable = {node.node: node.capacity for node in nodes if not node.is_cordoned}
    free = _free(usable, (view for view in snapshot.gangs if view.holds_capacity))
    holders = _holders(pool, snapshot.gangs)
    first_blocked: GangView | None = None
    actions: list[Action] = []
    for view in in_line:
        request = view.request
        wait = _wait_of_its_own(view, snapshot) or _wait_for_nodes(request, nodes, usable)
        if wait is None and first_blocked is not None:
            wait = WaitReason.BEHIND_ANOTHER_GANG, _behind(request, first_blocked)
        if wait is None:
            placement = place(request, free)
            if placement is not None:
                free = take(free, request, placement)
                holders = (*holders, f"{request.gang_id} ({request.total})")
                actions.append(_grant(view, placement))
                continue
            first_blocked = view
            wait = WaitReason.NO_CAPACITY, _no_capacity(request, usable, free, holders)
        if wait != (view.wait_reason, view.wait_sentence):
            actions.append(Wait(view.key, *wait))
    return actions


def _grant(view: GangView, placement: Placement) -> Admit:
    request = view.request
    attempt = AttemptKey(request.gang_id, view.submission, view.attempt + 1)
    where = ", ".join(f"{placed.workers} on {placed.node}" for placed in placement.workers)
    return Admit(
        attempt,
        placement,
        START_WITHIN,
        f"admitted whole: {_workers(request)} ({request.total}) to gang pool '{request.gang_pool}' ({where})",
    )


def _wait_of_its_own(view: GangView, snapshot: Snapshot) -> tuple[WaitReason, str] | None:
    for other in snapshot.gangs:
        if other.request.gang_id == view.request.gang_id and other.submission < view.submission:
            return WaitReason.STOPPING_FIRST, f"submission {other.submission} of this gang has to end first"
    if view.not_before is not None and view.not_before > snapshot.now:
        return WaitReason.BACKING_OFF, f"attempt {view.attempt + 1} starts not before {view.not_before:%H:%M:%S} UTC"
    return None


def _wait_for_nodes(
    request: GangRequest, nodes: Sequence[NodeView], usable: Mapping[str, Resources]
) -> tuple[WaitReason, str] | None:
    """Why it could not start even if every usable node were empty; None if it could."""
    cordons = "; ".join(
        f"{node.node} is cordoned ({node.cordon_reason or 'no reason given'})" for node in nodes if node.is_cordoned
    )
    if not usable:
        found = f"every node is out of use: {cordons}" if cordons else "it has no nodes"
        return WaitReason.NO_NODES, f"gang pool '{request.gang_pool}' can take no gang now: {found}"
    if place(request, usable) is not None:
        return None
    aside = f"; {cordons}" if cordons else ""
    return (
        WaitReason.NO_CAPACITY,
        f"asks {_workers(request)} ({request.total}); gang pool '{request.gang_pool}' has {_sum(usable.values())} "
        f"when empty, which does not hold the whole gang{aside}",
    )


def _no_capacity(
    request: GangRequest, usable: Mapping[str, Resources], free: Mapping[str, Resources], holders: Sequence[str]
) -> str:
    held_by = f"; held by {', '.join(holders)}" if holders else ""
    return (
        f"asks {_workers(request)} ({request.total}); gang pool '{request.gang_pool}' has "
        f"{_sum(free.values())} free of {_sum(usable.values())}{held_by}"
    )


def _behind(request: GangRequest, first: GangView) -> str:
    return (
        f"asks {_workers(request)} ({request.total}); gang '{first.request.gang_id}' (priority "
        f"{first.request.gang_priority}, asked at {first.submitted_at:%Y-%m-%d %H:%M:%S} UTC) is before it in gang "
        f"pool '{request.gang_pool}' and waits for {first.request.total}"
    )


def why_never(request: GangRequest, nodes: Sequence[NodeView]) -> str | None:
    """Why this gang would not fit even into its whole pool when empty, cordoned nodes included; None if it would."""
    who = f"gang '{request.gang_id}'"
    pools = sorted({node.pool for node in nodes})
    if request.gang_pool not in pools:
        known = ", ".join(f"'{pool}'" for pool in pools) or "none"
        return f"{who}: asks gang pool '{request.gang_pool}'; known gang pools: {known}. Name one of them as gang_pool"
    if not request.worker_groups or any(group.workers < 1 for group in request.worker_groups):
        asked = ", ".join(f"'{group.name}' {group.workers}" for group in request.worker_groups) or "no worker group"
        return f"{who}: asks {asked}; every worker group needs at least 1 worker. Set workers"
    if len({group.name for group in request.worker_groups}) < len(request.worker_groups):
        names = ", ".join(f"'{group.name}'" for group in request.worker_groups)
        return f"{who}: worker groups are called {names}; a name may be used once. Rename one"
    for group in request.worker_groups:
        if min(group.each.cpus, group.each.memory_gib, group.each.gpus) < 0 or group.each == Resources():
            asked = f"{group.each.cpus:g} CPUs, {group.each.memory_gib:g} GiB, {group.each.gpus} GPUs"
            return f"{who}: worker group '{group.name}' asks {asked} a worker. Ask something, and nothing below 0"
    empty = {node.node: node.capacity for node in nodes if node.pool == request.gang_pool}
    if place(request, empty) is not None:
        return None
    group = max(request.worker_groups, key=lambda group: group.total.cpus)
    is_one_too_many = not any(group.each.fits_in(capacity) for capacity in empty.values())
    advice = "Ask for smaller workers" if is_one_too_many else "Ask for fewer workers"
    each = ", ".join(f"{name}: {capacity}" for name, capacity in sorted(empty.items()))
    return (
        f"{who}: worker group '{group.name}' asks {group.total} ({group.workers} workers of {group.each}), the whole "
        f"gang {request.total}; gang pool '{request.gang_pool}' holds {_sum(empty.values())} when empty ({each}). "
        f"{advice}, or register more slots (PHALANX_LOCAL_SLOTS for the local pool)"
    )


def _free(usable: Mapping[str, Resources], holding: Iterable[GangView]) -> dict[str, Resources]:
    free = dict(usable)
    for view in holding:
        if view.placement is not None:
            free = take(free, view.request, view.placement)
    return free


def _holders(pool: str, gangs: Iterable[GangView]) -> tuple[str, ...]:
    holding = sorted(
        (view for view in gangs if view.holds_capacity and view.request.gang_pool == pool), key=lambda v: v.key
    )
    return tuple(f"{view.request.gang_id} ({view.request.total}, {view.state})" for view in holding)


def _workers(request: GangRequest) -> str:
    return f"{request.workers} worker{'' if request.workers == 1 else 's'}"


def _sum(amounts: Iterable[Resources]) -> Resources:
    total = Resources()
    for amount in amounts:
        total = total + amount
    return total
