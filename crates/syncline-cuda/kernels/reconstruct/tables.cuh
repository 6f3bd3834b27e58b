// Decoding tables of single codewords for reconstruction. They are built by the kernel that parses codebooks
// (container/parse.cu), or by the block that uses them.
//
// An entry contains the length of a codeword and, from bit SYMBOL_AT up, its symbol; entries are half as wide if
// symbols are small. An entry is 0 if there is no codeword of at most TABLE_BITS bits.
//
// WIDE  1 if symbols may have more than 10 bits
#pragma once
#include "huffman/decode/decode.cuh"

#if WIDE
typedef uint32_t Single;
constexpr uint32_t SYMBOL_AT = 16;
#else
typedef uint16_t Single;
constexpr uint32_t SYMBOL_AT = 6;
#endif

// Offset of the tables of a codebook with narrow symbols from the first of its symbols in the batch's array, which are
// at most this many: entries for the next TABLE_BITS bits, followed by those for long codewords.
constexpr uint32_t TABLES_AT = 1024;

// Enumerates codewords for ascending windows, the next bits of a stream.
struct Walk {
    const CodebookDescriptor &book;
    const uint16_t *symbols;
    uint32_t length, place, symbol;

    // Starts at `window`, for codewords of `shortest` to `longest` bits. `own_symbols` are the codebook's symbols.
    __device__ inline Walk(const CodebookDescriptor &code, const uint16_t *own_symbols, uint32_t shortest,
                           uint32_t longest, uint32_t window)
        : book(code), symbols(own_symbols), length(shortest), place(ALL_LANES), symbol(0) {
        // All limits are loaded together, so that they wait for shared memory once.
#pragma unroll
        for (uint32_t i = 0; i <= longest - shortest; ++i) {
            length += window >= code.limit[shortest + i] ? 1 : 0;
        }
        length = min_of(length, max_of(code.longest, shortest));
    }

    // Returns the entry of the codeword at the start of a window, which must not be below the previous window; 0 if the
    // codeword is longer than `longest`.
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

constexpr uint32_t AT_ONCE_LOG2 = 3, AT_ONCE = 1u << AT_ONCE_LOG2; // entries that a thread computes one after another

// Computes the entries of a walk from `window` on, whose index has `bits` bits. If a codeword is short enough, all of
// them have the same entry, which is the most frequent case.
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

// Computes AT_ONCE entries of a codebook's table from number `first` on. `own_symbols` are the codebook's symbols.
__device__ inline void make_short_entries(Single *to, const CodebookDescriptor &book, const uint16_t *own_symbols,
                                          uint32_t first) {
    const uint32_t window = first << (32 - TABLE_BITS);
    Walk walk(book, own_symbols, 1, TABLE_BITS, window);
    make_entries(to, walk, window, TABLE_BITS);
}

// Computes AT_ONCE entries for long codewords of a codebook, otherwise as `make_short_entries`.
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

// Computes all entries of a codebook, with the given number of entries for long codewords. Called by the whole block.
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
