// Entry points of streams that do not self-synchronize.
//
// Each subsequence is a function from its entry point (one of as many offsets as the longest codeword has bits) to the
// entry point of the next subsequence. Composition is associative: blocks compose the functions of their sequences, one
// block per stream walks along the sequences, and then every block knows its entry point. This always terminates, and
// costs two decodings of the stream for each possible entry point. Blocks of streams that have synchronized return at
// once.
#include "device/sync.cuh"
#include "decode/subsequences.cuh"

static_assert(THREADS == SEQUENCE, "a thread has a subsequence");

// Subsequences whose functions one thread composes.
constexpr uint32_t RUN = 16;
constexpr uint32_t RUNS = SEQUENCE / RUN;

// For streams that failed to synchronize. With `resolve` 0, writes the function of each sequence, LONGEST exits. With
// `resolve` 1, writes the entry points and counts of all subsequences, from the entry point of each sequence.
extern "C" __global__ void __launch_bounds__(SEQUENCE)
    compose_functions(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                      const CodebookDescriptor *codebooks, const uint16_t *count_tables, const BatchTotals *totals,
                      uint32_t resolve, const uint32_t *failed, const uint8_t *sequence_entries, uint8_t *functions,
                      uint8_t *entries, uint8_t *counts) {
    launch_dependents_and_wait();
    extern __shared__ uint4 dynamic[]; // COUNTS + ENDS entries
    __shared__ StreamDescriptor stream;
    __shared__ CodebookDescriptor codebook;
    __shared__ uint8_t own_functions[SEQUENCE][LONGEST];
    __shared__ uint8_t run_functions[RUNS][LONGEST];
    __shared__ uint8_t run_entries[RUNS];
    __shared__ uint8_t own_entries[SEQUENCE];
    if (!failed[stream_count]) {
        return;
    }
    uint16_t *table = reinterpret_cast<uint16_t *>(dynamic);
    uint32_t loaded = ALL_LANES;
    for (uint32_t unit = blockIdx.x; unit < totals->sequences; unit += gridDim.x) {
        const uint32_t number = find_stream(unit, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        if (!failed[number]) {
            continue;
        }
        __syncthreads();
        if (number != loaded) {
            load_stream(stream, codebook, streams, number, codebooks);
            load_counts(table, count_tables, stream, true);
            loaded = number;
            __syncthreads();
        }
        const Counter counter(table, &codebook);
        const uint32_t subsequence = (unit - stream.first_sequence) * SEQUENCE + threadIdx.x,
                       bits = bits_in(stream, subsequence);
        SubsequenceWords words{};
        if (bits > 0) {
            words.load(input, stream, subsequence);
        }
        // Counts the codewords of the thread's subsequence from bit `entry` on. Sets `exit` to the entry point of the
        // next subsequence.
        const auto decode = [&](uint32_t entry, uint32_t &exit) {
            SubsequenceReader reader(words, entry);
            uint32_t end = bits;
            const uint32_t count = bits == 0 ? 0 : counter.count(reader, bits, end);
            exit = end - bits;
            return count;
        };
        const uint32_t offsets = max_of(1u, min_of<uint32_t>(stream.longest, LONGEST));
        for (uint32_t entry = 0; entry < offsets; ++entry) {
            // The exit of a whole subsequence is less than the length of the longest codeword. At the end of the stream
            // it does not matter.
            uint32_t exit;
            decode(entry, exit);
            own_functions[threadIdx.x][entry] = min_of(exit, offsets - 1);
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < RUNS * offsets; i += SEQUENCE) {
            const uint32_t run = i / offsets;
            uint32_t at = i % offsets;
            for (uint32_t j = 0; j < RUN; ++j) {
                at = own_functions[run * RUN + j][at];
            }
            run_functions[run][i % offsets] = at;
        }
        __syncthreads();
        if (!resolve) {
            if (threadIdx.x < LONGEST) {
                uint32_t at = min_of<uint32_t>(threadIdx.x, offsets - 1);
                for (uint32_t run = 0; run < RUNS; ++run) {
                    at = run_functions[run][at];
                }
                functions[uint64_t(unit) * LONGEST + threadIdx.x] = at;
            }
            continue;
        }
        if (threadIdx.x == 0) {
            uint32_t at = min_of<uint32_t>(sequence_entries[unit], offsets - 1);
            for (uint32_t run = 0; run < RUNS; ++run) {
                run_entries[run] = at;
                at = run_functions[run][at];
            }
        }
        __syncthreads();
        if (threadIdx.x < RUNS) {
            uint32_t at = run_entries[threadIdx.x];
            for (uint32_t j = 0; j < RUN; ++j) {
                own_entries[threadIdx.x * RUN + j] = at;
                at = own_functions[threadIdx.x * RUN + j][at];
            }
        }
        __syncthreads();
        const uint32_t entry = own_entries[threadIdx.x];
        const uint64_t own = uint64_t(stream.first_subsequence) + subsequence;
        uint32_t exit;
        entries[own] = entry;
        counts[own] = decode(entry, exit);
    }
}

// For streams that failed to synchronize: walks along the functions of the sequences from the start of the stream. One
// block per stream.
extern "C" __global__ void __launch_bounds__(SEQUENCE)
    compose_walk(const StreamDescriptor *streams, const uint32_t *failed, const uint8_t *functions,
                 uint8_t *sequence_entries) {
    launch_dependents_and_wait();
    __shared__ uint8_t part[SEQUENCE * LONGEST];
    __shared__ uint8_t found[SEQUENCE];
    const StreamDescriptor &stream = streams[blockIdx.x];
    if (!failed[blockIdx.x]) {
        return;
    }
    const uint32_t sequences = ceil_div(stream.bits, SEQUENCE_BITS);
    uint32_t at = 0;
    for (uint32_t first = 0; first < sequences; first += SEQUENCE) {
        const uint32_t count = min_of<uint32_t>(SEQUENCE, sequences - first);
        for (uint32_t i = threadIdx.x; i < count * LONGEST; i += SEQUENCE) {
            part[i] = functions[uint64_t(stream.first_sequence + first) * LONGEST + i];
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            for (uint32_t i = 0; i < count; ++i) {
                found[i] = at;
                at = part[i * LONGEST + at];
            }
        }
        __syncthreads();
        if (threadIdx.x < count) {
            sequence_entries[stream.first_sequence + first + threadIdx.x] = found[threadIdx.x];
        }
        __syncthreads();
    }
}
