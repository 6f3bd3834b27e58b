import os
from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = [
    "Corrupt",
    "File",
    "GpuError",
    "NotSyncline",
    "PartialStream",
    "SynclineError",
    "Truncated",
    "UnsupportedVersion",
    "Writer",
    "__version__",
    "compress",
    "decompress_into",
    "header",
    "inspect",
    "max_compressed_len",
    "verify",
]

__version__: str

class SynclineError(ValueError): ...
class NotSyncline(SynclineError): ...
class UnsupportedVersion(SynclineError): ...
class Truncated(SynclineError): ...
class Corrupt(SynclineError): ...
class GpuError(RuntimeError): ...

_Progress = Callable[[int, int], object] | None
_Region = Sequence[tuple[int, int]] | None

def compress(
    data: Any, dtype: str, shape: Sequence[int], choices: dict[str, Any], progress: _Progress = None
) -> bytes: ...
def decompress_into(
    stream: Any,
    out: Any,
    region: _Region = None,
    *,
    threads: int = 0,
    device: str = "auto",
    memory_limit: int | None = None,
    progress: _Progress = None,
) -> None: ...
def header(stream: Any) -> dict[str, Any]: ...
def inspect(stream: Any) -> dict[str, Any]: ...
def verify(
    data: Any, dtype: str, shape: Sequence[int], stream: Any, *, threads: int = 0, device: str = "auto"
) -> dict[str, Any]: ...
def max_compressed_len(dtype: str, shape: Sequence[int]) -> int: ...

@final
class File:
    def __new__(cls, path: str | os.PathLike[str]) -> File: ...
    def header(self) -> dict[str, Any]: ...
    def decompress_into(
        self,
        out: Any,
        region: _Region = None,
        *,
        threads: int = 0,
        device: str = "auto",
        memory_limit: int | None = None,
        progress: _Progress = None,
    ) -> None: ...

@final
class PartialStream:
    HEAD_BYTES: int
    def __new__(cls, head: Any, tail: Any) -> PartialStream: ...
    def missing(self) -> tuple[int, int] | None: ...
    def add(self, offset: int, bytes: Any) -> None: ...
    def header(self) -> dict[str, Any]: ...
    def byte_ranges(self, region: Sequence[tuple[int, int]]) -> list[tuple[int, int]]: ...
    def decompress_into(
        self, out: Any, region: Sequence[tuple[int, int]], *, threads: int = 1, device: str = "cpu"
    ) -> None: ...

@final
class Writer:
    def __new__(
        cls,
        path: str | os.PathLike[str],
        dtype: str,
        shape: Sequence[int],
        choices: dict[str, Any],
        range: tuple[float, float] | None = None,
    ) -> Writer: ...
    def append(self, data: Any) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...
