// SPDX-License-Identifier: Apache-2.0
// table_grow_one_interleaving.hpp - a table of one writer grows, or shrinks: two operations of the writer, each with a
// step of the growth, beside two questions of a reader that follows it (schedule_rig.hpp). The handles as they are,
// over named segments; a name in the folder is a word more that both share.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/hash_table/growing.hpp"
#include "hooks/access_hooks.hpp"
#include "hooks/interleaving.hpp"
#include "hooks/sleepers.hpp"
#include "support/hash_table_model.hpp"
#include "support/table_answer.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

/// Of the keys 0 to 3, 1 to 3 are there. Operations do a step of the growth each: the first reserves, the next compares
/// a region's checksum, then each copies a bucket, and the last takes the name.
template <class Shape>
class table_grow_one_interleaving final : public interleaving, futex_listener, name_listener {
 public:
    struct write {
        table_operation what;
        std::uint64_t key;
    };
    /// What the reader does: looks a key up, or goes over all entries; or another comes to what the name leads to,
    /// looks the key up there, and goes.
    static constexpr std::uint64_t scan_all = 100, come_and_find = 200;

    static constexpr unsigned all_steps = 100;
    struct script {
        std::array<write, 2> writes;
        std::array<std::uint64_t, 2> looks;
        unsigned left = all_steps;  // steps of the growth that are left to do
        bool grows = true;
    };

    explicit table_grow_one_interleaving(const script& what)
        : writes_(what.writes),
          looks_(what.looks),
          old_capacity_(what.grows ? small : large),
          new_capacity_(what.grows ? large : small),
          kernel_(*this),
          names_(*this),
          name_("grows") {
        states_[0] = {0, 1, 2, 3};
        for (unsigned i = 0; i < operations; ++i) {
            hash_table_model model;
            for (std::uint64_t n = 0; n < keys; ++n)
                if (states_[i][n] != 0) model[n] = states_[i][n];
            apply(model, writes_[i].what, writes_[i].key, stamp_of_write(i));
            for (std::uint64_t n = 0; n < keys; ++n) states_[i + 1][n] = model.contains(n) ? model[n] : 0;
        }
        begin_anew();
        unsigned steps = 1;
        while (writer_->advance()) ++steps;
        done_ = steps - std::min(steps, what.left);
        begin_anew();
        constexpr std::size_t page = 4096;
        void* const word = ::mmap(nullptr, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (::mmap(word, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != word)
            throw std::bad_alloc();
        name_word_ = new (word) std::atomic<std::uint64_t>(0);
    }
    table_grow_one_interleaving(const table_grow_one_interleaving&) = delete;
    table_grow_one_interleaving& operator=(const table_grow_one_interleaving&) = delete;

    [[nodiscard]] std::span<std::byte> image() override { return one_address::bytes(); }
    void attach() override {
        const access_unwatched not_yet;
        begin_anew();
    }
    void died(unsigned process) override { writer_died_ = writer_died_ || process == 0; }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) return change(*writer_, operation);
        const std::uint64_t look = looks_[operation];
        if (look == scan_all) return scanned();
        std::optional<std::uint64_t> stamp;
        const std::uint64_t key = look % come_and_find;
        return look_at_writer(
            [&] {
                if (look < come_and_find) {
                    stamp = find(*reader_, key);
                } else {
                    reader another = reader::attach(name_.uri());
                    stamp = find(another, key);
                }
            },
            [&](unsigned state) { return stamp && *stamp == states_[state][key]; },
            "a reader saw what was never there at the time");
    }
    // Takes over, begins the growth anew where it was not over, and does again what was lost, with a step of it.
    std::string succeed() override {
        successor_.emplace(table::attach(name_.uri()));
        const bool is_old = successor_->capacity() == old_capacity_;
        if (is_old) {
            const access_unwatched nobody_has_it_yet;
            successor_->grow(new_capacity_);
        }
        return change(*successor_, begun(0) - 1);
    }
    std::string judge(std::optional<unsigned> dead) override {
        const access_unwatched judge;
        if (reader_->fault()) return "the reader latched a fault";
        if (std::string why = look_at_writer([] {}, [&](unsigned state) { return is(*reader_, state); },
                                             "the reader ends in no state");
            !why.empty())
            return why;
        table* now = &*writer_;
        std::optional<table> next;
        const bool left = ::access(growing_path().c_str(), F_OK) == 0;
        left_behind_ += left ? 1U : 0U;
        if (dead == 0U) {
            now = &next.emplace(table::attach(name_.uri()));
            if (now->segment().moved()) return "the mark of a growth that has not happened is still there";
            if (::access(growing_path().c_str(), F_OK) == 0) return "a file of the growth was left behind";
        }
        std::string why = look_at_writer([] {}, [&](unsigned state) { return is(*now, state); }, "the end is no state");
        if (!why.empty()) return why;
        if (dead != 0U && !is(*now, operations)) return "an operation had no effect";
        ++(now->capacity() == old_capacity_ ? stayed_ : moved_);
        return go_on(*now, left);
    }

    /// Ends in the old generation and in the new one, and those of the former with the new one's name beside.
    [[nodiscard]] std::uint64_t stayed() const noexcept { return stayed_; }
    [[nodiscard]] std::uint64_t moved() const noexcept { return moved_; }
    [[nodiscard]] std::uint64_t left_behind() const noexcept { return left_behind_; }

 private:
    using K = typename Shape::key;
    using V = typename Shape::value;
    using table = growing_hash_table<K, V>;
    using reader = growing_hash_table_reader<K, V>;
    static constexpr std::uint64_t keys = 4, small = 70, large = 150;
    static constexpr std::uint64_t stamp_of_write(unsigned operation) noexcept { return 10 + operation; }
    [[nodiscard]] std::string growing_path() const { return name_.path() + ".growing"; }

    void begin_anew() {
        one_look::forget();
        reader_.reset();
        successor_.reset();
        writer_.reset();
        writer_died_ = false;
        drawn_ = 0;
        for (const char* const each : {"", ".growing", ".lease"}) ::unlink((name_.path() + each).c_str());
        writer_.emplace(table::create(name_.uri(), {.capacity = old_capacity_, .seed = 3}));
        for (std::uint64_t n = 1; n < keys; ++n) (void)apply<Shape>(*writer_, table_operation::try_insert, n, n);
        writer_->grow(new_capacity_);
        (void)writer_->advance(done_);
        reader_.emplace(reader::attach(name_.uri()));
    }

    std::string change(table& by, unsigned operation) {
        (void)apply<Shape>(by, writes_[operation].what, writes_[operation].key, stamp_of_write(operation));
        return by.growth_failure() ? std::string("the growth was given up: ") + by.growth_failure()->what() : "";
    }
    std::string end_growth(table& by) const {
        while (by.advance()) continue;
        if (by.growth_failure()) return std::string("the growth was given up: ") + by.growth_failure()->what();
        return by.capacity() == new_capacity_ ? "" : "the growth ended in another capacity";
    }
    // Ends the growth, or does it again, of which the dead has `left` something; it and the reader are in the new
    // generation then, which lacks nothing.
    std::string go_on(table& now, bool left) {
        if (std::string why = damage_of(now); !why.empty()) return "verify: " + why;
        // To grow again takes as long as all else: where the dead has left nothing of it, for some.
        const bool again = !now.growing() && now.capacity() == old_capacity_;
        if (again && !left && ++ends_ % 8 != 0) return inserts(now);
        if (again) now.grow(new_capacity_);
        if (std::string why = end_growth(now); !why.empty()) return why;
        if (std::string why = damage_of(now); !why.empty()) return "verify of the next generation: " + why;
        if (reader_->capacity() != new_capacity_) return "the reader does not follow";
        for (std::uint64_t n = 0; n < keys; ++n)
            if (find(now, n) != find(*reader_, n)) return "reader and writer differ in the end";
        if (!look_at_writer([] {}, [&](unsigned state) { return is(now, state); }, "lost").empty())
            return "the next generation has another state";
        return inserts(now);
    }
    static std::string inserts(table& now) {
        if (apply<Shape>(now, table_operation::try_insert, 9, 9) != table_answer::inserted)
            return "the next insert failed";
        return damage_of(now);
    }
    static std::string damage_of(const table& of) {
        std::string text;
        (void)of.verify([&](const hash_table_finding& f) {
            text = describe(f.what);
            return false;
        });
        return text;
    }

    // The stamp, 0 for a key that is not there, nothing for a torn value.
    template <class From>
    static std::optional<std::uint64_t> find(From& in, std::uint64_t n) {
        const std::optional<V> value = in.find(nth_key<Shape>(n));
        return value ? stamp_of<Shape>(n, *value) : std::optional<std::uint64_t>(0);
    }
    template <class From>
    [[nodiscard]] bool is(From& in, unsigned state) const {
        for (std::uint64_t n = 0; n < keys; ++n)
            if (find(in, n) != states_[state][n]) return false;
        return true;
    }
    // Each entry whole and of its time, none twice, and none left out that was there all the time.
    std::string scanned() {
        const unsigned oldest = ended(0);
        std::array<std::uint64_t, keys> seen{};
        const auto newest_generation = reader_->current();
        for (const auto& entry : newest_generation) {
            std::uint64_t n = 0;
            while (n < keys && !(nth_key<Shape>(n) == entry.key)) ++n;
            if (n == keys) return "a scan met a key from nowhere";
            const auto stamp = stamp_of<Shape>(n, entry.value);
            if (!stamp || *stamp == 0) return "a scan met a torn value";
            if (seen[n] != 0) return "a scan met an entry twice";
            seen[n] = *stamp;
        }
        const unsigned newest = begun(0);
        for (std::uint64_t n = 0; n < keys; ++n) {
            bool possible = false;
            for (unsigned state = oldest; state <= newest; ++state) possible = possible || states_[state][n] == seen[n];
            if (!possible) return "a scan met, or missed, what was otherwise all the time";
        }
        return {};
    }

    // The other may go on first; what the kernel does is one step.
    void before_name_call(std::string_view path, bool changes) noexcept override {
        if (name_word_ == nullptr || (path != name_.path() && path != growing_path())) return;
        if (changes)
            name_word_->fetch_add(1, std::memory_order_relaxed);
        else
            (void)name_word_->load(std::memory_order_relaxed);
    }
    std::byte random_byte() noexcept override { return static_cast<std::byte>(++drawn_); }
    int sleep(const std::uint32_t*, std::uint32_t) noexcept override { return ETIMEDOUT; }
    void wake(const std::uint32_t*) noexcept override {}
    bool locks_are_free() const noexcept override { return writer_died_; }

    std::array<write, 2> writes_;
    std::array<std::uint64_t, 2> looks_;
    unsigned done_ = 0;  // steps of the growth that were done before
    std::uint64_t old_capacity_, new_capacity_;
    one_address places_;
    futex_watch kernel_;
    name_watch names_;
    unique_posix_name name_;
    std::atomic<std::uint64_t>* name_word_ = nullptr;
    bool writer_died_ = false;
    std::uint64_t drawn_ = 0;  // random bytes, each another
    std::optional<table> writer_, successor_;
    std::optional<reader> reader_;
    std::array<std::array<std::uint64_t, keys>, operations + 1> states_{};  // stamps
    std::uint64_t stayed_ = 0, moved_ = 0, left_behind_ = 0, ends_ = 0;
};

}  // namespace holdfast::test
