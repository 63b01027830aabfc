// SPDX-License-Identifier: Apache-2.0
// hash_table_subject.hpp - a hash table under test: what an adapter offers, and the loops that are timed.
//
// An adapter wraps one kind of table for one kind of value. The loops over it are templates, compiled for each adapter
// with nothing between loop and table; a subject hides them behind one virtual call for a slice of operations.
//
// What each operation means, for every adapter alike:
//   find    copies the whole value out (a reader that may look at it later), and says whether the key is there
//   insert  adds a key that is not there; false: the table is full
//   update  replaces the value of a key that is there
//   erase   removes a key that is there
// An adapter may offer more, and is then used by it: find_many for batches; insert_many for many inserts at once;
// reading()/writing() to bracket a run of operations (a transaction); clear(); load() to fill fast when the filling is
// not timed; concurrent_readers if find may run beside a writer without a lock. Everything else is asked for under a
// std::shared_mutex when a writer is about.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/keep.hpp"
#include "workload/memory_pool.hpp"

namespace holdfast::workload {

/// A value of whole words, each of which follows from the key, so that a wrong answer is seen.
template <std::size_t Words>
struct table_value {
    std::array<std::uint64_t, Words> words;
    friend bool operator==(const table_value&, const table_value&) = default;
};

template <class Value>
[[nodiscard]] inline Value value_of(std::uint64_t key) noexcept {
    Value value;
    for (std::size_t i = 0; i < value.words.size(); ++i) value.words[i] = key + i;
    return value;
}

/// What a table is made for.
struct table_request {
    std::uint64_t entries = 0;
    page_choice pages = page_choice::small;
};

template <class A>
concept hash_table_adapter =
    std::constructible_from<A, const table_request&> &&
    requires(A& table, const A& reader, std::uint64_t key, typename A::value& out, const typename A::value& value) {
        { A::name } -> std::convertible_to<std::string_view>;
        { A::version() } -> std::convertible_to<std::string>;
        { reader.find(key, out) } -> std::same_as<bool>;
        { table.insert(key, value) } -> std::same_as<bool>;
        { table.update(key, value) } -> std::same_as<bool>;
        { table.erase(key) } -> std::same_as<bool>;
        { reader.size() } -> std::convertible_to<std::uint64_t>;
        { reader.memory() } -> std::same_as<memory_use>;
    };

template <class A>
concept finds_many =
    requires(const A& a, std::span<const std::uint64_t> keys, std::span<std::optional<typename A::value>> out) {
        { a.find_many(keys, out) } -> std::convertible_to<std::uint64_t>;
    };

template <class A>
concept inserts_many = requires(A& a, std::span<const std::uint64_t> keys, std::span<const typename A::value> values) {
    { a.insert_many(keys, values) } -> std::convertible_to<std::uint64_t>;
};

inline constexpr std::size_t batch_keys = 16;
inline constexpr std::size_t batch_inserts = 64;

/// A table with its loops. Every loop returns on how many keys the operation did what its name says.
class hash_table_subject {
 public:
    using keys = std::span<const std::uint64_t>;
    hash_table_subject() = default;
    hash_table_subject(const hash_table_subject&) = delete;
    hash_table_subject& operator=(const hash_table_subject&) = delete;
    virtual ~hash_table_subject() = default;

    virtual std::uint64_t find(keys) = 0;          ///< one at a time, each independent of the others
    virtual std::uint64_t find_chained(keys) = 0;  ///< each key depends on the value found before
    virtual std::uint64_t find_batched(keys) = 0;  ///< sixteen at a time if it can, else as find
    virtual std::uint64_t find_shared(keys) = 0;   ///< as find, while change_shared runs in another thread
    virtual std::uint64_t insert(keys) = 0;
    virtual std::uint64_t insert_batched(keys) = 0;  ///< sixty-four at a time if it can, else as insert
    virtual std::uint64_t update(keys) = 0;
    virtual std::uint64_t erase(keys) = 0;
    /// For each i: erases old_keys[i], inserts new_keys[i]. Returns how many inserts were refused.
    virtual std::uint64_t churn(keys old_keys, keys new_keys) = 0;
    /// Update, erase and insert again, under whatever lock find_shared respects.
    virtual void change_shared(keys) = 0;
    /// Empties a table that holds exactly these keys, without giving its memory back.
    virtual void clear(keys all) = 0;
    /// Inserts all keys the fastest way. Throws: std::runtime_error when one is refused.
    virtual void load(keys) = 0;

    /// Throws std::runtime_error unless exactly these keys are there with their values, and the absent ones are not.
    virtual void check(keys present, keys absent) = 0;
    [[nodiscard]] virtual std::uint64_t size() const = 0;
    [[nodiscard]] virtual memory_use memory() const = 0;
    [[nodiscard]] virtual bool batches() const = 0;
    [[nodiscard]] virtual bool batches_inserts() const = 0;
    [[nodiscard]] virtual bool lock_free_readers() const = 0;
};

namespace table_loops {

/// Brackets a run of reads or writes for adapters that need it.
template <class A>
class read_section {
 public:
    explicit read_section(const A& a) : adapter_(a) {
        if constexpr (requires { a.begin_reads(); }) a.begin_reads();
    }
    read_section(const read_section&) = delete;
    read_section& operator=(const read_section&) = delete;
    ~read_section() {
        if constexpr (requires(const A& a) { a.end_reads(); }) adapter_.end_reads();
    }

 private:
    [[maybe_unused]] const A& adapter_;
};

template <class A>
class write_section {
 public:
    explicit write_section(A& a) : adapter_(a) {
        if constexpr (requires { a.begin_writes(); }) a.begin_writes();
    }
    write_section(const write_section&) = delete;
    write_section& operator=(const write_section&) = delete;
    /// Throws what the end of a transaction throws, unless something else is under way already.
    ~write_section() noexcept(false) {
        if constexpr (requires(A& x) { x.end_writes(); }) {
            if (std::uncaught_exceptions() == 0) {
                adapter_.end_writes();
                return;
            }
            try {
                adapter_.end_writes();
            } catch (const std::exception&) {  // the first failure is the one to tell
            }
        }
    }

 private:
    [[maybe_unused]] A& adapter_;
};

template <class A>
[[nodiscard]] constexpr bool reads_without_lock() noexcept {
    if constexpr (requires { A::concurrent_readers; })
        return A::concurrent_readers;
    else
        return false;
}

}  // namespace table_loops

/// The loops over one adapter.
template <hash_table_adapter A>
class hash_table_loops final : public hash_table_subject {
 public:
    using value = typename A::value;
    explicit hash_table_loops(const table_request& request) : table_(request) {}

    std::uint64_t find(keys wanted) override {
        const table_loops::read_section section(table_);
        std::uint64_t found = 0;
        value out;
        for (const std::uint64_t key : wanted) {
            found += table_.find(key, out) ? 1 : 0;
            keep(out);
        }
        return found;
    }

    std::uint64_t find_chained(keys wanted) override {
        const table_loops::read_section section(table_);
        const std::uint64_t none = hidden(std::uint64_t{0});
        std::uint64_t found = 0;
        value out{};
        for (const std::uint64_t key : wanted) {
            // `none` is zero, but only we know: the address of this lookup waits for the value of the last.
            found += table_.find(key ^ (out.words[0] & none), out) ? 1 : 0;
            keep(out);
        }
        return found;
    }

    std::uint64_t find_batched(keys wanted) override {
        if constexpr (finds_many<A>) {
            const table_loops::read_section section(table_);
            std::array<std::optional<value>, batch_keys> out;
            std::uint64_t found = 0;
            for (std::size_t at = 0; at < wanted.size(); at += batch_keys) {
                const std::size_t n = wanted.size() - at < batch_keys ? wanted.size() - at : batch_keys;
                found += table_.find_many(wanted.subspan(at, n), out);
                keep(out);
            }
            return found;
        } else {
            return find(wanted);
        }
    }

    std::uint64_t find_shared(keys wanted) override {
        if constexpr (table_loops::reads_without_lock<A>()) {
            return find(wanted);
        } else {
            std::uint64_t found = 0;
            value out;
            for (const std::uint64_t key : wanted) {
                const std::shared_lock hold(mutex_);
                found += table_.find(key, out) ? 1 : 0;
                keep(out);
            }
            return found;
        }
    }

    std::uint64_t insert(keys wanted) override {
        const table_loops::write_section section(table_);
        std::uint64_t done = 0;
        for (const std::uint64_t key : wanted) done += table_.insert(key, value_of<value>(key)) ? 1 : 0;
        return done;
    }

    std::uint64_t insert_batched(keys wanted) override {
        if constexpr (inserts_many<A>) {
            const table_loops::write_section section(table_);
            std::array<value, batch_inserts> values;
            std::uint64_t done = 0;
            for (std::size_t at = 0; at < wanted.size(); at += batch_inserts) {
                const std::size_t n = wanted.size() - at < batch_inserts ? wanted.size() - at : batch_inserts;
                for (std::size_t i = 0; i < n; ++i) values[i] = value_of<value>(wanted[at + i]);
                done += table_.insert_many(wanted.subspan(at, n), std::span(values).first(n));
            }
            return done;
        } else {
            return insert(wanted);
        }
    }

    std::uint64_t update(keys wanted) override {
        const table_loops::write_section section(table_);
        std::uint64_t done = 0;
        for (const std::uint64_t key : wanted) done += table_.update(key, value_of<value>(key)) ? 1 : 0;
        return done;
    }

    std::uint64_t erase(keys wanted) override {
        const table_loops::write_section section(table_);
        std::uint64_t done = 0;
        for (const std::uint64_t key : wanted) done += table_.erase(key) ? 1 : 0;
        return done;
    }

    std::uint64_t churn(keys old_keys, keys new_keys) override {
        const table_loops::write_section section(table_);
        std::uint64_t refused = 0;
        for (std::size_t i = 0; i < old_keys.size(); ++i) {
            table_.erase(old_keys[i]);
            refused += table_.insert(new_keys[i], value_of<value>(new_keys[i])) ? 0 : 1;
        }
        return refused;
    }

    void change_shared(keys wanted) override {
        if constexpr (table_loops::reads_without_lock<A>()) {
            const table_loops::write_section section(table_);
            for (const std::uint64_t key : wanted) change(key);
        } else {
            for (const std::uint64_t key : wanted) {
                const std::unique_lock hold(mutex_);
                change(key);
            }
        }
    }

    void clear(keys all) override {
        if constexpr (requires { table_.clear(); })
            table_.clear();
        else
            erase(all);
    }

    void load(keys all) override {
        if constexpr (requires { table_.load(all); }) {
            table_.load(all);
        } else if (const std::uint64_t done = insert(all); done != all.size()) {
            throw std::runtime_error(std::string(A::name) + ": " + std::to_string(all.size() - done) + " of " +
                                     std::to_string(all.size()) + " inserts were refused");
        }
    }

    void check(keys present, keys absent) override {
        const table_loops::read_section section(table_);
        value out;
        for (const std::uint64_t key : present)
            if (!table_.find(key, out) || out != value_of<value>(key)) fail("a key that was inserted", key);
        for (const std::uint64_t key : absent)
            if (table_.find(key, out)) fail("a key that was never inserted", key);
        check_batches(present, true);
        check_batches(absent, false);
    }

    [[nodiscard]] std::uint64_t size() const override { return table_.size(); }
    [[nodiscard]] memory_use memory() const override { return table_.memory(); }
    [[nodiscard]] bool batches() const override { return finds_many<A>; }
    [[nodiscard]] bool batches_inserts() const override { return inserts_many<A>; }
    [[nodiscard]] bool lock_free_readers() const override { return table_loops::reads_without_lock<A>(); }

 private:
    void change(std::uint64_t key) {
        const value v = value_of<value>(key);
        table_.update(key, v);
        table_.erase(key);
        table_.insert(key, v);
    }

    void check_batches([[maybe_unused]] keys wanted, [[maybe_unused]] bool there) {
        if constexpr (finds_many<A>) {
            std::array<std::optional<value>, batch_keys> out;
            for (std::size_t at = 0; at < wanted.size(); at += batch_keys) {
                const std::size_t n = wanted.size() - at < batch_keys ? wanted.size() - at : batch_keys;
                table_.find_many(wanted.subspan(at, n), out);
                for (std::size_t i = 0; i < n; ++i)
                    if (out[i].has_value() != there || (there && *out[i] != value_of<value>(wanted[at + i])))
                        fail("a batch of finds", wanted[at + i]);
            }
        }
    }

    [[noreturn]] static void fail(const char* what, std::uint64_t key) {
        throw std::runtime_error(std::string(A::name) + " answers wrongly for " + what + ": " + std::to_string(key));
    }

    A table_;
    std::shared_mutex mutex_;
};

/// A kind of table that a suite can make: the same adapter for entries of 16 and of 64 bytes.
struct hash_table_kind {
    std::string name, version;
    std::unique_ptr<hash_table_subject> (*make)(std::size_t entry_bytes, const table_request&) = nullptr;
    bool slow = false;              ///< left out of the largest sets, where it would take minutes
    std::uint64_t entry_extra = 0;  ///< bytes an entry beside key and value, at most: for the check of memory
    bool in_dev_shm = false;        ///< Adapter::in_dev_shm: what is asked for is asked for there
};

template <template <class> class Adapter>
[[nodiscard]] hash_table_kind kind_of() {
    using small = Adapter<table_value<1>>;
    using large = Adapter<table_value<7>>;
    hash_table_kind kind;
    kind.name = std::string(small::name);
    kind.version = small::version();
    kind.in_dev_shm = requires { small::in_dev_shm; };
    kind.make = [](std::size_t entry_bytes, const table_request& request) -> std::unique_ptr<hash_table_subject> {
        if (entry_bytes == 16) return std::make_unique<hash_table_loops<small>>(request);
        return std::make_unique<hash_table_loops<large>>(request);
    };
    return kind;
}

}  // namespace holdfast::workload
