"""Arrays that stay in the memory of an NVIDIA GPU.

:func:`syncline.compress` and :func:`syncline.decompress` take arrays of PyTorch, CuPy, JAX, Numba, and whatever else
speaks DLPack or the CUDA array interface. The classes here are for those who compress often: a :class:`Compressor`
keeps its workspace, and CUDA graphs can capture the work of a :class:`QueuedCompressor` and of a
:class:`Decompressor`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core, _device
from ._advanced import Advanced
from ._array import Bound, Effort, Header, as_bytes, core_choices
from ._array import header_of_fields, little_endian, one_bound
from ._core import DeviceArray
from ._fill import Fill
from ._index import box_of
from ._types import core_name

__all__ = [
    "Compressor",
    "Decompressor",
    "Device",
    "DeviceArray",
    "QueuedCompressor",
    "device",
    "device_count",
    "to_device",
    "to_host",
]


@dataclass(frozen=True)
class Device:
    """A GPU and the software that drives it. Versions are pairs of a major and a minor number."""

    ordinal: int
    name: str
    compute_capability: tuple[int, int]
    #: The bytes of its memory.
    memory: int
    #: The newest CUDA version that the driver supports.
    driver: tuple[int, int]
    #: The version of the run-time compiler.
    nvrtc: tuple[int, int]


def device_count() -> int:
    """Returns the number of GPUs.

    Raises:
        GpuError: there is no driver, or one that is too old.
    """
    return _core.cuda_device_count()


def device(ordinal: int = 0) -> Device:
    """Opens a GPU and describes it."""
    _device.find_nvrtc()
    return Device(**_core.cuda_device_info(ordinal))


def to_device(array: ArrayLike, device: int = 0) -> DeviceArray:
    """Returns a copy of an array, or of ``bytes``, in the memory of a GPU."""
    if isinstance(array, (bytes, bytearray, memoryview)):
        array = np.frombuffer(array, np.uint8)
    elements = _device.host_array(array)
    name = core_name(elements.dtype)
    elements = little_endian(elements)
    return _device.codec_for(device).upload(as_bytes(elements), name, elements.shape)


def to_host(array: Any, *, stream: Any = None) -> NDArray[Any]:
    """Returns a copy of an array on a GPU as an array of NumPy, which is read-only."""
    return _device.host_array(array, stream)


class Compressor:
    """Compresses arrays on one GPU with the same options, and keeps its workspace from call to call.

    Bounds and options are those of :func:`syncline.compress`. With ``fallback=False``, what the GPU cannot do is a
    :class:`syncline.GpuError` instead of being done by the CPU. Threads take turns. Both directions read results on the
    host before they go on, so that CUDA graphs cannot capture them: they raise a :class:`syncline.GpuError` then.
    """

    def __init__(
        self,
        device: int = 0,
        *,
        abs: float | None = None,
        rel: float | None = None,
        psnr: float | None = None,
        pw_rel: float | None = None,
        bound: Bound | None = None,
        fill: Fill = "auto",
        effort: Effort | None = None,
        advanced: Advanced | None = None,
        fallback: bool = True,
    ) -> None:
        where = "auto" if fallback else "cuda"
        chosen = one_bound(bound, abs, rel, psnr, pw_rel)
        self._options = _device.options_of(core_choices(chosen, fill, effort, advanced, 0, where, None))
        self._codec = _device.codec_for(device)
        self.device = device

    def compress(self, array: Any, *, out: Any = None, stream: Any = None) -> DeviceArray:
        """Compresses an array on the GPU, after everything queued on ``stream``, which is by default the current stream
        of the array's library. Returns when the result is complete.

        With ``out``, a contiguous array of bytes on the GPU that starts on a multiple of 16 bytes, the stream is
        written to the start of it, and the result shares its memory.
        :func:`syncline.compress_bound` bytes are always enough.
        """
        number = _device.stream_number(stream, array, self.device)
        return self._codec.compress(array, self._options, out, number)

    def decompress(
        self, data: Any, *, region: Any = None, out: Any = None, like: Any = None, stream: Any = None
    ) -> Any:
        """Decompresses a stream that is on the GPU or in host memory, or a region of it without steps, as
        :func:`syncline.decompress` does.
        """
        if out is not None and like is not None:
            raise TypeError("give one of out= and like=")
        model = next((array for array in (out, like, data) if array is not None), data)
        number = _device.stream_number(stream, model, self.device)
        box = None
        if region is not None:
            box = box_of(region, tuple(self._codec.header(data, number)["shape"]))
            if box is None:
                raise ValueError("a region in the memory of a GPU has no steps: index the result")
        result = self._codec.decompress(data, out, number, self._options.fallback, box)
        return out if out is not None else _device.as_array_like(result, like)


class QueuedCompressor:
    """Compresses arrays of one type and shape again and again on a CUDA stream, without waiting for the GPU.

    Everything is allocated when the object is made, for the worst case: a little more than the size of an array, or of
    1 GiB of a larger one. :meth:`compress` only queues work, so that a CUDA graph can capture it; a bound relative
    to the range is resolved for each array anew. The streams are those of :func:`syncline.compress`.

    ``model`` is an array on a GPU, of the type and the shape of those that will be compressed.

    Bounds are ``abs``, ``rel``, and ``pw_rel``. Fill values must be given, because finding them takes several passes.
    ``stream`` is by default the current stream of the library that ``model`` is of.
    """

    def __init__(
        self,
        model: Any,
        *,
        abs: float | None = None,
        rel: float | None = None,
        pw_rel: float | None = None,
        bound: Bound | None = None,
        fill: Fill = None,
        advanced: Advanced | None = None,
        stream: Any = None,
    ) -> None:
        ordinal = _device.ordinal_of(model)
        if ordinal is None:
            raise TypeError("the model is not in the memory of a CUDA device")
        chosen = one_bound(bound, abs, rel, None, pw_rel)
        _device.find_nvrtc()
        options = _device.options_of(core_choices(chosen, fill, "balanced", advanced, 0, "cuda", None))
        if stream is None:
            stream = _device.current_stream(model, ordinal)
        number = _device.stream_number(stream, model, ordinal)
        self._inner = _core.CudaQueuedCompressor(model, options, 0 if number is None else number, stream)
        self.device = ordinal

    @property
    def dtype(self) -> str:
        """The name of the element type of the arrays."""
        return self._inner.array()[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the arrays."""
        return tuple(self._inner.array()[1])

    def compress(self, array: Any, out: Any, size: Any = None) -> None:
        """Queues the compression of ``array``, an array on the GPU of the type and the shape of the model.

        The stream is written to the start of ``out``, a contiguous array of bytes on the GPU that starts on a multiple
        of 16 bytes; :func:`syncline.compress_bound` bytes are always enough. ``size``, an array on the GPU with one
        element of ``int64`` or ``uint64``, receives its size in bytes, or 0 if there is no stream.

        All arrays and this object must live until the work is done, and until the last launch of a graph that captured
        it. Such launches, and other work of this object, must run one after another.
        """
        self._inner.compress(array, out, size)

    def check(self) -> int:
        """Waits for the work on the stream of this object, and returns the size in bytes of the last stream.

        Raises:
            GpuError: the array needs more than the model, or the bound resolves to lossless compression; or a CUDA
                graph captures the stream.
            ValueError: ``out`` was too short.
        """
        return self._inner.check()


class Decompressor:
    """Decompresses one stream again and again on a CUDA stream, without waiting for the GPU.

    Everything is allocated when the object is made. :meth:`decompress` only queues work, so that a CUDA graph can
    capture it. The stream must be lossy; one whose codes may be LZSS tokens cannot be captured. ``data`` are bytes on a
    GPU, or in host memory, from where they are copied to the GPU with the number ``device``. ``stream`` is by default
    the current stream of the library that ``data`` are of.
    """

    def __init__(self, data: Any, *, stream: Any = None, device: int = 0) -> None:
        ordinal = _device.ordinal_of(data)
        if ordinal is None:
            ordinal, data = device, to_device(data, device)
        _device.find_nvrtc()
        if stream is None:
            stream = _device.current_stream(data, ordinal)
        number = _device.stream_number(stream, data, ordinal)
        self._inner = _core.CudaDecompressor(data, 0 if number is None else number, stream)
        self.device = ordinal

    @property
    def header(self) -> Header:
        """The header of the stream."""
        return header_of_fields(self._inner.header())

    def decompress(self, out: Any, data: Any = None) -> None:
        """Queues the decompression to ``out``, an array on the GPU of the type and the shape of ``header``. ``data``
        are another stream on the GPU with the same header and the same lengths of chunks, by default the one that the
        object was made for.

        ``out`` and ``data`` must live until the work is done, and until the last launch of a graph that captured it.
        """
        self._inner.decompress(out, data)

    def check(self) -> None:
        """Waits for the work that was queued.

        Raises:
            SynclineError: the last decompression found damage.
            GpuError: a CUDA graph captures the stream.
        """
        self._inner.check()
