// Compresses a field with a bound and restores it, in C++17.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include <syncline.h>

namespace {

using Context = std::unique_ptr<syncline_context, decltype(&syncline_free_context)>;

// Returns a result that is no error. Functions without a context give only the name of their errors.
std::size_t checked(std::size_t result, const Context *context = nullptr) {
    if (syncline_is_error(result)) {
        throw std::runtime_error(context ? syncline_error_message(context->get()) : syncline_error_name(result));
    }
    return result;
}

std::vector<std::byte> compress(const Context &context, const std::vector<float> &field,
                                const std::uint64_t (&shape)[2], double bound) {
    syncline_compress_options options;
    checked(syncline_init_compress_options(&options, sizeof options));
    options.bound_mode = SYNCLINE_ABS;
    options.bound_value = bound;
    std::vector<std::byte> stream(checked(syncline_compress_bound(SYNCLINE_F32, shape, 2)));
    const std::size_t size = syncline_compress(context.get(), stream.data(), stream.size(), field.data(),
                                               field.size() * sizeof(float), SYNCLINE_F32, shape, 2, &options);
    stream.resize(checked(size, &context));
    return stream;
}

} // namespace

int main() {
    const std::uint64_t shape[2] = {300, 400};
    std::vector<float> field(300 * 400);
    for (std::size_t i = 0; i < field.size(); i++) {
        field[i] = std::sin(0.02f * static_cast<float>(i / 400)) * std::cos(0.03f * static_cast<float>(i % 400));
    }
    try {
        const Context context(syncline_create_context(), syncline_free_context);
        const auto stream = compress(context, field, shape, 1e-3);
        std::printf("%zu bytes -> %zu bytes\n", field.size() * sizeof(float), stream.size());

        std::vector<float> restored(field.size());
        const std::size_t bytes = restored.size() * sizeof(float);
        const std::size_t size =
            syncline_decompress(context.get(), restored.data(), bytes, stream.data(), stream.size(), nullptr);
        checked(size, &context);
        const auto is_close = [](float a, float b) { return std::fabs(a - b) <= 1e-3f; };
        if (!std::equal(field.begin(), field.end(), restored.begin(), is_close)) {
            throw std::runtime_error("the bound does not hold");
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    std::puts("ok");
    return 0;
}
