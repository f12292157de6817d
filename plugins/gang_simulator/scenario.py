"""A scenario: the choices that a simulation is described by, as people write them, and changes of some of them."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gang_scheduler.policy import Blocking
from gang_simulator.cluster import Cluster, plain_cluster
from gang_simulator.settings import ZERO, Durations, PolicyName, ReplaySettings, parse_restart_cost, policy_of


class BadScenario(ValueError):
    """Choices that don't go together, or that mean nothing; the message says what is allowed."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Either `pools` (a file) or `nodes` and `gpus_per_node`; the rest has defaults.

    `durations` None: known to the scheduler, except for `las`, which does without. `aged_after_s` None: the policy's,
    infinity: never.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    pools: Path | None = None
    policy: PolicyName = PolicyName.DEFAULT
    blocking: Blocking | None = None
    restart_cost: str = "7,30,60"
    durations: Durations | None = None
    checkpoint_every_s: float | None = 1800.0
    aged_after_s: float | None = None
    starts_at: datetime = ZERO
    seed: int = 0

    def cluster(self) -> Cluster:
        """The cluster that is described.

        Raises:
            BadScenario: neither of the two ways, or both, were used.
            ValueError: the numbers, or the pools file, are wrong.
        """
        if self.pools is not None:
            if self.nodes is not None or self.gpus_per_node is not None:
                raise BadScenario(
                    f"both --pools {self.pools} and --nodes/--gpus-per-node were given; the file says how many nodes "
                    "there are. Leave one of them away"
                )
            return _from_file(self.pools)
        if self.nodes is None or self.gpus_per_node is None:
            raise BadScenario("no cluster was given; give --nodes and --gpus-per-node, or --pools FILE")
        return plain_cluster(self.nodes, self.gpus_per_node)

    def settings(self, cluster: Cluster) -> ReplaySettings:
        """How the replay goes; the cluster may come with a policy of its own."""
        are_known = self.policy is not PolicyName.LAS if self.durations is None else self.durations is Durations.KNOWN
        every = self.checkpoint_every_s
        policy = policy_of(self.policy, self.blocking, cluster.policy)
        if self.aged_after_s is not None:
            is_never = self.aged_after_s == float("inf")
            policy = replace(policy, aged_after=None if is_never else timedelta(seconds=self.aged_after_s))
        return ReplaySettings(
            policy=policy,
            policy_name=self.policy,
            durations_are_known=are_known,
            restart_cost=parse_restart_cost(self.restart_cost),
            checkpoint_every=None if every is None else timedelta(seconds=every),
            starts_at=self.starts_at,
            seed=self.seed,
        )

    def changed(self, changes: Mapping[str, object]) -> Scenario:
        """The scenario with some choices made anew; `+8` and `-2` change a number by so much.

        Raises:
            BadScenario: there is no such choice, or it may not be this.
        """
        scenario = self
        for name, said in changes.items():
            if name not in CHOICES:
                raise BadScenario(f"what if {name} = {said}? There is no such choice; there are: {', '.join(CHOICES)}")
            try:
                scenario = replace(scenario, **{name: _read(name, said, getattr(scenario, name))})
            except ValueError:
                raise BadScenario(f"what if {name} = {said}? {CHOICES[name]} is allowed there") from None
        return scenario


CHOICES = {
    "nodes": "a whole number of at least 1, or a change such as +8",
    "gpus_per_node": "a whole number of at least 1, or a change such as -4",
    "pools": "the path of a pools file",
    "policy": f"one of {', '.join(PolicyName)}",
    "blocking": f"one of {', '.join(Blocking)}",
    "restart_cost": "'none', or seconds for 1, at most 8 and more GPUs, such as 7,30,60,",
    "durations": f"one of {', '.join(Durations)}",
    "checkpoint_every_s": "a number of seconds above 0, or 'none',",
    "aged_after_s": "a number of seconds above 0, or 'never',",
    "seed": "a whole number of at least 0",
}
assert CHOICES.keys() <= {field.name for field in fields(Scenario)}


def read_changes(said: str) -> dict[str, object]:
    """Changes from a TOML file of that name, or from text such as `nodes=+8 policy=srsf`.

    Raises:
        BadScenario: it is neither.
    """
    path = Path(said)
    if path.suffix == ".toml":
        try:
            return tomllib.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BadScenario(f"{path}: can't be read as TOML: {error}") from error
    changes: dict[str, object] = {}
    for part in said.split():
        name, separator, value = part.partition("=")
        if not separator or not value:
            raise BadScenario(
                f"what if '{said}'? '{part}' is no change; give the name of a TOML file or changes such as "
                f"'nodes=+8 policy=srsf' of: {', '.join(CHOICES)}"
            )
        changes[name.replace("-", "_")] = value
    if not changes:
        raise BadScenario(f"what if '{said}'? That changes nothing; changes are such as 'nodes=+8 policy=srsf'")
    return changes


def _read(name: str, said: object, now: object) -> Any:
    text = str(said).strip()
    match name:
        case "nodes" | "gpus_per_node" | "seed":
            number = int(text)
            if text[0] in "+-":
                number += now if isinstance(now, int) else 0
            if number < (0 if name == "seed" else 1):
                raise ValueError(text)
            return number
        case "pools":
            return Path(text)
        case "policy":
            return PolicyName(text)
        case "blocking":
            return Blocking(text)
        case "durations":
            return Durations(text)
        case "checkpoint_every_s":
            return None if text == "none" else _seconds(text)
        case "aged_after_s":
            return float("inf") if text == "never" else _seconds(text)
        case _:
            parse_restart_cost(text)
            return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e10:
        raise ValueError(text)
    return seconds


def _from_file(path: Path) -> Cluster:
    from pool_settings import read_file  # the parser of settings files is not needed without one

    settings = read_file(path)
    nodes = [node for node in settings.nodes if node.capacity.gpus]
    if not nodes:
        raise BadScenario(f"{path}: describes no node with GPUs; jobs that ask for GPUs need one ([[pool.NAME.nodes]])")
    counts = Counter(node.node for node in nodes)
    # A name may be used in two pools; a trace's fault has to mean one node.
    named = (replace(node, node=f"{node.pool}/{node.node}") if counts[node.node] > 1 else node for node in nodes)
    return Cluster(
        label=f"{len(nodes)} nodes with GPUs of {path.name}",
        nodes=tuple(named),
        pools=settings.pools,
        queues=settings.queues,
        policy=settings.policy,
        priorities={known.name: known.priority for known in settings.priorities},
    )
