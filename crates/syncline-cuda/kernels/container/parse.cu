// Parses chunk records for reconstruction (container/parsed.cuh). The grid is (chunks, roles): each block has one role
// in parsing a chunk, so that the parts of a chunk are read in parallel; for short records some blocks compare hashes.
// Input is not trusted: each problem sets a bit of the chunk's status, and writes stay within the memory of the batch.
//
// ELEMENT_BYTES        4 or 8
// BITMAP_BLOCK_GROUPS  groups per block of the kernel that counts zero-bit groups
// OWN_LONG             entries for long codewords in a table for reconstruction with one codebook
// OWN_LONG_MANY        the same with several codebooks
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "container/parse.cuh"
#include "container/parse_lists.cuh"

// Returns what is known of the stream of codes in the first `length` bytes of a section.
__device__ inline StreamBounds codes_bounds(const Section &section, uint64_t length, const ChunkBatch &batch,
                                            const Geometry &geometry) {
    return {section.offset, length, batch.slots, 2, geometry.group_log2, MAX_CODEBOOKS};
}

// Returns what is known of the stream of bitmaps in the first `length` bytes of a section.
__device__ inline StreamBounds bitmap_bounds(const Section &section, uint64_t length, const ParseResults &to) {
    const uint32_t most_groups = uint32_t(to.bitmap_stride >> BITMAP_GROUP_LOG2);
    return {section.offset, length, most_groups, 1, BITMAP_GROUP_LOG2, 1};
}

// Reads metas, first groups, starts of bitmaps and classes of groups. Called by the whole block.
__device__ inline uint32_t read_tiles(const Records &records, const Record &record, const Chunk &chunk,
                                      const Geometry &geometry, const ChunkBatch &batch, const ParseResults &to,
                                      RoleScratch &scratch) {
    const Section section = record.sections[TILES];
    const uint32_t tiles = chunk.tiles;
    if (section.length < TILE_HEADER_BYTES) {
        return PARSE_TILES;
    }
    const uint8_t *bytes = stage_section(records, section, scratch.tiles.section);
    const uint4 head = *reinterpret_cast<const uint4 *>(bytes);
    const uint32_t radius = head.y, flags = head.z & 0xFF, scheme = head.w;
    const bool has_masks = flags & FLAG_MASKS, has_classes = flags & FLAG_CLASSES, has_signs = flags & FLAG_SIGNS;
    const bool lzss_tokens = record.kind == KIND_LZSS_CODES, token_codes = record.kind == KIND_TOKEN_CODES;
    bool known = radius == RADIUS || radius == 32768;
    if (lzss_tokens) {
        known = radius == NARROW_RADIUS && !has_classes;
    } else if (token_codes) {
        // Only streams that have no signs interpolate.
        known = radius == 0 && !has_classes && scheme <= MOST_SCHEME && (scheme == 0 || to.sign_starts == nullptr);
    }
    // Large tiles are those of token codebooks.
    known = known && (token_codes || geometry.has_large_tiles == 0);
    known = known && ((flags & FLAG_SCHEME) != 0) == token_codes && (token_codes || scheme == 0);
    if (head.x != tiles || !known || flags > 15 || (has_masks && to.mask_starts == nullptr) ||
        (has_signs && to.sign_starts == nullptr)) {
        return PARSE_TILES;
    }
    const uint64_t constant_at = TILE_HEADER_BYTES, predictors_at = align_up(constant_at + ceil_div(tiles, 8), 4);
    if (section.length < predictors_at) {
        return PARSE_TILES;
    }
    // Each warp has consecutive words of the bitmap, and each lane one tile of each word.
    const TileSizes sizes(geometry, chunk.first);
    const uint32_t *constant = reinterpret_cast<const uint32_t *>(bytes + constant_at);
    const uint32_t words = ceil_div(tiles, 32), share = ceil_div(words, PARSE_WARPS);
    const uint32_t first = min_of(warp_id() * share, words), end = min_of(first + share, words);
    auto live_tiles = [&](uint32_t word) {
        const uint32_t left = tiles - word * 32;
        return ~constant[word] & (left < 32 ? (1u << left) - 1 : ALL_LANES);
    };
    const uint32_t lanes_before = (1u << lane_id()) - 1;
    uint32_t own_live = 0, own_groups = 0;
#pragma unroll 1
    for (uint32_t word = first; word < end; ++word) {
        const bool is_live = live_tiles(word) >> lane_id() & 1;
        own_live += is_live;
        const uint32_t elements = is_live ? sizes(word * 32 + lane_id()) : 0;
        const uint32_t groups = token_codes ? geometry.token_groups(elements) : geometry.groups(elements);
        scratch.tiles.groups[word * 32 + lane_id()] = groups;
        own_groups += groups;
    }
    uint64_t total;
    uint64_t before =
        block_exclusive_sum<THREADS, uint64_t>(uint64_t(own_live) << 32 | own_groups, scratch.tiles.warp_sums, total);
    before = __shfl_sync(ALL_LANES, before, 0); // of the warp's first lane
    const uint32_t live = uint32_t(total >> 32), groups = uint32_t(total);
    const uint32_t predictors_in_byte = token_codes ? 2 : 4;
    const uint64_t predictors_end = predictors_at + ceil_div(live, predictors_in_byte);
    const uint64_t classes_at = align_up(predictors_end, 4);
    const uint64_t masks_at = has_classes ? align_up(classes_at + ceil_div(live, 4), 4) : classes_at;
    const uint64_t signs_at = has_masks ? align_up(masks_at + ceil_div(tiles, 2), 4) : masks_at;
    const uint64_t section_end = has_signs ? align_up(signs_at + ceil_div(tiles, 4), 4) : signs_at;
    if (section.length != section_end) {
        return PARSE_TILES;
    }
    bool padding = any_between(bytes, constant_at + ceil_div(tiles, 8), predictors_at);
    padding |= any_between(bytes, predictors_end, classes_at);
    padding |= has_classes && any_between(bytes, classes_at + ceil_div(live, 4), masks_at);
    padding |= has_masks && any_between(bytes, masks_at + ceil_div(tiles, 2), signs_at);
    padding |= has_signs && any_between(bytes, signs_at + ceil_div(tiles, 4), section_end);
    uint32_t problems = padding ? PARSE_TILES : 0;
    uint32_t rank = uint32_t(before >> 32), group = uint32_t(before);
    uint32_t own_masks = 0, own_signs = 0;
#pragma unroll 1
    for (uint32_t word = first; word < end; ++word) {
        const uint32_t tile = word * 32 + lane_id(), all_live = live_tiles(word);
        const bool exists = tile < tiles, is_live = all_live >> lane_id() & 1;
        const uint32_t own_rank = rank + __popc(all_live & lanes_before);
        const uint32_t tile_groups = scratch.tiles.groups[tile];
        const uint32_t tile_class = is_live && has_classes ? packed<2>(bytes + classes_at, own_rank) : 0;
        uint32_t meta = 1;
        if (is_live && token_codes) {
            // There are no classes, whose bits these predictors take, too.
            const uint32_t predictor = packed<4>(bytes + predictors_at, own_rank);
            problems |= predictor > INTERPOLATION || (predictor == INTERPOLATION && scheme == 0) ? PARSE_TILES : 0;
            meta = predictor << 1;
        } else if (is_live) {
            meta = packed<2>(bytes + predictors_at, own_rank) << 1 | tile_class << 3;
        }
        uint32_t sum = warp_inclusive_sum(tile_groups);
        const uint32_t own_group = group + sum - tile_groups;
        if (has_masks && exists) {
            const uint32_t mask = packed<4>(bytes + masks_at, tile), kind = mask & 3, pattern = mask >> 2;
            problems |= kind == 3 || (kind != 0 && pattern >= to.patterns) ? PARSE_TILES : 0;
            meta |= kind << 5 | pattern << 7;
            own_masks += kind == 2 ? bitmap_bytes(sizes(tile)) : 0;
        }
        if (has_signs && exists) {
            const uint32_t kind = packed<2>(bytes + signs_at, tile);
            problems |= kind == 3 ? PARSE_TILES : 0;
            meta |= kind << 9;
            own_signs += kind == 2 ? bitmap_bytes(sizes(tile)) : 0;
        }
        if (exists) {
            to.metas[chunk.first_tile + tile] = meta;
            to.first_groups[chunk.first_tile + tile] = own_group;
            to.order[chunk.first_tile + (is_live ? own_rank : live + tile - own_rank)] = tile;
        }
        if (to.classes != nullptr) {
            for (uint32_t i = 0; i < tile_groups; ++i) {
                // Stays within the slots, which have room for as many groups as the chunk's tiles can have.
                to.classes[uint64_t(chunk.number) * batch.slots + own_group + i] = tile_class;
            }
        }
        rank += __popc(all_live);
        group += __shfl_sync(ALL_LANES, sum, WARP - 1);
    }
    uint64_t bitmaps = 0;
    if (has_masks || has_signs) {
        uint64_t bitmap_start = block_exclusive_sum<THREADS, uint64_t>(uint64_t(own_masks) << 32 | own_signs,
                                                                       scratch.tiles.warp_sums, bitmaps);
        bitmap_start = __shfl_sync(ALL_LANES, bitmap_start, 0);
        for (uint32_t word = first; word < end; ++word) {
            const uint32_t tile = word * 32 + lane_id();
            const uint32_t size = tile < tiles ? bitmap_bytes(sizes(tile)) : 0;
            const bool mask = has_masks && tile < tiles && (packed<4>(bytes + masks_at, tile) & 3) == 2;
            const bool sign = has_signs && tile < tiles && packed<2>(bytes + signs_at, tile) == 2;
            const uint64_t own = uint64_t(mask ? size : 0) << 32 | (sign ? size : 0);
            uint64_t sum = warp_inclusive_sum(own);
            const uint64_t start = bitmap_start + sum - own;
            if (has_masks && tile < tiles) {
                to.mask_starts[chunk.first_tile + tile] = uint32_t(start >> 32);
            }
            if (has_signs && tile < tiles) {
                to.sign_starts[chunk.first_tile + tile] = uint32_t(start);
            }
            bitmap_start += __shfl_sync(ALL_LANES, sum, WARP - 1);
        }
    }
    // The streams must have as many symbols as the tiles say. Tokens are checked when they are decoded.
    const Section codes = record.sections[CODES];
    const StreamHeader header = read_header(records.input, codes_bounds(codes, codes.length, batch, geometry));
    const bool huffman = record.kind == KIND_QUANTIZED;
    if (huffman && (header.status != 0 || header.groups != groups || header.zero_bit_symbol != radius)) {
        problems |= PARSE_CODES;
    }
    const uint32_t bitmap_total[2] = {uint32_t(bitmaps >> 32), uint32_t(bitmaps)};
    for (uint32_t kind = 0; kind < 2; ++kind) {
        const Section bitmap = record.sections[kind == 0 ? MASKS : SIGNS];
        if (bitmap_total[kind] == 0) {
            problems |= bitmap.length != 0 ? PARSE_BITMAPS : 0;
        } else if (read_header(records.input, bitmap_bounds(bitmap, bitmap.length, to)).groups !=
                   bitmap_total[kind] >> BITMAP_GROUP_LOG2) {
            problems |= PARSE_BITMAPS;
        }
    }
    if (threadIdx.x == 0) {
        ParsedChunk &parsed = to.chunks[chunk.number];
        parsed.kind = record.kind;
        parsed.radius = radius;
        parsed.groups = huffman ? header.groups : groups;
        parsed.live = huffman ? header.live : 0;
        parsed.raw = huffman ? 0 : codes.offset;
        parsed.token_bytes = huffman ? 0 : codes.length;
        parsed.scheme = scheme;
        parsed.live_tiles = live;
        if (radius != RADIUS) {
            atomicOr(&parsed.wide, 1u);
        }
    }
    return problems;
}

// Reads the bases. Called by the whole block.
__device__ inline uint32_t read_bases(const Records &records, const Record &record, const Chunk &chunk,
                                      const ParseResults &to, RoleScratch &scratch) {
    const Section section = record.sections[BASES];
    const uint8_t *widths = stage_section(records, section, scratch.tiles.section);
    const uint32_t blocks = ceil_div(chunk.tiles, BLOCK_TILES);
    const uint32_t words_at = align_up(blocks, 4);
    if (section.length < words_at) {
        return PARSE_BASES;
    }
    auto &own = scratch.tiles;
    uint32_t all_words = 0;
    bool wrong = any_between(widths, blocks, words_at);
    for (uint32_t window = 0; window < blocks; window += THREADS) {
        const uint32_t block = window + threadIdx.x;
        const uint32_t width = block < blocks ? widths[block] : 0;
        uint32_t total;
        const uint32_t start = all_words + block_exclusive_sum<THREADS>(width, own.warp_sums_32, total);
        if (block < blocks) {
            own.block_words[block] = start;
        }
        wrong |= width > 64;
        all_words += total;
    }
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
        return block * BLOCK_TILES + lane_id() < chunk.tiles ? value >> 1 ^ (0u - (value & 1)) : 0;
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
    uint32_t carry = 0;
    for (uint32_t window = 0; window < blocks; window += THREADS) {
        const uint32_t block = window + threadIdx.x;
        const uint32_t sum = block < blocks ? own.block_bases[block] : 0;
        uint32_t total;
        const uint32_t before = carry + block_exclusive_sum<THREADS>(sum, own.warp_sums_32, total);
        if (block < blocks) {
            own.block_bases[block] = before;
        }
        carry += total;
    }
    __syncthreads();
#pragma unroll 1
    for (uint32_t block = warp_id(); block < blocks; block += PARSE_WARPS) {
        const uint32_t tile = block * BLOCK_TILES + lane_id(), sum = summed(block);
        if (tile < chunk.tiles) {
            to.bases[chunk.first_tile + tile] = int32_t(own.block_bases[block] + sum);
        }
    }
    return 0;
}

// Checks that the bytes between sections are zeros.
__device__ inline uint32_t check_padding(const Records &records, const Record &record) {
    bool wrong = false;
    uint64_t end = record.start + RECORD_HEADER_BYTES + SECTIONS * 4;
    for (uint32_t i = 0; i < SECTIONS; ++i) {
        const Section section = record.sections[i];
        if (section.length > 0) {
            const uint64_t at = end + threadIdx.x;
            wrong |= at < section.offset && records.input[at] != 0;
            end = section.offset + section.length;
        }
    }
    return wrong ? PARSE_SECTIONS : 0;
}

// Counts the live groups before every 32nd group, and checks their number. Called by the whole block.
__device__ inline uint32_t read_ranks(const Records &records, const Record &record, const Chunk &chunk,
                                      const Geometry &geometry, const ChunkBatch &batch, const ParseResults &to,
                                      RoleScratch &scratch) {
    const Section section = record.sections[CODES];
    const StreamHeader header = read_header(records.input, codes_bounds(section, section.length, batch, geometry));
    if (record.kind != KIND_QUANTIZED || header.status != 0 || !header.has_zero_bit_groups) {
        return 0; // The blocks that read the codes report what is wrong.
    }
    const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(records.input + section.offset + header.bitmap);
    const uint32_t words = ceil_div(header.groups, 32);
    const uint32_t share = ceil_div(words, THREADS);
    const uint32_t first = min_of(threadIdx.x * share, words), end = min_of(first + share, words);
    auto live_in = [&](uint32_t word) {
        const uint32_t left = header.groups - word * 32;
        return __popc(~bitmap[word] & (left < 32 ? (1u << left) - 1 : ALL_LANES));
    };
    uint32_t own = 0;
    for (uint32_t word = first; word < end; ++word) {
        own += live_in(word);
    }
    uint32_t total;
    uint32_t live = block_exclusive_sum<THREADS>(own, scratch.warp_sums, total);
    uint32_t *ranks = to.ranks + uint64_t(chunk.number) * to.rank_stride;
    for (uint32_t word = first; word < end; ++word) {
        ranks[word] = live;
        live += live_in(word);
    }
    return total != header.live ? PARSE_CODES : 0;
}

// Builds a codebook's tables after its symbols. It is done here because the device is otherwise idle and it is needed
// only once per codebook. Called by the whole block, after it prepared the codebook.
__device__ inline void make_tables(uint16_t *symbols, uint32_t books, ParseScratch &scratch) {
    // The marks are no longer needed.
    uint16_t *near = reinterpret_cast<uint16_t *>(scratch.marks);
    for (uint32_t i = threadIdx.x; i < scratch.codebook.symbol_count; i += THREADS) {
        near[i] = symbols[i];
    }
    __syncthreads();
    make_all_entries(symbols + TABLES_AT, scratch.codebook, near, books == 1 ? OWN_LONG : OWN_LONG_MANY);
}

// Compares a record's stored hash with that of its bytes. Called by block `part` of up to `hashing.parts`. A record
// that does not lie within the input does not differ: parsing reports it.
__device__ inline void check_hash(const Records &records, uint32_t number, const Hashing &hashing, uint32_t part,
                                  ChainScratch &scratch) {
    const uint64_t start = records.first + uint64_t(records.starts[number]) * 16;
    const uint32_t length = (records.starts[number + 1] - records.starts[number]) * 16;
    const bool there = length >= RECORD_HEADER_BYTES && length / HASH_BLOCK <= hashing.longest &&
                       start <= records.input_bytes && length <= records.input_bytes - start;
    const HashInput input{records.input + start, there ? length - 8 : 0, HASH_AT, 8};
    const HashParts parts(uint32_t(input.blocks()), hashing.parts);
    uint64_t hash;
    if (part < parts.count &&
        hash_by_parts(input, parts, part, hashing.sums + uint64_t(number) * hashing.longest * HASH_LANES,
                      hashing.progress + number, scratch, hash) &&
        threadIdx.x == 0) {
        hashing.differs[number] = there && hash_at(input.bytes + HASH_AT) != hash;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS)
    container_parse(const __grid_constant__ Records records, const __grid_constant__ Geometry geometry,
                    const __grid_constant__ ChunkBatch batch, const __grid_constant__ ParseResults to,
                    const __grid_constant__ Hashing hashing) {
    __shared__ __align__(16) RoleScratch scratch;
    launch_dependents_and_wait();
    const uint32_t number = blockIdx.x, role = blockIdx.y, roles = gridDim.y - hashing.parts;
    if (role >= roles) {
        check_hash(records, number, hashing, role - roles, scratch.chain);
        return;
    }
    const bool has_masks = to.mask_starts != nullptr, has_signs = to.sign_starts != nullptr;
    const Chunk chunk = chunk_of_batch(batch, number);
    const Record record = read_record(records, batch.first_chunk + number, number, to);
    const bool quantized = record.status == 0 && record.kind != KIND_RAW;
    const bool has_stream = quantized && record.kind == KIND_QUANTIZED;
    uint32_t problems = 0;
    // The streams of every record are described, also of damaged ones: a chunk without a stream gets an empty one.
    const bool is_bitmap = role == ROLE_MASKS || role == ROLE_SIGNS;
    if (role < ROLE_TILES || is_bitmap) {
        if ((role == ROLE_MASKS && !has_masks) || (role == ROLE_SIGNS && !has_signs)) {
            return;
        }
        const Section section = record.sections[role == ROLE_MASKS ? MASKS : role == ROLE_SIGNS ? SIGNS : CODES];
        const uint64_t length = (is_bitmap ? quantized : has_stream) ? section.length : 0;
        uint32_t status;
        constexpr uint32_t books = MAX_CODEBOOKS;
        if (is_bitmap) {
            const uint32_t stream = number + (role == ROLE_SIGNS && has_masks ? batch.chunks : 0);
            const StreamBounds place = bitmap_bounds(section, length, to);
            const CodebookOutput own{to.bitmap_books + stream, stream, to.bitmap_symbols, stream * 256, 256, nullptr};
            parse_stream(records.input, place, 0, own, stream * to.bitmap_stride, 0, to.bitmaps[stream], status,
                         scratch.parse);
            // A chunk without such bitmaps has an empty stream, which is valid.
            status = length == 0 ? 0 : status;
            if (threadIdx.x == 0) {
                to.bitmap_status[stream] = status;
            }
            problems = status != 0 ? PARSE_BITMAPS : 0;
        } else if (role < books) {
            const StreamBounds place = codes_bounds(section, length, batch, geometry);
            const uint64_t first_group = uint64_t(number) * batch.slots;
            const uint32_t slot = number * books;
            // One codebook of 65,536 symbols, or several of MARKS.
            const CodebookOutput own{to.code_books + slot, slot,  to.code_symbols,
                                     number * 65536,       MARKS, to.marks + uint64_t(number) * 65536};
            CodebookInfo found{0, 0};
            parse_stream(records.input, place, role, own, first_group << geometry.group_log2, first_group,
                         to.codes[number], status, scratch.parse, &found);
            status = has_stream ? status : 0;
            if (threadIdx.x == 0 && status != 0) {
                atomicOr(&to.code_status[number], status);
            }
            // The last symbol of an alphabet occurs in the stream.
            if (threadIdx.x == 0 && found.alphabet > NARROW_SYMBOLS) {
                atomicOr(&to.chunks[number].wide, 1u);
            }
            problems = status != 0 ? PARSE_CODES : 0;
            // Decoders of whole streams build their own tables.
            if (to.classes == nullptr && found.alphabet != 0 && found.alphabet <= NARROW_SYMBOLS) {
                make_tables(to.code_symbols + own.first_symbol + role * own.stride, found.codebooks, scratch.parse);
            }
            if (role == 0 && threadIdx.x == 0) {
                if (record.status == 0 && record.kind == KIND_RAW) {
                    problems |= read_raw(records, record, chunk, geometry, to);
                }
                problems |= record.status;
            }
        } else {
            return;
        }
        // Only decoders of whole streams need the totals.
        const uint32_t bitmaps = batch.chunks * ((has_masks ? 1 : 0) + (has_signs ? 1 : 0));
        const bool summed = to.classes != nullptr;
        if (summed || bitmaps > 0) {
            if (is_last_block(to.done, batch.chunks * books + bitmaps)) {
                if (summed) {
                    sum_batch(to.codes, batch.chunks, to.totals, scratch.tiles.warp_sums, BITMAP_BLOCK_GROUPS);
                }
                if (bitmaps > 0) {
                    sum_batch(to.bitmaps, bitmaps, to.bitmap_totals, scratch.tiles.warp_sums, BITMAP_BLOCK_GROUPS);
                }
            }
        }
    } else if (!quantized) {
        return;
    } else if (role == ROLE_TILES) {
        problems = read_tiles(records, record, chunk, geometry, batch, to, scratch);
    } else if (role == ROLE_BASES) {
        problems = read_bases(records, record, chunk, to, scratch);
    } else if (role == ROLE_RANKS) {
        problems = read_ranks(records, record, chunk, geometry, batch, to, scratch) | check_padding(records, record);
    } else {
        const uint32_t list_block = role - ROLE_LISTS;
        problems = read_list(records, record, chunk, geometry, to, list_block >= LIST_BLOCKS, list_block % LIST_BLOCKS);
    }
    if (problems != 0) {
        atomicOr(&to.chunks[number].status, problems);
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

// Combines statuses and clears memory. One block, one thread per chunk.
extern "C" __global__ void container_parse_finish(const __grid_constant__ BatchFinish finish, uint32_t count,
                                                  const ParsedChunk *chunks, const uint32_t *code_status) {
    finish_batch(finish, chunks, code_status, count);
}
