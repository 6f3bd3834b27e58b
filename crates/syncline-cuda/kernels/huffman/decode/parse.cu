// From where streams stand in the input to what decoders want of them: descriptors, codebooks, symbols in canonical
// order.
//
// INDEX   the index that streams have; 3: any
// PLACED  groups that a block of decode_place looks after
#include "huffman/decode/parse.cuh"

// `places` say where streams are (a length of 0: nowhere, a damaged stream), where their symbols and classes go and how
// many groups there is room for.
struct Place {
    uint64_t offset, out, classes;
    uint32_t length, groups;
};

// What no place may go beyond: a stream that would is damaged.
struct Limits {
    uint64_t input_bytes, output_symbols, classes;
    uint32_t length, groups; // of each stream
};

// A block a stream and codebook. `done` and `status` are 0 at the start.
extern "C" __global__ void __launch_bounds__(THREADS)
    decode_parse(const uint8_t *input, const Limits limits, const Place *places, uint32_t count, Stream *streams,
                 Book *books, uint16_t *symbols, uint8_t *marks, Totals *totals, uint32_t *status, uint32_t *done) {
    __shared__ __align__(16) ParseScratch scratch;
    __shared__ uint64_t warp_sums[PARSE_WARPS];
    constexpr uint32_t BOOKS = INDEX == INDEX_SYMBOL ? MOST_BOOKS : 1;
    constexpr uint32_t ALPHABETS = SYMBOL_BYTES == 1 ? 256 * BOOKS : 65536, STRIDE = ALPHABETS / BOOKS;
    static_assert(SYMBOL_BYTES == 1 || MARKS * BOOKS <= ALPHABETS, "a place for the symbols of each codebook");
    const uint32_t number = blockIdx.x, own = blockIdx.y;
    const Place &at = places[number];
    const uint64_t room = uint64_t(at.groups) << GROUP_LOG2;
    const bool inside = at.offset % 16 == 0 && at.offset <= limits.input_bytes &&
                        at.length <= limits.input_bytes - at.offset && at.length <= limits.length &&
                        at.groups <= limits.groups && at.out * SYMBOL_BYTES % 16 == 0 &&
                        at.out <= limits.output_symbols && room <= limits.output_symbols - at.out &&
                        (BOOKS == 1 || (at.classes <= limits.classes && at.groups <= limits.classes - at.classes));
    const StreamPlace place{at.offset, inside ? at.length : 0, at.groups, SYMBOL_BYTES, GROUP_LOG2, INDEX};
    const uint32_t slot = number * BOOKS;
    const BookPlace to{books + slot, slot, symbols, number * ALPHABETS, STRIDE, marks + uint64_t(number) * ALPHABETS};
    uint32_t own_status;
    parse_stream(input, place, own, to, at.out, at.classes, streams[number], own_status, scratch);
    if (threadIdx.x == 0 && own_status != 0) {
        atomicOr(&status[number], own_status);
    }
    if (last_to_come(done, gridDim.x * gridDim.y)) {
        sum_streams(streams, count, totals, warp_sums, PLACED);
    }
}
