// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of both forms of the queue (store_rig.hpp), and all interleavings of two
// operations of each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and which of its memory orders
// they need (weak_interleaving.hpp).
#include "hooks/queue_block_interleaving.hpp"
#include "hooks/queue_interleaving.hpp"
#include "hooks/queue_subject.hpp"
#include "hooks/volume.hpp"
#include "hooks/wake_interleaving.hpp"

namespace {

using namespace holdfast::test;

TEST(StoreDeaths, QueueOfBytes) { die_at_every_store<queue_subject>("queue", 1'800'000); }
TEST(StoreDeaths, QueueOfElements) { die_at_every_store<elements_subject>("queue<T>", 2'500'000); }

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

TEST(Interleavings, QueueOfElementsReadInPlace) {
    block_interleaving empty(0, 0), wrapping(3, 2), full(0, 4), full_and_wrapping(2, 4);
    interleave("queue<T>, empty: one, two | a block, a block of two", empty);
    interleave("queue<T>, at the end of the ring: one, two | a block, a block of two", wrapping);
    interleave("queue<T>, full: one, two | a block, a block of two", full);
    interleave("queue<T>, full round the end of the ring: one, two | a block, a block of two", full_and_wrapping);
}

using beside = queue_interleaving::beside;

TEST(Interleavings, QueueVerifyBesideASide) {
    queue_interleaving sending(5, 1, beside::producer_and_check), taking(6, 4, beside::consumer_and_check);
    interleave("queue, at the end of the ring: message, batch | verify, verify", sending);
    interleave("queue: one, two taken | verify, verify", taking);
}
TEST(Interleavings, QueueSuccessors) {
    queue_interleaving held(3, 1), wrapping(5, 1), verified(5, 1, beside::producer_and_check);
    interleave_successors("queue: message, batch, successor | one, two", held);
    interleave_successors("queue, at the end of the ring: message, batch, successor | one, two", wrapping);
    interleave_successors("queue, at the end of the ring: message, batch, successor | verify, verify", verified);
    elements_interleaving empty(0), two(2);
    interleave_successors("queue<T>: one, two, successor | one, two", empty);
    interleave_successors("queue<T>, half full: one, two, successor | one, two", two);
    block_interleaving none(0, 0), wrapping_block(3, 2);
    interleave_successors("queue<T>: one, two, successor | a block, a block of two", none);
    interleave_successors("queue<T>, at the end of the ring: one, two, successor | a block, a block of two",
                          wrapping_block);
}

template <class Form>
void interleave_sleepers(const char* consumer, const char* producer) {
    for (const sleeping_side side : {sleeping_side::consumer, sleeping_side::producer}) {
        wake_interleaving<Form> subject(side);
        interleave(side == sleeping_side::consumer ? consumer : producer, subject);
    }
}
TEST(Interleavings, QueueSleepers) {
    interleave_sleepers<sleepy_bytes>("queue: message, message | sleep for each, take",
                                      "queue, full: sleep for room, message, twice | take, take");
    interleave_sleepers<sleepy_elements>("queue<T>: element, element | sleep for each, take",
                                         "queue<T>, full: sleep for room, element, twice | take, take");
}

TEST(Interleavings, QueuesLoseNothingByMerging) {
    queue_interleaving wrapping(5, 1);
    elements_interleaving two(2);
    expect_merging_loses_nothing(wrapping, 3, true);
    expect_merging_loses_nothing(two, 3, true);
    block_interleaving in_place(3, 2);
    expect_merging_loses_nothing(in_place, 2, true);
    for (const sleeping_side side : {sleeping_side::consumer, sleeping_side::producer}) {
        wake_interleaving<sleepy_bytes> subject(side);
        expect_merging_loses_nothing(subject, 2, true);
    }
}

template <class Form>
void sleepers_need_orders(const char* consumer, const char* producer) {
    for (const sleeping_side side : {sleeping_side::consumer, sleeping_side::producer}) {
        wake_interleaving<Form> subject(side);
        expect_orders_matter(side == sleeping_side::consumer ? consumer : producer, {&subject});
    }
}
TEST(Orders, QueueSleepers) {
    sleepers_need_orders<sleepy_bytes>("queue, its consumer asleep", "queue, its producer asleep");
    sleepers_need_orders<sleepy_elements>("queue<T>, its consumer asleep", "queue<T>, its producer asleep");
}
TEST(Orders, QueueOfBytes) {
    queue_interleaving empty(0, 0), held(3, 1), full(6, 5), wrapping(5, 1);
    expect_orders_matter("queue", {&empty, &held, &full, &wrapping});
    queue_interleaving sending(5, 1, beside::producer_and_check), taking(6, 4, beside::consumer_and_check);
    expect_orders_matter("queue, looked at", {&sending, &taking}, 1000);
}
TEST(Orders, QueueOfElements) {
    elements_interleaving empty(0), two(2), full(4);
    expect_orders_matter("queue<T>", {&empty, &two, &full});
    block_interleaving wrapping(3, 2), held(0, 4);
    expect_orders_matter("queue<T>, read in place", {&wrapping, &held});
}

}  // namespace
