// Copies, patches, joins and counts ranges of device memory.
//
// THREADS  threads of a block
#include "device/structs.cuh"

template <typename Part> __device__ inline void copy_parts(const CopyRange &piece) {
    const Part *from = reinterpret_cast<const Part *>(piece.from);
    Part *to = reinterpret_cast<Part *>(piece.to);
    const uint64_t parts = piece.bytes / sizeof(Part);
    for (uint64_t i = threadIdx.x; i < parts; i += THREADS) {
        to[i] = from[i];
    }
    const uint64_t rest = parts * sizeof(Part) + threadIdx.x;
    if (rest < piece.bytes && threadIdx.x < sizeof(Part)) {
        piece.to[rest] = piece.from[rest];
    }
}

// Copies one piece per block.
extern "C" __global__ void __launch_bounds__(THREADS) transfer_copy(const CopyRange *pieces) {
    const CopyRange piece = pieces[blockIdx.x];
    const uint64_t both = reinterpret_cast<uint64_t>(piece.from) | reinterpret_cast<uint64_t>(piece.to);
    if (both % 16 == 0) {
        copy_parts<uint4>(piece);
    } else if (both % 4 == 0) {
        copy_parts<uint32_t>(piece);
    } else {
        copy_parts<uint8_t>(piece);
    }
}

// Writes one patch per thread.
extern "C" __global__ void __launch_bounds__(THREADS)
    transfer_patch(const Patch *patches, uint32_t count, uint8_t *out) {
    const uint32_t number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= count) {
        return;
    }
    const Patch patch = patches[number];
    for (uint32_t i = 0; i < patch.bytes; ++i) {
        out[patch.at + i] = patch.data[i];
    }
}

// Interleaves the symbols of planes, except for chunks with a bit in `noted`. All blocks along y of the grid share a
// join.
extern "C" __global__ void __launch_bounds__(THREADS) transfer_join(const PlaneJoin *joins, const uint32_t *noted) {
    const PlaneJoin join = joins[blockIdx.x];
    if (noted[join.chunk] != 0) {
        return;
    }
    const uint32_t bytes = join.stride * join.symbol_bytes;
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < join.count; i += gridDim.y * THREADS) {
        uint64_t value = 0;
        for (uint32_t plane = 0; plane < join.stride; ++plane) {
            const uint64_t symbol =
                join.symbol_bytes == 1 ? join.from[plane][i] : reinterpret_cast<const uint16_t *>(join.from[plane])[i];
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

// Sets the bits `code` in the status word of the chunk of each stream whose status is not 0.
extern "C" __global__ void __launch_bounds__(THREADS)
    transfer_statuses(const uint32_t *statuses, const uint32_t *chunks, uint32_t count, uint32_t code,
                      uint32_t *of_chunks) {
    const uint32_t number = blockIdx.x * THREADS + threadIdx.x;
    if (number < count && statuses[number] != 0) {
        atomicOr(&of_chunks[chunks[number]], code);
    }
}
