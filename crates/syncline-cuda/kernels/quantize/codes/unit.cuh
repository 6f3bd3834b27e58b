// Vector path of quantize/codes/staged.cu: a unit of 1,024 elements from memory to codes. Tiles of a narrow range use
// pairs of halves, others integers stored as floats.
//
// PATTERNS      1 if there may be fill patterns, which must be detected
// MEASURE       1 to sum squared errors
// MANY_CLIPPED  1 if unclipped tiles take the code path of clipped ones
#pragma once
#include "quantize/codes/half2.cuh"
#if PATTERNS
#include "quantize/codes/fill.cuh"
#endif

// Predicts a unit from its integers. `kept` is shared memory that holds them. `guess` is the expected predictor, and
// becomes that of these tiles. `good` says whether all of the lane's integers are valid. `codes` are valid for vector
// tiles that are not constant.
__device__ inline void predict_unit(const VectorTile &tile, const Integers &q, bool good, float4 *kept, uint32_t &guess,
                                    VectorResult &result, uint2 (&codes)[ROWS]) {
    uint32_t outliers = 0, wide_outliers = 0;
    const float base = __shfl_sync(ALL_LANES, q[0][0], tile_leader());
    float sums[4] = {};
    uint2 others[ROWS];
    if (tile.whole) {
        sums_and_likely_codes<false>(tile, q, base, guess, sums, codes, others);
    } else {
        sums_and_likely_codes<true>(tile, q, base, guess, sums, codes, others);
    }
    __syncwarp();
    // With base and distances this small, all integers are exact in `quantize_exact`, and all residuals are exact; so
    // are sums below 2^24.
    good = good && fabsf(base) < 2097152.0f && sums[0] < 1048576.0f;
#pragma unroll
    for (uint32_t p = 1; p <= AXES; ++p) {
        good = good && sums[p] < 16777216.0f;
    }
    const uint32_t lanes = tile_lanes();
    result.valid = (__ballot_sync(ALL_LANES, good) & lanes) == lanes;
    result.base = int32_t(base);
    uint32_t counted[4];
    sums_up_to_limit(sums, counted);
    choose_predictor(counted, result.predictor, result.activity);
    if (__any_sync(ALL_LANES, result.valid && sum_under(sums, result.predictor) > float(RESIDUAL_LIMIT))) {
        limited_sums(tile, kept, base, counted);
        choose_predictor(counted, result.predictor, result.activity);
    }

    const auto [live, again] = apply_guess(result, sums, guess, codes, others);
    if (__any_sync(ALL_LANES, again)) {
        const uint32_t predictor = again ? result.predictor : 4;
        rewrite_codes<0>(tile, kept, base, predictor, codes, outliers, wide_outliers);
        rewrite_codes<1>(tile, kept, base, predictor, codes, outliers, wide_outliers);
        if constexpr (AXES >= 2) {
            rewrite_codes<2>(tile, kept, base, predictor, codes, outliers, wide_outliers);
        }
        if constexpr (AXES >= 3) {
            rewrite_codes<3>(tile, kept, base, predictor, codes, outliers, wide_outliers);
        }
    }
    if constexpr (AXES < 3) {
        guess = next_guess(live, result.predictor, guess);
    }
    // Few tiles have outliers.
    if (__any_sync(ALL_LANES, outliers > 0)) {
        outliers = tile_sum(outliers);
        wide_outliers = tile_sum(wide_outliers);
    }
    result.outliers = outliers;
    result.wide_outliers = wide_outliers;
}

// Computes the lane's integers. Returns whether all are valid; `result` is then complete except for prediction.
__device__ inline bool quantize_rows(const Step &step, const Element (&x)[ROWS][QUAD], const VectorTile &tile,
                                     VectorResult &result, Integers &q) {
    bool good = tile.eligible;
    double error = 0.0;
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
#if PATTERNS
#pragma unroll
            for (uint32_t p = 0; p < MAX_PATTERNS; ++p) {
                good = bits_of(x[k][j]) != Bits(step.patterns[p]) && good; // unused ones repeat the first
            }
#endif
        }
        quantize_row(step, x[k], q[k], good);
#if MEASURE
#pragma unroll
        for (uint32_t j = 0; j < QUAD; ++j) {
            if (k < tile.rows && j < tile.cols) {
                error += squared_error(step, x[k][j], reconstruct(step, int32_t(q[k][j])));
            }
        }
#endif
    }
    if (MEASURE) {
        result.error = tile_sum(uint64_t(error));
    }
    return good;
}

#if PATTERNS
// Results for a unit with excluded elements, besides its integers.
struct FilledUnit {
    uint32_t meta, verbatim, counted;
    uint64_t error;
    bool good;
    bool any; // whether the unit has excluded elements
};

// Computes the integers of a unit with excluded elements, which are filled, into shared memory. Not inlined, so that
// its registers do not add to those of the caller.
__device__ __noinline__ FilledUnit integers_with_fill(const Step &step, const Element *slab, VectorTile tile,
                                                      bool aligned, uint32_t elements, float4 *kept) {
    Integers q;
    FilledUnit out = {};
    const Excluded excluded = find_excluded(step, slab, tile, aligned, elements, q);
    const uint32_t valid = excluded.inside & ~excluded.fill & ~excluded.verbatim;
    out.meta = excluded.meta;
    out.any = __any_sync(ALL_LANES, valid != excluded.inside);
    if (out.any) {
        out.verbatim = tile_sum(uint32_t(__popc(excluded.verbatim)));
        if (!fill_excluded(q, valid, kept)) {
            out.meta |= META_EMPTY;
        }
        __syncwarp();
    }
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        kept[k * WARP + lane_id()] = make_float4(q[k][0], q[k][1], q[k][2], q[k][3]);
    }
    if (MEASURE) {
        out.error = tile_sum(uint64_t(excluded.error));
    }
    out.counted = tile_sum(uint32_t(__popc(valid)));
    out.good = tile.eligible && excluded.fast;
    return out;
}

#endif

// Strategies of the vector path: pairs of halves, or integers as floats.
constexpr uint32_t STRATEGY_HALF2 = 0;
constexpr uint32_t STRATEGY_FLOAT = 1;
constexpr uint32_t STRATEGY_FILL = 2; // the unit has excluded elements
// Units with the float strategy before half2 is tried again.
constexpr uint32_t HALF2_RETRY_INTERVAL = 8;
// Units whose lanes have at most this many rows are thin: those at the array's end along z.
constexpr uint32_t THIN_ROWS = 4;

// The expected properties of a warp's next unit, taken from its previous one. They are equal on all lanes.
struct UnitHint {
    uint32_t predictor;
    uint32_t strategy;
    uint32_t float_units; // units since half2 was tried
};

// Loads the lane's rows from shared memory.
__device__ inline void load_staged_unit(const StagingBuffer &staging, Element (&x)[ROWS][QUAD]) {
#pragma unroll
    for (uint32_t k = 0; k < ROWS; ++k) {
        staging.row(k, x[k]);
    }
}

// Quantizes and predicts a unit whose tiles have `elements` elements. `slab` is the origin of the element numbers in
// `tile`. `staging` is shared memory for the warp: the unit's elements, then its integers. `refill` starts copying the
// next unit. `locate` returns `tile` again, so that it need not stay in registers. `codes` are valid for vector tiles
// that are not constant.
template <typename Refill, typename Locate>
__device__ inline VectorResult quantize_unit(const Step &step, const Element *slab, const VectorTile &tile,
                                             bool aligned, uint32_t elements, StagingBuffer &staging, Refill refill,
                                             Locate locate, UnitHint &hint, uint2 (&codes)[ROWS]) {
    VectorResult result = {};
    result.counted = elements;
    Integers q;
    bool good = false;
    float4 *kept = reinterpret_cast<float4 *>(staging.memory);
#if PATTERNS
    const bool try_others = __any_sync(ALL_LANES, hint.strategy != STRATEGY_FILL);
#else
    constexpr bool try_others = true;
#endif
    if (try_others) {
        Element x[ROWS][QUAD];
        bool staged = true;
        if constexpr (!MEASURE) {
            hint.float_units = __any_sync(ALL_LANES, hint.strategy == STRATEGY_FLOAT) ? hint.float_units + 1 : 0;
            staged =
                !__any_sync(ALL_LANES, hint.strategy == STRATEGY_HALF2 || hint.float_units == HALF2_RETRY_INTERVAL);
        }
        if (!staged) {
            hint.float_units = 0;
            const bool thin = AXES == 3 && __all_sync(ALL_LANES, tile.rows <= THIN_ROWS);
            constexpr uint32_t THIN_DEPTH = AXES == 3 ? THIN_ROWS : ROWS;
            PairRows words;
            float base;
            bool done = thin ? pair_words<THIN_DEPTH>(step, staging, tile, base, words)
                             : pair_words<ROWS>(step, staging, tile, base, words);
            if (__all_sync(ALL_LANES, done)) {
                refill();
                result.valid = tile.eligible;
                result.base = int32_t(base);
                if (thin) {
                    done = pair_unit<false, THIN_DEPTH>(step, tile, words, result, codes);
                } else if (!MANY_CLIPPED && tile.whole) {
                    done = pair_unit<true, ROWS>(step, tile, words, result, codes);
                } else {
                    done = pair_unit<false, ROWS>(step, tile, words, result, codes);
                }
            }
            if (__all_sync(ALL_LANES, done)) {
                hint.strategy = STRATEGY_HALF2;
                return result;
            }
            // Loads the elements again, so that they need no registers once their integers are computed.
            result = {};
            result.counted = elements;
            staging.discard();
            load_unit(slab, locate(), aligned, x);
        } else {
            load_staged_unit(staging, x);
        }
        good = quantize_rows(step, x, tile, result, q);
        hint.strategy = __all_sync(ALL_LANES, good || !tile.eligible) ? STRATEGY_FLOAT
                        : PATTERNS                                    ? STRATEGY_FILL
                                                                      : STRATEGY_HALF2;
        // Residuals under rarely chosen predictors are recomputed from here, which saves registers.
        __syncwarp();
#pragma unroll
        for (uint32_t k = 0; k < ROWS; ++k) {
            kept[k * WARP + lane_id()] = make_float4(q[k][0], q[k][1], q[k][2], q[k][3]);
        }
    }
#if PATTERNS
    if (__any_sync(ALL_LANES, hint.strategy == STRATEGY_FILL)) {
        staging.discard();
        const FilledUnit filled = integers_with_fill(step, slab, locate(), aligned, elements, kept);
        result.meta = filled.meta;
        result.verbatim = filled.verbatim;
        result.error = filled.error;
        result.counted = filled.counted;
        good = filled.good;
        hint.strategy = __any_sync(ALL_LANES, filled.any) ? STRATEGY_FILL : STRATEGY_FLOAT;
        load_integers(kept, q);
    }
#endif
    predict_unit(tile, q, good, kept, hint.predictor, result, codes);
    return result;
}
