"""The smallest and the largest value of arrays in memory, of NumPy, and of lazy ones, of Dask."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np


def is_lazy(array: Any) -> bool:
    """Returns whether an array is one of Dask."""
    return hasattr(array, "__dask_graph__")


def extremes(array: Any, known: Any) -> tuple[Any, Any]:
    """Returns the smallest and the largest element of those that are ``known``, or infinity and -infinity if there are
    none. They are lazy for an array of Dask.
    """
    if not is_lazy(array):
        elements = np.asarray(array)[known]
        return (elements.min(), elements.max()) if elements.size else (np.inf, -np.inf)
    import dask.array

    ends = []
    for function, nothing in ((np.min, np.inf), (np.max, -np.inf)):
        # Some blocks, or all, may be empty, for which the functions of Dask raise an error.
        reduce = functools.partial(function, initial=nothing)
        ends.append(dask.array.reduction(dask.array.where(known, array, nothing), reduce, reduce, dtype="f8"))
    return ends[0], ends[1]


def computed(*numbers: Any) -> tuple[float, ...]:
    """Returns numbers, of which some are lazy, as such. All of them are computed in one pass."""
    if any(map(is_lazy, numbers)):
        import dask.base

        compute: Callable[..., Any] = dask.base.compute
        numbers = compute(*numbers)
    return tuple(float(number) for number in numbers)
