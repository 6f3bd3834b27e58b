"""Regions in device memory. `cargo xtask emulate --devices 1 -- python -m pytest -m gpu` runs this without a GPU."""

import numpy as np
import pytest
import syncline
from syncline.cuda import Compressor, DeviceArray, to_device, to_host

pytestmark = pytest.mark.gpu

REGIONS = (
    np.s_[3:9, 5:7, 1:],
    np.s_[-1, ..., 2],
    np.s_[4],
    np.s_[2:5],
    np.s_[:, 3:3],
)


@pytest.mark.parametrize("bound", [{"lossless": True}, {"abs": 0.1}, {"abs": 0.1, "effort": "fast"}])
def test_regions_are_those_of_the_host(gpu, bound):
    array = np.round(100 * np.sin(np.arange(12 * 20 * 9) * 0.03)).astype("f4").reshape(12, 20, 9)
    stream = syncline.compress(array, **bound)
    on_device, whole = to_device(stream), syncline.decompress(stream, device="cpu")
    for region in REGIONS:
        # No step is left to the CPU.
        made = syncline.decompress(on_device, region=region, device="cuda")
        assert isinstance(made, DeviceArray)
        assert made.shape == whole[region].shape
        np.testing.assert_array_equal(to_host(made), whole[region])
        out = to_device(np.zeros_like(whole[region]))
        assert syncline.decompress(stream, region=region, out=out) is out
        np.testing.assert_array_equal(to_host(out), whole[region])
        np.testing.assert_array_equal(to_host(Compressor().decompress(on_device, region=region)), whole[region])


def test_regions_that_are_errors(gpu):
    array = np.arange(600, dtype="u2").reshape(20, 30)
    stream = to_device(syncline.compress(array))
    out = to_device(array)
    with pytest.raises(ValueError, match="shape"):
        syncline.decompress(stream, region=np.s_[1], out=out)
    with pytest.raises(IndexError):
        syncline.decompress(stream, region=np.s_[20])
    with pytest.raises(ValueError, match="steps"):
        Compressor().decompress(stream, region=np.s_[::2])
    # A region with steps comes through the host.
    np.testing.assert_array_equal(to_host(syncline.decompress(stream, region=np.s_[::-3, 4])), array[::-3, 4])


def test_a_region_without_an_index_is_left_to_the_cpu(gpu):
    array = np.arange(600, dtype="u2").reshape(20, 30)
    stream = to_device(syncline.compress(array, advanced={"index": "none"}))
    np.testing.assert_array_equal(to_host(syncline.decompress(stream, region=np.s_[3:9, 2:4])), array[3:9, 2:4])
    with pytest.raises(syncline.GpuError, match="index"):
        syncline.decompress(stream, region=np.s_[3:9, 2:4], device="cuda")
