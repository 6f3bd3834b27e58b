"""Values that stand for missing data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

#: One value, several, ``"auto"`` (values are detected), or none.
Fill = float | Sequence[float] | Literal["auto", "none"] | None

#: The largest number of fill values of a stream.
MOST_FILLS = 4


def fill_values(fill: Any) -> tuple[float, ...]:
    """Returns the values of a fill option that names one or several, or none for ``"auto"``, ``"none"``, and ``None``.

    NaN is left out, because every NaN is kept in any case.

    Raises:
        ValueError: these are no numbers, or more than four.

    >>> fill_values([-9999, 1e20, float("nan")])
    (-9999.0, 1e+20)
    """
    if fill is None or (isinstance(fill, str) and fill in ("auto", "none")):
        return ()
    if isinstance(fill, str):
        raise ValueError(f"fill must be a number, several numbers, 'auto', or 'none', not {fill!r}")
    try:
        numbers = np.asarray(fill, np.float64).reshape(-1).tolist()
    except (TypeError, ValueError):
        raise ValueError(f"fill must be a number, several numbers, 'auto', or 'none', not {fill!r}") from None
    values = tuple(dict.fromkeys(number for number in numbers if not math.isnan(number)))
    if len(values) > MOST_FILLS:
        raise ValueError(
            f"there are {len(values)} fill values, but a stream holds at most {MOST_FILLS}: leave out the rarest ones"
        )
    return values


def fill_setting(fill: Any) -> float | tuple[float, ...] | None:
    """Returns the fill setting of a codec: one value as itself, several as a tuple, or ``None`` if there are none.

    Raises:
        ValueError: those of :func:`fill_values`, or a value that JSON, in which settings are stored, cannot express.
    """
    if isinstance(fill, str):
        raise ValueError(f"the fill setting of a codec must be a number or several numbers, not {fill!r}")
    values = fill_values(fill)
    if not all(map(math.isfinite, values)):
        raise ValueError(f"the fill values of a codec must be finite, not {fill!r}")
    return values[0] if len(values) == 1 else values or None


def without_mask(array: Any, fill: Any = None) -> Any:
    """Returns an array without a mask. Its masked elements become the fill value, or the first of several. Arrays of
    other kinds, and elements that are not masked, are returned as they are.

    Raises:
        TypeError: elements are masked, and no fill value is given.
        ValueError: the type of the array does not have the fill value.

    >>> without_mask(np.ma.masked_equal([1, 2, 3], 2), -1)
    array([ 1, -1,  3])
    """
    if not isinstance(array, np.ma.MaskedArray):
        return array
    masked = int(np.count_nonzero(np.ma.getmaskarray(array)))
    if not masked:
        return np.ma.getdata(array)
    if fill is None or isinstance(fill, str):
        raise TypeError(
            f"{masked} of {array.size} elements are masked, and a stream has no mask: give the value that stands for "
            "them as fill=VALUE, or pass array.filled(VALUE)"
        )
    fill_values(fill)
    value = np.asarray(fill, np.float64).reshape(-1)[0]
    if array.dtype.kind in "iu" and not (value.is_integer() and _in_range(array.dtype, int(value))):
        raise ValueError(f"the fill value {value:g} cannot stand for masked elements of {array.dtype}")
    return array.filled(value)


def _in_range(dtype: np.dtype[Any], value: int) -> bool:
    return bool(np.iinfo(dtype).min <= value <= np.iinfo(dtype).max)
