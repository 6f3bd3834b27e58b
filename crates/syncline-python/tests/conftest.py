"""What several tests use."""

import importlib.util
import os

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU, real or emulated")
    # As in the tests of Rust: where the random arrays are fixed, the result depends on the commit alone.
    if "PROPTEST_RNG_SEED" in os.environ and importlib.util.find_spec("hypothesis"):
        from hypothesis import settings

        settings.register_profile("fixed", derandomize=True)
        settings.load_profile("fixed")


@pytest.fixture
def gpu():
    """Skips a test on machines without a GPU; with ``SYNCLINE_REQUIRE_CUDA=1``, it fails there."""
    import syncline
    import syncline.cuda

    try:
        return syncline.cuda.device(0)
    except syncline.GpuError as error:
        if os.environ.get("SYNCLINE_REQUIRE_CUDA") == "1":
            raise
        pytest.skip(f"no GPU: {error}")
