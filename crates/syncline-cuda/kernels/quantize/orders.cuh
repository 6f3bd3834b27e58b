// The Lorenzo predictor with an order of its own along each axis (docs/FORMAT.md, "Prediction", kind 5), and the choice
// of a tile's predictor by the costs of its codes (docs/ENCODER.md).
//
// A lane goes through the elements of a column, which are those along the slowest axis of the tile, and keeps what the
// differences along this axis need in registers.
//
// AXES  axes along which tiles extend
#pragma once
#include "quantize/scalar_tile.cuh"

using format::SECOND_ORDER;

// Sets of axes, 1 for x, 2 for y, 4 for z, which are predictors; and the predictor of second differences.
constexpr uint32_t AXIS_SETS = 1u << AXES;
constexpr uint32_t ORDERS = AXIS_SETS + 1;
__device__ inline constexpr uint32_t predictor_of(uint32_t order) { return order < AXIS_SETS ? order : SECOND_ORDER; }

// Sets of the axes other than the slowest one, along which the elements of a column have the same position. The only
// axis of a tile is not the slowest one in this sense: its columns have one element.
constexpr uint32_t LOWER_SETS = AXES == 3 ? 4 : 2;
constexpr uint32_t SLOWEST = AXES == 1 ? 0 : LOWER_SETS;

// The cost of a code is about the bits that it takes, in units of 2^-11: the logarithm of twice its magnitude plus 1,
// straight between powers of two. This returns the cost plus COST_OF_ZERO, which sums subtract at the end.
constexpr uint32_t COST_OF_ZERO = 0x3F800000u >> 12;
__device__ inline uint32_t shifted_cost(float magnitude) {
    return __float_as_uint(__fmaf_rn(2.0f, magnitude, 1.0f)) >> 12;
}
__device__ inline uint32_t shifted_cost(uint32_t code) { return shifted_cost(fabsf(__int2float_rn(int32_t(code)))); }

// The column of a lane.
struct Column {
    uint32_t number; // of its first element
    // Distances to the elements one and two before along x and y, 0 where there are none.
    uint32_t x_one, x_two, y_one, y_two;
    uint32_t axes; // set of the lower axes along which the position is not 0

    __device__ inline Column(const TileBox &tile, uint32_t number) : number(number) {
        const uint32_t y = AXES == 3 ? tile.row_of(number) : 0, x = number - y * tile.nx;
        x_one = x > 0 ? 1 : 0;
        x_two = x > 1 ? 2 : 0;
        y_one = y > 0 ? tile.nx : 0;
        y_two = y > 1 ? 2 * tile.nx : 0;
        axes = (x > 0 ? 1 : 0) | (y > 0 ? 2 : 0);
    }
};

// What differences along an axis multiply the elements one and two before with.
struct Factors {
    uint32_t one, two;
};

// The factors of second differences: those of the second element are first differences, and the first is itself.
__device__ inline Factors second_factors(uint32_t distance_one, uint32_t distance_two) {
    return {distance_two != 0 ? 0u - 2 : distance_one != 0 ? 0u - 1 : 0u, distance_two != 0 ? 1u : 0u};
}

// Differences along the lower axes with these factors.
struct LowerFactors {
    Factors x, y;

    // The integers start at an element of the column.
    __device__ inline uint32_t row(const int32_t *at, const Column &column, bool two) const {
        const uint32_t sum = uint32_t(at[0]) + x.one * uint32_t(*(at - column.x_one));
        return two ? sum + x.two * uint32_t(*(at - column.x_two)) : sum;
    }
    __device__ inline uint32_t of(const int32_t *at, const Column &column, bool two) const {
        uint32_t sum = row(at, column, two);
        if (AXES == 3) {
            sum += y.one * row(at - column.y_one, column, two);
            sum += two ? y.two * row(at - column.y_two, column, two) : 0;
        }
        return sum;
    }
};

__device__ inline LowerFactors second_lower_factors(const Column &column) {
    return {second_factors(column.x_one, column.x_two), second_factors(column.y_one, column.y_two)};
}

// Columns of a tile, which is the distance of elements that follow each other in a column, and the length of these.
struct Columns {
    uint32_t count, length;
    __device__ inline explicit Columns(const TileBox &tile)
        : count(AXES == 3 ? tile.nx * tile.ny : tile.nx), length(AXES == 3   ? tile.nz
                                                                 : AXES == 2 ? tile.ny
                                                                             : 1) {}
};

// Columns of usual tiles, as constants: the offsets of elements are parts of instructions.
struct UsualColumns {
    static constexpr uint32_t count = USUAL_ROW * (AXES == 3 ? USUAL_ROWS : 1), length = MAX_ELEMENTS / count;
};

// Differences along sets of the lower axes, and second differences along all of these.
struct LowerDifferences {
    uint32_t of[LOWER_SETS];
    uint32_t second;
};

// The differences of an element of a column, with 0 across the lower edges.
__device__ inline LowerDifferences lower_differences(const int32_t *at, const Column &column,
                                                     const LowerFactors &second) {
    const uint32_t no_x = column.x_one != 0 ? 0u - 1 : 0;
    const uint32_t here = uint32_t(at[0]), along_x = here + no_x * uint32_t(*(at - column.x_one));
    LowerDifferences result;
    result.of[0] = here;
    result.of[1] = along_x;
#if AXES == 3
    const uint32_t no_y = column.y_one != 0 ? 0u - 1 : 0;
    const int32_t *row = at - column.y_one;
    result.of[2] = here + no_y * uint32_t(row[0]);
    result.of[3] = along_x + no_y * (uint32_t(row[0]) + no_x * uint32_t(*(row - column.x_one)));
#endif
    result.second = second.of(at, column, true);
    return result;
}

// The element before in a column, and the second differences of the two elements before.
struct Before {
    LowerDifferences one = {};
    uint32_t second_two = 0;
};

// Calls `visit` with the residuals of an element of a column under each predictor.
template <bool FIRST, typename Visit>
__device__ inline void visit_residuals(const int32_t *at, const Column &column, const LowerFactors &second,
                                       Before &before, Visit visit) {
    const LowerDifferences here = lower_differences(at, column, second);
    uint32_t of[ORDERS];
#pragma unroll
    for (uint32_t set = 0; set < AXIS_SETS; ++set) {
        const uint32_t lower = set % LOWER_SETS;
        of[set] = here.of[lower] - (set >= LOWER_SETS ? before.one.of[lower] : 0);
    }
    of[AXIS_SETS] = here.second - 2 * before.one.second + before.second_two;
    // Where all axes of a set have position 0, the difference is along the first other axis that has not.
    uint32_t edge = FIRST ? of[0] : of[SLOWEST];
#pragma unroll
    for (uint32_t axis = LOWER_SETS / 2; axis > 0; axis /= 2) {
        edge = column.axes & axis ? of[axis] : edge;
    }
#pragma unroll
    for (uint32_t set = 1; set < AXIS_SETS; ++set) {
        const bool has_slowest = !FIRST && set >= LOWER_SETS;
        of[set] = has_slowest || (column.axes & set) != 0 ? of[set] : edge;
    }
    visit(of);
    before.second_two = FIRST ? here.second : before.one.second;
    before.one = here;
}

struct OrderChoice {
    uint32_t order; // its number among ORDERS
    uint32_t cost;
};

// Adds the costs of the lane's elements under each predictor, each more by COST_OF_ZERO.
template <typename ColumnsOfTile>
__device__ inline void add_costs(const TileBox &tile, const int32_t *q, const ColumnsOfTile &columns,
                                 uint32_t (&costs)[ORDERS]) {
    auto add = [&](const uint32_t(&residuals)[ORDERS]) {
#pragma unroll
        for (uint32_t order = 0; order < ORDERS; ++order) {
            costs[order] += shifted_cost(residuals[order]);
        }
    };
    for (uint32_t number = lane_id(); number < columns.count; number += WARP) {
        const Column column(tile, number);
        const LowerFactors second = second_lower_factors(column);
        Before before;
        visit_residuals<true>(q + number, column, second, before, add);
#pragma unroll 7
        for (uint32_t i = 1; i < columns.length; ++i) {
            visit_residuals<false>(q + i * columns.count + number, column, second, before, add);
        }
    }
}

// Returns the predictor with the smallest sum of costs, of several the one with the largest number. `q` has the tile's
// integers without the base. Called by the whole warp.
__device__ inline OrderChoice cheapest_order(const TileBox &tile, const int32_t *q) {
    uint32_t costs[ORDERS] = {};
    if (is_usual(tile)) {
        add_costs(tile, q, UsualColumns(), costs);
    } else {
        add_costs(tile, q, Columns(tile), costs);
    }
    OrderChoice best = {0, ~0u};
#pragma unroll
    for (uint32_t order = 0; order < ORDERS; ++order) {
        const uint32_t cost = warp_reduce_sum(costs[order]) - tile.elements() * COST_OF_ZERO;
        best = cost <= best.cost ? OrderChoice{order, cost} : best;
    }
    return best;
}

// Calls `visit(element, residual)` for the elements of a tile under one predictor. `q` has the tile's integers without
// the base. Called by the whole warp.
template <typename Visit>
__device__ inline void for_each_residual_of(const TileBox &tile, const int32_t *q, uint32_t order, Visit visit) {
    const bool is_second = order == AXIS_SETS;
    const Columns columns(tile);
    for (uint32_t number = lane_id(); number < columns.count; number += WARP) {
        const Column column(tile, number);
        // The predictor's axes, or where all of them have position 0, the first axis that has not.
        auto axes_at = [&](uint32_t axes) { return (axes & order) != 0 || order == 0 ? order : axes & (0u - axes); };
        auto factors_of = [&](uint32_t axes) {
            LowerFactors factors = second_lower_factors(column);
            if (!is_second) {
                factors.x = {axes & 1 && column.x_one != 0 ? 0u - 1 : 0u, 0};
                factors.y = {axes & 2 && column.y_one != 0 ? 0u - 1 : 0u, 0};
            }
            return factors;
        };
        visit(number, factors_of(axes_at(column.axes)).of(q + number, column, is_second));
        const uint32_t axes = axes_at(column.axes | SLOWEST);
        const LowerFactors factors = factors_of(axes);
        const Factors slowest = is_second ? Factors{0u - 2, 1} : Factors{axes & SLOWEST ? 0u - 1 : 0u, 0};
        uint32_t one = columns.length > 1 ? factors.of(q + number, column, is_second) : 0, two = one;
        for (uint32_t i = 1; i < columns.length; ++i) {
            const uint32_t element = i * columns.count + number;
            const uint32_t here = factors.of(q + element, column, is_second);
            visit(element, here + slowest.one * one + slowest.two * two);
            two = one;
            one = here;
        }
    }
}
