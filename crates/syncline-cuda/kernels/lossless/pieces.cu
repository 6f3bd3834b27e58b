// Small and large pieces of memory to where they belong.
//
// THREADS  threads in a block
#include "common.cuh"

// Bytes to copy; the addresses need not be aligned.
struct Piece {
    uint64_t from, to, bytes;
};

template <typename Part> __device__ inline void copy_parts(const Piece &piece) {
    const Part *from = reinterpret_cast<const Part *>(piece.from);
    Part *to = reinterpret_cast<Part *>(piece.to);
    const uint64_t parts = piece.bytes / sizeof(Part);
    for (uint64_t i = threadIdx.x; i < parts; i += THREADS) {
        to[i] = from[i];
    }
    const uint64_t rest = parts * sizeof(Part) + threadIdx.x;
    if (rest < piece.bytes && threadIdx.x < sizeof(Part)) {
        reinterpret_cast<uint8_t *>(piece.to)[rest] = reinterpret_cast<const uint8_t *>(piece.from)[rest];
    }
}

// A block a piece.
extern "C" __global__ void __launch_bounds__(THREADS) copy_pieces(const Piece *pieces) {
    const Piece piece = pieces[blockIdx.x];
    const uint64_t both = piece.from | piece.to;
    if (both % 16 == 0) {
        copy_parts<uint4>(piece);
    } else if (both % 4 == 0) {
        copy_parts<uint32_t>(piece);
    } else {
        copy_parts<uint8_t>(piece);
    }
}

// Up to 16 bytes that the host knows.
struct Patch {
    uint64_t at;
    uint32_t bytes;
    uint32_t unused;
    uint8_t data[16];
};

// A thread a patch.
extern "C" __global__ void __launch_bounds__(THREADS)
    write_patches(const Patch *patches, uint32_t count, uint8_t *out) {
    const uint32_t number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= count) {
        return;
    }
    const Patch patch = patches[number];
    for (uint32_t i = 0; i < patch.bytes; ++i) {
        out[patch.at + i] = patch.data[i];
    }
}

// Planes of symbols to join.
struct Join {
    uint64_t to;      // `stride` symbols for each of `count` values
    uint64_t from[8]; // the planes
    uint32_t count;
    uint32_t stride;
    uint32_t symbol_bytes;
    uint32_t chunk;
};

// Symbols of planes in turn, but of chunks that have something noted; as many blocks as the grid has in y share a join.
extern "C" __global__ void __launch_bounds__(THREADS) join_planes(const Join *joins, const uint32_t *noted) {
    const Join join = joins[blockIdx.x];
    if (noted[join.chunk] != 0) {
        return;
    }
    const uint32_t bytes = join.stride * join.symbol_bytes;
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < join.count; i += gridDim.y * THREADS) {
        uint64_t value = 0;
        for (uint32_t plane = 0; plane < join.stride; ++plane) {
            const uint64_t symbol = join.symbol_bytes == 1 ? reinterpret_cast<const uint8_t *>(join.from[plane])[i]
                                                           : reinterpret_cast<const uint16_t *>(join.from[plane])[i];
            value |= symbol << plane * 8 * join.symbol_bytes;
        }
        if (bytes == 8) {
            reinterpret_cast<uint64_t *>(join.to)[i] = value;
        } else if (bytes == 4) {
            reinterpret_cast<uint32_t *>(join.to)[i] = uint32_t(value);
        } else {
            reinterpret_cast<uint16_t *>(join.to)[i] = uint16_t(value);
        }
    }
}

// Notes `code` for the chunk of each status that is not 0.
extern "C" __global__ void __launch_bounds__(THREADS)
    note_statuses(const uint32_t *statuses, const uint32_t *chunks, uint32_t count, uint32_t code,
                  uint32_t *of_chunks) {
    const uint32_t number = blockIdx.x * THREADS + threadIdx.x;
    if (number < count && statuses[number] != 0) {
        atomicOr(&of_chunks[chunks[number]], code);
    }
}

// Bytes of a plane.
struct Plane {
    uint64_t start, count;
};

// How often each byte comes in each plane; as many blocks as the grid has in y share a plane. `counts` are 0 at the
// start.
extern "C" __global__ void __launch_bounds__(THREADS)
    count_planes(const uint8_t *bytes, const Plane *planes, uint32_t *counts) {
    static_assert(THREADS == 256, "a thread a byte");
    __shared__ uint32_t own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    const Plane plane = planes[blockIdx.x];
    for (uint64_t i = blockIdx.y * THREADS + threadIdx.x; i < plane.count; i += gridDim.y * THREADS) {
        const uint32_t byte = bytes[plane.start + i];
        // The commonest byte comes most of the time: one lane counts for all that have the same.
        const uint32_t active = __activemask(), same = __match_any_sync(active, byte);
        if (lane_id() == __ffs(same) - 1) {
            atomicAdd(&own[byte], __popc(same));
        }
    }
    __syncthreads();
    if (own[threadIdx.x] != 0) {
        atomicAdd(&counts[blockIdx.x * 256 + threadIdx.x], own[threadIdx.x]);
    }
}
