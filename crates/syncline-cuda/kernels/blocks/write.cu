// Writes the records that `blocks_layout` has placed, but for their hashes: some blocks of threads for each.
//
// ELEMENT_BYTES  of an element: 1, 2, 4, or 8
// THREADS        threads of a block
#include "blocks/blocks.cuh"
#include "blocks/record.cuh"
#include "device/sync.cuh"
#include "device/warp.cuh"

// The bits of an element.
#if ELEMENT_BYTES == 8
typedef uint64_t Bits;
#elif ELEMENT_BYTES == 4
typedef uint32_t Bits;
#elif ELEMENT_BYTES == 2
typedef uint16_t Bits;
#else
typedef uint8_t Bits;
#endif

// A thread among all that write a record.
struct Rank {
    uint32_t thread, threads;
};

// Copies bytes, which start on multiples of 2, and as many zeros as fill up the alignment.
__device__ inline void copy_section(uint8_t *to, const void *from, uint32_t bytes, const Rank &rank) {
    for (uint32_t i = rank.thread; i < align_up(bytes, ALIGNMENT); i += rank.threads) {
        to[i] = i < bytes ? static_cast<const uint8_t *>(from)[i] : 0;
    }
}

// Where the elements of a block are in the array.
struct Elements {
    const Bits *first;
    const BoxPlaces places;
    const uint64_t plane, row;

    __device__ inline Elements(const Geometry &geometry, const Tile &tile, const Bits *slab, uint64_t first_element)
        : first(slab + (tile.first_element - first_element)), places(tile.ny, tile.nx), plane(geometry.strides[1]),
          row(geometry.strides[2]) {}
    __device__ inline Bits operator[](uint32_t i) const {
        uint32_t at[3];
        places.coordinates(i, at);
        return first[at[0] * plane + at[1] * row + at[2]];
    }
};

// Writes the verbatim values of a block: a warp.
__device__ inline void write_verbatim(const Elements &elements, uint32_t count, const uint32_t *missed,
                                      uint32_t position, uint32_t next, uint32_t *positions, Bits *values) {
    for (uint32_t word = 0; word < ceil_div(count, 32); ++word) {
        const uint32_t bits = missed[word];
        if (bits >> lane_id() & 1) {
            const uint32_t place = next + __popc(bits & ((1u << lane_id()) - 1));
            positions[place] = position + word * 32 + lane_id();
            values[place] = elements[word * 32 + lane_id()];
        }
        next += __popc(bits);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    blocks_write(const __grid_constant__ Geometry geometry, const __grid_constant__ ChunkBatch batch,
                 const __grid_constant__ EncodedBlocks from, const BlockRecord *records, const Bits *slab,
                 uint64_t first_element, uint32_t blocks_each, uint8_t *output) {
    grid_dependency_wait();
    launch_dependents();
    const uint32_t chunk = blockIdx.x / blocks_each;
    const BlockRecord record = records[chunk];
    if (record.kind == KIND_NO_ROOM) {
        return;
    }
    const Rank rank{blockIdx.x % blocks_each * THREADS + threadIdx.x, blocks_each * THREADS};
    const uint32_t warp = rank.thread / WARP, warps = rank.threads / WARP;
    uint8_t *out = output + record.place;
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint64_t first_tile = batch.first_tile + first, before = geometry.elements_before(first_tile);
    const uint64_t batch_before = geometry.elements_before(batch.first_tile);
    if (rank.thread == 0) {
        uint32_t *header = reinterpret_cast<uint32_t *>(out);
        const uint64_t number = batch.first_chunk + chunk;
        header[0] = format::RECORD_MARKER;
        header[1] = record.bytes;
        header[2] = uint32_t(number);
        header[3] = uint32_t(number >> 32);
        header[4] = record.kind;
        header[5] = 0;
    }
    if (record.kind == KIND_RAW) {
        Bits *to = reinterpret_cast<Bits *>(out + RECORD_HEADER_BYTES);
        for (uint32_t number = warp; number < tiles; number += warps) {
            const Tile tile = geometry.tile(first_tile + number);
            const Elements elements(geometry, tile, slab, first_element);
            for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
                to[tile.elements_before - before + i] = elements[i];
            }
        }
        const uint32_t end =
            RECORD_HEADER_BYTES + uint32_t(geometry.elements_before(first_tile + tiles) - before) * ELEMENT_BYTES;
        if (rank.thread < align_up(end, ALIGNMENT) - end) {
            out[end + rank.thread] = 0;
        }
        return;
    }
    const auto section = [&](uint32_t number) { return out + section_start(record.lengths, number); };
    constexpr uint32_t TABLE = RECORD_HEADER_BYTES / 4, TABLE_END = (TABLE + SECTIONS + 3) / 4 * 4;
    if (rank.thread < TABLE_END - TABLE) {
        reinterpret_cast<uint32_t *>(out)[TABLE + rank.thread] =
            rank.thread < BLOCK_SECTIONS ? record.lengths[rank.thread] : 0;
    }
    const uint32_t *head = from.heads + uint64_t(chunk) * from.head_words;
    copy_section(section(BLOCK_ANCHORS), head + from.anchors_at, record.lengths[BLOCK_ANCHORS], rank);
    copy_section(section(BLOCK_SIZES), head + from.sizes_at, record.lengths[BLOCK_SIZES], rank);
    // The plan, and behind it the tables.
    const BlockPlan plan = from.plans[chunk];
    const uint8_t fields[BLOCK_PLAN_BYTES] = {uint8_t(plan.is_cubic | plan.is_on_grid << 1), uint8_t(plan.slices),
                                              uint8_t(plan.share), uint8_t(plan.division)};
    const uint8_t *tables =
        reinterpret_cast<const uint8_t *>(from.table_words + uint64_t(chunk) * blocks::TABLE_ROOM / 4);
    for (uint32_t i = rank.thread; i < align_up(record.lengths[BLOCK_PLAN], ALIGNMENT); i += rank.threads) {
        uint8_t byte = i < record.lengths[BLOCK_PLAN] && i >= BLOCK_PLAN_BYTES ? tables[i - BLOCK_PLAN_BYTES] : 0;
#pragma unroll
        for (uint32_t k = 0; k < BLOCK_PLAN_BYTES; ++k) {
            byte = i == k ? fields[k] : byte;
        }
        section(BLOCK_PLAN)[i] = byte;
    }
    uint32_t *list = reinterpret_cast<uint32_t *>(section(BLOCK_VERBATIM));
    const uint32_t of_list = record.lengths[BLOCK_VERBATIM];
    uint32_t verbatim = 0;
    if (of_list > 0) {
        const BlockPlace last = from.places[first + tiles - 1];
        verbatim = last.verbatim + from.verbatim[first + tiles - 1];
        if (rank.thread == 0) {
            list[0] = verbatim;
            if (verbatim % 2 == 0) {
                list[1 + verbatim] = 0;
            }
        }
        if (rank.thread < align_up(of_list, ALIGNMENT) - of_list) {
            reinterpret_cast<uint8_t *>(list)[of_list + rank.thread] = 0;
        }
    }
    const uint32_t of_checksums = record.lengths[BLOCK_CHECKSUMS];
    if (rank.thread < align_up(of_checksums, ALIGNMENT) - of_checksums) {
        section(BLOCK_CHECKSUMS)[of_checksums + rank.thread] = 0;
    }
    uint16_t *words = reinterpret_cast<uint16_t *>(section(BLOCK_WORDS));
    for (uint32_t number = warp; number < tiles; number += warps) {
        const Tile tile = geometry.tile(first_tile + number);
        const BlockPlace place = from.places[first + number];
        const uint64_t position = tile.elements_before - batch_before;
        if (verbatim > 0 && from.verbatim[first + number] > 0) {
            const Elements elements(geometry, tile, slab, first_element);
            write_verbatim(elements, tile.elements(), from.missed + uint64_t(first + number) * from.bitmap_words,
                           uint32_t(tile.elements_before - before), place.verbatim, list + 1,
                           reinterpret_cast<Bits *>(list + align_up(1 + verbatim, 2)));
        }
        uint32_t at = place.words;
        for (uint32_t unit = 0; unit < place.units; ++unit) {
            const BlockUnit own = from.units[uint64_t(first + number) * from.units_of_block + unit];
            const uint16_t *source =
                from.words + block_words_at(position, first + number, from.units_of_block) + own.place;
            for (uint32_t k = lane_id(); k < own.count; k += WARP) {
                words[at + k] = source[k];
            }
            at += own.count;
        }
    }
    const uint32_t length = record.lengths[BLOCK_WORDS];
    if (rank.thread < align_up(length, ALIGNMENT) - length) {
        reinterpret_cast<uint8_t *>(words)[length + rank.thread] = 0;
    }
}
