"""Warnings about fill values and ranges, as the command gives them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np


class SynclineWarning(UserWarning):
    """The result is what was asked for, but probably not what was meant."""


def warn(advice: tuple[Any, Any], dtype: np.dtype[Any]) -> None:
    """Warns of what the core found in an array of this type."""
    far, near = advice
    if far is not None:
        values, (low, high), bound = far
        shown = " and ".join(f"{value:g}" for value in values)
        fills = [_exact(value, dtype) for value in values]
        fill = fills[0] if len(fills) == 1 else f"[{', '.join(fills)}]"
        warn_at_caller(
            f"fewer than 0.1 % of the values, such as {shown}, make up more than 90 % of the range that rel= refers "
            f"to, which makes the bound coarse for all others ({low:g} to {high:g}): pass fill={fill} if it means "
            f'"no data", or use abs={bound:g}'
        )
    for fill, nearest in near:
        nearest = _exact(nearest, dtype)
        warn_at_caller(
            f"no value equals fill={fill!r}, but {nearest} is close to it: pass fill={nearest} if it means \"no data\""
        )


def _exact(value: float, dtype: np.dtype[Any]) -> str:
    """Returns a number that is read back as this element."""
    return str(dtype.type(value))


def warn_at_caller(text: str) -> None:
    """Warns at the line that called the package, also through Zarr."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("syncline", "zarr"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, SynclineWarning, stacklevel=level)
