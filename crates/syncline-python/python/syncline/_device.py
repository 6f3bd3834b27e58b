"""Arrays in the memory of GPUs: which one, on which CUDA stream, and as whose array."""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._types import float8_bytes, is_float8, numpy_dtype

#: Buffers of bytes that are in host memory.
HOST_BYTES = (bytes, bytearray, memoryview)

_HOST_TYPES = (np.ndarray, np.generic, bytes, bytearray, memoryview, list, tuple, int, float)


def ordinal_of(array: Any) -> int | None:
    """Returns the number of the GPU that an array is on, or ``None`` for arrays in host memory."""
    if array is None or isinstance(array, _HOST_TYPES):
        return None
    return _core.cuda_device_of(array)


def codec_for(ordinal: int, stream: int | None = None) -> _core.CudaCompressor:
    """Returns a codec of a GPU, for a call on a stream if its handle is given: a CUDA graph must not capture it."""
    find_nvrtc()
    return _core.CudaCompressor(ordinal, stream)


@functools.cache
def find_nvrtc() -> None:
    """Names the folders of NVIDIA's Python packages, in which the run-time compiler may be."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    folders = [folder for root in roots for kind in ("lib", "bin") for folder in glob.glob(f"{root}/*/{kind}")]
    _core.search_nvrtc_in([os.fspath(folder) for folder in sorted(folders)])


def current_stream(array: Any, ordinal: int) -> Any:
    """Returns the current CUDA stream of the library of an array, or ``None`` if it has none."""
    library = _library(array)
    if library == "torch":
        return sys.modules["torch"].cuda.current_stream(ordinal)
    if library == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream(ordinal)
    return None


def stream_number(stream: Any, array: Any, ordinal: int) -> int | None:
    """Returns the handle of a CUDA stream: of the one that is given, or else of the current one of the array's library
    (PyTorch and CuPy have one). ``None`` stands for the one that the array itself names.
    """
    if stream is None:
        number = _core.cuda_current_stream(array, ordinal)
        if number is not None:
            return number
        stream = current_stream(array, ordinal)
    if stream is None:
        return None
    if isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair = protocol() if callable(protocol) else protocol
        return int(pair[1] if isinstance(pair, tuple) else pair)
    for name in ("cuda_stream", "ptr", "handle"):
        handle = getattr(stream, name, None)
        if handle is not None:
            return int(getattr(handle, "value", handle) or 0)
    raise TypeError(f"{type(stream).__name__} is no CUDA stream: pass a handle, or an object with __cuda_stream__")


def compress(array: Any, ordinal: int, choices: dict[str, Any], *, out: Any, stream: Any) -> _core.DeviceArray:
    """Compresses an array on a GPU to a stream on this GPU."""
    number = stream_number(stream, array, ordinal)
    return codec_for(ordinal, number).compress(array, options_of(choices), out, number)


def options_of(choices: dict[str, Any]) -> _core.CudaOptions:
    """Returns the choices for arrays on a GPU. What it cannot do is left to the CPU if any device may be used."""
    return _core.CudaOptions(choices, choices["device"] == "auto")


def host_bytes(data: Any, stream: Any = None) -> Any:
    """Returns a compressed stream in host memory: an object with a buffer. It is copied only if it is on a GPU."""
    ordinal = ordinal_of(data)
    if ordinal is None:
        if isinstance(data, np.generic):
            return data.tobytes()
        if hasattr(data, "__array__") and not isinstance(data, np.ndarray):
            # Tensors in host memory, whose libraries share it with NumPy but make no buffer.
            data = host_array(data)
        return data
    number = stream_number(stream, data, ordinal)
    return codec_for(ordinal, number).download(data, number)[0]


def host_array(array: Any, stream: Any = None) -> NDArray[Any]:
    """Returns a NumPy array, which shares the memory of an array in host memory if NumPy can do so."""
    ordinal = ordinal_of(array)
    if ordinal is not None:
        number = stream_number(stream, array, ordinal)
        elements, name, shape = codec_for(ordinal, number).download(array, number)
        return np.frombuffer(elements, np.uint8).view(numpy_dtype(name)).reshape(shape)
    if _library(array) == "torch" and str(array.dtype) == "torch.bfloat16":
        # NumPy has no such type of its own, so that PyTorch refuses to make an array of it.
        torch = sys.modules["torch"]
        return np.asarray(array.view(torch.int16)).view(numpy_dtype("bf16"))
    return np.asarray(float8_bytes(array))


def as_array_like(array: NDArray[Any] | _core.DeviceArray, like: Any) -> Any:
    """Returns an array of the library of another array. Only a region with steps is copied."""
    library = _library(like)
    if library not in ("torch", "cupy", "jax"):
        is_view = isinstance(array, np.ndarray) and array.dtype == np.uint8 and is_float8(getattr(like, "dtype", None))
        return array.view(like.dtype) if is_view else array
    module: Any = sys.modules[library]
    if isinstance(array, np.ndarray):
        if array.dtype == np.uint8 and is_float8(like.dtype):
            # Floats of 8 bits are stored as bytes.
            if library == "torch":
                return module.from_numpy(np.ascontiguousarray(array)).view(like.dtype)
            array = array.view(like.dtype)
        if any(stride < 0 for stride in array.strides):
            array = array.copy()  # PyTorch has no negative strides.
        if library == "torch" and array.dtype.name == "bfloat16":
            return module.from_numpy(array.view(np.int16)).view(module.bfloat16)
        return module.from_numpy(array) if library == "torch" else module.numpy.asarray(array)
    return module.dlpack.from_dlpack(array) if library == "jax" else module.from_dlpack(array)


def _library(array: Any) -> str:
    """Returns the name of the library that an array is of, if its module is loaded."""
    name = type(array).__module__.partition(".")[0]
    name = "jax" if name in ("jaxlib", "jax") else name
    return name if name in sys.modules else ""
