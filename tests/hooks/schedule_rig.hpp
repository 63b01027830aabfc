// SPDX-License-Identifier: Apache-2.0
// schedule_rig.hpp - two logical processes in one thread, and every way in which their accesses to shared bytes can be
// interleaved with so many pre-emptions; with a death of either at every store, too.
//
// Each process is a fiber that can be stopped in front of each access (access_hooks.hpp). A schedule says which process
// begins and at which accesses, counted over both, the running one is pre-empted; else a process runs until it is done.
// A schedule with a death says at which access the running process ends for good; the other then runs to its end.
// Schedules are tried in order, each from the same beginning, and each is repeated by its name alone, such as
// "0@17@42x63": process 0 begins, pre-emptions in front of accesses 17 and 42, death in front of access 63.
//
// Which pre-emptions matter: only one in front of an access to a word that both processes access and one of them
// stores to; any other can be moved to the next such access without either process noticing. Which words these are is
// learned by trying all single pre-emptions first, and anew whenever a schedule shows another such word.
// A process that takes very many accesses without coming to an end waits for the other, and is then made to yield,
// which is no pre-emption; if the other is dead or done, it hangs: a failure. Memory is sequentially consistent here:
// this is about interleavings and deaths, not about memory orders.
//
// Method: iterative context bounding: Musuvathi, Qadeer, PLDI 2007, doi:10.1145/1250734.1250785.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/access_hooks.hpp"
#include "hooks/draws.hpp"
#include "hooks/fibers.hpp"

namespace holdfast::test {

struct schedule {
    unsigned first = 0;
    std::vector<std::uint32_t> preempted;  // in front of these accesses
    std::optional<std::uint32_t> killed;   // in front of this one, behind the last pre-emption

    [[nodiscard]] std::string name() const {
        std::string text = std::to_string(first);
        for (const std::uint32_t at : preempted) text += "@" + std::to_string(at);
        return killed ? text + "x" + std::to_string(*killed) : text;
    }
    /// What name() gave.
    [[nodiscard]] static schedule named(const char* text) {
        schedule made;
        char* rest = nullptr;
        made.first = static_cast<unsigned>(std::strtoul(text, &rest, 10)) % 2;
        while (*rest == '@') made.preempted.push_back(static_cast<std::uint32_t>(std::strtoul(rest + 1, &rest, 10)));
        if (*rest == 'x') made.killed = static_cast<std::uint32_t>(std::strtoul(rest + 1, &rest, 10));
        return made;
    }
};

/// Who decides which process goes on.
class scheduler {
 public:
    /// The running process waits: the other goes on. Returns: false when the other is dead or done, and the caller goes
    /// on itself.
    virtual bool give_way() noexcept = 0;

 protected:
    ~scheduler() = default;
};

/// What two processes do, again and again from the same beginning.
class interleaving {
 public:
    static constexpr unsigned operations = 2;  // of each process

    virtual ~interleaving() = default;
    /// The bytes both share.
    [[nodiscard]] virtual std::span<std::byte> image() = 0;
    /// Attaches both processes. The image is as it was when this object was given to the rig.
    virtual void attach() = 0;
    /// Operation number `operation` of a process; what it finds wrong, or nothing.
    virtual std::string run(unsigned process, unsigned operation) = 0;
    /// A process has just died.
    virtual void died(unsigned /*process*/) {}
    /// When both have come to their end: the next writer, check, operation. What it finds wrong, or nothing.
    virtual std::string judge(std::optional<unsigned> dead) = 0;

 protected:
    /// For an operation that waits: scheduler::give_way(). The other runs, which is no pre-emption.
    bool give_way() const noexcept { return scheduler_ != nullptr && scheduler_->give_way(); }
    /// How many operations a process has begun and, as the other can know, ended.
    [[nodiscard]] unsigned begun(unsigned process) const noexcept { return begun_[process]; }
    [[nodiscard]] unsigned ended(unsigned process) const noexcept { return timeless_ ? 0 : ended_[process]; }
    /// `count` of something that the other process did, as far as it must be seen.
    [[nodiscard]] std::uint64_t surely(std::uint64_t count) const noexcept { return timeless_ ? 0 : count; }

    /// For an operation that looks at what process 0 does, which makes state i + 1 of state i by operation i: runs
    /// look(), then asks is_state(i) of each state that there was meanwhile and that is no older than one seen before.
    /// Returns: `what` if it was none of them.
    template <class Look, class IsState>
    std::string look_at_writer(Look&& look, IsState&& is_state, const char* what) {
        unsigned state = std::max(oldest_, ended(0));
        look();
        const unsigned newest = std::max(begun(0), state);
        while (state <= newest && !is_state(state)) ++state;
        if (state > newest) return what;
        oldest_ = state;
        return {};
    }

 private:
    friend class schedule_rig;
    friend class weak_interleaving;
    scheduler* scheduler_ = nullptr;
    std::array<unsigned, 2> begun_{}, ended_{};
    bool timeless_ = false;  // weak memory: what is done need not be seen
    unsigned oldest_ = 0;    // state that a later look may see
};

struct schedule_report {
    std::uint64_t schedules = 0;  // run to their end without a death
    std::uint64_t deaths = 0;     // schedules with one
    std::uint64_t points = 0;     // accesses at which a pre-emption matters, in the schedule without any
    std::uint64_t one_in = 1;     // of those with as many pre-emptions as asked for, one in so many
    std::string failure;          // of the first schedule that failed, with its name
};

class schedule_rig final : access_listener, scheduler {
 public:
    explicit schedule_rig(interleaving& subject)
        : subject_(subject),
          base_(subject.image().begin(), subject.image().end()),
          words_((subject.image().size() + 7) / 8, 0),
          watch_(subject.image(), *this) {}
    schedule_rig(const schedule_rig&) = delete;
    schedule_rig& operator=(const schedule_rig&) = delete;
    ~schedule_rig() { subject_.scheduler_ = nullptr; }

    /// One schedule. Returns: what went wrong, or nothing.
    std::string run(const schedule& how) {
        {
            const access_unwatched rig_itself;
            std::memcpy(subject_.image().data(), base_.data(), base_.size());
        }
        subject_.scheduler_ = this;
        subject_.begun_ = subject_.ended_ = {};
        subject_.oldest_ = 0;
        subject_.attach();
        how_ = &how;
        steps_.clear();
        failure_.clear();
        next_preemption_ = 0;
        dead_.reset();
        running_ = how.first;
        for (unsigned p = 0; p < 2; ++p) {
            process_[p] = {this, p, 0};
            fibers_[p].begin(&schedule_rig::live, &process_[p]);
        }
        active_ = true;
        while (!over(running_) || !over(1 - running_)) {
            if (over(running_)) running_ = 1 - running_;
            fibers_[running_].resume();
        }
        active_ = false;
        std::string why = failure_.empty() ? judged() : failure_;
        bury();
        return why;
    }
    /// Accesses of the last schedule, in order.
    struct step {
        std::uint32_t word;
        std::uint8_t process;
        bool stores;
    };
    [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }

    /// All schedules of `bound` pre-emptions or fewer; if `deaths`, with each death behind the last one instead of that
    /// alone. Where that is more than about `most`, those of fewer pre-emptions and a random part of the others.
    schedule_report explore(unsigned bound, bool deaths, std::uint64_t most, std::uint64_t seed) {
        learn();
        schedule_report report;
        for (std::uint64_t known = ~std::uint64_t{0}; report.failure.empty() && known != conflicts_;) {
            known = conflicts_;
            report = {};
            random_ = draws(seed);
            report.one_in = plan(bound, deaths, most);
            for (unsigned first = 0; first < 2 && report.failure.empty(); ++first)
                extend({first, {}, {}}, bound, deaths, report);
            if (report.one_in > 1) break;
        }
        return report;
    }

 private:
    struct life {
        schedule_rig* rig;
        unsigned process;
        std::uint64_t accesses;  // since it last began, or yielded
    };
    static constexpr std::uint64_t patience = 2'000, hang = 200'000;

    [[nodiscard]] bool over(unsigned process) const noexcept {
        return fibers_[process].ended() || dead_ == process || !failure_.empty();
    }

    static void live(void* context) noexcept {
        auto& self = *static_cast<life*>(context);
        interleaving& subject = self.rig->subject_;
        for (unsigned i = 0; i < interleaving::operations && self.rig->failure_.empty(); ++i) {
            ++subject.begun_[self.process];
            try {
                if (std::string why = subject.run(self.process, i); !why.empty()) self.rig->failure_ = why;
            } catch (const std::exception& e) {
                self.rig->failure_ = std::string("an operation threw: ") + e.what();
            }
            ++subject.ended_[self.process];
        }
    }
    // Lets the dead come to its end where it was, for nobody's eyes, so that its memory is given back.
    void bury() {
        if (!dead_) return;
        const access_unwatched rig_itself;
        std::memcpy(subject_.image().data(), grave_.data(), grave_.size());
        while (!fibers_[*dead_].ended()) fibers_[*dead_].resume();
    }
    std::string judged() {
        try {
            return subject_.judge(dead_);
        } catch (const std::exception& e) {
            return std::string("the next writer: ") + e.what();
        }
    }

    void before_store(std::byte* at, std::size_t) noexcept override { reach(at, true); }
    void before_load(const std::byte* at, std::size_t) noexcept override { reach(at, false); }

    // In front of an access of the running process.
    void reach(const std::byte* at, bool stores) noexcept {
        if (!active_) return;
        const auto here = static_cast<std::uint32_t>(steps_.size());
        const unsigned self = running_;
        if (!dead_ && how_->killed == here) {
            dead_ = self;
            {
                const access_unwatched rig_itself;
                grave_.assign(subject_.image().begin(), subject_.image().end());
            }
            subject_.died(self);
            fibers_[self].leave();
            return;  // from the grave
        }
        if (next_preemption_ < how_->preempted.size() && how_->preempted[next_preemption_] == here) {
            ++next_preemption_;
            yield(self);
        } else if (++process_[self].accesses % patience == 0) {
            if (over(1 - self) && process_[self].accesses > hang) {
                failure_ = "process " + std::to_string(self) + " does not come to an end";
                fibers_[self].leave();
            }
            yield(self);
        }
        const auto word = static_cast<std::uint32_t>((at - subject_.image().data()) / 8);
        steps_.push_back({word, static_cast<std::uint8_t>(self), stores});
        note(word, self, stores);
    }
    bool yield(unsigned self) noexcept {
        if (over(1 - self)) return false;
        running_ = 1 - self;
        fibers_[self].leave();
        return true;
    }
    bool give_way() noexcept override { return active_ && yield(running_); }
    // Bits of a word: 1 loaded by 0, 2 stored by 0, 4 loaded by 1, 8 stored by 1.
    void note(std::uint32_t word, unsigned process, bool stores) noexcept {
        const std::uint8_t before = words_[word];
        words_[word] = static_cast<std::uint8_t>(before | (stores ? 2U : 1U) << (2 * process));
        if (!conflict(before) && conflict(words_[word])) ++conflicts_;
    }
    [[nodiscard]] static bool conflict(std::uint8_t bits) noexcept {
        return (bits & 3U) != 0 && (bits & 12U) != 0 && (bits & 10U) != 0;
    }

    // Tries all single pre-emptions, wherever they are, to learn which words both processes use.
    void learn() {
        for (schedule how; how.first < 2; ++how.first) {
            how.preempted.clear();
            (void)run(how);
            const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(steps_.size(), 2000));
            for (std::uint32_t at = 1; at < length; ++at) {
                how.preempted.assign(1, at);
                (void)run(how);
            }
        }
    }

    // Which part of the schedules of each number of pre-emptions is tried, and of their deaths, so that there are about
    // `most` of either, going by the schedule without pre-emption. Returns: of the last, one in how many.
    std::uint64_t plan(unsigned bound, bool deaths, std::uint64_t most) {
        (void)run({});
        double points = 0, stores = 0, schedules = 2, parts = 1;
        for (const step& s : steps_) {
            points += conflict(words_[s.word]) ? 1 : 0;
            stores += s.stores ? 1 : 0;
        }
        const auto budget = static_cast<double>(most);
        parts_.assign(bound + 1, {1, 1});
        for (unsigned i = 0; i <= bound; ++i) {
            if (i != 0) schedules *= points / i;
            const double kept = std::max(1.0, std::ceil(schedules / (deaths ? budget / 8 : budget)));
            schedules /= kept;
            parts *= kept;
            const double dying = deaths ? std::max(1.0, std::ceil(schedules * stores / (i + 1) / budget)) : 1;
            parts_[i] = {static_cast<std::uint64_t>(kept), static_cast<std::uint64_t>(dying)};
            if (i == bound) parts *= dying;
        }
        return static_cast<std::uint64_t>(parts);
    }
    // Runs `how`, then all that agree with it as far as it goes.
    void extend(const schedule& how, unsigned bound, bool deaths, schedule_report& report) {
        const bool last = how.preempted.size() == bound;
        if (!try_one(how, report)) return;
        std::vector<std::uint32_t> preemptions, stores;
        const std::uint32_t from = how.preempted.empty() ? 0 : how.preempted.back() + 1;
        std::array<std::uint32_t, 2> last_of{};
        for (std::uint32_t i = 0; i < steps_.size(); ++i) last_of[steps_[i].process] = i;
        for (auto i = from; i < steps_.size(); ++i) {
            const step& s = steps_[i];
            // The other must have something left to do.
            if (i != 0 && conflict(words_[s.word]) && last_of[1U - s.process] > i) preemptions.push_back(i);
            if (s.stores) stores.push_back(i);
        }
        if (how.preempted.empty() && how.first == 0) report.points = preemptions.size();
        if (deaths)
            for (const std::uint32_t at : stores) {
                if (!random_.one_in(parts_[how.preempted.size()].of_deaths)) continue;
                schedule with = how;
                with.killed = at;
                if (!try_one(with, report)) return;
            }
        if (last) return;
        for (const std::uint32_t at : preemptions) {
            if (!random_.one_in(parts_[how.preempted.size() + 1].of_schedules)) continue;
            schedule longer = how;
            longer.preempted.push_back(at);
            extend(longer, bound, deaths, report);
            if (!report.failure.empty()) return;
        }
    }
    // Returns: whether to go on.
    bool try_one(const schedule& how, schedule_report& report) {
        ++(how.killed ? report.deaths : report.schedules);
        std::string why = run(how);
        if (!why.empty()) report.failure = why + "; schedule " + how.name();
        return why.empty();
    }

    interleaving& subject_;
    std::vector<std::byte> base_, grave_;
    std::vector<std::uint8_t> words_;
    std::uint64_t conflicts_ = 0;
    std::array<fiber, 2> fibers_;
    std::array<life, 2> process_{};
    const schedule* how_ = nullptr;
    std::vector<step> steps_;
    std::size_t next_preemption_ = 0;
    unsigned running_ = 0;
    std::optional<unsigned> dead_;
    bool active_ = false;
    std::string failure_;
    struct part {
        std::uint64_t of_schedules, of_deaths;  // one in so many
    };
    std::vector<part> parts_;  // by number of pre-emptions
    draws random_{0};
    access_watch watch_;
};

}  // namespace holdfast::test
