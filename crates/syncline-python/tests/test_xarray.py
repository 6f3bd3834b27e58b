"""Datasets in Zarr with error bounds."""

import doctest

import dask.array
import numpy as np
import pytest
import syncline
import syncline.xarray
import xarray


def dataset():
    t = (280 + 20 * np.sin(np.arange(12_000) / 50)).reshape(10, 30, 40).astype("f4")
    t[0, :5] = np.nan
    return xarray.Dataset(
        {
            "t": (("time", "y", "x"), t, {"units": "K", "long_name": "temperature"}),
            "p": (("y", "x"), np.linspace(9e4, 1e5, 1200).reshape(30, 40)),
            "flag": (("y", "x"), np.arange(1200, dtype="i2").reshape(30, 40)),
            "name": (("y",), np.array([f"row {i}" for i in range(30)])),
        },
        coords={"time": np.arange("2026-01-01", "2026-01-11", dtype="M8[D]").astype("M8[ns]"), "y": np.arange(30.0)},
        attrs={"title": "test"},
    )


def test_a_dataset_comes_back_within_its_bounds(tmp_path):
    original = dataset()
    original.t.encoding["_FillValue"] = np.float32(-9999)
    encoding = syncline.xarray.encoding(original, rel=1e-4, per_variable={"p": syncline.Bound("abs", 5.0)})
    assert set(encoding) == {"t", "p", "flag"}
    annotated = syncline.xarray.annotate(original, encoding)
    assert "lossy_compression" not in original.t.attrs
    annotated.to_zarr(tmp_path / "d.zarr", encoding=encoding)
    with xarray.open_zarr(tmp_path / "d.zarr") as back:
        assert isinstance(back.t.data, dask.array.Array)
        bound = 1e-4 * float(original.t.max() - original.t.min())
        assert float(abs(back.t - original.t).max()) <= bound
        np.testing.assert_array_equal(np.isnan(back.t), np.isnan(original.t))
        assert float(abs(back.p - original.p).max()) <= 5
        np.testing.assert_array_equal(back.flag, original.flag)
        np.testing.assert_array_equal(back.name, original.name)
        np.testing.assert_array_equal(back.time, original.time)
        assert back.t.attrs["units"] == "K" and back.attrs["title"] == "test"
        assert back.t.attrs["lossy_compression"] == "syncline"
        assert abs(back.t.attrs["lossy_compression_maximum_absolute_error"] - bound) < 1e-9
        assert back.t.encoding["_FillValue"] == -9999
        # The encoding survives another round.
        back.to_zarr(tmp_path / "e.zarr")
    with xarray.open_zarr(tmp_path / "e.zarr") as again:
        assert again.t.encoding["serializer"].mode == "abs"
        assert float(abs(again.t - original.t).max()) <= 2 * bound


def test_zarr_format_2_and_a_psnr(tmp_path):
    original = dataset().drop_vars("name")
    encoding = syncline.xarray.encoding(original, psnr=70, zarr_format=2)
    annotated = syncline.xarray.annotate(original, encoding)
    annotated.to_zarr(tmp_path / "d.zarr", encoding=encoding, zarr_format=2)
    bound = annotated.t.attrs["lossy_compression_maximum_absolute_error"]
    with xarray.open_zarr(tmp_path / "d.zarr", zarr_format=2) as back:
        assert back.t.encoding["compressors"][0].mode == "abs"
        assert 0 < float(abs(back.t - original.t).max()) <= bound
        error = float(((back.t - original.t).astype("f8") ** 2).mean()) ** 0.5
        assert 20 * np.log10(float(original.t.max() - original.t.min()) / error) >= 70
        np.testing.assert_array_equal(back.flag, original.flag)
        np.testing.assert_array_equal(back.time, original.time)


def test_several_fill_values(tmp_path):
    values = (280 + 20 * np.sin(np.arange(12_000) / 50)).reshape(300, 40).astype("f4")
    values[::6], values[1::6], values[2::6] = -9999, 1e20, -1
    original = xarray.Dataset({"t": (("y", "x"), values)})
    original.t.encoding |= {"_FillValue": np.float32(-9999), "missing_value": np.float32(-9999)}
    encoding = syncline.xarray.encoding(original, rel=1e-3, fill=[np.float32(1e20), -1])
    assert encoding["t"]["serializer"].fill == (-9999.0, float(np.float32(1e20)), -1.0)
    valid = ~np.isin(values, np.array([-9999, 1e20, -1], "f4"))
    bound = encoding["t"]["serializer"].value
    assert np.isclose(bound, 1e-3 * np.ptp(values[valid]))
    original.to_zarr(tmp_path / "d.zarr", encoding=encoding)
    with xarray.open_zarr(tmp_path / "d.zarr", mask_and_scale=False) as back:
        np.testing.assert_array_equal(back.t.values[~valid], values[~valid])
        assert np.abs(back.t.values[valid] - values[valid]).max() <= bound


@pytest.mark.parametrize("bound", [{"abs": 0.01}, {"rel": 1e-3}])
def test_bounds_are_those_of_the_values_that_are_read(tmp_path, bound):
    original = dataset()[["t"]].fillna(285)
    original.t.encoding = {"scale_factor": 20.0, "add_offset": 280.0, "dtype": "f4"}
    encoding = syncline.xarray.encoding(original, **bound)
    annotated = syncline.xarray.annotate(original, encoding)
    allowed = bound.get("abs", 1e-3 * float(original.t.max() - original.t.min()))
    assert np.isclose(annotated.t.attrs["lossy_compression_maximum_absolute_error"], allowed)
    annotated.to_zarr(tmp_path / "d.zarr", encoding=encoding)
    with xarray.open_zarr(tmp_path / "d.zarr", mask_and_scale=False) as stored:
        assert float(stored.t.max()) < 2
    with xarray.open_zarr(tmp_path / "d.zarr") as back:
        # Scaling rounds, too, which counts in the bound.
        assert float(abs(back.t - original.t).max()) <= allowed
    with pytest.raises(ValueError, match="'t' is stored with an add_offset"):
        syncline.xarray.encoding(original, pw_rel=1e-3)


def test_regions_are_written(tmp_path):
    original = dataset().drop_vars("name")
    encoding = syncline.xarray.encoding(original, abs=0.01)
    chunked = original.chunk({"time": 5})
    chunked.to_zarr(tmp_path / "d.zarr", encoding=encoding, compute=False)
    for start in (0, 5):
        part = original[["t"]].isel(time=slice(start, start + 5)).drop_vars(["time", "y"])
        part.to_zarr(tmp_path / "d.zarr", region={"time": slice(start, start + 5)})
    with xarray.open_zarr(tmp_path / "d.zarr") as back:
        assert float(abs(back.t - original.t).max()) <= 0.01


def test_lazy_variables_are_resolved_in_one_pass():
    lazy = dataset().chunk({"time": 2})
    encoding = syncline.xarray.encoding(lazy, rel=1e-3)
    eager = syncline.xarray.encoding(dataset(), rel=1e-3)
    assert encoding["t"]["serializer"] == eager["t"]["serializer"]
    best = syncline.xarray.encoding(lazy, rel=1e-3, effort="best")
    assert [best[name]["serializer"].effort for name in ("t", "p", "flag")] == ["best", "best", "best"]
    with pytest.raises(ValueError, match="no data variable 'q'"):
        syncline.xarray.encoding(lazy, rel=1e-3, per_variable={"q": syncline.Bound()})


def test_examples_of_the_documentation():
    results = doctest.testmod(syncline.xarray)
    assert results.attempted > 4 and results.failed == 0
