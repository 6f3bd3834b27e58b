// Makes the elements of tiles of numbers from the symbols of their bins and their raw bits, a tile a warp.
//
// Symbols and raw bits of a tile are copied to shared memory, where its codes take the place of the raw bits. Each lane
// has 16 bytes of codes at a time, also to add up and to write a tile that is one row.
//
// THREADS  threads of a block
// TILES    tiles of a warp, one after another; all tiles of a block are of one chunk
// FLOATS   1: elements are floating-point numbers
#include "lossless/own_codes.cuh"
#include "predict/integrate.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Status of a chunk whose raw bits are not those of its codes: STATUS_RAW_BITS in src/lossless/read_numbers.rs.
constexpr uint32_t WRONG_RAW_BITS = 4;
constexpr uint32_t MASK_ALL = 1, MASK_BITMAP = 2;
// Bytes of shared memory of a warp for the raw bits of a tile, which give way to its numbers from the front on, and for
// its symbols, each with what is left of the first and the last unit of 16 bytes.
constexpr uint32_t VALUE_BYTES = format::MAX_TILE_ELEMENTS * ELEMENT_BYTES + 48 + RAW_BYTES_BEHIND,
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
    const Digits &digits;
    const uint8_t *input;
    const uint8_t *bytes;
    const uint16_t *words;
    const NumberStreams &streams;
};

// Reads the codes of a tile to `values`. Returns whether the tile has the right number of raw bits. Called by the whole
// warp.
__device__ inline bool read_tile(const RestoredChunk &own, const NumberTile &facts, uint32_t elements, uint8_t *values,
                                 uint8_t *symbols) {
    const NumberChunk &chunk = own.chunk;
    if ((facts.info & 1) != 0) {
        const word_t center = word_t(chunk.center);
        for (uint32_t i = lane_id(); i < elements; i += WARP) {
            reinterpret_cast<word_t *>(values)[i] = center;
        }
        __syncwarp();
        return true;
    }
    const bool is_narrow = chunk.symbol_bytes == 1;
    const uint64_t symbol = own.streams.symbols + facts.symbol;
    const uint8_t *from = is_narrow ? own.bytes + symbol : reinterpret_cast<const uint8_t *>(own.words + symbol);
    const uint8_t *staged = stage(from, ceil_div(elements, chunk.tuple) * chunk.symbol_bytes, symbols);
    // Raw bits end behind the codes, which take their place.
    const uint32_t raw_bytes = min_of<uint32_t>(facts.raw_end - facts.raw_start, elements * ELEMENT_BYTES);
    const uint8_t *raw_bits = own.input + chunk.raw_bits + facts.raw_start;
    const uint32_t before = uint32_t(reinterpret_cast<uint64_t>(raw_bits) % 16);
    const uint32_t end = 16 * ceil_div(elements * ELEMENT_BYTES, 16) + 32;
    uint8_t *raw = values + end - 16 * ceil_div(before + raw_bytes, 16);
    stage(raw_bits, raw_bytes, raw);
    wait_for_copies();
    __syncwarp();
    const TileSource source{own.digits,
                            own.table,
                            staged,
                            is_narrow,
                            reinterpret_cast<const uint32_t *>(raw),
                            ceil_div(before + raw_bytes, 4)};
    const uint32_t bits = read_codes(source, chunk.tuple, elements, 8 * before, reinterpret_cast<uint4 *>(values));
    __syncwarp();
    return (bits + 7) / 8 == facts.raw_end - facts.raw_start;
}

// Makes elements of the numbers of a tile.
struct Elements {
    const NumberChunk &chunk;
    const uint8_t *flags;
    const uint16_t *rests;
    uint32_t mask;

    // Replaces numbers from `first` on by elements. `numbers[k]` is that of element `first + k * step`.
    template <uint32_t COUNT>
    __device__ inline void replace(uint32_t first, uint32_t step, uint32_t count, word_t (&numbers)[COUNT]) const {
        if (chunk.mode == ORDERED) {
#pragma unroll
            for (uint32_t k = 0; k < COUNT; ++k) {
                numbers[k] = FLOATS ? ordered_bits(numbers[k]) : numbers[k];
            }
        } else {
            const bool has_rests = chunk.mode == SCALED_ULPS || chunk.mode == SPLIT;
#pragma unroll
            for (uint32_t k = 0; k < COUNT; ++k) {
                const uint32_t i = first + k * step;
                numbers[k] = element_of_number(numbers[k], has_rests && i < count ? rests[i] : 0, chunk);
            }
        }
        if (mask != 0) {
            const word_t pattern = word_t(chunk.pattern);
#pragma unroll
            for (uint32_t k = 0; k < COUNT; ++k) {
                const uint32_t i = first + k * step;
                numbers[k] = mask == MASK_ALL || (i < count && flags[i] != 0) ? pattern : numbers[k];
            }
        }
    }
};

// Makes the elements of a tile that is one row from its codes. Called by the whole warp.
__device__ inline void restore_row(const Elements &elements, uint32_t count, word_t base, const uint8_t *codes_at,
                                   word_t *to) {
    const bool is_aligned = reinterpret_cast<uint64_t>(to) % 16 == 0;
    const uint32_t predictor = elements.chunk.predictor;
    RowSums sums;
    for (uint32_t begin = 0; begin < count; begin += ALL_OWN) {
        const uint32_t first = begin + OWN * lane_id();
        word_t codes[OWN];
        unpack(reinterpret_cast<const uint4 *>(codes_at)[min_of(first, count - 1) / OWN], codes);
        if (predictor != 0) {
            sums.add_up(codes, predictor, first, base);
        }
        elements.replace(first, 1, count, codes);
        if (is_aligned && first + OWN <= count) {
            *reinterpret_cast<uint4 *>(to + first) = packed(codes);
        } else {
#pragma unroll
            for (uint32_t k = 0; k < OWN; ++k) {
                if (first + k < count) {
                    to[first + k] = codes[k];
                }
            }
        }
    }
}

// Makes the elements of a tile of rows from its codes, which become its numbers. Called by the whole warp.
__device__ inline void restore_rows(const Elements &elements, const Geometry &geometry, const Tile &tile, word_t base,
                                    word_t *values, word_t *to) {
    // Elements of a lane at a time.
    constexpr uint32_t COUNT = 4;
    const uint32_t count = tile.elements(), predictor = elements.chunk.predictor;
    if (predictor != 0) {
        if (lane_id() == 0) {
            values[0] = base;
        }
        __syncwarp();
        integrate(values, Extents{{tile.nz, tile.ny, tile.nx}}, predictor);
    }
    const RasterOffsets offsets(geometry, tile);
    for (uint32_t first = lane_id(); first < count; first += COUNT * WARP) {
        word_t own[COUNT];
#pragma unroll
        for (uint32_t k = 0; k < COUNT; ++k) {
            own[k] = values[min_of(first + k * WARP, count - 1)];
        }
        elements.replace(first, WARP, count, own);
#pragma unroll
        for (uint32_t k = 0; k < COUNT; ++k) {
            if (first + k * WARP < count) {
                to[offsets.of(first + k * WARP)] = own[k];
            }
        }
    }
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
    const Digits digits{chunk.bins, chunk.tuple};
    const NumberStreams located = streams[chunk_number];
    const RestoredChunk own{chunk, table, digits, input, bytes, words, located};
    const uint32_t chunk_first = batch.chunk_first(chunk_number), chunk_end = batch.chunk_first(chunk_number + 1);
    uint8_t *values = shared[warp_id()], *symbols = values + VALUE_BYTES;
    for (uint32_t i = 0; i < TILES; ++i) {
        const uint32_t number = chunk_first + (block * TILES + i) * WARPS + warp_id();
        if (number < first_tile || number >= min_of(end_tile, chunk_end)) {
            continue;
        }
        const NumberTile facts = tiles[number];
        const Tile tile = geometry.tile(batch.first_tile + number);
        const uint32_t position = position_in_chunk(geometry, batch, tile, chunk_number);
        const Elements elements{chunk, flags[warp_id()], words + located.rests + position, facts.info >> 1};
        if (elements.mask == MASK_BITMAP) {
            read_mask(tile, bytes + located.masks + facts.mask, flags[warp_id()]);
        }
        const word_t base = chunk.predictor != 0 ? bases[number] : word_t(0);
        word_t *to = slab + (tile.first_element - first_element);
        const bool is_good = read_tile(own, facts, tile.elements(), values, symbols);
        if (tile.nz * tile.ny == 1) {
            restore_row(elements, tile.nx, base, values, to);
        } else {
            restore_rows(elements, geometry, tile, base, reinterpret_cast<word_t *>(values), to);
        }
        if (!is_good && lane_id() == 0) {
            atomicOr(&statuses[chunk_number], WRONG_RAW_BITS);
        }
        __syncwarp();
        if (chunk.verbatim > 0) {
            const RasterOffsets offsets(geometry, tile);
            write_verbatim(chunk, input, position, tile.elements(),
                           [&](uint32_t at, word_t element) { to[offsets.of(at)] = element; });
            __syncwarp();
        }
    }
}
