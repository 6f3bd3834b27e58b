// Reads records of chunks of numbers but for their symbols, masks, rests, and raw bits: the plan, bases, bins, the
// places of raw bits, and the list of verbatim values. The input is not trusted.
//
// THREADS  threads of a block, which processes a chunk; at least MOST_BLOCKS
// FLOATS   1: elements are floating-point numbers
// SCALES   1: elements are f32 or f64
#include "lossless/bases.cuh"
#include "lossless/number.cuh"

static_assert(THREADS >= MOST_BLOCKS, "a thread for each block of bases");
constexpr uint32_t PLAN = 0, TILE_BASES = 1, BINS = 2, SYMBOLS = 3, RAW_LENGTHS = 4, RAW_BITS = 5, VERBATIM = 6,
                   MASKS = 7, RESTS = 8;
constexpr uint32_t PLAN_BYTES = 40, HAS_PATTERN = 1, RAW_PADDING = 16, MOST_BINS = 255;
constexpr uint32_t MASK_BITMAP = 2, MASK_KINDS = 3;

// A record, whose sections have been located.
struct NumberRecord {
    const uint8_t *bytes;
    const RecordHeader &header;

    __device__ inline const uint8_t *section(uint32_t number) const { return bytes + header.section_at[number]; }
    __device__ inline uint32_t length(uint32_t number) const { return header.section_bytes[number]; }
};

// Reads the fixed fields of the plan. Called by one thread.
__device__ inline bool read_plan(const NumberRecord &record, uint32_t tiles, NumberChunk &chunk) {
    if (record.length(PLAN) < PLAN_BYTES) {
        return false;
    }
    const uint8_t *plan = record.section(PLAN);
    const uint64_t *words = reinterpret_cast<const uint64_t *>(plan);
    chunk.mode = plan[0];
    chunk.operations = plan[1];
    chunk.tuple = plan[2];
    chunk.predictor = plan[3];
    const uint32_t flags = plan[4];
    chunk.center = int64_t(words[1]);
    chunk.parameters[0] = words[2];
    chunk.parameters[1] = words[3];
    chunk.pattern = words[4];
    const bool has_pattern = flags == HAS_PATTERN, is_scaled = chunk.mode == SCALED || chunk.mode == SCALED_ULPS;
    const uint32_t bitmap = uint32_t(aligned(ceil_div(tiles, 8), 4)), masks = uint32_t(aligned(ceil_div(tiles, 4), 4));
    if (flags > HAS_PATTERN || plan[5] != 0 || plan[6] != 0 || plan[7] != 0 || chunk.predictor > format::SECOND_ORDER ||
        chunk.tuple == 0 || chunk.tuple > 8 || (chunk.tuple & (chunk.tuple - 1)) != 0 || chunk.mode >= NUMBER_MODES ||
        (chunk.mode == MULTIPLE && FLOATS) || (chunk.mode == SPLIT && ELEMENT_BYTES < 4) ||
        record.length(PLAN) != PLAN_BYTES + bitmap + (has_pattern ? masks : 0)) {
        return false;
    }
    if (is_scaled) {
        const double step = __longlong_as_double(int64_t(words[2])), offset = __longlong_as_double(int64_t(words[3]));
        const double infinity = __longlong_as_double(0x7FF0000000000000ll);
        if (!SCALES || chunk.operations >= NUMBER_SCALINGS || !(step > 0.0) || !(step < infinity) ||
            !(fabs(offset) < infinity)) {
            return false;
        }
    }
    return all_zero(plan, PLAN_BYTES + ceil_div(tiles, 8), PLAN_BYTES + bitmap) &&
           (!has_pattern || all_zero(plan, PLAN_BYTES + bitmap + ceil_div(tiles, 4), PLAN_BYTES + bitmap + masks));
}

// Reads the bins. Called by one thread.
__device__ inline bool read_bins(const NumberRecord &record, const NumberChunk &chunk, NumberBins &bins,
                                 uint32_t &count) {
    const uint8_t *section = record.section(BINS);
    const uint32_t length = record.length(BINS);
    uint32_t at = 0;
    bool is_good = length > 0;
    auto next = [&]() -> uint32_t {
        is_good &= at < length;
        return is_good ? section[at++] : 0;
    };
    count = 0;
    const uint32_t families = next();
    for (uint32_t family = 0; family < families && is_good; ++family) {
        const uint32_t shift = next(), own = next();
        uint64_t expected = 0;
        for (uint32_t i = 0; i < own && is_good; ++i) {
            const uint32_t width = next();
            is_good &= width + shift <= WORD_BITS && shift < WORD_BITS;
            uint64_t step = 0;
            uint32_t byte = 0x80;
            for (uint32_t place = 0; place < 64 && byte >= 0x80 && is_good; place += 7) {
                byte = next();
                step |= uint64_t(byte & 0x7F) << place;
            }
            is_good &= byte < 0x80 && count < MOST_BINS;
            if (!is_good) {
                break;
            }
            const uint64_t low = expected + of_zigzag(step);
            expected = low + (width < 64 ? uint64_t(1) << width : 0);
            bins.lows[count] = (low << shift) + uint64_t(chunk.center);
            bins.sizes[count++] = uint16_t(width | shift << 8);
        }
    }
    return is_good && count > 0 && aligned(at, 4) == length && all_zero(section, at, length);
}

// Returns the number of symbols of so many bins, `tuple` in each; 0 if there may not be so many bins.
__device__ inline uint32_t symbols_of(uint32_t bins, uint32_t tuple) {
    const uint32_t most = tuple == 1 ? MOST_BINS : tuple == 2 ? 63 : tuple == 4 ? 8 : 2;
    uint32_t symbols = 1;
    for (uint32_t i = 0; i < tuple && bins <= most; ++i) {
        symbols *= bins;
    }
    return bins > most ? 0 : symbols;
}

// Reads the list of verbatim values. Called by the whole block; all threads get the same result.
__device__ inline bool read_verbatim(const NumberRecord &record, uint32_t elements, uint64_t place,
                                     NumberChunk &chunk) {
    const uint32_t length = record.length(VERBATIM);
    if (length == 0) {
        return true;
    }
    const uint32_t *list = reinterpret_cast<const uint32_t *>(record.section(VERBATIM));
    const uint32_t count = length >= 4 ? list[0] : 0;
    const uint64_t elements_at = aligned(4 + 4 * uint64_t(count), 8);
    if (length < 4 || count > elements || elements_at + uint64_t(count) * ELEMENT_BYTES != length) {
        return false;
    }
    bool bad = !all_zero(record.section(VERBATIM), 4 + 4 * uint64_t(count), elements_at);
    for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
        bad |= list[1 + i] >= (i + 1 < count ? list[2 + i] : elements);
    }
    bad = __syncthreads_or(bad);
    if (threadIdx.x == 0) {
        chunk.verbatim = count;
        chunk.positions = place + record.header.section_at[VERBATIM] + 4;
        chunk.elements = place + record.header.section_at[VERBATIM] + elements_at;
    }
    return !bad;
}

// Whether a section has a Huffman stream of so many symbols, of which `groups` receives the number of groups. Called by
// one thread.
__device__ inline bool read_stream(const NumberRecord &record, uint32_t section, uint32_t count, uint32_t symbol_bytes,
                                   uint32_t index_kind, uint32_t &groups) {
    groups = ceil_div(count, 1u << PLANE_GROUP_LOG2);
    return count == 0 ||
           stream_bytes(record.section(section), record.length(section), groups, symbol_bytes, index_kind) > 0;
}

// Reads the tiles, and gives each its rank among those that are not constant in `raw_start`. Returns the number of
// these; the numbers of symbols and of bytes of masks are added up. Called by the whole block.
__device__ inline uint32_t read_number_tiles(const NumberRecord &record, const Geometry &geometry, uint64_t first_tile,
                                             uint32_t tiles, const NumberChunk &chunk, NumberTile *out,
                                             uint64_t *warp_sums, uint32_t &symbols, uint32_t &mask_bytes, bool &bad) {
    // Symbols, bytes of masks, and tiles that are not constant, side by side.
    constexpr uint32_t MASK_AT = 24, VARYING_AT = 44;
    const uint8_t *constant = record.section(PLAN) + PLAN_BYTES, *kinds = constant + aligned(ceil_div(tiles, 8), 4);
    const bool has_pattern = record.section(PLAN)[4] == HAS_PATTERN;
    uint64_t before = 0, total;
    bad = false;
    for (uint32_t strip = 0; strip < tiles; strip += THREADS) {
        const uint32_t tile = strip + threadIdx.x;
        uint64_t own = 0;
        uint32_t info = 1;
        if (tile < tiles) {
            const uint32_t kind = has_pattern ? kinds[tile / 4] >> tile % 4 * 2 & 3 : 0;
            info = kind << 1 | (constant[tile / 8] >> tile % 8 & 1);
            bad |= kind >= MASK_KINDS;
            const uint32_t elements = geometry.tile(first_tile + tile).elements();
            own = (info & 1) != 0 ? 0 : ceil_div(elements, chunk.tuple) | uint64_t(1) << VARYING_AT;
            own |= uint64_t(kind == MASK_BITMAP ? ceil_div(elements, 8) : 0) << MASK_AT;
        }
        const uint64_t at = before + block_exclusive_sum<THREADS, uint64_t>(own, warp_sums, total);
        before += total;
        if (tile < tiles) {
            constexpr uint32_t SYMBOL_BITS = (1u << MASK_AT) - 1, MASK_BITS = (1u << (VARYING_AT - MASK_AT)) - 1;
            out[tile] = {uint32_t(at) & SYMBOL_BITS, uint32_t(at >> MASK_AT) & MASK_BITS, uint32_t(at >> VARYING_AT), 0,
                         info};
        }
    }
    symbols = uint32_t(before) & ((1u << MASK_AT) - 1);
    mask_bytes = uint32_t(before >> MASK_AT) & ((1u << (VARYING_AT - MASK_AT)) - 1);
    bad = __syncthreads_or(bad);
    return uint32_t(before >> VARYING_AT);
}

// Finds where the raw bits of tiles are. `ends` is memory for a word for each tile. Called by the whole block.
__device__ inline bool read_raw_lengths(const NumberRecord &record, uint32_t tiles, uint32_t varying, NumberTile *out,
                                        uint32_t *ends, uint64_t *warp_sums, uint32_t *words_before) {
    const uint32_t bytes = record.length(RAW_BITS);
    if (bytes > 0) {
        if (!read_bases(record.section(RAW_LENGTHS), record.length(RAW_LENGTHS), varying, ends, warp_sums,
                        words_before)) {
            return false;
        }
        uint64_t before = 0, total;
        for (uint32_t strip = 0; strip < varying; strip += THREADS) {
            const uint32_t tile = strip + threadIdx.x;
            const uint64_t own = tile < varying ? ends[tile] : 0;
            const uint64_t end = before + own + block_exclusive_sum<THREADS, uint64_t>(own, warp_sums, total);
            before += total;
            if (tile < varying) {
                ends[tile] = uint32_t(end);
            }
        }
        if (before + RAW_PADDING != bytes) {
            return false;
        }
    }
    __syncthreads();
    for (uint32_t tile = threadIdx.x; tile < tiles; tile += THREADS) {
        const uint32_t rank = out[tile].raw_start;
        const bool has_bits = bytes > 0 && (out[tile].info & 1) == 0;
        out[tile].raw_start = has_bits && rank > 0 ? ends[rank - 1] : 0;
        out[tile].raw_end = has_bits ? ends[rank] : 0;
    }
    return true;
}

// Each block reads a chunk whose header says that it is one of numbers and fine, and replaces its status.
extern "C" __global__ void __launch_bounds__(THREADS)
    numbers_parse(Geometry geometry, ChunkBatch batch, const uint8_t *input, const uint64_t *places,
                  uint32_t index_kind, RecordHeader *headers, NumberChunk *chunks, NumberBins *bins,
                  NumberTile *number_tiles, word_t *bases, uint32_t *ends) {
    __shared__ NumberChunk chunk;
    __shared__ uint64_t warp_sums[WARPS];
    __shared__ uint32_t words_before[MOST_BLOCKS];
    __shared__ bool is_good;
    const uint32_t number = blockIdx.x;
    RecordHeader &header = headers[number];
    if (header.status != FINE || header.kind != format::KIND_NUMBERS) {
        return;
    }
    const uint64_t place = places[number];
    const NumberRecord record{input + place, header};
    const uint32_t first = batch.chunk_first(number), tiles = batch.chunk_first(number + 1) - first;
    const uint64_t first_tile = batch.first_tile + first;
    const uint32_t elements =
        uint32_t(geometry.elements_before(first_tile + tiles) - geometry.elements_before(first_tile));
    if (threadIdx.x == 0) {
        chunk = {};
        is_good = read_plan(record, tiles, chunk);
    }
    __syncthreads();
    uint32_t symbols, mask_bytes, varying = 0, status = is_good ? FINE : NUMBERS_PLAN;
    if (status == FINE) {
        bool bad;
        varying = read_number_tiles(record, geometry, first_tile, tiles, chunk, number_tiles + first, warp_sums,
                                    symbols, mask_bytes, bad);
        status = bad ? NUMBERS_PLAN : FINE;
    }
    if (status == FINE && chunk.predictor != 0) {
        const bool are_good = read_bases(record.section(TILE_BASES), record.length(TILE_BASES), tiles, bases + first,
                                         warp_sums, words_before);
        status = are_good ? FINE : NUMBERS_BASES;
    }
    if (status == FINE && varying > 0) {
        if (threadIdx.x == 0) {
            uint32_t count;
            is_good = read_bins(record, chunk, bins[number], count);
            const uint32_t alphabet = is_good ? symbols_of(count, chunk.tuple) : 0;
            chunk.bins = count;
            chunk.symbol_bytes = alphabet <= 256 ? 1 : 2;
            is_good = alphabet > 0;
        }
        __syncthreads();
        status = is_good ? FINE : NUMBERS_BINS;
    }
    if (status == FINE) {
        const bool are_good =
            read_raw_lengths(record, tiles, varying, number_tiles + first, ends + first, warp_sums, words_before);
        status = are_good ? FINE : NUMBERS_RAW_BITS;
    }
    if (status == FINE) {
        status = read_verbatim(record, elements, place, chunk) ? FINE : NUMBERS_VERBATIM;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (status == FINE) {
            const bool has_rests = chunk.mode == SCALED_ULPS || chunk.mode == SPLIT;
            const bool are_good =
                read_stream(record, SYMBOLS, symbols, chunk.symbol_bytes, index_kind, chunk.groups[0]) &
                read_stream(record, MASKS, mask_bytes, 1, index_kind, chunk.groups[1]) &
                read_stream(record, RESTS, has_rests ? elements : 0, 2, index_kind, chunk.groups[2]);
            status = are_good ? FINE : NUMBERS_STREAMS;
            chunk.raw_bits = place + header.section_at[RAW_BITS];
            chunk.raw_bytes = record.length(RAW_BITS);
        }
        header.status = status;
        chunks[number] = chunk;
    }
}
