// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of both forms of the queue (store_rig.hpp), and all interleavings of two
// operations of each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and which of its memory orders
// they need (weak_interleaving.hpp).
#include "hooks/queue_interleaving.hpp"
#include "hooks/queue_subject.hpp"
#include "hooks/volume.hpp"
#include "hooks/wake_interleaving.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, QueueOfBytes) { die_at_every_store<queue_subject>("queue", 2'500'000); }
TEST(StoreDeaths, QueueOfElements) { die_at_every_store<elements_subject>("queue<T>", 3'000'000); }

TEST(Interleavings, QueueOfBytes) {
    queue_interleaving empty(0, 0), held(3, 1), full(6, 5), wrapping(5, 1);
    interleave("queue, empty: message, batch | one, two", empty);
    interleave("queue, one held", held);
    interleave("queue, full", full);
    interleave("queue, at the end of the ring", wrapping);
}
TEST(Interleavings, QueueOfElements) {
    elements_interleaving empty(0), two(2), full(4);
    interleave("queue<T>, empty: one, two | one, two", empty);
    interleave("queue<T>, half full", two);
    interleave("queue<T>, full", full);
}

TEST(Interleavings, QueueSleepers) {
    for (const sleeping_side side : {sleeping_side::consumer, sleeping_side::producer}) {
        wake_interleaving subject(side);
        interleave(side == sleeping_side::consumer ? "queue: message, message | sleep for each, take"
                                                   : "queue, full: sleep for room, message, twice | take, take",
                   subject);
    }
}

TEST(Interleavings, QueuesLoseNothingByMerging) {
    queue_interleaving wrapping(5, 1);
    elements_interleaving two(2);
    expect_merging_loses_nothing(wrapping, 3, true);
    expect_merging_loses_nothing(two, 3, true);
    for (const sleeping_side side : {sleeping_side::consumer, sleeping_side::producer}) {
        wake_interleaving subject(side);
        expect_merging_loses_nothing(subject, 2, true);
    }
}

TEST(Orders, QueueSleepers) {
    {
        wake_interleaving consumer(sleeping_side::consumer);
        expect_orders_matter("queue, its consumer asleep", {&consumer});
    }
    wake_interleaving producer(sleeping_side::producer);
    expect_orders_matter("queue, its producer asleep", {&producer});
}
TEST(Orders, QueueOfBytes) {
    queue_interleaving empty(0, 0), held(3, 1), full(6, 5), wrapping(5, 1);
    expect_orders_matter("queue", {&empty, &held, &full, &wrapping});
}
TEST(Orders, QueueOfElements) {
    elements_interleaving empty(0), two(2), full(4);
    expect_orders_matter("queue<T>", {&empty, &two, &full});
}

}  // namespace
