"""Throughput of PyTorch tensors on a GPU: compression and decompression beside a copy from device to device.

    python torch_throughput.py [--bytes 500000000] [--rounds 20] [--file FIELD.f32]

Prints the median over the rounds, in GB of the uncompressed tensor per second. Without a file, the field is a sum of
waves with some noise.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import syncline
import syncline.cuda
import torch


def seconds(work: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Returns the median and the smallest time of a call, each with all of its work on the device."""
    times = []
    for _ in range(rounds + 3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[3:]), min(times[3:])


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=500_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rel", type=float, default=1e-3)
    parser.add_argument("--file")
    options = parser.parse_args()
    plane = 1024 * 1024
    planes = max(1, options.bytes // 4 // plane)
    tensor = tensor_of(planes * plane, options.file).reshape(planes, 1024, 1024)
    size = tensor.numel() * tensor.element_size()
    rel = options.rel
    device = syncline.cuda.device(torch.cuda.current_device())
    print(f"{device.name}, PyTorch {torch.__version__}, {size:,} bytes of float32 {tuple(tensor.shape)}, rel={rel}")

    compressor = syncline.cuda.Compressor(device.ordinal, rel=rel)
    room = torch.empty(syncline.max_compressed_len("f4", tuple(tensor.shape)), dtype=torch.uint8, device="cuda")
    stream = compressor.compress(tensor)
    out = torch.empty_like(tensor)
    decompressor = syncline.cuda.Decompressor(stream)
    syncline.decompress(stream, out=out)
    error = float((out - tensor).abs().max() / (tensor.max() - tensor.min()))
    same = stream.to_bytes() == syncline.compress(tensor.cpu().numpy(), rel=rel, device="cpu")
    print(f"ratio {size / len(stream):.2f}, largest relative error {error:.2e}, bytes as on the CPU: {same}")
    rows: list[tuple[str, Callable[[], object]]] = [
        ("copy from device to device", lambda: out.copy_(tensor)),
        ("Compressor.compress, out=", lambda: compressor.compress(tensor, out=room)),
        ("Compressor.compress", lambda: compressor.compress(tensor)),
        ("syncline.compress", lambda: syncline.compress(tensor, rel=rel)),
        ("Decompressor.decompress", lambda: decompressor.decompress(out)),
        ("Compressor.decompress, out=", lambda: compressor.decompress(stream, out=out)),
        ("syncline.decompress, out=", lambda: syncline.decompress(stream, out=out)),
        ("syncline.decompress, like=", lambda: syncline.decompress(stream, like=tensor)),
    ]
    for name, work in rows:
        median, best = seconds(work, options.rounds)
        print(f"{name:30} {size / median / 1e9:8.1f} GB/s  (best {size / best / 1e9:.1f}; {median * 1e3:.3f} ms)")


if __name__ == "__main__":
    main()
