// Shared by the kernels that parse records (container/parse.cu, blocks/parse.cu): records and chunks of a batch, their
// checksums, small readers.
//
// THREADS  threads of a block
#pragma once
#include "container/hash.cuh"
#include "container/parsed.cuh"
#include "device/warp.cuh"
#include "format/constants.cuh"
#include "geometry.cuh"

using format::RECORD_HEADER_BYTES;
using format::RECORD_MARKER;
using format::SECTIONS;
// The hash is at the end of the record's header.
constexpr uint32_t HASH_AT = RECORD_HEADER_BYTES - 8;
// Verbatim values are the same section in every kind.
constexpr uint32_t VERBATIM = 2;

// Bits of a chunk's problems; see also PROBLEM_CODEWORDS.
constexpr uint32_t PARSE_RECORD = 1, PARSE_NUMBER = 2, PARSE_KIND = 4, PARSE_SECTIONS = 8, PARSE_RAW = 16,
                   PARSE_TILES = 32, PARSE_BASES = 64, PARSE_LISTS = 128, PARSE_CODES = 256;

struct Section {
    uint64_t offset; // in the input
    uint32_t length;
};

// A record's header and sections. Each thread reads them for itself.
struct Record {
    uint64_t start;
    uint32_t length, kind;
    uint32_t status;
    Section sections[SECTIONS];
};

// Reads a record of this kind, which has no more than the first `used` sections, or of a raw chunk.
__device__ inline Record read_record(const Records &records, uint64_t chunk_number, uint32_t chunk, uint32_t kind,
                                     uint32_t used) {
    Record record{};
    record.start = records.first + uint64_t(records.starts[chunk]) * 16;
    record.length = (records.starts[chunk + 1] - records.starts[chunk]) * 16;
    if (record.length < RECORD_HEADER_BYTES || record.start > records.input_bytes ||
        record.length > records.input_bytes - record.start) {
        record.length = 0;
        record.status = PARSE_RECORD;
        return record;
    }
    const uint4 *units = reinterpret_cast<const uint4 *>(records.input + record.start);
    const uint4 first = units[0], second = units[1];
    const bool has_table = record.length >= RECORD_HEADER_BYTES + SECTIONS * 4;
    const uint4 nothing = make_uint4(0, 0, 0, 0);
    const uint4 table0 = has_table ? units[2] : nothing, table1 = has_table ? units[3] : nothing;
    const uint2 table2 = has_table ? *reinterpret_cast<const uint2 *>(units + 4) : make_uint2(0, 0);
    record.kind = second.x;
    if (first.x != RECORD_MARKER || first.y != record.length) {
        record.status = PARSE_RECORD;
    } else if ((first.z | uint64_t(first.w) << 32) != chunk_number) {
        record.status = PARSE_NUMBER;
    } else if ((second.x != KIND_RAW && second.x != kind) || second.y != 0) {
        record.status = PARSE_KIND;
    }
    if (record.status != 0 || record.kind == KIND_RAW) {
        return record;
    }
    const uint32_t lengths[SECTIONS] = {table0.x, table0.y, table0.z, table0.w, table1.x,
                                        table1.y, table1.z, table1.w, table2.x, table2.y};
    uint64_t position = RECORD_HEADER_BYTES + SECTIONS * 4;
#pragma unroll
    for (uint32_t i = 0; i < SECTIONS; ++i) {
        if (lengths[i] > 0) {
            position = align_up(position, 16);
            record.sections[i] = {record.start + position, lengths[i]};
            position += lengths[i];
        }
    }
    bool has_more = false;
#pragma unroll
    for (uint32_t i = 0; i < SECTIONS; ++i) {
        has_more |= i >= used && lengths[i] > 0;
    }
    if (!has_table || has_more || position > record.length) {
        record.status = PARSE_SECTIONS;
    }
    return record;
}

// A chunk of the batch.
struct Chunk {
    uint32_t number, first_tile, tiles; // in the batch
    uint64_t first;                     // in the array

    __device__ inline uint64_t elements_before(const Geometry &geometry) const {
        return geometry.elements_before(first);
    }
    __device__ inline uint32_t elements(const Geometry &geometry) const {
        return uint32_t(geometry.elements_before(first + tiles) - geometry.elements_before(first));
    }
};

__device__ inline Chunk chunk_of_batch(const ChunkBatch &batch, uint32_t number) {
    Chunk chunk;
    chunk.number = number;
    chunk.first_tile = batch.chunk_first(number);
    chunk.tiles = batch.chunk_first(number + 1) - chunk.first_tile;
    chunk.first = batch.first_tile + chunk.first_tile;
    return chunk;
}

// Returns the bits that are set on any thread of the block, on thread 0.
__device__ inline uint32_t block_or(uint32_t bits, uint32_t *warp_bits) {
    bits = warp_reduce_or(bits);
    // The memory may be in use until all threads are here.
    __syncthreads();
    if (lane_id() == 0) {
        warp_bits[warp_id()] = bits;
    }
    __syncthreads();
    uint32_t all = 0;
    for (uint32_t warp = 0; warp < THREADS / WARP && threadIdx.x == 0; ++warp) {
        all |= warp_bits[warp];
    }
    return all;
}

// Returns on each thread whether its byte of those from `from` to `to` is not 0. There are fewer than THREADS such
// bytes.
__device__ inline bool any_between(const uint8_t *bytes, uint64_t from, uint64_t to) {
    return from + threadIdx.x < to && bytes[from + threadIdx.x] != 0;
}

// Checks that the bytes between sections are zeros.
__device__ inline uint32_t check_padding(const Records &records, const Record &record) {
    bool wrong = false;
    uint64_t end = record.start + RECORD_HEADER_BYTES + SECTIONS * 4;
    for (uint32_t i = 0; i < SECTIONS; ++i) {
        const Section section = record.sections[i];
        if (section.length > 0) {
            const uint64_t at = end + threadIdx.x;
            wrong |= at < section.offset && records.input[at] != 0;
            end = section.offset + section.length;
        }
    }
    return wrong ? PARSE_SECTIONS : 0;
}

// Compares a record's stored hash with that of its bytes. Called by block `part` of up to `hashing.parts`. A record
// that does not lie within the input does not differ: parsing reports it.
__device__ inline void check_hash(const Records &records, uint32_t number, const Hashing &hashing, uint32_t part,
                                  ChainScratch &scratch) {
    const uint64_t start = records.first + uint64_t(records.starts[number]) * 16;
    const uint32_t length = (records.starts[number + 1] - records.starts[number]) * 16;
    const bool there = length >= RECORD_HEADER_BYTES && length / HASH_BLOCK <= hashing.longest &&
                       start <= records.input_bytes && length <= records.input_bytes - start;
    const HashInput input{records.input + start, there ? length - 8 : 0, HASH_AT, 8};
    const HashParts parts(uint32_t(input.blocks()), hashing.parts);
    uint64_t hash;
    if (part < parts.count &&
        hash_by_parts(input, parts, part, hashing.sums + uint64_t(number) * hashing.longest * HASH_LANES,
                      hashing.progress + number, scratch, hash) &&
        threadIdx.x == 0) {
        hashing.differs[number] = there && hash_at(input.bytes + HASH_AT) != hash;
    }
}
