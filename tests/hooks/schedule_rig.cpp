// SPDX-License-Identifier: Apache-2.0
// schedule_rig.cpp - compiled without instrumentation, like all that is not the processes' own.
#include "hooks/schedule_rig.hpp"

#include <cstdlib>
#include <cstring>
#include <exception>

namespace holdfast::test {

namespace {

constexpr std::uint64_t patience = 2'000, hang = 200'000;

}  // namespace

std::string schedule::name() const {
    std::string text = std::to_string(first);
    for (const std::uint32_t at : preempted) text.append(1, '@').append(std::to_string(at));
    if (killed) text.append(1, 'x').append(std::to_string(*killed));
    return text;
}
schedule schedule::named(const char* text) {
    schedule made;
    char* rest = nullptr;
    made.first = static_cast<unsigned>(std::strtoul(text, &rest, 10)) % 2;
    while (*rest == '@') made.preempted.push_back(static_cast<std::uint32_t>(std::strtoul(rest + 1, &rest, 10)));
    if (*rest == 'x') made.killed = static_cast<std::uint32_t>(std::strtoul(rest + 1, &rest, 10));
    return made;
}

schedule_rig::schedule_rig(interleaving& subject)
    : subject_(subject),
      image_(subject.image()),
      base_(image_.begin(), image_.end()),
      state_(words()),
      watch_(image_, *this) {}
schedule_rig::~schedule_rig() {
    subject_.scheduler_ = nullptr;
    restore();
}
void schedule_rig::restore() {
    const access_unwatched rig_itself;
    std::memcpy(image_.data(), base_.data(), base_.size());
}

std::string schedule_rig::run(const schedule& how) {
    execute(how);
    return verdict();
}
void schedule_rig::execute(const schedule& how) {
    begin(how);
    active_ = true;
    while (!over(running_) || !over(1 - running_)) {
        if (over(running_)) running_ = 1 - running_;
        running_as_[running_]->resume();
    }
    active_ = false;
}
std::string schedule_rig::verdict(bool judged) {
    judged = judged && failure_.empty();
    if (judged && at_each_end_) at_each_end_(state());
    std::string why = judged ? judgement() : failure_;
    bury();
    return why;
}
std::string schedule_rig::judgement() {
    try {
        return subject_.judge(fallen_ && !dead_ ? 0U : dead_);
    } catch (const std::exception& e) {
        return std::string("the next writer: ") + e.what();
    }
}

void schedule_rig::begin(const schedule& how) {
    restore();
    subject_.scheduler_ = this;
    subject_.begun_ = subject_.ended_ = {};
    subject_.oldest_ = 0;
    subject_.attach();
    how_ = &how;
    steps_.clear();
    failure_.clear();
    next_preemption_ = 0;
    preempted_in_.reset();
    dead_.reset();
    fallen_ = false;
    running_ = how.first;
    state_.begin();
    for (unsigned p = 0; p < 2; ++p) {
        process_[p] = {this, p, 0, 0};
        running_as_[p] = &fibers_[p];
        fibers_[p].begin(&schedule_rig::live, &process_[p]);
    }
}
bool schedule_rig::over(unsigned process) const noexcept {
    return running_as_[process]->ended() || dead_ == process || !failure_.empty();
}
void schedule_rig::live(void* context) noexcept {
    const life& self = *static_cast<life*>(context);
    schedule_rig& rig = *self.rig;
    for (unsigned i = 0; i < interleaving::operations && rig.failure_.empty(); ++i) {
        rig.meet();
        ++rig.subject_.begun_[self.process];
        try {
            if (std::string why = rig.subject_.run(self.process, i); !why.empty()) rig.failure_ = why;
        } catch (const std::exception& e) {
            rig.failure_ = std::string("an operation threw: ") + e.what();
        }
        rig.meet();
        ++rig.subject_.ended_[self.process];
    }
}
// In the place of a process that has fallen.
void schedule_rig::live_on(void* context) noexcept {
    schedule_rig& rig = *static_cast<life*>(context)->rig;
    rig.meet();
    try {
        if (std::string why = rig.subject_.succeed(); !why.empty()) rig.failure_ = why;
    } catch (const std::exception& e) {
        rig.failure_ = std::string("the successor: ") + e.what();
    }
    rig.meet();
}
// Lets the dead come to their end where they were, for nobody's eyes, so that their memory is given back.
void schedule_rig::bury() {
    const access_unwatched rig_itself;
    if (dead_) {
        std::memcpy(image_.data(), grave_.data(), grave_.size());
        while (!running_as_[*dead_]->ended()) running_as_[*dead_]->resume();
    }
    if (!fallen_) return;
    std::memcpy(image_.data(), fallen_grave_.data(), fallen_grave_.size());
    while (!fibers_[0].ended()) fibers_[0].resume();
}

// In front of an access of the running process.
void schedule_rig::reach(const std::byte* at, bool stores) noexcept {
    if (!active_) return;
    const unsigned self = running_;
    if (++process_[self].accesses % patience == 0) wait(self);
    if (self == 0 && stores && !fallen_ && subject_.last_store_ == process_[0].stores++) return fall();
    const std::vector<std::uint32_t>& preempted = how_->preempted;
    while (next_preemption_ < preempted.size() && preempted[next_preemption_] == steps_.size()) {
        if (++next_preemption_ == preempted.size()) preempted_in_ = state_.number();
        yield(self);
    }
    if (!dead_ && next_preemption_ == preempted.size() && how_->killed == steps_.size()) return die(self);
    const auto word = static_cast<std::uint32_t>((at - image_.data()) / 8);
    std::uint64_t value = 0;  // of a word that the image's end cuts off
    if (std::size_t{8} * (word + 1) <= image_.size()) std::memcpy(&value, &image_[std::size_t{8} * word], 8);
    steps_.push_back({state_.number(), word, static_cast<std::uint8_t>(self), stores});
    state_.access(self, word, stores, value);
}
void schedule_rig::die(unsigned self) noexcept {
    dead_ = self;
    {
        const access_unwatched rig_itself;
        grave_.assign(image_.begin(), image_.end());
    }
    subject_.died(self);
    running_as_[self]->leave();  // and comes back from the grave
}
// Process 0 goes no further, and who comes after it is there.
void schedule_rig::fall() noexcept {
    fallen_ = true;
    ++falls_;
    {
        const access_unwatched rig_itself;
        fallen_grave_.assign(image_.begin(), image_.end());
    }
    state_.note(0, 4);
    subject_.died(0);
    running_as_[0] = &fibers_[2];
    fibers_[2].begin(&schedule_rig::live_on, &process_[0]);
    fibers_[0].leave();  // and comes back from the grave
}
// Took very many accesses, and lets the other go on.
void schedule_rig::wait(unsigned self) noexcept {
    if (over(1 - self) && process_[self].accesses > hang) {
        failure_ = "process " + std::to_string(self) + " does not come to an end";
        running_as_[self]->leave();
    }
    yield(self);
}
bool schedule_rig::yield(unsigned self) noexcept {
    if (over(1 - self)) return false;
    running_ = 1 - self;
    running_as_[self]->leave();
    return true;
}
bool schedule_rig::give_way() noexcept {
    if (!active_) return false;
    const unsigned self = running_;
    state_.note(self, 1);  // stopped here it is not stopped at its next access
    const bool gone_on = yield(self);
    state_.note(self, gone_on ? 2 : 3);
    return gone_on;
}
void schedule_rig::meet() noexcept {
    if (active_) state_.meet(running_);
}

}  // namespace holdfast::test
