// SPDX-License-Identifier: Apache-2.0
// table_interleaving.hpp - two operations of a hash table's writer beside two of a reader (schedule_rig.hpp). The table
// may be one in which the keys in play have gone past their full home bucket, with counters that say so of more.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/hash_table_model.hpp"
#include "support/table_answer.hpp"

namespace holdfast::test {

template <class Shape>
class table_interleaving final : public interleaving {
 public:
    struct write {
        table_operation what;
        std::uint64_t key;
    };
    /// What the reader does: looks a key up, checks the whole table, or goes over all entries.
    static constexpr std::uint64_t verify_all = ~std::uint64_t{0}, scan_all = verify_all - 1;
    /// For the writer's key: it makes the counters exact.
    static constexpr std::uint64_t recount_all = scan_all - 1;

    /// `crowded`: all four keys have one home bucket, which is full, and one overflow class.
    table_interleaving(std::array<write, 2> writes, std::array<std::uint64_t, 2> looks, bool crowded = false)
        : writes_(writes),
          looks_(looks),
          geometry_(geometry_for<typename Shape::key, typename Shape::value>(70, 3)),
          bytes_(geometry_.body_bytes()),
          writer_(bytes_.bytes(), geometry_) {
        if (crowded) crowd();
        // Of the keys 0 to 3, 1 to 3 are there.
        for (std::uint64_t n = 1; n < keys; ++n) change(writer_, {table_operation::try_insert, n}, n);
        if (crowded) raise_counters();
        states_[0] = {0, 1, 2, 3};
        for (unsigned i = 0; i < operations; ++i) {
            hash_table_model model;
            for (std::uint64_t n = 0; n < keys; ++n)
                if (states_[i][n] != 0) model[n] = states_[i][n];
            recounts_ = recounts_ || writes_[i].key == recount_all;
            if (writes_[i].key != recount_all) apply(model, writes_[i].what, writes_[i].key, stamp_of_write(i));
            for (std::uint64_t n = 0; n < keys; ++n) states_[i + 1][n] = model.contains(n) ? model[n] : 0;
        }
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_ = table(bytes_.bytes(), geometry_);
        reader_ = finder(writer_.view().as_const());
        successor_.reset();
    }
    std::string succeed() override {
        successor_.emplace(bytes_.bytes(), geometry_);
        const unsigned lost = begun(0) - 1;
        change(*successor_, writes_[lost], stamp_of_write(lost));
        return {};
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            change(writer_, writes_[operation], stamp_of_write(operation));
            return {};
        }
        const std::uint64_t key = looks_[operation];
        if (key == verify_all) return verified();
        if (key == scan_all) return scanned();
        std::optional<std::uint64_t> stamp;
        return look_at_writer([&] { stamp = find(reader_, key); },
                              [&](unsigned state) { return stamp && *stamp == states_[state][key]; },
                              "a reader saw what was never there at the time");
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (reader_.fault()) return "the reader latched a fault";
        const table* now = &writer_;
        std::optional<table> next;
        if (dead == 0U) now = &next.emplace(bytes_.bytes(), geometry_);
        std::string why = look_at_writer([] {}, [&](unsigned state) { return is(*now, state); }, "the end is no state");
        if (!why.empty()) return why;
        if (dead != 0U && !is(writer_, operations)) return "an operation had no effect";
        hash_table_verification found;
        if (why = now->damage(&found); !why.empty()) return "verify: " + why;
        if (recounts_ && dead != 0U && found.counters_too_high != 0) return "counters were left too high";
        table after(bytes_.bytes(), geometry_);
        if (recounts_) (void)holdfast::detail::recount(after.view());
        why = look_at_writer([] {}, [&](unsigned state) { return is(after, state); }, "the next recount lost a key");
        if (!why.empty()) return why;
        if (apply<Shape>(after, table_operation::insert_or_assign, unused, 9) != table_answer::inserted)
            return "the next insert failed";
        why = after.damage(&found);
        return why.empty() && recounts_ && found.counters_too_high != 0 ? "a recount left counters too high" : why;
    }

 private:
    using table = shaped_table<Shape>;
    using finder = typename table::finder;
    static constexpr std::uint64_t keys = 4, unused = 1'000'000;
    static constexpr std::uint64_t stamp_of_write(unsigned operation) noexcept { return 10 + operation; }

    // Fills a bucket, and takes keys in play that are at home there.
    void crowd() {
        std::size_t taken = 0;
        unsigned group = 0;
        for (std::uint64_t n = 0; taken < keys; ++n) {
            const auto key = nth_key<Shape>(n);
            const auto hash = writer_.view().hash(reinterpret_cast<const std::byte*>(&key));
            if (hash.home(geometry_.buckets) != 0) continue;
            if (fillers_.size() < layout::tags_per_line) {
                (void)apply<Shape>(writer_, table_operation::try_insert, n, 1);
                fillers_.push_back(n);
                group = hash.group();
            } else if (hash.group() == group) {
                numbers_[taken++] = n;
            }
        }
    }
    // As years of churn leave them: of the class of key 0, and of the one in the same byte.
    void raise_counters() {
        const auto key = nth_key<Shape>(numbers_[0]);
        const auto view = writer_.view();
        const unsigned group = view.hash(reinterpret_cast<const std::byte*>(&key)).group();
        for (std::uint64_t bucket = 0; bucket < geometry_.buckets; ++bucket)
            for (const unsigned each : {group, group ^ 1U})
                holdfast::detail::set_counter(view.line(bucket), each, layout::counter_max);
    }
    void change(table& by, const write& what, std::uint64_t stamp) const {
        if (what.key == recount_all)
            (void)holdfast::detail::recount(by.view());
        else
            (void)apply<Shape>(by, what.what, numbers_[what.key], stamp);
    }

    // The stamp, 0 for a key that is not there, nothing for a torn value.
    [[nodiscard]] std::optional<std::uint64_t> find(const finder& in, std::uint64_t key) const {
        return stamp_in<Shape>(in, numbers_[key]);
    }
    [[nodiscard]] bool is(const table& in, unsigned state) const {
        for (std::uint64_t n = 0; n < keys; ++n)
            if (find(in.reader(), n) != states_[state][n]) return false;
        return true;
    }
    // No false alarm beside a writer. It may be busy: the writer is stopped in the middle.
    std::string verified() const {
        std::string text;
        (void)holdfast::detail::verify(writer_.view().as_const(), [&](const hash_table_finding& f) {
            text = "verify beside a writer: " + std::string(describe(f.what));
            return false;
        });
        return text;
    }

    [[nodiscard]] bool is_filler(const typename Shape::key& key) const {
        return std::any_of(fillers_.begin(), fillers_.end(), [&](std::uint64_t n) { return nth_key<Shape>(n) == key; });
    }
    // Each entry whole and of its time, none twice, and none left out that was there all the time.
    std::string scanned() {
        const unsigned oldest = ended(0);
        std::array<std::uint64_t, keys> seen{};
        holdfast::detail::hash_table_scanner scanner(reader_, 0);
        typename Shape::key key;
        typename Shape::value value{};
        while (scanner.next(reinterpret_cast<std::byte*>(&key), reinterpret_cast<std::byte*>(&value)) !=
               holdfast::detail::no_slot) {
            std::uint64_t n = 0;
            while (n < keys && !(nth_key<Shape>(numbers_[n]) == key)) ++n;
            if (n == keys && is_filler(key)) continue;
            if (n == keys) return "a scan met a key from nowhere";
            const auto stamp = stamp_of<Shape>(numbers_[n], value);
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

    std::array<write, 2> writes_;
    std::array<std::uint64_t, 2> looks_;
    std::array<std::uint64_t, keys> numbers_{0, 1, 2, 3};  // of the keys in play
    std::vector<std::uint64_t> fillers_;                   // those of the others
    bool recounts_ = false;
    layout::hash_table_geometry geometry_;
    aligned_bytes bytes_;
    table writer_;
    std::optional<table> successor_;
    finder reader_;
    std::array<std::array<std::uint64_t, keys>, operations + 1> states_{};  // stamps
};

}  // namespace holdfast::test
