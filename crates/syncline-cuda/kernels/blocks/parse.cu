// Parses records of blocks for decoding. The grid is (chunks, roles), as in container/parse.cu: each block of threads
// has one role in parsing a chunk. Input is not trusted: each problem sets a bit of the role's word, and writes stay
// within the memory of the batch.
//
// ELEMENT_BYTES  of an element: 1, 2, 4, or 8
// ROLES          roles, without those that compare hashes
// THREADS        threads of a block
#include "blocks/blocks.cuh"
#include "blocks/sections.cuh"
#include "blocks/symbol.cuh"
#include "blocks/tables.cuh"
#include "container/parse_lists.cuh"
#include "device/block.cuh"
#include "device/sync.cuh"

constexpr uint32_t ROLE_RECORD = 0, ROLE_PLAN = 1, ROLE_LIST = 2, ROLE_SIZES = ROLE_LIST + LIST_BLOCKS,
                   ROLE_ANCHORS = ROLE_SIZES + 1;
static_assert(ROLES == ROLE_ANCHORS + 1 && ROLES <= DECODE_PROBLEM, "the launcher knows how many roles there are");

union BlockRoleScratch {
    TableScratch tables;
    uint64_t warp_sums[THREADS / WARP];
    ChainScratch chain;
    uint32_t warp_problems[THREADS / WARP];
};

// Reads the fields of a plan. Returns whether they are valid.
__device__ inline bool read_fields(const Records &records, const Section &section, const Geometry &geometry,
                                   BlockPlan &plan) {
    if (section.length < BLOCK_PLAN_BYTES) {
        return false;
    }
    const uint8_t *bytes = records.input + section.offset;
    const uint32_t scheme = bytes[0];
    plan.is_cubic = scheme & 1;
    plan.is_on_grid = scheme >> 1;
    plan.slices = bytes[1];
    plan.share = bytes[2];
    plan.division = bytes[3];
    const bool has_axis =
        plan.slices == 0 || (plan.slices <= 3 && plan.slices + geometry.axes > 3 && geometry.axes > 1);
    const bool has_share = plan.share <= 2 && (plan.share == 0 || plan.slices != 0);
    return scheme < 4 && has_axis && has_share && plan.division <= DIVISION_BOXES;
}

// Reads the plan and the tables. Called by the whole block.
__device__ inline uint32_t read_plan(const Records &records, const Record &record, const Chunk &chunk,
                                     const Geometry &geometry, const ParsedBlocks &to, TableScratch &scratch) {
    BlockPlan plan{};
    if (!read_fields(records, record.sections[BLOCK_PLAN], geometry, plan)) {
        return PARSE_PLAN;
    }
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS * blocks::SYMBOLS; i += THREADS) {
        (&scratch.weights[0][0])[i] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        const Section section = record.sections[BLOCK_PLAN];
        PackedReader reader(records.input + section.offset, section.length);
        reader.at = 8 * BLOCK_PLAN_BYTES;
        read_all_weights(reader, scratch);
    }
    __syncthreads();
    if (!scratch.is_good) {
        return PARSE_PLAN;
    }
    BlockTables &tables = to.tables[chunk.number];
    DecodeTable *made = reinterpret_cast<DecodeTable *>(tables.tables);
    for (uint32_t i = warp_id(); i < scratch.tables; i += THREADS / WARP) {
        make_table(scratch.weights[i], scratch.parts[warp_id()], made[i]);
    }
    for (uint32_t i = threadIdx.x; i < blocks::CONTEXTS; i += THREADS) {
        tables.of_context[i] = scratch.of_context[i];
    }
    if (threadIdx.x == 0) {
        plan.words = record.sections[BLOCK_WORDS].offset;
        to.plans[chunk.number] = plan;
    }
    return 0;
}

// Reads the lanes of blocks and the sizes of units, and sums units and sizes up. Called by the whole block.
__device__ inline uint32_t read_sizes(const Records &records, const Record &record, const Chunk &chunk,
                                      const Geometry &geometry, const ParsedBlocks &to, uint64_t *warp_sums) {
    constexpr uint32_t BASE_BITS = 32, WIDTH_BITS = 8;
    BlockPlan plan{};
    const bool has_plan = read_fields(records, record.sections[BLOCK_PLAN], geometry, plan);
    const Section section = record.sections[BLOCK_SIZES], words = record.sections[BLOCK_WORDS];
    PackedReader reader(records.input + section.offset, section.length);
    uint64_t carry = 0;
    bool wrong = false;
    for (uint32_t window = 0; window < chunk.tiles && has_plan; window += THREADS) {
        const uint32_t tile = window + threadIdx.x;
        uint64_t own = 0, total;
        if (tile < chunk.tiles) {
            reader.at = uint64_t(tile) * LANES_BITS;
            const uint32_t read = reader.take(LANES_BITS), lanes_log2 = min_of(read, blocks::MAX_LANES_LOG2);
            wrong |= read > lanes_log2;
            const BlockShape shape(geometry.tile(chunk.first + tile), geometry, plan.slices);
            own = BlockUnits(shape, plan, lanes_log2).count();
            to.lanes_log2[chunk.first_tile + tile] = uint8_t(lanes_log2);
        }
        const uint64_t before = carry + block_exclusive_sum<THREADS, uint64_t>(own, warp_sums, total);
        carry += total;
        if (tile < chunk.tiles) {
            to.first_units[chunk.first_tile + tile] = uint32_t(before);
        }
    }
    const uint32_t units = uint32_t(carry);
    reader.at = uint64_t(chunk.tiles) * LANES_BITS;
    const uint32_t base = reader.take(BASE_BITS), width = reader.take(WIDTH_BITS);
    PackedReader last = reader;
    last.at += uint64_t(units) * width;
    if (!has_plan || !reader.is_good || width > 32 || last.at > last.end || !last.is_finished() ||
        words.length % 2 != 0) {
        return PARSE_SIZES;
    }
    uint32_t *starts = to.starts + uint64_t(chunk.number) * to.starts_stride;
    const uint64_t first_bit = reader.at;
    carry = 0;
    for (uint32_t window = 0; window < units; window += THREADS) {
        const uint32_t i = window + threadIdx.x;
        uint64_t size = 0, total;
        if (i < units) {
            reader.at = first_bit + uint64_t(i) * width;
            const uint32_t above = reader.take(width);
            size = above == 0 ? 0 : uint64_t(base) + above;
            wrong |= size > ALL_LANES;
        }
        const uint64_t before = carry + block_exclusive_sum<THREADS, uint64_t>(size, warp_sums, total);
        carry += total;
        if (i < units) {
            starts[i] = uint32_t(before);
        }
    }
    if (threadIdx.x == 0) {
        starts[units] = uint32_t(carry);
    }
    return wrong || carry != words.length / 2 ? PARSE_SIZES : 0;
}

// Reads anchors. Called by one thread.
__device__ inline uint32_t read_anchors(const Records &records, const Record &record, const Chunk &chunk,
                                        const Geometry &geometry, const ParsedBlocks &to) {
    BlockPlan plan{};
    if (!read_fields(records, record.sections[BLOCK_PLAN], geometry, plan)) {
        return PARSE_ANCHORS;
    }
    PackedReader reader(records.input + record.sections[BLOCK_ANCHORS].offset, record.sections[BLOCK_ANCHORS].length);
    uint32_t first = 0;
    for (uint32_t tile = 0; tile < chunk.tiles; ++tile) {
        const uint64_t at = uint64_t(chunk.first_tile + tile) * to.anchors_stride;
        const BlockShape shape(geometry.tile(chunk.first + tile), geometry, plan.slices);
        uint32_t before = first, integer = 0;
        for (uint32_t i = 0; i < shape.anchors(); ++i) {
            const bool is_masked = reader.take(1) != 0;
            uint32_t mask = 0;
            if (is_masked) {
                mask = reader.take(ANCHOR_MASK_BITS);
            } else {
                before += uint32_t(reader.take_signed());
                integer = before;
                first = i == 0 ? before : first;
            }
            if (!reader.is_good || mask >= blocks::MASKS) {
                return PARSE_ANCHORS;
            }
            to.anchors[at + i] = int32_t(integer);
            to.anchor_codes[at + i] = is_masked ? code_of_mask(mask) : 0;
        }
    }
    return reader.is_finished() ? 0 : PARSE_ANCHORS;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    blocks_parse(const __grid_constant__ Records records, const __grid_constant__ Geometry geometry,
                 const __grid_constant__ ChunkBatch batch, const __grid_constant__ Parsed parsed,
                 const __grid_constant__ ParsedBlocks to, const __grid_constant__ Hashing hashing) {
    __shared__ __align__(16) BlockRoleScratch scratch;
    launch_dependents_and_wait();
    const uint32_t number = blockIdx.x, role = blockIdx.y;
    if (role >= ROLES) {
        check_hash(records, number, hashing, role - ROLES, scratch.chain);
        return;
    }
    const Chunk chunk = chunk_of_batch(batch, number);
    const Record record = read_record(records, batch.first_chunk + number, number, KIND_BLOCKS, BLOCK_SECTIONS);
    const bool has_blocks = record.status == 0 && record.kind == KIND_BLOCKS;
    uint32_t problems = 0;
    if (role == ROLE_RECORD) {
        problems = record.status;
        if (has_blocks) {
            problems |= check_padding(records, record);
        } else if (problems == 0 && threadIdx.x == 0) {
            problems = read_raw(records, record, chunk, geometry, parsed);
        }
        if (threadIdx.x == 0) {
            parsed.chunks[number].kind = record.kind;
            for (uint32_t i = ROLES; i < PROBLEM_WORDS; ++i) {
                parsed.problems[number * PROBLEM_WORDS + i] = 0;
            }
        }
    } else if (!has_blocks) {
        // Nothing else is read.
    } else if (role == ROLE_PLAN) {
        problems = read_plan(records, record, chunk, geometry, to, scratch.tables);
    } else if (role == ROLE_SIZES) {
        problems = read_sizes(records, record, chunk, geometry, to, scratch.warp_sums);
    } else if (role == ROLE_ANCHORS) {
        problems = threadIdx.x == 0 ? read_anchors(records, record, chunk, geometry, to) : 0;
    } else {
        problems = read_list(records, record, chunk, geometry, parsed, role - ROLE_LIST);
    }
    const uint32_t all = block_or(problems, scratch.warp_problems);
    if (threadIdx.x == 0) {
        parsed.problems[number * PROBLEM_WORDS + role] = all;
    }
}
