"""The nodes of a pool: a table of alike ones becomes one `NodeView` each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gang_scheduler.node import NodeState, NodeView
from gang_scheduler.resources import Profiles, Resources
from pool_settings.name_ranges import MOST, expand, spread
from pool_settings.problems import Findings
from pool_settings.tables import GpuTable, NodesTable, PoolTable

NO_GPU = GpuTable(memory_gib=1.0)
Place = tuple[str | int, ...]


def nodes_of(name: str, pool: PoolTable, gpus: Mapping[str, GpuTable], findings: Findings) -> list[NodeView]:
    """All nodes of the pool; what is wrong with a table is added to the findings, and the table left out."""
    nodes: list[NodeView] = []
    domains_before = dict.fromkeys(pool.levels, 0)
    first_table: dict[str, int] = {}
    for number, table in enumerate(pool.nodes):
        place: Place = ("pool", name, "nodes", number)
        found_before = len(findings.problems)
        names = _names(table, place, findings)
        if names and len(nodes) + len(names) > MOST:
            findings.add(place, f"the pool would have more than {MOST} nodes. Correct the ranges")
        model = _gpu(table, gpus, place, findings)
        locations = _locations(table, pool.levels, len(names), domains_before, place, findings)
        for node in names:
            if first_table.setdefault(node, number) != number:
                where = f"node {node!r} is in table {first_table[node] + 1} as well"
                findings.add((*place, "name"), f"{where}; a name may be used once in a pool. Rename one")
                break
        if len(findings.problems) == found_before:
            nodes += _views(name, table, model, names, locations)
    return nodes


def cut_gpus(table: NodesTable) -> int:
    """How many devices of each node are cut into MIG instances."""
    return sum(table.mig.values())


def _names(table: NodesTable, place: Place, findings: Findings) -> tuple[str, ...]:
    try:
        names = expand(table.name)
    except ValueError as error:
        findings.add((*place, "name"), f"{error}. Correct it")
        return ()
    if len(set(names)) < len(names):
        findings.add((*place, "name"), "names a node twice. Correct the ranges")
    return names


def _gpu(table: NodesTable, gpus: Mapping[str, GpuTable], place: Place, findings: Findings) -> GpuTable:
    known = ", ".join(gpus) or "none"
    model = gpus.get(table.gpu_model)
    if table.gpu_model and model is None:
        findings.add(
            (*place, "gpu_model"), f"no table [gpu.{table.gpu_model}]; GPU models: {known}. Add it or name one"
        )
    if table.gpu_model and not table.gpus:
        findings.add((*place, "gpu_model"), "a GPU model is named, but the nodes have 0 GPUs. Give gpus, or remove it")
    if table.mig and not table.gpu_model:
        findings.add((*place, "mig"), "says how devices are cut, but no gpu_model. Give gpu_model")
    if cut_gpus(table) > table.gpus:
        findings.add((*place, "mig"), f"cuts {cut_gpus(table)} devices of a node that has {table.gpus}. Cut fewer")
    for layout in table.mig:
        if model is not None and layout not in model.mig:
            layouts = ", ".join(model.mig) or "none"
            sentence = f"[gpu.{table.gpu_model}.mig] has no {layout!r}; it has: {layouts}. Add it or name one of these"
            findings.add((*place, "mig", layout), sentence)
    return model or NO_GPU


def _locations(
    table: NodesTable,
    levels: Sequence[str],
    count: int,
    domains_before: dict[str, int],
    place: Place,
    findings: Findings,
) -> Sequence[tuple[str, ...]]:
    if not count:
        return ()
    if table.location is not None and table.per_domain is not None:
        findings.add((*place, "per_domain"), "location is given as well. Give one of the two")
    elif table.location is not None:
        return _explicit(table.location, levels, count, place, findings)
    elif table.per_domain is not None:
        return _counted(table.per_domain, levels, count, domains_before, place, findings)
    elif levels:
        sentence = f"the pool has the levels {_listed(levels)}, and these nodes no place in them"
        findings.add(place, f"{sentence}. Give location or per_domain")
    return [()] * count


def _explicit(
    location: Sequence[str], levels: Sequence[str], count: int, place: Place, findings: Findings
) -> Sequence[tuple[str, ...]]:
    if len(location) != len(levels):
        sentence = (
            f"names {len(location)} domains; the pool's levels are {_listed(levels)}. Name one for each, widest first"
        )
        findings.add((*place, "location"), sentence)
        return ()
    columns = []
    for number, pattern in enumerate(location):
        try:
            columns.append(spread(pattern, count))
        except ValueError as error:
            findings.add((*place, "location", number), f"{error}. Correct it")
    if len(columns) < len(levels):
        return ()
    paths = list(zip(*columns, strict=True)) if columns else [()] * count
    for depth, (wide, narrow) in enumerate(pairwise(columns), start=1):
        holder: dict[str, str] = {}
        for outer, inner in zip(wide, narrow, strict=True):
            if holder.setdefault(inner, outer) != outer:
                sentence = f"domain {inner!r} would lie in {holder[inner]!r} and in {outer!r}. Use counts that nest"
                findings.add((*place, "location", depth), sentence)
                return ()
    return paths


def _counted(
    per_domain: Mapping[str, int],
    levels: Sequence[str],
    count: int,
    domains_before: dict[str, int],
    place: Place,
    findings: Findings,
) -> Sequence[tuple[str, ...]]:
    if set(per_domain) != set(levels):
        sentence = (
            f"names the levels {_listed(list(per_domain))}; the pool's are {_listed(levels)}. Give nodes for each"
        )
        findings.add((*place, "per_domain"), sentence)
        return ()
    for wide, narrow in pairwise(levels):
        if per_domain[wide] % per_domain[narrow]:
            sentence = f"{per_domain[narrow]} nodes of a {narrow!r} do not divide the {per_domain[wide]} of a {wide!r}"
            findings.add((*place, "per_domain", narrow), f"{sentence}, so one would lie in two. Use numbers that nest")
            return ()
    before = dict(domains_before)
    for level in levels:
        domains_before[level] += -(-count // per_domain[level])
    return [
        tuple(f"{level}-{before[level] + number // per_domain[level]}" for level in levels) for number in range(count)
    ]


def _views(
    pool: str, table: NodesTable, gpu: GpuTable, names: Sequence[str], locations: Sequence[tuple[str, ...]]
) -> Iterator[NodeView]:
    capacity = Resources(
        table.cpus, table.memory_gib, table.gpus - cut_gpus(table), table.scratch_gib, mig=_instances(table, gpu)
    )
    compute = table.compute if table.compute is not None else gpu.compute
    for node, location in zip(names, locations, strict=True):
        yield NodeView(
            pool=pool,
            node=node,
            capacity=capacity,
            is_cordoned=table.state is NodeState.CORDONED,
            cordon_reason=table.cordon_reason,
            state=table.state,
            location=location,
            labels=table.labels,
            gpu_model=table.gpu_model,
            gpu_memory_gib=gpu.memory_gib if table.gpu_model else 0.0,
            compute=compute,
            is_spot=table.is_spot,
            region=table.region,
            site=table.site,
            provider=table.provider,
            fabric=table.fabric,
            link_gbps=table.link_gbps,
            price_per_hour=table.price_per_hour,
            watts=table.watts,
        )


def _instances(table: NodesTable, gpu: GpuTable) -> Profiles:
    counts: dict[str, int] = {}
    for layout, devices in table.mig.items():
        for profile, each in gpu.mig[layout].items():
            counts[profile] = counts.get(profile, 0) + each * devices
    return tuple(sorted(counts.items()))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names) or "none"


def slices_of(profile: str) -> tuple[int, int]:
    """Of a MIG profile such as "3g.40gb": compute slices, memory in GB."""
    compute, memory = profile.split("+")[0].removesuffix("gb").split("g.")
    return int(compute), int(memory)
