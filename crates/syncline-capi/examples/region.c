/* Compresses a field with a bound, and reads a part of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <syncline.h>

enum { ROWS = 300, COLUMNS = 400 };

int main(void) {
    static float field[ROWS][COLUMNS];
    for (int y = 0; y < ROWS; y++) {
        for (int x = 0; x < COLUMNS; x++) {
            field[y][x] = sinf(0.02f * (float)x) * cosf(0.03f * (float)y);
        }
    }
    const uint64_t shape[2] = {ROWS, COLUMNS};
    syncline_context *context = syncline_create_context();
    syncline_compress_options options;
    syncline_init_compress_options(&options, sizeof options);
    options.bound_mode = SYNCLINE_ABS;
    options.bound_value = 1e-3;

    size_t capacity = syncline_compress_bound(SYNCLINE_F32, shape, 2);
    void *stream = malloc(capacity);
    size_t size =
        syncline_compress(context, stream, capacity, field, sizeof field, SYNCLINE_F32, shape, 2, &options);
    if (stream == NULL || syncline_is_error(size)) {
        fprintf(stderr, "%s\n", syncline_error_message(context));
        return 1;
    }
    printf("%zu bytes -> %zu bytes\n", sizeof field, size);

    const uint64_t start[2] = {100, 200}, count[2] = {2, 3};
    float part[2][3];
    if (syncline_is_error(
            syncline_decompress_region(context, part, sizeof part, stream, size, start, count, 2, NULL))) {
        fprintf(stderr, "%s\n", syncline_error_message(context));
        return 1;
    }
    for (int y = 0; y < 2; y++) {
        for (int x = 0; x < 3; x++) {
            if (!(fabsf(part[y][x] - field[100 + y][200 + x]) <= 1e-3f)) {
                return 1;
            }
        }
    }
    free(stream);
    syncline_free_context(context);
    puts("ok");
    return 0;
}
