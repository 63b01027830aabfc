// SPDX-License-Identifier: Apache-2.0
// queue.hpp - a bounded first-in first-out queue from one producer process to one consumer process.
//
//     auto producer = holdfast::queue_producer::create("log");
//     producer.try_push(std::as_bytes(std::span(line)));                       // full: nothing was changed
//
//     // in one other process
//     auto consumer = holdfast::queue_consumer::attach("log");
//     while (consumer.wait(1s)) { use(consumer.front().bytes); consumer.pop(); }
//
//   queue_producer, queue_consumer           messages of any size, filled and read in place: try_claim -> commit,
//                                            front -> pop; a batch is a transaction of many messages
//   queue<T>::producer, queue<T>::consumer   records of one type, by copy, many at a time
//
// Layout and invariants: layout/queue_layout.hpp. What a death leaves, store by store, and the synchronisation:
// layout/queue_write.hpp, layout/queue_read.hpp, layout/queue_elements.hpp. Who may take a side: queue/place.hpp.
//
// Threads: each handle is used by one thread at a time; producer and consumer run together freely, with their tries
//          wait-free.
// Crash:   a dead producer loses what it had not committed, a dead consumer what it had not released comes again
//          (delivery chooses for copies). Either successor continues at once; nobody waits for the dead.
// Trust:   the consumer maps the data read-only and believes no length in it; the producer reads from the consumer one
//          position, which it checks. Whoever may write NAME.peers can lose or repeat the consumer's messages.
// Many producers: one queue for each and a consumer that looks at them in turn. A ring that several producers claim
//          from stops for all of them when one is killed between claim and commit.
#pragma once

#include "holdfast/queue/consumer.hpp"  // IWYU pragma: export
#include "holdfast/queue/observer.hpp"  // IWYU pragma: export
#include "holdfast/queue/producer.hpp"  // IWYU pragma: export
#include "holdfast/queue/typed.hpp"     // IWYU pragma: export
