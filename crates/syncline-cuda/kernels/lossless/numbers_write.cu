// Bins of codes: their symbols, and the raw bits and verbatim values in records. A tile a warp.
//
// See also lossless/numbers_code.cu.
//
// THREADS  threads of a block
#include "lossless/bins.cuh"
#include "lossless/code_tile.cuh"

constexpr uint32_t WARPS = THREADS / WARP;
constexpr uint32_t MASK_BITMAP = 2, INFO_CONSTANT = 1;
// Consecutive codes of a lane.
constexpr uint32_t OWN = 4;
constexpr uint64_t NOWHERE = ~uint64_t(0);

// Writes the symbols of tiles that are not constant, and the masks of those that have bitmaps, to the symbols of
// Huffman streams. `raw_bytes` receives the bytes of the raw bits of each tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_symbols(Geometry geometry, ChunkBatch batch, const CodedTile *tiles, const ChunkBins *all_bins,
                    const uint8_t *of_cell, const uint32_t *symbols_before, const uint32_t *masks_before,
                    const uint8_t *codes, uint64_t code_stride, const uint32_t *masked, uint8_t *bytes, uint16_t *words,
                    uint32_t *raw_bytes) {
    __shared__ uint8_t shared[WARPS][format::MAX_TILE_ELEMENTS];
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= batch.tiles) {
        return;
    }
    const uint32_t chunk = number / batch.chunk_tiles, info = tiles[number].info;
    const ChunkBins &bins = all_bins[chunk];
    const Tile tile = geometry.tile(batch.first_tile + number);
    const uint32_t elements = tile.elements();
    if ((info >> 1 & 3) == MASK_BITMAP) {
        uint8_t *to = bytes + bins.masks_at + masks_before[number];
        const uint32_t *from = masked + uint64_t(number) * TILE_WORDS;
        for (uint32_t i = lane_id(); i < ceil_div(elements, 8); i += WARP) {
            to[i] = uint8_t(from[i / 4] >> i % 4 * 8);
        }
    }
    // Fills up the last group of masks.
    if (number + 1 == batch.chunk_first(chunk + 1)) {
        for (uint32_t i = bins.mask_bytes + lane_id(); i < align_up(bins.mask_bytes, GROUP); i += WARP) {
            bytes[bins.masks_at + i] = 0;
        }
    }
    if ((info & INFO_CONSTANT) != 0) {
        return;
    }
    const word_t *from =
        reinterpret_cast<const word_t *>(codes + chunk * code_stride) + position_in_chunk(geometry, batch, tile, chunk);
    uint8_t *own = shared[warp_id()];
    const BinFinder finder(bins, of_cell);
    uint32_t width = 0;
    for (uint32_t i = lane_id(); i < elements; i += WARP) {
        const uint32_t bin = finder.of(from[i]);
        own[i] = uint8_t(bin);
        width += bins.sizes[bin] & 0xFF;
    }
    width = warp_reduce_sum(width);
    if (lane_id() == 0) {
        raw_bytes[number] = ceil_div(width, 8);
    }
    __syncwarp();
    const uint32_t tuple = bins.tuple, count = bins.bins, symbols = ceil_div(elements, tuple);
    const uint32_t first = symbols_before[number];
    auto symbol = [&](uint32_t place) {
        uint32_t symbol = 0;
        for (uint32_t i = place * tuple; i < (place + 1) * tuple; ++i) {
            symbol = symbol * count + (i < elements ? own[i] : 0);
        }
        return symbol;
    };
    // The last symbol of a chunk fills up the last group.
    const uint32_t end = first + symbols == bins.symbols ? align_up(bins.symbols, GROUP) - first : symbols;
    for (uint32_t i = lane_id(); i < end; i += WARP) {
        const uint32_t value = symbol(min_of(i, symbols - 1));
        if (bins.symbol_bytes == 1) {
            bytes[bins.symbols_at + first + i] = uint8_t(value);
        } else {
            words[bins.symbols_at + first + i] = uint16_t(value);
        }
    }
}

// Puts the raw bits of a lane, one code after another, into zeros in shared memory. Words that lanes share are
// combined.
class BitWriter {
  public:
    __device__ inline BitWriter(uint32_t *words, uint32_t at)
        : word(words + at / 32), pending(0), filled(at % 32), is_shared(true) {}

    // Puts `width` bits, at most 32, with zeros above.
    __device__ inline void put(uint32_t bits, uint32_t width) {
        pending |= uint64_t(bits) << filled;
        filled += width;
        if (filled >= 32) {
            if (is_shared) {
                atomicOr(word, uint32_t(pending));
            } else {
                *word = uint32_t(pending);
            }
            ++word;
            is_shared = false;
            pending >>= 32;
            filled -= 32;
        }
    }
    __device__ inline void finish() const {
        if (uint32_t(pending) != 0) {
            atomicOr(word, uint32_t(pending));
        }
    }

  private:
    uint32_t *word;
    uint64_t pending;
    uint32_t filled;
    bool is_shared; // whether lanes before this one may have bits in the word
};

// Copies bytes from shared memory, where a word follows, to any place. Called by the whole warp.
__device__ inline void copy_out(const uint32_t *words, uint32_t bytes, uint8_t *out) {
    const uint8_t *from = reinterpret_cast<const uint8_t *>(words);
    const uint32_t head = min_of(uint32_t(-reinterpret_cast<int64_t>(out) & 3), bytes), whole = (bytes - head) / 4;
    if (lane_id() < head) {
        out[lane_id()] = from[lane_id()];
    }
    uint32_t *to = reinterpret_cast<uint32_t *>(out + head);
    for (uint32_t i = lane_id(); i < whole; i += WARP) {
        to[i] = __funnelshift_r(words[i], words[i + 1], 8 * head);
    }
    for (uint32_t i = head + 4 * whole + lane_id(); i < bytes; i += WARP) {
        out[i] = from[i];
    }
}

// Writes the raw bits of a tile to `out`. Called by the whole warp.
__device__ inline void write_raw_bits(const ChunkBins &bins, const uint8_t *of_cell, const word_t *codes,
                                      uint32_t elements, uint32_t bytes, uint32_t *words, uint8_t *out) {
    for (uint32_t i = lane_id(); i < ceil_div(bytes, 4); i += WARP) {
        words[i] = 0;
    }
    __syncwarp();
    const BinFinder finder(bins, of_cell);
    uint32_t before = 0;
    for (uint32_t begin = 0; begin < elements; begin += OWN * WARP) {
        word_t raw[OWN];
        uint32_t widths[OWN], sum = 0;
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            const uint32_t i = begin + OWN * lane_id() + k;
            raw[k] = widths[k] = 0;
            if (i < elements) {
                const word_t code = codes[i];
                const uint32_t bin = finder.of(code), size = bins.sizes[bin];
                widths[k] = size & 0xFF;
                raw[k] = word_t(word_t(code - word_t(bins.lows[bin])) >> (size >> 8));
            }
            sum += widths[k];
        }
        const uint32_t through = warp_inclusive_sum(sum);
        BitWriter writer(words, before + through - sum);
#pragma unroll
        for (uint32_t k = 0; k < OWN; ++k) {
            writer.put(uint32_t(raw[k]), min_of(widths[k], 32u));
            if (ELEMENT_BYTES == 8 && widths[k] > 32) {
                writer.put(uint32_t(uint64_t(raw[k]) >> 32), widths[k] - 32);
            }
        }
        writer.finish();
        before += __shfl_sync(ALL_LANES, through, WARP - 1);
    }
    __syncwarp();
    copy_out(words, bytes, out);
}

// Writes the raw bits and the verbatim values of tiles to the records in the output. `raw_before` are the bytes of the
// raw bits of the chunk before each tile.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_write(Geometry geometry, ChunkBatch batch, const uint8_t *slots, uint64_t stride, const CodedTile *tiles,
                  const ChunkBins *all_bins, const uint8_t *of_cell, const uint8_t *codes, uint64_t code_stride,
                  const uint32_t *verbatim, const uint32_t *raw_bytes, const uint32_t *raw_before,
                  const NumberPlaces *places, uint8_t *out) {
    // Two more words: one may be read behind the bits.
    __shared__ uint32_t shared[WARPS][format::MAX_TILE_ELEMENTS * ELEMENT_BYTES / 4 + 2];
    const uint32_t number = blockIdx.x * WARPS + warp_id();
    if (number >= batch.tiles) {
        return;
    }
    const uint32_t chunk = number / batch.chunk_tiles;
    const CodedTile facts = tiles[number];
    const NumberPlaces place = places[chunk];
    const Tile tile = geometry.tile(batch.first_tile + number);
    const uint32_t elements = tile.elements(), position = position_in_chunk(geometry, batch, tile, chunk);
    if (place.raw_bits != NOWHERE && (facts.info & INFO_CONSTANT) == 0) {
        write_raw_bits(all_bins[chunk], of_cell,
                       reinterpret_cast<const word_t *>(codes + chunk * code_stride) + position, elements,
                       raw_bytes[number], shared[warp_id()], out + place.raw_bits + raw_before[number]);
    }
    if (place.positions != NOWHERE && facts.verbatim > 0) {
        const word_t *from = reinterpret_cast<const word_t *>(slots + chunk * stride) + position;
        uint32_t *positions = reinterpret_cast<uint32_t *>(out + place.positions) + facts.verbatim_before;
        word_t *values = reinterpret_cast<word_t *>(out + place.elements) + facts.verbatim_before;
        const uint32_t words = ceil_div(elements, WARP);
        uint32_t bits = lane_id() < words ? verbatim[uint64_t(number) * TILE_WORDS + lane_id()] : 0;
        uint32_t at = warp_exclusive_sum(uint32_t(__popc(bits)));
        while (bits != 0) {
            const uint32_t i = lane_id() * WARP + uint32_t(__ffs(int32_t(bits))) - 1;
            bits &= bits - 1;
            positions[at] = position + i;
            values[at++] = from[i];
        }
    }
}
