// The sample of a chunk by which its plan is chosen (docs/ENCODER.md, "Chunks of blocks"): pieces of some blocks, which
// are coded as blocks of their own with each plan that is considered.
#pragma once
#include "blocks/blocks.cuh"

// Pieces of a chunk at most, and the binary logarithm of the elements of each.
constexpr uint32_t PIECES = 4, FEWEST_LOG2 = 12, MOST_LOG2 = 15, SHARE_LOG2 = 7;
// Pieces that are coded in a round: those with even numbers in the first two, the others in the last.
constexpr uint32_t PIECES_OF_ROUND = PIECES / 2;
// Plans of the first round: linear and cubic, without slices and with those along each axis. Those of the second have
// no share of the slice before, along each axis, or all of it, or predictions on a grid. In the last round, the
// cheapest of all these are coded again.
constexpr uint32_t AXES = 3, FIRST_PLANS = 2 + 2 * AXES, SECOND_PLANS = AXES + 2, TRIED_PLANS = blocks::TRIED_PLANS,
                   FINALISTS = blocks::FINALISTS, PLANS = TRIED_PLANS + FINALISTS;
static_assert(TRIED_PLANS == FIRST_PLANS + SECOND_PLANS, "the launcher knows how many there are");
// The plan with all of the slice before, and that on a grid.
constexpr uint32_t WITH_ALL = FIRST_PLANS + AXES, ON_GRID = WITH_ALL + 1;

// The bits of a plan that was not tried.
constexpr uint64_t NOT_TRIED = ~uint64_t(0);

// Returns the plans of a round, and the number of the first.
__device__ inline uint32_t plans_of_round(uint32_t round) {
    return round == 0 ? FIRST_PLANS : round == 1 ? SECOND_PLANS : FINALISTS;
}
__device__ inline uint32_t first_of_round(uint32_t round) {
    return round == 0 ? 0 : round == 1 ? FIRST_PLANS : TRIED_PLANS;
}

// A chunk of the batch and its sample.
struct Sample {
    uint64_t first_tile;
    uint32_t tiles, elements, pieces, piece_log2;

    __device__ inline Sample(const Geometry &geometry, const ChunkBatch &batch, uint32_t chunk) {
        const uint32_t first = batch.chunk_first(chunk);
        first_tile = batch.first_tile + first;
        tiles = batch.chunk_first(chunk + 1) - first;
        elements = uint32_t(geometry.elements_before(first_tile + tiles) - geometry.elements_before(first_tile));
        pieces = min_of(tiles, PIECES);
        const uint32_t log2 = 31 - __clz(max_of(elements, 1u)), share = log2 > SHARE_LOG2 ? log2 - SHARE_LOG2 : 0;
        piece_log2 = min_of(max_of(share, FEWEST_LOG2), MOST_LOG2);
    }

    // Returns a piece: a box in the middle of a block.
    __device__ inline Tile piece(const Geometry &geometry, uint32_t number) const {
        const Tile tile = geometry.tile(first_tile + (2 * uint64_t(number) + 1) * tiles / (2 * pieces));
        const uint32_t extent[3] = {tile.nz, tile.ny, tile.nx};
        uint32_t most[3], sides[3];
        for (uint32_t axis = 0; axis < 3; ++axis) {
            most[axis] = next_power_of_two(extent[axis]);
        }
        balanced_sides(most, piece_log2, sides);
        Tile piece = tile;
        for (uint32_t axis = 0; axis < 3; ++axis) {
            sides[axis] = min_of(sides[axis], extent[axis]);
            piece.first_element += (extent[axis] - sides[axis]) / 2 * (axis == 2 ? 1 : geometry.strides[axis + 1]);
        }
        piece.nz = sides[0];
        piece.ny = sides[1];
        piece.nx = sides[2];
        return piece;
    }
};

// Returns whether a plan of the first two rounds is tried. `best` is the best of the first.
__device__ inline bool is_tried(const Geometry &geometry, uint32_t number, const BlockPlan &best) {
    const uint32_t axes = geometry.axes > 1 ? geometry.axes : 0;
    return number < FIRST_PLANS          ? number < 2 + 2 * axes
           : number < FIRST_PLANS + AXES ? number < FIRST_PLANS + axes
           : number == WITH_ALL          ? best.slices != 0
                                         : number == ON_GRID && best.is_on_grid == 0;
}
// Returns a plan of the first two rounds. `best` is the best of the first.
__device__ inline BlockPlan considered_plan(const Geometry &geometry, uint32_t number, BlockPlan best) {
    // With k axes, slices are along one of the last k.
    const auto slices = [&](uint32_t axis) { return axis + 1 + AXES - geometry.axes; };
    if (number < FIRST_PLANS) {
        best.is_cubic = number % 2;
        best.slices = number < 2 ? 0 : slices(number / 2 - 1);
        best.share = best.slices != 0;
    } else if (number < FIRST_PLANS + AXES) {
        best.slices = slices(number - FIRST_PLANS);
        best.share = 0;
    } else if (number == WITH_ALL) {
        best.share = 2;
    } else {
        best.is_on_grid = 1;
    }
    best.division = DIVISION_BOXES;
    return best;
}
