"""Dask arrays, on one machine and on a cluster of processes."""

import doctest
import hashlib
import os
import re
import signal
import subprocess
import sys
import time

import dask
import dask.array
import numpy as np
import pytest
import syncline
import syncline.dask
import zarr
from distributed import Client, LocalCluster


def waves(shape=(80, 200, 300), chunks=(20, 100, 300)):
    """Returns a lazy array whose chunks are computed where they are needed."""

    def block(block_info=None):
        where = block_info[None]["array-location"]
        z, y, x = np.ogrid[tuple(slice(start, end) for start, end in where)]
        return np.sin(z / 9) * np.cos(y / 11) + np.sin(x / 13)

    return dask.array.map_blocks(block, chunks=dask.array.core.normalize_chunks(chunks, shape), dtype="f8")


def digest(folder):
    """Returns a hash of all chunks and metadata of a store."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.relative_to(folder).as_posix().encode() + path.read_bytes() for path in files))


def test_a_relative_bound_is_resolved_once(tmp_path):
    array = waves()
    syncline.dask.to_zarr(array, tmp_path / "a.zarr", rel=1e-4, effort="balanced")
    stored = zarr.open_array(tmp_path / "a.zarr")
    assert stored.metadata.codecs[0].effort == "balanced"
    values = array.compute(scheduler="sync")
    bound = 1e-4 * np.ptp(values)
    assert stored.metadata.codecs[0].bound == syncline.Bound("abs", bound)
    assert np.abs(stored[...] - values).max() <= bound
    assert stored.chunks == (20, 100, 300)
    back = dask.array.from_zarr(tmp_path / "a.zarr")
    assert np.abs(back[3:5].compute() - values[3:5]).max() <= bound


@pytest.mark.parametrize("dtype", ["f2", "u1", "i2", "u4", "i8"])
def test_every_type_has_bounds(dtype, tmp_path):
    array = (100 + 20 * waves((40, 60, 60), (20, 60, 60))).astype(dtype)
    syncline.dask.to_zarr(array, tmp_path / "a.zarr", rel=0.05)
    values = array.compute(scheduler="sync").astype("f8")
    stored = zarr.open_array(tmp_path / "a.zarr")
    assert stored.dtype == dtype and np.abs(stored[...] - values).max() <= 0.05 * np.ptp(values)
    exact = (array > 100).astype(bool)
    syncline.dask.to_zarr(exact, tmp_path / "b.zarr", rel=0.05)
    assert (zarr.open_array(tmp_path / "b.zarr")[...] == exact.compute(scheduler="sync")).all()


@pytest.mark.parametrize("how", [{"fill": [-9999, 1e20]}, {"fill_value": -9999}])
def test_fill_values_are_not_in_the_range(how, tmp_path):
    waves_ = waves((40, 100, 100), (20, 100, 100))
    missing = dask.array.arange(40, chunks=20)[:, None, None] % 5
    array = dask.array.where(missing == 0, -9999, waves_)
    if "fill" in how:
        array = dask.array.where(missing == 1, 1e20, array)
    syncline.dask.to_zarr(array, tmp_path / "a.zarr", rel=1e-3, **how)
    values = array.compute(scheduler="sync")
    valid = ~np.isin(values, [-9999, 1e20])
    stored = zarr.open_array(tmp_path / "a.zarr")
    assert stored.serializer.bound == syncline.Bound("abs", 1e-3 * np.ptp(values[valid]))
    np.testing.assert_array_equal(stored[...][~valid], values[~valid])


def test_irregular_chunks_are_refused(tmp_path):
    array = dask.array.zeros(100, chunks=((30, 50, 20),))
    with pytest.raises(ValueError, match="rechunk"):
        syncline.dask.to_zarr(array, tmp_path / "a.zarr", abs=1)
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"chunks": (50, 20)},
        {"chunks": (50, 7)},
        {"chunks": "auto"},
        {"chunks": (10, 20), "shards": (50, 20)},
        {"chunks": (37, 20), "shards": (74, 20)},
    ],
)
@pytest.mark.parametrize("rows", [37, (300, 1, 699), 1000])
def test_no_two_tasks_write_to_a_chunk_or_shard(options, rows, tmp_path):
    values = np.random.default_rng(0).normal(size=(1000, 20)).astype("f4")
    array = dask.array.from_array(values, chunks=(rows, 20))
    syncline.dask.to_zarr(array, tmp_path / "a.zarr", abs=0.01, **options)
    stored = zarr.open_array(tmp_path / "a.zarr")
    if options["chunks"] != "auto":
        assert stored.chunks == options["chunks"] and stored.shards == options.get("shards")
    assert np.abs(stored[...] - values).max() <= 0.01


def test_aligned_tasks_stay_as_they_are():
    assert syncline.dask._aligned(((40, 40, 20), (30, 30)), (20, 30)) == ((40, 40, 20), (30, 30))
    assert syncline.dask._aligned(((37, 37, 26), (30,)), (50, 30)) == (50, (30,))
    assert syncline.dask._aligned(((130, 130), (3, 0)), (50, 3)) == (150, (3, 0))


@pytest.mark.parametrize("bound", [{"rel": 1e-3}, {"psnr": 60}, {"abs": 0.1}, {}])
@pytest.mark.parametrize("shape", [(0,), (0, 5), (4, 0)])
def test_empty_arrays(bound, shape, tmp_path):
    array = dask.array.from_array(np.zeros(shape), chunks=3)
    syncline.dask.to_zarr(array, tmp_path / "a.zarr", **bound)
    assert zarr.open_array(tmp_path / "a.zarr")[...].shape == shape


def test_blocks_without_elements_do_not_matter_for_the_range():
    array = dask.array.from_array(np.array([3.0, 1.0, 9.0]), chunks=1)
    some = dask.array.concatenate([array[:0], array, array[:0]])
    for lazy in (some, array.map_blocks(lambda block: block[block > 2], dtype="f8")):
        eager = lazy.compute(scheduler="sync")
        assert syncline.resolve(lazy, rel=0.5) == syncline.resolve(eager, rel=0.5)
    nothing = np.array([np.nan, np.inf])
    for empty in (array[:0], dask.array.from_array(nothing), nothing, nothing[:0]):
        assert syncline.resolve(empty, rel=0.5) == syncline.resolve(empty, psnr=60) == syncline.Bound()


def test_a_psnr_is_resolved_once(tmp_path):
    array = waves((40, 100, 100), (20, 100, 100))
    syncline.dask.to_zarr(array, tmp_path / "a.zarr", psnr=60)
    stored = zarr.open_array(tmp_path / "a.zarr")
    values = array.compute(scheduler="sync")
    assert stored.serializer.bound == syncline.Bound("abs", np.ptp(values) * 1e-3)
    assert np.sqrt(np.mean((stored[...] - values) ** 2)) <= np.ptp(values) * 1e-3


def test_masked_and_unknown_arrays_are_refused(tmp_path):
    array = dask.array.ma.masked_greater(dask.array.arange(10.0, chunks=5), 5)
    with pytest.raises(TypeError, match="filled"):
        syncline.dask.to_zarr(array, tmp_path / "a.zarr", abs=1)
    mask = lambda block: np.ma.masked_greater(block, 8)  # noqa: E731
    hidden = dask.array.arange(10.0, chunks=6).map_blocks(mask, meta=np.empty(0))
    with pytest.raises(TypeError, match="filled"):
        syncline.dask.to_zarr(hidden, tmp_path / "c.zarr", abs=1)
    syncline.dask.to_zarr(dask.array.ma.filled(array, -1), tmp_path / "a.zarr", abs=0.1, fill_value=-1)
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "a.zarr")[6:], -1)
    unknown = dask.array.arange(10.0, chunks=5)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        syncline.dask.to_zarr(unknown[unknown > 3], tmp_path / "b.zarr", abs=1)


def test_the_number_of_workers_does_not_change_the_bytes(tmp_path):
    digests = set()
    with dask.config.set(scheduler="threads", num_workers=4):
        syncline.dask.to_zarr(waves(), tmp_path / "threads.zarr", rel=1e-3)
    digests.add(digest(tmp_path / "threads.zarr").hexdigest())
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster) as client:
        for workers in (1, 2, 4):
            cluster.scale(workers)
            client.wait_for_workers(workers, timeout=60)
            assert len(client.scheduler_info(n_workers=-1)["workers"]) == workers
            syncline.dask.to_zarr(waves(), tmp_path / f"{workers}.zarr", rel=1e-3)
            digests.add(digest(tmp_path / f"{workers}.zarr").hexdigest())
    assert len(digests) == 1


def peak_memory():
    """Returns the largest number of bytes of memory that a process has had."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for the memory of processes")
def test_memory_limits_hold(tmp_path):
    limit = 320 << 20
    array = waves((340, 500, 500), (20, 250, 250))
    assert array.nbytes > 2 * limit
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(n_workers=2, memory_limit=limit, **options) as cluster, Client(cluster) as client:
        names = set(client.scheduler_info()["workers"])
        syncline.dask.to_zarr(array, tmp_path / "a.zarr", rel=1e-4)
        peaks = client.run(peak_memory)
        # Workers that exceed their limit are restarted under another name.
        assert set(client.scheduler_info()["workers"]) == names == set(peaks)
    assert max(peaks.values()) < limit, peaks
    stored = zarr.open_array(tmp_path / "a.zarr")
    for start in (0, 180, 320):
        expected = array[start : start + 20].compute(scheduler="threads")
        assert np.abs(stored[start : start + 20] - expected).max() <= stored.serializer.value


@pytest.fixture
def cluster(tmp_path):
    """Starts a scheduler and three workers as programs that talk over TCP."""
    environment = {**os.environ, "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false"}
    start = lambda *words: subprocess.Popen(  # noqa: E731
        [sys.executable, "-m", "dask", *words], env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
    address = None
    while address is None:
        line = scheduler.stderr.readline()
        assert line, "the scheduler did not start"
        if found := re.search(r"tcp://127\.0\.0\.1:\d+", line):
            address = found[0]
    options = ["--nthreads", "1", "--memory-limit", "300MiB", "--no-dashboard", "--no-nanny", "--local-directory"]
    workers = [start("worker", address, *options, str(tmp_path / f"worker{i}")) for i in range(3)]
    yield address, workers
    for process in (*workers, scheduler):
        process.kill()
        process.communicate()


def test_killed_worker_leaves_complete_chunks(cluster, tmp_path):
    address, workers = cluster
    # 460 MiB in all, beside workers of 300 MiB.
    array = waves((400, 500, 300), (20, 250, 300))
    with Client(address) as client:
        client.wait_for_workers(3, timeout=60)
        delayed = syncline.dask.to_zarr(array, tmp_path / "a.zarr", abs=1e-4, compute=False)
        future = client.compute(delayed)
        chunks = tmp_path / "a.zarr" / "c"
        while not chunks.exists() or sum(path.is_file() for path in chunks.rglob("*")) < 4:
            time.sleep(0.02)
        workers[0].send_signal(signal.SIGKILL)
        future.result(timeout=120)
    stored = zarr.open_array(tmp_path / "a.zarr")
    for start in range(0, 400, 100):
        expected = array[start : start + 100].compute(scheduler="threads")
        assert np.abs(stored[start : start + 100] - expected).max() <= 1e-4


def test_examples_of_the_documentation():
    results = doctest.testmod(syncline.dask)
    assert results.attempted > 3 and results.failed == 0
