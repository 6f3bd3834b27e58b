"""The example programs."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from test_safetensors import raw_file

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_egm96(tmp_path):
    pytest.importorskip("matplotlib")
    figures = runpy.run_path(str(EXAMPLES / "egm96.py"))["main"](tmp_path)
    assert figures["largest_error"] <= 0.01 and figures["ratio"] > 4
    # Small arrays are compressed whole, and the store has several chunks and its metadata besides.
    assert figures["ratio"] < figures["expected_ratio"] < 1.3 * figures["ratio"]
    for name in ("egm96.png", "slice.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG") and (tmp_path / name).stat().st_size > 10_000
    assert "bound holds" in (tmp_path / "report.html").read_text("utf-8")


def test_checkpoint(tmp_path):
    pytest.importorskip("torch")
    example = runpy.run_path(str(EXAMPLES / "checkpoint.py"))
    model = tmp_path / "model.safetensors"
    raw_file(model, {"weight": np.random.default_rng(0).normal(size=(128, 256)).astype("f4")})
    for file in (model, *example["installed_models"]()):
        lossless, bounded = example["main"](file)
        assert lossless["change"] == 0 and 1 < lossless["ratio"] < bounded["ratio"]
        assert 0 < bounded["change"] < 0.2
