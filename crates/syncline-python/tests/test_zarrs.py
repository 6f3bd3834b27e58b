"""The codec in Rust: what Python writes, zarrs reads, and the reverse. `cargo xtask python --zarrs` runs this."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import syncline
import syncline.zarr
import zarr

TOOL = os.environ.get("SYNCLINE_ZARRS_STORE")
pytestmark = pytest.mark.skipif(TOOL is None, reason="the example of crates/syncline-zarrs is not built")


def run(*words):
    result = subprocess.run([TOOL, *map(str, words)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def field(shape, dtype="f4"):
    numbers = np.arange(np.prod(shape, dtype=int))
    values = (100 * np.sin(numbers * 0.003) + numbers % 7).reshape(shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[3, 4] = np.nan
    return values


def chunks_of(path):
    files = [file for file in Path(path, "c").rglob("*") if file.is_file()]
    assert files
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def create(path, shape, chunks, dtype, codec, **more):
    # zarr's settings of a codec, and none for bytes after it.
    return zarr.create_array(
        path, shape=shape, chunks=chunks, dtype=dtype, serializer=codec, compressors=None, overwrite=True, **more
    )


CASES = [
    ((40, 50), (16, 50), "f4", {"mode": "abs", "value": 0.01}),
    ((40, 50), (16, 20), "f8", {"mode": "pw_rel", "value": 0.01}),
    ((40, 50), (16, 20), "f4", {"mode": "abs", "value": 0.1, "advanced": {"coder": "lzss+huffman", "level": 3}}),
    ((40, 50), (16, 20), "f4", {"mode": "abs", "value": 0.01, "effort": "balanced"}),
    ((40, 50), (16, 20), "f8", {"mode": "abs", "value": 1e-4, "effort": "best"}),
    ((9, 20, 30), (4, 20, 7), "f4", {"mode": "abs", "value": 0.01, "fill": -9999.0}),
    ((40, 50), (16, 20), "f4", {"mode": "abs", "value": 0.01, "fill": [-9999.0, 1e20]}),
    ((40, 50), (16, 20), "f4", {"mode": "abs", "value": 0.01, "fill": 0.0}),
    ((6, 5, 4, 9, 8), (3, 5, 4, 9, 8), "f4", {"mode": "abs", "value": 0.01}),
    ((40, 50), (16, 20), "f4", {"mode": "abs", "value": 0.01, "rewritable": False}),
    ((40, 50), (16, 20), "f4", {"mode": "rel", "value": 1e-3}),
    ((40, 50), (16, 20), "f8", {"mode": "psnr", "value": 50}),
    ((40, 50), (16, 20), "i4", {}),
    ((40, 50), (16, 20), "u1", {"effort": "fast", "advanced": {"coder": "lzss"}}),
    ((40, 50), (16, 20), "f2", {}),
    ((700, 600), (700, 600), "f4", {"mode": "abs", "value": 1e-4}),
]


@pytest.mark.filterwarnings("ignore:the .* bound refers to the values of each chunk")
@pytest.mark.parametrize("shape, chunks, dtype, settings", CASES)
@pytest.mark.parametrize("fill", [0, 7, "NaN"])
def test_both_write_the_same_bytes_and_read_them(tmp_path, shape, chunks, dtype, settings, fill):
    if fill == "NaN" and np.dtype(dtype).kind != "f":
        pytest.skip("integers have no NaN")
    array = field(shape, dtype)
    codec = syncline.zarr.SynclineCodec(**settings)
    mine = create(tmp_path / "python.zarr", shape, chunks, dtype, codec, fill_value=fill)
    mine[...] = array
    create(tmp_path / "rust.zarr", shape, chunks, dtype, codec, fill_value=fill)
    (tmp_path / "in").write_bytes(array.tobytes())
    run("write", tmp_path / "rust.zarr", tmp_path / "in")
    assert chunks_of(tmp_path / "python.zarr") == chunks_of(tmp_path / "rust.zarr")
    run("read", tmp_path / "python.zarr", tmp_path / "out")
    expected = mine[...]
    assert (tmp_path / "out").read_bytes() == expected.tobytes()
    theirs = zarr.open_array(tmp_path / "rust.zarr")[...]
    assert theirs.tobytes() == expected.tobytes()
    region = tuple(slice(extent // 3, extent - extent // 4) for extent in shape)
    run("read", tmp_path / "python.zarr", tmp_path / "part", *(f"{part.start}:{part.stop}" for part in region))
    assert (tmp_path / "part").read_bytes() == expected[region].tobytes()


def test_sharded_arrays(tmp_path):
    array = field((64, 64))
    codec = syncline.zarr.SynclineCodec("abs", 0.01)
    made = create(tmp_path / "a.zarr", (64, 64), (16, 16), "f4", codec, shards=(32, 64))
    made[...] = array
    run("read", tmp_path / "a.zarr", tmp_path / "part", "30:34", "5:40")
    assert (tmp_path / "part").read_bytes() == made[30:34, 5:40].tobytes()
    (tmp_path / "in").write_bytes(array.tobytes())
    run("write", tmp_path / "a.zarr", tmp_path / "in")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr")[...], made[...])
    assert np.nanmax(np.abs(made[...] - array)) <= 0.01


def test_python_reads_arrays_that_rust_created(tmp_path):
    array = field((40, 50))
    run("create", tmp_path / "a.zarr", "40x50", "20x20", "0.01")
    (tmp_path / "in").write_bytes(array.tobytes())
    run("write", tmp_path / "a.zarr", tmp_path / "in")
    opened = zarr.open_array(tmp_path / "a.zarr")
    assert opened.serializer == syncline.zarr.SynclineCodec("abs", 0.01)
    assert np.nanmax(np.abs(opened[...] - array)) <= 0.01 and np.isnan(opened[3, 4])
    opened[:20] = 1
    run("read", tmp_path / "a.zarr", tmp_path / "out", "0:20", "0:50")
    assert np.abs(np.frombuffer((tmp_path / "out").read_bytes(), "f4") - 1).max() <= 0.01
