// SPDX-License-Identifier: Apache-2.0
// schedule_search.hpp - every way in which the accesses of two processes can be interleaved with so many pre-emptions,
// and with a death of either at every store, too (schedule_rig.hpp).
//
// Which pre-emptions matter: only one in front of an access to a word that both processes access and one of them
// stores to; any other can be moved to the next such access without either process noticing. Which words these are is
// learned by trying all single pre-emptions first, and anew whenever a schedule shows another such word. And none in
// front of a process's first access: it is as if that had not begun.
//
// Most schedules lead into a state that another has led to: both processes, the image and who runs are the same
// (trace_state.hpp), so all that follows is. Each state is gone on from once, by the schedule that reaches it with the
// fewest pre-emptions: those with none are run first, then those with one, and so on. A schedule that comes into a
// state already met has nothing new to show from there on. docs/design/0010-crash-rigs.md says why nothing is lost.
//
// Method: iterative context bounding: Musuvathi, Qadeer, PLDI 2007, doi:10.1145/1250734.1250785.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hooks/draws.hpp"
#include "hooks/schedule_graph.hpp"
#include "hooks/schedule_rig.hpp"

namespace holdfast::test {

/// About `most` of all that are added, or all where they are fewer: each with the same chance.
template <class T>
class random_part {
 public:
    random_part() = default;
    random_part(std::uint64_t most, std::uint64_t seed) : most_(most), random_(seed) {}
    void add(const T& each) {
        if (!random_.one_in(one_in_)) return;
        kept_.push_back(each);
        if (kept_.size() <= most_) return;
        std::erase_if(kept_, [this](const T&) { return random_.one_in(2); });
        one_in_ *= 2;
    }
    [[nodiscard]] const std::vector<T>& kept() const noexcept { return kept_; }
    [[nodiscard]] std::uint64_t one_in() const noexcept { return one_in_; }

 private:
    std::uint64_t most_ = 0, one_in_ = 1;
    draws random_{0};
    std::vector<T> kept_;
};

struct search_report {
    std::uint64_t schedules = 0;  // run without a death
    std::uint64_t deaths = 0;     // schedules run with one
    std::uint64_t points = 0;     // accesses at which a pre-emption matters, in the schedule without any
    schedule_graph::total all;    // schedules that there are; known where all was tried
    std::uint64_t one_in = 1;     // of what there was to run, about one in so many; 1: all
    std::string failure;          // of the first schedule that failed, with its name

    [[nodiscard]] bool complete() const noexcept { return one_in == 1; }
};

class schedule_search {
 public:
    /// `merging`: states are gone on from once; without, every schedule is run.
    explicit schedule_search(interleaving& subject, bool merging = true)
        : rig_(subject), merging_(merging), words_(rig_.words(), 0) {}
    /// Whoever wants to see each end, in front of its judgement, with the number of its state.
    void at_each_end(std::function<void(std::uint64_t)> look) { rig_.at_each_end(std::move(look)); }

    /// One schedule. Returns: what went wrong, or nothing.
    std::string run(const schedule& how) { return rig_.run(how); }

    /// How many schedules met the subject's own death (interleaving::die_in_front_of).
    [[nodiscard]] std::uint64_t falls() const noexcept { return rig_.falls(); }

    /// All schedules of `bound` pre-emptions or fewer; if `deaths`, with each death behind the last one, too. Where
    /// that takes more than about `most` runs of either, a random part of them.
    search_report explore(unsigned bound, bool deaths, std::uint64_t most, std::uint64_t seed);

 private:
    /// A schedule: that of another branch with one more pre-emption. The first two have none.
    struct branch {
        std::uint32_t from, at;
        std::uint64_t state;  // of both processes at that pre-emption
        std::uint32_t runs;   // then
        bool met;             // by another
        [[nodiscard]] std::uint64_t number() const noexcept { return with(state, runs); }
    };
    struct death {
        std::uint32_t of, at;
    };
    /// What a schedule is run for, beside its end.
    struct aims {
        bool branches, deaths;
        [[nodiscard]] bool none() const noexcept { return !branches && !deaths; }
    };
    static std::uint64_t with(std::uint64_t state, unsigned running) noexcept { return number_of(state, running + 1); }

    search_report explore_known(unsigned bound, bool deaths, std::uint64_t most, std::uint64_t seed);
    void try_branch(std::uint32_t number, aims what);
    void try_death(const death& each);
    void fail_if(const std::string& why, const schedule& how);
    bool walk(std::uint32_t number, aims what);
    void open(std::uint32_t begin);
    bool pass(const branch& begun);
    bool go_to(std::uint32_t& place, std::uint64_t number);
    [[nodiscard]] schedule named(std::uint32_t number) const;
    void note_conflicts();
    void learn();

    schedule_rig rig_;
    bool merging_, merges_ = true;     // not where a part is tried: what is left out is not known
    std::vector<std::uint8_t> words_;  // which process loads and stores each
    std::uint64_t conflicts_ = 0;      // words that matter
    bool learned_ = false;
    search_report report_;
    schedule_graph graph_;
    number_map open_;
    std::vector<branch> branches_;  // tried, or to be tried with as many pre-emptions
    random_part<branch> ahead_;     // with one more
    random_part<death> deaths_;
};

}  // namespace holdfast::test
