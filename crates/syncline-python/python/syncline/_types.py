"""Element types: their names in NumPy and in the core."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

_CORE_NAMES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
}  # fmt: skip
_NUMPY_NAMES = {core: name for name, core in _CORE_NAMES.items()}


#: Names of the types that were asked for; making the name of a type takes longer than looking it up.
_KNOWN: dict[np.dtype[Any], str] = {}


def core_name(dtype: np.dtype[Any]) -> str:
    """Returns the name of a NumPy type in the core."""
    known = _KNOWN.get(dtype)
    if known is not None:
        return known
    return _KNOWN.setdefault(dtype, core_name_of(dtype.name))


def core_name_of(name: str) -> str:
    """Returns the name in the core of a type with this name in NumPy."""
    try:
        return _CORE_NAMES[name]
    except KeyError:
        message = f"Syncline has no element type {name}: use one of {', '.join(_CORE_NAMES)}"
        raise TypeError(message) from None


def is_float8(dtype: Any) -> bool:
    """Returns whether a type, of NumPy or of another library, is one of the floats of 8 bits."""
    # The size first: making the name of a type takes long.
    return getattr(dtype, "itemsize", 0) == 1 and "float8" in str(dtype)


def float8_bytes(array: Any) -> Any:
    """Returns the bytes of an array of 8-bit floats as ``uint8``, sharing its memory where its library can; any other
    array as it is.
    """
    if not is_float8(getattr(array, "dtype", None)):
        return array
    if type(array).__module__.partition(".")[0] == "torch":
        return array.view(sys.modules["torch"].uint8)
    return np.asarray(array).view(np.uint8)


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns the little-endian NumPy type for a name in the core."""
    name = _NUMPY_NAMES[name]
    if name == "bfloat16":
        import ml_dtypes  # NumPy has no such type of its own.

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(np.dtype(name).newbyteorder("<").str)


def is_exact(dtype: np.dtype[Any]) -> bool:
    """Returns whether elements of a type are no numbers that may have errors: Booleans, dates, and times."""
    return dtype.kind in "bmM"


def number_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the type of the numbers that elements are compressed as."""
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind in "mM":
        return np.dtype(f"{dtype.str[0]}i8")
    return np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def number_shape(dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of the numbers that elements are compressed as: complex numbers are pairs."""
    return (*shape, 2) if dtype.kind == "c" else shape


def as_numbers(array: Any) -> Any:
    """Returns the elements of an array as numbers that the core has: Booleans as ``uint8``, dates and times as
    ``int64``, and complex numbers as pairs of their parts along one more axis. Others are returned as they are.

    >>> as_numbers(np.array([1 + 2j]))
    array([[1., 2.]])
    """
    dtype = array.dtype
    if dtype.kind not in "bmMc":
        return array
    return array.reshape(-1).view(number_dtype(dtype)).reshape(number_shape(dtype, array.shape))


def of_numbers(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns elements of a type from the numbers that they were compressed as."""
    if dtype.kind == "c":
        return np.ascontiguousarray(array).reshape(-1).view(dtype.newbyteorder("=")).reshape(array.shape[:-1])
    if dtype.kind in "mM":
        return array.view(dtype.newbyteorder("="))
    return array
