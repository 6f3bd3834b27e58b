// Reconstructs elements from parsed chunks in one kernel.
//
// Blocks divide the cost of the batch's chunks equally (reconstruct/work.cuh), which determines where each block
// begins. The warps of all blocks that work on a chunk draw its units; a block that finds no more units continues with
// the chunk that has most left. A warp takes TILES tiles with codes at a time, which have at most 32 groups. Each lane
// decodes a group (FUSED: codewords to symbols with the symbol index; otherwise it loads symbols that were decoded
// before) and sums residuals within the group (reconstruct/rows.cuh). Then the warp writes the tiles
// (reconstruct/elements.cuh). No block waits for another block.
//
// FUSED       1 if this kernel decodes codes
// APART       1 if it decodes, but writes rows to device memory instead of elements (`out`: CODES of 16 bits per
//             group), for reconstruct/strips.cu
// OWN_LONG    entries for long codewords in a block's tables with one codebook; OWN_LONG_MANY: with several
// THREADS     threads of a block, at least MAX_CHUNKS if FUSED
// LIVE_COST   cost of a tile with codes, in constant tiles
// START_COST  cost for a block of starting a chunk, in constant tiles
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "reconstruct/work.cuh"
#if FUSED
#include "reconstruct/fused.cuh"
#include "reconstruct/progress.cuh"
static_assert(THREADS >= MAX_CHUNKS, "a thread for each chunk");

// Computes the prefix sums of the chunks' costs. Called by the whole block.
__device__ inline void add_up_costs(uint32_t cost, uint32_t chunks, uint32_t *before) {
    __shared__ uint32_t warp_sums[MAX_CHUNKS / WARP];
    uint32_t sum = warp_inclusive_sum(cost);
    if (lane_id() == WARP - 1 && threadIdx.x < MAX_CHUNKS) {
        warp_sums[warp_id()] = sum;
    }
    __syncthreads();
    if (threadIdx.x < chunks) {
        for (uint32_t warp = 0; warp < warp_id(); ++warp) {
            sum += warp_sums[warp];
        }
        before[threadIdx.x + 1] = sum;
    }
    if (threadIdx.x == 0) {
        before[0] = 0;
    }
    __syncthreads();
}

// Returns the tiles of a chunk that this kernel writes.
__device__ inline Items own_items(const Geometry &geometry, const Parsed &parsed, const Request &request,
                                  uint32_t chunk) {
    Items items = items_of(geometry, parsed, request, chunk);
    const ParsedChunk &record = parsed.chunks[chunk];
    if ((record.wide != 0) != WIDE && record.kind != KIND_RAW) {
        items.live = 0;
    }
    if (WIDE || APART) {
        items.constant = 0;
    }
    return items;
}

// Returns the part of a chunk in a block's share [start, end) of all costs. The cost of starting the chunk comes before
// that of its tiles.
__device__ inline uint32_t own_share(const uint32_t *before, uint32_t chunk, uint32_t start, uint32_t end) {
    if (before[chunk + 1] == before[chunk]) {
        return 0;
    }
    const uint32_t from = max_of(start, before[chunk] + START_COST), to = min_of(end, before[chunk + 1]);
    return to - min_of(from, to);
}

// Returns the chunk with the largest number of units that have not been drawn, or NONE. Called by the whole block.
__device__ inline uint32_t most_left(Shared &shared, const Geometry &geometry, const Parsed &parsed,
                                     const Request &request, const uint32_t *draws) {
    if (threadIdx.x == 0) {
        shared.most_left = 0;
    }
    __syncthreads();
    const uint32_t chunk = threadIdx.x;
    if (chunk < parsed.chunk_count) {
        const Items items = own_items(geometry, parsed, request, chunk);
        const uint32_t units = items.live_units() + items.constant_units(),
                       drawn = min_of(units, __ldcg(&draws[chunk]));
        if (drawn < units) {
            atomicMax(&shared.most_left, (units - drawn) << 8 | chunk);
        }
    }
    __syncthreads();
    const uint32_t most = shared.most_left;
    __syncthreads();
    return most == 0 ? NONE : most % MAX_CHUNKS;
}

// Returns the cost before a block's share, if `all` is divided equally among blocks.
__device__ inline uint32_t share_before(uint32_t all, uint32_t block) {
    return all / gridDim.x * block + all % gridDim.x * block / gridDim.x;
}

// Compares the checksums of those wide (or narrow) chunks whose tiles were all decoded, and resets the sums. Called by
// the whole block.
__device__ inline void compare_checksums(const Geometry &geometry, const Parsed &parsed, const Request &request,
                                         const StreamDescriptor *streams, bool wide, uint32_t *sums, uint32_t *status) {
    const uint32_t chunk = threadIdx.x;
    if (chunk >= parsed.chunk_count || parsed.chunks[chunk].status != 0 || parsed.chunks[chunk].kind == KIND_RAW ||
        (parsed.chunks[chunk].wide != 0) != wide) {
        return;
    }
    const uint64_t number = request.first_chunk + chunk;
    const bool whole =
        geometry.first_tile(number) >= request.tiles_start && geometry.first_tile(number + 1) <= request.tiles_end;
    const bool equal =
        __ldcg(&sums[2 * chunk]) == streams[chunk].sum && __ldcg(&sums[2 * chunk + 1]) == streams[chunk].weighted;
    if (whole && !equal) {
        atomicOr(&status[chunk], STATUS_CHECKSUM);
    }
    sums[2 * chunk] = 0;
    sums[2 * chunk + 1] = 0;
}

// Resets the counters of draws and finishes the batch if requested, as the last work of this block.
__device__ inline void finish_work(const BatchFinish &ending, const Parsed &parsed, const uint32_t *status,
                                   uint32_t *sums) {
    const uint32_t chunks = parsed.chunk_count;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < 2 * chunks; i += THREADS) {
        sums[2 * chunks + 1 + i] = 0;
    }
    if (ending.result != nullptr) {
        finish_batch(ending, parsed.chunks, status, parsed.chunk_count);
    }
}

// A launch with WIDE 0, followed by one with WIDE 1, reconstructs all chunks; the latter finishes the batch if `ending`
// requests it. `sums` has four words for each chunk and one more, which are 0 before and after, and those of
// reconstruct/progress.cuh.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    reconstruct(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                const __grid_constant__ Values values, const __grid_constant__ Request request,
                const StreamDescriptor *streams, const CodebookDescriptor *books, const uint16_t *symbols,
                uint32_t *sums, uint32_t *status, Element *out, const __grid_constant__ BatchFinish ending) {
    __shared__ Shared shared;
    __shared__ uint32_t before[MAX_CHUNKS + 1];
    const uint32_t chunks = parsed.chunk_count;
#if APART && !WIDE
    // Because this kernel waits here, the next one knows that the results of parsing are available.
    grid_dependency_wait();
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) {
            *flat_unseen(sums, chunks) = gridDim.x;
            __threadfence();
        }
        __syncthreads();
    }
    launch_dependents();
#elif APART
    // The next kernel starts early as well, because most blocks of this one have nothing to do.
    launch_dependents();
#else
    launch_dependents_and_wait();
#endif
#if WIDE
    // Chunks with codes of this kind are very rare; without them only checksums are compared.
    const bool any_wide = __syncthreads_or(threadIdx.x < chunks && parsed.chunks[threadIdx.x].wide != 0);
#if APART
    if (any_wide || blockIdx.x == 0) {
        grid_dependency_wait();
    }
#endif
    if (!any_wide) {
        if (blockIdx.x == 0) {
            compare_checksums(geometry, parsed, request, streams, false, sums, status);
            finish_work(ending, parsed, status, sums);
        }
        return;
    }
#endif
    const uint32_t cost = threadIdx.x < chunks ? own_items(geometry, parsed, request, threadIdx.x).cost() : 0;
    add_up_costs(cost == 0 ? 0 : cost + START_COST, chunks, before);
    // The share of this block.
    const uint32_t all = before[chunks];
    const uint32_t start = share_before(all, blockIdx.x), end = share_before(all, blockIdx.x + 1);
#if WIDE
    if (blockIdx.x == 0) {
        compare_checksums(geometry, parsed, request, streams, false, sums, status);
    }
#endif
    // The first and last chunk of the block's share, and the chunk of which it has the largest part. The block starts
    // with that one, because other blocks process the rest of chunks of which it has a small part.
    if (threadIdx.x < chunks && start < end) {
        if (before[threadIdx.x] <= start && start < before[threadIdx.x + 1]) {
            shared.first = threadIdx.x;
        }
        if (before[threadIdx.x] < end && end <= before[threadIdx.x + 1]) {
            shared.last = threadIdx.x;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t most = 0;
        shared.best = shared.first;
        shared.visits = start < end ? shared.last - shared.first + 1 : 0;
        for (uint32_t visit = 0; visit < shared.visits; ++visit) {
            const uint32_t own = own_share(before, shared.first + visit, start, end);
            shared.best = own > most ? shared.first + visit : shared.best;
            most = max_of(most, own);
        }
    }
    __syncthreads();
    // The launch for narrow codes has drawn the constant tiles of chunks with wide codes.
    uint32_t *draws = sums + (WIDE ? 3 : 2) * chunks + 1;
#if APART
    const Task task{geometry, parsed, request, symbols, sums, status, reinterpret_cast<uint16_t *>(out)};
#else
    const Task task{geometry, parsed, request, symbols, sums, status};
#endif
    for (uint32_t visit = 0;; ++visit) {
        const uint32_t behind = shared.first + shared.visits;
        uint32_t chunk = shared.best + visit < behind ? shared.best + visit : behind - 1 - visit;
        if (visit >= shared.visits) {
            // Continues with the chunk that has most left.
            chunk = most_left(shared, geometry, parsed, request, draws);
            if (chunk == NONE) {
                break;
            }
        } else if (own_share(before, chunk, share_before(before[chunks], blockIdx.x),
                             share_before(before[chunks], blockIdx.x + 1)) == 0) {
            continue;
        }
        const Target target{input, parsed, shared.record, values, geometry, chunk, request.vectors != 0, out};
        const StreamDescriptor &stream = streams[chunk];
        const uint32_t book_count = max_of<uint32_t>(1, min_of<uint32_t>(stream.codebooks, BOOKS));
        // Each warp copies another part, so that the copies wait together.
        const auto copy = [](void *to, const void *from, uint32_t bytes, uint32_t thread, uint32_t threads) {
            for (uint32_t i = thread; i < bytes / 4; i += threads) {
                static_cast<uint32_t *>(to)[i] = static_cast<const uint32_t *>(from)[i];
            }
        };
        if (warp_id() == 0) {
            const Items items = own_items(geometry, parsed, request, chunk);
            if (lane_id() == 0) {
                shared.items = items;
                shared.draws = &draws[chunk];
                shared.is_over = __ldcg(&draws[chunk]) >= items.live_units() + items.constant_units();
                shared.sum = 0;
                shared.weighted = 0;
            }
        } else if (warp_id() == 1) {
            const ChunkStart chunk_start(geometry, request.first_chunk + chunk);
            if (lane_id() == 0) {
                shared.start = chunk_start;
            }
        } else if (warp_id() == 2) {
            copy(&shared.stream, &stream, sizeof(StreamDescriptor), lane_id(), WARP);
        } else if (warp_id() == 3) {
            copy(&shared.record, &parsed.chunks[chunk], sizeof(ParsedChunk), lane_id(), WARP);
        } else {
            copy(shared.books, &books[stream.first_codebook], book_count * sizeof(CodebookDescriptor),
                 threadIdx.x - 4 * WARP, THREADS - 4 * WARP);
        }
        __syncthreads();
        if (shared.is_over) {
            // All warps have read the data that is overwritten next.
            __syncthreads();
            continue;
        }
        if (warp_id() == 0) {
            const bool paired = !WIDE && paired_share(shared.books, book_count) >= PAIRED_PERCENT * 0.01f;
            if (threadIdx.x == 0) {
                shared.paired = paired;
                shared.idle = paired ? Lookup<!WIDE>::idle_entry(shared.record.radius)
                                     : Lookup<false>::idle_entry(shared.record.radius);
                shared.layout = paired
                                    ? layout_of<!WIDE>(shared.stream, shared.items, book_count, request.dynamic_bytes)
                                    : layout_of<false>(shared.stream, shared.items, book_count, request.dynamic_bytes);
            }
        } else if (!WIDE && request.tabled == 0 && shared.items.live != 0) {
            bring_symbols<WARP>(near_symbols(request.dynamic_bytes), shared, book_count, symbols);
        }
        __syncthreads();
#if !WIDE
        if (shared.paired) {
            write_chunk<true>(shared, task, target);
        } else {
            write_chunk<false>(shared, task, target);
        }
#else
        write_chunk<false>(shared, task, target);
#endif
        // The next chunk's tables, and the tiles that thread 0 finds for it, replace those of this chunk.
        const bool has_codes = shared.items.live != 0;
        __syncthreads();
        if (threadIdx.x == 0 && has_codes) {
            atomicAdd(&sums[2 * chunk], shared.sum);
            atomicAdd(&sums[2 * chunk + 1], shared.weighted);
        }
    }
#if WIDE
    // The last block to end, after all of its warps have ended.
    __threadfence();
    __syncthreads();
    if (__syncthreads_or(threadIdx.x == 0 && atomicAdd(&sums[2 * chunks], 1u) + 1 == gridDim.x)) {
        __threadfence();
        compare_checksums(geometry, parsed, request, streams, true, sums, status);
        if (threadIdx.x == 0) {
            sums[2 * chunks] = 0;
        }
        finish_work(ending, parsed, status, sums);
    }
#endif
}
#else
// Copies the codes of a warp's groups to the upper halves of their rows.
__device__ inline void load_codes(const Rows &rows, const uint16_t *codes, uint32_t group, bool exists) {
    constexpr uint32_t UNITS = CODES * 2 / 16, AT_ONCE = WARP / UNITS;
    for (uint32_t first = 0; first < WARP; first += AT_ONCE) {
        const uint32_t row = first + lane_id() / UNITS, unit = lane_id() % UNITS;
        const uint32_t from = __shfl_sync(ALL_LANES, exists ? group : ALL_LANES, row);
        if (from != ALL_LANES) {
            rows.unit(row, ROW_UNITS - UNITS + unit) =
                __ldcs(reinterpret_cast<const uint4 *>(codes + uint64_t(from) * CODES) + unit);
        }
    }
    __syncwarp();
}

// Each warp processes one unit, and request.parts blocks a chunk. `codes` has room for parsed.slots groups for each
// chunk.
extern "C" __global__ void __launch_bounds__(THREADS)
    reconstruct_codes(const uint8_t *input, const __grid_constant__ Geometry geometry,
                      const __grid_constant__ Parsed parsed, const __grid_constant__ Values values,
                      const __grid_constant__ Request request, const uint16_t *codes, Element *out) {
    const Rows rows{warp_id() * (ROWS_BYTES / 16)};
    const uint32_t chunk = blockIdx.x / request.parts;
    const uint32_t unit = blockIdx.x % request.parts * (THREADS / WARP) + warp_id();
    const Items items = items_of(geometry, parsed, request, chunk);
    const uint32_t live_units = items.live_units();
    if (unit >= live_units + items.constant_units()) {
        return;
    }
    const ParsedChunk &record = parsed.chunks[chunk];
    const Target target{input, parsed, record, values, geometry, chunk, request.vectors != 0, out};
    const ChunkStart start(geometry, request.first_chunk + chunk);
    const uint16_t *order = parsed.order + uint64_t(chunk) * parsed.tiles;
    if (unit >= live_units) {
        const bool raw = record.kind == KIND_RAW;
        const uint32_t entry = (unit - live_units) * WARP + lane_id();
        const bool wanted = entry < items.constant;
        const uint32_t place = items.first_constant + entry, number = !wanted ? 0 : raw ? place : order[place];
        const Work work =
            work_of(geometry, request, start, number, wanted, find_tile(parsed, chunk, number, wanted && !raw));
        if (raw) {
            write_raw(work, target);
        } else {
            write_constant(rows, work, target);
        }
        return;
    }
    const uint32_t entry = unit * TILES + lane_id();
    const bool wanted = lane_id() < TILES && entry < items.live;
    const uint32_t number = wanted ? order[items.first_live + entry] : 0;
    const Work work = work_of(geometry, request, start, number, wanted, find_tile(parsed, chunk, number, wanted));
    write_live(rows, work, target, [&](uint32_t slots, bool needed) {
        const Lane lane(work, slots);
        const bool exists = lane.exists && lane.number < parsed.slots;
        const bool any = __any_sync(ALL_LANES, exists);
        if (any || needed) {
            load_codes(rows, codes + uint64_t(chunk) * parsed.slots * CODES, lane.number, exists);
            Summing summing(record.radius, lane.predictor);
            const uint32_t free = record.radius * 0x10001u;
#pragma unroll 1
            for (uint32_t eight = 0; eight < EIGHTS; ++eight) {
                if (eight % RUN == 0) {
                    summing.begin();
                }
                // Units of sums only overwrite units of codes that have been read.
                const uint4 here =
                    exists ? rows.unit(lane_id(), ROW_UNITS - EIGHTS + eight) : make_uint4(free, free, free, free);
                summing.add(here, eight, rows);
            }
            __syncwarp();
        }
        return any;
    });
}
#endif
