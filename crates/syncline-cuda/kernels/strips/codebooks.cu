// Makes the codebooks of chunks from the symbols of their samples: `build` and `make_codebooks` in the core.
//
// THREADS  threads of a block
// See also strips/code_lengths.cuh and strips/sample.cuh.
#include "device/block.cuh"
#include "geometry.cuh"
#include "strips/code_lengths.cuh"
#include "strips/sample.cuh"
#include "strips/structs.cuh"

// What a count in a sample weighs beside the presence of a required symbol, and one in how many makes other symbols too
// rare for a codebook.
constexpr uint32_t WEIGHT = 32, RAREST = 4096;

// Returns the sum of the values of all threads.
template <typename T> __device__ inline T block_sum(T value, T *warp_sums) {
    T total;
    block_exclusive_sum<THREADS>(value, warp_sums, total);
    return total;
}

// Writes the canonical code of these lengths: for each symbol the codeword times 256 plus its length, or 0. Called by
// one warp.
__device__ inline void write_codewords(const uint8_t *lengths, const uint32_t *at_length, uint32_t *codewords) {
    // The first codeword of each length, a lane a length.
    uint32_t next = 0;
    for (uint32_t length = 1, code = 0; length <= strips::MAX_LENGTH; ++length) {
        code = (code + (length > 1 ? at_length[length - 1] : 0)) << 1;
        next = lane_id() == length ? code : next;
    }
    for (uint32_t first = 0; first < SYMBOLS; first += WARP) {
        const uint32_t symbol = first + lane_id(), length = symbol < SYMBOLS ? lengths[symbol] : 0;
        uint32_t codeword = 0;
        if (__any_sync(ALL_LANES, length != 0)) {
            uint32_t before = 0, more = 0;
            for (uint32_t other = 1; other <= strips::MAX_LENGTH; ++other) {
                const uint32_t lanes = __ballot_sync(ALL_LANES, length == other);
                before = length == other ? __popc(lanes & ((1u << lane_id()) - 1)) : before;
                more = lane_id() == other ? __popc(lanes) : more;
            }
            const uint32_t code = __shfl_sync(ALL_LANES, next, length) + before;
            codeword = length == 0 ? 0 : code << 8 | length;
            next += more;
        }
        if (symbol < SYMBOLS) {
            codewords[symbol] = codeword;
        }
    }
}

// Serializes a codebook: `Codebook::write` in the core. Returns the number of bytes. `starts` is memory for SYMBOLS + 1
// numbers. Called by one warp.
__device__ inline uint32_t serialize(const uint8_t *lengths, uint16_t *starts, uint8_t *bytes) {
    uint32_t alphabet = 0;
    for (uint32_t first = 0; first < SYMBOLS; first += WARP) {
        const uint32_t symbol = first + lane_id();
        const uint32_t occur = __ballot_sync(ALL_LANES, symbol < SYMBOLS && lengths[symbol] != 0);
        alphabet = occur != 0 ? first + 32 - __clz(int32_t(occur)) : alphabet;
    }
    uint32_t runs = 0;
    for (uint32_t first = 0; first < alphabet; first += WARP) {
        const uint32_t symbol = first + lane_id();
        const bool begins = symbol < alphabet && (symbol == 0 || lengths[symbol] != lengths[symbol - 1]);
        const uint32_t lanes = __ballot_sync(ALL_LANES, begins);
        if (begins) {
            starts[runs + __popc(lanes & ((1u << lane_id()) - 1))] = uint16_t(symbol);
        }
        runs += __popc(lanes);
    }
    if (lane_id() == 0) {
        starts[runs] = uint16_t(alphabet);
    }
    if (lane_id() < 4) {
        bytes[lane_id()] = uint8_t(alphabet >> 8 * lane_id());
    }
    __syncwarp();
    constexpr uint32_t LONG_RUN = 8;
    uint32_t position = 4;
    for (uint32_t first = 0; first < runs; first += WARP) {
        const uint32_t run = first + lane_id();
        const uint32_t length = run < runs ? starts[run + 1] - starts[run] : 0, rest = length - LONG_RUN,
                       size = length == 0         ? 0
                              : length < LONG_RUN ? 1
                              : rest < 0x80       ? 2
                                                  : 3;
        const uint32_t through = warp_inclusive_sum(size);
        uint8_t *own = bytes + position + through - size;
        if (size == 1) {
            own[0] = uint8_t(lengths[starts[run]] | (length - 1) << 5);
        } else if (size > 1) {
            own[0] = uint8_t(lengths[starts[run]] | 7 << 5);
            own[1] = uint8_t((rest & 0x7F) | (size > 2 ? 0x80 : 0));
            if (size > 2) {
                own[2] = uint8_t(rest >> 7);
            }
        }
        position += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
    return position;
}

// Returns the bits of a symbol, or of those that are written in its place if it has no codeword, with extra bits.
__device__ inline uint32_t bits_of_symbol(const uint8_t *lengths, uint32_t symbol) {
    if (lengths[symbol] != 0) {
        return lengths[symbol] + extra_bits_of(symbol);
    }
    const bool is_large = symbol >= strips::FIRST_LARGE && symbol < strips::ANY_VALUE;
    if (symbol >= strips::LONG_RUN && !is_large) {
        return 0;
    }
    const uint32_t run = is_large ? 0 : symbol / SIZES,
                   size = is_large ? symbol - strips::FIRST_LARGE + SIZES : symbol % SIZES;
    uint32_t bits = 0;
    for (uint32_t exponent = 0; exponent < 5; ++exponent) {
        bits += (run >> exponent & 1) != 0 ? lengths[symbol_of_power(exponent)] : 0;
    }
    // About what a small value would take, too.
    uint32_t alone = symbol_of(0, 1 << min_of(size, 30u));
    alone = lengths[alone] != 0 ? alone : uint32_t(strips::ANY_VALUE);
    return bits + lengths[alone] + extra_bits_of(alone);
}

// Chooses one or four codebooks for the codes of a chunk, and joins the serialized codebooks. Called by the whole block
// that is the last of the chunk.
__device__ inline void finish_chunk(const Sample &sample, uint32_t varying, const CodebookSize *sizes,
                                    const uint8_t *serialized, ChunkChoice &choice, uint8_t *codebooks) {
    const uint64_t tiles = sample.tiles, sampled = sample.count();
    // Bits of codewords and of codebooks, as if the whole chunk were like the sample.
    const CodebookSize one{__ldcg(&sizes[strips::ONE_CODEBOOK].bits), __ldcg(&sizes[strips::ONE_CODEBOOK].bytes)};
    uint64_t bits = 2 * uint64_t(varying);
    uint32_t ends[strips::MAX_CLASSES], bytes = 0;
    for (uint32_t book = 0; book < strips::MAX_CLASSES; ++book) {
        bits += __ldcg(&sizes[book].bits);
        bytes += uint32_t(__ldcg(&sizes[book].bytes));
        ends[book] = bytes;
    }
    const bool four = bits * tiles + 8 * bytes * sampled < one.bits * tiles + 8 * one.bytes * sampled;
    const uint32_t of_bitmaps = uint32_t(__ldcg(&sizes[strips::BITMAP_CODEBOOK].bytes));
    constexpr uint32_t ROOM = strips::CODEBOOK_BYTES;
    for (uint32_t i = threadIdx.x; i < (four ? bytes : uint32_t(one.bytes)); i += THREADS) {
        uint32_t book = strips::ONE_CODEBOOK, start = 0;
        if (four) {
            for (book = 0; ends[book] <= i; ++book) {
                start = ends[book];
            }
        }
        codebooks[i] = __ldcg(&serialized[book * ROOM + i - start]);
    }
    for (uint32_t i = threadIdx.x; i < of_bitmaps; i += THREADS) {
        codebooks[strips::BITMAP_CODEBOOK_AT + i] = __ldcg(&serialized[strips::BITMAP_CODEBOOK * ROOM + i]);
    }
    if (threadIdx.x == 0) {
        choice.classes = four ? strips::MAX_CLASSES : 1;
        choice.codebook_bytes = four ? bytes : uint32_t(one.bytes);
        choice.bitmap_codebook_bytes = of_bitmaps;
    }
}

// Makes the codebooks of chunks: those of classes, that of bitmaps, that of all classes together. A block makes one;
// the last one of a chunk chooses. The grid is (TABLES, chunks). `done` counts blocks and is 0 before. `serialized` and
// `sizes` are memory for each codebook.
extern "C" __global__ void __launch_bounds__(THREADS)
    make_codebooks(const __grid_constant__ ChunkBatch batch, const uint32_t *counts, const uint32_t *varying,
                   uint32_t *done, CodebookSize *sizes, uint8_t *serialized, ChunkChoice *choices, uint32_t *codewords,
                   uint8_t *codebooks) {
    __shared__ CodeBuilder builder;
    __shared__ uint32_t frequencies[SYMBOLS];
    __shared__ uint8_t lengths[SYMBOLS], bytes[strips::CODEBOOK_BYTES];
    __shared__ uint16_t starts[SYMBOLS + 1];
    __shared__ uint32_t at_length[WARP];
    __shared__ uint32_t sums_32[BLOCK_WARPS];
    __shared__ uint64_t sums_64[BLOCK_WARPS];
    __shared__ bool is_last;
    const uint32_t chunk = blockIdx.y, book = blockIdx.x;
    const Sample sample = Sample::counted(batch.chunk_first(chunk + 1) - batch.chunk_first(chunk));
    counts += uint64_t(chunk) * strips::CODEBOOKS * SYMBOLS;
    auto count_of = [&](uint32_t symbol) {
        if (book != strips::ONE_CODEBOOK) {
            return counts[book * SYMBOLS + symbol];
        }
        uint32_t sum = 0;
        for (uint32_t other = 0; other < strips::MAX_CLASSES; ++other) {
            sum += counts[other * SYMBOLS + symbol];
        }
        return sum;
    };
    uint32_t counted = 0;
    for (uint32_t symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
        counted += count_of(symbol);
    }
    const uint32_t total = block_sum(counted, sums_32);
    for (uint32_t symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
        const uint32_t count = count_of(symbol);
        frequencies[symbol] = sample.is_complete()                ? count
                              : is_required(symbol)               ? WEIGHT * count + 1
                              : uint64_t(count) * RAREST >= total ? WEIGHT * count
                                                                  : 0;
    }
    if (threadIdx.x < WARP) {
        at_length[threadIdx.x] = 0;
    }
    __syncthreads();
    code_lengths(frequencies, builder, lengths);
    for (uint32_t symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
        atomicAdd(&at_length[lengths[symbol]], 1u);
    }
    __syncthreads();
    uint32_t size = 0;
    if (warp_id() == 0) {
        write_codewords(lengths, at_length, codewords + (uint64_t(chunk) * strips::TABLES + book) * SYMBOLS);
    } else if (warp_id() == 1) {
        size = serialize(lengths, starts, bytes);
        if (lane_id() == 0) {
            starts[0] = uint16_t(size);
        }
    }
    uint64_t bits = 0;
    for (uint32_t symbol = threadIdx.x; symbol < SYMBOLS; symbol += THREADS) {
        bits += uint64_t(count_of(symbol)) * bits_of_symbol(lengths, symbol);
    }
    bits = block_sum(bits, sums_64);
    size = starts[0];
    serialized += uint64_t(chunk) * strips::TABLES * strips::CODEBOOK_BYTES;
    for (uint32_t i = threadIdx.x; i < size; i += THREADS) {
        serialized[book * strips::CODEBOOK_BYTES + i] = bytes[i];
    }
    sizes += uint64_t(chunk) * strips::TABLES;
    if (threadIdx.x == 0) {
        sizes[book] = {bits, size};
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        is_last = atomicAdd(&done[chunk], 1u) == strips::TABLES - 1;
        __threadfence();
    }
    __syncthreads();
    if (is_last) {
        finish_chunk(sample, varying[chunk], sizes, serialized, choices[chunk],
                     codebooks + uint64_t(chunk) * strips::CODEBOOK_ROOM);
    }
}
