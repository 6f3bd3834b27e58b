// Entry points of streams without an index, by self-synchronization (Weißenberger and Schmidt 2018).
//
// Phase 1 of the paper, within a warp: every lane decodes its subsequences from their first bit. The end of a lane is
// the entry point of the next lane, which decodes again if it had started elsewhere, until nothing changes. Phase 2
// joins segments, the subsequences of one warp: one thread per segment decodes from the exit of the previous one. As in
// the 2022 paper, threads without work stop at once. Phases 3 and 4, output index and writing, are those of decoding
// with the gap index.
//
// A lane has several consecutive subsequences. Decoding again stops at the first one with an unchanged exit, usually
// the very first, so a second round costs a fraction of the first, and a third is rare. No warp waits for another.
//
// Streams that do not synchronize within ROUNDS rounds or MAX_JOINED subsequences are left to
// decode/compose.cu.
//
// ROUNDS                 maximum number of rounds per warp
// MAX_JOINED             maximum number of subsequences of a segment that joining decodes
#include "device/sync.cuh"
#include "decode/subsequences.cuh"

constexpr uint32_t SUBSEQUENCES = 4; // per lane
static_assert(SUBSEQUENCES == 4 && SUBSEQUENCE_BITS < 256, "entries, exits and counts are bytes of a word");
// Subsequences that a warp synchronizes.
constexpr uint32_t SEGMENT = WARP * SUBSEQUENCES;
constexpr uint32_t SEGMENTS = SEQUENCE / SEGMENT; // per sequence
static_assert(SEGMENTS > 0, "sequences are whole segments");
static_assert(MAX_JOINED < SEGMENT, "joining stays in a segment");
// Exits that differ from those of any subsequence.
constexpr uint32_t NO_EXITS = 0xFFFFFFFF;

__device__ inline uint32_t with_byte(uint32_t word, uint32_t i, uint32_t byte) {
    return word & ~(0xFFu << 8 * i) | byte << 8 * i;
}

// The lane's subsequences, one byte each: their exits, in bits after their ends, and the number of codewords that start
// in them.
struct LaneSubsequences {
    uint32_t exits, counts;

    // Decodes from bit `entry` of subsequence `first` on, up to the first subsequence whose exit does not change.
    __device__ inline void decode(const Counter &counter, const uint8_t *input, const StreamDescriptor &stream,
                                  uint32_t first, uint32_t entry) {
        bool changed = true;
        SubsequenceWords words;
        words.load(input, stream, first);
        for (uint32_t i = 0; i < SUBSEQUENCES && changed; ++i) {
            const uint32_t bits = bits_in(stream, first + i);
            SubsequenceReader reader(words, entry);
            if (i + 1 < SUBSEQUENCES && bits_in(stream, first + i + 1) > 0) {
                words.load(input, stream, first + i + 1);
            }
            uint32_t count = 0;
            entry = 0;
            if (bits > 0) {
                uint32_t end;
                count = counter.count(reader, bits, end);
                entry = end - bits;
            }
            changed = entry != (exits >> 8 * i & 0xFF);
            exits = with_byte(exits, i, entry);
            counts = with_byte(counts, i, count);
        }
    }

    __device__ inline uint32_t exit() const { return exits >> 24; }
    // Returns the entry points of all subsequences, from that of the first.
    __device__ inline uint32_t entries(uint32_t entry) const { return exits << 8 | entry; }
};

// Phase 1: entry points and counts of all subsequences, assuming that each segment starts with a codeword, and the
// `exits` of segments. Sets `failed` for streams that have not synchronized, and in its last word for all.
extern "C" __global__ void __launch_bounds__(THREADS)
    self_sync_segments(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                       const CodebookDescriptor *codebooks, const uint16_t *count_tables, const BatchTotals *totals,
                       uint8_t *entries, uint8_t *counts, uint8_t *exits, uint32_t *failed) {
    __shared__ __align__(16) uint16_t table[COUNTS + ENDS];
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    BlockShare<SEGMENTS> rest(totals->sequences);
    while (rest.next < rest.end) {
        uint32_t first_segment, stop;
        const uint32_t number = rest.stream(streams, stream_count, first_segment, stop);
        load_stream(stream, codebook, streams, number, codebooks);
        // prepare_batch has written the tables; the next kernel may read them before it waits.
        wait_and_launch_dependents();
        load_counts(table, count_tables, stream, true);
        __syncthreads();
        const Counter counter(table, &codebook);
        for (uint32_t segment = first_segment + warp_id(); segment < stop; segment += WARPS) {
            const uint32_t first = segment * SEGMENT + lane_id() * SUBSEQUENCES;
            const bool exists = bits_in(stream, first) > 0;
            LaneSubsequences own{NO_EXITS, 0};
            uint32_t entry = 0, rounds = 0;
            bool again = exists;
            do {
                if (again) {
                    own.decode(counter, input, stream, first, entry);
                }
                const uint32_t before = __shfl_up_sync(ALL_LANES, own.exit(), 1);
                const uint32_t found = lane_id() > 0 ? before : 0;
                // There are no codewords after the end of the stream.
                again = found != entry && exists;
                entry = found;
            } while (__any_sync(ALL_LANES, again) && ++rounds < ROUNDS);
            const uint64_t at = uint64_t(stream.first_subsequence) + first;
            *reinterpret_cast<uint32_t *>(entries + at) = own.entries(entry);
            *reinterpret_cast<uint32_t *>(counts + at) = own.counts;
            if (lane_id() == WARP - 1) {
                exits[stream.first_sequence * SEGMENTS + segment] = own.exit();
            }
            if (again) {
                failed[number] = failed[stream_count] = 1;
            }
        }
    }
    // Blocks without segments wait, too: the next kernel relies on this one to have waited for those before it.
    wait_and_launch_dependents();
}

// Decodes a segment again from `entry`, the exit of the previous segment, until the exits no longer change. Returns
// whether the next segment is affected, too.
__device__ inline bool join(const Counter &counter, const uint8_t *input, const StreamDescriptor &stream,
                            uint32_t segment, uint32_t entry, uint8_t *entries, uint8_t *counts) {
    for (uint32_t done = 0; done < MAX_JOINED; ++done) {
        const uint32_t subsequence = segment * SEGMENT + done, bits = bits_in(stream, subsequence);
        const uint64_t at = uint64_t(stream.first_subsequence) + subsequence;
        if (bits == 0) {
            return false;
        }
        SubsequenceWords words;
        words.load(input, stream, subsequence);
        SubsequenceReader reader(words, entry);
        entries[at] = entry;
        counts[at] = counter.count(reader, bits, entry);
        entry -= bits;
        if (entry == entries[at + 1]) {
            return false;
        }
    }
    return bits_in(stream, segment * SEGMENT + MAX_JOINED) > 0;
}

// Phase 2, one thread per segment. If a segment affects the next one, the stream has failed. Tables are in shared
// memory, because a thread's lookups depend on each other.
extern "C" __global__ void __launch_bounds__(THREADS)
    self_sync_join(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                   const CodebookDescriptor *codebooks, const uint16_t *count_tables, const BatchTotals *totals,
                   uint8_t *entries, uint8_t *counts, const uint8_t *exits, uint32_t *failed) {
    __shared__ __align__(16) uint16_t table[COUNTS + ENDS];
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    BlockShare<SEGMENTS> rest(totals->sequences);
    while (rest.next < rest.end) {
        uint32_t first_segment, stop;
        const uint32_t number = rest.stream(streams, stream_count, first_segment, stop);
        load_stream(stream, codebook, streams, number, codebooks);
        launch_dependents_and_wait();
        // The first segment of a stream starts with a codeword.
        const uint32_t first = max_of(first_segment, 1u) + threadIdx.x;
        const uint8_t *exits_before = exits + stream.first_sequence * SEGMENTS - 1;
        bool any = false;
        for (uint32_t segment = first; segment < stop; segment += THREADS) {
            any = any || exits_before[segment] != 0;
        }
        if (!__syncthreads_or(any && !failed[number])) {
            continue;
        }
        load_counts(table, count_tables, stream, true);
        __syncthreads();
        const Counter counter(table, &codebook);
        for (uint32_t segment = first; segment < stop; segment += THREADS) {
            const uint32_t entry = exits_before[segment];
            if (entry != 0 && join(counter, input, stream, segment, entry, entries, counts)) {
                failed[number] = failed[stream_count] = 1;
            }
        }
    }
    launch_dependents_and_wait();
}
