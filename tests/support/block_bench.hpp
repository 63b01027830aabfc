// SPDX-License-Identifier: Apache-2.0
// block_bench.hpp - a block store on plain bytes, a model of it, and the questions every image after a crash is asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "holdfast/block_store/verify.hpp"
#include "holdfast/block_store/write.hpp"
#include "support/single_step.hpp"
#include "support/snapshot_bench.hpp"

namespace holdfast::test {

using block_writer = holdfast::detail::block_writer_core;
using block_reader = holdfast::detail::block_reader_core;
using writable_blocks = holdfast::detail::block_view<std::byte>;
using readable_blocks = holdfast::detail::block_view<const std::byte>;

/// What lies under a handle: whole_object(seed, bytes).
struct block_content {
    std::uint64_t seed = 0;
    std::size_t bytes = 0;
    friend bool operator==(const block_content&, const block_content&) = default;
};
using block_model = std::map<std::uint64_t, block_content>;

/// A body of pages, shared with forked children.
class block_bench {
 public:
    explicit block_bench(std::uint64_t units, std::uint64_t unit_bytes = 64, std::uint64_t writer_slots = 0)
        : geometry_{units, unit_bytes, writer_slots}, image_(static_cast<std::size_t>(geometry_.body_bytes())) {}

    [[nodiscard]] const layout::block_store_geometry& geometry() const noexcept { return geometry_; }
    [[nodiscard]] shared_image& image() noexcept { return image_; }
    [[nodiscard]] std::span<std::byte> body() noexcept { return image_.bytes(); }
    [[nodiscard]] writable_blocks view() noexcept { return {body(), geometry_}; }
    [[nodiscard]] block_writer writer() { return block_writer(view()); }
    [[nodiscard]] block_reader reader() noexcept { return block_reader({body(), geometry_}); }

 private:
    layout::block_store_geometry geometry_;
    shared_image image_;
};

/// Stores whole_object(seed, bytes), as block_store::allocate and replace do.
template <class Writer>
block_result put(Writer& writer, block_content what, std::uint64_t replaced = 0) {
    const outcome status = writer.prepare(what.bytes);
    if (status != outcome::ok) return {status, 0};
    (void)writer.write(0, whole_object(what.seed, what.bytes));
    const block_result result = writer.commit(replaced);
    if (!result) writer.discard();
    return result;
}

/// The first thing that verify finds, or nothing.
inline std::string damage_of(const readable_blocks& view, block_store_verification* report = nullptr) {
    std::string text;
    const block_store_verification found = detail::verify_blocks(view, [&](const block_finding& f) {
        if (text.empty()) text = "verify: unit " + std::to_string(f.unit) + ": " + std::string(describe(f.what));
        return true;
    });
    if (report != nullptr) *report = found;
    return text.empty() && found.busy ? "verify: busy" : text;
}

/// The first thing that verify calls damage beside writers at work, or nothing.
[[nodiscard]] inline std::string damage_beside_writers(const readable_blocks& view) {
    std::string text;
    (void)detail::verify_blocks(view, [&](const block_finding& f) {
        text = "verify beside a writer: " + std::string(describe(f.what));
        return false;
    });
    return text;
}

[[nodiscard]] inline std::vector<std::uint64_t> handles_of(const block_reader& reader) {
    std::vector<std::uint64_t> handles;
    for (std::uint64_t h = reader.next_value(0); h != 0; h = reader.next_value(reader.bytes().index_of(h) + 1))
        handles.push_back(h);
    return handles;
}

/// Whether the handle gives exactly this content.
[[nodiscard]] inline bool holds(const block_reader& reader, std::uint64_t handle, block_content what) {
    std::vector<std::byte> out(what.bytes + 8);
    const result got = reader.read(handle, out);
    if (!got || got.count != what.bytes) return false;
    out.resize(what.bytes);
    return is_whole(out, what.seed);
}

/// How what is stored differs from the model, or nothing.
[[nodiscard]] inline std::string difference(const block_reader& reader, const block_model& model) {
    const std::vector<std::uint64_t> handles = handles_of(reader);
    if (handles.size() != model.size())
        return std::to_string(handles.size()) + " values where " + std::to_string(model.size()) + " should be";
    for (const std::uint64_t h : handles) {
        const auto expected = model.find(h);
        if (expected == model.end()) return "a value that should not be, under handle " + std::to_string(h);
        if (!holds(reader, h, expected->second)) return "another value under handle " + std::to_string(h);
    }
    return reader.fault().get() ? "the reader latched a fault" : "";
}

/// Units whose words name a value that stands.
[[nodiscard]] inline std::uint64_t units_in_use(const readable_blocks& view) {
    std::uint64_t used = 0;
    for (std::uint64_t i = 0; i < view.units(); ++i) used += view.in_use(i) ? 1 : 0;
    return used;
}

/// Whether the counts are what the units say, as an onlooker sees them at once: as many as the words name, and as many
/// as the runs of the values cover.
[[nodiscard]] inline std::string miscounted(const readable_blocks& view) {
    const block_reader reader(view);
    const block_store_usage usage = reader.usage();
    if (!usage) return "the usage cannot be told";
    if (const std::uint64_t used = units_in_use(view); usage.units_used != used)
        return "usage says " + std::to_string(usage.units_used) + " units, in use are " + std::to_string(used);
    const std::vector<std::uint64_t> handles = handles_of(reader);
    if (usage.values != handles.size())
        return "usage says " + std::to_string(usage.values) + " values, there are " + std::to_string(handles.size());
    std::uint64_t covered = 0;
    for (const std::uint64_t h : handles)
        view.for_each_run(view.index_of(h), [&](const auto& run) { covered += run.units; });
    if (usage.units_used != covered)
        return "usage says " + std::to_string(usage.units_used) + " units, values cover " + std::to_string(covered);
    return {};
}

/// The next writer goes on: every free unit can be allocated, every used one can be freed, nothing is left over, and
/// then one value fills the store. The image is used up by that.
[[nodiscard]] inline std::string leaks(const writable_blocks& view) {
    block_writer writer(view);
    const std::uint64_t free = view.units() - writer.units_used();
    std::uint64_t got = 0;
    while (put(writer, {got, 40})) {  // one unit each
        if (std::string text = got == 0 ? damage_of(view.as_const()) : ""; !text.empty())
            return "the next value: " + text;
        ++got;
    }
    if (got != free) return "of " + std::to_string(free) + " free units " + std::to_string(got) + " could be allocated";
    if (writer.units_used() != view.units()) return "a full store counts free units";
    if (std::string text = damage_of(view.as_const()); !text.empty()) return "filled: " + text;
    for (const std::uint64_t h : handles_of(writer.reader()))
        if (writer.free(h) != outcome::ok) return "a value could not be freed";
    if (writer.units_used() != 0 || writer.values() != 0) return "an emptied store counts used units";
    if (std::string text = miscounted(view.as_const()); !text.empty()) return "emptied: " + text;
    const block_content all{7, static_cast<std::size_t>(view.geometry().value_bytes_max())};
    const block_result whole = put(writer, all);
    if (!whole || !holds(writer.reader(), whole.handle, all)) return "one value cannot fill the emptied store";
    return damage_of(view.as_const());
}

}  // namespace holdfast::test
