"""What a bound costs before compression, and what it did after it."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import _core, _device
from ._advanced import Advanced
from ._array import (
    Bound,
    Effort,
    Header,
    Quality,
    as_bytes,
    core_choices,
    decompress,
    header,
    inspect,
    little_endian,
    one_bound,
    verify,
)
from ._fill import Fill, without_mask
from ._types import as_numbers, core_name, is_exact


@dataclass(frozen=True)
class Estimate:
    """How small an array would become, and how long that would take on the CPU."""

    #: The expected bytes of the stream.
    compressed_bytes: int
    #: The bytes of the array divided by the expected bytes of the stream.
    ratio: float
    #: The bytes of the array.
    nbytes: int
    #: The bytes that were compressed to find out; all of them for small arrays.
    sampled_bytes: int
    #: The peak signal-to-noise ratio of the sample in dB; none if the sample comes back without error.
    psnr: float | None
    #: The seconds in which the sample was compressed.
    compress_seconds: float
    #: The seconds in which the sample was decompressed.
    decompress_seconds: float


def estimate(
    array: ArrayLike,
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    bound: Bound | None = None,
    fill: Fill = "auto",
    effort: Effort | None = None,
    advanced: Advanced | None = None,
    rewritable: bool = False,
    threads: int = 0,
    sample: int = 1 << 22,
) -> Estimate:
    """Estimates what :func:`compress` would make of an array, from tiles in all of its parts that have at most
    ``sample`` elements together, as ``syncline estimate`` does. Arrays that are not larger are compressed whole.
    ``rel``, ``psnr``, and fill values refer to the whole array, which is read once for them.

    >>> import numpy as np, syncline
    >>> field = np.sin(np.arange(4_000_000, dtype="f4").reshape(2000, 2000) / 900)
    >>> expected = syncline.estimate(field, abs=1e-3, sample=1_000_000)
    >>> round(expected.compressed_bytes / len(syncline.compress(field, abs=1e-3)))
    1
    """
    chosen = one_bound(bound, abs, rel, psnr, pw_rel)
    elements = _device.host_array(without_mask(array, fill))
    chosen = Bound() if is_exact(elements.dtype) else chosen
    elements = as_numbers(elements)
    choices = core_choices(chosen, fill, effort, advanced, threads, "cpu", None, rewritable)
    name = core_name(elements.dtype)
    elements = little_endian(elements)
    return Estimate(**_core.estimate(as_bytes(elements), name, elements.shape, choices, max(1, sample)))


@dataclass(frozen=True)
class Report:
    """The sizes and the error of a stream. Printing gives a table, and notebooks show a page with a histogram."""

    header: Header
    quality: Quality
    #: The counts and sizes of the parts, as :func:`inspect` returns them.
    parts: dict[str, Any]
    #: The share of the errors in each of the equal steps from minus the bound to the bound; none if lossless.
    histogram: tuple[float, ...]

    def rows(self) -> list[tuple[str, str]]:
        """Returns the table as pairs of a label and a text."""
        head, quality = self.header, self.quality
        of = "" if head.bound.mode == "lossless" else f" {head.bound.value:g}"
        rows = [
            ("array", f"{head.dtype} {head.shape}, {head.nbytes:,} bytes"),
            ("stream", f"{head.compressed_bytes:,} bytes, ratio {head.ratio:.2f}"),
            ("bits per value", f"{8 * head.compressed_bytes / max(1, quality.elements):.3f}"),
            ("bound", f"{head.bound.mode}{of}" + (f" (absolute {head.abs_bound:g})" if head.abs_bound else "")),
            ("bound holds", "yes" if quality.holds else f"no: {quality.violations + quality.mismatches} elements"),
        ]
        for label, value in (
            ("largest error", quality.max_abs),
            ("largest relative error", quality.max_rel),
            ("error / bound", quality.bound_ratio),
            ("RMSE", quality.rmse),
            ("PSNR (dB)", quality.psnr),
            ("SSIM", quality.ssim),
            ("correlation", quality.correlation),
        ):
            if value is not None:
                rows.append((label, f"{value:.6g}"))
        rows += [(name.replace("_", " "), f"{self.parts[name]:,}") for name in ("chunks", "tiles", "verbatim")]
        return rows

    def __str__(self) -> str:
        rows = self.rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join(f"{label:{width}}  {text}" for label, text in rows)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>"
            for label, text in self.rows()
        )
        return f"<table>{cells}</table>{self._histogram_svg()}"

    def _histogram_svg(self) -> str:
        if not self.histogram:
            return ""
        peak, bars = max(self.histogram) or 1.0, []
        for at, share in enumerate(self.histogram):
            height = 100 * share / peak
            bars.append(f"<rect x='{6 * at}' y='{100 - height:.1f}' width='5' height='{height:.1f}' fill='#4477aa'/>")
        width = 6 * len(self.histogram)
        label = f"errors from &#8722;{self.header.abs_bound:g} to {self.header.abs_bound:g}"
        return (
            f"<svg viewBox='0 0 {width} 118' width='{2 * width}' height='236' role='img' aria-label='{label}'>"
            f"{''.join(bars)}<text x='0' y='114' font-size='10'>{label}</text></svg>"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to an HTML file, which loads nothing from elsewhere."""
        page = (
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>Syncline report</title></head>"
            f"<body style='font-family:sans-serif'><h1>Syncline report</h1>{self._repr_html_()}</body></html>\n"
        )
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)


def report(array: ArrayLike, data: Any, *, threads: int = 0) -> Report:
    """Compares an array with its stream, and returns sizes and errors to print, to show in a notebook, or to save.

    >>> import numpy as np, syncline
    >>> field = np.sin(np.arange(10_000.0) / 30)
    >>> print(str(syncline.report(field, syncline.compress(field, abs=1e-3))).splitlines()[0])
    array                   float64 (10000,), 80,000 bytes
    """
    original, data = _device.host_array(without_mask(array)), _device.host_bytes(data)
    quality, head = verify(original, data, threads=threads), header(data)
    histogram: tuple[float, ...] = ()
    if head.abs_bound > 0:
        back = np.asarray(decompress(data, threads=threads), np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            errors = back - original
            if head.bound.mode == "pw_rel":
                errors = errors / np.where(original == 0, np.inf, np.abs(original))
        errors = errors[np.isfinite(errors)]
        counts, _ = np.histogram(errors, 41, (-head.abs_bound, head.abs_bound))
        histogram = tuple(float(count) / max(1, errors.size) for count in counts)
    return Report(head, quality, inspect(data), histogram)
