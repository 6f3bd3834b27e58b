// Decoding an index block where the commonest symbol has a codeword of one bit, and few others are between: an entry is
// for as many of it as there are, and the symbol that ends them.
#pragma once
#include "huffman/decode/small.cuh"
#include "huffman/decode/work.cuh"

// A tile of whole groups: rows that are a unit apart from a multiple of 128 bytes, as lanes are mostly at the same
// place of their groups.
constexpr uint32_t ROW_UNITS = GROUP_BYTES / 16, WHOLE_ROW = ROW_UNITS + 1, WHOLE_TILE = WARP * WHOLE_ROW;

// Decodes this lane's group by runs, and writes the warp's.
struct Runs {
    const Lookup &lookup;
    uint32_t common; // the commonest symbol
    uint4 *tile;     // WHOLE_TILE units, clear
    uint8_t *out;    // of the stream
    uint32_t group;
    uint32_t rank;
    bool live;

    // Nothing but the commonest symbol, that others are put into.
    static __device__ inline void clear(uint4 *tile, uint32_t common) {
        const uint32_t word = SYMBOL_BYTES == 1 ? common * 0x01010101u : common * 0x10001u;
#pragma unroll
        for (uint32_t i = lane_id(); i < WHOLE_TILE; i += WARP) {
            tile[i] = make_uint4(word, word, word, word);
        }
    }

    // From bit `start` of staged words on, of which there are `count`, and SLACK_WORDS that may be anything. Returns
    // where it ended.
    __device__ inline uint32_t decode(const uint32_t *words, uint32_t count, uint32_t start, Checksum &checksum) const {
        const uint32_t ended = lookup.complete ? group_of<false>(words, count, start, checksum)
                                               : group_of<true>(words, count, start, checksum);
        __syncwarp();
        flush();
        __syncwarp();
        return ended;
    }

    template <bool CHECKED>
    __device__ inline uint32_t group_of(const uint32_t *words, uint32_t count, uint32_t start,
                                        Checksum &checksum) const {
        const uint32_t *own = words + start / 32;
        const uint32_t base = shared_address(words), end = base + 4 * (count + WORDS_HELD);
        Bits<Staged> bits{{own + 2}, own[0], own[1], start % 32};
        // Symbols so far; the differences to the commonest add up to the checksum.
        uint32_t before = 0, between = 0, after = 0, first = 0, second = 0, sum = 0, weighted = 0;
        uint8_t *row = reinterpret_cast<uint8_t *>(tile + lane_id() * WHOLE_ROW) - SYMBOL_BYTES;
        const auto put = [&](uint32_t entry, uint32_t through) {
            if (through <= GROUP) {
                const uint32_t symbol = entry >> 16, more = symbol - common;
                store_symbol(row + through * SYMBOL_BYTES, symbol);
                sum += more;
                weighted += through * more;
            }
        };
        while (after < GROUP) {
            before = after;
            bits.words.at = min_of(bits.words.at, end);
            const uint32_t window = bits.window();
            // Shifts are by the low five bits of entries.
            first = lookup.lookup(window);
            second = lookup.lookup(__funnelshift_l(0, window, first));
            if (CHECKED && (run_extent(first) == 0 || run_extent(second) == 0)) {
                first = run_extent(first) == 0 ? lookup.far(window) + ONE_SYMBOL : first;
                second = 0;
                between = after = before + run_extent(first);
                put(first, between);
                bits.skip(run_length(first));
                continue;
            }
            between = before + run_extent(first);
            after = between + run_extent(second);
            put(first, between);
            put(second, after);
            bits.skip(first + second);
        }
        if (live) {
            sum += GROUP * common;
            checksum.sum += sum;
            checksum.weighted += weighted + GROUP * (GROUP + 1) / 2 * common + rank * GROUP * sum;
        }
        // What was taken behind the group: zeros of a run, or all of the second entry.
        const uint32_t of_first = between > GROUP ? GROUP - before : run_length(first);
        const uint32_t of_second = between >= GROUP ? 0 : after > GROUP ? GROUP - between : run_length(second);
        return (bits.words.at - base) * 8 - 32 * WORDS_HELD + bits.position % 32 + of_first + of_second -
               run_length(first) - run_length(second);
    }

    static __device__ inline void store_symbol(uint8_t *to, uint32_t symbol) {
        if (SYMBOL_BYTES == 1) {
            *to = symbol;
        } else {
            *reinterpret_cast<uint16_t *>(to) = symbol;
        }
    }

    __device__ inline void flush() const {
        constexpr uint32_t ROWS = WARP / ROW_UNITS;
        const uint32_t unit = lane_id() % ROW_UNITS;
#pragma unroll 8
        for (uint32_t first = 0; first < WARP; first += ROWS) {
            const uint32_t row = first + lane_id() / ROW_UNITS,
                           to = __shfl_sync(ALL_LANES, live ? group : ALL_LANES, row);
            if (to != ALL_LANES) {
                store_streaming(reinterpret_cast<uint4 *>(out + uint64_t(to) * GROUP_BYTES) + unit,
                                tile[row * WHOLE_ROW + unit]);
            }
        }
    }
};
