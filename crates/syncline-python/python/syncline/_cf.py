"""Which variables of an Xarray dataset get an error bound, and which one: the only place where this is decided.

These variables are exact, for the first reason in this list that applies:

1. Their elements in memory are no ``float16``, ``float32``, or ``float64``: integers, text, times of any kind.
2. They are times that are not decoded: their ``units`` are such as "days since 2000-01-01".
3. They are coordinates of the dataset, have an ``axis``, or have the ``units`` of latitudes or longitudes.
4. They hold names or classes: they have ``flag_values``, ``flag_masks``, or a ``cf_role``.
5. Another variable, or the dataset, names them in an attribute of :data:`_NAMING`, such as ``bounds``.

A bound that is given to a variable by its name overrules all but the first reason.

All others get the bound. It is that of the values that are read: what storing them changes without compression (a cast
to ``float32``, a ``scale_factor``) is a part of it, and errors grow by the ``scale_factor``. Floats that are stored as
integers can have none. ``_FillValue`` and ``missing_value`` are exact and outside of the range. All attributes count,
wherever Xarray has them: in ``attrs`` or in ``encoding``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._array import Bound
from ._fill import fill_values
from ._range import computed, extremes

#: Attributes in which a variable names others.
_NAMING = (
    "ancillary_variables",
    "bounds",
    "cell_measures",
    "climatology",
    "coordinate_interpolation",
    "coordinates",
    "edge_coordinates",
    "face_coordinates",
    "formula_terms",
    "geometry",
    "grid_mapping",
    "interior_ring",
    "node_coordinates",
    "node_count",
    "part_node_count",
    "volume_coordinates",
)

#: Attributes in which a word with a colon at its end is a key and no name.
_WITH_KEYS = ("cell_measures", "formula_terms")

#: Parts of a variable's encoding that say how its values are stored and what they mean.
KEPT = (
    "_FillValue",
    "_Unsigned",
    "add_offset",
    "calendar",
    "dtype",
    "missing_value",
    "scale_factor",
    "units",
    *_NAMING,
)

_TIME_UNITS = re.compile(r"\s*[a-z]+\s+since\s+\S", re.IGNORECASE)
_DEGREES = re.compile(r"degrees?_?(north|east|N|E)")
#: Types of variables that have bounds. Integers are mostly labels, or packed.
LOSSY = ("float16", "float32", "float64")


def attribute(variable: Any, name: str) -> Any:
    """Returns an attribute of a variable, wherever Xarray has it, or ``None``."""
    value = variable.attrs.get(name)
    return variable.encoding.get(name) if value is None else value


def exact_reasons(dataset: Any) -> dict[Any, str]:
    """Returns the exact variables of a dataset with the reason of each, in a few words."""
    named = _named(dataset)
    reasons = {name: _own_reason(name, dataset) or named.get(name) for name in dataset.variables}
    return {name: reason for name, reason in reasons.items() if reason}


def _own_reason(name: Any, dataset: Any) -> str | None:
    """Returns why a variable is exact whatever others say of it."""
    variable = dataset.variables[name]
    if variable.dtype.name not in LOSSY:
        return f"its type is {variable.dtype}"
    units = str(attribute(variable, "units"))
    if _TIME_UNITS.match(units):
        return f"it is a time in {units}"
    if name in dataset.coords or attribute(variable, "axis") is not None or _DEGREES.fullmatch(units):
        return "it is a coordinate"
    for key in ("flag_values", "flag_masks", "cf_role"):
        if attribute(variable, key) is not None:
            return f"it has {key}"
    return None


def _named(dataset: Any) -> dict[str, str]:
    """Returns the variables that other variables, or the dataset, name, with the reason for the first of these."""
    reasons: dict[str, str] = {}
    for owner, variable in dataset.variables.items():
        for key in _NAMING:
            for name in _names(key, attribute(variable, key)):
                if name != owner:
                    reasons.setdefault(name, f"{key} of {owner} names it")
    for name in _names("coordinates", dataset.attrs.get("coordinates") or dataset.encoding.get("coordinates")):
        reasons.setdefault(name, "coordinates of the dataset names it")
    return reasons


def _names(key: str, value: Any) -> Iterator[str]:
    """Returns the names of variables in the value of an attribute."""
    for word in value.split() if isinstance(value, str) else ():
        if not (key in _WITH_KEYS and word.endswith(":")):
            yield word.removesuffix(":")


class StoredVariable:
    """A floating-point variable, and what becomes of its values when it is stored and read without compression."""

    def __init__(self, name: Any, variable: Any, fill: Any = None) -> None:
        """Takes a variable and the values that stand for missing data in it, besides those that it declares.

        Raises:
            ValueError: it is not stored as floats, or has more than four fill values.
        """
        self._name, self._variable = name, variable
        self._stored_type = np.dtype(variable.encoding.get("dtype") or variable.dtype)
        if self._stored_type.name not in LOSSY:
            raise ValueError(
                f"{name!r} has an error bound but is stored as {self._stored_type}, which rounds its values: remove "
                "dtype, scale_factor, and add_offset from its encoding to store floats, or give it Bound() in "
                "per_variable to keep what is stored now"
            )
        scaling = ("scale_factor", "add_offset")
        #: Whether Xarray scales the values when it stores them. Values that it read without scaling are stored as such.
        self._scales = any(variable.encoding.get(key) is not None for key in scaling)
        scale, offset = (attribute(variable, key) for key in scaling)
        self._scale = 1.0 if scale is None else abs(float(scale))
        self._offset = 0.0 if offset is None else abs(float(offset))
        declared = [value for key in ("_FillValue", "missing_value") for value in fill_values(attribute(variable, key))]
        named = fill_values(fill)
        #: The values in memory that stand for missing data.
        self._fills = named if self._scales else fill_values([*declared, *named])
        #: The stored values that stand for missing data.
        self.fills = fill_values([*declared, *self._stored(named)]) if self._scales else self._fills

    def stored_bound(self, bound: Bound) -> Bound:
        """Returns the bound of the stored values with which the values that are read have ``bound``. It is absolute for
        one that is relative to the range. Takes a pass over the variable if it has to.

        Raises:
            ValueError: no bound of the stored values is enough.
        """
        if bound.mode == "lossless":
            return bound
        if bound.mode == "pw_rel":
            if self._offset:
                raise ValueError(
                    f"{self._name!r} is stored with an add_offset, which a pw_rel bound does not allow: use abs"
                )
            loss = self._relative_loss()
            value = (bound.value - loss) / (1 + loss)
        else:
            extent, loss = self._extent_and_loss(bound.is_of_range)
            read = bound.of_extent(extent)
            if read.mode == "lossless":
                return read
            value = (read.value - loss) / self._scale
        if self._changes:
            value = math.nextafter(value, -math.inf)
        if not value > 0:
            raise ValueError(
                f"storing {self._name!r} as {self._stored_type} changes its values by up to {loss:.3g} without any "
                f"compression, so that its {bound.mode} bound of {bound.value:g} cannot hold: remove dtype, "
                f"scale_factor, and add_offset from its encoding to store {self._variable.dtype}, or give a larger "
                "bound"
            )
        return Bound("pw_rel" if bound.mode == "pw_rel" else "abs", value)

    def read_bound(self, bound: Bound) -> Bound:
        """Returns the bound of the values that are read for a ``bound`` of the stored values."""
        if bound.mode == "pw_rel":
            loss = self._relative_loss()
            return Bound("pw_rel", bound.value * (1 + loss) + loss)
        return Bound("abs", bound.value * self._scale + self._extent_and_loss(False)[1])

    @property
    def _is_scaled(self) -> bool:
        return self._scale != 1 or self._offset != 0

    @property
    def _changes(self) -> bool:
        """Whether values can change when they are stored and read without compression."""
        return self._is_scaled or not np.can_cast(self._variable.dtype, self._stored_type, "safe")

    def _extent_and_loss(self, range_matters: bool) -> tuple[float, float]:
        """Returns the range of the values that are read, and by how much the values change at most when they are stored
        and read without compression. Both are 0 if nobody needs to look at the values.
        """
        if not (self._changes or range_matters):
            return 0.0, 0.0
        known, meant, loss = self._counting(), self._meant(), (0.0, 0.0)
        if self._changes:
            loss = extremes(abs(self._read() - meant).data, known)
        low, high, _, most = computed(*extremes(meant.data, known), *loss)
        return high - low, max(most, 0.0) + self._rounding * (max(abs(low), abs(high)) + 2 * self._offset)

    def _relative_loss(self) -> float:
        """Returns the largest change of a value, relative to it, when it is stored and read without compression."""
        if not self._changes:
            return 0.0
        meant = self._meant()
        change = abs(self._read() - meant) / abs(meant).where(meant != 0, np.finfo("f8").tiny)
        _, most = computed(*extremes(change.data, self._counting()))
        return max(most, 0.0) + self._rounding

    @property
    def _rounding(self) -> float:
        """How much the arithmetic of scaling changes compressed values when they are read, relative to their size."""
        return 4 * float(np.finfo(self._decoded().dtype).eps) if self._is_scaled else 0.0

    def _meant(self) -> Any:
        """Returns the variable as it should be read."""
        values = self._variable.astype("f8")
        if self._scales or not self._is_scaled:
            return values
        scale, offset = (attribute(self._variable, key) for key in ("scale_factor", "add_offset"))
        return values * float(1 if scale is None else scale) + float(offset or 0)

    def _read(self) -> Any:
        """Returns the variable as it is read after it was stored without compression."""
        return self._decoded().astype("f8")

    def _decoded(self) -> Any:
        import xarray

        stored = xarray.conventions.encode_cf_variable(self._variable, name=self._name)
        # Zarr keeps attributes as JSON, which has one type of floating-point numbers.
        plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in stored.attrs.items()}
        stored = xarray.Variable(stored.dims, stored.data, plain)
        return xarray.conventions.decode_cf_variable(self._name, stored, decode_times=False)

    def _stored(self, values: Any) -> Any:
        """Returns values in memory as they are stored."""
        import xarray

        keys = ("dtype", "scale_factor", "add_offset")
        encoding = {key: self._variable.encoding[key] for key in keys if key in self._variable.encoding}
        short = xarray.Variable(("n",), np.asarray(values, self._variable.dtype), encoding=encoding)
        return xarray.conventions.encode_cf_variable(short).values

    def _counting(self) -> Any:
        """Returns which elements are finite and stand for no missing data."""
        known = np.isfinite(self._variable)
        if self._fills:
            # Declared values are rounded to the stored type, and so are the elements when they are stored.
            rounded = self._variable if self._scales else self._variable.astype(self._stored_type)
            for value in self._fills:
                known &= rounded != rounded.dtype.type(value)
        return known.data
