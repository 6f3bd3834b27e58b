// Makes the elements of tiles of numbers from the symbols of their bins and their raw bits, a tile a warp.
//
// Symbols and raw bits of a tile are copied to shared memory. Tiles that are one row go from registers to the array,
// 16 bytes a lane. Others go through shared memory once more.
//
// THREADS  threads of a block
// TILES    tiles of a warp, one after another; all tiles of a block are of one chunk
// FLOATS   1: elements are floating-point numbers
#include "lossless/own_codes.cuh"
#include "predict/integrate.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Status of a chunk whose raw bits are not those of its codes: STATUS_NUMBERS in src/lossless/read_numbers.rs.
constexpr uint32_t WRONG_RAW_BITS = 4;
constexpr uint32_t MASK_ALL = 1, MASK_BITMAP = 2;
// Bytes of shared memory of a warp for the raw bits of a tile, which give way to its numbers from the front on, and for
// its symbols, each with what is left of the first and the last unit of 16 bytes.
constexpr uint32_t VALUE_BYTES = format::MAX_TILE_ELEMENTS * ELEMENT_BYTES + 48,
                   SYMBOL_BYTES = format::MAX_TILE_ELEMENTS + 32, WARP_BYTES = VALUE_BYTES + SYMBOL_BYTES;

// Reads the bitmap of a tile, each of whose bits is the exclusive or with that of a neighbor, to a flag for each
// element. Called by the whole warp.
__device__ inline void read_mask(const Tile &tile, const uint8_t *bytes, uint8_t *flags) {
    for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
        flags[i] = bytes[i / 8] >> i % 8 & 1;
    }
    __syncwarp();
    // Along the first row, then from row to row of the first plane, then from plane to plane.
    const uint32_t nx = tile.nx, plane = tile.ny * nx;
    uint32_t carry = 0;
    for (uint32_t window = 0; window < nx; window += WARP) {
        const uint32_t x = window + lane_id(), set = __ballot_sync(ALL_LANES, x < nx && flags[x] != 0);
        if (x < nx) {
            flags[x] = uint8_t((carry + __popc(set & (ALL_LANES >> (WARP - 1 - lane_id())))) & 1);
        }
        carry += __popc(set);
    }
    __syncwarp();
    for (uint32_t x = lane_id(); x < nx; x += WARP) {
        for (uint32_t i = x + nx; i < plane; i += nx) {
            flags[i] ^= flags[i - nx];
        }
    }
    __syncwarp();
    for (uint32_t i = lane_id(); i < plane; i += WARP) {
        for (uint32_t at = i + plane; at < tile.elements(); at += plane) {
            flags[at] ^= flags[at - plane];
        }
    }
    __syncwarp();
}

// Writes the elements of a tile that are verbatim. `write` gets the number of each in the tile. Called by the whole
// warp.
template <typename Write>
__device__ inline void write_verbatim(const NumberChunk &chunk, const uint8_t *input, uint32_t position,
                                      uint32_t elements, Write write) {
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + chunk.positions);
    const word_t *list = reinterpret_cast<const word_t *>(input + chunk.elements);
    uint32_t low = 0, high = chunk.verbatim;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (positions[middle] < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (uint32_t i = low + lane_id(); i < chunk.verbatim; i += WARP) {
        const uint32_t place = positions[i] - position;
        if (place >= elements) {
            break;
        }
        write(place, list[i]);
    }
}

// Replaces the codes of a row by their sums, as `integrate` does, the own codes of all lanes at once. `base` is the
// first number of the row.
struct RowSums {
    typedef typename SumOf<word_t>::Type Sum;
    Sum before = 0, differences = 0;

    __device__ inline void add_up(word_t (&codes)[OWN], uint32_t predictor, uint32_t first, word_t base) {
        if (predictor == format::SECOND_ORDER) {
            // Differences are added up from the second element on.
            if (first == 0) {
                codes[0] = 0;
            }
            differences = add_up(codes, differences);
        }
        if (first == 0) {
            codes[0] = base;
        }
        before = add_up(codes, before);
    }

  private:
    // Returns the sum of everything up to the last lane.
    __device__ inline Sum add_up(word_t (&codes)[OWN], Sum carry) {
        Sum sum = 0;
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            sum += Sum(codes[k]);
            codes[k] = word_t(sum);
        }
        const Sum through = warp_inclusive_sum(sum);
        const word_t offset = word_t(carry + through - sum);
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            codes[k] = word_t(codes[k] + offset);
        }
        return carry + __shfl_sync(ALL_LANES, through, WARP - 1);
    }
};

// What the tiles of a block have in common.
struct RestoredChunk {
    const NumberChunk &chunk;
    const BinTable &table;
    const uint8_t *input;
    const uint8_t *bytes;
    const uint16_t *words;
    NumberStreams streams;
};

// The memory of a warp.
struct WarpMemory {
    uint8_t *values;
    uint8_t *symbols;

    __device__ inline word_t *words() const { return reinterpret_cast<word_t *>(values); }
};

// Reads the codes of a tile, those of each lane by `take(first, codes)`, which may write the codes to the front of
// `memory.values`. Returns whether the tile has the right number of raw bits. Called by the whole warp.
template <typename Take>
__device__ inline bool read_tile(const RestoredChunk &own, const NumberTile &facts, uint32_t elements,
                                 const WarpMemory &memory, Take take) {
    const NumberChunk &chunk = own.chunk;
    if ((facts.info & 1) != 0) {
        for (uint32_t begin = 0; begin < elements; begin += OWN * WARP) {
            word_t codes[OWN];
#pragma unroll
            for (uint32_t k = 0; k < OWN; ++k) {
                codes[k] = word_t(chunk.center);
            }
            take(begin + OWN * lane_id(), codes);
        }
        return true;
    }
    const Digits digits{chunk.bins, chunk.tuple};
    const bool is_narrow = chunk.symbol_bytes == 1;
    const uint64_t symbol = own.streams.symbols + facts.symbol;
    const uint8_t *from = is_narrow ? own.bytes + symbol : reinterpret_cast<const uint8_t *>(own.words + symbol);
    const uint8_t *symbols = stage(from, ceil_div(elements, chunk.tuple) * chunk.symbol_bytes, memory.symbols);
    // Raw bits end behind the numbers. What is left of them never takes more than the numbers that are left, so that
    // numbers take the place of bits that were read. In damaged chunks this may not be so, and does no harm.
    const uint32_t raw_bytes = min_of<uint32_t>(facts.raw_end - facts.raw_start, elements * ELEMENT_BYTES);
    const uint8_t *raw_bits = own.input + chunk.raw_bits + facts.raw_start;
    const uint32_t before = uint32_t(reinterpret_cast<uint64_t>(raw_bits) % 16);
    const uint32_t end = 16 * ceil_div(elements * ELEMENT_BYTES, 16) + 32;
    uint8_t *to = memory.values + end - 16 * ceil_div(before + raw_bytes, 16);
    stage(raw_bits, raw_bytes, to);
    const uint32_t *raw = reinterpret_cast<const uint32_t *>(to);
    const uint32_t words = max_of(ceil_div(before + raw_bytes, 4), 1u), start = 8 * before;
    wait_for_copies();
    __syncwarp();
    uint32_t at = start;
    for (uint32_t begin = 0; begin < elements; begin += OWN * WARP) {
        const uint32_t first = begin + OWN * lane_id();
        word_t codes[OWN];
        at += read_own_codes(
            digits, own.table, first, elements,
            [&](uint32_t i) -> uint32_t {
                return is_narrow ? symbols[i] : reinterpret_cast<const uint16_t *>(symbols)[i];
            },
            raw, words, at, codes);
        __syncwarp();
        take(first, codes);
    }
    return (at - start + 7) / 8 == facts.raw_end - facts.raw_start;
}

// Makes elements of numbers.
struct Elements {
    const NumberChunk &chunk;
    const uint8_t *flags;
    const uint16_t *rests;
    uint32_t mask;

    __device__ inline word_t of(uint32_t i, word_t number) const {
        if (mask == MASK_ALL || (mask == MASK_BITMAP && flags[i] != 0)) {
            return word_t(chunk.pattern);
        }
        const bool has_rests = chunk.mode == SCALED_ULPS || chunk.mode == SPLIT;
        return element_of_number(number, has_rests ? rests[i] : 0, chunk);
    }
};

// Makes the elements of a tile that is one row. Returns whether it has so many raw bits. Called by the whole warp.
__device__ inline bool restore_row(const RestoredChunk &own, const NumberTile &facts, uint32_t count, word_t base,
                                   const Elements &elements, const WarpMemory &memory, word_t *to) {
    const bool is_aligned = reinterpret_cast<uint64_t>(to) % 16 == 0;
    RowSums sums;
    return read_tile(own, facts, count, memory, [&](uint32_t first, word_t(&codes)[OWN]) {
        if (own.chunk.predictor != 0) {
            sums.add_up(codes, own.chunk.predictor, first, base);
        }
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            codes[k] = first + k < count ? elements.of(first + k, codes[k]) : word_t(0);
        }
        if (is_aligned && first + OWN <= count) {
            *reinterpret_cast<uint4 *>(to + first) = packed(codes);
            return;
        }
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            if (first + k < count) {
                to[first + k] = codes[k];
            }
        }
    });
}

// Makes the elements of a tile of rows. Returns whether it has so many raw bits. Called by the whole warp.
__device__ inline bool restore_rows(const RestoredChunk &own, const NumberTile &facts, const Geometry &geometry,
                                    const Tile &tile, word_t base, const Elements &elements, const WarpMemory &memory,
                                    word_t *to) {
    const uint32_t count = tile.elements();
    word_t *values = memory.words();
    const bool is_good = read_tile(own, facts, count, memory, [&](uint32_t first, word_t(&codes)[OWN]) {
        if (first < count) {
            *reinterpret_cast<uint4 *>(values + first) = packed(codes);
        }
    });
    __syncwarp();
    if (own.chunk.predictor != 0) {
        if (lane_id() == 0) {
            values[0] = base;
        }
        __syncwarp();
        integrate(values, Extents{{tile.nz, tile.ny, tile.nx}}, own.chunk.predictor);
    }
    for (uint32_t i = lane_id(); i < count; i += WARP) {
        to[raster_offset(geometry, tile, i)] = elements.of(i, values[i]);
    }
    __syncwarp();
    return is_good;
}

// Makes tiles `first_tile` to `end_tile`, counted in the batch, of the chunks that are wanted and whose status is 0.
// `slab` has the array's elements from `first_element` on. Each chunk from that of the first tile on has blocks for all
// of its tiles.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_restore(Geometry geometry, ChunkBatch batch, uint32_t first_tile, uint32_t end_tile, const uint8_t *input,
                    const NumberChunk *chunks, const NumberBins *bins, const NumberTile *tiles, const word_t *bases,
                    const NumberStreams *streams, const uint8_t *bytes, const uint16_t *words, uint32_t *statuses,
                    word_t *slab, uint64_t first_element) {
    __shared__ __align__(16) uint8_t shared[WARPS][WARP_BYTES];
    __shared__ BinTable table;
    __shared__ NumberChunk chunk;
    __shared__ uint8_t flags[WARPS][format::MAX_TILE_ELEMENTS];
    const uint32_t blocks = ceil_div(min_of(batch.chunk_tiles, batch.tiles), TILES * WARPS),
                   of_chunk = blockIdx.x / blocks;
    const uint32_t block = blockIdx.x - of_chunk * blocks, chunk_number = first_tile / batch.chunk_tiles + of_chunk;
    if (streams[chunk_number].is_wanted == 0 || statuses[chunk_number] != 0) {
        return;
    }
    if (threadIdx.x < sizeof(NumberChunk) / 4) {
        reinterpret_cast<uint32_t *>(&chunk)[threadIdx.x] =
            reinterpret_cast<const uint32_t *>(&chunks[chunk_number])[threadIdx.x];
    }
    table.load(bins[chunk_number], chunks[chunk_number].bins);
    __syncthreads();
    const RestoredChunk own{chunk, table, input, bytes, words, streams[chunk_number]};
    const uint32_t chunk_first = batch.chunk_first(chunk_number), chunk_end = batch.chunk_first(chunk_number + 1);
    const WarpMemory memory{shared[warp_id()], shared[warp_id()] + VALUE_BYTES};
    for (uint32_t i = 0; i < TILES; ++i) {
        const uint32_t number = chunk_first + (block * TILES + i) * WARPS + warp_id();
        if (number < first_tile || number >= min_of(end_tile, chunk_end)) {
            continue;
        }
        const NumberTile facts = tiles[number];
        const Tile tile = geometry.tile(batch.first_tile + number);
        const uint32_t position = position_in_chunk(geometry, batch, tile, chunk_number);
        const Elements elements{chunk, flags[warp_id()], words + own.streams.rests + position, facts.info >> 1};
        if (elements.mask == MASK_BITMAP) {
            read_mask(tile, bytes + own.streams.masks + facts.mask, flags[warp_id()]);
        }
        const word_t base = chunk.predictor != 0 ? bases[number] : word_t(0);
        word_t *to = slab + (tile.first_element - first_element);
        const bool is_good = tile.nz * tile.ny == 1
                                 ? restore_row(own, facts, tile.nx, base, elements, memory, to)
                                 : restore_rows(own, facts, geometry, tile, base, elements, memory, to);
        if (!is_good && lane_id() == 0) {
            atomicOr(&statuses[chunk_number], WRONG_RAW_BITS);
        }
        __syncwarp();
        if (chunk.verbatim > 0) {
            write_verbatim(chunk, input, position, tile.elements(),
                           [&](uint32_t at, word_t element) { to[raster_offset(geometry, tile, at)] = element; });
            __syncwarp();
        }
    }
}
