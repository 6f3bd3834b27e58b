"""Compresses the weights of models, lossless and with bounds, and prints records as CSV.

    python checkpoints.py model.safetensors...

Without files, it takes those of installed packages that ``examples/checkpoint.py`` names. The error is the largest one
of a tensor as a share of its bound.
"""

import pathlib
import runpy
import sys
import tempfile
import time

import numpy as np
import syncline.safetensors
from common import record

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "checkpoint.py"

#: Runs of which the median counts.
RUNS = 3


def main(models: list[pathlib.Path]) -> None:
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "compressed.safetensors"
            syncline.safetensors.convert(model, target)
            original = syncline.safetensors.load(target)
            for rel in (None, 1e-2, 1e-3, 1e-4):
                measure(model, target, rel, original)


def measure(model: pathlib.Path, target: pathlib.Path, rel: float | None, original: dict[str, np.ndarray]) -> None:
    """Prints the records of one file with one bound."""
    compressing, loading = [], []
    for _ in range(RUNS):
        start = time.process_time()
        syncline.safetensors.convert(model, target, rel=rel)
        middle = time.process_time()
        loaded = syncline.safetensors.load(target)
        compressing.append(middle - start)
        loading.append(time.process_time() - middle)
    error = 0.0
    for name, tensor in original.items():
        if rel is None or tensor.ndim < 2 or tensor.dtype.kind != "f":
            assert (loaded[name] == tensor).all(), name
            continue
        difference = np.abs(loaded[name].astype("f8") - tensor).max()
        error = max(error, float(difference / (rel * np.ptp(tensor.astype("f8")))))
    columns = {
        "device": "cpu",
        "field": model.parents[1].name,
        "codec": "syncline",
        "bound": f"{rel:.0e}".replace("e-0", "e-") if rel else "lossless",
        "bytes": model.stat().st_size,
        "stream_bytes": target.stat().st_size,
        "error": error if rel else "",
    }
    record("checkpoints", "save", compressing, **columns)
    record("checkpoints", "load", loading, **columns)


if __name__ == "__main__":
    named = [pathlib.Path(name) for name in sys.argv[1:]]
    main(named or runpy.run_path(str(EXAMPLE))["installed_models"]())
