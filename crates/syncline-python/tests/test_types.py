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
    modules = ("syncline", *(f"syncline.{name}" for name in ("cuda", "numcodecs", "safetensors", "h5py", "xarray")))
    run("mypy", "--strict", "--follow-untyped-imports", *(word for name in modules for word in ("-m", name)))


def test_results_have_the_types_of_where_the_arguments_are(tmp_path):
    program = """
import io
from typing import Any, assert_type

import numpy as np
import syncline
from numpy.typing import NDArray


def uses(array: NDArray[np.float32], out: NDArray[np.float64], other: Any) -> None:
    assert_type(syncline.compress(array, abs=1e-3, effort="fast"), bytes)
    assert_type(syncline.compress([1.0, 2.0]), bytes)
    assert_type(syncline.compress(other, abs=1e-3), Any)
    assert_type(syncline.decompress(b"", region=np.s_[:8]), NDArray[Any])
    assert_type(syncline.decompress(b"", out=out), NDArray[np.float64])
    assert_type(syncline.decompress(b"", like=other), Any)
    assert_type(syncline.load("a.syn", threads=1), NDArray[Any])
    assert_type(syncline.load(io.BytesIO(), out=out), NDArray[np.float64])
    syncline.compress(array, efort="fast")  # type: ignore[call-overload]
    syncline.load("a.syn", threads="two")  # type: ignore[call-overload]
"""
    (tmp_path / "uses.py").write_text(program)
    run("mypy", "--strict", "--follow-untyped-imports", str(tmp_path / "uses.py"))
