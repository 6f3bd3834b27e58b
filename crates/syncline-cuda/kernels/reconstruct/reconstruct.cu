// From parsed chunks to elements, in one kernel.
//
// Blocks share out what the batch's chunks take (reconstruct/work.cuh), which says where each begins; the warps of all
// blocks that are at a chunk draw its units, and a block that finds none any more goes where most are left. Of tiles
// with codes a warp takes TILES at a time, which have 32 groups at most: each lane decodes a group (FUSED: codewords to
// symbols with the symbol index; else symbols that were decoded before) and adds up residuals inside of it
// (reconstruct/rows.cuh); then the warp writes the tiles (reconstruct/elements.cuh). Nothing waits for another block.
//
// FUSED     codes are decoded here
// APART     they are, but their rows go to memory instead of elements (`out`: CODES of 16 bits a group), for
// reconstruct/strips.cu OWN_LONG  entries for long codewords in a block's tables, with one codebook and with several
// (OWN_LONG_MANY) THREADS   threads in a block, at least MAX_CHUNKS if fused LIVE_COST what a tile with codes costs,
// in constant ones START_COST what it costs a block to begin with a chunk, likewise
#include "device/sync.cuh"
#include "device/warp.cuh"
#include "reconstruct/work.cuh"
#if FUSED
#include "reconstruct/fused.cuh"
#include "reconstruct/progress.cuh"
static_assert(THREADS >= MAX_CHUNKS, "a thread for each chunk");

// What the chunks before each cost. By the whole block.
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

// Those of a chunk that this kernel is for.
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

// What a block's share [start, end) of all costs has of a chunk. A chunk's start costs something too, and comes before
// its tiles.
__device__ inline uint32_t own_share(const uint32_t *before, uint32_t chunk, uint32_t start, uint32_t end) {
    if (before[chunk + 1] == before[chunk]) {
        return 0;
    }
    const uint32_t from = max_of(start, before[chunk] + START_COST), to = min_of(end, before[chunk + 1]);
    return to - min_of(from, to);
}

// The chunk that most units have not been drawn of, or NONE. By the whole block.
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

// What the blocks before one take of so much, in equal shares.
__device__ inline uint32_t share_before(uint32_t all, uint32_t block) {
    return all / gridDim.x * block + all % gridDim.x * block / gridDim.x;
}

// Compares the checksums of the chunks all of whose tiles were decoded, those that are wide or the others, and sets the
// sums back. By the whole block.
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

// Sets counters of draws back and ends the batch, if that is to be done here, when this block has done all else.
__device__ inline void end_with(const BatchFinish &ending, const Parsed &parsed, const uint32_t *status,
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

// A launch with WIDE 0 and then one with WIDE 1 do all, and then the latter ends the batch, if `ending` says so.
// `sums`: four words for each chunk and one more, all 0 before and after, and those of reconstruct/progress.cuh.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    reconstruct(const uint8_t *input, const __grid_constant__ Geometry geometry, const __grid_constant__ Parsed parsed,
                const __grid_constant__ Values values, const __grid_constant__ Request request,
                const StreamDescriptor *streams, const CodebookDescriptor *books, const uint16_t *symbols,
                uint32_t *sums, uint32_t *status, Element *out, const __grid_constant__ BatchFinish ending) {
    __shared__ Shared shared;
    __shared__ uint32_t before[MAX_CHUNKS + 1];
    const uint32_t chunks = parsed.chunk_count;
#if APART && !WIDE
    // The next kernel takes from this one's place that what parsing has left is there.
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
    // So does this one, most of whose blocks have nothing to do.
    launch_dependents();
#else
    launch_dependents_and_wait();
#endif
#if WIDE
    // As good as never has a chunk codes of this kind: then only checksums are compared.
    const bool any_wide = __syncthreads_or(threadIdx.x < chunks && parsed.chunks[threadIdx.x].wide != 0);
#if APART
    if (any_wide || blockIdx.x == 0) {
        grid_dependency_wait();
    }
#endif
    if (!any_wide) {
        if (blockIdx.x == 0) {
            compare_checksums(geometry, parsed, request, streams, false, sums, status);
            end_with(ending, parsed, status, sums);
        }
        return;
    }
#endif
    const uint32_t cost = threadIdx.x < chunks ? own_items(geometry, parsed, request, threadIdx.x).cost() : 0;
    add_up_costs(cost == 0 ? 0 : cost + START_COST, chunks, before);
    // What this block takes of it.
    const uint32_t all = before[chunks];
    const uint32_t start = share_before(all, blockIdx.x), end = share_before(all, blockIdx.x + 1);
#if WIDE
    if (blockIdx.x == 0) {
        compare_checksums(geometry, parsed, request, streams, false, sums, status);
    }
#endif
    // The first and the last chunk that it has a share of, and the one that it has the greatest of: that comes first,
    // as others do the rest of what it has little of.
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
    // Of chunks with wide codes others have drawn the constant tiles.
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
            // Then what others have most left of.
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
        // Each warp something of its own, so that these wait together.
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
            // So that what has been read may be written.
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
        // The next chunk's tables take the place of this one's, and so does what thread 0 finds of its tiles.
        const bool has_codes = shared.items.live != 0;
        __syncthreads();
        if (threadIdx.x == 0 && has_codes) {
            atomicAdd(&sums[2 * chunk], shared.sum);
            atomicAdd(&sums[2 * chunk + 1], shared.weighted);
        }
    }
#if WIDE
    // The last block that ends, when all of its warps have.
    __threadfence();
    __syncthreads();
    if (__syncthreads_or(threadIdx.x == 0 && atomicAdd(&sums[2 * chunks], 1u) + 1 == gridDim.x)) {
        __threadfence();
        compare_checksums(geometry, parsed, request, streams, true, sums, status);
        if (threadIdx.x == 0) {
            sums[2 * chunks] = 0;
        }
        end_with(ending, parsed, status, sums);
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

// A warp a unit; request.parts blocks a chunk. `codes` has room for parsed.slots groups for each chunk.
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
                // Units of sums only reach those of codes that were read before.
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
