"""A safetensors file laid out in memory: tensors are copied into it, and it is written as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# https://github.com/huggingface/safetensors/blob/main/safetensors/src/tensor.rs, enum Dtype
DTYPES = {
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
BY_NAME = {name: dtype for dtype, name in DTYPES.items()}
SPARE = 1 << 20  # bytes for what grows from save to save, such as the losses: 8 a step
_ALIGNED_TO = 8  # bytes: the header's end, by the format; no dtype above needs more


class Entry(NamedTuple):
    """A tensor of the file."""

    name: str
    dtype: torch.dtype
    shape: torch.Size


class Image:
    """A file's bytes in a buffer that is kept for the next file, as fresh memory costs more than the copy into it."""

    def __init__(self) -> None:
        self._buffer = torch.empty(0, dtype=torch.uint8)
        self._size = 0

    def lay_out(self, entries: Sequence[Entry]) -> dict[str, Tensor]:
        """Begin another file; returns by name where in the buffer each tensor's values belong.

        Raises:
            TypeError: the format knows no such dtype.
        """
        unknown = [entry for entry in entries if entry.dtype not in DTYPES]
        if unknown:
            raise TypeError(f"checkpoint: {unknown[0].name} is {unknown[0].dtype}, which safetensors files can't hold.")
        ordered = sorted(entries, key=lambda entry: -entry.dtype.itemsize)  # which leaves each aligned
        spans: dict[str, tuple[int, int]] = {}
        header: dict[str, object] = {}
        end = 0
        for name, dtype, shape in ordered:
            start, end = end, end + shape.numel() * dtype.itemsize
            spans[name] = start, end
            header[name] = {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [start, end]}
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGNED_TO)
        head = len(text).to_bytes(8, "little") + text
        self._make_room(len(head) + end)
        self._buffer[: len(head)] = torch.frombuffer(bytearray(head), dtype=torch.uint8)
        data = self._buffer[len(head) : self._size]
        return {name: data[slice(*spans[name])].view(dtype).view(shape) for name, dtype, shape in ordered}

    @property
    def content(self) -> memoryview:
        """The file's bytes; they change with the next `lay_out`."""
        return self._buffer.numpy().data[: self._size]

    def _make_room(self, size: int) -> None:
        if size > len(self._buffer):
            self._buffer = torch.empty(size + SPARE, dtype=torch.uint8)
        self._size = size
