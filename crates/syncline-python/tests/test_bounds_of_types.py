"""The error bound of every element type, checked by NumPy alone, over arrays that are hard to bound."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
import syncline

INTEGERS = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"]
HALVES = [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)]
REAL = [*HALVES, np.dtype("f4"), np.dtype("f8")]
RELATIVE = [1e-2, 1e-3, 1e-4, 1e-5]
COUNTS = [0, 0.5, 1, 2.99, 16, 1000]
DECIBELS = [25.0, 70.0]
EFFORTS = ["fast", "balanced", "best"]


def integer_arrays(dtype: np.dtype) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    wave = (np.sin(np.arange(6000).reshape(60, 100) / 40) + 1) * min(high, 1 << 40) / 3
    return {
        "extremes": np.array([low, high, low + 1, high - 1, 0, 1] * 300, dtype),
        "one value": np.full((40, 50), high, dtype),
        "two values": rng.choice(np.array([low, 3], dtype), (30, 70)),
        "random": rng.integers(low, high, (13, 17, 19), dtype, endpoint=True),
        "smooth": np.clip(wave + rng.normal(size=wave.shape) * 2, low, high).astype(dtype),
        "small": rng.integers(0, 7, 5000).astype(dtype),
        "at the end": np.array(high, dtype) - rng.integers(0, 100, (50, 60)).astype(dtype),
        "steps": np.repeat(rng.integers(low, high, 40, dtype, endpoint=True), 61).reshape(61, 40),
        "ramp": np.array([low + i * max(1, min(high // 4000, 1 << 45)) & high for i in range(3000)], dtype),
        "empty": np.empty((0, 3), dtype),
        "scalar": np.array(5, dtype),
    }


def real_arrays(dtype: np.dtype) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(11)
    bits = np.dtype(f"u{dtype.itemsize}")
    any_bits = rng.integers(0, np.iinfo(bits).max, (20, 30, 11), bits, endpoint=True).view(dtype)
    info = ml_dtypes.finfo(dtype)
    step = np.array(info.smallest_subnormal, "f8")
    wave = (np.sin(np.arange(8000).reshape(80, 100) / 30) * 30).astype(dtype)
    special = wave.copy()
    special.flat[::37] = np.nan
    special.flat[1::91] = np.inf
    special.flat[2::83] = -0.0
    special.view(bits).flat[5::113] = np.iinfo(bits).max >> 1  # A NaN with every bit of its payload.
    return {
        "any bits": any_bits,
        "extremes": np.array([info.max, -info.max, 0, -0.0, info.smallest_normal] * 300, dtype),
        "subnormals": (rng.integers(-500, 500, (30, 70)) * step).astype(dtype),
        "one value": np.full(2000, 1.5, dtype),
        "two values": rng.choice(np.array([-1.25, 3.0], dtype), (40, 41)),
        "smooth": wave,
        "special": special,
        "ties": (np.arange(6000) % 512 + 0.5).astype(dtype),
        "weights": (rng.normal(size=(90, 70)) * 0.02).astype(dtype),
        "zeros": np.where(rng.random(5000) < 0.5, 0, rng.normal(size=5000)).astype(dtype),
        "noise": rng.uniform(-1, 1, (14, 15, 16)).astype(dtype),
        "steps": np.repeat(rng.normal(size=40), 61).reshape(61, 40).astype(dtype),
        "signed zeros": np.where(rng.random(3000) < 0.5, -0.0, 0.0).astype(dtype),
        "nothing finite": np.array([np.nan, np.inf, -np.inf] * 500, dtype),
        "one infinity": np.where(np.arange(2000) == 999, np.inf, wave.flat[:2000]).astype(dtype),
        "empty": np.empty((3, 0), dtype),
        "scalar": np.array(-2.5, dtype),
    }


def whole(array: np.ndarray) -> np.ndarray:
    """The exact numbers of integers."""
    return array.astype(object)


def numbers(array: np.ndarray) -> np.ndarray:
    """The numbers of floats, of any payload of NaN."""
    with np.errstate(invalid="ignore"):
        return array.astype("f4" if array.dtype.itemsize == 2 else array.dtype).astype(np.longdouble)


def signal_to_noise(original: np.ndarray, errors: np.ndarray) -> float:
    """The ratio of the peak signal to noise in decibels, or infinity without an error."""
    extent = np.longdouble(original.max()) - np.longdouble(original.min()) if original.size else 0
    mean = np.mean(errors.astype(np.longdouble) ** 2) if errors.size else 0
    return float(20 * np.log10(extent) - 10 * np.log10(mean)) if mean > 0 else np.inf


def compressed(array: np.ndarray, **options: object) -> np.ndarray:
    back = syncline.decompress(syncline.compress(array, fill=None, threads=1, **options))
    assert back.dtype == array.dtype and back.shape == array.shape
    return back


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("dtype", [*map(np.dtype, INTEGERS)], ids=str)
def test_bounds_of_integers_hold_exactly(dtype: np.dtype, effort: str) -> None:
    for name, array in integer_arrays(dtype).items():
        exact = whole(array)
        extent = int(array.max()) - int(array.min()) if array.size else 0
        cases = [({"abs": bound, "rewritable": False}, bound) for bound in COUNTS]
        cases += [({"abs": bound, "rewritable": True}, bound) for bound in (1, 16)]
        cases += [({"rel": share}, share * extent) for share in RELATIVE]
        cases += [({"psnr": decibels}, None) for decibels in DECIBELS]
        for options, limit in cases:
            back = compressed(array, **options, effort=effort)
            errors = np.abs(whole(back) - exact)
            if limit is None:
                assert signal_to_noise(exact, errors) >= options["psnr"] - 1e-9, (name, options)
            elif array.size:
                assert errors.max() <= limit, (name, options)
                assert "rel" not in options or array.min() <= back.min() <= back.max() <= array.max(), (name, options)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_bounds_of_floats_hold_for_what_is_stored(dtype: np.dtype, effort: str) -> None:
    bits = np.dtype(f"u{dtype.itemsize}")
    for name, array in real_arrays(dtype).items():
        exact = numbers(array)
        finite = np.isfinite(exact)
        minus_zero = (exact == 0) & np.signbit(exact)
        some = exact[finite] if finite.any() else np.zeros(1, np.longdouble)
        low, high = some.min(), some.max()
        kept = ~finite | minus_zero
        cases = [({"rel": share}, np.longdouble(share) * (high - low)) for share in RELATIVE]
        cases += [({"abs": bound}, np.longdouble(bound)) for bound in (1e-7, 1e-3, 0.25, 5.0)]
        cases += [({"pw_rel": share}, np.longdouble(share) * np.abs(exact[finite])) for share in (0.2, 0.02, 1e-3)]
        cases += [({"psnr": decibels}, None) for decibels in DECIBELS]
        for options, limit in cases:
            back = compressed(array, **options, effort=effort)
            errors = np.abs(numbers(back)[finite] - exact[finite])
            if limit is None:
                assert signal_to_noise(some, errors) >= options["psnr"] - 1e-9, (name, options)
            else:
                assert (errors <= limit).all(), (name, options)
            assert (back.view(bits)[kept] == array.view(bits)[kept]).all(), (name, options)
            if "pw_rel" not in options and finite.any():
                found = numbers(back)[finite]
                assert low <= found.min() and found.max() <= high, (name, options)


@pytest.mark.parametrize("dtype", [*map(np.dtype, INTEGERS), *HALVES], ids=str)
def test_streams_with_a_bound_are_shorter(dtype: np.dtype) -> None:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(200, 300))
    array = (60 + 40 * np.sin(np.arange(60_000).reshape(200, 300) / 90) + 4 * noise).astype(dtype)
    lossless = len(syncline.compress(array))
    assert len(syncline.compress(array, abs=3)) < 0.7 * lossless
    assert syncline.header(syncline.compress(array, abs=3)).abs_bound == 3


def test_bounds_of_integers_over_2_to_the_53() -> None:
    rng = np.random.default_rng(2)
    for dtype, base in (("i8", -(1 << 62)), ("u8", (1 << 64) - (1 << 40)), ("i8", 1 << 55)):
        array = (rng.integers(0, 1 << 20, (40, 50)).astype(object) + base).astype(dtype)
        errors = np.abs(whole(compressed(array, abs=100)) - whole(array))
        assert 0 < errors.max() <= 100
        # What is too far apart is exact.
        far = array.copy()
        far[3, 4] = 0 if base > 0 else np.iinfo(dtype).max
        assert (compressed(far, abs=100) == far).all()


def test_point_wise_bounds_of_integers_name_another() -> None:
    for dtype in INTEGERS:
        with pytest.raises(ValueError, match="absolute bound in counts"):
            syncline.compress(np.arange(9, dtype=dtype), pw_rel=0.1)


@pytest.mark.parametrize("dtype", [*map(np.dtype, INTEGERS), *HALVES], ids=str)
def test_fill_values_are_kept_and_nothing_becomes_one(dtype: np.dtype) -> None:
    rng = np.random.default_rng(5)
    array = rng.integers(0, 100, (50, 60)).astype(dtype)
    for fill, bound in itertools.product((7, 100), (1, 4, 30)):
        array[::3, ::7] = fill
        back = syncline.decompress(syncline.compress(array, abs=bound, fill=fill))
        assert ((back == fill) == (array == fill)).all()
        assert np.abs(back.astype("f8") - array.astype("f8")).max() <= bound


@pytest.mark.parametrize("dtype", [*map(np.dtype, INTEGERS), *HALVES], ids=str)
def test_regions_and_files_in_parts_are_those_of_the_whole(dtype: np.dtype, tmp_path: object) -> None:
    array = (60 + 50 * np.sin(np.arange(24_000).reshape(20, 30, 40) / 50)).astype(dtype)
    stream = syncline.compress(array, abs=2, threads=1)
    whole_array = syncline.decompress(stream)
    assert (syncline.decompress(stream, region=np.s_[3:9, ::2, -5]) == whole_array[3:9, ::2, -5]).all()
    path = f"{tmp_path}/parts.syn"
    with syncline.Writer(path, array.shape, dtype, abs=2) as writer:
        writer.append(array[:7])
        writer.append(array[7:])
    back = syncline.open(path)[...]
    assert back.dtype == dtype and np.abs(back.astype("f8") - array.astype("f8")).max() <= 2
    assert syncline.verify(array, stream).holds
    assert syncline.estimate(array, abs=2).compressed_bytes == len(stream)


def test_booleans_times_and_complex_numbers() -> None:
    rng = np.random.default_rng(1)
    flags = rng.random((30, 40)) < 0.3
    assert (syncline.decompress(syncline.compress(flags, abs=1)).view(bool) == flags).all()
    times = np.datetime64("2020-01-01", "s") + rng.integers(0, 10**6, 3000)
    assert (syncline.decompress(syncline.compress(times, rel=0.1)).view(times.dtype) == times).all()
    for dtype in ("c8", "c16"):
        numbers = (rng.normal(size=(30, 50)) + 1j * rng.normal(size=(30, 50))).astype(dtype)
        for array in (numbers, numbers.T, numbers[::2, ::3]):
            back = syncline.decompress(syncline.compress(array, abs=0.01))
            assert back.shape == (*array.shape, 2)
            back = back.view(dtype)[..., 0]
            assert np.abs(back.real - array.real).max() <= 0.01 and np.abs(back.imag - array.imag).max() <= 0.01
            assert syncline.verify(array, syncline.compress(array, rel=1e-3)).holds
    assert syncline.resolve(flags, rel=0.1).mode == "lossless"
    assert syncline.resolve(np.array([1 + 9j, 2 + 3j]), rel=0.5) == syncline.Bound("abs", 4.0)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "uint8", "int8", "int16", "int32", "int64"])
def test_tensors_of_pytorch_have_bounds(name: str) -> None:
    torch = pytest.importorskip("torch")
    tensor = (60 + 40 * torch.sin(torch.arange(5000) / 70)).to(getattr(torch, name))
    stream = syncline.compress(tensor, abs=2)
    back = syncline.decompress(stream, like=tensor)
    assert back.dtype == tensor.dtype and float((back.double() - tensor.double()).abs().max()) <= 2
    assert syncline.header(stream).abs_bound == 2
