"""What several benches need: fields of the command line, and the name of the processor."""

import platform
from pathlib import Path

import numpy as np


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
