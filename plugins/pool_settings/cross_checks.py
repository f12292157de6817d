"""What no table can know alone: whether the tables of a file agree with each other."""

from __future__ import annotations

from gang_scheduler.pool import Authority
from pool_settings.name_ranges import MOST
from pool_settings.nodes import slices_of
from pool_settings.problems import Findings
from pool_settings.queues import RESOURCES
from pool_settings.tables import PoolsFile, WindowTable

LOCAL_POOL = "local"  # served by every host itself, so it is known without a table
OWN_LEVELS = ("node", "pool")
MIG_SLICES = 7  # compute slices of one device, on every model that can be cut


def check(file: PoolsFile, findings: Findings) -> None:
    """Add to the findings what does not agree."""
    _gpus(file, findings)
    _pools(file, findings)
    _queues(file, findings)
    _access(file, findings)


def _gpus(file: PoolsFile, findings: Findings) -> None:
    for name, gpu in file.gpu.items():
        for layout, instances in gpu.mig.items():
            slices = sum(slices_of(profile)[0] * count for profile, count in instances.items())
            memory = sum(slices_of(profile)[1] * count for profile, count in instances.items())
            place = ("gpu", name, "mig", layout)
            if not instances:
                findings.add(place, "is empty; a device is cut into one instance at least. Name one, or remove it")
            if slices > MIG_SLICES:
                findings.add(place, f"asks {slices} compute slices; a device has {MIG_SLICES}. Cut it into fewer")
            if memory > gpu.memory_gib:
                findings.add(
                    place, f"asks {memory} GB; [gpu.{name}] memory_gib is {gpu.memory_gib:g}. Cut it into fewer"
                )


def _pools(file: PoolsFile, findings: Findings) -> None:
    nodes = 0
    for name, pool in file.pool.items():
        for number, level in enumerate(pool.levels):
            place = ("pool", name, "levels", number)
            if level in OWN_LEVELS:
                findings.add(place, "node and pool are levels of every pool by themselves. Remove it")
            if level in pool.levels[:number]:
                findings.add(place, "is there twice; each level needs a name of its own. Rename one")
        for number, tariff in enumerate(pool.tariffs):
            _window(tariff, ("pool", name, "tariffs", number), findings)
        if name == LOCAL_POOL and pool.authority is not Authority.PHALANX:
            findings.add(
                ("pool", name, "authority"), "every host serves pool local itself. Rename the pool, or remove it"
            )
        nodes += len(pool.nodes)
        if nodes > MOST:
            findings.add(("pool", name, "nodes"), f"is more than {MOST} tables. Use ranges in names")


def _queues(file: PoolsFile, findings: Findings) -> None:
    for name, queue in file.queue.items():
        place = ("queue", name)
        for number, window in enumerate(queue.windows):
            _window(window, (*place, "windows", number), findings)
        if queue.harvests_only and not queue.cohort:
            findings.add((*place, "harvests_only"), "lives on what its cohort lends, and has no cohort. Give cohort")
        for pool, quotas in queue.quota.items():
            at = (*place, "quota", pool)
            _is_known_pool(pool, file, at, findings)
            authority = file.pool[pool].authority if pool in file.pool else Authority.PHALANX
            if authority is not Authority.PHALANX:
                sentence = (
                    f"gang pool {pool!r} is admitted to by {authority} ([pool.{pool}] authority): one admission "
                    f"authority a pool, and its quotas are kept there. Remove this table"
                )
                findings.add(at, sentence)
            for resource in RESOURCES:
                quota = getattr(quotas, resource)
                if quota is not None and quota.lend is not None and quota.lend > quota.nominal:
                    sentence = f"is more than its nominal {quota.nominal:g}; a queue lends what it owns. Lower it"
                    findings.add((*at, resource, "lend"), sentence)


def _access(file: PoolsFile, findings: Findings) -> None:
    for team, dags in file.access.teams.items():
        if not dags:
            findings.add(("access", "teams", team), "names no DAG. Give patterns of DAG ids, or remove it")
    for number, rule in enumerate(file.access.rules):
        place = ("access", "rules", number)
        if not rule.dags and not rule.team:
            findings.add(place, "names no DAG. Give dags (patterns of DAG ids) or team")
        if rule.team and rule.team not in file.access.teams:
            known = ", ".join(file.access.teams) or "none"
            findings.add((*place, "team"), f"is no key of [access.teams]; known: {known}. Add it or name one of these")
        for at, pool in enumerate(rule.pools or ()):
            _is_known_pool(pool, file, (*place, "pools", at), findings)
        for at, queue in enumerate(rule.queues or ()):
            if queue not in file.queue and (file.queue or queue != "default"):
                known = ", ".join(file.queue) or "default"
                findings.add((*place, "queues", at), f"no table [queue.{queue}]; known: {known}. Add it or name one")
        if isinstance(rule.max_priority, str) and rule.max_priority not in file.priority:
            known = ", ".join(file.priority) or "none"
            sentence = f"is no key of [priority]; known: {known}. Add it, name one of these, or give a number"
            findings.add((*place, "max_priority"), sentence)


def _is_known_pool(pool: str, file: PoolsFile, place: tuple[str | int, ...], findings: Findings) -> None:
    if pool not in file.pool and pool != LOCAL_POOL:
        known = ", ".join(dict.fromkeys([*file.pool, LOCAL_POOL]))
        findings.add(place, f"no gang pool {pool!r}; known: {known}. Add [pool.{pool}] or name one of these")


def _window(window: WindowTable, place: tuple[str | int, ...], findings: Findings) -> None:
    if window.from_hour == window.until_hour:
        findings.add((*place, "until_hour"), "ends where it begins, so it never holds. Give another hour, or remove it")
