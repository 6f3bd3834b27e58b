// Coarse-grained decoding as in cuSZ (Tian et al., PACT 2020), the naive baseline in Section III and Table V of Rivera
// et al., IPDPS 2022. A thread decodes one chunk, a block of the symbol index or a whole stream without it, one symbol
// at a time, directly from and to device memory.
//
// THREADS                threads per block
#include "huffman/decode/decode.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    cusz_2020_decode(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                     const CodebookDescriptor *codebooks, const uint16_t *symbols, const uint8_t *classes,
                     const uint32_t *map, const BatchTotals *totals, uint32_t by_index, uint32_t *sums,
                     uint32_t *status, uint8_t *out) {
    const uint32_t piece = blockIdx.x * THREADS + threadIdx.x;
    if (piece >= (by_index ? totals->index_blocks : stream_count)) {
        return;
    }
    const uint32_t number =
        by_index ? find_stream(piece, stream_count, [&](uint32_t i) { return streams[i].first_index_block; }) : piece;
    const StreamDescriptor &stream = streams[number];
    const uint32_t block = piece - stream.first_index_block;
    const uint32_t first = by_index ? block * WARP : 0;
    const uint32_t end = by_index ? min_of(stream.coded_groups, first + WARP) : stream.coded_groups;
    const uint32_t start = by_index ? uint32_t(reinterpret_cast<const uint64_t *>(input + stream.index)[block]) : 0;
    if (first >= end) {
        return;
    }
    if (start > stream.bits) {
        atomicOr(&status[number], STATUS_INDEX);
        return;
    }
    WordReader<WordArray> reader({reinterpret_cast<const uint32_t *>(input + stream.words)}, stream.bits / 32 + 1,
                                 start);
    Checksum checksum{0, 0};
    for (uint32_t rank = first; rank < end; ++rank) {
        const uint32_t group = group_of_rank(stream, map, rank);
        uint32_t class_of_group = stream.codebooks > 1 ? classes[stream.classes + group] : 0;
        if (class_of_group >= stream.codebooks || codebooks[stream.first_codebook + class_of_group].longest == 0) {
            atomicOr(&status[number], STATUS_CLASS);
            return;
        }
        const CodebookDescriptor &codebook = codebooks[stream.first_codebook + class_of_group];
        for (uint32_t i = 0; i < GROUP; ++i) {
            Codeword one = find_codeword(codebook, symbols, reader.window(), 1);
            reader.skip(one.length);
            uint64_t at = stream.out + uint64_t(group) * GROUP + i;
            if (SYMBOL_BYTES == 1) {
                out[at] = one.symbol;
            } else {
                reinterpret_cast<uint16_t *>(out)[at] = one.symbol;
            }
            checksum.add_symbol(one.symbol, rank * GROUP + i);
        }
    }
    if (end == stream.coded_groups && reader.position != stream.bits) {
        atomicOr(&status[number], STATUS_COUNT);
    }
    atomicAdd(&sums[2 * number], checksum.sum);
    atomicAdd(&sums[2 * number + 1], checksum.weighted);
}
