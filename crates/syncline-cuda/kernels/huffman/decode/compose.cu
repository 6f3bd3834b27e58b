// Finding where codewords start in streams that do not synchronize.
//
// A subsequence is a function from where its first codeword starts (one of as many bits as the longest codeword has) to
// where the next subsequence's does. Functions compose in any grouping: so blocks compose those of their sequences, one
// block a stream walks along the sequences, and then every block knows its start. That costs as many decodings of
// everything as the longest codeword has bits, twice, and always ends. Blocks of streams that have not failed leave at
// once.
#include "device/sync.cuh"
#include "huffman/decode/subsequences.cuh"

static_assert(THREADS == SEQUENCE, "a thread has a subsequence");

// Subsequences whose functions a thread composes.
constexpr uint32_t SPAN = 16;
constexpr uint32_t SPANS = SEQUENCE / SPAN;

// For streams that failed. With `resolve` 0: writes each sequence's function, LONGEST exits. With 1: finds entries and
// counts, given each sequence's entry.
extern "C" __global__ void __launch_bounds__(SEQUENCE)
    compose_functions(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books,
                      const uint16_t *count_tables, const Totals *totals, uint32_t resolve, const uint32_t *failed,
                      const uint8_t *sequence_entries, uint8_t *functions, uint8_t *entries, uint8_t *counts) {
    launch_dependents_and_wait();
    extern __shared__ uint4 dynamic[]; // COUNTS + ENDS entries
    __shared__ Stream stream;
    __shared__ Book book;
    __shared__ uint8_t own_functions[SEQUENCE][LONGEST];
    __shared__ uint8_t span_functions[SPANS][LONGEST];
    __shared__ uint8_t span_entries[SPANS];
    __shared__ uint8_t own_entries[SEQUENCE];
    if (!failed[stream_count]) {
        return;
    }
    uint16_t *table = reinterpret_cast<uint16_t *>(dynamic);
    uint32_t loaded = ALL_LANES;
    for (uint32_t unit = blockIdx.x; unit < totals->sequences; unit += gridDim.x) {
        const uint32_t number = stream_of(unit, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
        if (!failed[number]) {
            continue;
        }
        __syncthreads();
        if (number != loaded) {
            load_stream(stream, book, streams, number, books);
            load_counts(table, count_tables, stream, true);
            loaded = number;
            __syncthreads();
        }
        const Counter counter(table, &book);
        const uint32_t subsequence = (unit - stream.first_sequence) * SEQUENCE + threadIdx.x,
                       bits = bits_in(stream, subsequence);
        LaneWords words{};
        if (bits > 0) {
            words.load(input, stream, subsequence);
        }
        // The thread's subsequence from `entry` on: how many codewords there are. Sets where the next one's first
        // starts.
        const auto decode = [&](uint32_t entry, uint32_t &exit) {
            LaneReader reader(words, entry);
            uint32_t end = bits;
            const uint32_t count = bits == 0 ? 0 : counter.count(reader, bits, end);
            exit = end - bits;
            return count;
        };
        const uint32_t offsets = max_of(1u, min_of<uint32_t>(stream.longest, LONGEST));
        for (uint32_t entry = 0; entry < offsets; ++entry) {
            // The exit of a whole subsequence is less than the longest codeword; of the stream's end it does not
            // matter.
            uint32_t exit;
            decode(entry, exit);
            own_functions[threadIdx.x][entry] = min_of(exit, offsets - 1);
        }
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < SPANS * offsets; i += SEQUENCE) {
            const uint32_t span = i / offsets;
            uint32_t at = i % offsets;
            for (uint32_t j = 0; j < SPAN; ++j) {
                at = own_functions[span * SPAN + j][at];
            }
            span_functions[span][i % offsets] = at;
        }
        __syncthreads();
        if (!resolve) {
            if (threadIdx.x < LONGEST) {
                uint32_t at = min_of<uint32_t>(threadIdx.x, offsets - 1);
                for (uint32_t span = 0; span < SPANS; ++span) {
                    at = span_functions[span][at];
                }
                functions[uint64_t(unit) * LONGEST + threadIdx.x] = at;
            }
            continue;
        }
        if (threadIdx.x == 0) {
            uint32_t at = min_of<uint32_t>(sequence_entries[unit], offsets - 1);
            for (uint32_t span = 0; span < SPANS; ++span) {
                span_entries[span] = at;
                at = span_functions[span][at];
            }
        }
        __syncthreads();
        if (threadIdx.x < SPANS) {
            uint32_t at = span_entries[threadIdx.x];
            for (uint32_t j = 0; j < SPAN; ++j) {
                own_entries[threadIdx.x * SPAN + j] = at;
                at = own_functions[threadIdx.x * SPAN + j][at];
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

// For streams that failed: walks along the sequences' functions from the stream's start. A block a stream.
extern "C" __global__ void __launch_bounds__(SEQUENCE)
    compose_walk(const Stream *streams, const uint32_t *failed, const uint8_t *functions, uint8_t *sequence_entries) {
    launch_dependents_and_wait();
    __shared__ uint8_t part[SEQUENCE * LONGEST];
    __shared__ uint8_t found[SEQUENCE];
    const Stream &stream = streams[blockIdx.x];
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
