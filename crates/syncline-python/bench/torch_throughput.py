"""Throughput of PyTorch tensors on a GPU: compression and decompression beside a copy from device to device.

    python torch_throughput.py [--bytes 500000000] [--rounds 20] [--effort fast] [--file FIELD.f32 --shape 512,512,512]

Prints medians over the rounds, in GB of the uncompressed tensor per second, between events on the device. Without a
file, the field is a sum of waves with some noise. With the package nvidia-nvcomp, its lossless codecs
compress and decompress the same tensor.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import syncline
import syncline.cuda
import torch


def seconds(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Returns two medians of the time of a call: between events on the device before and behind it, as the benches in
    Rust measure, and by the clock from an idle device to an idle device."""
    events, clock = [], []
    # Recording an event would look for the current stream between the work and the event.
    stream = torch.cuda.current_stream()
    for _ in range(rounds + 3):
        before, behind = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start = time.perf_counter()
        before.record(stream)
        work()
        behind.record(stream)
        torch.cuda.synchronize()
        clock.append(time.perf_counter() - start)
        events.append(before.elapsed_time(behind) / 1e3)
    return statistics.median(events[3:]), statistics.median(clock[3:])


def tensor_of(count: int, path: str | None) -> torch.Tensor:
    """Returns a tensor of elements of a file, repeated, or of waves."""
    if path:
        elements = torch.from_numpy(np.fromfile(path, "<f4")).cuda()
        return elements.repeat(-(-count // elements.numel()))[:count].contiguous()
    plane = 1024 * 1024
    number = torch.arange(count, device="cuda")
    z, y, x = number // plane, number // 1024 % 1024, number % 1024
    waves = torch.sin(z * 0.05) + torch.sin(y * 0.013) + torch.sin(x * 0.021)
    noise = torch.randn(count, device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    return (waves + 1e-3 * noise).float()


def nvcomp_rows(tensor: torch.Tensor, rounds: int) -> None:
    """Prints the ratio and the throughput of nvCOMP's codecs, which are lossless."""
    try:
        from nvidia import nvcomp
    except ImportError:
        print("nvCOMP: not installed")
        return
    size = tensor.numel() * tensor.element_size()
    for name in ("ANS", "Bitcomp", "LZ4", "Snappy", "Zstd"):
        try:
            codec = nvcomp.Codec(algorithm=name, bitstream_kind=nvcomp.BitstreamKind.NVCOMP_NATIVE)
            array = nvcomp.as_array(tensor.view(torch.uint8).reshape(-1))
            made = codec.encode(array)
            back = torch.from_dlpack(codec.decode(made).to_dlpack())
            assert torch.equal(back.view(torch.uint8), tensor.view(torch.uint8).reshape(-1)), name
            compress, _ = seconds(lambda: codec.encode(array), rounds)
            decompress, _ = seconds(lambda: codec.decode(made), rounds)
        except Exception as error:  # One codec that fails does not end the table.
            print(f"nvCOMP {name}: {error}")
            continue
        ratio = size / made.buffer_size
        print(f"nvCOMP {name:10} ratio {ratio:6.2f}  compress {size / compress / 1e9:7.1f} GB/s", end="")
        print(f"  decompress {size / decompress / 1e9:7.1f} GB/s")


def graph_of(tensor: torch.Tensor, room: torch.Tensor, rel: float) -> tuple[torch.cuda.CUDAGraph, object]:
    """Returns a graph that compresses a tensor, and the compressor, which has to live as long."""
    side = torch.cuda.Stream()
    queued = syncline.cuda.QueuedCompressor(tensor, rel=rel, stream=side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        queued.compress(tensor, room)
    graph.replay()
    torch.cuda.synchronize()
    expected = syncline.compress(tensor.cpu().numpy(), rel=rel, effort="fast", fill=None, device="cpu")
    same = room.cpu().numpy()[: queued.check()].tobytes() == expected
    print(f"bytes of the graph as on the CPU: {same}")
    return graph, queued


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=500_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rel", type=float, default=1e-3)
    parser.add_argument("--effort", default="fast")
    parser.add_argument("--file")
    parser.add_argument("--shape", type=lambda text: tuple(int(extent) for extent in text.split(",")))
    options = parser.parse_args()
    shape = options.shape or (max(1, options.bytes // 4 // (1 << 20)), 1024, 1024)
    tensor = tensor_of(math.prod(shape), options.file).reshape(shape)
    size = tensor.numel() * tensor.element_size()
    rel, effort = options.rel, options.effort
    device = syncline.cuda.device(torch.cuda.current_device())
    print(f"{device.name}, PyTorch {torch.__version__}, {size:,} bytes of float32 {shape}, rel={rel}, effort={effort}")

    compressor = syncline.cuda.Compressor(device.ordinal, rel=rel, effort=effort)
    room = torch.empty(syncline.compress_bound("f4", tuple(tensor.shape)), dtype=torch.uint8, device="cuda")
    stream = compressor.compress(tensor)
    out = torch.empty_like(tensor)
    decompressor = syncline.cuda.Decompressor(stream)
    syncline.decompress(stream, out=out)
    error = float((out - tensor).abs().max() / (tensor.max() - tensor.min()))
    same = stream.to_bytes() == syncline.compress(tensor.cpu().numpy(), rel=rel, effort=effort, device="cpu")
    print(f"ratio {size / len(stream):.2f}, largest relative error {error:.2e}, bytes as on the CPU: {same}")
    rows: list[tuple[str, Callable[[], object]]] = [
        ("copy from device to device", lambda: out.copy_(tensor)),
        ("Compressor.compress, out=", lambda: compressor.compress(tensor, out=room)),
        ("Compressor.compress", lambda: compressor.compress(tensor)),
        ("syncline.compress", lambda: syncline.compress(tensor, rel=rel, effort=effort)),
        ("Decompressor.decompress", lambda: decompressor.decompress(out)),
        ("Compressor.decompress, out=", lambda: compressor.decompress(stream, out=out)),
        ("syncline.decompress, out=", lambda: syncline.decompress(stream, out=out)),
        ("syncline.decompress, like=", lambda: syncline.decompress(stream, like=tensor)),
    ]
    if effort == "fast":
        graph, _queued = graph_of(tensor, room, rel)
        rows.insert(2, ("QueuedCompressor in a graph", graph.replay))
    for name, work in rows:
        events, clock = seconds(work, options.rounds)
        by_clock = f"by the clock {size / clock / 1e9:.1f}; {clock * 1e3:.3f} ms"
        print(f"{name:30} {size / events / 1e9:8.1f} GB/s  ({by_clock})")
    nvcomp_rows(tensor, options.rounds)


if __name__ == "__main__":
    main()
