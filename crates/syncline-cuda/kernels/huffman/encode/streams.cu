// Lays out encoded segments as streams and writes the bytes of the streams (docs/FORMAT.md, "Huffman stream").
//
// INDEX           0 none, 2 symbol
// THREADS         threads of a block of streams_lay_out
// WRITE_THREADS   threads of a block of streams_write, one warp for each segment
#include "device/sync.cuh"
#include "huffman/encode/stream_sections.cuh"

// Groups of a thread. Their numbers of bits form a vector.
constexpr uint32_t OWN_GROUPS = 8;
static_assert(SEGMENT_GROUPS % OWN_GROUPS == 0, "a thread's groups are of one segment");
constexpr uint32_t THREADS_IN_SEGMENT = SEGMENT_GROUPS / OWN_GROUPS;
// The numbers of bits of this many coded groups are cached in shared memory. Those of longer streams (more than 2^20
// symbols) are read from device memory.
constexpr uint32_t CACHED_GROUPS = THREADS * OWN_GROUPS;

// Sizes of a stream's codebooks. One warp calls `load` early, and `reduce` when it needs the sums.
struct CodebookSums {
    uint32_t used = 1, bytes = 0, longest = 0;

    __device__ inline void load(const Codebooks &codebooks, uint32_t stream) {
        used = CLASSES == 1 ? 1 : codebooks.used[stream];
        if (lane_id() < CODEBOOKS) {
            const uint2 summary = reinterpret_cast<const uint2 *>(codebooks.summaries)[stream * CODEBOOKS + lane_id()];
            bytes = summary.x;
            longest = summary.y;
        }
    }
    __device__ inline void reduce() {
        used = used == 1 ? 1 : CLASSES;
        const bool is_used = CLASSES == 1 || (used == 1) == (lane_id() == CLASSES);
        bytes = warp_reduce_sum(is_used ? bytes : 0);
        longest = warp_reduce_max(is_used ? longest : 0);
    }
};

// Lays out one stream per block. If `blocks_done` is null, the offsets of the streams are not computed. If
// `segments_done` is not null, a stream is laid out as soon as all its segments are done, and its counter is reset to
// 0; `streams_done`, if not null, then counts the streams that are laid out.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    streams_lay_out(const StreamInput *inputs, Codebooks codebooks, EncodeScratch all, uint32_t segments_in_stream,
                    const uint32_t *status, StreamPlan *plans, uint64_t *offsets, uint32_t *blocks_done) {
    __shared__ uint64_t warp_sums[THREADS / WARP];
    __shared__ uint32_t checksum[2], coded_before[THREADS];
    __shared__ __align__(16) uint16_t cached_bits[CACHED_GROUPS];
    // The encoding kernel starts this one only after its own predecessors have finished, so everything but its own
    // results is valid.
    const uint32_t stream = blockIdx.x;
    const StreamInput input = inputs[stream];
    const EncodeScratch scratch = of_stream(all, stream, segments_in_stream);
    const uint32_t segments = ceil_div(input.groups, SEGMENT_GROUPS);
    CodebookSums codebook_sums;
    uint32_t stream_status = 0;
    if (warp_id() == 0) {
        codebook_sums.load(codebooks, stream);
        codebook_sums.reduce();
        stream_status = status[stream];
    }
    if (threadIdx.x < 2) {
        checksum[threadIdx.x] = 0;
    }
    // The next kernel, if it waits itself, starts after this wait: it then sees all data that was valid before this
    // kernel.
    grid_dependency_wait();
    launch_dependents();

    // Loads the numbers of bits of a thread's groups; 0 past the end of the stream.
    auto lengths_from = [&](uint32_t first) {
        const uint16_t *from = scratch.group_bits + first;
        if (first + OWN_GROUPS <= input.groups) {
            return *reinterpret_cast<const uint4 *>(from);
        }
        uint32_t pairs[OWN_GROUPS / 2] = {};
#pragma unroll
        for (uint32_t i = 0; i < OWN_GROUPS; ++i) {
            pairs[i / 2] |= first + i < input.groups ? uint32_t(from[i]) << i % 2 * 16 : 0;
        }
        return make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    };
    // The load overlaps with the prefix sums.
    uint4 lengths = lengths_from(threadIdx.x * OWN_GROUPS);
    // Prefix sums of the segments: bits in the low half, coded groups in the high half. Segments that a shorter stream
    // does not have start at its end.
    uint64_t running = 0, total;
    uint32_t sum = 0, weighted = 0;
    bool bad = false;
    for (uint32_t first = 0; first < segments_in_stream; first += THREADS) {
        const uint32_t segment = first + threadIdx.x;
        SegmentSums own = {0, 0, 0, 0};
        if (segment < segments) {
            own = scratch.sums[segment];
        }
        bad |= own.coded_groups >= SEGMENT_INVALID;
        own.coded_groups &= SEGMENT_INVALID - 1;
        const uint64_t before = running + block_exclusive_sum<THREADS, uint64_t>(
                                              uint64_t(own.coded_groups) << 32 | own.bits, warp_sums, total);
        if (segment < segments_in_stream) {
            scratch.starts[segment] = make_uint2(uint32_t(before), uint32_t(before >> 32));
        }
        if (first == 0) {
            coded_before[threadIdx.x] = uint32_t(before >> 32);
        }
        sum += own.sum;
        weighted += own.weighted + uint32_t(before >> 32) * GROUP * own.sum;
        running += total;
    }
    const uint32_t bits = uint32_t(running), coded = uint32_t(running >> 32);
    const bool all_coded = coded == input.groups;
    bad = __syncthreads_or(bad);

    // Compacts the coded groups and sets the bitmap of zero-bit groups, if there are any.
    if (all_coded) {
        reinterpret_cast<uint4 *>(cached_bits)[threadIdx.x] = lengths;
    }
    uint32_t coded_groups = 0;
#pragma unroll 1
    for (uint32_t begin = 0; !all_coded && begin < input.groups; begin += CACHED_GROUPS) {
        const uint32_t first = begin + threadIdx.x * OWN_GROUPS, segment = first / SEGMENT_GROUPS;
        // A single multiprocessor does this work, so warps without groups must not compete.
        if (THREADS_IN_SEGMENT <= WARP && begin + warp_id() * WARP * OWN_GROUPS >= input.groups) {
            break;
        }
        if (begin > 0) {
            lengths = lengths_from(first);
        }
        const uint32_t pairs[OWN_GROUPS / 2] = {lengths.x, lengths.y, lengths.z, lengths.w};
        uint32_t are_coded = 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN_GROUPS; ++i) {
            are_coded |= (pairs[i / 2] >> i % 2 * 16 & 0xFFFF) != 0 ? 1u << i : 0;
        }
        const uint32_t own = __popc(are_coded);
        uint32_t rank;
        if (THREADS_IN_SEGMENT <= WARP) {
            uint32_t through = own;
#pragma unroll
            for (uint32_t distance = 1; distance < THREADS_IN_SEGMENT; distance *= 2) {
                const uint32_t below = __shfl_up_sync(ALL_LANES, through, distance, THREADS_IN_SEGMENT);
                through += lane_id() % THREADS_IN_SEGMENT >= distance ? below : 0;
            }
            const uint32_t before = segment < THREADS    ? coded_before[segment]
                                    : segment < segments ? scratch.starts[segment].y
                                                         : 0;
            rank = before + through - own;
        } else {
            uint32_t all;
            rank = coded_groups +
                   block_exclusive_sum<THREADS, uint32_t>(own, reinterpret_cast<uint32_t *>(warp_sums), all);
            coded_groups += all;
        }
#pragma unroll
        for (uint32_t i = 0; i < OWN_GROUPS; ++i) {
            const uint16_t length = pairs[i / 2] >> i % 2 * 16;
            if (length != 0) {
                if (rank < CACHED_GROUPS) {
                    cached_bits[rank] = length;
                } else {
                    scratch.coded_group_bits[rank] = length;
                }
                ++rank;
            }
        }
        // Whole words.
        if (first < align_up(input.groups, 32)) {
            const uint32_t exists = first < input.groups ? min_of(input.groups - first, OWN_GROUPS) : 0;
            reinterpret_cast<uint8_t *>(scratch.free_bitmap)[first / OWN_GROUPS] = ~are_coded & ((1u << exists) - 1);
        }
    }
    if (warp_id() * WARP < segments) {
        sum = warp_reduce_sum(sum);
        weighted = warp_reduce_sum(weighted);
        if (lane_id() == 0) {
            atomicAdd(&checksum[0], sum);
            atomicAdd(&checksum[1], weighted);
        }
    }
    __syncthreads();
    if (!all_coded && threadIdx.x * OWN_GROUPS < coded) {
        reinterpret_cast<uint4 *>(scratch.coded_group_bits)[threadIdx.x] =
            reinterpret_cast<const uint4 *>(cached_bits)[threadIdx.x];
    }

    uint32_t index_bytes = 0;
    if (INDEX == 2) {
        // For each index block the shortest group, the longest group and the sum of bits, by four lanes.
        constexpr uint32_t LANES = INDEX_BLOCK / OWN_GROUPS;
        const uint32_t blocks = ceil_div(coded, INDEX_BLOCK);
        running = 0;
#pragma unroll 1
        for (uint32_t first = 0; first < blocks; first += THREADS / LANES) {
            const uint32_t at = first * INDEX_BLOCK + threadIdx.x * OWN_GROUPS,
                           here = at < coded ? min_of(coded - at, OWN_GROUPS) : 0;
            uint32_t shortest = 0xFFFF, longest = 0, block_bits = 0;
            auto add = [&](uint32_t length, bool exists) {
                shortest = min_of<uint32_t>(shortest, exists ? length : 0xFFFF);
                longest = max_of<uint32_t>(longest, exists ? length : 0);
                block_bits += exists ? length : 0;
            };
            const bool is_cached = at < CACHED_GROUPS, is_idle = at - lane_id() * OWN_GROUPS >= coded;
            const uint16_t *own = is_cached ? cached_bits + at : scratch.bits_of_coded(all_coded) + at;
            if (is_idle) {
            } else if (is_cached || here == OWN_GROUPS) {
                const uint4 vector = *reinterpret_cast<const uint4 *>(own);
                const uint32_t pairs[OWN_GROUPS / 2] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
                for (uint32_t i = 0; i < OWN_GROUPS; ++i) {
                    add(pairs[i / 2] >> i % 2 * 16 & 0xFFFF, i < here);
                }
            } else {
#pragma unroll 1
                for (uint32_t i = 0; i < here; ++i) {
                    add(own[i], true);
                }
            }
#pragma unroll
            for (uint32_t distance = 1; distance < LANES && !is_idle; distance *= 2) {
                shortest = min_of(shortest, __shfl_xor_sync(ALL_LANES, shortest, distance));
                longest = max_of(longest, __shfl_xor_sync(ALL_LANES, longest, distance));
                block_bits += __shfl_xor_sync(ALL_LANES, block_bits, distance);
            }
            const uint32_t block = first + threadIdx.x / LANES;
            const bool lengths_of_codewords = threadIdx.x % LANES == 0 && block < blocks;
            const uint32_t width = lengths_of_codewords ? 32 - __clz(longest - shortest) : 0;
            const uint64_t before =
                running + block_exclusive_sum<THREADS, uint64_t>(
                              lengths_of_codewords ? uint64_t(width) << 32 | block_bits : 0, warp_sums, total);
            if (lengths_of_codewords) {
                scratch.descriptors[block] =
                    (before & 0xFFFFFFFFu) | uint64_t(shortest) << 32 | uint64_t(width) << 44 | before >> 32 << 48;
            }
            running += total;
        }
        index_bytes = 8 * blocks + 4 * uint32_t(running >> 32);
    }
    if (threadIdx.x == 0) {
        StreamPlan plan;
        plan.groups = input.groups;
        plan.coded_groups = coded;
        plan.codeword_bits = bits;
        plan.sum = checksum[0];
        plan.weighted = checksum[1];
        plan.codebooks = codebook_sums.used;
        plan.codebook_bytes = codebook_sums.bytes;
        plan.longest = codebook_sums.longest;
        // A given codebook may have codewords even if no group is coded. The stream then has an empty codebook.
        if (coded == 0) {
            plan.codebooks = 1;
            plan.codebook_bytes = EMPTY_CODEBOOK_BYTES;
            plan.longest = 0;
        }
        plan.has_free = coded < input.groups;
        plan.free_symbol = input.free_symbol;
        plan.status = stream_status | (bad ? STATUS_MISSING_CODEWORD : 0);
        plan.bitmap_at = align_up(STREAM_HEADER_BYTES + plan.codebook_bytes, 4);
        plan.index_at = align_up(plan.bitmap_at + (plan.has_free ? ceil_div(input.groups, 8) : 0), 8);
        plan.index_bytes = index_bytes;
        plan.codewords_at = align_up(plan.index_at + index_bytes, 16);
        plan.stream_bytes = plan.codewords_at + 4 * (ceil_div(bits, 32) + 2);
        plans[stream] = plan;
        __threadfence();
    }
    // The last block computes the offsets of the streams, each a multiple of 16. `offsets` has one more entry, the end
    // of the last stream.
    __shared__ bool last_block;
    if (threadIdx.x == 0) {
        last_block = atomicAdd(blocks_done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last_block) {
        return;
    }
    __threadfence();
    running = 0;
    for (uint32_t first = 0; first < gridDim.x; first += THREADS) {
        const uint32_t other = first + threadIdx.x;
        const uint64_t bytes = other < gridDim.x ? align_up(__ldcg(&plans[other].stream_bytes), 16) : 0;
        const uint64_t before = running + block_exclusive_sum<THREADS, uint64_t>(bytes, warp_sums, total);
        if (other < gridDim.x) {
            offsets[other] = before;
        }
        running += total;
    }
    if (threadIdx.x == 0) {
        offsets[gridDim.x] = running;
        *blocks_done = 0;
    }
}

// Writes block `number`'s part of a stream: block 0 the header, the codebooks and the padding, and each other block the
// codewords of WRITE_WARPS segments and a part of the bitmap and the index.
__device__ inline void write_block(uint32_t stream, uint32_t number, StreamPlan *plans, const Codebooks &codebooks,
                                   const EncodeScratch &all, const uint32_t *all_slots, uint64_t slots_in_stream,
                                   const StreamInput *inputs, uint32_t segments_in_stream, const uint64_t *offsets,
                                   uint8_t *out, uint64_t out_bytes) {
    const bool is_header_block = number == 0;
    const uint32_t block = is_header_block ? 0 : number - 1;
    // Loads the start and end of this warp's segment together with the plan that determines whether the segment exists.
    const EncodeScratch scratch = of_stream(all, stream, segments_in_stream);
    const uint32_t segment = block * WRITE_WARPS + warp_broadcast(warp_id(), 0);
    uint32_t starts[3];
#pragma unroll
    for (uint32_t i = 0; i < 3; ++i) {
        starts[i] = segment + i < segments_in_stream ? scratch.starts[segment + i].x : 0;
    }
    const StreamPlan plan = plans[stream];
    const uint64_t offset = offsets[stream];
    const uint32_t segments = ceil_div(plan.groups, SEGMENT_GROUPS);
    const uint32_t blocks = max_of(1u, ceil_div(segments, WRITE_WARPS));
    if (block >= blocks) {
        return;
    }
    if (offset % 16 != 0 || offset > out_bytes || plan.stream_bytes > out_bytes - offset) {
        if (is_header_block && threadIdx.x == 0) {
            plans[stream].status = plan.status | STATUS_NO_ROOM;
        }
        return;
    }
    const uint32_t start = warp_broadcast(segment < segments ? starts[0] : plan.codeword_bits, 0);
    const uint32_t end = warp_broadcast(segment + 1 < segments ? starts[1] : plan.codeword_bits, 0);
    const uint32_t next_end = segment + 2 < segments ? starts[2] : plan.codeword_bits;
    out += offset;
    if (is_header_block) {
        write_header_and_codebooks(out, plan, codebooks, stream, threadIdx.x, WRITE_THREADS);
        return;
    }
    const uint32_t rank = block * WRITE_THREADS + threadIdx.x, step = blocks * WRITE_THREADS;
    if (plan.has_free) {
        const uint32_t bytes = ceil_div(plan.groups, 8);
        for (uint32_t i = rank; i < bytes; i += step) {
            out[plan.bitmap_at + i] = uint8_t(scratch.free_bitmap[i / 4] >> i % 4 * 8);
        }
    }
    if (INDEX == 2) {
        write_symbol_index(out + plan.index_at, scratch.descriptors, scratch.bits_of_coded(!plan.has_free),
                           plan.coded_groups, rank / WARP, step / WARP);
    }
    if (segment >= segments) {
        return;
    }
    const uint64_t first_slot =
        slots_in_stream > 0 ? stream * slots_in_stream : inputs[stream].first_group * (GROUP * SYMBOL_BYTES / 4);
    const Slots slots{all_slots + first_slot, scratch.starts, segments, plan.codeword_bits};
    // A segment writes the words that start in it.
    const uint32_t first = ceil_div(start, 32), last = ceil_div(end, 32);
    uint32_t *words = reinterpret_cast<uint32_t *>(out + plan.codewords_at);
    const uint32_t *slot = slots.slots + uint64_t(segment) * SLOT_WORDS;
    // The rest of the segment's last word is usually all in the next segment.
    const bool next_suffices = segment + 1 >= segments || next_end >= align_up(end, 32);
    uint32_t rest =
        lane_id() == 0 && next_suffices && end % 32 != 0 && next_end > end ? slot[SLOT_WORDS] >> end % 32 : 0;
    const uint32_t shift = (first * 32 - start) % 32;
    // The last word may need later segments. Each other word consists of two words of the slot.
    const uint32_t skipped = (first * 32 - start) / 32, whole = last > first ? last - 1 : first;
    // From one 128-byte line of the output to the next, so that a warp's stores cover whole sectors.
    const uint32_t in_line = uint32_t(reinterpret_cast<uint64_t>(words) / 4 % LINE_WORDS);
    const uint32_t aligned = min_of(align_up(first + in_line, LINE_WORDS) - in_line, whole);
    const uint32_t aligned_end = max_of((whole + in_line) / LINE_WORDS * LINE_WORDS, aligned + in_line) - in_line;
    auto move_word = [&](uint32_t to) {
        const uint32_t *from = slot + skipped + (to - first);
        words[to] = shift == 0 ? from[0] : __funnelshift_l(from[1], from[0], shift);
    };
    // Less than a line before the first vector and after the last.
    if (lane_id() < aligned - first) {
        move_word(first + lane_id());
    }
    if (lane_id() < whole - aligned_end) {
        move_word(aligned_end + lane_id());
    }
    const uint32_t begin = skipped + (aligned - first);
    const uint4 *from = reinterpret_cast<const uint4 *>(slot) + begin / 4;
    uint4 *to = reinterpret_cast<uint4 *>(words + aligned);
    const uint32_t vectors = (aligned_end - aligned) / 4;
    switch (begin % 4) {
    case 0:
        move_vectors<0>(from, to, vectors, shift);
        break;
    case 1:
        move_vectors<1>(from, to, vectors, shift);
        break;
    case 2:
        move_vectors<2>(from, to, vectors, shift);
        break;
    default:
        move_vectors<3>(from, to, vectors, shift);
    }
    if (last > first) {
        if (!next_suffices) {
            rest = slots.rest_of_word(segment, end);
        }
        if (lane_id() == 0) {
            const uint32_t bit = (last - 1) * 32 - start, own_bits = end - start;
            uint32_t word = slot[bit / 32] << bit % 32;
            if (bit % 32 != 0 && own_bits - bit > 32 - bit % 32) {
                word = __funnelshift_l(slot[bit / 32 + 1], slot[bit / 32], bit % 32);
            }
            words[last - 1] = word | rest;
        }
    }
}

// Resident blocks per multiprocessor, for the allocation of registers.
constexpr uint32_t WRITE_BLOCKS = 40 / WRITE_WARPS;

// Writes the bytes of the streams, with as many blocks for each stream as the largest has segments for, and one more. A
// stream's slots have `slots_in_stream` words.
extern "C" __global__ void __launch_bounds__(WRITE_THREADS, WRITE_BLOCKS)
    streams_write(StreamPlan *plans, Codebooks codebooks, EncodeScratch all, const uint32_t *all_slots,
                  uint64_t slots_in_stream, const StreamInput *inputs, uint32_t segments_in_stream,
                  const uint64_t *offsets, uint8_t *out, uint64_t out_bytes, uint32_t blocks_in_stream) {
    const uint32_t streams = gridDim.x / blocks_in_stream;
    // Otherwise starts with the last stream, whose segments may still be in the L2 cache.
    const uint32_t from_last = gridDim.x - 1 - blockIdx.x;
    const uint32_t stream = warp_broadcast(INTERLEAVED ? blockIdx.x % streams : from_last / blocks_in_stream, 0);
    const uint32_t number = INTERLEAVED ? blockIdx.x / streams : from_last % blocks_in_stream;
    launch_dependents();
    grid_dependency_wait();
    write_block(stream, number, plans, codebooks, all, all_slots, slots_in_stream, inputs, segments_in_stream, offsets,
                out, out_bytes);
}
