// Decodes token streams (chunks of kind 5; docs/FORMAT.md, "Token stream") to codes of 32 bits: parses streams and
// builds tables, and then decodes groups, one on each lane. The input is not trusted: each problem sets a bit of the
// chunk's status.
//
// THREADS           threads of a block
// DECODE_THREADS    threads of a block that decodes, which has the tables of a chunk in dynamic shared memory
// PARSE_BAD         bit of a parsed chunk's status for damaged token streams
// TOKEN_TABLE_BITS  bits of a table lookup
// and the constants of huffman/decode/parse.cuh and token_codes/decode_group.cuh
#include "geometry.cuh"
#include "container/parsed.cuh"
#include "huffman/decode/parse.cuh"
#include "token_codes/decode_group.cuh"

constexpr uint32_t TOKEN_HEADER_BYTES = 24;

// The header of a token stream, and the offsets of its parts from the start of the stream.
struct TokenHeader {
    uint32_t groups, live, codebooks, modes, has_zero_groups, bits, codebook_bytes, index_bytes;
    uint64_t bitmap, classes, index, words;
    bool wrong;

    __device__ inline uint32_t mode(uint32_t codebook) const { return modes >> 2 * codebook & 3; }
};

// Reads the header of a stream that should have `groups` groups and exactly `length` bytes. If it is not wrong, all
// parts lie within the stream.
__device__ inline TokenHeader read_token_header(const uint8_t *stream, uint32_t length, uint32_t groups) {
    TokenHeader header{};
    if (length < TOKEN_HEADER_BYTES) {
        header.wrong = true;
        return header;
    }
    const uint4 first = *reinterpret_cast<const uint4 *>(stream);
    const uint2 second = *reinterpret_cast<const uint2 *>(stream + 16);
    header.groups = first.x;
    header.live = first.y;
    header.codebooks = first.z & 0xFF;
    header.modes = first.z >> 8 & 0xFF;
    const uint32_t flags = first.z >> 16;
    header.has_zero_groups = flags & 1;
    header.bits = first.w;
    header.codebook_bytes = second.x;
    header.index_bytes = second.y;
    header.wrong = header.groups != groups || header.live > groups || flags > 1 ||
                   (header.codebooks != 1 && header.codebooks != MAX_CODEBOOKS) ||
                   (header.codebooks == 1 && header.modes > 3) ||
                   // There is no mode 3.
                   (header.modes & header.modes >> 1 & 0x55) != 0;
    header.bitmap = align_up(TOKEN_HEADER_BYTES + uint64_t(header.codebook_bytes), 4);
    header.classes = header.bitmap + (header.has_zero_groups ? ceil_div(groups, 8) : 0);
    header.index = align_up(header.classes + (header.codebooks > 1 ? ceil_div(header.live, 4) : 0), 8);
    header.words = align_up(header.index + header.index_bytes, 16);
    header.wrong |= header.words + (uint64_t(header.bits) + 31) / 32 * 4 + 8 != length;
    return header;
}

// Returns whether this thread's byte of those from `from` to `to`, fewer than THREADS, is not 0.
__device__ inline bool is_not_zero_between(const uint8_t *bytes, uint64_t from, uint64_t to) {
    return from + threadIdx.x < to && bytes[from + threadIdx.x] != 0;
}

// Reads the codebooks up to number `own`, prepares that one, and builds its table. Returns whether something is wrong.
// Called by the whole block.
__device__ inline bool read_codebook(const uint8_t *stream, const TokenHeader &header, const TokenMemory &memory,
                                     uint32_t chunk, uint32_t own, ParseScratch &scratch) {
    const uint8_t *bytes = stream + TOKEN_HEADER_BYTES;
    const uint32_t slot = chunk * MAX_CODEBOOKS + own, mode = header.mode(own);
    if (header.codebook_bytes <= STAGED) {
        // Codebooks start at a multiple of 8 bytes, and at least 8 bytes of codewords follow, so reading whole units
        // stays within the stream.
        for (uint32_t i = threadIdx.x; i < ceil_div(header.codebook_bytes, 8); i += THREADS) {
            reinterpret_cast<uint2 *>(scratch.bytes)[i] = reinterpret_cast<const uint2 *>(bytes)[i];
        }
        bytes = scratch.bytes;
        __syncthreads();
    }
    uint32_t position = 0, alphabet = 0;
    uint8_t *marks = nullptr;
    for (uint32_t number = 0; number <= own; ++number) {
        const bool is_own = number == own;
        if (is_own) {
            // Marks are in shared memory if they fit.
            const bool small =
                header.codebook_bytes - position < 4 || (bytes[position + 2] == 0 && bytes[position + 3] == 0 &&
                                                         (bytes[position] | bytes[position + 1] << 8) <= MARKS);
            marks = small ? scratch.marks : memory.marks + uint64_t(slot) * TOKEN_ALPHABET;
        }
        alphabet =
            read_runs(bytes, position, header.codebook_bytes, token_alphabet(header.mode(number)), marks, scratch);
        __syncthreads();
        if (is_own) {
            if (warp_id() == 0 && scratch.bad == 0) {
                finish_codebook(scratch);
            }
            __syncthreads();
        }
        if (scratch.bad != 0 || (is_own && scratch.longest == NO_CODE)) {
            return true;
        }
        position = scratch.end;
        // Everyone has read the results before the next codebook overwrites them.
        __syncthreads();
    }
    uint16_t *symbols = memory.symbols + uint64_t(slot) * TOKEN_ALPHABET;
    sort_symbols(marks, alphabet, symbols, scratch);
    CodebookDescriptor &codebook = scratch.codebook;
    if (threadIdx.x == 0) {
        codebook.longest = scratch.longest;
        codebook.symbols = slot * TOKEN_ALPHABET;
        codebook.symbol_count = scratch.used;
        codebook.base = 0;
        codebook.mask = 0;
        codebook.absent = 0;
    }
    __syncthreads();
    const bool wrong = own + 1 == header.codebooks && position != header.codebook_bytes;
    if (threadIdx.x < sizeof(CodebookDescriptor) / 4) {
        reinterpret_cast<uint32_t *>(&memory.codebooks[slot])[threadIdx.x] =
            reinterpret_cast<const uint32_t *>(&codebook)[threadIdx.x];
    }
    uint32_t *table = memory.tables + uint64_t(slot) * TOKEN_TABLE;
    for (uint32_t i = threadIdx.x; i < TOKEN_TABLE; i += THREADS) {
        const uint32_t window = i << (32 - TOKEN_TABLE_BITS);
        uint32_t length = 1;
        while (length < codebook.longest && window >= codebook.limit[length]) {
            ++length;
        }
        uint32_t entry = 0;
        // A code of one symbol has no codeword that starts with 1, and one of no symbol has none at all.
        if (length <= TOKEN_TABLE_BITS && window < codebook.limit[length]) {
            entry = token_entry(mode, symbols[(window >> (32 - length)) + codebook.offset[length]], length);
        }
        table[i] = entry;
    }
    return wrong;
}

// Counts the live groups before every 32nd group. Returns whether their number is wrong. Called by the whole block.
__device__ inline bool count_live(const uint8_t *stream, const TokenHeader &header, uint32_t *ranks,
                                  uint32_t *warp_sums) {
    // Behind the bitmap, there are at least 8 bytes of codewords, so that its last word can be read.
    const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(stream + header.bitmap);
    const uint32_t words = ceil_div(header.groups, 32), share = ceil_div(words, THREADS);
    const uint32_t first = min_of(threadIdx.x * share, words), end = min_of(first + share, words);
    auto live_in = [&](uint32_t word) {
        const uint32_t left = header.groups - word * 32, zeros = header.has_zero_groups ? bitmap[word] : 0;
        return __popc(~zeros & (left < 32 ? (1u << left) - 1 : ALL_LANES));
    };
    uint32_t own = 0;
    for (uint32_t word = first; word < end; ++word) {
        own += live_in(word);
    }
    uint32_t total;
    uint32_t live = block_exclusive_sum<THREADS>(own, warp_sums, total);
    for (uint32_t word = first; word < end; ++word) {
        ranks[word] = live;
        live += live_in(word);
    }
    return total != header.live;
}

// Writes the start of each live group, and the end of the last. Blocks of the index follow each other if each ends
// where the next one says that it starts, so that warps check them independently. Returns whether something is wrong.
__device__ inline bool read_index(const uint8_t *stream, const TokenHeader &header, uint32_t *starts) {
    const uint32_t blocks = ceil_div(header.live, WARP);
    if (threadIdx.x == 0) {
        starts[header.live] = header.bits;
    }
    if (header.index_bytes / 8 < blocks) {
        return true;
    }
    const uint64_t *descriptors = reinterpret_cast<const uint64_t *>(stream + header.index);
    const uint32_t *deltas = reinterpret_cast<const uint32_t *>(descriptors + blocks);
    const uint32_t delta_bytes = header.index_bytes - blocks * 8, delta_words = delta_bytes / 4;
    bool wrong = blocks == 0 && (header.bits != 0 || delta_bytes != 0);
    for (uint32_t block = warp_id(); block < blocks; block += PARSE_WARPS) {
        const uint64_t descriptor = descriptors[block];
        const uint32_t first_bit = uint32_t(descriptor), shortest = uint32_t(descriptor >> 32) & 0xFFF;
        const uint32_t width = uint32_t(descriptor >> 44) & 15, first_word = uint32_t(descriptor >> 48);
        const bool inside = first_word + width <= delta_words;
        uint32_t delta = 0;
        if (width != 0 && inside) {
            const uint32_t bit = lane_id() * width, last = first_word + width - 1, word = first_word + bit / 32;
            delta = __funnelshift_r(deltas[word], deltas[min_of(word + 1, last)], bit) & ((1u << width) - 1);
        }
        const uint32_t rank = block * WARP + lane_id();
        const bool exists = rank < header.live;
        const uint32_t length = exists ? shortest + delta : 0;
        uint32_t sum = warp_inclusive_sum(length);
        if (exists) {
            starts[rank] = first_bit + sum - length;
        }
        const uint64_t end = uint64_t(first_bit) + __shfl_sync(ALL_LANES, sum, WARP - 1);
        wrong |= !inside || (block == 0 && (first_bit != 0 || first_word != 0));
        if (block + 1 < blocks) {
            const uint64_t next = descriptors[block + 1];
            wrong |= end != uint32_t(next) || first_word + width != uint32_t(next >> 48);
        } else {
            wrong |= end != header.bits || (first_word + width) * 4 != delta_bytes;
        }
    }
    return wrong;
}

// Parses the token streams of a batch. The grid is (chunks, codebooks and one more).
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_parse(const uint8_t *input, ParsedChunk *chunks, const __grid_constant__ TokenMemory memory) {
    __shared__ __align__(16) ParseScratch scratch;
    const uint32_t number = blockIdx.x, role = blockIdx.y;
    ParsedChunk &chunk = chunks[number];
    // Other blocks of the chunk may set the status now, so that threads may read different values.
    if (__syncthreads_or(chunk.status != 0 || chunk.kind != KIND_TOKEN_CODES)) {
        return;
    }
    const uint8_t *stream = input + chunk.raw;
    const TokenHeader header = read_token_header(stream, chunk.token_bytes, chunk.groups);
    bool wrong;
    if (role < MAX_CODEBOOKS) {
        if (header.wrong || role >= header.codebooks) {
            return; // The block that reads everything else reports what is wrong.
        }
        wrong = read_codebook(stream, header, memory, number, role, scratch);
    } else if (header.wrong) {
        wrong = true;
    } else {
        wrong = is_not_zero_between(stream, TOKEN_HEADER_BYTES + uint64_t(header.codebook_bytes), header.bitmap);
        wrong |= is_not_zero_between(stream, header.classes + (header.codebooks > 1 ? ceil_div(header.live, 4) : 0),
                                     header.index);
        wrong |= is_not_zero_between(stream, header.index + header.index_bytes, header.words);
        wrong |= count_live(stream, header, memory.ranks + uint64_t(number) * memory.rank_stride, scratch.warp_sums);
        wrong |= read_index(stream, header, memory.starts + uint64_t(number) * (memory.slots + 1));
        if (threadIdx.x == 0) {
            TokenStream &described = memory.streams[number];
            described.bitmap = chunk.raw + header.bitmap;
            described.classes = chunk.raw + header.classes;
            described.words = chunk.raw + header.words;
            described.last_word = uint32_t((chunk.token_bytes - header.words) / 4) - 1;
            described.codebooks = header.codebooks;
            described.modes = header.modes;
            described.has_zero_groups = header.has_zero_groups;
        }
    }
    if (__syncthreads_or(wrong) && threadIdx.x == 0) {
        atomicOr(&chunk.status, PARSE_BAD);
    }
}

// Clears the codes of the groups of each chunk, each of `1 << group_log2` codes, so that only those that are not 0 are
// written. The blocks along x of the grid share a chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    token_codes_clear(const ParsedChunk *chunks, uint32_t slots, uint32_t group_log2, int32_t *codes) {
    const uint32_t chunk = blockIdx.y;
    const ParsedChunk &record = chunks[chunk];
    if (record.status != 0 || record.kind != KIND_TOKEN_CODES) {
        return;
    }
    int4 *to = reinterpret_cast<int4 *>(codes + (uint64_t(chunk) * slots << group_log2));
    for (uint32_t i = blockIdx.x * THREADS + threadIdx.x; i < record.groups << group_log2 >> 2;
         i += gridDim.x * THREADS) {
        to[i] = make_int4(0, 0, 0, 0);
    }
}

// Decodes the groups of the requested tiles that are not constant, one on each lane. `codes` has those of a group for
// each of `slots` groups of each chunk, which are 0. `tile_groups` is the number of groups of the largest tile. The
// blocks along x of the grid share a chunk.
extern "C" __global__ void __launch_bounds__(DECODE_THREADS)
    token_codes_decode(const uint8_t *input, const __grid_constant__ Geometry geometry,
                       const __grid_constant__ Parsed parsed, uint64_t first_chunk, uint64_t tiles_start,
                       uint64_t tiles_end, uint32_t tile_groups, const __grid_constant__ TokenMemory memory,
                       ParsedChunk *chunks, int32_t *codes) {
    // The tables of the chunk's codebooks, and the words of the block's lanes.
    extern __shared__ uint4 table_memory[];
    const uint32_t *tables = reinterpret_cast<const uint32_t *>(table_memory);
    uint32_t *words = reinterpret_cast<uint32_t *>(table_memory + MAX_CODEBOOKS * TOKEN_TABLE / 4);
    const uint32_t chunk = blockIdx.y, first_item = blockIdx.x * DECODE_THREADS, item = first_item + threadIdx.x;
    const uint32_t entry = item / tile_groups, part = item % tile_groups;
    const ParsedChunk &record = parsed.chunks[chunk];
    // A block that finds an error sets the status while others begin. These may then leave out their groups.
    if (__syncthreads_or(record.status != 0) || record.kind != KIND_TOKEN_CODES ||
        first_item / tile_groups >= record.live_tiles) {
        return;
    }
    const TokenStream stream = memory.streams[chunk];
    const uint4 *from_tables =
        reinterpret_cast<const uint4 *>(memory.tables + uint64_t(chunk) * MAX_CODEBOOKS * TOKEN_TABLE);
    for (uint32_t i = threadIdx.x; i < stream.codebooks * TOKEN_TABLE / 4; i += DECODE_THREADS) {
        table_memory[i] = from_tables[i];
    }
    __syncthreads();
    // The lane's group, if it has one that is not all zeros.
    uint32_t length = 0, group = 0, rank = 0;
    if (entry < record.live_tiles) {
        const uint64_t first_entry = uint64_t(chunk) * parsed.tiles;
        const uint32_t number = parsed.order[first_entry + entry];
        const uint64_t tile = geometry.first_tile(first_chunk + chunk) + number;
        const uint32_t elements = geometry.tile(tile).elements(), first_code = part << geometry.token_group_log2;
        if (tile >= tiles_start && tile < tiles_end && first_code < elements) {
            length = min_of(elements - first_code, 1u << geometry.token_group_log2);
            group = parsed.first_groups[first_entry + number] + part;
            const uint32_t zero_groups =
                stream.has_zero_groups ? reinterpret_cast<const uint32_t *>(input + stream.bitmap)[group / 32] : 0;
            length = zero_groups >> group % 32 & 1 ? 0 : length;
            const uint32_t before = __popc(~zero_groups & ((1u << group % 32) - 1));
            rank = memory.ranks[uint64_t(chunk) * memory.rank_stride + group / 32] + before;
        }
    }
    uint32_t own = 0, start = 0, end = 0;
    if (length != 0) {
        own = stream.codebooks > 1 ? input[stream.classes + rank / 4] >> rank % 4 * 2 & 3 : 0;
        const uint32_t *starts = memory.starts + uint64_t(chunk) * (memory.slots + 1) + rank;
        start = starts[0], end = starts[1];
    }
    const DecodingCodebook codebook{tables + own * TOKEN_TABLE, memory.codebooks[chunk * MAX_CODEBOOKS + own],
                                    memory.symbols, stream.modes >> 2 * own & 3};
    WordsAhead from(reinterpret_cast<const uint32_t *>(input + stream.words), stream.last_word, start, end,
                    words + warp_id() * WARP * WORDS_AHEAD);
    CodeWriter to(codes + ((uint64_t(chunk) * memory.slots + group) << geometry.token_group_log2));
    if (!decode_group(from, end, length, codebook, to)) {
        atomicOr(&chunks[chunk].status, PARSE_BAD);
    }
}
