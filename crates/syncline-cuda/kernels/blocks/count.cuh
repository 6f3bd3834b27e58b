// Counts the symbols of a block by context.
//
// THREADS  threads of a block
#pragma once
#include "blocks/coded.cuh"
#include "blocks/predict.cuh"

// Symbols of a chunk or of a sample, by context, in shared memory.
struct SymbolCounts {
    uint32_t of[blocks::CONTEXTS][blocks::SYMBOLS];

    __device__ inline void add(uint32_t context, int32_t code, uint32_t count) {
        atomicAdd(&of[context][Symbol(code).symbol], count);
    }
};

// Counts the symbols of a segment. Called by a whole warp.
template <typename Code>
__device__ inline void count_segment(const Code &code_at, const PartSegments &segments, SymbolCounts &counts) {
    const BlockClass of = segments.of();
    const PartClass part(of, segments.range);
    const PartElements elements(part);
    const Neighbors neighbors(segments.shape, of, segments.range);
    const CompactClass own(segments.shape, of.level, of.number);
    const uint32_t kind = kind_of(of), first = segments.first(), count = min_of(part.elements() - first, SEGMENT);
    const KindContexts known(kind);
    // Elements that are as expected, and a bit for each group: of the lane's element, which is found.
    uint32_t zeros = 0, masks = 0, moved = 0;
    const auto visit = [&](uint32_t i, const CodedElement &element) {
        if (element.is_expected) {
            zeros += element.context == known.quiet;
            masks += element.context == known.masked;
        } else {
            counts.add(element.context, element.code, 1);
            moved |= uint32_t(element.context == known.quiet) << i / WARP;
        }
    };
    const CodedSegment segment = find_coded(code_at, neighbors, kind, elements, own, first, count, visit);
    if (segment.has_count() && lane_id() == 0) {
        counts.add(known.count, segment.count_code(), 1);
    }
    if (!segment.skips()) {
        zeros = warp_reduce_sum(zeros);
        masks = warp_reduce_sum(masks);
        if (lane_id() == 0 && zeros > 0) {
            counts.add(known.quiet, 0, zeros);
        }
        if (lane_id() == 0 && masks > 0) {
            counts.add(known.masked, code_of_mask(0), masks);
        }
    } else if (segment.all_found > 0) {
        const uint32_t context = gaps_context(segment.all_quiet, segment.all_found);
        segment.for_each_gap([&](uint32_t, uint32_t gap) { counts.add(context, code_of_number(gap), 1); });
        for (; moved != 0; moved &= moved - 1) {
            uint32_t at[3];
            elements.coordinates_of(first + (__ffs(moved) - 1) * WARP + lane_id(), at);
            const int32_t code = code_at(own.place(at));
            counts.add(known.quiet, code, 0u - 1);
            counts.add(known.found, code, 1);
        }
    }
}

// Counts the symbols of a share of a block's codes. Called by the whole block.
template <typename Code>
__device__ inline void count_symbols(const Code &code, const BlockShape &shape, const BlockParts &parts,
                                     const WorkShare &share, SymbolCounts &counts) {
    uint32_t ahead = 1 + share.warp();
    for (uint32_t part = 0; part < (parts.has_boxes() ? 1 + parts.boxes : 1); ++part) {
        PartSegments segments(shape, parts, part > 0, part - 1);
        for (; segments.move(ahead); ahead = share.warps()) {
            count_segment(code, segments, counts);
        }
    }
}
