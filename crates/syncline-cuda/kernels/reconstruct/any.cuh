// Writes tiles that need more than sums: outliers, fill patterns, signs, verbatim values; and raw chunks.
#pragma once
#include "reconstruct/elements.cuh"

// Iterates over the outliers of a tile: the difference between the residual and that of code 0, and the position.
struct Outliers {
    const uint32_t *positions;
    const int32_t *residuals;
    uint32_t next, end, position, radius;
    uint32_t nx, ny;
    uint32_t step, y, x; // of the next outlier; step is ALL_LANES if there is none
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

    // Whether the outlier's residual contributes to the element at (y, x) of its step.
    __device__ inline bool reaches(uint32_t predictor, uint32_t at_y, uint32_t at_x) const {
        if (predictor == 0) {
            return at_y == y && at_x == x;
        }
        const bool rows = AXES != 3 || (predictor == 1 && x > 0 ? at_y == y : at_y >= y);
        return rows && at_x >= x;
    }
};

// Iterates over the bits of a tile's bitmap at a lane's columns, step by step, and undoes the exclusive or with the
// neighbor.
struct BitWalk {
    const uint8_t *bytes; // null: the same bits at each step
    uint32_t last;        // last byte of the bitmap
    uint32_t nx, ny, y, x;
    uint32_t bits, carry;

    __device__ inline BitWalk(uint32_t kind, const uint8_t *from, const Work &work, uint32_t at_y, uint32_t at_x)
        : bytes(kind == 2 ? from : nullptr), last(ceil_div(work.nz * work.ny * work.nx, 512) * 64 - 1), nx(work.nx),
          ny(work.ny), y(at_y), x(at_x), bits(kind == 1 ? ALL_LANES : 0), carry(0) {}

    __device__ inline uint32_t at(uint32_t bit) const {
        return (bytes[bit >> 3] | uint32_t(bytes[min_of((bit >> 3) + 1, last)]) << 8) >> (bit & 7);
    }

    // Returns each bit's exclusive or with all bits before it.
    static __device__ inline uint64_t prefix(uint64_t word) {
#pragma unroll
        for (uint32_t distance = 1; distance < 64; distance *= 2) {
            word ^= word << distance;
        }
        return word;
    }

    // Returns the bits for step `step`, which must contain the lane's first element, which is bit 0.
    __device__ inline uint32_t of(uint32_t step) {
        if (bytes == nullptr) {
            return bits;
        }
        if (AXES == 1 || step == 0) {
            // Bytes of a bitmap for a row of a 3-D tile, a row of a 2-D tile, or a segment.
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

// Writes those tiles of `slots` whose bit is set in `set`; they may be of any kind. The codes of clipped tiles have
// been moved by `unpack_clipped`; constant tiles need no rows. Not inlined, and called with copies of variables, so
// that the variables of the caller can stay in registers.
__device__ __noinline__ void write_any(Rows rows, Work own, uint32_t slots, uint32_t set, Target target) {
    const uint64_t stride = target.stride();
    const Quantum quantum(target.values);
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
        const uint32_t across = predictor >= AXES && AXES != 1 ? 1 : 0; // sums are carried from step to step
        const uint32_t onwards = predictor >= 1 && across == 0 ? 1 : 0; // otherwise one element's contribution is
        const uint32_t reference = AXES == 1 ? STEP - 1 : 0;
        const uint32_t reference_bias = bias_of(predictor, 0, reference);
        uint32_t bias[VECTOR], sums[VECTOR];
#pragma unroll
        for (uint32_t i = 0; i < VECTOR; ++i) {
            bias[i] = bias_of(predictor, row, columns.x + i);
            sums[i] = 0;
        }
        uint32_t before = uint32_t(work.base);
        const Steps places(rows, columns.tile, row * SIDE % STEP + columns.x),
            references(rows, columns.tile, reference);

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
        BitWalk mask(mask_kind,
                     mask_kind == 2 ? parsed.masks + target.chunk * parsed.bitmap_stride + parsed.mask_starts[entry]
                                    : nullptr,
                     work, row, columns.x);
        BitWalk sign(sign_kind,
                     sign_kind == 2 ? parsed.signs + target.chunk * parsed.bitmap_stride + parsed.sign_starts[entry]
                                    : nullptr,
                     work, row, columns.x);
        const Element pattern = from_bits(Bits(target.values.patterns[meta_pattern(work.meta)]));

        const uint32_t steps = work.steps();
        Element *to = target.out + work.first_element + row * (AXES == 3 ? target.geometry.strides[2] : 0) + columns.x;
        for (uint32_t step = 0; step < steps; ++step) {
            const uint32_t in_row =
                AXES == 1 ? work.nx - min_of(work.nx, step * STEP + columns.x) : work.nx - columns.x;
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
                out[i] = unlimited(int32_t(sums[i] + before), quantum);
                if (LOG && sign_kind != 0) {
                    const Bits top = Bits(1) << (sizeof(Element) * 8 - 1);
                    out[i] = from_bits(Bits(bits_of(out[i]) & ~top | (negative >> i & 1 ? top : 0)));
                }
                out[i] = masked >> i & 1 ? pattern : quantum.range(out[i]);
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

// Writes one element of each lane: number `element` of a tile.
__device__ inline void put(const Work &work, uint32_t element, Bits bits, const Target &target) {
    const uint32_t row = element / work.nx, z = row / work.ny;
    const uint64_t place =
        z * target.geometry.strides[1] + (row - z * work.ny) * target.geometry.strides[2] + (element - row * work.nx);
    reinterpret_cast<Bits *>(target.out)[work.first_element + place] = bits;
}

// Overwrites elements of a warp's tiles with the verbatim values.
__device__ inline void write_verbatim(const Work &own, const Target &target) {
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(target.input + target.record.verbatim_positions);
    const Bits *values = reinterpret_cast<const Bits *>(target.input + target.record.verbatim_values);
    uint32_t start = 0, end = 0;
    if (own.wanted) {
        const uint32_t *starts =
            target.parsed.verbatim_starts + uint64_t(target.chunk) * (target.parsed.tiles + 1) + own.number;
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
