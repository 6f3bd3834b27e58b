import os
from collections.abc import Callable, Sequence
from typing import Any, final

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
