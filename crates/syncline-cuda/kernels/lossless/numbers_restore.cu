// Makes the elements of tiles of numbers from the symbols of their bins and their raw bits, a tile a warp.
//
// THREADS  threads of a block
// FLOATS   1: elements are floating-point numbers
#include "lossless/number.cuh"
#include "predict/integrate.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Consecutive codes of a lane.
constexpr uint32_t OWN = 4;
// Status of a chunk whose raw bits are not those of its codes: STATUS_NUMBERS in src/lossless/read_numbers.rs.
constexpr uint32_t WRONG_RAW_BITS = 4;
constexpr uint32_t MASK_ALL = 1, MASK_BITMAP = 2;

// Returns `width` bits from bit `at` of the raw bits on. Reads within these whatever the place is.
__device__ inline uint64_t raw_bits_at(const uint32_t *words, uint32_t count, uint64_t at, uint32_t width) {
    const uint32_t word = uint32_t(min_of<uint64_t>(at / 32, count - 3)), shift = uint32_t(at) % 32;
    const uint64_t low = words[word] | uint64_t(words[word + 1]) << 32;
    const uint64_t bits = low >> shift | (shift == 0 ? 0 : uint64_t(words[word + 2]) << (64 - shift));
    return width == 64 ? bits : bits & ~(~uint64_t(0) << width);
}

// Writes the codes of a tile, with the center added, to `values`. `symbol(i)` is the symbol of bins `i`. Returns the
// number of their raw bits. Called by the whole warp.
template <typename Symbol>
__device__ inline uint64_t read_codes(const NumberChunk &chunk, const NumberBins &bins, const uint8_t *input,
                                      uint64_t raw_start, uint32_t elements, Symbol symbol, word_t *values) {
    const uint32_t count = chunk.bins, tuple = chunk.tuple, words = chunk.raw_bytes / 4;
    const uint32_t *raw = reinterpret_cast<const uint32_t *>(input + chunk.raw_bits);
    uint32_t alphabet = 1;
    for (uint32_t i = 0; i < tuple; ++i) {
        alphabet *= count;
    }
    uint64_t before = 0;
    for (uint32_t begin = 0; begin < elements; begin += OWN * WARP) {
        const uint32_t first = begin + OWN * lane_id();
        uint32_t own_bins[OWN], sizes[OWN], sum = 0;
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            const uint32_t i = first + k;
            own_bins[k] = sizes[k] = 0;
            if (i < elements) {
                const uint32_t all = symbol(i / tuple);
                uint32_t rest = all < alphabet ? all : 0;
                for (uint32_t after = i % tuple + 1; after < tuple; ++after) {
                    rest /= count;
                }
                own_bins[k] = tuple == 1 ? rest : rest % count;
                sizes[k] = bins.sizes[own_bins[k]];
            }
            sum += sizes[k] & 0xFF;
        }
        const uint32_t through = warp_inclusive_sum(sum);
        uint64_t at = 8 * raw_start + before + through - sum;
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            const uint32_t width = sizes[k] & 0xFF, shift = sizes[k] >> 8;
            if (first + k < elements) {
                const uint64_t bits = width > 0 && words >= 4 ? raw_bits_at(raw, words, at, width) : 0;
                values[first + k] = word_t((bits << shift) + bins.lows[own_bins[k]]);
            }
            at += width;
        }
        before += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
    return before;
}

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

// Replaces the elements of a tile that are verbatim. Called by the whole warp.
__device__ inline void replace_verbatim(const NumberChunk &chunk, const uint8_t *input, uint32_t position,
                                        uint32_t elements, word_t *values) {
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
        values[place] = list[i];
    }
    __syncwarp();
}

// Makes tiles `first_tile` to `end_tile`, counted in the batch, of the chunks that are wanted and whose status is 0.
// `slab` has the array's elements from `first_element` on.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_restore(Geometry geometry, ChunkBatch batch, uint32_t first_tile, uint32_t end_tile, const uint8_t *input,
                    const NumberChunk *chunks, const NumberBins *bins, const NumberTile *tiles, const word_t *bases,
                    const NumberStreams *streams, const uint8_t *bytes, const uint16_t *words, uint32_t *statuses,
                    word_t *slab, uint64_t first_element) {
    __shared__ word_t shared[WARPS][format::MAX_TILE_ELEMENTS];
    __shared__ uint8_t flags[WARPS][format::MAX_TILE_ELEMENTS];
    const uint32_t number = first_tile + blockIdx.x * WARPS + warp_id();
    if (number >= end_tile) {
        return;
    }
    const uint32_t chunk_number = number / batch.chunk_tiles;
    const NumberStreams own = streams[chunk_number];
    if (own.is_wanted == 0 || statuses[chunk_number] != 0) {
        return;
    }
    const NumberChunk &chunk = chunks[chunk_number];
    const NumberTile facts = tiles[number];
    const Tile tile = geometry.tile(batch.first_tile + number);
    const uint32_t elements = tile.elements();
    const uint32_t position =
        uint32_t(tile.elements_before - geometry.elements_before(batch.first_tile + batch.chunk_first(chunk_number)));
    word_t *values = shared[warp_id()];
    if ((facts.info & 1) != 0) {
        for (uint32_t i = lane_id(); i < elements; i += WARP) {
            values[i] = word_t(chunk.center);
        }
    } else {
        const uint8_t *narrow = bytes + own.symbols + facts.symbol;
        const uint16_t *wide = words + own.symbols + facts.symbol;
        const bool is_narrow = chunk.symbol_bytes == 1;
        const uint64_t bits = read_codes(
            chunk, bins[chunk_number], input, facts.raw_start, elements,
            [&](uint32_t i) -> uint32_t { return is_narrow ? narrow[i] : wide[i]; }, values);
        if ((bits + 7) / 8 != facts.raw_end - facts.raw_start) {
            if (lane_id() == 0) {
                atomicOr(&statuses[chunk_number], WRONG_RAW_BITS);
            }
            return;
        }
    }
    __syncwarp();
    if (chunk.predictor != 0) {
        if (lane_id() == 0) {
            values[0] = bases[number];
        }
        __syncwarp();
        integrate(values, Extents{{tile.nz, tile.ny, tile.nx}}, chunk.predictor);
    }
    const uint32_t mask = facts.info >> 1;
    if (mask == MASK_BITMAP) {
        read_mask(tile, bytes + own.masks + facts.mask, flags[warp_id()]);
    }
    const uint16_t *rests = words + own.rests + position;
    const bool has_rests = chunk.mode == SCALED_ULPS || chunk.mode == SPLIT;
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        const bool is_masked = mask == MASK_ALL || (mask == MASK_BITMAP && flags[warp_id()][i] != 0);
        const word_t element = element_of_number(values[i], has_rests ? rests[i] : 0, chunk);
        values[i] = is_masked ? word_t(chunk.pattern) : element;
    }
    __syncwarp();
    if (chunk.verbatim > 0) {
        replace_verbatim(chunk, input, position, elements, values);
    }
    word_t *to = slab + (tile.first_element - first_element);
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        to[raster_offset(geometry, tile, i)] = values[i];
    }
}
