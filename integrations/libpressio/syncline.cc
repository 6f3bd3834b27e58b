// The compressor "syncline" of libpressio, by the C library of Syncline. License: MIT OR Apache-2.0.

#include <algorithm>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <libpressio_ext/cpp/compressor.h>
#include <libpressio_ext/cpp/data.h>
#include <libpressio_ext/cpp/domain_manager.h>
#include <libpressio_ext/cpp/options.h>
#include <libpressio_ext/cpp/pressio.h>
#include <pressio_compressor.h>

#include "syncline.h"

namespace {

using libpressio::domain_plugins;

// The options that state a bound, of which one is set.
const std::vector<std::pair<std::string, uint32_t>> BOUNDS{
    {"pressio:abs", SYNCLINE_ABS},       {"pressio:rel", SYNCLINE_REL},
    {"pressio:pw_rel", SYNCLINE_PW_REL}, {"syncline:psnr", SYNCLINE_PSNR},
};

const std::vector<std::string> EFFORTS{"default", "fast", "balanced", "best"};

const std::map<pressio_dtype, uint32_t> TYPES{
    {pressio_float_dtype, SYNCLINE_F32},  {pressio_double_dtype, SYNCLINE_F64}, {pressio_uint8_dtype, SYNCLINE_U8},
    {pressio_uint16_dtype, SYNCLINE_U16}, {pressio_uint32_dtype, SYNCLINE_U32}, {pressio_uint64_dtype, SYNCLINE_U64},
    {pressio_int8_dtype, SYNCLINE_I8},    {pressio_int16_dtype, SYNCLINE_I16},  {pressio_int32_dtype, SYNCLINE_I32},
    {pressio_int64_dtype, SYNCLINE_I64},  {pressio_byte_dtype, SYNCLINE_U8},    {pressio_bool_dtype, SYNCLINE_U8},
};

// Frees a context when it goes out of scope.
struct Context {
  syncline_context* context = syncline_create_context();

  Context() = default;
  Context(Context const&) = delete;
  Context& operator=(Context const&) = delete;
  ~Context() { syncline_free_context(context); }

  // Returns a result that is a size, and throws the message of one that is an error.
  size_t check(size_t result) const {
    if (syncline_is_error(result)) {
      throw std::runtime_error(std::string(syncline_error_name(result)) + ": " + syncline_error_message(context));
    }
    return result;
  }
};

class syncline_plugin : public libpressio::compressors::libpressio_compressor_plugin {
 public:
  syncline_plugin() {
    syncline_init_compress_options(&options, sizeof options);
    // The default of libpressio's compressors is one thread.
    options.threads = 1;
  }

  pressio_options get_options_impl() const override {
    pressio_options result;
    for (auto const& bound : BOUNDS) {
      if (options.bound_mode == bound.second) {
        set(result, bound.first, options.bound_value);
      } else {
        set_type(result, bound.first, pressio_option_double_type);
      }
    }
    if (options.bound_mode == SYNCLINE_LOSSLESS) {
      set(result, "pressio:lossless", level);
    } else {
      set_type(result, "pressio:lossless", pressio_option_int32_type);
    }
    if (options.fill_mode == SYNCLINE_FILL_VALUE) {
      set(result, "syncline:fill_value", options.fill_value);
    } else {
      set_type(result, "syncline:fill_value", pressio_option_double_type);
    }
    set(result, "pressio:nthreads", options.threads);
    set(result, "syncline:effort_str", EFFORTS.at(options.effort));
    set(result, "syncline:device", options.device);
    return result;
  }

  pressio_options get_configuration_impl() const override {
    const std::vector<std::string> none, runtime{"pressio:nthreads", "syncline:device"};
    std::vector<std::string> result_matters{"pressio:lossless", "syncline:fill_value", "syncline:effort_str"};
    std::vector<std::string> first{"pressio:lossless", "pressio:nthreads", "syncline:effort_str"};
    for (auto const& bound : BOUNDS) {
      result_matters.push_back(bound.first);
      first.push_back(bound.first);
    }
    pressio_options result;
    set(result, "pressio:thread_safe", pressio_thread_safety_multiple);
    set(result, "pressio:stability", "stable");
    set(result, "pressio:lossless:min", 0);
    set(result, "pressio:lossless:max", 9);
    set(result, "syncline:effort_str", EFFORTS);
    set(result, "predictors:error_dependent", result_matters);
    set(result, "predictors:error_agnostic", none);
    set(result, "predictors:runtime", runtime);
    set(result, "pressio:highlevel", get_accumulate_configuration("pressio:highlevel", {}, first));
    return result;
  }

  pressio_options get_documentation_impl() const override {
    pressio_options result;
    set(result, "pressio:description", "error-bounded and lossless compression of arrays of any number of axes");
    set(result, "pressio:abs", "largest absolute error of each value");
    set(result, "pressio:rel", "largest absolute error of each value as a share of the value range");
    set(result, "pressio:pw_rel", "largest error of each value as a share of its magnitude");
    set(result, "pressio:lossless", "restore every bit; 1 to 3 fast, 4 to 6 balanced, 7 to 9 best, 0 for the default");
    set(result, "pressio:nthreads", "number of threads; 0 is one per core");
    set(result, "syncline:psnr", "smallest peak signal-to-noise ratio in dB");
    set(result, "syncline:effort_str", "time that compression may take for smaller streams");
    set(result, "syncline:fill_value", "value that stands for missing data; without it, one is detected");
    set(result, "syncline:device", "-1 for the CPU, -2 for a GPU where it is faster, or the number of an NVIDIA GPU");
    return result;
  }

  int set_options_impl(pressio_options const& given) override {
    auto changed = options;
    int bounds = 0;
    for (auto const& bound : BOUNDS) {
      if (get(given, bound.first, &changed.bound_value) == pressio_options_key_set) {
        changed.bound_mode = bound.second;
        bounds++;
      }
    }
    int32_t digit = bounds > 0 ? 0 : level;
    if (get(given, "pressio:lossless", &digit) == pressio_options_key_set) {
      if (digit < 0 || digit > 9) return set_error(1, "pressio:lossless must be from 0 to 9");
      changed.bound_mode = SYNCLINE_LOSSLESS;
      // As the command's -1 to -9.
      changed.effort = static_cast<uint32_t>((digit + 2) / 3);
      bounds++;
    }
    if (bounds > 1) return set_error(1, "set one of pressio:abs, rel, pw_rel, lossless, and syncline:psnr");
    if (get(given, "syncline:fill_value", &changed.fill_value) == pressio_options_key_set) {
      changed.fill_mode = SYNCLINE_FILL_VALUE;
    }
    std::string effort;
    if (get(given, "syncline:effort_str", &effort) == pressio_options_key_set) {
      const auto found = std::find(EFFORTS.begin(), EFFORTS.end(), effort);
      if (found == EFFORTS.end()) return set_error(1, "syncline:effort_str must be fast, balanced, or best");
      changed.effort = static_cast<uint32_t>(found - EFFORTS.begin());
    }
    get(given, "pressio:nthreads", &changed.threads);
    get(given, "syncline:device", &changed.device);
    options = changed;
    level = digit;
    return 0;
  }

  int compress_impl(pressio_data const* real_input, pressio_data* output) override try {
    const Context context;
    const auto input = domain_manager().make_readable(domain_plugins().build("malloc"), *real_input);
    const auto type = TYPES.at(input.dtype());
    const auto shape = shape_of(input);
    const size_t capacity = context.check(syncline_compress_bound(type, shape.data(), shape.size()));
    auto stream = pressio_data::owning(pressio_byte_dtype, {capacity});
    const size_t size = context.check(syncline_compress(context.context, stream.data(), capacity, input.data(),
                                                        input.size_in_bytes(), type, shape.data(), shape.size(),
                                                        &options));
    stream.set_dimensions({size});
    *output = std::move(stream);
    return 0;
  } catch (std::exception const& error) {
    return set_error(2, error.what());
  }

  int decompress_impl(pressio_data const* real_input, pressio_data* output) override try {
    const Context context;
    const auto input = domain_manager().make_readable(domain_plugins().build("malloc"), *real_input);
    syncline_header header = {};
    header.struct_size = sizeof header;
    context.check(syncline_read_header(context.context, &header, input.data(), input.size_in_bytes()));
    const auto shape = shape_of(*output);
    if (header.element_type != TYPES.at(output->dtype()) || header.rank != shape.size() ||
        !std::equal(shape.begin(), shape.end(), header.shape)) {
      return set_error(3, "the stream holds an array of another type or shape: describe it in the output");
    }
    auto array = output->has_data()
                     ? domain_manager().make_writeable(domain_plugins().build("malloc"), std::move(*output))
                     : pressio_data::owning(output->dtype(), output->dimensions());
    syncline_decompress_options decompression;
    context.check(syncline_init_decompress_options(&decompression, sizeof decompression));
    decompression.threads = options.threads;
    decompression.device = options.device;
    context.check(syncline_decompress(context.context, array.data(), array.size_in_bytes(), input.data(),
                                      input.size_in_bytes(), &decompression));
    *output = std::move(array);
    return 0;
  } catch (std::exception const& error) {
    return set_error(2, error.what());
  }

  const char* prefix() const override { return "syncline"; }
  const char* version() const override { return syncline_version(); }
  int major_version() const override { return part_of_version(0); }
  int minor_version() const override { return part_of_version(1); }
  int patch_version() const override { return part_of_version(2); }

  std::shared_ptr<libpressio_compressor_plugin> clone() override { return std::make_shared<syncline_plugin>(*this); }

 private:
  // Returns the extents, slowest axis first. Those of libpressio have the fastest first.
  static std::vector<uint64_t> shape_of(pressio_data const& data) {
    return {data.dimensions().rbegin(), data.dimensions().rend()};
  }

  static int part_of_version(int part) {
    std::string rest = syncline_version();
    for (; part > 0; part--) rest.erase(0, rest.find('.') + 1);
    return std::stoi(rest);
  }

  syncline_compress_options options;
  // The value of pressio:lossless.
  int32_t level = 0;
};

libpressio::pressio_register registration(libpressio::compressor_plugins(), "syncline",
                                          [] { return std::make_shared<syncline_plugin>(); });

}  // namespace

// Programs call it so that the linker keeps the library, which registers the compressor when it is loaded.
extern "C" void libpressio_register_syncline() {}
