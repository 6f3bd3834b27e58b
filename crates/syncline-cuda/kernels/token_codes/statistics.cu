// Classes of groups, counts of symbols in each mode, and how many bits they take: `syncline_core::tokens::estimate`.
//
// THREADS           threads of a block
// CLASSIFY_THREADS  threads of a block that classifies
// COUNTS_STRIDE     words from the counts of a codebook to those of the next one
// GROUPS_OF_TILE    groups that each tile has room for
#include "device/block.cuh"
#include "token_codes/structs.cuh"
#include "token_codes/tokens.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Bits of the fraction of logarithms.
constexpr uint32_t LOG_BITS = 16;
// The four classes of a stream, and all of them together.
constexpr uint32_t SETS = MAX_CODEBOOKS + 1, ALL_CLASSES = MAX_CODEBOOKS;

// Gives bins of activity their classes: quarters of the live groups of a stream. One block per stream.
extern "C" __global__ void __launch_bounds__(CLASSIFY_THREADS)
    token_codes_classify(const uint32_t *groups, uint32_t slots, uint8_t *classes, uint32_t *live_groups) {
    __shared__ uint32_t bins[ACTIVITY_BINS];
    const uint32_t stream = blockIdx.x;
    for (uint32_t i = threadIdx.x; i < ACTIVITY_BINS; i += CLASSIFY_THREADS) {
        bins[i] = 0;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < slots; i += CLASSIFY_THREADS) {
        const uint32_t word = groups[uint64_t(stream) * slots + i];
        if (group_is_live(word)) {
            atomicAdd(&bins[group_bin(word)], 1u);
        }
    }
    __syncthreads();
    if (warp_id() != 0) {
        return;
    }
    uint32_t total = 0;
    for (uint32_t i = lane_id(); i < ACTIVITY_BINS; i += WARP) {
        total += bins[i];
    }
    total = warp_reduce_sum(total);
    uint32_t below = 0;
    for (uint32_t first = 0; first < ACTIVITY_BINS; first += WARP) {
        const uint32_t i = first + lane_id(), own = i < ACTIVITY_BINS ? bins[i] : 0;
        const uint32_t through = below + warp_inclusive_sum(own);
        if (i < ACTIVITY_BINS) {
            classes[stream * ACTIVITY_BINS + i] = uint8_t(min_of(4 * (through - own) / max_of(total, 1u), 3u));
        }
        below = __shfl_sync(ALL_LANES, through, WARP - 1);
    }
    if (lane_id() == 0) {
        live_groups[stream] = total;
    }
}

// Calls `visit(class, codes)` for the live groups of a stream that belong to this block of those of the stream. Called
// by all warps of the block.
template <typename Visit>
__device__ inline void for_each_group(const int32_t *codes, const uint32_t *groups, uint32_t slots,
                                      const uint8_t *classes, uint32_t stream, Visit visit) {
    for (uint32_t slot = blockIdx.x * WARPS + warp_id(); slot < slots; slot += gridDim.x * WARPS) {
        const uint64_t place = uint64_t(stream) * slots + slot;
        const uint32_t word = groups[place];
        if (group_is_live(word)) {
            visit(classes[stream * ACTIVITY_BINS + group_bin(word)],
                  LaneCodes(codes + place * TOKEN_GROUP, group_length(word)));
        }
    }
}

// Counts the symbols of each class in all modes but *wide*. The grid is (blocks of a stream, streams); `counts` is 0
// before.
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_count(const int32_t *codes, const uint32_t *groups, uint32_t slots, const uint8_t *classes,
                      SymbolCounts *counts) {
    extern __shared__ uint32_t words[];
    SymbolCounts *own = reinterpret_cast<SymbolCounts *>(words);
    constexpr uint32_t COUNT_WORDS = MAX_CODEBOOKS * sizeof(SymbolCounts) / sizeof(uint32_t);
    for (uint32_t i = threadIdx.x; i < COUNT_WORDS; i += THREADS) {
        words[i] = 0;
    }
    __syncthreads();
    const uint32_t stream = blockIdx.y;
    for_each_group(codes, groups, slots, classes, stream, [&](uint32_t class_of, const LaneCodes &lane) {
        SymbolCounts &to = own[class_of];
        // Zeros are counted together, because they are many.
        uint32_t zeros = 0, outside = 0, outside_wide = 0;
#pragma unroll
        for (uint32_t i = 0; i < CODES_OF_LANE; ++i) {
            const int32_t code = lane.codes[i];
            if (i >= lane.count || code == 0) {
                zeros += i < lane.count;
            } else if (is_plain(code)) {
                atomicAdd(&to.plain[code + PLAIN_RADIUS], 1u);
            } else {
                ++outside;
                outside_wide += !is_wide(code);
            }
        }
        zeros = warp_reduce_sum(zeros);
        if (lane_id() == 0) {
            atomicAdd(&to.plain[PLAIN_RADIUS], zeros);
        }
        if (outside > 0) {
            atomicAdd(&to.outside, outside);
            atomicAdd(&to.outside_wide, outside_wide);
        }
        lane.for_each_run([&](const Token &token) { atomicAdd(&to.runs[token.symbol], 1u); });
    });
    __syncthreads();
    uint32_t *all = reinterpret_cast<uint32_t *>(counts + uint64_t(stream) * MAX_CODEBOOKS);
    for (uint32_t i = threadIdx.x; i < COUNT_WORDS; i += THREADS) {
        if (words[i] != 0) {
            atomicAdd(&all[i], words[i]);
        }
    }
}

// Codes of mode *wide* that are counted in shared memory: most are small.
constexpr int32_t NEAR_RADIUS = 4096;

// Counts the symbols of mode *wide* of the listed classes of streams. The grid is (blocks of a class, classes);
// `counts` has the whole alphabet of each, and is 0 before.
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_count_wide(const int32_t *codes, const uint32_t *groups, uint32_t slots, const uint8_t *classes,
                           const WideClass *listed, uint32_t *counts) {
    __shared__ uint32_t near_codes[2 * NEAR_RADIUS];
    for (uint32_t i = threadIdx.x; i < 2 * NEAR_RADIUS; i += THREADS) {
        near_codes[i] = 0;
    }
    __syncthreads();
    const WideClass own = listed[blockIdx.y];
    uint32_t *to = counts + uint64_t(blockIdx.y) * format::ALPHABET_WIDE + TOKEN_WIDE_RADIUS;
    for_each_group(codes, groups, slots, classes, own.stream, [&](uint32_t class_of, const LaneCodes &lane) {
        if (class_of != own.number) {
            return;
        }
#pragma unroll
        for (uint32_t i = 0; i < CODES_OF_LANE; ++i) {
            if (i < lane.count) {
                const int32_t code = lane.codes[i];
                const bool is_near = code >= -NEAR_RADIUS && code < NEAR_RADIUS;
                atomicAdd(is_near ? &near_codes[code + NEAR_RADIUS] : &to[code], 1u);
            }
        }
    });
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 2 * NEAR_RADIUS; i += THREADS) {
        if (near_codes[i] != 0) {
            atomicAdd(&to[int32_t(i) - NEAR_RADIUS], near_codes[i]);
        }
    }
}

// Returns `number * log2(number)` in units of 2^-16, the logarithm rounded down bit by bit; 0 for 0.
__device__ inline uint64_t times_log2(uint32_t number) {
    if (number < 2) {
        return 0;
    }
    const uint32_t whole = 31 - __clz(int32_t(number));
    uint64_t mantissa = uint64_t(number) << 31 >> whole;
    uint32_t log = whole;
    for (uint32_t i = 0; i < LOG_BITS; ++i) {
        mantissa = (mantissa * mantissa) >> 31;
        const uint32_t bit = uint32_t(mantissa >> 32);
        log = log << 1 | bit;
        mantissa >>= bit;
    }
    return uint64_t(number) * log;
}

// Combines a number of each thread of the block. `warp_values` is shared memory for WARPS numbers.
template <typename T, typename Op> __device__ inline T block_reduce(T value, T *warp_values, Op op) {
    value = warp_reduce(value, op);
    __syncthreads();
    if (lane_id() == 0) {
        warp_values[warp_id()] = value;
    }
    __syncthreads();
    value = warp_values[0];
    for (uint32_t warp = 1; warp < WARPS; ++warp) {
        value = op(value, warp_values[warp]);
    }
    return value;
}

__device__ inline uint64_t block_sum(uint64_t value, uint64_t *warp_values) {
    return block_reduce(value, warp_values, [](uint64_t a, uint64_t b) { return a + b; });
}

// Estimates the bits of a Huffman code for `alphabet` symbols with the counts that `count_of` returns, and of its
// codebook. Called by the whole block.
template <typename CountOf> __device__ inline uint64_t codeword_bits(uint32_t alphabet, CountOf count_of) {
    __shared__ uint64_t warp_values[WARPS];
    uint64_t total = 0, used_and_runs = 0, weighted = 0, most = 0;
    for (uint32_t symbol = threadIdx.x; symbol < alphabet; symbol += THREADS) {
        const uint32_t count = count_of(symbol);
        if (count == 0) {
            continue;
        }
        const bool starts_run = symbol == 0 || count_of(symbol - 1) == 0;
        total += count;
        most = max_of(most, uint64_t(count));
        used_and_runs += starts_run ? 2 : 1;
        weighted += times_log2(count);
    }
    total = block_sum(total, warp_values);
    if (total == 0) {
        return 0;
    }
    most = block_reduce(most, warp_values, [](uint64_t a, uint64_t b) { return max_of(a, b); });
    used_and_runs = block_sum(used_and_runs, warp_values);
    weighted = block_sum(weighted, warp_values);
    const uint64_t others = total - most;
    // If one symbol is the commonest, it takes one bit; so does what tells the others from it.
    const uint64_t bits =
        most > others ? total + ((times_log2(uint32_t(others)) - (weighted - times_log2(uint32_t(most)))) >> LOG_BITS)
                      : (times_log2(uint32_t(total)) - weighted) >> LOG_BITS;
    return bits + 8 * (4 + used_and_runs);
}

// Estimates the bits of each class of each stream, and of all its classes together, in all modes but *wide*. The grid
// is (sets of a stream, streams).
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_estimate(const SymbolCounts *counts, ModeBits *estimates) {
    __shared__ SymbolCounts own;
    __shared__ uint64_t warp_values[WARPS];
    const uint32_t set = blockIdx.x, stream = blockIdx.y;
    const SymbolCounts *of_classes = counts + uint64_t(stream) * MAX_CODEBOOKS;
    const uint32_t first = set == ALL_CLASSES ? 0 : set, end = set == ALL_CLASSES ? MAX_CODEBOOKS : set + 1;
    for (uint32_t i = threadIdx.x; i < sizeof(SymbolCounts) / sizeof(uint32_t); i += THREADS) {
        uint32_t sum = 0;
        for (uint32_t number = first; number < end; ++number) {
            sum += reinterpret_cast<const uint32_t *>(of_classes + number)[i];
        }
        reinterpret_cast<uint32_t *>(&own)[i] = sum;
    }
    __syncthreads();
    ModeBits result = {};
    result.outside = own.outside;
    result.outside_wide = own.outside_wide;
    uint64_t run_bits = 0;
    for (uint32_t symbol = threadIdx.x; symbol < format::ZERO_RUN; symbol += THREADS) {
        run_bits += uint64_t(own.runs[symbol]) * (symbol % 32 + 1);
    }
    run_bits = block_sum(run_bits, warp_values);
    result.bits[format::MODE_PLAIN] =
        codeword_bits(format::ALPHABET_PLAIN, [&](uint32_t symbol) { return own.plain[symbol]; });
    result.bits[format::MODE_RUNS] =
        run_bits + codeword_bits(format::ALPHABET_RUNS, [&](uint32_t symbol) { return own.runs[symbol]; });
    if (threadIdx.x == 0) {
        estimates[stream * SETS + set] = result;
    }
}

// Adds up how often the symbols of each codebook occur, in a mode other than *wide*. Chunks with one codebook have all
// classes in the first. The grid is (codebooks of a chunk, chunks); `sums` is 0 before.
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_sum(const SymbolCounts *counts, const ChunkCodebooks *codebooks, uint32_t *sums) {
    const uint32_t number = blockIdx.x, chunk = blockIdx.y;
    const ChunkCodebooks &own = codebooks[chunk];
    if (number >= own.count) {
        return;
    }
    const uint32_t mode = own.of[number].mode, first = own.count > 1 ? number : 0,
                   end = own.count > 1 ? number + 1 : MAX_CODEBOOKS;
    uint32_t *to = sums + uint64_t(chunk * MAX_CODEBOOKS + number) * COUNTS_STRIDE;
    for (uint32_t class_of = first; class_of < end; ++class_of) {
        const SymbolCounts &from = counts[uint64_t(chunk) * MAX_CODEBOOKS + class_of];
        auto add = [&](const uint32_t *symbols, uint32_t alphabet) {
            for (uint32_t symbol = threadIdx.x; symbol < alphabet; symbol += THREADS) {
                if (symbols[symbol] != 0) {
                    atomicAdd(&to[symbol], symbols[symbol]);
                }
            }
        };
        if (mode == format::MODE_RUNS) {
            add(from.runs, format::ALPHABET_RUNS);
        } else {
            add(from.plain, format::ALPHABET_PLAIN);
        }
    }
}

// Estimates the bits of the listed sets in mode *wide*. Classes without counts in this mode have plain codes only.
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_estimate_wide(const SymbolCounts *counts, const uint32_t *wide_counts, const WideSet *sets,
                              uint64_t *bits) {
    const WideSet set = sets[blockIdx.x];
    const SymbolCounts *of_classes = counts + uint64_t(set.stream) * MAX_CODEBOOKS;
    const uint64_t estimate = codeword_bits(format::ALPHABET_WIDE, [&](uint32_t symbol) {
        uint32_t count = 0;
        for (uint32_t number = 0; number < MAX_CODEBOOKS; ++number) {
            if ((set.classes >> number & 1) == 0) {
                continue;
            }
            const int32_t code = int32_t(symbol) - TOKEN_WIDE_RADIUS;
            if (set.entries[number] != WIDE_NO_ENTRY) {
                count += wide_counts[uint64_t(set.entries[number]) * format::ALPHABET_WIDE + symbol];
            } else if (is_plain(code)) {
                count += of_classes[number].plain[code + PLAIN_RADIUS];
            }
        }
        return count;
    });
    if (threadIdx.x == 0) {
        bits[blockIdx.x] = estimate;
    }
}
