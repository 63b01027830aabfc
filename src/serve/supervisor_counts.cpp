// SPDX-License-Identifier: Apache-2.0
// supervisor_counts.cpp - what the supervisor says of its workers in the shared counts.
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "serve/processes.hpp"
#include "serve/supervisor.hpp"

namespace holdfast::serve {

namespace {

constexpr bool is_gauge(std::string_view family) noexcept {
    return family == pid_family || family == started_family || family == open_family || family == engine_family ||
           family == subscribers_family;
}

}  // namespace

void supervisor::make_counts() {
    counts_ = std::make_unique<shared_counts>(shared_counts::open_or_create(options_.name, options_.workers));
    // An earlier supervisor, perhaps of more workers, may have been killed before it could take its gauges back.
    counts_->counters.for_each([&](std::string_view family, std::string_view, std::uint64_t value) {
        if (family == pid_family && value != 0 && is_kept_worker(value) &&
            (predecessor_pid_ == 0 || parent_of(value) != predecessor_pid_))
            throw error(errc::already_exists, options_.name,
                        "process " + std::to_string(value) +
                            " is a worker of another server that counts there; name another segment with --counters");
    });
    if (owner_) zero_gauges();
    bind_gauges();
}

/// Workers attach to the counts by name: without them none would ever start again.
void supervisor::renew_counts() {
    if (!counts_->counters.segment().replaced() && !counts_->latency.segment().replaced()) return;
    counts_ = std::make_unique<shared_counts>(shared_counts::open_or_create(options_.name, options_.workers));
    std::fprintf(stderr, "holdfast serve: the counts in %s were removed; counting anew\n", options_.name.c_str());
    bind_gauges();
    publish_gauges();
}

void supervisor::bind_gauges() {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
        const std::string labels = metric_label("worker", std::to_string(i));
        workers_[i].restarts = counts_->counters.get(restarts_family, labels);
        workers_[i].pid_gauge = counts_->counters.get(pid_family, labels);
        workers_[i].started_gauge = counts_->counters.get(started_family, labels);
        workers_[i].open_gauge = counts_->counters.get(open_family, labels);
    }
}

/// Takes back what was said of workers that are not there; those that are say it again within a moment.
void supervisor::zero_gauges() const {
    std::vector<std::pair<std::string, std::string>> gauges;
    counts_->counters.for_each([&](std::string_view family, std::string_view labels, std::uint64_t) {
        if (is_gauge(family)) gauges.emplace_back(family, labels);
    });
    for (const auto& [family, labels] : gauges) counts_->counters.get(family, labels).set(0);
}

void supervisor::publish_gauges() const {
    if (!owner_) return;
    for (const worker& each : workers_) {
        if (each.pid <= 0) continue;
        each.pid_gauge.set(static_cast<std::uint64_t>(each.pid));
        each.started_gauge.set(each.started_s);
    }
}

}  // namespace holdfast::serve
