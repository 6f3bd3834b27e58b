"""A decoder that was written from docs/FORMAT.md alone reads streams of blocks as the library does."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import syncline

TESTDATA = Path(__file__).parents[3] / "testdata"


@pytest.fixture(scope="module")
def decode():
    specification = importlib.util.spec_from_file_location("decode_blocks", TESTDATA / "decode_blocks.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.decode


@pytest.mark.parametrize("path", sorted(TESTDATA.glob("golden/*_block.syn")), ids=lambda path: path.stem)
def test_golden_streams_of_blocks_are_as_the_format_states(decode, path):
    stream = path.read_bytes()
    assert decode(stream).tobytes() == syncline.decompress(stream).tobytes()


@pytest.mark.parametrize("shape", [(5000,), (40, 150), (3, 2000), (260, 600), (9, 12, 30), (2, 3, 11, 13)])
@pytest.mark.parametrize("bound", [0.3, 1e-2, 1e-4])
def test_streams_of_blocks_are_as_the_format_states(decode, shape, bound):
    numbers = np.arange(np.prod(shape)).reshape(shape)
    array = (10 * np.sin(numbers * 0.01) + np.cos(numbers * 0.37)).astype("f4")
    array[numbers % 97 < 5] = 0
    stream = syncline.compress(array, abs=bound)
    assert decode(stream).tobytes() == syncline.decompress(stream).tobytes()
