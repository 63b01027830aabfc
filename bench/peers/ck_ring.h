// SPDX-License-Identifier: Apache-2.0
// ck_ring.h - what ck_ring.c makes of Concurrency Kit's ring. C and C++.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct holdfast_bench_ck_ring;

// Of a power of two of places, one of them never used, for messages of 8, 64 or 1024 bytes. Returns: null without
// memory.
struct holdfast_bench_ck_ring* holdfast_bench_ck_make(unsigned places, size_t message_bytes);
void holdfast_bench_ck_free(struct holdfast_bench_ck_ring* of);
// As many of `count` messages as there is room for, or as are there. Returns: how many.
size_t holdfast_bench_ck_send(struct holdfast_bench_ck_ring* of, const void* messages, size_t count);
size_t holdfast_bench_ck_receive(struct holdfast_bench_ck_ring* of, void* messages, size_t count);

#ifdef __cplusplus
}
#endif
