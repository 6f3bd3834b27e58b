"""A real field in a Zarr store: written with a bound, sliced without reading all of it, and plotted.

    python egm96.py [FOLDER]

The field is the height of the geoid over the ellipsoid in meters (EGM96), every half degree: ``testdata/`` of the
repository has it. The pictures are written to the folder, the current one by default.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import syncline
import syncline.zarr
import zarr

FIELD = Path(__file__).parents[3] / "testdata" / "egm96_361x720.f32"


def main(folder: Path) -> dict[str, float]:
    """Writes the store and the pictures, and returns figures of the result."""
    field = np.fromfile(FIELD, "<f4").reshape(361, 720)

    # One centimeter everywhere. A bound relative to the range would hold for each chunk's range.
    bound = 0.01
    expected = syncline.estimate(field, abs=bound)
    array = syncline.zarr.create_array(
        folder / "egm96.zarr", shape=field.shape, chunks=(181, 240), dtype="f4", abs=bound, overwrite=True
    )
    array[:] = field
    stored = sum(file.stat().st_size for file in (folder / "egm96.zarr").rglob("*") if file.is_file())

    # Opened by name: the codec is found through the installed package. Only the tiles of the slice are decoded.
    opened = zarr.open_array(folder / "egm96.zarr", mode="r")
    # Rows go north from the south pole, columns east from 180 degrees west.
    north_atlantic = opened[180:320, 200:360]
    assert np.abs(north_atlantic - field[180:320, 200:360]).max() <= bound

    back = opened[:]
    error = back.astype("f8") - field
    figures = {
        "ratio": field.nbytes / stored,
        "expected_ratio": expected.ratio,
        "largest_error": float(np.abs(error).max()),
        "rmse": float(np.sqrt(np.mean(error**2))),
    }

    figure, axes = plt.subplots(3, 1, figsize=(8, 12), layout="constrained")
    limits = {"vmin": float(field.min()), "vmax": float(field.max())}
    for axis, title, values, style in (
        (axes[0], f"before: {field.nbytes:,} bytes", field, {"cmap": "viridis", **limits}),
        (axes[1], f"after: {stored:,} bytes, ratio {figures['ratio']:.1f}", back, {"cmap": "viridis", **limits}),
        (axes[2], f"error, within {bound} m", error, {"cmap": "RdBu", "vmin": -bound, "vmax": bound}),
    ):
        picture = axis.imshow(values, extent=(-180, 180, -90, 90), origin="lower", **style)
        axis.set(title=title, xlabel="longitude (degrees)", ylabel="latitude (degrees)")
        figure.colorbar(picture, ax=axis, label="m")
    figure.savefig(folder / "egm96.png", dpi=80)

    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    axis.imshow(north_atlantic, extent=(-80, 0, 0, 70), origin="lower", cmap="viridis")
    axis.set(title="the North Atlantic, read alone", xlabel="longitude (degrees)", ylabel="latitude (degrees)")
    figure.savefig(folder / "slice.png", dpi=80)
    plt.close("all")

    syncline.report(field, syncline.compress(field, abs=bound)).save(folder / "report.html")
    return figures


if __name__ == "__main__":
    for name, value in main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")).items():
        print(f"{name:15} {value:.5g}")
