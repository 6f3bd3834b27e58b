"""A numcodecs codec, for Zarr format 2, kerchunk, and whatever else takes one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numcodecs.abc import Codec
from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray

from . import _core
from ._array import Bound, as_bytes, check_effort, compress, decompress
from ._fill import Fill, fill_setting


class Syncline(Codec):
    """Compresses chunks with Syncline. ``mode`` and ``value`` are those of :class:`syncline.Bound`, and ``coder``,
    ``level``, ``effort``, and ``fill`` those of :func:`syncline.compress`. Without ``fill``, fill values are detected:
    the fill value of an array is not known to its codecs.

    ``rel`` and ``psnr`` bounds refer to the values of each chunk, since a codec sees one chunk at a time.
    """

    codec_id = "syncline"

    def __init__(
        self,
        mode: str = "lossless",
        value: float = 0.0,
        coder: str | None = None,
        level: int | None = None,
        effort: str | None = None,
        fill: Fill = None,
    ):
        bound = Bound(mode, value)  # type: ignore[arg-type]
        self.mode, self.value, self.coder, self.level = bound.mode, bound.value, coder, level
        self.effort = check_effort(effort)
        setting = fill_setting(fill)
        # A list, as in JSON, so that codecs of equal settings are equal.
        self.fill = list(setting) if isinstance(setting, tuple) else setting

    def encode(self, buf: Any) -> bytes:
        """Compresses an array, or the bytes of another buffer as `uint8`."""
        array = ensure_ndarray(buf)
        if array.dtype == object:
            raise TypeError("object arrays cannot be compressed")
        if array.dtype.kind in "mMb":
            # Times and Booleans are compressed as integers.
            kind = "u" if array.dtype.kind == "b" else "i"
            array = array.view(f"{kind}{array.dtype.itemsize}")
        if not array.dtype.isnative:
            # What is decoded must have the same bytes, and streams are little-endian.
            if self.mode != "lossless":
                raise ValueError(f"an error bound needs little-endian elements, not {array.dtype.str}")
            array = array.view(f"u{array.dtype.itemsize}")
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            # Codecs handle memory order; Zarr format 2 restores the order after decoding.
            array = array.T
        bound = Bound(self.mode, self.value)
        coder: Any = self.coder
        fill: Any = "auto" if self.fill is None else self.fill
        stream: bytes = compress(
            array, bound=bound, fill=fill, coder=coder, level=self.level, effort=self.effort, threads=1, device="cpu"
        )
        return stream

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decompresses to a flat array in memory order, or into ``out``."""
        stream = ensure_contiguous_ndarray(buf).view(np.uint8)
        if out is None:
            return decompress(stream, threads=1, device="cpu").reshape(-1)
        target = ensure_contiguous_ndarray(out)
        _core.decompress_into(stream, as_bytes(target), threads=1, device="cpu")
        return out
