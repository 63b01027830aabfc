// SPDX-License-Identifier: Apache-2.0
// weak_interleaving.hpp - two processes (schedule_rig.hpp) under weak memory (weak_rig.hpp), and what becomes of them
// when one memory order after the other is relaxed.
//
// An order that matters makes some execution fail once it is relaxed: the mutant is caught. One that is never caught is
// not needed by what the two processes of the test do, or only by more executions than were tried; the table of them is
// printed, by function and text, with the reason that survivors.txt gives for each.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hooks/interleaving.hpp"
#include "hooks/lines.hpp"
#include "hooks/weak_rig.hpp"

namespace holdfast::test {

class weak_interleaving final : scheduler {
 public:
    explicit weak_interleaving(interleaving& subject)
        : subject_(subject), base_(subject.image().begin(), subject.image().end()), rig_(subject.image(), 2) {}

    weak_interleaving(const weak_interleaving&) = delete;
    weak_interleaving& operator=(const weak_interleaving&) = delete;
    ~weak_interleaving() { begin_anew(); }

    [[nodiscard]] weak_rig& rig() noexcept { return rig_; }

    /// One execution. Returns: what went wrong, or nothing.
    std::string run(std::uint64_t seed) {
        begin_anew();
        subject_.scheduler_ = this;
        subject_.begun_ = subject_.ended_ = {};
        subject_.oldest_ = 0;
        subject_.attach();
        why_.clear();
        subject_.timeless_ = true;
        const std::string race = rig_.run(&weak_interleaving::live, this, seed);
        subject_.timeless_ = false;
        if (why_.empty()) why_ = race;
        if (why_.empty()) try {
                why_ = subject_.judge(std::nullopt);
            } catch (const std::exception& e) {
                why_ = std::string("in the end: ") + e.what();
            }
        return why_;
    }

 private:
    bool give_way() noexcept override { return rig_.give_way(); }
    void begin_anew() {
        const access_unwatched rig_itself;
        std::memcpy(subject_.image().data(), base_.data(), base_.size());
    }
    static void live(void* context, unsigned number) {
        auto& self = *static_cast<weak_interleaving*>(context);
        for (unsigned i = 0; i < interleaving::operations && self.why_.empty(); ++i) {
            ++self.subject_.begun_[number];
            try {
                if (std::string why = self.subject_.run(number, i); !why.empty()) self.why_ = why;
            } catch (const std::exception& e) {
                self.why_ = std::string("an operation threw: ") + e.what();
            }
            ++self.subject_.ended_[number];
        }
    }

    interleaving& subject_;
    std::vector<std::byte> base_;
    weak_rig rig_;
    std::string why_;
};

[[nodiscard]] inline std::string name_of(const order_place& place) {
    const char* kinds[] = {"load", "store", "update", "fence"};
    const char* orders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};
    return std::string(kinds[static_cast<int>(place.kind)]) + " " + orders[static_cast<int>(place.order)];
}

/// What became of one mutant.
struct order_mutant {
    std::string where;   // "FILE FUNCTION | TEXT | ORDER"
    std::string caught;  // by what failure; empty: survived
    std::uint64_t executions = 0;
};

/// The orders that the subject's processes pass in so many executions, by where they stand (lines.hpp), kind and order;
/// one line may have several places, put into several callers. Throws: std::runtime_error when the program as it is
/// fails.
[[nodiscard]] inline std::map<std::string, std::set<const void*>> orders_of(weak_interleaving& test,
                                                                            std::uint64_t executions,
                                                                            std::uint64_t seed) {
    for (std::uint64_t i = 0; i < executions; ++i)
        if (const std::string why = test.run(seed + i); !why.empty())
            throw std::runtime_error("without any mutation: " + why + " (seed " + std::to_string(seed + i) + ")");
    std::set<const void*> addresses;
    for (const order_place& place : test.rig().places()) addresses.insert(place.address);
    const auto lines = lines_of(addresses);
    std::map<std::string, std::set<const void*>> orders;
    for (const order_place& place : test.rig().places())
        orders[lines.at(place.address) + " | " + name_of(place)].insert(place.address);
    return orders;
}

/// Relaxes these places and tries up to `executions` random executions.
[[nodiscard]] inline order_mutant weaken(weak_interleaving& test, const std::string& where,
                                         const std::set<const void*>& places, std::uint64_t executions,
                                         std::uint64_t seed) {
    order_mutant mutant{where, {}, 0};
    test.rig().relax(places);
    while (mutant.caught.empty() && mutant.executions < executions)
        mutant.caught = test.run(seed + mutant.executions++);
    test.rig().relax({});
    return mutant;
}

}  // namespace holdfast::test
