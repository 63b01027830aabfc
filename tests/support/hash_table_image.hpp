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

    hash_table_status try_insert(const K& key, const V& value) {
        return writer_.try_insert(as_bytes(key), as_bytes(value)).status;
    }
    hash_table_status insert_or_assign(const K& key, const V& value) {
        return writer_.insert_or_assign(as_bytes(key), as_bytes(value)).status;
    }
    hash_table_status update(const K& key, const V& value) {
        return writer_.update(as_bytes(key), as_bytes(value)).status;
    }
    hash_table_status erase(const K& key) { return writer_.erase(as_bytes(key)).status; }
    [[nodiscard]] bool find(const K& key, V& value) const {
        return writer_.finder().find(as_bytes(key), reinterpret_cast<std::byte*>(&value)) != holdfast::detail::no_slot;
    }

    /// Findings of the full check as text, empty when the table is intact; `report` gets the numbers.
    [[nodiscard]] std::string damage(hash_table_verification* report = nullptr) const {
        return damage_of(view().as_const(), report);
    }
    [[nodiscard]] static std::string damage_of(const holdfast::detail::table_view<const std::byte, node>& view,
                                               hash_table_verification* report = nullptr) {
        std::string text;
        const hash_table_verification result = holdfast::detail::verify(view, [&](const hash_table_finding& f) {
            text += std::string(describe(f.what)) + " (bucket " + std::to_string(f.bucket) + ", slot " +
                    std::to_string(f.slot) + "); ";
            return text.size() < 1000;
        });
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
