// Where the records of a batch go in the stream.
#pragma once
#include "container/record.cuh"
#include "device/block.cuh"

// Places the records of a batch one after another: each plan has `place`, `bytes`, and `kind`. Called by the last block
// of BLOCK threads, when all plans are there.
template <uint32_t BLOCK, typename Plan>
__device__ inline void place_records(uint32_t chunks, Plan *plans, const RecordPlaces &places, uint64_t *warp_sums) {
    uint64_t running = places.is_first ? places.start : places.state[0], total;
    bool any_beyond = false;
    for (uint32_t begin = 0; begin < chunks; begin += BLOCK) {
        const uint32_t chunk = begin + threadIdx.x;
        const uint32_t bytes = chunk < chunks ? __ldcg(&plans[chunk].bytes) : 0;
        const uint64_t place = running + block_exclusive_sum<BLOCK, uint64_t>(bytes, warp_sums, total);
        running += total;
        if (chunk >= chunks) {
            continue;
        }
        plans[chunk].place = place;
        places.starts[chunk] = place;
        places.lengths[chunk] = bytes;
        if (place > places.room || bytes > places.room - place) {
            plans[chunk].kind = KIND_NO_ROOM;
            any_beyond = true;
        }
    }
    any_beyond = __syncthreads_or(any_beyond);
    if (threadIdx.x == 0) {
        places.state[0] = running;
        places.state[1] = (places.is_first ? 0 : places.state[1]) | (any_beyond ? STATUS_NO_ROOM : 0);
        if (places.is_first) {
            *places.checksummed_records = 0;
        }
        *places.done = 0;
    }
}
