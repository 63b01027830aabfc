// SPDX-License-Identifier: Apache-2.0
// hash_table_image.hpp - a hash table over plain bytes, without a segment: what unit, hostile and crash tests work on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table/core.hpp"
#include "holdfast/layout/hash_table_layout.hpp"
#include "support/table_answer.hpp"

namespace holdfast::test {

/// Zeroed bytes, 64-aligned, of exactly the size asked for, so that address sanitizer sees every byte beyond.
class aligned_bytes {
 public:
    explicit aligned_bytes(std::size_t bytes)
        : size_(bytes), data_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}))) {
        std::memset(data_.get(), 0, bytes);
    }
    [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_.get(), size_}; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_.get(), size_}; }

 private:
    struct release {
        void operator()(std::byte* p) const noexcept { ::operator delete(p, std::align_val_t{64}); }
    };
    std::size_t size_;
    std::unique_ptr<std::byte, release> data_;
};

template <class K, class V>
[[nodiscard]] constexpr layout::hash_table_geometry geometry_for(std::uint64_t capacity, std::uint64_t seed = 1) {
    return layout::plan_hash_table({.capacity = capacity,
                                    .key_bytes = sizeof(K),
                                    .value_bytes = sizeof(V),
                                    .value_alignment = alignof(V),
                                    .seed = seed});
}

/// The largest capacity that gets by with `slots` slots, as a table of about that many slots.
[[nodiscard]] constexpr std::uint64_t capacity_for_slots(std::uint64_t slots) { return slots * 100 / 103; }

/// A table of K and V on bytes of its own, or on someone else's. One writer, and finders on the same bytes.
template <class K, class V, holdfast::detail::tag_match Match = holdfast::detail::tag_match::best>
class hash_table_image {
 public:
    using node = holdfast::detail::fixed_node<K, V>;
    using mutator = holdfast::detail::hash_table_mutator<node, Match>;
    using finder = holdfast::detail::hash_table_finder<node, Match>;

    explicit hash_table_image(const layout::hash_table_geometry& g)
        : geometry_(g), own_(std::make_unique<aligned_bytes>(g.body_bytes())), body_(own_->bytes()) {
        attach();
    }
    /// Recovers the table in `body`, as the next writer would.
    hash_table_image(std::span<std::byte> body, const layout::hash_table_geometry& g) : geometry_(g), body_(body) {
        attach();
    }

    [[nodiscard]] holdfast::detail::table_view<std::byte, node> view() const { return {body_, geometry_, {}}; }
    [[nodiscard]] finder reader() const { return finder(view().as_const()); }
    [[nodiscard]] mutator& writer() { return writer_; }
    [[nodiscard]] std::span<std::byte> bytes() const { return body_; }
    [[nodiscard]] const layout::hash_table_geometry& geometry() const { return geometry_; }
    [[nodiscard]] const hash_table_recovery& recovery() const { return recovery_; }

    table_answer try_insert(const K& key, const V& value) { return writer_.try_insert(as_bytes(key), as_bytes(value)); }
    table_answer insert_or_assign(const K& key, const V& value) {
        return writer_.insert_or_assign(as_bytes(key), as_bytes(value));
    }
    table_answer update(const K& key, const V& value) { return writer_.update(as_bytes(key), as_bytes(value)); }
    table_answer erase(const K& key) { return writer_.erase(as_bytes(key)); }
    [[nodiscard]] bool find(const K& key, V& value) const {
        return writer_.finder().find(as_bytes(key), reinterpret_cast<std::byte*>(&value)) != holdfast::detail::no_slot;
    }

    /// Leaves the table as a writer does that is killed in a wide update of `key`, before the value's words.
    void arm_update(const K& key, const V& value) {
        namespace d = holdfast::detail;
        const auto v = view();
        const std::uint64_t slot = writer_.finder().find(as_bytes(key), nullptr);
        const std::uint64_t bucket = slot / layout::tags_per_line;
        const std::byte* stored = v.node_at(bucket, static_cast<unsigned>(slot % layout::tags_per_line));
        const std::uint64_t base =
            d::load_relaxed<std::uint64_t>(v.digest_of(bucket)) - d::digest_value(v, stored, stored);
        const d::hash_table_intent before{d::load_relaxed<std::uint64_t>(v.journal + layout::journal_intent_offset)};
        std::byte* image = v.journal + layout::journal_image_offset;
        d::store_release<std::uint64_t>(v.journal + layout::journal_base_offset, base);
        d::store_release<std::uint64_t>(v.journal + layout::journal_intent_offset,
                                        before.next(d::hash_table_intent::update, slot, writer_.size()).word);
        d::store_release<std::uint64_t>(v.journal + layout::journal_slot_offset, slot);
        d::copy_to_words(image, 0, as_bytes(key), sizeof key);
        d::copy_to_words(image, geometry_.value_offset, as_bytes(value), sizeof value);
        d::store_release<std::uint64_t>(v.journal + layout::journal_next_offset,
                                        base + d::digest_value(v, stored, image));
        std::byte* sequence = v.journal + layout::journal_sequence_offset;
        d::store_release<std::uint64_t>(sequence, d::load_relaxed<std::uint64_t>(sequence) + 1);
        std::byte* line = v.line(bucket);
        d::store_release<std::uint32_t>(line, d::load_relaxed<std::uint32_t>(line) + 1);
    }

    /// Findings of the full check as text, empty when the table is intact; `report` gets the numbers. Requires: nothing
    /// writes meanwhile.
    [[nodiscard]] std::string damage(hash_table_verification* report = nullptr) const {
        return damage_of(view().as_const(), report);
    }
    [[nodiscard]] static std::string damage_of(const holdfast::detail::table_view<const std::byte, node>& view,
                                               hash_table_verification* report = nullptr) {
        std::string text;
        const hash_table_verification result = holdfast::detail::verify(view, [&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + " (bucket " + std::to_string(f.bucket) + ", slot " +
                    std::to_string(f.slot) + (f.slots > 1 ? " and on" : "") + "); ";
            return text.size() < 1000;
        });
        if (result.busy != 0) text += std::to_string(result.busy) + " parts were busy, though nothing writes; ";
        if (report != nullptr) *report = result;
        return text;
    }

    template <class T>
    [[nodiscard]] static const std::byte* as_bytes(const T& value) {
        return reinterpret_cast<const std::byte*>(&value);
    }

 private:
    void attach() {
        recovery_ = holdfast::detail::recover(view());
        writer_ = mutator(view());
    }
    layout::hash_table_geometry geometry_;
    std::unique_ptr<aligned_bytes> own_;
    std::span<std::byte> body_;
    hash_table_recovery recovery_;
    mutator writer_;
};

}  // namespace holdfast::test
