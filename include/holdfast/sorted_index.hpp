// SPDX-License-Identifier: Apache-2.0
// sorted_index.hpp - records in key order, built once and then only read: exact lookup, covering ranges, iteration.
//
//   struct country_range { holdfast::ipv4 high; char country[2]; };
//   using geo = holdfast::sorted_index<holdfast::ipv4, country_range, &country_range::high>;
//
//   auto publisher = geo::publisher::create("geo4", {.records_max = 500'000});
//   geo::builder records;
//   records.add(low, {high, {'U', 'S'}});                  // any order; repeats and overlaps are refused by record
//   publisher.publish(records);                            // readers go over to it at once
//
//   auto reader = geo::reader::attach("geo4");
//   if (auto hit = reader.find_covering(address)) use(hit->value.country);
//
// The image (layout/sorted_index_layout.hpp) is the body of a segment of its own (create_sorted_index), or the payload
// of a snapshot (publisher), which is how it is replaced under its readers. `dynamic_` twins do the same by schema
// alone.
//
// Threads: views are const and shared freely; a reader or publisher is used by one thread at a time.
// Crash:   a publisher's death leaves the former index or the new one (snapshot.hpp); a dead reader cannot matter.
// Trust:   lookups stay inside the image whatever it holds; wrong order gives wrong answers, never a crash: verify it.
// Cost:    a lookup is log2(n) + 1 comparisons without mispredicted branches over keys that lie side by side; find_many
//          and find_covering_many overlap the cache misses of many.
#pragma once

#include "holdfast/sorted_index/builder.hpp"       // IWYU pragma: export
#include "holdfast/sorted_index/dynamic_view.hpp"  // IWYU pragma: export
#include "holdfast/sorted_index/publisher.hpp"     // IWYU pragma: export
#include "holdfast/sorted_index/reader.hpp"        // IWYU pragma: export
#include "holdfast/sorted_index/view.hpp"          // IWYU pragma: export

namespace holdfast {

/// The types that belong to one index. RangeEnd: the member of V that ends the range [key, value.*RangeEnd].
template <class K, class V, auto RangeEnd = nullptr>
struct sorted_index {
    using entry = sorted_index_entry<K, V>;
    using view = sorted_index_view<K, V, RangeEnd>;
    using builder = sorted_index_builder<K, V, RangeEnd>;
    using reader = sorted_index_reader<K, V, RangeEnd>;
    using publisher = sorted_index_publisher<K, V, RangeEnd>;
};

}  // namespace holdfast
