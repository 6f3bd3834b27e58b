// Decoding one index block by a warp.
//
// CODEBOOKS              maximum number of codebooks of a stream: 1 or 4
// SHARED_LONG_ENTRIES    entries for long codewords in each table
// ROW                    maximum number of bytes per row of the tile, 64 or 128
// NARROW_ROWS            whether index blocks that do not fit use rows of NARROW_ROW bytes and the rest of the tile for
//                        their words
#pragma once
#include "huffman/decode/symbol_index.cuh"
#include "huffman/decode/lookup.cuh"

constexpr uint32_t SHARED_TABLE_ENTRIES = TABLE + SHARED_LONG_ENTRIES;
// Words of one codebook's table.
constexpr uint32_t SHARED_TABLE_WORDS = table_words(SHARED_TABLE_ENTRIES);
constexpr uint32_t GROUP_BYTES = GROUP * SYMBOL_BYTES;
constexpr uint32_t ROW_BYTES = GROUP_BYTES < ROW ? GROUP_BYTES : ROW;
constexpr uint32_t TILE_BYTES = WARP * ROW_BYTES;
// One memory sector: with less, sectors would be written twice.
constexpr uint32_t NARROW_ROW = 32;

// A warp's words in shared memory, from address `at` on. Uses predicated instructions, because a branch would cost as
// much as it skips.
struct Staged {
    uint32_t at;
    __device__ inline Staged(const uint32_t *words) : at(shared_address(words)) {}
    __device__ inline void advance(uint32_t crosses, uint32_t &word0, uint32_t &word1) {
        asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0;\n"
                     "  @p mov.u32 %0, %1;\n"
                     "  @p ld.shared.u32 %1, [%2];\n"
                     "  @p add.u32 %2, %2, 4; }"
                     : "+r"(word0), "+r"(word1), "+r"(at)
                     : "r"(crosses)
                     : "memory");
    }
};
// Words held in registers.
constexpr uint32_t WORDS_HELD = 2;
// Maximum number of words taken by SYMBOLS_IN_UNIT codewords.
constexpr uint32_t WORDS_AT_ONCE = (SYMBOLS_IN_UNIT * LONGEST + 31) / 32;
// Words after the end that may be read without a check.
constexpr uint32_t SLACK_WORDS = (WORDS_AT_ONCE + WORDS_HELD + 3) / 4 * 4;

// Decodes this lane's group and writes the warp's tile, which has rows of ROW_SIZE bytes, in rounds.
template <uint32_t ROW_SIZE> struct GroupDecoder {
    static constexpr uint32_t ROUNDS = GROUP_BYTES / ROW_SIZE, UNITS = ROW_SIZE / 16;
    // Rows covered by one 16-byte access of the warp.
    static constexpr uint32_t ROWS_AT_ONCE = WARP / UNITS;

    const Lookup &lookup;
    uint4 *tile;
    uint8_t *out; // of the stream
    uint32_t group;
    uint32_t rank;
    bool has_group;

    // Returns the slot of a unit of a row: the units of eight lanes, 128 bytes, use every bank once.
    static __device__ inline uint32_t tile_slot(uint32_t row, uint32_t unit) {
        return row * UNITS + (unit ^ (row * UNITS / 8 & (UNITS - 1)));
    }

    // Decodes from bit `start` of the `count` staged words, which SLACK_WORDS arbitrary words follow. Returns the bit
    // where decoding ended.
    __device__ inline uint32_t decode(const uint32_t *words, uint32_t count, uint32_t start, Checksum &checksum) const {
        const uint32_t *own = words + start / 32;
        const uint32_t base = shared_address(words), end = base + 4 * (count + WORDS_HELD);
        BitWindow<Staged> bits{{own + 2}, own[0], own[1], start % 32};
        uint32_t sum = 0, weighted = 0;
        for (uint32_t round = 0; round < ROUNDS; ++round) {
#pragma unroll 1
            for (uint32_t unit = 0; unit < UNITS; ++unit) {
                bits.words.at = min_of(bits.words.at, end);
                const uint4 symbols = lookup.unit(bits);
                Checksum own_sum{0, 0};
                own_sum.add(symbols, (round * UNITS + unit) * SYMBOLS_IN_UNIT);
                sum += own_sum.sum;
                weighted += own_sum.weighted;
                tile[tile_slot(lane_id(), unit)] = symbols;
            }
            __syncwarp();
            flush(round);
            __syncwarp();
        }
        if (has_group) {
            checksum.sum += sum;
            checksum.weighted += weighted + rank * GROUP * sum;
        }
        return (bits.words.at - base) * 8 - 32 * WORDS_HELD + bits.position % 32;
    }

    __device__ inline void flush(uint32_t round) const {
        const uint32_t unit = lane_id() % UNITS;
#pragma unroll
        for (uint32_t first = 0; first < WARP; first += ROWS_AT_ONCE) {
            uint32_t row = first + lane_id() / UNITS;
            uint32_t to = __shfl_sync(ALL_LANES, has_group ? group : ALL_LANES, row);
            if (to != ALL_LANES) {
                uint4 value = tile[tile_slot(row, unit)];
                store_evict_first(
                    reinterpret_cast<uint4 *>(out + uint64_t(to) * GROUP_BYTES + round * ROW_SIZE + unit * 16), value);
            }
        }
    }
};

// The data of a block's current stream.
struct BlockContext {
    const StreamDescriptor &stream;
    const CodebookDescriptor *codebooks; // CODEBOOKS of them
    const uint32_t *tables;
    uint32_t codebook_count;
    bool paired;
};

// The batch's arrays, and the shared memory of a warp.
struct WarpBuffers {
    const uint8_t *input;
    const uint16_t *symbols;
    const uint8_t *classes;
    uint8_t *out;
    uint4 *tile;
    uint32_t *staged;
    uint32_t staged_words;
};

// Decodes the groups of an index block, in rounds of as many lanes as fit: usually all of them. In uneven fields less
// than half of the warp idles; reading the words from device memory instead would take ten times as long.
// `decode(count, start, in_round)` decodes `count` staged words from the lane's bit `start` on and returns where it
// ended; lanes that are not in the round decode some group, without effect. Called by a warp; returns bits of the
// stream's status.
template <typename Decode>
__device__ inline uint32_t decode_in_rounds(const WarpBuffers &buffers, const uint32_t *words, uint32_t own_start,
                                            uint32_t own_end, bool has_group, Decode decode) {
    const uint32_t room = buffers.staged_words - SLACK_WORDS;
    uint32_t problems = 0;
    for (uint32_t lane = 0; lane < WARP;) {
        const uint32_t first = __shfl_sync(ALL_LANES, own_start, lane) / 32 / 4 * 4;
        const uint32_t fitting = __ballot_sync(ALL_LANES, lane_id() >= lane && ceil_div(own_end, 32) - first <= room);
        if (fitting == 0) {
            // No valid group is this long.
            return problems | STATUS_INDEX;
        }
        const uint32_t lanes = WARP - __clz(fitting);
        const uint32_t count = ceil_div(__shfl_sync(ALL_LANES, own_end, lanes - 1), 32) - first;
        const bool in_round = lane_id() >= lane && lane_id() < lanes;
        stage(buffers.staged, words, first, first + count);
        const uint32_t end = decode(count, in_round ? own_start - first * 32 : 0, has_group && in_round);
        problems |= has_group && in_round && first * 32 + end != own_end ? STATUS_INDEX : 0;
        lane = lanes;
    }
    return problems;
}

// Decodes index block `block`, where this lane's group is `group` if it `has_group`. Called by a warp; returns bits of
// the stream's status.
__device__ inline uint32_t decode_block(const BlockContext &context, const WarpBuffers &buffers, const IndexBlock &at,
                                        uint32_t block, uint32_t group, bool has_group, Checksum &checksum) {
    const StreamDescriptor &stream = context.stream;
    const uint32_t rank = block * WARP + lane_id();
    const uint32_t *words = reinterpret_cast<const uint32_t *>(buffers.input + stream.words);
    uint32_t problems = 0;
    uint32_t codebook = 0;
#if CODEBOOKS > 1
    if (context.codebook_count > 1) {
        codebook = buffers.classes[stream.classes + group];
        if (has_group && (codebook >= context.codebook_count ||
                          context.codebooks[min_of<uint32_t>(codebook, CODEBOOKS - 1)].longest == 0)) {
            problems |= STATUS_CLASS;
        }
        codebook = min_of(codebook, context.codebook_count - 1);
    }
#endif
    const Lookup lookup(context.tables + codebook * SHARED_TABLE_WORDS, &context.codebooks[codebook], buffers.symbols,
                        SHARED_LONG_ENTRIES, context.paired);
    uint8_t *out = buffers.out + stream.out * SYMBOL_BYTES;
#if NARROW_ROWS
    const uint32_t room = buffers.staged_words - SLACK_WORDS;
    const uint32_t first_word = __shfl_sync(ALL_LANES, at.start, 0) / 32 / 4 * 4,
                   count = ceil_div(__shfl_sync(ALL_LANES, at.end, WARP - 1), 32) - first_word;
    if (count > room && count <= room + (TILE_BYTES - WARP * NARROW_ROW) / 4) {
        uint32_t *staged = reinterpret_cast<uint32_t *>(buffers.tile + WARP * NARROW_ROW / 16);
        const GroupDecoder<NARROW_ROW> work{lookup, buffers.tile, out, group, rank, has_group};
        stage(staged, words, first_word, first_word + count);
        const uint32_t end = work.decode(staged, count, has_group ? at.start - first_word * 32 : 0, checksum);
        return problems | (has_group && first_word * 32 + end != at.end ? STATUS_INDEX : 0);
    }
#endif
    return problems |
           decode_in_rounds(buffers, words, at.start, at.end, has_group,
                            [&](uint32_t count, uint32_t start, bool in_round) {
                                return GroupDecoder<ROW_BYTES>{lookup, buffers.tile, out, group, rank, in_round}.decode(
                                    buffers.staged, count, start, checksum);
                            });
}
