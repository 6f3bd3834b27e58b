// Decoding an index block, by a warp.
//
// BOOKS        codebooks that a stream may have: 1 or 4
// OWN_LONG     entries for long codewords in their tables
// ROW          bytes of a row of the tile, 64 or 128, at most
// NARROW_ROWS  whether index blocks without room take rows of NARROW_ROW bytes, and the rest of the tile for their
// words
#pragma once
#include "huffman/decode/index.cuh"
#include "huffman/decode/lookup.cuh"

constexpr uint32_t OWN_ENTRIES = TABLE + OWN_LONG;
// Words of a codebook's tables.
constexpr uint32_t OWN_WORDS = table_words(OWN_ENTRIES);
constexpr uint32_t GROUP_BYTES = GROUP * SYMBOL_BYTES;
constexpr uint32_t ROW_BYTES = GROUP_BYTES < ROW ? GROUP_BYTES : ROW;
constexpr uint32_t TILE_BYTES = WARP * ROW_BYTES;
// Sectors as they are in memory: less would be written twice.
constexpr uint32_t NARROW_ROW = 32;

// A warp's words in shared memory, from address `at` on. Predicated as a whole: a branch would cost as much as what it
// skips.
struct Staged {
    uint32_t at;
    __device__ inline Staged(const uint32_t *words) : at(shared_address(words)) {}
    __device__ inline void move_on(uint32_t there, uint32_t &word0, uint32_t &word1) {
        asm volatile("{ .reg .pred there; setp.ne.u32 there, %3, 0;\n"
                     "  @there mov.u32 %0, %1;\n"
                     "  @there ld.shared.u32 %1, [%2];\n"
                     "  @there add.u32 %2, %2, 4; }"
                     : "+r"(word0), "+r"(word1), "+r"(at)
                     : "r"(there)
                     : "memory");
    }
};
// Words that are in registers.
constexpr uint32_t WORDS_HELD = 2;
// Words that SYMBOLS_IN_UNIT codewords may take.
constexpr uint32_t WORDS_AT_ONCE = (SYMBOLS_IN_UNIT * LONGEST + 31) / 32;
// So many words are looked at without asking whether they are there.
constexpr uint32_t SLACK_WORDS = (WORDS_AT_ONCE + WORDS_HELD + 3) / 4 * 4;

// Decodes this lane's group and writes the warp's tile, which has rows of ROW_SIZE bytes, round by round.
template <uint32_t ROW_SIZE> struct Work {
    static constexpr uint32_t ROUNDS = GROUP_BYTES / ROW_SIZE, UNITS = ROW_SIZE / 16;
    // Rows that a warp's 16-byte accesses cover.
    static constexpr uint32_t ROWS_AT_ONCE = WARP / UNITS;

    const Lookup &lookup;
    uint4 *tile;
    uint8_t *out; // of the stream
    uint32_t group;
    uint32_t rank;
    bool live;

    // Where a unit of a row is in the tile: eight lanes' units, 128 bytes, take every bank once.
    static __device__ inline uint32_t tile_slot(uint32_t row, uint32_t unit) {
        return row * UNITS + (unit ^ (row * UNITS / 8 & (UNITS - 1)));
    }

    // From bit `start` of staged words on, of which there are `count`, and SLACK_WORDS that may be anything. Returns
    // where it ended.
    __device__ inline uint32_t decode(const uint32_t *words, uint32_t count, uint32_t start, Checksum &checksum) const {
        const uint32_t *own = words + start / 32;
        const uint32_t base = shared_address(words), end = base + 4 * (count + WORDS_HELD);
        Bits<Staged> bits{{own + 2}, own[0], own[1], start % 32};
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
        if (live) {
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
            uint32_t to = __shfl_sync(ALL_LANES, live ? group : ALL_LANES, row);
            if (to != ALL_LANES) {
                uint4 value = tile[tile_slot(row, unit)];
                store_streaming(
                    reinterpret_cast<uint4 *>(out + uint64_t(to) * GROUP_BYTES + round * ROW_SIZE + unit * 16), value);
            }
        }
    }
};

// What a block has of a stream.
struct Own {
    const Stream &stream;
    const Book *books; // BOOKS of them
    const uint32_t *tables;
    uint32_t book_count;
    bool paired;
};

// Memory of a warp, and where streams are.
struct Places {
    const uint8_t *input;
    const uint16_t *symbols;
    const uint8_t *classes;
    uint8_t *out;
    uint4 *tile;
    uint32_t *staged;
    uint32_t staged_words;
};

// Decodes an index block's groups, as many at a time as there is room for: all, but where a field is uneven. Less than
// half of the warp then has nothing to do for a while; reading words where they are would take ten times as long. If
// all fit, they may be `staged` already. `decode(count, start, is_turn)` decodes staged words, `count` of them, from a
// lane's bit `start` on, and says where it ended; lanes whose turn it is not go along, somewhere. By a warp; returns
// bits of the stream's status.
template <typename Decode>
__device__ inline uint32_t decode_in_turns(const Places &places, const uint32_t *words, uint32_t own_start,
                                           uint32_t own_end, bool live, Decode decode) {
    const uint32_t room = places.staged_words - SLACK_WORDS;
    uint32_t problems = 0;
    for (uint32_t lane = 0; lane < WARP;) {
        const uint32_t first = __shfl_sync(ALL_LANES, own_start, lane) / 32 / 4 * 4;
        const uint32_t fitting = __ballot_sync(ALL_LANES, lane_id() >= lane && ceil_div(own_end, 32) - first <= room);
        if (fitting == 0) {
            // No group is so long.
            return problems | STATUS_INDEX;
        }
        const uint32_t lanes = WARP - __clz(fitting);
        const uint32_t count = ceil_div(__shfl_sync(ALL_LANES, own_end, lanes - 1), 32) - first;
        const bool is_turn = lane_id() >= lane && lane_id() < lanes;
        stage(places.staged, words, first, first + count);
        const uint32_t end = decode(count, is_turn ? own_start - first * 32 : 0, live && is_turn);
        problems |= live && is_turn && first * 32 + end != own_end ? STATUS_INDEX : 0;
        lane = lanes;
    }
    return problems;
}

// Decodes index block `block`; a lane's group is `group`, if it is `live`. By a warp; returns bits of the stream's
// status.
__device__ inline uint32_t decode_block(const Own &own, const Places &places, const IndexBlock &at, uint32_t block,
                                        uint32_t group, bool live, Checksum &checksum) {
    const Stream &stream = own.stream;
    const uint32_t rank = block * WARP + lane_id();
    const uint32_t *words = reinterpret_cast<const uint32_t *>(places.input + stream.words);
    uint32_t problems = 0;
    uint32_t book = 0;
#if BOOKS > 1
    if (own.book_count > 1) {
        book = places.classes[stream.classes + group];
        if (live && (book >= own.book_count || own.books[min_of<uint32_t>(book, BOOKS - 1)].longest == 0)) {
            problems |= STATUS_CLASS;
        }
        book = min_of(book, own.book_count - 1);
    }
#endif
    const Lookup lookup(own.tables + book * OWN_WORDS, &own.books[book], places.symbols, OWN_LONG, own.paired);
    uint8_t *out = places.out + stream.out * SYMBOL_BYTES;
#if NARROW_ROWS
    const uint32_t room = places.staged_words - SLACK_WORDS;
    const uint32_t first_word = __shfl_sync(ALL_LANES, at.start, 0) / 32 / 4 * 4,
                   count = ceil_div(__shfl_sync(ALL_LANES, at.end, WARP - 1), 32) - first_word;
    if (count > room && count <= room + (TILE_BYTES - WARP * NARROW_ROW) / 4) {
        uint32_t *staged = reinterpret_cast<uint32_t *>(places.tile + WARP * NARROW_ROW / 16);
        const Work<NARROW_ROW> work{lookup, places.tile, out, group, rank, live};
        stage(staged, words, first_word, first_word + count);
        const uint32_t end = work.decode(staged, count, live ? at.start - first_word * 32 : 0, checksum);
        return problems | (live && first_word * 32 + end != at.end ? STATUS_INDEX : 0);
    }
#endif
    return problems |
           decode_in_turns(places, words, at.start, at.end, live, [&](uint32_t count, uint32_t start, bool is_turn) {
               return Work<ROW_BYTES>{lookup, places.tile, out, group, rank, is_turn}.decode(places.staged, count,
                                                                                             start, checksum);
           });
}
