"""Parameters of Syncline's HDF5 filter, for h5py, h5netcdf, PyTables, and HDF5's command-line tools.

The filter itself is the C library ``libsyncline.so``; HDF5 finds it in the folder that ``HDF5_PLUGIN_PATH`` names.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Literal

from ._array import Bound, Coder, Effort, check_effort
from ._fill import fill_values

#: Number of the filter, from the range that HDF5 leaves to filters that are not registered.
FILTER_ID = 47501

_VERSION = 1
_MODES = ("lossless", "abs", "rel", "psnr", "pw_rel")
_CODERS = (None, "auto", "huffman", "lzss", "lzss+huffman")
_EFFORTS = (None, "fast", "balanced", "best")


def parameters(
    bound: Bound,
    *,
    fill: float | Sequence[float] | Literal["file", "none"] = "file",
    coder: Coder | None = None,
    level: int | None = None,
    effort: Effort | None = None,
) -> tuple[int, ...]:
    """Returns the numbers that HDF5 stores with a dataset and passes to the filter (its ``cd_values``).

    ``fill`` is the value, or up to four, that stand for missing data; ``"file"`` takes the one that the dataset
    declares, or else detects them.

    >>> from syncline import Bound
    >>> parameters(Bound("abs", 1e-3))
    (1, 1, 3539053052, 1062232653, 0, 0, 0, 0)
    """
    if coder not in _CODERS:
        raise ValueError(f"unknown coder {coder!r}: use auto, huffman, lzss, or lzss+huffman")
    if level is not None and not 1 <= level <= 9:
        raise ValueError(f"level must be from 1 to 9, not {level}")
    check_effort(effort)
    if isinstance(fill, str) and fill not in ("file", "none"):
        raise ValueError(f"fill must be a number, several numbers, 'file', or 'none', not {fill!r}")
    values = () if isinstance(fill, str) else fill_values(fill)
    first, *others = values or (0.0,)
    # The number of fill values plus 1; 0 stands for the dataset's.
    count = 0 if isinstance(fill, str) and fill == "file" else 1 + len(values)
    choice = _CODERS.index(coder) + 256 * (level or 0) + 65536 * _EFFORTS.index(effort)
    start = (_VERSION, _MODES.index(bound.mode), *_halves(bound.value), count, *_halves(first), choice)
    return start + tuple(half for value in others for half in _halves(value))


def filter(
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    fill: float | Sequence[float] | Literal["file", "none"] = "file",
    coder: Coder | None = None,
    level: int | None = None,
    effort: Effort | None = None,
) -> dict[str, Any]:
    """Returns the keywords of ``create_dataset`` for one error bound; without one, the dataset is lossless.

    ``rel`` and ``psnr`` refer to the values of each chunk, since HDF5 compresses one chunk at a time; ``abs`` is the
    same for all chunks. Integers are always lossless. ``fill`` is that of :func:`parameters`; ``coder``, ``level``, and
    ``effort`` are those of :func:`syncline.compress`.

    >>> filter(abs=1e-3)["compression"]
    47501
    """
    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    values = parameters(bound, fill=fill, coder=coder, level=level, effort=effort)
    return {"compression": FILTER_ID, "compression_opts": values}


def _halves(value: float) -> tuple[int, int]:
    """Returns the lower and the upper 32 bits of a binary64."""
    low, high = struct.unpack("<II", struct.pack("<d", value))
    return low, high
