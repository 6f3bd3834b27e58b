"""The examples of the guide, of the cookbook, and of the project's page."""

import doctest
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "PYTHON.md"


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_the_examples_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(GUIDE), module_relative=False)
    assert results.attempted > 25 and results.failed == 0
    assert "field.syn" in os.listdir()


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_the_examples_of_the_cookbook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # The examples set it.
    monkeypatch.setenv("HDF5_PLUGIN_PATH", os.environ.get("HDF5_PLUGIN_PATH", ""))
    text = (ROOT / "docs" / "COOKBOOK.md").read_text("utf-8")
    try:
        import torch  # noqa: F401
    except ImportError:
        text, count = re.subn(r"\n## PyTorch\n.*?(?=\n## )", "", text, flags=re.DOTALL)
        assert count == 1
    test = doctest.DocTestParser().get_doctest(text, {}, "COOKBOOK.md", None, 0)
    results = doctest.DocTestRunner().run(test)
    assert results.attempted > 20 and results.failed == 0


def test_the_example_of_the_project_s_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, _, rest = (ROOT / "README.md").read_text("utf-8").partition("```python\n")
    example, _, _ = rest.partition("```")
    names = {}
    exec(example, names)
    assert names["part"].shape == (10, 13) and names["row"].shape == (50, 60)
    assert len(names["stream"]) < names["field"].nbytes // 4
