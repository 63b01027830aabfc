// SPDX-License-Identifier: Apache-2.0
// hdr_histogram_c.c - HdrHistogram's C implementation behind the interface of rust/src/lib.rs. A call takes many values, and is compiled together
// with the library (peers/build), so that no call is in a value's time.
#include <stddef.h>
#include <stdint.h>

#include "hdr_histogram.h"

// Values beyond are counted there: 18 minutes, as in Holdfast's own histogram.
static const int64_t greatest = (int64_t)1 << 40;

uint32_t sketch_kinds(void) { return 2; }

const char* sketch_name(uint32_t kind) { return kind == 0 ? "HdrHistogram (C), 2 digits" : "HdrHistogram (C), 3 digits"; }

const char* sketch_version(uint32_t kind) {
    (void)kind;
    return "0.11.1, of native-hdr-histogram 1.0.0";
}

void* sketch_new(uint32_t kind) {
    struct hdr_histogram* made = NULL;
    return hdr_init(1, greatest, kind == 0 ? 2 : 3, &made) == 0 ? made : NULL;
}

void sketch_free(void* sketch) {
    if (sketch != NULL) hdr_close(sketch);
}

void sketch_record(void* sketch, const uint64_t* values, size_t count) {
    for (size_t i = 0; i < count; ++i)
        hdr_record_value(sketch, values[i] < (uint64_t)greatest ? (int64_t)values[i] : greatest);
}

double sketch_quantile(void* sketch, double q) {
    // The middle of the bucket is nearer to its samples than the end that the library answers with.
    const int64_t answer = hdr_value_at_percentile(sketch, 100 * q);
    return ((double)hdr_lowest_equivalent_value(sketch, answer) + (double)hdr_next_non_equivalent_value(sketch, answer) - 1) / 2;
}

size_t sketch_bytes(void* sketch) { return hdr_get_memory_size(sketch); }
