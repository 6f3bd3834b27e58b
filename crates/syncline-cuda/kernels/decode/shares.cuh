// Which units of a batch a block decodes. Tiles cost very different times, and codewords say how much: blocks have
// shares of about the same cost, so that they end together.
#pragma once
#include "container/parsed.cuh"

// What a tile costs beside its bits, in bits of codewords: to write it, and for each of its strips to reconstruct it.
constexpr uint32_t COST_OF_TILE = 320, COST_OF_STRIP = 256;
// Costs of chunks are counted in such multiples, so that the sum for a batch has 32 bits.
constexpr uint32_t COST_UNIT = 64;

// Where a share begins: a unit of consecutive tiles of a chunk.
struct ShareStart {
    uint32_t chunk, unit;
};

// The costs of a batch, as all lanes of a warp know them.
struct ShareCosts {
    static constexpr uint32_t WINDOWS = MAX_CHUNKS / WARP;

    const Parsed &parsed;
    const uint32_t tiles;    // of the batch
    const uint32_t unit_len; // tiles of a unit
    uint32_t own[WINDOWS];   // costs of chunks: one of each window
    uint32_t sum, largest;

    // Called by a whole warp.
    __device__ inline ShareCosts(const Parsed &parsed, uint32_t tiles, uint32_t unit_len)
        : parsed(parsed), tiles(tiles), unit_len(unit_len), sum(0), largest(0) {
#pragma unroll
        for (uint32_t window = 0; window < WINDOWS; ++window) {
            own[window] = 0;
            if (window * WARP < parsed.chunk_count) {
                const uint32_t chunk = window * WARP + lane_id();
                own[window] = chunk < parsed.chunk_count ? cost_of(chunk) : 0;
                sum += warp_reduce_sum(own[window]);
                largest = max_of(largest, warp_reduce_max(own[window]));
            }
        }
    }

    __device__ inline uint32_t tiles_of(uint32_t chunk) const {
        return min_of(parsed.tiles, tiles - chunk * parsed.tiles);
    }

    // Returns whether the tiles of a chunk have codes. Called by any lanes.
    __device__ inline bool has_codes(uint32_t chunk) const {
        return own_chunk_is_valid(parsed, chunk) && parsed.chunks[chunk].kind != KIND_RAW;
    }

    __device__ inline uint32_t cost_of(uint32_t chunk) const {
        uint32_t cost = COST_OF_TILE * tiles_of(chunk);
        if (has_codes(chunk)) {
            const ParsedChunk &record = parsed.chunks[chunk];
            cost += COST_OF_STRIP * record.strips + 32 * record.word_count;
        }
        return ceil_div(cost, COST_UNIT);
    }

    // Returns the cost of the tiles of a chunk before a unit.
    __device__ inline uint32_t cost_before(uint32_t chunk, uint32_t unit, bool has_codes) const {
        const uint32_t tile = unit * unit_len;
        if (!has_codes) {
            return COST_OF_TILE * tile;
        }
        const uint32_t strip = parsed.places[chunk * parsed.tiles + tile].first_strip;
        return COST_OF_TILE * tile + COST_OF_STRIP * strip +
               parsed.starts[uint64_t(chunk) * parsed.starts_stride + strip];
    }

    // Returns where share `number` of `count` begins; the end of the last one is in the chunk after all. Called by the
    // whole warp.
    __device__ inline ShareStart start(uint32_t number, uint32_t count) const {
        // A block that has tiles of two chunks waits in between. So each has an equal part of one, if that is no more
        // than a sixteenth longer than equal shares are.
        const uint32_t parts = count / parsed.chunk_count;
        if (uint64_t(largest) * count * 16 <= uint64_t(sum) * parts * 17) {
            const uint32_t chunk = min_of(number / parts, parsed.chunk_count);
            const uint32_t units = ceil_div(parsed.tiles, unit_len);
            return {chunk, chunk < parsed.chunk_count ? units * (number % parts) / parts : 0};
        }
        const uint32_t target = uint32_t(uint64_t(sum) * number / count);
        uint32_t before = 0, chunk = parsed.chunk_count;
#pragma unroll
        for (uint32_t window = 0; window < WINDOWS; ++window) {
            const uint32_t end = before + warp_inclusive_sum(own[window]);
            const uint32_t later = __ballot_sync(ALL_LANES, end > target);
            if (later != 0 && chunk == parsed.chunk_count) {
                const uint32_t lane = __ffs(later) - 1;
                chunk = window * WARP + lane;
                before = __shfl_sync(ALL_LANES, end - own[window], lane);
            } else if (chunk == parsed.chunk_count) {
                before = __shfl_sync(ALL_LANES, end, WARP - 1);
            }
        }
        if (chunk >= parsed.chunk_count) {
            return {parsed.chunk_count, 0};
        }
        // The last unit before which there is no more than is left.
        const uint32_t rest = (target - before) * COST_UNIT;
        const bool codes = has_codes(chunk);
        uint32_t low = 0, high = ceil_div(tiles_of(chunk), unit_len);
        while (high - low > 1) {
            const uint32_t step = ceil_div(high - low, WARP), unit = low + lane_id() * step;
            const bool is_before = unit < high && cost_before(chunk, unit, codes) <= rest;
            low += (max_of<uint32_t>(__popc(__ballot_sync(ALL_LANES, is_before)), 1) - 1) * step;
            high = min_of(low + step, high);
        }
        return {chunk, low};
    }
};
