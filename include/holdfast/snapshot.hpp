// SPDX-License-Identifier: Apache-2.0
// snapshot.hpp - whole objects, published at once: readers always see one complete version and are never blocked.
//
// For what is replaced rather than changed: configuration, a model, an index rebuilt from a file. One writer process,
// any number of readers.
//
//     auto writer = holdfast::snapshot<limits>::create("limits");
//     writer.publish({.requests_per_s = 100});
//
//     // in any other process, with read permission only
//     auto reader = holdfast::snapshot<limits>::reader::attach("limits");
//     if (auto now = reader.read()) use(now.value.requests_per_s);
//
//   snapshot_writer          publish(bytes), or prepare -> fill in place -> commit
//   snapshot_reader          needs nothing but read permission: copies or visits, and is told exactly if it was overrun
//   snapshot_pinned_reader   registered: holds one version in place while it works, at one load and a compare per read
//   snapshot<T>              the same for one plain record; its pinned_reader shows it in place as a const T&
//
// Layout and invariants: layout/snapshot_layout.hpp. Synchronisation: layout/snapshot_read.hpp. What a death leaves
// behind, store by store: layout/snapshot_write.hpp. The segment's geometry holds snapshot_geometry's four words, then
// up to twelve words that belong to the payload's own format.
//
// Threads: each handle is used by one thread at a time; handles on one segment run together freely.
// Crash:   a dead writer leaves the previous version or the new one, whole; its successor continues at once. A dead
//          pinned reader's slot is taken back when it is needed. A dead reader of the other sort cannot matter.
// Trust:   readers cannot harm the data (they map it read-only). A registered reader can hold one old version for as
//          long as it lives: the mode of NAME.peers says who may.
#pragma once

#include "holdfast/snapshot/pinned_reader.hpp"  // IWYU pragma: export
#include "holdfast/snapshot/reader.hpp"         // IWYU pragma: export
#include "holdfast/snapshot/record.hpp"         // IWYU pragma: export
#include "holdfast/snapshot/writer.hpp"         // IWYU pragma: export
