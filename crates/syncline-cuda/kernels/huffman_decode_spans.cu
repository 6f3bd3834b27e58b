// Decoding when it is known, or to be read from the gap index, where each subsequence's first codeword starts.
//
// A warp has a span of 32 subsequences, a lane one of them, its words in registers; nobody waits for another warp. Where a span's symbols go is the sum of the spans before
// it: so codewords are counted (spans_count; the self-synchronising decoder has done so already), counts are added up (spans_scan), and then everything is decoded
// and written (spans_write). As in the 2022 paper symbols go through shared memory, so that whole lines go to memory.
//
// Where codewords are too long for two to a lookup, and fit 16 bits, and symbols 11, a lookup takes 16 bits (FULL): then there are no long codewords, for which a lane would
// hold up its warp. The table has 128 KiB; a multiprocessor has one block and one table.
//
// BLOCKS   blocks of spans_write that a multiprocessor should have room for
// FULL     whether codewords are looked up whole
#include "huffman_decode_spans.cuh"

constexpr uint32_t SPANS = SEQUENCE / WARP; // of a sequence
constexpr uint32_t SPAN_BITS = WARP * SUBSEQUENCE_BITS;
// The gap of a stream's subsequence.
__device__ inline uint32_t gap_of(const uint8_t *input, const Stream &stream, uint32_t subsequence) {
    const uint8_t *gaps = input + stream.index;
    return stream.longest <= 16 ? gaps[subsequence / 2] >> (subsequence % 2 * 4) & 15 : min_of<uint32_t>(gaps[subsequence], LAST_ENTRY);
}

// Spans of a stream that are a block's, given its sequences.
__device__ inline void spans_of(const Stream &stream, uint32_t &first, uint32_t &stop) {
    first *= SPANS;
    stop = min_of(stop * SPANS, ceil_div(stream.bits, SPAN_BITS));
}

// Reads the gap index: entries and counts of all subsequences, in bytes. Those past the streams' ends are left as they are.
extern "C" __global__ void __launch_bounds__(THREADS)
    spans_count(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
                const Totals *totals, uint8_t *entries, uint8_t *counts) {
    __shared__ __align__(16) uint32_t table[TABLE];
    __shared__ Stream stream;
    __shared__ Book book;
    const Counter counter{table, &book};
    Run rest(totals->sequences);
    while (rest.next < rest.end) {
        uint32_t first, stop;
        const uint32_t number = rest.stream(streams, stream_count, first, stop);
        load_stream(stream, book, streams, number, books);
        load_counts(table, tables, stream);
        __syncthreads();
        spans_of(stream, first, stop);
        uint32_t subsequence = (first + warp_id()) * WARP + lane_id();
        LaneWords words;
        uint32_t entry = 0;
        const auto load = [&] {
            if (bits_in(stream, subsequence) > 0) {
                words.load(input, stream, subsequence);
                entry = gap_of(input, stream, subsequence);
            }
        };
        load();
        for (uint32_t span = first + warp_id(); span < stop; span += WARPS) {
            LaneReader reader(words, entry);
            const uint32_t bits = bits_in(stream, subsequence), own_entry = entry;
            const uint64_t at = uint64_t(stream.first_subsequence) + subsequence;
            // The next span's words are under way meanwhile.
            subsequence += WARPS * WARP;
            load();
            entries[at] = own_entry;
            counts[at] = counter.count(reader, bits);
        }
    }
}

// Symbols before each span of its stream, from the counts of its subsequences; a block a stream. Whole sequences have spans: those past the end are not written.
extern "C" __global__ void __launch_bounds__(THREADS)
    spans_scan(const Stream *streams, const uint8_t *counts, uint32_t *before, uint32_t *status) {
    __shared__ uint32_t warp_sums[WARPS];
    const Stream &stream = streams[blockIdx.x];
    const uint32_t spans = ceil_div(stream.bits, SPAN_BITS), subsequences = ceil_div(stream.bits, SUBSEQUENCE_BITS);
    uint32_t running = 0;
    for (uint32_t first = 0; first < spans; first += THREADS) {
        const uint32_t span = first + threadIdx.x;
        uint32_t own = 0;
        if (span < spans) {
            const uint8_t *of = counts + stream.first_subsequence + span * WARP;
            if ((span + 1) * WARP <= subsequences) {
#pragma unroll
                for (uint32_t i = 0; i < WARP / 16; ++i) {
                    const uint4 sixteen = reinterpret_cast<const uint4 *>(of)[i];
                    own = __dp4a(sixteen.x, 0x01010101u, own);
                    own = __dp4a(sixteen.y, 0x01010101u, own);
                    own = __dp4a(sixteen.z, 0x01010101u, own);
                    own = __dp4a(sixteen.w, 0x01010101u, own);
                }
            } else {
                for (uint32_t i = 0; span * WARP + i < subsequences; ++i) {
                    own += of[i];
                }
            }
        }
        uint32_t sum = own;
        for (uint32_t distance = 1; distance < WARP; distance *= 2) {
            const uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
            sum += lane_id() >= distance ? below : 0;
        }
        if (lane_id() == WARP - 1) {
            warp_sums[warp_id()] = sum;
        }
        __syncthreads();
        uint32_t total = 0, in_block = 0;
        for (uint32_t warp = 0; warp < WARPS; ++warp) {
            in_block = warp == warp_id() ? total : in_block;
            total += warp_sums[warp];
        }
        __syncthreads();
        if (span < spans) {
            before[stream.first_sequence * SPANS + span] = running + in_block + sum - own;
        }
        running += total;
    }
    if (threadIdx.x == 0 && running != stream.live * GROUP) {
        atomicOr(&status[blockIdx.x], STATUS_COUNT);
    }
}

// Entries of a table for whole codewords: the length in the low five bits, the symbol above.
constexpr uint32_t FULL_BITS = 16, FULL_TABLE = 1u << FULL_BITS;

// Builds the tables for whole codewords from the others; blockIdx.x is the codebook, blockIdx.y the part.
extern "C" __global__ void __launch_bounds__(THREADS)
    spans_tables(const Book *books, const uint16_t *symbols, const uint32_t *tables, uint16_t *full_tables) {
    const Book &book = books[blockIdx.x];
    if (book.absent) {
        return;
    }
    const uint32_t *from = tables + uint64_t(blockIdx.x) * BOOK_WORDS;
    uint16_t *to = full_tables + uint64_t(blockIdx.x) * FULL_TABLE;
    for (uint32_t i = blockIdx.y * THREADS + threadIdx.x; i < FULL_TABLE; i += gridDim.y * THREADS) {
        const uint32_t entry = single(from[i >> (FULL_BITS - TABLE_BITS)], book.base, book.mask);
        Codeword one{entry >> 16, entry & 31};
        if (entry == 0) {
            one = canonical(book, symbols, i << (32 - FULL_BITS), TABLE_BITS + 1);
        }
        to[i] = one.symbol << 5 | one.length;
    }
}

// Decodes with such a table.
struct FullDecoder {
    const uint16_t *table;

    __device__ inline uint32_t lookup(uint32_t window) const { return table[window >> (32 - FULL_BITS)]; }

    template <typename Source> __device__ inline uint32_t one(Source &from) const {
        const uint32_t entry = lookup(from.window());
        from.skip(entry & 31);
        return entry >> 5;
    }

    template <typename Source> __device__ inline uint32_t two(Source &from) const {
        const uint32_t window = from.window();
        const uint32_t first = lookup(window);
        const uint32_t second = lookup(__funnelshift_l(0, window, first));
        from.skip((first & 31) + (second & 31));
        return __byte_perm(first, second, 0x5410) >> 5 & 0x07FF07FF;
    }

    template <typename Source> __device__ inline uint32_t word(Source &from) const {
        const uint32_t pair = two(from);
        return SYMBOL_BYTES == 1 ? __byte_perm(pair, two(from), 0x6420) : pair;
    }
};

__device__ inline void store_symbol(uint8_t *to, uint64_t at, uint32_t symbol) {
    if (SYMBOL_BYTES == 1) {
        to[at] = symbol;
    } else {
        reinterpret_cast<uint16_t *>(to)[at] = symbol;
    }
}

// A lane's symbols, decoded and put into a buffer by and by.
template <typename Decodes> struct Lane {
    const Decodes &decoder;
    LaneReader reader;
    uint32_t position, count; // of the first in the stream, how many
    uint32_t done = 0;
    uint32_t pair = 0; // decoded last

    // Puts those of the first `limit` that are still to be put where they belong in a buffer that starts with symbol `first`. `first` and, unless it is the count, the place
    // after the `limit`-th are multiples of a word's symbols.
    __device__ inline void put(uint8_t *buffer, uint32_t first, uint32_t limit) {
#if SYMBOL_BYTES == 2
        // Two are decoded at a time. If the first one's place is odd, a word of the buffer has the second of one pair and the first of the next.
        const uint32_t shift = position % 2 != 0 ? 16 : 32;
        if (done == 0 && limit > 0) {
            pair = decoder.two(reader);
            if (shift == 16 || count == 1) {
                store_symbol(buffer, position - first, pair);
                done = 1;
            } else {
                reinterpret_cast<uint32_t *>(buffer)[(position - first) / 2] = pair;
                done = 2;
            }
        }
        uint32_t *to = reinterpret_cast<uint32_t *>(buffer) + (position + done - first) / 2;
        for (; done + 2 <= limit; done += 2) {
            const uint32_t next = decoder.two(reader);
            *to++ = __funnelshift_rc(pair, next, shift);
            pair = next;
        }
        if (done < limit) {
            store_symbol(buffer, position + done - first, shift == 16 ? pair >> 16 : decoder.one(reader));
            ++done;
        }
#else
        constexpr uint32_t SYMBOLS_IN_WORD = 4 / SYMBOL_BYTES;
        for (; done < limit && (position + done) % SYMBOLS_IN_WORD != 0; ++done) {
            store_symbol(buffer, position + done - first, decoder.one(reader));
        }
        for (; done + SYMBOLS_IN_WORD <= limit; done += SYMBOLS_IN_WORD) {
            reinterpret_cast<uint32_t *>(buffer)[(position + done - first) / SYMBOLS_IN_WORD] = decoder.word(reader);
        }
        for (; done < limit; ++done) {
            store_symbol(buffer, position + done - first, decoder.one(reader));
        }
#endif
    }
};

// Writes symbols [begin, end) of a stream from a warp's buffer, whose first is symbol `first`, a multiple of a unit's.
__device__ inline void flush(const uint4 *buffer, uint32_t first, uint32_t begin, uint32_t end, const Stream &stream, const uint32_t *map,
                             uint8_t *out, Checksum &checksum) {
    const auto place_of = [&](uint32_t position) {
        return stream.out + uint64_t(group_of(stream, map, position / GROUP)) * GROUP + position % GROUP;
    };
    for (uint32_t i = lane_id(); i < (end - first) / SYMBOLS_IN_UNIT; i += WARP) {
        const uint32_t position = first + i * SYMBOLS_IN_UNIT;
        if (position >= begin) {
            const uint4 unit = buffer[i];
            store_streaming(reinterpret_cast<uint4 *>(out + place_of(position) * SYMBOL_BYTES), unit);
            checksum.add(unit, position);
        }
    }
    // The rest of the first and of the last unit are other spans': half of the lanes each.
    static_assert(SYMBOLS_IN_UNIT <= WARP / 2, "a lane a symbol");
    const uint32_t last = end / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT;
    const bool at_first = lane_id() < WARP / 2;
    const uint32_t place = lane_id() % (WARP / 2);
    const uint32_t position = (at_first ? first : last) + place;
    const bool broken = at_first ? begin > first : last > first || begin == first;
    if (broken && place < SYMBOLS_IN_UNIT && position >= begin && position < end) {
        const uint32_t symbol = SYMBOL_BYTES == 1 ? reinterpret_cast<const uint8_t *>(buffer)[position - first]
                                                  : reinterpret_cast<const uint16_t *>(buffer)[position - first];
        store_symbol(out, place_of(position), symbol);
        checksum.add_symbol(symbol, position);
    }
}

// Decodes from the entries of subsequences, and writes. `tables` are those of decode_tables, or of spans_tables. `before` has the symbols before each span of its stream. A warp gathers `room` symbols at a time, a multiple
// of a unit's.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    spans_write(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
                const uint16_t *symbols, const uint32_t *map, const uint8_t *entries, const uint8_t *counts, const uint32_t *before,
                const Totals *totals, uint32_t room, uint32_t *sums, uint8_t *out) {
    extern __shared__ uint4 dynamic[];
    constexpr uint32_t TABLE_BYTES = FULL ? FULL_TABLE * 2 : (TABLE + LONG_ENTRIES) * 4;
    __shared__ Stream stream;
    __shared__ Book book;
    uint4 *buffer = dynamic + TABLE_BYTES / 16 + warp_id() * (room / SYMBOLS_IN_UNIT);
    Run rest(totals->sequences);
    while (rest.next < rest.end) {
        uint32_t first_span, stop;
        const uint32_t number = rest.stream(streams, stream_count, first_span, stop);
        load_stream(stream, book, streams, number, books);
#if FULL
        load_words(reinterpret_cast<uint32_t *>(dynamic), tables + stream.first_book * (FULL_TABLE / 2), FULL_TABLE / 2);
        const FullDecoder decoder{reinterpret_cast<const uint16_t *>(dynamic)};
#else
        load_lookup(reinterpret_cast<uint32_t *>(dynamic), tables, stream, book);
        const Decoder decoder(reinterpret_cast<const uint32_t *>(dynamic), LONG_ENTRIES, &book, symbols);
#endif
        __syncthreads();
        spans_of(stream, first_span, stop);
        const uint32_t all = stream.live * GROUP;
        Checksum checksum{0, 0};
        uint32_t subsequence = (first_span + warp_id()) * WARP + lane_id();
        LaneWords words;
        uint32_t entry = 0, count = 0;
        const auto load = [&] {
            count = 0;
            if (bits_in(stream, subsequence) > 0) {
                words.load(input, stream, subsequence);
                entry = entries[uint64_t(stream.first_subsequence) + subsequence];
                count = counts[uint64_t(stream.first_subsequence) + subsequence];
            }
        };
        load();
        for (uint32_t span = first_span + warp_id(); span < stop; span += WARPS) {
            uint32_t sum = count;
            for (uint32_t distance = 1; distance < WARP; distance *= 2) {
                const uint32_t below = __shfl_up_sync(ALL_LANES, sum, distance);
                sum += lane_id() >= distance ? below : 0;
            }
            const uint32_t base = before[stream.first_sequence * SPANS + span];
            Lane<decltype(decoder)> lane{decoder, LaneReader(words, entry), base + sum - count, count};
            // The next span's words are under way meanwhile.
            subsequence += WARPS * WARP;
            load();
            // Damaged codewords may be more than there is room for.
            const uint32_t begin = min_of(all, base), end = min_of(all, base + __shfl_sync(ALL_LANES, sum, WARP - 1));
            for (uint32_t first = begin / SYMBOLS_IN_UNIT * SYMBOLS_IN_UNIT; first < end; first += room) {
                const uint32_t round_end = min_of(end, first + room);
                lane.put(reinterpret_cast<uint8_t *>(buffer), first,
                         lane.position < round_end ? min_of(lane.count, round_end - lane.position) : 0);
                __syncwarp();
                flush(buffer, first, max_of(begin, first), round_end, stream, map, out, checksum);
                __syncwarp();
            }
        }
        checksum.flush(&sums[2 * number]);
    }
}
