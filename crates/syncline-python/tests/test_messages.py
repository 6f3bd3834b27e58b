"""Messages name what the caller wrote."""

import subprocess
import sys

import numpy as np
import pytest
import syncline


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"threads": -1}, ValueError, "threads must be a whole number, or 0 for one per core, not -1"),
        ({"threads": "two"}, TypeError, "threads must be a whole number.*'two'"),
        ({"advanced": {"level": 1.5}}, ValueError, "unknown advanced option level=1.5: use coder="),
        ({"advanced": {"levels": 9}}, ValueError, "unknown advanced option levels=9: use .*level=1-9"),
        ({"memory_limit": -5}, ValueError, "memory_limit must be a number of bytes"),
        ({"memory_limit": "1 GB"}, TypeError, "memory_limit must be a number of bytes"),
        ({"effort": 3}, TypeError, "effort must be a string, not 3"),
        ({"advanced": "level=9"}, TypeError, r"advanced must be a dictionary, such as {'level': 9}, not 'level=9'"),
        ({"rewritable": "yes"}, TypeError, "rewritable must be True or False, not 'yes'"),
        (
            {"bound": "abs"},
            TypeError,
            r"bound must be a syncline.Bound, such as syncline.Bound\('abs', 1e-3\), not 'abs'",
        ),
        ({"abs": -1e308}, ValueError, "the error bound is -1e308, but"),
    ],
)
def test_wrong_options_are_named(options, error, text):
    for door in (syncline.compress, syncline.estimate):
        if door is syncline.estimate and "memory_limit" in options:
            continue
        with pytest.raises(error, match=text):
            door(np.zeros(9, "f4"), **options)


def test_wrong_options_of_decompression_are_named():
    stream = syncline.compress(np.zeros(9, "f4"))
    for options, error in (({"threads": -1}, ValueError), ({"threads": "two"}, TypeError)):
        for region in (None, np.s_[2]):
            with pytest.raises(error, match="threads"):
                syncline.decompress(stream, region=region, **options)
    with pytest.raises((TypeError, ValueError), match="memory_limit"):
        syncline.decompress(stream, memory_limit="1 GB")


def test_writer_says_what_a_relative_bound_needs(tmp_path):
    for mode in ("rel", "psnr"):
        with pytest.raises(ValueError, match=rf"range=\(low, high\), or abs= instead of {mode}="):
            syncline.Writer(tmp_path / "a.syn", (3, 4), "f4", **{mode: 40.0})
    with pytest.raises(ValueError, match="1e308 to -1e308 is invalid"):
        syncline.Writer(tmp_path / "a.syn", (3, 4), "f8", rel=1e-3, range=(1e308, -1e308))


@pytest.mark.parametrize("module", ["zarr", "numcodecs", "xarray", "dask"])
def test_a_missing_package_is_named_with_what_to_install(module):
    code = f"""
import sys
sys.modules["zarr"] = sys.modules["numcodecs"] = None
try:
    import syncline.{module}
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "pip install 'syncline[zarr]'" in done.stdout, done.stdout + done.stderr
