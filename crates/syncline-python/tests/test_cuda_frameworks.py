"""Arrays of PyTorch, CuPy, and JAX on a real GPU. Skipped without one.

On a machine without Rust: ``pip install syncline-*.whl pytest``, then ``python -m pytest test_cuda_frameworks.py``.
"""

import gc
import os
import runpy
from pathlib import Path

import numpy as np
import pytest
import syncline
import syncline.cuda

pytestmark = [
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(os.environ.get("CUDA_EMULATOR_DEVICES") is not None, reason="libraries need a real GPU"),
]

EXAMPLES = Path(__file__).parents[1] / "examples"
SHAPE = (64, 300, 200)
#: Clock cycles that delay work on a stream, so that work that does not wait for it shows.
DELAY = 200_000_000


def field(dtype="f4", shape=SHAPE):
    axes = np.ogrid[tuple(slice(0, extent) for extent in shape)]
    waves = sum(np.sin(axis * (0.05 + 0.02 * number)) for number, axis in enumerate(axes))
    return (100 * waves + 0.3).astype(dtype)


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    return torch


@pytest.fixture
def cupy():
    cupy = pytest.importorskip("cupy")
    try:
        if cupy.cuda.runtime.getDeviceCount() == 0:
            pytest.skip("CuPy has no GPU")
    except cupy.cuda.runtime.CUDARuntimeError as error:
        pytest.skip(f"CuPy has no GPU: {error}")
    return cupy


@pytest.fixture
def jax():
    # JAX would take three quarters of the memory, which other libraries in this process need, too.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU")
    return jax


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("bound", [{"abs": 0.01}, {"rel": 1e-4}, {"pw_rel": 1e-3}])
def test_torch_streams_are_those_of_the_cpu(torch, dtype, bound):
    array = field(dtype)
    tensor = torch.from_numpy(array).cuda()
    expected = syncline.compress(array, device="cpu", **bound)
    stream = syncline.compress(tensor, **bound)
    assert stream.to_bytes() == expected
    back = syncline.decompress(stream, like=tensor)
    assert isinstance(back, torch.Tensor) and back.is_cuda and back.dtype == tensor.dtype
    decoded = syncline.decompress(expected, device="cpu")
    np.testing.assert_array_equal(back.cpu().numpy(), decoded)
    out = torch.empty_like(tensor)
    assert syncline.decompress(stream, out=out) is out
    np.testing.assert_array_equal(out.cpu().numpy(), decoded)
    np.testing.assert_array_equal(syncline.decompress(expected, like=tensor).cpu().numpy(), decoded)
    assert syncline.verify(tensor, stream).holds


@pytest.mark.parametrize("name", ["float16", "bfloat16", "uint8", "int32", "int64", "float32"])
def test_torch_lossless_types(torch, name):
    tensor = (torch.arange(30_000, device="cuda") % 200).to(getattr(torch, name)).reshape(100, 300)
    stream = syncline.compress(tensor)
    back = syncline.decompress(stream, like=tensor)
    assert back.dtype == tensor.dtype and torch.equal(back, tensor)
    assert stream.to_bytes() == syncline.compress(tensor.cpu(), device="cpu")


def test_torch_arrays_that_are_refused(torch):
    tensor = torch.from_numpy(field()).cuda()
    with pytest.raises(ValueError, match="contiguous"):
        syncline.compress(tensor.transpose(0, 1), abs=0.01)
    with pytest.raises(ValueError, match="contiguous"):
        syncline.compress(tensor[:, ::2], abs=0.01)
    with pytest.raises(TypeError, match="element type"):
        syncline.compress(tensor.to(torch.complex64))
    part = tensor.reshape(-1)[1:]
    assert syncline.compress(part, abs=0.01).to_bytes() == syncline.compress(field().reshape(-1)[1:], abs=0.01)
    with pytest.raises(ValueError, match="gradient"):
        syncline.decompress(syncline.compress(tensor, abs=0.01), out=tensor.clone().requires_grad_())


def test_torch_results_are_shared_without_a_copy(torch):
    tensor = torch.from_numpy(field()).cuda()
    stream = syncline.compress(tensor, abs=0.01)
    shared = torch.from_dlpack(stream)
    assert shared.data_ptr() == stream.__cuda_array_interface__["data"][0]
    assert shared.dtype == torch.uint8 and shared.numel() == len(stream)
    expected = stream.to_bytes()
    del stream
    gc.collect()
    torch.cuda.synchronize()
    assert shared.cpu().numpy().tobytes() == expected
    # A stream can be kept as a tensor, and decompressed.
    np.testing.assert_array_equal(
        syncline.decompress(shared.clone(), like=tensor).cpu().numpy(), syncline.decompress(expected, device="cpu")
    )


def test_torch_stream_order(torch):
    """The work waits for what is queued on the caller's stream, and the caller need not wait for it."""
    array = field()
    expected = syncline.compress(array, abs=0.01, device="cpu")
    decoded = syncline.decompress(expected, device="cpu")
    source = torch.from_numpy(array).cuda()
    for explicit in (False, True):
        tensor = torch.zeros_like(source)
        out = torch.empty_like(source)
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.cuda._sleep(DELAY)
            tensor.copy_(source)
            if not explicit:
                stream = syncline.compress(tensor, abs=0.01)
                syncline.decompress(stream, out=out)
        if explicit:
            stream = syncline.compress(tensor, abs=0.01, stream=side)
            syncline.decompress(stream, out=out, stream=side)
        with torch.cuda.stream(side):
            total = (out - source).abs().max()
        assert float(total) <= 0.011
        assert stream.to_bytes() == expected
        np.testing.assert_array_equal(out.cpu().numpy(), decoded)


@pytest.mark.parametrize("default_mode", [True, False])
def test_torch_graphs_capture_decompression(torch, default_mode):
    array = field()
    expected = syncline.compress(array, abs=0.01, device="cpu")
    decoded = syncline.decompress(expected, device="cpu")
    compressed = torch.frombuffer(bytearray(expected), dtype=torch.uint8).cuda()
    out = torch.zeros(SHAPE, device="cuda")
    doubled = torch.zeros(SHAPE, device="cuda")
    side = torch.cuda.Stream()
    decompressor = syncline.cuda.Decompressor(compressed, stream=side)
    decompressor.decompress(out)
    decompressor.check()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    mode = "global" if default_mode else "thread_local"
    with torch.cuda.graph(graph, stream=side, capture_error_mode=mode):
        decompressor.decompress(out)
        torch.mul(out, 2, out=doubled)
    for _ in range(3):
        out.zero_()
        doubled.zero_()
        graph.replay()
        torch.cuda.synchronize()
        decompressor.check()
        np.testing.assert_array_equal(out.cpu().numpy(), decoded)
        np.testing.assert_array_equal(doubled.cpu().numpy(), 2 * decoded)


@pytest.mark.parametrize("default_mode", [True, False])
def test_torch_graphs_capture_compression(torch, default_mode):
    arrays = [field(), 2 * field(), field()[::-1].copy()]
    tensor = torch.from_numpy(arrays[0]).cuda()
    out = torch.zeros(syncline.compress_bound("f4", SHAPE), dtype=torch.uint8, device="cuda")
    size = torch.zeros(1, dtype=torch.int64, device="cuda")
    side = torch.cuda.Stream()
    compressor = syncline.cuda.QueuedCompressor(tensor, rel=1e-3, stream=side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    mode = "global" if default_mode else "thread_local"
    with torch.cuda.graph(graph, stream=side, capture_error_mode=mode):
        doubled = tensor * 2
        compressor.compress(doubled, out, size)
    for array in arrays:
        tensor.copy_(torch.from_numpy(array))
        graph.replay()
        torch.cuda.synchronize()
        expected = syncline.compress(2 * array, rel=1e-3, fill=None, device="cpu")
        assert compressor.check() == size.item() == len(expected)
        assert out.cpu().numpy()[: len(expected)].tobytes() == expected


def test_torch_loses_no_memory(torch):
    tensor = torch.from_numpy(field()).cuda()
    compressor = syncline.cuda.Compressor(abs=0.01)
    room = torch.empty(syncline.compress_bound("f4", SHAPE), dtype=torch.uint8, device="cuda")

    def round():
        stream = syncline.compress(tensor, abs=0.01)
        back = syncline.decompress(stream, like=tensor)
        made = compressor.compress(tensor, out=room)
        decompressor = syncline.cuda.Decompressor(torch.from_dlpack(made))
        decompressor.decompress(back)
        decompressor.check()
        side = torch.cuda.Stream()
        syncline.decompress(made, out=back, stream=side)
        torch.cuda.synchronize()

    # The driver's memory pool, which serves both what codecs keep and what calls free, grows in the first rounds.
    for _ in range(23):
        round()
    gc.collect()
    torch.cuda.empty_cache()
    before, _ = torch.cuda.mem_get_info()
    for _ in range(20):
        round()
    gc.collect()
    torch.cuda.empty_cache()
    after, _ = torch.cuda.mem_get_info()
    assert before - after < 8 << 20, (before, after)


def test_torch_work_in_many_threads(torch):
    import threading

    tensor = torch.from_numpy(field()).cuda()
    expected = syncline.compress(field(), abs=0.01, device="cpu")
    compressor = syncline.cuda.Compressor(abs=0.01)
    results = []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            results.append(compressor.compress(tensor).to_bytes())
            results.append(syncline.compress(tensor, abs=0.01).to_bytes())

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 12


def test_cupy(cupy):
    array = field()
    expected = syncline.compress(array, rel=1e-4, device="cpu")
    decoded = syncline.decompress(expected, device="cpu")
    there = cupy.asarray(array)
    stream = syncline.compress(there, rel=1e-4)
    assert stream.to_bytes() == expected
    back = syncline.decompress(stream, like=there)
    assert isinstance(back, cupy.ndarray)
    np.testing.assert_array_equal(back.get(), decoded)
    out = cupy.empty_like(there)
    assert syncline.decompress(stream, out=out) is out
    np.testing.assert_array_equal(out.get(), decoded)
    for shared in (cupy.asarray(stream), cupy.from_dlpack(stream)):
        assert shared.data.ptr == stream.__cuda_array_interface__["data"][0]
        np.testing.assert_array_equal(syncline.decompress(shared, like=there).get(), decoded)
    with pytest.raises(ValueError, match="contiguous"):
        syncline.compress(cupy.asfortranarray(there), rel=1e-4)


def test_cupy_stream_order(cupy):
    array = field()
    expected = syncline.compress(array, abs=0.01, device="cpu")
    source, tensor = cupy.asarray(array), cupy.zeros(SHAPE, "f4")
    spin = cupy.RawKernel(
        'extern "C" __global__ void spin(long long n) { long long s = clock64(); while (clock64() - s < n); }', "spin"
    )
    spin((1,), (1,), (np.int64(1),))
    cupy.cuda.Device().synchronize()
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        spin((1,), (1,), (np.int64(DELAY),))
        cupy.copyto(tensor, source)
        stream = syncline.compress(tensor, abs=0.01)
    assert stream.to_bytes() == expected


def test_cupy_graphs_capture_decompression(cupy):
    array = field()
    expected = syncline.compress(array, abs=0.01, device="cpu")
    compressed = cupy.frombuffer(expected, "u1")
    out = cupy.zeros(SHAPE, "f4")
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        decompressor = syncline.cuda.Decompressor(compressed)
        decompressor.decompress(out)
        decompressor.check()
        side.begin_capture()
        decompressor.decompress(out)
        graph = side.end_capture()
        for _ in range(2):
            out.fill(0)
            graph.launch(side)
            side.synchronize()
            np.testing.assert_array_equal(out.get(), syncline.decompress(expected, device="cpu"))


def test_cupy_graphs_capture_compression(cupy):
    arrays = [field(), 2 * field()]
    there = cupy.asarray(arrays[0])
    out = cupy.zeros(syncline.compress_bound("f4", SHAPE), "u1")
    side = cupy.cuda.Stream(non_blocking=True)
    with side:
        compressor = syncline.cuda.QueuedCompressor(there, abs=0.01)
        side.begin_capture()
        compressor.compress(there, out)
        graph = side.end_capture()
        for array in arrays:
            there.set(array)
            graph.launch(side)
            expected = syncline.compress(array, abs=0.01, fill=None, device="cpu")
            assert out[: compressor.check()].get().tobytes() == expected


def test_jax(jax):
    array = field()
    expected = syncline.compress(array, abs=0.01, device="cpu")
    decoded = syncline.decompress(expected, device="cpu")
    there = jax.numpy.asarray(array) * 1
    stream = syncline.compress(there, abs=0.01)
    assert stream.to_bytes() == expected
    back = syncline.decompress(stream, like=there)
    assert isinstance(back, jax.Array) and back.devices() == there.devices()
    np.testing.assert_array_equal(np.asarray(back), decoded)
    # JAX has queued the work that makes its array, and Syncline waits for it.
    busy = jax.jit(lambda x: jax.lax.fori_loop(0, 200, lambda _, y: y * 1.0, x))(there)
    assert syncline.compress(busy, abs=0.01).to_bytes() == expected
    shared = jax.dlpack.from_dlpack(stream)
    np.testing.assert_array_equal(np.asarray(syncline.decompress(shared, like=there)), decoded)


def test_jax_bfloat16(jax):
    there = jax.numpy.arange(3000, dtype="float32").astype("bfloat16")
    back = syncline.decompress(syncline.compress(there), like=there)
    assert back.dtype == there.dtype and bool((back == there).all())


def test_numba():
    cuda = pytest.importorskip("numba.cuda")
    if not cuda.is_available():
        pytest.skip("Numba has no GPU")
    array = field()
    there = cuda.to_device(array)
    stream = syncline.compress(there, abs=0.01)
    assert stream.to_bytes() == syncline.compress(array, abs=0.01, device="cpu")
    back = cuda.as_cuda_array(syncline.decompress(stream, like=there))
    np.testing.assert_array_equal(back.copy_to_host(), syncline.decompress(stream.to_bytes(), device="cpu"))


@pytest.mark.parametrize("how", ["chunks", "shards", "lossless"])
def test_zarr_arrays_of_cupy(cupy, tmp_path, how):
    zarr = pytest.importorskip("zarr")
    zarr_codec = pytest.importorskip("syncline.zarr")
    array = field()
    bound = {} if how == "lossless" else {"abs": 0.01}
    grid = {"chunks": (16, 150, 200)} | ({"shards": (32, 300, 200)} if how == "shards" else {})
    with zarr.config.enable_gpu():
        stored = zarr.create_array(
            tmp_path / "a.zarr", shape=SHAPE, dtype="f4", **grid, **zarr_codec.encoding(**bound)
        )
        stored[...] = cupy.asarray(array)
        back = stored[...]
        assert isinstance(back, cupy.ndarray)
        assert float(abs(back - cupy.asarray(array)).max()) <= bound.get("abs", 0)
        for part in (np.s_[3:40:7, 100:, 5], np.s_[20], np.s_[..., -3:]):
            np.testing.assert_array_equal(stored[part].get(), back[part].get())
        np.testing.assert_array_equal(stored.oindex[[1, 50], :, [3, 9]].get(), back.get()[[1, 50]][..., [3, 9]])
        # A part of a larger array is not contiguous.
        stored[:16] = cupy.asarray(np.ascontiguousarray(array.T)).T[:16]
    host = zarr.open_array(tmp_path / "a.zarr")
    np.testing.assert_array_equal(host[...], back.get())
    if how == "chunks":
        same = zarr.create_array(tmp_path / "b.zarr", shape=SHAPE, dtype="f4", **grid, **zarr_codec.encoding(**bound))
        same[...] = array
        chunks = [file for file in (tmp_path / "b.zarr/c").rglob("*") if file.is_file()]
        assert len(chunks) == 8
        for chunk in chunks:
            assert (tmp_path / "a.zarr" / chunk.relative_to(tmp_path / "b.zarr")).read_bytes() == chunk.read_bytes()


def test_libraries_in_one_process(torch, cupy):
    """A stream that one library holds is decompressed into memory of another."""
    tensor = torch.from_numpy(field()).cuda()
    stream = cupy.from_dlpack(syncline.compress(tensor, abs=0.01))
    out = torch.empty_like(tensor)
    syncline.decompress(stream, out=out)
    assert float((out - tensor).abs().max()) <= 0.011


def test_activations_stay_compressed(torch):
    figures = runpy.run_path(str(EXAMPLES / "torch_activations.py"))["main"](rel=1e-2, size=128)
    assert figures["ratio"] > 2
    # The forward pass does not change; its activations have errors when the backward pass uses them.
    assert figures["loss_change"] == 0 and figures["gradient_change"] < 0.2
