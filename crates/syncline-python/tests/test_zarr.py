"""The codec of Zarr format 3."""

import asyncio
import dataclasses
import json
import pathlib
import subprocess
import sys
import typing

import ml_dtypes  # noqa: F401  (Zarr's bfloat16 comes from it)
import numpy as np
import pytest
import syncline
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from syncline._advanced import Advanced
from syncline._array import Effort, Mode
from syncline.zarr import SynclineCodec, create_array, encoding
from zarr.storage import LocalStore, MemoryStore, WrapperStore


def field(shape, dtype="f4"):
    numbers = np.arange(np.prod(shape, dtype=int))
    return (100 * np.sin(numbers * 0.003) + numbers % 7).reshape(shape).astype(dtype)


@pytest.fixture(params=["default", "fused"])
def pipeline(request):
    """Runs a test with each of Zarr's codec pipelines."""
    name = {"default": "BatchedCodecPipeline", "fused": "FusedCodecPipeline"}[request.param]
    import zarr.core.codec_pipeline as module

    if not hasattr(module, name):
        pytest.skip(f"this version of Zarr has no {name}")
    with zarr.config.set({"codec_pipeline.path": f"zarr.core.codec_pipeline.{name}"}):
        yield


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8"])
def test_every_type(dtype, pipeline):
    values = field((50, 60), dtype)
    stored = create_array({}, shape=values.shape, chunks=(20, 25), dtype=dtype)
    stored[:] = values
    np.testing.assert_array_equal(stored[:], values)
    np.testing.assert_array_equal(stored[7:33, 3:50:9], values[7:33, 3:50:9])
    assert stored.metadata.codecs == (SynclineCodec(),)


@pytest.mark.parametrize(
    "shape", [(3000,), (50, 60), (20, 30, 40), (3, 20, 30, 40), (2, 3, 5, 20, 30), (2, 2, 2, 2, 9, 9)]
)
def test_every_rank(shape, pipeline):
    values = field(shape)
    stored = create_array({}, shape=shape, chunks=tuple(max(1, extent // 2) for extent in shape), dtype="f4", abs=1e-2)
    stored[...] = values
    assert np.abs(stored[...] - values).max() <= 1e-2
    part = tuple(slice(extent // 3, extent) for extent in shape)
    assert np.abs(stored[part] - values[part]).max() <= 1e-2


@pytest.mark.parametrize("store", ["memory", "files"])
def test_chunks_around_the_bytes_that_are_read_first(store, tmp_path, pipeline):
    for kib in (5, 7, 9, 12, 15, 17, 33):
        values = np.random.default_rng(kib).integers(0, 256, (kib, 1024)).astype("u1")
        where = MemoryStore() if store == "memory" else LocalStore(tmp_path / str(kib))
        stored = create_array(where, shape=values.shape, chunks=values.shape, dtype="u1")
        stored[...] = values
        np.testing.assert_array_equal(stored[3, 5:700:7], values[3, 5:700:7])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_selection(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, extent)) for extent in shape)
    values = field(shape, "i4")
    stored = create_array({}, shape=shape, chunks=chunks, dtype="i4")
    stored[...] = values
    basic = tuple(
        data.draw(st.one_of(st.integers(-extent, extent - 1), st.slices(extent).filter(lambda s: (s.step or 1) > 0)))
        for extent in shape
    )
    np.testing.assert_array_equal(stored[basic], values[basic])
    lists = tuple(np.array(data.draw(st.lists(st.integers(0, extent - 1), min_size=1, max_size=5))) for extent in shape)
    np.testing.assert_array_equal(stored.oindex[lists], values[np.ix_(*lists)])
    points = tuple(np.resize(index, 5) for index in lists)
    np.testing.assert_array_equal(stored.vindex[points], values[points])
    mask = np.random.default_rng(data.draw(st.integers(0, 1000))).random(shape) < 0.1
    np.testing.assert_array_equal(stored.vindex[mask], values[mask])


class Counting(WrapperStore):
    """Counts the bytes that are read."""

    def __init__(self, store):
        super().__init__(store)
        self.reads = []

    async def get(self, key, prototype, byte_range=None):
        value = await super().get(key, prototype, byte_range)
        if value is not None and not key.endswith("zarr.json"):
            self.reads.append(len(value))
        return value


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_slice_reads_its_bytes_only(kind, tmp_path):
    values = np.random.default_rng(0).normal(size=(128, 256, 256)).astype("f4")
    store = Counting(MemoryStore() if kind == "memory" else LocalStore(tmp_path))
    stored = create_array(store, shape=values.shape, chunks=values.shape, dtype="f4", abs=1e-3, effort="fast")
    stored[...] = values
    store.reads.clear()
    whole = stored[...]
    chunk = store.reads[0]
    store.reads.clear()
    np.testing.assert_array_equal(stored[40:44], whole[40:44])
    assert len(store.reads) <= 6 and sum(store.reads) < chunk / 10, (store.reads, chunk)
    assert np.abs(whole - values).max() <= 1e-3


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_small_slices_of_a_chunk_of_a_million_elements_take_two_requests(kind, tmp_path):
    values = np.random.default_rng(0).normal(size=(100, 100, 100)).astype("f4")
    store = Counting(MemoryStore() if kind == "memory" else LocalStore(tmp_path))
    stored = create_array(store, shape=values.shape, chunks=values.shape, dtype="f4", abs=1e-2, effort="fast")
    stored[...] = values
    whole = stored[...]
    for part in (np.s_[60, 70, 80], np.s_[90, 10], np.s_[64:72, 8:16, 96:]):
        store.reads.clear()
        np.testing.assert_array_equal(stored[part], whole[part])
        assert len(store.reads) == 2 and sum(store.reads) < 0.03 * values.nbytes, (part, store.reads)


def test_sharding(pipeline, tmp_path):
    values = field((64, 64, 64))
    inside = zarr.create_array(
        LocalStore(tmp_path / "in"),
        shape=values.shape,
        shards=(64, 64, 32),
        chunks=(16, 16, 16),
        dtype="f4",
        **encoding(abs=1e-2),
    )
    inside[...] = values
    assert np.abs(inside[...] - values).max() <= 1e-2
    assert np.abs(inside[3:30, 60:, 5] - values[3:30, 60:, 5]).max() <= 1e-2
    assert any(isinstance(codec, SynclineCodec) for codec in inside.metadata.codecs[0].codecs)
    inside[10:20] = 0
    assert (np.abs(inside[10:20]) <= 1e-2).all() and np.abs(inside[20:] - values[20:]).max() <= 2.1e-2


def test_missing_chunks_and_fill_values(pipeline):
    with pytest.warns(UserWarning, match="each chunk"):
        stored = create_array({}, shape=(40, 40), chunks=(20, 20), dtype="f4", fill_value=-9999.0, rel=1e-3)
    assert (stored[...] == -9999).all()
    values = field((20, 20))
    values[::3] = -9999
    stored[:20, :20] = values
    back = stored[:20, :20]
    assert (back[::3] == -9999).all() and (stored[20:] == -9999).all()
    rest = np.delete(values, np.s_[::3], 0)
    assert np.abs(np.delete(back, np.s_[::3], 0) - rest).max() <= 1e-3 * np.ptp(rest)


def test_several_fill_values(pipeline):
    values = field((60, 70))
    values[::5], values[1::5], values[2::5] = -9999, 1e20, -1
    stored = create_array({}, shape=(60, 70), chunks=(20, 70), dtype="f4", abs=0.5, fill=[-9999, 1e20, -1])
    stored[...] = values
    back = stored[...]
    missing = np.isin(values, [-9999, np.float32(1e20), -1])
    np.testing.assert_array_equal(back[missing], values[missing])
    assert np.abs(back - values)[~missing].max() <= 0.5
    codec = json.loads(json.dumps(stored.metadata.to_dict()["codecs"][0]))
    assert codec["configuration"]["fill"] == [-9999.0, 1e20, -1.0]
    assert SynclineCodec.from_dict(codec) == SynclineCodec("abs", 0.5, fill=(-9999, 1e20, -1)) == stored.serializer
    assert hash(SynclineCodec.from_dict(codec)) == hash(stored.serializer)
    assert SynclineCodec("abs", 0.5, fill=[-9999]) == SynclineCodec("abs", 0.5, fill=-9999.0)
    assert SynclineCodec("abs", 0.5, fill=np.nan) == SynclineCodec("abs", 0.5)


def test_resize_and_append(pipeline):
    stored = create_array({}, shape=(30, 40), chunks=(16, 16), dtype="i4")
    values = field((30, 40), "i4")
    stored[...] = values
    stored.append(values[:7])
    np.testing.assert_array_equal(stored[...], np.concatenate([values, values[:7]]))
    stored.resize((20, 45))
    np.testing.assert_array_equal(stored[:, :40], values[:20])


def test_configuration():
    stored = create_array({}, shape=(4,), chunks=(4,), dtype="f4", abs=0.1)
    metadata = json.loads(json.dumps(stored.metadata.to_dict()["codecs"][0]))
    assert metadata == {"name": "syncline", "configuration": {"mode": "abs", "value": 0.1}}
    assert SynclineCodec.from_dict(metadata) == SynclineCodec("abs", 0.1)
    assert SynclineCodec().to_dict() == {"name": "syncline", "configuration": {"mode": "lossless"}}
    assert SynclineCodec.from_dict({"name": "syncline"}) == SynclineCodec()
    for configuration in (
        {"mode": "max", "value": 1},
        {"mode": "abs", "value": "much"},
        {"unknown": 1},
        {"mode": "abs", "value": -1.0},
        {"mode": "abs"},
        {"coder": "lzss"},
        {"advanced": {"coder": "zip"}},
        {"advanced": {"level": 17}},
        {"effort": "slow"},
        {"effort": 2},
        {"mode": "abs", "value": float("nan")},
        {"mode": "abs", "value": 1, "fill": [1, 2, 3, 4, 5]},
        {"mode": "abs", "value": 1, "fill": float("inf")},
        {"mode": "abs", "value": 1, "fill": "auto"},
    ):
        with pytest.raises((ValueError, TypeError)):
            SynclineCodec.from_dict({"name": "syncline", "configuration": configuration})


def test_efforts(pipeline, tmp_path):
    values = np.fromfunction(lambda y, x: np.sin(y / 9) * np.cos(x / 7), (200, 200)).astype("f4")
    sizes = []
    for effort in (None, "fast", "balanced", "best"):
        store = LocalStore(tmp_path / str(effort))
        stored = create_array(store, shape=values.shape, chunks=(200, 200), dtype="f4", abs=1e-3, effort=effort)
        codec = stored.metadata.to_dict()["codecs"][0]
        assert codec["configuration"].get("effort") == effort
        assert SynclineCodec.from_dict(json.loads(json.dumps(codec))) == SynclineCodec("abs", 1e-3, effort=effort)
        stored[...] = values
        opened = zarr.open_array(store)
        assert np.abs(opened[...] - values).max() <= 1e-3
        np.testing.assert_array_equal(opened[3:50:7, 100:], opened[...][3:50:7, 100:])
        sizes.append((tmp_path / str(effort) / "c/0/0").stat().st_size)
    assert sizes[1] >= sizes[2] == sizes[0] >= sizes[3], sizes


def test_unsupported_types_are_refused_at_creation():
    with pytest.raises(ValueError, match="counts"):
        create_array({}, shape=(4,), chunks=(4,), dtype="i4", pw_rel=0.1)
    with pytest.raises((TypeError, ValueError)):
        create_array({}, shape=(4,), chunks=(4,), dtype="S3", abs=1)
    with pytest.warns(UserWarning, match="each chunk"):
        create_array({}, shape=(4,), chunks=(4,), dtype="f4", rel=1e-3)


@pytest.mark.parametrize("dtype", ["f2", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"])
def test_every_type_has_bounds(tmp_path, dtype):
    values = (60 + 50 * np.sin(np.arange(64_000).reshape(40, 40, 40) / 500)).astype(dtype)
    values[::7, 3] = 120
    stored = create_array(LocalStore(tmp_path), data=values, chunks=(32, 32, 32), fill_value=120, rel=0.02)
    back = zarr.open_array(tmp_path)
    assert back[...].dtype == dtype and np.abs(back[...].astype("f8") - values).max() <= 0.02 * 110
    assert ((back[...] == 120) == (values == 120)).all()
    assert (back[5:9, 3, ::2] == back[...][5:9, 3, ::2]).all()
    assert stored.nbytes_stored() < values.nbytes / 2


def test_booleans_and_times_are_exact_and_complex_numbers_are_pairs(tmp_path):
    generator = np.random.default_rng(3)
    arrays = [
        generator.random((20, 30)) < 0.4,
        np.datetime64("2024-01-01", "ns") + generator.integers(0, 10**15, (20, 30)),
        (generator.normal(size=(20, 30)) + 1j * generator.normal(size=(20, 30))).astype("c8"),
        (generator.normal(size=(5, 6, 7, 8)) + 1j * generator.normal(size=(5, 6, 7, 8))).astype("c16"),
    ]
    for number, values in enumerate(arrays):
        chunks = tuple(-(-extent // 2) for extent in values.shape)
        store = LocalStore(tmp_path / str(number))
        stored = create_array(store, shape=values.shape, chunks=chunks, dtype=values.dtype, abs=0.01)
        stored[...] = values
        back = zarr.open_array(tmp_path / str(number))
        for selection in (np.s_[...], np.s_[3], np.s_[1:4, ::2]):
            if values.dtype.kind == "c":
                errors = back[selection] - values[selection]
                assert max(np.abs(errors.real).max(), np.abs(errors.imag).max()) <= 0.01
            else:
                assert (back[selection] == values[selection]).all()


def test_damaged_chunks_raise(tmp_path):
    values = np.random.default_rng(0).normal(size=(64, 64, 64)).astype("f4")
    stored = create_array(LocalStore(tmp_path), shape=values.shape, chunks=values.shape, dtype="f4", abs=1e-2)
    stored[...] = values
    path = next(path for path in tmp_path.rglob("*") if path.is_file() and path.name != "zarr.json")
    stream = path.read_bytes()
    generator = np.random.default_rng(5)
    for round in range(200):
        damaged = bytearray(stream)
        at = generator.integers(len(stream)) if round % 2 else len(stream) - 1 - generator.integers(400)
        damaged[at] ^= 1 << generator.integers(8)
        path.write_bytes(damaged[: len(damaged) - (generator.integers(500) if round % 5 == 0 else 0)])
        for selection in (np.s_[...], np.s_[3:5, 40], np.s_[63]):
            try:
                stored[selection]
            except syncline.SynclineError:
                pass


def test_a_fresh_process_finds_the_codec(tmp_path):
    values = field((30, 30))
    create_array(LocalStore(tmp_path), shape=(30, 30), chunks=(10, 10), dtype="f4", abs=1e-2)[...] = values
    code = f"import zarr, numpy; a = zarr.open_array({str(tmp_path)!r}); print(float(numpy.asarray(a[...]).sum()))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert abs(float(result.stdout) - values.sum(dtype="f8")) <= 9 + 1e-2 * values.size


def test_a_compressor_behind_the_codec_is_warned_of():
    codec = SynclineCodec("abs", 1e-2)
    options = {"shape": (9, 9), "dtype": "f4", "serializer": codec}
    with pytest.warns(syncline.SynclineWarning, match="ZstdCodec compresses the streams .* pass compressors=None"):
        zarr.create_array(MemoryStore(), **options)
    # Neither alone nor with a checksum (a warning is an error here).
    for compressors in (None, [zarr.codecs.Crc32cCodec()]):
        array = zarr.create_array(MemoryStore(), compressors=compressors, **options)
        array[...] = 1
        assert (array[3:5] == 1).all()


def test_asynchronous_reads():
    values = field((60, 60))

    async def read():
        stored = await zarr.api.asynchronous.create_array(
            MemoryStore(), shape=(60, 60), chunks=(20, 20), dtype="f4", **encoding(abs=1e-2)
        )
        await stored.setitem(..., values)
        return await asyncio.gather(*(stored.getitem((slice(i, i + 5), slice(None))) for i in range(0, 60, 5)))

    assert np.abs(np.concatenate(asyncio.run(read())) - values).max() <= 1e-2


def test_the_schema_for_zarr_extensions_has_every_setting_of_the_codec():
    root = pathlib.Path(__file__).parents[3]
    schema = json.loads((root / "packaging/zarr-extensions/codecs/syncline/schema.json").read_text())
    settings = schema["anyOf"][0]["properties"]["configuration"]["properties"]
    assert sorted(settings) == sorted(field.name for field in dataclasses.fields(SynclineCodec))
    choices = settings["advanced"]["properties"]
    hints = typing.get_type_hints(Advanced)
    assert sorted(choices) == sorted(hints)
    for name, hint in [*hints.items(), ("effort", Effort), ("mode", Mode)]:
        if words := typing.get_args(hint):
            assert set((choices | settings)[name]["enum"]) == set(words), name
