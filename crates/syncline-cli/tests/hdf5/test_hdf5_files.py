"""The command on HDF5 and netCDF-4 files: Python writes what it reads, and reads what it writes.

Every test runs with each HDF5 library that is found: those of h5py and of netCDF4, and that of the system.
"""

import json
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

netCDF4 = pytest.importorskip("netCDF4")

COMMAND = os.environ.get("SYNCLINE_COMMAND")
pytestmark = pytest.mark.skipif(COMMAND is None, reason="SYNCLINE_COMMAND does not name the command")
ID = 47501
FIELD = np.sin(np.arange(40 * 50 * 60) * 0.01).reshape(40, 50, 60) + np.linspace(0, 2, 60)
RANGE = np.ptp(FIELD)
METHOD = "lossy_compression"
DESCRIPTION = {METHOD, f"{METHOD}_implementation", f"{METHOD}_maximum_absolute_error"}


def libraries():
    for package in (h5py, netCDF4):
        folder = Path(package.__file__).parent.parent / f"{package.__name__.lower()}.libs"
        for library in folder.glob("libhdf5-*"):
            yield pytest.param(str(library), id=package.__name__)
    yield pytest.param(None, id="system")


@pytest.fixture(params=libraries())
def syncline(request, tmp_path, monkeypatch):
    """Runs the command in a folder of its own. Returns what it said, and checks its exit code."""
    monkeypatch.chdir(tmp_path)
    environment = {name: value for name, value in os.environ.items() if name != "SYNCLINE_HDF5_LIBRARY"}
    if request.param is not None:
        environment["SYNCLINE_HDF5_LIBRARY"] = request.param

    def run(*words, code=0, **more):
        words = [COMMAND, *map(str, words)]
        done = subprocess.run(words, capture_output=True, text=True, env={**environment, **more}, timeout=60)
        if request.param is None and "no HDF5 library was found" in done.stderr:
            pytest.skip("the system has no HDF5 library")
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    return run


def is_compressed(dataset):
    return dataset._filters.get(str(ID)) is not None


@pytest.mark.parametrize("layout", ["contiguous", "chunked", "gzip", "compact"])
@pytest.mark.parametrize("dtype", ["f4", ">f8"])
def test_a_dataset_becomes_a_stream_and_a_dataset_again(syncline, layout, dtype):
    data = FIELD[:10, :10, :60].astype(dtype)
    with h5py.File("a.h5", "w") as file:
        if layout == "compact":
            creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            creation.set_layout(h5py.h5d.COMPACT)
            space = h5py.h5s.create_simple(data.shape)
            kind = h5py.h5t.py_create(data.dtype)
            h5py.h5g.create(file.id, b"g")
            h5py.Dataset(h5py.h5d.create(file.id, b"g/t", kind, space, creation))[...] = data
        else:
            chunks = {"chunks": (4, 5, 30)} if layout != "contiguous" else {}
            filters = {"compression": "gzip", "shuffle": True} if layout == "gzip" else {}
            file.create_dataset("g/t", data=data, **chunks, **filters)
    assert "a.h5.g_t.npy.syn" in syncline("compress", "a.h5:/g/t", "--abs", "1e-3")
    syncline("verify", "a.h5:g/t", "a.h5.g_t.npy.syn", "--abs", "1e-3")
    syncline("decompress", "a.h5.g_t.npy.syn", "-o", "b.h5:/x/y/z")
    # The file exists, and gets another dataset.
    syncline("decompress", "a.h5.g_t.npy.syn", "-o", "b.h5")
    with h5py.File("b.h5") as file:
        assert list(file) == ["g_t", "x"]
        for dataset in (file["x/y/z"], file["g_t"]):
            assert dataset.shape == data.shape and dataset.dtype == np.dtype(dtype).newbyteorder("<")
            assert np.abs(dataset[...] - data.astype("f8")).max() <= 1e-3
    assert "exists already" in syncline("decompress", "a.h5.g_t.npy.syn", "-o", "b.h5:g_t", code=2)
    syncline("decompress", "a.h5.g_t.npy.syn", "-o", "b.h5:g_t", "--force")


@pytest.mark.parametrize("dtype", ["f2", "i1", "u2", ">i4", "u8", "?"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (2, 3, 4, 5, 6)])
def test_types_and_shapes(syncline, dtype, shape):
    data = (np.arange(np.prod(shape)).reshape(shape) % 2).astype(dtype)
    with h5py.File("a.h5", "w") as file:
        file["t"] = data
    syncline("compress", "a.h5", "--lossless", "-o", "t.syn")
    syncline("decompress", "t.syn", "-o", "b.h5:t")
    with h5py.File("b.h5") as file:
        assert file["t"].shape == shape and np.array_equal(file["t"][...], data)


def test_declared_fill_values_are_kept(syncline):
    data = FIELD.astype("f4")
    data[::3] = -77
    data[1, 1] = 5e4
    with h5py.File("a.h5", "w") as file:
        dataset = file.create_dataset("t", data=data, fillvalue=-77)
        dataset.attrs["missing_value"] = np.float64(5e4)
    said = syncline("compress", "a.h5:t", "--rel", "1e-3", "-o", "t.syn")
    assert "-77 in 42,000 elements" in said and "50000 in 60 elements" in said
    syncline("decompress", "t.syn", "-o", "b.h5:t")
    syncline("convert", "a.h5", "c.h5", "--rel", "1e-3")
    for name in ("b.h5", "c.h5"):
        with h5py.File(name) as file:
            back = file["t"][...]
            assert np.array_equal(back == -77, data == -77) and np.array_equal(back == 5e4, data == 5e4)
            assert np.abs(back - data).max() <= 1e-3 * RANGE * 1.01
            assert file["t"].fillvalue in (-77, 5e4)
    assert "42,000" not in syncline("compress", "a.h5:t", "--rel", "1e-3", "--fill", "5e4", "-fo", "t.syn")


def test_netcdf_variables(syncline):
    with netCDF4.Dataset("a.nc", "w") as file:
        file.createDimension("x", 60)
        file.createDimension("y", None)
        temperature = file.createVariable("temperature", "f4", ("y", "x"), zlib=True, fill_value=-9999)
        temperature[:] = np.ma.masked_less(FIELD[0], 0.5)
    syncline("compress", "a.nc:temperature", "--abs", "1e-3")
    syncline("decompress", "a.nc.temperature.npy.syn", "-o", "t.npy")
    back = np.load("t.npy")
    assert back.shape == (50, 60) and np.array_equal(back == -9999, FIELD[0] < 0.5)


GROWING = {"chunks": (24, 25, 60), "maxshape": (None, 50, 60), "compression": "gzip"}


def make_file(path):
    rng = np.random.default_rng(1)
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs["title"] = "text of variable length"
        file.attrs["fixed"] = np.bytes_("fixed")
        file.attrs["numbers"] = np.arange(6.0).reshape(2, 3)
        file.attrs["empty"] = h5py.Empty("f4")
        z = file.create_group("z", track_order=True)
        z.create_dataset("whole", data=FIELD.astype("f4"))
        z["whole"].attrs["units"] = "K"
        z["whole"].attrs["see"] = z["whole"].ref
        file.create_dataset("a/big", data=FIELD.astype(">f8"), **GROWING)
        file.create_dataset("a/half", data=FIELD.astype("f2"), chunks=(40, 50, 60))
        file.create_dataset("a/noise", data=rng.bytes(400_000 * 8), dtype="V3200000")
        file.create_dataset("a/random", data=rng.random(100_000), chunks=(50_000,))
        file["a/scalar"], file["a/small"] = 3.5, FIELD[0, 0]
        file.create_dataset("a/nothing", shape=(0, 5000), dtype="f4", maxshape=(None, 5000))
        file["a/null"] = h5py.Empty("f8")
        file["a/ints"], file["a/text"] = np.arange(5000), ["one", "two"]
        file["a/table"] = np.array([(1, 2.5)] * 3, [("n", "i4"), ("x", "f8")])
        file["a/complex"] = FIELD[0] + 1j
        file["a/references"] = np.array([z.ref, z["whole"].ref, file.ref, h5py.h5r.Reference()], h5py.ref_dtype)
        lists = file.create_dataset("a/lists", 2, h5py.vlen_dtype("f4"))
        lists[0], lists[1] = [1, 2, 3], []
        file["type"] = np.dtype("f8")
        file.create_dataset("a/typed", data=FIELD, dtype=file["type"])
        file["soft"], file["dangling"] = h5py.SoftLink("/z/whole"), h5py.SoftLink("/nowhere")
        file["external"], file["hard"] = h5py.ExternalLink("other.h5", "/x"), z["whole"]
        file["a/loop"] = file["a"]
        file["ünïcode"] = np.arange(3)
        for number, name in enumerate(("lat", "lon")):
            file[f"scale/{name}"] = np.linspace(0, 90, FIELD.shape[number] * 50)
            file[f"scale/{name}"].make_scale(name)
        file["scale/t"] = np.add.outer(file["scale/lat"][...], np.zeros(2500)).astype("f4")
        for number, name in enumerate(("lat", "lon")):
            file["scale/t"].dims[number].attach_scale(file[f"scale/{name}"])
    return h5py.File(path)


def test_convert_keeps_everything_else(syncline):
    before = make_file("in.h5")
    said = json.loads(syncline("convert", "in.h5", "out.h5", "--rel", "1e-3", "--except", "/a/typed", "--json"))
    compressed = {row["dataset"] for row in said["datasets"] if row["compressed"]}
    assert compressed == {"/z/whole", "/a/big", "/a/half", "/a/random", "/scale/t"}
    reasons = {row["dataset"]: row["reason"] for row in said["datasets"] if not row["compressed"]}
    assert "coordinate" in reasons["/scale/lat"] and "except" in reasons["/a/typed"] and "fewer" in reasons["/a/scalar"]
    after = h5py.File("out.h5")
    assert list(after) == list(before) and list(after["z"]) == list(before["z"])
    names = []
    before.visit(names.append)
    for name in names:
        old, new = before[name], after[name]
        stated = set(new.attrs) - set(old.attrs)
        is_lossy = isinstance(old, h5py.Dataset) and old.dtype.kind == "f"
        is_lossy = is_lossy and any(new == after[path] for path in compressed)
        assert stated == (DESCRIPTION if is_lossy else set()), name
        assert type(old) is type(new) and [key for key in new.attrs if key not in stated] == list(old.attrs), name
        if not isinstance(old, h5py.Dataset):
            continue
        assert (old.shape, old.dtype, old.maxshape) == (new.shape, new.dtype, new.maxshape), name
        lossy = any(new == after[path] for path in compressed)
        assert is_compressed(new) == lossy, name
        if old.shape is None or name in ("a/references",):
            continue
        if lossy:
            old, new = old[...].astype("f8"), new[...].astype("f8")
            assert 0 < np.abs(old - new).max() <= 1e-3 * np.ptp(old), name
        elif name == "a/lists":
            assert [list(row) for row in new[...]] == [[1, 2, 3], []]
        else:
            assert old[...].tobytes() == new[...].tobytes() or np.array_equal(old[...], new[...]), name
    assert after["a/big"].chunks == GROWING["chunks"] and after.attrs["title"] == "text of variable length"
    assert np.array_equal(after.attrs["numbers"], np.arange(6).reshape(2, 3))
    assert isinstance(after.attrs["empty"], h5py.Empty)
    assert [after.get(name, getlink=True).path for name in ("soft", "dangling")] == ["/z/whole", "/nowhere"]
    link = after.get("external", getlink=True)
    assert (link.filename, link.path) == ("other.h5", "/x")
    assert after["hard"] == after["z/whole"] and after["a/loop"] == after["a"]
    assert after[after["z/whole"].attrs["see"]].name in ("/z/whole", "/hard")
    references = after["a/references"][...]
    assert after[references[0]] == after["z"] and after[references[1]] == after["z/whole"]
    assert after[references[2]].name == "/" and not references[3]
    assert isinstance(after["type"], h5py.Datatype)
    for number, name in enumerate(("lat", "lon")):
        assert after["scale/t"].dims[number][0] == after[f"scale/{name}"]
        assert after["scale/t"].dims[number].keys() == [name]
    # What is stored in a dataset that grows is padded with its fill value.
    after.close()
    with h5py.File("out.h5", "r+") as file:
        file["a/big"].resize((48, 50, 60))
        assert np.all(file["a/big"][40:] == 0)


def test_references_to_regions_are_kept(syncline):
    with h5py.File("in.h5", "w") as file:
        big = file.create_dataset("g/big", data=FIELD)
        points = h5py.h5s.create_simple(big.shape)
        points.select_elements([(0, 1, 2), (30, 40, 50), (39, 49, 59)])
        some = h5py.h5r.create(file.id, b"g/big", h5py.h5r.DATASET_REGION, points)
        regions = [big.regionref[3:20:2, :, 7], some]
        file.create_dataset("regions", data=np.array(regions, dtype=object), dtype=h5py.regionref_dtype, chunks=(2,))
        file.create_dataset("null", shape=(3,), dtype=h5py.regionref_dtype)
        file["null"][1] = regions[0]
        kind = np.dtype([("where", h5py.regionref_dtype), ("what", h5py.ref_dtype), ("size", "i4")])
        file.create_dataset("table", data=np.array([(regions[0], big.ref, 7)], dtype=kind))
        file.attrs.create("region", regions[0], dtype=h5py.regionref_dtype)
        # What a reference refers to may have no link any more.
        file["gone"] = np.arange(10)
        file.attrs.create("lost", file["gone"].regionref[3:5], dtype=h5py.regionref_dtype)
        del file["gone"]
    said = syncline("convert", "in.h5", "out.h5", "--lossless")
    assert "null in the copy" not in said
    with h5py.File("in.h5") as before, h5py.File("out.h5") as after:
        assert is_compressed(after["g/big"])

        def region(file, reference):
            assert file[reference] == file["g/big"]
            return file["g/big"][reference]

        for where in (0, 1):
            expected = region(before, before["regions"][where])
            assert len(expected) and np.array_equal(region(after, after["regions"][where]), expected)
        assert [bool(reference) for reference in after["null"][...]] == [False, True, False]
        row = after["table"][0]
        assert after[row["what"]] == after["g/big"] and row["size"] == 7
        for reference in (row["where"], after["null"][1], after.attrs["region"]):
            assert np.array_equal(region(after, reference).ravel(), FIELD[3:20:2, :, 7].ravel())
        assert not after.attrs["lost"]


@pytest.mark.parametrize("options", [["--abs", "1e-3"], ["--pw-rel", "1e-3"], ["--psnr", "60"], ["--lossless", "-9"]])
def test_convert_takes_all_bounds(syncline, options):
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("t", data=FIELD + 2, chunks=(33, 50, 60))
    said = syncline("convert", "a.h5", "b.h5", *options, "-T2", "--memory-limit", "64M")
    assert "/t" in said and "ratio" in said
    with h5py.File("a.h5") as old, h5py.File("b.h5") as new:
        error = np.abs(old["t"][...] - new["t"][...])
    psnr = RANGE / 1000 * 1.001
    limit = {"--abs": 1e-3, "--pw-rel": 1e-3 * (FIELD + 2), "--psnr": psnr, "--lossless": 0}[options[0]]
    assert np.all(error <= limit)
    # A compressed file is converted again, and its chunks are streams.
    syncline("convert", "b.h5", "c.h5", "--lossless")
    with h5py.File("b.h5") as old, h5py.File("c.h5") as new:
        assert np.array_equal(old["t"][...], new["t"][...])
        _, chunk = new["t"].id.read_direct_chunk((0, 0, 0))
    Path("chunk.syn").write_bytes(chunk)
    assert "33x50x60" in syncline("inspect", "chunk.syn")


def test_netcdf_files_stay_netcdf_files(syncline):
    xarray = pytest.importorskip("xarray")
    data = FIELD.astype("f4")
    data[0] = np.nan
    coordinates = {"z": np.arange(40.0) * 10, "y": np.linspace(0, 1, 50), "x": np.linspace(-1, 1, 60)}
    field = xarray.DataArray(data, coordinates, ("z", "y", "x"), attrs={"units": "K"})
    counts = xarray.DataArray(np.arange(3000).reshape(50, 60), dims=("y", "x"))
    dataset = xarray.Dataset({"t": field, "n": counts, "name": ("y", [f"row {i}" for i in range(50)])})
    dataset.attrs["Conventions"] = "CF-1.8"
    encoding = {"t": {"_FillValue": np.float32(-9999), "zlib": True}}
    dataset.to_netcdf("in.nc", engine="netcdf4", encoding=encoding, unlimited_dims=["z"])
    syncline("convert", "in.nc", "out.nc", "--rel", "1e-3", "--effort", "balanced")
    with netCDF4.Dataset("in.nc", "a") as file:
        kinds = file.createCompoundType(np.dtype([("a", "f4"), ("b", "i2")]), "pair"), file.createVLType("f4", "list")
        file.createVariable("pairs", kinds[0], ("y",))[:] = np.array([(i / 2, i) for i in range(50)], kinds[0].dtype)
        file.createVariable("lists", kinds[1], ("y",))[3] = np.arange(4, dtype="f4")
        file.createVariable("choice", file.createEnumType("u1", "answer", {"no": 0, "yes": 1}), ("y",))[:] = 1
    syncline("convert", "in.nc", "out.nc", "--rel", "1e-3", "--effort", "balanced", "--force")
    with netCDF4.Dataset("in.nc") as old, netCDF4.Dataset("out.nc") as new:
        assert list(old.cmptypes) == list(new.cmptypes) and list(old.vltypes) == list(new.vltypes)
        assert np.array_equal(new["pairs"][:], old["pairs"][:]) and list(new["lists"][3]) == [0, 1, 2, 3]
        assert np.all(new["choice"][:] == 1)
        assert list(old.variables) == list(new.variables) and list(old.dimensions) == list(new.dimensions)
        assert new.dimensions["z"].isunlimited() and new["t"].dimensions == ("z", "y", "x")
        assert new["t"]._FillValue == -9999
    with xarray.open_dataset("out.nc", engine="netcdf4") as new:
        assert np.abs(new.t - field).max() <= 1e-3 * RANGE and np.all(np.isnan(new.t[0]))
        assert new.t.attrs.keys() == {"units", *DESCRIPTION} and new.attrs == dataset.attrs
        for name in ("z", "y", "x", "n", "name"):
            assert np.array_equal(new[name], dataset[name]), name
    assert Path("out.nc").stat().st_size < Path("in.nc").stat().st_size


def test_the_user_block_is_kept(syncline):
    with h5py.File("a.mat", "w", userblock_size=512) as file:
        file["t"] = FIELD
    with open("a.mat", "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file")
    syncline("convert", "a.mat", "b.mat", "--abs", "1e-3")
    assert Path("b.mat").read_bytes()[:19] == b"MATLAB 7.3 MAT-file"
    with h5py.File("b.mat") as file:
        assert np.abs(file["t"][...] - FIELD).max() <= 1e-3


def test_files_of_the_latest_format(syncline):
    with h5py.File("a.h5", "w", libver="latest") as file:
        file.create_dataset("t", data=FIELD, chunks=(8, 50, 60), maxshape=(None, 50, 60))
        file["t"].attrs["large"] = np.arange(20_000)
        for number in range(40):
            file[f"many/{number}"] = FIELD[0] + number
    syncline("convert", "a.h5", "b.h5", "--abs", "1e-3")
    with h5py.File("b.h5") as file:
        assert np.array_equal(file["t"].attrs["large"], np.arange(20_000)) and len(file["many"]) == 40
        assert np.abs(file["t"][...] - FIELD).max() <= 1e-3
        assert np.abs(file["many/7"][...] - FIELD[0] - 7).max() <= 1e-3


def test_a_filter_that_is_missing_is_named(syncline):
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("t", data=FIELD, compression="lzf")
    for words in (["convert", "a.h5", "b.h5"], ["compress", "a.h5:t"]):
        said = syncline(*words, "--abs", "1e-3", code=1, HDF5_PLUGIN_PATH="/nowhere")
        assert "required filter 'lzf' is not registered" in said and "HDF5_PLUGIN_PATH" in said
    assert os.listdir() == ["a.h5"]


@pytest.mark.parametrize("dtype", ["<c8", ">c8", "<c16"])
@pytest.mark.parametrize("extents", [(20, 30, 50), (7,), ()])
def test_complex_numbers_are_pairs_along_one_more_axis(syncline, dtype, extents):
    data = (FIELD[:20, :30, :50] + 1j * FIELD[20:, 20:, 10:])[tuple(slice(extent) for extent in extents)]
    data = data.reshape(-1)[: np.prod(extents, dtype=int)].reshape(extents).astype(dtype)
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("z", data=data, chunks=True if extents else None)
        file["others"] = np.zeros(3, [("x", "f4"), ("y", "f4")])
    syncline("compress", "a.h5:z", "--lossless", "-o", "z.syn")
    syncline("decompress", "z.syn", "-o", "z.npy")
    back = np.load("z.npy")
    assert back.shape == (*extents, 2) and back.dtype == data.real.dtype.newbyteorder("<")
    assert np.array_equal(back[..., 0], data.real) and np.array_equal(back[..., 1], data.imag)
    assert "compound" in syncline("compress", "a.h5:others", "--lossless", code=1)


def test_wrong_paths_and_options_are_named_in_the_error(syncline):
    with h5py.File("a.h5", "w") as file:
        file["g/t"], file["s"] = FIELD, "text"
        file["m"] = np.array([(1, 2.5)] * 3, [("n", "i4"), ("x", "f8")])
    Path("text.h5").write_text("this is no HDF5 file")
    for words, code, text in [
        (["compress", "a.h5:/g/u", "--abs", "1"], 2, "name one of /g/t, /m, /s"),
        (["compress", "a.h5:/g", "--abs", "1"], 2, "name one of /g/t, /m, /s"),
        (["compress", "a.h5", "--abs", "1"], 2, "a.h5: has 3 datasets (/g/t, /m, /s): name one"),
        (["compress", "a.h5:s", "--lossless"], 1, "holds strings"),
        (["compress", "a.h5:m", "--lossless"], 1, "compound"),
        (["compress", "no.h5:t", "--abs", "1"], 1, "no.h5: no such file"),
        (["compress", "text.h5:t", "--abs", "1"], 1, "cannot be opened as an HDF5 file"),
        (["compress", "a.h5:g/t", "--abs", "1", "--rm"], 2, "--rm"),
        (["convert", "text.h5", "b.h5", "--abs", "1"], 1, "cannot be opened as an HDF5 file"),
        (["convert", "no.h5", "b.h5", "--abs", "1"], 1, "no.h5: no such file"),
        (["convert", "a.h5", "a.h5", "--abs", "1", "--force"], 2, "is the input"),
        (["convert", "a.h5", "text.h5", "--abs", "1"], 2, "exists already"),
        (["convert", "a.h5", "b.h5", "--abs", "1", "--except", "/h"], 2, "no group or array /h"),
        (["convert", "a.h5", "b.h5"], 2, "the bound is missing"),
    ]:
        assert text in syncline(*words, code=code), words
        assert sorted(os.listdir()) == ["a.h5", "text.h5"], words
    missing = syncline("compress", "a.h5:g/t", "--abs", "1", code=1, SYNCLINE_HDF5_LIBRARY="/no/libhdf5.so")
    assert "SYNCLINE_HDF5_LIBRARY" in missing
    # A damaged chunk is an error, and leaves nothing behind.
    with h5py.File("bad.h5", "w") as file:
        file.create_dataset("t", data=FIELD, chunks=(40, 50, 60), compression="gzip")
        _, chunk = file["t"].id.read_direct_chunk((0, 0, 0))
        file["t"].id.write_direct_chunk((0, 0, 0), chunk[:1000] + bytes(1000) + chunk[2000:])
    assert "/t: cannot be read" in syncline("convert", "bad.h5", "b.h5", "--abs", "1", code=1)
    assert sorted(os.listdir()) == ["a.h5", "bad.h5", "text.h5"]
