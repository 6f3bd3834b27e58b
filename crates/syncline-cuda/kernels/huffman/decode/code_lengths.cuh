// Reading the code lengths of codebooks, which a stream stores as runs of one to four bytes. Each thread looks at one
// byte and decides from the few bytes before it whether a run starts there. A prefix sum over the runs gives their
// first symbols, and each run leaves a mark at its first symbol.
//
// THREADS                threads per block, a multiple of 32, at most 1024
// STAGED                 bytes of codebooks that fit into shared memory, a multiple of 16 times THREADS or less
// MARKS                  symbols whose marks fit into shared memory: a multiple of 16 and at least 4 times STAGED; also
//                        the largest alphabet of each codebook of a stream with several
#pragma once
#include "device/block.cuh"
#include "huffman/decode/stream_header.cuh"

constexpr uint32_t PARSE_WARPS = THREADS / WARP;
static_assert(MARKS >= 4 * STAGED, "sums of runs' symbols have room where marks will be");
// Longer than any codeword: marks code lengths that do not form a complete code.
constexpr uint32_t NO_CODE = 0xFFFFFFFF;

// Shared memory of a block that parses a stream.
struct ParseScratch {
    uint32_t counts[LENGTHS]; // symbols of each length
    uint32_t entry[LENGTHS];  // rank of the first symbol of each length in canonical order
    uint32_t warp_sums[PARSE_WARPS];
    uint32_t last_marks[PARSE_WARPS];
    uint32_t warp_counts[PARSE_WARPS][LENGTHS];
    uint32_t end; // of the codebook, in bytes from the start of the stream's codebooks
    uint32_t bad;
    uint32_t longest;     // length of this codebook's longest codeword
    uint32_t used;        // number of symbols with a codeword
    uint32_t least, most; // smallest and largest symbol whose codeword a table lookup finds
    CodebookDescriptor codebook;
    alignas(16) uint8_t bytes[STAGED]; // the codebooks, if they fit
    alignas(16) uint8_t marks[MARKS];
};

// Whether a run starts at byte `at`, if one starts at byte `start`. A byte below 0x80 always ends a run, so it is
// enough to look at the bytes of 0x80 and more directly before; there are at most a few of these in a row.
__device__ inline bool is_run_start(const uint8_t *bytes, uint32_t start, uint32_t at) {
    uint32_t from = at;
    while (from > start && bytes[from - 1] >= 0x80) {
        --from;
    }
    uint32_t bytes_of_number = 0; // how many of the three have been seen
    for (; from < at; ++from) {
        bytes_of_number = bytes_of_number > 0 ? (bytes_of_number + 1) & 3 : bytes[from] >= 0xE0;
    }
    return bytes_of_number == 0;
}

// A run of symbols with the same code length.
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

// Reads the runs of the codebook at byte `position` of `bytes`, THREADS bytes at a time: counts symbols by length, sets
// `end`, and marks the first symbol of each run with its length plus 1 unless `marks` is null. Returns the size of the
// alphabet. Called by the whole block; the results are visible after a barrier.
__device__ inline uint32_t read_runs(const uint8_t *bytes, uint32_t position, uint32_t codebook_bytes,
                                     uint32_t alphabet_limit, uint8_t *marks, ParseScratch &scratch) {
    if (threadIdx.x < LENGTHS) {
        scratch.counts[threadIdx.x] = 0;
    }
    if (threadIdx.x == 0) {
        scratch.bad = 0;
        scratch.end = position + 4;
    }
    if (codebook_bytes - position < 4) {
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
        // Marks start at a multiple of 16 bytes and are padded to one.
        for (uint32_t i = threadIdx.x; i < ceil_div(alphabet, 16); i += THREADS) {
            reinterpret_cast<uint4 *>(marks)[i] = make_uint4(0, 0, 0, 0);
        }
    }
    __syncthreads();
    uint32_t filled = 0;
    for (uint32_t window = position + 4; filled < alphabet; window += THREADS) {
        if (window >= codebook_bytes) {
            if (threadIdx.x == 0) {
                scratch.bad = 1;
            }
            break;
        }
        const uint32_t at = window + threadIdx.x;
        const uint32_t byte = at < codebook_bytes ? bytes[at] : 0;
        const bool starts = at < codebook_bytes && is_run_start(bytes, position + 4, at);
        const Run run = starts ? run_at(bytes, at, codebook_bytes) : Run{0, 0, false};
        uint32_t total;
        const uint32_t first = filled + block_exclusive_sum<THREADS>(run.symbols, scratch.warp_sums, total);
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

// There is no codebook.
constexpr uint32_t NO_CODEBOOK = 0xFFFFFFFF;

// Returns where codebook `number` starts in `bytes`, or NO_CODEBOOK. All runs are found at once and their symbols added
// up, as if the alphabet sizes between codebooks were runs, too; these end with a byte of 0, so the runs after them are
// recognized. A codebook ends where the sum has grown by its alphabet. Reading one codebook after the other would take
// 1.5 microseconds for each. Skipped codebooks are checked by the blocks that prepare them. `sums` has one word per
// byte. Called by the whole block.
__device__ inline uint32_t find_codebook(const uint8_t *bytes, uint32_t codebook_bytes, uint32_t number,
                                         uint32_t alphabet_limit, uint32_t *sums, uint32_t *warp_sums) {
    uint32_t all = 0;
    for (uint32_t window = 0; window < codebook_bytes; window += THREADS) {
        const uint32_t at = window + threadIdx.x;
        const uint32_t symbols =
            at < codebook_bytes && is_run_start(bytes, 0, at) ? run_at(bytes, at, codebook_bytes).symbols : 0;
        uint32_t total;
        const uint32_t before = all + block_exclusive_sum<THREADS>(symbols, warp_sums, total);
        if (at < codebook_bytes) {
            sums[at] = before + symbols;
        }
        all += total;
    }
    __syncthreads();
    uint32_t position = 0;
    for (uint32_t i = 0; i < number && position != NO_CODEBOOK; ++i) {
        const uint32_t first = position + 4;
        uint32_t alphabet = 0;
        for (uint32_t byte = 0; byte < 4 && first <= codebook_bytes; ++byte) {
            alphabet |= uint32_t(bytes[position + byte]) << 8 * byte;
        }
        if (first > codebook_bytes || alphabet > alphabet_limit) {
            position = NO_CODEBOOK;
        } else if (alphabet == 0) {
            position = first;
        } else {
            const uint32_t before = sums[first - 1];
            uint32_t low = first, high = codebook_bytes;
            while (low < high) {
                const uint32_t middle = (low + high) / 2;
                if (sums[middle] - before < alphabet) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            position = low < codebook_bytes && sums[low] - before == alphabet
                           ? low + run_at(bytes, low, codebook_bytes).bytes
                           : NO_CODEBOOK;
        }
    }
    // The caller may overwrite `sums` after this.
    __syncthreads();
    return position;
}
