// Interpolation of whole tiles point by point, by a table of the scheme (src/predict/points.rs).
//
// PASSES_AT, CLASSES_AT, LINES_AT, CODES_AT  words where the parts of the table begin
#pragma once
#include "predict/arithmetic.cuh"

// Where an element is in shared memory. Rows, which tiles of one dimension are cut into, are one element longer, so
// that the lanes of a pass along columns have banks of their own.
__device__ inline uint32_t stored_in_row(uint32_t element) { return element + element / WARP; }

// Elements that are interpolated along one axis at one distance from their neighbors, line by line.
struct PointPass {
    uint32_t lines, points, by_points, first_line, first_code, spacing, offset, first_class;
};

// The neighbors of a point, relative to it, and their weights. Points of a line are alike but for the first one and the
// last two.
template <typename Element> struct alignas(16) PointClass {
    Element weights[4];
    int32_t neighbors[4];
};

// The table of a scheme, in shared memory.
template <typename Element> struct PointTable {
    const uint32_t *words;

    __device__ inline uint32_t passes() const { return words[0]; }
    __device__ inline uint32_t anchors() const { return words[1]; }
    __device__ inline const PointPass &pass(uint32_t number) const {
        return reinterpret_cast<const PointPass *>(words + PASSES_AT)[number];
    }
    // Places of the anchors, and of where lines have position 0.
    __device__ inline uint32_t line(uint32_t number) const {
        return reinterpret_cast<const uint16_t *>(words + LINES_AT)[number];
    }
    // Places of the codes of the anchors and of all points.
    __device__ inline const uint16_t *codes() const { return reinterpret_cast<const uint16_t *>(words + CODES_AT); }
    __device__ inline uint32_t code(uint32_t number) const { return codes()[number]; }
    // Returns the place of a point of a line.
    __device__ inline uint32_t place(const PointPass &pass, uint32_t line, uint32_t point) const {
        return this->line(pass.first_line + line) + pass.offset + point * pass.spacing;
    }
    // Predicts a point from the values of its neighbors: element `i` of the tile is `memory[stored_in_row(i)]`.
    __device__ inline Element predicted(const PointPass &pass, uint32_t point, uint32_t place, bool is_cubic,
                                        const Element *memory) const {
        const uint32_t left = pass.points - 1 - point;
        const PointClass<Element> &own =
            reinterpret_cast<const PointClass<Element> *>(words + CLASSES_AT)[pass.first_class + (left < 2 ? 3 - left
                                                                                                  : point == 0 ? 0
                                                                                                               : 1)];
        return weighted_sum(own.weights, is_cubic,
                            [&](uint32_t neighbor) { return memory[stored_in_row(place + own.neighbors[neighbor])]; });
    }
};
