"""The HDF5 filter in parallel HDF5: two ranks of MPI write and read a file together."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

PROBE = "import mpi4py, h5py; assert h5py.get_config().mpi"


def interpreter():
    """Returns a Python with mpi4py and an h5py for MPI, or ``None``. That of the system has Debian's packages."""
    # Debian's h5py has both kinds of HDF5, and takes the parallel one of this variable where no MPI is running.
    environment = {**os.environ, "H5PY_ALWAYS_USE_MPI": "1"}
    for python in (os.environ.get("SYNCLINE_MPI_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python is None or shutil.which(python) is None:
            continue
        if subprocess.run([python, "-c", PROBE], capture_output=True, env=environment).returncode == 0:
            return python
    return None


def test_two_ranks_write_and_read_together(tmp_path):
    python = interpreter()
    if python is None or shutil.which("mpiexec") is None:
        pytest.skip("needs mpiexec, mpi4py, and h5py for MPI: packages python3-mpi4py, python3-h5py-mpi, openmpi-bin")
    path = tmp_path / "a.h5"
    # Open MPI refuses root, as in containers, and more ranks than processors without being told.
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    # Ranks that wait give the processor away.
    shared = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
    environment = {**os.environ, **allowed, **shared}
    program = Path(__file__).with_name("parallel.py")
    words = ["mpiexec", "-n", "2", python, str(program), str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    # Their lines may be mixed.
    assert done.stdout.count("ok") == 2, done.stdout
    # A program without MPI reads the file, with another version of HDF5.
    with h5py.File(path) as file:
        assert sorted(file) == ["own", "shared", "uneven"]
        for group in file.values():
            assert set(group["field"]._filters) == {"47501"}
            assert np.array_equal(group["whole"][...].ravel(), np.arange(40 * 50 * 60))
            noise = np.random.default_rng(1).integers(0, 256, (40, 50, 60), "u1")
            assert np.array_equal(group["noise"][...], noise)
