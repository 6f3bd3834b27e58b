"""Encodings that store Xarray datasets in Zarr with error bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import __version__
from ._array import Bound, Effort, resolve
from ._fill import fill_setting, fill_values
from ._types import core_name
from .zarr import SynclineCodec

__all__ = ["annotate", "encoding"]

#: Parts of a variable's encoding that say how values are stored.
_KEPT = ("_FillValue", "missing_value", "dtype", "scale_factor", "add_offset", "units", "calendar")


def encoding(
    dataset: Any,
    *,
    abs: float | None = None,
    rel: float | None = None,
    pw_rel: float | None = None,
    per_variable: Mapping[str, Bound] | None = None,
    effort: Effort | None = None,
    fill: float | Sequence[float] | None = None,
) -> dict[str, dict[str, Any]]:
    """Returns the ``encoding`` argument of ``Dataset.to_zarr`` for all data variables of a dataset.

    Variables of ``float32`` and ``float64`` get the error bound; ``per_variable`` has other bounds by name. A relative
    bound refers to the value range of the whole variable, which is computed here, once. Bounds are those of the values
    that are read, after a ``scale_factor``. Other variables are lossless,
    and types that Syncline does not have keep Zarr's defaults. The ``_FillValue`` and the ``missing_value`` in the
    encoding of a variable are kept exactly, and so is ``fill``, one value or several for all variables; the range
    excludes them. ``effort`` is that of :func:`syncline.compress` for variables with a bound.

    >>> import numpy as np, syncline, syncline.xarray, xarray
    >>> temperature = 280 + np.random.default_rng(0).normal(size=(20, 30)).astype("f4")
    >>> dataset = xarray.Dataset({"t": (("y", "x"), temperature)})
    >>> store = {}
    >>> encoding = syncline.xarray.encoding(dataset, abs=0.01)
    >>> _ = syncline.xarray.annotate(dataset, encoding).to_zarr(store, encoding=encoding, consolidated=False)
    >>> with xarray.open_zarr(store, consolidated=False) as back:
    ...     print(bool(abs(back.t - temperature).max() <= 0.01))
    ...     print(back.t.attrs["lossy_compression_maximum_absolute_error"])
    True
    0.01
    """
    default = Bound.of(abs=abs, rel=rel, pw_rel=pw_rel)
    per_variable = dict(per_variable or {})
    unknown = sorted(set(per_variable) - set(dataset.data_vars))
    if unknown:
        raise ValueError(f"the dataset has no data variable {', '.join(map(repr, unknown))}")
    encodings = {}
    for name, variable in dataset.data_vars.items():
        # A variable may be stored as another type than it has in memory.
        stored = np.dtype(variable.encoding.get("dtype", variable.dtype))
        try:
            core_name(stored)
        except TypeError:
            continue
        bound, fills = Bound(), None
        if stored.name in ("float32", "float64"):
            fills = fill_setting(_declared_fills(variable.encoding) + fill_values(fill))
            bound = per_variable.get(name, default)
            if bound.mode == "rel":
                bound = resolve(variable.data, rel=bound.value, fill=fills)
            bound = _stored_bound(bound, variable.encoding, name)
        # The argument of `to_zarr` replaces the encoding of a variable, so that these would be lost.
        kept = {key: variable.encoding[key] for key in _KEPT if key in variable.encoding}
        chosen = None if bound.mode == "lossless" else effort
        codec = SynclineCodec(bound.mode, bound.value, effort=chosen, fill=fills)
        encodings[name] = {**kept, "serializer": codec, "compressors": None}
    return encodings


def _stored_bound(bound: Bound, encoding: Mapping[str, Any], name: Any) -> Bound:
    """Returns the bound for the stored values of a variable, which a ``scale_factor`` and an ``add_offset`` change."""
    if bound.mode == "pw_rel" and encoding.get("add_offset", 0) != 0:
        raise ValueError(f"{name!r} is stored with an add_offset, which a pw_rel bound does not allow: use abs")
    return Bound("abs", bound.value / _scale(encoding)) if bound.mode == "abs" else bound


def _scale(encoding: Mapping[str, Any]) -> float:
    """Returns the factor by which errors of stored values grow when they are read."""
    return abs(float(encoding.get("scale_factor") or 1))


def _declared_fills(encoding: Mapping[str, Any]) -> tuple[float, ...]:
    """Returns the values that the encoding of a variable declares as missing data."""
    declared = (encoding.get(name) for name in ("_FillValue", "missing_value"))
    return tuple(value for values in declared for value in fill_values(values))


def annotate(dataset: Any, encoding: Mapping[str, Mapping[str, Any]]) -> Any:
    """Returns the dataset with attributes that tell readers of the error bounds.

    Each variable with an error bound gets ``lossy_compression`` (the name of the method),
    ``lossy_compression_implementation``, and ``lossy_compression_maximum_absolute_error`` or, for ``pw_rel``,
    ``lossy_compression_maximum_relative_error``. They follow the names that were proposed for the CF conventions, whose
    ``quantization`` attributes (CF 1.12, section 8.4) describe the rounding of bits only.
    """
    annotated = dataset.copy()
    for name, variable in encoding.items():
        codec = variable.get("serializer")
        if not isinstance(codec, SynclineCodec) or codec.mode == "lossless":
            continue
        kind = {"abs": "absolute", "pw_rel": "relative"}.get(codec.mode)
        annotated[name].attrs["lossy_compression"] = "syncline"
        annotated[name].attrs["lossy_compression_implementation"] = f"syncline {__version__}"
        if kind:
            scale = _scale(variable) if kind == "absolute" else 1
            annotated[name].attrs[f"lossy_compression_maximum_{kind}_error"] = codec.value * scale
    return annotated
