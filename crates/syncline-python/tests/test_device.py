"""Arrays in device memory. `cargo xtask emulate --devices 1 -- python -m pytest -m gpu` runs this without a GPU."""

import ctypes
import gc

import ml_dtypes
import numpy as np
import pytest
import syncline
import syncline.cuda
from syncline import _device
from syncline.cuda import Compressor, Decompressor, QueuedCompressor, to_device, to_host

pytestmark = pytest.mark.gpu


def field(shape=(30, 40), dtype="f4"):
    numbers = np.arange(np.prod(shape, dtype=int))
    return (100 * np.sin(numbers * 0.03) + numbers % 7).reshape(shape).astype(dtype)


class Interface:
    """An array that has nothing but the CUDA array interface, as Numba's have."""

    def __init__(self, array, **changes):
        self.array, self.changes = array, changes

    @property
    def __cuda_array_interface__(self):
        return {**self.array.__cuda_array_interface__, **self.changes}


class Exchange(ctypes.Structure):
    """The exchange functions of DLPack in C, for :class:`Exchanged`."""

    Export = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(ctypes.c_void_p))
    View = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    Stream = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("previous", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export", Export),
        ("take", ctypes.c_void_p),
        ("view", View),
        ("stream", Stream),
    )


class Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("axes", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


class Exchanged:
    """An array whose library has the exchange functions of DLPack in C, and a current stream, as PyTorch's have."""

    current, exported = 0, {}

    def __init__(self, array):
        self.array = array
        pointer, _ = array.__cuda_array_interface__["data"]
        extents, steps = array.shape, [1]
        for extent in extents[:0:-1]:
            steps.insert(0, steps[0] * extent)
        axes = ctypes.c_int64 * len(extents)
        code, bits = (2 if array.dtype.kind == "f" else 1), 8 * array.dtype.itemsize
        self.tensor = Tensor(pointer, (2, 0), len(extents), code, bits, 1, axes(*extents), axes(*steps), 0)

    def __dlpack__(self, **_):
        raise AssertionError("Python code runs")

    __dlpack_device__ = __dlpack__

    @Exchange.Export
    def export(array, place):
        managed = ManagedTensor((1, 3), None, Exchanged.delete, 0, array.tensor)
        place[0] = ctypes.addressof(managed)
        Exchanged.exported[place[0]] = managed, array
        return 0

    @ManagedTensor.Deleter
    def delete(managed):
        del Exchanged.exported[managed]

    @Exchange.View
    def view(array, place):
        ctypes.memmove(place, ctypes.addressof(array.tensor), ctypes.sizeof(Tensor))
        return 0

    @Exchange.Stream
    def stream(_kind, _number, place):
        place[0] = Exchanged.current
        return 0

    table = Exchange((1, 3), None, None, export, None, view, stream)
    # The capsule refers to both.
    name = ctypes.c_char_p(b"dlpack_exchange_api")
    new_capsule = ctypes.pythonapi.PyCapsule_New
    new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(table), name, None)


def test_streams_are_those_of_the_cpu(gpu):
    for dtype, bound in (("f4", {"abs": 0.1}), ("f8", {"rel": 1e-3}), ("f4", {"pw_rel": 1e-2})):
        array = field(dtype=dtype)
        expected = syncline.compress(array, device="cpu", **bound)
        there = to_device(array)
        stream = syncline.compress(there, **bound)
        assert isinstance(stream, syncline.cuda.DeviceArray)
        assert (stream.dtype, stream.shape, stream.device) == (np.uint8, (len(expected),), 0)
        assert stream.to_bytes() == expected and len(stream) == stream.nbytes == len(expected)
        assert syncline.header(stream) == syncline.header(expected)
        back = syncline.decompress(stream)
        assert isinstance(back, syncline.cuda.DeviceArray) and back.shape == array.shape
        np.testing.assert_array_equal(to_host(back), syncline.decompress(expected))
        assert syncline.verify(there, stream).holds
        assert syncline.inspect(stream) == syncline.inspect(expected)


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, "u1", "i8"])
def test_lossless_streams(gpu, dtype):
    array = field(dtype=dtype)
    stream = syncline.compress(to_device(array))
    assert stream.to_bytes() == syncline.compress(array, device="cpu")
    back = syncline.decompress(stream)
    assert back.dtype == array.dtype and to_host(back).tobytes() == array.tobytes()


def test_streams_that_the_gpu_does_not_make_are_left_to_the_cpu(gpu):
    array, options = field((20, 30, 40)), {"advanced": {"coder": "lzss+huffman", "index": "none"}}
    expected = syncline.compress(array, device="cpu", **options)
    assert syncline.compress(to_device(array), **options).to_bytes() == expected
    with pytest.raises(syncline.GpuError, match="GPUs"):
        syncline.compress(to_device(array), device="cuda", **options)
    np.testing.assert_array_equal(to_host(syncline.decompress(to_device(expected))), array)


@pytest.mark.parametrize("coder", ["auto", "numbers", "lzss", "lzss+huffman"])
def test_every_coder_writes_the_streams_of_the_cpu(gpu, coder):
    array = field()
    stream = syncline.compress(to_device(array), advanced={"coder": coder}, device="cuda")
    assert stream.to_bytes() == syncline.compress(array, advanced={"coder": coder}, device="cpu")


@pytest.mark.parametrize("effort", ["fast", "balanced", "best"])
def test_efforts(gpu, effort):
    array, options = field((12, 20)), {"abs": 0.1, "effort": effort}
    expected = syncline.compress(array, device="cpu", **options)
    back = syncline.decompress(expected, device="cpu")
    np.testing.assert_array_equal(to_host(syncline.decompress(to_device(expected), device="cuda")), back)
    assert syncline.compress(to_device(array), device="cuda", **options).to_bytes() == expected
    if effort != "best":
        assert Compressor(**options).compress(to_device(array)).to_bytes() == expected


def test_work_without_a_kernel_runs_on_the_cpu(gpu):
    zeros = np.zeros((5, 6), "f4")
    stream = syncline.compress(to_device(zeros), abs=1e-3)
    assert stream.to_bytes() == syncline.compress(zeros, abs=1e-3, device="cpu")
    np.testing.assert_array_equal(to_host(syncline.decompress(stream)), zeros)
    with pytest.raises(syncline.GpuError, match="lossless"):
        syncline.compress(to_device(zeros), abs=1e-3, device="cuda")
    empty = np.zeros((0, 6), "f4")
    stream = syncline.compress(to_device(empty), abs=1e-3)
    assert stream.to_bytes() == syncline.compress(empty, abs=1e-3, device="cpu")
    assert syncline.decompress(stream).shape == (0, 6)
    assert syncline.compress(to_device(field()), abs=1e-3, device="cpu") == syncline.compress(field(), abs=1e-3)


def test_results_stay_on_the_device_of_the_input(gpu):
    array = field()
    stream = syncline.compress(array, abs=0.1)
    expected = syncline.decompress(stream)
    there, on_device = to_device(array), to_device(stream)
    for result in (
        syncline.decompress(stream, like=there),
        syncline.decompress(on_device, like=there),
        syncline.decompress(on_device),
        syncline.decompress(on_device, device="cpu"),
    ):
        assert isinstance(result, syncline.cuda.DeviceArray)
        np.testing.assert_array_equal(to_host(result), expected)
    result = syncline.decompress(on_device, like=array)
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, expected)
    assert syncline.decompress(stream, out=there) is there
    np.testing.assert_array_equal(to_host(there), expected)
    region = syncline.decompress(on_device, region=np.s_[3:5, ::-2])
    np.testing.assert_array_equal(to_host(region), expected[3:5, ::-2])
    host = np.zeros_like(array)
    assert syncline.decompress(on_device, out=host) is host
    np.testing.assert_array_equal(host, expected)
    with pytest.raises(ValueError, match="shape"):
        syncline.decompress(stream, out=to_device(field((40, 30))))
    with pytest.raises(ValueError, match="like="):
        syncline.decompress(stream, out=there, region=np.s_[::2])
    with pytest.raises(TypeError, match="one of"):
        syncline.decompress(stream, out=there, like=there)


def test_files(gpu, tmp_path):
    syncline.save(tmp_path / "a.syn", to_device(field()), abs=0.1)
    assert (tmp_path / "a.syn").read_bytes() == syncline.compress(field(), abs=0.1)


def test_the_cuda_array_interface(gpu):
    array = field()
    there = to_device(array)
    stream = syncline.compress(Interface(there, stream=1), abs=0.1, stream=2)
    assert stream.to_bytes() == syncline.compress(array, abs=0.1)
    assert np.array_equal(to_host(Interface(there, strides=(160, 4))), array)
    result = syncline.decompress(Interface(stream), out=Interface(there))
    assert isinstance(result, Interface)
    for changes, kind in (
        ({"strides": (4, 120)}, ValueError),
        ({"strides": (320, 8)}, ValueError),
        ({"typestr": ">f4"}, TypeError),
        ({"typestr": "<c8"}, TypeError),
        ({"mask": there}, ValueError),
    ):
        with pytest.raises(kind):
            syncline.compress(Interface(there, **changes), abs=0.1)
    pointer, _ = there.__cuda_array_interface__["data"]
    with pytest.raises(ValueError, match="read-only"):
        syncline.decompress(stream, out=Interface(there, data=(pointer, True)))
    with pytest.raises(AttributeError, match="DLPack"):
        to_device(np.zeros(3, ml_dtypes.bfloat16)).__cuda_array_interface__


def test_dlpack_capsules(gpu):
    there = to_device(field())
    assert there.__dlpack_device__() == (2, 0)
    for options in ({}, {"stream": 1}, {"stream": -1}, {"max_version": (1, 0)}, {"copy": False}):
        assert "dltensor" in repr(there.__dlpack__(**options))
    for options in ({"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 5)}):
        with pytest.raises(BufferError):
            there.__dlpack__(**options)
    # NumPy does not take arrays of a GPU, and says so.
    with pytest.raises((BufferError, RuntimeError, ValueError)):
        np.from_dlpack(there)


def test_memory_lives_as_long_as_its_last_user(gpu):
    array = field()
    keeper = Interface(to_device(array))
    capsule = to_device(array).__dlpack__()
    gc.collect()
    assert np.array_equal(to_host(keeper), array)
    del capsule
    gc.collect()


def test_a_compressor_keeps_working(gpu):
    compressor = Compressor(abs=0.1)
    room = to_device(np.zeros(syncline.compress_bound("f4", (30, 40)), "u1"))
    other = to_device(syncline.compress(field((9, 8), "f8"), abs=0.1))
    for scale in (1, 2):
        array = field() * np.float32(scale)
        expected = syncline.compress(array, abs=0.1)
        assert compressor.compress(to_device(array)).to_bytes() == expected
        made = compressor.compress(to_device(array), out=room)
        assert made.to_bytes() == expected
        # The second call finds the workspace of the first, and the other stream that of both.
        for data in (made, made, other):
            np.testing.assert_array_equal(to_host(compressor.decompress(data)), syncline.decompress(data.to_bytes()))
    with pytest.raises(ValueError):
        compressor.compress(to_device(array), out=to_device(np.zeros(16, "u1")))
    with pytest.raises(TypeError, match="CUDA"):
        compressor.compress(to_device(array), out=np.zeros(9000, "u1"))
    with pytest.raises(TypeError, match="CUDA"):
        compressor.compress(array)
    with pytest.raises(TypeError, match="CUDA"):
        compressor.compress("no array")
    with pytest.raises(ValueError, match="coder"):
        Compressor(abs=0.1, advanced={"coder": "no"})
    with pytest.raises(syncline.GpuError):
        Compressor(99)


def test_a_decompressor_keeps_working(gpu):
    array = field()
    stream = syncline.compress(array, abs=0.1)
    decompressor = Decompressor(stream)
    assert decompressor.header == syncline.header(stream)
    out = to_device(np.zeros_like(array))
    for _ in range(2):
        decompressor.decompress(out)
        decompressor.check()
        np.testing.assert_array_equal(to_host(out), syncline.decompress(stream))
    with pytest.raises(ValueError, match="shape"):
        decompressor.decompress(to_device(field((3, 3))))
    with pytest.raises(syncline.GpuError):
        Decompressor(syncline.compress(array, advanced={"coder": "lzss"}))


def driver_library():
    """Returns the library of the driver, or of the emulator, which has the first name only."""
    for name in ("libcuda.so", "libcuda.so.1", "nvcuda"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    pytest.skip("the driver's library has another name")


class CapturedStream:
    """A CUDA stream of the driver's library that is captured in the body of a ``with`` statement."""

    THREAD_LOCAL = 1

    def __init__(self):
        self.library = driver_library()
        self.handle = ctypes.c_void_p()
        # Non-blocking.
        self.call("cuStreamCreate", ctypes.byref(self.handle), 1)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, (name, status)

    def __cuda_stream__(self):
        return (0, self.handle.value)

    def __enter__(self):
        self.call("cuStreamBeginCapture_v2", self.handle, self.THREAD_LOCAL)
        return self

    def __exit__(self, *_):
        graph = ctypes.c_void_p()
        # Fails if something has ended the capture.
        self.call("cuStreamEndCapture", self.handle, ctypes.byref(graph))
        self.call("cuGraphDestroy", graph)


def test_capture_of_what_waits_is_refused(gpu):
    there, compressor = to_device(field()), Compressor(abs=0.1)
    made = compressor.compress(there)
    stream = CapturedStream()
    decompressor = Decompressor(made, stream=stream)
    calls = [
        lambda: syncline.compress(there, abs=0.1, stream=stream),
        lambda: compressor.compress(there, stream=stream),
        lambda: compressor.decompress(made, stream=stream),
        lambda: syncline.decompress(made, stream=stream),
        lambda: Decompressor(made, stream=stream),
        lambda: decompressor.check(),
    ]
    with stream:
        for call in calls:
            with pytest.raises(syncline.GpuError, match="captures the stream"):
                call()
        decompressor.decompress(there)
    assert compressor.compress(to_device(field()), stream=stream).to_bytes() == made.to_bytes()


class Graph(CapturedStream):
    """A graph of what a ``with`` statement queues on a stream."""

    def __exit__(self, *_):
        graph = ctypes.c_void_p()
        self.call("cuStreamEndCapture", self.handle, ctypes.byref(graph))
        self.executable = ctypes.c_void_p()
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(self.executable), graph, ctypes.c_uint64(0))
        self.call("cuGraphDestroy", graph)

    def launch(self):
        self.call("cuGraphLaunch", self.executable, self.handle)


def test_graphs_capture_compression(gpu):
    fields = [field(), 3 * field(), field()[::-1].copy()]
    there, size = to_device(fields[0]), to_device(np.zeros(1, "i8"))
    room = to_device(np.zeros(syncline.compress_bound("f4", (30, 40)), "u1"))
    graph = Graph()
    compressor = QueuedCompressor(there, rel=1e-3, stream=graph)
    assert (compressor.dtype, compressor.shape, compressor.device) == ("f32", (30, 40), 0)
    with graph:
        compressor.compress(there, room, size)
        with pytest.raises(syncline.GpuError, match="captures the stream"):
            compressor.check()
        with pytest.raises(syncline.GpuError, match="captures the stream"):
            QueuedCompressor(there, rel=1e-3, stream=graph)
    for array in fields:
        expected = syncline.compress(array, rel=1e-3, fill=None)
        source, length = ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)
        graph.call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer_of(there)), source, length)
        graph.launch()
        assert compressor.check() == len(expected) == to_host(size)[0]
        assert to_host(room)[: len(expected)].tobytes() == expected
    holes = np.where(field() > 50, np.nan, field()).astype("f4")
    for array in (holes, field()):
        compressor.compress(to_device(array), room, size)
        expected = syncline.compress(array, rel=1e-3, fill=None)
        assert compressor.check() == len(expected) == to_host(size)[0]
    compressor.compress(to_device(np.full((30, 40), 3.0, "f4")), room, size)
    with pytest.raises(syncline.GpuError, match="lossless"):
        compressor.check()
    assert to_host(size)[0] == 0
    with_holes = QueuedCompressor(to_device(holes), rel=1e-3, fill=[-1.0])
    for array in (holes, field()):
        with_holes.compress(to_device(array), room)
        expected = syncline.compress(array, rel=1e-3, fill=[-1.0])
        assert to_host(room)[: with_holes.check()].tobytes() == expected


def pointer_of(array):
    return array.__cuda_array_interface__["data"][0]


def test_unqueueable_options_raise(gpu):
    there, room = to_device(field()), to_device(np.zeros(9000, "u1"))
    for options in ({"rel": 1e-3, "fill": "auto"}, {"bound": syncline.Bound("psnr", 60)}, {}):
        with pytest.raises(syncline.GpuError):
            QueuedCompressor(there, **options)
    with pytest.raises(TypeError, match="CUDA"):
        QueuedCompressor(field(), rel=1e-3)
    with pytest.raises(ValueError, match="bound"):
        QueuedCompressor(there, abs=-1.0)
    compressor = QueuedCompressor(there, abs=0.1)
    with pytest.raises(ValueError, match="made for"):
        compressor.compress(to_device(field((40, 30))), room)
    with pytest.raises(ValueError, match="int64"):
        compressor.compress(there, room, to_device(np.zeros(1, "i4")))
    with pytest.raises(ValueError, match="int64"):
        compressor.compress(there, room, to_device(np.zeros(2, "u8")))
    with pytest.raises(TypeError, match="CUDA"):
        compressor.compress(there, np.zeros(9000, "u1"))
    compressor.compress(there, to_device(np.zeros(256, "u1")))
    with pytest.raises(ValueError, match="256"):
        compressor.check()


def test_exchange_functions_name_the_stream(gpu, monkeypatch):
    array, compressor = field(), Compressor(abs=0.1)
    there = Exchanged(to_device(array))
    room = Exchanged(to_device(np.zeros(syncline.compress_bound("f4", array.shape), "u1")))
    expected = syncline.compress(array, abs=0.1)
    made = compressor.compress(there, out=room)
    assert made.to_bytes() == expected
    np.testing.assert_array_equal(to_host(compressor.decompress(made)), syncline.decompress(expected))
    assert len(Exchanged.exported) == 1, "the result shares the memory of the output"
    del made
    assert not Exchanged.exported
    stream = CapturedStream()
    monkeypatch.setattr(Exchanged, "current", stream.handle.value)
    assert _device.stream_number(None, there, 0) == stream.handle.value
    assert _device.stream_number(7, there, 0) == 7
    assert _device.stream_number(None, there, 1) is None, "the stream is one of another GPU"
    with stream, pytest.raises(syncline.GpuError, match="captures the stream"):
        compressor.compress(there, out=room)
    assert not Exchanged.exported
    assert compressor.compress(there, out=room).to_bytes() == expected


def test_damaged_streams_raise(gpu):
    stream = syncline.compress(field(), abs=0.1)
    for at in range(0, len(stream), len(stream) // 12):
        damaged = bytearray(stream)
        damaged[at] ^= 0x41
        with pytest.raises((syncline.SynclineError, MemoryError)):
            syncline.decompress(to_device(damaged))
    for length in (0, 1, 50, len(stream) // 2, len(stream) - 1):
        with pytest.raises(syncline.SynclineError):
            syncline.decompress(to_device(stream[:length]))


def test_streams_of_other_libraries():
    class Pair:
        def __cuda_stream__(self):
            return (0, 77)

    class Torch:
        cuda_stream = 78

    class Pointer:
        ptr = 0

    array = np.zeros(1)
    for stream, number in ((5, 5), (Pair(), 77), (Torch(), 78), (Pointer(), 0), (None, None)):
        assert _device.stream_number(stream, array, 0) == number
    with pytest.raises(TypeError, match="CUDA stream"):
        _device.stream_number("no", array, 0)
