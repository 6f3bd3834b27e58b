// Prepares a batch of streams for the decoders on the device: descriptors, codebooks, and symbols in canonical order.
//
// BITMAP_BLOCK_GROUPS    groups that a block of prepare_batch maps
#include "huffman/decode/parse.cuh"

// One block per stream and codebook. `done` and `status` are 0 at the start.
extern "C" __global__ void __launch_bounds__(THREADS)
    parse_streams(const uint8_t *input, const Limits limits, const StreamLocation *locations, uint32_t count,
                  StreamDescriptor *streams, CodebookDescriptor *codebooks, uint16_t *symbols, uint8_t *marks,
                  BatchTotals *totals, uint32_t *status, uint32_t *done) {
    __shared__ __align__(16) ParseScratch scratch;
    __shared__ uint64_t warp_sums[PARSE_WARPS];
    constexpr uint32_t CODEBOOKS = MAX_CODEBOOKS;
    constexpr uint32_t ALPHABETS = SYMBOL_BYTES == 1 ? 256 * CODEBOOKS : 65536, STRIDE = ALPHABETS / CODEBOOKS;
    static_assert(SYMBOL_BYTES == 1 || MARKS * CODEBOOKS <= ALPHABETS, "a place for the symbols of each codebook");
    const uint32_t number = blockIdx.x, own = blockIdx.y;
    const StreamLocation &at = locations[number];
    const uint64_t room = uint64_t(at.groups) << GROUP_LOG2;
    const bool inside = at.offset % 16 == 0 && at.offset <= limits.input_bytes &&
                        at.length <= limits.input_bytes - at.offset && at.length <= limits.length &&
                        at.groups <= limits.groups && at.out * SYMBOL_BYTES % 16 == 0 &&
                        at.out <= limits.output_symbols && room <= limits.output_symbols - at.out &&
                        at.classes <= limits.classes && at.groups <= limits.classes - at.classes;
    const StreamBounds bounds{at.offset, inside ? at.length : 0, at.groups, SYMBOL_BYTES, GROUP_LOG2, CODEBOOKS};
    const uint32_t slot = number * CODEBOOKS;
    const CodebookOutput to{codebooks + slot,   slot,   symbols,
                            number * ALPHABETS, STRIDE, marks + uint64_t(number) * ALPHABETS};
    uint32_t own_status;
    parse_stream(input, bounds, own, to, at.out, at.classes, streams[number], own_status, scratch);
    if (threadIdx.x == 0 && own_status != 0) {
        atomicOr(&status[number], own_status);
    }
    if (is_last_block(done, gridDim.x * gridDim.y)) {
        sum_batch(streams, count, totals, warp_sums, BITMAP_BLOCK_GROUPS);
    }
}
