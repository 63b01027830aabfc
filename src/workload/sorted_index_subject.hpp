// SPDX-License-Identifier: Apache-2.0
// sorted_index_subject.hpp - a sorted container under test: what an adapter offers, and the loops that are timed.
//
// The records are ranges of numbers, [key, end], in key order, built once. What each operation means:
//   find   copies the value of exactly that key out
//   cover  copies the value of the record whose range holds the key out (an address of a network, a time of an
//   interval) scan   adds up the numbers of that many records from the first whose key is not below the wanted one
// An adapter without cover and scan (a hash table) takes part where exact keys are asked for. find_many is used for
// batches where there is one.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/keep.hpp"
#include "workload/memory_pool.hpp"

namespace holdfast::workload {

/// A record's value: where its range ends, and its place in the order.
template <class K>
struct index_value {
    K end;
    K number;
    friend bool operator==(const index_value&, const index_value&) = default;
};

/// The records of a data set, in order.
template <class K>
struct index_records {
    std::vector<K> keys;
    std::vector<index_value<K>> values;
};

inline constexpr std::uint64_t scan_records = 100;
inline constexpr std::size_t index_batch = 16;

template <class A>
concept index_adapter = std::constructible_from<A, const index_records<typename A::key>&, page_choice> &&
                        requires(A& index, typename A::key key, index_value<typename A::key>& out) {
                            { A::name } -> std::convertible_to<std::string_view>;
                            { A::version() } -> std::convertible_to<std::string>;
                            { index.find(key, out) } -> std::same_as<bool>;
                            { index.memory() } -> std::same_as<memory_use>;
                        };

template <class A>
concept ordered_adapter = requires(A& index, typename A::key key, index_value<typename A::key>& out) {
    { index.cover(key, out) } -> std::same_as<bool>;
    { index.scan(key, scan_records) } -> std::same_as<std::uint64_t>;
};

template <class A>
concept index_finds_many = requires(A& index, std::span<const typename A::key> keys,
                                    std::span<std::optional<index_value<typename A::key>>> out) {
    { index.find_many(keys, out) } -> std::convertible_to<std::uint64_t>;
};

/// An index with its loops. Every loop returns how many keys it found; scan the sum of what it saw.
template <class K>
class sorted_index_subject {
 public:
    using keys = std::span<const K>;
    sorted_index_subject() = default;
    sorted_index_subject(const sorted_index_subject&) = delete;
    sorted_index_subject& operator=(const sorted_index_subject&) = delete;
    virtual ~sorted_index_subject() = default;

    virtual std::uint64_t find(keys) = 0;
    virtual std::uint64_t find_chained(keys) = 0;
    virtual std::uint64_t find_batched(keys) = 0;
    virtual std::uint64_t cover(keys) = 0;
    virtual std::uint64_t cover_chained(keys) = 0;
    virtual std::uint64_t scan(keys) = 0;

    /// Throws std::runtime_error unless it finds every record by its key and by the end of its range, scans right, and
    /// finds nothing for the absent keys, which no range holds.
    virtual void check(const index_records<K>& records, keys absent) = 0;
    [[nodiscard]] virtual memory_use memory() const = 0;
    [[nodiscard]] virtual bool ordered() const = 0;
    [[nodiscard]] virtual bool batches() const = 0;
};

template <index_adapter A>
class sorted_index_loops final : public sorted_index_subject<typename A::key> {
 public:
    using key_type = typename A::key;
    using keys = std::span<const key_type>;
    using value = index_value<key_type>;

    sorted_index_loops(const index_records<key_type>& records, page_choice pages) : index_(records, pages) {}

    std::uint64_t find(keys wanted) override {
        std::uint64_t found = 0;
        value out{};
        for (const key_type key : wanted) {
            found += index_.find(key, out) ? 1 : 0;
            keep(out);
        }
        return found;
    }
    std::uint64_t find_chained(keys wanted) override {
        return chained(wanted, [this](key_type key, value& out) { return index_.find(key, out); });
    }
    std::uint64_t find_batched(keys wanted) override {
        if constexpr (index_finds_many<A>) {
            std::array<std::optional<value>, index_batch> out;
            std::uint64_t found = 0;
            for (std::size_t at = 0; at < wanted.size(); at += index_batch) {
                const std::size_t n = wanted.size() - at < index_batch ? wanted.size() - at : index_batch;
                found += index_.find_many(wanted.subspan(at, n), out);
                keep(out);
            }
            return found;
        } else {
            return find(wanted);
        }
    }
    std::uint64_t cover([[maybe_unused]] keys wanted) override {
        std::uint64_t found = 0;
        if constexpr (ordered_adapter<A>) {
            value out{};
            for (const key_type key : wanted) {
                found += index_.cover(key, out) ? 1 : 0;
                keep(out);
            }
        }
        return found;
    }
    std::uint64_t cover_chained([[maybe_unused]] keys wanted) override {
        if constexpr (ordered_adapter<A>)
            return chained(wanted, [this](key_type key, value& out) { return index_.cover(key, out); });
        else
            return 0;
    }
    std::uint64_t scan([[maybe_unused]] keys wanted) override {
        std::uint64_t sum = 0;
        if constexpr (ordered_adapter<A>)
            for (const key_type key : wanted) sum += index_.scan(key, scan_records);
        return sum;
    }

    void check(const index_records<key_type>& records, keys absent) override {
        value out{};
        for (std::size_t i = 0; i < records.keys.size(); ++i)
            if (!index_.find(records.keys[i], out) || out != records.values[i]) fail("a key", records.keys[i]);
        for (const key_type key : absent)
            if (index_.find(key, out)) fail("an absent key", key);
        if constexpr (ordered_adapter<A>) {
            for (std::size_t i = 0; i < records.keys.size(); ++i) {
                const key_type last = records.values[i].end;
                if (!index_.cover(records.keys[i], out) || out != records.values[i]) fail("a range", records.keys[i]);
                if (!index_.cover(last, out) || out != records.values[i]) fail("the end of a range", last);
            }
            for (const key_type key : absent)
                if (index_.cover(key, out)) fail("a key between two ranges", key);
            check_scan(records);
        }
        if constexpr (index_finds_many<A>) check_batches(records, absent);
    }

    [[nodiscard]] memory_use memory() const override { return index_.memory(); }
    [[nodiscard]] bool ordered() const override { return ordered_adapter<A>; }
    [[nodiscard]] bool batches() const override { return index_finds_many<A>; }

 private:
    template <class Look>
    static std::uint64_t chained(keys wanted, Look&& look) {
        const key_type none = hidden(key_type{0});  // zero, but only we know: each lookup waits for the last
        std::uint64_t found = 0;
        value out{};
        for (const key_type key : wanted) {
            found += look(static_cast<key_type>(key ^ (out.number & none)), out) ? 1 : 0;
            keep(out);
        }
        return found;
    }

    void check_scan(const index_records<key_type>& records) {
        const std::size_t size = records.keys.size();
        for (const std::size_t from : {std::size_t{0}, size / 2, size - 1}) {
            std::uint64_t sum = 0;
            for (std::size_t i = from; i < size && i < from + scan_records; ++i) sum += records.values[i].number;
            if (index_.scan(records.keys[from], scan_records) != sum) fail("a scan", records.keys[from]);
        }
    }
    void check_batches(const index_records<key_type>& records, keys absent) {
        std::array<std::optional<value>, index_batch> out;
        const keys all(records.keys);
        for (std::size_t at = 0; at + index_batch <= all.size(); at += index_batch) {
            index_.find_many(all.subspan(at, index_batch), out);
            for (std::size_t i = 0; i < index_batch; ++i)
                if (!out[i] || *out[i] != records.values[at + i]) fail("a batch of finds", all[at + i]);
        }
        for (std::size_t at = 0; at + index_batch <= absent.size(); at += index_batch)
            if (index_.find_many(absent.subspan(at, index_batch), out) != 0) fail("a batch of misses", absent[at]);
    }

    [[noreturn]] static void fail(const char* what, key_type key) {
        throw std::runtime_error(std::string(A::name) + " answers wrongly for " + what + ": " + std::to_string(key));
    }

    A index_;
};

/// A kind of index that a suite can make, for 32-bit and for 64-bit keys.
struct sorted_index_kind {
    template <class K>
    using maker = std::unique_ptr<sorted_index_subject<K>> (*)(const index_records<K>&, page_choice);

    std::string name, version;
    maker<std::uint32_t> make32 = nullptr;
    maker<std::uint64_t> make64 = nullptr;
    bool in_dev_shm = false;  ///< Adapter::in_dev_shm: what is asked for is asked for there

    template <class K>
    [[nodiscard]] std::unique_ptr<sorted_index_subject<K>> make(const index_records<K>& records,
                                                                page_choice pages) const {
        if constexpr (sizeof(K) == 4)
            return make32(records, pages);
        else
            return make64(records, pages);
    }
};

template <template <class> class Adapter>
[[nodiscard]] sorted_index_kind index_kind_of() {
    using narrow = Adapter<std::uint32_t>;
    using wide = Adapter<std::uint64_t>;
    sorted_index_kind kind;
    kind.name = std::string(narrow::name);
    kind.version = narrow::version();
    kind.in_dev_shm = requires { narrow::in_dev_shm; };
    kind.make32 = [](const index_records<std::uint32_t>& records,
                     page_choice pages) -> std::unique_ptr<sorted_index_subject<std::uint32_t>> {
        return std::make_unique<sorted_index_loops<narrow>>(records, pages);
    };
    kind.make64 = [](const index_records<std::uint64_t>& records,
                     page_choice pages) -> std::unique_ptr<sorted_index_subject<std::uint64_t>> {
        return std::make_unique<sorted_index_loops<wide>>(records, pages);
    };
    return kind;
}

}  // namespace holdfast::workload
