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

size_t holdfast_bench_ck_send(struct holdfast_bench_ck_ring* of, const void* messages, size_t count) {
    size_t done = 0;
    switch (of->message_bytes) {
        case sizeof(struct word_message): MOVE_ALL(ck_ring_enqueue_spsc_word, word_message, messages); break;
        case sizeof(struct line_message): MOVE_ALL(ck_ring_enqueue_spsc_line, line_message, messages); break;
        case sizeof(struct kib_message): MOVE_ALL(ck_ring_enqueue_spsc_kib, kib_message, messages); break;
        default: break;
    }
    return done;
}

size_t holdfast_bench_ck_receive(struct holdfast_bench_ck_ring* of, void* messages, size_t count) {
    size_t done = 0;
    switch (of->message_bytes) {
        case sizeof(struct word_message): MOVE_ALL(ck_ring_dequeue_spsc_word, word_message, messages); break;
        case sizeof(struct line_message): MOVE_ALL(ck_ring_dequeue_spsc_line, line_message, messages); break;
        case sizeof(struct kib_message): MOVE_ALL(ck_ring_dequeue_spsc_kib, kib_message, messages); break;
        default: break;
    }
    return done;
}
