"""Which variables of a dataset get an error bound, and that it holds for the values that are read."""

import numpy as np
import pytest
import syncline
import syncline.xarray
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

BOUNDS = [{"abs": 0.01}, {"rel": 1e-3}, {"psnr": 60}, {"pw_rel": 1e-3}]


def waves(count=600, dtype="f4"):
    return (280 + 20 * np.sin(np.arange(count) / 50) + np.random.default_rng(0).normal(size=count)).astype(dtype)


def stored(dataset, read={}, **bound):
    """Returns a dataset as it is read after it was stored with a bound."""
    store = {}
    encoding = syncline.xarray.encoding(dataset, **bound)
    syncline.xarray.annotate(dataset, encoding).to_zarr(store, encoding=encoding, consolidated=False)
    with xarray.open_zarr(store, consolidated=False, chunks=None, **read) as back:
        return back.load()


def named(**attributes):
    """Returns a dataset whose variable ``t`` has these attributes, and others that they may name."""
    others = {name: ("x", waves()) for name in ("a", "b", "area", "ps")}
    return xarray.Dataset({"t": ("x", waves(), attributes), **others})


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("lazy", [False, True])
def test_times_stored_as_floats_come_back_exactly(bound, lazy):
    days = np.arange("2000-01-01", "2003-01-01", dtype="M8[D]").astype("M8[ns]")
    dataset = xarray.Dataset(
        {
            "valid": ("step", days, {}, {"dtype": "float64", "units": "days since 2000-01-01"}),
            "lead": ("step", days - days[0], {}, {"dtype": "float64", "units": "days"}),
            "model": ("step", xarray.date_range("2000", periods=days.size, calendar="360_day", use_cftime=True)),
            "raw": ("step", np.arange(float(days.size)) + 0.3, {"units": "Days since 1900-01-01 00:00"}),
        }
    )
    dataset.model.encoding |= {"dtype": "float64", "units": "days since 2000-01-01"}
    back = stored(dataset.chunk() if lazy else dataset, read={"decode_timedelta": True}, **bound)
    np.testing.assert_array_equal(back.valid, dataset.valid)
    np.testing.assert_array_equal(back.lead, dataset.lead)
    np.testing.assert_array_equal(back.model, dataset.model)
    raw = syncline.xarray.encoding(dataset, **bound)["raw"]["serializer"]
    assert raw == syncline.zarr.SynclineCodec()
    with pytest.raises(ValueError, match="'valid' can have no error bound: its type is datetime64"):
        syncline.xarray.encoding(dataset, per_variable={"valid": syncline.Bound("abs", 1)})


def test_times_have_no_resolved_bound():
    days = np.arange("2000-01-01", "2003-01-01", dtype="M8[D]")
    assert syncline.resolve(days, rel=1e-3) == syncline.resolve(days - days[0], rel=1e-3) == syncline.Bound()


@pytest.mark.parametrize("bound", BOUNDS)
def test_floats_stored_as_integers_are_refused_with_advice(bound):
    packing = {"dtype": "int16", "scale_factor": 0.1, "add_offset": 280.0, "_FillValue": -32767}
    dataset = xarray.Dataset({"t": ("x", waves(dtype="f8"), {}, packing), "u": ("x", waves())})
    with pytest.raises(ValueError, match=r"'t' has an error bound but is stored as int16.*remove dtype.*Bound\(\)"):
        syncline.xarray.encoding(dataset, **bound)
    back = stored(dataset, per_variable={"t": syncline.Bound()}, **bound)
    store = {}
    dataset.to_zarr(store, consolidated=False)
    with xarray.open_zarr(store, consolidated=False) as plain:
        np.testing.assert_array_equal(back.t, plain.t)
    floats = stored(dataset.drop_encoding(), **bound)
    assert 0 < float(abs(floats.t - dataset.t).max()) < 0.5


@pytest.mark.parametrize("bound", BOUNDS[:3])
@pytest.mark.parametrize(
    "place, key, missing",
    [
        ("attrs", "_FillValue", [-9999]),
        ("encoding", "_FillValue", [-9999]),
        ("attrs", "missing_value", [-9999]),
        ("encoding", "missing_value", [-9999]),
        ("attrs", "missing_value", [-9999, 1e20]),
    ],
)
def test_missing_values_count_as_such_wherever_they_are_named(bound, place, key, missing):
    values = waves()
    for start, value in enumerate(missing):
        values[start::5] = value
    dataset = xarray.Dataset({"t": ("x", values)})
    getattr(dataset.t, place)[key] = np.array(missing, "f4") if len(missing) > 1 else np.float32(missing[0])
    back = stored(dataset, read={"mask_and_scale": False}, **bound)
    valid = ~np.isin(values, np.array(missing, "f4"))
    np.testing.assert_array_equal(back.t[~valid], values[~valid])
    extent = np.ptp(values[valid].astype("f8"))
    allowed = {"abs": 0.01, "rel": 1e-3 * extent, "psnr": 1e-3 * extent}[next(iter(bound))]
    assert np.abs(back.t.values.astype("f8") - values)[valid].max() <= allowed
    assert np.isclose(back.t.attrs["lossy_compression_maximum_absolute_error"], allowed)


@pytest.mark.parametrize(
    "attributes, exact",
    [
        ({"bounds": "a"}, "a"),
        ({"climatology": "a"}, "a"),
        ({"coordinates": "a b"}, "ab"),
        ({"ancillary_variables": "a b"}, "ab"),
        ({"cell_measures": "area: a volume: b"}, "ab"),
        ({"formula_terms": "ps: a b: b"}, "ab"),
        ({"grid_mapping": "a"}, "a"),
        ({"grid_mapping": "a: x b: y"}, "ab"),
        ({"node_coordinates": "a b"}, "ab"),
        ({"long_name": "a"}, ""),
        ({"bounds": ["a", "b"]}, ""),
        ({"bounds": "nothing t"}, ""),
    ],
)
@pytest.mark.parametrize("place", ["attrs", "encoding"])
def test_variables_that_others_name_are_exact(attributes, exact, place):
    dataset = named()
    getattr(dataset.t, place).update(attributes)
    encoding = syncline.xarray.encoding(dataset, rel=1e-3)
    assert {name for name, settings in encoding.items() if settings["serializer"].mode == "lossless"} == set(exact)
    reasons = syncline.xarray.exact_reasons(dataset)
    key = next(iter(attributes))
    assert reasons == dict.fromkeys(exact, f"{key} of t names it")
    # A bound that is given by name overrules the reason.
    chosen = syncline.xarray.encoding(dataset, rel=1e-3, per_variable={"a": syncline.Bound("abs", 0.5)})
    assert chosen["a"]["serializer"].bound == syncline.Bound("abs", 0.5)


def test_coordinates_and_classes_are_exact():
    dataset = named().assign_coords(x=np.arange(600.0))
    dataset.attrs["coordinates"] = "a"
    dataset["lat"] = ("x", waves(), {"units": "degrees_north"})
    dataset["lon"] = ("x", waves(), {"units": "degree_E"})
    dataset["level"] = ("x", waves(), {"axis": "Z"})
    dataset["kind"] = ("x", waves(), {"flag_values": [1.0, 2.0], "flag_meanings": "land sea"})
    dataset["direction"] = ("x", waves(), {"units": "degrees"})
    reasons = syncline.xarray.exact_reasons(dataset)
    assert reasons["kind"] == "it has flag_values" and reasons["a"] == "coordinates of the dataset names it"
    assert reasons["lat"] == reasons["lon"] == reasons["level"] == reasons["x"] == "it is a coordinate"
    assert set(dataset.variables) - set(reasons) == {"t", "b", "area", "ps", "direction"}
    back = stored(dataset, rel=1e-3)
    for name in reasons:
        np.testing.assert_array_equal(back[name], dataset[name])
    assert float(abs(back.direction - dataset.direction).max()) > 0


def test_bounds_of_times_stay_in_order():
    hours = np.arange(0, 24 * 365, 24.0)
    dataset = xarray.Dataset(
        {"t": ("time", waves(365)), "time_bnds": (("time", "nv"), np.stack([hours, hours + 24], 1))},
        coords={"time": ("time", hours + 12, {"units": "hours since 2000-01-01", "bounds": "time_bnds"})},
    )
    back = stored(dataset, read={"decode_times": False}, rel=1e-3)
    np.testing.assert_array_equal(back.time_bnds, dataset.time_bnds)
    np.testing.assert_array_equal(back.time, dataset.time)


def test_relations_in_the_encoding_are_stored():
    dataset = named(grid_mapping="crs", cell_measures="area: area", ancillary_variables="a")
    dataset["crs"] = ((), np.int32(0), {"grid_mapping_name": "latitude_longitude"})
    store = {}
    dataset.to_zarr(store, consolidated=False)
    with xarray.open_zarr(store, consolidated=False, decode_coords="all") as opened:
        assert opened.t.encoding["grid_mapping"] == "crs"
        back = stored(opened.load(), abs=0.01)
    for key in ("grid_mapping", "cell_measures", "ancillary_variables"):
        assert back.t.attrs[key] == dataset.t.attrs[key]


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_cast_to_float32_counts_in_the_bound(bound, lazy):
    values = waves(dtype="f8") * 1e3
    values[::7] = np.nan
    dataset = xarray.Dataset({"t": ("x", values, {}, {"dtype": "f4"})})
    bound = bound if "abs" not in bound else {"abs": 0.02}
    back = stored(dataset.chunk(x=100) if lazy else dataset, **bound)
    assert back.t.dtype == "f4"
    error = np.abs(back.t.values.astype("f8") - values)
    extent = np.nanmax(values) - np.nanmin(values)
    kind = "relative" if "pw_rel" in bound else "absolute"
    allowed = {"abs": 0.02, "rel": 1e-3 * extent, "psnr": 1e-3 * extent, "pw_rel": 1e-3}[next(iter(bound))]
    assert np.nanmax(error / np.abs(values) if "pw_rel" in bound else error) <= allowed
    assert np.isclose(back.t.attrs[f"lossy_compression_maximum_{kind}_error"], allowed, rtol=1e-12)
    # The cast alone changes values by up to 0.016.
    tight = {"pw_rel": 5e-8} if "pw_rel" in bound else {"abs": 0.01}
    with pytest.raises(ValueError, match="storing 't' as float32 changes its values by up to .* remove dtype"):
        syncline.xarray.encoding(dataset, **tight)


def test_a_cast_that_changes_nothing_leaves_the_bound():
    dataset = xarray.Dataset({"t": ("x", waves().astype("f8"), {}, {"dtype": "f4"})})
    bound = syncline.xarray.encoding(dataset, abs=1e-6)["t"]["serializer"].bound
    assert bound.mode == "abs" and 1e-6 * (1 - 1e-15) < bound.value <= 1e-6


def test_values_beyond_the_stored_type_are_refused():
    dataset = xarray.Dataset({"t": ("x", waves(dtype="f8") * 1e37, {}, {"dtype": "f4"})})
    with pytest.raises(ValueError, match="changes its values by up to inf"), np.errstate(over="ignore"):
        syncline.xarray.encoding(dataset, abs=1e30)


def test_given_fill_values_of_a_scaled_variable_are_exact():
    values = waves()
    values[::4] = -9999
    packing = {"dtype": "f4", "scale_factor": 0.5, "add_offset": 100.0}
    dataset = xarray.Dataset({"t": ("x", values, {}, packing)})
    encoding = syncline.xarray.encoding(dataset, rel=1e-3, fill=-9999)
    assert encoding["t"]["serializer"].fill == (-9999 - 100) / 0.5
    back = stored(dataset, rel=1e-3, fill=-9999)
    np.testing.assert_array_equal(back.t[::4], -9999)
    valid = values != -9999
    assert np.abs(back.t.values - values)[valid].max() <= 1e-3 * np.ptp(values[valid])


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["f4", "f8"]),
    st.sampled_from(["f4", "f8"]),
    st.sampled_from([None, 0.1, -20.0, np.float32(0.3)]),
    st.sampled_from([None, 280.0, np.float32(-1e4)]),
    st.sampled_from(["encoding", "attrs"]),
    st.sampled_from([{"abs": 0.1}, {"abs": 1e-3}, {"abs": 1e-6}, {"rel": 1e-2}, {"rel": 1e-5}, {"pw_rel": 1e-2}]),
    st.booleans(),
)
def test_the_bound_holds_for_what_is_read_or_is_refused(memory, kept, scale, offset, place, bound, missing):
    """Whatever the types, the scale, and the offset are, and wherever they are named."""
    dataset = xarray.Dataset({"t": ("x", waves(200, memory), {}, {"dtype": kept})})
    packing = {"scale_factor": scale, "add_offset": offset}
    getattr(dataset.t, place).update({key: value for key, value in packing.items() if value is not None})
    if missing:
        dataset.t.encoding["_FillValue"] = -32767.0
        dataset.t[::9] = np.nan if place == "encoding" else -32767
    values = dataset.t.values.astype("f8")
    if place == "attrs":
        values = np.where(values == -32767, np.nan, values * (1 if scale is None else scale) + (offset or 0))
    try:
        back = stored(dataset, **bound).t.values.astype("f8")
    except ValueError as error:
        tight = bound.get("abs", 1) < 0.1 or "rel" in bound
        assert "add_offset" in str(error) and (tight or ("pw_rel" in bound and offset is not None)), error
        return
    error = np.abs(back - values)
    np.testing.assert_array_equal(np.isnan(error), np.isnan(values))
    if "pw_rel" in bound:
        error /= np.abs(values)
    extent = np.nanmax(values) - np.nanmin(values)
    assert np.nanmax(error) <= bound.get("rel", 0) * extent + bound.get("abs", 0) + bound.get("pw_rel", 0)
