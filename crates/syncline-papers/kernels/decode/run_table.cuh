// Decoding into a buffer that is filled with the most frequent symbol, whose codeword is one bit. One lookup covers a
// run of that symbol and the symbol that ends it, and only the latter is stored.
#pragma once
#include "decode/subsequences.cuh"

__device__ inline void store_symbol(uint8_t *to, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        to[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(to)[at] = symbol;
    }
}

// The most frequent symbol, if its codeword is one bit, which is then a zero.
struct CommonSymbol {
    bool exists;
    uint32_t symbol;
    uint32_t word; // the symbol repeated

    __device__ inline CommonSymbol(const CodebookDescriptor &codebook, const uint16_t *symbols)
        : exists(codebook.limit[1] != 0), symbol(exists ? symbols[codebook.symbols] : 0) {
        word = SYMBOL_BYTES == 1 ? symbol * 0x01010101u : symbol * 0x10001u;
    }
};

// Converts a table of single symbols to one of runs, whose extents are in bytes. Called by the whole block, between
// barriers.
__device__ inline void make_run_table(uint32_t *table, const CodebookDescriptor &codebook, uint32_t room,
                                      const CommonSymbol &common) {
    const TableLayout layout(codebook, room);
    for (uint32_t i = TABLE / 2 + threadIdx.x; i < layout.entries(); i += blockDim.x) {
        const uint32_t entry = table[table_slot(i)];
        table[table_slot(i)] = entry & LONGER ? 0 : entry + BYTES_OF_ONE;
    }
    __syncthreads();
    // Entries that start with zeros continue with the entry of the bits after them, if it is known.
    for (uint32_t i = threadIdx.x; i < TABLE / 2; i += blockDim.x) {
        const uint32_t zeros = __clz(i << 1 | 1) - (31 - TABLE_BITS), behind = i << zeros;
        table[table_slot(i)] =
            run_entry(zeros, BYTES_OF_ONE, zeros < TABLE_BITS && behind < layout.first ? table[table_slot(behind)] : 0,
                      common.symbol);
    }
}

// Stores a lane's symbols to `buffer`, from symbol `place` to `end`. With `CHECKED` false, all codewords must have an
// entry.
template <bool CHECKED>
__device__ inline void decode_runs(const Lookup &lookup, SubsequenceReader &reader, uint8_t *buffer, uint32_t place,
                                   uint32_t end) {
    uint32_t at = place * SYMBOL_BYTES;
    const uint32_t last = end * SYMBOL_BYTES;
    const auto store = [&](uint32_t through, uint32_t entry) {
        if (through <= last) {
            store_symbol(buffer - SYMBOL_BYTES + through, 0, entry >> 16);
        }
    };
    // Every entry has at least one symbol, so the loop ends for any input.
    while (at < last) {
        const uint32_t window = reader.window();
        // Shifts use the low five bits of entries.
        uint32_t first = lookup.lookup(window);
        const uint32_t second = lookup.lookup(__funnelshift_l(0, window, first));
        if (CHECKED && (run_extent(first) == 0 || run_extent(second) == 0)) {
            first = run_extent(first) == 0 ? lookup.search(window) + BYTES_OF_ONE : first;
            at += run_extent(first);
            store(at, first);
            reader.skip(first);
            continue;
        }
        const uint32_t between = at + run_extent(first);
        at = between + run_extent(second);
        store(between, first);
        store(at, second);
        reader.skip(first + second);
    }
}
