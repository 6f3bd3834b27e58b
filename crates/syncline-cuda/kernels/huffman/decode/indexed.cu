// Decoding with the symbol index: one warp per index block of 32 coded groups, one lane per group.
//
// The words of the index block are copied to shared memory; each lane's start is the prefix sum of the lengths in the
// index. A lookup gives up to two symbols. Symbols are collected in registers, stored 16 bytes at a time to a tile in
// shared memory (one row per lane; 16-byte units are permuted by lane to avoid bank conflicts on both sides), and
// written to memory in whole rows. No warp waits for another block.
//
// CODEBOOKS              codebooks whose tables a block has room for: 1 or 4
// SHARED_LONG_ENTRIES    entries for long codewords in each table
// TABLE_SKEW             see huffman/decode/lookup.cuh
// THREADS                maximum number of threads per block
// ROW                    maximum number of bytes per row of the tile, 64 or 128
// SEQUENCE               subsequences per sequence
#define NARROW_ROWS !PAIRS
#if CODEBOOKS == 1
#define LAST_SYMBOLS 512
#endif
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "huffman/decode/index_block.cuh"

// Sets the index blocks of this block: at most `most`, all of one stream. A small batch has about one per warp, and
// index blocks of a second stream would have to wait until the first is done and its tables are replaced.
__device__ inline void share_of_one_stream(const StreamDescriptor *streams, uint32_t count, uint32_t most,
                                           uint32_t &task, uint32_t &end) {
    task = end = 0;
    uint32_t block = blockIdx.x;
    for (uint32_t first = 0; first < count; first += WARP) {
        const uint32_t i = first + lane_id();
        const uint32_t tasks = i < count ? ceil_div(streams[i].coded_groups, WARP) : 0, blocks = ceil_div(tasks, most);
        const uint32_t start = i < count ? streams[i].first_index_block : 0;
        const uint32_t through = warp_inclusive_sum(blocks), found = __ballot_sync(ALL_LANES, block < through);
        if (found != 0) {
            const uint32_t lane = __ffs(found) - 1;
            const uint32_t own = block - __shfl_sync(ALL_LANES, through - blocks, lane),
                           of = __shfl_sync(ALL_LANES, blocks, lane);
            const uint32_t from = __shfl_sync(ALL_LANES, start, lane), all = __shfl_sync(ALL_LANES, tasks, lane);
            task = from + uint64_t(all) * own / of;
            end = from + uint64_t(all) * (own + 1) / of;
            return;
        }
        block -= __shfl_sync(ALL_LANES, through, WARP - 1);
    }
}

// Divides the index blocks into shares of equal cost. An index block costs its bits and COST_OF_SYMBOL for each symbol,
// and the start of a stream costs as much as STREAM_CHANGE_COST index blocks, because tables are loaded and warps wait
// for the last one of the previous stream. For batches of short streams the latter is limited to a quarter of the whole
// cost.
constexpr uint32_t COST_OF_SYMBOL = 24, STREAM_CHANGE_COST = 20;
struct CostModel {
    static constexpr uint32_t OF_BLOCK = WARP * GROUP * COST_OF_SYMBOL;
    const uint8_t *input;
    const StreamDescriptor *streams;
    uint32_t count; // number of streams
    const BatchTotals &totals;

    // The cost of this many index blocks, sequences and stream starts.
    __device__ inline uint64_t of(uint32_t tasks, uint32_t sequences, uint32_t changes) const {
        return uint64_t(tasks) * OF_BLOCK + uint64_t(sequences) * (SEQUENCE * SUBSEQUENCE_BITS) + changes * change();
    }
    __device__ inline uint64_t change() const {
        return uint64_t(OF_BLOCK) * min_of(STREAM_CHANGE_COST, totals.index_blocks / count / 4);
    }

    // Returns the first index block of share `part`, counted over all streams. If the index is damaged, this is some
    // index block of the stream: all index blocks are decoded, some of them possibly twice. Called by a warp.
    __device__ inline uint32_t first_index_block(uint32_t part) const {
        if (part == gridDim.x) {
            return totals.index_blocks;
        }
        const uint64_t cost = of(totals.index_blocks, totals.sequences, count) / gridDim.x * part;
        const uint32_t number = find_stream_by_warp(
            cost, count, [&](uint32_t i) { return of(streams[i].first_index_block, streams[i].first_sequence, i); });
        const StreamDescriptor &stream = streams[number];
        const uint64_t before = of(stream.first_index_block, stream.first_sequence, number) + change();
        const uint64_t own = cost < before ? 0 : cost - before;
        const uint32_t tasks = ceil_div(stream.coded_groups, WARP);
        if (own >= uint64_t(tasks) * OF_BLOCK + stream.bits) {
            return stream.first_index_block + tasks;
        }
        const uint64_t *descriptors = reinterpret_cast<const uint64_t *>(input + stream.index);
        return stream.first_index_block + find_stream_by_warp(own, tasks, [&](uint32_t i) {
                   return uint64_t(i) * OF_BLOCK + uint32_t(descriptors[i]);
               });
    }
};

// Prefetches into the L2 cache the data that a block needs first for a stream: its codebooks, tables, index, and the
// words of one index block per warp. Called by a warp.
__device__ inline void prefetch_stream(const uint8_t *input, const StreamDescriptor &stream,
                                       const CodebookDescriptor *codebooks, const uint32_t *tables) {
    const auto prefetch = [](const void *from, uint32_t bytes) {
        for (uint32_t i = lane_id() * 128; i < bytes; i += WARP * 128) {
            asm volatile("prefetch.global.L2 [%0];" ::"l"(static_cast<const uint8_t *>(from) + i));
        }
    };
    constexpr uint32_t MOST_DESCRIPTORS = WARP * 8, MOST_LENGTHS = WARP * 64;
    const uint32_t blocks = ceil_div(stream.coded_groups, WARP), lengths = stream.index_bytes - blocks * 8,
                   own_codebooks = min_of<uint32_t>(stream.codebooks, CODEBOOKS);
    prefetch(&codebooks[stream.first_codebook], own_codebooks * sizeof(CodebookDescriptor));
    prefetch(tables + uint64_t(stream.first_codebook) * CODEBOOK_WORDS, own_codebooks * CODEBOOK_WORDS * 4);
    prefetch(input + stream.index, min_of(blocks * 8, MOST_DESCRIPTORS));
    prefetch(input + stream.index + uint64_t(blocks) * 8, min_of(lengths, MOST_LENGTHS));
    prefetch(input + stream.words, min_of(blocks, WARP) * (stream.bits / 8 / max_of(blocks, 1u)));
}

// `sums` has two words per stream and one more, `status` one per stream. `staged_words`, a multiple of 4, is the space
// for a warp's input; an index block that is longer is decoded with a narrow tile or in several rounds. Blocks take
// shares of equal cost of all index blocks, or, if `max_index_blocks` is not 0, at most this many index blocks of one
// stream.
extern "C" __global__ void __launch_bounds__(THREADS)
    indexed_decode(const uint8_t *input, const StreamDescriptor *streams, uint32_t stream_count,
                   const CodebookDescriptor *codebooks, const uint32_t *tables, const uint16_t *symbols,
                   const uint8_t *classes, const uint32_t *map, const BatchTotals *totals, uint32_t max_index_blocks,
                   uint32_t staged_words, uint32_t *sums, uint32_t *status, uint8_t *out) {
    extern __shared__ uint4 dynamic[];
#if LAST_SYMBOLS
    __shared__ CodebookWithLast own_codebook;
    CodebookDescriptor *own_codebooks = &own_codebook.codebook;
#else
    __shared__ CodebookDescriptor own_codebooks[CODEBOOKS];
#endif
    __shared__ StreamDescriptor stream;
    __shared__ uint32_t drawn, bounds[2];
    uint32_t *own_tables = reinterpret_cast<uint32_t *>(dynamic);
    uint4 *tile = dynamic + CODEBOOKS * SHARED_TABLE_WORDS / 4 + warp_id() * (TILE_BYTES + staged_words * 4) / 16;
    const WarpBuffers buffers{
        input, symbols, classes, out, tile, reinterpret_cast<uint32_t *>(tile + TILE_BYTES / 16), staged_words};
    const uint32_t warps = blockDim.x / WARP;

    // The tables, map, sums and status, which prepare_batch writes, must not be accessed before the wait below.
    uint32_t task, end;
    if (max_index_blocks != 0) {
        share_of_one_stream(streams, stream_count, max_index_blocks, task, end);
    } else {
        for (uint32_t i = warp_id(); i < 2; i += warps) {
            const uint32_t bound = CostModel{input, streams, stream_count, *totals}.first_index_block(blockIdx.x + i);
            if (lane_id() == 0) {
                bounds[i] = bound;
            }
        }
        __syncthreads();
        task = bounds[0];
        end = bounds[1];
    }
    while (task < end) {
        const uint32_t number =
            find_stream_by_warp(task, stream_count, [&](uint32_t i) { return streams[i].first_index_block; });
        __syncthreads();
        if (threadIdx.x < sizeof(StreamDescriptor) / 4) {
            reinterpret_cast<uint32_t *>(&stream)[threadIdx.x] =
                reinterpret_cast<const uint32_t *>(&streams[number])[threadIdx.x];
        }
        if (threadIdx.x == 0) {
            drawn = task + warps;
        }
        __syncthreads();
        const uint32_t codebook_count = min_of<uint32_t>(stream.codebooks, CODEBOOKS);
        for (uint32_t i = threadIdx.x; i < codebook_count * sizeof(CodebookDescriptor) / 4; i += blockDim.x) {
            reinterpret_cast<uint32_t *>(own_codebooks)[i] =
                reinterpret_cast<const uint32_t *>(&codebooks[stream.first_codebook])[i];
        }
        __syncthreads();
        launch_dependents_and_wait();
#if LAST_SYMBOLS
        own_codebook.last.load(own_codebook.codebook, symbols);
#endif
        const bool paired = load_stream_tables<SHARED_TABLE_ENTRIES>(
            own_tables, tables + uint64_t(stream.first_codebook) * CODEBOOK_WORDS, symbols, own_codebooks,
            codebook_count);
        const BlockContext context{stream, own_codebooks, own_tables, codebook_count, paired};

        const uint32_t stop = min_of(end, stream.first_index_block + ceil_div(stream.coded_groups, WARP));
        uint32_t next = task + warp_id();
#if PAIRS
        Checksum checksum{0, 0};
#endif
        while (next < stop) {
            const uint32_t block = next - stream.first_index_block, rank = block * WARP + lane_id();
            const bool has_group = rank < stream.coded_groups;
            const IndexBlock at(input, stream, block);
            const bool damaged = __any_sync(ALL_LANES, at.damaged);
#if !PAIRS
            // Registers are too scarce to keep sums across iterations.
            Checksum checksum{0, 0};
#endif
            const uint32_t problems =
                damaged ? STATUS_INDEX
                        : warp_reduce_or(decode_block(context, buffers, at, block,
                                                      group_of_rank(stream, map, has_group ? rank : 0), has_group,
                                                      checksum));
            if (problems != 0 && lane_id() == 0) {
                atomicOr(&status[number], problems);
            }
#if PAIRS
            next += warps;
#else
            checksum.flush(&sums[2 * number]);
            // Warps take index blocks dynamically: with long codewords their costs differ.
            uint32_t drawing = 0;
            if (lane_id() == 0) {
                drawing = atomicAdd(&drawn, 1u);
            }
            next = __shfl_sync(ALL_LANES, drawing, 0);
#endif
        }
#if PAIRS
        checksum.flush(&sums[2 * number]);
#endif
        // The first warp without work.
        if (next == stop && stop < end) {
            prefetch_stream(input,
                            streams[find_stream_by_warp(stop, stream_count,
                                                        [&](uint32_t i) { return streams[i].first_index_block; })],
                            codebooks, tables);
        }
        task = stop;
    }
    launch_dependents_and_wait();
    verify_in_last_block(streams, stream_count, sums, status);
}
