// Writes the records that `container_layout` has placed, but for their hashes and those of their pieces.
//
// THREADS  threads of a block
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "container/record.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
// Lanes that move the bits of a tile. Most tiles have few words.
constexpr uint32_t RANGE_LANES = 8;

// A thread among all that write a record.
struct Rank {
    uint32_t thread, threads;

    __device__ inline uint32_t warp() const { return thread / WARP; }
    __device__ inline uint32_t warps() const { return threads / WARP; }
};

// Writes the header and the table of sections.
__device__ inline void write_header(const RecordPlan &plan, uint64_t chunk, uint32_t *out) {
    if (threadIdx.x == 0) {
        out[0] = format::RECORD_MARKER;
        out[1] = plan.bytes;
        out[2] = uint32_t(chunk);
        out[3] = uint32_t(chunk >> 32);
        out[4] = plan.kind;
        out[5] = 0;
    }
    constexpr uint32_t TABLE = RECORD_HEADER_BYTES / 4;
    if (plan.kind == KIND_QUANTIZED && threadIdx.x < align_up(TABLE + SECTIONS, ALIGNMENT / 4) - TABLE) {
        out[TABLE + threadIdx.x] = threadIdx.x < USED_SECTIONS ? plan.lengths[threadIdx.x] : 0;
    }
}

// Writes zeros from a byte to the next multiple of the alignment.
__device__ inline void write_padding(uint8_t *out, uint32_t from) {
    if (from + threadIdx.x < align_up(from, ALIGNMENT)) {
        out[from + threadIdx.x] = 0;
    }
}

// The elements of a tile in an array.
template <typename Element> struct TileElements {
    const Element *first;
    uint32_t plane, row, ny, nx;

    __device__ inline TileElements(const Geometry &geometry, const Tile &tile, const Element *input,
                                   uint64_t first_element)
        : first(input + (tile.first_element - first_element)), plane(geometry.strides[1]), row(geometry.strides[2]),
          ny(tile.ny), nx(tile.nx) {}
    __device__ inline Element operator[](uint32_t i) const {
        const uint32_t y = i / nx, z = y / ny;
        return first[uint64_t(z) * plane + uint64_t(y - z * ny) * row + (i - y * nx)];
    }
};

// Writes the elements of a raw chunk, a tile a warp.
template <typename Element>
__device__ inline void write_raw(const Geometry &geometry, uint64_t first_tile, uint32_t tiles, const Element *input,
                                 uint64_t first_element, const Rank &rank, Element *out) {
    const uint64_t before = geometry.elements_before(first_tile);
    for (uint32_t number = rank.warp(); number < tiles; number += rank.warps()) {
        const Tile tile = geometry.tile(first_tile + number);
        const TileElements<Element> elements(geometry, tile, input, first_element);
        for (uint32_t i = lane_id(); i < tile.elements(); i += WARP) {
            out[tile.elements_before - before + i] = elements[i];
        }
    }
}

// Writes the list of verbatim values, a tile a warp.
template <typename Element>
__device__ inline void write_verbatim(const Geometry &geometry, uint64_t first_tile, uint32_t tiles,
                                      const TileFacts *facts, const uint32_t *starts, const uint32_t *words,
                                      const Element *input, uint64_t first_element, uint32_t count, const Rank &rank,
                                      uint32_t *out) {
    const uint32_t values_at = align_up(1 + count, 2);
    Element *values = reinterpret_cast<Element *>(out + values_at);
    if (rank.thread == 0) {
        out[0] = count;
        if (values_at > 1 + count) {
            out[1 + count] = 0;
        }
    }
    const uint64_t before = geometry.elements_before(first_tile);
    for (uint32_t number = rank.warp(); number < tiles; number += rank.warps()) {
        const TileFacts own = facts[number];
        if (tile_verbatim(own.info) == 0) {
            continue;
        }
        const Tile tile = geometry.tile(first_tile + number);
        const TileElements<Element> elements(geometry, tile, input, first_element);
        const uint32_t *bitmap = words + own.word + ceil_div(own.bits, 32);
        const uint32_t position = uint32_t(tile.elements_before - before);
        uint32_t next = starts[number];
        for (uint32_t i = lane_id(); i / WARP * WARP < tile.elements(); i += WARP) {
            const uint32_t mask = bitmap[i / WARP];
            if (mask >> lane_id() & 1) {
                const uint32_t place = next + __popc(mask & ((1u << lane_id()) - 1));
                out[1 + place] = position + i;
                values[place] = elements[i];
            }
            next += __popc(mask);
        }
    }
}

// Moves the bits of tiles together: each tile with bits writes the words that begin in it.
__device__ inline void write_bits(const BitRange *ranges, uint32_t count, const uint32_t *words, const Rank &rank,
                                  uint32_t *out) {
    for (uint32_t number = rank.thread / RANGE_LANES; number < count; number += rank.threads / RANGE_LANES) {
        const BitRange range = ranges[number];
        const uint32_t end = ranges[number + 1].bit, bits = end - range.bit;
        const uint32_t *from = words + range.word;
        for (uint32_t word = ceil_div(range.bit, 32) + lane_id() % RANGE_LANES; word < ceil_div(end, 32);
             word += RANGE_LANES) {
            const uint32_t at = 32 * word - range.bit;
            // Words end with zeros behind the last bit.
            const uint32_t low = (at / 32 + 1) * 32 < bits ? from[at / 32 + 1] : 0;
            uint32_t value = __funnelshift_l(low, from[at / 32], at % 32);
            uint32_t filled = bits - at;
            for (uint32_t next = number + 1; filled < 32 && next < count; ++next) {
                value |= words[ranges[next].word] >> filled;
                filled += ranges[next + 1].bit - ranges[next].bit;
            }
            out[word] = value;
        }
    }
}

// Writes a record.
template <typename Element>
__device__ inline void write_record(const Geometry &geometry, const ChunkBatch &batch, const EncodedTiles &encoded,
                                    const RecordHeads &heads, const RecordPlan &plan, uint32_t chunk,
                                    const Element *input, uint64_t first_element, const Rank &rank, uint8_t *out) {
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint64_t tile = batch.first_tile + first;
    const bool is_first = rank.thread == threadIdx.x;
    if (is_first) {
        write_header(plan, batch.first_chunk + chunk, reinterpret_cast<uint32_t *>(out));
    }
    if (plan.kind == KIND_RAW) {
        write_raw(geometry, tile, tiles, input, first_element, rank,
                  reinterpret_cast<Element *>(out + RECORD_HEADER_BYTES));
        const uint64_t elements = geometry.elements_before(tile + tiles) - geometry.elements_before(tile);
        if (is_first) {
            write_padding(out, RECORD_HEADER_BYTES + uint32_t(elements * sizeof(Element)));
        }
        return;
    }
    auto section = [&](uint32_t number) {
        return reinterpret_cast<uint32_t *>(out + section_start(plan.lengths, number));
    };
    const uint32_t *head = heads.words + uint64_t(chunk) * heads.stride;
    const uint32_t before_codes = (section_start(plan.lengths, VERBATIM) - section_start(plan.lengths, TILES)) / 4;
    uint32_t *sections = section(TILES), *codes = section(CODES);
    for (uint32_t i = rank.thread; i < plan.head_words; i += rank.threads) {
        (i < before_codes ? sections + i : codes + (i - before_codes))[0] = head[i];
    }
    const uint32_t *words = encoded.words + uint64_t(chunk) * encoded.chunk_words;
    if (plan.verbatim > 0) {
        write_verbatim(geometry, tile, tiles, encoded.facts + first, heads.verbatim_starts + first, words, input,
                       first_element, plan.verbatim, rank, section(VERBATIM));
    }
    uint32_t *codewords = codes + (plan.head_words - before_codes);
    write_bits(heads.bit_ranges + first + chunk, plan.tiles_with_bits, words, rank, codewords);
    if (is_first) {
        if (threadIdx.x < 2) {
            codewords[ceil_div(plan.bits, 32) + threadIdx.x] = 0;
        }
        write_padding(out, section_start(plan.lengths, VERBATIM) + plan.lengths[VERBATIM]);
        write_padding(out, section_start(plan.lengths, CHECKSUMS) + plan.lengths[CHECKSUMS]);
        write_padding(out, section_start(plan.lengths, CODES) + plan.lengths[CODES]);
    }
}

// `blocks` blocks for each chunk. `element_bytes` of `heads` is 1, 2, 4, or 8.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_write(Geometry geometry, ChunkBatch batch, EncodedTiles encoded, RecordHeads heads,
                    const RecordPlan *plans, const void *elements, uint64_t first_element, uint32_t blocks,
                    uint8_t *output) {
    grid_dependency_wait();
    launch_dependents();
    const uint32_t chunk = blockIdx.x / blocks;
    const RecordPlan plan = plans[chunk];
    if (plan.kind == KIND_NO_ROOM) {
        return;
    }
    const Rank rank = {blockIdx.x % blocks * THREADS + threadIdx.x, blocks * THREADS};
    uint8_t *out = output + plan.place;
    switch (heads.element_bytes) {
    case 1:
        return write_record(geometry, batch, encoded, heads, plan, chunk, static_cast<const uint8_t *>(elements),
                            first_element, rank, out);
    case 2:
        return write_record(geometry, batch, encoded, heads, plan, chunk, static_cast<const uint16_t *>(elements),
                            first_element, rank, out);
    case 4:
        return write_record(geometry, batch, encoded, heads, plan, chunk, static_cast<const uint32_t *>(elements),
                            first_element, rank, out);
    default:
        return write_record(geometry, batch, encoded, heads, plan, chunk, static_cast<const uint64_t *>(elements),
                            first_element, rank, out);
    }
}
