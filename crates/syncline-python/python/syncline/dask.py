"""Dask arrays to Zarr, with one error bound over the whole array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._advanced import Advanced
from ._array import Bound, Effort
from ._fill import without_mask
from .zarr import SynclineCodec, bound_of_array

__all__ = ["to_zarr"]


def to_zarr(
    array: Any,
    store: Any,
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    effort: Effort | None = None,
    fill: float | Sequence[float] | None = None,
    rewritable: bool = False,
    advanced: Advanced | None = None,
    compute: bool = True,
    **options: Any,
) -> Any:
    """Compresses a Dask array into a Zarr array whose chunks are those of the Dask array, or as ``options`` say.

    A bound that refers to the range takes two passes over the array: one for its value range, one for compression, so
    that each element has the same absolute bound whatever chunk it is in. ``effort`` and ``advanced`` are
    those of :func:`syncline.compress`; ``fill`` names up to four values that stand for missing data, by default the
    ``fill_value`` of the Zarr array unless that is 0; ``options`` are those of ``zarr.create_array``. If its ``chunks``
    or ``shards`` are not those of the Dask array, this is rechunked, so that no two tasks write to one of them. With
    ``rewritable``, the bound also holds if parts of chunks are written later, which takes larger chunks
    (:class:`syncline.zarr.SynclineCodec`). With ``compute=False`` the second pass is returned as a delayed object.

    Raises:
        ValueError: the sizes of chunks are unknown, or those along an axis differ and ``options`` has no others.
        TypeError: the elements are masked.

    >>> import dask.array, syncline.dask, zarr
    >>> array = dask.array.arange(1000, chunks=100, dtype="f8")
    >>> store = {}
    >>> syncline.dask.to_zarr(array, store, rel=1e-3)
    >>> stored = zarr.open_array(store)
    >>> stored.metadata.codecs[0].bound
    Bound(mode='abs', value=0.999)
    """
    import dask.array
    import zarr

    if isinstance(array._meta, np.ma.MaskedArray):
        raise TypeError("a masked array would lose its mask: fill it before, as by dask.array.ma.filled(array, value)")
    if any(math.isnan(extent) for extent in array.shape):
        raise ValueError("the sizes of the chunks are unknown: call compute_chunk_sizes() first")
    if "chunks" not in options:
        if not all(set(sizes[:-1]) <= {sizes[0]} and sizes[-1] <= sizes[0] for sizes in array.chunks):
            raise ValueError("the chunks along an axis must have one size, but for the last: call rechunk() first")
        options["chunks"] = tuple(max(1, extent) for extent in array.chunksize)
    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    bound = bound_of_array(array, bound, fill, options.get("fill_value"))
    settings: dict[str, Any] = {"effort": effort, "fill": fill, "rewritable": rewritable, "advanced": advanced}
    codec = SynclineCodec(bound.mode, bound.value, **settings)
    target = zarr.create_array(
        store, shape=array.shape, dtype=array.dtype, serializer=codec, compressors=None, **options
    )
    array = array.rechunk(_aligned(array.chunks, target.shards or target.chunks))
    # Blocks can have masks of which the array does not know.
    array = array.map_blocks(without_mask, dtype=array.dtype, meta=array._meta)
    return dask.array.store(array, target, lock=False, compute=compute, return_stored=False)


def _aligned(chunks: tuple[tuple[int, ...], ...], units: tuple[int, ...]) -> tuple[tuple[int, ...] | int, ...]:
    """Returns chunks of a Dask array that each have whole units along each axis, and about the sizes that they had."""
    aligned: list[tuple[int, ...] | int] = []
    for sizes, unit in zip(chunks, units, strict=True):
        if all(size % unit == 0 for size in sizes[:-1]):
            aligned.append(sizes)
        else:
            aligned.append(unit * max(1, round(max(sizes) / unit)))
    return tuple(aligned)
