"""Speed of the package beside zfpy, pysz (SZ3), blosc2 and pcodec, in one process.

    pip install syncline zfpy pysz blosc2 pcodec
    python python_codecs.py [--rel 1e-3] [--rounds 5] [--threads 1] [FIELD.f32:361x720 ...]

Prints records as CSV. Every codec has its turn in each round. The codecs with a bound get the same absolute one; zfp
keeps well below it, so that its largest error is part of the record. Packages that are missing are left out. Without
files, the fields are that of ``testdata/`` and waves in three dimensions with noise.
"""

import argparse
import importlib
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

# SZ3 and others ask OpenMP. Set before they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import syncline
from common import named_fields, processor, record, shape_text

TESTDATA = Path(__file__).parents[3] / "testdata" / "egm96_361x720.f32"


class Codec(NamedTuple):
    """A codec: its name and options, and how it compresses and decompresses."""

    name: str
    options: str
    compress: Callable[[np.ndarray], Any]
    decompress: Callable[[Any, np.ndarray], np.ndarray]


def codecs(bound: float, threads: int) -> tuple[list[Codec], list[Codec]]:
    """Returns the codecs with the bound and the lossless ones, of the packages that are there."""
    lossy = [
        Codec(
            "syncline",
            effort,
            lambda a, effort=effort: syncline.compress(a, abs=bound, effort=effort, threads=threads, device="cpu"),
            lambda c, _: syncline.decompress(c, threads=threads, device="cpu"),
        )
        for effort in ("balanced", "fast")
    ]
    lossless = [
        Codec(
            "syncline",
            "balanced",
            lambda a: syncline.compress(a, threads=threads, device="cpu"),
            lambda c, _: syncline.decompress(c, threads=threads, device="cpu"),
        )
    ]
    if zfpy := package("zfpy"):
        lossy.append(
            Codec("zfpy", "", lambda a: zfpy.compress_numpy(a, tolerance=bound), lambda c, _: zfpy.decompress_numpy(c))
        )
        lossless.append(Codec("zfpy", "", zfpy.compress_numpy, lambda c, _: zfpy.decompress_numpy(c)))
    if pysz := package("pysz"):
        config = pysz.szConfig()
        config.errorBoundMode = pysz.szErrorBoundMode.ABS
        config.absErrorBound = bound
        lossy.append(
            Codec(
                "pysz (SZ3)",
                "",
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

        lossless.append(Codec("blosc2", "zstd 5", pack, unpack))
    if pcodec := package("pcodec"):
        chunk = pcodec.ChunkConfig()

        def read(data: bytes, like: np.ndarray) -> np.ndarray:
            out = np.empty(like.size, like.dtype)
            pcodec.standalone.simple_decompress_into(data, out)
            return out.reshape(like.shape)

        lossless.append(Codec("pcodec", "", lambda a: pcodec.standalone.simple_compress(a.reshape(-1), chunk), read))
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


def seconds(work: Callable[[], Any]) -> float:
    """Returns the time of a call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def measure(chosen: list[Codec], name: str, field: np.ndarray, bound: float, rel: str, options: Any) -> None:
    """Measures codecs in turn in each round, so that what else the machine does meets all of them."""
    made, errors = [], []
    for codec in chosen:
        compressed = codec.compress(field)
        back = codec.decompress(compressed, field)
        assert back.dtype == field.dtype and back.shape == field.shape
        errors.append(float(np.abs(back.astype("f8") - field).max()))
        # Codecs other than ours round once more at the end.
        assert errors[-1] <= bound * (1 + 1e-3), (codec.name, errors[-1], bound)
        made.append(compressed)
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in chosen]
    for _ in range(options.rounds):
        for codec, compressed, (compress, decompress) in zip(chosen, made, times, strict=True):
            compress.append(seconds(lambda codec=codec: codec.compress(field)))
            decompress.append(seconds(lambda codec=codec, data=compressed: codec.decompress(data, field)))
    for codec, compressed, error, both in zip(chosen, made, errors, times, strict=True):
        for what, runs in zip(("compress", "decompress"), both, strict=True):
            record(
                "python_codecs",
                what,
                runs,
                device=f"cpu, {options.threads} thread{'s' if options.threads > 1 else ''}",
                field=name,
                element="f32",
                shape=shape_text(field),
                bound=rel,
                codec=codec.name,
                options=codec.options,
                bytes=field.nbytes,
                stream_bytes=getattr(compressed, "nbytes", None) or len(compressed),
                error=error / bound if bound else "",
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fields", nargs="*", metavar="FIELD")
    parser.add_argument("--rel", default="1e-3", help="bound as a share of the range")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    versions = []
    for name in ("numpy", "zfpy", "pysz", "blosc2", "pcodec"):
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    print(
        f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}, syncline {syncline.__version__}, "
        f"{', '.join(versions)}",
        file=sys.stderr,
    )
    for name, field in fields(options.fields):
        bound = float(options.rel) * float(field.max() - field.min())
        lossy, lossless = codecs(bound, options.threads)
        measure(lossy, name, field, bound, options.rel, options)
        measure(lossless, name, field, 0.0, "lossless", options)


if __name__ == "__main__":
    main()
