"""``python -m syncline``, and the script ``syncline``: compresses and decompresses ``.npy`` files, and shows what
streams hold.

The command of the crate ``syncline-cli``, which is installed apart from this package, does much more.
"""

from __future__ import annotations

import argparse
import builtins
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import SynclineError, __version__, load, open, save


def _parser() -> argparse.ArgumentParser:
    prog = "python -m syncline" if sys.argv[0].endswith("__main__.py") else "syncline"
    parser = argparse.ArgumentParser(prog=prog, description="Compresses .npy files, and back.")
    parser.add_argument("--version", action="version", version=f"syncline {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    compress = commands.add_parser("compress", help="write a .npy file as a stream")
    compress.add_argument("array", help="a .npy file")
    compress.add_argument("stream", help="file to write")
    bounds = compress.add_mutually_exclusive_group()
    for name, meaning in (
        ("abs", "largest absolute error"),
        ("rel", "largest error relative to the range of values"),
        ("psnr", "least PSNR in dB"),
        ("pw-rel", "largest relative error of each value"),
    ):
        bounds.add_argument(f"--{name}", type=float, metavar="NUMBER", help=f"{meaning} [without a bound: lossless]")
    compress.add_argument("--effort", choices=("fast", "balanced", "best"), help="more effort makes smaller streams")
    decompress = commands.add_parser("decompress", help="write a stream as a .npy file")
    decompress.add_argument("stream", help="a stream")
    decompress.add_argument("array", help=".npy file to write")
    info = commands.add_parser("info", help="show what streams hold")
    info.add_argument("streams", nargs="+", help="streams")
    return parser


def _compress(arguments: argparse.Namespace) -> None:
    names = ("abs", "rel", "psnr", "pw_rel", "effort")
    options: dict[str, Any] = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    save(arguments.stream, np.load(arguments.array, mmap_mode="r", allow_pickle=False), **options)


def _info(path: str) -> str:
    with open(path) as file:
        header = file.header
    bound = header.bound.mode + (f" {header.bound.value:g}" if header.bound.mode != "lossless" else "")
    shape = "x".join(map(str, header.shape)) or "a number"
    return f"{path}: {header.dtype} {shape}, {bound}, {header.compressed_bytes} bytes, ratio {header.ratio:.2f}"


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command with these words, by default those of the process. Returns the exit status."""
    arguments = _parser().parse_args(words)
    try:
        if arguments.command == "compress":
            _compress(arguments)
        elif arguments.command == "decompress":
            array = load(arguments.stream)
            with builtins.open(arguments.array, "wb") as target:
                np.save(target, array, allow_pickle=False)
        else:
            for path in arguments.streams:
                print(_info(path))
    except (SynclineError, OSError, ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
