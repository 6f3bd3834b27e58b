"""Estimates before compression, and reports after it."""

import doctest

import numpy as np
import pytest
import syncline
import syncline._file
import syncline._report


def field(shape, dtype="f4"):
    generator = np.random.default_rng(1)
    waves = sum(np.sin(axis / (20 + 7 * number)) for number, axis in enumerate(np.ogrid[tuple(map(slice, shape))]))
    return (waves + 1e-3 * generator.standard_normal(shape)).astype(dtype)


SHAPES = [("fast", (96, 100, 110)), ("fast", (4, 30, 100, 90))]
# Blocks have so many elements that a sample of a quarter of a small cube is one of them.
SHAPES += [(effort, shape) for effort in ("fast", "balanced") for shape in ((1_000_000,), (1000, 1000))]


@pytest.mark.parametrize(("effort", "shape"), SHAPES)
@pytest.mark.parametrize("bound", [{"abs": 1e-3}, {"rel": 1e-4}, {"psnr": 60.0}, {"pw_rel": 1e-2}, {}])
def test_estimates_are_near_the_truth(effort, shape, bound):
    array = field(shape)
    estimate = syncline.estimate(array, sample=250_000, effort=effort, **bound)
    true = array.nbytes / len(syncline.compress(array, effort=effort, **bound))
    assert estimate.sampled_bytes < array.nbytes / 2 and estimate.nbytes == array.nbytes
    assert estimate.ratio == array.nbytes / estimate.compressed_bytes
    assert 0.9 < estimate.ratio / true < 1.1
    assert estimate.compress_seconds > 0 and estimate.decompress_seconds > 0
    assert (estimate.psnr is None) == (bound == {})


def test_the_psnr_of_an_estimate_is_that_of_the_array():
    array = field((1000, 1000))
    estimate = syncline.estimate(array, rel=1e-3, sample=250_000)
    assert estimate.psnr == pytest.approx(syncline.verify(array, syncline.compress(array, rel=1e-3)).psnr, abs=0.2)


def test_small_arrays_are_compressed_whole():
    for shape in ((), (0,), (3, 0), (50, 60)):
        array = np.ones(shape, "f4")
        estimate = syncline.estimate(array, abs=1e-3)
        assert estimate.compressed_bytes == len(syncline.compress(array, abs=1e-3))
        assert estimate.sampled_bytes == array.nbytes
    with pytest.raises(TypeError, match="one error bound"):
        syncline.estimate(array, abs=1, rel=1)


@pytest.mark.parametrize("bound", [{"abs": 1e-2}, {"pw_rel": 1e-2}, {}])
def test_reports(bound, tmp_path):
    array = field((200, 300))
    array[4, 5], array[7, 7] = np.nan, 0
    report = syncline.report(array, syncline.compress(array, **bound))
    assert report.quality.holds and "bound holds" in str(report) and "float32 (200, 300)" in str(report)
    if bound:
        assert len(report.histogram) == 41 and sum(report.histogram) == pytest.approx(1, abs=1e-3)
        assert report._repr_html_().count("<rect") == 41
    else:
        assert report.histogram == ()
    report.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>") and "http" not in page


@pytest.mark.parametrize("module", [syncline._file, syncline._report])
def test_examples_of_the_documentation(module):
    results = doctest.testmod(module)
    assert results.attempted > 3 and results.failed == 0
