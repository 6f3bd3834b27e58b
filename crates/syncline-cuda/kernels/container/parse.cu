// Parses chunk records for decoding (container/parsed.cuh). The grid is (chunks, roles): each block has one role in
// parsing a chunk, so that the parts of a chunk are read in parallel; for short records some blocks compare hashes.
// Input is not trusted: each problem sets a bit of the block's word, and writes stay within the memory of the batch.
//
// ELEMENT_BYTES  of an element: 1, 2, 4, or 8
// ROLES          roles of the blocks of a chunk, without those that compare hashes
// THREADS        threads of a block
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "container/parse.cuh"
#include "container/parse_codes.cuh"
#include "zigzag.cuh"

// Reads the infos of tiles, and counts the strips before each tile. Called by the whole block.
__device__ inline uint32_t read_tiles(const Records &records, const Record &record, const Chunk &chunk,
                                      const Geometry &geometry, const Parsed &to, RoleScratch &scratch) {
    const Section section = record.sections[TILES];
    const uint32_t tiles = chunk.tiles;
    if (section.length < TILE_HEADER_BYTES) {
        return PARSE_TILES;
    }
    const uint8_t *bytes = stage_section(records, section, scratch.tiles.section);
    // The bytes behind the flags are 0.
    const uint32_t scheme = bytes[4], flags = reinterpret_cast<const uint32_t *>(bytes)[2];
    const uint32_t most_scheme = to.is_logarithm != 0 ? 0 : geometry.axes == 1 ? 4 : 8;
    const bool known = scheme <= most_scheme && max_of(max_of(bytes[5], bytes[6]), bytes[7]) <= format::SECOND_ORDER;
    const bool has_masks = flags & FLAG_MASKS, has_classes = flags & FLAG_CLASSES, has_signs = flags & FLAG_SIGNS;
    const uint64_t constant_at = TILE_HEADER_BYTES, predictors_at = align_up(constant_at + ceil_div(tiles, 8), 4);
    if (*reinterpret_cast<const uint32_t *>(bytes) != tiles || !known || flags > 7 || section.length < predictors_at) {
        return PARSE_TILES;
    }
    const uint32_t *constant = reinterpret_cast<const uint32_t *>(bytes + constant_at);
    uint32_t own_varying = 0;
    for (uint32_t word = threadIdx.x; word < ceil_div(tiles, 32); word += THREADS) {
        const uint32_t left = tiles - word * 32;
        own_varying += __popc(~constant[word] & (left < 32 ? (1u << left) - 1 : ALL_LANES));
    }
    uint32_t varying;
    block_exclusive_sum<THREADS>(own_varying, scratch.tiles.warp_sums_32, varying);
    const uint64_t predictors_end = predictors_at + ceil_div(varying, 4);
    const uint64_t classes_at = align_up(predictors_end, 4);
    const uint64_t masks_at = has_classes ? align_up(classes_at + ceil_div(varying, 4), 4) : classes_at;
    const uint64_t signs_at = has_masks ? align_up(masks_at + ceil_div(tiles, 2), 4) : masks_at;
    const uint64_t section_end = has_signs ? align_up(signs_at + ceil_div(tiles, 4), 4) : signs_at;
    if (section.length != section_end) {
        return PARSE_TILES;
    }
    bool padding = any_between(bytes, constant_at + ceil_div(tiles, 8), predictors_at);
    padding |= any_between(bytes, predictors_end, classes_at);
    padding |= has_classes && any_between(bytes, classes_at + ceil_div(varying, 4), masks_at);
    padding |= has_masks && any_between(bytes, masks_at + ceil_div(tiles, 2), signs_at);
    padding |= has_signs && any_between(bytes, signs_at + ceil_div(tiles, 4), section_end);
    uint32_t problems = padding ? PARSE_TILES : 0;
    // The varying tiles before this one, and below them the strips.
    uint64_t carry = 0;
    const TileSizes sizes(geometry, chunk.first);
    bool has_bitmap = false;
    for (uint32_t window = 0; window < tiles; window += THREADS) {
        const uint32_t tile = window + threadIdx.x;
        const bool exists = tile < tiles, is_varying = exists && packed<1>(bytes + constant_at, tile) == 0;
        uint32_t info = is_varying ? 0 : 1;
        if (has_masks && exists) {
            const uint32_t mask = packed<4>(bytes + masks_at, tile), kind = mask & 3, pattern = mask >> 2;
            problems |= kind == 3 || (kind != 0 && pattern >= to.patterns) ? PARSE_TILES : 0;
            info |= kind << 5 | pattern << 7;
        }
        if (has_signs && exists) {
            const uint32_t kind = packed<2>(bytes + signs_at, tile);
            // Only magnitudes have signs beside them.
            problems |= kind == 3 || (kind != 0 && to.is_logarithm == 0) ? PARSE_TILES : 0;
            info |= kind << 9;
        }
        const uint32_t elements = exists ? sizes(tile) : 0, bitmaps = tile_bitmaps(info);
        const uint32_t own_strips = bitmaps * ceil_div(elements, strips::BITS_OF_BITMAP_STRIP) +
                                    (is_varying ? ceil_div(elements, strips::STRIP_LEN) : 0);
        has_bitmap |= bitmaps > 0;
        uint64_t total;
        const uint64_t before = carry + block_exclusive_sum<THREADS, uint64_t>(uint64_t(is_varying) << 32 | own_strips,
                                                                               scratch.tiles.warp_sums, total);
        carry += total;
        if (is_varying) {
            const uint32_t rank = uint32_t(before >> 32), predictor = packed<2>(bytes + predictors_at, rank);
            problems |= predictor == strips::INTERPOLATED && scheme == 0 ? PARSE_TILES : 0;
            info |= predictor << 1 | (has_classes ? packed<2>(bytes + classes_at, rank) : 0) << 3;
        }
        if (exists) {
            TilePlace &place = to.places[chunk.first_tile + tile];
            place.first_strip = uint32_t(before);
            place.info = info;
        }
    }
    has_bitmap = __syncthreads_or(has_bitmap);
    // The codes must have as many strips and codebooks as the tiles say.
    const uint32_t codebooks = (has_classes ? strips::MAX_CLASSES : 1) + has_bitmap;
    const CodesHeader header = read_codes_header(records, record.sections[CODES]);
    if (header.is_good && (header.strips != uint32_t(carry) || header.codebooks != codebooks)) {
        problems |= PARSE_CODES;
    }
    if (threadIdx.x == 0) {
        ParsedChunk &parsed = to.chunks[chunk.number];
        parsed.codebooks = codebooks;
        parsed.scheme = scheme;
        for (uint32_t i = 0; i < 3; ++i) {
            parsed.predictors[i] = bytes[5 + i];
        }
    }
    return problems;
}

// Reads the bases. Called by the whole block.
__device__ inline uint32_t read_bases(const Records &records, const Record &record, const Chunk &chunk,
                                      const Parsed &to, RoleScratch &scratch) {
    const Section section = record.sections[BASES];
    const uint8_t *widths = stage_section(records, section, scratch.tiles.section);
    const uint32_t blocks = ceil_div(chunk.tiles, BLOCK_TILES);
    const uint32_t words_at = align_up(blocks, 4);
    if (section.length < words_at) {
        return PARSE_BASES;
    }
    auto &own = scratch.tiles;
    const uint32_t own_width = threadIdx.x < blocks ? widths[threadIdx.x] : 0;
    uint32_t all_words;
    own.block_words[threadIdx.x] = block_exclusive_sum<THREADS>(own_width, own.warp_sums_32, all_words);
    const bool wrong = any_between(widths, blocks, words_at) || own_width > 64;
    if (__syncthreads_or(wrong) || section.length != words_at + uint64_t(all_words) * 4) {
        return PARSE_BASES;
    }
    const uint32_t *words = reinterpret_cast<const uint32_t *>(widths + words_at);
    // Returns the low 32 bits of the lane's difference from the previous tile.
    auto difference = [&](uint32_t block) {
        const uint32_t width = widths[block], bit = lane_id() * width;
        const uint32_t word = own.block_words[block] + bit / 32;
        uint32_t value = 0;
        if (width > 0) {
            value = __funnelshift_r(words[word], word + 1 < all_words ? words[word + 1] : 0, bit);
            value &= width < 32 ? (1u << width) - 1 : ALL_LANES;
        }
        return block * BLOCK_TILES + lane_id() < chunk.tiles ? of_zigzag(value) : 0;
    };
    // Returns the inclusive sum of the lanes' differences.
    auto summed = [&](uint32_t block) {
        uint32_t sum = difference(block);
        sum = warp_inclusive_sum(sum);
        return sum;
    };
    // Sums each block first and computes the differences again for the tiles. That is less code, and this code runs
    // once, so that fetching instructions takes longer than executing them.
#pragma unroll 1
    for (uint32_t block = warp_id(); block < blocks; block += PARSE_WARPS) {
        const uint32_t sum = summed(block);
        if (lane_id() == WARP - 1) {
            own.block_bases[block] = sum;
        }
    }
    __syncthreads();
    const uint32_t own_sum = threadIdx.x < blocks ? own.block_bases[threadIdx.x] : 0;
    uint32_t total;
    own.block_bases[threadIdx.x] = block_exclusive_sum<THREADS>(own_sum, own.warp_sums_32, total);
    __syncthreads();
#pragma unroll 1
    for (uint32_t block = warp_id(); block < blocks; block += PARSE_WARPS) {
        const uint32_t tile = block * BLOCK_TILES + lane_id(), sum = summed(block);
        if (tile < chunk.tiles) {
            to.places[chunk.first_tile + tile].base = int32_t(own.block_bases[block] + sum);
        }
    }
    return 0;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    container_parse(const __grid_constant__ Records records, const __grid_constant__ Geometry geometry,
                    const __grid_constant__ ChunkBatch batch, const __grid_constant__ Parsed to,
                    const __grid_constant__ Hashing hashing) {
    __shared__ __align__(16) RoleScratch scratch;
    launch_dependents_and_wait();
    const uint32_t number = blockIdx.x, role = blockIdx.y;
    if (role >= ROLES) {
        check_hash(records, number, hashing, role - ROLES, scratch.chain);
        return;
    }
    const Chunk chunk = chunk_of_batch(batch, number);
    const Record record = read_record(records, batch.first_chunk + number, number, KIND_QUANTIZED, CODES + 1);
    const bool quantized = record.status == 0 && record.kind != KIND_RAW;
    uint32_t problems = 0;
    if (role == ROLE_RECORD) {
        problems = record.status;
        if (quantized) {
            problems |= check_padding(records, record);
        } else if (problems == 0 && threadIdx.x == 0) {
            problems = read_raw(records, record, chunk, geometry, to);
        }
        if (threadIdx.x == 0) {
            to.chunks[number].kind = record.kind;
            to.problems[number * PROBLEM_WORDS + DECODE_PROBLEM] = 0;
            if (number == 0) {
                to.listed[0] = 0;
            }
        }
    } else if (!quantized) {
        // Nothing else is read.
    } else if (role == ROLE_TILES) {
        problems = read_tiles(records, record, chunk, geometry, to, scratch);
    } else if (role == ROLE_BASES) {
        problems = read_bases(records, record, chunk, to, scratch);
    } else if (role == ROLE_INDEX) {
        problems = read_index(records, record, chunk, to, scratch);
    } else if (role >= ROLE_CODEBOOKS) {
        problems = read_codebook(records, record, chunk, role - ROLE_CODEBOOKS, to, scratch);
    } else {
        problems = read_list(records, record, chunk, geometry, to, role - ROLE_LIST);
    }
    // Each block has a word of its own, so that none must be cleared before.
    const uint32_t all = block_or(problems, scratch.warp_problems);
    if (threadIdx.x == 0) {
        to.problems[number * PROBLEM_WORDS + role] = all;
    }
}

// Writes the locations of records, for hashing long ones, which does not wait for parsing. A record that does not lie
// within the input gets length 0. One thread per chunk.
extern "C" __global__ void container_parse_locate(const __grid_constant__ Records records, uint32_t count,
                                                  uint64_t *starts, uint32_t *lengths) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const uint64_t start = records.first + uint64_t(records.starts[i]) * 16;
        const uint32_t length = (records.starts[i + 1] - records.starts[i]) * 16;
        const bool there = start <= records.input_bytes && length <= records.input_bytes - start;
        starts[i] = start;
        lengths[i] = there ? length : 0;
    }
}
