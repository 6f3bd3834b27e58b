"""What several benches need: records as CSV, fields of the command line, and the name of the processor."""

import csv
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

# The columns of `syncline-bench`, which describes them.
COLUMNS = (
    "bench,device,field,element,shape,bound,codec,options,what,bytes,stream_bytes,error,"
    "seconds,shortest,longest,runs,of_copy,workspace"
)

_writer: Any = None


def record(bench: str, what: str, seconds: list[float], **columns: Any) -> None:
    """Prints a measurement as a line of CSV, after the names of the columns. ``seconds`` are those of each run."""
    global _writer
    if _writer is None:
        _writer = csv.DictWriter(sys.stdout, COLUMNS.split(","), lineterminator="\n")
        _writer.writeheader()
    times = {"seconds": statistics.median(seconds), "shortest": min(seconds), "longest": max(seconds)}
    _writer.writerow({"bench": bench, "what": what, **times, "runs": len(seconds), **columns})
    sys.stdout.flush()


def shape_text(array: Any) -> str:
    """Returns the extents of an array as in records."""
    return "x".join(map(str, array.shape))


def named_fields(arguments: list[str]) -> list[tuple[str, np.ndarray]]:
    """Returns the fields of ``float32`` that were named, each as a path and a shape: ``FIELD.f32:101x101x800``."""
    result = []
    for argument in arguments:
        path, _, shape = argument.rpartition(":")
        result.append((Path(path).stem, np.fromfile(path, "<f4").reshape([int(n) for n in shape.split("x")])))
    return result


def processor() -> str:
    """Returns the model of the processor, if Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()
