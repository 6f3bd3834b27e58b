// The tokens of a group of codes (docs/FORMAT.md, "Token stream"), by one warp: each lane has eight consecutive codes.
#pragma once
#include "token_codes/groups.cuh"

constexpr uint32_t CODES_OF_LANE = TOKEN_GROUP / WARP;
constexpr int32_t PLAIN_RADIUS = format::ALPHABET_PLAIN / 2, TOKEN_WIDE_RADIUS = format::ALPHABET_WIDE / 2;

// A symbol and the raw bits behind its codeword.
struct Token {
    uint32_t symbol, raw, raw_bits;
};

// A code behind fewer than LONGEST_RUN zeros, in mode *runs*.
__device__ inline Token run_token(uint32_t zeros, int32_t code) {
    const uint32_t magnitude = magnitude_of(code), bits = 32 - __clz(int32_t(magnitude));
    return {zeros * 32 + bits - 1, (magnitude ^ 1u << (bits - 1)) << 1 | (code < 0 ? 1u : 0u), bits};
}

__device__ inline bool is_plain(int32_t code) { return code >= -PLAIN_RADIUS && code < PLAIN_RADIUS; }
__device__ inline bool is_wide(int32_t code) { return code >= -TOKEN_WIDE_RADIUS && code < TOKEN_WIDE_RADIUS; }

// The codes of a lane of the warp that has a live group.
struct LaneCodes {
    int32_t codes[CODES_OF_LANE];
    uint32_t count;
    uint32_t zeros;  // between the last code before the lane that is not 0, or the group's start, and the lane's codes
    bool ends_group; // whether the lane has the last code that is not 0, and zeros follow

    // Called by the whole warp.
    __device__ inline LaneCodes(const int32_t *group, uint32_t length) {
        const uint32_t first = lane_id() * CODES_OF_LANE;
        count = length > first ? min_of(length - first, CODES_OF_LANE) : 0;
        if (count == CODES_OF_LANE) {
            const int4 low = reinterpret_cast<const int4 *>(group + first)[0],
                       high = reinterpret_cast<const int4 *>(group + first)[1];
            codes[0] = low.x, codes[1] = low.y, codes[2] = low.z, codes[3] = low.w;
            codes[4] = high.x, codes[5] = high.y, codes[6] = high.z, codes[7] = high.w;
        } else {
#pragma unroll
            for (uint32_t i = 0; i < CODES_OF_LANE; ++i) {
                codes[i] = i < count ? group[first + i] : 0;
            }
        }
        // The end of the lane's last code that is not 0.
        uint32_t end = 0;
#pragma unroll
        for (uint32_t i = 0; i < CODES_OF_LANE; ++i) {
            end = codes[i] != 0 ? first + i + 1 : end;
        }
        const uint32_t live = __ballot_sync(ALL_LANES, end != 0), below = live & ((1u << lane_id()) - 1);
        const uint32_t end_below = __shfl_sync(ALL_LANES, end, 31 - __clz(int32_t(below | 1)));
        zeros = first - (below != 0 ? end_below : 0);
        ends_group = end != 0 && end < length && live >> lane_id() == 1;
    }

    // Calls `visit` with each token of the lane's codes in mode *runs*.
    template <typename Visit> __device__ inline void for_each_run(Visit visit) const {
        uint32_t waiting = zeros;
#pragma unroll
        for (uint32_t i = 0; i < CODES_OF_LANE; ++i) {
            if (i < count && codes[i] != 0) {
                for (; waiting >= format::LONGEST_RUN; waiting -= format::LONGEST_RUN) {
                    visit(Token{format::ZERO_RUN, 0, 0});
                }
                visit(run_token(waiting, codes[i]));
                waiting = 0;
            } else {
                ++waiting;
            }
        }
        if (ends_group) {
            visit(Token{format::REST_IS_ZERO, 0, 0});
        }
    }

    // Calls `visit` with each token of the lane's codes in a mode that represents them.
    template <typename Visit> __device__ inline void for_each(uint32_t mode, Visit visit) const {
        if (mode == format::MODE_RUNS) {
            for_each_run(visit);
            return;
        }
        const int32_t radius = mode == format::MODE_PLAIN ? PLAIN_RADIUS : TOKEN_WIDE_RADIUS;
#pragma unroll
        for (uint32_t i = 0; i < CODES_OF_LANE; ++i) {
            if (i < count) {
                visit(Token{uint32_t(codes[i] + radius), 0, 0});
            }
        }
    }
};
