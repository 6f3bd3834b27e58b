"""Syncline compresses numeric arrays: lossless, or lossy with a guaranteed error bound."""

from ._advice import SynclineWarning
from ._array import (
    Bound,
    Header,
    Quality,
    compress,
    decompress,
    header,
    inspect,
    max_compressed_len,
    resolve,
    verify,
)
from ._core import (
    Corrupt,
    GpuError,
    NotSyncline,
    SynclineError,
    Truncated,
    UnsupportedVersion,
    __version__,
)
from ._file import File, Writer, load, open, save
from ._report import Estimate, Report, estimate, report

__all__ = [
    "Bound",
    "Corrupt",
    "Estimate",
    "File",
    "GpuError",
    "Header",
    "NotSyncline",
    "Quality",
    "Report",
    "SynclineError",
    "SynclineWarning",
    "Truncated",
    "UnsupportedVersion",
    "Writer",
    "__version__",
    "compress",
    "decompress",
    "estimate",
    "header",
    "inspect",
    "load",
    "max_compressed_len",
    "open",
    "report",
    "resolve",
    "save",
    "verify",
]
