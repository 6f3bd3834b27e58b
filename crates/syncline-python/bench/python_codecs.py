"""Speed of the package beside zfpy, pysz (SZ3), blosc2 and pcodec, in one process.

    pip install syncline zfpy pysz blosc2 pcodec
    python python_codecs.py [--rel 1e-3] [--rounds 5] [--threads 1] [FIELD.f32:361x720 ...]

Prints Markdown: the ratio, and the speed of compression and decompression to a NumPy array, in GB of the array per
second. Every codec has its turn in each round; "of ours" is the speed relative to Syncline in the same round, with
the range of all rounds. The codecs with a bound get the same absolute one; zfp keeps well below it, so that its largest
error is printed, too. Packages that are missing are left out. Without files, the fields are that of ``testdata/`` and
waves in three dimensions with noise.
"""

import argparse
import importlib
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# SZ3 and others ask OpenMP. Set before they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import syncline
from common import named_fields, processor

TESTDATA = Path(__file__).parents[3] / "testdata" / "egm96_361x720.f32"


class Codec(NamedTuple):
    """A codec: its name, and how it compresses and decompresses."""

    name: str
    compress: Callable[[np.ndarray], Any]
    decompress: Callable[[Any, np.ndarray], np.ndarray]


def codecs(bound: float, threads: int) -> tuple[list[Codec], list[Codec]]:
    """Returns the codecs with the bound and the lossless ones, of the packages that are there."""
    lossy = [
        Codec(
            name,
            lambda a, effort=effort: syncline.compress(a, abs=bound, effort=effort, threads=threads, device="cpu"),
            lambda c, _: syncline.decompress(c, threads=threads, device="cpu"),
        )
        for name, effort in (("syncline", "fast"), ("syncline, balanced", "balanced"))
    ]
    lossless = [
        Codec(
            "syncline",
            lambda a: syncline.compress(a, threads=threads, device="cpu"),
            lambda c, _: syncline.decompress(c, threads=threads, device="cpu"),
        )
    ]
    if zfpy := package("zfpy"):
        lossy.append(
            Codec("zfpy", lambda a: zfpy.compress_numpy(a, tolerance=bound), lambda c, _: zfpy.decompress_numpy(c))
        )
        lossless.append(Codec("zfpy", zfpy.compress_numpy, lambda c, _: zfpy.decompress_numpy(c)))
    if pysz := package("pysz"):
        config = pysz.szConfig()
        config.errorBoundMode = pysz.szErrorBoundMode.ABS
        config.absErrorBound = bound
        lossy.append(
            Codec(
                "pysz (SZ3)",
                lambda a: pysz.sz.compress(a, config)[0],
                lambda c, a: pysz.sz.decompress(c, a.dtype, a.shape)[0],
            )
        )
    if blosc2 := package("blosc2"):
        settings = {
            "codec": blosc2.Codec.ZSTD,
            "clevel": 5,
            "filters": [blosc2.Filter.BITSHUFFLE],
            "filters_meta": [0],
            "nthreads": threads,
        }

        def unpack(data: bytes, like: np.ndarray) -> np.ndarray:
            out = np.empty_like(like)
            blosc2.decompress2(data, dst=out, nthreads=threads)
            return out

        def pack(array: np.ndarray) -> bytes:
            return blosc2.compress2(array, typesize=array.itemsize, **settings)

        lossless.append(Codec("blosc2 (zstd 5)", pack, unpack))
    if pcodec := package("pcodec"):
        chunk = pcodec.ChunkConfig()

        def read(data: bytes, like: np.ndarray) -> np.ndarray:
            out = np.empty(like.size, like.dtype)
            pcodec.standalone.simple_decompress_into(data, out)
            return out.reshape(like.shape)

        lossless.append(Codec("pcodec", lambda a: pcodec.standalone.simple_compress(a.reshape(-1), chunk), read))
    return lossy, lossless


def package(name: str) -> Any:
    """Returns a module, or ``None`` if it is not installed."""
    try:
        module = importlib.import_module(name)
        if name == "pcodec":
            importlib.import_module("pcodec.standalone")
        return module
    except ImportError:
        return None


def fields(arguments: list[str]) -> list[tuple[str, np.ndarray]]:
    """Returns the fields that were named, as a path and a shape, or the default ones."""
    result = named_fields(arguments)
    if result:
        return result
    if TESTDATA.exists():
        result.append(("egm96", np.fromfile(TESTDATA, "<f4").reshape(361, 720)))
    z, y, x = np.ogrid[:256, :256, :256]
    noise = np.random.default_rng(1).standard_normal((256, 256, 256), "f4")
    waves = np.sin(z / 20.0) + np.cos(y / 27.0) * np.sin(x / 15.0) + 1e-3 * noise
    return [*result, ("waves", waves.astype("f4"))]


class Measurement(NamedTuple):
    """What was measured of a codec: the ratio, the largest error, and seconds of compression and decompression."""

    ratio: float
    error: float
    compress: list[float]
    decompress: list[float]


def seconds(work: Callable[[], Any]) -> float:
    """Returns the time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(chosen: list[Codec], field: np.ndarray, bound: float, rounds: int) -> list[Measurement]:
    """Measures codecs in turn in each round, so that what else the machine does meets all of them."""
    made, measurements = [], []
    for codec in chosen:
        compressed = codec.compress(field)
        back = codec.decompress(compressed, field)
        assert back.dtype == field.dtype and back.shape == field.shape
        error = float(np.abs(back.astype("f8") - field).max())
        # Codecs other than ours round once more at the end.
        assert error <= bound * (1 + 1e-3), (codec.name, error, bound)
        made.append(compressed)
        size = getattr(compressed, "nbytes", None) or len(compressed)
        measurements.append(Measurement(field.nbytes / size, error, [], []))
    for _ in range(rounds):
        for codec, compressed, measurement in zip(chosen, made, measurements, strict=True):
            measurement.compress.append(seconds(lambda: codec.compress(field)))
            measurement.decompress.append(seconds(lambda: codec.decompress(compressed, field)))
    return measurements


def speeds(field: np.ndarray, times: list[float], reference: list[float]) -> str:
    """Returns the median speed in GB/s, and the speed relative to the reference in the same round: the median, the
    smallest, and the largest.
    """
    ratios = [other / time for other, time in zip(reference, times, strict=True)]
    relative = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    return f"{field.nbytes / statistics.median(times) / 1e9:.2f} | {relative}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fields", nargs="*", metavar="FIELD")
    parser.add_argument("--rel", type=float, default=1e-3, help="bound as a share of the range")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    versions = []
    for name in ("numpy", "zfpy", "pysz", "blosc2", "pcodec"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    print(f"{processor()}, {os.cpu_count()} cores, {options.threads} thread(s), Python {platform.python_version()}, ")
    print(f"syncline {syncline.__version__}, {', '.join(versions)}; rel = {options.rel}, {options.rounds} rounds\n")
    print("| field | codec | ratio | compress GB/s | of ours | decompress GB/s | of ours | error / bound |")
    print("|---|---|---|---|---|---|---|---|")
    for name, field in fields(options.fields):
        bound = options.rel * float(field.max() - field.min())
        lossy, lossless = codecs(bound, options.threads)
        for kind, chosen, limit in ((f"{name}, lossy", lossy, bound), (f"{name}, lossless", lossless, 0.0)):
            measurements = measure(chosen, field, limit, options.rounds)
            ours = measurements[0]
            for codec, measured in zip(chosen, measurements, strict=True):
                share = f"{measured.error / limit:.3f}" if limit else "exact"
                compress = speeds(field, measured.compress, ours.compress)
                decompress = speeds(field, measured.decompress, ours.decompress)
                row = (kind, codec.name, f"{measured.ratio:.2f}", compress, decompress, share)
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
