// SPDX-License-Identifier: Apache-2.0
// metrics_saver.cpp - counter sets and latency histograms in saved files. The parameters of saved_header:
//   counter_set        0 capacity
//   latency_histogram  0 shards, with the shared one
// A counter is its value, the lengths of family and labels (u64 each), and both texts. A histogram is its bytes as they
// travel (metrics/histogram_bytes.hpp), all shards together; restored, they stand in the shared shard.
#include <algorithm>
#include <string>
#include <vector>

#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/histogram_bytes.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "inspect/kind_savers.hpp"
#include "inspect/metrics_reader.hpp"
#include "inspect/saver_parts.hpp"

namespace holdfast::inspect {

namespace {

struct saved_counter {
    std::uint64_t value = 0;
    std::uint64_t family_bytes = 0;
    std::uint64_t labels_bytes = 0;
};

void fill_counters(saved_reader& file, std::span<std::byte> body, std::uint64_t capacity, std::string_view uri) {
    const detail::counter_slots slots(body, capacity, uri);
    section_stream from(file);
    while (from.more()) {
        const std::uint64_t at = from.offset();
        const auto head = from.read<saved_counter>();
        if (head.family_bytes > layout::counter_text_bytes_max || head.labels_bytes > layout::counter_text_bytes_max)
            refuse_contents(file, at, "a counter's name is too long");
        std::string family(static_cast<std::size_t>(head.family_bytes), '\0');
        std::string labels(static_cast<std::size_t>(head.labels_bytes), '\0');
        from.read(std::as_writable_bytes(std::span(family)));
        from.read(std::as_writable_bytes(std::span(labels)));
        const auto words = layout::encode_counter_name(family, labels);
        if (!words || !valid_metric_family(family) || !valid_metric_labels(labels))
            refuse_contents(file, at, "a counter's name is none");
        layout::counter_slot* const slot = slots.install(*words);
        if (slot == nullptr)
            throw error(errc::no_space, std::string(uri), "the set is full; give a greater --capacity");
        counter(slot->value).set(head.value);
    }
}

}  // namespace

saved_writer save_counters(const std::shared_ptr<const segment>& s, const saved_writer::sink& out) {
    saved_header header = header_of(*s);
    header.parameters[0] = s->info().geometry[0];
    saved_writer file(out, header, s->info().schema);
    std::string record;
    for_each_counter(*s, [&](std::string_view family, std::string_view labels, std::uint64_t value) {
        const saved_counter head{value, family.size(), labels.size()};
        record.assign(reinterpret_cast<const char*>(&head), sizeof head);
        record.append(family).append(labels);
        file.add(std::as_bytes(std::span(record)), 1);
    });
    return file;
}

segment restore_counters(saved_reader& file, std::string_view uri, const restore_options& options) {
    if (options.capacity > layout::counter_capacity_max)
        throw error(errc::invalid_argument, "--capacity",
                    detail::concat("a counter set has room for ", layout::counter_capacity_max, " counters at most"));
    const std::uint64_t capacity = options.capacity != 0 ? options.capacity : file.header().parameters[0];
    if (capacity == 0 || capacity > layout::counter_capacity_max)
        refuse_contents(file, "its number of counters is out of range");
    segment_spec spec;
    spec.kind = container_kind::counter_set;
    spec.container_version = detail::counter_set_version;
    spec.policy = writers::many;
    spec.schema = file.schema();
    spec.geometry[0] = capacity;
    spec.geometry[1] = sizeof(layout::counter_slot);
    spec.body_bytes = capacity * sizeof(layout::counter_slot);
    return segment::create(uri, spec, options.create,
                           [&](std::span<std::byte> body) { fill_counters(file, body, capacity, uri); });
}

saved_writer save_latencies(const std::shared_ptr<const segment>& s, const saved_writer::sink& out) {
    const histogram_counts counts = latencies_of(*s);  // checks the geometry
    saved_header header = header_of(*s);
    header.parameters[0] = s->info().geometry[0];
    saved_writer file(out, header, s->info().schema);
    file.add(histogram_to_bytes(counts), counts.total());
    return file;
}

segment restore_latencies(saved_reader& file, std::string_view uri, const restore_options& options) {
    const std::uint64_t shards = file.header().parameters[0];
    if (shards < 2 || shards > layout::latency_shards_max)
        refuse_contents(file, "its number of shards is out of range");
    segment_spec spec;
    spec.kind = container_kind::latency_histogram;
    spec.container_version = detail::latency_histogram_version;
    spec.policy = writers::many;
    spec.schema = file.schema();
    spec.geometry = {shards, sizeof(layout::latency_shard), log_linear::sub_bucket_bits, log_linear::exponent_max};
    spec.body_bytes = layout::latency_shard_bytes(shards);
    spec.peer_slots = static_cast<std::uint32_t>(shards - 1);
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        std::vector<std::byte> bytes;
        while (const auto section = file.next()) {
            if (section->size() > histogram_bytes_max - bytes.size())
                refuse_contents(file, "it holds more than a histogram");
            bytes.insert(bytes.end(), section->begin(), section->end());
        }
        const histogram_counts counts = histogram_from_bytes(bytes, file.name());
        layout::shared_latency_shard& shard = detail::latency_shards(body, shards, uri).shared();
        // Relaxed throughout: nobody else has the bytes yet.
        constexpr auto relaxed = std::memory_order_relaxed;
        for (std::size_t b = 0; b < counts.counts().size(); ++b) shard.counts[b].store(counts.counts()[b], relaxed);
        shard.sum.store(counts.sum(), relaxed);
        if (counts.total() == 0) return;
        shard.least_complement.store(~counts.least_noted(), relaxed);
        shard.greatest.store(counts.greatest_noted(), relaxed);
    });
}

}  // namespace holdfast::inspect
