// Tables of single codewords for reconstruction: made where codebooks are read (container/parse.cu), or by the block
// that uses them.
//
// An entry has the length of a codeword and from bit SYMBOL_AT up its symbol; half as wide where symbols are small. 0
// where there is no codeword of TABLE_BITS bits.
//
// WIDE  whether symbols may have more than 10 bits
#pragma once
#include "huffman/decode/decode.cuh"

#if WIDE
typedef uint32_t Single;
constexpr uint32_t SYMBOL_AT = 16;
#else
typedef uint16_t Single;
constexpr uint32_t SYMBOL_AT = 6;
#endif

// Where a codebook of narrow symbols has its tables, counted from the first of its symbols in the batch's array, which
// are this many at most: entries for the next TABLE_BITS bits, then those for long codewords.
constexpr uint32_t TABLES_AT = 1024;

// Codewords as windows ascend.
struct Walk {
    const CodebookDescriptor &book;
    const uint16_t *symbols;
    uint32_t length, place, symbol;

    // From codewords of `shortest` bits on, for windows from `window` on. `own_symbols` are the codebook's. `longest`:
    // the longest codeword that is asked for.
    __device__ inline Walk(const CodebookDescriptor &code, const uint16_t *own_symbols, uint32_t shortest,
                           uint32_t longest, uint32_t window)
        : book(code), symbols(own_symbols), length(shortest), place(ALL_LANES), symbol(0) {
        // All limits at once: one after the other each would wait for shared memory.
#pragma unroll
        for (uint32_t i = 0; i <= longest - shortest; ++i) {
            length += window >= code.limit[shortest + i] ? 1 : 0;
        }
        length = min_of(length, max_of(code.longest, shortest));
    }

    // The entry of the codeword that a window starts with, which is not below the one before; 0 if it is longer than
    // `longest`.
    __device__ inline Single entry(uint32_t window, uint32_t longest) {
        while (length < book.longest && length <= longest && window >= book.limit[length]) {
            ++length;
        }
        if (length > longest) {
            return 0;
        }
        const uint32_t next = min_of((window >> (32 - length)) + book.offset[length], book.symbol_count - 1);
        if (next != place) {
            place = next;
            symbol = symbols[next];
        }
        return Single(length | symbol << SYMBOL_AT);
    }
};

constexpr uint32_t AT_ONCE_LOG2 = 3, AT_ONCE = 1u << AT_ONCE_LOG2; // entries that a thread makes one after the other

// Makes the entries of a walk from `window` on, whose index has `bits` bits. A codeword that is short enough has them
// all: most have.
__device__ inline void make_entries(Single *to, Walk &walk, uint32_t window, uint32_t bits) {
    uint32_t words[AT_ONCE * sizeof(Single) / 4];
    constexpr uint32_t IN_WORD = 4 / sizeof(Single);
    const uint32_t first = walk.entry(window, bits);
    if (walk.length <= bits - AT_ONCE_LOG2) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE / IN_WORD; ++i) {
            words[i] = IN_WORD == 1 ? first : first * 0x10001u;
        }
    } else {
        words[0] = first;
#pragma unroll
        for (uint32_t i = 1; i < AT_ONCE; ++i) {
            const uint32_t entry = walk.entry(window + (i << (32 - bits)), bits);
            words[i / IN_WORD] = i % IN_WORD == 0 ? entry : words[i / IN_WORD] | entry << 16;
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < AT_ONCE / IN_WORD; i += 4) {
        reinterpret_cast<uint4 *>(to)[i / 4] = make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]);
    }
}

// AT_ONCE entries of a codebook's table from number `first` on. `own_symbols` are the codebook's.
__device__ inline void make_short_entries(Single *to, const CodebookDescriptor &book, const uint16_t *own_symbols,
                                          uint32_t first) {
    const uint32_t window = first << (32 - TABLE_BITS);
    Walk walk(book, own_symbols, 1, TABLE_BITS, window);
    make_entries(to, walk, window, TABLE_BITS);
}

// The same of its entries for long codewords.
__device__ inline void make_long_entries(Single *to, const CodebookDescriptor &book, const uint16_t *own_symbols,
                                         uint32_t first) {
    const uint32_t start = book.limit[TABLE_BITS], window = start + (first << (32 - LONG_BITS));
    if (book.longest <= TABLE_BITS || window < start) {
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            to[i] = 0;
        }
    } else {
        Walk walk(book, own_symbols, TABLE_BITS + 1, LONG_BITS, window);
        make_entries(to, walk, window, LONG_BITS);
    }
}

// All of a codebook's entries, with so many for long codewords. By the whole block.
__device__ inline void make_all_entries(Single *to, const CodebookDescriptor &book, const uint16_t *own_symbols,
                                        uint32_t entries_for_long) {
    const uint32_t units = (TABLE + entries_for_long) / AT_ONCE;
#pragma unroll 1
    for (uint32_t unit = threadIdx.x; unit < units && book.longest != 0; unit += THREADS) {
        const uint32_t first = unit * AT_ONCE;
        if (first < TABLE) {
            make_short_entries(to + first, book, own_symbols, first);
        } else {
            make_long_entries(to + first, book, own_symbols, first - TABLE);
        }
    }
}
