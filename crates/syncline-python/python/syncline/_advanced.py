"""Single choices of the encoder, which an effort otherwise stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict


class Advanced(TypedDict, total=False):
    """The keys and values of ``advanced=``. ``docs/ADVANCED.md`` in the repository describes each."""

    coder: Literal["auto", "numbers", "lzss", "lzss+huffman"]
    index: Literal["symbol", "none"]
    level: int
    symbol: Literal["auto", 1, 2, 4, 8]


def advanced_text(advanced: Mapping[str, Any] | None) -> str:
    """Returns the choices as text, of which the core says what it does not know.

    Raises:
        TypeError: it is no dictionary.
    """
    if advanced is None:
        return ""
    if not isinstance(advanced, Mapping):
        raise TypeError(f"advanced must be a dictionary, such as {{'level': 9}}, not {advanced!r}")
    return ",".join(f"{key}={value}" for key, value in advanced.items())
