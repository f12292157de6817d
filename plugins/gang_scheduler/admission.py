"""Who gets capacity, as actions: all workers of a gang or none; who waits is told why."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from heapq import nsmallest
from itertools import chain
from operator import itemgetter

from gang_scheduler.actions import Action, Admit, AskStop, StopReason, Wait, WaitReason
from gang_scheduler.board import Board, held
from gang_scheduler.capacity import PoolCapacity
from gang_scheduler.decide import decide
from gang_scheduler.decisions import Admission, Decisions, Obstacle, Stop
from gang_scheduler.devices import milli
from gang_scheduler.entry import Entry
from gang_scheduler.fit import Fitter, lacks_storage
from gang_scheduler.gang import AttemptKey, GangRequest, Key
from gang_scheduler.kept_board import KeptBoard
from gang_scheduler.node import NodeState, NodeView
from gang_scheduler.pool import PoolView
from gang_scheduler.resources import Resources
from gang_scheduler.snapshot import GangView, Snapshot
from gang_scheduler.waits import WaitWriter, workers

# A supervisor is a fresh Python process: seconds on an idle machine, far longer on one that is building something.
START_WITHIN = timedelta(seconds=120)
_BOARD = KeptBoard()
TOLD_ANEW = 20  # so many at the front of the line are told whenever the words change


def admit(waiting: Sequence[GangView], snapshot: Snapshot, decided: Iterable[AttemptKey] = ()) -> tuple[Action, ...]:
    """Admit whole gangs, ask others to stop for them, and say to each that waits why.

    Args:
        waiting: who may be admitted.
        snapshot: the moment.
        decided: gangs about whom something else is decided already; they are neither admitted nor stopped.
    """
    views = {view.gang_key: view for view in waiting}
    aside = [view.gang_key for view in snapshot.gangs if not view.holds_capacity and view.gang_key not in views]
    settled = frozenset(decided)
    with _BOARD.of(snapshot, without=aside) as board:
        decisions = decide(board, held_back(views, snapshot))
        actions: list[Action] = [_grant(admission) for admission in decisions.admitted]
        actions += [_stop(stop) for stop in decisions.stopped if stop.entry.key not in settled]
        admitted = {action.key.gang_id for action in actions if isinstance(action, Admit)}
        return (*actions, *_waits(board, decisions, views, admitted))


def _waits(board: Board, decisions: Decisions, views: Mapping[Key, GangView], admitted: Container[str]) -> list[Wait]:
    """What those who wait are told: who stands near the front when the words change, the others when the reason does.

    The words name what is free at the moment; told to everybody, each end of a gang would rewrite thousands of rows.
    """
    writer, waits = WaitWriter(board), []
    fronts = chain.from_iterable(line[:TOLD_ANEW] for line in board.lines.values())
    front = {entry.key for _, entry in nsmallest(TOLD_ANEW, fronts, key=itemgetter(0))}
    for key, entry in sorted(board.entries.items()):
        obstacle = decisions.obstacle_of(entry)
        if obstacle is None or key[0] in admitted:
            continue
        view = views[key]
        if entry.key not in front and obstacle.reason == view.wait_reason and view.wait_sentence:
            continue
        wait = writer.write(entry, obstacle)
        if wait != (view.wait_reason, view.wait_sentence):
            waits.append(Wait(view.key, *wait))
    return waits


def held_back(views: Mapping[Key, GangView], snapshot: Snapshot) -> dict[Key, Obstacle]:
    """Those that can't be admitted now for a reason of their own, so that nobody waits behind them."""
    first: dict[str, int] = {}
    for view in snapshot.gangs:
        gang_id, submission = view.gang_key
        first[gang_id] = min(submission, first.get(gang_id, submission))
    found: dict[Key, Obstacle] = {}
    for key, view in views.items():
        if first[key[0]] < view.submission or view.is_held or view.not_before is not None:
            obstacle = _own_obstacle(view, first[key[0]], snapshot)
            if obstacle is not None:
                found[key] = obstacle
    return found


def _own_obstacle(view: GangView, first: int, snapshot: Snapshot) -> Obstacle | None:
    if first < view.submission:
        sentence = f"submission {first} of this gang has to end first"
        return Obstacle(WaitReason.STOPPING_FIRST, detail=sentence)
    if view.is_held:
        return Obstacle(WaitReason.HELD, detail=f"held: {view.held_why or 'no reason was given'}")
    if view.not_before is not None and view.not_before > snapshot.now:
        sentence = f"attempt {view.attempt + 1} starts not before {view.not_before:%H:%M:%S} UTC"
        return Obstacle(WaitReason.BACKING_OFF, detail=sentence)
    return None


def _grant(admission: Admission) -> Admit:
    entry, placement = admission.entry, admission.placement
    key = AttemptKey(entry.key.gang_id, entry.key.submission, entry.key.attempt + 1)
    count = sum(placed.workers for placed in placement.workers)
    whole = entry.request.workers
    size = workers(entry.request) if count == whole else f"{count} of {whole} workers"
    where = ", ".join(f"{placed.workers} on {placed.node}" for placed in placement.workers)
    how = "admitted whole" if count == whole else "admitted with fewer workers, as it allows"
    return Admit(
        key,
        placement,
        START_WITHIN,
        f"{how}: {size} ({held(entry, placement)}) to gang pool '{placement.pool}' ({where})",
    )


def _stop(stop: Stop) -> AskStop:
    whose = "" if stop.made_for is None else f" gang '{stop.made_for.request.gang_id}'"
    priority = "" if stop.made_for is None else f" (priority {stop.made_for.request.gang_priority})"
    sentences = {
        StopReason.PREEMPTED: f"asked to stop with a checkpoint: it makes room for{whose}{priority}",
        StopReason.RECLAIMED: f"asked to stop with a checkpoint: its gang queue '{stop.entry.queue}' borrowed what"
        f"{whose} is owed by its own quota",
        StopReason.SHRINKS: f"asked to checkpoint and go on with fewer workers: it makes room for{whose}{priority}",
        StopReason.GROWS: "asked to checkpoint and go on with more workers: nobody else waits for the pool",
        StopReason.WINDOW: f"asked to stop with a checkpoint: gang queue '{stop.entry.queue}' harvests idle hours, "
        f"which are over ([queue.{stop.entry.queue}] windows)",
    }
    return AskStop(stop.entry.key, sentences[stop.reason], reason=stop.reason)


# --- asking before anything is submitted


def why_never(request: GangRequest, nodes: Sequence[NodeView], pools: Sequence[PoolView] = ()) -> str | None:
    """Why this gang would fit into none of its pools even when empty, cordoned nodes included; None if it would."""
    who = f"gang '{request.gang_id}'"
    known_pools = sorted({node.pool for node in nodes})
    unknown = [pool for pool in request.pools if pool not in known_pools]
    if unknown:
        known = ", ".join(f"'{pool}'" for pool in known_pools) or "none"
        return f"{who}: asks gang pool '{unknown[0]}'; known gang pools: {known}. Name one of them as gang_pool"
    return _malformed(request, who) or _too_large(request, who, nodes, {pool.name: pool for pool in pools})


def _malformed(request: GangRequest, who: str) -> str | None:
    if not request.worker_groups or any(group.workers < 1 for group in request.worker_groups):
        asked = ", ".join(f"'{group.name}' {group.workers}" for group in request.worker_groups) or "no worker group"
        return f"{who}: asks {asked}; every worker group needs at least 1 worker. Set workers"
    if len({group.name for group in request.worker_groups}) < len(request.worker_groups):
        names = ", ".join(f"'{group.name}'" for group in request.worker_groups)
        return f"{who}: worker groups are called {names}; a name may be used once. Rename one"
    for group in request.worker_groups:
        each = group.each
        least = min(each.cpus, each.memory_gib, each.gpus, each.scratch_gib, each.gpu_share)
        if least < 0 or each == Resources() or any(count < 0 for _, count in each.mig):
            asked = f"{each.cpus:g} CPUs, {each.memory_gib:g} GiB, {each.gpus} GPUs"
            return f"{who}: worker group '{group.name}' asks {asked} a worker. Ask something, and nothing below 0"
        if each.gpu_share > 1 or (each.gpu_share and (each.gpus or milli(each.gpu_share) < 1)):
            return (
                f"{who}: worker group '{group.name}' asks {each.gpus} GPUs and {each.gpu_share:g} of one a worker; a "
                "share is of one device, at least a thousandth and less than 1. Ask whole GPUs, or a share"
            )
        if not 1 <= group.fewest <= group.workers:
            return (
                f"{who}: worker group '{group.name}' asks at least {group.fewest} and at most {group.workers} workers. "
                "Set min_workers from 1 to workers"
            )
    return None


def _too_large(request: GangRequest, who: str, nodes: Sequence[NodeView], pools: Mapping[str, PoolView]) -> str | None:
    anywhere = replace(request, wishes=replace(request.wishes, near=(), apart=()))  # others come and go
    entry, sentence = Entry(AttemptKey(request.gang_id, 1, 0), anywhere, 0.0), ""
    for pool in request.pools:
        there = [_usable(node) for node in nodes if node.pool == pool]
        view = pools.get(pool) or PoolView(pool)
        if request.topology is not None and request.topology.level not in ("node", "pool", *view.levels):
            known = ", ".join(f"'{level}'" for level in ("node", *reversed(view.levels), "pool"))
            sentence = sentence or (
                f"{who}: asks topology level '{request.topology.level}'; gang pool '{pool}' has {known}. Name one"
            )
            continue
        empty = PoolCapacity(view, there)
        short = lacks_storage(entry, empty)
        if not short and Fitter({}).fit(entry, empty) is not None:
            return None
        sentence = sentence or (f"{who}: {short}. Ask for less" if short else _does_not_hold(request, who, empty))
    return sentence


def _does_not_hold(request: GangRequest, who: str, empty: PoolCapacity) -> str:
    pool = empty.pool.name
    group = max(request.worker_groups, key=lambda group: (group.total.gpu_count, group.total.cpus))
    is_one_too_many = not any(group.each.fits_in(node.capacity) for node in empty.nodes)
    advice = "Ask for smaller workers" if is_one_too_many else "Ask for fewer workers"
    fewest = "" if not request.is_elastic else f", at least {sum(g.fewest for g in request.worker_groups)} workers"
    return (
        f"{who}: worker group '{group.name}' asks {group.total} ({group.workers} workers of {group.each}), the whole "
        f"gang {request.total}{fewest}; gang pool '{pool}' holds {_sum(empty)} when empty ({_each(empty)})"
        f"{_wished(request)}. {advice}{', or register more slots (PHALANX_LOCAL_SLOTS)' if pool == 'local' else ''}"
    )


def _wished(request: GangRequest) -> str:
    wishes, said = request.wishes, []
    if wishes.gpu_models:
        said.append(f"GPU models {', '.join(wishes.gpu_models)}")
    if wishes.regions:
        said.append(f"regions {', '.join(wishes.regions)}")
    if wishes.labels:
        said.append(f"labels {', '.join(f'{name}={value}' for name, value in sorted(wishes.labels.items()))}")
    if wishes.excluded:
        said.append(f"without the nodes {', '.join(wishes.excluded)}")
    if request.topology is not None and request.topology.is_required:
        said.append(f"all under one '{request.topology.level}'")
    return f"; it takes only nodes by its wishes: {'; '.join(said)}" if said else ""


def _usable(node: NodeView) -> NodeView:
    return replace(node, is_cordoned=False, state=NodeState.READY)


def _sum(capacity: PoolCapacity) -> Resources:
    total = Resources()
    for node in capacity.nodes:
        total = total + node.capacity
    return total


def _each(capacity: PoolCapacity) -> str:
    """The nodes' sizes; where they are many, how many there are of each."""
    if len(capacity.nodes) <= 8:
        return ", ".join(f"{node.node}: {node.capacity}" for node in sorted(capacity.nodes, key=lambda node: node.node))
    sizes: dict[str, int] = {}
    for node in capacity.nodes:
        sizes[str(node.capacity)] = sizes.get(str(node.capacity), 0) + 1
    return ", ".join(f"{count} nodes of {size}" for size, count in sorted(sizes.items()))
