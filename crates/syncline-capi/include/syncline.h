/* Syncline: error-bounded and lossless compression of numeric arrays. License: MIT OR Apache-2.0.
 *
 * Conventions of all functions:
 *
 * - A result of type size_t is a number of bytes, or an error if syncline_is_error() says so.
 * - `context` may be NULL. A context keeps the message of the last error of the calls that it was passed to. Use a
 *   context in one thread at a time. All functions may be called from several threads at once.
 * - Extents are ordered from the slowest axis to the fastest (C order). Sizes are in bytes unless stated otherwise.
 * - Buffers of input and output must not overlap. NULL is allowed for a buffer of zero bytes only.
 * - Structs start with `struct_size`. Their functions for initialization set it; later versions of the library add
 *   fields at the end.
 */

#ifndef SYNCLINE_H
#define SYNCLINE_H

#include <stddef.h>
#include <stdint.h>

// The largest number of fill values of an array.
#define SYNCLINE_MAX_FILLS 4

// Value of `device`: the CPU.
#define SYNCLINE_DEVICE_CPU -1

// Value of `device`: the first NVIDIA GPU if it is expected to be faster, otherwise the CPU.
#define SYNCLINE_DEVICE_AUTO -2

// Largest number of axes.
#define SYNCLINE_MAX_RANK 32

// What went wrong, as `syncline_error_code` returns it. A number keeps its meaning in all later versions.
typedef enum syncline_error {
  // No error.
  SYNCLINE_OK = 0,
  // An argument or option is invalid.
  SYNCLINE_ERROR_INVALID_ARGUMENT = 1,
  // The data are not a Syncline stream.
  SYNCLINE_ERROR_NOT_SYNCLINE = 2,
  // A newer version of Syncline wrote the stream.
  SYNCLINE_ERROR_UNSUPPORTED_VERSION = 3,
  // The stream ends too early.
  SYNCLINE_ERROR_TRUNCATED = 4,
  // The stream is damaged.
  SYNCLINE_ERROR_CORRUPT = 5,
  // The work needs more memory than `memory_limit`.
  SYNCLINE_ERROR_MEMORY_LIMIT = 6,
  // The GPU cannot be used, or its work failed.
  SYNCLINE_ERROR_GPU = 7,
  // The progress callback cancelled the work.
  SYNCLINE_ERROR_CANCELLED = 8,
  // Reading or writing failed.
  SYNCLINE_ERROR_IO = 9,
  // The output buffer is too small for the stream.
  SYNCLINE_ERROR_OUTPUT_TOO_SMALL = 10,
  // A defect of the library.
  SYNCLINE_ERROR_INTERNAL = 11,
} syncline_error;

// Types of elements.
typedef enum syncline_element_type {
  // IEEE 754 binary32: float.
  SYNCLINE_F32 = 1,
  // IEEE 754 binary64: double.
  SYNCLINE_F64 = 2,
  // IEEE 754 binary16. Lossless only, as are all types below.
  SYNCLINE_F16 = 3,
  // bfloat16: the upper half of a binary32.
  SYNCLINE_BF16 = 4,
  // uint8_t
  SYNCLINE_U8 = 5,
  // uint16_t
  SYNCLINE_U16 = 6,
  // uint32_t
  SYNCLINE_U32 = 7,
  // uint64_t
  SYNCLINE_U64 = 8,
  // int8_t
  SYNCLINE_I8 = 9,
  // int16_t
  SYNCLINE_I16 = 10,
  // int32_t
  SYNCLINE_I32 = 11,
  // int64_t
  SYNCLINE_I64 = 12,
} syncline_element_type;

// Kinds of error bounds.
typedef enum syncline_bound_mode {
  // Every element is restored bit for bit.
  SYNCLINE_LOSSLESS = 0,
  // `bound_value` is the largest absolute error.
  SYNCLINE_ABS = 1,
  // `bound_value` is the largest absolute error as a fraction of the value range of the array.
  SYNCLINE_REL = 2,
  // `bound_value` is the smallest peak signal-to-noise ratio in dB.
  SYNCLINE_PSNR = 3,
  // `bound_value` is the largest error of each value as a fraction of its magnitude.
  SYNCLINE_PW_REL = 4,
} syncline_bound_mode;

// How fill values (missing data) are found. They are restored bit for bit and do not extend the value range.
typedef enum syncline_fill_mode {
  // A fill value is detected if it occurs often and lies far from all other values.
  SYNCLINE_FILL_AUTO = 0,
  // There is no fill value.
  SYNCLINE_FILL_NONE = 1,
  // `fill_value` is the fill value.
  SYNCLINE_FILL_VALUE = 2,
  // The first `fill_count` of `fill_values` are the fill values.
  SYNCLINE_FILL_VALUES = 3,
} syncline_fill_mode;

// How much time compression may take for a smaller stream.
typedef enum syncline_effort {
  // `SYNCLINE_EFFORT_BALANCED`.
  SYNCLINE_EFFORT_DEFAULT = 0,
  // The fastest.
  SYNCLINE_EFFORT_FAST = 1,
  // Smaller streams.
  SYNCLINE_EFFORT_BALANCED = 2,
  // The smallest streams.
  SYNCLINE_EFFORT_BEST = 3,
} syncline_effort;

// Keeps the message of the last error of the calls that it was passed to.
typedef struct syncline_context syncline_context;

// Compresses and decompresses arrays in the memory of one GPU. It keeps its workspace in device memory from call to
// call. Use it in one thread at a time.
typedef struct syncline_cuda_compressor syncline_cuda_compressor;

// Is called with the number of processed and of all elements. A result other than 0 cancels the work. It may be called
// from other threads than the caller's, from one at a time.
typedef int (*syncline_progress)(void *user, uint64_t done, uint64_t total);

// Options of compression. Initialize them with `syncline_init_compress_options`.
typedef struct syncline_compress_options {
  // Size of this struct in bytes.
  size_t struct_size;
  // One of `enum syncline_bound_mode`. The default is `SYNCLINE_LOSSLESS`.
  uint32_t bound_mode;
  // One of `enum syncline_fill_mode`. The default is `SYNCLINE_FILL_AUTO`.
  uint32_t fill_mode;
  // The number of the bound; unused for `SYNCLINE_LOSSLESS`.
  double bound_value;
  // The fill value for `SYNCLINE_FILL_VALUE`.
  double fill_value;
  // Single choices that the effort stands for, such as "coder=lzss,level=9" (docs/ADVANCED.md); may be NULL.
  const char *advanced;
  // Number of threads; 0 is one per core.
  uint32_t threads;
  // `SYNCLINE_DEVICE_AUTO` (the default), `SYNCLINE_DEVICE_CPU`, or the number of an NVIDIA GPU.
  int32_t device;
  // Largest number of bytes of host memory for the work, input and output excluded; 0 is no limit.
  uint64_t memory_limit;
  // Is called while the work proceeds; may be NULL.
  syncline_progress progress;
  // First argument of `progress`.
  void *progress_user;
  // One of `enum syncline_effort`. The default is `SYNCLINE_EFFORT_DEFAULT`.
  uint32_t effort;
  // Number of fill values for `SYNCLINE_FILL_VALUES`, at most `SYNCLINE_MAX_FILLS`; 0 for the other modes.
  uint32_t fill_count;
  // The fill values for `SYNCLINE_FILL_VALUES`.
  double fill_values[SYNCLINE_MAX_FILLS];
  // 1 if the array may be decompressed, changed in parts, and compressed again any number of times with the same
  // `SYNCLINE_ABS` or `SYNCLINE_PW_REL`: each element then stays within the bound of the value that was last written
  // to it, and streams of smooth fields are larger. The default is 0: each time may add an error of up to the bound.
  uint32_t rewritable;
  // 0; for later versions.
  uint32_t reserved;
} syncline_compress_options;

// Options of decompression. Initialize them with `syncline_init_decompress_options`.
typedef struct syncline_decompress_options {
  // Size of this struct in bytes.
  size_t struct_size;
  // Number of threads; 0 is one per core.
  uint32_t threads;
  // `SYNCLINE_DEVICE_AUTO` (the default), `SYNCLINE_DEVICE_CPU`, or the number of an NVIDIA GPU.
  int32_t device;
  // Largest number of bytes of host memory for the work, input and output excluded; 0 is no limit.
  uint64_t memory_limit;
  // Is called while the work proceeds; may be NULL.
  syncline_progress progress;
  // First argument of `progress`.
  void *progress_user;
} syncline_decompress_options;

// The contents of a stream.
typedef struct syncline_header {
  // Size of this struct in bytes.
  size_t struct_size;
  // One of `enum syncline_element_type`.
  uint32_t element_type;
  // Number of axes.
  uint32_t rank;
  // Extents, slowest axis first; unused ones are 0.
  uint64_t shape[SYNCLINE_MAX_RANK];
  // Number of elements.
  uint64_t elements;
  // Size of the array in bytes.
  uint64_t array_size;
  // The requested kind of bound, one of `enum syncline_bound_mode`.
  uint32_t bound_mode;
  // Number of fill values.
  uint32_t fill_count;
  // The requested bound.
  double bound_value;
  // The error that holds: absolute, or relative to each value for `SYNCLINE_PW_REL`; 0 if lossless.
  double error_limit;
  // Smallest and largest finite value that is not fill; NaN if unknown.
  double smallest;
  // See `smallest`.
  double largest;
} syncline_header;

// How far a decompressed array is from its original.
typedef struct syncline_quality {
  // Size of this struct in bytes.
  size_t struct_size;
  // 1 if the bound of the stream holds for every element, else 0.
  uint32_t holds;
  // Unused; 0.
  uint32_t reserved;
  // Number of elements whose error exceeds the bound.
  uint64_t violations;
  // Number of special elements (NaN, infinite, fill) that are not restored bit for bit.
  uint64_t mismatches;
  // Number of elements with any different bit.
  uint64_t differing;
  // Largest absolute error; NaN if there is no finite element.
  double max_absolute_error;
  // Root of the mean squared error; NaN if there is no finite element.
  double root_mean_squared_error;
  // Peak signal-to-noise ratio in dB; infinite without errors, NaN if unknown.
  double psnr;
} syncline_quality;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns 1 if `result` is an error, and 0 if it is a size.
int syncline_is_error(size_t result);

// Returns the number of the error in `result`, one of `enum syncline_error`; `SYNCLINE_OK` if it is a size.
int syncline_error_code(size_t result);

// Returns a short constant description of the error in `result`, such as "damaged stream". Never NULL.
const char *syncline_error_name(size_t result);

// Creates a context. Free it with `syncline_free_context`.
struct syncline_context *syncline_create_context(void);

// Frees a context. NULL is allowed.
void syncline_free_context(struct syncline_context *context);

// Returns the message of the last error: what is wrong, where, and what to do. It is valid until the next call with
// this context. Empty if there was no error. Never NULL.
const char *syncline_error_message(const struct syncline_context *context);

// Sets the default options: lossless, on the first GPU if it is expected to be faster, else on all cores of the CPU.
// `struct_size` is `sizeof(struct syncline_compress_options)`. Returns `struct_size` or an error.
size_t syncline_init_compress_options(struct syncline_compress_options *options,
                                      size_t struct_size);

// Sets the default options: on the first GPU if it is expected to be faster, else on all cores of the CPU.
// `struct_size` is `sizeof(struct syncline_decompress_options)`. Returns `struct_size` or an error.
size_t syncline_init_decompress_options(struct syncline_decompress_options *options,
                                        size_t struct_size);

// Returns the version of the library, such as "0.1.0".
const char *syncline_version(void);

// Returns the size of an element in bytes; 0 for an unknown type.
size_t syncline_element_size(uint32_t element_type);

// Returns the largest size in bytes of a stream of an array of this type and shape, or an error. A buffer of this size
// is always large enough for `syncline_compress`.
size_t syncline_compress_bound(uint32_t element_type,
                               const uint64_t *shape,
                               size_t rank);

// Compresses an array in C order to `output`, a buffer of `capacity` bytes. `data_size` is the size of the array in
// bytes and must match the type and the shape. `options` may be NULL. Returns the size of the stream or an error.
// After an error, the contents of `output` are unspecified.
size_t syncline_compress(struct syncline_context *context,
                         void *output,
                         size_t capacity,
                         const void *data,
                         size_t data_size,
                         uint32_t element_type,
                         const uint64_t *shape,
                         size_t rank,
                         const struct syncline_compress_options *options);

// Reads the header of a stream and checks its chunk table. `header->struct_size` must be set to
// `sizeof(struct syncline_header)`. Returns the size of the array in bytes or an error.
size_t syncline_read_header(struct syncline_context *context,
                            struct syncline_header *header,
                            const void *stream,
                            size_t stream_size);

// Decompresses a stream to `output`, a buffer of exactly the size of the array. `options` may be NULL. Returns that
// size or an error. After an error, the contents of `output` are unspecified.
size_t syncline_decompress(struct syncline_context *context,
                           void *output,
                           size_t output_size,
                           const void *stream,
                           size_t stream_size,
                           const struct syncline_decompress_options *options);

// Decompresses the region that starts at `start` and has the extents `count`, each with `rank` numbers, to `output`, a
// buffer of exactly the size of the region. Only the necessary parts of the stream are decoded. `options` may be NULL.
// Returns that size or an error. After an error, the contents of `output` are unspecified.
size_t syncline_decompress_region(struct syncline_context *context,
                                  void *output,
                                  size_t output_size,
                                  const void *stream,
                                  size_t stream_size,
                                  const uint64_t *start,
                                  const uint64_t *count,
                                  size_t rank,
                                  const struct syncline_decompress_options *options);

// Decompresses a stream and compares the result with the original array under the bound of the stream.
// `quality->struct_size` must be set to `sizeof(struct syncline_quality)`. Returns 1 if the bound holds, 0 if it does
// not, or an error.
size_t syncline_verify(struct syncline_context *context,
                       struct syncline_quality *quality,
                       const void *data,
                       size_t data_size,
                       const void *stream,
                       size_t stream_size,
                       const struct syncline_decompress_options *options);

// Opens GPU number `device` in its primary context. Returns NULL after an error, whose message is in `context`. Free
// the compressor with `syncline_cuda_free_compressor`.
struct syncline_cuda_compressor *syncline_cuda_create_compressor(struct syncline_context *context,
                                                                 int device);

// Frees a compressor after its work is done. NULL is allowed.
void syncline_cuda_free_compressor(struct syncline_cuda_compressor *compressor);

// Compresses an array in device memory to `output`, device memory of `capacity` bytes that is aligned to 16 bytes.
// `stream` is a CUstream or cudaStream_t; NULL is the legacy default stream. The work is ordered after everything
// queued on `stream`, and the call returns when the result is complete. Returns the size of the stream or an error.
size_t syncline_cuda_compress(struct syncline_context *context,
                              struct syncline_cuda_compressor *compressor,
                              void *output,
                              size_t capacity,
                              const void *data,
                              size_t data_size,
                              uint32_t element_type,
                              const uint64_t *shape,
                              size_t rank,
                              const struct syncline_compress_options *options,
                              void *stream);

// Decompresses a stream in device memory, aligned to 16 bytes, to `output`, device memory of exactly the size of the
// array. The work is ordered after everything queued on `cuda_stream`, and the call returns when the result is
// complete. Returns `output_size` or an error. After an error, the contents of `output` are unspecified.
size_t syncline_cuda_decompress(struct syncline_context *context,
                                struct syncline_cuda_compressor *compressor,
                                void *output,
                                size_t output_size,
                                const void *stream,
                                size_t stream_size,
                                void *cuda_stream);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SYNCLINE_H */
