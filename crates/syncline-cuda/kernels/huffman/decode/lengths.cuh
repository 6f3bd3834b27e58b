// Code lengths of codebooks, as they are in streams: runs of one to four bytes. A thread looks at a byte, and finds
// from the few before it whether a run starts there. A scan of the runs says which symbols they stand for; a run leaves
// a mark at its first symbol.
//
// THREADS  threads in a block, a multiple of 32, at most 1024
// STAGED   bytes of codebooks that fit shared memory, a multiple of 16 times THREADS or less
// MARKS    symbols whose marks fit shared memory, a multiple of 16, four times STAGED at least; also the largest
// alphabet of each of several codebooks
#pragma once
#include "device/warp.cuh"
#include "huffman/decode/header.cuh"

constexpr uint32_t PARSE_WARPS = THREADS / WARP;
static_assert(MARKS >= 4 * STAGED, "sums of runs' symbols have room where marks will be");
// More than any codeword has bits: lengths that make no complete code.
constexpr uint32_t NO_CODE = 0xFFFFFFFF;

// Exclusive sums over a block, and the sum of all; `warp_sums` has a place for each warp.
template <typename T> __device__ inline T block_scan(T value, T *warp_sums, T &total) {
    T sum = warp_inclusive_sum(value);
    if (lane_id() == WARP - 1) {
        warp_sums[warp_id()] = sum;
    }
    __syncthreads();
    T warps = warp_inclusive_sum(lane_id() < PARSE_WARPS ? warp_sums[lane_id()] : 0);
    total = __shfl_sync(ALL_LANES, warps, WARP - 1);
    const T before = __shfl_sync(ALL_LANES, warps, (warp_id() + WARP - 1) % WARP);
    __syncthreads();
    return (warp_id() == 0 ? 0 : before) + sum - value;
}

// Shared memory of a block that reads a stream.
struct ParseScratch {
    uint32_t counts[LENGTHS]; // symbols with each length
    uint32_t entry[LENGTHS];  // place of the first symbol of each length in canonical order
    uint32_t warp_sums[PARSE_WARPS];
    uint32_t last_marks[PARSE_WARPS];
    uint32_t warp_counts[PARSE_WARPS][LENGTHS];
    uint32_t end; // of the codebook, in the codebooks' bytes
    uint32_t bad;
    uint32_t longest;     // codeword of this codebook
    uint32_t used;        // symbols
    uint32_t least, most; // symbol with a codeword that a table lookup finds
    Book book;
    alignas(16) uint8_t bytes[STAGED]; // the codebooks, if they fit
    alignas(16) uint8_t marks[MARKS];
};

// Whether a run starts at byte `at`, given that one does at byte `start`: a byte below 0x80 is the last of its run, so
// it is enough to look at those of 0x80 and more just before. There are few in a row, as these are long runs and parts
// of their numbers.
__device__ inline bool run_starts(const uint8_t *bytes, uint32_t start, uint32_t at) {
    uint32_t from = at;
    while (from > start && bytes[from - 1] >= 0x80) {
        --from;
    }
    uint32_t bytes_of_number = 0; // seen, of three
    for (; from < at; ++from) {
        bytes_of_number = bytes_of_number > 0 ? (bytes_of_number + 1) & 3 : bytes[from] >= 0xE0;
    }
    return bytes_of_number == 0;
}

// A run of code lengths.
struct Run {
    uint32_t symbols, bytes;
    bool cut;
};

__device__ inline Run run_at(const uint8_t *bytes, uint32_t at, uint32_t end) {
    Run run{(bytes[at] >> 5) + 1u, 1, false};
    if (run.symbols == 8) {
        uint32_t shift = 0;
        bool more = true;
        while (more && shift < 21 && at + run.bytes < end) {
            const uint32_t byte = bytes[at + run.bytes];
            run.symbols += (byte & 0x7F) << shift;
            shift += 7;
            run.bytes += 1;
            more = byte >= 0x80;
        }
        run.cut = more;
    }
    return run;
}

// Reads the runs of the codebook that starts at byte `position` of `bytes`, whole blocks of them at a time: counts
// symbols by length, sets `end`, and marks the first symbol of each run with its length plus 1 unless `marks` is null.
// Returns the size of the alphabet. By the whole block; what is found is there after a barrier.
__device__ inline uint32_t read_runs(const uint8_t *bytes, uint32_t position, uint32_t book_bytes,
                                     uint32_t alphabet_limit, uint8_t *marks, ParseScratch &scratch) {
    if (threadIdx.x < LENGTHS) {
        scratch.counts[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        scratch.bad = 0;
        scratch.end = position + 4;
    }
    if (book_bytes - position < 4) {
        __syncthreads();
        if (threadIdx.x == 0) {
            scratch.bad = 1;
        }
        return 0;
    }
    uint32_t alphabet = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        alphabet |= uint32_t(bytes[position + i]) << 8 * i;
    }
    if (alphabet > alphabet_limit) {
        __syncthreads();
        if (threadIdx.x == 0) {
            scratch.bad = 1;
        }
        return 0;
    }
    if (marks != nullptr) {
        // Marks start on a multiple of 16 and have room for whole units.
        for (uint32_t i = threadIdx.x; i < ceil_div(alphabet, 16); i += THREADS) {
            reinterpret_cast<uint4 *>(marks)[i] = make_uint4(0, 0, 0, 0);
        }
    }
    __syncthreads();
    uint32_t filled = 0;
    for (uint32_t window = position + 4; filled < alphabet; window += THREADS) {
        if (window >= book_bytes) {
            if (threadIdx.x == 0) {
                scratch.bad = 1;
            }
            break;
        }
        const uint32_t at = window + threadIdx.x;
        const uint32_t byte = at < book_bytes ? bytes[at] : 0;
        const bool starts = at < book_bytes && run_starts(bytes, position + 4, at);
        const Run run = starts ? run_at(bytes, at, book_bytes) : Run{0, 0, false};
        uint32_t total;
        const uint32_t first = filled + block_scan(run.symbols, scratch.warp_sums, total);
        if (starts && first < alphabet) {
            const uint32_t length = byte & 31;
            const bool last = run.symbols == alphabet - first;
            if (run.cut || run.symbols > alphabet - first || length > LONGEST || (last && length == 0)) {
                scratch.bad = 1;
            } else {
                if (marks != nullptr) {
                    marks[first] = length + 1;
                }
                if (marks != nullptr && length > 0) {
                    atomicAdd(&scratch.counts[length], run.symbols);
                }
                if (last) {
                    scratch.end = at + run.bytes;
                }
            }
        }
        filled += total;
    }
    return alphabet;
}

// No codebook starts there.
constexpr uint32_t NO_BOOK = 0xFFFFFFFF;

// Where codebook `number` starts in `bytes`, or NO_BOOK. All runs are found at once and their symbols summed up, as if
// alphabets' sizes between codebooks were runs too: these end with a byte of 0, so that whatever comes behind starts as
// if it came first. The codebook ends where the sum has grown by its alphabet. Reading one codebook after the other
// instead took 1.5 microseconds for each. Whether a codebook that is passed over is right is looked at where it is
// prepared. `sums` has a place for each byte. By the whole block.
__device__ inline uint32_t start_of_book(const uint8_t *bytes, uint32_t book_bytes, uint32_t number,
                                         uint32_t alphabet_limit, uint32_t *sums, uint32_t *warp_sums) {
    uint32_t all = 0;
    for (uint32_t window = 0; window < book_bytes; window += THREADS) {
        const uint32_t at = window + threadIdx.x;
        const uint32_t symbols =
            at < book_bytes && run_starts(bytes, 0, at) ? run_at(bytes, at, book_bytes).symbols : 0;
        uint32_t total;
        const uint32_t before = all + block_scan(symbols, warp_sums, total);
        if (at < book_bytes) {
            sums[at] = before + symbols;
        }
        all += total;
    }
    __syncthreads();
    uint32_t position = 0;
    for (uint32_t i = 0; i < number && position != NO_BOOK; ++i) {
        const uint32_t first = position + 4;
        uint32_t alphabet = 0;
        for (uint32_t byte = 0; byte < 4 && first <= book_bytes; ++byte) {
            alphabet |= uint32_t(bytes[position + byte]) << 8 * byte;
        }
        if (first > book_bytes || alphabet > alphabet_limit) {
            position = NO_BOOK;
        } else if (alphabet == 0) {
            position = first;
        } else {
            const uint32_t before = sums[first - 1];
            uint32_t low = first, high = book_bytes;
            while (low < high) {
                const uint32_t middle = (low + high) / 2;
                if (sums[middle] - before < alphabet) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            position = low < book_bytes && sums[low] - before == alphabet ? low + run_at(bytes, low, book_bytes).bytes
                                                                          : NO_BOOK;
        }
    }
    // The sums may be written over.
    __syncthreads();
    return position;
}
