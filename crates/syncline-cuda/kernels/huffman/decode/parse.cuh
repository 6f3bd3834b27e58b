// Parsing of Huffman streams on the device: header, codebooks and descriptor, with the same checks as
// `huffman/stream.rs` of syncline-core. Each block locates, reads and prepares one codebook, so a stream with four
// codebooks takes four independent blocks. The marks that runs of code lengths leave (huffman/decode/code_lengths.cuh)
// are expanded, and symbols are sorted stably by length.
//
// SEQUENCE               subsequences per sequence
#pragma once
#include "device/block.cuh"
#include "device/warp.cuh"
#include "huffman/decode/code_lengths.cuh"

// Computes the canonical code from the number of symbols of each length. Called by one warp. Sets the fields of the
// codebook, `entry`, `used`, and `longest`, which becomes NO_CODE unless the code is complete. Does not set `bad`,
// which other warps may be reading.
__device__ inline void finish_codebook(ParseScratch &scratch) {
    const uint32_t length = lane_id();
    const uint32_t count = length > 0 && length < LENGTHS ? scratch.counts[length] : 0;
    // In units of one codeword of LONGEST bits.
    const uint64_t own_share = length < LENGTHS ? uint64_t(count) << (LONGEST - length) : 0;
    const uint64_t share = warp_inclusive_sum(own_share);
    const uint32_t rank = warp_inclusive_sum(count);
    const uint64_t whole = __shfl_sync(ALL_LANES, share, WARP - 1);
    const uint32_t used = __shfl_sync(ALL_LANES, rank, WARP - 1);
    const bool single = used == 1 && __shfl_sync(ALL_LANES, count, 1) == 1;
    const uint32_t longest = 31 - __clz(__ballot_sync(ALL_LANES, count > 0) | 1);
    const uint32_t before = rank - count;
    if (length < LENGTHS) {
        const uint32_t first = length > 0 ? uint32_t((share - own_share) >> (LONGEST - length)) : 0;
        const uint64_t limit = length > 0 ? share << (32 - LONGEST) : 0;
        scratch.codebook.limit[length] = limit >> 32 != 0 ? 0xFFFFFFFFu : uint32_t(limit);
        scratch.codebook.offset[length] = before - first;
        scratch.entry[length] = before;
    }
    if (length == 0) {
        scratch.longest = used == 0 || single || whole == 1ull << LONGEST ? longest : NO_CODE;
        scratch.used = used;
        scratch.least = 0xFFFF;
        scratch.most = 0;
    }
}

// The code lengths of a warp's symbols, 32 at a time: each mark applies to the symbols after it. 0 for symbols beyond
// the alphabet.
struct Lengths {
    const uint8_t *marks;
    uint32_t alphabet;
    uint32_t carry; // the last mark before the current symbols

    __device__ inline uint32_t at(uint32_t symbol) {
        const uint32_t mark = symbol < alphabet ? marks[symbol] : 0;
        const uint32_t up_to_me = __ballot_sync(ALL_LANES, mark != 0) & (ALL_LANES >> (WARP - 1 - lane_id()));
        const uint32_t found = __shfl_sync(ALL_LANES, mark, up_to_me == 0 ? 0 : 31 - __clz(up_to_me));
        const uint32_t own = up_to_me == 0 ? carry : found;
        carry = __shfl_sync(ALL_LANES, own, WARP - 1);
        return symbol < alphabet ? own - 1 : 0;
    }
};

// Writes the marked symbols in canonical order, and finds the smallest and the largest symbol with a short codeword.
// Called by the whole block.
__device__ inline void sort_symbols(const uint8_t *marks, uint32_t alphabet, uint16_t *to, ParseScratch &scratch) {
    const uint32_t per_warp = ceil_div(alphabet, THREADS) * WARP;
    const uint32_t first = min_of(warp_id() * per_warp, alphabet), end = min_of(first + per_warp, alphabet);
    // Searches backward for the last mark of the warp's symbols.
    uint32_t last = 0;
    for (uint32_t stop = align_up(end - first, WARP); stop > 0 && last == 0; stop -= WARP) {
        const uint32_t symbol = first + stop - WARP + lane_id();
        const uint32_t mark = symbol < end ? marks[symbol] : 0;
        const uint32_t marked = __ballot_sync(ALL_LANES, mark != 0);
        last = __shfl_sync(ALL_LANES, mark, marked == 0 ? 0 : 31 - __clz(marked));
        last = marked == 0 ? 0 : last;
    }
    if (lane_id() == 0) {
        scratch.last_marks[warp_id()] = last;
    }
    if (lane_id() < LENGTHS) {
        scratch.warp_counts[warp_id()][lane_id()] = 0;
    }
    __syncthreads();
    const uint32_t earlier = lane_id() < warp_id() && lane_id() < PARSE_WARPS ? scratch.last_marks[lane_id()] : 0;
    const uint32_t marked = __ballot_sync(ALL_LANES, earlier != 0);
    const uint32_t nearest = __shfl_sync(ALL_LANES, earlier, marked == 0 ? 0 : 31 - __clz(marked));
    const uint32_t carry = marked == 0 ? 1 : nearest;
    uint32_t *own_counts = scratch.warp_counts[warp_id()];
    Lengths counting{marks, end, carry};
    for (uint32_t i = first; i < end; i += WARP) {
        const uint32_t length = counting.at(i + lane_id());
        const uint32_t same = __match_any_sync(ALL_LANES, length);
        if (length > 0 && lane_id() == __ffs(same) - 1) {
            own_counts[length] += __popc(same);
        }
        __syncwarp();
    }
    __syncthreads();
    // One warp per length, one lane per warp.
    for (uint32_t length = warp_id(); length < LENGTHS; length += PARSE_WARPS) {
        const uint32_t count = lane_id() < PARSE_WARPS ? scratch.warp_counts[lane_id()][length] : 0;
        uint32_t sum = warp_inclusive_sum(count);
        if (lane_id() < PARSE_WARPS) {
            scratch.warp_counts[lane_id()][length] = scratch.entry[length] + sum - count;
        }
    }
    __syncthreads();
    uint32_t least = 0xFFFF, most = 0;
    Lengths placing{marks, end, carry};
    for (uint32_t i = first; i < end; i += WARP) {
        const uint32_t symbol = i + lane_id();
        const uint32_t length = placing.at(symbol);
        const uint32_t same = __match_any_sync(ALL_LANES, length);
        const uint32_t rank = __popc(same & ((1u << lane_id()) - 1));
        if (length > 0) {
            to[own_counts[length] + rank] = symbol;
            if (length <= TABLE_BITS) {
                least = min_of(least, symbol);
                most = max_of(most, symbol);
            }
        }
        __syncwarp();
        if (length > 0 && rank == 0) {
            own_counts[length] += __popc(same);
        }
        __syncwarp();
    }
    least = warp_reduce_min(least);
    most = warp_reduce_max(most);
    if (lane_id() == 0) {
        atomicMin(&scratch.least, least);
        atomicMax(&scratch.most, most);
    }
    __syncthreads();
}

// Destination of the codebooks of a stream.
struct CodebookOutput {
    CodebookDescriptor *codebooks; // MAX_CODEBOOKS per stream, or 1 if streams have only one
    uint32_t first_codebook;
    uint16_t *symbols;
    uint32_t first_symbol, stride; // of the stream's first codebook; distance between codebooks
    uint8_t *marks;                // memory for alphabets that do not fit into shared memory
};

// Size of a codebook's alphabet, and number of codebooks of the stream.
struct CodebookInfo {
    uint32_t alphabet, codebooks;
};

// Reads a stream up to codebook `own`, prepares that codebook, and, if it is the last one, writes the stream's
// descriptor. Returns whether this block has written the descriptor. `status` receives the errors that this block
// found; other blocks may find others. All outputs are safe to use whatever the status is. `own_codebook` is set if the
// codebook is prepared. Called by the whole block.
__device__ inline bool parse_stream(const uint8_t *input, const StreamBounds &bounds, uint32_t own,
                                    const CodebookOutput &to, uint64_t out, uint64_t classes, StreamDescriptor &stream,
                                    uint32_t &status, ParseScratch &scratch, CodebookInfo *own_codebook = nullptr) {
    const StreamHeader header = read_header(input, bounds);
    status = header.status;
    // Encoders use several codebooks for small alphabets only.
    const uint32_t alphabet_limit = bounds.symbol_bytes == 1 ? 256 : header.codebooks > 1 ? MARKS : 65536;
    const uint8_t *bytes = input + bounds.offset + STREAM_HEADER_BYTES;
    if (status == 0 && own < header.codebooks && header.codebook_bytes <= STAGED) {
        // Codebooks start at a multiple of 8 bytes, and at least 8 bytes of codewords follow, so reading whole units
        // stays within the stream.
        for (uint32_t i = threadIdx.x; i < ceil_div(header.codebook_bytes, 8); i += THREADS) {
            reinterpret_cast<uint2 *>(scratch.bytes)[i] = reinterpret_cast<const uint2 *>(bytes)[i];
        }
        bytes = scratch.bytes;
        __syncthreads();
    }
    uint32_t position = 0, first_read = 0;
    bool prepared = false;
    if (status == 0 && own > 0 && own < header.codebooks && header.codebook_bytes <= STAGED) {
        // The marks are written later, so their memory is free.
        position = find_codebook(bytes, header.codebook_bytes, own, alphabet_limit,
                                 reinterpret_cast<uint32_t *>(scratch.marks), scratch.warp_sums);
        status = position == NO_CODEBOOK ? STATUS_CODEBOOK : 0;
        first_read = own;
    }
    for (uint32_t number = first_read; number <= own && own < header.codebooks && status == 0; ++number) {
        // Marks are in shared memory if they fit.
        const bool is_own = number == own;
        const bool small = header.codebook_bytes - position < 4 || alphabet_limit <= MARKS ||
                           (bytes[position + 2] == 0 && bytes[position + 3] == 0 &&
                            (bytes[position] | bytes[position + 1] << 8) <= MARKS);
        uint8_t *marks = is_own ? (small ? scratch.marks : to.marks) : nullptr;
        const uint32_t alphabet = read_runs(bytes, position, header.codebook_bytes, alphabet_limit, marks, scratch);
        __syncthreads();
        if (is_own) {
            if (warp_id() == 0 && scratch.bad == 0) {
                finish_codebook(scratch);
            }
            __syncthreads();
        }
        // Of several codebooks, each is read by another block, which does not know the others.
        const bool is_only = header.codebooks == 1;
        if (scratch.bad != 0 ||
            (is_own && (scratch.longest > header.longest || (is_only && scratch.longest < header.longest)))) {
            status = STATUS_CODEBOOK;
            break;
        }
        position = scratch.end;
        if (is_own) {
            if (own_codebook != nullptr) {
                *own_codebook = {alphabet, header.codebooks};
            }
            const uint32_t first_symbol = to.first_symbol + own * to.stride;
            sort_symbols(marks, alphabet, to.symbols + first_symbol, scratch);
            if (threadIdx.x == 0) {
                const uint32_t least = min_of(scratch.least, scratch.most);
                const bool narrow = scratch.most - least <= 0xFFF;
                scratch.codebook.longest = scratch.longest;
                scratch.codebook.symbols = first_symbol;
                scratch.codebook.symbol_count = scratch.used;
                scratch.codebook.base = narrow ? least : 0;
                scratch.codebook.mask = narrow ? 0xFFF : 0xFFFF;
                scratch.codebook.absent = 0;
            }
            __syncthreads();
            if (threadIdx.x < sizeof(CodebookDescriptor) / 4) {
                reinterpret_cast<uint32_t *>(&to.codebooks[own])[threadIdx.x] =
                    reinterpret_cast<const uint32_t *>(&scratch.codebook)[threadIdx.x];
            }
            prepared = true;
        }
        // Everyone has read the results before the next codebook overwrites them.
        __syncthreads();
    }
    const bool is_last = header.status != 0 ? own == 0 : own + 1 == header.codebooks;
    if (is_last && status == 0 && position != header.codebook_bytes) {
        status = STATUS_CODEBOOK;
    }
    // Unused bits at the end of the bitmap must be 0.
    const uint32_t used = header.groups % 8;
    if (is_last && status == 0 && header.has_zero_bit_groups && used != 0 &&
        input[bounds.offset + header.bitmap + header.groups / 8] >> used != 0) {
        status = STATUS_INDEX;
    }
    if (!prepared && threadIdx.x < sizeof(CodebookDescriptor) / 4) {
        // A codebook that should exist is left empty, which decoders accept. One that should not exist is marked by
        // `absent`, its last word.
        const bool absent = header.status != 0 || own >= header.codebooks;
        reinterpret_cast<uint32_t *>(&to.codebooks[own])[threadIdx.x] =
            absent && threadIdx.x == sizeof(CodebookDescriptor) / 4 - 1;
    }
    if (is_last && threadIdx.x == 0) {
        StreamDescriptor described{};
        described.out = out;
        described.classes = classes;
        described.first_codebook = to.first_codebook;
        described.codebooks = 1;
        if (status == 0) {
            described.words = bounds.offset + header.words;
            described.index = bounds.offset + header.index;
            described.bitmap = bounds.offset + header.bitmap;
            described.groups = header.groups;
            described.coded_groups = header.coded_groups;
            described.bits = header.bits;
            described.index_bytes = header.index_bytes;
            described.sum = header.sum;
            described.weighted = header.weighted;
            described.codebooks = header.codebooks;
            described.zero_bit_symbol = header.zero_bit_symbol;
            described.longest = header.longest;
            described.has_zero_bit_groups = header.has_zero_bit_groups;
        }
        stream = described;
    }
    return is_last;
}

// Computes what locates the streams in a batch: the sums over previous streams. Called by the whole block, after all
// streams are described; `streams` may have been written by other blocks.
__device__ inline void sum_batch(StreamDescriptor *streams, uint32_t count, BatchTotals *totals, uint64_t *warp_sums,
                                 uint32_t block_groups) {
    uint32_t tasks = 0, sequences = 0, bitmap_blocks = 0, map = 0;
    for (uint32_t window = 0; window < count; window += THREADS) {
        const uint32_t i = window + threadIdx.x;
        uint32_t groups = 0, coded = 0, bits = 0;
        if (i < count) {
            groups = __ldcg(&streams[i].groups);
            coded = __ldcg(&streams[i].coded_groups);
            bits = __ldcg(&streams[i].bits);
        }
        const bool has_zero_bit_groups = coded < groups;
        const uint32_t in_sequence = SEQUENCE * SUBSEQUENCE_BITS;
        // Packs two sums into one prefix sum.
        auto both = [](uint32_t low, uint32_t high) { return uint64_t(high) << 32 | low; };
        uint64_t first_total, second_total;
        const uint64_t before = block_exclusive_sum<THREADS>(
            both(ceil_div(coded, WARP), bits / in_sequence + (bits % in_sequence != 0)), warp_sums, first_total);
        const uint64_t buffers = block_exclusive_sum<THREADS>(
            has_zero_bit_groups ? both(ceil_div(groups, block_groups), coded) : 0ull, warp_sums, second_total);
        const uint32_t own_tasks = tasks + uint32_t(before), own_sequences = sequences + uint32_t(before >> 32);
        const uint32_t own_placings = bitmap_blocks + uint32_t(buffers), own_map = map + uint32_t(buffers >> 32);
        if (i < count) {
            streams[i].first_index_block = own_tasks;
            streams[i].first_sequence = own_sequences;
            streams[i].first_subsequence = own_sequences * SEQUENCE;
            streams[i].first_bitmap_block = own_placings;
            streams[i].map = own_map;
        }
        tasks += uint32_t(first_total);
        sequences += uint32_t(first_total >> 32);
        bitmap_blocks += uint32_t(second_total);
        map += uint32_t(second_total >> 32);
    }
    if (threadIdx.x == 0) {
        *totals = BatchTotals{tasks, sequences, bitmap_blocks, 0};
    }
}

// Whether this block is the last of `blocks` to call this. The writes of the other blocks are visible then. Called by
// the whole block; `done` is 0 at the start.
__device__ inline bool is_last_block(uint32_t *done, uint32_t blocks) {
    __shared__ uint32_t came_before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        came_before = atomicAdd(done, 1u);
    }
    __syncthreads();
    const bool last = came_before + 1 == blocks;
    if (last) {
        __threadfence();
    }
    return last;
}
