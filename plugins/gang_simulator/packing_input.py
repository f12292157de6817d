"""Pods and nodes of a trace with shares of GPUs, from CSV files."""

from __future__ import annotations

from pathlib import Path

from gang_scheduler.devices import MILLI
from gang_scheduler.sharing import NodeShare, ShareAsk
from gang_simulator.csv_rows import BadTable, Row, read_rows

POD_COLUMNS = ("gpus", "gpu_milli", "cpu_milli", "memory_mib")
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")


def read_pods(path: Path) -> tuple[ShareAsk, ...]:
    """What each pod asks for, in the order of the file.

    `gpu_milli` is of each of its `gpus` devices; `gpu_type`, if there is such a column, names the models that will do,
    divided by `|`, and is empty for any.

    Raises:
        BadTable: a row can't be used; the message names file, line, column and what is allowed.
    """
    pods = tuple(_pod(row) for row in read_rows(path, POD_COLUMNS, ",".join(POD_COLUMNS)))
    if not pods:
        raise BadTable(f"{path}: has no rows; at least one pod is needed, with the columns {', '.join(POD_COLUMNS)}")
    return pods


def read_nodes(path: Path) -> dict[str, NodeShare]:
    """The empty nodes by their names (`sn`); `gpu` is how many devices, of `model`.

    Raises:
        BadTable: a row can't be used, or a name stands twice; the message names file, line, column and what is allowed.
    """
    nodes: dict[str, NodeShare] = {}
    for row in read_rows(path, NODE_COLUMNS, ",".join(NODE_COLUMNS)):
        name = row.text("sn")
        if not name or name in nodes:
            raise row.error("sn", "a name that no other node has")
        nodes[name] = NodeShare(
            (MILLI,) * row.whole("gpu"), row.whole("cpu_milli"), row.whole("memory_mib"), row.text("model")
        )
    if not nodes:
        raise BadTable(f"{path}: has no rows; at least one node is needed, with the columns {', '.join(NODE_COLUMNS)}")
    return nodes


def _pod(row: Row) -> ShareAsk:
    gpus, gpu_milli = row.whole("gpus"), row.whole("gpu_milli")
    if gpus == 0 and gpu_milli:
        raise row.error("gpu_milli", "0, because 'gpus' is 0,")
    if gpus == 1 and not 0 < gpu_milli <= MILLI:
        raise row.error("gpu_milli", f"1 to {MILLI}, because 'gpus' is 1,")
    if gpus > 1 and gpu_milli != MILLI:
        raise row.error("gpu_milli", f"{MILLI} (whole devices), because 'gpus' is {gpus},")
    models = frozenset(model.strip() for model in row.text("gpu_type").split("|") if model.strip())
    return ShareAsk(gpus, gpu_milli, row.whole("cpu_milli"), row.whole("memory_mib"), models)
