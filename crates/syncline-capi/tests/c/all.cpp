// The declarations in C++; the same calls as in C.
#include <cmath>
#include <cstdio>
#include <vector>

#include "syncline.h"

int main() {
    std::vector<float> field(10000);
    for (std::size_t i = 0; i < field.size(); i++) {
        field[i] = std::sin(static_cast<float>(i) * 0.01f);
    }
    const uint64_t shape[2] = {100, 100};
    syncline_compress_options options;
    if (syncline_is_error(syncline_init_compress_options(&options, sizeof options))) {
        return 1;
    }
    options.bound_mode = SYNCLINE_REL;
    options.bound_value = 1e-3;
    options.effort = SYNCLINE_EFFORT_BEST;
    std::vector<unsigned char> stream(syncline_compress_bound(SYNCLINE_F32, shape, 2));
    const std::size_t size = syncline_compress(nullptr, stream.data(), stream.size(), field.data(), 40000,
                                               SYNCLINE_F32, shape, 2, &options);
    std::vector<float> restored(field.size());
    if (syncline_is_error(size) ||
        syncline_is_error(syncline_decompress(nullptr, restored.data(), 40000, stream.data(), size, nullptr))) {
        return 2;
    }
    for (std::size_t i = 0; i < field.size(); i++) {
        if (!(std::fabs(field[i] - restored[i]) <= 2e-3)) {
            return 3;
        }
    }
    std::puts("ok");
}
