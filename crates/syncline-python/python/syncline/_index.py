"""Basic NumPy indices as boxes."""

from __future__ import annotations

import operator
from typing import Any


def basic_index(
    index: Any, shape: tuple[int, ...]
) -> tuple[list[tuple[int, int]], tuple[Any, ...] | None, tuple[int, ...]]:
    """Splits a basic NumPy index into the box that has all of its elements, the index inside of the box (``None`` if it
    is the whole box), and the shape of the result.
    """
    items = index if isinstance(index, tuple) else (Ellipsis,) if index is None else (index,)
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if any(item is None for item in items):
        raise IndexError("np.newaxis is not supported here: add axes to the result")
    if Ellipsis not in [item for item in items if item is Ellipsis]:
        items = (*items, Ellipsis)
    at = next(i for i, item in enumerate(items) if item is Ellipsis)
    missing = len(shape) - (len(items) - 1)
    if missing < 0:
        raise IndexError(f"too many indices: the array has {len(shape)} axes, but {len(items) - 1} were indexed")
    items = (*items[:at], *(slice(None),) * missing, *items[at + 1 :])
    box: list[tuple[int, int]] = []
    inner: list[Any] = []
    result: list[int] = []
    for axis, (item, extent) in enumerate(zip(items, shape, strict=True)):
        if isinstance(item, slice):
            steps = range(*item.indices(extent))
            low, high = (min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1) if steps else (0, 0)
            box.append((low, high))
            # A step of -1 or another one applies to the box, whose first or last element is the first of the slice.
            inner.append(slice(None, None, steps.step) if steps else slice(0, 0))
            result.append(len(steps))
            continue
        try:
            number = operator.index(item)
        except TypeError:
            raise IndexError("only integers, slices (`:`), and ellipsis (`...`) are valid indices") from None
        if not -extent <= number < extent:
            raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
        box.append((number % extent, number % extent + 1))
        inner.append(0)
    whole = all(isinstance(item, slice) and item.step in (None, 1) for item in inner)
    return box, None if whole else tuple(inner), tuple(result)


def box_of(index: Any, shape: tuple[int, ...]) -> tuple[list[tuple[int, int]], tuple[int, ...]] | None:
    """Returns the box of a basic NumPy index and the shape of the result, or ``None`` if the index has steps."""
    box, inner, result = basic_index(index, shape)
    steps = [item.step for item in inner or () if isinstance(item, slice)]
    return (box, result) if all(step in (None, 1) for step in steps) else None
