// Finding where codewords start in streams that do not synchronise.
//
// A subsequence is a function from where its first codeword starts (one of as many bits as the longest codeword has) to where the next subsequence's does. Functions
// compose in any grouping: so blocks compose those of their sequences, one block a stream walks along the sequences, and then every block knows its start. That costs as
// many decodings of everything as the longest codeword has bits, twice, and always ends. Blocks of streams that have not failed leave at once.
#include "huffman_decode_spans.cuh"

static_assert(THREADS == SEQUENCE, "a thread has a subsequence");

// Subsequences whose functions a thread composes.
constexpr uint32_t SPAN = 16;
constexpr uint32_t SPANS = SEQUENCE / SPAN;

// What a block finds out about its stream; the same in every kernel here.
struct Place {
    uint32_t stream, number; // number: of the sequence in the stream
};

__device__ inline Place place_of_block(const Stream *streams, uint32_t stream_count) {
    uint32_t stream = stream_of(blockIdx.x, stream_count, [&](uint32_t i) { return streams[i].first_sequence; });
    return {stream, blockIdx.x - streams[stream].first_sequence};
}

// Decodes the thread's subsequence of so many bits from `entry` bits after its start: where the next one's first codeword starts, and how many codewords there are.
struct Outcome {
    uint32_t exit, count;
};

__device__ inline Outcome decode_subsequence(const Counter &counter, const Sequence &sequence, uint32_t last, uint32_t bits, uint32_t entry) {
    if (bits == 0) {
        return {0, 0};
    }
    const uint32_t start = threadIdx.x * SUBSEQUENCE_BITS, stop = start + bits;
    Reader<Padded> reader({sequence.words}, last, start + entry);
    const uint32_t count = counter.count(reader, stop);
    return {reader.position - stop, count};
}

// For streams that failed. With `resolve` 0: writes each sequence's function, LONGEST exits. With 1: finds entries and counts, given each sequence's entry.
extern "C" __global__ void __launch_bounds__(SEQUENCE)
    self_sync_compose(const uint8_t *input, const Stream *streams, uint32_t stream_count, const Book *books, const uint32_t *tables,
                      const Totals *totals, uint32_t resolve, const uint32_t *failed, const uint8_t *sequence_entries, uint8_t *functions,
                      uint8_t *entries, uint8_t *counts) {
    __shared__ __align__(16) uint32_t table[TABLE];
    __shared__ Sequence sequence;
    __shared__ Stream stream;
    __shared__ Book book;
    __shared__ uint8_t own_functions[SEQUENCE][LONGEST];
    __shared__ uint8_t span_functions[SPANS][LONGEST];
    __shared__ uint8_t span_entries[SPANS];
    __shared__ uint8_t own_entries[SEQUENCE];
    if (blockIdx.x >= totals->sequences) {
        return;
    }
    const Place place = place_of_block(streams, stream_count);
    if (!failed[place.stream]) {
        return;
    }
    load_stream(stream, book, streams, place.stream, books);
    load_counts(table, tables, stream);
    const uint32_t last = sequence.load(input, stream, place.number);
    __syncthreads();
    const Counter counter{table, &book};
    const uint32_t bits = bits_in(stream, place.number * SEQUENCE + threadIdx.x);
    const uint32_t offsets = max_of(1u, min_of<uint32_t>(stream.longest, LONGEST));
    for (uint32_t entry = 0; entry < offsets; ++entry) {
        // The exit of a whole subsequence is less than the longest codeword; of the stream's end it does not matter.
        const Outcome outcome = decode_subsequence(counter, sequence, last, bits, entry);
        own_functions[threadIdx.x][entry] = min_of(outcome.exit, offsets - 1);
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
            functions[uint64_t(blockIdx.x) * LONGEST + threadIdx.x] = at;
        }
        return;
    }
    if (threadIdx.x == 0) {
        uint32_t at = min_of<uint32_t>(sequence_entries[blockIdx.x], offsets - 1);
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
    const uint32_t own = stream.first_subsequence + place.number * SEQUENCE + threadIdx.x;
    entries[own] = entry;
    counts[own] = decode_subsequence(counter, sequence, last, bits, entry).count;
}

// For streams that failed: walks along the sequences' functions from the stream's start. A block a stream.
extern "C" __global__ void __launch_bounds__(SEQUENCE) self_sync_walk(const Stream *streams, const uint32_t *failed, const uint8_t *functions,
                                                                      uint8_t *sequence_entries) {
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
