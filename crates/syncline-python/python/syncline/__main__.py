"""``python -m syncline``, and the script ``syncline``: compresses and decompresses ``.npy`` files, and shows what
streams hold.

The command of the crate ``syncline-cli``, which is installed apart from this package, does much more.
"""

from __future__ import annotations

import argparse
import builtins
import os
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
    _add_output(compress, "stream", "ARRAY.syn")
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
    _add_output(decompress, "array", "STREAM without .syn")
    info = commands.add_parser("info", help="show what streams hold")
    info.add_argument("streams", nargs="+", help="streams")
    return parser


def _add_output(command: argparse.ArgumentParser, name: str, default: str) -> None:
    """Adds the output as a second word, and as the option of the other command of this name."""
    output = command.add_mutually_exclusive_group()
    output.add_argument(name, nargs="?", help=f"file to write [default: {default}, unless that exists]")
    output.add_argument("-o", "--output", dest=name, default=argparse.SUPPRESS, metavar="FILE", help=f"the {name}")


def _unused(path: str) -> str:
    """Returns the name of a file that was not stated, and must not be there.

    Raises:
        FileExistsError: it is.
    """
    if os.path.exists(path):
        raise FileExistsError(f"{path}: exists already: name the file with -o")
    return path


def _array_of(stream: str) -> str:
    """Returns the name of a stream without its suffix.

    Raises:
        ValueError: no name of an array is left.
    """
    array = stream.removesuffix(".syn")
    if array == stream or not array.endswith(".npy"):
        raise ValueError(f"{stream}: does not end with .npy.syn: name the array with -o")
    return _unused(array)


def _compress(arguments: argparse.Namespace) -> None:
    names = ("abs", "rel", "psnr", "pw_rel", "effort")
    options: dict[str, Any] = {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}
    stream = arguments.stream or _unused(f"{arguments.array}.syn")
    save(stream, np.load(arguments.array, mmap_mode="r", allow_pickle=False), **options)


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
            path = arguments.array or _array_of(arguments.stream)
            array = load(arguments.stream)
            with builtins.open(path, "wb") as target:
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
