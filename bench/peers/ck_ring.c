// SPDX-License-Identifier: Apache-2.0
// ck_ring.c - Concurrency Kit's ring in its typed form for one producer and one consumer. Its header is C alone, so
// each call from C++ takes as many messages as it can.
#include "bench/peers/ck_ring.h"

#include <ck_ring.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct word_message {
    uint64_t words[1];
};
struct line_message {
    uint64_t words[8];
};
struct kib_message {
    uint64_t words[128];
};
CK_RING_PROTOTYPE(word, word_message)
CK_RING_PROTOTYPE(line, line_message)
CK_RING_PROTOTYPE(kib, kib_message)

// The ring's words of producer and consumer have lines of their own.
struct holdfast_bench_ck_ring {
    ck_ring_t ring;
    size_t message_bytes;
    void* messages;
};

struct holdfast_bench_ck_ring* holdfast_bench_ck_make(unsigned places, size_t message_bytes) {
    struct holdfast_bench_ck_ring* const made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    if (made == NULL) return NULL;
    made->message_bytes = message_bytes;
    made->messages = aligned_alloc(4096, (places * message_bytes + 4095) / 4096 * 4096);
    if (made->messages == NULL) {
        free(made);
        return NULL;
    }
    ck_ring_init(&made->ring, places);
    return made;
}

void holdfast_bench_ck_free(struct holdfast_bench_ck_ring* of) {
    if (of != NULL) free(of->messages);
    free(of);
}

#define MOVE_ALL(operation, type, array) \
    while (done < count && operation(&of->ring, (struct type*)of->messages, (struct type*)array + done)) ++done
// In the form of the message's size.
#define MOVE_ALL_BY_SIZE(operation, array)                                                                  \
    switch (of->message_bytes) {                                                                            \
        case sizeof(struct word_message): MOVE_ALL(ck_ring_##operation##_word, word_message, array); break; \
        case sizeof(struct line_message): MOVE_ALL(ck_ring_##operation##_line, line_message, array); break; \
        case sizeof(struct kib_message): MOVE_ALL(ck_ring_##operation##_kib, kib_message, array); break;    \
        default: break;                                                                                     \
    }

size_t holdfast_bench_ck_send(struct holdfast_bench_ck_ring* of, const void* messages, size_t count) {
    size_t done = 0;
    MOVE_ALL_BY_SIZE(enqueue_spsc, messages)
    return done;
}

size_t holdfast_bench_ck_receive(struct holdfast_bench_ck_ring* of, void* messages, size_t count) {
    size_t done = 0;
    MOVE_ALL_BY_SIZE(dequeue_spsc, messages)
    return done;
}
