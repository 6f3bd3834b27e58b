"""Syncline's HDF5 filter for h5py and h5netcdf, and its parameters for all programs that use HDF5.

Importing this module makes the filter known to h5py, for reading and writing. Other packages and programs have HDF5
libraries of their own: :func:`register` makes the filter known to that of a package such as netCDF4 or PyTables, and
``HDF5_PLUGIN_PATH=$(python -c "import syncline.h5py; print(syncline.h5py.PLUGIN_PATH)")`` to programs such as h5dump.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import pathlib
import struct
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, Literal

from . import _core
from ._advanced import Advanced, advanced_text
from ._advice import warn_at_caller
from ._array import Bound, Effort
from ._fill import fill_values

#: Number of the filter, from the range that HDF5 leaves to filters that are not registered.
FILTER_ID = 47501

#: Folder that contains the filter as a plugin, for the environment variable ``HDF5_PLUGIN_PATH``. HDF5 libraries read
#: it when they are loaded.
PLUGIN_PATH = str(pathlib.Path(__file__).parent / "hdf5")

_VERSION = 1
_MODES = ("lossless", "abs", "rel", "psnr", "pw_rel")
_EFFORTS = (None, "fast", "balanced", "best")
_ONCE = 1 << 8


def register(package: ModuleType) -> None:
    """Makes the filter known to the HDF5 library of a package that has been imported, such as netCDF4 or PyTables.

    For h5py, the import of this module has done it. Raises ``ValueError`` for a package that uses no HDF5 library, and
    ``OSError`` if the library does not take the filter.

    >>> import h5py
    >>> register(h5py)
    >>> bool(h5py.h5z.filter_avail(FILTER_ID))
    True
    """
    for file in _libraries(package):
        # The GIL is kept, as by callers of HDF5.
        function = getattr(ctypes.PyDLL(file), "H5Zregister", None)
        if function is None:
            continue
        function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_int
        if function(_core.hdf5_filter()) < 0:
            raise OSError(f"the HDF5 library of {package.__name__} does not take the filter")
        return
    raise ValueError(f"{package.__name__} uses no HDF5 library: give a package such as netCDF4 or tables")


def _libraries(package: ModuleType) -> Iterator[str]:
    """Yields the files in which functions of the HDF5 library of a package may be found."""
    if sys.platform == "win32":
        # A module there has no functions of the libraries that it uses. These are in the package, beside it, or in the
        # folder of conda, and are loaded already.
        folder = pathlib.Path(package.__file__ or "").parent
        for place in (folder, folder.with_name(f"{folder.name}.libs"), pathlib.Path(sys.prefix, "Library", "bin")):
            yield from sorted(map(str, place.glob("*hdf5*.dll")))
        return
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.split(".")[0] == package.__name__ and file and file.endswith(suffixes):
            yield file


def parameters(
    bound: Bound,
    *,
    fill: float | Sequence[float] | Literal["file", "none"] = "file",
    effort: Effort | None = None,
    rewritable: bool = True,
    advanced: Advanced | None = None,
) -> tuple[int, ...]:
    """Returns the numbers that HDF5 stores with a dataset and passes to the filter (its ``cd_values``).

    ``fill`` is the value, or up to four, that stand for missing data; ``"file"`` takes the one that the dataset
    declares, or else detects them. ``rewritable`` is that of :func:`filter`.

    >>> from syncline import Bound
    >>> parameters(Bound("abs", 1e-3))
    (1, 1, 3539053052, 1062232653, 0, 0, 0, 0, 0)
    """
    if effort not in _EFFORTS:
        raise ValueError(f"unknown effort {effort!r}: use fast, balanced, or best")
    if isinstance(fill, str) and fill not in ("file", "none"):
        raise ValueError(f"fill must be a number, several numbers, 'file', or 'none', not {fill!r}")
    values = () if isinstance(fill, str) else fill_values(fill)
    first, *others = values or (0.0,)
    # The number of fill values plus 1; 0 stands for the dataset's.
    count = 0 if isinstance(fill, str) and fill == "file" else 1 + len(values)
    choices = (_EFFORTS.index(effort) + (0 if rewritable else _ONCE), _core.hdf5_advanced(advanced_text(advanced)))
    start = (_VERSION, _MODES.index(bound.mode), *_halves(bound.value), count, *_halves(first), *choices)
    return start + tuple(half for value in others for half in _halves(value))


def filter(
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    fill: float | Sequence[float] | Literal["file", "none"] = "file",
    effort: Effort | None = None,
    rewritable: bool = True,
    advanced: Advanced | None = None,
) -> dict[str, Any]:
    """Returns the keywords of ``create_dataset`` for one error bound; without one, the dataset is lossless.

    ``rel`` and ``psnr`` refer to the values of each chunk, since HDF5 compresses one chunk at a time; ``abs`` is the
    same for all chunks. HDF5 rewrites a chunk when a part of it is written: with ``rewritable``, the default, each
    element is then within ``abs`` or ``pw_rel`` of what was last written to it, and without, chunks are smaller, and
    each time can add an error of up to the bound. Integers count whole errors, and enumerations, such as
    Booleans, are always lossless. ``fill`` is that of :func:`parameters`; ``effort`` and ``advanced`` are those of
    :func:`syncline.compress`.

    >>> filter(abs=1e-3)["compression"]
    47501
    """
    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    values = parameters(bound, fill=fill, effort=effort, rewritable=rewritable, advanced=advanced)
    return {"compression": FILTER_ID, "compression_opts": values}


def _halves(value: float) -> tuple[int, int]:
    """Returns the lower and the upper 32 bits of a binary64."""
    low, high = struct.unpack("<II", struct.pack("<d", value))
    return low, high


try:
    import h5py as _h5py
except ImportError:
    # The parameters are useful without it.
    pass
else:
    try:
        register(_h5py)
    except (OSError, ValueError) as _error:
        if sys.platform != "win32":
            raise
        warn_at_caller(f"h5py does not know the filter: {_error}")
