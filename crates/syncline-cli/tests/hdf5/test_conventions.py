"""`convert` on netCDF-4 files: which variables get which bound, and what readers are told of it."""

import json
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from test_hdf5_files import FIELD, ID, RANGE, pytestmark, syncline  # noqa: F401

netCDF4 = pytest.importorskip("netCDF4")

SHAPE = FIELD.shape
LATITUDE = np.linspace(-60, 60, SHAPE[1] * SHAPE[2]).reshape(SHAPE[1:])


def variable(file, name, data, dimensions, **attributes):
    fill = attributes.pop("_FillValue", None)
    made = file.createVariable(name, np.asarray(data).dtype, dimensions, fill_value=fill)
    made.setncatts(attributes)
    made[:] = data


@pytest.fixture
def climate(tmp_path):
    """Writes a file with what the CF conventions know, in `in.nc`."""
    with netCDF4.Dataset(tmp_path / "in.nc", "w") as file:
        for name, extent in zip(("time", "y", "x"), SHAPE):
            file.createDimension(name, extent)
        file.createDimension("bnds", 2)
        file.createDimension("long", 1200)
        file.createDimension("group", 1)
        steps = np.arange(1200) * 30.4
        variable(file, "long", steps + 15.2, ("long",), units="days since 1850-01-01", bounds="long_bnds")
        variable(file, "long_bnds", np.stack([steps, steps + 30.4], 1), ("long", "bnds"))
        variable(file, "run", np.tile(steps, (2, 1)).T, ("long", "bnds"), units="hours SINCE 1970-1-1 0:0")
        variable(file, "lat", LATITUDE, ("y", "x"))
        variable(file, "lon", LATITUDE.T.reshape(LATITUDE.shape) + 0.5, ("y", "x"), units="degrees_east")
        variable(file, "area", LATITUDE**2, ("y", "x"))
        variable(file, "doubt", FIELD.astype("f4"), ("time", "y", "x"))
        names = {"coordinates": "lat lon", "cell_measures": "area: area", "ancillary_variables": "doubt"}
        variable(file, "ta", FIELD.astype("f4"), ("time", "y", "x"), units="K", **names)
        variable(file, "tas", FIELD, ("time", "y", "x"), units="K", **names)
        variable(file, "pr", np.abs(FIELD) * 1e-5, ("time", "y", "x"))
        variable(file, "scaled", FIELD, ("time", "y", "x"))
        # Written without scaling, and read with it.
        file["scaled"].setncatts({"scale_factor": -2.0, "add_offset": 100.0})
        variable(file, "kind", (FIELD * 9).astype("i2"), ("time", "y", "x"), scale_factor=0.5)
        inner = file.createGroup("inner")
        variable(inner, "orography", FIELD[0], ("y", "x"))
        variable(inner, "ua", FIELD, ("time", "y", "x"), ancillary_variables="orography lat")
    return tmp_path / "in.nc"


EXACT = {
    "long": "a time in days since 1850-01-01",
    "long_bnds": "bounds of /long names it",
    "run": "a time in hours SINCE 1970-1-1 0:0",
    "lat": "coordinates of /ta names it",
    "lon": "a coordinate",
    "area": "cell_measures of /ta names it",
    "doubt": "ancillary_variables of /ta names it",
    "inner/orography": "ancillary_variables of /inner/ua names it",
}


def raw(path, name):
    with netCDF4.Dataset(path) as file:
        file.set_auto_maskandscale(False)
        return np.asarray(file[name][...])


def test_variables_that_describe_others_stay_exact_and_the_table_says_why(syncline, climate):  # noqa: F811
    said = syncline("convert", "in.nc", "out.nc", "--rel", "1e-3", "-q")
    said = syncline("convert", "in.nc", "out.nc", "--rel", "1e-3", "--force")
    for name, reason in EXACT.items():
        assert f"/{name}: copied: {reason}\n" in said, said
        assert np.array_equal(raw("out.nc", name), raw("in.nc", name)), name
    assert np.array_equal(raw("out.nc", "kind"), raw("in.nc", "kind"))
    assert "/ta: |error| <= " in said and "1 dataset of other types: copied" in said
    assert 0 < np.abs(raw("out.nc", "ta") - raw("in.nc", "ta")).max() <= 1e-3 * RANGE * 1.000001
    assert "9 of other" not in said


def test_names_have_bounds_of_their_own(syncline, climate):  # noqa: F811
    options = ["--rel", "ta*=1e-4", "--rel", "ta=1e-2", "--abs", "/inner/*=1e-3", "--pw-rel", "pr=1e-5"]
    options += ["--psnr", "lat=70", "--lossless", "sc*", "--json"]
    table = json.loads(syncline("convert", "in.nc", "out.nc", *options))["datasets"]
    table = {entry["dataset"].strip("/"): entry for entry in table}
    bounds = {name: entry["bound"] for name, entry in table.items() if entry["compressed"]}
    assert bounds == {
        "ta": {"kind": "rel", "value": 1e-2},
        "tas": {"kind": "rel", "value": 1e-4},
        "inner/ua": {"kind": "abs", "value": 1e-3},
        "pr": {"kind": "pw_rel", "value": 1e-5},
        # The name of a variable is worth more than what conventions say of it.
        "lat": {"kind": "psnr", "value": 70},
        "scaled": {"kind": "lossless", "value": 0},
    }
    assert table["doubt"]["reason"] == "no bound is given for it"
    assert table["inner/orography"]["reason"] == EXACT["inner/orography"]
    for name, factor in (("ta", 1e-2), ("tas", 1e-4)):
        errors = np.abs(raw("out.nc", name) - raw("in.nc", name)).max()
        assert 0.3 * factor * RANGE < errors <= factor * RANGE * 1.000001
    assert np.array_equal(raw("out.nc", "scaled"), raw("in.nc", "scaled"))


def test_attributes_state_the_largest_error_of_the_values_that_are_read(syncline, climate):  # noqa: F811
    syncline("convert", "in.nc", "out.nc", "--abs", "1e-2", "--pw-rel", "pr=1e-3", "-q")
    with netCDF4.Dataset("out.nc") as new, netCDF4.Dataset("in.nc") as old:
        for name in ("ta", "scaled", "inner/ua"):
            attributes = new[name].__dict__
            assert attributes["lossy_compression"] == "syncline"
            assert attributes["lossy_compression_implementation"].startswith("syncline 0.")
            assert attributes["lossy_compression_maximum_absolute_error"] == 1e-2
            errors = np.abs(new[name][...].astype("f8") - old[name][...]).max()
            assert 0.3e-2 < errors <= 1e-2, name
        assert new["pr"].lossy_compression_maximum_relative_error == 1e-3
        assert new["ta"].units == "K"
        for name in (*EXACT, "kind"):
            assert "lossy_compression" not in new[name].ncattrs()
    # What a second compression adds is said.
    said = syncline("convert", "out.nc", "again.nc", "--abs", "1e-2")
    assert "/ta: was compressed with an error bound before: the errors of both add up" in said
    with netCDF4.Dataset("again.nc") as new:
        assert new["ta"].lossy_compression_maximum_absolute_error == 2e-2
        errors = {f"lossy_compression_maximum_{kind}_error" for kind in ("relative", "absolute")}
        assert set(new["pr"].ncattrs()) >= errors
    xarray = pytest.importorskip("xarray")
    with xarray.open_dataset("out.nc", engine="netcdf4") as new:
        assert new.ta.attrs["lossy_compression"] == "syncline"


def test_several_missing_values_are_kept_and_out_of_the_range(syncline):  # noqa: F811
    data = FIELD.astype("f4")
    data[::3], data[1], data[2] = -9999, 1e20, 3e33
    with h5py.File("a.h5", "w") as file:
        file["t"] = data
        file["t"].attrs["missing_value"] = np.array([-9999, 1e20])
        file["t"].attrs["_FillValue"] = np.array([3e33], "f4")
    syncline("convert", "a.h5", "b.h5", "--rel", "1e-3", "-q")
    with h5py.File("b.h5") as file:
        back = file["t"][...]
    valid = (np.abs(data) < 100) & (data != -9999)
    assert np.array_equal(back[~valid], data[~valid])
    assert 0 < np.abs(back - data)[valid].max() <= 1e-3 * RANGE * 1.000001


def test_bounds_for_unknown_or_conflicting_names_fail(syncline, climate):  # noqa: F811
    before = sorted(path.name for path in climate.parent.iterdir())
    for options, text in [
        (["--rel", "t?x=1e-3"], "--rel t?x=0.001: no floating-point array has such a name: name some of /"),
        (["--pw-rel", "kind=0.1"], "--pw-rel kind=0.1: /kind: arrays of i16 have no point-wise relative bound"),
        (["--abs", "k*=1"], "no floating-point array has such a name"),
        (["--lossless", "none"], "no floating-point array has such a name"),
        (["--rel", "ta=1e-3", "--abs", "ta=1"], "are both for /ta"),
        (["--rel", "t*=1e-3", "--abs", "ta*=1"], "are both for /ta"),
        (["--rel", "1e-3", "--abs", "1"], "are both for all arrays"),
        (["--rel", "ta=0"], "must be a finite number above 0"),
        (["--rel", "=1"], "has no name before ="),
        (["--pw-rel", "scaled=1e-3"], "add_offset"),
        (["--abs", "scaled=1e-15"], "larger"),
        (["--abs", "1", "--except", "inner/o"], "no group or array inner/o"),
    ]:
        assert text in syncline("convert", "in.nc", "out.nc", *options, code=2), options
    assert before == sorted(path.name for path in climate.parent.iterdir())


def test_filters_of_the_input_do_not_stand_before_the_bound(syncline):  # noqa: F811
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("t", data=FIELD, chunks=(20, 25, 60), shuffle=True, fletcher32=True, compression="gzip")
    syncline("convert", "a.h5", "b.h5", "--abs", "1e-3", "-q")
    with h5py.File("b.h5") as file:
        assert file["t"]._filters.keys() == {str(ID)}
        assert 0 < np.abs(file["t"][...] - FIELD).max() <= 1e-3


@pytest.mark.parametrize("is_rewritable", [False, True])
def test_chunks_are_rewritable_by_request(syncline, is_rewritable):  # noqa: F811
    with h5py.File("a.h5", "w") as file:
        file["t"] = FIELD
    syncline("convert", "a.h5", "b.h5", "--abs", "1e-3", "-q", *(["--rewritable"] if is_rewritable else []))
    with h5py.File("b.h5") as file:
        assert file["t"].id.get_create_plist().get_filter(0)[2][7] & 256 == (0 if is_rewritable else 256)


def test_files_of_other_formats_are_named(syncline):  # noqa: F811
    with netCDF4.Dataset("three.nc", "w", format="NETCDF3_CLASSIC") as file:
        file.createDimension("x", 2000)
        file.createVariable("t", "f4", ("x",))[:] = np.arange(2000)
    Path("four.h5").write_bytes(bytes([14, 3, 19, 1]) + bytes(100))
    for words in (["convert", "three.nc", "out.nc"], ["compress", "three.nc:t"], ["compress", "three.nc"]):
        said = syncline(*words, "--abs", "1", code=1)
        assert "three.nc: is a netCDF-3 file" in said and "nccopy -k nc4" in said, said
    assert "four.h5: is an HDF4 file" in syncline("compress", "four.h5:t", "--abs", "1", code=1)
    if shutil.which("nccopy"):
        subprocess.run(["nccopy", "-k", "nc4", "three.nc", "four.nc"], check=True)
        syncline("compress", "four.nc:t", "--abs", "1")


def test_hdf5_is_known_by_its_first_bytes(syncline):  # noqa: F811
    name = "wrfout_d01_2005-08-28_00:00:00"
    with h5py.File(name, "w", userblock_size=1024) as file:
        file["T2"] = FIELD[0]
    syncline("compress", f"{name}:T2", "--abs", "1e-3", "-o", "t.syn")
    syncline("verify", f"{name}:T2", "t.syn")
    syncline("compress", name, "--abs", "1e-3", "-o", "u.syn")
    assert Path("t.syn").read_bytes() == Path("u.syn").read_bytes()
    syncline("convert", name, "small", "--abs", "1e-3", "-q")
    syncline("decompress", "t.syn", "-o", f"{name}:again")
    with h5py.File("small") as new, h5py.File(name) as old:
        assert np.abs(new["T2"][...] - FIELD[0]).max() <= 1e-3 and np.abs(old["again"][...] - FIELD[0]).max() <= 1e-3
    assert "there is no dataset /Q2" in syncline("compress", f"{name}:Q2", "--abs", "1", code=2)
