// Encodes whole ordinary tiles (predict/ordinary.cuh). All others are listed for encode_any.
//
// WARPS         warps of a block
// MEMORY_BYTES  shared memory of a block
// RESIDENT      resident blocks of a multiprocessor, for the allocation of registers
// TABLE_WORDS   words of the table of a scheme
#include "predict/ordinary.cuh"
#include "strips/bits.cuh"

// Strips that a tile has room for in the results: also those of bitmaps, which these tiles have not.
constexpr uint32_t STRIP_SLOTS = QUADS + 2 * TILE_ELEMENTS / strips::BITS_OF_BITMAP_STRIP;

struct __align__(16) WarpMemory {
    OrdinaryMemory tile;
    uint32_t starts[8]; // of strips: the lane that has the first value, and its bits before

    // The bits of a tile take the place of its codes, of which a list has been made.
    __device__ inline uint32_t *bits() { return reinterpret_cast<uint32_t *>(tile.codes); }
};
// Words of bits that a tile has room for, with two more behind them.
constexpr uint32_t BIT_WORDS = sizeof(OrdinaryMemory::codes) / 4 - 2;
static_assert(QUADS <= 8, "a start for each strip");

struct BlockMemory {
    WarpMemory warps[WARPS];
    uint32_t table[(TABLE_WORDS + 3) / 4 * 4];
    uint32_t codewords[strips::MAX_CLASSES * SYMBOLS];
    ChunkChoice choice;
    uint32_t ticket;
    uint32_t unused[3];
};
static_assert(sizeof(BlockMemory) <= MEMORY_BYTES, "the launcher knows the size");

// Writes the bits of a tile to `memory.bits()`. Lane `i` below QUADS gets the first bit of strip `i` in `start`.
// Returns the number of bits; if there is no room for them, nothing is written. Called by the whole warp.
__device__ inline uint32_t write_bits(const int16_t *codes, bool is_dense, const uint32_t *codewords,
                                      WarpMemory &memory, uint32_t &start) {
    if (lane_id() < QUADS) {
        memory.starts[lane_id()] = ~0u;
    }
    const LaneValues own(codes, memory.tile);
    auto has = [&](uint32_t symbol) { return codewords[symbol] != 0; };
    uint64_t bits = 0;
    uint32_t count = 0;
    own.for_each([&](uint32_t strip, bool begins, uint32_t zeros, int32_t value) {
        if (begins) {
            memory.starts[strip] = lane_id() << 16 | count;
        }
        for_symbols(zeros, value, is_dense, has, [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
            const uint32_t codeword = codewords[symbol], length = (codeword & 0xFF) + extra_bits;
            bits = bits << length | uint64_t(codeword >> 8) << extra_bits | extra;
            count += length;
        });
    });
    const uint32_t through = warp_inclusive_sum(count), position = through - count,
                   total = __shfl_sync(ALL_LANES, through, WARP - 1);
    __syncwarp();
    // Strips without values start where the next one does.
    const uint32_t first = lane_id() < QUADS ? memory.starts[lane_id()] : ~0u;
    start = __shfl_sync(ALL_LANES, position, first >> 16 & 31) + (first & 0xFFFF);
    start = first == ~0u ? total : start;
#pragma unroll
    for (uint32_t distance = 1; distance < QUADS; ++distance) {
        start = min_of(start, __shfl_down_sync(ALL_LANES, start, 1));
    }
    if (total > 32 * BIT_WORDS) {
        return total;
    }
    for (uint32_t i = lane_id(); i < ceil_div(total, 32) + 2; i += WARP) {
        memory.bits()[i] = 0;
    }
    __syncwarp();
    if (__all_sync(ALL_LANES, count <= 64)) {
        if (count > 0) {
            const uint64_t left = bits << (64 - count);
            const uint32_t high = uint32_t(left >> 32), low = uint32_t(left), shift = position % 32;
            uint32_t *word = memory.bits() + position / 32;
            atomicOr(word, high >> shift);
            if (shift + count > 32) {
                atomicOr(word + 1, __funnelshift_r(low, high, shift));
            }
            if (shift + count > 64) {
                atomicOr(word + 2, __funnelshift_r(0, low, shift));
            }
        }
    } else {
        BitPacker packer(memory.bits(), position);
        own.for_each([&](uint32_t, bool, uint32_t zeros, int32_t value) {
            for_symbols(zeros, value, is_dense, has, [&](uint32_t symbol, uint32_t extra, uint32_t extra_bits) {
                packer.put(codewords[symbol] >> 8, codewords[symbol] & 0xFF);
                packer.put(extra, extra_bits);
            });
        });
        packer.finish();
    }
    __syncwarp();
    return total;
}

// What the tiles of a block share.
struct OrdinaryWork {
    const Step &step;
    const TileOutputs &outputs;
    const BlockMemory &block;
    uint32_t chunk;

    // Encodes tile `number` of the batch. Returns false if it is not ordinary. Called by the whole warp.
    __device__ inline bool encode(uint32_t number, const OrdinaryElements &elements, WarpMemory &memory) const;
};

__device__ inline bool OrdinaryWork::encode(uint32_t number, const OrdinaryElements &elements,
                                            WarpMemory &memory) const {
    const uint32_t lane = lane_id();
    const ChunkChoice &choice = block.choice;
    CodedOrdinary coded;
    if (!predict_ordinary(step, choice, block.table, elements, memory.tile, coded)) {
        return false;
    }
    uint32_t class_number = 0;
    if (choice.classes > 1 && !coded.is_constant) {
#pragma unroll
        for (uint32_t threshold : choice.thresholds) {
            class_number += coded.cost >> strips::COST_LOG2 >= threshold ? 1 : 0;
        }
    }
    uint32_t bits = 0, start = 0;
    if (!coded.is_constant) {
        bits = write_bits(memory.tile.codes[coded.codes], coded.is_dense(), block.codewords + class_number * SYMBOLS,
                          memory, start);
        if (bits > 32 * BIT_WORDS) {
            return false;
        }
    }
    const uint32_t words = ceil_div(bits, 32);
    uint32_t first = 0;
    if (lane == 0) {
        first = atomicAdd(&outputs.taken[chunk], words);
    }
    const uint32_t next = __shfl_down_sync(ALL_LANES, start, 1);
    if (lane < QUADS && !coded.is_constant) {
        outputs.strip_bits[uint64_t(number) * STRIP_SLOTS + lane] = uint16_t((lane + 1 < QUADS ? next : bits) - start);
    }
    first = __shfl_sync(ALL_LANES, first, 0);
    if (lane == 0) {
        outputs.facts[number] = {first, bits, coded.base,
                                 (coded.is_constant ? META_CONSTANT : coded.predictor << META_PREDICTOR) |
                                     coded.sign << META_SIGN | class_number << META_CLASS};
    }
    const bool has_room = first + words <= outputs.chunk_words;
    uint32_t *to = outputs.words + uint64_t(chunk) * outputs.chunk_words + first;
    for (uint32_t i = lane; i < words; i += WARP) {
        if (has_room) {
            to[i] = memory.bits()[i];
        }
    }
    __syncwarp();
    return true;
}

// `schemes` has the tables of all schemes. Encodes the ordinary tiles of a batch, and lists the others behind their
// number, which is 0 before. `vectors` says whether quads of elements start on multiples of 16 bytes. Each block has
// about the same number of consecutive tiles.
extern "C" __global__ void __launch_bounds__(WARPS *WARP, RESIDENT)
    encode_ordinary(const Element *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                    const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer, uint32_t vectors,
                    const uint32_t *schemes, const ChunkChoice *choices, const uint32_t *codewords,
                    const __grid_constant__ TileOutputs outputs, uint32_t *listed) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    BlockMemory &block = *reinterpret_cast<BlockMemory *>(dynamic);
    WarpMemory &memory = block.warps[warp_id()];
    const Step &step = *quantizer;
    const uint32_t begin = uint32_t(uint64_t(batch.tiles) * blockIdx.x / gridDim.x),
                   end = uint32_t(uint64_t(batch.tiles) * (blockIdx.x + 1) / gridDim.x);
    for (uint32_t first = begin; first < end;) {
        const uint32_t chunk = first / batch.chunk_tiles, last = min_of(end, batch.chunk_first(chunk + 1));
        const ChunkChoice choice = choices[chunk];
        // Other warps may still use the tables of the chunk before.
        __syncthreads();
        const uint32_t *tables = codewords + uint64_t(chunk) * strips::TABLES * SYMBOLS +
                                 (choice.classes > 1 ? 0 : strips::ONE_CODEBOOK) * SYMBOLS;
        for (uint32_t i = threadIdx.x; i < choice.classes * SYMBOLS; i += WARPS * WARP) {
            block.codewords[i] = tables[i];
        }
        for (uint32_t i = threadIdx.x; i < TABLE_WORDS && choice.scheme != 0; i += WARPS * WARP) {
            block.table[i] = schemes[(choice.scheme - 1) * TABLE_WORDS + i];
        }
        if (threadIdx.x == 0) {
            block.choice = choice;
            block.ticket = first + WARPS;
        }
        __syncthreads();
        const OrdinaryWork work{step, outputs, block, chunk};
        auto load = [&](uint32_t number, OrdinaryElements &elements) {
            if (number >= last) {
                return false;
            }
            const Tile tile = geometry.tile(batch.first_tile + number);
            if (!geometry.is_unclipped(tile)) {
                return false;
            }
            elements = OrdinaryElements(TileSource(slab, first_element, geometry, tile), vectors != 0);
            return true;
        };
        uint32_t number = first + warp_id();
        OrdinaryElements own, ahead;
        bool is_loaded = load(number, own);
        while (number < last) {
            uint32_t next = 0;
            if (lane_id() == 0) {
                next = atomicAdd(&block.ticket, 1u);
            }
            next = __shfl_sync(ALL_LANES, next, 0);
            const bool is_ahead = load(next, ahead);
            if (!is_loaded || !work.encode(number, own, memory)) {
                if (lane_id() == 0) {
                    listed[1 + atomicAdd(listed, 1u)] = number;
                }
            }
            __syncwarp();
            own = ahead;
            is_loaded = is_ahead;
            number = next;
        }
        first = last;
    }
}
