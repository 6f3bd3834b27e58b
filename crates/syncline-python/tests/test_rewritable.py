"""Chunks of which parts are written again and again."""

import json

import numcodecs
import numpy as np
import pytest
import syncline
import syncline.dask
import syncline.xarray
import zarr
from syncline.numcodecs import Syncline
from syncline.zarr import SynclineCodec, create_array, encoding

SHAPE = (12, 20, 30)


def array_of(kind, dtype, mode, value):
    """Returns an array of one chunk, or of one shard with four chunks."""
    options = {"shape": SHAPE, "chunks": SHAPE, "dtype": dtype, "fill_value": 0}
    if kind == "zarr 2":
        return zarr.create_array({}, zarr_format=2, compressors=Syncline(mode, value), filters=None, **options)
    if kind == "shards":
        options |= {"chunks": (6, 10, 30), "shards": SHAPE}
    return zarr.create_array({}, serializer=SynclineCodec(mode, value), compressors=None, **options)


def selection(generator, shards):
    """Returns how an array is indexed (None: by itself) and a random selection. Zarr cannot write others to shards."""
    kinds = ["basic", "blocks"] if shards else ["basic", "basic", "basic", "blocks", "oindex", "vindex", "mask"]
    kind = generator.choice(kinds)
    if kind == "basic":
        items = []
        for extent in SHAPE:
            start, stop = sorted(generator.integers(0, extent + 1, 2))
            single = generator.random() < 0.3 or start == stop
            items.append(int(generator.integers(extent)) if single else slice(start, stop, generator.integers(1, 4)))
        return None, tuple(items[: generator.integers(1, 4)])
    if kind == "oindex":
        return "oindex", tuple(np.sort(generator.choice(extent, generator.integers(1, 5), False)) for extent in SHAPE)
    if kind == "vindex":
        places = generator.choice(np.prod(SHAPE), generator.integers(1, 40), False)
        return "vindex", np.unravel_index(places, SHAPE)
    if kind == "mask":
        return "vindex", generator.random(SHAPE) < 0.05
    return "blocks", (0, 0, 0)


def new_values(generator, shape, scale):
    """Returns smooth, noisy, constant, huge, tiny, or special values."""
    smooth = np.sin(np.arange(np.prod(shape, dtype=int)) / generator.uniform(2, 50)).reshape(shape)
    values = {
        "smooth": 280 + 20 * smooth,
        "noise": generator.normal(280, 5, shape),
        "constant": np.full(shape, generator.uniform(-300, 300)),
        "grown": generator.normal(0, 10 ** generator.uniform(-4, 6), shape),
        "zeros": np.where(generator.random(shape) < 0.7, 0, smooth),
        "special": np.where(generator.random(shape) < 0.2, generator.choice([np.nan, np.inf, -np.inf]), smooth),
    }[generator.choice(["smooth", "noise", "constant", "grown", "zeros", "special"])]
    return values * scale


@pytest.mark.parametrize("kind", ["zarr 2", "zarr 3", "shards"])
@pytest.mark.parametrize(
    "dtype, mode, value", [("f4", "abs", 0.01), ("f8", "abs", 3.0), ("f4", "pw_rel", 1e-3), ("f8", "pw_rel", 1e-2)]
)
def test_elements_stay_within_the_bound_of_what_was_written_last(kind, dtype, mode, value):
    generator = np.random.default_rng([len(kind), len(mode), dtype == "f4"])
    stored, expected = array_of(kind, dtype, mode, value), np.zeros(SHAPE, dtype)
    for turn in range(120):
        how, where = selection(generator, kind == "shards")
        target = stored if how is None else getattr(stored, how)
        index = np.ix_(*where) if how == "oindex" else (Ellipsis if how == "blocks" else where)
        values = new_values(generator, expected[index].shape, generator.choice([1, 1, -1])).astype(dtype)
        target[where] = expected[index] = values
        if turn % 5 == 4:
            check(stored[...], expected, mode, value)
            region = tuple(slice(*sorted(generator.integers(0, extent + 1, 2))) for extent in SHAPE)
            check(stored[region], expected[region], mode, value)


def check(back, expected, mode, value):
    """Checks every element, in f64."""
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(back[~finite], expected[~finite])
    back, expected = back[finite].astype("f8"), expected[finite].astype("f8")
    allowed = value if mode == "abs" else value * np.abs(expected)
    worst = np.max(np.abs(back - expected) / np.maximum(allowed, 1e-300), initial=0)
    assert worst <= 1, f"{worst} times the bound"


def test_slices_written_one_by_one_keep_the_bound():
    y, x = np.mgrid[:64, :64]
    field = np.stack([280 + 10 * np.sin(y / 9 + k / 3) * np.cos(x / 7) for k in range(24)]).astype("f4")
    errors = {}
    for rewritable in (True, False):
        codec = Syncline("abs", 0.01, rewritable=rewritable)
        two = zarr.create_array({}, shape=field.shape, chunks=field.shape, dtype="f4", zarr_format=2, compressors=codec)
        options = {"shape": field.shape, "chunks": field.shape, "dtype": "f4", "abs": 0.01}
        three = create_array({}, rewritable=rewritable, **options)
        for k in range(24):
            two[k] = three[k] = field[k]
        errors[rewritable] = [np.abs(array[...].astype("f8") - field).max() for array in (two, three)]
    assert max(errors[True]) <= 0.01 < min(errors[False])


def test_decompressed_values_compress_to_themselves():
    values = np.cumsum(np.random.default_rng(0).normal(size=(50, 60)), 1)
    for dtype in ("f4", "f8"):
        for bound in ({"abs": 0.03}, {"pw_rel": 1e-2}):
            once = syncline.decompress(syncline.compress(values.astype(dtype), rewritable=True, **bound))
            again = syncline.decompress(syncline.compress(once, rewritable=True, **bound))
            np.testing.assert_array_equal(once, again)


def test_chunks_can_be_rewritten_by_default_where_parts_are_written():
    for codec in (SynclineCodec("abs", 1), encoding(abs=1)["serializer"], Syncline("abs", 1)):
        assert codec.rewritable is True
    stored = create_array({}, shape=(4,), chunks=(4,), dtype="f4", abs=0.1)
    assert json.loads(json.dumps(stored.serializer.to_dict()))["configuration"] == {"mode": "abs", "value": 0.1}
    stored = create_array({}, shape=(4,), chunks=(4,), dtype="f4", abs=0.1, rewritable=False)
    written = json.loads(json.dumps(stored.serializer.to_dict()))
    assert written["configuration"] == {"mode": "abs", "value": 0.1, "rewritable": False}
    assert SynclineCodec.from_dict(written) == stored.serializer != SynclineCodec("abs", 0.1)
    assert SynclineCodec(rewritable=False) == SynclineCodec()
    config = json.loads(json.dumps(Syncline("abs", 0.1, rewritable=False).get_config()))
    assert config["rewritable"] is False and numcodecs.get_codec(config) == Syncline("abs", 0.1, rewritable=False)
    assert numcodecs.get_codec({"id": "syncline", "mode": "abs", "value": 0.1}) == Syncline("abs", 0.1)


def test_writers_of_whole_arrays_are_not_rewritable_by_default(tmp_path):
    import dask.array
    import xarray

    values = np.linspace(0, 1, 1000).reshape(20, 50)
    dataset = xarray.Dataset({"t": (("y", "x"), values)})
    for options in ({}, {"rewritable": True}):
        codec = syncline.xarray.encoding(dataset, abs=0.01, **options)["t"]["serializer"]
        assert codec.rewritable is bool(options)
        syncline.dask.to_zarr(dask.array.from_array(values), tmp_path / f"{options}.zarr", abs=0.01, **options)
        assert zarr.open_array(tmp_path / f"{options}.zarr").serializer.rewritable is bool(options)
