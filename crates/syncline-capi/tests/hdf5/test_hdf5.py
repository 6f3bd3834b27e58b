"""The HDF5 filter in the libraries of h5py and netCDF4, and in HDF5's own tools."""

import os
import shutil
import struct
import subprocess

import h5py
import numpy as np
import pytest

ID = 47501
FIELD = np.sin(np.arange(40 * 50 * 60) * 0.01).reshape(40, 50, 60) + np.linspace(0, 2, 60)


def test_keywords_of_the_python_package(tmp_path):
    syncline_h5py = pytest.importorskip("syncline.h5py")
    options = syncline_h5py.filter(abs=1e-3)
    assert options == {"compression": ID, "compression_opts": (*parameters(1, 1e-3), 0, 0, 0, 0, 0)}
    fill = syncline_h5py.filter(rel=1e-3, fill=-9999, advanced={"coder": "lzss+huffman", "level": 3})
    assert fill["compression_opts"] == (*parameters(2, 1e-3), 2, *parameters(0, -9999)[2:], 0, 0x34)
    several = syncline_h5py.filter(abs=1e-3, fill=[-9999, 1e20, np.nan, -1])["compression_opts"]
    halves = [parameters(0, value)[2:] for value in (-9999, 1e20, -1)]
    assert several == (*parameters(1, 1e-3), 4, *halves[0], 0, 0, *halves[1], *halves[2])
    assert syncline_h5py.filter(abs=1e-3, fill="none")["compression_opts"] == (*parameters(1, 1e-3), 1, 0, 0, 0, 0)
    efforts = [syncline_h5py.filter(abs=1, effort=name) for name in (None, "fast", "balanced", "best")]
    assert [words["compression_opts"][7] for words in efforts] == [0, 1, 2, 3]
    once = syncline_h5py.filter(abs=1, effort="best", rewritable=False)["compression_opts"]
    assert once == (*parameters(1, 1), 0, 0, 0, 3 + 256, 0)
    with pytest.raises(TypeError):
        syncline_h5py.filter(abs=1, rel=1)
    with pytest.raises(ValueError, match="coder"):
        syncline_h5py.filter(advanced={"coder": "zip"})
    with pytest.raises(ValueError, match="at most 4"):
        syncline_h5py.filter(fill=range(5))
    with pytest.raises(ValueError, match="effort"):
        syncline_h5py.filter(effort="slow")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", data=FIELD, chunks=(20, 25, 60), **syncline_h5py.filter(rel=1e-3))
        assert np.abs(dataset[...] - FIELD).max() <= 4e-3
        # The C library and the Python package read each other's streams.
        syncline = pytest.importorskip("syncline")
        _, chunk = dataset.id.read_direct_chunk((0, 0, 0))
        assert np.array_equal(syncline.decompress(chunk), dataset[:20, :25])
        dataset.id.write_direct_chunk((0, 0, 0), syncline.compress(FIELD[20:, 25:], abs=1e-6))
        assert np.abs(dataset[:20, :25] - FIELD[20:, 25:]).max() <= 1e-6


def parameters(mode: int, value: float) -> tuple[int, ...]:
    return (1, mode, *struct.unpack("<II", struct.pack("<d", value)))


def write(path, name="x", data=FIELD, options=parameters(1, 1e-3), chunks=(20, 25, 60), **more):
    with h5py.File(path, "a") as file:
        file.create_dataset(name, data=data, chunks=chunks, compression=ID, compression_opts=options, **more)


@pytest.mark.parametrize("dtype", ["f4", "f8", ">f4", ">f8"])
def test_bounds_hold(tmp_path, dtype):
    path = tmp_path / "a.h5"
    data = FIELD.astype(dtype)
    write(path, data=data)
    with h5py.File(path) as file:
        dataset = file["x"]
        assert dataset.dtype == data.dtype
        assert np.abs(dataset[...].astype("f8") - data.astype("f8")).max() <= 1e-3
        assert dataset.id.get_storage_size() < data.nbytes / 4


def test_more_effort_makes_smaller_chunks(tmp_path):
    z, y, x = np.ogrid[:40, :50, :60]
    smooth = (np.sin(z / 9) + np.sin(y / 8) * np.cos(x / 7)).astype("f4")
    sizes = []
    for effort in range(4):
        options = (*parameters(1, 1e-3), 0, 0, 0, effort + 256)
        write(tmp_path / "a.h5", name=str(effort), data=smooth, chunks=(40, 50, 60), options=options)
        with h5py.File(tmp_path / "a.h5") as file:
            dataset = file[str(effort)]
            assert np.abs(dataset[...] - smooth).max() <= 1e-3
            sizes.append(dataset.id.get_storage_size())
    assert sizes[1] >= sizes[2] == sizes[0] >= sizes[3], sizes


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", ">i2", "u2", "i4", "u4", "i8", ">u8", "f2", "?", "f4", "f8"])
def test_other_types_and_no_parameters_are_lossless(tmp_path, dtype):
    path = tmp_path / "a.h5"
    data = (FIELD * 50).astype(dtype)
    write(path, data=data, options=None if dtype in ("f4", "f8") else parameters(1, 1e-3))
    with h5py.File(path) as file:
        assert np.array_equal(file["x"][...], data)


@pytest.mark.parametrize(
    "shape, chunks",
    [((1,), (1,)), ((1000,), (300,)), ((3, 4, 5, 6, 7), (2, 2, 5, 6, 7)), ((33, 17), (32, 16))],
)
def test_shapes_and_partial_chunks(tmp_path, shape, chunks):
    path = tmp_path / "a.h5"
    data = np.arange(np.prod(shape), dtype="f8").reshape(shape)
    write(path, data=data, chunks=chunks, options=parameters(1, 0.25))
    with h5py.File(path) as file:
        assert np.abs(file["x"][...] - data).max() <= 0.25


def test_the_fill_value_of_the_dataset_is_exact(tmp_path):
    path = tmp_path / "a.h5"
    data = FIELD.astype("f4")
    data[::3] = -9999
    write(path, data=data, options=parameters(2, 1e-3), fillvalue=-9999)
    with h5py.File(path) as file:
        back = file["x"][...]
    assert np.array_equal(back == -9999, data == -9999)
    assert np.abs(back - data).max() <= 1e-3 * 4.01


@pytest.mark.parametrize("fills", [[], [-9999], [-9999, 1e20], [-9999, 1e20, -1e30], [-9999, 1e20, -1e30, 77]])
def test_given_fill_values_are_exact(tmp_path, fills):
    path = tmp_path / "a.h5"
    data = FIELD.astype("f4")
    for number, fill in enumerate(fills):
        data[number::8] = fill
    halves = [word for fill in fills for word in parameters(0, fill)[2:]]
    options = (*parameters(2, 1e-3), 1 + len(fills), *(halves[:2] or (0, 0)), 0, 0, *halves[2:])
    write(path, data=data, options=options)
    with h5py.File(path) as file:
        back = file["x"][...]
        stored = file["x"].id.get_create_plist().get_filter(0)[2]
    # The filter appends the type and the extents of a chunk.
    assert stored[: len(options)] == options and len(stored) == len(options) + 2 + 2 * 3
    valid = ~np.isin(data, np.asarray(fills, "f4"))
    np.testing.assert_array_equal(back[~valid], data[~valid])
    assert np.abs(back[valid] - data[valid]).max() <= 1e-3 * 4.01
    # What a tool copies along with a dataset is cut to what users give, and made anew.
    write(tmp_path / "b.h5", data=data, options=stored)
    with h5py.File(tmp_path / "b.h5") as file:
        assert file["x"].id.get_create_plist().get_filter(0)[2] == stored


@pytest.mark.parametrize("data", [np.array([b"abc"] * 10), np.zeros(10, "c8"), np.zeros(10, [("a", "f4")])])
def test_other_types_fail_when_the_dataset_is_created(tmp_path, data):
    with pytest.raises((ValueError, RuntimeError), match="Syncline"):
        write(tmp_path / "a.h5", data=data, chunks=(5,), options=None)


@pytest.mark.parametrize(
    "options",
    [
        (2,),
        parameters(9, 1),
        parameters(1, -1),
        (*parameters(1, 1e-3), 6, 0, 0, 0, 0),
        (*parameters(1, 1e-3), 3, 0, 0, 0, 0),
        (*parameters(1, 1e-3), 5, 0, 0, 0, 0, 1, 2, 3, 4, 5),
        *((*parameters(1, 1e-3), 0, 0, 0, effort) for effort in (4, 255, 1 << 9, 1 << 31)),
        *((*parameters(1, 1e-3), 0, 0, 0, 0, advanced) for advanced in (5, 0xA0, 0x300, 0x4000, 0x20000, 1 << 20)),
    ],
)
def test_wrong_parameters_fail_when_the_dataset_is_created(tmp_path, options):
    with pytest.raises((ValueError, RuntimeError), match="Syncline"):
        write(tmp_path / "a.h5", options=options)


def test_chunks_that_do_not_shrink_are_stored_as_they_are(tmp_path):
    path = tmp_path / "a.h5"
    noise = np.random.default_rng(1).integers(0, 256, 100_000, dtype="u1")
    write(path, data=noise, chunks=(50_000,), options=None)
    with h5py.File(path) as file:
        assert np.array_equal(file["x"][...], noise)
        assert file["x"].id.get_storage_size() == noise.nbytes


def test_a_chunk_is_a_stream(tmp_path):
    path = tmp_path / "a.h5"
    write(path)
    with h5py.File(path) as file:
        _, chunk = file["x"].id.read_direct_chunk((0, 0, 0))
    assert chunk[:4] == bytes.fromhex("8953594e")


def test_damaged_chunks_are_errors(tmp_path):
    path = tmp_path / "a.h5"
    write(path, data=FIELD[:20, :25], chunks=(20, 25, 60))
    with h5py.File(path, "r+") as file:
        _, good = file["x"].id.read_direct_chunk((0, 0, 0))
    generator = np.random.default_rng(7)
    count = int(os.environ.get("SYNCLINE_MUTATIONS", "500"))
    failed = 0
    for _ in range(count):
        bad = bytearray(good)
        for at in generator.integers(0, len(bad), generator.integers(1, 4)):
            bad[at] = generator.integers(0, 256)
        if generator.random() < 0.2:
            bad = bad[: generator.integers(1, len(bad))]
        with h5py.File(path, "r+") as file:
            file["x"].id.write_direct_chunk((0, 0, 0), bytes(bad))
            try:
                assert file["x"][...].shape == (20, 25, 60)
            except OSError:
                failed += 1
    assert failed > count * 0.9


def test_netcdf4_reads_what_h5py_wrote_in_one_process(tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    path = tmp_path / "a.h5"
    write(path)
    with netCDF4.Dataset(path) as file:
        assert np.abs(file["x"][:] - FIELD).max() <= 1e-3
    # The two packages have an HDF5 library each; the filter serves both.
    write(path, name="y")


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="needs HDF5's tools")
def test_tools_of_hdf5(tmp_path):
    path, packed, plain = tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "c.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=FIELD.astype("f4"), chunks=(20, 25, 60))
    values = ",".join(map(str, parameters(1, 1e-3)))
    subprocess.run(["h5repack", "-f", f"UD={ID},1,4,{values}", path, packed], check=True)
    with h5py.File(packed) as file:
        assert np.abs(file["x"][...] - FIELD.astype("f4")).max() <= 1e-3
        assert file["x"].id.get_storage_size() < FIELD.size
    subprocess.run(["h5repack", "-f", "NONE", packed, plain], check=True)
    with h5py.File(plain) as file:
        assert np.abs(file["x"][...] - FIELD.astype("f4")).max() <= 1e-3
    command = ["h5dump", "-p", "-d", "/x[0,0,0;;1,1,5]", packed]
    dump = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"FILTER_ID {ID}" in dump.stdout
