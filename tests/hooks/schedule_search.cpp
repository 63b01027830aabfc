// SPDX-License-Identifier: Apache-2.0
#include "hooks/schedule_search.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace holdfast::test {

namespace {

// Bits of a word: 1 loaded by 0, 2 stored by 0, 4 loaded by 1, 8 stored by 1.
[[nodiscard]] bool conflict(std::uint8_t bits) noexcept {
    return (bits & 3U) != 0 && (bits & 12U) != 0 && (bits & 10U) != 0;
}
[[nodiscard]] std::uint64_t at_the_end(std::uint64_t state) noexcept { return number_of(state, 0); }

}  // namespace

search_report schedule_search::explore(unsigned bound, bool deaths, std::uint64_t most, std::uint64_t seed) {
    learn();
    for (;;) {
        const std::uint64_t known = conflicts_;
        const search_report report = explore_known(bound, deaths, most, seed);
        if (!report.failure.empty() || known == conflicts_ || !report.complete()) return report;
    }
}
schedule schedule_search::named(std::uint32_t number) const {
    schedule how;
    for (; number > 1; number = branches_[number].from) how.preempted.push_back(branches_[number].at);
    std::reverse(how.preempted.begin(), how.preempted.end());
    how.first = number;
    return how;
}

search_report schedule_search::explore_known(unsigned bound, bool deaths, std::uint64_t most, std::uint64_t seed) {
    report_ = {};
    graph_ = {};
    merges_ = merging_;
    branches_ = {{0, 0, 0, 0, false}, {1, 0, 0, 1, false}};
    deaths_ = {most, seed};
    std::uint32_t next = 0;
    for (unsigned level = 0; level <= bound && report_.failure.empty(); ++level) {
        const aims what{level < bound, deaths};
        ahead_ = {deaths ? most / 8 : most, seed + level};
        if (what.none()) open(next);
        for (const std::size_t end = branches_.size(); next < end && report_.failure.empty(); ++next)
            try_branch(next, what);
        branches_.insert(branches_.end(), ahead_.kept().begin(), ahead_.kept().end());
        report_.one_in *= ahead_.one_in();
        merges_ = merges_ && report_.complete();
    }
    report_.one_in *= deaths_.one_in();
    for (const death& each : deaths_.kept())
        if (report_.failure.empty()) try_death(each);
    if (merges_ && report_.failure.empty())
        report_.all = graph_.count(bound, {branches_[0].number(), branches_[1].number()});
    return report_;
}

void schedule_search::try_branch(std::uint32_t number, aims what) {
    const branch here = branches_[number];
    if (merges_ && (here.met || graph_.has_met(here.number()))) return;
    const schedule how = named(number);
    rig_.execute(how);
    ++report_.schedules;
    note_conflicts();
    const bool repeated = number < 2 || rig_.preempted_in() == here.state;
    const bool fresh = what.none() ? pass(here) : walk(number, what);
    const std::string why = rig_.verdict(fresh);
    fail_if(repeated ? why : "a process did not do again what it had done", how);
}
void schedule_search::try_death(const death& each) {
    schedule how = named(each.of);
    how.killed = each.at;
    ++report_.deaths;
    fail_if(rig_.run(how), how);
    note_conflicts();
}
void schedule_search::fail_if(const std::string& why, const schedule& how) {
    if (!why.empty()) report_.failure = why + "; schedule " + how.name();
}

// Goes through the schedule just run, from its last pre-emption on, and notes what branches off, and who can die.
// Returns: whether it ends in a new state.
bool schedule_search::walk(std::uint32_t number, aims what) {
    const std::vector<schedule_rig::step>& steps = rig_.steps();
    const branch begun = branches_[number];
    std::array<std::uint32_t, 2> first{}, last{};  // accesses of each
    for (auto i = static_cast<std::uint32_t>(steps.size()); i-- > 0;) first[steps[i].process] = i;
    for (std::uint32_t i = 0; i < steps.size(); ++i) last[steps[i].process] = i;
    std::uint32_t place = merges_ ? graph_.meet(begun.number()).first : 0;
    for (std::uint32_t i = begun.at; i < steps.size(); ++i) {
        const schedule_rig::step& s = steps[i];
        const unsigned other = 1U - s.process;
        if (conflict(words_[s.word])) {
            const bool own = with(s.state, s.process) == begun.number();
            if (!own && !go_to(place, with(s.state, s.process))) return false;
            // Who runs has done something, and the other has something left to do.
            const bool matters = first[s.process] < i && i < last[other];
            if (matters && merges_) graph_.branch(place, with(s.state, other));
            if (matters && !own && what.branches) ahead_.add({number, i, s.state, other, false});
            if (matters && number == 0) ++report_.points;
        }
        if (!s.stores) continue;
        if (merges_) graph_.store(place);
        if (what.deaths) deaths_.add({number, i});
    }
    return go_to(place, at_the_end(rig_.state()));
}
// From one state to the next. Returns: false if what follows is known.
bool schedule_search::go_to(std::uint32_t& place, std::uint64_t number) {
    if (!merges_) return true;
    const auto [next, fresh] = graph_.meet(number);
    graph_.follow(place, next);
    place = next;
    return fresh;
}
// Where nothing branches off, only what was to begin in a state that is passed needs to be known: it is met.
void schedule_search::open(std::uint32_t begin) {
    open_ = {};
    for (std::uint32_t number = begin; merges_ && number < branches_.size(); ++number)
        (void)open_.try_emplace(branches_[number].number(), number);
}
// Returns: whether the schedule just run ends in a new state.
bool schedule_search::pass(const branch& begun) {
    if (!merges_) return true;
    for (std::size_t i = begun.at; i < rig_.steps().size(); ++i) {
        const schedule_rig::step& s = rig_.steps()[i];
        if (!conflict(words_[s.word])) continue;
        if (const std::uint32_t number = open_.at(with(s.state, s.process)); number != number_map::none)
            branches_[number].met = true;
    }
    return graph_.meet(at_the_end(rig_.state())).second;
}
void schedule_search::note_conflicts() {
    for (const schedule_rig::step& s : rig_.steps()) {
        const std::uint8_t before = words_[s.word];
        words_[s.word] = static_cast<std::uint8_t>(before | (s.stores ? 2U : 1U) << (2U * s.process));
        if (!conflict(before) && conflict(words_[s.word])) ++conflicts_;
    }
}
// Tries all single pre-emptions, wherever they are, to learn which words both processes use.
void schedule_search::learn() {
    if (std::exchange(learned_, true)) return;
    for (schedule how; how.first < 2; ++how.first) {
        how.preempted.clear();
        rig_.execute(how);
        note_conflicts();
        const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(rig_.steps().size(), 2000));
        for (std::uint32_t at = 1; at < length; ++at) {
            how.preempted.assign(1, at);
            rig_.execute(how);
            note_conflicts();
        }
    }
}

}  // namespace holdfast::test
