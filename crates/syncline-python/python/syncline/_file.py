"""Streams in files: written at once or in parts, and read in part."""

from __future__ import annotations

import builtins
import operator
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core, _device
from ._array import (
    Bound,
    Coder,
    Effort,
    Index,
    Tile,
    as_bytes,
    compress,
    core_choices,
    decompress,
    header_of_fields,
    little_endian,
    read_region,
)
from ._fill import Fill
from ._types import core_name


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
        coder: Coder | None = None,
        level: int | None = None,
        effort: Effort | None = None,
        tile: Tile | None = None,
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
        choices = core_choices(bound, fill, coder, level, effort, index, threads, "cpu", memory_limit, tile)
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
        self.header = header_of_fields(self._file.header())

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
    stream = _device.host_bytes(compress(array, **options))
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


def load(path: str | os.PathLike[str], **options: Any) -> Any:
    """Decompresses a file, with the options of :func:`decompress`."""
    with builtins.open(path, "rb") as file:
        return decompress(file.read(), **options)
