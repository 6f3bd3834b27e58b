"""Tests a wheel, or a source distribution, in a new environment that has nothing but it and what it depends on.

    python clean_environment.py FILE

With h5py, where that has a wheel, the HDF5 filter is tested too. A release is uploaded only after this.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import venv

TESTS = ["conftest.py", "test_files.py", "test_h5py.py", "test_report.py", "test_values.py"]

CHECK = """
import pathlib, sys, numpy, syncline
field = numpy.linspace(0, 1, 12_000, dtype="f4").reshape(30, 20, 20)
stream = syncline.compress(field, abs=1e-3)
assert abs(syncline.decompress(stream) - field).max() <= 1e-3 and len(stream) * 4 < field.nbytes
print("syncline", syncline.__version__, "in", syncline.__file__, "with Python", sys.version.split()[0])
"""

PLUGIN = """
import h5py, syncline.h5py
assert h5py.h5z.filter_avail(syncline.h5py.FILTER_ID), "h5py does not know the filter"
assert list(__import__("pathlib").Path(syncline.h5py.PLUGIN_PATH).iterdir()), "no plugin for other programs"
"""


def main(file: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = pathlib.Path(folder)
        venv.create(root / "environment", with_pip=True)
        python = root / "environment" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

        def run(*words: object, check: bool = True) -> int:
            # Not in the folder of the caller, whose files Python would import.
            return subprocess.run([python, *words], cwd=root, check=check).returncode

        pip = ("-m", "pip", "--quiet", "--disable-pip-version-check")
        run(*pip, "install", file.resolve())
        run(*pip, "check")
        run("-c", CHECK)
        run(*pip, "install", "pytest")
        has_h5py = run(*pip, "install", "--only-binary", ":all:", "h5py", check=False) == 0
        if has_h5py and sys.platform != "win32":
            run("-c", PLUGIN)
        tests = root / "tests"
        tests.mkdir()
        for name in TESTS:
            shutil.copy(pathlib.Path(__file__).with_name(name), tests)
        run("-m", "pytest", "--quiet", tests)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
