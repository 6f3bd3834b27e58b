"""Chunks of Zarr arrays in device memory.

Zarr's own buffers for GPUs hold arrays of CuPy, which needs a real GPU (``test_cuda_frameworks.py``). Here is a
stand-in for CuPy whose arrays reach the memory of an emulated GPU, so that the codec is tested without one.
"""

import sys
import types

import numpy as np
import pytest
import syncline
import syncline.zarr
import zarr
from syncline.cuda import to_device, to_host
from zarr.buffer import gpu as gpu_buffers
from zarr.storage import LocalStore, MemoryStore

pytestmark = pytest.mark.gpu


class Array:
    """An array whose elements, when a library asks for them by the CUDA array interface, are in device memory."""

    # What tells that an array is one of CuPy.
    __module__ = "cupy"

    def __init__(self, array):
        self.host = array.host if isinstance(array, Array) else np.asarray(array)

    @property
    def __cuda_array_interface__(self):
        assert self.host.flags.c_contiguous
        self.there = to_device(self.host)
        return self.there.__cuda_array_interface__

    def __getattr__(self, name):
        if name.startswith("__"):  # Other protocols would tell that the memory is that of the host.
            raise AttributeError(name)
        found = getattr(self.host, name)
        return (lambda *words, **options: Array(found(*words, **options))) if callable(found) else found

    def __getitem__(self, key):
        return Array(self.host[key])

    def __setitem__(self, key, value):
        self.host[key] = value.host if isinstance(value, Array) else value

    def __len__(self):
        return len(self.host)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.host, dtype)


def from_dlpack(array):
    return Array(to_host(array))


class Buffer(gpu_buffers.Buffer):
    def __init__(self, array_like):
        self._data = Array(array_like)

    @classmethod
    def create_zero_length(cls):
        return cls(np.empty(0, "u1"))

    @classmethod
    def from_bytes(cls, bytes_like):
        return cls(np.frombuffer(bytes_like, "u1"))

    def as_numpy_array(self):
        return self._data.host

    def combine(self, others):
        return type(self)(np.concatenate([self._data, *(other.as_array_like() for other in others)]))


class NDBuffer(gpu_buffers.NDBuffer):
    def __init__(self, array):
        self._data = Array(array)

    @classmethod
    def create(cls, *, shape, dtype, order="C", fill_value=None):
        return cls(np.full(tuple(shape), 0 if fill_value is None else fill_value, dtype, order))

    @classmethod
    def empty(cls, shape, dtype, order="C"):
        return cls(np.empty(shape, dtype, order))

    @classmethod
    def from_numpy_array(cls, array_like):
        return cls(array_like)

    def as_numpy_array(self):
        return self._data.host

    def __setitem__(self, key, value):
        self._data[key] = value.as_ndarray_like() if isinstance(value, zarr.core.buffer.NDBuffer) else value


@pytest.fixture
def on_gpu(gpu, monkeypatch):
    """Makes the buffers of this module those of Zarr, and work on the host an error."""
    stream = types.SimpleNamespace(ptr=0)
    cuda = types.SimpleNamespace(get_current_stream=lambda ordinal: stream)
    monkeypatch.setitem(sys.modules, "cupy", types.SimpleNamespace(from_dlpack=from_dlpack, cuda=cuda))
    zarr.registry.register_buffer(Buffer, qualname="syncline.tests.Buffer")
    zarr.registry.register_ndbuffer(NDBuffer, qualname="syncline.tests.NDBuffer")

    def refuse(*arguments, **options):
        raise AssertionError("a chunk on the GPU was compressed or decompressed on the host")

    with zarr.config.set({"buffer": "syncline.tests.Buffer", "ndbuffer": "syncline.tests.NDBuffer"}):
        monkeypatch.setattr(syncline.zarr, "compress", refuse)
        monkeypatch.setattr(syncline.zarr, "decompress", refuse)
        yield


def field(shape=(20, 30)):
    numbers = np.arange(np.prod(shape, dtype=int))
    return (100 * np.sin(numbers * 0.03) + numbers % 7).reshape(shape).astype("f4")


def test_chunks_are_made_and_read_on_the_device(on_gpu, monkeypatch, tmp_path):
    values = field()
    grid = {"shape": (20, 30), "chunks": (10, 30), "dtype": "f4"}
    stored = syncline.zarr.create_array(LocalStore(tmp_path / "a"), **grid, abs=0.1)
    stored[...] = values
    assert isinstance(stored[...], Array)
    back = stored[...].host
    assert np.abs(back - values).max() <= 0.1
    np.testing.assert_array_equal(stored[3:17:2, -5].host, back[3:17:2, -5])
    np.testing.assert_array_equal(stored.oindex[[1, 15], [2, 29, 7]].host, back[np.ix_([1, 15], [2, 29, 7])])
    monkeypatch.undo()
    with zarr.config.set(buffer="zarr.buffer.cpu.Buffer", ndbuffer="zarr.buffer.cpu.NDBuffer"):
        host = zarr.open_array(tmp_path / "a")
        np.testing.assert_array_equal(host[...], back)
        same = syncline.zarr.create_array(tmp_path / "b", **grid, abs=0.1)
        same[...] = values
    for chunk in ("c/0/0", "c/1/0"):
        assert (tmp_path / "a" / chunk).read_bytes() == (tmp_path / "b" / chunk).read_bytes()


def test_shapes_shards_and_fill_values(on_gpu):
    values = field((2, 2, 3, 6, 5))
    stored = syncline.zarr.create_array(MemoryStore(), shape=values.shape, chunks=(1, 2, 3, 6, 5), dtype="f4", abs=0.1)
    stored[...] = values
    assert np.abs(stored[1, :, 2].host - values[1, :, 2]).max() <= 0.1
    values = field((16, 20))
    values[::4] = -9999
    codec = syncline.zarr.encoding(abs=0.1)
    stored = zarr.create_array(
        MemoryStore(), shape=(16, 20), shards=(16, 20), chunks=(8, 20), dtype="f4", fill_value=-9999, **codec
    )
    stored[...] = values
    back = stored[2:9].host
    np.testing.assert_array_equal(back[2::4], -9999)
    assert np.abs(back - values[2:9]).max() <= 0.1


def test_damaged_chunks_raise(on_gpu):
    store = MemoryStore()
    stored = syncline.zarr.create_array(store, shape=(20, 30), chunks=(20, 30), dtype="f4", abs=0.1)
    stored[...] = field()
    stream = store._store_dict["c/0/0"].to_bytes()
    other = syncline.compress(field((30, 30)), abs=0.1)
    damaged = [stream[:200], stream[:-1], other] + [
        stream[:at] + bytes([stream[at] ^ 0x41]) + stream[at + 1 :] for at in range(3, len(stream), len(stream) // 5)
    ]
    for wrong in damaged:
        store._store_dict["c/0/0"] = Buffer.from_bytes(wrong)
        with pytest.raises((syncline.SynclineError, MemoryError)):
            stored[...]
