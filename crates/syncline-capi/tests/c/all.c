/* Calls every function of the library, with what is right and with what is wrong. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "syncline.h"

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #condition, syncline_error_message(context));     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { COUNT = 24 * 30 * 40 };

static syncline_context *context;
static float field[COUNT];
static double wide[COUNT];
static const uint64_t shape[3] = {24, 30, 40};

static int count_calls(void *user, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    ++*(int *)user;
    return 0;
}

static int cancel(void *user, uint64_t done, uint64_t total) {
    (void)user;
    (void)done;
    (void)total;
    return 1;
}

static syncline_compress_options options_of(uint32_t mode, double value) {
    syncline_compress_options options;
    CHECK(syncline_init_compress_options(&options, sizeof options) == sizeof options);
    options.bound_mode = mode;
    options.bound_value = value;
    options.threads = 1;
    return options;
}

/* Compresses and decompresses an array; the stream is freed by the caller. */
static size_t round_trip(const void *data, size_t size, uint32_t type, const syncline_compress_options *options,
                         void **stream, void *restored) {
    size_t capacity = syncline_compress_bound(type, shape, 3);
    CHECK(!syncline_is_error(capacity) && capacity >= size);
    *stream = malloc(capacity);
    size_t made = syncline_compress(context, *stream, capacity, data, size, type, shape, 3, options);
    CHECK(!syncline_is_error(made) && made <= capacity);
    CHECK(syncline_decompress(context, restored, size, *stream, made, NULL) == size);
    return made;
}

static void test_bounds(void) {
    static const struct {
        uint32_t mode;
        double value, limit;
    } bounds[] = {{SYNCLINE_ABS, 1e-2, 1e-2}, {SYNCLINE_REL, 1e-3, 4e-3}, {SYNCLINE_PSNR, 60, 1}, {SYNCLINE_PW_REL, 1e-2, 2e-2}};
    static float restored[COUNT];
    static double restored_wide[COUNT];
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        syncline_compress_options options = options_of(bounds[i].mode, bounds[i].value);
        void *stream;
        size_t made = round_trip(field, sizeof field, SYNCLINE_F32, &options, &stream, restored);
        CHECK(made < sizeof field);
        for (int k = 0; k < COUNT; k++) {
            CHECK(fabs((double)field[k] - (double)restored[k]) <= bounds[i].limit);
        }
        syncline_quality quality = {.struct_size = sizeof quality};
        CHECK(syncline_verify(context, &quality, field, sizeof field, stream, made, NULL) == 1);
        CHECK(quality.holds == 1 && quality.violations == 0 && quality.max_absolute_error <= bounds[i].limit);
        syncline_header header = {.struct_size = sizeof header};
        CHECK(syncline_read_header(context, &header, stream, made) == sizeof field);
        CHECK(header.element_type == SYNCLINE_F32 && header.rank == 3 && header.shape[2] == 40);
        CHECK(header.bound_mode == bounds[i].mode && header.bound_value == bounds[i].value);
        free(stream);
        round_trip(wide, sizeof wide, SYNCLINE_F64, &options, &stream, restored_wide);
        free(stream);
    }
}

/* More effort makes smaller streams of a smooth field; the bound holds with each. */
static void test_efforts(void) {
    static const uint32_t efforts[] = {SYNCLINE_EFFORT_DEFAULT, SYNCLINE_EFFORT_FAST, SYNCLINE_EFFORT_BALANCED,
                                       SYNCLINE_EFFORT_BEST};
    static float smooth[COUNT], restored[COUNT];
    for (int k = 0; k < COUNT; k++) {
        smooth[k] = (float)(sin(k / 1200 / 9.0) + sin(k / 40 % 30 / 8.0) * cos(k % 40 / 7.0));
    }
    size_t made[4];
    syncline_compress_options options;
    for (int i = 0; i < 4; i++) {
        options = options_of(SYNCLINE_ABS, 1e-3);
        options.effort = efforts[i];
        void *stream;
        made[i] = round_trip(smooth, sizeof smooth, SYNCLINE_F32, &options, &stream, restored);
        for (int k = 0; k < COUNT; k++) {
            CHECK(fabs((double)smooth[k] - (double)restored[k]) <= 1e-3);
        }
        free(stream);
    }
    CHECK(made[0] == made[2] && made[2] < made[1] && made[3] <= made[2]);

    /* Single choices that an effort otherwise stands for. */
    options = options_of(SYNCLINE_LOSSLESS, 0);
    size_t chosen[2];
    for (int i = 0; i < 2; i++) {
        void *stream;
        options.effort = i == 0 ? SYNCLINE_EFFORT_FAST : SYNCLINE_EFFORT_DEFAULT;
        options.advanced = i == 0 ? NULL : "coder=auto,level=1";
        chosen[i] = round_trip(smooth, sizeof smooth, SYNCLINE_F32, &options, &stream, restored);
        CHECK(memcmp(smooth, restored, sizeof smooth) == 0);
        free(stream);
    }
    CHECK(chosen[0] == chosen[1]);
    options.advanced = "level=10";
    static unsigned char unused[16];
    static const uint64_t one[1] = {1};
    CHECK(syncline_is_error(
        syncline_compress(context, unused, sizeof unused, smooth, 4, SYNCLINE_F32, one, 1, &options)));
    CHECK(strstr(syncline_error_message(context), "level=1-9") != NULL);
    options = options_of(SYNCLINE_ABS, 1e-3);

    /* A program that was compiled before there were efforts. */
    options.struct_size = offsetof(syncline_compress_options, effort);
    void *stream;
    CHECK(round_trip(smooth, sizeof smooth, SYNCLINE_F32, &options, &stream, restored) == made[0]);
    free(stream);

    unsigned char small[300];
    options = options_of(SYNCLINE_ABS, 1e-3);
    options.effort = 4;
    size_t result = syncline_compress(context, small, 300, smooth, sizeof smooth, SYNCLINE_F32, shape, 3, &options);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(syncline_error_message(context), "effort is 4") != NULL);
}

/* Parts of an array are changed again and again: each value is within the bound of what was written last. */
static void test_rewritable(void) {
    static const uint32_t modes[] = {SYNCLINE_ABS, SYNCLINE_PW_REL};
    static float wanted[COUNT], array[COUNT];
    for (size_t mode = 0; mode < 2; mode++) {
        syncline_compress_options options = options_of(modes[mode], 1e-2);
        options.rewritable = 1;
        memcpy(wanted, field, sizeof wanted);
        memcpy(array, field, sizeof array);
        for (int round = 0; round < 20; round++) {
            for (int k = 997 * round % COUNT; k < COUNT; k += 7 + round) {
                wanted[k] = array[k] = wanted[k] * 1.01f + (float)sin(k * 0.1) * 0.3f;
            }
            void *stream;
            round_trip(array, sizeof array, SYNCLINE_F32, &options, &stream, array);
            free(stream);
        }
        for (int k = 0; k < COUNT; k++) {
            double limit = mode == 0 ? 1e-2 : 1e-2 * fabs((double)wanted[k]);
            CHECK(fabs((double)wanted[k] - (double)array[k]) <= limit);
        }
    }
    unsigned char small[300];
    syncline_compress_options options = options_of(SYNCLINE_ABS, 1e-2);
    options.rewritable = 2;
    size_t result = syncline_compress(context, small, 300, field, sizeof field, SYNCLINE_F32, shape, 3, &options);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(syncline_error_message(context), "rewritable is 2") != NULL);
}

/* Values that stand for missing data come back exactly and do not count in the range. */
static void test_fill_values(void) {
    static float holes[COUNT], restored[COUNT];
    memcpy(holes, field, sizeof holes);
    for (int k = 0; k < COUNT; k += 5) {
        holes[k] = k % 2 ? -9999.25f : 1e20f;
    }
    syncline_compress_options options = options_of(SYNCLINE_REL, 1e-3);
    options.fill_mode = SYNCLINE_FILL_VALUES;
    options.fill_count = 2;
    options.fill_values[0] = -9999.25;
    options.fill_values[1] = 1e20;
    void *stream;
    size_t made = round_trip(holes, sizeof holes, SYNCLINE_F32, &options, &stream, restored);
    syncline_header header = {.struct_size = sizeof header};
    CHECK(syncline_read_header(context, &header, stream, made) == sizeof holes);
    CHECK(header.fill_count == 2 && header.smallest > -9999 && header.largest < 1e20);
    for (int k = 0; k < COUNT; k++) {
        CHECK(k % 5 ? fabs((double)holes[k] - (double)restored[k]) <= header.error_limit : holes[k] == restored[k]);
    }
    free(stream);

    static const struct {
        uint32_t mode, count;
    } wrong[] = {{SYNCLINE_FILL_VALUES, 0}, {SYNCLINE_FILL_VALUES, 5}, {SYNCLINE_FILL_VALUE, 1}, {4, 0}};
    unsigned char small[300];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.fill_mode = wrong[i].mode;
        options.fill_count = wrong[i].count;
        size_t result = syncline_compress(context, small, 300, holes, sizeof holes, SYNCLINE_F32, shape, 3, &options);
        CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
        CHECK(strstr(syncline_error_message(context), "fill_") != NULL);
    }
}

static void test_lossless_types(void) {
    static const struct {
        uint32_t type;
        size_t size;
    } types[] = {{SYNCLINE_F16, 2}, {SYNCLINE_BF16, 2}, {SYNCLINE_U8, 1}, {SYNCLINE_U16, 2}, {SYNCLINE_U32, 4},
                 {SYNCLINE_U64, 8}, {SYNCLINE_I8, 1},   {SYNCLINE_I16, 2}, {SYNCLINE_I32, 4}, {SYNCLINE_I64, 8},
                 {SYNCLINE_F32, 4}, {SYNCLINE_F64, 8}};
    static double restored[COUNT];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        void *stream;
        CHECK(syncline_element_size(types[i].type) == types[i].size);
        round_trip(wide, COUNT * types[i].size, types[i].type, NULL, &stream, restored);
        CHECK(memcmp(wide, restored, COUNT * types[i].size) == 0);
        free(stream);
    }
    CHECK(syncline_element_size(0) == 0 && syncline_element_size(13) == 0);
}

static void test_region(void) {
    syncline_compress_options options = options_of(SYNCLINE_ABS, 1e-2);
    static float whole[COUNT];
    void *stream;
    size_t made = round_trip(field, sizeof field, SYNCLINE_F32, &options, &stream, whole);
    const uint64_t start[3] = {3, 10, 7}, count[3] = {5, 6, 20}, far[3] = {20, 0, 0};
    static float part[5 * 6 * 20];
    CHECK(syncline_decompress_region(context, part, sizeof part, stream, made, start, count, 3, NULL) == sizeof part);
    for (int z = 0; z < 5; z++) {
        for (int y = 0; y < 6; y++) {
            CHECK(memcmp(&part[(z * 6 + y) * 20], &whole[((z + 3) * 30 + y + 10) * 40 + 7], 20 * sizeof *part) == 0);
        }
    }
    size_t result = syncline_decompress_region(context, part, sizeof part, stream, made, far, count, 3, NULL);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
    result = syncline_decompress_region(context, part, sizeof part - 4, stream, made, start, count, 3, NULL);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
    free(stream);
}

static void test_progress_and_structs(void) {
    syncline_compress_options options = options_of(SYNCLINE_ABS, 1e-2);
    int calls = 0;
    options.progress = count_calls;
    options.progress_user = &calls;
    static float restored[COUNT];
    void *stream;
    size_t made = round_trip(field, sizeof field, SYNCLINE_F32, &options, &stream, restored);
    CHECK(calls > 0);
    options.progress = cancel;
    size_t result = syncline_compress(context, stream, made, field, sizeof field, SYNCLINE_F32, shape, 3, &options);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_CANCELLED);
    syncline_decompress_options back;
    CHECK(syncline_init_decompress_options(&back, sizeof back) == sizeof back);
    back.memory_limit = 1;
    result = syncline_decompress(context, restored, sizeof restored, stream, made, &back);
    CHECK(!syncline_is_error(result) || syncline_error_code(result) == SYNCLINE_ERROR_MEMORY_LIMIT);
    back.device = -7;
    result = syncline_decompress(context, restored, sizeof restored, stream, made, &back);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);

    /* A struct of a later version: its new fields must be zero. */
    struct {
        syncline_compress_options known;
        uint64_t later;
    } longer;
    CHECK(syncline_init_compress_options(&longer.known, sizeof longer) == sizeof longer && longer.later == 0);
    longer.known.threads = 1;
    made = syncline_compress_bound(SYNCLINE_F32, shape, 3);
    void *output = malloc(made);
    result = syncline_compress(context, output, made, field, sizeof field, SYNCLINE_F32, shape, 3, &longer.known);
    CHECK(!syncline_is_error(result));
    longer.later = 1;
    result = syncline_compress(context, output, made, field, sizeof field, SYNCLINE_F32, shape, 3, &longer.known);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
    CHECK(syncline_is_error(syncline_init_compress_options(&options, 8)));
    CHECK(syncline_is_error(syncline_init_compress_options(NULL, sizeof options)));
    free(output);
    free(stream);
}

static void test_wrong_calls(void) {
    syncline_compress_options options = options_of(SYNCLINE_ABS, 1e-2);
    unsigned char small[300];
    const uint64_t huge[3] = {UINT64_MAX, UINT64_MAX, 2}, empty[1] = {0};
    size_t result = syncline_compress(context, small, sizeof small, field, sizeof field, SYNCLINE_F32, shape, 3, &options);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_OUTPUT_TOO_SMALL);
    CHECK(strstr(syncline_error_message(context), "300") != NULL);
    CHECK(strcmp(syncline_error_name(result), "output buffer too small") == 0);
    CHECK(syncline_is_error(syncline_compress_bound(SYNCLINE_F32, huge, 3)));
    CHECK(syncline_is_error(syncline_compress_bound(99, shape, 3)));
    CHECK(syncline_is_error(syncline_compress_bound(SYNCLINE_F32, NULL, 3)));
    CHECK(syncline_is_error(syncline_compress_bound(SYNCLINE_F32, shape, 33)));
    CHECK(syncline_is_error(syncline_compress(NULL, NULL, 9, field, sizeof field, SYNCLINE_F32, shape, 3, NULL)));
    CHECK(syncline_is_error(syncline_compress(NULL, small, 9, NULL, sizeof field, SYNCLINE_F32, shape, 3, NULL)));
    CHECK(syncline_is_error(syncline_compress(NULL, small, sizeof small, field, 4, SYNCLINE_F32, shape, 3, NULL)));
    CHECK(syncline_is_error(syncline_compress(NULL, small, SIZE_MAX, field, SIZE_MAX, SYNCLINE_F32, shape, 3, NULL)));
    options.bound_value = -1;
    CHECK(syncline_is_error(syncline_compress(NULL, small, 300, field, sizeof field, SYNCLINE_F32, shape, 3, &options)));
    options.bound_mode = 5;
    CHECK(syncline_is_error(syncline_compress(NULL, small, 300, field, sizeof field, SYNCLINE_F32, shape, 3, &options)));
    result = syncline_decompress(context, field, sizeof field, "not a stream at all", 19, NULL);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_NOT_SYNCLINE);
    CHECK(syncline_is_error(syncline_read_header(NULL, NULL, small, 300)));
    CHECK(syncline_error_code(17) == SYNCLINE_OK && !syncline_is_error(0));

    /* Arrays without elements. */
    result = syncline_compress(context, small, sizeof small, NULL, 0, SYNCLINE_F32, empty, 1, NULL);
    CHECK(!syncline_is_error(result));
    CHECK(syncline_decompress(context, NULL, 0, small, result, NULL) == 0);
}

/* Every result is a size or an error; none is a crash. */
static void test_damaged_streams(void) {
    syncline_compress_options options = options_of(SYNCLINE_ABS, 1e-2);
    static float restored[COUNT];
    void *made;
    size_t size = round_trip(field, sizeof field, SYNCLINE_F32, &options, &made, restored);
    unsigned char *stream = made;
    uint32_t state = 1;
    for (int i = 0; i < 2000; i++) {
        state = state * 1664525u + 1013904223u;
        size_t at = state % size;
        unsigned char before = stream[at];
        stream[at] ^= (unsigned char)(1u << (state >> 29));
        size_t result = syncline_decompress(NULL, restored, sizeof restored, stream, size, NULL);
        CHECK(syncline_is_error(result) || result == sizeof restored);
        stream[at] = before;
        CHECK(syncline_is_error(syncline_decompress(NULL, restored, sizeof restored, stream, at, NULL)));
    }
    free(made);
}

/* Without a GPU, creating a compressor is an error with a message. */
static void test_device(void) {
    syncline_cuda_compressor *compressor = syncline_cuda_create_compressor(context, 0);
    CHECK(compressor != NULL || strlen(syncline_error_message(context)) > 0);
    syncline_cuda_free_compressor(compressor);
    syncline_cuda_free_compressor(NULL);
    CHECK(syncline_cuda_create_compressor(context, -1) == NULL);
    size_t result = syncline_cuda_compress(context, NULL, NULL, 0, NULL, 0, SYNCLINE_F32, shape, 3, NULL, NULL);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
    result = syncline_cuda_decompress(context, NULL, NULL, 0, NULL, 0, NULL);
    CHECK(syncline_error_code(result) == SYNCLINE_ERROR_INVALID_ARGUMENT);
}

int main(void) {
    context = syncline_create_context();
    CHECK(context != NULL && strlen(syncline_version()) >= 5 && *syncline_error_message(context) == '\0');
    for (int i = 0; i < COUNT; i++) {
        wide[i] = 1.5 + 0.5 * sin(0.01 * i) + 0.001 * (i % 7);
        field[i] = (float)wide[i];
    }
    test_bounds();
    test_efforts();
    test_rewritable();
    test_fill_values();
    test_lossless_types();
    test_region();
    test_progress_and_structs();
    test_wrong_calls();
    test_damaged_streams();
    test_device();
    syncline_free_context(context);
    syncline_free_context(NULL);
    puts("ok");
    return 0;
}
