"""Writes and reads datasets with two ranks of an MPI program, which test_parallel.py starts."""

import sys

import h5py
import numpy as np
from mpi4py import MPI

ID = 47501
#: Parameters of the filter for an absolute bound of 1e-3.
ABSOLUTE = (1, 1, 3539053052, 1062232653)

ranks = MPI.COMM_WORLD
rank = ranks.rank
assert ranks.size == 2
field = (np.sin(np.arange(40 * 50 * 60) * 0.01).reshape(40, 50, 60) + np.linspace(0, 2, 60)).astype("f4")
noise = np.random.default_rng(1).integers(0, 256, (40, 50, 60), "u1")
whole = np.arange(40 * 50 * 60, dtype=">i4").reshape(40, 50, 60)
DATA = {"field": (field, ABSOLUTE, 2e-3), "noise": (noise, None, 0), "whole": (whole, None, 0)}
#: Chunks, and the rows that this rank writes: chunks of one rank each, chunks that both write parts of, and nearly all
#: of one rank. A rank without rows would not take part in the call.
LAYOUTS = {
    "own": ((10, 25, 60), [(0, 20), (20, 40)][rank]),
    "shared": ((16, 50, 60), [(0, 17), (17, 40)][rank]),
    "uneven": ((10, 25, 60), [(0, 2), (2, 40)][rank]),
}

with h5py.File(sys.argv[1], "w", driver="mpio", comm=ranks) as file:
    for layout, (chunks, (start, end)) in LAYOUTS.items():
        for name, (data, options, _) in DATA.items():
            dataset = file.create_dataset(
                f"{layout}/{name}", data.shape, data.dtype, chunks=chunks, compression=ID, compression_opts=options
            )
            # The second time, chunks are decompressed and compressed again.
            for stop in (end, (start + end) // 2):
                with dataset.collective:
                    dataset[start:stop] = data[start:stop]

with h5py.File(sys.argv[1], driver="mpio", comm=ranks) as file:
    for layout, (_, (start, end)) in LAYOUTS.items():
        for name, (data, _, limit) in DATA.items():
            dataset = file[f"{layout}/{name}"]
            with dataset.collective:
                part = dataset[start:end]
            # Without `collective`, each rank reads for itself.
            for back, original in ((part, data[start:end]), (dataset[...], data)):
                error = np.abs(back.astype("f8") - original.astype("f8")).max(initial=0)
                assert error <= limit, (layout, name, error)
print("ok", flush=True)
