// Strips: whole rows of 3-D tiles that are assembled in shared memory and written from there. Strips of a single value
// are written by reconstruct/flat.cu instead.
//
// A lane has one row of eight elements of a tile in each of the tile's planes; sums along z stay in its registers. The
// image of a strip in shared memory has PLANES planes at a time. The codes of narrow chunks have already been summed
// along x and y by reconstruct/reconstruct.cu with APART; those of wide chunks are still codes.
//
// PLANES  planes in an image, of the eight of a tile
#pragma once
#include "reconstruct/segments.cuh"

// The block's shared memory: its segments, followed by the image.
constexpr uint32_t STRIP_TILES = THREADS / SIDE, IMAGE_AT = STRIP_TILES * sizeof(Segment);
static_assert(IMAGE_AT % 32 == 0, "the image starts with a sector");
__device__ inline Segment *segments_of_block() { return reinterpret_cast<Segment *>(dynamic); }
__device__ inline Element *image() {
    return reinterpret_cast<Element *>(reinterpret_cast<uint8_t *>(dynamic) + IMAGE_AT);
}

// A barrier of all warps of the block, which may arrive from different places in the code.
__device__ inline void block_barrier_of_warps() {
#if UNDER_SYNCCHECK
    asm volatile("barrier.sync 1, %0;" ::"n"(THREADS) : "memory");
#else
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
#endif
}

// Destinations of a strip's planes.
struct Copier {
    Element *out;
    const Geometry &geometry;
    const Strips &strips;
    uint32_t rows;

    // Copies planes from number `first` on, as many as the image has. Called by each warp of the block after it has
    // written them to the image; afterwards the next planes may be written there.
    __device__ inline void copy_planes(uint32_t first) const {
        constexpr uint32_t PLANE_RUNS = PLANES * SIDE;
        let_copies_see();
        block_barrier_of_warps();
        // Consecutive rows of a plane are copied in one run if they are complete, else each row separately.
        const bool whole = strips.whole;
        for (uint32_t run = threadIdx.x / RUN_LANES; run < rows * (whole ? PLANES : PLANE_RUNS);
             run += THREADS / RUN_LANES) {
            const uint32_t row = whole ? run / PLANES : run / PLANE_RUNS,
                           plane = whole ? run % PLANES : run / SIDE % PLANES, z = first + plane;
            const Segment &line = segments_of_block()[row];
            if (z >= line.nz) {
                continue;
            }
            const uint64_t plane_start = line.first_element + z * geometry.strides[1] + line.from;
            const uint32_t image_start =
                (row * PLANES + plane) * strips.plane_pitch + Shifts(line, geometry, out).of(z) + line.from;
            const bool all = whole && line.is_whole;
            // If only a part of the tiles' rows is requested, it is copied row by row nevertheless.
            const uint32_t first_y = whole ? 0 : run % SIDE,
                           end_y = all || !whole ? min_of(first_y + 1, line.ny) : line.ny;
            for (uint32_t y = first_y; y < end_y; ++y) {
                copy_run(image(), image_start + y * strips.row_pitch, all ? line.ny * line.to : line.to - line.from,
                         out + plane_start + y * geometry.strides[2]);
            }
        }
        copies_have_read();
        if (first + PLANES < SIDE) {
            block_barrier_of_warps();
        }
    }
};

// The row of a tile that a lane processes.
struct Strand {
    uint32_t chunk, number; // chunk of the batch, and tile of the chunk
    uint32_t nz, ny, nx, y;
    uint32_t meta, predictor;
    uint32_t base;
    uint32_t first;        // offset in the image, without the shifts of planes
    const uint16_t *codes; // codes of the tile
    bool wanted, raw, dead, live, narrow;
    bool has_outliers, has_verbatim; // properties of the chunk

    __device__ inline bool is_clipped() const { return nx < SIDE || ny < SIDE; }
    // Whether the elements only depend on the base and on 16-bit sums.
    __device__ inline bool is_plain() const {
        return !raw && !dead && meta_mask(meta) == 0 && meta_sign(meta) == 0 && (!live || narrow);
    }
};

// Returns the lane's row of tile `tile` of the segment `line`. `coded` says that all chunks of the strip are quantized,
// so that all loads can be in flight together.
__device__ inline Strand strand_of(const Parsed &parsed, uint32_t chunk_tiles, const Segment &line,
                                   const uint16_t *codes, uint32_t tile, bool wanted, uint32_t nx, bool coded) {
    Strand own{};
    own.wanted = wanted;
    own.nz = line.nz;
    own.ny = line.ny;
    own.nx = nx;
    own.meta = 1;
    if (!wanted) {
        return own;
    }
    const TileOfBatch at(line, tile, chunk_tiles);
    own.chunk = at.chunk;
    own.number = at.number;
    const ParsedChunk &record = parsed.chunks[own.chunk];
    if (!coded) {
        own.dead = record.status != 0;
        own.raw = !own.dead && record.kind == KIND_RAW;
        if (own.dead || own.raw) {
            return own;
        }
    }
    const uint64_t place = uint64_t(own.chunk) * parsed.tiles + own.number;
    const uint32_t meta = parsed.metas[place], base = uint32_t(parsed.bases[place]), group = parsed.first_groups[place],
                   wide = record.wide;
    own.has_outliers = record.outliers != 0;
    own.has_verbatim = record.verbatim != 0;
    own.meta = meta;
    own.base = base;
    own.live = !meta_constant(meta);
    own.predictor = own.live ? meta_predictor(meta) : 0;
    own.narrow = wide == 0;
    own.codes = codes + (uint64_t(own.chunk) * parsed.slots + group) * CODES;
    return own;
}

// Splits four words into eight 16-bit numbers.
__device__ inline void unpack(uint4 words, uint32_t (&numbers)[8]) {
    const uint32_t all[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
        numbers[i] = i % 2 == 0 ? all[i / 2] & 0xFFFF : all[i / 2] >> 16;
    }
}

// Writes a row of elements to the image.
__device__ inline void put_row(Element *to, const Element (&row)[SIDE], uint32_t nx) {
    if (nx == SIDE) {
#pragma unroll
        for (uint32_t i = 0; i < SIDE; ++i) {
            to[i] = row[i];
        }
    } else {
#pragma unroll
        for (uint32_t i = 0; i < SIDE; ++i) {
            if (i < nx) {
                to[i] = row[i];
            }
        }
    }
}

// Computes the rows of a warp's constant tiles.
__device__ inline void write_constant_rows(const Strand &own, const Shifts &shifts, const Quantum &quantum,
                                           const Copier &copier) {
    const uint32_t planes = own.wanted && own.y < own.ny ? own.nz : 0;
    const Element flat = dequantized(int32_t(own.base), quantum);
    Element row[SIDE];
#pragma unroll
    for (uint32_t x = 0; x < SIDE; ++x) {
        row[x] = flat;
    }
#pragma unroll 1
    for (uint32_t first = 0; first < SIDE; first += PLANES) {
#pragma unroll
        for (uint32_t z = first; z < first + PLANES; ++z) {
            if (z < planes) {
                put_row(image() + own.first + z % PLANES * copier.strips.plane_pitch + shifts.of(z), row, own.nx);
            }
        }
        copier.copy_planes(first);
    }
}

// Returns the lane's row of plane `z`, as 16-bit numbers as stored; zeros where there is none.
__device__ inline uint4 load_row(const Strand &own, uint32_t z) {
    if (!own.live || z >= own.nz || own.y >= own.ny) {
        return make_uint4(0, 0, 0, 0);
    }
    if (!own.is_clipped()) {
        return reinterpret_cast<const uint4 *>(own.codes)[z * SIDE + own.y];
    }
    // Rows of clipped tiles are not aligned: loads the words that contain the row and belong to the tile.
    const uint32_t first = (z * own.ny + own.y) * own.nx, all = own.nz * own.ny * own.nx;
    const uint32_t *from = reinterpret_cast<const uint32_t *>(own.codes);
    uint32_t words[5], row[4];
#pragma unroll
    for (uint32_t i = 0; i < 5; ++i) {
        const uint32_t word = first / 2 + i;
        words[i] = 2 * word < all && 2 * i < own.nx + 1 ? from[word] : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
        row[i] = __funnelshift_r(words[i], words[i + 1], first % 2 * 16);
        row[i] = own.nx > 2 * i + 1 ? row[i] : own.nx > 2 * i ? row[i] & 0xFFFF : 0;
    }
    return make_uint4(row[0], row[1], row[2], row[3]);
}

// Computes the rows of a warp's tiles, all of which are plain. FULL: all predictors extend along all axes. CLIPPED:
// some tiles are clipped.
template <bool FULL, bool CLIPPED>
__device__ inline void make_plain(const Strand &own, const Shifts &shifts, const Quantum &quantum,
                                  const Copier &copier) {
    const uint32_t live = own.live, planes = own.wanted && own.y < own.ny ? own.nz : 0;
    const uint32_t across = FULL ? 1 : own.predictor >= AXES, onwards = FULL ? 0 : own.predictor >= 1 && across == 0;
    // An element is the sum at its position plus a value from the planes before. That value grows by the sum at this
    // position, or by the sum of the reference element. The contribution of the radius is subtracted from each sum at
    // once: at x it is `bias + x * slope`.
    const uint32_t rows_before = FULL || own.predictor >= 2 ? own.y + 1 : 1, radius = RADIUS * live;
    const uint32_t bias = radius * (own.predictor == 1 && !FULL ? own.y + 1 : rows_before),
                   slope = FULL || own.predictor >= 1 ? radius * rows_before : 0;
    uint32_t before[SIDE];
#pragma unroll
    for (uint32_t x = 0; x < SIDE; ++x) {
        before[x] = own.base;
    }
    uint4 words[PLANES];
    const auto load = [&](uint32_t first) {
#pragma unroll
        for (uint32_t i = 0; i < PLANES; ++i) {
            words[i] = CLIPPED ? load_row(own, first + i)
                       : own.live && first + i < planes
                           ? reinterpret_cast<const uint4 *>(own.codes)[(first + i) * SIDE + own.y]
                           : make_uint4(0, 0, 0, 0);
        }
    };
    load(0);
#pragma unroll 1
    for (uint32_t first = 0; first < SIDE; first += PLANES) {
#pragma unroll
        for (uint32_t i = 0; i < PLANES; ++i) {
            const uint32_t z = first + i;
            uint32_t here[SIDE];
            unpack(words[i], here);
            const uint32_t reference =
                FULL ? 0 : (__shfl_sync(ALL_LANES, here[0], lane_id() / SIDE * SIDE) - radius) * onwards;
            Element row[SIDE];
#pragma unroll
            for (uint32_t x = 0; x < SIDE; ++x) {
                here[x] -= bias + x * slope;
                const uint32_t sum = before[x] + here[x];
                row[x] = dequantized(int32_t(sum), quantum);
                before[x] = FULL ? sum : before[x] + here[x] * across + reference;
            }
            if (z < planes) {
                put_row(image() + own.first + z % PLANES * copier.strips.plane_pitch + shifts.of(z), row, own.nx);
            }
        }
        // The next rows are loaded while these are copied.
        load(first + PLANES);
        copier.copy_planes(first);
    }
    // The loaded sums are not needed any more: their cache lines, one per plane, need not be written to memory. All
    // lanes have read them, because the block has passed a barrier since.
    if (!CLIPPED && own.live && own.y < planes) {
        drop_line(own.codes + own.y * SIDE * SIDE);
    }
}

// Returns the residuals of a lane's row in plane `z`, summed along x and y according to the tile's predictor. Called by
// the whole warp.
__device__ inline void residuals(const Strand &own, uint32_t radius, uint32_t z, uint32_t (&sums)[SIDE]) {
    const bool summed = own.narrow;
    unpack(load_row(own, z), sums);
#pragma unroll
    for (uint32_t x = 0; x < SIDE; ++x) {
        const bool there = own.live && z < own.nz && own.y < own.ny && x < own.nx;
        sums[x] -= !there ? 0 : summed ? narrow_bias(own.predictor, own.y, x) : radius;
    }
    const bool to_sum = own.live && !summed;
    if (!__any_sync(ALL_LANES, to_sum)) {
        return;
    }
    const uint32_t along_x = to_sum && own.predictor >= 1;
#pragma unroll
    for (uint32_t x = 1; x < SIDE; ++x) {
        sums[x] += sums[x - 1] * along_x;
    }
    // Rows of predictor 1 start with the sum of the first residuals of the rows before.
    uint32_t start = sums[0];
    const bool starts = to_sum && own.predictor == 1, rows = to_sum && own.predictor >= 2;
#pragma unroll
    for (uint32_t distance = 1; distance < SIDE; distance *= 2) {
        const uint32_t has = own.y >= distance, above = __shfl_up_sync(ALL_LANES, start, distance, SIDE);
        start += above * has;
#pragma unroll
        for (uint32_t x = 0; x < SIDE; ++x) {
            sums[x] += __shfl_up_sync(ALL_LANES, sums[x], distance, SIDE) * (has && rows);
        }
    }
    const uint32_t added = starts ? start - sums[0] : 0;
#pragma unroll
    for (uint32_t x = 0; x < SIDE; ++x) {
        sums[x] += added;
    }
}

// Computes the rows of a warp's tiles of any kind. Not inlined, and called with copies of variables, so that the
// variables of the caller can stay in registers.
__device__ __noinline__ void write_any_rows(Strand own, Shifts shifts, const uint8_t *input, const Geometry &geometry,
                                            const Parsed &parsed, const Request &request, const Values &values,
                                            Copier copier) {
    const Quantum quantum(values);
    const ParsedChunk &record = parsed.chunks[own.chunk];
    const uint32_t radius = record.radius;
    const uint32_t across = own.predictor >= AXES, onwards = own.predictor >= 1 && across == 0;
    const uint64_t entry = uint64_t(own.chunk) * parsed.tiles + own.number, list_entry = entry + own.chunk;
    const bool coded = own.wanted && !own.dead && !own.raw;
    const bool listed = coded && own.live && record.outliers != 0, verbatim = coded && record.verbatim != 0;
    uint32_t position = 0;
    if (listed || verbatim || own.raw) {
        const uint64_t first = geometry.first_tile(request.first_chunk + own.chunk);
        position = uint32_t(geometry.elements_before(first + own.number) - geometry.elements_before(first));
    }
    Outliers outliers{reinterpret_cast<const uint32_t *>(input + record.outlier_positions),
                      reinterpret_cast<const int32_t *>(input + record.outlier_values),
                      listed ? parsed.outlier_starts[list_entry] : 0,
                      listed ? parsed.outlier_starts[list_entry + 1] : 0,
                      position,
                      radius,
                      own.nx,
                      own.ny};
    outliers.load();
    Work work{};
    work.nz = own.nz;
    work.ny = own.ny;
    work.nx = own.nx;
    const bool there = own.wanted && own.y < own.ny;
    const uint32_t mask_kind = there ? meta_mask(own.meta) : 0, sign_kind = LOG && there ? meta_sign(own.meta) : 0;
    BitWalk mask(mask_kind,
                 mask_kind == 2 ? parsed.masks + own.chunk * parsed.bitmap_stride + parsed.mask_starts[entry] : nullptr,
                 work, own.y, 0);
    BitWalk sign(sign_kind,
                 sign_kind == 2 ? parsed.signs + own.chunk * parsed.bitmap_stride + parsed.sign_starts[entry] : nullptr,
                 work, own.y, 0);
    const Element pattern = from_bits(Bits(values.patterns[meta_pattern(own.meta)]));
    const uint32_t *positions = reinterpret_cast<const uint32_t *>(input + record.verbatim_positions);
    const Bits *bits = reinterpret_cast<const Bits *>(input + record.verbatim_values);
    uint32_t next = verbatim ? parsed.verbatim_starts[list_entry] + own.y : 0;
    const uint32_t end = verbatim ? parsed.verbatim_starts[list_entry + 1] : 0;
    uint32_t before = own.base, sums[SIDE];
#pragma unroll
    for (uint32_t x = 0; x < SIDE; ++x) {
        sums[x] = 0;
    }
#pragma unroll 1
    for (uint32_t z = 0; z < SIDE; ++z) {
        uint32_t here[SIDE];
        residuals(own, radius, z, here);
        uint32_t goes_on = __shfl_sync(ALL_LANES, here[0], lane_id() / SIDE * SIDE);
#pragma unroll
        for (uint32_t x = 0; x < SIDE; ++x) {
            sums[x] = sums[x] * across + here[x];
        }
        while (outliers.step == z) {
#pragma unroll
            for (uint32_t x = 0; x < SIDE; ++x) {
                sums[x] += outliers.reaches(own.predictor, own.y, x) ? outliers.difference : 0;
            }
            goes_on += outliers.reaches(own.predictor, 0, 0) ? outliers.difference : 0;
            outliers.load();
        }
        if (there && z < own.nz) {
            const uint32_t masked = mask.of(z), negative = sign.of(z);
            Element *to = image() + own.first + z % PLANES * copier.strips.plane_pitch + shifts.of(z);
            const Bits *from =
                reinterpret_cast<const Bits *>(input + record.raw) + position + (z * own.ny + own.y) * own.nx;
#pragma unroll
            for (uint32_t x = 0; x < SIDE; ++x) {
                Element element = unlimited(int32_t(sums[x] + before), quantum);
                if (LOG && sign_kind != 0) {
                    const Bits top = Bits(1) << (sizeof(Element) * 8 - 1);
                    element = from_bits(Bits(bits_of(element) & ~top | (negative >> x & 1 ? top : 0)));
                }
                element = masked >> x & 1 ? pattern : quantum.range(element);
                if (x < own.nx) {
                    to[x] = own.raw ? from_bits(from[x]) : own.dead ? Element(0) : element;
                }
            }
        }
        before += goes_on * onwards;
        if (z % PLANES != PLANES - 1) {
            continue;
        }
        __syncwarp();
        for (; next < end; next += SIDE) {
            const uint32_t element = positions[next] - position, row = element / own.nx, plane = row / own.ny,
                           y = row - plane * own.ny;
            if (plane > z) {
                break;
            }
            const uint32_t first = own.first + plane % PLANES * copier.strips.plane_pitch + shifts.of(plane) +
                                   (y - own.y) * copier.strips.row_pitch;
            image()[first + element - row * own.nx] = from_bits(bits[next]);
        }
        copier.copy_planes(z - (PLANES - 1));
    }
}
