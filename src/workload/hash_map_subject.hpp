// SPDX-License-Identifier: Apache-2.0
// hash_map_subject.hpp - a map from text to values of any size under test: what an adapter offers, and the loops timed.
//
// Keys are texts of 17 characters, "user:" and a number; all values of an experiment have one size, and those of key n
// begin with the word scramble(n), which tells under the clock whose value was found without a step of memory more.
// Operations, keys drawn at random and written down beforehand:
//   find   copies the value of a key that is there to the caller's own memory
//   look   adds up the words of such a value where it lies (adapters without it: find, then add up)
//   miss   looks for a key that is not there
//   set    gives a key that is there another value
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "workload/keep.hpp"
#include "workload/keys.hpp"
#include "workload/snapshot_subject.hpp"
#include "workload/words.hpp"

namespace holdfast::workload {

struct hash_map_request {
    std::uint64_t entries = 0;
    std::size_t value_bytes = 0;  ///< 8 at least
    std::string name;             ///< unused in shared memory
};

template <class A>
concept hash_map_adapter =
    std::constructible_from<A, const hash_map_request&> &&
    requires(A& a, std::string_view key, std::span<const std::byte> v, std::span<std::byte> out) {
        { A::name } -> std::convertible_to<std::string_view>;
        { A::version() } -> std::convertible_to<std::string>;
        { a.set(key, v) } -> std::same_as<bool>;
        { a.find(key, out) } -> std::same_as<std::size_t>;  // bytes; 0: not there
        a.begin_reads();                                    // around a run of finds
        a.end_reads();
        a.begin_writes();  // around a run of sets
        a.end_writes();
    };

template <class A>
concept looks_under_keys = requires(A& a, std::string_view key, std::uint64_t& sum) {
    { a.look(key, sum) } -> std::same_as<bool>;
};

class hash_map_subject {
 public:
    hash_map_subject() = default;
    hash_map_subject(const hash_map_subject&) = delete;
    hash_map_subject& operator=(const hash_map_subject&) = delete;
    virtual ~hash_map_subject() = default;

    virtual void find(std::uint64_t times) = 0;
    virtual void look(std::uint64_t times) = 0;
    virtual void miss(std::uint64_t times) = 0;
    virtual void set(std::uint64_t times) = 0;
};

/// Filled, and every value compared and looked at, when it is made; of each run of sets the last is compared.
/// Throws: std::runtime_error for a wrong or refused answer.
template <hash_map_adapter A>
class hash_map_loops final : public hash_map_subject {
    struct question {
        char key[20];
        std::uint32_t number;
        [[nodiscard]] std::string_view text() const { return {key, 17}; }
    };

 public:
    explicit hash_map_loops(const hash_map_request& request)
        : bytes_(request.value_bytes),
          adapter_(request),
          present_(questions_for(request.entries)),
          absent_(present_.size()),
          value_((bytes_ + 7) / 8),
          out_((bytes_ + 7) / 8) {
        adapter_.begin_writes();
        for (std::uint32_t i = 0; i < request.entries; ++i) put(ask(i), i);
        adapter_.end_writes();
        chooser choose(1);
        const auto entries = static_cast<std::uint32_t>(request.entries);
        for (question& q : present_) q = ask(static_cast<std::uint32_t>(choose.below(entries)));
        for (question& q : absent_) q = ask(entries + static_cast<std::uint32_t>(choose.below(entries)));
        adapter_.begin_reads();
        for (std::uint32_t i = 0; i < request.entries; ++i) verify(ask(i));
        adapter_.end_reads();
        miss(1000);
    }

    void find(std::uint64_t times) override {
        adapter_.begin_reads();
        for (; times > 0; --times) {
            const question& q = next(present_);
            if (adapter_.find(q.text(), out()) != bytes_) fail("a key was not found");
            keep(*out_.data());
            if (out_[0] != scramble(q.number)) fail("a find gave another value");
        }
        adapter_.end_reads();
    }
    void look(std::uint64_t times) override {
        adapter_.begin_reads();
        for (; times > 0; --times) keep(sum_of(next(present_).text()));
        adapter_.end_reads();
    }
    void miss(std::uint64_t times) override {
        adapter_.begin_reads();
        for (; times > 0; --times)
            if (adapter_.find(next(absent_).text(), out()) != 0) fail("it found what is not there");
        adapter_.end_reads();
    }
    void set(std::uint64_t times) override {
        const question* last = nullptr;
        adapter_.begin_writes();
        for (; times > 0; --times) {
            last = &next(present_);
            put(*last, at_);
        }
        adapter_.end_writes();
        if (last == nullptr) return;
        adapter_.begin_reads();
        compare(*last);
        adapter_.end_reads();
    }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }
    [[nodiscard]] std::span<std::byte> out() { return std::as_writable_bytes(out_.span()).first(bytes_); }
    [[nodiscard]] static question ask(std::uint32_t number) {
        question q{};
        // Digits that look random first, so that no prefix tells much; the number itself last, so that no two are
        // equal.
        std::snprintf(q.key, sizeof q.key, "user:%05u%07u", static_cast<unsigned>(scramble(number) % 100'000U),
                      static_cast<unsigned>(number % 10'000'000U));
        q.number = number;
        return q;
    }
    [[nodiscard]] const question& next(const std::vector<question>& asked) { return asked[at_++ & (asked.size() - 1)]; }
    [[nodiscard]] std::uint64_t sum_of(std::string_view key) {
        if constexpr (looks_under_keys<A>) {
            std::uint64_t sum = 0;
            if (!adapter_.look(key, sum)) fail("a key was not found");
            return sum;
        } else {
            if (adapter_.find(key, out()) != bytes_) fail("a key was not found");
            return sum_of_words(out_.data(), bytes_);
        }
    }
    void make_value(const question& q, std::uint64_t version) {
        value_[0] = scramble(q.number);
        for (std::size_t w = 1; w < value_.size(); ++w) value_[w] = version + w;
    }
    void put(const question& q, std::uint64_t version) {
        make_value(q, version);
        if (!adapter_.set(q.text(), std::as_writable_bytes(value_.span()).first(bytes_))) fail("a value was refused");
    }
    void verify(const question& q) {
        make_value(q, q.number);
        compare(q);
        if (sum_of(q.text()) != sum_of_words(value_.data(), bytes_)) fail("a look saw other words than were stored");
    }
    /// With what was put last.
    void compare(const question& q) {
        const std::size_t size = adapter_.find(q.text(), out());
        if (size != bytes_ || std::memcmp(out_.data(), value_.data(), bytes_) != 0)
            fail("a value is not what was stored");
    }

    std::size_t bytes_;
    A adapter_;
    std::vector<question> present_, absent_;
    word_buffer value_, out_;
    std::uint64_t at_ = 0;
};

struct hash_map_kind {
    std::string name, version;
    std::unique_ptr<hash_map_subject> (*make)(const hash_map_request& request) = nullptr;
    bool in_place = false;  ///< whether a look copies nothing
};

template <class Adapter>
[[nodiscard]] hash_map_kind hash_map_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const hash_map_request& request) -> std::unique_ptr<hash_map_subject> {
                return std::make_unique<hash_map_loops<Adapter>>(request);
            },
            looks_under_keys<Adapter>};
}

}  // namespace holdfast::workload
