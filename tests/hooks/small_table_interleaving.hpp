// SPDX-License-Identifier: Apache-2.0
// small_table_interleaving.hpp - two operations of a small table's writer beside two finds (schedule_rig.hpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"
#include "support/small_table_model.hpp"

namespace holdfast::test {

class small_table_interleaving final : public interleaving {
 public:
    enum class kind : std::uint8_t { set, erase, find, check, rest };
    struct step {
        kind what = kind::find;
        std::uint64_t key = 0;
    };
    using steps = std::array<step, operations>;

    /// Keys 0 and 1, as far as there is room, were there when the reader arranged them; what the writer did meanwhile,
    /// it has not seen. A check is a full one; who rests does nothing.
    small_table_interleaving(const steps& writes, const steps& looks, const std::vector<step>& meanwhile = {},
                             std::uint64_t capacity = 3)
        : writes_(writes), looks_(looks), geometry_(small_image::plan(capacity)), bytes_(geometry_.body_bytes()) {
        small_image table(bytes_.bytes(), geometry_);
        for (std::uint64_t key = 0; key < std::min<std::uint64_t>(capacity, 2); ++key) {
            (void)table.writer().try_insert(key, small_value_of(key, 1));
            states_[0][key] = 1;
        }
        arranged_ = table.reader();
        (void)small_image::number_of(arranged_, 0);
        for (const step& each : meanwhile) {
            states_[0][each.key] = each.what == kind::set ? 1 : 0;
            if (each.what == kind::set)
                (void)table.writer().try_insert(each.key, small_value_of(each.key, 1));
            else
                (void)table.writer().erase(each.key);
        }
        for (unsigned i = 0; i < operations; ++i) {
            states_[i + 1] = states_[i];
            if (writes[i].what != kind::rest) states_[i + 1][writes[i].key] = writes[i].what == kind::set ? 2 + i : 0;
        }
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_.emplace(bytes_.bytes(), geometry_);
        reader_ = arranged_;
        successor_.reset();
    }
    std::string succeed() override {
        successor_.emplace(bytes_.bytes(), geometry_);
        if (successor_->array().journal_rejected) return "recovery rejected the journal";
        write(*successor_, begun(0) - 1);
        return {};
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            write(*writer_, operation);
            return {};
        }
        const step& looks = looks_[operation];
        if (looks.what == kind::rest) return {};
        if (looks.what == kind::check) return verified();
        std::optional<std::uint64_t> got;
        return look_at_writer([&] { got = small_image::number_of(reader_, looks.key); },
                              [&](unsigned state) { return got == states_[state][looks.key]; },
                              "a reader got a number that was not there at the time, or a mix");
    }
    std::string judge(std::optional<unsigned> dead) override {
        small_image next(bytes_.bytes(), geometry_);
        if (next.array().journal_rejected) return "recovery rejected the journal";
        small_image::finder reader = next.reader();
        if (std::string why = small_image::damage_of(reader); !why.empty()) return why;
        small_numbers<keys> now{}, late{};
        for (std::uint64_t key = 0; key < keys; ++key) {
            now[key] = small_image::number_of(reader, key).value_or(99);
            late[key] = small_image::number_of(reader_, key).value_or(99);
        }
        if (now != late) return "the reader that was there finds other numbers";
        const unsigned least = dead == 0U ? ended(0) : operations;
        for (unsigned state = least; state <= operations && state <= begun(0); ++state)
            if (now == states_[state]) return {};
        return "the end is no state";
    }

 private:
    static constexpr std::uint64_t keys = 3;

    void write(small_image& table, unsigned operation) {
        const std::uint64_t key = writes_[operation].key;
        if (writes_[operation].what == kind::rest) return;
        if (writes_[operation].what == kind::erase)
            (void)table.writer().erase(key);
        else
            (void)table.writer().insert_or_assign(key, small_value_of(key, 2 + operation));
    }
    std::string verified() const {
        std::string text;
        (void)holdfast::detail::verify(reader_, [&](const small_table_finding& found) {
            text = "verify beside a writer: " + std::string(describe(found.what));
            return false;
        });
        return text;
    }

    steps writes_, looks_;
    layout::array_geometry geometry_;
    aligned_bytes bytes_;
    std::optional<small_image> writer_, successor_;
    small_image::finder arranged_, reader_;
    std::array<small_numbers<keys>, operations + 1> states_{};
};

}  // namespace holdfast::test
