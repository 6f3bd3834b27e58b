// Access to shared memory by its address, which a loop keeps in a register. The compiler computes the address of a
// variable anew for each use, from a special register that is slow to read.
#pragma once
#include "common.cuh"

// Returns the address of shared memory, which the compiler keeps: it does not know where it comes from.
__device__ inline uint32_t kept_address(const void *pointer) {
    uint32_t address;
    asm volatile("mov.u32 %0, %1;" : "=r"(address) : "r"(shared_address(pointer)));
    return address;
}

// Words of shared memory.
struct SharedWords {
    uint32_t address;

    __device__ inline explicit SharedWords(const void *words) : address(kept_address(words)) {}
    __device__ inline uint32_t load(uint32_t i) const {
        uint32_t word;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address + 4 * i));
        return word;
    }
    // Returns two words from an even number on.
    __device__ inline uint64_t load_pair(uint32_t i) const {
        uint64_t pair;
        asm volatile("ld.shared.u64 %0, [%1];" : "=l"(pair) : "r"(address + 4 * i));
        return pair;
    }
    __device__ inline void store(uint32_t i, uint32_t word) const {
        asm volatile("st.shared.u32 [%0], %1;" : : "r"(address + 4 * i), "r"(word) : "memory");
    }
};

// Numbers of 16 bits in shared memory.
struct SharedHalves {
    uint32_t address;

    __device__ inline explicit SharedHalves(const void *halves) : address(kept_address(halves)) {}
    __device__ inline uint32_t load(uint32_t i) const {
        uint32_t half;
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(half) : "r"(address + 2 * i));
        return half;
    }
    __device__ inline void store(uint32_t i, uint32_t half) const {
        asm volatile("st.shared.u16 [%0], %1;" : : "r"(address + 2 * i), "r"(half) : "memory");
    }
};

// Bytes of shared memory.
struct SharedBytes {
    uint32_t address;

    __device__ inline explicit SharedBytes(const void *bytes) : address(kept_address(bytes)) {}
    __device__ inline uint32_t load(uint32_t i) const {
        uint32_t byte;
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(byte) : "r"(address + i));
        return byte;
    }
    __device__ inline void store(uint32_t i, uint32_t byte) const {
        asm volatile("st.shared.u8 [%0], %1;" : : "r"(address + i), "r"(byte) : "memory");
    }
};
