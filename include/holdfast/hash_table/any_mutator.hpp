// SPDX-License-Identifier: Apache-2.0
// any_mutator.hpp - a table's writer where only the header of the segment says whether there is one, or many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "holdfast/hash_table/many_grow.hpp"
#include "holdfast/hash_table/result.hpp"

namespace holdfast::detail {

class any_hash_table_mutator {
 public:
    using node = runtime_node;
    using view = table_view<std::byte, node>;
    using one_of_many = many_table<node>;

    any_hash_table_mutator() = default;

    /// Becomes the writer, or one of them, and finishes what dead ones left. Requires: `v` is the body of `s`, which
    /// is writable. Throws: writer_alive where all writer slots are taken.
    [[nodiscard]] hash_table_recovery attach(const std::shared_ptr<segment>& s, const view& v,
                                             const attach_options& options) {
        if (v.has_many_writers())
            return writer_.emplace<one_of_many>().join(s, options.trust, options.pages, ns_of(options.lease_timeout));
        const hash_table_recovery recovery = recover(v);
        writer_.emplace<the_one>(v);
        return recovery;
    }

    hash_table_result try_insert(const std::byte* key, const std::byte* value) noexcept {
        return visit(key, [&](auto& writer) { return writer.try_insert(key, value); });
    }
    hash_table_result insert_or_assign(const std::byte* key, const std::byte* value) noexcept {
        return visit(key, [&](auto& writer) { return writer.insert_or_assign(key, value); });
    }
    hash_table_result update(const std::byte* key, const std::byte* value) noexcept {
        return visit(key, [&](auto& writer) { return writer.update(key, value); });
    }
    hash_table_result erase(const std::byte* key) noexcept {
        return visit(key, [&](auto& writer) { return writer.erase(key); });
    }
    /// Copies the key's value to `value`, calls change() -> bool and, if it says so, gives the key what `value` is
    /// then; nobody comes in between. Returns: ok, not_found, stale (the change was not wanted), ...
    template <class Change>
    hash_table_result modify(const std::byte* key, std::byte* value, Change&& change) {
        return decide(key, value, [&] { return change() ? table_change::store : table_change::none; });
    }
    /// The same, but removes the key's entry if wanted() -> bool says so.
    template <class Wanted>
    hash_table_result erase_if(const std::byte* key, std::byte* value, Wanted&& wanted) {
        return decide(key, value, [&] { return wanted() ? table_change::erase : table_change::none; });
    }
    /// Throws: what recount_alone() throws.
    std::uint64_t recount() {
        if (one_of_many* const shared = many()) {
            auto& writer = shared->current();
            return recount_alone(*shared->segment_pointer(), writer);
        }
        return detail::recount(std::get_if<the_one>(&writer_)->bytes());
    }

    [[nodiscard]] const hash_table_finder<node>& finder() const noexcept {
        one_of_many* const shared = many();
        return shared != nullptr ? shared->finder_for_queries() : std::get_if<the_one>(&writer_)->finder();
    }
    /// The writer as one of many; nullptr where it is the only one.
    [[nodiscard]] one_of_many* many() const noexcept { return std::get_if<one_of_many>(&writer_); }

 private:
    using the_one = hash_table_mutator<node>;

    template <class Decide>
    hash_table_result decide(const std::byte* key, std::byte* value, Decide&& what) {
        if (one_of_many* const shared = many())
            return result_of(shared->run(
                key, [&](auto& writer) { return writer.decide(key, value, false, [&](bool) { return what(); }); }));
        the_one& alone = std::get<the_one>(writer_);
        const std::uint64_t slot = alone.finder().find(key, value);
        if (slot == no_slot) return {alone.finder().damage_hides(key) ? outcome::corrupt : outcome::not_found};
        switch (what()) {
            case table_change::none: break;
            case table_change::store: return result_of(alone.update(key, value));
            case table_change::erase: return result_of(alone.erase(key));
        }
        return {outcome::stale, entry_change::none, static_cast<hash_table_slot>(slot)};
    }

    template <class Operation>
    hash_table_result visit(const std::byte* key, Operation&& operation) noexcept {
        if (one_of_many* const shared = many()) return result_of(shared->run(key, operation));
        return result_of(operation(*std::get_if<the_one>(&writer_)));
    }

    mutable std::variant<the_one, one_of_many> writer_;  // a look may lead to the newest generation
};

}  // namespace holdfast::detail
