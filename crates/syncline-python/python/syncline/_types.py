"""Element types: their names in NumPy and in the core."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    try:
        return _KNOWN.setdefault(dtype, _CORE_NAMES[dtype.name])
    except KeyError:
        message = f"Syncline has no element type {dtype.name}: use one of {', '.join(_CORE_NAMES)}"
        raise TypeError(message) from None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Returns the little-endian NumPy type for a name in the core."""
    name = _NUMPY_NAMES[name]
    if name == "bfloat16":
        import ml_dtypes  # NumPy has no such type of its own.

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(np.dtype(name).newbyteorder("<").str)
