// Encodes whole ordinary tiles (predict/ordinary.cuh). All others are listed for encode_any.
//
// WARPS         warps of a block
// MEMORY_BYTES  shared memory of a block
// RESIDENT      resident blocks of a multiprocessor, for the allocation of registers
// TABLE_WORDS   words of the table of a scheme
#include "strips/ordinary_bits.cuh"

// Strips that a tile has room for in the results: also those of bitmaps, which these tiles have not.
constexpr uint32_t STRIP_CAPACITY = QUADS + 2 * TILE_ELEMENTS / strips::BITS_OF_BITMAP_STRIP;

#if STAGES
typedef StagedElements TileElements;
#else
typedef OrdinaryElements TileElements;
#endif

struct __align__(16) WarpMemory {
    OrdinaryMemory tile;
#if STAGES
    alignas(16) Stored staged[TILE_ELEMENTS];
#endif
    uint32_t starts[8]; // of strips: the lane that has the first value, and its bits before

    // The bits of a tile take the place of its codes, which lanes have or of which a list has been made.
    __device__ inline uint32_t *bits() { return reinterpret_cast<uint32_t *>(tile.codes); }
};
// Words of bits that a tile has room for, with two more behind them.
constexpr uint32_t BIT_WORDS = sizeof(OrdinaryMemory::codes) / 4 - 2;
static_assert(QUADS <= 8, "a start for each strip");

struct BlockMemory {
    WarpMemory warps[WARPS];
    uint32_t table[(TABLE_WORDS + 3) / 4 * 4];
    uint32_t codewords[strips::MAX_CLASSES * SYMBOLS];
    uint32_t small[strips::MAX_CLASSES * SMALL_WORDS];
    ChunkChoice choice;
    uint32_t ticket, piece;
    uint32_t unused[2];
};
static_assert(sizeof(BlockMemory) <= MEMORY_BYTES, "the launcher knows the size");

// What the tiles of a block share.
struct OrdinaryWork {
    const OrdinaryStep &step;
    const TileOutputs &outputs;
    const BlockMemory &block;
    uint32_t chunk;

    // Encodes tile `number` of the batch, which is quantized. Returns false if it is not ordinary. Called by the whole
    // warp.
    __device__ inline bool encode(uint32_t number, const QuantizedOrdinary &tile, WarpMemory &memory) const;
};

__device__ inline bool OrdinaryWork::encode(uint32_t number, const QuantizedOrdinary &tile, WarpMemory &memory) const {
    const uint32_t lane = lane_id();
    const ChunkChoice &choice = block.choice;
    CodedOrdinary coded;
    if (!predict_ordinary(step, choice, block.table, tile, memory.tile, coded)) {
        return false;
    }
    const uint32_t sign = tile.sign << INFO_SIGN;
    if (coded.is_constant) {
        if (lane == 0) {
            outputs.facts[number] = {0, 0, coded.base, INFO_CONSTANT | sign};
        }
        return true;
    }
    uint32_t class_number = 0;
    if (uniform(choice.classes) > 1) {
#pragma unroll
        for (uint32_t threshold : choice.thresholds) {
            class_number += coded.cost >> strips::COST_LOG2 >= threshold ? 1 : 0;
        }
    }
    const uint32_t *codewords = block.codewords + class_number * SYMBOLS;
    const int16_t *codes = memory.tile.codes[coded.codes];
    TileBits to{memory.bits(), BIT_WORDS, outputs.taken + chunk};
    uint32_t start;
    // Half of the tiles whose codes have this many bits have some that are not small.
    const bool has_large = coded.cost >= 7 * (TILE_ELEMENTS / 2) << strips::COST_LOG2;
    if (coded.is_dense() ? !write_dense(codes, has_large, codewords, block.small + class_number * SMALL_WORDS,
                                        memory.tile, to, start)
                         : !write_sparse(codes, codewords, memory.tile, memory.starts, to, start)) {
        return false;
    }
    __syncwarp();
    const uint32_t next = __shfl_down_sync(ALL_LANES, start, 1), first = uniform(to.first),
                   words = ceil_div(to.bits, 32);
    if (lane < QUADS) {
        outputs.strip_bits[uint64_t(number) * STRIP_CAPACITY + lane] =
            uint16_t((lane + 1 < QUADS ? next : to.bits) - start);
    }
    if (lane == 0) {
        outputs.facts[number] = {first, to.bits, coded.base,
                                 coded.predictor << INFO_PREDICTOR | sign | class_number << INFO_CLASS};
    }
    if (first + words <= outputs.chunk_words) {
        uint32_t *out = outputs.words + uint64_t(chunk) * outputs.chunk_words + first;
        for (uint32_t i = lane; i < words; i += WARP) {
            out[i] = to.words[i];
        }
    }
    return true;
}

// The tiles of a chunk, from one of them on.
class OrdinaryTiles {
    const Stored *slab;
    uint64_t first_element;
    const Geometry &geometry;
    const Origin &origin;
    TileCoord from;
    uint32_t first;
    bool vectors;

  public:
    __device__ inline OrdinaryTiles(const Stored *slab, uint64_t first_element, const Geometry &geometry,
                                    const ChunkBatch &batch, uint32_t first, bool vectors, const Origin &origin)
        : slab(slab), first_element(first_element), geometry(geometry), origin(origin),
          from(geometry.coord(batch.first_tile + first)), first(first), vectors(vectors) {}

    // Requests the elements of tile `number`, if it is a whole one. Returns whether it is.
    __device__ inline bool request(uint32_t number, TileElements &elements) const {
        constexpr uint32_t NZ = AXES == 3 ? 8 : 1,
                           NY = AXES == 3   ? 8
                                : AXES == 2 ? 32
                                            : 1,
                           NX = AXES == 3   ? 8
                                : AXES == 2 ? 32
                                            : 1024;
        static_assert(NZ * NY * NX == TILE_ELEMENTS, "the shape of small tiles");
        const TileCoord at = geometry.nearby_coord(from, number - first);
        const uint64_t z = at.z * NZ, y = at.y * NY, x = at.x * NX;
        if (z + NZ > geometry.dims[1] || y + NY > geometry.dims[2] || x + NX > geometry.dims[3]) {
            return false;
        }
        TileSource source;
        source.plane = geometry.strides[1];
        source.row = geometry.strides[2];
        source.origin = &origin;
        source.first = slab + (at.b * geometry.strides[0] + z * source.plane + y * source.row + x - first_element);
#if STAGES
        elements.request(source, vectors);
#else
        elements = OrdinaryElements(source, vectors);
#endif
        return true;
    }
};

// The tiles that a block takes together: halves of all tiles, then of the rest, and so on, are shared among the blocks,
// so that blocks with more work than others take fewer of the last ones.
struct Piece {
    uint32_t begin, end;

    __device__ inline Piece(uint32_t tiles, uint32_t number, uint32_t rounds) {
        const uint32_t round = number / gridDim.x, place = number - round * gridDim.x;
        const uint32_t rest = round < rounds ? tiles >> round : 0, all = round + 1 < rounds ? rest - (rest >> 1) : rest;
        begin = tiles - rest + uint32_t(uint64_t(all) * place / gridDim.x);
        end = tiles - rest + uint32_t(uint64_t(all) * (place + 1) / gridDim.x);
    }
};

// `schemes` has the tables of all schemes. Encodes the ordinary tiles of a batch, and lists the others behind their
// number, which is 0 before. `vectors` says whether quads of elements start on multiples of 16 bytes. Blocks take
// pieces of tiles in as many rounds as `rounds`; `pieces` counts those that they take after their first, and is 0
// before.
extern "C" __global__ void __launch_bounds__(WARPS *WARP, RESIDENT)
    encode_ordinary(const Stored *slab, uint64_t first_element, const __grid_constant__ Geometry geometry,
                    const __grid_constant__ ChunkBatch batch, const Step *__restrict__ quantizer, uint32_t vectors,
                    const uint32_t *schemes, const ChunkChoice *choices, const uint32_t *codewords,
                    const __grid_constant__ TileOutputs outputs, uint32_t *listed, uint32_t rounds, uint32_t *pieces) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    BlockMemory &block = *reinterpret_cast<BlockMemory *>(dynamic);
    WarpMemory &memory = block.warps[uniform(warp_id())];
    const OrdinaryStep step(*quantizer);
    // Other grids of tiles are left to encode_any.
    const bool is_near = geometry.has_32_bit_coords();
    for (uint32_t piece = blockIdx.x; piece < rounds * gridDim.x;) {
        const Piece own(batch.tiles, piece, rounds);
        for (uint32_t first = own.begin; first < own.end;) {
            const uint32_t chunk = first / batch.chunk_tiles, last = min_of(own.end, batch.chunk_first(chunk + 1));
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
            for (uint32_t i = threadIdx.x; i < choice.classes * SMALL_WORDS; i += WARPS * WARP) {
                block.small[i] = small_word(block.codewords + i / SMALL_WORDS * SYMBOLS, i % SMALL_WORDS);
            }
            __syncthreads();
            const OrdinaryWork work{step, outputs, block, chunk};
            const OrdinaryTiles tiles(slab, first_element, geometry, batch, first, vectors != 0, quantizer->origin);
            uint32_t number = first + uniform(warp_id());
#if STAGES
            TileElements elements{memory.staged, &quantizer->origin};
#else
            TileElements elements;
#endif
            bool is_whole = is_near && number < last && tiles.request(number, elements);
            Element *values = uniform(choice.scheme) != 0 ? memory.tile.values : nullptr;
            while (number < last) {
                uint32_t next = 0;
                if (lane_id() == 0) {
                    next = atomicAdd(&block.ticket, 1u);
                }
                next = uniform(next);
                QuantizedOrdinary tile;
                elements.wait();
                const bool is_ordinary = is_whole && quantize_ordinary(step, elements, values, tile);
                // While the tile is encoded, the elements of the next one arrive.
                is_whole = is_near && next < last && tiles.request(next, elements);
                if (!is_ordinary || !work.encode(number, tile, memory)) {
                    if (lane_id() == 0) {
                        listed[1 + atomicAdd(listed, 1u)] = number;
                    }
                }
                __syncwarp();
                number = next;
            }
            first = last;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            block.piece = gridDim.x + atomicAdd(pieces, 1u);
        }
        __syncthreads();
        piece = block.piece;
    }
}
