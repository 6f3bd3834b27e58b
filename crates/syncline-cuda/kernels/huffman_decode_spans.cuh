// What the decoders that start at subsequences share: a sequence of codewords in shared memory, and counting what is in a span.
//
// SEQUENCE   subsequences in a sequence: what a block works on
// THREADS    threads in a block: each has as many subsequences
#pragma once
#include "huffman_decode.cuh"

constexpr uint32_t WORDS_IN_SUBSEQUENCE = SUBSEQUENCE_BITS / 32;
constexpr uint32_t SEQUENCE_BITS = SEQUENCE * SUBSEQUENCE_BITS;
// Words of a sequence, and those that its last codeword and the reader's look ahead may touch.
constexpr uint32_t STAGED_WORDS = SEQUENCE * WORDS_IN_SUBSEQUENCE + 3;
constexpr uint32_t WARPS = THREADS / WARP;
// Bits that a thread looks after.
constexpr uint32_t THREAD_BITS = SEQUENCE_BITS / THREADS;

// Words in shared memory with a gap after every 32: threads that are at the same place of their subsequences, four words apart, hit different banks.
struct Padded {
    const uint32_t *words;
    static __device__ constexpr uint32_t slot(uint32_t i) { return i + (i >> 5); }
    __device__ inline uint32_t operator[](uint32_t i) const { return words[slot(i)]; }
};

// A block's sequence. Positions are bits from its start.
struct Sequence {
    uint32_t words[Padded::slot(STAGED_WORDS) + 1];

    // Loads sequence `number` of a stream; to be called, and followed by a barrier, by the whole block. Returns its last word.
    __device__ inline uint32_t load(const uint8_t *input, const Stream &stream, uint32_t number) {
        const uint32_t *from = reinterpret_cast<const uint32_t *>(input + stream.words) + number * (SEQUENCE_BITS / 32);
        // The stream has two words more than its bits fill.
        const uint32_t last = last_word(stream, number);
        for (uint32_t i = threadIdx.x; i <= last; i += THREADS) {
            words[Padded::slot(i)] = from[i];
        }
        return last;
    }

    static __device__ inline uint32_t last_word(const Stream &stream, uint32_t number) {
        const uint32_t words = ceil_div(stream.bits, 32) + 2 - number * (SEQUENCE_BITS / 32);
        return min_of(words, STAGED_WORDS) - 1;
    }
};

// Bits of the sequence: all, or what is left of the stream.
__device__ inline uint32_t bits_of(const Stream &stream, uint32_t number) {
    return min_of(stream.bits - number * SEQUENCE_BITS, SEQUENCE_BITS);
}

// Where a thread's part ends.
__device__ inline uint32_t stop_of(uint32_t thread, uint32_t sequence_bits) { return min_of((thread + 1) * THREAD_BITS, sequence_bits); }

// Tables of a block.
struct Tables {
    uint32_t lookup[TABLE + LONG_ENTRIES];
    uint32_t counts[COUNT_WORDS];
};
static_assert(sizeof(Tables) == BOOK_WORDS * 4, "one after the other");

// The codewords that start from the reader's position on and before `stop`.
template <typename Source> __device__ inline uint32_t count_span(const Tables &tables, const Decoder &decoder, Source &from, uint32_t stop) {
    const uint8_t *counts = reinterpret_cast<const uint8_t *>(tables.counts);
    uint32_t count = 0;
    // All codewords of a lookup start before `stop`.
    while (from.position + TABLE_BITS <= stop) {
        uint32_t window = from.window();
        uint32_t several = counts[window >> (32 - TABLE_BITS)];
        uint32_t bits = several & 15;
        count += several >> 4;
        if (bits == 0) {
            bits = decoder.first(0, window).length;
            count += 1;
        }
        from.skip(bits);
    }
    while (from.position < stop) {
        decoder.one(from);
        count += 1;
    }
    return count;
}

// Copies a stream's descriptor, its codebook and its tables for lookups to shared memory. By the whole block, with barriers around it.
__device__ inline void load_stream(Stream &stream, Book &book, uint32_t *lookup, const Stream *streams, uint32_t number, const Book *books,
                                   const uint32_t *tables) {
    __syncthreads();
    if (threadIdx.x < sizeof(Stream) / 4) {
        reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&streams[number])[threadIdx.x];
    }
    __syncthreads();
    if (threadIdx.x < sizeof(Book) / 4) {
        reinterpret_cast<uint32_t *>(&book)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&books[stream.first_book])[threadIdx.x];
    }
    load_tables(lookup, tables + uint64_t(stream.first_book) * BOOK_WORDS, LONG_ENTRIES, books[stream.first_book]);
    __syncthreads();
}

// The same, and the tables for counting.
__device__ inline void load_stream(Stream &stream, Book &book, Tables &to, const Stream *streams, uint32_t number, const Book *books,
                                   const uint32_t *tables) {
    load_stream(stream, book, to.lookup, streams, number, books, tables);
    load_words(to.counts, tables + uint64_t(stream.first_book) * BOOK_WORDS + TABLE + LONG_ENTRIES, COUNT_WORDS);
    __syncthreads();
}
