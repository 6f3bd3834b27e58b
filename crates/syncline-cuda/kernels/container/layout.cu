// Lays out the records of a batch, from the tiles as encoding left them: the parts of a record that are known without
// its place go to memory of the chunk, its head; then the last block places all records.
//
// THREADS     threads of a block
// MAX_TILES   most tiles of a chunk
// MAX_STRIPS  most strips of a chunk
#include "device/sync.cuh"
#include "device/block.cuh"
#include "container/place.cuh"
#include "container/record.cuh"
#include "zigzag.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t TILE_WORDS = MAX_TILES / 32, STRIP_WORDS = MAX_STRIPS / 32;
static_assert(MAX_TILES < 1 << 16 && MAX_STRIPS < 1 << 16, "four counts fit a word of 64 bits");
// The shortest strip of a block of the index has at most this many bits in its descriptor.
constexpr uint32_t MOST_SHORTEST = 0xFFF;
constexpr uint32_t TILES_HEADER_WORDS = 3, CODES_HEADER_WORDS = 6;
constexpr uint32_t FLAG_ZERO_STRIPS = 1;

// Counts over the tiles of a chunk, added side by side.
struct Counts {
    uint64_t numbers; // of tiles that are not constant, tiles with bits, strips with bits, and all strips
    uint64_t sizes;   // bits, and verbatim values

    __device__ inline Counts() : numbers(0), sizes(0) {}
    __device__ inline Counts(uint32_t info, uint32_t strips, uint32_t coded_strips, uint32_t bits)
        : numbers(uint64_t(!tile_is_constant(info)) | uint64_t(bits > 0) << 16 | uint64_t(coded_strips) << 32 |
                  uint64_t(strips) << 48),
          sizes(bits | uint64_t(tile_verbatim(info)) << 32) {}

    __device__ inline uint32_t varying() const { return uint32_t(numbers) & 0xFFFF; }
    __device__ inline uint32_t tiles_with_bits() const { return uint32_t(numbers >> 16) & 0xFFFF; }
    __device__ inline uint32_t coded_strips() const { return uint32_t(numbers >> 32) & 0xFFFF; }
    __device__ inline uint32_t strips() const { return uint32_t(numbers >> 48); }
    __device__ inline uint32_t bits() const { return uint32_t(sizes); }
    __device__ inline uint32_t verbatim() const { return uint32_t(sizes >> 32); }
};

// What a block knows of its chunk.
struct Shared {
    // Packed parts of section 0.
    uint32_t constant[TILE_WORDS], predictors[2 * TILE_WORDS], classes[2 * TILE_WORDS], masks[4 * TILE_WORDS],
        signs[2 * TILE_WORDS];
    // Tiles with elements that are coded, a bit each.
    uint32_t filled[TILE_WORDS];
    // Width of each block of 32 bases, and the start of its words.
    uint32_t base_widths[TILE_WORDS], base_starts[TILE_WORDS];
    // Strips without bits, a bit each.
    uint32_t zeros[STRIP_WORDS];
    // Descriptor of each block of 32 strips with bits, and the start of the words of its deltas.
    uint32_t descriptors[STRIP_WORDS], delta_starts[STRIP_WORDS];
    uint64_t warp_sums[WARPS];
    uint32_t flags, bitmaps, is_last;
};

// Adds `bits` at bit `at` of words in shared memory.
__device__ inline void put_bits(uint32_t *words, uint32_t at, uint64_t bits) {
    while (bits != 0) {
        const uint32_t shift = at % 32;
        if (uint32_t(bits << shift) != 0) {
            atomicOr(&words[at / 32], uint32_t(bits << shift));
        }
        bits >>= 32 - shift;
        at += 32 - shift;
    }
}

// Packs what section 0 has of a tile. `varying` tiles that are not constant are before it. Called by whole warps.
__device__ inline void pack_tile(Shared &shared, uint32_t tile, uint32_t tiles, uint32_t info, uint32_t varying) {
    const bool exists = tile < tiles;
    const uint32_t constant = __ballot_sync(ALL_LANES, exists && tile_is_constant(info)),
                   filled = __ballot_sync(ALL_LANES, exists && !tile_is_empty(info));
    if (lane_id() == 0 && exists) {
        shared.constant[tile / 32] = constant;
        shared.filled[tile / 32] = filled;
    }
    if (!exists) {
        return;
    }
    if (!tile_is_constant(info)) {
        put_bits(shared.predictors, 2 * varying, tile_predictor(info));
        put_bits(shared.classes, 2 * varying, tile_class(info));
    }
    put_bits(shared.masks, 4 * tile, tile_mask_and_pattern(info));
    put_bits(shared.signs, 2 * tile, tile_sign(info));
    const uint32_t flags = (tile_mask(info) != 0 ? FLAG_MASKS : 0) | (tile_sign(info) != 0 ? FLAG_SIGNS : 0);
    if (flags != 0) {
        atomicOr(&shared.flags, flags);
    }
    if (tile_bitmaps(info) != 0) {
        shared.bitmaps = 1;
    }
}

// Lists the tiles of a chunk that have bits and the lengths of its strips that have any, and packs its tiles. Returns
// the counts of all its tiles.
__device__ inline Counts list_tiles(Shared &shared, const Geometry &geometry, const ChunkBatch &batch,
                                    const EncodedTiles &encoded, const RecordHeads &heads, uint32_t chunk) {
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    BitRange *ranges = heads.bit_ranges + first + chunk; // one more than tiles
    uint16_t *lengths = heads.lengths + uint64_t(first) * geometry.strip_capacity;
    Counts before;
    for (uint32_t begin = 0; begin < tiles; begin += THREADS) {
        const uint32_t tile = begin + threadIdx.x;
        TileFacts facts = {0, 0, 0, 1};
        uint32_t strips = 0;
        const uint16_t *bits = encoded.strip_bits + uint64_t(first + tile) * geometry.strip_capacity;
        uint64_t coded = 0;
        if (tile < tiles) {
            facts = encoded.facts[first + tile];
            strips = strips_of(facts.info, geometry.tile(batch.first_tile + first + tile).elements());
            for (uint32_t strip = 0; strip < strips; ++strip) {
                coded |= uint64_t(bits[strip] != 0) << strip;
            }
        }
        const Counts own(facts.info, strips, __popcll(coded), facts.bits);
        uint64_t all_numbers, all_sizes;
        Counts at;
        at.numbers =
            before.numbers + block_exclusive_sum<THREADS, uint64_t>(own.numbers, shared.warp_sums, all_numbers);
        at.sizes = before.sizes + block_exclusive_sum<THREADS, uint64_t>(own.sizes, shared.warp_sums, all_sizes);
        before.numbers += all_numbers;
        before.sizes += all_sizes;
        pack_tile(shared, tile, tiles, facts.info, at.varying());
        if (tile >= tiles) {
            continue;
        }
        heads.verbatim_starts[first + tile] = at.verbatim();
        if (facts.bits > 0) {
            ranges[at.tiles_with_bits()] = {at.bits(), facts.word};
        }
        put_bits(shared.zeros, at.strips(), ~coded & ((uint64_t(1) << strips) - 1));
        for (uint32_t next = at.coded_strips(); coded != 0; coded &= coded - 1) {
            lengths[next++] = bits[__ffsll(int64_t(coded)) - 1];
        }
    }
    if (threadIdx.x == 0) {
        ranges[before.tiles_with_bits()] = {before.bits(), 0};
    }
    return before;
}

// Returns the zigzag-coded difference between the stored base of a tile and that of the tile before. A tile without
// elements that are coded repeats the base before it. Called by whole warps.
__device__ inline uint32_t base_difference(const Shared &shared, const TileFacts *facts, uint32_t tile,
                                           uint32_t tiles) {
    if (tile >= tiles || !(shared.filled[tile / 32] >> tile % 32 & 1)) {
        return 0;
    }
    uint32_t word = tile / 32, filled = shared.filled[word] & ((1u << tile % 32) - 1);
    while (filled == 0 && word > 0) {
        filled = shared.filled[--word];
    }
    const uint32_t before = filled != 0 ? uint32_t(facts[32 * word + 31 - __clz(int32_t(filled))].base) : 0;
    return zigzag(uint32_t(facts[tile].base) - before);
}

__device__ inline uint32_t width_of(uint32_t value) { return 32 - __clz(int32_t(warp_reduce_or(value))); }

// Replaces numbers of words by where they start. Returns the number of all. Called by the whole block.
template <typename Width>
__device__ inline uint32_t start_words(Shared &shared, uint32_t *starts, uint32_t count, Width width) {
    uint32_t before = 0;
    for (uint32_t begin = 0; begin < count; begin += THREADS) {
        const uint32_t i = begin + threadIdx.x;
        uint64_t total;
        const uint64_t start =
            block_exclusive_sum<THREADS, uint64_t>(i < count ? width(i) : 0, shared.warp_sums, total);
        if (i < count) {
            starts[i] = before + uint32_t(start);
        }
        before += uint32_t(total);
    }
    __syncthreads();
    return before;
}

__device__ inline void copy_words(uint32_t *to, const uint32_t *from, uint32_t count) {
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        to[i] = from[i];
    }
}

// Writes section 0 to a head. Returns its words.
__device__ inline uint32_t write_tiles(const Shared &shared, const ChunkChoice &choice, uint32_t tiles,
                                       uint32_t varying, uint32_t flags, uint32_t *to) {
    if (threadIdx.x == 0) {
        to[0] = tiles;
        to[1] = choice.scheme | choice.predictors[0] << 8 | choice.predictors[1] << 16 | choice.predictors[2] << 24;
        to[2] = flags;
    }
    uint32_t words = TILES_HEADER_WORDS;
    auto add = [&](const uint32_t *from, uint32_t count) {
        copy_words(to + words, from, count);
        words += count;
    };
    add(shared.constant, ceil_div(tiles, 32));
    add(shared.predictors, ceil_div(2 * varying, 32));
    if (flags & FLAG_CLASSES) {
        add(shared.classes, ceil_div(2 * varying, 32));
    }
    if (flags & FLAG_MASKS) {
        add(shared.masks, ceil_div(4 * tiles, 32));
    }
    if (flags & FLAG_SIGNS) {
        add(shared.signs, ceil_div(2 * tiles, 32));
    }
    return words;
}

// Writes section 1 to a head. Returns its words.
__device__ inline uint32_t write_bases(Shared &shared, const TileFacts *facts, uint32_t tiles, uint32_t *to) {
    const uint32_t blocks = ceil_div(tiles, WARP), widths_words = ceil_div(blocks, 4);
    for (uint32_t block = warp_id(); block < blocks; block += WARPS) {
        const uint32_t width = width_of(base_difference(shared, facts, block * WARP + lane_id(), tiles));
        if (lane_id() == 0) {
            shared.base_widths[block] = width;
        }
    }
    __syncthreads();
    const uint32_t words =
        start_words(shared, shared.base_starts, blocks, [&](uint32_t block) { return shared.base_widths[block]; });
    for (uint32_t word = threadIdx.x; word < widths_words; word += THREADS) {
        uint32_t four = 0;
        for (uint32_t block = 4 * word; block < min_of(4 * word + 4, blocks); ++block) {
            four |= shared.base_widths[block] << block % 4 * 8;
        }
        to[word] = four;
    }
    for (uint32_t block = warp_id(); block < blocks; block += WARPS) {
        const uint32_t width = shared.base_widths[block];
        const uint32_t difference = base_difference(shared, facts, block * WARP + lane_id(), tiles);
        const uint32_t word = packed_word(difference, width);
        if (lane_id() < width) {
            to[widths_words + shared.base_starts[block] + lane_id()] = word;
        }
    }
    return widths_words + words;
}

// The descriptor of a block of the index, and what a lane's strip has more bits than the shortest.
struct IndexBlock {
    uint32_t descriptor, delta;

    // Called by whole warps.
    __device__ inline IndexBlock(const uint16_t *lengths, uint32_t block, uint32_t strips) {
        const uint32_t strip = block * WARP + lane_id();
        const bool exists = strip < strips;
        const uint32_t length = exists ? lengths[strip] : 0xFFFFFFFF;
        const uint32_t shortest = min_of(warp_reduce_min(length), MOST_SHORTEST);
        delta = exists ? length - shortest : 0;
        descriptor = shortest | width_of(delta) << 12;
    }
};

// Writes the section of codes to a head, but for its codewords. Returns its words, a multiple of four.
__device__ inline uint32_t write_codes(Shared &shared, const ChunkChoice &choice, const uint8_t *codebooks,
                                       const uint16_t *lengths, const Counts &all, uint32_t *to) {
    const uint32_t coded = all.coded_strips(), blocks = ceil_div(coded, WARP);
    const bool has_zeros = coded < all.strips();
    for (uint32_t block = warp_id(); block < blocks; block += WARPS) {
        const IndexBlock own(lengths, block, coded);
        if (lane_id() == 0) {
            shared.descriptors[block] = own.descriptor;
        }
    }
    __syncthreads();
    const uint32_t deltas = start_words(shared, shared.delta_starts, blocks,
                                        [&](uint32_t block) { return shared.descriptors[block] >> 12; });
    const uint32_t of_classes = choice.codebook_bytes,
                   of_bitmaps = shared.bitmaps != 0 ? choice.bitmap_codebook_bytes : 0;
    const uint32_t codebook_words = ceil_div(of_classes + of_bitmaps, 4), descriptor_words = ceil_div(blocks, 2);
    if (threadIdx.x == 0) {
        to[0] = all.strips();
        to[1] = coded;
        to[2] = (choice.classes + shared.bitmaps) | (has_zeros ? FLAG_ZERO_STRIPS << 8 : 0);
        to[3] = of_classes + of_bitmaps;
        to[4] = all.bits();
        to[5] = 4 * (descriptor_words + deltas);
    }
    uint32_t words = CODES_HEADER_WORDS;
    uint8_t *bytes = reinterpret_cast<uint8_t *>(to + words);
    for (uint32_t i = threadIdx.x; i < 4 * codebook_words; i += THREADS) {
        const bool is_of_classes = i < of_classes, exists = i < of_classes + of_bitmaps;
        bytes[i] = !exists ? 0 : codebooks[is_of_classes ? i : strips::BITMAP_CODEBOOK_AT + i - of_classes];
    }
    words += codebook_words;
    if (has_zeros) {
        copy_words(to + words, shared.zeros, ceil_div(all.strips(), 32));
        words += ceil_div(all.strips(), 32);
    }
    for (uint32_t i = threadIdx.x; i < descriptor_words; i += THREADS) {
        to[words + i] = shared.descriptors[2 * i] | (2 * i + 1 < blocks ? shared.descriptors[2 * i + 1] << 16 : 0);
    }
    words += descriptor_words;
    for (uint32_t block = warp_id(); block < blocks; block += WARPS) {
        const IndexBlock own(lengths, block, coded);
        const uint32_t width = own.descriptor >> 12, word = packed_word(own.delta, width);
        if (lane_id() < width) {
            to[words + shared.delta_starts[block] + lane_id()] = word;
        }
    }
    words += deltas;
    const uint32_t end = align_up(words, ALIGNMENT / 4);
    if (threadIdx.x < end - words) {
        to[words + threadIdx.x] = 0;
    }
    return end;
}

// Writes the head of a chunk's record, and returns the plan of the record, but for its place. Called by the whole
// block.
__device__ inline RecordPlan plan_record(Shared &shared, const Geometry &geometry, const ChunkBatch &batch,
                                         const EncodedTiles &encoded, const RecordHeads &heads, uint32_t chunk) {
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint64_t tile = batch.first_tile + first;
    const uint32_t elements = uint32_t(geometry.elements_before(tile + tiles) - geometry.elements_before(tile));
    const uint32_t raw_bytes = align_up(RECORD_HEADER_BYTES + elements * heads.element_bytes, ALIGNMENT);
    RecordPlan plan = {};
    plan.kind = KIND_RAW;
    plan.bytes = raw_bytes;
    for (uint32_t i = threadIdx.x; i < sizeof(Shared) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(&shared)[i] = 0;
    }
    __syncthreads();
    const Counts all = list_tiles(shared, geometry, batch, encoded, heads, chunk);
    __syncthreads();
    const ChunkChoice choice = encoded.choices[chunk];
    const uint32_t flags = shared.flags | (choice.classes > 1 ? FLAG_CLASSES : 0);
    uint32_t *head = heads.words + uint64_t(chunk) * heads.stride;
    const uint32_t tile_words = write_tiles(shared, choice, tiles, all.varying(), flags, head);
    uint32_t words = align_up(tile_words, ALIGNMENT / 4);
    if (threadIdx.x < words - tile_words) {
        head[tile_words + threadIdx.x] = 0;
    }
    const uint32_t base_words = write_bases(shared, encoded.facts + first, tiles, head + words);
    const uint32_t bases_end = align_up(words + base_words, ALIGNMENT / 4);
    if (threadIdx.x < bases_end - words - base_words) {
        head[words + base_words + threadIdx.x] = 0;
    }
    const uint16_t *lengths = heads.lengths + uint64_t(first) * geometry.strip_capacity;
    const uint8_t *codebooks = encoded.codebooks + uint64_t(chunk) * strips::CODEBOOK_ROOM;
    const uint32_t code_words = write_codes(shared, choice, codebooks, lengths, all, head + bases_end);
    plan.tiles_with_bits = all.tiles_with_bits();
    plan.bits = all.bits();
    plan.verbatim = all.verbatim();
    plan.head_words = bases_end + code_words;
    plan.lengths[TILES] = 4 * tile_words;
    plan.lengths[BASES] = 4 * base_words;
    plan.lengths[VERBATIM] =
        plan.verbatim == 0 ? 0 : align_up(4 + 4 * plan.verbatim, 8) + heads.element_bytes * plan.verbatim;
    // Two words of 0 follow the codewords.
    plan.lengths[CODES] = 4 * (code_words + ceil_div(plan.bits, 32) + 2);
    plan.lengths[CHECKSUMS] = checksum_bytes(section_start(plan.lengths, CHECKSUMS), plan.lengths[CODES]);
    const uint32_t bytes = section_start(plan.lengths, USED_SECTIONS);
    if (bytes < raw_bytes && choice.is_raw == 0) {
        plan.kind = KIND_QUANTIZED;
        plan.bytes = bytes;
    }
    return plan;
}

// Adds up the squared errors of a chunk. Called by the whole block.
__device__ inline void add_errors(Shared &shared, const ChunkBatch &batch, const EncodedTiles &encoded,
                                  const RecordHeads &heads, uint32_t chunk) {
    if (heads.errors == nullptr) {
        return;
    }
    uint64_t squared = 0, counted = 0;
    for (uint32_t tile = batch.chunk_first(chunk) + threadIdx.x; tile < batch.chunk_first(chunk + 1); tile += THREADS) {
        squared += encoded.errors[tile];
        counted += encoded.counted[tile];
    }
    uint64_t all_squared, all_counted;
    block_exclusive_sum<THREADS, uint64_t>(squared, shared.warp_sums, all_squared);
    block_exclusive_sum<THREADS, uint64_t>(counted, shared.warp_sums, all_counted);
    if (threadIdx.x == 0) {
        const bool is_raw = encoded.choices[chunk].is_raw != 0;
        heads.errors[chunk] = {is_raw ? 0 : all_squared, is_raw ? 0 : all_counted};
    }
}

// One block for each chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    container_layout(Geometry geometry, ChunkBatch batch, EncodedTiles encoded, RecordHeads heads, RecordPlan *plans,
                     RecordPlaces places) {
    grid_dependency_wait();
    launch_dependents();
    __shared__ Shared shared;
    const uint32_t chunk = blockIdx.x;
    const RecordPlan plan = plan_record(shared, geometry, batch, encoded, heads, chunk);
    __syncthreads();
    add_errors(shared, batch, encoded, heads, chunk);
    if (threadIdx.x == 0) {
        plans[chunk] = plan;
        __threadfence();
        shared.is_last = atomicAdd(places.done, 1) == batch.chunks - 1;
        __threadfence();
    }
    __syncthreads();
    if (shared.is_last) {
        place_records<THREADS>(batch.chunks, plans, places, shared.warp_sums);
    }
}
