"""Checkpoints: the tensors of a model, compressed one by one, in a file of the safetensors format.

Each tensor is one stream, stored under its name as a tensor of bytes, so that every program that reads safetensors
files sees names and sizes. The entry ``syncline`` of the metadata has the type and the shape of each tensor. Nothing
in such a file is executed, and neither the package safetensors nor PyTorch is needed for arrays of NumPy.
"""

from __future__ import annotations

import importlib
import json
import math
import mmap
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _core
from ._advanced import Advanced
from ._array import Bound, Effort, as_bytes, compress, core_choices, little_endian
from ._core import CorruptError
from ._device import ordinal_of
from ._types import core_name_of

__all__ = ["convert", "load", "save"]

#: Names of types in safetensors files, and those of NumPy and PyTorch, which are the same. The types of
#: ``float8_*`` are in NumPy with the package ``ml_dtypes``.
_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}  # fmt: skip
_OF_ARRAYS = {name: key for key, name in _NAMES.items()}

#: Types that streams do not have, with their sizes: of such tensors, the bytes are stored.
_AS_BYTES = {key: 8 if key == "C64" else 1 for key in _NAMES if key in ("BOOL", "C64") or key.startswith("F8")}

#: Key of the metadata, and the version of what it holds.
_KEY, _VERSION = "syncline", 1

#: Bytes of the longest header in the safetensors format.
_LONGEST_HEADER = 100_000_000


def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Any],
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    per_tensor: Mapping[str, Bound] | None = None,
    effort: Effort | None = None,
    advanced: Advanced | None = None,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes tensors by their names, such as the ``state_dict`` of a model, to a file that appears when it is complete.

    The error bound is for tensors of floating-point elements with two axes or more, which hold nearly all of a model;
    ``rel`` and ``psnr`` refer to the range of each. Others, such as biases, norms, and counters, are lossless, and so
    are all tensors without a bound. ``per_tensor`` has other bounds by name. ``effort`` and ``advanced`` are those of
    :func:`syncline.compress`, and ``metadata`` is what a safetensors file has.

    Tensors are arrays of NumPy or tensors of PyTorch, on the CPU or on a GPU, which compresses them.

    Raises:
        ValueError: ``per_tensor`` names no tensor, or one that can have no bound.
        TypeError: a tensor has a type that safetensors files do not have.

    >>> import numpy as np, syncline, syncline.safetensors
    >>> weights = {"w": np.random.default_rng(0).normal(size=(64, 64)).astype("f4"), "b": np.zeros(64, "f4")}
    >>> syncline.safetensors.save("model.safetensors", weights, rel=1e-3)
    >>> back = syncline.safetensors.load("model.safetensors")
    >>> bool(np.abs(back["w"] - weights["w"]).max() <= 1e-3 * np.ptp(weights["w"]))
    True
    """
    parts = ((name, _type_of(name, tensor), tuple(tensor.shape), tensor) for name, tensor in tensors.items())
    default = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    _write(path, parts, set(tensors), default, per_tensor, {"effort": effort, "advanced": advanced}, metadata)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    per_tensor: Mapping[str, Bound] | None = None,
    effort: Effort | None = None,
    advanced: Advanced | None = None,
) -> None:
    """Compresses a safetensors file, tensor by tensor, with the options of :func:`save`.

    Raises:
        CorruptError: ``source`` is no safetensors file, or it is compressed already.
    """
    with _File(source) as file:
        if _KEY in file.metadata:
            raise CorruptError(f"{os.fspath(source)} is compressed already")
        parts = ((name, kind, shape, file.checked(name)) for name, (kind, shape, _) in file.tensors.items())
        default = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
        options = {"effort": effort, "advanced": advanced}
        _write(target, parts, set(file.tensors), default, per_tensor, options, file.metadata)


def load(
    path: str | os.PathLike[str],
    framework: Literal["numpy", "torch"] = "numpy",
    names: Iterable[str] | None = None,
) -> dict[str, Any]:
    """Reads the tensors of a file from :func:`save` or :func:`convert`, or those of these names alone: arrays of NumPy,
    or tensors of PyTorch for ``load_state_dict``.

    Raises:
        CorruptError: the file is damaged, or it is no such file.
        KeyError: it has no tensor of a name.
    """
    if framework not in ("numpy", "torch"):
        raise ValueError(f"framework must be 'numpy' or 'torch', not {framework!r}")
    with _File(path) as file:
        described = file.described()
        chosen = list(described) if names is None else list(names)
        tensors = {}
        for name in chosen:
            kind, shape = described[name]
            tensors[name] = _restored(name, kind, shape, file.bytes(name), framework)
    return tensors


class _File:
    """A safetensors file, mapped into memory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LONGEST_HEADER):
                raise CorruptError(f"{self._path} is no safetensors file")
            header = file.read(length)
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._first = 8 + length
        try:
            entries = json.loads(header)
            self.metadata: dict[str, str] = dict(entries.pop("__metadata__", {}))
            self.tensors = {name: self._entry(entry, size) for name, entry in entries.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self._data.close()
            raise CorruptError(f"{self._path} is no safetensors file: {error}") from None

    def _entry(self, entry: dict[str, Any], size: int) -> tuple[str, tuple[int, ...], tuple[int, int]]:
        start, end = (int(offset) for offset in entry["data_offsets"])
        if not 0 <= start <= end <= size - self._first:
            raise ValueError("a tensor lies outside of the file")
        return str(entry["dtype"]), _shape(entry["shape"]), (start, end)

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._data.close()
        except BufferError:
            pass  # An exception that is on its way keeps an array of it.

    def bytes(self, name: str) -> NDArray[np.uint8]:
        """Returns the bytes of a tensor, which are valid as long as the file is open."""
        start, end = self.tensors[name][2]
        return np.frombuffer(self._data, np.uint8, end - start, self._first + start)

    def checked(self, name: str) -> NDArray[np.uint8]:
        """Returns the bytes of a tensor of a type that is known."""
        kind, shape, _ = self.tensors[name]
        if kind not in _NAMES:
            raise CorruptError(f"{self._path}: {name} has the type {kind}, which Syncline does not know")
        elements = self.bytes(name)
        if elements.size != _size(kind, shape):
            raise CorruptError(f"{self._path}: {name} has {elements.size} bytes, not {_size(kind, shape)}")
        return elements

    def described(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Returns the types and the shapes of the tensors that are compressed."""
        try:
            entry = json.loads(self.metadata[_KEY])
            version, tensors = entry["version"], entry["tensors"]
            found = {name: (str(kind), _shape(shape)) for name, (kind, shape) in tensors.items()}
        except (ValueError, TypeError, KeyError, AttributeError):
            raise CorruptError(f"{self._path} has no tensors of Syncline") from None
        if version != _VERSION:
            raise CorruptError(f"{self._path} has version {version} of Syncline's tensors, which is not known")
        if found.keys() != self.tensors.keys() or any(kind not in _NAMES for kind, _ in found.values()):
            raise CorruptError(f"{self._path}: its metadata is not about its tensors")
        return found


def _shape(values: Any) -> tuple[int, ...]:
    shape = tuple(int(extent) for extent in values)
    if any(extent < 0 for extent in shape):
        raise ValueError("an extent is negative")
    return shape


def _type_of(name: str, tensor: Any) -> str:
    """Returns the name of a tensor's type in safetensors files."""
    dtype = getattr(tensor.dtype, "name", None) or str(tensor.dtype).removeprefix("torch.")
    try:
        return _OF_ARRAYS[dtype]
    except KeyError:
        raise TypeError(f"{name} has the type {dtype}, which safetensors files do not have") from None


def _write(
    path: str | os.PathLike[str],
    parts: Iterable[tuple[str, str, tuple[int, ...], Any]],
    names: set[str],
    default: Bound,
    per_tensor: Mapping[str, Bound] | None,
    options: dict[str, Any],
    metadata: Mapping[str, str] | None,
) -> None:
    """Compresses tensors, given with their types and shapes, and writes the file."""
    own = dict(per_tensor or {})
    if unknown := sorted(own.keys() - names):
        raise ValueError(f"there is no tensor {', '.join(map(repr, unknown))}")
    described: dict[str, tuple[str, tuple[int, ...]]] = {}
    entries: dict[str, Any] = {}
    streams: list[bytes] = []
    end = 0
    for name, kind, shape, tensor in parts:
        bound = own.get(name, default if kind.startswith(("F", "BF")) and len(shape) > 1 else Bound())
        if kind not in ("F16", "BF16", "F32", "F64") and bound.mode != "lossless":
            if name in own:
                raise ValueError(f"{name} can have no error bound: its elements are {_NAMES[kind]}")
            bound = Bound()
        stream = _compressed(kind, shape, tensor, bound, options)
        streams.append(stream)
        described[name] = (kind, shape)
        entries[name] = {"dtype": "U8", "shape": [len(stream)], "data_offsets": [end, end + len(stream)]}
        end += len(stream)
    own_metadata = json.dumps({"version": _VERSION, "tensors": described}, separators=(",", ":"))
    header = {"__metadata__": {**(metadata or {}), _KEY: own_metadata}, **entries}
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    _core.save(path, b"".join((len(head).to_bytes(8, "little"), head, *streams)))


def _compressed(kind: str, shape: tuple[int, ...], tensor: Any, bound: Bound, options: dict[str, Any]) -> bytes:
    """Returns the stream of a tensor, or of its bytes."""
    if ordinal_of(tensor) is not None and kind not in _AS_BYTES:
        on_gpu: Any = compress(tensor.detach().contiguous(), bound=bound, fill=None, **options)
        return bytes(on_gpu.to_bytes())
    elements = tensor if isinstance(tensor, np.ndarray) and tensor.dtype == np.uint8 else _bytes_of(tensor)
    choices = core_choices(bound, None, threads=0, device="auto", memory_limit=None, **options)
    stream, _ = _core.compress(elements.reshape(-1), *_stored(kind, shape), choices, None)
    return stream


def _stored(kind: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """Returns the type and the shape of the stream of a tensor."""
    if kind in _AS_BYTES:
        return "u8", (math.prod(shape) * _AS_BYTES[kind],)
    return core_name_of(_NAMES[kind]), shape


def _bytes_of(tensor: Any) -> NDArray[np.uint8]:
    """Returns the little-endian bytes of a tensor in C order."""
    if hasattr(tensor, "detach"):
        # By a type that both libraries have.
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        flat = flat if flat.is_complex() else flat.view(sys.modules["torch"].uint8)
        return as_bytes(flat.numpy())
    return as_bytes(little_endian(np.asarray(tensor)))


def _restored(name: str, kind: str, shape: tuple[int, ...], stream: NDArray[np.uint8], framework: str) -> Any:
    """Returns a tensor of its stream."""
    header = _core.header(stream)
    found = (header["dtype"], tuple(header["shape"]))
    if found != _stored(kind, shape):
        raise CorruptError(f"the stream of {name} holds {found[0]} of shape {found[1]}, not {kind} of {shape}")
    elements = np.empty(_size(kind, shape), np.uint8)
    _core.decompress_into(stream, elements, threads=0, device="cpu")
    if framework == "numpy":
        return elements.view(_little(_NAMES[kind])).reshape(shape)
    torch: Any = importlib.import_module("torch")
    return torch.from_numpy(elements).view(getattr(torch, _NAMES[kind])).reshape(shape)


def _size(kind: str, shape: tuple[int, ...]) -> int:
    """Returns the number of bytes of a tensor."""
    return math.prod(shape) * (_AS_BYTES.get(kind) or np.dtype(_NAMES[kind].replace("bfloat", "float")).itemsize)


def _little(name: str) -> np.dtype[Any]:
    """Returns the little-endian type of NumPy, or of ``ml_dtypes``."""
    if name.startswith(("float8", "bfloat16")):
        dtype: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), name))
        return dtype
    return np.dtype(name).newbyteorder("<")
