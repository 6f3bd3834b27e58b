"""Small calls, and calls that the system denies threads or memory."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import syncline

linux = pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")


def run(code):
    """Runs code in a new process and returns what it prints."""
    code = "import os, resource, sys, threading\nimport numpy as np, syncline\n" + textwrap.dedent(code)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, (result.returncode, result.stdout[-500:], result.stderr[-2000:])
    return result.stdout


@linux
def test_small_arrays_start_no_threads():
    count = """
        def threads():
            return len(os.listdir("/proc/self/task"))

        before = threads()
        for size in (10, 1000, 100_000):
            array = np.cumsum(np.ones(size, "f4"))
            for bound in ({"abs": 0.1}, {"rel": 0.1}, {"psnr": 40.0}, {"pw_rel": 0.1}, {}):
                assert syncline.decompress(syncline.compress(array, **bound)).size == size
                assert syncline.decompress(syncline.compress(array, **bound), region=np.s_[2:5]).size == 3
        print(threads() - before)
    """
    assert run(count) == "0\n"


@linux
def test_small_arrays_touch_no_new_memory():
    faults = """
        array = np.cumsum(np.random.default_rng(0).normal(size=10_000)).astype("f4")

        def calls(count):
            for _ in range(count):
                syncline.decompress(syncline.compress(array, abs=0.1))

        calls(20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        calls(100)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    # Hundreds for each call where memory is allocated anew.
    assert int(run(faults)) < 1000


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "u2", "u1"])
def test_small_arrays_of_changing_sizes_come_back(dtype):
    generator = np.random.default_rng(0)
    for size in [*range(0, 40), 1023, 1025, 8000, 17_000, 5]:
        shape = [(size,), (size // 7, 7), (size // 21, 3, 7)][size % 3]
        array = np.cumsum(generator.normal(size=shape) * 100).reshape(shape).astype(dtype)
        np.testing.assert_array_equal(syncline.decompress(syncline.compress(array)), array)
        if dtype in ("f4", "f8"):
            back = syncline.decompress(syncline.compress(array, abs=0.5))
            assert size == 0 or np.abs(back - array).max(initial=0) <= 0.5


@linux
def test_calls_without_new_threads_are_done_by_the_caller():
    output = run(
        """
        array = np.sin(np.arange(1_100_000, dtype="f4") / 300).reshape(1100, 1000)
        # The limit does not hold for the superuser.
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            threading.Thread(target=print).start()
            print("threads can be started")
        except RuntimeError:
            pass
        streams = [
            syncline.compress(array, abs=1e-3, threads=threads, effort="fast", advanced={"index": index})
            for threads, index in ((0, "symbol"), (3, "symbol"), (2, "none"))
        ]
        assert streams[0] == streams[1]
        for stream in streams:
            for threads in (0, 3):
                assert np.abs(syncline.decompress(stream, threads=threads) - array).max() <= 1e-3
        assert syncline.verify(array, streams[0]).holds
        assert syncline.estimate(array, rel=1e-3).ratio > 1
        syncline.inspect(streams[0])
        print("done")
        """
    )
    if "threads can be started" in output:
        pytest.skip("the system does not limit threads")
    assert output == "done\n"


@linux
def test_missing_memory_is_a_memory_error():
    output = run(
        """
        array = np.frombuffer(np.random.default_rng(0).bytes(48 << 20), "u1")
        stream = syncline.compress(array, advanced={"coder": "numbers"})
        ended = []
        compress = lambda: syncline.compress(array, advanced={"coder": "numbers"})
        for work in (compress, lambda: syncline.decompress(stream)):
            for mebibytes in (2, 16, 40, 200, 400):
                child = os.fork()
                if child == 0:
                    pages = int(open("/proc/self/statm").read().split()[0])
                    limit = pages * resource.getpagesize() + (mebibytes << 20)
                    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
                    try:
                        work()
                        os._exit(0)
                    except MemoryError:
                        os._exit(3)
                    except BaseException as error:
                        print(repr(error), flush=True)
                        os._exit(4)
                ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(ended)
        """
    )
    ended = [int(code) for code in output.strip("[]\n").split(",")]
    assert set(ended) == {0, 3}, output
