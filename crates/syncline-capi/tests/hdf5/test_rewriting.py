"""Chunks of which parts are written again and again keep the bound of what was written last."""

import struct

import h5py
import numpy as np
import pytest

ID = 47501
SHAPE = (24, 40)
ONCE = 1 << 8


def parameters(mode, value, choice=0):
    return (1, mode, *struct.unpack("<II", struct.pack("<d", value)), 0, 0, 0, choice)


def random_region(generator):
    """Returns a slice of each axis, with a step now and then."""
    starts = [generator.integers(0, extent) for extent in SHAPE]
    ends = [generator.integers(start + 1, extent + 1) for start, extent in zip(starts, SHAPE)]
    return tuple(slice(start, end, int(generator.integers(1, 4))) for start, end in zip(starts, ends))


def random_values(generator, shape):
    """Returns values of many sizes, which are smooth, noisy, or constant."""
    level = generator.choice([0, 1, -300]) + generator.normal() * generator.choice([0.01, 1, 50])
    slope = np.add.outer(*(np.linspace(0, generator.normal(), extent) for extent in shape))
    noise = generator.normal(size=shape) * generator.choice([0, 1e-3, 1])
    return level + slope + noise


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("dtype", ["f4", ">f8"])
@pytest.mark.parametrize("mode, value, effort", [(1, 1e-2, 0), (1, 1e-2, 1), (4, 1e-3, 0)])
def test_any_number_of_partial_writes_keeps_the_bound(tmp_path, is_reopened, dtype, mode, value, effort):
    generator = np.random.default_rng(1000 * mode + effort)
    path = tmp_path / "a.h5"
    options = {"compression": ID, "compression_opts": parameters(mode, value, effort)}
    wanted = np.zeros(SHAPE, dtype)
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=wanted, chunks=SHAPE, **options)
    # Without a cache, HDF5 reads and writes the chunk each time that a part of it is written.
    file = h5py.File(path, "a", rdcc_nbytes=0)
    for _ in range(60 if is_reopened else 300):
        if is_reopened:
            file.close()
            file = h5py.File(path, "a")
        region = random_region(generator)
        wanted[region] = random_values(generator, wanted[region].shape).astype(dtype)
        file["t"][region] = wanted[region]
    file.close()
    with h5py.File(path) as file:
        back = file["t"][...].astype("f8")
    limit = value if mode == 1 else value * np.abs(wanted.astype("f8"))
    assert np.all(np.abs(back - wanted.astype("f8")) <= limit)
    assert np.any(back != wanted)


def test_chunks_that_are_written_once_are_smaller(tmp_path):
    y, x = np.mgrid[:256, :256]
    smooth = np.sin(y / 40) * np.cos(x / 30)
    sizes = []
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for choice in (0, ONCE):
            options = {"compression": ID, "compression_opts": parameters(1, 1e-3, choice)}
            dataset = file.create_dataset(str(choice), data=smooth, chunks=smooth.shape, **options)
            assert np.abs(dataset[...] - smooth).max() <= 1e-3
            sizes.append(dataset.id.get_storage_size())
    assert sizes[1] < sizes[0]
