"""A Zarr format 3 codec (array to bytes) that decodes only the tiles that a selection needs."""

from __future__ import annotations

import asyncio
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
from zarr.core.common import parse_named_configuration

from ._array import Bound, compress, core_name, decompress

__all__ = ["SynclineCodec", "encoding"]


@dataclass(frozen=True)
class SynclineCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """``{"name": "syncline", "configuration": {"mode": "abs", "value": 0.001}}``

    Pass it as ``serializer=`` together with ``compressors=None``: Zarr's default compressor would compress the streams
    again and switch partial decoding off. ``rel`` and ``psnr`` bounds refer to the values of each chunk. The array's
    fill value is kept exactly.
    """

    codec_name: ClassVar[str] = "syncline"
    is_fixed_size: ClassVar[bool] = False

    mode: str = "lossless"
    value: float = 0.0
    coder: str | None = None
    level: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", self.bound.value)

    @property
    def bound(self) -> Bound:
        """The error bound."""
        return Bound(self.mode, self.value)  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Makes the codec of a configuration in array metadata."""
        _, configuration = parse_named_configuration(data, "syncline", require_configuration=False)
        configuration = dict(configuration or {})
        unknown = sorted(configuration.keys() - {"mode", "value", "coder", "level"})
        if unknown:
            from . import __version__

            raise ValueError(f"Syncline {__version__} does not know the codec settings {', '.join(unknown)}")
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration for array metadata."""
        configuration: dict[str, Any] = {"mode": self.mode}
        if self.mode != "lossless":
            configuration["value"] = self.value
        configuration |= {key: value for key in ("coder", "level") if (value := getattr(self, key)) is not None}
        return {"name": "syncline", "configuration": configuration}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Streams have no fixed size."""
        raise NotImplementedError

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Checks that arrays of this type and rank can be compressed."""
        native = dtype.to_native_dtype()
        core_name(native)
        if self.mode != "lossless" and native.name not in ("float32", "float64"):
            raise ValueError(f"error bounds are for float32 and float64, not {native.name}: use mode='lossless'")
        if self.mode in ("rel", "psnr"):
            warnings.warn(
                f"the {self.mode} bound refers to the values of each chunk: use abs for one bound over the whole array",
                UserWarning,
                stacklevel=2,
            )

    def _encode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        fill: Any = chunk_spec.fill_value
        # Zero is Zarr's default and an ordinary value in most data.
        fill = float(fill) if self.mode != "lossless" and fill is not None and fill != 0 else "auto"
        array = _at_most_four_axes(chunk_data.as_numpy_array())
        coder: Any = self.coder
        stream = compress(
            array, bound=self.bound, fill=fill, coder=coder, level=self.level, threads=1, device="cpu"
        )
        return chunk_spec.prototype.buffer.from_bytes(stream)

    def _decode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        array = decompress(chunk_data.as_numpy_array(), threads=1, device="cpu").reshape(chunk_spec.shape)
        return self._typed(array, chunk_spec)

    @staticmethod
    def _typed(array: Any, chunk_spec: Any) -> Any:
        native = chunk_spec.dtype.to_native_dtype()
        return chunk_spec.prototype.nd_buffer.from_numpy_array(np.asarray(array).astype(native, copy=False))

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _decode_selection(self, stream: Any, selection: Any, chunk_spec: Any) -> Any:
        shape = chunk_spec.shape
        box = _bounding_box(selection, shape) if len(shape) <= 4 else None
        data = stream.as_numpy_array()
        if box is None:
            part = decompress(data, threads=1, device="cpu").reshape(shape)[selection]
        else:
            region, inner = box
            part = decompress(data, region=region, threads=1, device="cpu")[inner]
        return self._typed(part, chunk_spec)

    async def _decode_partial_single(self, byte_getter: Any, selection: Any, chunk_spec: Any) -> Any:
        stream = await byte_getter.get(prototype=chunk_spec.prototype)
        if stream is None:
            return None
        return await asyncio.to_thread(self._decode_selection, stream, selection, chunk_spec)

    def _decode_partial_sync(self, byte_getter: Any, selection: Any, chunk_spec: Any) -> Any:
        stream = byte_getter.get_sync(prototype=chunk_spec.prototype)
        return None if stream is None else self._decode_selection(stream, selection, chunk_spec)


def encoding(
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
) -> dict[str, Any]:
    """Returns keyword arguments for ``zarr.create_array``, or an Xarray encoding, that compress with this bound.

    >>> import numpy as np, syncline.zarr, zarr
    >>> array = zarr.create_array({}, shape=(64, 64), chunks=(32, 32), dtype="f4", **syncline.zarr.encoding(abs=1e-3))
    >>> array[:] = np.ones((64, 64), "f4")
    >>> float(array[3, 3])
    1.0
    """
    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    return {"serializer": SynclineCodec(bound.mode, bound.value), "compressors": None}


def _at_most_four_axes(array: Any) -> Any:
    """Merges the slowest axes of an array with more than four; the chunk's shape is in the array's metadata."""
    return array if array.ndim <= 4 else array.reshape(-1, *array.shape[-3:])


def _bounding_box(selection: Any, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[Any, ...]] | None:
    """Returns the box that has all elements of a selection and the selection inside of it, or ``None`` if it is too
    irregular to have one.
    """
    region: list[slice] = []
    inner: list[Any] = []
    selection = selection if isinstance(selection, tuple) else (selection,)
    if len(selection) != len(shape):
        return None
    for item, extent in zip(selection, shape, strict=True):
        if isinstance(item, slice):
            steps = range(*item.indices(extent))
            low, high = (min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1) if steps else (0, 0)
            inner.append(slice(None, None, steps.step) if steps else slice(0, 0))
        elif isinstance(item, (int, np.integer)):
            low = int(item) % extent
            high = low + 1
            inner.append(0)
        else:
            positions = np.asarray(item)
            if positions.dtype == bool or positions.size == 0:
                return None
            low, high = int(positions.min()), int(positions.max()) + 1
            if low < 0:
                return None
            inner.append(positions - low)
        region.append(slice(low, high))
    return tuple(region), tuple(inner)
