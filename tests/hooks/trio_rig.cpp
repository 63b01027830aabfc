// SPDX-License-Identifier: Apache-2.0
// trio_rig.cpp - compiled without instrumentation, like all that is not the processes' own.
#include "hooks/trio_rig.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "hooks/schedule_search.hpp"

namespace holdfast::test {

namespace {

constexpr std::uint64_t patience = 2'000, hang = 200'000;
constexpr trio_schedule::turns orders[] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

[[nodiscard]] std::string text_of(const trio_schedule::turns& order) {
    std::string text;
    for (const std::uint8_t process : order) text += static_cast<char>('0' + process);
    return text;
}
/// Of three characters. Anything else is the first order.
[[nodiscard]] trio_schedule::turns order_of(const char*& text) {
    for (const trio_schedule::turns& each : orders) {
        if (std::strncmp(text, text_of(each).c_str(), each.size()) != 0) continue;
        text += each.size();
        return each;
    }
    return orders[0];
}

}  // namespace

std::string trio_schedule::name() const {
    std::string text = text_of(first);
    for (const auto& [at, by] : preempted) text.append("@").append(std::to_string(at)).append(">").append(text_of(by));
    if (killed) text.append("x").append(std::to_string(*killed));
    return text;
}
trio_schedule trio_schedule::named(const char* text) {
    trio_schedule made;
    made.first = order_of(text);
    char* rest = nullptr;
    while (*text == '@') {
        const auto at = static_cast<std::uint32_t>(std::strtoul(text + 1, &rest, 10));
        if (*rest != '>') return made;
        text = rest + 1;
        made.preempted.emplace_back(at, order_of(text));
    }
    if (*text == 'x') made.killed = static_cast<std::uint32_t>(std::strtoul(text + 1, &rest, 10));
    return made;
}

trio_rig::trio_rig(interleaving& subject)
    : subject_(subject), image_(subject.image()), base_(image_.begin(), image_.end()), watch_(image_, *this) {}
trio_rig::~trio_rig() {
    subject_.scheduler_ = nullptr;
    restore();
}
void trio_rig::restore() {
    const access_unwatched rig_itself;
    std::memcpy(image_.data(), base_.data(), base_.size());
}

std::string trio_rig::run(const trio_schedule& how) {
    begin(how);
    active_ = true;
    for (std::optional<unsigned> next = order_[0]; next; next = over(running_) ? next_of_order() : running_) {
        running_ = *next;
        fibers_[running_].resume();
    }
    active_ = false;
    std::string why = failure_.empty() ? judgement() : failure_;
    bury();
    return why;
}
void trio_rig::begin(const trio_schedule& how) {
    restore();
    subject_.scheduler_ = this;
    subject_.begun_ = subject_.ended_ = {};
    subject_.oldest_ = 0;
    subject_.attach();
    how_ = &how;
    order_ = how.first;
    steps_.clear();
    failure_.clear();
    next_preemption_ = 0;
    dead_.reset();
    for (unsigned p = 0; p < fibers_.size(); ++p) {
        process_[p] = {this, p, 0};
        fibers_[p].begin(&trio_rig::live, &process_[p]);
    }
}
void trio_rig::live(void* context) noexcept {
    const life& self = *static_cast<life*>(context);
    trio_rig& rig = *self.rig;
    for (unsigned i = 0; i < interleaving::operations && rig.failure_.empty(); ++i) {
        ++rig.subject_.begun_[self.process];
        try {
            if (std::string why = rig.subject_.run(self.process, i); !why.empty()) rig.failure_ = why;
        } catch (const std::exception& e) {
            rig.failure_ = std::string("an operation threw: ") + e.what();
        }
        ++rig.subject_.ended_[self.process];
    }
}
bool trio_rig::over(unsigned process) const noexcept {
    return fibers_[process].ended() || dead_ == process || !failure_.empty();
}
std::optional<unsigned> trio_rig::next_of_order() const noexcept {
    for (const std::uint8_t process : order_)
        if (!over(process)) return process;
    return std::nullopt;
}
// Who has its turn behind a process that waits.
std::optional<unsigned> trio_rig::next_behind(unsigned self) const noexcept {
    const auto at = static_cast<std::size_t>(std::find(order_.begin(), order_.end(), self) - order_.begin());
    for (std::size_t i = 1; i < order_.size(); ++i)
        if (const unsigned other = order_[(at + i) % order_.size()]; !over(other)) return other;
    return std::nullopt;
}
std::string trio_rig::judgement() {
    try {
        return subject_.judge(dead_);
    } catch (const std::exception& e) {
        return std::string("the next writer: ") + e.what();
    }
}
// Lets the dead come to its end where it was, for nobody's eyes, so that its memory is given back.
void trio_rig::bury() {
    if (!dead_) return;
    const access_unwatched rig_itself;
    std::memcpy(image_.data(), grave_.data(), grave_.size());
    while (!fibers_[*dead_].ended()) fibers_[*dead_].resume();
}

// In front of an access of the running process.
void trio_rig::reach(const std::byte* at, bool stores) noexcept {
    if (!active_) return;
    const unsigned self = running_;
    if (++process_[self].accesses % patience == 0) wait(self);
    const auto& preempted = how_->preempted;
    while (next_preemption_ < preempted.size() && preempted[next_preemption_].first == steps_.size()) {
        order_ = preempted[next_preemption_++].second;
        const std::optional<unsigned> next = next_of_order();
        if (next != self) (void)go_over_to(next, self);
    }
    if (!dead_ && next_preemption_ == preempted.size() && how_->killed == steps_.size()) return die(self);
    steps_.push_back({static_cast<std::uint32_t>((at - image_.data()) / 8), static_cast<std::uint8_t>(self), stores});
}
void trio_rig::die(unsigned self) noexcept {
    dead_ = self;
    {
        const access_unwatched rig_itself;
        grave_.assign(image_.begin(), image_.end());
    }
    subject_.died(self);
    fibers_[self].leave();  // and comes back from the grave
}
// Took very many accesses, and lets others go on.
void trio_rig::wait(unsigned self) noexcept {
    if (process_[self].accesses > hang) {  // two may wait for the third that is dead, and give way to each other
        failure_ = "process " + std::to_string(self) + " does not come to an end";
        fibers_[self].leave();
    }
    (void)go_over_to(next_behind(self), self);
}
bool trio_rig::go_over_to(std::optional<unsigned> other, unsigned self) noexcept {
    if (!other) return false;
    running_ = *other;
    fibers_[self].leave();
    return true;
}
bool trio_rig::give_way() noexcept { return active_ && go_over_to(next_behind(running_), running_); }

trio_report explore_trio(interleaving& subject, std::uint64_t most, std::uint64_t seed) {
    trio_rig rig(subject);
    trio_report report;
    // Which words matter: of each, who loads it (bits 0 to 2) and who stores to it (3 to 5).
    std::vector<std::uint8_t> words((subject.image().size() + 7) / 8);
    const auto note_words = [&] {
        for (const trio_rig::step& s : rig.steps())
            words[s.word] = static_cast<std::uint8_t>(words[s.word] | 1U << (s.process + (s.stores ? 3U : 0U)));
    };
    const auto shared = [&](std::uint32_t word) {
        const unsigned loads = words[word] & 7U, stores = words[word] >> 3U, users = loads | stores;
        return stores != 0 && (users & (users - 1)) != 0;
    };
    const auto run = [&](const trio_schedule& how) {
        if (!report.failure.empty()) return false;
        ++(how.killed ? report.deaths : report.schedules);
        if (std::string why = rig.run(how); !why.empty()) report.failure = why + "; schedule " + how.name();
        note_words();
        return report.failure.empty();
    };
    random_part<trio_schedule> pairs(most, seed), deaths(most, seed + 1);
    // Adds what branches off from the schedule just run, behind its last pre-emption.
    const auto branch = [&](const trio_schedule& how, auto&& add) {
        const std::vector<trio_rig::step> steps = rig.steps();
        const std::uint32_t from = how.preempted.empty() ? 0 : how.preempted.back().first + 1;
        for (std::uint32_t i = from; i < steps.size(); ++i) {
            if (!shared(steps[i].word)) continue;
            for (const trio_schedule::turns& by : orders) {
                if (by[0] == steps[i].process) continue;
                trio_schedule next = how;
                next.preempted.emplace_back(i, by);
                add(next);
            }
        }
    };
    const auto each_death = [&](const trio_schedule& how, auto&& add) {
        const std::vector<trio_rig::step> steps = rig.steps();
        for (std::uint32_t i = how.preempted.empty() ? 0 : how.preempted.back().first; i < steps.size(); ++i)
            if (steps[i].stores) {
                trio_schedule next = how;
                next.killed = i;
                add(next);
            }
    };
    for (const trio_schedule::turns& order : orders) (void)run({order, {}, {}});  // learns the words
    for (const trio_schedule::turns& order : orders) {
        const trio_schedule alone{order, {}, {}};
        if (!run(alone)) return report;
        std::vector<trio_schedule> singles;
        branch(alone, [&](const trio_schedule& how) { singles.push_back(how); });
        each_death(alone, [&](const trio_schedule& how) { singles.push_back(how); });
        for (const trio_schedule& how : singles) {
            if (!run(how)) return report;
            if (how.killed) continue;
            branch(how, [&](const trio_schedule& two) { pairs.add(two); });
            each_death(how, [&](const trio_schedule& killed) { deaths.add(killed); });
        }
    }
    for (const trio_schedule& how : pairs.kept()) (void)run(how);
    for (const trio_schedule& how : deaths.kept()) (void)run(how);
    report.one_in_pairs = pairs.one_in();
    report.one_in_deaths = deaths.one_in();
    return report;
}

}  // namespace holdfast::test
