// SPDX-License-Identifier: Apache-2.0
// engine.cpp - batches on the calling thread: how long one must be, when the body is warm, when enough are taken.
#include "holdfast/perf_test/engine.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "holdfast/perf_test/clock.hpp"
#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "perf_test/deleted.hpp"

namespace holdfast::perf_test {
namespace {

constexpr double grains_a_batch = 1000;         // then the clock's own step is at most 0.1 % of a batch
constexpr double batch_seconds_most = 1e-3;     // longer ones would average over what the samples ought to show
constexpr double batches_wanted = 50;           // a shorter run takes shorter batches
constexpr double agreement = 0.02;              // of the last three batches when warm
constexpr double watched_seconds_least = 3e-4;  // for a shorter batch, asking who disturbed it would cost more than it
constexpr std::size_t floor_batches = 15;
constexpr double overtime = 3;        // times `seconds` that few long batches may take
constexpr double rerun_patience = 2;  // times `seconds` in which disturbed batches are taken again, not kept
constexpr std::size_t samples_most = 1'000'000;

struct timed_batch {
    std::uint64_t done = 0;
    double seconds = 0;
};

class batch_measurement {
 public:
    batch_measurement(const test_options& options, body_runner& body, const disturbance_source& disturbed)
        : options_(options), body_(body), since_last_(disturbed) {
        found_.suite = options.suite;
        found_.name = options.name;
        found_.parameter = options.parameter;
        const double grain = tick_clock::kernel().granularity_ns() * 1e-9;
        least_seconds_ = grains_a_batch * grain;
        wanted_seconds_ = std::max(std::min(options.seconds / batches_wanted, batch_seconds_most), least_seconds_);
    }

    result run() {
        if (calibrate() && warm_up()) {
            measure_floor();
            take_samples();
            if (!found_.aborted) measure_floor();
        }
        describe_all();
        return std::move(found_);
    }

 private:
    timed_batch time(std::uint64_t operations) {
        body_.prepare(operations);
        const std::uint64_t from = monotonic_ns();
        const std::uint64_t done = body_.run_batch(operations);
        const std::uint64_t to = monotonic_ns();
        body_.finish();
        return {done, static_cast<double>(to - from) * 1e-9};
    }

    // False once the body asked to stop: what ran is noted.
    bool trial(std::uint64_t operations, timed_batch& batch) {
        batch = time(operations);
        if (!stop_sign::is_raised()) return true;
        stopped(batch);
        return false;
    }

    void stopped(const timed_batch& batch) {
        found_.aborted = true;
        found_.count += batch.done;
        found_.seconds += batch.seconds;
    }

    bool calibrate() {
        const std::uint64_t fixed = body_.batch() != 0 ? body_.batch() : options_.batch;
        found_.batch = fixed != 0 ? fixed : 1;
        for (timed_batch batch;;) {
            if (!trial(found_.batch, batch)) return false;
            last_seconds_ = batch.seconds;
            if (fixed != 0 || batch.seconds >= wanted_seconds_) return true;
            found_.batch *= 2;
        }
    }

    bool warm_up() {
        const double most = options_.warmup_seconds.value_or(options_.seconds / 5);
        const std::uint64_t fixed = body_.batch() != 0 ? body_.batch() : options_.batch;
        double spent = last_seconds_;
        double before[2] = {0, 0};
        for (timed_batch batch; spent < most;) {
            if (!trial(found_.batch, batch)) return false;
            spent += batch.seconds;
            last_seconds_ = batch.seconds;
            const auto [low, high] = std::minmax({before[0], before[1], batch.seconds});
            if (low > 0 && high - low <= agreement * low) break;
            before[0] = before[1];
            before[1] = batch.seconds;
            if (fixed == 0 && batch.seconds < wanted_seconds_ / 2) {  // faster now that it is warm
                found_.batch *= 2;
                before[0] = before[1] = 0;
            }
        }
        return true;
    }

    // Before the samples and after them; the least counts: what others do to the machine only adds.
    void measure_floor() {
        for (std::size_t batch = 0; batch < floor_batches; ++batch) {
            const double each = floor_ns();
            if (found_.floor_ns <= 0 || each < found_.floor_ns) found_.floor_ns = each;
        }
    }

    double floor_ns() {
        const std::uint64_t from = monotonic_ns();
        body_.run_floor(found_.batch);
        return static_cast<double>(monotonic_ns() - from) / static_cast<double>(found_.batch);
    }

    void take_samples() {
        std::size_t judge_at = options_.batches_min;
        const std::uint64_t patient_until =
            monotonic_ns() + static_cast<std::uint64_t>(rerun_patience * options_.seconds * 1e9);
        const bool watched = last_seconds_ >= watched_seconds_least;
        if (watched) found_.disturbed.emplace();
        while (found_.samples.size() < samples_most) {
            const bool enough =
                found_.samples.size() >= options_.batches_min || found_.seconds >= overtime * options_.seconds;
            if (enough && found_.seconds >= options_.seconds) return;
            if (watched) static_cast<void>(since_last_());
            const timed_batch batch = time(found_.batch);
            if (stop_sign::is_raised()) {
                if (batch.done == found_.batch) keep(batch);
                return stopped(batch);
            }
            if (watched && was_disturbed() && monotonic_ns() < patient_until) {
                ++found_.disturbed->rerun;  // somebody else ran in the midst of it: taken again
                continue;
            }
            keep(batch);
            found_.count += batch.done;
            found_.seconds += batch.seconds;
            if (found_.samples.size() % samples_a_floor == 1) floors_.push_back(floor_ns());
            if (found_.samples.size() >= judge_at && precise()) return;
            if (found_.samples.size() >= judge_at) judge_at += 1 + judge_at / 10;
        }
    }

    // Asks about the batch that just ended.
    bool was_disturbed() {
        const disturbance now = since_last_();
        found_.disturbed->involuntary_switches += now.involuntary_switches;
        found_.disturbed->steal_seconds += now.steal_seconds;
        if (now.any()) ++found_.disturbed->batches;
        return now.any();
    }

    void keep(const timed_batch& batch) {
        found_.samples.push_back(batch.seconds * 1e9 /
                                 static_cast<double>(batch.done));  // the floor goes off at the end
    }

    bool precise() const {
        if (options_.precision <= 0) return false;
        const interval known = median_interval(found_.samples);
        const double middle = (known.low + known.high) / 2;
        return middle > 0 && (known.high - known.low) / 2 <= options_.precision * middle;
    }

    void warn(const char* code, std::string text) { found_.warnings.push_back({code, std::move(text)}); }

    void describe_all() {
        const double left_ns = left_of(found_.samples, floors_);
        for (double& sample : found_.samples) sample = std::max(sample - found_.floor_ns, 0.0);
        found_.time = describe(found_.samples);
        if (found_.aborted || found_.samples.empty()) return;
        found_.warnings = warnings_of(found_.time);
        warn_if_deleted(left_ns, found_.warnings);
        if (found_.samples.size() < options_.batches_min) {
            warn("few",
                 "only " + std::to_string(found_.samples.size()) +
                     " batches fitted into three times -time: operations are long or the machine is busy; a longer "
                     "-time makes the interval narrower");
        }
        if (found_.time.median * static_cast<double>(found_.batch) * 1e-9 < least_seconds_) {
            warn("resolution",
                 "a batch is shorter than 1000 steps of the clock: each sample is coarse; use larger batches");
        }
        if (found_.disturbed && found_.disturbed->batches > 0) {
            const disturbed_batches& d = *found_.disturbed;
            warn("disturbed", std::to_string(d.batches) + " batches were interrupted by other programs, " +
                                  std::to_string(d.rerun) + " of them taken again" +
                                  (d.batches > found_.samples.size() / 10 ? "; the machine is busy" : ""));
        }
    }

    const test_options& options_;
    body_runner& body_;
    result found_;
    const disturbance_source& since_last_;
    std::vector<double> floors_;  // taken between the samples, ns an operation
    double least_seconds_ = 0, wanted_seconds_ = 0, last_seconds_ = 0;
};

}  // namespace

result measure_batches(const test_options& options, body_runner& body) {
    disturbance_meter meter;
    return measure_batches(options, body, [&meter] { return meter.since_last(); });
}

result measure_batches(const test_options& options, body_runner& body, const disturbance_source& disturbed) {
    return batch_measurement(options, body, disturbed).run();
}

}  // namespace holdfast::perf_test
