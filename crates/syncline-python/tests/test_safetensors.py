"""Checkpoints in safetensors files."""

import json

import numpy as np
import pytest
import syncline
import syncline.safetensors


def model():
    rng = np.random.default_rng(0)
    return {
        "weight": rng.normal(size=(96, 64)).astype("f4"),
        "bias": rng.normal(size=64).astype("f4"),
        "double": rng.normal(size=(30, 20)),
        "half": rng.normal(size=(40, 30)).astype("f2"),
        "steps": np.array(123, "i8"),
        "mask": rng.random((7, 9)) < 0.5,
        "phase": (rng.normal(size=(5, 6)) + 1j).astype("c8"),
        "empty": np.zeros((0, 3), "f4"),
        "big.endian": rng.normal(size=(20, 10)).astype(">f4"),
        "turned": rng.normal(size=(20, 10)).astype("f4").T,
    }


def raw_file(path, tensors, metadata=None):
    """Writes a safetensors file by the text of its format."""
    names = {"float32": "F32", "float64": "F64", "float16": "F16", "int64": "I64", "bool": "BOOL", "complex64": "C64"}
    entries, data = {"__metadata__": metadata or {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        elements = np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).tobytes()
        offsets = [len(data), len(data) + len(elements)]
        kind = names[tensor.dtype.name]
        entries[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": offsets}
        data += elements
    head = json.dumps(entries).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def check(found, tensors, rel):
    assert list(found) == list(tensors)
    for name, tensor in tensors.items():
        assert found[name].shape == tensor.shape and found[name].dtype == tensor.dtype.newbyteorder("<"), name
        if rel and tensor.dtype.kind == "f" and tensor.ndim > 1 and tensor.size:
            error = np.abs(found[name].astype("f8") - tensor).max()
            assert 0 < error <= rel * np.ptp(tensor.astype("f8")), name
        else:
            assert (found[name] == tensor).all(), name


@pytest.mark.parametrize("rel", [None, 1e-3])
def test_tensors_come_back_by_their_names(tmp_path, rel):
    tensors = model()
    syncline.safetensors.save(tmp_path / "saved", tensors, rel=rel)
    check(syncline.safetensors.load(tmp_path / "saved"), tensors, rel)
    raw_file(tmp_path / "raw", tensors, {"format": "pt", "more": "of it"})
    syncline.safetensors.convert(tmp_path / "raw", tmp_path / "converted", rel=rel)
    check(syncline.safetensors.load(tmp_path / "converted"), tensors, rel)
    # The same streams, whatever they come from.
    first, second = ((tmp_path / name).read_bytes() for name in ("saved", "converted"))
    assert first[-8_000:] == second[-8_000:] and b"of it" in second[:3000]
    part = syncline.safetensors.load(tmp_path / "saved", names=["steps", "mask"])
    assert list(part) == ["steps", "mask"] and part["steps"] == 123


def test_bounds_by_name_overrule(tmp_path):
    tensors = model()
    bounds = {"bias": syncline.Bound("abs", 0.1), "weight": syncline.Bound()}
    syncline.safetensors.save(tmp_path / "x", tensors, rel=1e-2, per_tensor=bounds)
    found = syncline.safetensors.load(tmp_path / "x")
    assert (found["weight"] == tensors["weight"]).all()
    assert 0 < np.abs(found["bias"] - tensors["bias"]).max() <= 0.1
    for name, text in (("wieght", "there is no tensor 'wieght'"), ("steps", "steps can have no error bound")):
        with pytest.raises(ValueError, match=text):
            syncline.safetensors.save(tmp_path / "y", tensors, per_tensor={name: syncline.Bound("abs", 0.1)})
    assert not (tmp_path / "y").exists()
    with pytest.raises(TypeError, match="times has the type datetime64"):
        syncline.safetensors.save(tmp_path / "y", {"times": np.zeros(3, "M8[s]")})


def test_the_file_is_one_of_the_safetensors_format(tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    tensors = {"a": np.arange(12, dtype="f4").reshape(3, 4), "b": np.ones((2, 2), "i2")}
    syncline.safetensors.save(tmp_path / "x", tensors, metadata={"format": "np"})
    streams = safetensors.load_file(tmp_path / "x")
    for name, tensor in tensors.items():
        assert (syncline.decompress(streams[name]) == tensor).all()
    safetensors.save_file(tensors, tmp_path / "raw")
    syncline.safetensors.convert(tmp_path / "raw", tmp_path / "y")
    assert (syncline.safetensors.load(tmp_path / "y")["a"] == tensors["a"]).all()


def test_pytorch_loads_a_state(tmp_path):
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(30, 40), torch.nn.BatchNorm1d(40)).to(torch.bfloat16)
    state = network.state_dict()
    syncline.safetensors.save(tmp_path / "x", state)
    found = syncline.safetensors.load(tmp_path / "x", "torch")
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name
    network.load_state_dict(found)


@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2", "bfloat16"])
def test_types_of_machine_learning_come_back_bit_for_bit(tmp_path, kind):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    size = 2 if kind == "bfloat16" else 1
    bits = np.random.default_rng(1).integers(0, 256, (50, 40 * size), dtype="u1")
    tensor = bits.view(getattr(ml_dtypes, kind))
    # Floats of 8 bits are lossless whatever the bound.
    bound = {} if kind == "bfloat16" else {"rel": 1e-2}
    syncline.safetensors.save(tmp_path / "x", {"w": tensor}, **bound)
    found = syncline.safetensors.load(tmp_path / "x")["w"]
    assert found.dtype == tensor.dtype and (found.view("u1") == bits).all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_floats_of_16_bits_have_bounds(tmp_path, kind):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else np.float16
    weights = np.random.default_rng(3).normal(size=(70, 80)).astype(dtype)
    syncline.safetensors.save(tmp_path / "x", {"w": weights}, abs=0.05)
    syncline.safetensors.save(tmp_path / "y", {"w": weights})
    found = syncline.safetensors.load(tmp_path / "x")["w"]
    assert found.dtype == weights.dtype
    assert 0 < np.abs(found.astype("f8") - weights.astype("f8")).max() <= 0.05
    assert (tmp_path / "x").stat().st_size < 0.7 * (tmp_path / "y").stat().st_size


def test_floats_of_8_bits_are_stored_as_bytes():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    array = np.random.default_rng(2).normal(size=(30, 40)).astype(ml_dtypes.float8_e4m3fn)
    stream = syncline.compress(array)
    assert stream == syncline.compress(array.view("u1"))
    assert (syncline.decompress(stream).view(array.dtype).view("u1") == array.view("u1")).all()
    like = syncline.decompress(stream, like=array)
    assert like.dtype == array.dtype and (like.view("u1") == array.view("u1")).all()
    out = np.zeros_like(array)
    assert syncline.decompress(stream, out=out) is out and (out.view("u1") == array.view("u1")).all()
    assert syncline.verify(array, stream).holds
    with pytest.raises(TypeError, match="float8_e4m3fn is compressed losslessly, as uint8"):
        syncline.compress(array, abs=1)


def test_damaged_files_are_errors(tmp_path):
    tensors = {"a": np.arange(3000, dtype="f4").reshape(50, 60), "b": np.ones(5, "f4")}
    path = tmp_path / "x"
    syncline.safetensors.save(path, tensors)
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    rng = np.random.default_rng(3)
    damaged = [whole[:end] for end in (0, 5, 8, 8 + length // 2, len(whole) - 3)]
    damaged.append((1 << 60).to_bytes(8, "little") + whole[8:])
    damaged.append(whole[:8] + b"[]" + b" " * (length - 2) + whole[8 + length :])
    for at in rng.integers(0, len(whole), 300):
        damaged.append(whole[:at] + bytes([whole[at] ^ (1 << rng.integers(8))]) + whole[at + 1 :])
    for bytes_ in damaged:
        path.write_bytes(bytes_)
        try:
            found = syncline.safetensors.load(path)
        except (syncline.SynclineError, ValueError):
            continue
        # What is not noticed is in a name alone, or in the metadata that other programs wrote.
        assert all((found[name] == tensors[name]).all() for name in found.keys() & tensors.keys())
    path.write_bytes(whole)
    with pytest.raises(syncline.CorruptError, match="compressed already"):
        syncline.safetensors.convert(path, tmp_path / "y")
    raw_file(tmp_path / "raw", tensors)
    with pytest.raises(syncline.CorruptError, match="no tensors of Syncline"):
        syncline.safetensors.load(tmp_path / "raw")
    with pytest.raises(ValueError, match="framework"):
        syncline.safetensors.load(path, "pt")
