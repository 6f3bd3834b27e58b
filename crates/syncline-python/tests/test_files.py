"""Files: how they appear, file objects, and what a writer takes."""

import io
import mmap
import os
import pickle
import stat
import sys
import threading
import time

import numpy as np
import pytest
import syncline

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links are those of POSIX")


def field(shape=(50, 60), dtype="f4"):
    numbers = np.arange(np.prod(shape, dtype=int))
    return (100 * np.sin(numbers * 0.003) + numbers % 7).reshape(shape).astype(dtype)


def test_saves_to_one_name_at_once_leave_whole_files(tmp_path):
    path = tmp_path / "a.syn"
    arrays = [np.random.default_rng(seed).normal(size=(100, 100 + 50 * seed)) for seed in range(4)]
    syncline.save(path, arrays[0])
    errors, stop = [], threading.Event()

    def work(action):
        while not stop.is_set():
            try:
                action()
            except (OSError, syncline.SynclineError) as error:
                errors.append(error)

    actions = [lambda array=array: syncline.save(path, array, abs=1e-3) for array in arrays]
    threads = [threading.Thread(target=work, args=(action,)) for action in [*actions, lambda: syncline.load(path)]]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == [] and os.listdir(tmp_path) == ["a.syn"]
    assert syncline.load(path).shape in [array.shape for array in arrays]


@posix
@pytest.mark.parametrize("door", ["save", "Writer"])
def test_files_follow_no_planted_link_and_keep_their_mode(door, tmp_path):
    array = field()

    def write(path):
        if door == "save":
            syncline.save(path, array, abs=1e-3)
        else:
            with syncline.Writer(path, array.shape, "f4", abs=1e-3) as writer:
                writer.append(array)

    path, victim = tmp_path / "a.syn", tmp_path / "victim"
    victim.write_bytes(b"precious")
    planted = tmp_path / f"a.syn.{os.getpid()}.partial"
    planted.symlink_to(victim)
    write(path)
    assert victim.read_bytes() == b"precious" and planted.is_symlink()
    path.chmod(0o640)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    link = tmp_path / "link.syn"
    link.symlink_to(path)
    before = path.stat().st_ino
    write(link)
    assert link.is_symlink() and path.stat().st_ino != before
    assert syncline.verify(array, path.read_bytes()).holds
    with pytest.raises(OSError, match="pipe or a device"):
        write("/dev/null")
    assert sorted(os.listdir(tmp_path)) == sorted(["a.syn", "link.syn", "victim", planted.name])


def test_operating_system_errors_have_a_number_and_a_name(tmp_path):
    array = field()
    for action, path in (
        (syncline.open, tmp_path / "none.syn"),
        (syncline.load, tmp_path / "none.syn"),
        (lambda path: syncline.save(path, array), tmp_path / "none" / "a.syn"),
        (lambda path: syncline.Writer(path, (3, 4), "f4"), tmp_path / "none" / "a.syn"),
    ):
        with pytest.raises(FileNotFoundError) as error:
            action(path)
        assert error.value.errno == 2 and "os error" not in str(error.value)
    with pytest.raises(FileNotFoundError) as error:
        syncline.open(tmp_path / "none.syn")
    assert error.value.filename == str(tmp_path / "none.syn")
    with pytest.raises(IsADirectoryError):
        syncline.open(tmp_path)[0]


def test_file_closes(tmp_path):
    path, array = tmp_path / "a.syn", field()
    syncline.save(path, array)
    with syncline.open(path) as file:
        assert not file.closed and np.array_equal(file[3], array[3])
        again = pickle.loads(pickle.dumps(file))
    assert file.closed and "closed" in repr(file) and file.shape == array.shape
    with pytest.raises(ValueError, match="closed"):
        file[3]
    file.close()
    assert np.array_equal(again[3], array[3])
    again.close()


def test_file_objects(tmp_path):
    array = field((200, 300, 40))
    target = io.BytesIO()
    syncline.save(target, array, abs=1e-3)
    stream = target.getvalue()
    assert stream == syncline.compress(array, abs=1e-3)
    back = syncline.decompress(stream)
    with syncline.open(target) as file:
        assert np.array_equal(file[7, ::3], back[7, ::3]) and np.array_equal(file[...], back)
        assert file.header.compressed_bytes == len(stream)
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(file)
    assert not target.closed, "the object is the caller's"
    target.seek(0)
    assert np.array_equal(syncline.load(target), back)
    (tmp_path / "a.syn").write_bytes(stream)
    with open(tmp_path / "a.syn", "rb") as opened:
        file = syncline.open(opened)
        results = []
        def compare(z):
            results.append(np.array_equal(file[z], back[z]))

        threads = [threading.Thread(target=compare, args=(z,)) for z in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 8
    with pytest.raises(ValueError, match="closed file"):
        file[0]
    with open(tmp_path / "a.syn", encoding="latin-1") as text, pytest.raises(TypeError, match="binary"):
        syncline.open(text)
    with pytest.raises(syncline.NotSynclineError):
        syncline.open(io.BytesIO(b"PK" * 200))
    with pytest.raises(syncline.SynclineError):
        syncline.open(io.BytesIO(stream[:-5]))


def test_fsspec_files():
    fsspec = pytest.importorskip("fsspec")
    array = field()
    with fsspec.open("memory://a.syn", "wb") as file:
        syncline.save(file, array)
    with fsspec.open("memory://a.syn", "rb") as file:
        np.testing.assert_array_equal(syncline.open(file)[5:9], array[5:9])


def test_streams_in_any_buffer(tmp_path):
    array = field()
    stream = syncline.compress(array)
    path = tmp_path / "a.syn"
    path.write_bytes(stream)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        buffers = [stream, bytearray(stream), memoryview(stream), np.frombuffer(stream, "u1"), np.void(stream), mapped]
        for buffer in buffers:
            np.testing.assert_array_equal(syncline.decompress(buffer), array)
            np.testing.assert_array_equal(syncline.decompress(buffer, region=np.s_[3]), array[3])
            assert syncline.header(buffer).shape == array.shape
            assert syncline.verify(array, buffer).holds and syncline.inspect(buffer)["tiles"] == 4


def test_streams_in_tensors():
    torch = pytest.importorskip("torch")
    array = field()
    tensor = torch.frombuffer(bytearray(syncline.compress(array)), dtype=torch.uint8)
    np.testing.assert_array_equal(syncline.decompress(tensor), array)
    assert syncline.header(tensor).shape == array.shape and syncline.verify(array, tensor).holds


@pytest.mark.parametrize(
    ("dtype", "values", "error"),
    [
        ("u1", 300, TypeError),
        ("u2", -1, TypeError),
        ("i4", 1.7, TypeError),
        ("i1", 300, ValueError),
        ("u1", np.uint16(300), ValueError),
        ("f4", 1e300, ValueError),
        ("f4", 0.1, ValueError),
        ("f4", 1j, TypeError),
    ],
)
def test_writer_refuses_casts_that_change_elements(dtype, values, error, tmp_path):
    path = tmp_path / "a.syn"
    with pytest.raises(error, match="astype"), syncline.Writer(path, (1, 4), dtype) as writer:
        writer.append(np.full((1, 4), values))
    assert os.listdir(tmp_path) == []


def test_writer_keeps_the_bound_of_what_was_appended(tmp_path):
    path = tmp_path / "a.syn"
    values = np.random.default_rng(0).normal(1e6, 1, (3, 50))
    with syncline.Writer(path, values.shape, "f4", abs=1e-9) as writer:
        with pytest.raises(ValueError, match="50 of 50 elements change"):
            writer.append(values[0])
        for row in values:
            writer.append(row.astype("f4"))
    assert np.array_equal(syncline.load(path), values.astype("f4"))
    exact = np.array([[0.5, np.nan, -0.0, np.inf]])
    with syncline.Writer(path, (2, 4), "f4", abs=1e-9) as writer:
        writer.append(exact)
        writer.append(np.array([[1, 2, 3, 4]], "i2"))
    assert syncline.load(path).tobytes() == np.concatenate([exact, [[1, 2, 3, 4]]]).astype("f4").tobytes()


def test_rewritable_arrays_keep_the_bound_over_partial_writes(tmp_path):
    generator = np.random.default_rng(0)
    array = np.cumsum(generator.normal(size=(40, 50)), 1).astype("f4")
    for bound in ({"abs": 1e-2}, {"pw_rel": 1e-2}):
        stream = syncline.compress(array, rewritable=True, **bound)
        expected = array.copy()
        for _ in range(20):
            row = generator.integers(40)
            back = syncline.decompress(stream)
            back[row] = expected[row] = 3 * generator.normal(size=50)
            stream = syncline.compress(back, rewritable=True, **bound)
        errors = np.abs(syncline.decompress(stream).astype("f8") - expected)
        assert (errors <= (1e-2 if "abs" in bound else 1e-2 * np.abs(expected.astype("f8")))).all()
    stream = syncline.compress(array, abs=1e-2, rewritable=True)
    assert syncline.compress(syncline.decompress(stream), abs=1e-2, rewritable=True)[:48] == stream[:48]
    syncline.save(tmp_path / "a.syn", array, abs=1e-2, rewritable=True)
    assert (tmp_path / "a.syn").read_bytes() == stream
    assert syncline.estimate(array, abs=1e-2, rewritable=True).compressed_bytes == len(stream)
    with syncline.Writer(tmp_path / "b.syn", array.shape, "f4", abs=1e-2, rewritable=True) as writer:
        writer.append(array)
    assert syncline.verify(array, (tmp_path / "b.syn").read_bytes()).holds
    back = syncline.load(tmp_path / "b.syn")
    with syncline.Writer(tmp_path / "c.syn", array.shape, "f4", abs=1e-2, rewritable=True) as writer:
        writer.append(back)
    assert np.array_equal(syncline.load(tmp_path / "c.syn"), back)


def test_streams_that_change_while_they_are_decompressed_are_errors_or_the_array():
    array = np.random.default_rng(5).integers(0, 40, 200_000).astype("u2")
    original = syncline.compress(array, advanced={"coder": "lzss"})
    stream = bytearray(original)
    stop = threading.Event()

    def change():
        at = len(stream) // 2
        while not stop.is_set():
            stream[at : at + 64] = bytes(64)
            stream[at : at + 64] = original[at : at + 64]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            try:
                assert np.array_equal(syncline.decompress(stream), array)
            except syncline.SynclineError:
                pass
    finally:
        stop.set()
        thread.join()
    assert np.array_equal(syncline.decompress(stream), array)
