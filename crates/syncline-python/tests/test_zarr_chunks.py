"""Chunks at the ends of arrays, of other shapes than declared, after filters, and while they are rewritten."""

import os
import threading

import numpy as np
import pytest
import syncline
import zarr
from syncline.numcodecs import Syncline
from syncline.zarr import SynclineCodec, create_array, encoding
from zarr.codecs import numcodecs as filters
from zarr.storage import LocalStore, WrapperStore

#: What Zarr says of every codec of numcodecs in format 3.
numcodecs_in_format_3 = pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")


def create(kind, shape, chunks, mode, value, **options):
    """Returns an array of Zarr format 2, of format 3, or of format 3 in shards of two chunks along each axis."""
    if kind == "zarr 2":
        codec = {"zarr_format": 2, "compressors": Syncline(mode, value), "filters": None}
    else:
        codec = {"serializer": SynclineCodec(mode, value), "compressors": None}
    if kind == "shards":
        codec["shards"] = tuple(2 * extent for extent in chunks)
    return zarr.create_array({}, shape=shape, chunks=chunks, dtype="f4", **codec, **options)


@pytest.mark.filterwarnings("ignore:the .* bound refers to the values of each chunk")
@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "shards"])
@pytest.mark.parametrize("mode, value", [("rel", 1e-3), ("psnr", 60)])
@pytest.mark.parametrize("fill_value", [0, -9999, np.nan])
@pytest.mark.parametrize("shape, chunks", [((6000,), (4096,)), ((70, 50), (40, 32)), ((20, 9, 30), (16, 9, 20))])
def test_padding_of_edge_chunks_does_not_count_in_the_range(kind, mode, value, fill_value, shape, chunks):
    values = np.random.default_rng(0).uniform(100, 126, shape).astype("f4")
    stored = create(kind, shape, chunks, mode, value, fill_value=fill_value)
    stored[...] = values
    errors = stored[...].astype("f8") - values
    for start in np.ndindex(*(-(-extent // size) for extent, size in zip(shape, chunks))):
        chunk = tuple(slice(i * size, (i + 1) * size) for i, size in zip(start, chunks))
        extent = np.ptp(values[chunk])
        if mode == "rel":
            assert 0 < np.abs(errors[chunk]).max() <= 1e-3 * extent
        else:
            assert 20 * np.log10(extent / np.sqrt(np.mean(errors[chunk] ** 2))) >= 60


@pytest.mark.filterwarnings("ignore:the .* bound refers to the values of each chunk")
@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3"])
def test_chunks_of_one_value_at_their_ends_keep_a_relative_bound(kind):
    """Elements, too, can be equal to what padding would be."""
    values = np.random.default_rng(0).uniform(100, 126, (40, 40)).astype("f4")
    values[30:], values[:, 35:] = 7, 7
    stored = create(kind, (40, 40), (40, 40), "rel", 1e-3)
    for part in (values, np.full_like(values, 3), np.full_like(values, np.nan)):
        stored[...] = part
        back = stored[...]
        assert np.array_equal(back, part, equal_nan=True) or np.abs(back - part).max() <= 1e-3 * np.ptp(part)


def test_relative_bounds_refer_to_all_data_that_is_there_when_an_array_is_created():
    values = np.linspace(0, 1, 5000, dtype="f4")
    for bound in ({"rel": 1e-3}, {"psnr": 60}):
        stored = create_array({}, data=values, chunks=(1000,), **bound)
        assert stored.serializer.mode == "abs" and np.isclose(stored.serializer.value, 1e-3)
        assert np.abs(stored[...] - values).max() <= 1e-3


@numcodecs_in_format_3
@pytest.mark.parametrize(
    "dtype, bound", [("f2", {}), ("f4", {}), ("f8", {}), ("f4", {"abs": 1e-3}), ("f8", {"rel": 1e-3})]
)
@pytest.mark.filterwarnings("ignore:the rel bound refers to the values of each chunk")
def test_floats_that_a_filter_returns_as_integers_are_read(dtype, bound):
    values = np.random.default_rng(0).normal(size=5000).astype(dtype)
    options = {"shape": values.shape, "chunks": (2000,), "dtype": dtype, "filters": [filters.BitRound(keepbits=7)]}
    stored = zarr.create_array({}, **options, **encoding(**bound))
    plain = zarr.create_array({}, **options)
    stored[:], plain[:] = values, values
    assert np.abs(stored[:].astype("f8") - plain[:]).max() <= bound.get("abs", 0) + bound.get("rel", 0) * np.ptp(values)
    np.testing.assert_array_equal(stored[100:2100:7], stored[:][100:2100:7])


@numcodecs_in_format_3
def test_elements_of_another_size_than_declared_are_refused_when_they_are_written():
    narrow = filters.AsType(encode_dtype="f4", decode_dtype="f8")
    options = {"shape": (100,), "chunks": (100,), "dtype": "f8"}
    stored = zarr.create_array({}, **options, filters=[narrow], **encoding(abs=1e-3))
    stored[:] = np.linspace(0, 1, 100)
    assert np.abs(stored[:] - np.linspace(0, 1, 100)).max() <= 1e-3 + 1e-7

    class Silent(type(narrow)):
        def resolve_metadata(self, chunk_spec):
            return chunk_spec

    silent = Silent(encode_dtype="f4", decode_dtype="f8")
    stored = zarr.create_array({}, **options, filters=[silent], **encoding(abs=1e-3))
    with pytest.raises(TypeError, match="a filter made float32 of elements that the array declares as float64"):
        stored[:] = np.linspace(0, 1, 100)


@numcodecs_in_format_3
def test_elements_without_their_shape_are_stored_with_it():
    values = np.arange(2000, dtype="i4").reshape(40, 50) ** 2
    options = {"shape": (40, 50), "chunks": (40, 50), "dtype": "i4"}
    stored = zarr.create_array({}, **options, filters=[filters.Delta(dtype="i4")], **encoding())
    stored[...] = values
    np.testing.assert_array_equal(stored[...], values)
    np.testing.assert_array_equal(stored[3:7, ::9], values[3:7, ::9])


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3"])
def test_masked_values_are_refused(kind):
    values = np.ma.masked_greater(np.linspace(0, 10, 1000, dtype="f4"), 5)
    stored = create(kind, (1000,), (1000,), "abs", 0.01)
    with pytest.raises(TypeError, match="filled"):
        stored[:] = values
    with pytest.raises(TypeError, match="filled"):
        create_array({}, data=values, chunks=(600,), abs=0.01)
    stored[:] = np.ma.masked_array(values.data)
    assert np.abs(stored[:] - values.data).max() <= 0.01
    with pytest.raises(TypeError, match="filled"):
        Syncline("abs", 0.01).encode(values)


@pytest.mark.parametrize("other", [(4, 1024), (64, 64, 2), (64,), (32, 64)])
def test_a_stream_of_another_shape_than_the_chunk_is_refused(other, tmp_path):
    stored = create_array(LocalStore(tmp_path), shape=(64, 64), chunks=(64, 64), dtype="f4", abs=0.01)
    stored[...] = 1
    (tmp_path / "c/0/0").write_bytes(syncline.compress(np.ones(other, "f4"), abs=0.01))
    for part in (np.s_[...], np.s_[3:5], np.s_[3, 3]):
        with pytest.raises(syncline.CorruptError, match=r"not f32 of \(64, 64\)"):
            stored[part]


def distance(a, b):
    return np.abs(a.astype("f8") - b).max()


class Rewriting(WrapperStore):
    """Rewrites, or removes, a chunk after each request for a part of it, as another process might do."""

    def __init__(self, store, streams):
        super().__init__(store)
        self.streams, self.requests = streams, 0

    async def get(self, key, prototype, byte_range=None):
        value = await super().get(key, prototype, byte_range)
        if not key.endswith("zarr.json"):
            self.requests += 1
            stream = self.streams[self.requests % len(self.streams)]
            if stream is None:
                await self._store.delete(key)
            else:
                await self._store.set(key, prototype.buffer.from_bytes(stream))
        return value


def test_a_slice_is_read_while_its_chunk_is_rewritten(tmp_path):
    # The streams have different lengths.
    arrays = [np.random.default_rng(0).uniform(2, 2 + level, 1 << 16).astype("f4") for level in range(1, 9)]
    streams = [syncline.compress(array, abs=1e-5) for array in arrays]
    assert min(map(len, streams)) > 20 << 10
    store = Rewriting(LocalStore(tmp_path), streams)
    stored = create_array(store, shape=(1 << 16,), chunks=(1 << 16,), dtype="f4", abs=1e-5)
    stored[...] = arrays[0]
    for start in range(0, 60_000, 2_000):
        part = stored[start : start + 9]
        assert any(distance(part, array[start : start + 9]) <= 1e-5 for array in arrays)
    store.streams = [streams[0], None]
    for start in range(0, 60_000, 20_000):
        part = stored[start : start + 9]
        # The start of a chunk is read by one request, and may be that of the stream before these.
        assert (part == 0).all() or any(distance(part, array[start : start + 9]) <= 1e-5 for array in arrays)
    # Damage that stays is reported.
    store.streams = [streams[1][:300] + bytes(200) + streams[1][500:]]
    with pytest.raises(syncline.SynclineError):
        for _ in range(3):
            stored[5:9]


def test_slices_are_read_while_a_thread_rewrites_the_chunk(tmp_path):
    generator = np.random.default_rng(1)
    arrays = [generator.normal(level, 0.01, 40_000).astype("f4") for level in (1, 5)]
    stored = create_array(LocalStore(tmp_path), shape=(40_000,), chunks=(40_000,), dtype="f4", abs=1e-4)
    stored[...] = arrays[0]
    path, done = tmp_path / "c/0", threading.Event()
    streams = [syncline.compress(array, abs=1e-4) for array in arrays]
    assert len(streams[0]) != len(streams[1])

    def rewrite():
        turn = 0
        while not done.is_set():
            turn += 1
            (tmp_path / "new").write_bytes(streams[turn % 2])
            os.replace(tmp_path / "new", path)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for start in range(0, 39_000, 130):
            part = stored[start : start + 5]
            assert any(distance(part, array[start : start + 5]) <= 1e-4 for array in arrays)
    finally:
        done.set()
        writer.join()


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "abs", "value": -1},
        {"mode": "abs", "value": float("inf")},
        {"mode": "abs"},
        {"mode": "pw_rel", "value": 1},
        {"mode": "max", "value": 1},
        {"mode": "lossless", "value": 1},
        {"mode": "abs", "value": "much"},
        {"advanced": {"level": 50}},
        {"advanced": {"level": "high"}},
        {"advanced": {"coder": "x"}},
        {"advanced": "level=9"},
        {"mode": "abs", "value": 1, "advanced": {"tile": "small"}},
        {"effort": "slow"},
        {"mode": "abs", "value": 1, "rewritable": "no"},
        {"mode": "abs", "value": 1, "fill": [1, 2, 3, 4, 5]},
    ],
)
@pytest.mark.parametrize("codec", [SynclineCodec, Syncline])
def test_invalid_settings_are_found_when_the_codec_is_made(codec, settings):
    with pytest.raises((ValueError, TypeError)):
        codec(**settings)


def test_numcodecs_compares_the_size_before_it_allocates(monkeypatch):
    stream = Syncline().encode(np.zeros((1 << 10, 1 << 10)))
    codec = Syncline()
    with pytest.raises(syncline.CorruptError, match="8388608 bytes, but out has 32768"):
        codec.decode(stream, out=np.empty((64, 64)))
    monkeypatch.setattr(Syncline, "max_buffer_size", 1 << 20)
    for function in (codec.decode, lambda stream: codec.encode(np.zeros((1 << 10, 1 << 10)))):
        with pytest.raises(ValueError, match="1048576"):
            function(stream)
    assert "max_buffer_size" not in codec.get_config()
