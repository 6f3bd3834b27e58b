"""A Zarr format 3 codec (array to bytes) that decodes only the tiles that a selection needs."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from ._extras import missing

try:
    from zarr.abc.codec import ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.core.common import parse_named_configuration
except ModuleNotFoundError as _error:
    raise missing(_error, "zarr") from None

from . import _codec, _core, _zarr_device
from ._advanced import Advanced
from ._advice import warn_at_caller
from ._array import Bound, Effort, as_bytes, compress, core_choices, decompress, resolve
from ._core import CorruptError, SynclineError
from ._fill import without_mask
from ._types import as_numbers, core_name, is_exact, number_dtype, number_shape, numpy_dtype, of_numbers

__all__ = ["SynclineCodec", "create_array", "encoding"]

#: Bytes that are fetched from the start of a chunk to read a part of it, and from its end if its stream has chunks of
#: its own. A chunk that is shorter is fetched whole.
_END_BYTES = 20 << 10

#: Settings that a configuration has only if they are not the default.
_OPTIONAL = ("effort", "fill", "advanced")


@dataclass(frozen=True)
class SynclineCodec(ArrayBytesCodec, ArrayBytesCodecPartialDecodeMixin):
    """``{"name": "syncline", "configuration": {"mode": "abs", "value": 0.001}}``

    Pass it as ``serializer=`` together with ``compressors=None``: Zarr's default compressor would compress the streams
    again and switch partial decoding off. The array's fill value is kept exactly.

    With ``rewritable``, the default, an ``abs`` or ``pw_rel`` bound holds for what was last written to each element,
    however often parts of a chunk are written. Without it, chunks are smaller, but each time that a part of a chunk is
    written, the errors of its other elements can grow by up to the bound. ``rel`` and ``psnr`` bounds refer to the
    values of each chunk and change with these: :func:`syncline.resolve` returns an absolute one for the whole array.

    Raises:
        ValueError, TypeError: a setting is unknown, or the settings do not fit together.
    """

    codec_name: ClassVar[str] = "syncline"
    is_fixed_size: ClassVar[bool] = False

    mode: str = "lossless"
    value: float = 0.0
    effort: str | None = None
    #: The value, or up to four, that stand for missing data, if they are not the fill value of the array.
    fill: float | Sequence[float] | None = None

    #: Whether the bound holds for what was last written to each element, however often parts of a chunk are written.
    rewritable: bool = True

    #: Single choices that the effort otherwise stands for.
    advanced: Advanced | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        bound, fill = _codec.check(self)
        object.__setattr__(self, "advanced", self.advanced or None)
        object.__setattr__(self, "value", bound.value)
        object.__setattr__(self, "fill", fill)
        # Lossless chunks always are.
        object.__setattr__(self, "rewritable", self.rewritable or bound.mode == "lossless")

    @property
    def bound(self) -> Bound:
        """The error bound."""
        return Bound(self.mode, self.value)  # type: ignore[arg-type]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Makes the codec of a configuration in array metadata."""
        _, configuration = parse_named_configuration(data, "syncline", require_configuration=False)
        configuration = dict(configuration or {})
        unknown = sorted(configuration.keys() - {"mode", "value", "rewritable", *_OPTIONAL})
        if unknown:
            from . import __version__

            raise ValueError(f"Syncline {__version__} does not know the codec settings {', '.join(unknown)}")
        return cls(**configuration)

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration for array metadata."""
        configuration: dict[str, Any] = {"mode": self.mode}
        if self.mode != "lossless":
            configuration["value"] = self.value
        configuration |= {key: value for key in _OPTIONAL if (value := getattr(self, key)) is not None}
        if isinstance(self.fill, tuple):
            configuration["fill"] = list(self.fill)
        if not self.rewritable:
            configuration["rewritable"] = False
        return {"name": "syncline", "configuration": configuration}

    def compute_encoded_size(self, input_byte_length: int, chunk_spec: Any) -> int:
        """Streams have no fixed size."""
        raise NotImplementedError

    def validate(self, *, shape: tuple[int, ...], dtype: Any, chunk_grid: Any) -> None:
        """Checks that arrays of this type and rank can be compressed."""
        native = dtype.to_native_dtype()
        core_name(number_dtype(native))
        if self.mode == "pw_rel" and native.kind in "iu":
            raise ValueError(f"{native.name} has no pw_rel bound: use mode='abs', in counts")
        if self.mode in ("rel", "psnr"):
            warnings.warn(
                f"the {self.mode} bound refers to the values of each chunk: use abs for one bound over the whole array",
                UserWarning,
                stacklevel=2,
            )
        # Zarr tells a codec nothing of the others, which the caller, the metadata of an array, has.
        behind = _compressors_behind(self, getattr(sys._getframe(1).f_locals.get("self"), "codecs", ()))
        if behind:
            warn_at_caller(
                f"{', '.join(behind)} compresses the streams of Syncline again, which saves nothing, and a slice of a "
                "chunk reads all of it: pass compressors=None"
            )

    def _encode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        fill: Any = "auto"
        if self.mode != "lossless":
            fill = self.fill if self.fill is not None else _declared_fill(chunk_spec.fill_value)
        native = chunk_spec.dtype.to_native_dtype()
        prototype = chunk_spec.prototype
        on_gpu = _zarr_device.is_on_gpu(prototype)
        array = chunk_data.as_ndarray_like() if on_gpu else chunk_data.as_numpy_array()
        array = as_numbers(_codec.as_declared(array, native))
        # Filters such as Delta return elements without their shape.
        array = array.reshape(_codec.merged_shape(number_shape(native, tuple(chunk_spec.shape))))
        bound, fill = _codec.piece_bound(array, Bound() if is_exact(native) else self.bound, fill)
        options = _codec.options_of(self)
        if on_gpu:
            kind: Any = {"threads": 0, "device": "auto", "memory_limit": None}
            return _zarr_device.compress(array, core_choices(bound=bound, fill=fill, **options, **kind), prototype)
        return prototype.buffer.from_bytes(compress(array, bound=bound, fill=fill, threads=1, device="cpu", **options))

    def _decode_sync(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return self._decode_selection(chunk_data, None, chunk_spec)

    @staticmethod
    def _typed(array: Any, chunk_spec: Any) -> Any:
        native = chunk_spec.dtype.to_native_dtype()
        elements = np.asarray(array).astype(native, copy=False)
        return chunk_spec.prototype.nd_buffer.from_numpy_array(elements)

    @staticmethod
    def _check(header: dict[str, Any], chunk_spec: Any) -> None:
        _codec.check_header(header, chunk_spec.dtype.to_native_dtype(), tuple(chunk_spec.shape))

    async def _encode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._encode_sync, chunk_data, chunk_spec)

    async def _decode_single(self, chunk_data: Any, chunk_spec: Any) -> Any:
        return await asyncio.to_thread(self._decode_sync, chunk_data, chunk_spec)

    def _decode_selection(self, stream: Any, selection: Any, chunk_spec: Any) -> Any:
        """Decodes a selection of a chunk, or all of it, whose bytes are all in memory."""
        if _zarr_device.is_on_gpu(chunk_spec.prototype):
            return self._decode_on_gpu(stream, selection, chunk_spec)
        native = chunk_spec.dtype.to_native_dtype()
        box = None if selection is None else _box_of(selection, chunk_spec.shape, native)
        data = stream.as_numpy_array()
        self._check(_core.header(data), chunk_spec)
        if box is None:
            part = of_numbers(decompress(data, threads=1, device="cpu"), native).reshape(chunk_spec.shape)
            part = part if selection is None else part[selection]
        else:
            region, inner = box
            part = of_numbers(decompress(data, region=region, threads=1, device="cpu"), native)[inner]
        return self._typed(part, chunk_spec)

    @staticmethod
    def _decode_on_gpu(stream: Any, selection: Any, chunk_spec: Any) -> Any:
        """Decodes a chunk on the GPU that its bytes are on, and selects there."""
        prototype = chunk_spec.prototype
        data = prototype.buffer.from_buffer(stream).as_array_like()
        SynclineCodec._check(_zarr_device.header(data), chunk_spec)
        native = chunk_spec.dtype.to_native_dtype()
        array = _zarr_device.decompress(data)
        if native.kind in "bmMc":
            array = array.reshape(-1).view(native.newbyteorder("="))
        array = array.reshape(chunk_spec.shape)
        return prototype.nd_buffer.from_ndarray_like(array if selection is None else array[selection])

    def _decode_box(self, partial: _core.PartialStream, box: Any, chunk_spec: Any) -> Any:
        """Decodes a selection of a chunk of which the needed bytes are in memory."""
        region, inner = box
        extents = [part.stop - part.start for part in region]
        elements = np.empty(extents, numpy_dtype(partial.header()["dtype"]))
        partial.decompress_into(as_bytes(elements), _ranges(region))
        return self._typed(of_numbers(elements, chunk_spec.dtype.to_native_dtype())[inner], chunk_spec)

    def _requests(self, chunk_spec: Any, selection: Any) -> Generator[Any, Any, Any]:
        """Decodes a selection of a chunk. Yields lists of the byte ranges that it needs (``None`` for all bytes), which
        can be requested together, and expects their bytes. Stores that count requests one after another see two: the
        start of the stream, and the selection. There are two more for a stream of several chunks: its end, and the
        start of the chunks that the selection is in.
        """
        box = _box_of(selection, chunk_spec.shape, chunk_spec.dtype.to_native_dtype())
        if _zarr_device.is_on_gpu(chunk_spec.prototype):
            box = None  # The GPU decodes a chunk faster than the host decodes, and uploads, a part of it.
        if box is None or _covers(box[0], chunk_spec.shape):
            [stream] = yield [None]
            return None if stream is None else self._decode_selection(stream, selection, chunk_spec)
        [head] = yield [RangeByteRequest(0, _END_BYTES)]
        if head is None:
            return None
        if len(head) < _END_BYTES:
            return self._decode_selection(head, selection, chunk_spec)
        partial = _core.PartialStream.from_head(head.as_numpy_array())
        if partial is None:
            [tail] = yield from _present([SuffixByteRequest(_END_BYTES)])
            partial = _core.PartialStream(head.as_numpy_array(), tail.as_numpy_array())
        self._check(partial.header(), chunk_spec)
        wanted = [missing] if (missing := partial.missing()) else partial.missing_ranges(_ranges(box[0]))
        while wanted:
            pieces = yield from _present([RangeByteRequest(start, end) for start, end in wanted])
            for (start, end), piece in zip(wanted, pieces, strict=True):
                if len(piece) != end - start:
                    raise CorruptError("the chunk became shorter while it was read")
                partial.add(start, piece.as_numpy_array())
            wanted = partial.missing_ranges(_ranges(box[0]))
        return self._decode_box(partial, box, chunk_spec)

    async def _decode_partial_single(self, byte_getter: Any, selection: Any, chunk_spec: Any) -> Any:
        if not _is_in_memory(byte_getter):
            requests = self._requests(chunk_spec, selection)
            answer = None
            try:
                while True:
                    wanted = await asyncio.to_thread(_next, requests, answer)
                    gets = [byte_getter.get(prototype=chunk_spec.prototype, byte_range=each) for each in wanted]
                    answer = await asyncio.gather(*gets)
            except _Done as done:
                return done.result
            except _MAYBE_REWRITTEN:
                pass
        stream = await byte_getter.get(prototype=chunk_spec.prototype)
        if stream is None:
            return None
        return await asyncio.to_thread(self._decode_selection, stream, selection, chunk_spec)

    def _decode_partial_sync(self, byte_getter: Any, selection: Any, chunk_spec: Any) -> Any:
        if not _is_in_memory(byte_getter):
            requests = self._requests(chunk_spec, selection)
            answer = None
            try:
                while True:
                    wanted = _next(requests, answer)
                    get = byte_getter.get_sync
                    answer = [get(prototype=chunk_spec.prototype, byte_range=each) for each in wanted]
            except _Done as done:
                return done.result
            except _MAYBE_REWRITTEN:
                pass
        stream = byte_getter.get_sync(prototype=chunk_spec.prototype)
        return None if stream is None else self._decode_selection(stream, selection, chunk_spec)


#: What reading a part of a chunk raises if the chunk is rewritten between two of its requests, whose answers then are
#: of different streams. The whole chunk, which is one request, is read then.
_MAYBE_REWRITTEN = (SynclineError, OSError)


def _is_in_memory(byte_getter: Any) -> bool:
    """Returns whether the bytes of a chunk are in memory, as those of the chunks in a shard are."""
    return type(byte_getter).__name__ == "_ShardingByteGetter"


def _present(requests: list[Any]) -> Generator[Any, Any, Any]:
    """Requests bytes of a chunk of which others were there before."""
    answers = yield requests
    if any(answer is None for answer in answers):
        raise CorruptError("the chunk was removed while it was read")
    return answers


def _declared_fill(fill_value: Any) -> Any:
    """Returns the fill option for the fill value of an array: zero is Zarr's default and an ordinary value in most
    data.
    """
    is_number = isinstance(fill_value, (int, float, np.integer, np.floating)) or _is_bfloat16(fill_value)
    return float(fill_value) if is_number and fill_value != 0 else "auto"


def _is_bfloat16(value: Any) -> bool:
    return isinstance(value, np.generic) and value.dtype.name == "bfloat16"


class _Done(Exception):
    """Carries the result of a generator out of a thread, which a StopIteration cannot."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


def _next(requests: Generator[Any, Any, Any], answer: Any) -> Any:
    try:
        return requests.send(answer)
    except StopIteration as done:
        raise _Done(done.value) from None


def encoding(
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    effort: Effort | None = None,
    fill: float | Sequence[float] | None = None,
    rewritable: bool = True,
    advanced: Advanced | None = None,
) -> dict[str, Any]:
    """Returns keyword arguments for ``zarr.create_array``, or an Xarray encoding, that compress with this bound.
    ``effort`` and ``advanced`` are those of :func:`syncline.compress`. ``fill`` names up to four values that stand for
    missing data, by default the fill value of the array. ``rewritable=False`` makes smaller chunks, for arrays whose
    chunks are written once (:class:`SynclineCodec`).

    >>> import numpy as np, syncline.zarr, zarr
    >>> array = zarr.create_array({}, shape=(64, 64), chunks=(32, 32), dtype="f4", **syncline.zarr.encoding(abs=1e-3))
    >>> array[:] = np.ones((64, 64), "f4")
    >>> float(array[3, 3])
    1.0
    """
    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    settings: dict[str, Any] = {"effort": effort, "fill": fill, "rewritable": rewritable, "advanced": advanced}
    codec = SynclineCodec(bound.mode, bound.value, **settings)
    return {"serializer": codec, "compressors": None}


def create_array(
    store: Any,
    *,
    abs: float | None = None,
    rel: float | None = None,
    psnr: float | None = None,
    pw_rel: float | None = None,
    effort: Effort | None = None,
    fill: float | Sequence[float] | None = None,
    rewritable: bool = True,
    advanced: Advanced | None = None,
    **options: Any,
) -> Any:
    """Creates a Zarr array whose chunks are compressed with this bound, as ``zarr.create_array`` with
    :func:`encoding`; ``options`` are those of ``zarr.create_array``. If ``data`` is one of them, ``rel`` and ``psnr``
    refer to all of it, and else to the values of each chunk.

    Raises:
        ValueError, TypeError: as :class:`SynclineCodec` and ``zarr.create_array``; or elements of ``data`` are masked.
    """
    import zarr

    bound = Bound.of(abs=abs, rel=rel, psnr=psnr, pw_rel=pw_rel)
    if options.get("data") is not None:
        options["data"] = without_mask(options["data"])
        bound = bound_of_array(options["data"], bound, fill, options.get("fill_value"))
    settings: dict[str, Any] = {"effort": effort, "fill": fill, "rewritable": rewritable, "advanced": advanced}
    codec = SynclineCodec(bound.mode, bound.value, **settings)
    return zarr.create_array(store, serializer=codec, compressors=None, **options)


def bound_of_array(array: Any, bound: Bound, fill: Any, fill_value: Any) -> Bound:
    """Returns an absolute bound for the chunks of an array instead of one that refers to the range of all of it."""
    if not bound.is_of_range:
        return bound
    if fill is None and _declared_fill(fill_value) != "auto":
        fill = fill_value
    return resolve(array, fill=fill, **{bound.mode: bound.value})


def _compressors_behind(codec: Any, codecs: Any) -> list[str]:
    """Returns the names of the codecs that follow one, but for those that add a checksum."""
    classes = [type(other).__name__ for other in codecs]
    position = next((at for at, other in enumerate(codecs) if other is codec), len(classes))
    checksums = ("crc", "adler", "fletcher", "jenkins", "checksum")
    return [name for name in classes[position + 1 :] if not any(sum_ in name.lower() for sum_ in checksums)]


def _box_of(
    selection: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[tuple[slice, ...], tuple[Any, ...]] | None:
    """Returns the bounding box of a selection in a chunk's stream, or ``None`` if all of the chunk is needed. That of
    complex numbers has one more axis, so that it is decoded whole.
    """
    return _bounding_box(selection, shape) if len(shape) <= 4 and dtype.kind != "c" else None


def _covers(region: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
    return all(part.start == 0 and part.stop == extent for part, extent in zip(region, shape, strict=True))


def _ranges(region: tuple[slice, ...]) -> list[tuple[int, int]]:
    return [(part.start, part.stop) for part in region]


def _bounding_box(selection: Any, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], tuple[Any, ...]] | None:
    """Returns the box that has all elements of a selection and the selection inside of it, or ``None`` if it is too
    irregular to have one.
    """
    region: list[slice] = []
    inner: list[Any] = []
    selection = selection if isinstance(selection, tuple) else (selection,)
    if len(selection) != len(shape):
        return None
    for item, extent in zip(selection, shape, strict=True):
        if isinstance(item, slice):
            steps = range(*item.indices(extent))
            low, high = (min(steps[0], steps[-1]), max(steps[0], steps[-1]) + 1) if steps else (0, 0)
            inner.append(slice(None, None, steps.step) if steps else slice(0, 0))
        elif isinstance(item, (int, np.integer)):
            low = int(item) % extent
            high = low + 1
            inner.append(0)
        else:
            positions = np.asarray(item)
            if positions.dtype == bool or positions.size == 0:
                return None
            low, high = int(positions.min()), int(positions.max()) + 1
            if low < 0:
                return None
            inner.append(positions - low)
        region.append(slice(low, high))
    return tuple(region), tuple(inner)
