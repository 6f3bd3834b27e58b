"""Chunks of Zarr arrays in the memory of a GPU, which ``zarr.config.enable_gpu()`` asks for."""

from __future__ import annotations

import functools
from typing import Any

from zarr.buffer import gpu

from . import _core, _device


def is_on_gpu(prototype: Any) -> bool:
    """Returns whether buffers of this kind are in the memory of a GPU."""
    return issubclass(prototype.buffer, gpu.Buffer) and issubclass(prototype.nd_buffer, gpu.NDBuffer)


@functools.cache
def _codec(ordinal: int) -> _core.CudaCompressor:
    """Returns the codec of a GPU, which keeps its workspace from chunk to chunk. Threads take turns."""
    return _device.codec_for(ordinal)


def compress(array: Any, choices: dict[str, Any], prototype: Any) -> Any:
    """Compresses a chunk to a buffer on the GPU that the chunk is on. ``array`` is an array of CuPy."""
    # A chunk can be a part of a larger array; CuPy copies it only if it is.
    array = array.ravel(order="C").reshape(array.shape)
    ordinal = _ordinal_of(array)
    number = _device.stream_number(None, array, ordinal)
    stream = _codec(ordinal).compress(array, _device.options_of(choices), None, number)
    return prototype.buffer.from_array_like(_device.as_array_like(stream, array))


def header(data: Any) -> dict[str, Any]:
    """Returns the fields of the header of a stream on a GPU."""
    ordinal = _ordinal_of(data)
    return _codec(ordinal).header(data, _device.stream_number(None, data, ordinal))


def decompress(data: Any) -> Any:
    """Decompresses a stream on a GPU to an array of the library that the stream is an array of."""
    ordinal = _ordinal_of(data)
    array = _codec(ordinal).decompress(data, None, _device.stream_number(None, data, ordinal), True)
    return _device.as_array_like(array, data)


def _ordinal_of(array: Any) -> int:
    ordinal = _device.ordinal_of(array)
    assert ordinal is not None, "buffers of Zarr for GPUs hold arrays of CuPy, which are on a GPU"
    return ordinal
