"""A decoder of streams of blocks (chunks of kinds 0 and 4), written from docs/FORMAT.md alone.

It is slow: a test of the document, not a tool. It checks no hashes. ``decode(stream)`` returns a NumPy array.
"""

import struct
from itertools import product

import numpy as np

# bf16 has no type in NumPy: its bits are returned.
TYPES = ("", "f4", "f8", "f2", "bf16", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")
PASSES = (1, 2, 4, 3, 5, 6, 7)
LARGEST = 4095
# In the place of a code, mask m is this and m.
MASK = 1 << 18
SEGMENT = 1024
LEAST_QUIET = 32
MOST_LANES = 32


def align(at, n):
    return -(-at // n) * n


# NumPy has no fused multiply-add, which is built from roundings to odd in f64.


def two_sum(a, b):
    part = (total := a + b) - a
    return total, (a - (total - part)) + (b - part)


def round_to_odd(a, b):
    """Returns a + b in f64: exact, or else the neighbor of the exact sum whose last bit is 1."""
    total, error = two_sum(a, b)
    even = (total.view("u8") & 1) == 0
    return np.where(even & (error != 0), np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def two_product(a, b):
    ah, bh = (x * 134217729.0 - (x * 134217729.0 - x) for x in (a, b))
    al, bl = a - ah, b - bh
    return a * b, al * bl - (((a * b - ah * bh) - al * bh) - ah * bl)


def fma(a, b, c, dtype):
    """Returns a * b + c, rounded once to f4 or f8. Boldo and Melquiond, "Emulation of FMA" (2008)."""
    a, b, c = (np.asarray(x, "f8") for x in np.broadcast_arrays(a, b, c))
    if dtype == "f4":
        return round_to_odd(a * b, c).astype("f4")
    high, low = two_product(a, b)
    sum_high, sum_low = two_sum(c, low)
    total, rest = two_sum(high, sum_high)
    return total + round_to_odd(sum_low, rest)


class Header:
    def __init__(self, data):
        assert data[:8] == b"\x89SYN\r\n\x1a\n" and struct.unpack_from("<HH", data, 8) == (1, 144)
        self.type, rank, self.pipeline, _, _, _, fills, self.tile_size = data[12:20]
        (self.tiles_per_chunk,) = struct.unpack_from("<I", data, 20)
        self.element = TYPES[self.type]
        self.stored_type = np.dtype("u2" if self.element == "bf16" else self.element)
        self.dtype = "f8" if self.element in ("f8", "u4", "i4") else "f4"
        assert self.type not in (8, 12), "integers of 64 bits are left out here"
        if rank <= 4:
            self.shape = struct.unpack_from("<4Q", data, 24)[:rank]
        else:
            shape, shift = [0], 0
            for group in (byte >> half & 15 for byte in data[24:56] for half in (0, 4)):
                shape[-1], shift = shape[-1] | (group & 7) << shift, shift + 3
                if not group & 8:
                    shape, shift = [*shape, 0], 0
            self.shape = tuple(shape[:rank])
        (self.step,) = struct.unpack_from("<d", data, 72)
        self.range = struct.unpack_from("<2d", data, 80)
        self.fills = list(struct.unpack_from("<4Q", data, 96)[:fills])
        axes = [extent for extent in self.shape if extent != 1]
        if len(axes) > 4:
            axes = [int(np.prod(axes[:-3], dtype=object)), *axes[-3:]]
        self.whole = [1] * (4 - len(axes)) + axes
        self.tile = doubled([1, 1, 1], [power_of_two(extent) for extent in self.whole[1:]], 18)


    def stored(self, values):
        """Returns computed values as elements."""
        if self.element == "bf16":
            bits = values.view("u4").astype("u8")
            return (bits + 0x7FFF + (bits >> 16 & 1) >> 16).astype("u2")
        if self.element[0] == "f":
            with np.errstate(over="ignore"):
                return values.astype(self.element)
        limits = np.iinfo(self.element)
        return np.clip(np.rint(values), limits.min, limits.max).astype(self.element)


def power_of_two(extent):
    """Returns the smallest power of two that is not below an extent."""
    return 1 << (extent - 1).bit_length()


def doubled(sides, limits, times):
    """Doubles the smallest side below its limit, of equal ones the last, so many times."""
    for _ in range(times):
        open_sides = [axis for axis in (2, 1, 0) if sides[axis] < limits[axis]]
        if open_sides:
            sides[min(open_sides, key=lambda axis: sides[axis])] *= 2
    return sides


def tiles_of(header):
    """Yields the origin and the extents of each block."""
    for at in product(*(range(0, whole, side) for whole, side in zip(header.whole, (1, *header.tile)))):
        yield at, tuple(np.minimum(header.tile, np.subtract(header.whole, at)[1:]).tolist())


def decode(stream):
    """Returns the array of a stream of blocks."""
    stream = bytes(stream)
    header = Header(stream)
    assert header.tile_size == 1 and header.pipeline == 2, "not a stream of blocks"
    table, chunks = struct.unpack_from("<2Q", stream, len(stream) - 32)
    lengths = struct.unpack_from(f"<{chunks}I", stream, table)
    out = np.zeros(header.whole, header.stored_type)
    tiles, at = list(tiles_of(header)), 144
    for chunk, length in enumerate(lengths):
        record = stream[at : at + length]
        assert record[:4] == b"SYCK" and struct.unpack_from("<Q", record, 8) == (chunk,)
        own = tiles[chunk * header.tiles_per_chunk :][: header.tiles_per_chunk]
        assert record[16] in (0, 4)
        blocks = Chunk(header, record[32:], own).blocks() if record[16] else raw_blocks(header, record[32:], own)
        for ((b, z, y, x), (nz, ny, nx)), block in zip(own, blocks):
            out[b, z : z + nz, y : y + ny, x : x + nx] = block
        at += length
    return out.reshape(header.shape)


def raw_blocks(header, payload, tiles):
    ends = np.cumsum([np.prod(extent) for _, extent in tiles])
    elements = np.split(np.frombuffer(payload, header.stored_type, ends[-1]), ends[:-1])
    return [own.reshape(extent) for own, (_, extent) in zip(elements, tiles)]


class Bits:
    """Packed numbers."""

    def __init__(self, data):
        self.number, self.at = int.from_bytes(data, "little"), 0

    def take(self, count):
        value = self.number >> self.at & ((1 << count) - 1)
        self.at += count
        return value

    def signed(self):
        zeros = 0
        while not self.take(1):
            zeros += 1
        code = (1 << zeros | self.take(zeros)) - 1
        return code >> 1 ^ -(code & 1)


def wrapped(number):
    """Returns a number as i32."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


class Chunk:
    def __init__(self, header, payload, tiles):
        self.header, self.tiles = header, tiles
        sections, at = [], 40
        for length in struct.unpack_from("<10I", payload):
            at = align(at, 16)
            sections.append(payload[at : at + length])
            at += length
        plan, anchors, verbatim, sizes, _, words, *_ = sections
        self.cubic, self.on_grid = bool(plan[0] & 1), bool(plan[0] & 2)
        self.slices = plan[1] - 1 if plan[1] else None
        self.share, self.in_boxes = (0.0, 0.75, 1.0)[plan[2]], bool(plan[3])
        self.tables = read_tables(Bits(plan[4:]))
        self.anchors, self.first_anchor = Bits(anchors), 0
        self.read_verbatim(verbatim)
        self.patterns = header.fills + ([] if 0 in header.fills else [0])
        self.sizes = Bits(sizes)
        self.lanes = [1 << self.sizes.take(4) for _ in tiles]
        self.base, self.width = self.sizes.take(32), self.sizes.take(8)
        self.words = np.frombuffer(words, "<u2").tolist()
        self.step = np.array(header.step, header.dtype)
        self.inverse = (1 / self.step.astype("f8")).astype(header.dtype)

    def read_verbatim(self, section):
        count = struct.unpack_from("<I", section)[0] if section else 0
        self.positions = np.frombuffer(section[4:], "<u4", count)
        self.verbatim = np.frombuffer(section[align(4 + 4 * count, 8) :], self.header.stored_type, count)

    def blocks(self):
        position = 0
        for lanes, (_, extent) in zip(self.lanes, self.tiles):
            values, codes = Block(self, extent).decode(lanes)
            low, high = np.array(self.header.range, self.header.dtype)
            if not np.isnan(low):
                values = np.where(values > low, values, low)
                values = np.where(values < high, values, high)
            values = self.header.stored(values)
            bits = values.view(f"u{values.itemsize}")
            for number, pattern in enumerate(self.patterns):
                bits[codes == MASK + number] = pattern
            assert codes.max() < MASK + len(self.patterns)
            own = (self.positions >= position) & (self.positions < position + values.size)
            values.reshape(-1)[self.positions[own] - position] = self.verbatim[own]
            position += values.size
            yield values

    def value(self, q):
        """Returns the values of integers, as "Quantized chunks" states."""
        if self.header.dtype == "f8":
            return q.astype("f8") * self.header.step
        high = np.float32(self.header.step)
        low = np.float32(self.header.step - np.float64(high))
        return fma(q.astype("f4"), high, q.astype("f4") * low, "f4")


def read_tables(bits):
    """Returns for each context the symbol, the frequency, and the start of each slot."""
    precision, tables = bits.take(3), []
    for _ in range(133):
        if not bits.take(1):
            tables.append(tables[-1])
            continue
        weights, before = [], 10
        for _ in range(bits.take(7)):
            exponent = before + bits.signed()
            weight = 0
            if exponent:
                kept = min(precision, exponent - 1)
                weight = (1 << kept | bits.take(kept)) << (exponent - 1 - kept)
                before = exponent
            weights.append(weight)
        if not any(weights):
            weights = [1]
        frequencies = [max(weight * 2048 // sum(weights), 1) if weight else 0 for weight in weights]
        frequencies[frequencies.index(max(frequencies))] += 2048 - sum(frequencies)
        slots = []
        for symbol, frequency in enumerate(frequencies):
            slots += [(symbol, frequency, len(slots))] * frequency
        tables.append(slots)
    return tables


def number_of(code):
    """Returns the number that a code stands for."""
    return -2 * code - 1 if code < 0 else 2 * code


def part_of(chunk, lanes):
    """Returns the units of a part."""
    return [Unit(chunk, min(lanes, MOST_LANES)) for _ in range(max(lanes // MOST_LANES, 1))]


class Unit:
    """Reads the codes of a unit."""

    def __init__(self, chunk, lanes):
        above = chunk.sizes.take(chunk.width)
        size = chunk.base + above if above else 0
        self.words, chunk.words = chunk.words[:size], chunk.words[size:]
        self.tables, self.lanes = chunk.tables, lanes
        if size:
            first = iter(self.words[: 2 * lanes])
            self.states = [low | high << 16 for low, high in zip(first, first)]
            self.at = 2 * lanes

    def fill(self, lane):
        if self.states[lane] < 1 << 16:
            self.states[lane] = self.states[lane] << 16 | self.words[self.at]
            self.at += 1

    def segment(self, contexts):
        """Returns the codes of a segment."""
        kind = contexts[0] // 23
        expected = {23 * kind: 0, 23 * kind + 22: MASK}
        quiet = [place for place, context in enumerate(contexts) if context in expected]
        if len(quiet) < LEAST_QUIET:
            return self.list(contexts)
        count = number_of(self.list([115 + kind])[0])
        if count > len(quiet) // 8:
            return self.list(contexts)
        # Those that are not coded are None.
        coded = [None if context in expected else context for context in contexts]
        gaps = self.list([125 + (len(quiet) // count).bit_length() - 1 - 3] * count) if count else []
        number = -1
        for gap in gaps:
            number += number_of(gap) + 1
            if number < len(quiet):
                place = quiet[number]
                coded[place] = 120 + kind if contexts[place] == 23 * kind else contexts[place]
        codes = iter(self.list([context for context in coded if context is not None]))
        return [expected[context] if own is None else next(codes) for own, context in zip(coded, contexts)]

    def list(self, contexts):
        """Returns the codes of a list."""
        codes = [0] * len(contexts)
        if not self.words:
            return codes
        for start in range(0, len(contexts), self.lanes):
            group = contexts[start : start + self.lanes]
            taken = []
            for lane, context in enumerate(group):
                state = self.states[lane]
                symbol, frequency, first = self.tables[context][state & 2047]
                state = frequency * (state >> 11) + (state & 2047) - first
                count = (symbol > 0) if symbol < 8 else (symbol - 8) // 4 + 2 if symbol < 68 else 0
                now = min(count, 5)
                taken.append((symbol, count, state & ((1 << now) - 1)))
                self.states[lane] = state >> now
                self.fill(lane)
            for lane, (symbol, count, raw) in enumerate(taken):
                if count > 5:
                    raw |= (self.states[lane] & ((1 << (count - 5)) - 1)) << 5
                    self.states[lane] >>= count - 5
                    self.fill(lane)
                magnitude = (symbol if symbol < 8 else (4 + symbol % 4) << ((symbol - 8) // 4 + 1)) + (raw >> 1)
                code = -magnitude if raw & 1 else magnitude
                codes[start + lane] = code if symbol < 68 else MASK + symbol - 68
        return codes


class Block:
    def __init__(self, chunk, extent):
        self.chunk, self.dtype, self.extent = chunk, chunk.header.dtype, extent
        slices = chunk.slices
        self.order = sorted(range(3), key=lambda axis: (axis != slices, extent[axis], axis))
        self.own = tuple(extent[axis] for axis in self.order)
        self.halved = [slices is None, True, True]
        self.values = np.zeros(self.own, self.dtype)
        self.plain = np.zeros(self.own, self.dtype)
        self.codes = np.zeros(self.own, int)

    def decode(self, lanes):
        chunk, levels, extent = self.chunk, 0, list(self.own)
        while any(halved and n > 1 for halved, n in zip(self.halved, extent)):
            extent = [-(-n // 2) if halved else n for halved, n in zip(self.halved, extent)]
            levels += 1
        coarse = part_of(chunk, lanes)
        self.boxes = self.boxes_of(levels)
        fine = [part_of(chunk, min(max(lanes // 4, 1), MOST_LANES)) for _ in self.boxes]
        self.read_anchors(extent)
        for level in reversed(range(levels)):
            for number in PASSES:
                if level == 0 and chunk.in_boxes:
                    for part, box in zip(fine, self.boxes):
                        self.read_codes(part, level, number, box)
                else:
                    self.read_codes(coarse, level, number, None)
            for number in PASSES:
                self.reconstruct(level, number)
        used = [unit for part in (coarse, *fine) for unit in part if unit.words]
        assert all(set(unit.states) == {1 << 16} and unit.at == len(unit.words) for unit in used)
        back = np.argsort(self.order)
        return np.ascontiguousarray(self.values.transpose(back)), self.codes.transpose(back)

    def boxes_of(self, levels):
        """Returns the boxes of the first level: ranges of its elements in a class, along each axis."""
        if not self.chunk.in_boxes:
            return []
        halved = self.halved if levels else [False] * 3
        sides = doubled([1, 1, 1], [power_of_two(n) for n in self.own], 15)
        sides = [-(-side // 2) if half else side for side, half in zip(sides, halved)]
        extent = [-(-n // 2) if half else n for n, half in zip(self.own, halved)]
        grid = product(*(range(0, n, side) for n, side in zip(extent, sides)))
        return [[(start, start + side) for start, side in zip(at, sides)] for at in grid]

    def read_anchors(self, extent):
        chunk = self.chunk
        count = extent[0] if not self.halved[0] else 1
        before, integer = chunk.first_anchor, 0
        for number in range(count):
            if chunk.anchors.take(1):
                self.codes[number, 0, 0] = MASK + chunk.anchors.take(3)
            else:
                before = integer = wrapped(before + chunk.anchors.signed())
                if number == 0:
                    chunk.first_anchor = integer
            self.values[number, 0, 0] = chunk.value(np.array(integer))

    def places(self, level, number):
        """Returns the places of a class of a level along each axis."""
        # Along the axis of the slices, which is not halved, all; there is no class with its bit.
        axes = zip((number & 1, number >> 1 & 1, number >> 2), self.own, self.halved)
        return [np.arange(bit << level, n, 2 << level) if half else np.arange(n * (1 - bit)) for bit, n, half in axes]

    def read_codes(self, part, level, number, box):
        places = self.places(level, number)
        if box is not None:
            places = [along[start:end] for along, (start, end) in zip(places, box)]
        if not all(map(len, places)):
            return
        grid = np.ix_(*places)
        contexts = self.contexts(level, number, places, box)
        own = contexts.reshape(-1).tolist()
        segments = [own[start : start + SEGMENT] for start in range(0, len(own), SEGMENT)]
        codes = [part[place % len(part)].segment(segment) for place, segment in enumerate(segments)]
        self.codes[grid] = np.reshape(np.concatenate(codes), contexts.shape)

    def contexts(self, level, number, places, box):
        is_mask = self.codes >= MASK
        magnitudes, sums, masks = np.where(is_mask, 0, np.minimum(np.abs(self.codes), LARGEST)), 0, 0
        axes = [axis for axis in range(3) if number >> axis & 1]
        for axis in axes:
            before, after = list(places), list(places)
            before[axis] = places[axis] - (1 << level)
            after[axis] = places[axis] + (1 << level)
            exists = after[axis] < self.own[axis]
            if level == 0 and self.chunk.in_boxes and len(axes) > 1:
                exists &= after[axis] // 2 < box[axis][1]
            after[axis] = np.where(exists, after[axis], before[axis])
            sums = sums + magnitudes[np.ix_(*before)] + magnitudes[np.ix_(*after)]
            masks = masks + is_mask[np.ix_(*before)] + is_mask[np.ix_(*after)].astype(int)
        t = sums * (6 // len(axes))
        w = 3 + 2 * t
        e = np.frexp(w.astype("f8"))[1] - 1
        o = 2 * e + (2 * w >= 3 << e) - 3
        kind = len(axes) - 1 if level == 0 else min(level + 2, 4)
        among = 20 + (masks >= len(axes)) + (masks == 2 * len(axes))
        return 23 * kind + np.where(masks > 0, among, np.where(o <= 10, o, 10 + (o - 10) // 2))

    def along(self, places, axis, level):
        """Returns the prediction along an axis."""
        dtype, n, step = self.dtype, self.own[axis], 1 << level
        number = np.dtype(dtype).type

        def neighbor(steps):
            there = list(places)
            there[axis] = np.clip(places[axis] + steps * step, 0, n - 1)
            shape = [1, 1, 1]
            shape[axis] = -1
            exists = (places[axis] + steps * step >= 0) & (places[axis] + steps * step < n)
            return self.values[np.ix_(*there)], exists.reshape(shape)

        (p, has_p), (a, _), (b, has_b), (n, has_n) = (neighbor(steps) for steps in (-3, -1, 1, 3))
        middle = (a + b) * number(0.5)
        outer = np.where(has_p, fma(a, 1.5, p * number(-0.5), dtype), a)
        if not self.chunk.cubic:
            return np.where(has_b, middle, outer)
        four = fma(a + b, 0.5625, (p + n) * number(-0.0625), dtype)
        left = fma(a, 0.75, fma(b, 0.375, p * number(-0.125), dtype), dtype)
        right = fma(b, 0.75, fma(a, 0.375, n * number(-0.125), dtype), dtype)
        inner = np.where(has_p, np.where(has_n, four, left), np.where(has_n, right, middle))
        return np.where(has_b, inner, outer)

    def reconstruct(self, level, number):
        chunk, places = self.chunk, self.places(level, number)
        if not all(len(along) for along in places):
            return
        axes = [axis for axis in range(3) if number >> axis & 1]
        plain = sum((self.along(places, axis, level) for axis in axes[1:]), self.along(places, axes[0], level))
        if len(axes) > 1:
            plain = plain * np.dtype(self.dtype).type(0.5 if len(axes) == 2 else 1 / 3)
        error = np.zeros_like(plain[0])
        for place, j in zip(places[0], plain) if not self.halved[0] else [(places[0], plain)]:
            f = fma(chunk.share, error, j, self.dtype) if chunk.share else j
            grid = np.ix_(np.atleast_1d(place), places[1], places[2])
            codes = self.codes[grid].reshape(f.shape)
            value = self.value(f, np.where(codes < MASK, codes, 0))
            self.values[grid] = value.reshape(self.values[grid].shape)
            if chunk.share:
                error = value - j

    def value(self, f, codes):
        chunk = self.chunk
        if chunk.on_grid:
            g = np.rint(f * chunk.inverse)
            g = np.where(np.abs(g) < 2**30, g, 0).astype(int)
            return chunk.value(wrapped(g + codes))
        return np.where(codes == 0, f, fma(codes.astype(self.dtype), chunk.step, f, self.dtype))

