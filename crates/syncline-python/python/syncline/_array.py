"""Arrays to streams and back: what NumPy knows, for a core that knows bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core, _device
from ._advanced import Advanced, advanced_text
from ._advice import warn
from ._fill import Fill, fill_values, without_mask
from ._index import basic_index, box_of
from ._options import Compression, Decompression, HostArray, HostStream
from ._range import computed, extremes, is_lazy
from ._types import as_numbers, core_name, float8_bytes, is_exact, is_float8, numpy_dtype

Effort = Literal["fast", "balanced", "best"]
Mode = Literal["lossless", "abs", "rel", "psnr", "pw_rel"]
Progress = Callable[[int, int], object]
Out = TypeVar("Out")

#: What the core returns of an array with which nothing is wrong.
_NO_ADVICE: tuple[None, list[Any]] = (None, [])


@dataclass(frozen=True)
class Bound:
    """An error bound.

    ``mode`` is ``"lossless"``, ``"abs"`` (absolute error), ``"rel"`` (relative to the value range of the array),
    ``"psnr"`` (in dB), or ``"pw_rel"`` (relative to the magnitude of each value); ``value`` is 0 for ``"lossless"``.
    """

    mode: Mode = "lossless"
    value: float = 0.0

    def __post_init__(self) -> None:
        if self.mode not in ("lossless", "abs", "rel", "psnr", "pw_rel"):
            raise ValueError(f"unknown error bound {self.mode!r}: use lossless, abs, rel, psnr, or pw_rel")
        object.__setattr__(self, "value", float(self.value))

    @classmethod
    def of(
        cls,
        *,
        abs: float | None = None,
        rel: float | None = None,
        psnr: float | None = None,
        pw_rel: float | None = None,
    ) -> Bound:
        """Returns the bound of the one keyword that is given, or the lossless one."""
        given: dict[Mode, float | None] = {"abs": abs, "rel": rel, "psnr": psnr, "pw_rel": pw_rel}
        chosen = [(mode, value) for mode, value in given.items() if value is not None]
        if len(chosen) > 1:
            raise TypeError(f"give one error bound, not {' and '.join(mode for mode, _ in chosen)}")
        return cls(*chosen[0]) if chosen else cls()

    @property
    def is_of_range(self) -> bool:
        """Whether the bound refers to the value range of the array."""
        return self.mode in ("rel", "psnr")

    def of_extent(self, extent: float) -> Bound:
        """Returns the absolute bound that is enough for an array whose values extend over ``extent``, if this bound
        refers to the range; otherwise this bound.
        """
        if not self.is_of_range:
            return self
        if not (math.isfinite(extent) and extent > 0):
            return Bound()  # An array of one value, or of none, needs no error.
        # No error is larger than the root mean square of errors that the PSNR allows.
        return Bound("abs", extent * (self.value if self.mode == "rel" else 10 ** (-self.value / 20)))


def resolve(
    array: Any,
    *,
    rel: float | None = None,
    psnr: float | None = None,
    fill: float | Sequence[float] | None = None,
) -> Bound:
    """Returns the absolute bound that is ``rel`` times the value range of a whole array, or that reaches a ``psnr``
    however the errors are distributed. The range is that of the finite values that are not ``fill``, one value or
    several. A Dask array is computed once. The bound is lossless for an array of one value or of none, and for times
    and Booleans.

    That of complex numbers is the range of both parts.

    Codecs of chunked formats see one chunk at a time, so that a relative bound would differ from chunk to chunk.

    >>> import numpy as np, syncline
    >>> syncline.resolve(np.array([1.0, 5.0, np.nan]), rel=1e-2)
    Bound(mode='abs', value=0.04)
    """
    bound = Bound.of(rel=rel, psnr=psnr)
    if bound.mode == "lossless":
        raise TypeError("give one bound that refers to the range: rel or psnr")
    if not is_lazy(array):
        array = np.asarray(without_mask(array, fill))
    if is_exact(array.dtype):
        return Bound()  # Times and Booleans have no error bound, whatever they are stored as.
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag])
    low, high = computed(*extremes(array, _known(array, fill)))
    return bound.of_extent(high - low)


def _known(array: Any, fill: Any) -> Any:
    """Returns which elements of an array, of NumPy or Dask, are finite and no fill values."""
    known = np.isfinite(array)
    for value in fill_values(fill):
        known &= array != value
    return known


@dataclass(frozen=True)
class Header:
    """What a stream holds and how it was made."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bound: Bound
    #: The bound that holds: the absolute error, or the relative error of each value for ``pw_rel``; 0 if lossless.
    abs_bound: float
    #: The quantization step; 0 if lossless.
    step: float
    #: The smallest and the largest finite value that is not a fill value, if known.
    range: tuple[float, float] | None
    #: The values that are masked instead of being predicted, up to four: NaN, fill values, and zeros.
    fills: tuple[float, ...]
    compressed_bytes: int

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def ratio(self) -> float:
        """The bytes of the array divided by the bytes of the stream."""
        return self.nbytes / self.compressed_bytes


def as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Returns the bytes of a C-contiguous array without a copy, for any element type."""
    return array.reshape(-1).view(np.uint8)


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the array in C order and little-endian; it is copied only if it is not."""
    dtype = array.dtype if array.dtype.kind == "V" else array.dtype.newbyteorder("<")
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


@overload
def compress(array: HostArray, *, out: None = None, stream: Any = None, **options: Unpack[Compression]) -> bytes: ...
@overload
def compress(array: Any, *, out: Any = None, stream: Any = None, **options: Unpack[Compression]) -> Any: ...
def compress(
    array: Any,
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    lossless: bool = False,
    bound: Bound | None = None,
    fill: Fill = "auto",
    effort: Effort | None = None,
    advanced: Advanced | None = None,
    rewritable: bool = False,
    threads: int = 0,
    device: str = "auto",
    memory_limit: int | None = None,
    progress: Progress | None = None,
    out: Any = None,
    stream: Any = None,
) -> Any:
    """Compresses an array.

    Give one error bound, as ``abs``, ``rel``, ``psnr``, or ``pw_rel`` or as a :class:`Bound`; without one, or with
    ``lossless=True``, the stream is lossless. ``fill`` is the value that stands for missing data, or a sequence of up
    to four; they are kept exactly and excluded from the range. ``"auto"`` detects them, ``"none"`` and ``None`` do not.
    Errors of integers are whole numbers: ``abs=2.9`` allows 2, and below 1 the stream is lossless; they have no
    ``pw_rel``. The bounds of ``float16`` and ``bfloat16`` hold for the elements as they are rounded to their type.
    Booleans become ``uint8``, and dates and times ``int64``, both always lossless; complex numbers become pairs of
    their parts along one more axis, and a bound holds for each part.

    ``effort`` is ``"fast"``, ``"balanced"`` (the default), or ``"best"``: each takes more time than the one before and
    makes smaller streams, but with a bound ``"best"`` is ``"balanced"``. ``advanced`` has single choices that the
    effort otherwise stands for, such as ``{"level": 9}``; ``docs/ADVANCED.md`` in the repository describes them.

    With ``rewritable=True``, decompressed values compress to themselves, so that an array which is decompressed,
    changed in part, and compressed again, any number of times, stays within ``abs`` or ``pw_rel`` of what was
    written last. Streams are larger then. The bounds ``rel`` and ``psnr`` follow the range of the values, which
    changes with them: :func:`resolve` gives the absolute bound instead.

    ``threads=0`` uses all cores. ``progress(done, total)`` is called with numbers of elements about ten times a second;
    an exception that it raises cancels the work.

    Arrays of any strides and byte order are accepted; those that are not C-contiguous and little-endian are copied.
    Masked elements of a masked array become the fill value; without one, they are a ``TypeError``.

    Returns ``bytes`` for an array in host memory. An array on an NVIDIA GPU, of any library that speaks DLPack or the
    CUDA array interface, stays there: the result is a :class:`syncline.cuda.DeviceArray` of bytes. It has to be
    C-contiguous. The work comes after everything queued on ``stream``, which is a CUDA stream of any library or its
    handle, and by default the current one of the array's library. With ``out``, a contiguous array of bytes on the
    GPU, the stream is written to the start of it.

    >>> import numpy as np, syncline
    >>> field = np.sin(np.linspace(0, 10, 10_000, dtype=np.float32)).reshape(100, 100)
    >>> stream = syncline.compress(field, abs=1e-3)
    >>> bool(np.max(np.abs(syncline.decompress(stream) - field)) <= 1e-3)
    True
    """
    bound = one_bound(bound, abs, rel, psnr, pw_rel)
    if lossless and bound.mode != "lossless":
        raise TypeError(f"give one error bound, not {bound.mode} and lossless")
    choices = core_choices(bound, fill, effort, advanced, threads, device, memory_limit, rewritable)
    if is_float8(getattr(array, "dtype", None)):
        if bound.mode != "lossless":
            raise TypeError(f"{array.dtype} is compressed losslessly, as uint8: leave out the error bound")
        array = float8_bytes(array)
    ordinal = _device.ordinal_of(array)
    if ordinal is not None and device != "cpu":
        return _device.compress(array, ordinal, choices, out=out, stream=stream)
    if out is not None:
        raise TypeError("out= is for arrays on a GPU")
    elements = _device.host_array(without_mask(array, fill), stream)
    if is_exact(elements.dtype):
        choices |= {"mode": "lossless", "value": 0.0}
    elements = as_numbers(elements)
    name = core_name(elements.dtype)
    elements = little_endian(elements)
    packed, advice = _core.compress(as_bytes(elements), name, elements.shape, choices, progress)
    if advice != _NO_ADVICE:
        warn(advice, elements.dtype)
    return packed


def one_bound(
    bound: Bound | None, abs: float | None, rel: float | None, psnr: float | None, pw_rel: float | None
) -> Bound:
    """Returns the bound that is given once, as an object or as one of the numbers."""
    if bound is None:
        return Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    if not isinstance(bound, Bound):
        raise TypeError(f"bound must be a syncline.Bound, such as syncline.Bound('abs', 1e-3), not {bound!r}")
    if (abs, rel, psnr, pw_rel) != (None,) * 4:
        raise TypeError("give the error bound once: as bound=, or as one of abs=, rel=, psnr=, and pw_rel=")
    return bound


def core_choices(
    bound: Bound,
    fill: Fill,
    effort: Effort | None,
    advanced: Advanced | None,
    threads: int,
    device: str,
    memory_limit: int | None,
    rewritable: bool = False,
) -> dict[str, Any]:
    """Returns the choices for compression as the core takes them."""
    return {
        "mode": bound.mode,
        "value": bound.value,
        "fill": fill_values(fill),
        "detect_fill": isinstance(fill, str) and fill == "auto",
        "effort": "balanced" if effort is None else effort,
        "advanced": advanced_text(advanced),
        "rewritable": rewritable,
        "threads": threads,
        "device": device,
        "memory_limit": memory_limit,
    }


@dataclass(frozen=True)
class Quality:
    """How far the array of a stream is from the original. Fields that have no value, such as the ``psnr`` of an array
    without finite values, are ``None``.
    """

    #: Whether every element is within the bound of the stream and every special value came back bit for bit.
    holds: bool
    elements: int
    #: The number of elements that the errors are about: finite ones that are not fill values.
    compared: int
    #: The number of compared elements with an error above the bound.
    violations: int
    #: The number of elements that had to come back bit for bit and did not.
    mismatches: int
    #: The number of elements whose bits differ.
    differing: int
    max_abs: float | None
    max_rel: float | None
    #: The largest error divided by the bound.
    bound_ratio: float | None
    range: tuple[float, float] | None
    rmse: float | None
    nrmse: float | None
    psnr: float | None
    ssim: float | None
    correlation: float | None


def verify(array: ArrayLike, data: Any, *, threads: int = 0, device: str = "auto") -> Quality:
    """Decompresses a stream and compares it with the array that it was made from, under the bound of the stream.

    >>> import numpy as np, syncline
    >>> field = np.linspace(0, 1, 1000)
    >>> quality = syncline.verify(field, syncline.compress(field, abs=1e-3))
    >>> quality.holds, quality.max_abs <= 1e-3
    (True, True)
    """
    elements = as_numbers(_device.host_array(without_mask(array)))
    name = core_name(elements.dtype)
    elements = little_endian(elements)
    data = _device.host_bytes(data)
    return Quality(**_core.verify(as_bytes(elements), name, elements.shape, data, threads=threads, device=device))


def inspect(data: Any) -> dict[str, Any]:
    """Returns the header of a stream as a dictionary, with the counts and the sizes in bytes of its parts. Every chunk
    is checked.

    >>> import numpy as np, syncline
    >>> syncline.inspect(syncline.compress(np.zeros((64, 64), "f4"), abs=0.5))["tiles"]
    4
    """
    return _core.inspect(_device.host_bytes(data))


def compress_bound(dtype: Any, shape: tuple[int, ...]) -> int:
    """Returns the number of bytes that the stream of such an array has at most."""
    return _core.compress_bound(core_name(np.dtype(dtype)), shape)


def header(data: Any) -> Header:
    """Returns the header of a stream in memory, of the host or of a GPU.

    >>> import numpy as np, syncline
    >>> syncline.header(syncline.compress(np.zeros((3, 4), "f4"), abs=0.5)).bound
    Bound(mode='abs', value=0.5)
    """
    ordinal = _device.ordinal_of(data)
    if ordinal is not None:
        number = _device.stream_number(None, data, ordinal)
        return header_of_fields(_device.codec_for(ordinal, number).header(data, number))
    return header_of_fields(_core.header(_device.host_bytes(data)))


def header_of_fields(fields: dict[str, Any]) -> Header:
    return Header(
        dtype=numpy_dtype(fields["dtype"]),
        shape=tuple(fields["shape"]),
        bound=Bound(fields["mode"], fields["value"]),
        abs_bound=fields["abs_bound"],
        step=fields["step"],
        range=fields["range"],
        # One object for NaN, so that equal headers are equal.
        fills=tuple(math.nan if math.isnan(fill) else fill for fill in fields["fills"]),
        compressed_bytes=fields["compressed_bytes"],
    )


@overload
def decompress(
    data: HostStream, *, out: None = None, like: None = None, **options: Unpack[Decompression]
) -> NDArray[Any]: ...
@overload
def decompress(data: Any, *, out: Out, like: None = None, **options: Unpack[Decompression]) -> Out: ...
@overload
def decompress(data: Any, *, out: None = None, like: Any = None, **options: Unpack[Decompression]) -> Any: ...
def decompress(
    data: Any,
    *,
    region: Any = None,
    out: Any = None,
    like: Any = None,
    threads: int = 0,
    device: str = "auto",
    memory_limit: int | None = None,
    progress: Progress | None = None,
    stream: Any = None,
) -> Any:
    """Decompresses a stream, or a region of it.

    ``region`` is a basic NumPy index (``np.s_[3:10, ::2, -1]``); only the tiles that it meets are decoded. ``out`` is
    an array of the result's shape and type, which is filled and returned.

    The result is a NumPy array, or a :class:`syncline.cuda.DeviceArray` if ``data`` are on a GPU. With ``like``, it is
    an array of the library of this array, in the memory that this array is in. ``out`` can be in the memory of a GPU,
    too. A GPU decodes regions without steps; those with steps come through the host. Work on a GPU comes after
    everything queued on ``stream``, as in :func:`compress`.

    >>> import numpy as np, syncline
    >>> stream = syncline.compress(np.arange(12).reshape(3, 4))
    >>> syncline.decompress(stream, region=np.s_[1:, ::-2])
    array([[ 7,  5],
           [11,  9]])
    """
    if region is None and out is None and like is None and isinstance(data, _device.HOST_BYTES):
        return _core.decompress(data, threads, device, memory_limit, progress)
    if out is not None and like is not None:
        raise TypeError("give one of out= and like=")
    model = out if out is not None else like
    source, target = _device.ordinal_of(data), _device.ordinal_of(model)
    ordinal = source if target is None else target
    if ordinal is not None and device != "cpu" and (target is not None or model is None):
        number = _device.stream_number(stream, data if model is None else model, ordinal)
        codec, box = _device.codec_for(ordinal, number), None
        if region is not None:
            fields = codec.header(data, number) if source is not None else _core.header(_device.host_bytes(data))
            box = box_of(region, tuple(fields["shape"]))
        if region is None or box is not None:
            result = codec.decompress(data, out, number, device == "auto", box)
            return out if out is not None else _device.as_array_like(result, like)
    if target is not None and out is not None:
        message = "a region with steps, or device='cpu', cannot be written to an array on a GPU: use like= instead of"
        raise ValueError(f"{message} out=")
    file = _core.File.of_buffer(_device.host_bytes(data, stream))

    def fill(target: NDArray[np.uint8], box: list[tuple[int, int]] | None) -> None:
        file.decompress_into(
            target, box, threads=threads, device=device, memory_limit=memory_limit, progress=progress
        )

    found = header_of_fields(file.header())
    if out is not None:
        if isinstance(out, np.ma.MaskedArray):
            raise TypeError("out is a masked array, whose mask would stay: pass out.data")
        read_region(found, fill, region, _device.host_array(out))
        return out
    array = np.asarray(read_region(found, fill, region, None))
    if ordinal is None or (target is None and like is not None):
        return _device.as_array_like(array, like)
    uploaded = _device.codec_for(ordinal).upload(as_bytes(little_endian(array)), core_name(array.dtype), array.shape)
    return _device.as_array_like(uploaded, like)


def read_region(
    header: Header,
    fill: Callable[[NDArray[np.uint8], list[tuple[int, int]] | None], None],
    region: Any,
    out: NDArray[Any] | None,
) -> NDArray[Any]:
    """Reads a region through ``fill(bytes, box)`` into ``out`` or a new array."""
    box, inner, shape = basic_index(region, header.shape)
    if out is not None:
        if out.shape != shape or out.dtype != header.dtype:
            raise ValueError(f"out has shape {out.shape} and type {out.dtype}, not {shape} and {header.dtype}")
        if not out.flags.writeable:
            raise ValueError("out is read-only")
    extents = [end - start for start, end in box]
    whole = tuple(extents) == header.shape
    direct = out is not None and inner is None and out.flags.c_contiguous and out.dtype.isnative
    part = out if direct and out is not None else np.empty(extents, header.dtype)
    fill(as_bytes(part.reshape(-1)), None if whole else box)
    if direct and out is not None:
        return out
    result = part if inner is None else part[inner].reshape(shape)
    if out is None:
        return result
    out[...] = result
    return out
