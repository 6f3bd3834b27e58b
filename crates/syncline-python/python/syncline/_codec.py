"""What the codecs of Zarr format 3 and of numcodecs share."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import _core
from ._advanced import advanced_text
from ._array import Bound, as_bytes, core_choices, little_endian
from ._core import CorruptError
from ._fill import fill_setting, without_mask
from ._types import core_name, number_dtype, number_shape


def options_of(codec: Any) -> dict[str, Any]:
    """Returns the settings of a codec, but for its bound and fill values, as :func:`syncline.compress` takes them."""
    return {key: getattr(codec, key) for key in ("effort", "advanced", "rewritable")}


def check(codec: Any) -> tuple[Bound, float | tuple[float, ...] | None]:
    """Checks the settings of a codec, before any chunk is there. Returns the bound and the fill setting.

    Raises:
        ValueError, TypeError: a setting is unknown, or the settings do not fit together.
    """
    bound, fill = Bound(codec.mode, codec.value), fill_setting(codec.fill)
    if not isinstance(codec.rewritable, bool):
        raise TypeError(f"rewritable must be true or false, not {codec.rewritable!r}")
    if bound.mode == "lossless" and bound.value != 0:
        raise ValueError("a lossless codec has no value: leave it out")
    _try(bound, codec.effort, advanced_text(codec.advanced), codec.rewritable)
    return bound, fill


@functools.lru_cache
def _try(bound: Bound, effort: Any, advanced: str, rewritable: bool) -> None:
    """Compresses one element, so that the core itself says what it refuses."""
    choices = core_choices(bound, None, effort, None, 1, "cpu", None, rewritable) | {"advanced": advanced}
    _core.compress(np.zeros(4, "u1"), "f32", (1,), choices, None)


def as_declared(array: Any, dtype: np.dtype[Any]) -> Any:
    """Returns the elements of a chunk as those of the type that its array has at this place among the codecs. Filters
    such as BitRound return the bits of floats as integers, and say nothing of it.

    Raises:
        TypeError: the elements have another size, or some are masked.
    """
    array = without_mask(array)
    if array.dtype.name == dtype.name:
        return array
    if array.dtype.itemsize != dtype.itemsize:
        raise TypeError(
            f"a filter made {array.dtype} of elements that the array declares as {dtype}: leave the filter out"
        )
    return array.view(dtype.newbyteorder(array.dtype.byteorder))


def piece_bound(array: Any, bound: Bound, fill: Any) -> tuple[Bound, Any]:
    """Returns the bound and the fill option for a chunk whose ends may be padding.

    Zarr fills the parts of a chunk that lie outside of the array with one value, which must not count in the range that
    a bound refers to. Planes at the ends of the axes that hold nothing but the value of the last element are taken for
    such parts. Where they are elements, the bound is tighter than it has to be.
    """
    if bound.mode not in ("rel", "psnr"):
        return bound, fill
    inner = _without_padding(array)
    if inner is None:
        return bound, fill
    inner = little_endian(np.asarray(inner))
    choices = core_choices(bound, fill, None, None, 1, "cpu", None)
    mode, value, fills = _core.resolve_piece(as_bytes(inner), core_name(inner.dtype), choices)
    return Bound(mode, value), fills


def _without_padding(array: Any) -> Any:
    """Returns the part of an array before what may be padding, or ``None`` if nothing, or all, may be padding."""
    if array.size == 0:
        return None
    last = array[(slice(-1, None),) * array.ndim]
    differs = (array != last) & ~((array != array) & (last != last))
    axes = range(array.ndim)
    planes = [differs.any(axis=tuple(other for other in axes if other != axis)) for axis in axes]
    stops = [int(plane.size - plane[::-1].argmax()) if plane.any() else 0 for plane in planes]
    if 0 in stops or tuple(stops) == array.shape:
        return None
    return array[tuple(map(slice, stops))]


def check_header(header: dict[str, Any], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Checks that the stream of a chunk has the chunk's type and shape, before anything is allocated for it.

    Raises:
        CorruptError: it has not.
    """
    name, extents = core_name(number_dtype(dtype)), tuple(header["shape"])
    expected = merged_shape(number_shape(dtype, shape))
    if header["dtype"] != name or extents != expected:
        raise CorruptError(f"the chunk holds {header['dtype']} of shape {extents}, not {name} of {expected}")


def merged_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the stream of a chunk. The slowest axes of more than four are merged; the shape of the chunk
    is in the metadata of the array.
    """
    return shape if len(shape) <= 4 else (math.prod(shape[:-3]), *shape[-3:])
