"""Runs the tests of numcodecs and of Zarr, at the versions that are installed, with Syncline in place of their codecs.

``python run.py FOLDER [WORD ...]`` downloads what is not in the folder yet; words are for pytest. The exit status is 1
if a test failed.
"""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent

#: What Zarr's tests need besides what ours do.
PACKAGES = ["pytest-asyncio==1.5.0"]

SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
xfail_strict = true
markers =
    asyncio: a test that is a coroutine
    gpu: needs a GPU
    slow_hypothesis: takes long
"""

#: Tests that need packages of their own and compress nothing.
LEFT_OUT = ["tests/benchmarks", "tests/test_api/test_synchronous.py", "tests/test_examples.py"]


def pip(*words):
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", *words], check=True)


def source(name, folder):
    """Returns the folder of the source distribution of a package."""
    named = f"{name}-{importlib.metadata.version(name)}"
    if not (folder / named).exists():
        pip("download", "--no-deps", "--no-binary", ":all:", "--dest", folder, named.replace("-", "=="))
        with tarfile.open(folder / f"{named}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return folder / named


def run(folder, where, words):
    """Runs tests and returns whether all of them passed."""
    (where / "pytest.ini").write_text(SETTINGS)
    found = [str(HERE), str(folder / "packages"), str(where)]
    plugins = ["-p", "syncline_in_their_place", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", *plugins, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    return subprocess.run(command, cwd=where, env=environment).returncode == 0


def main(folder, *words):
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "packages").exists():
        pip("install", "--no-deps", "--target", folder / "packages", *PACKAGES)
    modules = [f"numcodecs.tests.test_{name}" for name in ("bz2", "gzip", "lz4", "lzma", "zlib", "zstd")]
    numcodecs = run(folder, folder, ["--pyargs", *modules, *words])
    zarr = run(folder, source("zarr", folder), ["tests", *(f"--ignore={name}" for name in LEFT_OUT), *words])
    return 0 if numcodecs and zarr else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
