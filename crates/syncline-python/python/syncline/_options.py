"""Types of the options of functions, for type checkers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._advanced import Advanced
    from ._array import Bound, Effort, Progress
    from ._fill import Fill

#: Arrays that are in host memory for certain. Those of other libraries can be on a GPU.
HostArray = NDArray[Any] | np.generic | complex | Sequence[Any]

#: Streams that are in host memory for certain.
HostStream = bytes | bytearray | memoryview | NDArray[np.uint8]


class Compression(TypedDict, total=False):
    """Those of :func:`syncline.compress` but for where the stream goes."""

    abs: float | None
    rel: float | None
    psnr: float | None
    pw_rel: float | None
    lossless: bool
    bound: Bound | None
    fill: Fill
    effort: Effort | None
    advanced: Advanced | None
    rewritable: bool
    threads: int
    device: str
    memory_limit: int | None
    progress: Progress | None


class Decompression(TypedDict, total=False):
    """Those of :func:`syncline.decompress` but for where the array goes."""

    region: Any
    threads: int
    device: str
    memory_limit: int | None
    progress: Progress | None
    stream: Any
