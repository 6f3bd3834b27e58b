"""Arrays to streams and back: what NumPy knows, for a core that knows bytes."""

from __future__ import annotations

import builtins
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core

Coder = Literal["auto", "huffman", "lzss", "lzss+huffman"]
Index = Literal["symbol", "gap", "none"]
Mode = Literal["lossless", "abs", "rel", "psnr", "pw_rel"]
Progress = Callable[[int, int], object]

_CORE_NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
_NUMPY_NAMES = {core: name for name, core in _CORE_NAMES.items()}


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


def resolve(array: Any, *, rel: float) -> Bound:
    """Returns the absolute bound that is ``rel`` times the value range of a whole array. The range is that of the
    finite values. A Dask array is computed once.

    Codecs of chunked formats see one chunk at a time, so that a relative bound would differ from chunk to chunk.

    >>> import numpy as np, syncline
    >>> syncline.resolve(np.array([1.0, 5.0, np.nan]), rel=1e-2)
    Bound(mode='abs', value=0.04)
    """
    if hasattr(array, "__dask_graph__"):
        import dask.array
        import dask.base

        finite = dask.array.isfinite(array)
        ends = (dask.array.where(finite, array, np.inf).min(), dask.array.where(finite, array, -np.inf).max())
        low, high = dask.base.compute(*ends)
    else:
        elements = np.asarray(array)
        elements = elements[np.isfinite(elements)]
        low, high = (elements.min(), elements.max()) if elements.size else (np.inf, -np.inf)
    extent = float(high) - float(low)
    # An array of one value, or of none, needs no error.
    return Bound("abs", rel * extent) if np.isfinite(extent) and extent > 0 else Bound()


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
    compressed_bytes: int

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def ratio(self) -> float:
        """The bytes of the array divided by the bytes of the stream."""
        return self.nbytes / self.compressed_bytes


def core_name(dtype: np.dtype[Any]) -> str:
    """Returns the name of a NumPy type in the core."""
    try:
        return _CORE_NAMES[dtype.name]
    except KeyError:
        message = f"Syncline has no element type {dtype.name}: use one of {', '.join(_CORE_NAMES)}"
        raise TypeError(message) from None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns the little-endian NumPy type for a name in the core."""
    name = _NUMPY_NAMES[name]
    if name == "bfloat16":
        import ml_dtypes  # NumPy has no such type of its own.

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(np.dtype(name).newbyteorder("<").str)


def as_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Returns the bytes of a C-contiguous array without a copy, for any element type."""
    return array.reshape(-1).view(np.uint8)


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """Returns the array in C order and little-endian; it is copied only if it is not."""
    dtype = array.dtype if array.dtype.kind == "V" else array.dtype.newbyteorder("<")
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


def compress(
    array: ArrayLike,
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    bound: Bound | None = None,
    fill: float | Literal["auto", "none"] | None = "auto",
    coder: Coder | None = None,
    level: int | None = None,
    index: Index = "symbol",
    threads: int = 0,
    device: str = "auto",
    memory_limit: int | None = None,
    progress: Progress | None = None,
) -> bytes:
    """Compresses an array.

    Give one error bound, as ``abs``, ``rel``, ``psnr``, or ``pw_rel`` or as a :class:`Bound`; without one the stream is
    lossless. ``fill`` is the value that stands for missing data, which is kept exactly and excluded from the range.
    ``coder`` defaults to ``"auto"`` for lossless streams and to ``"huffman"`` with a bound; ``level`` (1 to 9) is that
    of LZSS. ``threads=0`` uses all cores. ``progress(done, total)`` is called with numbers of elements about ten times
    a second; an exception that it raises cancels the work.

    Arrays of any strides and byte order are accepted; those that are not C-contiguous and little-endian are copied.

    >>> import numpy as np, syncline
    >>> field = np.sin(np.linspace(0, 10, 10_000, dtype=np.float32)).reshape(100, 100)
    >>> stream = syncline.compress(field, abs=1e-3)
    >>> bool(np.max(np.abs(syncline.decompress(stream) - field)) <= 1e-3)
    True
    """
    if bound is None:
        bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    elif (abs, rel, psnr, pw_rel) != (None,) * 4:
        raise TypeError("give the error bound once: as bound=, or as one of abs=, rel=, psnr=, and pw_rel=")
    elements = np.asarray(array)
    name = core_name(elements.dtype)
    elements = little_endian(elements)
    choices = _choices(bound, fill, coder, level, index, threads, device, memory_limit)
    return _core.compress(as_bytes(elements), name, elements.shape, choices, progress)


def _choices(
    bound: Bound,
    fill: float | Literal["auto", "none"] | None,
    coder: Coder | None,
    level: int | None,
    index: Index,
    threads: int,
    device: str,
    memory_limit: int | None,
) -> dict[str, Any]:
    """Returns the choices for compression as the core takes them."""
    if isinstance(fill, str) and fill not in ("auto", "none"):
        raise ValueError(f"fill must be a number, 'auto', or 'none', not {fill!r}")
    return {
        "mode": bound.mode,
        "value": bound.value,
        "fill": None if fill is None or isinstance(fill, str) else float(fill),
        "detect_fill": fill == "auto",
        "coder": coder,
        "level": level,
        "index": index,
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
    elements = np.asarray(array)
    name = core_name(elements.dtype)
    elements = little_endian(elements)
    return Quality(**_core.verify(as_bytes(elements), name, elements.shape, data, threads=threads, device=device))


def inspect(data: Any) -> dict[str, Any]:
    """Returns the header of a stream as a dictionary, with the counts and the sizes in bytes of its parts. Every chunk
    is checked.

    >>> import numpy as np, syncline
    >>> syncline.inspect(syncline.compress(np.zeros((64, 64), "f4"), abs=0.5))["tiles"]
    4
    """
    return _core.inspect(data)


def max_compressed_len(dtype: Any, shape: tuple[int, ...]) -> int:
    """Returns the number of bytes that the stream of such an array has at most."""
    return _core.max_compressed_len(core_name(np.dtype(dtype)), shape)


class Writer:
    """Compresses an array that comes in parts along its first axis, such as the steps of a simulation, into a file.

    The bound is one of ``abs`` and ``pw_rel``, or with ``range=(low, high)``, the range of the whole array, also
    ``rel`` and ``psnr``. The file appears under its name when the writer is closed and complete.

    >>> import numpy as np, syncline, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "steps.syn")
    >>> with syncline.Writer(path, (3, 100), "f8", abs=1e-3) as writer:
    ...     for step in range(3):
    ...         writer.append(np.full(100, float(step)))
    >>> bool(abs(syncline.open(path)[2, 5] - 2) <= 1e-3)
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: tuple[int, ...],
        dtype: Any,
        *,
        abs: float | None = None,
        rel: float | None = None,
        psnr: float | None = None,
        pw_rel: float | None = None,
        range: tuple[float, float] | None = None,
        fill: float | Literal["auto", "none"] | None = None,
        coder: Coder | None = None,
        level: int | None = None,
        index: Index = "symbol",
        threads: int = 0,
        memory_limit: int | None = None,
    ) -> None:
        bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
        self.dtype, self.shape = np.dtype(dtype), tuple(operator.index(extent) for extent in shape)
        if not self.shape:
            raise ValueError("a writer needs at least one axis")
        #: The number of entries along the first axis that were appended.
        self.appended = 0
        self._path = os.fspath(path)
        self._temporary = _temporary_name(path)
        choices = _choices(bound, fill, coder, level, index, threads, "cpu", memory_limit)
        self._writer = _core.Writer(self._temporary, core_name(self.dtype), self.shape, choices, range)

    def append(self, array: ArrayLike) -> None:
        """Appends one entry along the first axis, or several as an array with all axes."""
        part = np.asarray(array, self.dtype)
        entries = 1
        if part.shape != self.shape[1:]:
            if part.ndim != len(self.shape) or part.shape[1:] != self.shape[1:]:
                raise ValueError(f"an array of shape {part.shape} does not continue one of shape {self.shape}")
            entries = len(part)
        if self.appended + entries > self.shape[0]:
            raise ValueError(f"the array has {self.shape[0]} entries along its first axis, not more")
        self._writer.append(as_bytes(little_endian(part)))
        self.appended += entries

    def close(self) -> None:
        """Completes the file.

        Raises:
            ValueError: entries are missing. The file does not appear.
        """
        try:
            self._writer.close()
            if os.path.exists(self._temporary):
                os.replace(self._temporary, self._path)
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        self._writer.abandon()
        try:
            os.unlink(self._temporary)
        except FileNotFoundError:
            pass

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._discard()


def _temporary_name(path: str | os.PathLike[str]) -> str:
    return f"{os.fspath(path)}.{os.getpid()}.partial"


def header(data: Any) -> Header:
    """Returns the header of a stream in memory.

    >>> import numpy as np, syncline
    >>> syncline.header(syncline.compress(np.zeros((3, 4), "f4"), abs=0.5)).bound
    Bound(mode='abs', value=0.5)
    """
    return _header(_core.header(data))


def _header(fields: dict[str, Any]) -> Header:
    return Header(
        dtype=numpy_dtype(fields["dtype"]),
        shape=tuple(fields["shape"]),
        bound=Bound(fields["mode"], fields["value"]),
        abs_bound=fields["abs_bound"],
        step=fields["step"],
        range=fields["range"],
        compressed_bytes=fields["compressed_bytes"],
    )


def decompress(
    data: Any,
    *,
    region: Any = None,
    out: NDArray[Any] | None = None,
    threads: int = 0,
    device: str = "auto",
    memory_limit: int | None = None,
    progress: Progress | None = None,
) -> NDArray[Any]:
    """Decompresses a stream, or a region of it.

    ``region`` is a basic NumPy index (``np.s_[3:10, ::2, -1]``); only the tiles that it meets are decoded. ``out`` is
    an array of the result's shape and type, which is filled and returned.

    >>> import numpy as np, syncline
    >>> stream = syncline.compress(np.arange(12).reshape(3, 4))
    >>> syncline.decompress(stream, region=np.s_[1:, ::-2])
    array([[ 7,  5],
           [11,  9]])
    """

    def fill(target: NDArray[np.uint8], box: list[tuple[int, int]] | None) -> None:
        _core.decompress_into(
            data, target, box, threads=threads, device=device, memory_limit=memory_limit, progress=progress
        )

    return _read(header(data), fill, region, out)


def _read(
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


def basic_index(
    index: Any, shape: tuple[int, ...]
) -> tuple[list[tuple[int, int]], tuple[Any, ...] | None, tuple[int, ...]]:
    """Splits a basic NumPy index into the box that has all of its elements, the index inside of the box (``None`` if it
    is the whole box), and the shape of the result.
    """
    items = index if isinstance(index, tuple) else (Ellipsis,) if index is None else (index,)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if any(item is None for item in items):
        raise IndexError("np.newaxis is not supported here: add axes to the result")
    if Ellipsis not in [item for item in items if item is Ellipsis]:
        items = (*items, Ellipsis)
    at = next(i for i, item in enumerate(items) if item is Ellipsis)
    missing = len(shape) - (len(items) - 1)
    if missing < 0:
        raise IndexError(f"too many indices: the array has {len(shape)} axes, but {len(items) - 1} were indexed")
    items = (*items[:at], *(slice(None),) * missing, *items[at + 1 :])
    box: list[tuple[int, int]] = []
    inner: list[Any] = []
    result: list[int] = []
    for axis, (item, extent) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, slice):
            steps = range(*item.indices(extent))
            low, high = (min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1) if steps else (0, 0)
            box.append((low, high))
            # A step of -1 or another one applies to the box, whose first or last element is the first of the slice.
            inner.append(slice(None, None, steps.step) if steps else slice(0, 0))
            result.append(len(steps))
            continue
        try:
            number = operator.index(item)
        except TypeError:
            raise IndexError("only integers, slices (`:`), and ellipsis (`...`) are valid indices") from None
        if not -extent <= number < extent:
            raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
        box.append((number % extent, number % extent + 1))
        inner.append(0)
    whole = all(isinstance(item, slice) and item.step in (None, 1) for item in inner)
    return box, None if whole else tuple(inner), tuple(result)


class File:
    """A stream in a file, read in part as it is indexed.

    >>> import numpy as np, syncline, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "field.syn")
    >>> syncline.save(path, np.arange(1000.0).reshape(10, 100), abs=1e-3)
    >>> field = syncline.open(path)
    >>> field.shape, field.dtype
    ((10, 100), dtype('float64'))
    >>> bool(abs(field[3, -1] - 399.0) <= 1e-3)
    True
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int = 0, device: str = "auto") -> None:
        self._file = _core.File(os.fspath(path))
        self._threads, self._device, self._path = threads, device, os.fspath(path)
        self.header = _header(self._file.header())

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the array."""
        return self.header.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type."""
        return self.header.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """The bytes of the array."""
        return self.header.nbytes

    @property
    def ratio(self) -> float:
        """The bytes of the array divided by the bytes of the file."""
        return self.header.ratio

    @property
    def bound(self) -> Bound:
        """The error bound that was asked for."""
        return self.header.bound

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        def fill(target: NDArray[np.uint8], box: list[tuple[int, int]] | None) -> None:
            self._file.decompress_into(target, box, threads=self._threads, device=self._device)

        result = _read(self.header, fill, index, None)
        return result[()] if result.shape == () else result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a compressed array cannot become a NumPy array without a copy")
        return np.asarray(self[...], dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_open, (self._path, self._threads, self._device))

    def __repr__(self) -> str:
        return f"<syncline.File {self._path!r}: {self.dtype} {self.shape}, {self.bound}, ratio {self.ratio:.2f}>"


def _open(path: str, threads: int, device: str) -> File:
    return File(path, threads=threads, device=device)


def open(path: str | os.PathLike[str], *, threads: int = 0, device: str = "auto") -> File:
    """Opens a stream in a file. Only its header and chunk table are read until it is indexed."""
    return File(path, threads=threads, device=device)


def save(path: str | os.PathLike[str], array: ArrayLike, **options: Any) -> None:
    """Compresses an array into a file, with the options of :func:`compress`. The file appears when it is complete."""
    stream = compress(array, **options)
    temporary = _temporary_name(path)
    try:
        with builtins.open(temporary, "wb") as file:
            file.write(stream)
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        raise


def load(path: str | os.PathLike[str], **options: Any) -> NDArray[Any]:
    """Decompresses a file, with the options of :func:`decompress`."""
    with builtins.open(path, "rb") as file:
        return decompress(file.read(), **options)
