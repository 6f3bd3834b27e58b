// Writes chunk records, except the hash and the Huffman streams. The encoder writes these straight to their places.
//
// THREADS        threads of a block, at least MAX_BLOCKS
// ELEMENT_BYTES  4 or 8
#include "device/sync.cuh"
#include "device/block.cuh"
#include "container/record.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t MAX_BLOCKS = MAX_TILES / WARP;
static_assert(THREADS >= MAX_BLOCKS, "a thread for each block of 32 tiles");
// Blocks of 32 tiles per warp. Their data stays in registers, so that all loads wait for memory together.
constexpr uint32_t ROUNDS = MAX_BLOCKS / WARPS;
// Whether a round has any tiles. Skipping empty rounds saves instruction fetches, which dominate because a block runs
// its code only once.
__device__ inline bool is_round(uint32_t round, uint32_t tiles) { return round * WARPS * WARP < tiles; }

#if ELEMENT_BYTES == 4
typedef uint32_t Element;
#else
typedef uint64_t Element;
#endif

struct RecordTarget {
    uint8_t *out; // first byte
    const RecordPlan *plan;

    __device__ inline uint32_t *section(uint32_t section) const {
        return reinterpret_cast<uint32_t *>(out + section_start(plan->lengths, section));
    }
};

// Writes the header, the table of sections, and the zeros after the table and after each section.
__device__ inline void write_header(const RecordTarget &record, uint64_t chunk) {
    const RecordPlan &plan = *record.plan;
    uint32_t *out = reinterpret_cast<uint32_t *>(record.out);
    const bool raw = plan.kind == KIND_RAW;
    if (threadIdx.x == 0) {
        out[0] = format::RECORD_MARKER;
        out[1] = plan.bytes;
        out[2] = uint32_t(chunk);
        out[3] = uint32_t(chunk >> 32);
        out[4] = plan.kind;
        out[5] = 0;
    }
    if (raw) {
        return;
    }
    constexpr uint32_t TABLE = RECORD_HEADER_BYTES / 4;
    if (threadIdx.x < aligned(TABLE + SECTIONS, ALIGNMENT / 4) - TABLE) {
        out[TABLE + threadIdx.x] = threadIdx.x < SECTIONS ? plan.lengths[threadIdx.x] : 0;
    }
    if (threadIdx.x < SECTIONS) {
        const uint32_t length = plan.lengths[threadIdx.x];
        uint8_t *section = record.out + section_start(plan.lengths, threadIdx.x);
        for (uint32_t i = length; i < aligned(length, ALIGNMENT); ++i) {
            section[i] = 0;
        }
    }
}

// The packed parts of section 0 that follow from the tiles alone.
struct PackedTiles {
    uint32_t constant[MAX_BLOCKS], predictors[4 * MAX_TILES / 32], classes[2 * MAX_TILES / 32];
};

// Packs the tiles, whose predictors take 2 bits each, or 4 in chunks with token codebooks, which have no classes.
// Called by one block, before the place of the record is known.
__device__ inline void pack_tiles(const uint16_t *metas, uint32_t tiles, bool token_codes, PackedTiles &packed) {
    __shared__ uint32_t live_before[MAX_BLOCKS], warp_sums[WARPS];
    uint32_t own_metas[ROUNDS];
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        const uint32_t tile = (round * WARPS + warp_id()) * WARP + lane_id();
        own_metas[round] = tile < tiles ? metas[tile] : 1;
    }
    for (uint32_t i = threadIdx.x; i < ceil_div(4 * tiles, 32); i += THREADS) {
        packed.predictors[i] = 0;
    }
    for (uint32_t i = threadIdx.x; i < ceil_div(2 * tiles, 32); i += THREADS) {
        packed.classes[i] = 0;
    }
    const uint32_t words = ceil_div(tiles, WARP);
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        const uint32_t word = round * WARPS + warp_id();
        const uint32_t live = __ballot_sync(ALL_LANES, !meta_constant(own_metas[round]));
        if (lane_id() == 0 && word < words) {
            live_before[word] = __popc(live);
            const uint32_t left = tiles - word * WARP;
            packed.constant[word] = ~live & (left >= WARP ? ALL_LANES : (1u << left) - 1);
        }
    }
    __syncthreads();
    uint32_t total;
    const uint32_t own = threadIdx.x < words ? live_before[threadIdx.x] : 0;
    const uint32_t before = block_exclusive_sum<THREADS, uint32_t>(own, warp_sums, total);
    if (threadIdx.x < words) {
        live_before[threadIdx.x] = before;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        const uint32_t word = round * WARPS + warp_id(), meta = own_metas[round];
        const uint32_t live = __ballot_sync(ALL_LANES, !meta_constant(meta));
        if (!meta_constant(meta)) {
            const uint32_t rank = live_before[word] + __popc(live & ((1u << lane_id()) - 1));
            if (token_codes) {
                atomicOr(&packed.predictors[rank / 8], meta_token_predictor(meta) << rank % 8 * 4);
            } else {
                atomicOr(&packed.predictors[rank / 16], meta_predictor(meta) << rank % 16 * 2);
                atomicOr(&packed.classes[rank / 16], meta_class(meta) << rank % 16 * 2);
            }
        }
    }
    __syncthreads();
}

// Writes section 0. Called by one block.
__device__ inline void write_tiles(const RecordTarget &record, const PackedTiles &packed, const uint16_t *metas,
                                   uint32_t tiles, uint32_t radius) {
    const RecordPlan &plan = *record.plan;
    const TileSectionWords words(tiles, plan.live, plan.flags);
    uint32_t *to = record.section(TILES);
    if (threadIdx.x == 0) {
        to[0] = tiles;
        to[1] = radius;
        to[2] = plan.flags;
        to[3] = plan.scheme;
    }
    to += TileSectionWords::TILES_HEADER / 4;
    auto copy = [&](const uint32_t *from, uint32_t count) {
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            to[i] = from[i];
        }
        to += count;
    };
    copy(packed.constant, words.constant);
    copy(packed.predictors, words.predictors);
    copy(packed.classes, words.classes);
    for (uint32_t i = threadIdx.x; i < words.masks; i += THREADS) {
        uint32_t word = 0;
        for (uint32_t tile = 8 * i; tile < min_of(8 * i + 8, tiles); ++tile) {
            word |= meta_mask(metas[tile]) << tile % 8 * 4;
        }
        to[i] = word;
    }
    to += words.masks;
    for (uint32_t i = threadIdx.x; i < words.signs; i += THREADS) {
        uint32_t word = 0;
        for (uint32_t tile = 16 * i; tile < min_of(16 * i + 16, tiles); ++tile) {
            word |= meta_sign(metas[tile]) << tile % 16 * 2;
        }
        to[i] = word;
    }
}

// The differences of a chunk's bases, kept in the registers of their threads.
struct Bases {
    uint32_t differences[ROUNDS];
};

// Bit width of each block of 32 bases, and the start of its words.
struct PackedBases {
    uint32_t widths[MAX_BLOCKS], starts[MAX_BLOCKS];
};

// Packs the bases. Called by one block, before the place of the record is known.
__device__ inline Bases pack_bases(const int32_t *bases, uint32_t tiles, PackedBases &packed) {
    __shared__ uint32_t warp_sums[WARPS];
    const uint32_t blocks = ceil_div(tiles, WARP);
    Bases own = {};
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        own.differences[round] = base_difference(bases, (round * WARPS + warp_id()) * WARP + lane_id(), tiles);
    }
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        const uint32_t width = width_of(own.differences[round]);
        if (lane_id() == 0) {
            packed.widths[round * WARPS + warp_id()] = width;
        }
    }
    __syncthreads();
    uint32_t total;
    const uint32_t start =
        block_exclusive_sum<THREADS, uint32_t>(threadIdx.x < blocks ? packed.widths[threadIdx.x] : 0, warp_sums, total);
    if (threadIdx.x < blocks) {
        packed.starts[threadIdx.x] = start;
    }
    __syncthreads();
    // Each lane then holds a word of each block in place of a base.
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        own.differences[round] = packed_word(own.differences[round], packed.widths[round * WARPS + warp_id()]);
    }
    return own;
}

// Writes section 1. Called by one block.
__device__ inline void write_bases(const RecordTarget &record, const Bases &own, const PackedBases &packed,
                                   uint32_t tiles) {
    const uint32_t blocks = ceil_div(tiles, WARP);
    uint32_t *out = record.section(BASES);
    for (uint32_t word = threadIdx.x; word < ceil_div(blocks, 4); word += THREADS) {
        uint32_t four = 0;
        for (uint32_t block = 4 * word; block < min_of(4 * word + 4, blocks); ++block) {
            four |= packed.widths[block] << block % 4 * 8;
        }
        out[word] = four;
    }
    out += ceil_div(blocks, 4);
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS && is_round(round, tiles); ++round) {
        const uint32_t block = round * WARPS + warp_id();
        if (lane_id() < packed.widths[block]) {
            out[packed.starts[block] + lane_id()] = own.differences[round];
        }
    }
}

// Writes entries `rank`, `rank + step`, ... of a sparse list.
template <typename Value>
__device__ inline void write_list(uint32_t *out, const uint32_t *positions, const Value *values, uint32_t count,
                                  uint32_t rank, uint32_t step) {
    if (count == 0) {
        return;
    }
    const uint32_t values_at = aligned(1 + count, 2);
    if (rank == 0) {
        out[0] = count;
        if (values_at > 1 + count) {
            out[1 + count] = 0;
        }
    }
    Value *to = reinterpret_cast<Value *>(out + values_at);
    for (uint32_t i = rank; i < count; i += step) {
        out[1 + i] = positions[i];
        to[i] = values[i];
    }
}

// Writes the elements of tiles `rank`, `rank + step`, ... of a raw chunk, one tile per warp.
__device__ inline void write_raw(const RecordTarget &record, const Geometry &geometry, uint64_t first_tile,
                                 uint32_t tiles, const Element *input, uint64_t first_element, uint32_t rank,
                                 uint32_t step) {
    Element *out = reinterpret_cast<Element *>(record.out + RECORD_HEADER_BYTES);
    const uint64_t before = geometry.elements_before(first_tile);
    for (uint32_t number = rank; number < tiles; number += step) {
        const Tile tile = geometry.tile(first_tile + number);
        const uint32_t elements = tile.elements();
        const Element *from = input + (tile.first_element - first_element);
        Element *to = out + (tile.elements_before - before);
        for (uint32_t i = lane_id(); i < elements; i += WARP) {
            const uint32_t row = i / tile.nx, plane = row / tile.ny;
            to[i] =
                from[plane * geometry.strides[1] + (row - plane * tile.ny) * geometry.strides[2] + (i - row * tile.nx)];
        }
    }
}

// Writes records, each by `parts_of_record` blocks, at least two. The first two blocks write the tile section and the
// bases, and all share the lists or raw elements. They start writing when `laid_out` becomes `laid_out_number`.
// `unwritten`, if not null, counts the blocks that have yet to write to each record. `token_codes` says whether the
// chunks have token codebooks.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_write(Geometry geometry, ChunkBatch batch, const ChunkParts *all_parts, const RecordPlan *plans,
                    const uint16_t *metas, const int32_t *bases, Lists lists, const Element *input,
                    uint64_t first_element, uint32_t parts_of_record, uint8_t *output, const uint64_t *laid_out,
                    uint64_t laid_out_number, uint32_t *unwritten, uint32_t token_codes) {
    const uint32_t chunk = blockIdx.x / parts_of_record, part = blockIdx.x % parts_of_record;
    __shared__ RecordPlan plan;
    __shared__ union {
        PackedTiles tiles;
        PackedBases bases;
    } packed;
    // The next kernel, which writes the streams, waits for the layout itself.
    launch_dependents();
    // Tiles and bases are final: the kernel that lays out records started when all kernels before the encoder's layout
    // were done.
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    Bases packed_base_words = {};
    if (part == 0) {
        pack_tiles(metas + first, tiles, token_codes != 0, packed.tiles);
    } else if (part == 1) {
        packed_base_words = pack_bases(bases + first, tiles, packed.bases);
    }
    if (threadIdx.x == 0) {
        wait_for_signal(laid_out, laid_out_number);
        plan = plans[chunk];
    }
    __syncthreads();
    auto write_part = [&]() {
        if (plan.kind == KIND_NO_ROOM) {
            return;
        }
        const ChunkParts parts = all_parts[chunk];
        const RecordTarget record{output + plan.place, &plan};
        if (part == parts_of_record - 1) {
            write_header(record, batch.first_chunk + chunk);
        }
        if (plan.kind == KIND_RAW) {
            const uint64_t tile = batch.first_tile + first;
            write_raw(record, geometry, tile, tiles, input, first_element, part * WARPS + warp_id(),
                      parts_of_record * WARPS);
            if (part == 0) {
                const uint64_t elements = geometry.elements_before(tile + tiles) - geometry.elements_before(tile);
                const uint32_t at = RECORD_HEADER_BYTES + uint32_t(elements) * ELEMENT_BYTES + threadIdx.x;
                if (at < plan.bytes) {
                    record.out[at] = 0;
                }
            }
            return;
        }
        if (part == 0) {
            write_tiles(record, packed.tiles, metas + first, tiles,
                        plan.kind == KIND_LZSS_CODES ? NARROW_RADIUS : parts.radius);
        } else if (part == 1) {
            write_bases(record, packed_base_words, packed.bases, tiles);
        }
        const uint32_t rank = part * THREADS + threadIdx.x, step = parts_of_record * THREADS;
        if (plan.kind == KIND_LZSS_CODES) {
            const TokenParts tokens = lists.tokens[chunk];
            write_list(record.section(OUTLIERS), lists.narrow_positions + tokens.first_outlier,
                       lists.narrow_values + tokens.first_outlier, tokens.outliers, rank, step);
        } else {
            write_list(record.section(OUTLIERS), lists.outlier_positions + parts.first_outlier,
                       lists.outlier_values + parts.first_outlier, parts.outliers, rank, step);
        }
        write_list(record.section(VERBATIM), lists.verbatim_positions + parts.first_verbatim,
                   static_cast<const Element *>(lists.verbatim_values) + parts.first_verbatim, parts.verbatim, rank,
                   step);
    };
    write_part();
    if (unwritten != nullptr) {
        __syncthreads();
        if (threadIdx.x == 0) {
            signal_release_add(&unwritten[chunk], uint32_t(-1));
        }
    }
    if (blockIdx.x == 0) {
        grid_dependency_wait();
    }
}
