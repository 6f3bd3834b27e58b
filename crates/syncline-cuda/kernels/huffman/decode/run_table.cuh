// Putting a lane's symbols into a buffer that is filled with the commonest, whose codeword is one bit: a lookup is for
// as many of it as there are and the symbol that ends them, which alone is stored.
#pragma once
#include "huffman/decode/subsequences.cuh"

__device__ inline void store_symbol(uint8_t *to, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        to[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(to)[at] = symbol;
    }
}

// The commonest symbol, if its codeword is one bit: that is a zero then.
struct CommonSymbol {
    bool exists;
    uint32_t symbol;
    uint32_t word; // filled with it

    __device__ inline CommonSymbol(const CodebookDescriptor &codebook, const uint16_t *symbols)
        : exists(codebook.limit[1] != 0), symbol(exists ? symbols[codebook.symbols] : 0) {
        word = SYMBOL_BYTES == 1 ? symbol * 0x01010101u : symbol * 0x10001u;
    }
};

// Makes entries of runs, in bytes, of a table of single symbols; by the whole block, with barriers around it.
__device__ inline void make_run_table(uint32_t *table, const CodebookDescriptor &codebook, uint32_t room,
                                      const CommonSymbol &common) {
    const TableLayout layout(codebook, room);
    for (uint32_t i = TABLE / 2 + threadIdx.x; i < layout.entries(); i += blockDim.x) {
        const uint32_t entry = table[table_slot(i)];
        table[table_slot(i)] = entry & LONGER ? 0 : entry + BYTES_OF_ONE;
    }
    __syncthreads();
    // Those that start with zeros have the entry of what is behind them, if that is known.
    for (uint32_t i = threadIdx.x; i < TABLE / 2; i += blockDim.x) {
        const uint32_t zeros = __clz(i << 1 | 1) - (31 - TABLE_BITS), behind = i << zeros;
        table[table_slot(i)] =
            run_entry(zeros, BYTES_OF_ONE, zeros < TABLE_BITS && behind < layout.first ? table[table_slot(behind)] : 0,
                      common.symbol);
    }
}

// Puts a lane's symbols, from its symbol `place` of the buffer up to `end`. If `CHECKED` is false, all codewords have
// an entry.
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
    // Every entry has a symbol, so that this ends whatever the bits are.
    while (at < last) {
        const uint32_t window = reader.window();
        // Shifts are by the low five bits of entries.
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
