"""Damaged bytes in every function of the package raise one of its exceptions, or do not change the result."""

import gc

import numpy as np
import pytest
import syncline
import syncline._core
import syncline.numcodecs
import syncline.zarr
import zarr

ROUNDS = 10_000
EXPECTED = (syncline.SynclineError, MemoryError)


def waves(shape, dtype="f4"):
    numbers = np.arange(np.prod(shape, dtype=int))
    return (100 * np.sin(numbers * 0.03) + numbers % 7).reshape(shape).astype(dtype)


CASES = [
    (array, syncline.compress(array, **options))
    for array, options in (
        (waves((40, 50)), {"abs": 1e-2}),
        (waves((3000,), "i4"), {}),
        (waves((12, 12, 12), "f8"), {"pw_rel": 1e-2}),
        (waves((40, 50)), {"abs": 1e-2, "effort": "fast", "advanced": {"coder": "lzss+huffman"}}),
        (np.frombuffer(b"abcdefgh" * 300, "u1"), {"effort": "fast"}),
        (waves((5, 4, 3, 4, 6)), {"abs": 1e-2, "advanced": {"index": "none"}}),
    )
]


def mutations(rounds, seed=1):
    """Yields the number of a case and a damaged copy of its stream."""
    generator = np.random.default_rng(seed)
    for round in range(rounds):
        case = round % len(CASES)
        stream = bytearray(CASES[case][1])
        kind = generator.integers(6)
        if kind == 0:
            del stream[generator.integers(len(stream)) :]
        elif kind == 1:
            at = generator.integers(len(stream))
            stream[at:at] = generator.bytes(generator.integers(1, 9))
        else:
            # Header and trailer have the fields that decide about memory.
            near = (144, len(stream))[int(kind) % 2]
            for _ in range(generator.integers(1, 5)):
                stream[generator.integers(min(near, len(stream)))] = generator.integers(256)
        yield case, stream


def partial(stream, shape, dtype):
    """Reads a region as stores do of which only parts of streams are fetched."""
    head, tail = stream[: syncline._core.PartialStream.HEAD_BYTES], stream[-200:]
    object = syncline._core.PartialStream(head, tail)
    if (missing := object.missing()) is not None:
        object.add(missing[0], stream[missing[0] : missing[1]])
    box = [(extent // 3, extent // 3 + 1) for extent in shape]
    while wanted := object.missing_ranges(box):
        for start, end in wanted:
            if len(piece := stream[start:end]) != end - start:
                raise syncline.TruncatedError("the stream ends before a range of it")
            object.add(start, piece)
    object.decompress_into(np.empty([1] * len(shape), dtype), box)


def test_in_memory():
    raised = dict.fromkeys(range(8), 0)
    codec = syncline.numcodecs.Syncline()
    for case, stream in mutations(ROUNDS):
        array = CASES[case][0]
        region = tuple(slice(extent // 3, extent // 3 + 1) for extent in array.shape)
        out = np.empty_like(array)
        doors = (
            lambda: syncline.decompress(stream, threads=1, memory_limit=1 << 26),
            lambda: syncline.decompress(stream, region=region, threads=1, memory_limit=1 << 26),
            lambda: syncline.header(stream),
            lambda: codec.decode(stream, out=out),
            lambda: partial(stream, array.shape, array.dtype),
            lambda: syncline.inspect(stream),
            lambda: codec.decode(stream),
            lambda: syncline.verify(array, stream, threads=1),
        )
        for number, door in enumerate(doors):
            try:
                door()
            except EXPECTED:
                raised[number] += 1
            except ValueError as error:
                # A header that is intact but for another shape or type fits no output of this one.
                assert number in (3, 4, 1, 7), (number, error)
                raised[number] += 1
            except IndexError:
                assert number == 1
                raised[number] += 1
    # Damage is hardly ever without consequence where all bytes are looked at.
    assert raised[0] > 0.9 * ROUNDS and raised[5] > 0.9 * ROUNDS and min(raised.values()) > 0.2 * ROUNDS, raised


def test_in_files(tmp_path):
    path = tmp_path / "damaged.syn"
    raised = 0
    for case, stream in mutations(ROUNDS, seed=2):
        path.write_bytes(stream)
        try:
            file = syncline.open(path, threads=1)
            file[tuple(extent // 2 for extent in CASES[case][0].shape)]
        except (*EXPECTED, IndexError):
            raised += 1
    assert raised > 0.5 * ROUNDS
    gc.collect()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("whole", [True, False])
def test_in_zarr_stores(whole):
    store = zarr.storage.MemoryStore()
    # Long enough that a part is fetched by ranges of bytes.
    array = np.random.default_rng(3).random((120, 130)).astype("f4")
    made = syncline.zarr.create_array(store, shape=array.shape, chunks=array.shape, dtype="f4", abs=1e-4)
    made[...] = array
    key = next(key for key in store._store_dict if key.endswith("c/0/0"))
    stream = store._store_dict[key].to_bytes()
    generator = np.random.default_rng(4)
    raised = 0
    for _ in range(ROUNDS // 2):
        damaged = bytearray(stream)
        near = (144, 400, len(damaged))[generator.integers(3)]
        damaged[-int(generator.integers(near)) if generator.random() < 0.5 else generator.integers(near)] ^= 0x55
        if generator.random() < 0.2:
            del damaged[generator.integers(len(damaged)) :]
        store._store_dict[key] = type(store._store_dict[key]).from_bytes(bytes(damaged))
        try:
            made[...] if whole else made[3, 4:9]
        except (*EXPECTED, ValueError):
            raised += 1
    # Damage outside of what a part needs is not read.
    assert raised > ROUNDS // (4 if whole else 8)
