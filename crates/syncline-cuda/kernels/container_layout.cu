// From the streams' plans to the places of all records.
//
// THREADS        threads in a block
// ELEMENT_BYTES  4 or 8
// PLAN_WORDS, PLAN_CODEBOOKS, PLAN_BYTES, PLAN_STATUS  words of a stream's plan, and which of them is what
#include "container_record.cuh"
#include "scan.cuh"

constexpr uint32_t WARPS = THREADS / WARP;

// The streams of one kind: of codes with either radius, of masks, of signs.
struct Streams {
    const uint32_t *plans;
    uint64_t *places;

    __device__ inline uint32_t word(uint32_t stream, uint32_t word) const { return plans[uint64_t(stream) * PLAN_WORDS + word]; }
};

struct Sources {
    const ChunkParts *parts;
    const uint16_t *metas;
    const int32_t *bases;
    Streams narrow, wide, masks, signs;
    uint32_t narrow_streams; // one for each chunk of the batch, in order, and maybe more
};

// Where records go, and what became of them.
struct Output {
    uint64_t room;     // bytes that there are
    uint64_t start;    // where the first record of a stream starts
    uint64_t *state;   // where the next one starts, if there were room for all; status
    uint64_t *starts;  // of each record of the batch
    uint32_t *lengths; // likewise
    uint32_t begins;   // whether the batch is the first
};

// A chunk a block: the lengths of its sections. The last block to get there places the records one after another, and their streams in them.
extern "C" __global__ void __launch_bounds__(THREADS)
    record_layout(Geometry geometry, ChunkBatch batch, Sources sources, Output output, RecordPlan *plans, uint32_t *blocks_done) {
    __shared__ uint64_t warp_sums[WARPS];
    __shared__ uint32_t sums[4];
    const uint32_t chunk = blockIdx.x;
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint16_t *metas = sources.metas + first;
    const int32_t *bases = sources.bases + first;
    if (threadIdx.x < 4) {
        sums[threadIdx.x] = 0;
    }
    __syncthreads();
    // What is read stays in registers, so that all loads wait for memory together.
    constexpr uint32_t ROUNDS = MOST_TILES / THREADS;
    uint32_t own_metas[ROUNDS], differences[ROUNDS];
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        const uint32_t tile = round * THREADS + threadIdx.x;
        own_metas[round] = tile < tiles ? metas[tile] : 1;
        differences[round] = base_difference(bases, tile, tiles);
    }
    uint32_t live = 0, masks = 0, signs = 0, words_of_bases = 0;
#pragma unroll
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        live += !meta_constant(own_metas[round]);
        masks |= meta_mask_kind(own_metas[round]);
        signs |= meta_sign(own_metas[round]);
        words_of_bases += width_of(differences[round]);
    }
    live = warp_sum(live);
    masks = warp_or(masks);
    signs = warp_or(signs);
    if (lane_id() == 0) {
        atomicAdd(&sums[0], live);
        atomicOr(&sums[1], masks);
        atomicOr(&sums[2], signs);
        atomicAdd(&sums[3], words_of_bases);
    }
    __syncthreads();
    __shared__ bool last_block;
    if (threadIdx.x == 0) {
        const ChunkParts parts = sources.parts[chunk];
        const Streams codes = parts.radius == RADIUS ? sources.narrow : sources.wide;
        RecordPlan plan = {};
        plan.live = sums[0];
        plan.flags = (sums[1] ? FLAG_MASKS : 0) | (codes.word(parts.codes, PLAN_CODEBOOKS) > 1 ? FLAG_CLASSES : 0) | (sums[2] ? FLAG_SIGNS : 0);
        plan.lengths[TILES] = TileWords(tiles, plan.live, plan.flags).bytes();
        plan.lengths[BASES] = aligned(ceil_div(tiles, WARP), 4) + 4 * sums[3];
        uint32_t bad = codes.word(parts.codes, PLAN_STATUS);
        plan.lengths[CODES] = codes.word(parts.codes, PLAN_BYTES);
        if (parts.masks != NO_STREAM) {
            plan.lengths[MASKS] = sources.masks.word(parts.masks, PLAN_BYTES);
            bad |= sources.masks.word(parts.masks, PLAN_STATUS);
        }
        if (parts.signs != NO_STREAM) {
            plan.lengths[SIGNS] = sources.signs.word(parts.signs, PLAN_BYTES);
            bad |= sources.signs.word(parts.signs, PLAN_STATUS);
        }
        plan.lengths[OUTLIERS] = parts.outliers == 0 ? 0 : aligned(4 + 4 * parts.outliers, 8) + 4 * parts.outliers;
        plan.lengths[VERBATIM] = parts.verbatim == 0 ? 0 : aligned(4 + 4 * parts.verbatim, 8) + ELEMENT_BYTES * parts.verbatim;
        plan.kind = KIND_QUANTISED;
        plan.bytes = section_start(plan.lengths, SECTIONS);
        const uint64_t tile = batch.first_tile + first;
        const uint32_t elements = uint32_t(geometry.elements_before(tile + tiles) - geometry.elements_before(tile));
        const uint32_t raw_bytes = aligned(RECORD_HEADER + elements * ELEMENT_BYTES, ALIGNMENT);
        if (plan.bytes >= raw_bytes || parts.is_raw) {
            plan.kind = KIND_RAW;
            plan.bytes = raw_bytes;
        }
        plan.status = bad != 0 ? STATUS_BAD_STREAM : 0;
        plans[chunk] = plan;
        output.lengths[chunk] = plan.bytes;
        __threadfence();
        last_block = atomicAdd(blocks_done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last_block) {
        return;
    }
    __threadfence();
    uint64_t running = output.begins ? output.start : output.state[0], total;
    uint32_t status = 0;
    for (uint32_t begin = 0; begin < batch.chunks; begin += THREADS) {
        const uint32_t other = begin + threadIdx.x;
        const uint64_t bytes = other < batch.chunks ? __ldcg(&plans[other].bytes) : 0;
        const uint64_t place = running + block_scan<THREADS, uint64_t>(bytes, warp_sums, total);
        running += total;
        if (other >= batch.chunks) {
            continue;
        }
        RecordPlan *plan = &plans[other];
        const bool fits = place <= output.room && bytes <= output.room - place;
        const bool written = fits && __ldcg(&plan->kind) == KIND_QUANTISED;
        plan->place = place;
        output.starts[other] = place;
        status |= __ldcg(&plan->status);
        if (!fits) {
            plan->kind = KIND_NO_ROOM;
            status |= STATUS_NO_ROOM;
        }
        uint32_t lengths[SECTIONS];
        for (uint32_t i = 0; i < SECTIONS; ++i) {
            lengths[i] = __ldcg(&plan->lengths[i]);
        }
        const ChunkParts parts = sources.parts[other];
        const Streams codes = parts.radius == RADIUS ? sources.narrow : sources.wide;
        if (parts.radius != RADIUS) {
            sources.narrow.places[other] = NO_PLACE;
        }
        codes.places[parts.codes] = written ? place + section_start(lengths, CODES) : NO_PLACE;
        if (parts.masks != NO_STREAM) {
            sources.masks.places[parts.masks] = written ? place + section_start(lengths, MASKS) : NO_PLACE;
        }
        if (parts.signs != NO_STREAM) {
            sources.signs.places[parts.signs] = written ? place + section_start(lengths, SIGNS) : NO_PLACE;
        }
    }
    for (uint32_t stream = batch.chunks + threadIdx.x; stream < sources.narrow_streams; stream += THREADS) {
        sources.narrow.places[stream] = NO_PLACE;
    }
    const bool bad = __syncthreads_or(status & STATUS_BAD_STREAM), no_room = __syncthreads_or(status & STATUS_NO_ROOM);
    if (threadIdx.x == 0) {
        status = (bad ? STATUS_BAD_STREAM : 0) | (no_room ? STATUS_NO_ROOM : 0);
        output.state[0] = running;
        output.state[1] = status | (output.begins ? 0 : output.state[1]);
        *blocks_done = 0;
    }
}
