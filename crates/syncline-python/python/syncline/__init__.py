"""Syncline compresses numeric arrays: lossless, or lossy with a guaranteed error bound."""

from ._advanced import Advanced
from ._advice import SynclineWarning
from ._array import (
    Bound,
    Header,
    Quality,
    compress,
    compress_bound,
    decompress,
    header,
    inspect,
    resolve,
    verify,
)
from ._core import (
    CorruptError,
    GpuError,
    NotSynclineError,
    SynclineError,
    TruncatedError,
    UnsupportedVersionError,
    __version__,
)
from ._file import File, Writer, load, open, save
from ._report import Estimate, Report, estimate, report

__all__ = [
    "Advanced",
    "Bound",
    "CorruptError",
    "Estimate",
    "File",
    "GpuError",
    "Header",
    "NotSynclineError",
    "Quality",
    "Report",
    "SynclineError",
    "SynclineWarning",
    "TruncatedError",
    "UnsupportedVersionError",
    "Writer",
    "__version__",
    "compress",
    "compress_bound",
    "decompress",
    "estimate",
    "header",
    "inspect",
    "load",
    "open",
    "report",
    "resolve",
    "save",
    "verify",
]
