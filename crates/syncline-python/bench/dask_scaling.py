"""Speed, memory, and bytes of ``syncline.dask.to_zarr`` with one and more worker processes.

    pip install syncline[dask]
    python dask_scaling.py [--workers 1 2] [--rounds 5] [--memory-limit 400MiB] [--shape 512x1024x1024]

Prints records as CSV. Each worker is a process with one thread. In each round, every number of workers gets a fresh
cluster and stores the same field, which the workers compute chunk by chunk: the range first, for the relative bound,
and then the chunks of the Zarr array. "store" is both passes together, and "pass alone" the time in which the field is
computed and its range is found, without compression. "processor time" is that of all workers, user and system: where
other programs use the processor as well, it tells what a worker more costs. The column "workspace" has the most memory
that a worker had.
"""

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import syncline
import syncline.dask
from common import record, shape_text
from distributed import Client, LocalCluster

CHUNK = (64, 256, 256)


def block(block_info: Any = None) -> np.ndarray:
    """Computes a chunk of the field: waves with noise, the same for each run."""
    where = block_info[None]["array-location"]
    z, y, x = np.ogrid[tuple(slice(start, end) for start, end in where)]
    seed = [start for start, _ in where]
    shape = [end - start for start, end in where]
    noise = np.random.default_rng(seed).standard_normal(shape, "f4")
    return (np.sin(z / 20.0) + np.cos(y / 27.0) * np.sin(x / 15.0)).astype("f4") + np.float32(1e-3) * noise


def peak_memory() -> int:
    """Returns the largest number of bytes of memory that this process has had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def processor_seconds() -> float:
    """Returns the time that this process has had on the processor."""
    times = os.times()
    return times.user + times.system


def digest(folder: Path) -> str:
    """Returns a hash of all files of a store."""
    total = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return total.hexdigest()


def run(array: Any, workers: int, limit: str, folder: Path) -> dict[str, Any]:
    """Stores the field with a cluster of its own and returns what was measured."""
    options: dict[str, Any] = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=workers, memory_limit=limit, **options) as cluster, Client(cluster) as client:
        names = set(client.scheduler_info()["workers"])
        # Imports what the workers need.
        syncline.dask.to_zarr(array[: CHUNK[0], : CHUNK[1], : CHUNK[2] * workers], folder / "warm.zarr", rel=1e-3)
        start = time.perf_counter()
        syncline.resolve(array, rel=1e-3)
        alone = time.perf_counter() - start
        before = sum(client.run(processor_seconds).values())
        start = time.perf_counter()
        syncline.dask.to_zarr(array, folder / "field.zarr", rel=1e-3)
        seconds = time.perf_counter() - start
        processor = sum(client.run(processor_seconds).values()) - before
        peak = max(client.run(peak_memory).values())
        assert set(client.scheduler_info()["workers"]) == names, "a worker was restarted"
    bytes_ = sum(file.stat().st_size for file in (folder / "field.zarr").rglob("*") if file.is_file())
    return {
        "seconds": seconds,
        "processor": processor,
        "alone": alone,
        "peak": peak,
        "bytes": bytes_,
        "digest": digest(folder / "field.zarr"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory-limit", default="400MiB", help="of each worker")
    parser.add_argument("--shape", default="512x1024x1024")
    options = parser.parse_args()
    shape = tuple(int(extent) for extent in options.shape.split("x"))
    chunks = dask.array.core.normalize_chunks(CHUNK, shape)
    array = dask.array.map_blocks(block, chunks=chunks, dtype="f4", meta=np.empty((0, 0, 0), "f4"))
    measured: dict[int, list[dict[str, Any]]] = {workers: [] for workers in options.workers}
    for _ in range(options.rounds):
        for workers, runs in measured.items():
            folder = Path(tempfile.mkdtemp(prefix="syncline-dask-"))
            try:
                runs.append(run(array, workers, options.memory_limit, folder))
            finally:
                shutil.rmtree(folder)
    every = [one for runs in measured.values() for one in runs]
    print(
        f"{os.cpu_count()} cores, Python {platform.python_version()}, dask {dask.__version__}, "
        f"syncline {syncline.__version__}, {array.npartitions} chunks, memory limit {options.memory_limit}",
        file=sys.stderr,
    )
    assert len({one["digest"] for one in every}) == 1, "stores differ"
    for workers, runs in measured.items():
        for what, key in (("store", "seconds"), ("store, processor time", "processor"), ("pass alone", "alone")):
            record(
                "dask_scaling",
                what,
                [one[key] for one in runs],
                device=f"{workers} worker{'s' if workers > 1 else ''}",
                field="waves",
                element="f32",
                shape=shape_text(array),
                bound="1e-3",
                codec="syncline",
                options="balanced",
                bytes=array.nbytes,
                stream_bytes=runs[0]["bytes"],
                workspace=max(one["peak"] for one in runs),
            )


if __name__ == "__main__":
    main()
