// Uses the compressor through the C API of libpressio, as its programs do.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <vector>

#include <libpressio.h>

extern "C" void libpressio_register_syncline();

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, pressio_compressor_error_msg(c)); \
      std::exit(1);                                                                                   \
    }                                                                                                 \
  } while (0)

namespace {

// Fastest axis first.
const size_t SHAPE[3] = {60, 50, 40};
const size_t COUNT = 60 * 50 * 40;

template <class T>
pressio_data* compress(pressio_compressor* c, pressio_dtype type, std::vector<T> const& field) {
  auto* input = pressio_data_new_nonowning(type, const_cast<T*>(field.data()), 3, SHAPE);
  auto* stream = pressio_data_new_empty(pressio_byte_dtype, 0, nullptr);
  CHECK(pressio_compressor_compress(c, input, stream) == 0);
  CHECK(pressio_data_get_bytes(stream) < pressio_data_get_bytes(input));
  pressio_data_free(input);
  return stream;
}

// Compresses and decompresses a field, and returns the largest error. Frees nothing of the caller's.
template <class T>
double largest_error(pressio_compressor* c, pressio_dtype type, std::vector<T> const& field) {
  auto* stream = compress(c, type, field);
  auto* output = pressio_data_new_empty(type, 3, SHAPE);
  CHECK(pressio_compressor_decompress(c, stream, output) == 0);
  size_t bytes = 0;
  auto* restored = static_cast<T*>(pressio_data_ptr(output, &bytes));
  CHECK(bytes == COUNT * sizeof(T));
  double largest = 0;
  for (size_t i = 0; i < COUNT; i++) {
    largest = std::max(largest, std::abs(static_cast<double>(field[i]) - static_cast<double>(restored[i])));
  }
  // A buffer of the caller's is filled, too.
  std::vector<T> mine(COUNT);
  auto* filled = pressio_data_new_nonowning(type, mine.data(), 3, SHAPE);
  CHECK(pressio_compressor_decompress(c, stream, filled) == 0);
  CHECK(std::memcmp(pressio_data_ptr(filled, nullptr), restored, bytes) == 0);
  for (auto* data : {filled, stream, output}) pressio_data_free(data);
  return largest;
}

void set_double(pressio_compressor* c, const char* name, double value) {
  auto* options = pressio_options_new();
  pressio_options_set_double(options, name, value);
  CHECK(pressio_compressor_set_options(c, options) == 0);
  pressio_options_free(options);
}

}  // namespace

int main() {
  libpressio_register_syncline();
  auto* library = pressio_instance();
  auto* c = pressio_get_compressor(library, "syncline");
  if (c == nullptr) {
    std::fprintf(stderr, "%s\n", pressio_error_msg(library));
    return 1;
  }
  std::vector<float> field(COUNT);
  std::vector<double> wide(COUNT);
  std::vector<int32_t> whole(COUNT);
  for (size_t i = 0; i < COUNT; i++) {
    wide[i] = 2 + std::sin(0.01 * static_cast<double>(i));
    field[i] = static_cast<float>(wide[i]);
    whole[i] = static_cast<int32_t>(1000 * wide[i]);
  }

  CHECK(largest_error(c, pressio_int32_dtype, whole) == 0);
  const struct {
    const char* name;
    double value, limit;
  } bounds[] = {{"pressio:abs", 1e-3, 1e-3}, {"pressio:rel", 1e-3, 2e-3}, {"pressio:pw_rel", 1e-3, 3e-3},
                {"syncline:psnr", 60, 1e-1}};
  for (auto const& bound : bounds) {
    set_double(c, bound.name, bound.value);
    const double errors[] = {largest_error(c, pressio_float_dtype, field),
                             largest_error(c, pressio_double_dtype, wide)};
    for (double error : errors) CHECK(error > 0 && error <= bound.limit);
    // The bound is what the options then say, and the only one.
    auto* options = pressio_compressor_get_options(c);
    double value = 0;
    for (auto const& other : bounds) {
      const bool is_set = pressio_options_get_double(options, other.name, &value) == pressio_options_key_set;
      CHECK(is_set == (&other == &bound) && (!is_set || value == bound.value));
    }
    pressio_options_free(options);
  }

  // More effort makes a smaller stream, and a copy of the compressor has the options of the original.
  set_double(c, "pressio:abs", 1e-3);
  auto* fast = compress(c, pressio_float_dtype, field);
  auto* options = pressio_options_new();
  pressio_options_set_string(options, "syncline:effort_str", "best");
  CHECK(pressio_compressor_set_options(c, options) == 0);
  pressio_options_free(options);
  auto* copy = pressio_compressor_clone(c);
  auto* best = compress(copy, pressio_float_dtype, field);
  CHECK(pressio_data_get_bytes(best) < pressio_data_get_bytes(fast));
  pressio_compressor_release(copy);

  // What is wrong is an error with a text.
  auto* output = pressio_data_new_empty(pressio_double_dtype, 3, SHAPE);
  CHECK(pressio_compressor_decompress(c, best, output) != 0);
  CHECK(std::strstr(pressio_compressor_error_msg(c), "another type or shape") != nullptr);
  pressio_data_free(output);
  output = pressio_data_new_empty(pressio_float_dtype, 3, SHAPE);
  static_cast<unsigned char*>(pressio_data_ptr(best, nullptr))[pressio_data_get_bytes(best) / 2] ^= 1;
  CHECK(pressio_compressor_decompress(c, best, output) != 0);
  set_double(c, "pressio:abs", -1);
  auto* input = pressio_data_new_nonowning(pressio_float_dtype, field.data(), 3, SHAPE);
  CHECK(pressio_compressor_compress(c, input, fast) != 0 && std::strlen(pressio_compressor_error_msg(c)) > 10);
  options = pressio_options_new();
  pressio_options_set_double(options, "pressio:abs", 1);
  pressio_options_set_double(options, "pressio:rel", 1);
  CHECK(pressio_compressor_set_options(c, options) != 0);
  pressio_options_free(options);
  for (auto* data : {fast, best, output, input}) pressio_data_free(data);
  pressio_compressor_release(c);
  pressio_release(library);
  std::puts("ok");
  return 0;
}
