"""Dask arrays to Zarr, with one error bound over the whole array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._array import Bound, Effort, resolve
from .zarr import SynclineCodec

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
    compute: bool = True,
    **options: Any,
) -> Any:
    """Compresses a Dask array into a Zarr array whose chunks are those of the Dask array.

    A relative bound takes two passes over the array: one for its value range, one for compression, so that each element
    has the same absolute bound whatever chunk it is in. ``effort`` is that of :func:`syncline.compress`;
    ``fill`` names up to four values that stand for missing data, by default the ``fill_value`` of the Zarr array unless
    that is 0; ``options`` are those of ``zarr.create_array``. With ``compute=False`` the second pass is returned as a
    delayed object.

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

    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    if bound.mode == "rel":
        bound = resolve(array, rel=bound.value, fill=options.get("fill_value") or None if fill is None else fill)
    if not all(set(sizes[:-1]) <= {sizes[0]} and sizes[-1] <= sizes[0] for sizes in array.chunks):
        raise ValueError("the chunks along an axis must have one size, but for the last: call rechunk() first")
    target = zarr.create_array(
        store,
        shape=array.shape,
        dtype=array.dtype,
        chunks=options.pop("chunks", array.chunksize),
        serializer=SynclineCodec(bound.mode, bound.value, effort=effort, fill=fill),
        compressors=None,
        **options,
    )
    return dask.array.store(array, target, lock=False, compute=compute, return_stored=False)
