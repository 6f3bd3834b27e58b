// Finding where codewords start without an index: self-synchronisation.
//
// Phases 1 and 2 of the 2018 paper: in a sequence (a block) every thread decodes its subsequences from their first bit; the thread after it takes the place where it ended
// and decodes again if that is not where it had started, until nothing changes; then the same between sequences, in further launches. As in the 2022 paper a block
// that has nothing to do leaves at once. Phases 3 and 4, where symbols go and writing them, are decode_gap's, which takes the starts and counts found here.
//
// A thread has several subsequences in a row. Decoding again ends with the first of them that ends where it ended before, mostly the very first: so a second round costs
// a fraction of the first, and a third with much to do is rare. What goes to memory is about subsequences, as decode_gap wants it.
//
// Codes that do not synchronise are left to huffman_decode_compose.cu after a bounded number of rounds.
//
// SEQUENCE  subsequences in a sequence here
// JOINED    how many of decode_gap's sequences that is
// ROUNDS    rounds in a sequence before giving up
#include "huffman_decode_spans.cuh"

constexpr uint32_t SUBSEQUENCES = SEQUENCE / THREADS;
static_assert(SUBSEQUENCES == 4 && SUBSEQUENCE_BITS < 256, "entries, exits and counts are bytes of a word");
constexpr uint32_t SHORT_SEQUENCE = SEQUENCE / JOINED;
// Exits that no subsequence has.
constexpr uint32_t NO_EXITS = 0xFFFFFFFF;

struct Shared {
    Tables tables;
    Sequence sequence;
};

__device__ inline uint32_t with_byte(uint32_t word, uint32_t i, uint32_t byte) { return word & ~(0xFFu << 8 * i) | byte << 8 * i; }

// A thread's subsequences, a byte each: where they ended, in bits after their end, and how many codewords start in them.
struct Own {
    uint32_t exits, counts;

    // Decodes from `entry` bits after the first one's start, up to the one that ends where it did before.
    __device__ inline void decode(const Tables &tables, const Decoder &decoder, const Sequence &sequence, uint32_t last, uint32_t bits,
                                  uint32_t entry) {
        uint32_t start = threadIdx.x * THREAD_BITS;
        Reader<Padded> reader({sequence.words}, last, start + entry);
        bool changed = true;
        for (uint32_t i = 0; i < SUBSEQUENCES && changed; ++i) {
            uint32_t exit = 0, count = 0;
            if (start < bits) {
                const uint32_t stop = min_of(start + SUBSEQUENCE_BITS, bits);
                count = count_span(tables, decoder, reader, stop);
                exit = reader.position - stop;
            }
            changed = exit != (exits >> 8 * i & 0xFF);
            exits = with_byte(exits, i, exit);
            counts = with_byte(counts, i, count);
            start += SUBSEQUENCE_BITS;
        }
    }

    __device__ inline uint32_t exit() const { return exits >> 24; }
    // Where each starts, given where the first does.
    __device__ inline uint32_t entries(uint32_t entry) const { return exits << 8 | entry; }
};

// Where a block's results go. Exits are read of the launch before and written anew.
struct Results {
    uint8_t *entries, *counts; // of each subsequence
    uint8_t *sequence_entries; // with what entry each sequence was decoded last, at its first short one
    const uint8_t *exits_before;
    uint8_t *exits_after; // at its last short one, if it is whole
};

// Synchronises a stream's sequence `number`, whose first short one is number `head` of all. Returns whether threads still differ.
__device__ inline bool synchronise(Shared &shared, uint8_t *exits, const Stream &stream, const Decoder &decoder, const uint8_t *input,
                                   uint32_t number, uint32_t head, uint32_t first_entry, bool anew, const Results &results) {
    __syncthreads();
    const uint32_t last = shared.sequence.load(input, stream, number);
    __syncthreads();
    const uint32_t bits = bits_of(stream, number);
    // Subsequences that there is room for; those behind are neither read nor written.
    const uint32_t there = ceil_div(bits, SHORT_SEQUENCE * SUBSEQUENCE_BITS) * SHORT_SEQUENCE;
    const uint32_t first = threadIdx.x * SUBSEQUENCES;
    const uint64_t at = uint64_t(stream.first_subsequence) + number * SEQUENCE + first;
    const uint32_t head_end = head + JOINED - 1;
    uint32_t entry = threadIdx.x == 0 ? first_entry : 0;
    bool again = true;
    Own own{NO_EXITS, 0};
    if (!anew) {
        again = threadIdx.x == 0;
        if (first < there) {
            // Where a subsequence ended is where the next one was started; the last one's end is the sequence's.
            const uint32_t entries = *reinterpret_cast<const uint32_t *>(results.entries + at);
            const uint32_t exit = first + SUBSEQUENCES < there ? results.entries[at + SUBSEQUENCES]
                                  : there == SEQUENCE          ? results.exits_before[head_end]
                                                               : 0;
            own = {entries >> 8 | exit << 24, *reinterpret_cast<const uint32_t *>(results.counts + at)};
            entry = again ? first_entry : entries & 0xFF;
        }
    }
    uint32_t rounds = 0;
    bool unsettled;
    do {
        if (again) {
            own.decode(shared.tables, decoder, shared.sequence, last, bits, entry);
        }
        exits[threadIdx.x] = own.exit();
        __syncthreads();
        const uint32_t found = threadIdx.x > 0 ? exits[threadIdx.x - 1] : entry;
        // Past the end of the stream there is nothing to find.
        again = found != entry && threadIdx.x * THREAD_BITS < bits;
        entry = found;
        unsettled = __syncthreads_or(again);
    } while (unsettled && ++rounds < ROUNDS);
    if (first < there) {
        *reinterpret_cast<uint32_t *>(results.entries + at) = own.entries(entry);
        *reinterpret_cast<uint32_t *>(results.counts + at) = own.counts;
    }
    if (threadIdx.x == 0) {
        results.sequence_entries[head] = entry;
    }
    if (threadIdx.x == THREADS - 1 && there == SEQUENCE) {
        results.exits_after[head_end] = own.exit();
    }
    return unsettled;
}

// One launch of phase 1 (`first_launch`) or 2. A block has the sequences whose first short one is among `run` short ones of all. `failed` is set for a stream that has
// not settled in a sequence.
extern "C" __global__ void __launch_bounds__(THREADS)
    self_sync(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
              const uint16_t *symbols, uint32_t short_sequences, uint32_t run, uint32_t first_launch, Results results, uint32_t *failed) {
    extern __shared__ uint4 dynamic[];
    __shared__ Stream stream;
    __shared__ Book book;
    __shared__ uint8_t exits[THREADS];
    Shared &shared = *reinterpret_cast<Shared *>(dynamic);
    uint32_t loaded = ALL_LANES;
    uint32_t at = blockIdx.x * run;
    const uint32_t end = min_of(short_sequences, at + run);
    while (at < end) {
        const uint32_t stream_number = stream_of(at, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        const uint32_t stream_start = streams[stream_number].first_sequence;
        const uint32_t stream_end = stream_start + ceil_div(streams[stream_number].bits, SHORT_SEQUENCE * SUBSEQUENCE_BITS);
        const uint32_t number = ceil_div(at - stream_start, JOINED);
        const uint32_t head = stream_start + number * JOINED;
        // The sequences of a stream start anew with its first.
        at = min_of(stream_end, head + JOINED);
        if (head >= stream_end) {
            continue;
        }
        if (head >= end) {
            break;
        }
        uint32_t first_entry = 0;
        if (!first_launch) {
            first_entry = number > 0 ? results.exits_before[head - 1] : 0;
            // Other blocks may set `failed` meanwhile: the block decides as one.
            if (__syncthreads_or(first_entry == results.sequence_entries[head] || failed[stream_number])) {
                if (threadIdx.x == 0 && head + JOINED <= stream_end) {
                    results.exits_after[head + JOINED - 1] = results.exits_before[head + JOINED - 1];
                }
                continue;
            }
        }
        if (stream_number != loaded) {
            load_stream(stream, book, shared.tables, streams, stream_number, books, tables);
            loaded = stream_number;
        }
        const Decoder decoder(shared.tables.lookup, LONG_ENTRIES, &book, symbols);
        if (synchronise(shared, exits, stream, decoder, input, number, head, first_entry, first_launch, results) && threadIdx.x == 0) {
            failed[stream_number] = 1;
        }
    }
}

// Whether sequences start where those before them ended; a thread a short sequence.
extern "C" __global__ void __launch_bounds__(THREADS) self_sync_check(const Stream *streams, uint32_t stream_count, uint32_t short_sequences,
                                                                      const uint8_t *sequence_entries, const uint8_t *exits,
                                                                      uint32_t *failed) {
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < short_sequences) {
        const uint32_t stream = stream_of(i, stream_count, [&](uint32_t s) { return streams[s].first_sequence; });
        const uint32_t before = i - streams[stream].first_sequence;
        if (before > 0 && before % JOINED == 0 && sequence_entries[i] != exits[i - 1]) {
            failed[stream] = 1;
        }
    }
}
