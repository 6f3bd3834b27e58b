// Scans an array in one pass and one launch: `bound/scan.rs` of the core on the device.
//
// Bits are compared as signed integers in which the magnitude of negative numbers is flipped ("keys"); their order is
// that of the values. Integers of 64 bits are their own keys, those of u64 with the highest bit flipped. Each block
// leaves partial results. The last block to finish combines them and reports to the host.
//
// EXCLUDED       1: leaves out elements with one of four given bit patterns
// THREADS        threads of a block
// BLOCKS         blocks per multiprocessor, which bounds the registers of a thread
// UNROLL         loads of 16 bytes that a thread has in flight
// See also quantize/stored.cuh.
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "quantize/stored.cuh"

using format::MAX_PATTERNS;

#if ELEMENT_BYTES == 4
typedef int32_t Key;
#else
typedef int64_t Key;
#endif

constexpr Bits MAGNITUDE = SIGN_BIT - 1, INFINITE = INFINITY_BITS;
constexpr Key MIN_KEY = Key(SIGN_BIT), MAX_KEY = Key(MAGNITUDE);
constexpr uint32_t IN_VECTOR = 16 / sizeof(Stored);
constexpr uint32_t IN_BATCH = IN_VECTOR * UNROLL;
constexpr uint32_t WARPS = THREADS / WARP;

// Keys as unsigned numbers in the same order. Neither that of a finite value nor its complement is 0; of integers of 64
// bits one may be.
typedef Bits Ordered;

// Returns the bits that an element has in the scan: those of the value that is computed with, or of the key.
__device__ inline Bits scanned(StoredBits element) {
#if OF_WIDE_INTEGERS
    return ELEMENT_TYPE == 8 ? element ^ SIGN_BIT : element;
#elif IS_COMPUTED
    return element;
#else
    return bits_of(loaded(Stored(element), Origin{}));
#endif
}

__device__ inline bool is_finite(Bits bits) { return OF_WIDE_INTEGERS || (bits & MAGNITUDE) < INFINITE; }

__device__ inline Key key_of(Bits bits) {
    return OF_WIDE_INTEGERS ? Key(bits) : Key(bits ^ (Bits(Key(bits) >> (8 * ELEMENT_BYTES - 1)) & MAGNITUDE));
}
__device__ inline Ordered ordered(Key key) { return Bits(key) ^ SIGN_BIT; }
// Widens to 64 bits, as the host has them. 0, which means none, stays 0. With `end` 0 the value is a complement.
__device__ inline uint64_t widened(Ordered value, uint32_t end) {
    const uint64_t wide = uint64_t(int64_t(Key((end == 0 ? ~value : value) ^ SIGN_BIT))) ^ uint64_t(1) << 63;
    return value == 0 ? 0 : end == 0 ? ~wide : wide;
}

// Partial results. The counts of a block fit 32 bits, because its share of the elements that fit a device's memory is
// far below 2^32.
enum { LOWEST, HIGHEST, LOW, HIGH, MAXIMA };
constexpr uint32_t LEFT_OUTS = EXCLUDED ? MAX_PATTERNS : 0;
enum { NANS = LEFT_OUTS, INFINITIES, MINUS_ZEROS, ZEROS, COUNTS, SAMPLES = COUNTS, TOO_LARGE, SUMS };
template <typename Sum> struct Partial {
    // Complement of the number of the first NaN that is not excluded; 0 if there is none. Complements make the maximum
    // the most extreme value.
    uint64_t first_nan;
    // If one batch alone has the lowest element, the number of its first vector plus 1; the same for the highest. 0 if
    // several batches have it, or if this is not known.
    uint64_t batches[2];
    // Complement of the lowest `ordered`, and the highest; then the same over the finite samples.
    Ordered maxima[MAXIMA];
    // The most extreme of the other samples at each end.
    Ordered seconds[2];
    Sum sums[SUMS];
    // Number of samples equal to the most extreme at each end.
    Sum repeats[2];

    __device__ inline void add_sample(uint32_t end, Ordered key, Ordered second, Sum repeats_of_it) {
        Ordered &first = maxima[LOW + end];
        seconds[end] = max_of(max_of(seconds[end], second), first == key ? 0 : min_of(first, key));
        repeats[end] = (first >= key ? repeats[end] : 0) + (key >= first ? repeats_of_it : 0);
        first = max_of(first, key);
    }
};
typedef Partial<uint32_t> BlockPartial;
constexpr uint32_t PARTIAL_WORDS = sizeof(BlockPartial) / 4;

// Returns the number of the first pattern that is equal, or LEFT_OUTS.
__device__ inline uint32_t find_excluded(Bits bits, const ExcludedBits &excluded) {
    uint32_t found = LEFT_OUTS;
#pragma unroll
    for (uint32_t i = LEFT_OUTS; i-- > 0;) {
        found = bits == Bits(excluded.patterns[i]) ? i : found;
    }
    return found;
}

// Stands for several turns, or for a turn that is not a whole batch.
constexpr uint32_t NO_TURN = ~uint32_t(0);

struct Counter {
    Key lowest, highest;
    // The thread's turns with the lowest and with the highest element.
    uint32_t lowest_turn, highest_turn;
    uint32_t counts[COUNTS];
    uint64_t first_nan;

    // Adds the extremes of a turn.
    __device__ inline void add_extremes(Key low, Key high, uint32_t turn) {
        lowest_turn = low < lowest ? turn : low == lowest ? NO_TURN : lowest_turn;
        highest_turn = high > highest ? turn : high == highest ? NO_TURN : highest_turn;
        lowest = min_of(lowest, low);
        highest = max_of(highest, high);
    }

    // Counts the element if it is excluded, and returns whether it is.
    __device__ inline bool add_excluded(Bits bits, const ExcludedBits &excluded) {
        const uint32_t pattern = find_excluded(bits, excluded);
#pragma unroll
        for (uint32_t i = 0; i < LEFT_OUTS; ++i) {
            counts[i] += pattern == i;
        }
        return pattern < LEFT_OUTS;
    }

    // Adds an element, which may be excluded, NaN, infinite or finite, and updates the extremes of its turn.
    __device__ inline void add(Bits bits, uint64_t number, const ExcludedBits &excluded, Key &low, Key &high) {
        if (add_excluded(bits, excluded)) {
            return;
        }
        if (is_finite(bits)) {
            low = min_of(low, key_of(bits));
            high = max_of(high, key_of(bits));
            counts[MINUS_ZEROS] += !OF_WIDE_INTEGERS && bits == SIGN_BIT;
            counts[ZEROS] += !OF_WIDE_INTEGERS && bits == 0;
        } else if ((bits & MAGNITUDE) > INFINITE) {
            ++counts[NANS];
            first_nan = min_of(first_nan, number);
        } else {
            ++counts[INFINITIES];
        }
    }
};

__device__ inline void unpack(const uint4 &vector, Bits *to) {
    if constexpr (sizeof(Stored) == 8) {
        to[0] = scanned(vector.x | uint64_t(vector.y) << 32), to[1] = scanned(vector.z | uint64_t(vector.w) << 32);
    } else {
        const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
        constexpr uint32_t IN_WORD = 4 / sizeof(Stored);
#pragma unroll
        for (uint32_t i = 0; i < IN_VECTOR; ++i) {
            to[i] = scanned(StoredBits(words[i / IN_WORD] >> i % IN_WORD * (8 * sizeof(Stored) % 32)));
        }
    }
}

__device__ inline uint64_t largest_of_warp(uint64_t value) {
    const uint32_t high = warp_reduce_max(uint32_t(value >> 32));
    const uint32_t low = warp_reduce_max(value >> 32 == high ? uint32_t(value) : 0);
    return uint64_t(high) << 32 | low;
}
// Returns the sum over the warp. Most counts are 0 on all lanes, which a vote finds sooner than adding them up.
__device__ inline uint32_t sparse_warp_sum(uint32_t value) { return warp_reduce_sum(value); }
__device__ inline uint64_t sparse_warp_sum(uint64_t value) {
    return __any_sync(ALL_LANES, value != 0) ? warp_reduce_sum(value) : 0;
}

// Combines the partial results of a warp, on each lane.
template <typename Sum> __device__ inline Partial<Sum> merge_warp(const Partial<Sum> &own) {
    Partial<Sum> all;
    all.first_nan = __any_sync(ALL_LANES, own.first_nan != 0) ? largest_of_warp(own.first_nan) : 0;
#pragma unroll
    for (uint32_t i = 0; i < MAXIMA; ++i) {
        all.maxima[i] = largest_of_warp(own.maxima[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < SUMS; ++i) {
        all.sums[i] = sparse_warp_sum(own.sums[i]);
    }
#pragma unroll
    for (uint32_t end = 0; end < 2; ++end) {
        const Ordered first = own.maxima[LOW + end];
        const bool furthest = first == all.maxima[LOW + end];
        all.seconds[end] = largest_of_warp(furthest ? own.seconds[end] : first);
        all.repeats[end] = sparse_warp_sum(furthest ? own.repeats[end] : 0);
        const uint32_t lanes = __ballot_sync(ALL_LANES, own.maxima[end] == all.maxima[end]);
        const uint64_t batch = __shfl_sync(ALL_LANES, own.batches[end], __ffs(lanes) - 1);
        all.batches[end] = (lanes & (lanes - 1)) == 0 ? batch : 0;
    }
    return all;
}

// Combines the partial results of a block's threads in shared memory: first each warp, then the first warp, one lane
// per warp.
template <typename Sum> __device__ inline void merge_block(const Partial<Sum> &own, Partial<Sum> &all) {
    static_assert(WARPS <= WARP, "a lane a warp");
    __shared__ Partial<Sum> of_warps[WARPS];
    const Partial<Sum> of_warp = merge_warp(own);
    if (lane_id() == 0) {
        of_warps[warp_id()] = of_warp;
    }
    __syncthreads();
    if (warp_id() == 0) {
        const Partial<Sum> merged = merge_warp(lane_id() < WARPS ? of_warps[lane_id()] : Partial<Sum>{});
        if (lane_id() == 0) {
            all = merged;
        }
    }
    __syncthreads();
}

// Returns whether one element of a batch alone is the extreme at an end, which one is at least.
__device__ inline bool is_single(const uint4 *batch, Ordered extreme, uint32_t end) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < UNROLL; ++i) {
        Bits bits[IN_VECTOR];
        unpack(batch[i * THREADS], bits);
#pragma unroll
        for (uint32_t j = 0; j < IN_VECTOR; ++j) {
            const Ordered key = ordered(key_of(bits[j]));
            count += (end == 0 ? Ordered(~key) : key) == extreme;
        }
    }
    return count == 1;
}

// Returns the number of an element of the list: `Scan::value_element` of the core, counted from the first element here.
__device__ inline uint64_t listed_element(const ListedElements &listed, uint32_t i) {
    const uint64_t place = listed.first_place + i;
    const uint64_t turn = uint32_t(place) * 2654435769u;
    return place * listed.stride + (turn * listed.stride >> 32) - listed.first_element;
}

// Every `stride`-th element from number `first_sample` on is a sample, if it is finite and not excluded. `limit` is the
// magnitude from which on samples are too large to be quantized. `listed` says which elements are copied to the host,
// whatever they are. `partials` has room for one entry per block. `blocks_done` is 0 before and after.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    quantize_bound_scan(const StoredBits *elements, uint64_t length, ExcludedBits excluded, Bits limit,
                        uint64_t first_sample, uint64_t stride, ListedElements listed, BlockPartial *partials,
                        uint32_t *blocks_done, uint64_t number, ScanReport *host) {
    launch_dependents();
    Counter counter{MAX_KEY, MIN_KEY, NO_TURN, NO_TURN, {}, ~uint64_t(0)};
    // A thread's first sample is loaded in the background.
    const uint64_t samples = first_sample < length ? (length - first_sample + stride - 1) / stride : 0;
    const uint64_t own_sample = uint64_t(blockIdx.x) * THREADS + threadIdx.x;
    Bits sample = own_sample < samples ? scanned(elements[first_sample + own_sample * stride]) : INFINITE;
    Bits value = own_sample < listed.count ? scanned(elements[listed_element(listed, uint32_t(own_sample))]) : 0;

    const uint64_t misaligned = reinterpret_cast<uint64_t>(elements) % 16;
    const uint64_t head = min_of<uint64_t>(length, misaligned == 0 ? 0 : (16 - misaligned) / sizeof(Stored));
    const uint64_t vector_count = (length - head) / IN_VECTOR;
    const uint4 *vectors = reinterpret_cast<const uint4 *>(elements + head);
    // From the end, so that the first elements may still be in the L2 cache when they are quantized.
    constexpr uint64_t IN_TURN = UNROLL * THREADS;
    const uint64_t turns = (vector_count + IN_TURN - 1) / IN_TURN;
    uint32_t own_turn = 0;
    for (uint64_t turn = blockIdx.x; turn < turns; turn += gridDim.x, ++own_turn) {
        uint64_t at = (turns - 1 - turn) * IN_TURN + threadIdx.x;
        Key lowest = MAX_KEY, highest = MIN_KEY;
        if (at + (UNROLL - 1) * THREADS >= vector_count) {
            for (; at < vector_count; at += THREADS) {
                Bits bits[IN_VECTOR];
                unpack(vectors[at], bits);
#pragma unroll
                for (uint32_t i = 0; i < IN_VECTOR; ++i) {
                    counter.add(bits[i], head + at * IN_VECTOR + i, excluded, lowest, highest);
                }
            }
            counter.add_extremes(lowest, highest, NO_TURN);
            continue;
        }
        Bits bits[IN_BATCH];
#pragma unroll
        for (uint32_t i = 0; i < UNROLL; ++i) {
            unpack(vectors[at + i * THREADS], bits + i * IN_VECTOR);
        }
        uint32_t left_out = 0, minus_zeros = 0, zeros = 0;
#pragma unroll
        for (uint32_t i = 0; i < IN_BATCH; ++i) {
            const bool out = find_excluded(bits[i], excluded) < LEFT_OUTS;
            const Key key = key_of(bits[i]);
            lowest = min_of(lowest, out ? MAX_KEY : key);
            highest = max_of(highest, out ? MIN_KEY : key);
            left_out += out;
            minus_zeros += !OF_WIDE_INTEGERS && !out && bits[i] == SIGN_BIT;
            zeros += !OF_WIDE_INTEGERS && !out && bits[i] == 0;
        }
        // Keys ascend from -NaN over -infinity to NaN, so that finite extremes mean that all elements are finite or
        // excluded.
        const bool nothing = EXCLUDED && left_out == IN_BATCH;
        if (OF_WIDE_INTEGERS || nothing || (highest < Key(INFINITE) && lowest > key_of(INFINITE | SIGN_BIT))) {
            if (left_out > 0) {
#pragma unroll
                for (uint32_t i = 0; i < IN_BATCH; ++i) {
                    counter.add_excluded(bits[i], excluded);
                }
            }
            counter.counts[MINUS_ZEROS] += minus_zeros;
            counter.counts[ZEROS] += zeros;
        } else {
            lowest = MAX_KEY, highest = MIN_KEY;
#pragma unroll
            for (uint32_t i = 0; i < IN_BATCH; ++i) {
                uint64_t number = head + (at + uint64_t(i / IN_VECTOR) * THREADS) * IN_VECTOR + i % IN_VECTOR;
                counter.add(bits[i], number, excluded, lowest, highest);
            }
        }
        counter.add_extremes(lowest, highest, own_turn);
    }
    if (blockIdx.x == 0) {
        const uint64_t tail = head + vector_count * IN_VECTOR;
        Key lowest = MAX_KEY, highest = MIN_KEY;
        for (uint64_t i = threadIdx.x; i < head + length - tail; i += THREADS) {
            uint64_t number = i < head ? i : tail + i - head;
            counter.add(scanned(elements[number]), number, excluded, lowest, highest);
        }
        counter.add_extremes(lowest, highest, NO_TURN);
    }

    BlockPartial own = {};
    for (uint64_t i = own_sample; i < samples;) {
        if (is_finite(sample) && find_excluded(sample, excluded) == LEFT_OUTS) {
            const Ordered key = ordered(key_of(sample));
            ++own.sums[SAMPLES];
            own.sums[TOO_LARGE] += !OF_WIDE_INTEGERS && (sample & MAGNITUDE) >= limit;
            own.add_sample(0, Ordered(~key), 0, 1);
            own.add_sample(1, key, 0, 1);
        }
        i += uint64_t(gridDim.x) * THREADS;
        if (i < samples) {
            sample = scanned(elements[first_sample + i * stride]);
        }
    }
    if (own_sample < listed.count) {
        for (uint64_t i = own_sample; i < listed.count; i += uint64_t(gridDim.x) * THREADS) {
            listed.values[i] = i == own_sample ? value : scanned(elements[listed_element(listed, uint32_t(i))]);
        }
        // Before the block is counted, behind which the report follows.
        __threadfence_system();
    }
    const bool any = counter.lowest <= counter.highest;
    own.maxima[LOWEST] = any ? Ordered(~ordered(counter.lowest)) : 0;
    own.maxima[HIGHEST] = any ? ordered(counter.highest) : 0;
    own.first_nan = ~counter.first_nan;
#pragma unroll
    for (uint32_t end = 0; end < 2; ++end) {
        const uint64_t turn = end == 0 ? counter.lowest_turn : counter.highest_turn;
        const uint64_t first = (turns - 1 - (blockIdx.x + turn * gridDim.x)) * IN_TURN + threadIdx.x;
        own.batches[end] = turn == NO_TURN ? 0 : first + 1;
    }
#pragma unroll
    for (uint32_t i = 0; i < COUNTS; ++i) {
        own.sums[i] = counter.counts[i];
    }
    __shared__ BlockPartial of_block;
    __shared__ Partial<uint64_t> all;
    __shared__ bool last_block;
    merge_block(own, of_block);
    if (threadIdx.x < PARTIAL_WORDS) {
        reinterpret_cast<uint32_t *>(partials + blockIdx.x)[threadIdx.x] =
            reinterpret_cast<const uint32_t *>(&of_block)[threadIdx.x];
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        last_block = atomicInc(blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last_block) {
        return;
    }
    __threadfence();
    Partial<uint64_t> sum = {};
    for (uint32_t block = threadIdx.x; block < gridDim.x; block += THREADS) {
        BlockPartial other;
#pragma unroll
        for (uint32_t i = 0; i < PARTIAL_WORDS; ++i) {
            reinterpret_cast<uint32_t *>(&other)[i] = __ldcg(reinterpret_cast<const uint32_t *>(partials + block) + i);
        }
        sum.first_nan = max_of(sum.first_nan, other.first_nan);
#pragma unroll
        for (uint32_t i = 0; i < LOW; ++i) {
            sum.batches[i] = other.maxima[i] > sum.maxima[i]   ? other.batches[i]
                             : other.maxima[i] < sum.maxima[i] ? sum.batches[i]
                                                               : 0;
            sum.maxima[i] = max_of(sum.maxima[i], other.maxima[i]);
        }
#pragma unroll
        for (uint32_t i = 0; i < SUMS; ++i) {
            sum.sums[i] += other.sums[i];
        }
#pragma unroll
        for (uint32_t end = 0; end < 2; ++end) {
            sum.add_sample(end, other.maxima[LOW + end], other.seconds[end], other.repeats[end]);
        }
    }
    merge_block(sum, all);
    ScanReport found = {};
    if (threadIdx.x == 0) {
        found.lowest = widened(all.maxima[LOWEST], 0);
        found.highest = widened(all.maxima[HIGHEST], 1);
        for (uint32_t i = 0; i < LEFT_OUTS; ++i) {
            found.excluded[i] = all.sums[i];
        }
        for (uint32_t i = NANS; i < COUNTS; ++i) {
            found.counts[i - NANS] = all.sums[i];
        }
        found.first_nan = all.first_nan;
        found.nan_bits = all.first_nan != 0 ? scanned(elements[~all.first_nan]) : 0;
        found.samples = all.sums[SAMPLES];
        found.too_large = all.sums[TOO_LARGE];
        // Samples are elements, so that none is beyond the extremes.
        const bool low = all.maxima[LOW] == all.maxima[LOWEST], high = all.maxima[HIGH] == all.maxima[HIGHEST];
        found.at_lowest = low ? all.repeats[0] : 0;
        found.least_above = widened(low ? all.seconds[0] : all.maxima[LOW], 0);
        found.at_highest = high ? all.repeats[1] : 0;
        found.greatest_below = widened(high ? all.seconds[1] : all.maxima[HIGH], 1);
        for (uint32_t end = 0; end < 2; ++end) {
            if (all.batches[end] != 0) {
                found.single[end] = is_single(vectors + all.batches[end] - 1, all.maxima[LOWEST + end], end);
            }
        }
        *host = found;
        __threadfence_system();
        *reinterpret_cast<volatile unsigned long long *>(&host->number) = number;
    }
}
