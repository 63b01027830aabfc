// SPDX-License-Identifier: Apache-2.0
// hash_map_subject.hpp - a map from text to values of any size under test: what an adapter offers, and the loops timed.
//
// Keys are texts of 17 characters, "user:" and a number; all values of an experiment have one size, and those of key n
// begin with the word scramble(n), which tells under the clock whose value was found without a step of memory more.
// Behind it are words that count up from the value's version, so that a mixture of two is seen.
// Operations, keys drawn at random and written down beforehand:
//   find   copies the value of a key that is there to the caller's own memory
//   look   adds up the words of such a value where it lies (adapters without it: find, then add up)
//   miss   looks for a key that is not there
//   set    gives a key that is there another value
// The writer is the far side: another process where the adapter can, else a thread of this one.
#pragma once

#include <atomic>
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

#include "workload/far_side.hpp"
#include "workload/keep.hpp"
#include "workload/keys.hpp"
#include "workload/paced.hpp"
#include "workload/snapshot_subject.hpp"
#include "workload/words.hpp"

namespace holdfast::workload {

struct hash_map_request {
    std::uint64_t entries = 0;
    std::size_t value_bytes = 0;  ///< 8 at least
    std::string name;             ///< unused in shared memory
    unsigned far_cpu = 0;
};

template <class A>
concept hash_map_adapter =
    std::constructible_from<A, const hash_map_request&> &&
    requires(A& a, std::string_view key, std::span<const std::byte> v, std::span<std::byte> out) {
        { A::name } -> std::convertible_to<std::string_view>;
        { A::version() } -> std::convertible_to<std::string>;
        { A::place } -> std::convertible_to<far_place>;
        { A::beside_writer } -> std::convertible_to<bool>;  // whether a find beside the writer is whole
        a.open_writer();                                    // on the far side, first
        a.open_reader();
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
    /// Finds while the writer sets. Throws: std::runtime_error for a torn value.
    virtual void find_beside(std::uint64_t times) = 0;
    /// The writer sets at that pace until it rests or has another order. Comes back when it has begun.
    virtual void begin_setting(std::uint64_t hz) = 0;
    [[nodiscard]] virtual bool beside_writer() const = 0;
    [[nodiscard]] virtual far_side& far() = 0;
};

/// Filled, and every value compared and looked at, when it is made; of each run of sets the last is compared.
/// Throws: std::runtime_error for a wrong or refused answer.
template <hash_map_adapter A>
class hash_map_loops final : public hash_map_subject {
    enum orders : std::uint64_t { open = far_side::own_orders, set_some, set_at_pace };
    struct question {
        char key[20];
        std::uint32_t number;
        [[nodiscard]] std::string_view text() const { return {key, 17}; }
    };

 public:
    explicit hash_map_loops(const hash_map_request& request)
        : bytes_(request.value_bytes),
          entries_(static_cast<std::uint32_t>(request.entries)),
          present_(drawn(0, 1)),
          absent_(drawn(entries_, 1 + present_.size())),
          value_((bytes_ + 7) / 8),
          wanted_((bytes_ + 7) / 8),
          out_((bytes_ + 7) / 8),
          adapter_(request),
          far_(A::place, request.far_cpu, [this](far_side& far, const far_order& order) { carry_out(far, order); }) {
        if constexpr (A::place == far_place::thread)
            open_and_fill();  // from this thread's own part of the heap, as a program that only reads would have it
        else
            far_.carry_out({open, 0});
        adapter_.open_reader();
        adapter_.begin_reads();
        for (std::uint32_t i = 0; i < entries_; ++i) verify(ask(i), i);
        adapter_.end_reads();
        miss(1000);
        far_.rest();
    }

    void find(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk asked(present_, at_); times > 0; --times) {
            const question& q = asked.next();
            if (adapter_.find(q.text(), out()) != bytes_) fail("a key was not found");
            keep(*out_.data());
            if (out_[0] != scramble(q.number)) fail("a find gave another value");
        }
        adapter_.end_reads();
    }
    void look(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk asked(present_, at_); times > 0; --times) keep(sum_of(asked.next().text()));
        adapter_.end_reads();
    }
    void miss(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk asked(absent_, at_); times > 0; --times)
            if (adapter_.find(asked.next().text(), out()) != 0) fail("it found what is not there");
        adapter_.end_reads();
    }
    void set(std::uint64_t times) override {
        far_.carry_out({set_some, times});
        // Relaxed: the far side said behind it that it is done.
        const std::uint64_t done = far_.progress().load(std::memory_order_relaxed);
        if (done == 0) return;
        adapter_.begin_reads();
        compare(question_of(done - 1), version_of(done - 1));
        adapter_.end_reads();
    }
    void find_beside(std::uint64_t times) override {
        adapter_.begin_reads();
        for (drawn_walk asked(present_, at_); times > 0; --times) {
            const question& q = asked.next();
            if (!try_find(q)) [[unlikely]]
                find_again(q);
        }
        // Both ends of each; the last one whole.
        for (std::size_t w = 2; w < bytes_ / 8; ++w)
            if (out_[w] != out_[1] + w - 1) fail("a find gave a torn value");
        adapter_.end_reads();
        far_.require_other();  // a writer that was refused something is none
    }
    void begin_setting(std::uint64_t hz) override { begin_and_see(far_, {set_at_pace, hz}); }
    [[nodiscard]] bool beside_writer() const override { return A::beside_writer; }
    [[nodiscard]] far_side& far() override { return far_; }

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
    /// Of as many as there are entries, from `first` on.
    [[nodiscard]] std::vector<question> drawn(std::uint32_t first, std::uint64_t seed) const {
        chooser choose(seed);
        std::vector<question> questions(questions_for(entries_));
        for (question& q : questions) q = ask(first + static_cast<std::uint32_t>(choose.below(entries_)));
        return questions;
    }
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
    static void make_value(word_buffer& into, const question& q, std::uint64_t version) {
        into[0] = scramble(q.number);
        for (std::size_t w = 1; w < into.size(); ++w) into[w] = version + w;
    }

    // ---- near side
    /// False: it was set too often meanwhile to be found.
    [[nodiscard]] bool try_find(const question& q) {
        if (adapter_.find(q.text(), out()) != bytes_) return false;
        keep(*out_.data());
        if (out_[0] != scramble(q.number)) fail("a find gave another value");
        const std::size_t last = bytes_ / 8 - 1;
        if (last > 1 && out_[last] != out_[1] + last - 1) fail("a find gave a torn value");
        return true;
    }
    void find_again(const question& q) {
        patience wait(far_);
        do wait();
        while (!try_find(q));
    }
    void verify(const question& q, std::uint64_t version) {
        compare(q, version);
        if (sum_of(q.text()) != sum_of_words(wanted_.data(), bytes_)) fail("a look saw other words than were stored");
    }
    void compare(const question& q, std::uint64_t version) {
        make_value(wanted_, q, version);
        const std::size_t size = adapter_.find(q.text(), out());
        if (size != bytes_ || std::memcmp(out_.data(), wanted_.data(), bytes_) != 0)
            fail("a value is not what was stored");
    }

    // ---- far side
    void open_and_fill() {
        adapter_.open_writer();
        adapter_.begin_writes();
        for (std::uint32_t i = 0; i < entries_; ++i) put(ask(i), i);
        adapter_.end_writes();
    }
    void put(const question& q, std::uint64_t version) {
        make_value(value_, q, version);
        if (!adapter_.set(q.text(), std::as_writable_bytes(value_.span()).first(bytes_))) fail("a value was refused");
    }
    void carry_out(far_side& far, const far_order& order) {
        const auto set_next = [&] {
            put(question_of(sets_), version_of(sets_));
            far.progress().store(++sets_, std::memory_order_relaxed);  // relaxed: nothing hangs on it
        };
        switch (order.what) {
            case open: return open_and_fill();
            case set_some:
                adapter_.begin_writes();
                for (std::uint64_t i = 0; i < order.count; ++i) set_next();
                adapter_.end_writes();
                return;
            case set_at_pace:
                return do_at_pace(far, order.count, [&] {
                    adapter_.begin_writes();
                    set_next();
                    adapter_.end_writes();
                });
            default: fail("an order that is none");
        }
    }

    // ---- both
    /// Of set number n.
    [[nodiscard]] const question& question_of(std::uint64_t n) const { return present_[n & (present_.size() - 1)]; }
    [[nodiscard]] std::uint64_t version_of(std::uint64_t n) const { return entries_ + n; }

    const std::size_t bytes_;
    const std::uint32_t entries_;
    const std::vector<question> present_, absent_;
    word_buffer value_;         // far side
    word_buffer wanted_, out_;  // near side
    A adapter_;
    std::uint64_t at_ = 0;                 // near side
    alignas(128) std::uint64_t sets_ = 0;  // far side
    alignas(128) far_side far_;            // last: it starts with all of the above in place
};

struct hash_map_kind {
    std::string name, version;
    std::unique_ptr<hash_map_subject> (*make)(const hash_map_request& request) = nullptr;
    bool in_place = false;           ///< whether a look copies nothing
    std::uint64_t grows_beside = 0;  ///< bytes that it may take more beside a reader that stands still
};

template <class Adapter>
[[nodiscard]] hash_map_kind hash_map_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const hash_map_request& request) -> std::unique_ptr<hash_map_subject> {
                return std::make_unique<hash_map_loops<Adapter>>(request);
            },
            looks_under_keys<Adapter>, bytes_grown_beside<Adapter>()};
}

}  // namespace holdfast::workload
