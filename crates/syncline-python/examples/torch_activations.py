"""Trains a network whose activations are kept compressed on the GPU between the forward and the backward pass.

    python torch_activations.py [--rel 1e-2] [--size 256]

PyTorch keeps what layers need for their gradients. Hooks replace each large tensor by its compressed stream, with an
error of at most `rel` of its range, and decompress it when the backward pass asks for it. The program prints peak
memory, time of a step, and how much the gradients change, with and without compression.
"""

import argparse
import time
from dataclasses import dataclass

import syncline.cuda
import torch
from torch import nn

#: Smaller tensors are kept as they are.
FEWEST_ELEMENTS = 1 << 20


class CompressedActivations:
    """Hooks of `torch.autograd.graph.saved_tensors_hooks`, and what they have seen."""

    def __init__(self, rel: float) -> None:
        # It keeps its workspace from call to call.
        self.compressor = syncline.cuda.Compressor(torch.cuda.current_device(), rel=rel)
        self.bytes = self.compressed_bytes = 0

    def pack(self, tensor: torch.Tensor) -> object:
        if tensor.dtype != torch.float32 or tensor.numel() < FEWEST_ELEMENTS or not tensor.is_cuda or tensor.is_leaf:
            return tensor
        stream = self.compressor.compress(tensor.detach().contiguous())
        self.bytes += tensor.numel() * tensor.element_size()
        self.compressed_bytes += stream.nbytes
        return stream, tensor.shape, tensor.device

    def unpack(self, packed: object) -> torch.Tensor:
        if isinstance(packed, torch.Tensor):
            return packed
        stream, shape, device = packed
        tensor = torch.empty(shape, device=device)
        self.compressor.decompress(stream, out=tensor)
        return tensor


@dataclass
class Step:
    """A step of training."""

    loss: float
    gradient: torch.Tensor
    peak_bytes: int
    seconds: float
    #: Bytes of activations, and of their streams, which are not in PyTorch's memory.
    activation_bytes: int
    compressed_bytes: int


def network() -> nn.Module:
    """Returns a small convolutional network, with the same parameters each time."""
    torch.manual_seed(1)
    layers: list[nn.Module] = [nn.Conv2d(1, 16, 3, padding=1), nn.GELU()]
    for _ in range(6):
        layers += [nn.Conv2d(16, 16, 3, padding=1), nn.GELU()]
    return nn.Sequential(*layers, nn.Conv2d(16, 1, 3, padding=1)).cuda()


def images(size: int) -> torch.Tensor:
    """Returns 16 smooth images."""
    y, x = torch.meshgrid(torch.linspace(0, 6, size), torch.linspace(0, 6, size), indexing="ij")
    waves = [torch.sin(x * (1 + k / 8)) * torch.cos(y * (1 + k / 5)) for k in range(16)]
    return torch.stack(waves)[:, None].cuda()


def step(model: nn.Module, batch: torch.Tensor, rel: float | None, rounds: int = 5) -> Step:
    """Runs steps and describes the last one. `rel` is `None` without compression."""
    hooks = CompressedActivations(rel) if rel is not None else None
    for _ in range(rounds):
        model.zero_grad()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        kept = torch.cuda.memory_allocated()
        start = time.perf_counter()
        if hooks is None:
            loss = (model(batch) - batch.roll(1, -1)).square().mean()
        else:
            with torch.autograd.graph.saved_tensors_hooks(hooks.pack, hooks.unpack):
                loss = (model(batch) - batch.roll(1, -1)).square().mean()
        loss.backward()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - start
    gradient = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    sizes = (hooks.bytes // rounds, hooks.compressed_bytes // rounds) if hooks else (0, 0)
    return Step(loss.item(), gradient, torch.cuda.max_memory_allocated() - kept, seconds, *sizes)


def main(rel: float = 1e-2, size: int = 256) -> dict[str, float]:
    """Compares a step with and without compression, and returns the figures."""
    model, batch = network(), images(size)
    plain, compressed = step(model, batch, None), step(model, batch, rel)
    change = float((compressed.gradient - plain.gradient).norm() / plain.gradient.norm())
    mib = 2**20
    for name, one in (("plain", plain), ("compressed", compressed)):
        kept = f"{one.peak_bytes / mib:.0f} MiB of PyTorch's memory at most"
        print(f"{name:>10}: loss {one.loss:.6f}, {kept}, {1e3 * one.seconds:.1f} ms")
    ratio = compressed.activation_bytes / compressed.compressed_bytes
    before, after = compressed.activation_bytes / mib, compressed.compressed_bytes / mib
    print(f"{before:.0f} MiB of activations take {after:.1f} MiB with rel={rel}; the gradient changes by {change:.2%}")
    return {"ratio": ratio, "gradient_change": change, "loss_change": abs(compressed.loss - plain.loss)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rel", type=float, default=1e-2)
    parser.add_argument("--size", type=int, default=256)
    arguments = parser.parse_args()
    main(arguments.rel, arguments.size)
