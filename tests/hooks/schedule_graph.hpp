// SPDX-License-Identifier: Apache-2.0
// schedule_graph.hpp - the states that a search of schedules has met (schedule_search.hpp), and how many schedules and
// deaths they stand for, counted without running them.
//
// A state is that of both processes with who runs. Without a pre-emption it leads to one other, and by a pre-emption,
// where one matters, to the same with the other process running. So the schedules that begin in a state are those of
// the next and, with one pre-emption less, those of the switched one: a sum over a graph without circles.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "hooks/number_map.hpp"

namespace holdfast::test {

class schedule_graph {
 public:
    /// The state of that number. Returns: its place, and whether it is met for the first time.
    std::pair<std::uint32_t, bool> meet(std::uint64_t number) {
        const auto met = places_.try_emplace(number, static_cast<std::uint32_t>(states_.size()));
        if (met.second) states_.emplace_back();
        return met;
    }
    [[nodiscard]] bool has_met(std::uint64_t number) const { return places_.at(number) != none; }
    /// Behind `place` comes `next`, or, if it is pre-empted there, the state of number `switched`.
    void follow(std::uint32_t place, std::uint32_t next) { states_[place].next = next; }
    void branch(std::uint32_t place, std::uint64_t switched) { states_[place].switched = switched; }
    /// A store between `place` and what comes behind it: one more death.
    void store(std::uint32_t place) { ++states_[place].stores; }

    struct total {
        std::uint64_t schedules = 0, deaths = 0;
    };
    /// All schedules with `bound` pre-emptions or fewer that begin in one of these states, and the deaths behind their
    /// last pre-emptions. Requires: every state was gone on from that they lead to with fewer pre-emptions, for deaths
    /// also those with as many.
    [[nodiscard]] total count(unsigned bound, const std::array<std::uint64_t, 2>& beginnings) const {
        std::vector<total> fewer, now;
        for (unsigned left = 0; left <= bound; ++left) {
            fewer = std::exchange(now, std::vector<total>(states_.size()));
            for (std::uint32_t place = 0; place < states_.size(); ++place) count_path(place, fewer, now);
        }
        total sum;
        for (const std::uint64_t number : beginnings) add(sum, has_met(number) ? now[places_.at(number)] : alone);
        return sum;
    }

 private:
    static constexpr std::uint32_t none = number_map::none;
    static constexpr total alone{1, 0};  // of a state that was not gone on from: no pre-emption is left
    struct state {
        std::uint32_t next = none;  // none: both are done
        std::uint32_t stores = 0;
        std::uint64_t switched = 0;  // 0: no pre-emption here
    };
    static void add(total& sum, const total& more) noexcept {
        sum.schedules += more.schedules;
        sum.deaths += more.deaths;
    }
    // Counts `place` and what follows it, as far as it is not counted yet: what has been is no sum of 0 schedules.
    void count_path(std::uint32_t place, const std::vector<total>& fewer, std::vector<total>& now) const {
        std::vector<std::uint32_t> path;
        for (; place != none && now[place].schedules == 0; place = states_[place].next) path.push_back(place);
        total behind = place == none ? total{1, 0} : now[place];
        for (; !path.empty(); path.pop_back()) {
            const state& here = states_[path.back()];
            behind.deaths += here.stores;
            if (!fewer.empty() && here.switched != 0) add(behind, behind_switch(here.switched, fewer));
            now[path.back()] = behind;
        }
    }
    // Who was just switched to is not pre-empted before it has done anything.
    [[nodiscard]] total behind_switch(std::uint64_t switched, const std::vector<total>& fewer) const {
        const std::uint32_t found = places_.at(switched);
        if (found == none) return alone;
        const state& there = states_[found];
        total sum = there.next == none ? total{1, 0} : fewer[there.next];
        sum.deaths += there.stores;
        return sum;
    }

    std::vector<state> states_;
    number_map places_;
};

}  // namespace holdfast::test
