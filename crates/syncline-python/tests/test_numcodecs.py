"""The codec for Zarr format 2 and for whatever else takes numcodecs codecs."""

import array
import json
import pickle

import numcodecs
import numpy as np
import pytest
import syncline
import zarr
from syncline.h5py import parameters
from syncline.numcodecs import Syncline, of_hdf5

ARRAYS = [
    np.arange(1000, dtype="i4"),
    np.linspace(1000, 1001, 1000, dtype="f8"),
    np.random.default_rng(1).normal(1000, 1, (100, 10)),
    np.random.default_rng(2).integers(0, 200, (10, 10, 10)).astype("u2"),
    np.random.default_rng(3).integers(0, 2**60, 1000, dtype="u8").view("M8[ns]"),
    np.random.default_rng(4).integers(0, 2**20, 1000).view("m8[ms]"),
    np.random.default_rng(5).integers(0, 2, 1000).astype(bool),
    np.asfortranarray(np.arange(2000, dtype=">f4").reshape(40, 50)),
    np.zeros((0, 3), "f4"),
]


@pytest.mark.parametrize("values", ARRAYS, ids=lambda values: f"{values.dtype}{values.shape}")
def test_numcodecs_contract(values):
    """What numcodecs' own tests check of a codec: encode and decode any buffer, into new memory and into ``out``."""
    codec = numcodecs.get_codec(json.loads(json.dumps(Syncline().get_config())))
    assert codec == Syncline() and pickle.loads(pickle.dumps(codec)) == codec
    encoded = codec.encode(values)
    order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
    expected = values.tobytes(order=order)
    decoded = np.asarray(codec.decode(encoded))
    assert decoded.tobytes() == expected
    for form in (bytes(encoded), bytearray(encoded), memoryview(encoded), np.frombuffer(encoded, "u1")):
        assert np.asarray(codec.decode(form)).tobytes() == decoded.tobytes()
    out = np.empty_like(values, order="C")
    codec.decode(encoded, out=out)
    assert out.tobytes() == decoded.tobytes()


def test_other_buffers():
    codec = Syncline()
    for buffer in (b"some bytes" * 10, bytearray(b"x" * 99), array.array("b", range(100)), memoryview(b"abc" * 40)):
        assert np.asarray(codec.decode(codec.encode(buffer))).tobytes() == bytes(buffer)
    with pytest.raises((TypeError, ValueError)):
        codec.encode(np.array(["a", object()], object))
    with pytest.raises(ValueError, match="bytes have no error bound"):
        Syncline("abs", 0.1).encode(b"may be anything")
    with pytest.raises(ValueError, match="little-endian"):
        Syncline("abs", 0.1).encode(np.zeros(9, ">f4"))
    with pytest.raises(syncline.SynclineError):
        codec.decode(b"not a stream")


@pytest.mark.parametrize("dtype", ["f2", "u1", "i2", "u4", "i8"])
def test_every_type_has_bounds(dtype):
    values = (60 + 50 * np.sin(np.arange(6000).reshape(60, 100) / 50)).astype(dtype)
    for array in (values, values.T):
        back = np.asarray(Syncline("abs", 2).decode(Syncline("abs", 2).encode(array)))
        assert back.dtype == dtype and np.abs(back.astype("f8") - values.reshape(-1)).max() <= 2
    if dtype != "f2":
        with pytest.raises(ValueError, match="counts"):
            Syncline("pw_rel", 0.1).encode(values)


def test_booleans_and_times_are_exact_and_complex_numbers_are_pairs(tmp_path):
    generator = np.random.default_rng(3)
    codec = Syncline("abs", 0.01)
    arrays = [
        generator.random((20, 30)) < 0.4,
        np.datetime64("2024-01-01", "ns") + generator.integers(0, 10**15, (20, 30)),
        (generator.normal(size=(20, 30)) + 1j * generator.normal(size=(20, 30))).astype("c8"),
    ]
    for number, values in enumerate(arrays):
        options = {"shape": values.shape, "chunks": (10, 20), "dtype": values.dtype, "compressors": codec}
        stored = zarr.create_array(tmp_path / str(number), zarr_format=2, **options)
        stored[...] = values
        back = zarr.open_array(tmp_path / str(number))[...]
        assert back.dtype == values.dtype
        if values.dtype.kind == "c":
            assert np.abs((back - values).view("f4")).max() <= 0.01 and (back != values).any()
        else:
            assert (back == values).all()


def test_efforts():
    values = np.fromfunction(lambda y, x: np.sin(y / 9) * np.cos(x / 7), (200, 200)).astype("f4")
    sizes = []
    for effort in (None, "fast", "balanced", "best"):
        codec = Syncline("abs", 1e-3, effort=effort)
        assert codec.get_config().get("effort") == effort
        again = numcodecs.get_codec(json.loads(json.dumps(codec.get_config())))
        assert again == codec and again.encode(values) == codec.encode(values)
        back = np.asarray(codec.decode(codec.encode(values))).reshape(values.shape)
        assert np.abs(back - values).max() <= 1e-3
        sizes.append(len(codec.encode(values)))
    assert sizes[1] >= sizes[2] == sizes[0] >= sizes[3], sizes
    # Metadata of versions that had no efforts.
    assert numcodecs.get_codec({"id": "syncline", "mode": "abs", "value": 1e-3}) == Syncline("abs", 1e-3)
    with pytest.raises(ValueError, match="effort"):
        Syncline("abs", 1e-3, effort="slow")


@pytest.mark.parametrize("fill", [-9999, [-9999.0, 1e20]])
def test_fill_values(fill):
    values = np.sin(np.arange(10_000, dtype="f4") / 50).reshape(100, 100)
    values[::7], values[1::7] = np.ravel(fill)[[0, -1]]
    codec = Syncline("rel", 1e-3, fill=fill)
    assert numcodecs.get_codec(json.loads(json.dumps(codec.get_config()))) == codec
    back = np.asarray(codec.decode(codec.encode(values))).reshape(values.shape)
    missing = np.isin(values, fill)
    np.testing.assert_array_equal(back[missing], values[missing])
    assert np.abs(back - values)[~missing].max() <= 2e-3
    with pytest.raises(ValueError, match="fill"):
        Syncline("rel", 1e-3, fill="file")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", ">f4", "f8", "i2", "M8[s]"])
def test_zarr_format_2(order, dtype):
    values = np.arange(3000).reshape(50, 60).astype(dtype)
    stored = zarr.create_array(
        {},
        shape=(50, 60),
        chunks=(20, 30),
        dtype=dtype,
        zarr_format=2,
        order=order,
        compressors=Syncline(),
        filters=None,
    )
    stored[:] = values
    np.testing.assert_array_equal(stored[:], values)
    np.testing.assert_array_equal(stored[3:40:7, -5], values[3:40:7, -5])


def test_lossy_chunks():
    values = np.sin(np.arange(10_000, dtype="f4") / 50).reshape(100, 100)
    stored = zarr.create_array(
        {},
        shape=(100, 100),
        chunks=(50, 50),
        dtype="f4",
        zarr_format=2,
        compressors=Syncline("abs", 1e-3),
        filters=None,
    )
    stored[:] = values
    assert np.abs(stored[:] - values).max() <= 1e-3


@pytest.mark.parametrize("dtype", ["<f4", ">f4", ">f8", "<i2", ">i2", ">u8", "u1", "?"])
def test_chunks_of_hdf5_files_are_read(dtype, tmp_path):
    h5py = pytest.importorskip("h5py")
    filters = pytest.importorskip("syncline.h5py")
    field = (np.arange(4096).reshape(64, 64) // 48).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = filters.filter(abs=0.25, fill=[-1.0, -2.0, -3.0]) if field.dtype.kind == "f" else filters.filter()
        file.create_dataset("t", data=field, chunks=(64, 64), **options)
    with h5py.File(tmp_path / "a.h5") as file:
        dataset = file["t"]
        _, chunk = dataset.id.read_direct_chunk((0, 0))
        for codec in reversed(of_hdf5(dataset._filters["47501"])):
            chunk = codec.decode(chunk)
        # As Zarr does it: the bytes are those of the type of the array.
        values = np.frombuffer(bytes(chunk), dtype).reshape(64, 64)
        np.testing.assert_array_equal(values, dataset[...])
        assert values.nbytes == field.nbytes


@pytest.mark.parametrize(
    ("appended", "error"),
    [((), "not the parameters"), ((1 + 1024, 1, 9, 0), "not the par"), ((1 + 512, 1, 9, 0), "checksum")],
)
def test_other_parameters_of_hdf5_fail(appended, error):
    with pytest.raises(ValueError, match=error):
        of_hdf5((*parameters(syncline.Bound()), *appended))
