"""The HDF5 filter that the package contains, in processes without `HDF5_PLUGIN_PATH`."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

h5py = pytest.importorskip("h5py")
syncline_h5py = pytest.importorskip("syncline.h5py")

FIELD = np.sin(np.arange(40 * 50) * 0.01).reshape(40, 50)
ABS = syncline_h5py.filter(abs=1e-3)


def run(code, *words, path=None):
    """Runs a program in Python and returns what it prints. `path` names folders of plugins."""
    environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    if path is not None:
        environment["HDF5_PLUGIN_PATH"] = path
    words = [sys.executable, "-W", "error", "-c", code, *map(str, words)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def write(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=FIELD, chunks=(20, 50), **ABS)


def test_importing_the_module_makes_the_filter_known_to_h5py(tmp_path):
    code = """
import sys, numpy, syncline.h5py, h5py
with h5py.File(sys.argv[1], "w") as file:
    file.create_dataset("t", data=numpy.linspace(0, 1, 2000).reshape(40, 50), chunks=(20, 50),
                        **syncline.h5py.filter(abs=1e-3))
with h5py.File(sys.argv[1]) as file:
    error = abs(file["t"][...].ravel() - numpy.linspace(0, 1, 2000)).max()
    print(error <= 1e-3, file["t"].id.get_storage_size() < 8000)
"""
    assert run(code, tmp_path / "a.h5") == "True True\n"


def test_without_the_import_h5py_does_not_know_the_filter(tmp_path):
    write(tmp_path / "a.h5")
    code = "import sys, h5py; h5py.File(sys.argv[1])['t'][...]"
    assert "OSError" in run(code, tmp_path / "a.h5")


def test_register_makes_the_filter_known_to_netcdf4(tmp_path):
    pytest.importorskip("netCDF4")
    write(tmp_path / "a.h5")
    read = "import sys, netCDF4; {}print(netCDF4.Dataset(sys.argv[1])['t'][:].max() > .9)"
    assert "True" not in run(read.format(""), tmp_path / "a.h5")
    assert run(read.format("import syncline.h5py as s; s.register(netCDF4); "), tmp_path / "a.h5") == "True\n"


@pytest.mark.parametrize("dtype", ["f2", "u1", "i2", "u4", "i8"])
def test_every_type_has_bounds(dtype, tmp_path):
    values = (60 + 50 * np.sin(np.arange(6000).reshape(60, 100) / 50)).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=values, chunks=(30, 50), **syncline_h5py.filter(abs=2.5))
        # Booleans of h5py are an enumeration.
        file.create_dataset("b", data=values > 60, chunks=(30, 50), **syncline_h5py.filter(abs=2.5))
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["v"].dtype == dtype and (file["v"][...] != values).any()
        assert np.abs(file["v"][...].astype("f8") - values).max() <= 2.5
        assert (file["b"][...] == (values > 60)).all()


def test_register_of_a_package_without_hdf5_fails():
    with pytest.raises(ValueError, match="numpy uses no HDF5 library"):
        syncline_h5py.register(np)


def test_the_folder_in_the_wheel_is_that_of_a_plugin(tmp_path):
    """HDF5 loads the filter from it, without Syncline's Python package."""
    assert len(os.listdir(syncline_h5py.PLUGIN_PATH)) == 1
    write(tmp_path / "a.h5")
    code = "import sys, h5py; print(h5py.File(sys.argv[1])['t'][...].max() > .9, 'syncline' in sys.modules)"
    assert run(code, tmp_path / "a.h5", path=syncline_h5py.PLUGIN_PATH) == "True False\n"


@pytest.mark.skipif(shutil.which("h5dump") is None, reason="needs HDF5's tools")
def test_the_plugin_in_the_wheel_serves_the_tools_of_hdf5(tmp_path):
    write(tmp_path / "a.h5")
    environment = {**os.environ, "HDF5_PLUGIN_PATH": syncline_h5py.PLUGIN_PATH}
    command = ["h5dump", "-d", "/t[0,0;;1,3]", str(tmp_path / "a.h5")]
    dump = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    assert "(0,0): " in dump.stdout
