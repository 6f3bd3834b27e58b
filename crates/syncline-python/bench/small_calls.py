"""Processor time of calls on small arrays beside pcodec and zfpy, in one process.

    pip install syncline pcodec zfpy
    python small_calls.py [--rounds 7]

Prints Markdown: microseconds of processor time, of all threads, of compression and decompression of 10 to 100,000
values of a random walk; the page faults of both calls together; and the ratio to pcodec, which is lossless. Every codec
has its turn in each round, and the shortest round counts. Packages that are missing are left out.
"""

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import syncline
from common import processor

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


def measure(array: np.ndarray, rounds: int) -> list[tuple[str, float, float, float]]:
    """Returns the name of each codec, the shortest times of its two calls, and its page faults."""
    found, calls = codecs(), max(5, 100_000 // array.size)
    calls = min(calls, 500)
    streams = [codec.compress(array) for codec in found]
    times: dict[str, list[tuple[float, float]]] = {codec.name: [] for codec in found}
    for _ in range(rounds):
        for codec, stream in zip(found, streams, strict=True):
            times[codec.name].append(
                (
                    processor_time(lambda codec=codec: codec.compress(array), calls),
                    processor_time(lambda codec=codec, stream=stream: codec.decompress(stream), calls),
                )
            )
    rows = []
    for codec, stream in zip(found, streams, strict=True):
        compress, decompress = (min(side) for side in zip(*times[codec.name], strict=True))
        faults = page_faults(lambda codec=codec, stream=stream: (codec.compress(array), codec.decompress(stream)))
        rows.append((codec.name, compress, decompress, faults))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print(f"{processor()}, syncline {syncline.__version__}, NumPy {np.__version__}\n")
    print("| values | codec | compress, us | of pcodec | decompress, us | of pcodec | page faults |")
    print("|---|---|---|---|---|---|---|")
    for dtype in ("f4", "f8"):
        for size in SIZES:
            array = np.cumsum(np.random.default_rng(0).normal(size=size)).astype(dtype)
            rows = measure(array, rounds)
            _, least, least_back, _ = rows[0]
            for name, compress, decompress, faults in rows:
                ratios = f"{compress / least:.2f} | {1e6 * decompress:.1f} | {decompress / least_back:.2f}"
                print(f"| {size:,} {dtype} | {name} | {1e6 * compress:.1f} | {ratios} | {faults:.1f} |", flush=True)


if __name__ == "__main__":
    main()
