// Finding where codewords start without an index: self-synchronization.
//
// Phase 1 of the 2018 paper in a warp: every lane decodes its subsequences from their first bit; the lane after it
// takes the place where it ended and decodes again if that is not where it had started, until nothing changes. Phase 2
// joins what warps did: a thread a warp's segment, from where the segment before it ended. As in the 2022 paper whoever
// has nothing to do leaves at once. Phases 3 and 4, where symbols go and writing them, are those of decoding with the
// gap index.
//
// A lane has several subsequences in a row. Decoding again ends with the first of them that ends where it ended before,
// mostly the very first: so a second round costs a fraction of the first, and a third is rare. No warp waits for
// another.
//
// Streams that do not settle in a bounded number of rounds, or that are not joined by a bounded number of subsequences,
// are left to huffman/decode/compose.cu.
//
// ROUNDS    rounds in a warp before giving up
// MAX_JOINED    subsequences of a segment that joining decodes before giving up
#include "device/sync.cuh"
#include "huffman/decode/subsequences.cuh"

constexpr uint32_t SUBSEQUENCES = 4; // of a lane
static_assert(SUBSEQUENCES == 4 && SUBSEQUENCE_BITS < 256, "entries, exits and counts are bytes of a word");
// What a warp synchronizes.
constexpr uint32_t SEGMENT = WARP * SUBSEQUENCES;
constexpr uint32_t SEGMENTS = SEQUENCE / SEGMENT; // of a sequence
static_assert(SEGMENTS > 0, "sequences are whole segments");
static_assert(MAX_JOINED < SEGMENT, "joining stays in a segment");
// Exits that no subsequence has.
constexpr uint32_t NO_EXITS = 0xFFFFFFFF;

__device__ inline uint32_t with_byte(uint32_t word, uint32_t i, uint32_t byte) {
    return word & ~(0xFFu << 8 * i) | byte << 8 * i;
}

// A lane's subsequences, a byte each: where they ended, in bits after their end, and how many codewords start in them.
struct Own {
    uint32_t exits, counts;

    // Decodes from `entry` bits after the start of subsequence `first`, up to the one that ends where it did before.
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
    // Where each starts, given where the first does.
    __device__ inline uint32_t entries(uint32_t entry) const { return exits << 8 | entry; }
};

// Phase 1: entries and counts of all subsequences, if each segment starts with a codeword; `exits` of the segments.
// `failed` is set for a stream that has not settled, and behind all of them.
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
        // Tables are what prepare_batch has made; whoever comes after may read them before it waits itself.
        wait_and_launch_dependents();
        load_counts(table, count_tables, stream, true);
        __syncthreads();
        const Counter counter(table, &codebook);
        for (uint32_t segment = first_segment + warp_id(); segment < stop; segment += WARPS) {
            const uint32_t first = segment * SEGMENT + lane_id() * SUBSEQUENCES;
            const bool exists = bits_in(stream, first) > 0;
            Own own{NO_EXITS, 0};
            uint32_t entry = 0, rounds = 0;
            bool again = exists;
            do {
                if (again) {
                    own.decode(counter, input, stream, first, entry);
                }
                const uint32_t before = __shfl_up_sync(ALL_LANES, own.exit(), 1);
                const uint32_t found = lane_id() > 0 ? before : 0;
                // Past the end of the stream there is nothing to find.
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
    // Blocks without segments too: that this kernel is done says that those before it are.
    wait_and_launch_dependents();
}

// Decodes a segment again from `entry` on, where the one before ended, up to where that makes no difference. Whether it
// makes one to the segment after it.
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

// Phase 2, a thread a segment. If one makes a difference to the segment after it, the stream has failed. Tables are in
// shared memory: each of a thread's lookups waits for the one before.
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
        // The first of a stream starts with a codeword.
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
