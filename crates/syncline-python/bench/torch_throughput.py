"""Throughput of PyTorch tensors on a GPU: compression and decompression beside a copy from device to device.

    python torch_throughput.py [--bytes 500000000] [--rounds 21] [--effort balanced]
                               [--file FIELD.f32 --shape 512,512,512]

Prints records as CSV: times between events on the device, and by the clock from an idle device to an idle device.
Without a file, the field is a sum of waves with some noise.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import syncline
import syncline.cuda
import torch
from common import record, shape_text


def seconds(work: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Returns the times of calls: between events on the device before and behind it, as the benches in
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
    return events[3:], clock[3:]


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
    assert same, "the bytes of the graph are not the CPU's"
    return graph, queued


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=500_000_000)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--rel", default="1e-3")
    parser.add_argument("--effort", default="balanced")
    parser.add_argument("--file")
    parser.add_argument("--shape", type=lambda text: tuple(int(extent) for extent in text.split(",")))
    options = parser.parse_args()
    shape = options.shape or (max(1, options.bytes // 4 // (1 << 20)), 1024, 1024)
    tensor = tensor_of(math.prod(shape), options.file).reshape(shape)
    size = tensor.numel() * tensor.element_size()
    rel, effort = float(options.rel), options.effort
    device = syncline.cuda.device(torch.cuda.current_device())
    print(f"{device.name}, PyTorch {torch.__version__}", file=sys.stderr)

    compressor = syncline.cuda.Compressor(device.ordinal, rel=rel, effort=effort)
    room = torch.empty(syncline.compress_bound("f4", tuple(tensor.shape)), dtype=torch.uint8, device="cuda")
    stream = compressor.compress(tensor)
    out = torch.empty_like(tensor)
    decompressor = syncline.cuda.Decompressor(stream)
    syncline.decompress(stream, out=out)
    error = float((out - tensor).abs().max() / (tensor.max() - tensor.min()))
    same = stream.to_bytes() == syncline.compress(tensor.cpu().numpy(), rel=rel, effort=effort, device="cpu")
    assert same, "the bytes are not the CPU's"
    rows: list[tuple[str, Callable[[], object]]] = [
        ("copy from device to device", lambda: out.copy_(tensor)),
        ("Compressor.compress(tensor, out=...)", lambda: compressor.compress(tensor, out=room)),
        ("Compressor.compress(tensor)", lambda: compressor.compress(tensor)),
        ("syncline.compress(tensor)", lambda: syncline.compress(tensor, rel=rel, effort=effort)),
        ("Decompressor.decompress(out), as captured in graphs", lambda: decompressor.decompress(out)),
        ("Compressor.decompress(stream, out=...)", lambda: compressor.decompress(stream, out=out)),
        ("syncline.decompress(stream, out=...)", lambda: syncline.decompress(stream, out=out)),
        ("syncline.decompress(stream, like=...)", lambda: syncline.decompress(stream, like=tensor)),
    ]
    if effort == "fast":
        graph, _queued = graph_of(tensor, room, rel)
        rows.insert(2, ("QueuedCompressor.compress(tensor, out), in a CUDA graph", graph.replay))
    copy = None
    for name, work in rows:
        events, clock = seconds(work, options.rounds)
        copy = copy or size / statistics.median(events)
        for what, times in ((name, events), (f"{name}, by the clock", clock)):
            record(
                "torch_throughput",
                what,
                times,
                device=device.name,
                field=options.file or "waves",
                element="f32",
                shape=shape_text(tensor),
                bound=options.rel,
                codec="syncline",
                options=effort,
                bytes=size,
                stream_bytes=len(stream),
                error=error / rel,
                of_copy=size / statistics.median(times) / copy,
            )


if __name__ == "__main__":
    main()
