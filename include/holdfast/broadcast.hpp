// SPDX-License-Identifier: Apache-2.0
// broadcast.hpp - a ring of messages of any size: one writer that never waits, any number of readers, each told exactly
// what it lost.
//
// For feeds: prices, events, changes, logs. Readers come and go, start at the oldest message, the newest, a number or a
// time, and need nothing but read permission.
//
//     auto writer = holdfast::broadcast_writer::create("feed", {.capacity_bytes = 1 << 20});
//     writer.publish(std::as_bytes(std::span(event)));
//
//     // in any other process, with read permission only
//     auto reader = holdfast::broadcast_reader::attach("feed");
//     for (const auto& [answer, message] : reader.drain(buffer))               // buffer: std::vector<std::byte>
//         if (answer.status == holdfast::outcome::lapped) missed(answer.count); else use(message);
//
//   broadcast_writer           publish(bytes), or claim -> fill in place -> commit; batches that appear at once
//   broadcast_reader           read into a buffer or a vector, or visit in place; lapped(count) when it was overrun
//   broadcast_reliable_reader  registered: the writer waits for it (block), takes no notice (drop), or waits a while
//                              (evict); its backlog and the time it cost are reported
//
// Layout and invariants: layout/broadcast_layout.hpp. Synchronisation, and why losses are exact:
// layout/broadcast_read.hpp. What a death leaves behind, store by store: layout/broadcast_write.hpp. Registered
// readers: layout/broadcast_slots.hpp.
//
// Threads: each handle is used by one thread at a time; handles on one ring run together freely.
// Crash:   a dead writer leaves each message or batch published or not; its successor continues at once, and readers
//          are told that it did. A dead registered reader is noticed when it would be in the way. Other readers cannot
//          matter.
// Trust:   readers cannot harm the data (they map it read-only). A registered reader can hold the writer up: the mode
//          of NAME.peers says who may.
#pragma once

#include "holdfast/broadcast/reader.hpp"           // IWYU pragma: export
#include "holdfast/broadcast/reliable_reader.hpp"  // IWYU pragma: export
#include "holdfast/broadcast/reports.hpp"          // IWYU pragma: export
#include "holdfast/broadcast/writer.hpp"           // IWYU pragma: export
