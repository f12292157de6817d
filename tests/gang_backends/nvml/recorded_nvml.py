"""Stands for the module `pynvml` where there is no GPU: a recording, and a state that changes as a device's would.

A recording is JSON: `{schema: 1, source, devices: [{uuid, name, memory_total_bytes, cpu_affinity_words, is_lost}]}`,
with what NVML answers for each device in its order; `cpu_affinity_words` null: not supported. `source` says where it is
from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent / "recordings"


class NVMLError(Exception):
    """As pynvml's."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801 - pynvml's name
    """No driver is installed."""


class NVMLError_DriverNotLoaded(NVMLError):  # noqa: N801 - pynvml's name
    """The driver isn't loaded."""


@dataclass
class Memory:
    """As pynvml's, in bytes."""

    total: int


class RecordedNvml:
    """The functions of pynvml over one recording."""

    NVMLError = NVMLError
    NVMLError_LibraryNotFound = NVMLError_LibraryNotFound
    NVMLError_DriverNotLoaded = NVMLError_DriverNotLoaded

    def __init__(self, recording: str) -> None:
        content = json.loads((RECORDINGS / f"{recording}.json").read_text())
        assert content["schema"] == 1
        assert content["source"]
        self.devices: list[dict[str, Any]] = content["devices"]
        self.open_count = 0
        self.fails_with: NVMLError | None = None

    def lose(self, index: int) -> None:
        """Let a GPU fall off the bus: from now on it answers nothing."""
        self.devices[index]["is_lost"] = True

    def nvmlInit(self) -> None:  # noqa: N802 - pynvml's name
        if self.fails_with is not None:
            raise self.fails_with
        self.open_count += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - pynvml's name
        self.open_count -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - pynvml's name
        return len(self._opened())

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802 - pynvml's name
        return self._opened()[index]

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> str:  # noqa: N802 - pynvml's name
        return str(self._answering(handle)["uuid"])

    def nvmlDeviceGetName(self, handle: dict[str, Any]) -> str:  # noqa: N802 - pynvml's name
        return str(self._answering(handle)["name"])

    def nvmlDeviceGetMemoryInfo(self, handle: dict[str, Any]) -> Memory:  # noqa: N802 - pynvml's name
        return Memory(int(self._answering(handle)["memory_total_bytes"]))

    def nvmlDeviceGetCpuAffinity(self, handle: dict[str, Any], words: int) -> list[int]:  # noqa: N802 - pynvml's name
        recorded = self._answering(handle)["cpu_affinity_words"]
        if recorded is None:
            raise NVMLError("Not Supported")
        return [*recorded, *[0] * words][: max(words, len(recorded))]

    def _opened(self) -> list[dict[str, Any]]:
        if not self.open_count:
            raise NVMLError("Uninitialized")
        return self.devices

    def _answering(self, handle: dict[str, Any]) -> dict[str, Any]:
        if handle.get("is_lost"):
            raise NVMLError("GPU is lost")
        return handle
