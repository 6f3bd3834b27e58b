// Counts the symbols of coded groups, and serializes codebooks (docs/FORMAT.md, "Codebook").
//
// COPIES           copies of the counters in a block, a power of two up to 32; 0: counters in device memory only
// THREADS          threads of a block
// PART_SYMBOLS     minimum number of symbols that a block counts, a multiple of 512 * THREADS / 32
// SMALL_ALPHABET   1: huffman/codebook/small_alphabet.cu reads the counts: 32 bits each, followed by a status for each
//                  stream; 0: 64 bits each, and also for all classes together
// RESIDENT_BLOCKS  resident blocks per multiprocessor, for the allocation of registers
#include "device/sync.cuh"
#include "huffman/encode/encode.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t MAX_CODEBOOK_BYTES = ALPHABET + 4;
// Runs of at least this many equal lengths store the run length as a separate number.
constexpr uint32_t LONG_RUN = 8;

constexpr uint32_t BLOCK_SYMBOLS = WARPS * WARP_SYMBOLS;
static_assert(PART_SYMBOLS % BLOCK_SYMBOLS == 0, "a part is whole rounds of a block");

#if SMALL_ALPHABET
typedef uint32_t Count;
#else
typedef uint64_t Count;
#endif
constexpr uint32_t STREAM_COUNTS = SMALL_ALPHABET ? CLASSES * ALPHABET + 4 : CODEBOOKS * ALPHABET;

// Adds to the count of a symbol in device memory, for its class and for all classes.
__device__ inline void count_in_memory(Count *of_stream, uint32_t codebook, uint32_t symbol, Count counted) {
    atomicAdd(&of_stream[codebook * ALPHABET + symbol], counted);
    if (CLASSES > 1 && !SMALL_ALPHABET) {
        atomicAdd(&of_stream[CLASSES * ALPHABET + symbol], counted);
    }
}

// Counters in shared memory, [codebook][symbol][copy]. Each lane has its copy.
constexpr uint32_t ROW_BYTES = 4 * COPIES;
// Counts the symbols. Written as one instruction for the address and a `red`, because the compiler needs more for
// `atomicAdd`.
__device__ inline void count_in_shared(const LaneSymbols &own, uint32_t copy) {
    constexpr uint32_t IN_ALPHABET = (ALPHABET - 1) & SYMBOL_MASK;
#pragma unroll
    for (uint32_t w = 0; w < LANE_WORDS; ++w) {
        const uint32_t word = own.words[w] & spread_symbol(IN_ALPHABET);
#pragma unroll
        for (uint32_t i = 0; i < WORD_SYMBOLS; ++i) {
            const uint32_t factor = ROW_BYTES << i * 8;
            const uint32_t row = SYMBOL_BYTES == 1 ? __dp4a(word, factor, copy) : __dp2a_lo(word, factor, copy);
            asm volatile("red.shared.add.u32 [%0], 1;" : : "r"(row) : "memory");
        }
    }
}

// Adds the block's counts to those of a stream, and clears the counters if there is `more` to count.
__device__ inline void add_block_counts(uint32_t *table, Count *of_stream, bool more) {
    __syncthreads();
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < CLASSES * ALPHABET; i += THREADS) {
        uint32_t sum = 0;
#pragma unroll 8
        for (uint32_t copy = 0; copy < COPIES; ++copy) {
            // Rotated by thread, because the same copy of neighboring counters may be in the same bank.
            uint32_t &counter = table[i * COPIES + (copy + threadIdx.x) % max_of<uint32_t>(COPIES, 1)];
            sum += counter;
            if (more) {
                counter = 0;
            }
        }
        if (sum > 0) {
            count_in_memory(of_stream, i / ALPHABET, i % ALPHABET, sum);
        }
    }
    __syncthreads();
}

// Counts the symbols from `begin` to `end` of a stream, in shared memory at `copy`.
__device__ inline void count_symbols(const uint8_t *symbols, const uint8_t *classes, const StreamInput &input,
                                     uint32_t begin, uint32_t end, uint32_t copy, Count *of_stream, uint32_t *status) {
    const uint32_t free_word = spread_symbol(input.free_symbol), last = input.groups * GROUP - LANE_SYMBOLS;
    uint32_t seen = 0;
    auto load = [&](LaneSymbols &own, uint32_t at) { own.load(symbols + min_of(at, last) * SYMBOL_BYTES); };
    auto count = [&](const LaneSymbols &own, uint32_t at) {
        if ((__ballot_sync(ALL_LANES, at < end && own.differs_from(free_word)) & group_lanes()) == 0) {
            return;
        }
        seen |= own.all_bits();
        const uint32_t codebook = CLASSES == 1 ? 0 : min_of<uint32_t>(classes[at / GROUP], CLASSES - 1);
        if (COPIES > 0) {
            count_in_shared(own, copy + codebook * (ALPHABET * ROW_BYTES));
        } else {
            for (uint32_t i = 0; i < LANE_SYMBOLS; ++i) {
                count_in_memory(of_stream, codebook, own[i] % ALPHABET, 1);
            }
        }
    };
    // Two rounds alternate, so that loads overlap with counting without register moves.
    uint32_t at = begin + threadIdx.x * LANE_SYMBOLS;
    LaneSymbols even, odd;
    load(even, at);
    for (uint32_t round = begin; round < end; round += 2 * BLOCK_SYMBOLS, at += 2 * BLOCK_SYMBOLS) {
        load(odd, at + BLOCK_SYMBOLS);
        count(even, at);
        load(even, at + 2 * BLOCK_SYMBOLS);
        count(odd, at + BLOCK_SYMBOLS);
    }
    if (__any_sync(ALL_LANES, (seen & BEYOND_ALPHABET) != 0) && lane_id() == 0) {
        atomicOr(SMALL_ALPHABET ? reinterpret_cast<uint32_t *>(&of_stream[CLASSES * ALPHABET]) : status,
                 STATUS_MISSING_CODEWORD);
    }
}

// Maximum number of streams whose parts are distributed by the streams' actual lengths.
constexpr uint32_t MAX_BALANCED_STREAMS = 2 * THREADS;

// Adds to `counts` the count of each symbol in the coded groups of each class of each stream.
// All parts of all streams are distributed evenly to the blocks. Each stream has `parts_in_stream` parts; if that is 0
// and there are at most MAX_BALANCED_STREAMS streams, as many as it needs. Symbols outside of the alphabet are
// reported, and counted modulo ALPHABET.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT_BLOCKS)
    codebooks_count(const uint8_t *symbols, const StreamInput *inputs, const uint8_t *classes, uint32_t streams,
                    uint32_t parts_in_stream, Count *counts, uint32_t *status) {
    extern __shared__ uint32_t table[];
    __shared__ uint32_t first_parts[MAX_BALANCED_STREAMS + 1];
    __shared__ uint32_t warp_sums[WARPS];
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < CLASSES * ALPHABET * COPIES; i += THREADS) {
        table[i] = 0;
    }
    __syncthreads();
    launch_dependents_and_wait();
    const bool is_balanced = parts_in_stream == 0;
    uint64_t parts = uint64_t(streams) * parts_in_stream;
    if (is_balanced) {
        uint32_t own[2], total;
#pragma unroll
        for (uint32_t i = 0; i < 2; ++i) {
            const uint32_t stream = 2 * threadIdx.x + i;
            own[i] = stream < streams ? ceil_div(inputs[stream].groups, PART_SYMBOLS / GROUP) : 0;
        }
        const uint32_t before = block_exclusive_sum<THREADS, uint32_t>(own[0] + own[1], warp_sums, total);
        first_parts[2 * threadIdx.x] = before;
        first_parts[2 * threadIdx.x + 1] = before + own[0];
        if (threadIdx.x == 0) {
            first_parts[MAX_BALANCED_STREAMS] = total;
        }
        __syncthreads();
        parts = total;
    }
    auto first_part = [&](uint32_t stream) {
        return is_balanced ? first_parts[stream] : uint64_t(stream) * parts_in_stream;
    };
    uint64_t part = parts * blockIdx.x / gridDim.x;
    const uint64_t last_part = parts * (blockIdx.x + 1) / gridDim.x;
    uint32_t stream = is_balanced ? 0 : part / parts_in_stream;
    if (is_balanced) {
        // Finds the last stream that starts at or before this part.
#pragma unroll 1
        for (uint32_t step = MAX_BALANCED_STREAMS / 2; step > 0; step /= 2) {
            stream += stream + step < streams && first_parts[stream + step] <= part ? step : 0;
        }
    }
    const uint32_t copy = shared_address(table) + lane_id() % max_of<uint32_t>(COPIES, 1) * 4;
#pragma unroll 1
    for (; part < last_part; ++stream) {
        const uint64_t first_of_stream = first_part(stream), end_of_stream = first_part(stream + 1);
        const StreamInput input = inputs[stream];
        const uint32_t begin = uint32_t(part - first_of_stream) * PART_SYMBOLS;
        const uint32_t end =
            min_of<uint64_t>((min_of(last_part, end_of_stream) - first_of_stream) * PART_SYMBOLS, input.groups * GROUP);
        part = max_of(part, end_of_stream);
        if (begin >= end) {
            continue;
        }
        Count *of_stream = counts + uint64_t(stream) * STREAM_COUNTS;
        const uint8_t *from = symbols + input.first_group * GROUP * SYMBOL_BYTES,
                      *of_groups = classes + (CLASSES == 1 ? 0 : input.first_group);
        count_symbols(from, of_groups, input, begin, end, copy, of_stream, &status[stream]);
        if (COPIES > 0) {
            add_block_counts(table, of_stream, part < last_part);
        }
    }
}

__device__ inline uint32_t run_bytes(uint32_t run) {
    return run < LONG_RUN ? 1 : run - LONG_RUN < 1u << 7 ? 2 : run - LONG_RUN < 1u << 14 ? 3 : 4;
}

// Serializes one codebook per block: its bytes to `bytes`, their number and the longest codeword to `summaries`. `runs`
// is scratch memory for ALPHABET entries of each codebook.
extern "C" __global__ void __launch_bounds__(THREADS)
    codebooks_serialize(const uint32_t *codewords, uint32_t *runs, uint32_t *summaries, uint8_t *bytes) {
    __shared__ uint32_t warp_sums[WARPS];
    __shared__ uint32_t symbols_used, longest;
    const uint64_t codebook = blockIdx.x;
    codewords += codebook * ALPHABET;
    runs += codebook * ALPHABET;
    bytes += codebook * MAX_CODEBOOK_BYTES;
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
        const uint32_t before = count + block_exclusive_sum<THREADS, uint32_t>(starts, warp_sums, total);
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
        uint32_t at =
            written + block_exclusive_sum<THREADS, uint32_t>(i < count ? run_bytes(run) : 0, warp_sums, total);
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
        summaries[2 * codebook] = written;
        summaries[2 * codebook + 1] = longest;
    }
}

// Chooses the codebooks of one stream per block: CLASSES codebooks if codewords and codebooks are then shorter than
// with the one for all classes.
extern "C" __global__ void __launch_bounds__(THREADS)
    codebooks_choose(const uint64_t *counts, const uint32_t *codewords, const uint32_t *summaries,
                     uint32_t *codebooks) {
    __shared__ uint64_t warp_sums[WARPS];
    const uint32_t stream = blockIdx.x;
    uint64_t several = 0, single = 0;
    for (uint32_t i = threadIdx.x; i < CODEBOOKS * ALPHABET; i += THREADS) {
        const uint64_t at = uint64_t(stream) * CODEBOOKS * ALPHABET + i;
        (i < CLASSES * ALPHABET ? several : single) += counts[at] * (codewords[at] >> CODE_BITS);
    }
    uint64_t total;
    block_exclusive_sum<THREADS, uint64_t>(several, warp_sums, total);
    several = total;
    block_exclusive_sum<THREADS, uint64_t>(single, warp_sums, total);
    single = total;
    if (threadIdx.x == 0) {
        for (uint32_t codebook = 0; codebook < CLASSES; ++codebook) {
            several += 8 * summaries[2 * (stream * CODEBOOKS + codebook)];
        }
        single += 8 * summaries[2 * (stream * CODEBOOKS + CLASSES)];
        codebooks[stream] = CLASSES > 1 && several < single ? CLASSES : 1;
    }
}
