"""The type annotations, for users' type checkers."""

import subprocess
import sys
from pathlib import Path

import pytest
import syncline

# The requirements for the oldest supported Python leave it out.
pytest.importorskip("mypy")


def run(*words):
    result = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_stubs_describe_the_module():
    run("mypy.stubtest", "syncline._core")


def test_annotations_are_consistent():
    assert (Path(syncline.__file__).parent / "py.typed").exists()
    modules = ("syncline", "syncline.cuda", "syncline.numcodecs")
    run("mypy", "--strict", "--follow-untyped-imports", *(word for name in modules for word in ("-m", name)))
