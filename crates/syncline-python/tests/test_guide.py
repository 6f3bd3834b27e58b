"""The examples of the guide."""

import doctest
import os
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "PYTHON.md"


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_the_examples_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(GUIDE), module_relative=False)
    assert results.attempted > 25 and results.failed == 0
    assert "field.syn" in os.listdir()
