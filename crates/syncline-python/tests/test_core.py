"""Arrays to streams and back, in memory and in files."""

import doctest
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest
import syncline
import syncline._array
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = ["f2", "f4", "f8", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", ml_dtypes.bfloat16]


def field(shape, dtype="f4"):
    """Returns a smooth field with some noise."""
    numbers = np.arange(np.prod(shape, dtype=int))
    return (100 * np.sin(numbers * 0.003) + numbers % 7).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (5000,), (70, 90), (20, 30, 40), (3, 5, 20, 30), (4, 0, 3)])
def test_every_type_and_rank_comes_back(dtype, shape):
    array = field(shape, dtype)
    back = syncline.decompress(syncline.compress(array))
    assert back.dtype == array.dtype and back.shape == shape
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [">f4", ">i8", ">u2", "<f8"])
def test_byte_orders(dtype):
    array = field((30, 40), dtype)
    back = syncline.decompress(syncline.compress(array))
    np.testing.assert_array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("<")


def test_strides():
    array = field((40, 50, 60))
    for view in (
        array.T,
        array[::2, ::-1, 5:],
        np.asfortranarray(array),
        array[:, 3],
        np.broadcast_to(array[0], (4, 50, 60)),
    ):
        np.testing.assert_array_equal(syncline.decompress(syncline.compress(view)), view)
    assert syncline.compress(np.asfortranarray(array), abs=0.1) == syncline.compress(array, abs=0.1)


@pytest.mark.parametrize("index", [None, np.s_[3:, ::-2], np.s_[5], np.s_[..., 7]])
def test_fortran_order(index):
    array = np.asfortranarray(field((13, 20, 30)))
    stream = syncline.compress(array, abs=1e-3)
    expected = syncline.decompress(stream)[... if index is None else index]
    out = np.full(expected.shape, np.nan, "f4", order="F")
    assert syncline.decompress(stream, region=index, out=out) is out and out.flags.f_contiguous
    np.testing.assert_array_equal(out, expected)
    # The transpose of an array in Fortran order is in C order.
    back = syncline.decompress(syncline.compress(array.T, abs=1e-3)).T
    assert back.flags.f_contiguous and np.abs(back - array).max() <= 1e-3


@pytest.mark.parametrize("bound", [{"abs": 0.01}, {"rel": 1e-4}, {"pw_rel": 1e-3}, {"psnr": 60.0}])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bounds_hold(bound, dtype):
    array = field((60, 70), dtype)
    array[3, 4], array[5, 6] = np.nan, np.inf
    stream = syncline.compress(array, **bound)
    quality = syncline.verify(array, stream)
    assert quality.holds and quality.mismatches == 0
    header = syncline.header(stream)
    assert header.bound == syncline.Bound.of(**bound)
    assert header.shape == array.shape and header.dtype == array.dtype and header.ratio > 1
    assert np.isnan(header.fills).any() and header == syncline.header(stream)
    if "abs" in bound:
        assert quality.max_abs <= bound["abs"]
    if "psnr" in bound:
        assert quality.psnr >= bound["psnr"]


def test_a_fill_value_is_kept():
    array = field((50, 50))
    array[::7] = -9999
    back = syncline.decompress(syncline.compress(array, rel=1e-3, fill=-9999.0))
    assert (back[::7] == -9999).all()
    rest = np.delete(array, np.s_[::7], 0)
    assert np.abs(np.delete(back, np.s_[::7], 0) - rest).max() <= 1e-3 * (rest.max() - rest.min())


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_several_fill_values_are_kept(dtype, tmp_path):
    array = field((60, 50), dtype)
    fills = [-9999.25, 1e20, -1e30, 7e7]
    for number, fill in enumerate(fills):
        array[number::9] = fill
    array[8, :9] = np.nan
    valid = ~np.isin(array, np.asarray(fills, dtype)) & np.isfinite(array)
    bound = 1e-3 * np.ptp(array[valid])
    for given in (fills, tuple(fills), np.array(fills), [*fills, np.nan]):
        stream = syncline.compress(array, rel=1e-3, fill=given)
        assert set(np.asarray(fills[:3], dtype)) <= set(syncline.header(stream).fills)
        back = syncline.decompress(stream)
        np.testing.assert_array_equal(back[~valid], array[~valid])
        assert np.abs(back[valid] - array[valid]).max() <= bound
    syncline.save(tmp_path / "saved.syn", array, rel=1e-3, fill=fills)
    assert (tmp_path / "saved.syn").read_bytes() == stream
    assert syncline.estimate(array, rel=1e-3, fill=fills).compressed_bytes == len(stream)
    assert np.isclose(syncline.resolve(array, rel=1e-3, fill=fills).value, bound)
    with syncline.Writer(tmp_path / "parts.syn", array.shape, dtype, abs=bound, fill=fills) as writer:
        writer.append(array)
    written = syncline.open(tmp_path / "parts.syn")
    np.testing.assert_array_equal(written[...][~valid], array[~valid])
    assert np.abs(written[...][valid] - array[valid]).max() <= bound
    assert set(np.asarray(fills[:3], dtype)) <= set(written.header.fills)
    with pytest.raises(ValueError, match="at most 4"):
        syncline.compress(array, rel=1e-3, fill=[*fills, 1])


def test_estimates_of_large_arrays_leave_fill_values_out():
    array = field((1200, 1000))
    array[::3], array[1::3] = -9999, 1e20
    stream = syncline.compress(array, rel=1e-3, fill=[-9999, 1e20])
    estimate = syncline.estimate(array, rel=1e-3, fill=[-9999, 1e20], sample=1 << 17)
    assert 0.9 < estimate.compressed_bytes / len(stream) < 1.1


def test_one_bound_only():
    with pytest.raises(TypeError, match="one error bound"):
        syncline.compress(field((9,)), abs=1, rel=1)
    with pytest.raises(TypeError, match="one error bound"):
        syncline.compress(field((9,)), abs=1, lossless=True)
    assert syncline.header(syncline.compress(field((9,)), lossless=True)).bound == syncline.Bound()
    with pytest.raises(TypeError, match="once"):
        syncline.compress(field((9,)), abs=1, bound=syncline.Bound("rel", 1))
    with pytest.raises(ValueError):
        syncline.compress(field((9,)), abs=-1)
    with pytest.raises(ValueError, match="counts"):
        syncline.compress(np.arange(9, dtype="u1"), pw_rel=0.1)
    with pytest.raises(ValueError, match="unknown error bound"):
        syncline.Bound("max", 1)


def test_types_that_have_no_stream():
    for array in (np.array(["a"]), np.array([object()]), np.zeros(3, "V3")):
        with pytest.raises(TypeError, match="element type"):
            syncline.compress(array)


@pytest.mark.parametrize(
    "options",
    [
        {"advanced": {"coder": "numbers"}},
        {"advanced": {"coder": "lzss", "symbol": 4}},
        {"advanced": {"coder": "lzss+huffman", "level": 9}},
        {"effort": "fast"},
        {"effort": "best"},
        {"threads": 1},
        {"threads": 3},
        {"advanced": {"index": "none"}},
        {"device": "cpu"},
        {"memory_limit": 1 << 28},
    ],
)
def test_options(options):
    array = field((100, 100), "i4")
    np.testing.assert_array_equal(syncline.decompress(syncline.compress(array, **options)), array)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bound", [{"abs": 1e-3}, {"rel": 1e-4}, {"pw_rel": 1e-3}])
def test_more_effort_makes_smaller_streams(bound, dtype, tmp_path):
    z, y, x = np.ogrid[:40, :50, :60]
    array = (5 + np.sin(z / 9) + np.sin(y / 8) * np.cos(x / 7)).astype(dtype)
    sizes = []
    for effort in (None, "fast", "balanced", "best"):
        stream = syncline.compress(array, effort=effort, **bound)
        assert syncline.verify(array, stream).holds
        region = np.s_[3:20, ::-7, 5]
        np.testing.assert_array_equal(
            syncline.decompress(stream, region=region), syncline.decompress(stream)[region]
        )
        syncline.save(tmp_path / "saved.syn", array, effort=effort, **bound)
        assert (tmp_path / "saved.syn").read_bytes() == stream
        assert syncline.estimate(array, effort=effort, **bound).compressed_bytes == len(stream)
        if "rel" not in bound:
            with syncline.Writer(tmp_path / "parts.syn", array.shape, dtype, effort=effort, **bound) as writer:
                for part in array:
                    writer.append(part)
            written = (tmp_path / "parts.syn").read_bytes()
            assert syncline.verify(array, written).holds
        sizes.append(len(stream))
    assert sizes[1] >= sizes[2] == sizes[0] >= sizes[3], sizes


def test_sizes_of_tiles(tmp_path):
    z, y, x = np.ogrid[:40, :50, :60]
    array = (np.sin(z / 19) + np.sin(y / 18) * np.cos(x / 17)).astype("f4")
    sizes = []
    for effort, tile in (("fast", "small"), ("balanced", "block")):
        stream = syncline.compress(array, abs=1e-3, effort=effort)
        assert syncline.verify(array, stream).holds
        assert syncline.inspect(stream)["tile_size"] == tile
        region = np.s_[3:20, ::-7, 5]
        np.testing.assert_array_equal(
            syncline.decompress(stream, region=region), syncline.decompress(stream)[region]
        )
        assert syncline.estimate(array, abs=1e-3, effort=effort).compressed_bytes == len(stream)
        syncline.save(tmp_path / "saved.syn", array, abs=1e-3, effort=effort)
        assert (tmp_path / "saved.syn").read_bytes() == stream
        sizes.append(len(stream))
    assert sizes[0] > sizes[1], sizes


def test_wrong_options():
    for options in (
        {"advanced": {"coder": "zip"}},
        {"advanced": {"level": 10}},
        {"advanced": {"size": 4}},
        {"effort": "slow"},
        {"advanced": {"tile": "small"}},
        {"abs": 1, "advanced": {"symbol": 3}},
        {"advanced": {"index": "all"}},
        {"device": "tpu"},
        {"fill": "nan"},
        {"fill": ["nothing"]},
        {"fill": {}},
    ):
        with pytest.raises(ValueError):
            syncline.compress(field((9,)), **options)
    with pytest.raises(MemoryError):
        syncline.compress(field((1000, 1000)), memory_limit=1000)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_basic_index(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 40), min_size=0, max_size=4)))
    array = field(shape, "i2")
    index = data.draw(basic_indices(shape))
    stream = syncline.compress(array)
    expected = array[index]
    result = syncline.decompress(stream, region=index)
    assert result.shape == np.shape(expected)
    np.testing.assert_array_equal(result, expected)


def basic_indices(shape):
    """Returns indices of integers, slices with any step, and an ellipsis."""
    axes = [
        st.one_of(
            st.integers(-extent, extent - 1) if extent else st.just(slice(None)),
            st.slices(extent),
        )
        for extent in shape
    ]
    whole = st.tuples(*axes)
    cut = st.integers(0, len(shape))
    return st.builds(
        lambda items, at, short: (*items[:at], ..., *items[at + short :]), whole, cut, st.just(0)
    ) | st.builds(lambda items, count: items[:count], whole, cut)


def test_indices_that_are_refused():
    stream = syncline.compress(field((5, 6)))
    for index in (5, np.s_[0, 6], np.s_[-6], np.s_[0, 0, 0], np.s_[..., ...], [1, 2], np.array([True] * 5), None, 1.5):
        if index is None:
            continue
        with pytest.raises(IndexError):
            syncline.decompress(stream, region=index)
    with pytest.raises(IndexError, match="newaxis"):
        syncline.decompress(stream, region=np.s_[None, 0])


def test_out():
    array = field((30, 40))
    stream = syncline.compress(array)
    out = np.empty_like(array)
    assert syncline.decompress(stream, out=out) is out
    np.testing.assert_array_equal(out, array)
    strided = np.zeros((60, 80), "f4")[::2, ::2]
    syncline.decompress(stream, out=strided)
    np.testing.assert_array_equal(strided, array)
    part = np.empty((2, 40), "f4")
    syncline.decompress(stream, region=np.s_[4:0:-3], out=part)
    np.testing.assert_array_equal(part, array[4:0:-3])
    swapped = np.empty((30, 40), ">f4")
    with pytest.raises(ValueError, match="type"):
        syncline.decompress(stream, out=swapped)
    with pytest.raises(ValueError, match="shape"):
        syncline.decompress(stream, out=np.empty((40, 30), "f4"))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        syncline.decompress(stream, out=out)


def test_streams_in_any_buffer():
    array = field((30, 40))
    stream = syncline.compress(array)
    for buffer in (bytearray(stream), memoryview(stream), np.frombuffer(stream, "u1")):
        np.testing.assert_array_equal(syncline.decompress(buffer), array)
    with pytest.raises(ValueError, match="contiguous"):
        syncline.decompress(np.frombuffer(stream, "u1")[::2])


def test_files(tmp_path):
    array = field((50, 60, 70))
    path = tmp_path / "field.syn"
    syncline.save(path, array, abs=1e-2)
    assert os.listdir(tmp_path) == ["field.syn"]
    file = syncline.open(path)
    assert (file.shape, file.dtype, file.ndim, len(file), file.size) == ((50, 60, 70), "<f4", 3, 50, array.size)
    assert file.nbytes == array.nbytes and file.ratio == array.nbytes / path.stat().st_size
    assert file.bound == syncline.Bound("abs", 0.01)
    assert np.abs(file[3:5, ..., ::-9] - array[3:5, ..., ::-9]).max() <= 0.01
    assert np.abs(np.asarray(file) - array).max() <= 0.01
    assert isinstance(file[1, 2, 3], np.float32)
    again = pickle.loads(pickle.dumps(file))
    np.testing.assert_array_equal(again[7], file[7])
    np.testing.assert_array_equal(syncline.load(path), file[...])
    with pytest.raises(FileNotFoundError):
        syncline.open(tmp_path / "none.syn")
    with pytest.raises(FileNotFoundError):
        syncline.save(tmp_path / "none" / "x.syn", array)
    with pytest.raises(TypeError):
        syncline.save(tmp_path / "y.syn", array, abs=1, rel=1)
    assert os.listdir(tmp_path) == ["field.syn"]


def test_writer(tmp_path):
    array = field((20, 30, 40))
    path = tmp_path / "steps.syn"
    with syncline.Writer(path, array.shape, "f4", rel=1e-3, range=(array.min(), array.max())) as writer:
        writer.append(array[0])
        writer.append(array[1:5])
        assert not path.exists()
        for step in array[5:]:
            writer.append(step)
        assert writer.appended == 20
        with pytest.raises(ValueError, match="20 entries"):
            writer.append(array[0])
    assert syncline.verify(array, path.read_bytes()).holds
    assert os.listdir(tmp_path) == ["steps.syn"]
    with pytest.raises(ValueError):
        with syncline.Writer(tmp_path / "b.syn", (3, 4), "f4") as writer:
            writer.append(np.zeros(4))
    with pytest.raises(ZeroDivisionError):
        with syncline.Writer(tmp_path / "c.syn", (3, 4), "f4") as writer:
            1 / 0
    with pytest.raises(ValueError, match="continue"):
        with syncline.Writer(tmp_path / "d.syn", (3, 4), "f4") as writer:
            writer.append(np.zeros(5))
    assert os.listdir(tmp_path) == ["steps.syn"]


def test_inspect():
    array = field((64, 64))
    stream = syncline.compress(array, abs=0.1, effort="fast")
    parts = syncline.inspect(stream)
    assert parts["tiles"] == 4 and parts["compressed_bytes"] == len(stream) and parts["mode"] == "abs"
    assert len(stream) <= syncline.compress_bound("f4", array.shape)


def test_errors_have_their_types():
    stream = bytearray(syncline.compress(field((500, 500)), abs=0.1))
    with pytest.raises(syncline.NotSynclineError):
        syncline.decompress(b"PK\3\4" + bytes(500))
    with pytest.raises(syncline.NotSynclineError):
        syncline.header(b"")
    with pytest.raises((syncline.TruncatedError, syncline.CorruptError)):
        syncline.decompress(stream[:-9])
    stream[len(stream) // 2] ^= 1
    with pytest.raises(syncline.CorruptError) as error:
        syncline.decompress(stream)
    assert isinstance(error.value, ValueError) and isinstance(error.value, syncline.SynclineError)
    again = pickle.loads(pickle.dumps(error.value))
    assert type(again) is syncline.CorruptError and str(again) == str(error.value)
    for kind in (syncline.GpuError, syncline.TruncatedError, syncline.UnsupportedVersionError):
        assert type(pickle.loads(pickle.dumps(kind("x")))) is kind
    assert issubclass(syncline.GpuError, RuntimeError)


def test_progress():
    calls = []
    array = field((2000, 2000))
    stream = syncline.compress(array, abs=1e-3, threads=1, progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (array.size, array.size) and calls == sorted(calls)

    class Stop(Exception):
        pass

    def stop(done, total):
        raise Stop

    with pytest.raises(Stop):
        syncline.compress(field((4000, 4000)), abs=1e-6, threads=1, progress=stop)
    with pytest.raises(Stop):
        syncline.decompress(stream, progress=stop)


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_an_interrupt_stops_the_work():
    code = (
        # The parent may have been started with the signal ignored, which children inherit.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "import numpy, syncline, sys; a = numpy.random.default_rng(0).random((6000, 6000));"
        "print('go', flush=True); [syncline.compress(a, abs=1e-9, threads=1) for _ in range(50)]"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "go\n"
    time.sleep(0.3)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors and time.monotonic() - start < 10


def test_threads_run_meanwhile():
    array, ticks, stop = field((3000, 3000)), [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    syncline.compress(array, abs=1e-3, threads=1)
    end = time.monotonic()
    stop.set()
    thread.join()
    assert sum(start < tick < end for tick in ticks) >= 3


def test_many_threads_at_once():
    array = field((300, 400))
    expected = syncline.compress(array, abs=1e-3)
    results = []
    work = [threading.Thread(target=lambda: results.append(syncline.compress(array, abs=1e-3))) for _ in range(8)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert results == [expected] * 8


def _child(queue):
    queue.put(len(syncline.compress(field((1000, 1000)), abs=1e-3)))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_after_use(method):
    expected = len(syncline.compress(field((1000, 1000)), abs=1e-3))
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=_child, args=(queue,))
    process.start()
    assert queue.get(timeout=60) == expected
    process.join(60)
    assert process.exitcode == 0


def test_damaged_streams_raise():
    generator = np.random.default_rng(1)
    streams = [
        syncline.compress(field((40, 50)), abs=1e-2),
        syncline.compress(field((3000,), "i4")),
        syncline.compress(field((20, 20, 20), "f8"), pw_rel=1e-2),
        syncline.compress(np.frombuffer(b"abcdefgh" * 500, "u1"), advanced={"coder": "lzss+huffman"}),
    ]
    for round in range(10_000):
        stream = bytearray(streams[round % len(streams)])
        for _ in range(generator.integers(1, 5)):
            stream[generator.integers(len(stream))] = generator.integers(256)
        if generator.random() < 0.2:
            del stream[generator.integers(len(stream)) :]
        # A change that hits nothing that counts, or that puts the same byte back, may pass.
        for door in (syncline.decompress, syncline.header, syncline.inspect)[round % 3 :][:1]:
            try:
                door(stream)
            except (syncline.SynclineError, MemoryError):
                pass


def test_imports_need_numpy_only():
    code = (
        "import sys, syncline; print([m for m in ('zarr', 'numcodecs', 'xarray', 'dask', 'ml_dtypes', 'torch') "
        "if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_examples_of_the_documentation():
    results = doctest.testmod(syncline._array)
    assert results.attempted > 10 and results.failed == 0
