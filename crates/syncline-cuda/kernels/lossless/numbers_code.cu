// Codes of the tiles of chunks of numbers, a tile a warp, and samples of elements and of codes.
//
// The elements of each chunk of a batch are in tile order, `stride` bytes from those of the chunk before. So are its
// codes, `code_stride` bytes apart.
//
// THREADS  threads of a block
// FLOATS   1: elements are floating-point numbers
#include "device/block.cuh"
#include "lossless/code_tile.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t MASK_ALL = 1, MASK_BITMAP = 2;
constexpr uint32_t INFO_CONSTANT = 1, INFO_HAS_BASE = 8;

// Copies the sampled elements of a chunk to `sample`, which has room for SAMPLED of each chunk: a block a chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_sample(Geometry geometry, ChunkBatch batch, const uint8_t *slots, uint64_t stride, word_t *sample) {
    const uint32_t chunk = blockIdx.x;
    const uint64_t first = batch.first_tile + batch.chunk_first(chunk),
                   end = batch.first_tile + batch.chunk_first(chunk + 1);
    const uint32_t elements = uint32_t(geometry.elements_before(end) - geometry.elements_before(first));
    const uint32_t interval = max_of(ceil_div(elements, SAMPLED), 1u), intervals = ceil_div(elements, interval);
    const word_t *from = reinterpret_cast<const word_t *>(slots + chunk * stride);
    for (uint32_t number = threadIdx.x; number < intervals; number += THREADS) {
        const uint32_t length = min_of(interval, elements - number * interval);
        const uint32_t place = __umulhi(number * 2654435769u, length);
        sample[uint64_t(chunk) * SAMPLED + number] = from[number * interval + place];
    }
}

// Codes the tiles of a batch by the plans of their chunks. `masked` and `verbatim` have TILE_WORDS words for each tile:
// the bits of the masked elements, as they are written, if the tile has a bitmap, and of those that are verbatim, if
// there are some. `rests_at` are the numbers of the first rests of chunks.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_code(Geometry geometry, ChunkBatch batch, const uint8_t *slots, uint64_t stride, const NumberChunk *plans,
                 const uint64_t *rests_at, uint8_t *codes, uint64_t code_stride, uint16_t *rests, uint32_t *masked,
                 uint32_t *verbatim, CodedTile *tiles) {
    __shared__ word_t shared[WARPS][format::MAX_TILE_ELEMENTS];
    __shared__ uint32_t bits[WARPS][3][TILE_WORDS];
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= batch.tiles) {
        return;
    }
    const uint32_t chunk_number = number / batch.chunk_tiles;
    const NumberChunk plan = plans[chunk_number];
    const Tile tile = geometry.tile(batch.first_tile + number);
    const uint32_t elements = tile.elements(), words = ceil_div(elements, WARP);
    const uint32_t position = position_in_chunk(geometry, batch, tile, chunk_number);
    const word_t *from = reinterpret_cast<const word_t *>(slots + chunk_number * stride) + position;
    const Prediction prediction{{tile.nz, tile.ny, tile.nx}, plan.predictor};
    const bool has_rests = plan.mode == SCALED_ULPS;
    uint16_t *own_rests = rests + (has_rests ? rests_at[chunk_number] + position : 0);
    word_t *numbers = shared[warp_id()];
    uint32_t *mask_bits = bits[warp_id()][0], *verbatim_bits = bits[warp_id()][1], *left_out = bits[warp_id()][2];

    const Division division = plan.mode == MULTIPLE ? Division(plan.parameters[0]) : Division{};
    uint32_t greatest_rest = 0, mask_count = 0, verbatim_count = 0, first = elements;
    for (uint32_t word = 0; word < words; ++word) {
        const uint32_t i = word * WARP + lane_id();
        FoundNumber found{0, 0, true};
        bool is_masked = false;
        if (i < elements) {
            const word_t element = from[i];
            found = number_of_element(element, plan, division);
            is_masked = plan.has_pattern != 0 && element == word_t(plan.pattern);
            numbers[i] = found.number;
            if (has_rests) {
                const uint32_t rest = is_masked || !found.is_exact ? 0 : found.rest;
                own_rests[i] = uint16_t(rest);
                greatest_rest = max_of(greatest_rest, rest);
            }
        }
        const uint32_t of_mask = __ballot_sync(ALL_LANES, is_masked),
                       others = __ballot_sync(ALL_LANES, !is_masked && !found.is_exact),
                       kept = __ballot_sync(ALL_LANES, i < elements && !is_masked && found.is_exact);
        if (lane_id() == 0) {
            mask_bits[word] = of_mask;
            verbatim_bits[word] = others;
            left_out[word] = of_mask | others;
        }
        mask_count += __popc(of_mask);
        verbatim_count += __popc(others);
        if (first == elements && kept != 0) {
            first = word * WARP + uint32_t(__ffs(int32_t(kept))) - 1;
        }
    }
    __syncwarp();
    const bool has_base = first < elements, are_left_out = mask_count + verbatim_count > 0;
    const word_t base = has_base ? numbers[first] : word_t(0), center = word_t(plan.center);
    if (are_left_out && has_base) {
        fill_left_out(numbers, left_out, prediction, base, center);
    }

    word_t *to = reinterpret_cast<word_t *>(codes + chunk_number * code_stride) + position;
    // Codes in the order of signed numbers.
    word_t low = ~word_t(0), high = 0, any = 0;
    const TileDivisor by_row(tile.nx), by_plane(tile.ny);
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        word_t code = numbers[i];
        if (plan.predictor != 0) {
            const uint32_t row = by_row.quotient(i), z = by_plane.quotient(row);
            code = prediction.residual(numbers, z, row - z * tile.ny, i - row * tile.nx);
        }
        code = word_t(code - center);
        const bool is_left_out = (left_out[i / WARP] >> i % WARP & 1) != 0;
        code = is_left_out || (i == 0 && plan.predictor != 0) ? word_t(0) : code;
        to[i] = code;
        any |= code;
        low = min_of<word_t>(low, code ^ TOP_BIT);
        high = max_of<word_t>(high, code ^ TOP_BIT);
    }
    any = warp_reduce_or(any);
    low = warp_reduce_min(low);
    high = warp_reduce_max(high);
    greatest_rest = warp_reduce_max(greatest_rest);

    const uint32_t mask = mask_count == 0 ? 0 : mask_count == elements ? MASK_ALL : MASK_BITMAP;
    if (mask == MASK_BITMAP) {
        for (uint32_t word = 0; word < words; ++word) {
            const uint32_t i = word * WARP + lane_id();
            const uint32_t difference = i < elements ? mask_difference(mask_bits, prediction, i) : 0;
            const uint32_t all = __ballot_sync(ALL_LANES, difference != 0);
            if (lane_id() == 0) {
                masked[uint64_t(number) * TILE_WORDS + word] = all;
            }
        }
    }
    if (verbatim_count > 0 && lane_id() < words) {
        verbatim[uint64_t(number) * TILE_WORDS + lane_id()] = verbatim_bits[lane_id()];
    }
    if (lane_id() == 0) {
        const uint32_t info = (any == 0 ? INFO_CONSTANT : 0) | mask << 1 | (has_base ? INFO_HAS_BASE : 0);
        tiles[number] = {uint64_t(base),
                         signed_of(low ^ TOP_BIT),
                         signed_of(high ^ TOP_BIT),
                         0,
                         0,
                         verbatim_count,
                         greatest_rest,
                         info,
                         0};
    }
    // Fills up the last group of the chunk's rests.
    if (has_rests && number + 1 == batch.chunk_first(chunk_number + 1)) {
        const uint32_t all = position + elements;
        for (uint32_t i = all + lane_id(); i < align_up(all, GROUP); i += WARP) {
            rests[rests_at[chunk_number] + i] = 0;
        }
    }
}

// Adds up what the tiles of a chunk have: a block a chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_add_up(Geometry geometry, ChunkBatch batch, CodedTile *tiles, CodedChunk *chunks) {
    __shared__ uint64_t warp_sums[WARPS];
    __shared__ int64_t lows[WARPS], highs[WARPS];
    __shared__ uint32_t greatest[WARPS];
    const uint32_t chunk = blockIdx.x, first = batch.chunk_first(chunk), end = batch.chunk_first(chunk + 1);
    // Codes, and verbatim values times 2^32.
    uint64_t before = 0, total;
    int64_t low = 0x7FFFFFFFFFFFFFFFll, high = -0x7FFFFFFFFFFFFFFFll - 1;
    uint32_t greatest_rest = 0;
    for (uint32_t strip = first; strip < end; strip += THREADS) {
        const uint32_t number = strip + threadIdx.x;
        uint64_t own = 0;
        if (number < end) {
            const CodedTile &tile = tiles[number];
            own = uint64_t(tile.verbatim) << 32;
            greatest_rest = max_of(greatest_rest, tile.greatest_rest);
            if ((tile.info & INFO_CONSTANT) == 0) {
                own |= geometry.tile(batch.first_tile + number).elements();
                low = min_of(low, tile.low);
                high = max_of(high, tile.high);
            }
        }
        const uint64_t at = before + block_exclusive_sum<THREADS, uint64_t>(own, warp_sums, total);
        before += total;
        if (number < end) {
            tiles[number].codes_before = uint32_t(at);
            tiles[number].verbatim_before = uint32_t(at >> 32);
        }
    }
    low = warp_reduce_min(low);
    high = warp_reduce_max(high);
    greatest_rest = warp_reduce_max(greatest_rest);
    if (lane_id() == 0) {
        lows[warp_id()] = low;
        highs[warp_id()] = high;
        greatest[warp_id()] = greatest_rest;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (uint32_t warp = 1; warp < WARPS; ++warp) {
            low = min_of(low, lows[warp]);
            high = max_of(high, highs[warp]);
            greatest_rest = max_of(greatest_rest, greatest[warp]);
        }
        chunks[chunk] = {low, high, uint32_t(before), uint32_t(before >> 32), greatest_rest, 0};
    }
}

// Copies the sampled rows of codes of a chunk, one after another, to `sample`, which has room for SAMPLED_CODES of each
// chunk. A warp copies a row; blocks of row `y` of the grid have those of chunk `y`.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_rows(Geometry geometry, ChunkBatch batch, const CodedTile *tiles, const CodedChunk *chunks,
                 const uint8_t *codes, uint64_t code_stride, word_t *sample) {
    const uint32_t chunk = blockIdx.y, count = chunks[chunk].codes;
    const uint32_t step = max_of(ceil_div(count, SAMPLED_CODES), 1u), row = blockIdx.x * WARPS + warp_id();
    const uint32_t begin = row * step * SAMPLED_ROW;
    if (row >= SAMPLED_CODES / SAMPLED_ROW || begin >= count) {
        return;
    }
    const uint32_t first = batch.chunk_first(chunk), end = batch.chunk_first(chunk + 1);
    const word_t *from = reinterpret_cast<const word_t *>(codes + chunk * code_stride);
    for (uint32_t code = begin + lane_id(); code < min_of(begin + SAMPLED_ROW, count); code += WARP) {
        // The last tile with at most as many codes before it is not constant.
        uint32_t low = first, high = end;
        while (low + 1 < high) {
            const uint32_t middle = (low + high) / 2;
            if (tiles[middle].codes_before <= code) {
                low = middle;
            } else {
                high = middle;
            }
        }
        const Tile tile = geometry.tile(batch.first_tile + low);
        const uint32_t at = position_in_chunk(geometry, batch, tile, chunk) + code - tiles[low].codes_before;
        sample[uint64_t(chunk) * SAMPLED_CODES + row * SAMPLED_ROW + (code - begin)] = from[at];
    }
}
