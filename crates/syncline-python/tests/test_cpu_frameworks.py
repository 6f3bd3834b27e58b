"""Arrays of PyTorch and JAX in host memory."""

import numpy as np
import pytest
import syncline


def waves(shape=(100, 120)):
    return np.sin(np.arange(np.prod(shape), dtype="f4").reshape(shape) / 50)


def test_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(waves())
    stream = syncline.compress(tensor, abs=1e-3)
    assert isinstance(stream, bytes) and stream == syncline.compress(waves(), abs=1e-3)
    back = syncline.decompress(stream, like=tensor)
    assert isinstance(back, torch.Tensor) and float((back - tensor).abs().max()) <= 1e-3
    out = torch.zeros_like(tensor)
    assert syncline.decompress(stream, out=out) is out and torch.equal(out, back)
    part = syncline.decompress(stream, like=tensor, region=np.s_[3, ::-2])
    assert torch.equal(part, back[3].flip(0)[::2])
    assert syncline.verify(tensor, stream).holds
    assert syncline.compress(tensor.t(), abs=1e-3) == syncline.compress(waves().T, abs=1e-3)
    with pytest.raises(RuntimeError, match="detach"):
        syncline.compress(tensor.clone().requires_grad_(), abs=1e-3)


def test_torch_bfloat16():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(waves()).to(torch.bfloat16)
    stream = syncline.compress(tensor)
    back = syncline.decompress(stream, like=tensor)
    assert back.dtype == torch.bfloat16 and torch.equal(back, tensor)
    out = torch.empty_like(tensor)
    syncline.decompress(stream, out=out)
    assert torch.equal(out, tensor)


def test_jax():
    jax = pytest.importorskip("jax")
    array = jax.device_put(waves(), jax.devices("cpu")[0])
    stream = syncline.compress(array, abs=1e-3)
    assert isinstance(stream, bytes) and stream == syncline.compress(waves(), abs=1e-3)
    back = syncline.decompress(stream, like=array)
    assert isinstance(back, jax.Array) and float(abs(back - array).max()) <= 1e-3
    with pytest.raises(ValueError, match="read-only"):
        syncline.decompress(stream, out=array)
    short = array.astype("bfloat16")
    again = syncline.decompress(syncline.compress(short), like=short)
    assert again.dtype == short.dtype and bool((again == short).all())
