"""The operator in ADIOS2's own library, by its Python package, which writes and reads BP5 files."""

import subprocess
import sys
from pathlib import Path

import adios2
import numpy as np
import pytest

FIELD = np.sin(np.arange(40 * 50 * 60) * 0.01).reshape(40, 50, 60) + np.linspace(2, 4, 60)
MARK, END = b"\x89SYN\r\n", b"SYNEND\r\n"
PLUGIN = {"PluginName": "syncline", "PluginLibrary": "SynclineOperator"}


def write(path, data, parameters, blocks=1):
    """Writes an array in blocks along the first axis, one per step."""
    with adios2.Stream(str(path), "w") as stream:
        for part in np.array_split(data, blocks):
            stream.begin_step()
            stream.write("x", part, operations=[("plugin", {**PLUGIN, **parameters})])
            stream.end_step()


def read(path, like, step=0):
    """Returns the array of a step, which has the type and shape of another one."""
    with adios2.FileReader(str(path)) as file:
        back = file.read("x", step_selection=[step, 1])
    assert back.dtype == like.dtype
    return back.reshape(like.shape)


def failure(code):
    """Returns what a program says that fails: ADIOS2's Python package ends it where an operator throws."""
    here = Path(__file__)
    program = f"from {here.stem} import *; {code}"
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=here.parent)
    assert done.returncode != 0
    return done.stderr


def size(path):
    """Returns the bytes of the values of a file, which is a folder."""
    return (path / "data.0").stat().st_size


# ADIOS2's Python package of version 2.12 does not read complex64.
@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("effort", ["fast", "balanced", "best"])
def test_bounds_hold(tmp_path, dtype, effort):
    data = (FIELD * (1 + 2j) if dtype.startswith("c") else FIELD).astype(dtype)
    write(tmp_path / "a.bp", data, {"abs": "1e-3", "effort": effort})
    difference = read(tmp_path / "a.bp", data) - data
    assert 0 < np.abs(difference.real).max() <= 1e-3 and np.abs(difference.imag).max() <= 1e-3
    assert size(tmp_path / "a.bp") < data.nbytes / 4


@pytest.mark.parametrize("bound, limit", [({"rel": "1e-3"}, 4e-3), ({"psnr": "60"}, 0.1), ({"pw_rel": "1e-3"}, 5e-3)])
def test_kinds_of_bounds(tmp_path, bound, limit):
    write(tmp_path / "a.bp", FIELD, bound)
    assert 0 < np.abs(read(tmp_path / "a.bp", FIELD) - FIELD).max() <= limit


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(7,), (300, 400), (2, 3, 4, 5, 6)])
def test_without_a_bound_every_bit_is_kept(tmp_path, dtype, shape):
    # Noise, which becomes no smaller.
    data = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    write(tmp_path / "a.bp", data, {"threads": "2"})
    assert np.array_equal(read(tmp_path / "a.bp", data), data)


def test_each_step_is_a_stream_that_others_read(tmp_path):
    syncline = pytest.importorskip("syncline")
    write(tmp_path / "a.bp", FIELD, {"abs": "1e-3"}, blocks=2)
    steps = [read(tmp_path / "a.bp", FIELD[:20], step) for step in range(2)]
    assert np.abs(np.concatenate(steps) - FIELD).max() <= 1e-3
    values = (tmp_path / "a.bp" / "data.0").read_bytes()
    stream = values[values.index(MARK) : values.index(END) + len(END)]
    assert np.array_equal(syncline.decompress(stream), steps[0])


@pytest.mark.parametrize(
    "parameters, text",
    [
        ({"abs": "small"}, "must be a number"),
        ({"abs": "1", "rel": "1"}, "state one"),
        ({"effort": "slow"}, "balanced"),
        ({"accuracy": "1"}, "unknown parameter accuracy"),
        ({"threads": "-1"}, "threads"),
        ({"abs": "-1"}, "bound"),
    ],
)
def test_wrong_parameters_are_errors(tmp_path, parameters, text):
    assert text in failure(f"write({str(tmp_path / 'a.bp')!r}, FIELD, {parameters!r})")


def test_damage_is_an_error(tmp_path):
    write(tmp_path / "a.bp", FIELD, {"abs": "1e-3"})
    values = bytearray((tmp_path / "a.bp" / "data.0").read_bytes())
    start = values.index(MARK)
    values[start + (len(values) - start) // 2] ^= 1
    (tmp_path / "a.bp" / "data.0").write_bytes(values)
    assert "Syncline: " in failure(f"read({str(tmp_path / 'a.bp')!r}, FIELD)")
