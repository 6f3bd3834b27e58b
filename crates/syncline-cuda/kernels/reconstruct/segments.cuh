// Division of 3-D arrays into strips of whole rows, and writing strips from shared memory.
#pragma once
#include "reconstruct/any.cuh"
#include "reconstruct/progress.cuh"
#include "reconstruct/structs.cuh"

// The part of a row of tiles that a strip writes.
struct Segment {
    uint64_t first_element; // in the slab, of the segment's first tile
    uint32_t nz, ny;        // planes, and rows of each plane
    uint32_t from, to;      // requested elements along x, from the segment's start
    uint32_t is_whole;      // 1 if these are the whole row
    uint32_t chunk, tile; // of the segment's first tile: its chunk in the batch, and its number in that; the first may
                          // be before the batch
};
static_assert(sizeof(Segment) == 40, "as the launcher has it");

// Returns a segment of row `number` of tiles, limited to the requested tiles.
__device__ inline Segment segment_of_row(const Geometry &geometry, const Request &request, const Strips &strips,
                                         uint64_t number, uint32_t segment) {
    const uint64_t planes = quotient(geometry.by_grid[1], number), b = quotient(geometry.by_grid[0], planes);
    const uint64_t z = (planes - b * geometry.grid[0]) * SIDE, y = (number - planes * geometry.grid[1]) * SIDE,
                   x = uint64_t(segment) * strips.width * SIDE;
    const uint64_t tile = number * geometry.grid[2] + uint64_t(segment) * strips.width;
    const uint64_t start = max_of(tile, request.tiles_start);
    const uint64_t end = min_of(min_of(tile + strips.width, (number + 1) * geometry.grid[2]), request.tiles_end);
    Segment line{};
    if (start >= end) {
        return line;
    }
    line.first_element =
        b * geometry.strides[0] + z * geometry.strides[1] + y * geometry.strides[2] + x - request.first_element;
    line.nz = uint32_t(min_of<uint64_t>(geometry.dims[1] - z, SIDE));
    line.ny = uint32_t(min_of<uint64_t>(geometry.dims[2] - y, SIDE));
    line.from = uint32_t(start - tile) * SIDE;
    line.to = uint32_t(min_of<uint64_t>((end - tile) * SIDE, geometry.dims[3] - x));
    line.is_whole = strips.whole && line.to - line.from == geometry.dims[3];
    const uint64_t chunk = geometry.chunk_of(tile);
    line.chunk = uint32_t(chunk - request.first_chunk);
    line.tile = uint32_t(tile - chunk * geometry.chunk_tiles);
    return line;
}

// Strip `number` of the requested ones, where the segments of a row are separate strips.
struct Strip {
    uint64_t first_row; // number of a row of tiles
    uint32_t segment, rows;

    __device__ inline Strip(const Geometry &geometry, const Strips &strips, uint32_t number) {
        const uint32_t strip = number / strips.segments;
        segment = number - strip * strips.segments;
        first_row = strips.first_row + uint64_t(strip) * strips.rows;
        rows =
            uint32_t(min_of<uint64_t>(strips.rows, geometry.dims[0] * geometry.grid[0] * geometry.grid[1] - first_row));
    }
    __device__ inline Segment line(const Geometry &geometry, const Request &request, const Strips &strips,
                                   uint32_t row) const {
        return segment_of_row(geometry, request, strips, first_row + row, segment);
    }
};

// State bits of a strip. FLAT: it has a single value in each row of tiles and is already written. CODED: all of its
// chunks are quantized, so that their tiles have results of parsing.
constexpr uint32_t STRIP_FLAT = 1, STRIP_CODED = 2;

// Tile `tile` of a segment.
struct TileOfBatch {
    uint32_t chunk, number; // chunk of the batch, and tile of the chunk

    __device__ inline TileOfBatch(const Segment &line, uint32_t tile, uint32_t chunk_tiles)
        : chunk(line.chunk), number(line.tile + tile) {
        while (number >= chunk_tiles) {
            number -= chunk_tiles;
            ++chunk;
        }
    }
};

// Elements of a 32-byte memory sector. Images have the same alignment to sectors as the array. Copies only require 16
// bytes, but if halves of sectors belong to different copies, 190 MB take 90 microseconds instead of 63.
constexpr uint32_t SECTOR = 32 / sizeof(Element);

// Shifts of the planes of an image in elements, so that each element has the same position in a sector as in the array.
struct Shifts {
    uint32_t first;
    const Geometry &geometry;

    __device__ inline Shifts(const Segment &segment, const Geometry &array, const Element *out)
        : first(uint32_t(segment.first_element) + uint32_t(reinterpret_cast<uint64_t>(out) / sizeof(Element))),
          geometry(array) {}
    __device__ inline uint32_t of(uint32_t z) const { return (first + z * uint32_t(geometry.strides[1])) % SECTOR; }
};

// Number of lanes that copy a run together.
constexpr uint32_t RUN_LANES = 8;
static_assert(VECTOR <= RUN_LANES, "a lane an element beside whole units");

// Copies adjacent elements from element `first` of an image on to the array, where they have the same alignment to 16
// bytes. Called by RUN_LANES lanes, which must call `copies_have_read` before the image is overwritten.
__device__ inline void copy_run(const Element *image, uint32_t first, uint32_t length, Element *to) {
    const Element *from = image + first;
    const uint32_t lane = threadIdx.x % RUN_LANES, head = min_of((VECTOR - first % VECTOR) % VECTOR, length),
                   body = (length - head) / VECTOR * VECTOR;
    if (lane < head) {
        to[lane] = from[lane];
    }
    if (head + body + lane < length) {
        to[head + body + lane] = from[head + body + lane];
    }
#if __CUDA_ARCH__ >= 900
    if (lane == 0 && body != 0) {
        // A cache policy: the first lines to be evicted from the L2 cache, which holds sums of codes that are yet to be
        // read.
        uint64_t policy;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to + head),
                     "r"(shared_address(from + head)), "r"(body * uint32_t(sizeof(Element))), "l"(policy)
                     : "memory");
    }
#else
    for (uint32_t i = lane; i < body / VECTOR; i += RUN_LANES) {
        reinterpret_cast<uint4 *>(to + head)[i] = reinterpret_cast<const uint4 *>(from + head)[i];
    }
#endif
}

// Discards a line of 128 bytes, so that it need not be written from the L2 cache to device memory.
__device__ inline void drop_line(const void *line) {
#if __CUDA_ARCH__ >= 800
    asm volatile("discard.global.L2 [%0], 128;" ::"l"(line) : "memory");
#endif
}

// Makes the calling thread's writes to shared memory visible to copies after the next barrier.
__device__ inline void let_copies_see() {
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// Waits until the calling thread's copies have read the image.
__device__ inline void copies_have_read() {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}
