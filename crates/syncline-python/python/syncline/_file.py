"""Streams in files: written at once or in parts, and read in part."""

from __future__ import annotations

import builtins
import operator
import os
from typing import Any, BinaryIO, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core, _device
from ._advanced import Advanced
from ._array import (
    Bound,
    Effort,
    Header,
    Out,
    as_bytes,
    compress,
    core_choices,
    decompress,
    header_of_fields,
    little_endian,
    read_region,
)
from ._fill import Fill, without_mask
from ._options import Decompression
from ._types import as_numbers, core_name, is_exact, number_dtype, number_shape

#: A path, or a file object that reads bytes and seeks.
FileOrPath = str | os.PathLike[str] | BinaryIO


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
        fill: Fill = None,
        effort: Effort | None = None,
        advanced: Advanced | None = None,
        rewritable: bool = False,
        threads: int = 0,
        memory_limit: int | None = None,
    ) -> None:
        bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.shape: tuple[int, ...] = tuple(operator.index(extent) for extent in shape)
        if not self.shape:
            raise ValueError("a writer needs at least one axis")
        if bound.mode in ("rel", "psnr") and range is None:
            raise ValueError(
                f"the bound {bound.mode} refers to the range of the whole array, of which a writer sees one part at a "
                f"time: give range=(low, high), or abs= instead of {bound.mode}="
            )
        if is_exact(self.dtype):
            bound = Bound()
        #: The number of entries along the first axis that were appended.
        self.appended: int = 0
        self._fill = fill
        choices = core_choices(bound, fill, effort, advanced, threads, "cpu", memory_limit, rewritable)
        name, extents = core_name(number_dtype(self.dtype)), number_shape(self.dtype, self.shape)
        self._writer = _core.Writer(os.fspath(path), name, extents, choices, range)

    def append(self, array: ArrayLike) -> None:
        """Appends one entry along the first axis, or several as an array with all axes.

        Elements of another type are cast if that changes none of them: the error bound is about the elements as they
        were given. Masked elements become the fill value.

        Raises:
            TypeError: the elements are of another kind, such as floating-point numbers for a writer of integers, or
                masked without a fill value.
            ValueError: the shape does not fit, or an element changes when it is cast.
        """
        part = self._cast(np.asarray(without_mask(array, self._fill)))
        entries = 1
        if part.shape != self.shape[1:]:
            if part.ndim != len(self.shape) or part.shape[1:] != self.shape[1:]:
                raise ValueError(f"an array of shape {part.shape} does not continue one of shape {self.shape}")
            entries = len(part)
        if self.appended + entries > self.shape[0]:
            raise ValueError(f"the array has {self.shape[0]} entries along its first axis, not more")
        self._writer.append(as_bytes(little_endian(as_numbers(part))))
        self.appended += entries

    def _cast(self, part: NDArray[Any]) -> NDArray[Any]:
        """Returns the elements in the type of the writer."""
        if part.dtype == self.dtype or part.size == 0:
            return part.astype(self.dtype, copy=False)
        if not np.can_cast(part.dtype, self.dtype, "same_kind"):
            raise TypeError(
                f"{part.dtype} elements do not continue an array of {self.dtype}: make the writer with "
                f"dtype={part.dtype.name!r}, or append array.astype({self.dtype.name!r})"
            )
        with np.errstate(all="ignore"):
            cast = part.astype(self.dtype)
            changed = (cast.astype(part.dtype) != part) & (part == part)
        if changed.any():
            first = part[changed].flat[0]
            raise ValueError(
                f"{np.count_nonzero(changed)} of {part.size} elements change when they are cast from {part.dtype} to "
                f"{self.dtype}, such as {first!s}: make the writer with dtype={part.dtype.name!r}, or append "
                f"array.astype({self.dtype.name!r}), to which the error bound then refers"
            )
        return cast

    def close(self) -> None:
        """Completes the file.

        Raises:
            ValueError: entries are missing. The file does not appear.
        """
        self._writer.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._writer.abandon()


class File:
    """A stream in a file, read in part as it is indexed. It is closed by :meth:`close`, or at the end of a ``with``.

    >>> import numpy as np, syncline, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "field.syn")
    >>> syncline.save(path, np.arange(1000.0).reshape(10, 100), abs=1e-3)
    >>> field = syncline.open(path)
    >>> field.shape, field.dtype
    ((10, 100), dtype('float64'))
    >>> bool(abs(field[3, -1] - 399.0) <= 1e-3)
    True
    >>> field.close()
    """

    def __init__(self, file: FileOrPath, *, threads: int = 0, device: str = "auto") -> None:
        self._threads, self._device = threads, device
        #: The path, or the file object, which stays open when this is closed.
        self.source: FileOrPath = file if _is_readable(file) else os.fspath(file)
        readable: Any = file
        self._file = _core.File.of_object(readable) if _is_readable(file) else _core.File(os.fspath(readable))
        self.header: Header = header_of_fields(self._file.header())

    def close(self) -> None:
        """Closes the file. It cannot be indexed afterwards; closing it again does nothing."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file.closed

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.close()

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

        result = read_region(self.header, fill, index, None)
        return result[()] if result.shape == () else result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("a compressed array cannot become a NumPy array without a copy")
        return np.asarray(self[...], dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self.source, str):
            raise TypeError("only a file that was opened by its path can be pickled, not one of a file object")
        return (_open, (self.source, self._threads, self._device))

    def __repr__(self) -> str:
        state = "closed " if self.closed else ""
        contents = f"{self.dtype} {self.shape}, {self.bound}, ratio {self.ratio:.2f}"
        return f"<{state}syncline.File {self.source!r}: {contents}>"


def _is_readable(file: Any) -> bool:
    return hasattr(file, "read") and hasattr(file, "seek")


def _open(path: str, threads: int, device: str) -> File:
    return File(path, threads=threads, device=device)


def open(file: FileOrPath, *, threads: int = 0, device: str = "auto") -> File:
    """Opens a stream in a file, which is a path or a file object that reads bytes and seeks, such as ``io.BytesIO`` or
    one of ``fsspec``. Only the header and the chunk table are read until it is indexed.

    >>> import io, numpy as np, syncline
    >>> stream = syncline.compress(np.arange(10.0))
    >>> with syncline.open(io.BytesIO(stream)) as file:
    ...     file[2:4]
    array([2., 3.])
    """
    return File(file, threads=threads, device=device)


def save(file: str | os.PathLike[str] | BinaryIO, array: ArrayLike, **options: Any) -> None:
    """Compresses an array into a file, with the options of :func:`compress`.

    A file that is named appears when it is complete and on the disk, also if another process writes the same name. To
    a file object, the stream is written.
    """
    stream = _device.host_bytes(compress(array, **options))
    if hasattr(file, "write"):
        file.write(stream)
    else:
        _core.save(os.fspath(file), stream)


@overload
def load(
    file: FileOrPath, *, out: None = None, like: None = None, **options: Unpack[Decompression]
) -> NDArray[Any]: ...
@overload
def load(file: FileOrPath, *, out: Out, like: None = None, **options: Unpack[Decompression]) -> Out: ...
@overload
def load(file: FileOrPath, *, out: None = None, like: Any = None, **options: Unpack[Decompression]) -> Any: ...
def load(file: FileOrPath, **options: Any) -> Any:
    """Decompresses a file, which is a path or a file object, with the options of :func:`decompress`."""
    if _is_readable(file):
        return decompress(file.read(), **options)
    with builtins.open(file, "rb") as opened:
        return decompress(opened.read(), **options)
