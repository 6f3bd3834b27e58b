// What decoders need before they start, and the comparison of checksums after: tables, the places of live groups, free groups filled.
#include "huffman_decode.cuh"

// Entries for the next TABLE_BITS bits.
__device__ inline uint32_t table_entry(const Book &book, const uint16_t *symbols, uint32_t i) {
    const uint32_t window = i << (32 - TABLE_BITS);
    const Codeword one = canonical(book, symbols, window, 1);
    if (one.length > TABLE_BITS) {
        return 0;
    }
    uint32_t entry = one.length * 0x11u | (one.symbol - book.base & book.mask) << 8;
    // A codeword that ends within the known bits does not depend on the zeros after them.
    const Codeword other = canonical(book, symbols, window << one.length, 1);
    if (one.length + other.length <= TABLE_BITS && book.mask == 0xFFF) {
        entry += other.length | (other.symbol - book.base) << 20;
    }
    return entry;
}

__device__ inline uint32_t long_table_entry(const Book &book, const uint16_t *symbols, uint32_t i) {
    const uint32_t start = book.limit[TABLE_BITS];
    const uint32_t window = start + (i << (32 - LONG_BITS));
    const Codeword one = canonical(book, symbols, window, TABLE_BITS + 1);
    return window < start || one.length > LONG_BITS ? 0 : one.length | one.symbol << 16;
}

// An entry for counting.
__device__ inline uint32_t count_entry(const Book &book, uint32_t i) {
    const uint32_t window = i << (32 - TABLE_BITS);
    uint32_t bits = 0, count = 0, ends = 0;
    while (true) {
        uint32_t length = 1;
        while (length < book.longest && window << bits >= book.limit[length]) {
            ++length;
        }
        if (bits + length > TABLE_BITS) {
            return bits | count << 8 | ends << 20;
        }
        bits += length;
        ++count;
        ends |= 1u << (bits - 1);
    }
}

// Builds tables: blockIdx.x is the codebook, blockIdx.y the part. Clears sums on the way, and status unless it is null.
extern "C" __global__ void decode_tables(const Book *books, const uint16_t *symbols, uint32_t stream_count, uint32_t *tables, uint32_t *sums,
                                         uint32_t *status) {
    __shared__ Book book;
    if (threadIdx.x < sizeof(Book) / 4) {
        reinterpret_cast<uint32_t *>(&book)[threadIdx.x] = reinterpret_cast<const uint32_t *>(&books[blockIdx.x])[threadIdx.x];
    }
    const uint32_t block = blockIdx.y * gridDim.x + blockIdx.x;
    const uint32_t threads = gridDim.x * gridDim.y * blockDim.x;
    for (uint32_t i = block * blockDim.x + threadIdx.x; i < 2 * stream_count; i += threads) {
        sums[i] = 0;
        if (i < stream_count && status != nullptr) {
            status[i] = 0;
        }
    }
    __syncthreads();
    if (book.absent) {
        return;
    }
    uint32_t *to = tables + uint64_t(blockIdx.x) * BOOK_WORDS;
    uint32_t *counts = to + TABLE + LONG_ENTRIES;
    for (uint32_t i = blockIdx.y * blockDim.x + threadIdx.x; i < 2 * TABLE + LONG_ENTRIES; i += gridDim.y * blockDim.x) {
        if (i < TABLE) {
            to[i] = table_entry(book, symbols, i);
        } else if (i < 2 * TABLE) {
            counts[i - TABLE] = count_entry(book, i - TABLE);
        } else {
            to[i - TABLE] = long_table_entry(book, symbols, i - 2 * TABLE);
        }
    }
}

constexpr uint32_t WARPS = THREADS / WARP;
// Groups that a block places.
constexpr uint32_t PLACED_WORDS = 32;
constexpr uint32_t PLACED = PLACED_WORDS * 32;

// Word `i` of a stream's bitmap, ones for groups that are not there. The bitmap's last word is whole: other parts follow.
__device__ inline uint32_t free_word(const uint32_t *bitmap, uint32_t groups, uint32_t i) {
    uint32_t word = bitmap[i];
    uint32_t groups_left = groups - i * 32;
    return groups_left < 32 ? word | ALL_LANES << groups_left : word;
}

// A block looks after PLACED groups of a stream that has free ones: writes the place of each live one to the map, and fills the others. How many are live before
// it is counted anew by each block: the bitmap is a thousandth of the output at most.
extern "C" __global__ void __launch_bounds__(THREADS) decode_place(const uint8_t *input, const Stream *streams, uint32_t stream_count,
                                                                   const Totals *totals, uint32_t *map, uint32_t *status, uint8_t *out) {
    __shared__ uint32_t warp_live[WARPS];
    __shared__ uint32_t free_words[PLACED_WORDS], live_before[PLACED_WORDS];
    const uint32_t unit = blockIdx.x;
    if (unit >= totals->placings) {
        return;
    }
    const uint32_t number = stream_of(unit, stream_count, [&](uint32_t i) { return streams[i].first_placing; });
    const Stream &stream = streams[number];
    const uint32_t *bitmap = reinterpret_cast<const uint32_t *>(input + stream.bitmap);
    const uint32_t groups = stream.groups;
    const uint32_t first_word = (unit - stream.first_placing) * PLACED_WORDS;
    uint32_t live = 0;
    for (uint32_t i = threadIdx.x; i < first_word; i += THREADS) {
        live += __popc(~bitmap[i]);
    }
    for (uint32_t distance = WARP / 2; distance > 0; distance /= 2) {
        live += __shfl_xor_sync(ALL_LANES, live, distance);
    }
    if (lane_id() == 0) {
        warp_live[warp_id()] = live;
    }
    __syncthreads();
    if (warp_id() == 0) {
        uint32_t word = (first_word + lane_id()) * 32 < groups ? free_word(bitmap, groups, first_word + lane_id()) : ALL_LANES;
        uint32_t own = __popc(~word), sum = own;
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane_id() >= distance ? below : 0;
        }
        uint32_t before = 0;
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            before += warp_live[warp];
        }
        free_words[lane_id()] = word;
        live_before[lane_id()] = before + sum - own;
        bool is_last = first_word * 32 + PLACED >= groups;
        if (is_last && lane_id() == WARP - 1 && before + sum != stream.live) {
            atomicOr(&status[number], STATUS_INDEX);
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < PLACED; i += THREADS) {
        uint32_t word = free_words[i / 32], bit = i % 32;
        uint32_t rank = live_before[i / 32] + __popc(~word & ((1u << bit) - 1));
        if (!(word >> bit & 1) && rank < stream.live) {
            map[stream.map + rank] = first_word * 32 + i;
        }
    }
    constexpr uint32_t UNITS = GROUP * SYMBOL_BYTES / 16;
    const uint32_t filled = SYMBOL_BYTES == 1 ? stream.free_symbol * 0x01010101u : stream.free_symbol * 0x10001u;
    const uint4 value = make_uint4(filled, filled, filled, filled);
    uint4 *to = reinterpret_cast<uint4 *>(out + (stream.out + uint64_t(first_word) * 32 * GROUP) * SYMBOL_BYTES);
#pragma unroll 4
    for (uint32_t i = threadIdx.x; i < PLACED * UNITS; i += THREADS) {
        uint32_t group = i / UNITS;
        if (free_words[group / 32] >> (group % 32) & 1 && first_word * 32 + group < groups) {
            store_streaming(&to[i], value);
        }
    }
}

// Compares checksums; a thread a stream.
extern "C" __global__ void decode_verify(const Stream *streams, uint32_t stream_count, const uint32_t *sums, uint32_t *status) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < stream_count && (sums[2 * i] != streams[i].sum || sums[2 * i + 1] != streams[i].weighted)) {
        status[i] |= STATUS_CHECKSUM;
    }
}
