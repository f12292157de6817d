"""Made-up clusters and workloads with shares of GPUs, each drawn from its number alone."""

from __future__ import annotations

from random import Random

from gang_scheduler.devices import MILLI
from gang_scheduler.sharing import NodeShare, ShareAsk

NODES, PODS = 300, 4000


def load(number: int) -> tuple[list[ShareAsk], dict[str, NodeShare]]:
    """Pods and nodes: 2 to 5 kinds of nodes; shares, whole devices, gangs of 2 to 8 and pods without a GPU.

    Pods ask on average for half to all of the CPUs that the cluster has for each GPU, spread log-normally.
    """
    random = Random(10_000 + number)
    kinds = []
    for _ in range(random.randint(2, 5)):
        gpus = random.choice([1, 2, 4, 8, 8])
        cpu_milli = gpus * random.choice([6, 8, 12, 12, 16, 32]) * 1000
        memory_mib = gpus * random.choice([32, 48, 64, 128]) * 1024
        kinds.append(NodeShare((MILLI,) * gpus, cpu_milli, memory_mib))
    nodes = random.choices(kinds, [random.random() + 0.1 for _ in kinds], k=NODES)
    gpus = sum(len(node.gpu_free_milli) for node in nodes)
    cpu_per_gpu = sum(node.cpu_free_milli for node in nodes) / gpus
    memory_per_gpu = sum(node.memory_free_mib for node in nodes) / gpus
    asked = random.uniform(0.5, 1.0)

    def ask(width: int, gpu_milli: int) -> ShareAsk:
        devices = max(width * gpu_milli / MILLI, 0.3)
        cpu_milli = cpu_per_gpu * asked * devices * random.lognormvariate(-0.1, 0.5)
        memory_mib = memory_per_gpu * asked * 0.8 * devices * random.lognormvariate(-0.1, 0.5)
        return ShareAsk(width, gpu_milli, int(cpu_milli) // 100 * 100, int(memory_mib) // 256 * 256)

    weights: dict[ShareAsk, float] = {}

    def add(asks: list[ShareAsk], part: float) -> None:
        """Give these asks a part of all pods, divided between them by chance."""
        each = [random.random() + 0.01 for _ in asks]
        weights.update({ask: part * mine / sum(each) for ask, mine in zip(asks, each, strict=True)})

    part_of_shares, part_of_wide = random.uniform(0.2, 0.7), random.uniform(0.005, 0.1)
    part_without = random.uniform(0.0, 0.2)
    sizes = [random.randrange(50, 1000, 10) for _ in range(random.randint(4, 15))]
    add([ask(1, size) for size in sizes for _ in range(random.randint(1, 4))], part_of_shares)
    add([ask(1, MILLI) for _ in range(random.randint(4, 20))], 1 - part_of_shares - part_of_wide - part_without)
    widest = max(len(kind.gpu_free_milli) for kind in kinds)
    add([ask(width, MILLI) for width in (2, 4, 8) if width <= widest], part_of_wide)
    add([ask(0, 0) for _ in range(3)], part_without)
    pods = random.choices(list(weights), list(weights.values()), k=PODS)
    return pods, {f"node-{index:03}": node for index, node in enumerate(nodes)}
