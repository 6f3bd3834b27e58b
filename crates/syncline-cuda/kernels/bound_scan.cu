// What is in an array, in one reading: `bound/scan.rs` of the core on the device.
//
// Bits are compared as signed integers, the magnitude of negative ones flipped ("keys"): their order is that of the values.
//
// ELEMENT_BYTES  4: f32, 8: f64
// EXCLUDED       1: elements with given bits are left out
// THREADS        threads in a block
#include "common.cuh"

#if ELEMENT_BYTES == 4
typedef uint32_t Bits;
typedef int32_t Key;
#else
typedef uint64_t Bits;
typedef int64_t Key;
#endif

constexpr Bits SIGN_BIT = Bits(1) << (8 * ELEMENT_BYTES - 1);
constexpr Bits MAGNITUDE = SIGN_BIT - 1;
constexpr Bits INFINITE = ELEMENT_BYTES == 4 ? Bits(0x7F800000) : Bits(0x7FF0000000000000);
constexpr uint32_t IN_VECTOR = 16 / ELEMENT_BYTES;
constexpr uint32_t UNROLL = 4;
constexpr uint32_t IN_BATCH = IN_VECTOR * UNROLL;
// The core looks for NaN in blocks of so many elements.
constexpr uint64_t BLOCK = 1024;

__device__ inline Key key_of(Bits bits) { return Key(bits ^ (Bits(Key(bits) >> (8 * ELEMENT_BYTES - 1)) & MAGNITUDE)); }
// Keys as unsigned numbers of 64 bits in the same order; that of a finite value is not 0.
__device__ inline uint64_t ordered(Key key) { return uint64_t(int64_t(key)) ^ uint64_t(1) << 63; }

// Starts as zeros: extremes are kept so that larger is further, 0 being none. Mirrored in quantize/scan.rs.
struct Found {
    uint64_t lowest;  // not of `ordered`
    uint64_t highest; // `ordered`
    uint64_t excluded, nans, infinities, minus_zeros, zeros;
    uint64_t first_nan; // not of its number, of those not excluded
    // Of the finite samples:
    uint64_t samples, at_lowest, at_highest;
    uint64_t least_above;    // not of the smallest `ordered` above the lowest
    uint64_t greatest_below; // the largest `ordered` below the highest
    // The first NaN of any kind in the core's block that holds `first_nan`:
    uint64_t nan_number, nan_bits;
};
constexpr uint32_t EXTREMES = 2;
constexpr uint32_t COUNTS = 5;

struct Counter {
    Key lowest, highest;
    uint32_t counts[COUNTS]; // excluded, nans, infinities, minus zeros, zeros
    uint64_t first_nan;

    // Any element.
    __device__ inline void add(Bits bits, uint64_t number, Bits excluded) {
        if (EXCLUDED && bits == excluded) {
            ++counts[0];
            return;
        }
        Bits magnitude = bits & MAGNITUDE;
        if (magnitude > INFINITE) {
            ++counts[1];
            first_nan = min_of(first_nan, number);
        } else if (magnitude == INFINITE) {
            ++counts[2];
        } else {
            lowest = min_of(lowest, key_of(bits));
            highest = max_of(highest, key_of(bits));
            counts[3] += bits == SIGN_BIT;
            counts[4] += bits == 0;
        }
    }
};

__device__ inline void unpack(const uint4 &vector, Bits *to) {
#if ELEMENT_BYTES == 4
    to[0] = vector.x, to[1] = vector.y, to[2] = vector.z, to[3] = vector.w;
#else
    to[0] = vector.x | uint64_t(vector.y) << 32, to[1] = vector.z | uint64_t(vector.w) << 32;
#endif
}

template <typename T> __device__ inline T warp_max(T value) {
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        value = max_of(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}
__device__ inline uint64_t warp_sum(uint64_t value) {
    for (uint32_t distance = 1; distance < WARP; distance *= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, distance);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS) bound_scan(const Bits *elements, uint64_t length, Bits excluded, Found *found) {
    __shared__ unsigned long long of_block[EXTREMES + COUNTS + 1];
    if (threadIdx.x < EXTREMES + COUNTS + 1) {
        of_block[threadIdx.x] = 0;
    }
    __syncthreads();
    Counter counter{Key(MAGNITUDE), Key(SIGN_BIT), {}, ~uint64_t(0)};

    const uint64_t misaligned = reinterpret_cast<uint64_t>(elements) % 16;
    const uint64_t head = min_of<uint64_t>(length, misaligned == 0 ? 0 : (16 - misaligned) / ELEMENT_BYTES);
    const uint64_t vector_count = (length - head) / IN_VECTOR;
    const uint4 *vectors = reinterpret_cast<const uint4 *>(elements + head);
    const uint64_t share = (vector_count + gridDim.x - 1) / gridDim.x;
    const uint64_t end = min_of<uint64_t>(vector_count, share * (blockIdx.x + 1));
    uint64_t at = share * blockIdx.x + threadIdx.x;
    for (; at + (UNROLL - 1) * THREADS < end; at += UNROLL * THREADS) {
        Bits bits[IN_BATCH];
#pragma unroll
        for (uint32_t i = 0; i < UNROLL; ++i) {
            unpack(vectors[at + i * THREADS], bits + i * IN_VECTOR);
        }
        Key lowest = Key(MAGNITUDE), highest = Key(SIGN_BIT);
        uint32_t minus_zeros = 0, zeros = 0;
        if (!EXCLUDED) {
#pragma unroll
            for (uint32_t i = 0; i < IN_BATCH; ++i) {
                Key key = key_of(bits[i]);
                lowest = min_of(lowest, key);
                highest = max_of(highest, key);
                minus_zeros += bits[i] == SIGN_BIT;
                zeros += bits[i] == 0;
            }
        }
        // Keys ascend from -NaN over -infinity to NaN: finite extremes mean that all is finite.
        if (!EXCLUDED && highest < Key(INFINITE) && lowest > key_of(INFINITE | SIGN_BIT)) {
            counter.lowest = min_of(counter.lowest, lowest);
            counter.highest = max_of(counter.highest, highest);
            counter.counts[3] += minus_zeros;
            counter.counts[4] += zeros;
        } else {
#pragma unroll
            for (uint32_t i = 0; i < IN_BATCH; ++i) {
                uint64_t number = head + (at + uint64_t(i / IN_VECTOR) * THREADS) * IN_VECTOR + i % IN_VECTOR;
                counter.add(bits[i], number, excluded);
            }
        }
    }
    for (; at < end; at += THREADS) {
        Bits bits[IN_VECTOR];
        unpack(vectors[at], bits);
#pragma unroll
        for (uint32_t i = 0; i < IN_VECTOR; ++i) {
            counter.add(bits[i], head + at * IN_VECTOR + i, excluded);
        }
    }
    if (blockIdx.x == 0) {
        const uint64_t tail = head + vector_count * IN_VECTOR;
        for (uint64_t i = threadIdx.x; i < head + length - tail; i += THREADS) {
            uint64_t number = i < head ? i : tail + i - head;
            counter.add(elements[number], number, excluded);
        }
    }

    const bool any = counter.lowest <= counter.highest;
    const uint64_t extremes[EXTREMES] = {warp_max(any ? ~ordered(counter.lowest) : 0), warp_max(any ? ordered(counter.highest) : 0)};
    const uint64_t first_nan = warp_max(~counter.first_nan);
    uint64_t counts[COUNTS];
#pragma unroll
    for (uint32_t i = 0; i < COUNTS; ++i) {
        counts[i] = warp_sum(uint64_t(counter.counts[i]));
    }
    if (lane_id() == 0) {
#pragma unroll
        for (uint32_t i = 0; i < EXTREMES; ++i) {
            atomicMax(&of_block[i], extremes[i]);
        }
#pragma unroll
        for (uint32_t i = 0; i < COUNTS; ++i) {
            atomicAdd(&of_block[EXTREMES + i], counts[i]);
        }
        atomicMax(&of_block[EXTREMES + COUNTS], first_nan);
    }
    __syncthreads();
    if (threadIdx.x < EXTREMES + COUNTS + 1 && of_block[threadIdx.x] != 0) {
        unsigned long long *to = reinterpret_cast<unsigned long long *>(found) + threadIdx.x;
        if (threadIdx.x < EXTREMES || threadIdx.x == EXTREMES + COUNTS) {
            atomicMax(to, of_block[threadIdx.x]);
        } else {
            atomicAdd(to, of_block[threadIdx.x]);
        }
    }
}

// After `bound_scan`: every `stride`-th element against the extremes, and the first NaN. `stride` 0: no samples.
extern "C" __global__ void __launch_bounds__(THREADS) bound_samples(const Bits *elements, uint64_t length, uint64_t stride, Found *found) {
    const uint64_t lowest = ~found->lowest, highest = found->highest;
    uint64_t samples = 0, at_lowest = 0, at_highest = 0, least_above = 0, greatest_below = 0;
    if (stride > 0) {
        const uint64_t count = (length + stride - 1) / stride;
        for (uint64_t i = uint64_t(blockIdx.x) * THREADS + threadIdx.x; i < count; i += uint64_t(gridDim.x) * THREADS) {
            const Bits bits = elements[i * stride];
            if ((bits & MAGNITUDE) < INFINITE) {
                const uint64_t key = ordered(key_of(bits));
                ++samples;
                at_lowest += key <= lowest;
                at_highest += key >= highest;
                least_above = key > lowest ? max_of(least_above, ~key) : least_above;
                greatest_below = key < highest ? max_of(greatest_below, key) : greatest_below;
            }
        }
        samples = warp_sum(samples);
        at_lowest = warp_sum(at_lowest);
        at_highest = warp_sum(at_highest);
        least_above = warp_max(least_above);
        greatest_below = warp_max(greatest_below);
        if (lane_id() == 0 && samples > 0) {
            atomicAdd(reinterpret_cast<unsigned long long *>(&found->samples), samples);
            atomicAdd(reinterpret_cast<unsigned long long *>(&found->at_lowest), at_lowest);
            atomicAdd(reinterpret_cast<unsigned long long *>(&found->at_highest), at_highest);
            atomicMax(reinterpret_cast<unsigned long long *>(&found->least_above), least_above);
            atomicMax(reinterpret_cast<unsigned long long *>(&found->greatest_below), greatest_below);
        }
    }
    if (blockIdx.x == 0 && found->first_nan != 0) {
        __shared__ unsigned long long first;
        const uint64_t last = ~found->first_nan, start = last / BLOCK * BLOCK;
        if (threadIdx.x == 0) {
            first = last;
        }
        __syncthreads();
        for (uint64_t i = start + threadIdx.x; i < last; i += THREADS) {
            if ((elements[i] & MAGNITUDE) > INFINITE) {
                atomicMin(&first, i);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            found->nan_number = first;
            found->nan_bits = elements[first];
        }
    }
}
