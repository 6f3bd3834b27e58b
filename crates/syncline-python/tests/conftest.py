"""What several tests use."""

import os

import pytest


def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU, real or emulated")


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
