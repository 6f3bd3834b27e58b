"""The HDF5 filter after and before other filters, and what it makes of parameters that a file has wrong."""

import ctypes
import shutil
import struct
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

ID = 47501
LOSSLESS = (1,)
BOUND = 1e-3
ABS = (1, 1, *struct.unpack("<II", struct.pack("<d", BOUND)))
FIELD = (np.sin(np.arange(64 * 64) * 0.01).reshape(64, 64) * 20 + 280).astype("f4")
CHUNKS = (32, 32)

SHUFFLE, FLETCHER32 = 2, 3


def create(path, filters, data=FIELD, name=b"x"):
    """Writes a dataset with a pipeline of filters: pairs of a number and parameters."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_chunk(tuple(min(CHUNKS[0], extent) for extent in data.shape))
    for number, values in filters:
        if number == SHUFFLE:
            creation.set_shuffle()
        elif number == FLETCHER32:
            creation.set_fletcher32()
        elif number == "scaleoffset":
            creation.set_scaleoffset(h5py.h5z.SO_FLOAT_DSCALE, 2)
        else:
            creation.set_filter(number, h5py.h5z.FLAG_MANDATORY if number == ID else 0, values)
    with h5py.File(path, "a") as file:
        space, kind = h5py.h5s.create_simple(data.shape), h5py.h5t.py_create(data.dtype)
        h5py.Dataset(h5py.h5d.create(file.id, name, kind, space, creation))[...] = data


def read(path, name="x"):
    with h5py.File(path) as file:
        return file[name][...]


@pytest.mark.parametrize("options", [ABS, (1, 2, *ABS[2:]), (1, 3, *ABS[2:]), (1, 4, *ABS[2:])])
@pytest.mark.parametrize("keyword", [{"shuffle": True}, {"scaleoffset": 2}])
def test_h5py_a_filter_before_a_bound_fails_with_a_text(tmp_path, keyword, options):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        with pytest.raises((ValueError, RuntimeError), match="comes before Syncline.*leave it out.*shuffle=False"):
            file.create_dataset("x", data=FIELD, chunks=CHUNKS, compression=ID, compression_opts=options, **keyword)
        assert not list(file)


# Deflate, n-bit, scale and offset, granular bit rounding of the filters that netCDF recommends.
@pytest.mark.parametrize("other", [(SHUFFLE, ()), (1, (4,)), (5, ()), ("scaleoffset", ())])
def test_any_filter_before_a_bound_fails_and_after_it_the_bound_holds(tmp_path, other):
    with pytest.raises((ValueError, RuntimeError), match="comes before Syncline"):
        create(tmp_path / "a.h5", [other, (ID, ABS)])
    with pytest.raises((ValueError, RuntimeError), match="comes before Syncline"):
        create(tmp_path / "a.h5", [other, (FLETCHER32, ()), (ID, ABS)], name=b"y")
    if other[0] in (SHUFFLE, 1):
        create(tmp_path / "a.h5", [(ID, ABS), other], name=b"z")
        assert 0 < np.abs(read(tmp_path / "a.h5", "z") - FIELD).max() <= BOUND


def test_syncline_twice_fails(tmp_path):
    with pytest.raises((ValueError, RuntimeError), match="set twice"):
        create(tmp_path / "a.h5", [(ID, ABS), (ID, LOSSLESS)])


@pytest.mark.parametrize("dtype", ["f4", ">f8", "u1"])
@pytest.mark.parametrize("options", [ABS, LOSSLESS])
def test_a_checksum_before_or_after_syncline_stays_right_when_parts_are_rewritten(tmp_path, dtype, options):
    path, data = tmp_path / "a.h5", (FIELD - 260).astype(dtype)[:31, :33]
    bound = BOUND if options == ABS and np.dtype(dtype).kind == "f" else 0
    for number, filters in enumerate([[(FLETCHER32, ()), (ID, options)], [(ID, options), (FLETCHER32, ())]]):
        create(path, filters, data, name=f"x{number}".encode())
        assert np.abs(read(path, f"x{number}").astype("f8") - data).max() <= bound
        with h5py.File(path, "a") as file:
            file[f"x{number}"][3:9, 5:30] = 7
        expected = data.copy()
        expected[3:9, 5:30] = 7
        assert np.abs(read(path, f"x{number}").astype("f8") - expected).max() <= bound


@pytest.mark.parametrize("dtype", ["f4", ">f8", "i2", ">u4", "u1"])
def test_shuffled_lossless_chunks_are_restored(tmp_path, dtype):
    path, data = tmp_path / "a.h5", (FIELD * 100).astype(dtype)
    create(path, [(SHUFFLE, ()), (ID, LOSSLESS)], data)
    # Integers are lossless with an absolute bound below 1.
    if np.dtype(dtype).kind != "f":
        create(path, [(SHUFFLE, ()), (FLETCHER32, ()), (ID, ABS)], data, name=b"y")
        assert np.array_equal(read(path, "y"), data)
    assert np.array_equal(read(path), data)
    with pytest.raises((ValueError, RuntimeError), match="would not receive the elements.*only shuffle"):
        create(path, [(1, (4,)), (ID, LOSSLESS)], data, name=b"z")


def test_xarray_a_shuffle_that_is_carried_over_fails_with_a_text(tmp_path):
    xarray, _ = pytest.importorskip("xarray"), pytest.importorskip("h5netcdf")
    dataset = xarray.Dataset({"t": (("y", "x"), FIELD)})
    first = {"t": {"zlib": True, "shuffle": True, "chunksizes": CHUNKS}}
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=first)
    ours = {"compression": ID, "compression_opts": ABS}
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as opened:
        dataset = opened.load()
    assert dataset.t.encoding["shuffle"]
    for name in ("zlib", "complevel", "gzip", "gzip_opts", "compression", "compression_opts"):
        dataset.t.encoding.pop(name, None)
    dataset.t.encoding.update(ours)
    with pytest.raises((ValueError, RuntimeError), match="comes before Syncline.*encoding of Xarray"):
        dataset.to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    dataset.t.encoding["shuffle"] = False
    dataset.to_netcdf(tmp_path / "c.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "c.nc", engine="h5netcdf") as back:
        assert 0 < np.abs(back.t - FIELD).max() <= BOUND


@pytest.mark.parametrize("shuffle, checksum", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_netcdf_the_bound_holds_or_the_definition_fails(tmp_path, shuffle, checksum):
    """By the functions of C: netCDF4 has no keyword for a filter by its number, and puts the checksum first."""
    netCDF4 = pytest.importorskip("netCDF4")
    libraries = list((Path(netCDF4.__file__).parent.parent / "netcdf4.libs").glob("libnetcdf*"))
    if not libraries:
        pytest.skip("netCDF4 is not from a wheel")
    netcdf = ctypes.CDLL(str(libraries[0]))
    name, dimensions = str(tmp_path / "a.nc").encode(), (ctypes.c_int * 2)()
    variable, file = ctypes.c_int(), ctypes.c_int()
    assert netcdf.nc_create(name, 0x1000, ctypes.byref(file)) == 0
    for axis, extent in enumerate(FIELD.shape):
        address = ctypes.byref(dimensions, axis * ctypes.sizeof(ctypes.c_int))
        assert netcdf.nc_def_dim(file, f"d{axis}".encode(), ctypes.c_size_t(extent), address) == 0
    assert netcdf.nc_def_var(file, b"t", 5, 2, dimensions, ctypes.byref(variable)) == 0
    assert netcdf.nc_def_var_chunking(file, variable, 0, (ctypes.c_size_t * 2)(*CHUNKS)) == 0
    assert netcdf.nc_def_var_deflate(file, variable, shuffle, 0, 0) == 0
    assert netcdf.nc_def_var_fletcher32(file, variable, checksum) == 0
    values = (ctypes.c_uint * len(ABS))(*ABS)
    assert netcdf.nc_def_var_filter(file, variable, ID, ctypes.c_size_t(len(ABS)), values) == 0
    written = netcdf.nc_put_var_float(file, variable, FIELD.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
    closed = netcdf.nc_close(file)
    if shuffle:
        assert written != 0 or closed != 0
        return
    assert (written, closed) == (0, 0)
    with netCDF4.Dataset(tmp_path / "a.nc") as back:
        assert back["t"].filters()["fletcher32"] == bool(checksum)
        assert 0 < np.abs(back["t"][:] - FIELD).max() <= BOUND


@pytest.mark.skipif(shutil.which("h5repack") is None, reason="needs HDF5's tools")
def test_h5repack_puts_nothing_before_a_bound(tmp_path):
    plain, packed, again = tmp_path / "a.h5", tmp_path / "b.h5", tmp_path / "c.h5"
    with h5py.File(plain, "w") as file:
        file.create_dataset("x", data=FIELD, chunks=CHUNKS)
    ours = f"UD={ID},0,{len(ABS)},{','.join(map(str, ABS))}"
    # It copies what it cannot compress, and says so with -v.
    subprocess.run(["h5repack", "-f", "SHUF", "-f", ours, plain, packed], capture_output=True)
    if packed.exists():
        assert np.array_equal(read(packed), FIELD)
    subprocess.run(["h5repack", "-f", "FLET", "-f", ours, plain, packed], check=True)
    assert 0 < np.abs(read(packed) - FIELD).max() <= BOUND
    subprocess.run(["h5repack", "-f", "SHUF", "-f", "GZIP=1", packed, again], check=True)
    assert np.array_equal(read(again), read(packed))


def patch(path, old, new):
    """Replaces numbers that HDF5 has stored, which occur once."""
    old, new = (struct.pack(f"<{len(numbers)}I", *numbers) for numbers in (old, new))
    bytes_of_file = path.read_bytes()
    assert bytes_of_file.count(old) == 1
    path.write_bytes(bytes_of_file.replace(old, new))


@pytest.mark.parametrize("options", [ABS, LOSSLESS])
def test_parameters_without_the_shape_of_a_chunk_are_refused(tmp_path, options):
    path = tmp_path / "a.h5"
    create(path, [(ID, options)], FIELD[:32, :32])
    with h5py.File(path) as file:
        stored = file["x"].id.get_create_plist().get_filter(0)[2]
    assert stored[-5:] == (2, 32, 0, 32, 0)
    # No axes, and more axes than there are numbers.
    for rank in (0, 3, 2**32 - 1):
        patch(path, stored, (*stored[:-5], rank, *stored[-4:]))
        with pytest.raises(OSError):
            read(path)
        patch(path, (*stored[:-5], rank, *stored[-4:]), stored)
    assert np.abs(read(path) - FIELD[:32, :32]).max() <= BOUND


@pytest.mark.parametrize("shape", [(32, 31), (31, 32), (1, 1), (64, 64), (2**31, 1), (32,)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_stream_of_another_length_than_the_chunk_is_refused(tmp_path, shape, dtype):
    syncline = pytest.importorskip("syncline")
    path = tmp_path / "a.h5"
    create(path, [(ID, ABS)], FIELD[:32, :32])
    huge = np.prod(shape, dtype="f8") > 1e6
    stream = syncline.compress(np.broadcast_to(np.zeros((), dtype), (2**16,) if huge else shape))
    with h5py.File(path, "a") as file:
        file["x"].id.write_direct_chunk((0, 0), stream)
    with pytest.raises(OSError):
        read(path)
