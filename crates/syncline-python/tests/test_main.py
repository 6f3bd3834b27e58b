"""The command ``python -m syncline``, as a process."""

import subprocess
import sys

import numpy as np
import pytest
import syncline


def run(*words, status=0):
    result = subprocess.run([sys.executable, "-m", "syncline", *map(str, words)], capture_output=True, text=True)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout if status == 0 else result.stderr


@pytest.mark.parametrize(
    "bound, error",
    [((), 0), (("--abs", "0.01"), 0.01), (("--rel", "1e-3", "--effort", "best"), 2e-3)],
)
def test_arrays_come_back_within_their_bound(bound, error, tmp_path):
    values = np.sin(np.arange(6000, dtype="f4").reshape(20, 300) * 0.01)
    np.save(tmp_path / "field.npy", values)
    run("compress", tmp_path / "field.npy", tmp_path / "field.syn", *bound)
    line = run("info", tmp_path / "field.syn")
    assert "float32 20x300" in line and ("lossless" in line) == (not bound)
    run("decompress", tmp_path / "field.syn", tmp_path / "back.npy")
    back = np.load(tmp_path / "back.npy")
    assert back.dtype == values.dtype and back.shape == values.shape and np.abs(back - values).max() <= error


def test_outputs_have_the_names_that_the_other_command_gives_them(tmp_path):
    values = np.arange(600, dtype="f4")
    np.save(tmp_path / "field.npy", values)
    run("compress", tmp_path / "field.npy")
    run("decompress", tmp_path / "field.npy.syn", "-o", tmp_path / "back.npy")
    assert (np.load(tmp_path / "back.npy") == values).all()
    # Nothing is replaced that was not named.
    assert "exists already" in run("compress", tmp_path / "field.npy", status=1)
    assert "exists already" in run("decompress", tmp_path / "field.npy.syn", status=1)
    (tmp_path / "field.npy").unlink()
    run("decompress", tmp_path / "field.npy.syn")
    assert (np.load(tmp_path / "field.npy") == values).all()
    run("compress", tmp_path / "field.npy", "--output", tmp_path / "other.syn")
    assert "name the array with -o" in run("decompress", tmp_path / "other.syn", status=1)


def test_version_is_that_of_the_package():
    assert run("--version") == f"syncline {syncline.__version__}\n"


def test_failures_are_one_line_and_no_traceback(tmp_path):
    (tmp_path / "text").write_text("no stream")
    for words in (("info", tmp_path / "text"), ("decompress", tmp_path / "none", tmp_path / "back.npy")):
        message = run(*words, status=1)
        assert message.startswith("error: ") and message.count("\n") == 1
    np.save(tmp_path / "numbers.npy", np.arange(3))
    assert "counts" in run("compress", tmp_path / "numbers.npy", tmp_path / "x.syn", "--pw-rel", "0.1", status=1)
    assert "usage" in run(status=2)
