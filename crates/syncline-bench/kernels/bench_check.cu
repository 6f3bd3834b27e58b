// Fills and compares outputs in device memory, so that they need not be copied to the host, and keeps the device busy
// while the host queues work.

typedef unsigned char uint8_t;
typedef unsigned long long uint64_t;

extern "C" __global__ void bench_fill(uint8_t *to, uint64_t bytes, uint8_t value) {
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < bytes;
         i += uint64_t(gridDim.x) * blockDim.x) {
        to[i] = value;
    }
}

// Adds the number of differing bytes to a counter.
extern "C" __global__ void bench_differences(const uint8_t *a, const uint8_t *b, uint64_t bytes,
                                             uint64_t *differences) {
    uint64_t own = 0;
    for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < bytes;
         i += uint64_t(gridDim.x) * blockDim.x) {
        own += a[i] != b[i];
    }
    if (own != 0) {
        atomicAdd(differences, own);
    }
}

// Waits for `nanoseconds` in a single thread.
extern "C" __global__ void bench_wait(uint64_t nanoseconds) {
    uint64_t start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
