"""Masked arrays, and warnings about values."""

import warnings

import numpy as np
import pytest
import syncline


def masked(dtype="f8"):
    """Returns an array whose hidden values lie far from the others."""
    array = np.ma.masked_array(np.linspace(0, 1, 10_000).astype(dtype), mask=False)
    array[::7] = np.ma.masked
    array.data[::7] = 1e3
    return array


DOORS = {
    "compress": lambda array, path, **options: syncline.compress(array, abs=1e-3, **options),
    "save": lambda array, path, **options: syncline.save(path, array, abs=1e-3, **options),
    "estimate": lambda array, path, **options: syncline.estimate(array, abs=1e-3, **options),
    "resolve": lambda array, path, **options: syncline.resolve(array, rel=1e-3, **options),
    "Writer": lambda array, path, **options: append(array, path, **options),
}


def append(array, path, **options):
    with syncline.Writer(path, (1, *array.shape), array.dtype, abs=1e-3, **options) as writer:
        writer.append(array)


@pytest.mark.parametrize("door", DOORS)
def test_masked_elements_need_a_fill_value(door, tmp_path):
    with pytest.raises(TypeError, match=r"1429 of 10000 elements are masked.*fill=VALUE.*filled"):
        DOORS[door](masked(), tmp_path / "a.syn")
    if door in ("compress", "save", "estimate"):
        with pytest.raises(TypeError, match="masked"):
            DOORS[door](masked(), tmp_path / "a.syn", fill="auto")
    DOORS[door](masked(), tmp_path / "a.syn", fill=-9999.0)
    # Where nothing is masked, there is nothing to lose.
    DOORS[door](np.ma.masked_array(np.arange(5.0)), tmp_path / "a.syn")


@pytest.mark.parametrize("door", ["verify", "report"])
def test_comparisons_take_no_masked_elements(door):
    stream = syncline.compress(masked(), abs=1e-3, fill=-9999.0)
    with pytest.raises(TypeError, match="masked"):
        getattr(syncline, door)(masked(), stream)
    getattr(syncline, door)(masked().filled(-9999.0), stream)
    with pytest.raises(TypeError, match="out.data"):
        syncline.decompress(stream, out=masked())


@pytest.mark.parametrize("fill", [-9999.0, [1e20, -1.0], np.nan])
def test_masked_elements_become_the_fill_value(fill, tmp_path):
    array = masked("f4")
    stream = syncline.compress(array, rel=1e-3, fill=fill)
    back = syncline.decompress(stream)
    value = np.float32(np.ravel(fill)[0])
    np.testing.assert_array_equal(back[array.mask], value)
    assert np.abs(back - array.data)[~array.mask].max() <= 1.001e-3
    assert syncline.header(stream).abs_bound <= 1.001e-3
    assert syncline.resolve(array, rel=1e-3, fill=fill).value <= 1.001e-3
    with syncline.Writer(tmp_path / "a.syn", (1, *array.shape), "f4", abs=1e-3, fill=fill) as writer:
        writer.append(array)
    np.testing.assert_array_equal(syncline.load(tmp_path / "a.syn")[0][array.mask], value)


def test_masked_integers_take_fill_values_of_their_type():
    array = np.ma.masked_equal(np.arange(100, dtype="u1"), 7)
    assert syncline.decompress(syncline.compress(array, fill=255))[7] == 255
    for fill in (256, -1, 2.5, np.nan):
        with pytest.raises(ValueError, match="cannot stand for masked elements of uint8"):
            syncline.compress(array, fill=fill)


def test_few_far_values_are_named(tmp_path):
    array = np.sin(np.arange(100_000) / 500).astype("f4")
    array[31_415] = 1e6
    text = r"such as 1e\+06, make up more than 90 %.*rel=.*fill=1e\+06.*abs="
    with pytest.warns(syncline.SynclineWarning, match=text) as caught:
        syncline.compress(array, rel=1e-3)
        syncline.save(tmp_path / "a.syn", array, rel=1e-3)
    assert [warning.filename for warning in caught] == [__file__] * 2, "the caller's line is named"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        syncline.compress(array, rel=1e-3, fill=1e6)
        syncline.compress(array, abs=1e-3)
        syncline.compress(array[:1000], rel=1e-3)


def test_fill_value_that_nothing_equals_is_named():
    array = np.linspace(0, 1, 10_000)
    array[::10] = np.float32(-99999.99)
    text = r"no value equals fill=-99999\.99, but -99999\.9921875 is close to it: pass fill=-99999\.9921875"
    with pytest.warns(syncline.SynclineWarning, match=text):
        syncline.compress(array, abs=1e-3, fill=-99999.99)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        syncline.compress(array, rel=1e-3, fill=float(np.float32(-99999.99)))
        syncline.compress(array.astype("f4"), rel=1e-3, fill=-99999.99)
        # Arrays without missing values are common.
        syncline.compress(np.linspace(0, 1, 10_000), rel=1e-3, fill=-9999.0)
        syncline.compress(np.linspace(0, 1, 10_000), rel=1e-3, fill=[-9999.0, 1e20])
