"""The command on Zarr stores: Python writes what it reads, and reads what it writes."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

COMMAND = os.environ.get("SYNCLINE_COMMAND_WITH_ZARR")
pytestmark = pytest.mark.skipif(COMMAND is None, reason="SYNCLINE_COMMAND_WITH_ZARR names no command with Zarr")
FIELD = np.sin(np.arange(40 * 50 * 60) * 0.01).reshape(40, 50, 60) + np.linspace(0, 2, 60)


@pytest.fixture
def syncline(tmp_path, monkeypatch):
    """Runs the command in a folder of its own. Returns what it said, and checks its exit code."""
    monkeypatch.chdir(tmp_path)

    def run(*words, code=0):
        done = subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", "?"])
def test_an_array_becomes_a_stream_and_an_array_again(syncline, version, dtype):
    data = (FIELD * 2).astype(dtype)
    group = zarr.create_group("a.zarr", zarr_format=version)
    group.create_array("g/t", data=data, chunks=(16, 50, 25), fill_value=0)
    bound = ["--abs", "1e-3"] if np.dtype(dtype).kind == "f" else ["--lossless"]
    syncline("compress", "a.zarr/g/t", *bound)
    syncline("verify", "a.zarr:g/t", "a.zarr.g_t.npy.syn")
    syncline("decompress", "a.zarr.g_t.npy.syn", "-o", "b.zarr/x/y")
    syncline("decompress", "a.zarr.g_t.npy.syn", "-o", "b.zarr")
    back = zarr.open_group("b.zarr", mode="r")
    assert sorted(back.group_keys()) == ["x"] and sorted(back.array_keys()) == ["g_t"]
    for array in (back["x/y"], back["g_t"]):
        assert array.shape == data.shape
        assert np.abs(array[...].astype("f8") - data.astype("f8")).max() <= 1e-3
    assert "exists already" in syncline("decompress", "a.zarr.g_t.npy.syn", "-o", "b.zarr/x/y", code=2)
    syncline("decompress", "a.zarr.g_t.npy.syn", "-o", "b.zarr/x/y", "--force")
    assert sorted(os.listdir()) == ["a.zarr", "a.zarr.g_t.npy.syn", "b.zarr"]
    assert not [name for name in os.listdir("b.zarr/x") if name.startswith(".")]


@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4, 5, 6)])
def test_shapes_and_single_arrays(syncline, shape):
    data = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    zarr.create_array("t.zarr", data=data)
    syncline("compress", "t.zarr", "--lossless")
    syncline("decompress", "t.zarr.syn", "-o", "back.npy")
    assert np.array_equal(np.load("back.npy"), data)


def test_declared_fill_values_are_kept(syncline):
    data = FIELD.astype("f4")
    data[::3], data[1, 1] = -77, 5e4
    array = zarr.create_array("a.zarr", data=data, fill_value=-77)
    array.attrs["_FillValue"] = 5e4
    said = syncline("compress", "a.zarr", "--rel", "1e-3", "-o", "t.syn")
    assert "-77 in 42,000 elements" in said and "50000 in 60 elements" in said


def test_chunks_of_the_codec_are_read(syncline):
    # The Python package may be missing, so that the chunks are those of the command.
    zarr.create_array("a.zarr", shape=FIELD.shape, dtype="f8", chunks=(20, 50, 60), compressors=None)
    metadata = json.loads(Path("a.zarr/zarr.json").read_text())
    metadata["codecs"] = [{"name": "syncline", "configuration": {"mode": "abs", "value": 1e-3}}]
    Path("a.zarr/zarr.json").write_text(json.dumps(metadata))
    for number in range(2):
        np.save("chunk.npy", FIELD[20 * number :][:20])
        Path(f"a.zarr/c/{number}/0").mkdir(parents=True)
        syncline("compress", "chunk.npy", "--abs", "1e-3", "-o", f"a.zarr/c/{number}/0/0", "--force")
    syncline("compress", "a.zarr", "--lossless")
    syncline("decompress", "a.zarr.syn", "-o", "back.npy")
    assert 0 < np.abs(np.load("back.npy") - FIELD).max() <= 1e-3


@pytest.mark.parametrize("order", ["C", "F"])
def test_chunks_of_numcodecs_are_read(syncline, order):
    codecs = pytest.importorskip("syncline.numcodecs")
    layout = {"zarr_format": 2, "order": order, "compressors": codecs.Syncline("abs", 1e-3)}
    array = zarr.create_array("a.zarr", shape=FIELD.shape, dtype="f8", chunks=(16, 50, 25), fill_value=0, **layout)
    array[...] = FIELD
    syncline("compress", "a.zarr", "--lossless")
    syncline("decompress", "a.zarr.syn", "-o", "back.npy")
    assert np.array_equal(np.load("back.npy"), array[...])


def write_store(version):
    """Writes arrays of several kinds, with missing data. Returns the values of those with floating-point elements."""
    root = zarr.create_group("a.zarr", zarr_format=version, attributes={"title": "outer"})
    group = root.create_group("g", attributes={"title": "inner"})
    values = {}
    for name, dtype, more in [
        ("plain", "f4", {}),
        ("big", ">f8", {"order": "F"} if version == 2 else {}),
        ("sharded", "f8", {"shards": (32, 50, 50)} if version == 3 else {}),
    ]:
        data = FIELD.astype(dtype)
        data[::5, 3] = -9999
        data[1, 1, 1] = np.nan
        more |= {"fill_value": -9999, "attributes": {"units": name}}
        group.create_array(name, shape=data.shape, dtype=dtype, chunks=(16, 50, 25), **more)[...] = data
        values[f"g/{name}"] = data
    root.create_array("text", data=np.array(["one", "two"]))
    root.create_array("n", data=np.arange(5000).reshape(50, 100))
    zarr.consolidate_metadata("a.zarr", zarr_format=version)
    return values


@pytest.mark.filterwarnings("ignore")  # Strings have no stable format.
@pytest.mark.parametrize("version", [2, 3])
def test_a_converted_store_is_read_by_zarr(syncline, version):
    pytest.importorskip("syncline.zarr")
    values = write_store(version)
    syncline("convert", "a.zarr", "b.zarr", "--rel", "1e-3")
    before = zarr.open_consolidated("a.zarr", zarr_format=version)
    after = zarr.open_consolidated("b.zarr", zarr_format=version)
    names = {name for name, _ in before.members(max_depth=None)}
    assert names == {name for name, _ in after.members(max_depth=None)} >= {"g", "text", "n", *values}
    for name in names:
        kept = {key: value for key, value in after[name].attrs.items() if not key.startswith("lossy_compression")}
        assert kept == dict(before[name].attrs) and (len(after[name].attrs) == len(kept) + 3 * (name in values)), name
    assert dict(after.attrs) == {"title": "outer"}
    for name in ("text", "n"):
        assert np.array_equal(after[name][...], before[name][...])
        assert after[name].metadata == before[name].metadata
    for name, data in values.items():
        array = after[name]
        assert "syncline" in repr(array.metadata.to_dict()).lower()
        assert (array.chunks, array.shards, array.fill_value) == (before[name].chunks, before[name].shards, -9999)
        back, data = array[...].astype("f8"), data.astype("f8")
        assert np.array_equal(np.isnan(back), np.isnan(data)) and np.array_equal(back == -9999, data == -9999)
        valid = data[~np.isnan(data) & (data != -9999)]
        furthest = np.nanmax(np.abs(back - data))
        assert 0 < furthest <= 1e-3 * np.ptp(valid) * 1.000001
        # Each chunk alone has a smaller range than the array, so that the bound is not that of the chunks.
        assert furthest > 0.5e-3 * np.ptp(valid)
        assert np.array_equal(array[3:9, 7, ::4], array[...][3:9, 7, ::4], equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", [2, 3])
def test_a_converted_store_is_read_by_xarray(syncline, version):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("syncline.zarr")
    data = FIELD.astype("f4")
    data[2, ::7] = np.nan
    dataset = xarray.Dataset(
        {"t": (("time", "y", "x"), data, {"units": "K"}), "n": ("x", np.arange(60))},
        coords={"time": np.arange(40), "y": np.linspace(0, 1, 50), "x": np.linspace(0, 1, 60)},
        attrs={"title": "a model"},
    )
    encoding = {"t": {"_FillValue": np.float32(1e20)}}
    dataset.to_zarr("a.zarr", zarr_format=version, encoding=encoding, consolidated=True)
    said = syncline("convert", "a.zarr", "b.zarr", "--abs", "1e-3")
    assert "/t: |error| <= 0.001" in said and "/y: copied: a coordinate" in said
    back = xarray.open_zarr("b.zarr", consolidated=True)
    assert back.attrs == dataset.attrs and back.t.dims == dataset.t.dims
    assert back.t.attrs.items() >= dataset.t.attrs.items()
    assert back.t.attrs["lossy_compression_maximum_absolute_error"] == 1e-3
    for name in ("time", "y", "x", "n"):
        assert np.array_equal(back[name], dataset[name])
    assert np.array_equal(np.isnan(back.t), np.isnan(data)) and 0 < np.nanmax(np.abs(back.t.values - data)) <= 1e-3
    # Missing data do not count in the range.
    syncline("convert", "a.zarr", "c.zarr", "--rel", "1e-3")
    back = xarray.open_zarr("c.zarr", consolidated=False)
    assert 0 < np.nanmax(np.abs(back.t.values - data)) <= 1e-3 * np.ptp(data[~np.isnan(data)]) * 1.000001


def test_wrong_paths_and_options_are_named_in_the_error(syncline):
    group = zarr.create_group("a.zarr")
    group.create_array("g/t", data=FIELD)
    group.create_array("s", data=np.array(["one", "two"]))
    for words, code, text in [
        (["compress", "a.zarr/g/u", "--abs", "1"], 2, "a.zarr/g/t"),
        (["compress", "a.zarr/g", "--abs", "1"], 2, "a.zarr/g/t"),
        (["compress", "a.zarr", "--abs", "1"], 2, "a.zarr/g/t"),
        (["compress", "a.zarr/s", "--lossless"], 1, "elements of the type"),
        (["compress", "no.zarr/t", "--abs", "1"], 1, "no.zarr: no such file"),
        (["compress", "a.zarr/g/t", "--abs", "1", "--rm"], 2, "--rm"),
    ]:
        assert text in syncline(*words, code=code), words
        assert os.listdir() == ["a.zarr"], words
    chunk = next(path for path in Path("a.zarr/g/t/c").rglob("*") if path.is_file())
    chunk.write_bytes(b"damaged")
    assert "a.zarr/g/t" in syncline("compress", "a.zarr/g/t", "--abs", "1", code=1)
    assert os.listdir() == ["a.zarr"]
