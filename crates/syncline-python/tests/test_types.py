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
    package = Path(syncline.__file__).parent
    assert (package / "py.typed").exists()
    run("mypy", "--strict", "--follow-untyped-imports", str(package / "__init__.py"))
