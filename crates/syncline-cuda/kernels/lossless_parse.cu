// Records of lossless streams as far as they are not tokens: header, sections, tiles and bases, what each block has, where the planes stand. Nothing that is read is trusted.
//
// THREADS  threads in a block, which has a chunk; at least MOST_BLOCKS
#include "lossless_tile.cuh"
#include "scan.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
static_assert(THREADS >= MOST_BLOCKS, "a thread for each block of bases");
constexpr uint32_t RECORD_HEADER = 32, SECTIONS = 10, MARKER = 0x4B435953; // "SYCK"
constexpr uint32_t KIND_RAW = 0, KIND_LZSS = 3;
constexpr uint32_t TILES = 0, BASES = 1, BLOCKS = 2, FLAGS = 3, LENGTHS = 4, DISTANCES = 5, LITERALS = 6;
constexpr uint32_t PARAMETER_BYTES = 8;
constexpr uint32_t PLANE_GROUP_LOG2 = 7;

// What is wrong with a chunk.
enum Status : uint32_t { FINE, RECORD, HASH, NUMBER, KIND, BAD_SECTIONS, RAW, BAD_TILES, BAD_BASES, PARAMETERS, COUNTS, PLANES };

// A plane: offset in the record, bytes, whether it is a Huffman stream.
struct Plane {
    uint32_t at, bytes, coded;
};
constexpr uint32_t PLANE_FLAGS = 0, PLANE_LENGTHS = 1, PLANE_DISTANCES = 2, PLANE_LITERALS = 4, MOST_PLANES = 12;

struct Head {
    uint32_t status;
    uint32_t kind;
    uint32_t section_at[SECTIONS], section_bytes[SECTIONS]; // offsets in the record
    uint32_t elements;                                      // that the tokens stand for
    uint32_t width, level, min_match, literal_bytes;
    uint32_t tokens, matches, flag_words; // of all blocks
    Plane planes[MOST_PLANES];            // in sections 3 to 6, if they are in planes
};

__device__ inline uint64_t aligned(uint64_t number, uint64_t to) { return (number + to - 1) / to * to; }

__device__ inline bool all_zero(const uint8_t *bytes, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; ++i) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

// Header and table of sections; by one thread.
__device__ inline uint32_t read_frame(const uint8_t *record, uint32_t length, uint64_t number, uint64_t hash, uint64_t element_bytes, Head &head) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(record);
    const uint64_t *wide = reinterpret_cast<const uint64_t *>(record);
    if (length < RECORD_HEADER || words[0] != MARKER || words[1] != length) {
        return RECORD;
    }
    if (wide[3] != hash) {
        return HASH;
    }
    if (wide[1] != number) {
        return NUMBER;
    }
    head.kind = words[4];
    if (words[5] != 0 || (head.kind != KIND_RAW && head.kind != KIND_LZSS)) {
        return KIND;
    }
    if (head.kind == KIND_RAW) {
        const uint64_t payload = length - RECORD_HEADER;
        const bool fits = payload >= element_bytes && payload - element_bytes < 16;
        return fits && all_zero(record, RECORD_HEADER + element_bytes, length) ? FINE : RAW;
    }
    uint64_t at = RECORD_HEADER + 4 * SECTIONS;
    if (at > length) {
        return BAD_SECTIONS;
    }
    for (uint32_t i = 0; i < SECTIONS; ++i) {
        const uint32_t bytes = words[RECORD_HEADER / 4 + i];
        if (bytes > 0) {
            const uint64_t start = aligned(at, 16);
            if (start + bytes > length || !all_zero(record, at, start)) {
                return BAD_SECTIONS;
            }
            head.section_at[i] = uint32_t(start);
            head.section_bytes[i] = bytes;
            at = start + bytes;
        }
    }
    return FINE;
}

// Section 0: what each tile is, and where its residuals start; by the whole block, and the result is the same in all of it.
__device__ inline uint32_t read_tiles(const Geometry &geometry, const ChunkBatch &batch, const uint8_t *section, uint32_t bytes, uint32_t first, uint32_t tiles,
                                      uint8_t *metas, uint32_t *starts, uint64_t *warp_sums, uint32_t &elements) {
    const uint32_t *words = reinterpret_cast<const uint32_t *>(section);
    const uint32_t bitmap_words = ceil_div(tiles, 32);
    const uint32_t predictors_at = TILE_HEADER_WORDS + bitmap_words;
    if (bytes % 4 != 0 || bytes < predictors_at * 4 || words[0] != tiles || (words[2] & 0xff) != 0 || words[3] != 0) {
        return BAD_TILES;
    }
    uint64_t before = 0, total;
    for (uint32_t strip = 0; strip < tiles; strip += THREADS) {
        const uint32_t tile = strip + threadIdx.x;
        const bool live = tile < tiles && (words[TILE_HEADER_WORDS + tile / 32] >> tile % 32 & 1) == 0;
        const uint64_t own = live ? geometry.tile(batch.first_tile + first + tile).elements() : 0;
        const uint64_t sum = before + block_scan<THREADS, uint64_t>(uint64_t(live) << 32 | own, warp_sums, total);
        before += total;
        if (tile < tiles) {
            const uint32_t rank = uint32_t(sum >> 32), word = predictors_at + rank / 16;
            uint32_t meta = CONSTANT;
            if (live) {
                meta = word < bytes / 4 ? words[word] >> rank % 16 * 2 & 3 : 0;
            }
            metas[first + tile] = uint8_t(meta);
            starts[first + tile] = uint32_t(sum);
        }
    }
    const uint32_t live = uint32_t(before >> 32);
    elements = uint32_t(before);
    if (bytes != (predictors_at + ceil_div(2 * live, 32)) * 4) {
        return BAD_TILES;
    }
    const bool padded = all_zero(section, TILE_HEADER_WORDS * 4 + ceil_div(tiles, 8), predictors_at * 4) &&
                        all_zero(section, predictors_at * 4 + ceil_div(2 * live, 8), bytes);
    return padded ? FINE : BAD_TILES;
}

// Section 1; by the whole block.
__device__ inline uint32_t read_bases(const uint8_t *section, uint32_t bytes, uint32_t first, uint32_t tiles, word_t *bases, uint64_t *warp_sums,
                                      uint32_t *words_before) {
    const uint32_t blocks = ceil_div(tiles, BLOCK_TILES), width_bytes = uint32_t(aligned(blocks, 4));
    if (bytes < width_bytes) {
        return BAD_BASES;
    }
    uint64_t total;
    const uint32_t own_width = threadIdx.x < blocks ? section[threadIdx.x] : 0;
    const uint64_t own = block_scan<THREADS, uint64_t>(own_width, warp_sums, total);
    if (threadIdx.x < blocks) {
        words_before[threadIdx.x] = uint32_t(own);
    }
    const bool bad = __syncthreads_or(own_width > 64);
    if (bad || bytes != width_bytes + 4 * total || !all_zero(section, blocks, width_bytes)) {
        return BAD_BASES;
    }
    const uint32_t *words = reinterpret_cast<const uint32_t *>(section + width_bytes);
    uint64_t before = 0;
    for (uint32_t strip = 0; strip < tiles; strip += THREADS) {
        const uint32_t tile = strip + threadIdx.x, block = tile / BLOCK_TILES;
        uint64_t value = 0;
        if (tile < tiles) {
            const uint32_t width = section[block];
            if (width > 0) {
                const uint32_t *packed = words + words_before[block];
                const uint32_t bit = lane_id() * width, last = (bit + width - 1) / 32;
                value = packed[bit / 32] >> bit % 32;
                for (uint32_t word = bit / 32 + 1; word <= last; ++word) {
                    value |= uint64_t(packed[word]) << (word * 32 - bit);
                }
                value &= ~0ull >> (64 - width);
            }
        }
        // Differences of fewer bits wrap alike when they are added up with 64.
        const uint64_t difference = unzigzag(word_t(value));
        const uint64_t exclusive = before + block_scan<THREADS, uint64_t>(difference, warp_sums, total);
        before += total;
        if (tile < tiles) {
            bases[first + tile] = word_t(exclusive + difference);
        }
    }
    return FINE;
}

// Bytes of the Huffman stream at `bytes`, of which there are at most `room`; 0 if it is none of `groups` groups of such symbols with this index and one codebook.
__device__ inline uint64_t stream_bytes(const uint8_t *bytes, uint64_t room, uint32_t groups, uint32_t symbol_bytes, uint32_t index_kind) {
    if (room < 40) {
        return 0;
    }
    const uint32_t *words = reinterpret_cast<const uint32_t *>(bytes);
    if (words[0] != groups || words[2] != (PLANE_GROUP_LOG2 | symbol_bytes << 8 | index_kind << 16 | 1u << 24)) {
        return 0;
    }
    const uint32_t has_free = words[3] >> 24 & 1;
    uint64_t at = aligned(40 + uint64_t(words[7]), 4);
    at += has_free ? ceil_div(groups, 8) : 0;
    at = aligned(at, 8) + words[8];
    at = aligned(at, 16) + (uint64_t(words[6]) + 31) / 32 * 4 + 8;
    return at <= room ? at : 0;
}

// Planes of `count` symbols in a section, all of it; by one thread.
__device__ inline bool read_planes(const uint8_t *record, const Head &head, uint32_t section, uint32_t stride, uint32_t symbol_bytes, uint32_t count, uint32_t mask,
                                   uint32_t index_kind, Plane *planes) {
    const uint64_t start = head.section_at[section], end = start + head.section_bytes[section];
    uint64_t at = start;
    for (uint32_t i = 0; i < stride; ++i) {
        const uint64_t from = start + aligned(at - start, 16);
        if (from > end || !all_zero(record, at, from)) {
            return false;
        }
        const bool coded = mask >> i & 1;
        uint64_t bytes = uint64_t(count) * symbol_bytes;
        if (coded) {
            bytes = stream_bytes(record + from, end - from, ceil_div(count, 1u << PLANE_GROUP_LOG2), symbol_bytes, index_kind);
        }
        if ((coded && bytes == 0) || bytes > end - from) {
            return false;
        }
        planes[i] = {uint32_t(from), uint32_t(bytes), coded};
        at = from + bytes;
    }
    return at == end;
}

// What the tokens' sections say of themselves; by the whole block.
__device__ inline uint32_t read_tokens(const uint8_t *record, uint32_t index_kind, uint64_t *warp_sums, Head &head) {
    const uint8_t *section = record + head.section_at[BLOCKS];
    const uint32_t section_bytes = head.section_bytes[BLOCKS];
    if (section_bytes < PARAMETER_BYTES) {
        return PARAMETERS;
    }
    const uint32_t width = section[0], level = section[1], min_match = section[2], literal_bytes = section[3];
    if ((width != 1 && width != 2 && width != 4 && width != 8) || level < 1 || level > 9 || min_match < 1 || min_match > 16 || literal_bytes > 2 ||
        (literal_bytes == 2 && width == 1)) {
        return PARAMETERS;
    }
    const uint32_t coded = section[4] | section[5] << 8;
    const uint32_t symbols = uint32_t((uint64_t(head.elements) * ELEMENT_BYTES + width - 1) / width);
    const uint32_t block_symbols = (level <= 4 ? 1u << 14 : 1u << 16) / width;
    const uint32_t blocks = ceil_div(symbols, block_symbols);
    if (section_bytes != PARAMETER_BYTES + uint64_t(blocks) * 8) {
        return COUNTS;
    }
    const uint2 *counts = reinterpret_cast<const uint2 *>(section + PARAMETER_BYTES);
    uint64_t tokens = 0, matches = 0, words = 0, total;
    bool bad = false;
    for (uint32_t block = threadIdx.x; block < blocks; block += THREADS) {
        const uint2 own = counts[block]; // tokens and matches
        bad |= own.y > own.x || own.x > min_of(symbols - block * block_symbols, block_symbols);
        tokens += own.x;
        matches += own.y;
        words += (uint64_t(own.x) + 63) / 64;
    }
    block_scan<THREADS, uint64_t>(tokens, warp_sums, total);
    tokens = total;
    block_scan<THREADS, uint64_t>(matches, warp_sums, total);
    matches = total;
    block_scan<THREADS, uint64_t>(words, warp_sums, total);
    words = total;
    if (__syncthreads_or(bad)) {
        return COUNTS;
    }
    const uint32_t literals = uint32_t(tokens - matches), distance_bytes = level <= 4 ? 1 : 2;
    if (threadIdx.x == 0) {
        head.width = width;
        head.level = level;
        head.min_match = min_match;
        head.literal_bytes = literal_bytes;
        head.tokens = uint32_t(tokens);
        head.matches = uint32_t(matches);
        head.flag_words = uint32_t(words);
        bool fits;
        if (literal_bytes == 0) {
            fits = head.section_bytes[FLAGS] == words * 8 && head.section_bytes[LENGTHS] == matches && head.section_bytes[DISTANCES] == matches * distance_bytes &&
                   head.section_bytes[LITERALS] == uint64_t(literals) * width;
        } else {
            fits = read_planes(record, head, FLAGS, 1, 1, uint32_t(words * 8), coded, index_kind, head.planes + PLANE_FLAGS) &&
                   read_planes(record, head, LENGTHS, 1, 1, uint32_t(matches), coded >> 1, index_kind, head.planes + PLANE_LENGTHS) &&
                   read_planes(record, head, DISTANCES, distance_bytes, 1, uint32_t(matches), coded >> 2, index_kind, head.planes + PLANE_DISTANCES) &&
                   read_planes(record, head, LITERALS, width / literal_bytes, literal_bytes, literals, coded >> 4, index_kind, head.planes + PLANE_LITERALS);
        }
        if (!fits) {
            head.status = PLANES;
        }
    }
    return FINE;
}

// A block a chunk. Records lie in the input, which the host has seen to; all else is found here.
extern "C" __global__ void __launch_bounds__(THREADS)
    lossless_parse(Geometry geometry, ChunkBatch batch, const uint8_t *input, const uint64_t *places, const uint32_t *lengths, const uint64_t *hashes,
                   uint32_t index_kind, uint8_t *metas, word_t *bases, uint32_t *starts, Head *heads) {
    __shared__ Head head;
    __shared__ uint64_t warp_sums[WARPS];
    __shared__ uint32_t words_before[MOST_BLOCKS];
    const uint32_t chunk = blockIdx.x;
    const uint8_t *record = input + places[chunk];
    const uint32_t first = batch.chunk_first(chunk), tiles = batch.chunk_first(chunk + 1) - first;
    const uint64_t first_tile = batch.first_tile + first;
    const uint32_t all_elements = uint32_t(geometry.elements_before(first_tile + tiles) - geometry.elements_before(first_tile));
    for (uint32_t i = threadIdx.x; i < sizeof(Head) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(&head)[i] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        head.status = read_frame(record, lengths[chunk], batch.first_chunk + chunk, hashes[chunk], uint64_t(all_elements) * ELEMENT_BYTES, head);
    }
    __syncthreads();
    uint32_t status = head.status;
    if (status == FINE && head.kind == KIND_LZSS) {
        uint32_t elements = all_elements;
        if (head.section_bytes[TILES] > 0) {
            status = read_tiles(geometry, batch, record + head.section_at[TILES], head.section_bytes[TILES], first, tiles, metas, starts, warp_sums, elements);
            if (status == FINE) {
                status = read_bases(record + head.section_at[BASES], head.section_bytes[BASES], first, tiles, bases, warp_sums, words_before);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            head.elements = elements;
            head.status = status;
        }
        __syncthreads();
        if (status == FINE) {
            status = read_tokens(record, index_kind, warp_sums, head);
            if (threadIdx.x == 0 && status != FINE) {
                head.status = status;
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < sizeof(Head) / 4; i += THREADS) {
        reinterpret_cast<uint32_t *>(heads + chunk)[i] = reinterpret_cast<const uint32_t *>(&head)[i];
    }
}
