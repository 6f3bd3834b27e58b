// Encodes any tiles: quantizes, predicts, and writes their strips as bits.
//
// WARPS  warps of a block
// See also predict/code_tile.cuh.
#include "predict/code_tile.cuh"
#include "strips/encode.cuh"

#if MEASURE
// Adds up the squared errors of the elements that are neither masked nor verbatim. Called before codes are written, and
// before the memory of the values is used for strips.
__device__ inline void measure(TileWork &work, const CodedTile &coded, uint64_t *error, uint32_t *counted) {
    TileMemory &memory = work.memory;
    const TileBitmaps &bitmaps = memory.bitmaps;
    const uint32_t *verbatim = coded.is_interpolated() ? memory.missed() : bitmaps.verbatim;
    double sum = 0.0;
    uint32_t count = 0;
    for_each_word(work.tile.elements(), [&](uint32_t word, uint32_t i) {
        if (i < work.tile.elements() && ((verbatim[word] | bitmaps.fill[word]) >> lane_id() & 1) == 0) {
            const Element x = work.source.load(Position(work.tile, i));
            const Element back =
                coded.is_interpolated()
                    ? memory.values[padded(i)]
                    : reconstruct(work.step, int32_t(uint32_t(memory.v[i]) + uint32_t(work.quantized.base)));
            sum += squared_error(work.step, x, rounded_to_stored(back));
            ++count;
        }
    });
    const uint64_t all = warp_reduce_sum(uint64_t(sum));
    count = warp_reduce_sum(count);
    if (lane_id() == 0) {
        *error = all;
        *counted = count;
    }
    __syncwarp();
}
#endif

// Takes `words` words of the chunk's scratch memory. Returns the first one to all lanes.
__device__ inline uint32_t take_words(uint32_t *taken, uint32_t words, TileMemory &memory) {
    if (lane_id() == 0) {
        memory.first_word = atomicAdd(taken, words);
    }
    __syncwarp();
    return memory.first_word;
}

// What the launch encodes.
struct Batch {
    const Stored *slab;
    uint64_t first_element;
    const Geometry &geometry;
    const ChunkBatch &batch;
    const Step &step;
    const Plans &plans;
    ChunkChoice *choices;
    const uint32_t *codewords;
    const TileOutputs &outputs;
};

// Encodes tile `number` of the batch. All lanes call this.
__device__ inline void encode_tile(const Batch &all, uint32_t number, TileMemory &memory) {
    const auto &[slab, first_element, geometry, batch, step, plans, choices, codewords, outputs] = all;
    const uint32_t chunk = number / batch.chunk_tiles;
    const ChunkChoice choice = choices[chunk];
    TileWork work(step, slab, first_element, geometry, batch.first_tile + number, memory);
    work.quantize();
    const uint32_t elements = work.tile.elements(), info = work.quantized.info;
    const CodedTile coded = predict_tile(work, choice, plans, geometry);
#if MEASURE
    measure(work, coded, outputs.errors + number, outputs.counted + number);
#endif
    write_codes(work, coded);
    // Codebooks of classes, of bitmaps, and of all classes together.
    uint32_t class_number = 0;
    if (choice.classes > 1 && !coded.is_constant) {
        for (uint32_t threshold : choice.thresholds) {
            class_number += coded.cost >> strips::COST_LOG2 >= threshold ? 1 : 0;
        }
    }
    const uint32_t *tables = codewords + uint64_t(chunk) * strips::TABLES * SYMBOLS;
    const Codewords of_codes{tables + (choice.classes > 1 ? class_number : uint32_t(strips::ONE_CODEBOOK)) * SYMBOLS},
        of_bitmaps{tables + strips::BITMAP_CODEBOOK * SYMBOLS};
    const TileStrips counts(elements, info, coded.is_constant);
    const bool is_dense = coded.is_dense(elements);
    StripScratch &scratch = memory.strips;
    code_bitmaps(work.tile, counts, memory.bitmaps, scratch);
    __syncwarp();
    measure_strips(counts, memory.codes, is_dense, of_codes, of_bitmaps, scratch);
    const uint32_t bits = scratch.starts[counts.count()], bit_words = ceil_div(bits, 32),
                   verbatim_words = coded.verbatim > 0 ? ceil_div(elements, 32) : 0;
    const uint32_t first = take_words(&outputs.taken[chunk], bit_words + verbatim_words, memory);
    for (uint32_t strip = lane_id(); strip < counts.count(); strip += WARP) {
        outputs.strip_bits[uint64_t(number) * STRIPS + strip] =
            uint16_t(scratch.starts[strip + 1] - scratch.starts[strip]);
    }
    if (lane_id() == 0) {
        if (work.quantized.any_lost) {
            choices[chunk].is_raw = 1;
        }
        const uint32_t predictor = coded.is_constant ? 0 : coded.predictor;
        outputs.facts[number] = {first, bits, work.quantized.base,
                                 info | (coded.is_constant ? INFO_CONSTANT : 0) | predictor << INFO_PREDICTOR |
                                     class_number << INFO_CLASS | coded.verbatim << INFO_VERBATIM};
    }
    // No sum that overflows: a chunk has at most 2^22 elements, with less than 64 bits each.
    if (first + bit_words + verbatim_words > outputs.chunk_words) {
        return;
    }
    uint32_t *words = outputs.words + uint64_t(chunk) * outputs.chunk_words + first;
    write_strips(counts, memory.codes, is_dense, of_codes, of_bitmaps, scratch, words);
    const uint32_t *verbatim = coded.is_interpolated() ? memory.missed() : memory.bitmaps.verbatim;
    for (uint32_t word = lane_id(); word < verbatim_words; word += WARP) {
        words[bit_words + word] = verbatim[word];
    }
}

// Encodes the tiles of a batch, or those that are listed behind their number, if there is a list. `outputs.words` has
// `outputs.chunk_words` words for each chunk; if they do not suffice, facts and strips are complete, but not all bits
// are written: such chunks take less space as they are.
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    encode_any(const Stored *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
               const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer,
               const __grid_constant__ Plans plans, ChunkChoice *choices, const uint32_t *codewords,
               const __grid_constant__ TileOutputs outputs, const uint32_t *listed) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    TileMemory &memory = reinterpret_cast<TileMemory *>(dynamic)[warp_id()];
    const Batch all{slab, first_element, geometry, batch, *quantizer, plans, choices, codewords, outputs};
    const uint32_t count = listed != nullptr ? listed[0] : batch.tiles;
    for (uint32_t i = blockIdx.x * WARPS + warp_id(); i < count; i += gridDim.x * WARPS) {
        encode_tile(all, listed != nullptr ? listed[1 + i] : i, memory);
        __syncwarp();
    }
}
