// From sums of residuals to elements: what is summed across groups, outliers, dequantisation, signs, fill patterns.
//
// A lane has columns of a tile: VECTOR elements that follow each other along x, at each of the tile's steps (planes, rows or segments). It walks along the steps, so
// that sums across them stay in registers, and writes 16 bytes at each; neighbouring lanes have what lies side by side in the array.
//
// DOUBLE  elements are f64, else f32
// LOG     integers are logarithms, signs are stored apart
#pragma once
#include "geometry.cuh"
#include "parsed.cuh"
#include "reconstruct_rows.cuh"

#if DOUBLE
typedef double Element;
typedef uint64_t Bits;
#else
typedef float Element;
typedef uint32_t Bits;
#endif
constexpr uint32_t VECTOR = 16 / sizeof(Element);

// What the header says of values; mirrored in reconstruct/launch.rs.
struct Values {
    double step;
    uint64_t patterns[4];
    float step_high, step_low; // their sum is the step
};

__device__ inline float from_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ inline double from_bits(uint64_t bits) { return __longlong_as_double(int64_t(bits)); }
__device__ inline uint32_t bits_of(float value) { return __float_as_uint(value); }
__device__ inline uint64_t bits_of(double value) { return uint64_t(__double_as_longlong(value)); }

// 2 to the power of y, by the operations that FORMAT.md states; none of them is fused.
__device__ inline double exp2_exactly(double y) {
    constexpr double COEFFICIENTS[14] = {1.0,
                                         1.0,
                                         1.0 / 2,
                                         1.0 / 6,
                                         1.0 / 24,
                                         1.0 / 120,
                                         1.0 / 720,
                                         1.0 / 5040,
                                         1.0 / 40320,
                                         1.0 / 362880,
                                         1.0 / 3628800,
                                         1.0 / 39916800,
                                         1.0 / 479001600,
                                         1.0 / 6227020800};
    y = y > -2000.0 ? y : -2000.0;
    y = y < 2000.0 ? y : 2000.0;
    const double whole = rint(y);
    const double t = __dmul_rn(__dsub_rn(y, whole), __longlong_as_double(0x3FE62E42FEFA39EF));
    double p = COEFFICIENTS[13];
#pragma unroll
    for (int32_t i = 12; i >= 0; --i) {
        p = __dadd_rn(__dmul_rn(p, t), COEFFICIENTS[i]);
    }
    const int32_t k = int32_t(whole), half = k >> 1;
    auto power_of_two = [](int32_t exponent) { return __longlong_as_double(int64_t(exponent + 1023) << 52); };
    return __dmul_rn(__dmul_rn(p, power_of_two(half)), power_of_two(k - half));
}

__device__ inline Element dequantised(int32_t q, const Values &values) {
#if LOG
    return Element(exp2_exactly(__dmul_rn(double(q), values.step)));
#elif DOUBLE
    return __dmul_rn(double(q), values.step);
#else
    const float rounded = __int2float_rn(q);
    return __fmaf_rn(rounded, values.step_high, __fmul_rn(rounded, values.step_low));
#endif
}

// A tile on its way to the output, as a lane holds it.
struct Work {
    uint64_t first_element; // in the output slab
    uint32_t position;      // in the chunk, of its first element
    uint32_t nz, ny, nx;
    uint32_t number; // in the chunk
    uint32_t predictor;
    uint32_t meta;
    int32_t base;
    uint32_t first_group; // in the chunk
    bool wanted; // it is there, and in the range asked for

    __device__ inline bool is_unclipped() const { return nz * ny * nx == TILE_ELEMENTS; }
    // Whether its elements are where an unclipped tile's are: fewer steps at most.
    __device__ inline bool is_regular() const { return nx == SIDE && (AXES != 3 || ny == SIDE); }
    __device__ inline uint32_t steps() const { return AXES == 3 ? nz : AXES == 2 ? ny : STEPS; }
    // Whether nothing is to be done but adding up; there may be outliers nevertheless.
    __device__ inline bool is_plain() const { return is_regular() && meta_mask(meta) == 0 && meta_sign(meta) == 0; }

    // That of another lane. By the whole warp.
    __device__ inline Work of(uint32_t lane) const {
        const uint64_t first = __shfl_sync(ALL_LANES, first_element, lane);
        const uint32_t extents = __shfl_sync(ALL_LANES, nx | ny << 12 | nz << 20, lane);
        const uint32_t tile = __shfl_sync(ALL_LANES, number | predictor << 24 | uint32_t(wanted) << 31, lane);
        Work work;
        work.first_element = first;
        work.position = __shfl_sync(ALL_LANES, position, lane);
        work.nx = extents & 0xFFF;
        work.ny = extents >> 12 & 0xFF;
        work.nz = extents >> 20;
        work.number = tile & 0xFFFFFF;
        work.predictor = tile >> 24 & 3;
        work.meta = __shfl_sync(ALL_LANES, meta, lane);
        work.base = __shfl_sync(ALL_LANES, base, lane);
        work.first_group = 0; // not needed by others
        work.wanted = tile >> 31;
        return work;
    }
};

// The outliers of a tile, one after the other: by how much the residual differs from that of code 0, and where.
struct Outliers {
    const uint32_t *positions;
    const int32_t *residuals;
    uint32_t next, end, position, radius;
    uint32_t nx, ny;
    uint32_t step, y, x; // of the next; step is ALL_LANES if there is none
    uint32_t difference;

    __device__ inline void load() {
        step = ALL_LANES;
        if (next < end) {
            const uint32_t place = positions[next] - position;
            difference = uint32_t(residuals[next]) + radius;
            if (AXES == 1) {
                step = place / STEP;
                x = place % STEP;
                y = 0;
            } else {
                const uint32_t row = place / nx;
                x = place - row * nx;
                step = AXES == 3 ? row / ny : row;
                y = AXES == 3 ? row - step * ny : 0;
            }
            ++next;
        }
    }

    // The outlier's share in the element at (y, x) of its step: whether it is one of those that its residual adds to.
    __device__ inline bool reaches(uint32_t predictor, uint32_t at_y, uint32_t at_x) const {
        if (predictor == 0) {
            return at_y == y && at_x == x;
        }
        const bool rows = AXES != 3 || (predictor == 1 && x > 0 ? at_y == y : at_y >= y);
        return rows && at_x >= x;
    }
};

// The bits of a tile's bitmap at a lane's columns, step by step: undoes the exclusive or with the neighbour on the way.
struct BitWalk {
    const uint8_t *bytes; // null: the same bits at each step
    uint32_t last;        // byte of the bitmap
    uint32_t nx, ny, y, x;
    uint32_t bits, carry;

    __device__ inline BitWalk(uint32_t kind, const uint8_t *from, const Work &work, uint32_t at_y, uint32_t at_x)
        : bytes(kind == 2 ? from : nullptr), last(ceil_div(work.nz * work.ny * work.nx, 512) * 64 - 1), nx(work.nx), ny(work.ny), y(at_y), x(at_x),
          bits(kind == 1 ? ALL_LANES : 0), carry(0) {}

    __device__ inline uint32_t at(uint32_t bit) const {
        return (bytes[bit >> 3] | uint32_t(bytes[min_of((bit >> 3) + 1, last)]) << 8) >> (bit & 7);
    }

    // Each bit's exclusive or with all before it.
    static __device__ inline uint64_t prefix(uint64_t word) {
#pragma unroll
        for (uint32_t distance = 1; distance < 64; distance *= 2) {
            word ^= word << distance;
        }
        return word;
    }

    // Bits for step `step`, which must have the lane's first element; bit 0 for that one.
    __device__ inline uint32_t of(uint32_t step) {
        if (bytes == nullptr) {
            return bits;
        }
        if (AXES == 1 || step == 0) {
            // A row of a 3-D tile takes a byte, of a 2-D tile four, a segment eight.
            constexpr uint32_t ROW_BYTES = AXES == 3 ? 1 : AXES == 2 ? 4 : 8;
            uint64_t row = 0;
            for (uint32_t i = 0; i < ROW_BYTES; ++i) {
                row |= uint64_t(bytes[step * 8 + i]) << 8 * i;
            }
            bits = uint32_t((prefix(row) ^ (0 - uint64_t(carry))) >> x);
            carry ^= __popcll(row) & 1;
            for (uint32_t above = 1; AXES == 3 && above <= y; ++above) {
                bits ^= at(above * nx + x);
            }
        } else {
            bits ^= at(AXES == 3 ? (step * ny + y) * nx + x : step * nx + x);
        }
        return bits;
    }
};

// Sums of VECTOR elements.
__device__ inline void load_sums(const uint8_t *from, uint32_t (&sums)[VECTOR]) {
#if WIDE && DOUBLE
    const uint2 two = *reinterpret_cast<const uint2 *>(from);
    sums[0] = two.x;
    sums[1] = two.y;
#elif WIDE
    const uint4 four = *reinterpret_cast<const uint4 *>(from);
    sums[0] = four.x;
    sums[1] = four.y;
    sums[2] = four.z;
    sums[3] = four.w;
#elif DOUBLE
    const uint32_t two = *reinterpret_cast<const uint32_t *>(from);
    sums[0] = two & 0xFFFF;
    sums[1] = two >> 16;
#else
    const uint2 four = *reinterpret_cast<const uint2 *>(from);
    sums[0] = four.x & 0xFFFF;
    sums[1] = four.x >> 16;
    sums[2] = four.y & 0xFFFF;
    sums[3] = four.y >> 16;
#endif
}

__device__ inline void store_vector(Element *to, const Element (&values)[VECTOR]) {
#if DOUBLE
    __stcs(reinterpret_cast<double2 *>(to), make_double2(values[0], values[1]));
#else
    __stcs(reinterpret_cast<float4 *>(to), make_float4(values[0], values[1], values[2], values[3]));
#endif
}

// Everything that writing needs besides the tile.
struct Target {
    const uint8_t *input;
    const Parsed &parsed;
    const ParsedChunk &record;
    const Values &values;
    const Geometry &geometry;
    uint32_t chunk; // in the batch
    bool vectors;   // 16 bytes at a time may be stored wherever a lane's columns start
    Element *out;   // the slab

    // From one step to the next.
    __device__ inline uint64_t stride() const { return AXES == 3 ? geometry.strides[1] : AXES == 2 ? geometry.strides[2] : STEP; }
};

// No tile.
constexpr uint32_t NONE = ALL_LANES;

// A lane's columns of one of TILES tiles side by side. Neighbouring lanes have the same row of neighbouring tiles.
struct Columns {
    uint32_t tile, y, x;

    __device__ inline explicit Columns(uint32_t round) {
        const uint32_t number = round * WARP + lane_id();
        constexpr uint32_t ACROSS = (AXES == 3 ? SIDE : STEP) / VECTOR;
        x = number % ACROSS * VECTOR;
        tile = number / ACROSS % TILES;
        y = AXES == 3 ? number / ACROSS / TILES : 0;
    }
    static constexpr uint32_t COUNT = TILES * STEP / VECTOR;
    static constexpr uint32_t ROUNDS = (COUNT + WARP - 1) / WARP;
    // Whether this lane has columns in the last round.
    static __device__ inline bool exist() { return COUNT >= WARP || lane_id() < COUNT; }
};

// How residuals add up to integers in the tiles that are written together: they are all 0, or the predictors are along all axes, or any.
enum class Ways { FLAT, FULL, ANY };

// Writes up to TILES tiles that are plain (and not clipped, for FULL). Lane `i` holds in `slots` the lane that has tile number `i`, or NONE.
template <Ways WAYS> __device__ inline void write_plain(const Rows &rows, const Work &own, uint32_t slots, const Target &target) {
    const uint64_t stride = target.stride();
    for (uint32_t round = 0; round < Columns::ROUNDS; ++round) {
        const Columns columns(round);
        const uint32_t source = __shfl_sync(ALL_LANES, slots, columns.tile);
        const uint64_t first_element = __shfl_sync(ALL_LANES, own.first_element, source);
        const uint32_t base = uint32_t(__shfl_sync(ALL_LANES, own.base, source));
        const uint32_t predictor = WAYS == Ways::ANY ? __shfl_sync(ALL_LANES, own.predictor, source) : AXES;
        const uint32_t limit = WAYS == Ways::FULL ? STEPS : __shfl_sync(ALL_LANES, own.steps(), source);
        if (source == NONE || !Columns::exist()) {
            continue;
        }
        // Sums go on from step to step, or one element's does.
        const uint32_t across = predictor >= AXES ? 1 : 0, onwards = predictor >= 1 && (AXES == 1 || across == 0) ? 1 : 0;
        constexpr uint32_t REFERENCE = AXES == 1 ? STEP - 1 : 0;
        const uint32_t reference_bias = bias_of(predictor, 0, REFERENCE);
        uint32_t bias[VECTOR], sums[VECTOR];
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; ++i) {
            bias[i] = bias_of(predictor, columns.y, columns.x + i);
            sums[i] = WAYS == Ways::FULL ? base : 0;
        }
        uint32_t before = base;
        Element *to = target.out + first_element + columns.y * (AXES == 3 ? target.geometry.strides[2] : 0) + columns.x;
        const Element flat = dequantised(int32_t(base), target.values);
        const Steps steps(rows, columns.tile, columns.y * SIDE % STEP + columns.x), references(rows, columns.tile, REFERENCE);
#pragma unroll 8
        for (uint32_t step = 0; step < STEPS; ++step) {
            uint32_t here[VECTOR];
            Element out[VECTOR];
            if (WAYS != Ways::FLAT) {
                load_sums(steps.at(step), here);
            }
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; ++i) {
                if (WAYS == Ways::FLAT) {
                    out[i] = flat;
                } else if (AXES == 1) {
                    out[i] = dequantised(int32_t(here[i] - bias[i] + before), target.values);
                } else if (WAYS == Ways::FULL) {
                    sums[i] += here[i] - bias[i];
                    out[i] = dequantised(int32_t(sums[i]), target.values);
                } else {
                    sums[i] = sums[i] * across + (here[i] - bias[i]);
                    out[i] = dequantised(int32_t(sums[i] + before), target.values);
                }
            }
            if (WAYS == Ways::ANY || (WAYS == Ways::FULL && AXES == 1)) {
                before += (uint32_t(*reinterpret_cast<const Sum *>(references.at(step))) - reference_bias) * onwards;
            }
            const bool there = WAYS == Ways::FULL || step < limit;
            if (there && target.vectors) {
                store_vector(to, out);
            } else if (there) {
#pragma unroll
                for (uint32_t i = 0; i < VECTOR; ++i) {
                    to[i] = out[i];
                }
            }
            to += stride;
        }
    }
}

// Writes the tiles of `slots` whose bit is set in `set`, of any kind. Those that an edge clips have been spread; constant ones need no rows.
// Not inlined, and called with copies, so that nothing of what the rest of the kernel keeps in registers has an address.
__device__ __noinline__ void write_any(Rows rows, Work own, uint32_t slots, uint32_t set, Target target) {
    const uint64_t stride = target.stride();
    const Parsed &parsed = target.parsed;
    // As many tiles at a time as there are lanes for.
    constexpr uint32_t TILE_LANES = STEP / VECTOR, AT_ONCE = WARP / TILE_LANES;
    while (set != 0) {
        uint32_t tile = NONE;
        for (uint32_t i = 0; i < AT_ONCE; ++i) {
            tile = lane_id() / TILE_LANES == i ? __ffs(set) - 1 : tile;
            set &= set - 1;
        }
        const uint32_t local = lane_id() % TILE_LANES;
        constexpr uint32_t ACROSS = (AXES == 3 ? SIDE : STEP) / VECTOR;
        struct {
            uint32_t tile, y, x;
        } columns{tile, AXES == 3 ? local / ACROSS : 0, local % ACROSS * VECTOR};
        const Work work = own.of(__shfl_sync(ALL_LANES, slots, tile));
        const bool constant = meta_constant(work.meta);
        if (tile == NONE || columns.x >= work.nx || columns.y >= work.ny) {
            continue;
        }
        const uint32_t predictor = work.predictor, row = columns.y;
        const uint32_t across = predictor >= AXES && AXES != 1 ? 1 : 0;          // sums go on from step to step
        const uint32_t onwards = predictor >= 1 && across == 0 ? 1 : 0;          // and if not, what goes on is one element's
        const uint32_t reference = AXES == 1 ? STEP - 1 : 0;
        const uint32_t reference_bias = bias_of(predictor, 0, reference);
        uint32_t bias[VECTOR], sums[VECTOR];
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; ++i) {
            bias[i] = bias_of(predictor, row, columns.x + i);
            sums[i] = 0;
        }
        uint32_t before = uint32_t(work.base);
        const Steps places(rows, columns.tile, row * SIDE % STEP + columns.x), references(rows, columns.tile, reference);

        const uint64_t entry = uint64_t(target.chunk) * parsed.tiles + work.number;
        const uint64_t list_entry = uint64_t(target.chunk) * (parsed.tiles + 1) + work.number;
        const bool listed = target.record.outliers != 0 && !constant;
        Outliers outliers{reinterpret_cast<const uint32_t *>(target.input + target.record.outlier_positions),
                          reinterpret_cast<const int32_t *>(target.input + target.record.outlier_values),
                          listed ? parsed.outlier_starts[list_entry] : 0,
                          listed ? parsed.outlier_starts[list_entry + 1] : 0,
                          work.position,
                          target.record.radius,
                          work.nx,
                          work.ny};
        outliers.load();
        const uint32_t mask_kind = meta_mask(work.meta), sign_kind = LOG ? meta_sign(work.meta) : 0;
        BitWalk mask(mask_kind, mask_kind == 2 ? parsed.masks + target.chunk * parsed.bitmap_stride + parsed.mask_starts[entry] : nullptr, work, row, columns.x);
        BitWalk sign(sign_kind, sign_kind == 2 ? parsed.signs + target.chunk * parsed.bitmap_stride + parsed.sign_starts[entry] : nullptr, work, row, columns.x);
        const Element pattern = from_bits(Bits(target.values.patterns[meta_pattern(work.meta)]));

        const uint32_t steps = work.steps();
        Element *to = target.out + work.first_element + row * (AXES == 3 ? target.geometry.strides[2] : 0) + columns.x;
        for (uint32_t step = 0; step < steps; ++step) {
            const uint32_t in_row = AXES == 1 ? work.nx - min_of(work.nx, step * STEP + columns.x) : work.nx - columns.x;
            if (in_row == 0) {
                break;
            }
            uint32_t goes_on = 0;
            if (!constant) {
                uint32_t here[VECTOR];
                load_sums(places.at(step), here);
#pragma unroll
                for (uint32_t i = 0; i < VECTOR; ++i) {
                    sums[i] = sums[i] * across + (here[i] - bias[i]);
                }
                goes_on = uint32_t(*reinterpret_cast<const Sum *>(references.at(step))) - reference_bias;
            }
            while (outliers.step == step) {
#pragma unroll
                for (uint32_t i = 0; i < VECTOR; ++i) {
                    sums[i] += outliers.reaches(predictor, row, columns.x + i) ? outliers.difference : 0;
                }
                goes_on += outliers.reaches(predictor, 0, reference) ? outliers.difference : 0;
                outliers.load();
            }
            const uint32_t masked = mask.of(step), negative = sign.of(step);
            Element out[VECTOR];
#pragma unroll
            for (uint32_t i = 0; i < VECTOR; ++i) {
                out[i] = dequantised(int32_t(sums[i] + before), target.values);
                if (LOG && sign_kind != 0) {
                    const Bits top = Bits(1) << (sizeof(Element) * 8 - 1);
                    out[i] = from_bits(Bits(bits_of(out[i]) & ~top | (negative >> i & 1 ? top : 0)));
                }
                out[i] = masked >> i & 1 ? pattern : out[i];
            }
            before += goes_on * onwards;
            if (target.vectors && in_row >= VECTOR) {
                store_vector(to, out);
            } else {
#pragma unroll
                for (uint32_t i = 0; i < VECTOR; ++i) {
                    if (i < in_row) {
                        to[i] = out[i];
                    }
                }
            }
            to += stride;
        }
    }
}

// Writes one element of each lane's: number `element` of a tile.
__device__ inline void put(const Work &work, uint32_t element, Bits bits, const Target &target) {
    const uint32_t row = element / work.nx, z = row / work.ny;
    const uint64_t place = z * target.geometry.strides[1] + (row - z * work.ny) * target.geometry.strides[2] + (element - row * work.nx);
    reinterpret_cast<Bits *>(target.out)[work.first_element + place] = bits;
}

// Puts the verbatim values of a warp's tiles over what was written.
__device__ inline void write_verbatim(const Work &own, const Target &target) {
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(target.input + target.record.verbatim_positions);
    const Bits *values = reinterpret_cast<const Bits *>(target.input + target.record.verbatim_values);
    uint32_t start = 0, end = 0;
    if (own.wanted) {
        const uint32_t *starts = target.parsed.verbatim_starts + uint64_t(target.chunk) * (target.parsed.tiles + 1) + own.number;
        start = starts[0];
        end = starts[1];
    }
    __syncwarp();
    for (uint32_t lanes = __ballot_sync(ALL_LANES, start < end); lanes != 0; lanes &= lanes - 1) {
        const uint32_t lane = __ffs(lanes) - 1;
        const Work work = own.of(lane);
        const uint32_t stop = __shfl_sync(ALL_LANES, end, lane);
        for (uint32_t i = __shfl_sync(ALL_LANES, start, lane) + lane_id(); i < stop; i += WARP) {
            put(work, positions[i] - work.position, values[i], target);
        }
    }
}

// Writes a warp's tiles of a raw chunk.
__device__ __noinline__ void write_raw(Work own, Target target) {
    for (uint32_t lanes = __ballot_sync(ALL_LANES, own.wanted); lanes != 0; lanes &= lanes - 1) {
        const Work work = own.of(__ffs(lanes) - 1);
        const Bits *from = reinterpret_cast<const Bits *>(target.input + target.record.raw) + work.position;
        const uint32_t count = work.nz * work.ny * work.nx;
#pragma unroll 4
        for (uint32_t i = lane_id(); i < count; i += WARP) {
            put(work, i, from[i], target);
        }
    }
}
