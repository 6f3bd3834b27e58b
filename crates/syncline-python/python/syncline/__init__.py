"""Syncline compresses numeric arrays: lossless, or lossy with a guaranteed error bound."""

from ._array import Bound, File, Header, compress, decompress, header, load, open, save
from ._core import (
    Corrupt,
    GpuError,
    NotSyncline,
    SynclineError,
    Truncated,
    UnsupportedVersion,
    __version__,
)

__all__ = [
    "Bound",
    "Corrupt",
    "File",
    "GpuError",
    "Header",
    "NotSyncline",
    "SynclineError",
    "Truncated",
    "UnsupportedVersion",
    "__version__",
    "compress",
    "decompress",
    "header",
    "load",
    "open",
    "save",
]
