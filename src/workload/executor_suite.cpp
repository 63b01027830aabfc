// SPDX-License-Identifier: Apache-2.0
#include "workload/executor_suite.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workload/executor_own.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

namespace {

constexpr std::string_view target_peer = "boost::asio::strand";
constexpr double rate_target = 1.5;
constexpr double wait_target = 10;

[[nodiscard]] std::string counted(std::uint64_t number, const char* one, const char* many) {
    return std::to_string(number) + " " + (number == 1 ? one : many);
}

class executor_runs {
 public:
    executor_runs(const std::vector<executor_kind>& kinds, recorder& to) : to_(to) {
        for (const executor_kind& kind : kinds)
            if (is_wanted_subject(to.options(), kind.name, &kind == &kinds.front())) kinds_.push_back(&kind);
    }

    void run() {
        for (const unsigned workers : {1U, 2U})
            for (const std::size_t keys : {std::size_t{1}, std::size_t{100}, std::size_t{10'000}}) rate(workers, keys);
        if (!rate_ratios_.empty()) {
            const double ratio = median_of(rate_ratios_);
            to_.note("target: tasks a second at least " + fixed_text(rate_target, 1) + " times those of " +
                     std::string(target_peer) + ", in the median over the " + std::to_string(rate_ratios_.size()) +
                     " experiments: " + fixed_text(ratio, 2) + " times" + verdict(ratio >= rate_target));
        }
        wait();
    }

 private:
    void rate(unsigned workers, std::size_t keys) {
        experiment e;
        e.name =
            "a task posted and run, " + counted(workers, "worker", "workers") + ", " + counted(keys, "key", "keys");
        if (!to_.wants(e.name)) return;
        const std::uint64_t tasks = to_.options().quick ? 20'000 : 200'000;
        std::vector<std::unique_ptr<executor_subject>> made;
        for (const executor_kind* const kind : kinds_) {
            made.push_back(kind->make({.workers = workers, .keys = keys}));
            executor_subject* const s = made.back().get();
            s->run(tasks);  // its memory is there, and its order was kept
            e.subjects.push_back({kind->name, [s](std::uint64_t n) { s->run(n); }, {}, tasks});
        }
        const sampled found = run_sampled(to_, e);
        const auto peer = found.find(target_peer);
        if (peer && found.timed(0)) rate_ratios_.push_back(times_faster(found.samples[0], found.samples[*peer]));
    }

    /// Rounds in which each kind is asked once, in an order that turns, and all at the same moment of the other key's
    /// work: after a tenth of it, two, and so on to nine.
    void wait() {
        const std::uint64_t hot_tasks = to_.options().quick ? 5'000 : 50'000;
        const std::string name =
            "the wait of a key behind another with " + std::to_string(hot_tasks) + " tasks of 1 us, 1 worker";
        if (!to_.wants(name)) return;
        const std::size_t rounds = to_.options().quick ? 9 : 27;
        std::vector<std::unique_ptr<executor_subject>> made;
        sampled found;
        for (const executor_kind* const kind : kinds_) {
            made.push_back(kind->make({.workers = 1, .keys = 2}));
            (void)made.back()->wait_behind(1000, 100);
            found.names.push_back(kind->name);
        }
        found.samples.resize(made.size());
        std::vector<std::vector<double>> overtaking(made.size());
        for (std::size_t round = 0; round < rounds; ++round)
            for (std::size_t turn = 0; turn < made.size(); ++turn) {
                const std::size_t i = (round + turn) % made.size();
                const cold_wait one = made[i]->wait_behind(hot_tasks, hot_tasks * (round % 9 + 1) / 10);
                found.samples[i].push_back(one.microseconds);
                overtaking[i].push_back(static_cast<double>(one.tasks));
            }
        to_.add(name, "us", found.names, found.samples, false);
        std::string text = "tasks of the other key that ran meanwhile, median:";
        for (std::size_t i = 0; i < made.size(); ++i)
            text += (i == 0 ? " " : "; ") + found.names[i] + " " + fixed_text(median_of(overtaking[i]), 0);
        to_.note(text);
        const auto peer = found.find(target_peer);
        if (!peer) return;
        const double ratio = times_faster(found.samples[0], found.samples[*peer]);
        to_.note("target: the wait behind a key with many tasks at most a tenth of that of " +
                 std::string(target_peer) + ": " + fixed_text(ratio, 1) + " times shorter, " +
                 fixed_text(median_of(found.samples[0]), 0) + " us" + verdict(ratio >= wait_target));
    }

    std::vector<const executor_kind*> kinds_;
    recorder& to_;
    std::vector<double> rate_ratios_;
};

}  // namespace

std::vector<executor_kind> own_executor_kinds() {
    return {executor_kind_of<own_strands>(), executor_kind_of<own_keys>(), executor_kind_of<locked_deques>()};
}

suite executor_suite(std::vector<executor_kind> kinds) {
    suite s;
    s.name = "executor";
    s.description = "tasks in order for each of 1 to 10,000 keys on 1 and 2 workers; the wait behind a busy key";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const executor_kind& kind : kinds) to.version(kind.name, kind.version);
        executor_runs(kinds, to).run();
    };
    return s;
}

}  // namespace holdfast::workload
