// SPDX-License-Identifier: Apache-2.0
#include "holdfast/perf_test/workers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string_view>

#include "holdfast/error.hpp"
#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "perf_test/worker_crew.hpp"
#include "perf_test/worker_memory.hpp"

namespace holdfast::perf_test {
namespace {

constexpr std::uint64_t start_ahead_ns = 300'000;  // long enough for a worker to wake up, too short to notice

std::string seconds_text(double seconds) {
    std::string text = std::to_string(seconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text + " s";
}

/// One run of a group: who failed, if anybody.
class supervision {
 public:
    supervision(const group_options& options, const worker_memory& memory, crew& workers)
        : options_(options), memory_(memory), crew_(workers) {}

    /// Returns: what failed, empty if nothing. All workers have ended then.
    std::string run() {
        for (std::size_t worker = 0; worker < options_.workers; ++worker) crew_.start(worker);
        std::string failure = wait_for(worker_state::ready, 0, "was not ready ");
        if (failure.empty()) {
            memory_.release(monotonic_ns() + start_ahead_ns);
            failure = wait_for(worker_state::done, options_.seconds, "had not come back ");
        }
        if (!failure.empty()) end_all(failure);
        return failure;
    }

 private:
    /// Waits until every worker has reached the state, or one has failed, or the time is up.
    std::string wait_for(worker_state wanted, double seconds, std::string_view what_is_late) {
        const std::uint64_t until = deadline(seconds);
        for (;;) {
            std::string failure = failures();
            if (!failure.empty() || all_reached(wanted)) return failure;
            if (until != 0 && monotonic_ns() >= until)
                return crew_.end_late(options_.test + ": " + late(wanted) + " " + std::string(what_is_late) +
                                      seconds_text(options_.patience_seconds) +
                                      (wanted == worker_state::ready ? " after its start" : " after its time was up"));
            crew_.wait_for_news(until);
        }
    }

    /// After a failure. A sibling may hang as well, and a thread that does must not make us hang.
    void end_all(std::string& failure) {
        memory_.stop();
        crew_.give_up();
        const std::uint64_t until = deadline(0);
        for (std::size_t worker = 0; worker < options_.workers; ++worker) {
            while (!crew_.ended(worker)) {
                if (until != 0 && monotonic_ns() >= until) {
                    failure = crew_.end_late(failure + "; then " + crew_.name(worker) + " did not come to an end");
                    return;
                }
                crew_.wait_for_news(until);
            }
        }
    }

    /// That many seconds and the group's patience from now; 0: never.
    [[nodiscard]] std::uint64_t deadline(double seconds) const {
        if (!(options_.patience_seconds > 0)) return 0;
        return monotonic_ns() + static_cast<std::uint64_t>(std::min(seconds + options_.patience_seconds, 1e9) * 1e9);
    }

    [[nodiscard]] worker_state state_of(std::size_t worker) const {
        // R1, pairs with W1 in announce: what the worker wrote before it announced the state is there.
        return memory_.blocks()[worker].state.load(std::memory_order_acquire);
    }

    // A worker is done when it has ended, not when it says so: it may yet fail at its last step.
    [[nodiscard]] bool reached(std::size_t worker, worker_state wanted) const {
        const worker_state state = state_of(worker);
        return wanted == worker_state::ready ? state >= worker_state::ready
                                             : state == worker_state::done && crew_.ended(worker);
    }

    [[nodiscard]] bool all_reached(worker_state wanted) const {
        for (std::size_t worker = 0; worker < options_.workers; ++worker)
            if (!reached(worker, wanted)) return false;
        return true;
    }

    /// What is wrong with the workers that have failed so far; at most four are told in full.
    [[nodiscard]] std::string failures() const {
        std::string text;
        std::size_t failed = 0;
        for (std::size_t worker = 0; worker < options_.workers; ++worker) {
            const bool ended = crew_.ended(worker);  // before its state: what it said last is there
            const worker_state state = state_of(worker);
            std::string why;
            if (state == worker_state::failed) {
                why = memory_.blocks()[worker].get_text();
            } else if (ended && (state != worker_state::done || !crew_.ended_well(worker))) {
                why = crew_.end_of(worker);
            } else {
                continue;
            }
            if (++failed <= 4) text += (failed > 1 ? "; " : "") + crew_.name(worker) + " " + why;
        }
        if (failed > 4) text += "; and " + std::to_string(failed - 4) + " more";
        return text.empty() ? text : options_.test + ": " + text;
    }

    [[nodiscard]] std::string late(worker_state wanted) const {
        for (std::size_t worker = 0; worker < options_.workers; ++worker)
            if (!reached(worker, wanted)) return crew_.name(worker);
        return {};
    }

    const group_options& options_;
    const worker_memory& memory_;
    crew& crew_;
};

/// All workers' batches, described together. Neighbours in time are each worker's own, so what is about these is the
/// median over workers.
summary describe_batches(const worker_memory& memory, std::span<const double> all) {
    summary together = describe(all);
    std::vector<double> correlations, drifts;
    for (const worker_block& each : memory.blocks()) {
        const summary own = describe(each.batches.samples());
        correlations.push_back(own.autocorrelation);
        drifts.push_back(own.drift);
    }
    together.autocorrelation = describe(correlations).median;
    together.drift = describe(drifts).median;
    return together;
}

/// The numbers of a group whose workers are all done.
void gather(const group_options& options, const worker_memory& memory, group_outcome& outcome) {
    workers_result& result = outcome.result;
    histogram_counts calls;
    rate_summary rate(options.rate.value_or(rate_options{}));
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    std::uint64_t last_start = 0;
    std::uint64_t last_end = 0;
    std::vector<double> floors;
    for (const worker_block& each : memory.blocks()) {
        if (each.count == 0) continue;
        result.count += each.count;
        first = std::min(first, each.start_ns);
        last_start = std::max(last_start, each.start_ns);
        last_end = std::max(last_end, each.end_ns);
        // Times of single calls have the floor taken off already.
        const double floor = options.rate || options.latency ? 0 : each.floor_ns;
        result.worker_ns.push_back(std::max(0.0, each.busy_ns / static_cast<double>(each.count) - floor));
        floors.push_back(each.floor_ns);
        const auto batches = each.batches.samples();
        outcome.samples.insert(outcome.samples.end(), batches.begin(), batches.end());
        each.calls.add_to(calls);
        rate.add(each.rate);
    }
    if (result.count == 0) return;
    std::nth_element(floors.begin(), floors.begin() + static_cast<std::ptrdiff_t>(floors.size() / 2), floors.end());
    outcome.floor_ns = floors[floors.size() / 2];
    result.seconds = static_cast<double>(last_end - std::min(last_end, memory.group().start_at_ns)) * 1e-9;
    result.wall_hz = result.seconds > 0 ? static_cast<double>(result.count) / result.seconds : 0;
    result.start_spread_ns = static_cast<double>(last_start - first);
    result.per_worker_ns = describe(result.worker_ns);
    result.batches = describe_batches(memory, outcome.samples);
    if (options.rate) {
        result.rate = rate.result();
    } else if (options.latency) {
        result.latency = latency_of(calls);
    }
}

/// A worker that did nothing has no number, and a group with such a worker has none either.
std::string idle_worker(const group_options& options, const worker_memory& memory) {
    for (std::size_t worker = 0; worker < options.workers; ++worker) {
        if (memory.blocks()[worker].count == 0)
            return options.test + ": worker " + std::to_string(worker + 1) + " of " + std::to_string(options.workers) +
                   " did no operation in its time; measure longer (-time) or with fewer workers";
    }
    return {};
}

}  // namespace

worker_hooks& process_hooks() noexcept {
    static worker_hooks hooks;
    return hooks;
}

group_outcome run_group(const group_options& options, body_runner& body) {
    if (options.workers == 0 || options.workers > workers_max)
        throw error(errc::invalid_argument, options.test,
                    std::to_string(options.workers) + " workers: a group has 1 to " + std::to_string(workers_max));
    if (!(options.seconds > 0) || !std::isfinite(options.seconds))
        throw error(errc::invalid_argument, options.test, "the time of a group must be above zero seconds");
    group_outcome outcome;
    outcome.result.workers = options.workers;
    outcome.result.processes = options.processes;
    const worker_memory memory(options.workers, options.test);
    {
        const std::unique_ptr<crew> workers =
            options.processes ? make_processes(options, body, memory) : make_threads(options, body, memory);
        outcome.result.failure = supervision(options, memory, *workers).run();
    }  // every worker has ended here, whatever happened
    if (!outcome.result.failure.empty()) return outcome;
    for (const worker_block& each : memory.blocks()) outcome.aborted = outcome.aborted || each.aborted;
    if (!outcome.aborted) outcome.result.failure = idle_worker(options, memory);
    if (outcome.result.failure.empty()) gather(options, memory, outcome);
    return outcome;
}

}  // namespace holdfast::perf_test
