// SPDX-License-Identifier: Apache-2.0
// table_interleaving.hpp - two operations of a hash table's writer beside two of a reader (schedule_rig.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hooks/interleaving.hpp"
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

    table_interleaving(std::array<write, 2> writes, std::array<std::uint64_t, 2> looks)
        : writes_(writes),
          looks_(looks),
          geometry_(geometry_for<typename Shape::key, typename Shape::value>(70, 3)),
          bytes_(geometry_.body_bytes()),
          writer_(bytes_.bytes(), geometry_) {
        // Of the keys 0 to 3, 1 to 3 are there.
        for (std::uint64_t n = 1; n < keys; ++n) (void)apply<Shape>(writer_, table_operation::try_insert, n, n);
        states_[0] = {0, 1, 2, 3};
        for (unsigned i = 0; i < operations; ++i) {
            hash_table_model model;
            for (std::uint64_t n = 0; n < keys; ++n)
                if (states_[i][n] != 0) model[n] = states_[i][n];
            apply(model, writes_[i].what, writes_[i].key, stamp_of_write(i));
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
        (void)apply<Shape>(*successor_, writes_[lost].what, writes_[lost].key, stamp_of_write(lost));
        return {};
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            (void)apply<Shape>(writer_, writes_[operation].what, writes_[operation].key, stamp_of_write(operation));
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
        if (why = now->damage(); !why.empty()) return "verify: " + why;
        table after(bytes_.bytes(), geometry_);
        if (after.insert_or_assign(nth_key<Shape>(9), stamped_value<Shape>(9, 9)) != table_answer::inserted)
            return "the next insert failed";
        return after.damage();
    }

 private:
    using table = shaped_table<Shape>;
    using finder = typename table::finder;
    static constexpr std::uint64_t keys = 4;
    static constexpr std::uint64_t stamp_of_write(unsigned operation) noexcept { return 10 + operation; }

    // The stamp, 0 for a key that is not there, nothing for a torn value.
    static std::optional<std::uint64_t> find(const finder& in, std::uint64_t n) {
        typename Shape::value value{};
        const auto key = nth_key<Shape>(n);
        if (in.find(reinterpret_cast<const std::byte*>(&key), reinterpret_cast<std::byte*>(&value)) ==
            holdfast::detail::no_slot)
            return 0;
        return stamp_of<Shape>(n, value);
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
            while (n < keys && !(nth_key<Shape>(n) == key)) ++n;
            if (n == keys) return "a scan met a key from nowhere";
            const auto stamp = stamp_of<Shape>(n, value);
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
    layout::hash_table_geometry geometry_;
    aligned_bytes bytes_;
    table writer_;
    std::optional<table> successor_;
    finder reader_;
    std::array<std::array<std::uint64_t, keys>, operations + 1> states_{};  // stamps
};

}  // namespace holdfast::test
