// What comes before encoding: counts of the symbols of live groups, and codebooks as bytes (docs/FORMAT.md, "Codebook").
//
// COPIES   copies of the counters in a block, a power of two up to 32; 0: counters in device memory only
// THREADS  threads in a block
// PART     symbols that a block counts, a multiple of 512 * THREADS / 32
#include "huffman_encode.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t BOOK_BYTES = ALPHABET + 4;
// Runs of at least this many equal lengths have their length coded as a number of its own.
constexpr uint32_t LONG_RUN = 8;

// Adds to `counts`, of each book of each stream, how often each symbol occurs in live groups (of the class). The free symbol, which most often is the commonest,
// is counted in registers. Symbols outside of the alphabet are reported, and counted as others.
extern "C" __global__ void __launch_bounds__(THREADS)
    encode_counts(const uint8_t *symbols, const Span *spans, const uint8_t *classes, uint32_t parts_in_stream, uint64_t *counts, uint32_t *status) {
    extern __shared__ uint32_t table[];
    const uint32_t stream = blockIdx.x / parts_in_stream;
    const uint32_t begin = blockIdx.x % parts_in_stream * PART;
    const Span span = spans[stream];
    if (begin >= span.groups * GROUP) {
        return;
    }
    const uint32_t end = min_of(begin + PART, span.groups * GROUP), last = end - LANE_SYMBOLS;
    uint64_t *of_stream = counts + uint64_t(stream) * BOOKS * ALPHABET;
    for (uint32_t i = threadIdx.x; i < CLASSES * ALPHABET * COPIES; i += THREADS) {
        table[i] = 0;
    }
    __syncthreads();
    const uint32_t free_word = spread_symbol(span.free_symbol);
    const uint8_t *from = symbols + span.first_group * GROUP * SYMBOL_BYTES;
    uint32_t free_counts[CLASSES] = {};
    bool bad = false;
    uint32_t at = begin + warp_id() * WARP_SYMBOLS + lane_id() * LANE_SYMBOLS;
    LaneSymbols next;
    next.load(from + min_of(at, last) * SYMBOL_BYTES);
    for (uint32_t round = begin; round < end; round += WARPS * WARP_SYMBOLS, at += WARPS * WARP_SYMBOLS) {
        const LaneSymbols own = next;
        next.load(from + min_of(at + WARPS * WARP_SYMBOLS, last) * SYMBOL_BYTES);
        if ((__ballot_sync(ALL_LANES, at < end && own.differs_from(free_word)) & group_lanes()) == 0) {
            continue;
        }
        const uint32_t book = CLASSES == 1 ? 0 : min_of<uint32_t>(classes[span.first_group + at / GROUP], CLASSES - 1);
        bad |= own.beyond_alphabet();
        uint32_t free_here = 0;
#pragma unroll
        for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
            const uint32_t symbol = own[i];
            if (symbol == span.free_symbol) {
                ++free_here;
            } else if (COPIES > 0) {
                atomicAdd(&table[(book * ALPHABET + symbol % ALPHABET) * COPIES + lane_id() % max_of<uint32_t>(COPIES, 1)], 1u);
            } else {
                atomicAdd(&of_stream[book * ALPHABET + symbol % ALPHABET], 1ull);
                if (CLASSES > 1) {
                    atomicAdd(&of_stream[CLASSES * ALPHABET + symbol % ALPHABET], 1ull);
                }
            }
        }
#pragma unroll
        for (uint32_t c = 0; c < CLASSES; ++c) {
            free_counts[c] += c == book ? free_here : 0;
        }
    }
#pragma unroll
    for (uint32_t c = 0; c < CLASSES; ++c) {
        const uint32_t total = warp_sum(free_counts[c]);
        if (lane_id() == 0 && total > 0) {
            atomicAdd(&of_stream[c * ALPHABET + span.free_symbol % ALPHABET], uint64_t(total));
            if (CLASSES > 1) {
                atomicAdd(&of_stream[CLASSES * ALPHABET + span.free_symbol % ALPHABET], uint64_t(total));
            }
        }
    }
    if (__any_sync(ALL_LANES, bad) && lane_id() == 0) {
        atomicOr(&status[stream], STATUS_MISSING_CODEWORD);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; COPIES > 0 && i < CLASSES * ALPHABET; i += THREADS) {
        uint32_t sum = 0;
        for (uint32_t copy = 0; copy < COPIES; ++copy) {
            // Rotated by thread: the same copy of neighbouring counters is in the same bank.
            sum += table[i * COPIES + (copy + threadIdx.x) % max_of<uint32_t>(COPIES, 1)];
        }
        if (sum > 0) {
            atomicAdd(&of_stream[i], uint64_t(sum));
            if (CLASSES > 1) {
                atomicAdd(&of_stream[CLASSES * ALPHABET + i % ALPHABET], uint64_t(sum));
            }
        }
    }
}

__device__ inline uint32_t run_bytes(uint32_t run) {
    return run < LONG_RUN ? 1 : run - LONG_RUN < 1u << 7 ? 2 : run - LONG_RUN < 1u << 14 ? 3 : 4;
}

// A codebook a block: its bytes to `bytes`, how many and the longest codeword to `summaries`. `runs` has ALPHABET entries a book.
extern "C" __global__ void __launch_bounds__(THREADS)
    encode_books(const uint32_t *codewords, uint32_t *runs, uint32_t *summaries, uint8_t *bytes) {
    __shared__ uint32_t warp_sums[WARPS];
    __shared__ uint32_t symbols_used, longest;
    const uint64_t book = blockIdx.x;
    codewords += book * ALPHABET;
    runs += book * ALPHABET;
    bytes += book * BOOK_BYTES;
    if (threadIdx.x == 0) {
        symbols_used = longest = 0;
    }
    __syncthreads();
    uint32_t last = 0, most = 0;
    for (uint32_t i = threadIdx.x; i < ALPHABET; i += THREADS) {
        const uint32_t length = codewords[i] >> CODE_BITS;
        last = length > 0 ? i + 1 : last;
        most = max_of(most, length);
    }
    atomicMax(&symbols_used, last);
    atomicMax(&longest, most);
    __syncthreads();
    const uint32_t alphabet = symbols_used;
    uint32_t count = 0, total;
    for (uint32_t first = 0; first < alphabet; first += THREADS) {
        const uint32_t i = first + threadIdx.x;
        const bool starts = i < alphabet && (i == 0 || codewords[i] >> CODE_BITS != codewords[i - 1] >> CODE_BITS);
        const uint32_t before = count + block_scan<THREADS, uint32_t>(starts, warp_sums, total);
        if (starts) {
            runs[before] = i;
        }
        count += total;
    }
    __syncthreads();
    uint32_t written = 4;
    for (uint32_t first = 0; first < count; first += THREADS) {
        const uint32_t i = first + threadIdx.x;
        uint32_t start = 0, run = 0;
        if (i < count) {
            start = runs[i];
            run = (i + 1 < count ? runs[i + 1] : alphabet) - start;
        }
        uint32_t at = written + block_scan<THREADS, uint32_t>(i < count ? run_bytes(run) : 0, warp_sums, total);
        if (i < count) {
            bytes[at] = codewords[start] >> CODE_BITS | (run < LONG_RUN ? run - 1 : LONG_RUN - 1) << 5;
            if (run >= LONG_RUN) {
                uint32_t number = run - LONG_RUN;
                for (; number >= 0x80; number >>= 7) {
                    bytes[++at] = number | 0x80;
                }
                bytes[++at] = number;
            }
        }
        written += total;
    }
    if (threadIdx.x < 4) {
        bytes[threadIdx.x] = alphabet >> 8 * threadIdx.x;
    }
    if (threadIdx.x == 0) {
        summaries[2 * book] = written;
        summaries[2 * book + 1] = longest;
    }
}

// A stream a block: CLASSES codebooks if that makes codewords and codebooks shorter than the one for all classes, else that one.
extern "C" __global__ void __launch_bounds__(THREADS)
    encode_choose(const uint64_t *counts, const uint32_t *codewords, const uint32_t *summaries, uint32_t *codebooks) {
    __shared__ uint64_t warp_sums[WARPS];
    const uint32_t stream = blockIdx.x;
    uint64_t several = 0, single = 0;
    for (uint32_t i = threadIdx.x; i < BOOKS * ALPHABET; i += THREADS) {
        const uint64_t at = uint64_t(stream) * BOOKS * ALPHABET + i;
        (i < CLASSES * ALPHABET ? several : single) += counts[at] * (codewords[at] >> CODE_BITS);
    }
    uint64_t total;
    block_scan<THREADS, uint64_t>(several, warp_sums, total);
    several = total;
    block_scan<THREADS, uint64_t>(single, warp_sums, total);
    single = total;
    if (threadIdx.x == 0) {
        for (uint32_t book = 0; book < CLASSES; ++book) {
            several += 8 * summaries[2 * (stream * BOOKS + book)];
        }
        single += 8 * summaries[2 * (stream * BOOKS + CLASSES)];
        codebooks[stream] = CLASSES > 1 && several < single ? CLASSES : 1;
    }
}
