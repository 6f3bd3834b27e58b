// Encodes whole ordinary tiles of 8x8x8 of f32: those without masked and verbatim values, whose integers are small. All
// others are listed for encode_any. Everything from elements to bits stays in registers and shared memory.
//
// WARPS         warps of a block
// MEMORY_BYTES  shared memory of a block
// STRIP_ROOM    codes of shared memory from strip to strip
// TABLE_WORDS   words of the table of lines of a scheme
// See also predict/cube_lines.cuh.
#include "predict/cube_differences.cuh"
#include "predict/cube_lines.cuh"
#include "predict/interpolate.cuh"
#include "strips/alphabet.cuh"
#include "strips/bits.cuh"
#include "strips/structs.cuh"

constexpr uint32_t CUBE = SIDE * SIDE * SIDE, STRIPS = CUBE / STRIP_LEN;
// Strips that a tile has room for in the results: also those of bitmaps, which these tiles have not.
constexpr uint32_t STRIP_SLOTS = STRIPS + 2 * CUBE / strips::BITS_OF_BITMAP_STRIP;
// Codes with smaller magnitudes have 16 bits.
constexpr float CODE_LIMIT = 32767.5f;
// Integers of ordinary tiles, with the base.
constexpr float INTEGER_LIMIT = 1 << 21;
// Words of bits that a tile has room for.
constexpr uint32_t BIT_WORDS = 288;
// Adding this to a number below 2^22 rounds it, to even on a tie, and leaves the integer in the lowest bits.
constexpr float SHIFTER = 0x1.8p23f;

struct __align__(16) WarpMemory {
    union {
        float values[SIDE * PLANE];
        // The place of a value that is not 0 times 2^16, and its code; first, one in another strip.
        uint32_t tokens[1 + CUBE];
    };
    int16_t codes[2][STRIPS * STRIP_ROOM]; // of the best Lorenzo predictor, and of interpolation
    uint32_t bits[BIT_WORDS + 2];          // 0 between tiles
    uint32_t starts[STRIPS];               // of strips: the lane that has the first value, and its bits before
    uint32_t unused[2];
};

struct BlockMemory {
    WarpMemory warps[WARPS];
    uint32_t codewords[strips::MAX_CLASSES * SYMBOLS];
    uint32_t lines[TABLE_WORDS];
    ChunkChoice choice;
    uint32_t ticket;
    uint32_t unused[3];
};
static_assert(sizeof(BlockMemory) <= MEMORY_BYTES, "the launcher knows the size");

// The elements of a tile as a lane has them: predict/cube_differences.cuh.
struct Elements {
    float of[4][4];

    __device__ inline void load(const TileSource &source, bool vectors) {
        const uint32_t lane = lane_id();
        const float *from = source.first + lane / 16 * source.plane + lane / 2 % 8 * source.row + lane % 2 * 4;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            if (vectors) {
                const float4 four = __ldcs(reinterpret_cast<const float4 *>(from));
                of[k][0] = four.x, of[k][1] = four.y, of[k][2] = four.z, of[k][3] = four.w;
            } else {
#pragma unroll
                for (uint32_t j = 0; j < 4; ++j) {
                    of[k][j] = __ldcs(from + j);
                }
            }
            from += 2 * source.plane;
        }
    }
};

// Finds the integer of an element, as a float: `quantize` in quantize/quantize.cuh, as far as integers are small.
// Returns whether it is that of an ordinary tile.
__device__ inline bool quantize_float(const Step &step, float x, float &integer) {
    const float rounded = (x * step.inverse_high + SHIFTER) - SHIFTER;
    const float rest = __fmaf_rn(x, step.inverse_low, __fmaf_rn(x, step.inverse_high, -rounded));
    integer = rounded + ((rest + SHIFTER) - SHIFTER);
    const float error = fabsf(x - __fmaf_rn(integer, step.high, integer * step.low));
    return error < step.bound && fabsf(integer) < INTEGER_LIMIT;
}

// The lines of a pass.
struct EncodingPass {
    const uint32_t *lines;
    uint32_t count;
    float *values;
    int16_t *codes;
    const InterpolationStep &constants;
    uint32_t &cost;
    bool &is_good;

    // Predicts and quantizes the lines.
    template <uint32_t AXIS, uint32_t LEVEL, bool IS_CUBIC> __device__ inline void run() const {
        constexpr uint32_t DISTANCE = SIDE / 2 >> LEVEL,
                           COUNT = (SIDE - 1 - DISTANCE + 2 * DISTANCE - 1) / (2 * DISTANCE);
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            float *line = values + (lines[i] & 0xFFFF);
            int16_t *to = codes + (lines[i] >> 16);
            float predictions[COUNT], product = 1.0f;
            predict_line<SIDE, DISTANCE, DISTANCE, IS_CUBIC, Along<AXIS>>(line, predictions);
#pragma unroll
            for (uint32_t point = 0; point < COUNT; ++point) {
                float &place = line[Along<AXIS>::of(DISTANCE + 2 * DISTANCE * point)];
                const float wanted = place, prediction = predictions[point];
                const float scaled = ::product(wanted - prediction, constants.inverse), shifted = scaled + SHIFTER,
                            code = shifted - SHIFTER;
                const float moved = product_plus(code, constants.step, prediction);
                // A code of 0 gives the prediction itself, whatever its sign.
                const float found = code != 0.0f ? moved : prediction;
                is_good &= fabsf(scaled) < CODE_LIMIT && fabsf(wanted - found) < constants.bound;
                // 0.0 is kept exactly, and -0.0 is verbatim.
                is_good &= wanted != 0.0f || (__float_as_uint(wanted) | __float_as_uint(found)) == 0;
                place = found;
                to[point] = int16_t(__float_as_uint(shifted));
                product *= __fmaf_rn(2.0f, fabsf(code), 1.0f);
            }
            cost += product_cost(product);
        }
    }
};

// Interpolates a tile whose elements are stored. Returns the cost, and whether the tile is ordinary under the scheme.
// Called by the whole warp.
__device__ inline uint32_t interpolate_cube(const Step &step, float base, const uint32_t *table, bool is_cubic,
                                            float *values, int16_t *codes, bool &is_ordinary) {
    const uint32_t passes = table[0] & 0xFFFF, anchors = table[0] >> 16, lane = lane_id();
    const uint32_t *lines = table + LINES_AT;
    const InterpolationStep constants(step);
    uint32_t cost = 0;
    bool is_good = true;
    // The anchors: a lattice of two positions along x and y, and of two or eight along z.
    const bool is_anchor = lane < anchors;
    const uint32_t line = is_anchor ? lines[lane] : 0;
    float integer;
    quantize_float(step, values[line & 0xFFFF], integer);
    float residual = integer - base;
#pragma unroll
    for (uint32_t axis = 1; axis <= 2; axis *= 2) {
        const float before = __shfl_xor_sync(ALL_LANES, residual, axis);
        residual -= (lane & axis) != 0 ? before : 0.0f;
    }
    const float before = __shfl_up_sync(ALL_LANES, residual, 4);
    residual -= lane >= 4 ? before : 0.0f;
    if (is_anchor) {
        values[line & 0xFFFF] = __fmaf_rn(integer, step.high, integer * step.low);
        codes[line >> 16] = int16_t(__float_as_uint(residual + SHIFTER));
        is_good = fabsf(residual) < CODE_LIMIT;
        cost = product_cost(__fmaf_rn(2.0f, fabsf(residual), 1.0f));
    }
    __syncwarp();
    for (uint32_t number = 0; number < passes; ++number) {
        const CubePass pass(table, number);
        const EncodingPass own{lines + pass.first, pass.count, values, codes, constants, cost, is_good};
        if (is_cubic) {
            run_pass<true>(own, pass.kind);
        } else {
            run_pass<false>(own, pass.kind);
        }
        __syncwarp();
    }
    is_ordinary = __all_sync(ALL_LANES, is_good);
    return warp_reduce_sum(cost);
}

// Writes residuals as codes of strips. Returns whether all have 16 bits.
__device__ inline bool store_codes(const CubeRows &residuals, int16_t *codes) {
    bool fits = true;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
        uint32_t words[4];
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            fits &= fabsf(residuals.of[k][j]) < CODE_LIMIT;
            words[j] = __float_as_uint(residuals.of[k][j] + SHIFTER);
        }
        *reinterpret_cast<uint2 *>(codes + k * STRIP_ROOM + 4 * lane_id()) =
            make_uint2(__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410));
    }
    return fits;
}

// Lists the values of a tile that are not 0 in `memory.tokens`, behind one in another strip. Returns their number.
__device__ inline uint32_t list_values(const int16_t *codes, WarpMemory &memory) {
    const uint32_t lane = lane_id();
    // A lane has 16 consecutive codes.
    const uint4 *from = reinterpret_cast<const uint4 *>(codes + lane / 8 * STRIP_ROOM + lane % 8 * 16);
    const uint4 low = from[0], high = from[1];
    const uint32_t pairs[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t count = 0;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        count += ((pairs[i] & 0xFFFF) != 0 ? 1 : 0) + (pairs[i] >> 16 != 0 ? 1 : 0);
    }
    const uint32_t through = warp_inclusive_sum(count);
    __syncwarp();
    uint32_t *to = memory.tokens + 1 + through - count;
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t place = (16 * lane + 2 * i) << 16;
        if ((pairs[i] & 0xFFFF) != 0) {
            *to++ = place | (pairs[i] & 0xFFFF);
        }
        if (pairs[i] >> 16 != 0) {
            *to++ = (place + (1 << 16)) | pairs[i] >> 16;
        }
    }
    if (lane == 0) {
        memory.tokens[0] = 0xFFFF0000;
    }
    if (lane < STRIPS) {
        memory.starts[lane] = ~0u;
    }
    __syncwarp();
    return __shfl_sync(ALL_LANES, through, WARP - 1);
}

// The values of a lane, in the order of the tile.
struct LaneValues {
    const uint32_t *tokens;
    uint32_t count;

    __device__ inline LaneValues(const WarpMemory &memory, uint32_t all) {
        const uint32_t own = ceil_div(all, WARP), first = min_of(lane_id() * own, all);
        tokens = memory.tokens + 1 + first;
        count = min_of(own, all - first);
    }
    // Calls `put(strip, begins, zeros, value)` for the values: `begins` says whether a value is the first of its strip.
    template <typename Put> __device__ inline void for_each(Put put) const {
        uint32_t before = tokens[-1] >> 16;
#pragma unroll 1
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t token = tokens[i], place = token >> 16;
            const bool begins = (place ^ before) / STRIP_LEN != 0;
            put(place / STRIP_LEN, begins, begins ? place % STRIP_LEN : place - before - 1, int32_t(int16_t(token)));
            before = place;
        }
    }
};

// Writes the bits of a tile to `memory.bits`. Lane `i` below STRIPS gets the first bit of strip `i` in `start`. Returns
// the number of bits; if there is no room for them, nothing is written. Called by the whole warp.
__device__ inline uint32_t write_bits(const int16_t *codes, bool is_dense, const uint32_t *codewords,
                                      WarpMemory &memory, uint32_t &start) {
    const LaneValues own(memory, list_values(codes, memory));
    auto has = [&](uint32_t symbol) { return codewords[symbol] != 0; };
    uint64_t bits = 0;
    uint32_t count = 0;
    own.for_each([&](uint32_t strip, bool begins, uint32_t zeros, int32_t value) {
        if (begins) {
            memory.starts[strip] = lane_id() << 16 | count;
        }
        for_symbols(zeros, value, is_dense, has, [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
            const uint32_t codeword = codewords[symbol], length = (codeword & 0xFF) + extra_bits;
            bits = bits << length | uint64_t(codeword >> 8) << extra_bits | extra;
            count += length;
        });
    });
    const uint32_t through = warp_inclusive_sum(count), position = through - count,
                   total = __shfl_sync(ALL_LANES, through, WARP - 1);
    __syncwarp();
    // Strips without values start where the next one does.
    const uint32_t first = lane_id() < STRIPS ? memory.starts[lane_id()] : ~0u;
    start = __shfl_sync(ALL_LANES, position, first >> 16 & 31) + (first & 0xFFFF);
    start = first == ~0u ? total : start;
#pragma unroll
    for (uint32_t distance = 1; distance < STRIPS; ++distance) {
        start = min_of(start, __shfl_down_sync(ALL_LANES, start, 1));
    }
    if (total > 32 * BIT_WORDS) {
        return total;
    }
    if (__all_sync(ALL_LANES, count <= 64)) {
        if (count > 0) {
            const uint64_t left = bits << (64 - count);
            const uint32_t high = uint32_t(left >> 32), low = uint32_t(left), shift = position % 32;
            uint32_t *word = memory.bits + position / 32;
            atomicOr(word, high >> shift);
            if (shift + count > 32) {
                atomicOr(word + 1, __funnelshift_r(low, high, shift));
            }
            if (shift + count > 64) {
                atomicOr(word + 2, __funnelshift_r(0, low, shift));
            }
        }
    } else {
        BitPacker packer(memory.bits, position);
        own.for_each([&](uint32_t, bool, uint32_t zeros, int32_t value) {
            for_symbols(zeros, value, is_dense, has, [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
                packer.put(codewords[symbol] >> 8, codewords[symbol] & 0xFF);
                packer.put(extra, extra_bits);
            });
        });
        packer.finish();
    }
    __syncwarp();
    return total;
}

// What the tiles of a block share.
struct CubeWork {
    const Step &step;
    const TileOutputs &outputs;
    const BlockMemory &block;
    uint32_t chunk;

    // Encodes tile `number` of the batch. Returns false if it is not ordinary. Called by the whole warp.
    __device__ inline bool encode(uint32_t number, const Elements &elements, WarpMemory &memory) const;
};

__device__ inline bool CubeWork::encode(uint32_t number, const Elements &elements, WarpMemory &memory) const {
    const uint32_t lane = lane_id();
    const ChunkChoice &choice = block.choice;
    const float low = float(step.range_low), high = float(step.range_high);
    CubeRows integers;
    bool is_good = true;
#pragma unroll
    for (uint32_t k = 0; k < 4; ++k) {
#pragma unroll
        for (uint32_t j = 0; j < 4; ++j) {
            const float x = elements.of[k][j];
            is_good &= quantize_float(step, x, integers.of[k][j]) && x >= low && x <= high;
        }
    }
    if (step.minus_zeros != 0) {
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            is_good &= __float_as_uint(elements.of[i / 4][i % 4]) != SIGN_BIT;
        }
    }
#pragma unroll 1
    for (uint32_t p = 0; p < step.pattern_count; ++p) {
#pragma unroll
        for (uint32_t i = 0; i < 16; ++i) {
            is_good &= __float_as_uint(elements.of[i / 4][i % 4]) != uint32_t(step.patterns[p]);
        }
    }
    const float base = __shfl_sync(ALL_LANES, integers.of[0][0], 0);
#pragma unroll
    for (uint32_t i = 0; i < 16; ++i) {
        float &integer = integers.of[i / 4][i % 4];
        integer -= base;
        is_good &= fabsf(integer) < CUBE_LIMIT;
    }
    if (!__all_sync(ALL_LANES, is_good)) {
        return false;
    }
    uint32_t best_cost = ~0u, predictor = 0;
    bool fits = true;
#pragma unroll 1
    for (uint32_t place = 0; place < choice.listed; ++place) {
        CubeRows residuals = integers;
        difference_cube(residuals, choice.predictors[place]);
        uint32_t cost = 0;
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            float product = __fmaf_rn(2.0f, fabsf(residuals.of[k][0]), 1.0f);
#pragma unroll
            for (uint32_t j = 1; j < 4; ++j) {
                product *= __fmaf_rn(2.0f, fabsf(residuals.of[k][j]), 1.0f);
            }
            cost += product_cost(product);
        }
        cost = warp_reduce_sum(cost);
        if (place == 0 || cost < best_cost) {
            best_cost = cost;
            predictor = place;
            fits = store_codes(residuals, memory.codes[0]);
        }
    }
    bool is_constant = best_cost == 0;
    const int16_t *codes = memory.codes[0];
    fits = __all_sync(ALL_LANES, fits);
    if (choice.scheme != 0 && !is_constant) {
#pragma unroll
        for (uint32_t k = 0; k < 4; ++k) {
            const uint32_t at = stored(2 * k) * PLANE, above = stored(2 * k + 1) * PLANE;
            float *row = memory.values + (lane < 16 ? at : above) + stored(lane / 2 % 8) * ROW + lane % 2 * 4;
#pragma unroll
            for (uint32_t j = 0; j < 4; ++j) {
                row[j] = elements.of[k][j];
            }
        }
        __syncwarp();
        bool is_ordinary;
        const uint32_t cost = interpolate_cube(step, base, block.lines, (choice.scheme - 1 & 1) != 0, memory.values,
                                               memory.codes[1], is_ordinary);
        if (!is_ordinary) {
            return false;
        }
        if (cost < best_cost) {
            best_cost = cost;
            predictor = strips::INTERPOLATED;
            codes = memory.codes[1];
            fits = true;
        }
    }
    if (!fits) {
        return false;
    }
    uint32_t class_number = 0;
    if (choice.classes > 1 && !is_constant) {
#pragma unroll
        for (uint32_t threshold : choice.thresholds) {
            class_number += best_cost >> strips::COST_LOG2 >= threshold ? 1 : 0;
        }
    }
    uint32_t bits = 0, start = 0;
    if (!is_constant) {
        __syncwarp();
        const bool is_dense = 2 * best_cost >= (3 * CUBE) << strips::COST_LOG2;
        bits = write_bits(codes, is_dense, block.codewords + class_number * SYMBOLS, memory, start);
        if (bits > 32 * BIT_WORDS) {
            return false;
        }
    }
    const uint32_t words = ceil_div(bits, 32);
    uint32_t first = 0;
    if (lane == 0) {
        first = atomicAdd(&outputs.taken[chunk], words);
    }
    const uint32_t next = __shfl_down_sync(ALL_LANES, start, 1);
    if (lane < STRIPS && !is_constant) {
        outputs.strip_bits[uint64_t(number) * STRIP_SLOTS + lane] = uint16_t((lane + 1 < STRIPS ? next : bits) - start);
    }
    first = __shfl_sync(ALL_LANES, first, 0);
    if (lane == 0) {
        outputs.facts[number] = {first, bits, int32_t(base),
                                 (is_constant ? META_CONSTANT : predictor << META_PREDICTOR) | class_number
                                                                                                   << META_CLASS};
    }
    const bool has_room = first + words <= outputs.chunk_words;
    uint32_t *to = outputs.words + uint64_t(chunk) * outputs.chunk_words + first;
    for (uint32_t i = lane; i < words; i += WARP) {
        if (has_room) {
            to[i] = memory.bits[i];
        }
        memory.bits[i] = 0;
    }
    __syncwarp();
    return true;
}

// Encodes the ordinary tiles of a batch, and lists the others behind their number, which is 0 before. `vectors` says
// whether half rows start on multiples of 16 bytes. Each block has about the same number of consecutive tiles.
extern "C" __global__ void __launch_bounds__(WARPS *WARP)
    encode_cubes(const Element *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                 const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer, uint32_t vectors,
                 const uint32_t *lines, const ChunkChoice *choices, const uint32_t *codewords,
                 const __grid_constant__ TileOutputs outputs, uint32_t *listed) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    BlockMemory &block = *reinterpret_cast<BlockMemory *>(dynamic);
    WarpMemory &memory = block.warps[warp_id()];
    const Step &step = *quantizer;
    const uint32_t begin = uint32_t(uint64_t(batch.tiles) * blockIdx.x / gridDim.x),
                   end = uint32_t(uint64_t(batch.tiles) * (blockIdx.x + 1) / gridDim.x);
    for (uint32_t i = lane_id(); i < BIT_WORDS + 2; i += WARP) {
        memory.bits[i] = 0;
    }
    for (uint32_t first = begin; first < end;) {
        const uint32_t chunk = first / batch.chunk_tiles, last = min_of(end, batch.chunk_first(chunk + 1));
        const ChunkChoice choice = choices[chunk];
        // Other warps may still use the tables of the chunk before.
        __syncthreads();
        const uint32_t *tables = codewords + uint64_t(chunk) * strips::TABLES * SYMBOLS +
                                 (choice.classes > 1 ? 0 : strips::ONE_CODEBOOK) * SYMBOLS;
        for (uint32_t i = threadIdx.x; i < choice.classes * SYMBOLS; i += WARPS * WARP) {
            block.codewords[i] = tables[i];
        }
        for (uint32_t i = threadIdx.x; i < TABLE_WORDS && choice.scheme != 0; i += WARPS * WARP) {
            block.lines[i] = lines[(choice.scheme - 1) * TABLE_WORDS + i];
        }
        if (threadIdx.x == 0) {
            block.choice = choice;
            block.ticket = first + WARPS;
        }
        __syncthreads();
        const CubeWork work{step, outputs, block, chunk};
        auto load = [&](uint32_t number, Elements &elements) {
            if (number >= last) {
                return false;
            }
            const Tile tile = geometry.tile(batch.first_tile + number);
            if (!geometry.is_unclipped(tile) || step.reserved != 0) {
                return false;
            }
            elements.load(TileSource(slab, first_element, geometry, tile), vectors != 0);
            return true;
        };
        uint32_t number = first + warp_id();
        Elements own, ahead;
        bool is_loaded = load(number, own);
        while (number < last) {
            uint32_t next = 0;
            if (lane_id() == 0) {
                next = atomicAdd(&block.ticket, 1u);
            }
            next = __shfl_sync(ALL_LANES, next, 0);
            const bool is_ahead = load(next, ahead);
            if (!is_loaded || !work.encode(number, own, memory)) {
                if (lane_id() == 0) {
                    listed[1 + atomicAdd(listed, 1u)] = number;
                }
            }
            __syncwarp();
            own = ahead;
            is_loaded = is_ahead;
            number = next;
        }
        first = last;
    }
}
