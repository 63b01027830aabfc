// SPDX-License-Identifier: Apache-2.0
// counter_subject.hpp - random histories of a counter set under store_rig.hpp: names are asked for and counted on,
// gauges are set, and some who ask die for good in the middle of a name. In half of the histories there is no room for
// all names.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/metrics_model.hpp"

namespace holdfast::test {

class counter_subject {
 public:
    static constexpr unsigned length = 30;

    explicit counter_subject(std::uint64_t seed)
        : random_(seed),
          bytes_((random_.one_in(2) ? counter_names : 3) * sizeof(layout::counter_slot)),
          set_(bytes_.bytes(), bytes_.bytes().size() / sizeof(layout::counter_slot), "test") {}

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        name_ = random_.below(counter_names);
        const std::uint64_t amount = 1 + random_.below(100);
        const layout::counter_name_words& whole = words_of_name(name_);
        after_ = before_;
        if (random_.one_in(4)) {
            const auto part = prefix_of(whole, 1 + random_.below(length_of(whole) - 1));
            rig.operate([&] { (void)set_.install(part); }, [&] { return survive(rig); });
        } else {
            const bool gauge = random_.one_in(4);
            if (!has_no_room(slots(), whole)) after_[name_] = gauge ? amount : before_[name_].value_or(0) + amount;
            layout::counter_slot* slot = nullptr;
            rig.operate(
                [&] {
                    slot = set_.install(whole);
                    if (slot == nullptr) return;
                    if (gauge)
                        counter(slot->value).set(amount);
                    else
                        counter(slot->value).add(amount);
                },
                [&] { return survive(rig); });
            if ((slot != nullptr) != after_[name_].has_value()) return "refused, or not, against what there is";
        }
        before_ = after_;
        unfinished_ = set_.for_each([](auto...) {}).unfinished;
        const counters_found now = counters_in(set_);
        if (!now.wrong.empty()) return now.wrong;
        return now.values == before_ ? differs_by_name(set_, before_) : "the end is not what was done";
    }

 private:
    [[nodiscard]] std::span<layout::counter_slot> slots() noexcept { return slots_in(bytes_.bytes()); }

    std::string survive(store_rig& rig) {
        counters_found found = counters_in(set_);
        if (!found.wrong.empty()) return found.wrong;
        if (found.unfinished > unfinished_ + 1) return "more was left behind than one name";
        if (std::string why = unlike(found.values); !why.empty()) return why;
        if (std::string why = differs_by_name(set_, found.values); !why.empty()) return why;
        // Whoever asks for that name next.
        const bool room = !has_no_room(slots(), words_of_name(name_));
        rig.recover([&] { (void)set_.install(words_of_name(name_)); }, [&] { return survive(rig); });
        if (room != (set_.find(words_of_name(name_)) != nullptr)) return "taken up: it is refused, or not, wrongly";
        if (rig.changes_by([&] { (void)set_.install(words_of_name(name_)); }) != 0) return "asking again stores";
        if (room && !found.values[name_]) found.values[name_] = 0;
        std::string why;
        rig.go_on([&] { why = go_on(found.values); });
        return why;
    }
    // All others, from one of them on.
    std::string go_on(counter_values values) {
        for (std::size_t i = 1; i <= counter_names; ++i) {
            const std::size_t name = (name_ + i) % counter_names;
            const bool room = !has_no_room(slots(), words_of_name(name));
            layout::counter_slot* const slot = set_.install(words_of_name(name));
            if ((slot != nullptr) != room) return "gone on: a name is refused, or not, wrongly";
            if (slot == nullptr) continue;
            counter(slot->value).add(3);
            values[name] = values[name].value_or(0) + 3;
        }
        const counters_found found = counters_in(set_);
        if (!found.wrong.empty()) return "gone on: " + found.wrong;
        const auto here = static_cast<std::size_t>(
            std::count_if(values.begin(), values.end(), [](const auto& value) { return value.has_value(); }));
        if (found.unfinished != 0 || here != std::min(counter_names, slots().size())) return "a slot is lost";
        return found.values == values ? "" : "gone on: other values than were counted";
    }
    [[nodiscard]] std::string unlike(const counter_values& found) const {
        for (std::size_t n = 0; n < counter_names; ++n) {
            if (n != name_ && found[n] != before_[n]) return "a name or value that was there is another";
            if (n == name_ && before_[n] && !found[n]) return "a name that was there has gone";
            if (n == name_ && found[n] && found[n] != after_[n] && *found[n] != before_[n].value_or(0))
                return "its value is neither of both";
        }
        return {};
    }

    draws random_;
    aligned_bytes bytes_;
    holdfast::detail::counter_slots set_;
    counter_values before_{}, after_{};
    std::size_t name_ = 0, unfinished_ = 0;
};

}  // namespace holdfast::test
