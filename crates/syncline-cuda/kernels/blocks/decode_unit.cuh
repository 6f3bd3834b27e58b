// A unit of a block while it is decoded by a warp: its states and its words (docs/FORMAT.md, "Words").
#pragma once
#include "blocks/contexts.cuh"
#include "blocks/rans.cuh"
#include "device/shared.cuh"

// How an event is coded: the number of its table; above it the frequency of symbol 0; and whether it is an element with
// masks only around it.
struct Coding {
    uint32_t word;

    static constexpr uint32_t MASKED = 1u << 31;

    // Elements among masks are not zeros in a hurry: codes of 0 replace masks that are expected of them.
    __device__ inline Coding(uint32_t table, uint32_t of_zero, bool is_masked)
        : word(table | (is_masked ? MASKED : of_zero << 8)) {}
    // Nothing is coded: symbol 0 leaves a state as it is.
    __device__ inline Coding() : word(TOTAL << 8) {}

    __device__ inline explicit Coding(uint32_t word) : word(word) {}
    __device__ inline bool exists() const { return word != Coding().word; }
    __device__ inline uint32_t table() const { return word & 255; }
    __device__ inline uint32_t of_zero() const { return word >> 8 & (2 * TOTAL - 1); }
    __device__ inline bool is_masked() const { return (word & MASKED) != 0; }
};

// The tables of the block's chunk: as many as there is room for in shared memory, the others where parsing left them.
struct DecodeTables {
    const SharedWords near, of_contexts; // of the latter each is a `Coding`
    const DecodeTable *all;
    bool are_near; // all of them

    __device__ inline Coding coding(uint32_t context) const { return Coding(of_contexts.load(context)); }
    __device__ inline Interval find(uint32_t table, uint32_t slot) const {
        // Mostly without a branch that lanes could take differently.
        if (are_near) {
            return find_near(table, slot);
        }
        return table < blocks::NEAR_TABLES ? find_near(table, slot) : all[table].find(slot);
    }

  private:
    __device__ inline Interval find_near(uint32_t table, uint32_t slot) const {
        constexpr uint32_t WORDS = sizeof(DecodeTable) / 4, FIRST_INTERVAL = sizeof(DecodeTable::parts) / 4;
        const uint32_t part = near.load(WORDS * table + slot / PART_SLOTS);
        return Interval(near.load(WORDS * table + FIRST_INTERVAL + DecodeTable::interval(part, slot)));
    }
};

// Groups that are decoded at once if all of their codes are 0, by units with few lanes: where these are many, there
// hardly ever are such groups.
constexpr uint32_t AHEAD = 4;

struct Unit {
    Words words;
    uint32_t state, lanes;
    bool is_good, is_empty; // all symbols of an empty unit are 0
    int32_t largest;        // of the codes of elements that the lane has decoded

    // `starts` has the first word of the unit and that of the next one. Called by a whole warp.
    __device__ inline Unit(const uint8_t *input, const BlockPlan &plan, const uint32_t *starts, uint32_t lanes)
        : words(reinterpret_cast<const uint16_t *>(input + plan.words) + starts[0], starts[1] - starts[0],
                starts[0] == starts[1] ? 0 : 2 * lanes),
          state(LOWEST), lanes(lanes), is_empty(starts[0] == starts[1]), largest(0) {
        if (!is_empty && lane_id() < lanes) {
            state = words.word(2 * lane_id()) | words.word(2 * lane_id() + 1) << 16;
        }
        is_good = __all_sync(ALL_LANES, state >= LOWEST);
        // Codes are not left as they are in memory, because other units look at them.
        is_empty |= !is_good;
    }
    __device__ inline bool is_finished() const {
        return is_good && __all_sync(ALL_LANES, state == LOWEST && words.at == words.count);
    }
    __device__ inline bool has_few_lanes() const { return lanes * AHEAD <= WARP; }

    // Passes some groups of events if all of their codes are 0: `of_group(i)` is how the event of a lane in group `i`
    // is coded. Returns whether they are. Called by a whole warp.
    template <uint32_t GROUPS, typename OfGroup> __device__ inline bool pass_zeros(OfGroup of_group) {
        uint32_t ahead = state;
        bool are_zeros = true;
#pragma unroll
        for (uint32_t i = 0; i < GROUPS; ++i) {
            const uint32_t of_zero = of_group(i).of_zero(), slot = ahead % TOTAL;
            ahead = of_zero * (ahead / TOTAL) + slot;
            // A state that is too small takes a word.
            are_zeros &= slot < of_zero && ahead >= LOWEST;
        }
        are_zeros = __all_sync(ALL_LANES, are_zeros);
        state = are_zeros ? ahead : state;
        return are_zeros;
    }

    // Decodes an event of each lane. Returns the codes, 0 of lanes without one. Called by a whole warp.
    __device__ inline int32_t next(const DecodeTables &tables, Coding own) {
        if (has_few_lanes() && pass_zeros<1>([&](uint32_t) { return own; })) {
            return 0;
        }
        const Interval found = tables.find(own.table(), state % TOTAL);
        return next_code(words, state, own.exists() ? found : Interval(0, 0, TOTAL));
    }
};
