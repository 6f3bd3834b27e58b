"""Processor time of calls on small arrays beside pcodec and zfpy, in one process.

    pip install syncline pcodec zfpy
    python small_calls.py [--rounds 7] [--device cuda]

Prints records as CSV: processor time, of all threads, of compression and decompression of 10 to 100,000 values of a
random walk, and the page faults of both calls together, as the bytes of the workspace over 4,096. Every codec has its
turn in each round. Packages that are missing are left out.

With a device, prints the elapsed time of the first call of each kind on it, and of later ones, for arrays in host
memory: what calls before have left makes the difference.
"""

import argparse
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import syncline
from common import processor, record

try:
    import resource
except ImportError:  # Windows
    resource = None

SIZES = (10, 1_000, 10_000, 100_000)


class Codec(NamedTuple):
    """A codec: its name, and how it compresses and decompresses."""

    name: str
    compress: Callable[[np.ndarray], Any]
    decompress: Callable[[Any], np.ndarray]


def codecs() -> list[Codec]:
    """Returns the codecs of the packages that are there, pcodec first."""
    found = []
    if pcodec := package("pcodec"):
        config = pcodec.ChunkConfig()
        found.append(
            Codec(
                "pcodec",
                lambda array: pcodec.standalone.simple_compress(array, config),
                pcodec.standalone.simple_decompress,
            )
        )
    if zfpy := package("zfpy"):
        found.append(
            Codec("zfpy, 0.1", lambda array: zfpy.compress_numpy(array, tolerance=0.1), zfpy.decompress_numpy)
        )
    found.append(Codec("syncline, abs=0.1", lambda array: syncline.compress(array, abs=0.1), syncline.decompress))
    found.append(Codec("syncline, lossless", syncline.compress, syncline.decompress))
    return found


def package(name: str) -> Any:
    """Returns a module, or nothing if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def processor_time(call: Callable[[], object], calls: int) -> float:
    """Returns the seconds of processor time that a call takes."""
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls


def page_faults(call: Callable[[], object], calls: int = 10) -> float:
    """Returns the page faults of a call."""
    if resource is None:
        return 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        call()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / calls


def measure(array: np.ndarray, rounds: int) -> None:
    """Measures both calls of each codec, and their page faults."""
    found, calls = codecs(), min(max(5, 100_000 // array.size), 500)
    streams = [codec.compress(array) for codec in found]
    times: list[tuple[list[float], list[float]]] = [([], []) for _ in found]
    for _ in range(rounds):
        for codec, stream, (compress, decompress) in zip(found, streams, times, strict=True):
            compress.append(processor_time(lambda codec=codec: codec.compress(array), calls))
            decompress.append(processor_time(lambda codec=codec, stream=stream: codec.decompress(stream), calls))
    for codec, stream, both in zip(found, streams, times, strict=True):
        faults = page_faults(lambda codec=codec, stream=stream: (codec.compress(array), codec.decompress(stream)))
        for what, runs in zip(("compress", "decompress"), both, strict=True):
            record(
                "small_calls",
                what,
                runs,
                device="cpu",
                field="random walk",
                element=f"f{8 * array.itemsize}",
                shape=array.size,
                codec=codec.name,
                bytes=array.nbytes,
                stream_bytes=len(stream),
                workspace=round(faults * 4096),
            )


def measure_device(array: np.ndarray, device: str, rounds: int) -> None:
    """Measures the first call and later calls on a device, on an array in host memory."""
    stream = syncline.compress(array, abs=0.1)
    calls: dict[str, Callable[[], object]] = {
        "compress": lambda: syncline.compress(array, abs=0.1, device=device),
        "decompress": lambda: syncline.decompress(stream, device=device),
    }
    for what, call in calls.items():
        times = []
        for _ in range(2 + rounds):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        for name, runs in ((f"first {what}", times[:1]), (what, times[2:])):
            record(
                "small_calls",
                name,
                runs,
                device=device,
                field="random walk",
                element=f"f{8 * array.itemsize}",
                shape=array.size,
                codec="syncline, abs=0.1",
                bytes=array.nbytes,
                stream_bytes=len(stream),
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", help="where to run Syncline instead, such as cuda")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    print(f"{processor()}, syncline {syncline.__version__}, NumPy {np.__version__}", file=sys.stderr)
    for dtype in ("f4", "f8"):
        for size in SIZES:
            array = np.cumsum(np.random.default_rng(0).normal(size=size)).astype(dtype)
            if arguments.device:
                measure_device(array, arguments.device, rounds)
            else:
                measure(array, rounds)


if __name__ == "__main__":
    main()
