"""A settings file: text to tables to what the scheduler takes; everything wrong with it is told together."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import ValidationError

from gang_scheduler.gang_queue import PriorityClass
from pool_settings.access import Access, AccessRule
from pool_settings.cross_checks import check
from pool_settings.name_ranges import expand
from pool_settings.nodes import cut_gpus, nodes_of
from pool_settings.origins import Origins
from pool_settings.problems import Findings, Problem, SettingsInvalid
from pool_settings.queues import policy_of, pool_view, queue_view
from pool_settings.settings import GpuModel, Settings
from pool_settings.shape_errors import add_shape_errors
from pool_settings.tables import AccessTable, PoolsFile
from pool_settings.toml_lines import key_lines

LARGEST_MIB = 16


def read_file(path: Path) -> Settings:
    """The settings in the file.

    Raises:
        SettingsInvalid: it can't be read, or something in it is wrong.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_MIB * 2**20 + 1)
        text = content.decode()
    except UnicodeDecodeError as error:
        raise SettingsInvalid([_whole(path, f"is not UTF-8 (byte {error.start}). Save it as UTF-8")]) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise SettingsInvalid([_whole(path, f"can't be read: {why}. Name a readable file")]) from None
    if len(content) > LARGEST_MIB * 2**20:
        raise SettingsInvalid([_whole(path, f"is larger than {LARGEST_MIB} MiB. Use ranges in node names")])
    return read_text(text, path)


def read_text(text: str, path: Path = Path("pools.toml")) -> Settings:
    """The settings in the text, which is spoken of as the file `path`.

    Raises:
        SettingsInvalid: something in it is wrong.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise SettingsInvalid([_whole(path, "is nested too deeply. Write it flatter")]) from None
    except ValueError as error:
        raise SettingsInvalid([_whole(path, f"is no TOML: {error}. Correct it")]) from None
    lines = key_lines(text)
    findings = Findings(str(path), document, lines)
    tables = PoolsFile()
    try:
        tables = PoolsFile.model_validate(document)
    except ValidationError as error:
        add_shape_errors(error, PoolsFile, findings)
    findings.raise_if_any()
    check(tables, findings)
    nodes = {name: nodes_of(name, pool, tables.gpu, findings) for name, pool in tables.pool.items()}
    findings.raise_if_any()
    origins = Origins(path, tables, document, lines)
    return Settings(
        path=path,
        pools=tuple(pool_view(name, table) for name, table in tables.pool.items()),
        nodes=tuple(node for of_pool in nodes.values() for node in of_pool),
        cut_gpus=_cut(tables),
        gpu_models={
            name: GpuModel(name, gpu.memory_gib, gpu.compute, gpu.max_shares) for name, gpu in tables.gpu.items()
        },
        queues=tuple(queue_view(name, table) for name, table in tables.queue.items()),
        priorities=tuple(PriorityClass(name, priority) for name, priority in tables.priority.items()),
        policy=policy_of(tables.policy),
        access=_access(tables.access, tables.priority, origins),
        origins=origins,
    )


def _access(table: AccessTable, priorities: dict[str, int], origins: Origins) -> Access:
    rules = [
        AccessRule(
            dags=(*rule.dags, *table.teams.get(rule.team, ())),
            where=origins.place(("access", "rules", number)),
            queues=None if rule.queues is None else tuple(rule.queues),
            pools=None if rule.pools is None else tuple(rule.pools),
            max_priority=priorities[rule.max_priority] if isinstance(rule.max_priority, str) else rule.max_priority,
        )
        for number, rule in enumerate(table.rules)
    ]
    refuses = origins.place(("access", "others")) if table.others == "refuse" else ""
    return Access(tuple(rules), refuses)


def _cut(tables: PoolsFile) -> dict[tuple[str, str], int]:
    return {
        (pool, node): cut_gpus(table)
        for pool, of_pool in tables.pool.items()
        for table in of_pool.nodes
        if table.mig
        for node in expand(table.name)
    }


def _whole(path: Path, sentence: str) -> Problem:
    return Problem(str(path), None, "", sentence)
