// SPDX-License-Identifier: Apache-2.0
// target.hpp - applies commands to a table of one writer, whatever the type of its handle. See inbox.hpp.
//
// The looking and the change are one because nobody else writes: the handle holds the lease and is used by one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "holdfast/detail/value_tag.hpp"
#include "holdfast/error.hpp"
#include "holdfast/hash_table/result.hpp"
#include "holdfast/inbox/messages.hpp"
#include "holdfast/record/add_to.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/record/untrusted.hpp"
#include "holdfast/segment/types.hpp"

namespace holdfast::detail {

/// A handle that takes keys and values as bytes (dynamic_hash_table), or one of types (the others).
template <class Table>
concept typed_table = requires { typename Table::mapped_type; };

/// A T in the very bytes that it was given, those between its fields included: they are part of what a tag names.
template <class T>
class record_in_place {
 public:
    record_in_place() = default;
    /// Requires: as many bytes as a T has.
    explicit record_in_place(std::span<const std::byte> bytes) noexcept {
        std::memcpy(raw_.data(), bytes.data(), sizeof(T));
        if constexpr (has_boolean(facts_for<T>())) {
            const T clean = raw_.get();
            std::memcpy(raw_.data(), &clean, sizeof(T));
        }
    }
    [[nodiscard]] T& get() noexcept { return *reinterpret_cast<T*>(raw_.data()); }
    [[nodiscard]] const std::byte* data() const noexcept { return raw_.bytes.data(); }

 private:
    raw_record<T> raw_{};
};

template <class Table>
class inbox_target {
 public:
    using bytes = std::span<const std::byte>;

    /// `table` must outlive this. Throws: unsupported for a table of many writers; schema_mismatch.
    explicit inbox_target(Table& table) : table_(table) {
        if (table.segment().info().policy != writers::one)
            throw error(errc::unsupported, table.segment().uri(),
                        "a table of many writers takes writes from whoever may; it needs no inbox");
        container_schema stored = container_schema::parse(table.segment().info().schema);
        if (!stored.key || !stored.value)
            throw error(errc::schema_mismatch, table.segment().uri(), "the stored schema lacks keys or values");
        key_bytes_ = stored.key->bytes();
        value_schema_ = *std::move(stored.value);
        value_.resize(value_schema_->bytes());
    }

    [[nodiscard]] std::size_t key_bytes() const noexcept { return key_bytes_; }
    [[nodiscard]] std::size_t value_bytes() const noexcept { return value_.size(); }

    /// Makes the change, or says why not. `value` of what it returns is good until the next call.
    [[nodiscard]] inbox_answer apply(const inbox_id& id, const inbox_command& what) {
        inbox_answer answer{id};
        if (!fits(what)) return answer;
        hash_table_result done;
        if (what.operation == inbox_operation::put && what.condition == inbox_condition::none) {
            done = assign(what.key, what.value);
        } else if (what.condition == inbox_condition::only_new) {
            done = insert(what.key, what.value);
        } else if (what.operation == inbox_operation::erase && what.condition == inbox_condition::none) {
            done = erase(what.key);
        } else {
            answer.verdict = change_found(what, done);
            if (answer.verdict != inbox_verdict::done) return answer;
        }
        answer.verdict = verdict_of(done.status);
        if (answer.verdict != inbox_verdict::done) return answer;
        answer.change = done.what;
        if (what.operation == inbox_operation::increment) answer.value = value_;
        return answer;
    }

 private:
    /// Whether the command is one for this table: sizes, and a field that can be counted in.
    [[nodiscard]] bool fits(const inbox_command& what) const noexcept {
        const bool put = what.operation == inbox_operation::put;
        if (what.key.size() != key_bytes_ || what.value.size() != (put ? value_.size() : 0)) return false;
        if (what.condition == inbox_condition::only_new && !put) return false;
        return what.operation != inbox_operation::increment || counts_in(what);
    }
    [[nodiscard]] bool counts_in(const inbox_command& what) const noexcept {
        for (const field& each : value_schema_->fields())
            if (each.offset == what.field_offset) return is_countable(each) && each.type == what.counted;
        return false;
    }

    /// What looks at the entry first. Returns: done where `done` tells the rest.
    [[nodiscard]] inbox_verdict change_found(const inbox_command& what, hash_table_result& done) {
        // A miss may be damage that hides the entry.
        if (!find(what.key)) return table_.fault() ? inbox_verdict::damaged : inbox_verdict::not_found;
        if (what.condition == inbox_condition::tags && !what.names(value_tag(value_))) return inbox_verdict::stale;
        switch (what.operation) {
            case inbox_operation::put: done = update(what.key, what.value); break;
            case inbox_operation::erase: done = erase(what.key); break;
            case inbox_operation::increment:
                if (!add_to(what.counted, value_.data() + what.field_offset, what.by))
                    return inbox_verdict::out_of_range;
                done = update(what.key, value_);
                break;
        }
        return inbox_verdict::done;
    }
    [[nodiscard]] static inbox_verdict verdict_of(outcome status) noexcept {
        switch (status) {
            case outcome::ok: return inbox_verdict::done;
            case outcome::exists: return inbox_verdict::exists;
            case outcome::not_found: return inbox_verdict::not_found;
            case outcome::full: return inbox_verdict::full;
            default: return inbox_verdict::damaged;
        }
    }

    [[nodiscard]] bool find(bytes key) {
        if constexpr (typed_table<Table>) {
            record_in_place<typename Table::mapped_type> found;
            if (!table_.find(record_in_place<typename Table::key_type>(key).get(), found.get())) return false;
            std::memcpy(value_.data(), found.data(), value_.size());
            return true;
        } else {
            return table_.find(key, value_);
        }
    }
    [[nodiscard]] hash_table_result assign(bytes key, bytes value) {
        return with(key, value, [&](const auto& k, const auto& v) { return table_.insert_or_assign(k, v); });
    }
    [[nodiscard]] hash_table_result insert(bytes key, bytes value) {
        return with(key, value, [&](const auto& k, const auto& v) { return table_.try_insert(k, v); });
    }
    [[nodiscard]] hash_table_result update(bytes key, bytes value) {
        return with(key, value, [&](const auto& k, const auto& v) { return table_.update(k, v); });
    }
    [[nodiscard]] hash_table_result erase(bytes key) {
        if constexpr (typed_table<Table>)
            return table_.erase(record_in_place<typename Table::key_type>(key).get());
        else
            return table_.erase(key);
    }
    template <class Operation>
    [[nodiscard]] static hash_table_result with(bytes key, bytes value, Operation&& operation) {
        if constexpr (typed_table<Table>)
            return operation(record_in_place<typename Table::key_type>(key).get(),
                             record_in_place<typename Table::mapped_type>(value).get());
        else
            return operation(key, value);
    }

    Table& table_;
    std::size_t key_bytes_ = 0;
    std::optional<record_schema> value_schema_;
    std::vector<std::byte> value_;  // of the entry that was looked at, and behind an increment its new one
};

}  // namespace holdfast::detail
