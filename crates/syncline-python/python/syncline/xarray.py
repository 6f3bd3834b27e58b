"""Encodings that store Xarray datasets in Zarr with error bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from . import __version__
from ._advanced import Advanced
from ._array import Bound, Effort
from ._cf import KEPT, LOSSY, StoredVariable, exact_reasons
from ._types import core_name
from .numcodecs import Syncline
from .zarr import SynclineCodec

__all__ = ["annotate", "encoding", "exact_reasons"]


def encoding(
    dataset: Any,
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    per_variable: Mapping[str, Bound] | None = None,
    effort: Effort | None = None,
    fill: float | Sequence[float] | None = None,
    rewritable: bool = False,
    advanced: Advanced | None = None,
    zarr_format: Literal[2, 3] = 3,
) -> dict[str, dict[str, Any]]:
    """Returns the ``encoding`` argument of ``Dataset.to_zarr`` for all data variables of a dataset.

    Variables of ``float16``, ``float32``, and ``float64`` get the error bound; ``per_variable`` has other bounds by
    name. A bound that refers to the range takes that of the whole variable, which is computed here, once. Bounds
    are those of the values that are read: a ``scale_factor`` and a cast to the type in the encoding count. Other
    variables are lossless, and types that Syncline does not have keep Zarr's defaults. So are variables that
    describe others, unless ``per_variable`` has a bound for them: times, coordinates, and what ``bounds`` and
    similar attributes name (:func:`exact_reasons`). The ``_FillValue`` and the ``missing_value`` of a variable are
    kept exactly, and so is ``fill``, one value or several in all variables; the range excludes them. ``effort`` and
    ``advanced`` are those of :func:`syncline.compress`. With ``rewritable``, the bound also holds if parts of
    chunks are written later, as by ``region`` or ``append_dim``, which takes larger chunks
    (:class:`syncline.zarr.SynclineCodec`). ``zarr_format`` is that of ``to_zarr``.

    Raises:
        ValueError: a variable with a bound is stored as integers, or storing it changes values by more than the bound
            already; or ``per_variable`` has a bound for a variable that can have none, or that is not there.

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
    default = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    per_variable = dict(per_variable or {})
    unknown = sorted(set(per_variable) - set(dataset.data_vars))
    if unknown:
        raise ValueError(f"the dataset has no data variable {', '.join(map(repr, unknown))}")
    reasons = exact_reasons(dataset)
    encodings = {}
    for name, data in dataset.data_vars.items():
        variable = data.variable
        bound = _requested_bound(name, variable, default, per_variable, reasons)
        settings: dict[str, Any] = {"effort": effort, "rewritable": rewritable, "advanced": advanced}
        if bound.mode != "lossless":
            stored = StoredVariable(name, variable, fill)
            bound = stored.stored_bound(bound)
            settings["fill"] = stored.fills
        if zarr_format == 2:
            codecs: dict[str, Any] = {"compressors": (Syncline(bound.mode, bound.value, **settings),), "filters": None}
        else:
            codecs = {"serializer": SynclineCodec(bound.mode, bound.value, **settings), "compressors": None}
        # The argument of `to_zarr` replaces the encoding of a variable, so that these would be lost.
        kept = {key: variable.encoding[key] for key in KEPT if key in variable.encoding}
        # A variable may be stored as another type than it has in memory.
        if _has_type(variable.encoding.get("dtype") or variable.dtype):
            encodings[name] = kept | codecs
    return encodings


def _requested_bound(
    name: Any, variable: Any, default: Bound, per_variable: Mapping[str, Bound], reasons: Mapping[Any, str]
) -> Bound:
    """Returns the bound that is wanted for the values of a variable."""
    own = per_variable.get(name)
    if own is None:
        return Bound() if name in reasons else default
    if own.mode != "lossless" and variable.dtype.name not in LOSSY:
        raise ValueError(f"{name!r} can have no error bound: {reasons[name]}")
    return own


def _has_type(dtype: Any) -> bool:
    """Returns whether Syncline has an element type."""
    try:
        core_name(np.dtype(dtype))
    except TypeError:
        return False
    return True


def annotate(dataset: Any, encoding: Mapping[str, Mapping[str, Any]]) -> Any:
    """Returns the dataset with attributes that tell readers of the error bounds.

    Each variable with an error bound gets ``lossy_compression`` (the name of the method),
    ``lossy_compression_implementation``, and ``lossy_compression_maximum_absolute_error`` or, for ``pw_rel``,
    ``lossy_compression_maximum_relative_error``. They follow the names that were proposed for the CF conventions, whose
    ``quantization`` attributes (CF 1.12, section 8.4) describe the rounding of bits only.
    """
    annotated = dataset.copy()
    for name, settings in encoding.items():
        codec = settings.get("serializer") or next(iter(settings.get("compressors") or ()), None)
        if not isinstance(codec, SynclineCodec | Syncline) or codec.mode == "lossless":
            continue
        attributes = annotated[name].attrs
        attributes["lossy_compression"] = "syncline"
        attributes["lossy_compression_implementation"] = f"syncline {__version__}"
        if kind := {"abs": "absolute", "pw_rel": "relative"}.get(codec.mode):
            bound = Bound(codec.mode, codec.value)  # type: ignore[arg-type]
            variable = dataset[name].variable.copy(deep=False)
            variable.encoding = dict(settings)
            # Values in memory that stand for missing data are known if they are stored as they are.
            scaled = variable.encoding.keys() & {"scale_factor", "add_offset"}
            bound = StoredVariable(name, variable, None if scaled else codec.fill).read_bound(bound)
            attributes[f"lossy_compression_maximum_{kind}_error"] = bound.value
    return annotated
