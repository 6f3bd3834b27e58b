"""A numcodecs codec, for Zarr format 2, kerchunk, and whatever else takes one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._extras import missing

try:
    from numcodecs.abc import Codec
    from numcodecs.astype import AsType
    from numcodecs.compat import ensure_contiguous_ndarray, ensure_ndarray
except ModuleNotFoundError as _error:
    raise missing(_error, "zarr") from None

from . import _codec, _core
from ._advanced import Advanced
from ._array import Bound, as_bytes, compress, decompress
from ._core import CorruptError
from ._fill import Fill, without_mask
from ._types import as_numbers, is_exact, numpy_dtype


class Syncline(Codec):
    """Compresses chunks with Syncline. ``mode`` and ``value`` are those of :class:`syncline.Bound`, and ``effort``,
    ``fill``, and ``advanced`` those of :func:`syncline.compress`. Without ``fill``, fill values are detected:
    the fill value of an array is not known to its codecs.

    With ``rewritable``, the default, an ``abs`` or ``pw_rel`` bound holds for what was last written to each element,
    however often parts of a chunk are written; without it, chunks are smaller, but each time that a part of a chunk is
    written, the errors of its other elements can grow by up to the bound. ``rel`` and ``psnr`` bounds refer to the
    values of each chunk, since a codec sees one chunk at a time, and change with these:
    :func:`syncline.resolve` returns an absolute one for the whole array.

    Raises:
        ValueError, TypeError: a setting is unknown, or the settings do not fit together.
    """

    codec_id = "syncline"

    #: The most bytes that a chunk may have. A stream says how large its array is, and ``decode`` is not told what to
    #: expect, so that more would let a small damaged or hostile stream claim all memory.
    max_buffer_size = (1 << 31) - 1

    def __init__(
        self,
        mode: str = "lossless",
        value: float = 0.0,
        effort: str | None = None,
        fill: Fill = None,
        rewritable: bool = True,
        advanced: Advanced | None = None,
    ):
        self.mode: str = mode
        self.value: float = value
        self.effort: str | None = effort
        self.fill: Any = fill
        self.rewritable: bool = rewritable
        self.advanced: Advanced | None = advanced or None
        bound, setting = _codec.check(self)
        self.mode, self.value = bound.mode, bound.value
        # A list, as in JSON, so that codecs of equal settings are equal.
        self.fill = list(setting) if isinstance(setting, tuple) else setting

    def get_config(self) -> dict[str, Any]:
        """Returns the configuration for array metadata, without what is not set."""
        configuration = super().get_config()  # type: ignore[no-untyped-call]
        return {key: value for key, value in configuration.items() if value is not None}

    def encode(self, buf: Any) -> bytes:
        """Compresses an array, or the bytes of another buffer as `uint8`."""
        array = ensure_ndarray(without_mask(buf))
        if array.dtype == object:
            raise TypeError("object arrays cannot be compressed")
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            # Codecs handle memory order; Zarr format 2 restores the order after decoding.
            array = array.T
        bound = Bound() if is_exact(array.dtype) else Bound(self.mode, self.value)  # type: ignore[arg-type]
        if bound.mode != "lossless" and not hasattr(buf, "dtype"):
            raise ValueError("bytes have no error bound: encode an array")
        array = as_numbers(array)
        if not array.dtype.isnative:
            # What is decoded must have the same bytes, and streams are little-endian.
            if bound.mode != "lossless":
                raise ValueError(f"an error bound needs little-endian elements, not {array.dtype.str}")
            array = array.view(f"u{array.dtype.itemsize}")
        if array.nbytes > self.max_buffer_size:
            raise ValueError(
                f"the chunk has {array.nbytes} bytes, more than {self.max_buffer_size}: use smaller chunks"
            )
        fill = "auto" if self.fill is None else self.fill
        bound, fill = _codec.piece_bound(array, bound, fill)
        options = _codec.options_of(self)
        stream: bytes = compress(array, bound=bound, fill=fill, threads=1, device="cpu", **options)
        return stream

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Decompresses to a flat array in memory order, or into ``out``.

        Raises:
            SynclineError: the stream is damaged, or its array is larger than :attr:`max_buffer_size` or has not the
                size of ``out``.
        """
        stream = ensure_contiguous_ndarray(buf).view(np.uint8)
        header = _core.header(stream)
        size = numpy_dtype(header["dtype"]).itemsize * math.prod(header["shape"])
        target = None if out is None else as_bytes(ensure_contiguous_ndarray(out))
        if target is not None and size != target.nbytes:
            raise CorruptError(f"the stream holds {size} bytes, but out has {target.nbytes}")
        if size > self.max_buffer_size:
            raise CorruptError(f"the stream holds {size} bytes, but a chunk has at most {self.max_buffer_size}")
        if target is None:
            return decompress(stream, threads=1, device="cpu").reshape(-1)
        _core.decompress_into(stream, target, threads=1, device="cpu")
        return out


#: Types of elements by their numbers in the parameters of the HDF5 filter.
_ELEMENTS = {1: "f4", 2: "f8", 3: "f2", 5: "u1", 6: "u2", 7: "u4", 8: "u8", 9: "i1", 10: "i2", 11: "i4", 12: "i8"}

_BIG_ENDIAN, _CHECKSUM = 256, 512


def of_hdf5(parameters: Sequence[int]) -> list[Codec]:
    """Returns the codecs, in the order of encoding, that read the chunks of an HDF5 dataset with Syncline's filter as
    those of an array of Zarr format 2. ``parameters`` are those in the file (``cd_values``), which h5py gives as
    ``dataset._filters["47501"]``. For what makes references to chunks, such as kerchunk.

    The codecs have no error bound: they are for reading, and datasets with different bounds have equal codecs. A chunk
    that HDF5 stored without the filter, since it would not have become smaller, is no stream and fails to decode.

    Raises:
        ValueError: the parameters are not those of a dataset in a file, or chunks have a Fletcher-32 checksum before
            they are compressed, which no codec removes.
    """
    from .h5py import parameters as settings

    # After the settings and the second to the fourth fill value.
    place = len(settings(Bound())) + 2 * max(parameters[4] - 2, 0) if len(parameters) > 4 else 0
    kind = parameters[place] if len(parameters) > place > 0 else 0
    element = _ELEMENTS.get(kind % _BIG_ENDIAN)
    if element is None or kind >= 2 * _CHECKSUM:
        raise ValueError(f"not the parameters of a dataset in a file: {tuple(parameters)}")
    if kind & _CHECKSUM:
        raise ValueError("the chunks have a Fletcher-32 checksum before they are compressed")
    if kind & _BIG_ENDIAN and element[1] != "1":
        # Streams are little-endian.
        swapped = AsType(f"<{element}", f">{element}")  # type: ignore[no-untyped-call]
        return [swapped, Syncline()]
    return [Syncline()]
