// SPDX-License-Identifier: Apache-2.0
// counter_interleaving.hpp - two processes that ask for names of one counter set and count on them, or walk over it
// (schedule_rig.hpp). Whatever the schedule and the death: a name has one slot in both, no addition is lost or done
// twice, a walk meets what was finished before it, and all names that fit find room afterwards.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"
#include "support/metrics_model.hpp"

namespace holdfast::test {

class counter_interleaving final : public interleaving {
 public:
    static constexpr std::size_t walk = counter_names;
    using steps = std::array<std::array<std::size_t, operations>, 2>;  // a name to count on, or walk
    struct left_over {
        std::size_t name, words;
    };

    counter_interleaving(const steps& asked, std::size_t capacity, std::initializer_list<left_over> left = {})
        : asked_(asked),
          bytes_(capacity * sizeof(layout::counter_slot)),
          set_(bytes_.bytes(), capacity, "test"),
          left_(left.size()) {
        for (const left_over& each : left) (void)set_.install(prefix_of(words_of_name(each.name), each.words));
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        slot_ = {};
        refused_ = {};
        seen_ = {};
    }
    std::string run(unsigned process, unsigned operation) override {
        const std::size_t name = asked_[process][operation];
        return name == walk ? look(process) : count(process, operation);
    }
    std::string succeed() override { return count(0, begun(0) - 1); }
    std::string judge(std::optional<unsigned> dead) override {
        const counters_found found = counters_in(set_);
        if (!found.wrong.empty()) return found.wrong;
        if (found.unfinished > left_ + (dead ? 1 : 0)) return "more was left behind than a dead one's name";
        for (std::size_t name = 0; name < counter_names; ++name) {
            const auto [least, most] = counted(name, dead);
            const std::uint64_t value = found.values[name].value_or(0);
            if (value < least || value > most) return "counted " + std::to_string(value) + " times";
        }
        counter_values values = found.values;
        for (std::size_t i = 0; i < counter_names; ++i) {
            const std::size_t name = (i + long_name + 1) % counter_names;
            const bool room = !has_no_room(slots_in(bytes_.bytes()), words_of_name(name));
            layout::counter_slot* const slot = set_.install(words_of_name(name));
            if ((slot != nullptr) != room) return "afterwards a name is refused, or not, wrongly";
            if (slot != nullptr) values[name] = values[name].value_or(0);
        }
        const counters_found then = counters_in(set_);
        if (!then.wrong.empty()) return "afterwards " + then.wrong;
        if (then.values != values) return "registering changed what was counted";
        std::size_t here = 0;
        for (const auto& value : then.values) here += value ? 1 : 0;
        return here == std::min(counter_names, set_.capacity()) ? differs_by_name(set_, values) : "a slot is lost";
    }

 private:
    std::string count(unsigned process, unsigned operation) {
        const std::size_t name = asked_[process][operation];
        layout::counter_slot* const slot = set_.install(words_of_name(name));
        meet();
        refused_[process][operation] = slot == nullptr;
        if (slot == nullptr)
            return has_no_room(slots_in(bytes_.bytes()), words_of_name(name)) ? "" : "refused, though there is room";
        if (slot_[name] != nullptr && slot_[name] != slot) return "one name has two slots";
        slot_[name] = slot;
        counter(slot->value).add(1);
        return {};
    }
    // Finds what was finished before it, no more than was begun, and never less than the walk before.
    std::string look(unsigned process) {
        std::array<std::uint64_t, counter_names> least{};
        for (std::size_t name = 0; name < counter_names; ++name)
            for (unsigned i = 0; i < ended(1 - process); ++i)
                least[name] += asked_[1 - process][i] == name && !refused_[1 - process][i] ? 1 : 0;
        const counters_found found = counters_in(set_);
        if (!found.wrong.empty()) return "a walk: " + found.wrong;
        for (std::size_t name = 0; name < counter_names; ++name) {
            std::uint64_t most = 0;
            for (unsigned i = 0; i < begun(1 - process); ++i) most += asked_[1 - process][i] == name ? 1 : 0;
            const std::uint64_t value = found.values[name].value_or(0);
            if (value < least[name] || value > most) return "a walk found what was not there at the time";
            if (value < seen_[name].value_or(0) || (seen_[name] && !found.values[name]))
                return "a walk went back behind another";
        }
        seen_ = found.values;
        return {};
    }
    // How often at least and at most.
    [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> counted(std::size_t name,
                                                                  std::optional<unsigned> dead) const {
        std::uint64_t least = 0, most = 0;
        for (unsigned process = 0; process < 2; ++process) {
            const unsigned surely_done = dead == process ? ended(process) : operations;
            for (unsigned i = 0; i < begun(process); ++i) {
                if (asked_[process][i] != name || refused_[process][i]) continue;
                ++most;
                least += i < surely_done ? 1 : 0;
            }
        }
        return {least, most};
    }

    steps asked_;
    aligned_bytes bytes_;
    holdfast::detail::counter_slots set_;
    std::size_t left_;
    std::array<layout::counter_slot*, counter_names> slot_{};
    std::array<std::array<bool, operations>, 2> refused_{};
    counter_values seen_{};
};

}  // namespace holdfast::test
