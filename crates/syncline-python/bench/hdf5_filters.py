"""Speed of writing and reading a dataset with the HDF5 filter beside those of hdf5plugin, in one process.

    cargo xtask install-c --prefix DIR
    pip install h5py hdf5plugin syncline
    HDF5_PLUGIN_PATH=DIR/lib/syncline/hdf5 python hdf5_filters.py [--rel 1e-3] [--rounds 3] [FIELD.f32:101x101x800 ...]

Each field is repeated along its first axis until it has the size of 1 GB, and is written and read in chunks of about
4 MiB by h5py, one chunk after the other, with one thread. In a round, every filter has its turn, so that a change of
the machine's speed hits all of them. Prints records as CSV, and checks the bound. Seconds are those of the processor
that the process took, so that other work on the machine matters little; with one thread and
files in memory (TMPDIR=/dev/shm), they are those that pass on an idle machine. Without fields, one like turbulence is
made.
"""

import argparse
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

# Every filter has one thread.
os.environ.update(OMP_NUM_THREADS="1", BLOSC_NTHREADS="1", BLOSC2_NTHREADS="1")

import h5py
import hdf5plugin
import numpy as np
import syncline.h5py
from common import named_fields, processor, record, shape_text

CHUNK = 4 << 20
"""Bytes of a chunk, about."""


class Filter(NamedTuple):
    """A filter: its name, the keywords of ``create_dataset``, and the largest error."""

    name: str
    keywords: Mapping[str, Any]
    bound: float


def filters(bound: float) -> list[Filter]:
    """Returns the filters that keep the absolute bound, then those that are lossless, then none."""
    ours = syncline.h5py.filter
    return [
        Filter("Syncline, fast", ours(abs=bound, effort="fast"), bound),
        Filter("Syncline, balanced", ours(abs=bound, effort="balanced"), bound),
        Filter("SZ3", hdf5plugin.SZ3(absolute=bound), bound),
        Filter("zfp", hdf5plugin.Zfp(accuracy=bound), bound),
        Filter("Syncline, lossless", ours(), 0.0),
        Filter("Blosc2 (zstd 5, bit shuffle)", blosc2(hdf5plugin.Blosc2.BITSHUFFLE), 0.0),
        Filter("Blosc2 (zstd 5, shuffle)", blosc2(hdf5plugin.Blosc2.SHUFFLE), 0.0),
        Filter("none", {}, 0.0),
    ]


def blosc2(shuffle: int) -> Mapping[str, Any]:
    """Returns the keywords for Blosc2 with zstd."""
    return hdf5plugin.Blosc2(cname="zstd", clevel=5, filters=shuffle)


def turbulence() -> np.ndarray:
    """Returns a periodic field in three dimensions whose energy falls with the wave number as in turbulence."""
    extent = 256
    numbers = [np.fft.fftfreq(extent, 1 / extent)] * 2 + [np.fft.rfftfreq(extent, 1 / extent)]
    squared = sum(np.square(axis) for axis in np.meshgrid(*numbers, indexing="ij", sparse=True))
    squared[0, 0, 0] = 1
    noise = np.fft.rfftn(np.random.default_rng(1).standard_normal([extent] * 3))
    # An energy of k^(-5/3) in shells of k^2 coefficients, without what the grid cannot resolve.
    spectrum = noise * squared ** (-11 / 12) * np.exp(-squared / (extent / 6) ** 2)
    return np.fft.irfftn(spectrum, [extent] * 3, axes=(0, 1, 2)).astype("f4")


def fields(arguments: list[str]) -> list[tuple[str, np.ndarray]]:
    """Returns the fields that were named, as a path and a shape, or the one that is made."""
    return named_fields(arguments) or [("turbulence", turbulence())]


def chunks_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of chunks: like a cube as far as the array permits it."""
    chunk = list(shape)
    while math.prod(chunk) * 4 > CHUNK:
        longest = max(range(len(chunk)), key=chunk.__getitem__)
        chunk[longest] = -(-chunk[longest] // 2)
    return tuple(chunk)


class Measured(NamedTuple):
    """A turn of a filter."""

    write: float
    read: float
    stored: int
    error: float


def measure(tile: np.ndarray, count: int, chunks: tuple[int, ...], chosen: Filter, folder: str) -> Measured:
    """Writes and reads the repeated field, and returns seconds, stored bytes, and the largest error."""
    path = Path(folder, "x.h5")
    data = np.concatenate([tile] * count)
    start = time.process_time()
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=data, chunks=chunks, **chosen.keywords)
    write = time.process_time() - start
    # The array is freed before it is read back, and repeated parts are compared with one of them.
    del data
    start = time.process_time()
    with h5py.File(path) as file:
        back = file["x"][...]
    read = time.process_time() - start
    with h5py.File(path) as file:
        stored = file["x"].id.get_storage_size()
    path.unlink()
    parts = back.reshape(count, *tile.shape)
    error = max(float(np.abs(part.astype("f8") - tile).max()) for part in parts)
    return Measured(write, read, stored, error)


def compare(name: str, tile: np.ndarray, options: argparse.Namespace) -> None:
    """Measures all filters with a field."""
    count = max(1, round(options.size * 1e9 / tile.nbytes))
    bound = float(options.rel) * float(tile.max() - tile.min())
    chunks = chunks_of(tile.shape)
    size = tile.nbytes * count
    print(f"{name}: {count} times, chunks {'x'.join(map(str, chunks))}, bound {bound:.6g}", file=sys.stderr)
    chosen = filters(bound)
    turns: dict[str, list[Measured]] = {each.name: [] for each in chosen}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for each in chosen:
                turns[each.name].append(measure(tile, count, chunks, each, folder))
    for each in chosen:
        done = turns[each.name]
        error = max(turn.error for turn in done)
        # Filters other than ours may round once more at the end.
        assert error <= each.bound * (1 + (0 if "Syncline" in each.name else 1e-3)), (each.name, error, each.bound)
        for what in ("write", "read"):
            record(
                "hdf5_filters",
                what,
                [getattr(turn, what) for turn in done],
                device="cpu, 1 thread",
                field=name,
                element="f32",
                shape=f"{count * tile.shape[0]}x{shape_text(tile[0])}",
                bound=options.rel if each.bound else "lossless",
                codec=each.name,
                bytes=size,
                stream_bytes=done[0].stored,
                error=error / bound if each.bound else "",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fields", nargs="*", metavar="FIELD")
    parser.add_argument("--rel", default="1e-3", help="bound as a share of the range of the field")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=float, default=1, help="size of the array in GB")
    options = parser.parse_args()
    print(
        f"{processor()}, Python {platform.python_version()}, NumPy {np.__version__}, h5py {h5py.__version__} with HDF5 "
        f"{h5py.version.hdf5_version}, hdf5plugin {hdf5plugin.version}, syncline {syncline.__version__}",
        file=sys.stderr,
    )
    for name, tile in fields(options.fields):
        compare(name, tile, options)


if __name__ == "__main__":
    main()
