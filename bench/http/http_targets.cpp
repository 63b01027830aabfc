// SPDX-License-Identifier: Apache-2.0
#include "http/http_targets.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "http/two_workers.hpp"

namespace holdfast::bench::http {

namespace {

constexpr const char* engines[] = {net_epoll_name, net_io_uring_name};
constexpr const char* all_of_ours[] = {net_epoll_name, net_io_uring_name, serve_epoll_name, serve_io_uring_name};

/// The samples in nanoseconds, those of `ours` first; nothing if it was not timed.
std::optional<workload::sampled> led_by(const std::string& ours, const server_times& found) {
    const auto at = static_cast<std::size_t>(std::ranges::find(found.names, ours) - found.names.begin());
    if (at == found.names.size() || found.us[at].empty()) return std::nullopt;
    workload::sampled all;
    all.names = found.names;
    for (const std::vector<double>& each : found.us) {
        all.samples.emplace_back();
        for (const double us : each) all.samples.back().push_back(us * 1e3);
    }
    std::swap(all.names[0], all.names[at]);
    std::swap(all.samples[0], all.samples[at]);
    return all;
}

bool is_peer(const std::string& name) { return name != floor_name && !is_ours(name); }

/// The peer that needs the least time; nothing without one.
std::optional<std::string> best_peer(const workload::sampled& all) {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < all.names.size(); ++i)
        if (is_peer(all.names[i]) && all.timed(i) &&
            (!best || workload::median_of(all.samples[i]) < workload::median_of(all.samples[*best])))
            best = i;
    return best ? std::optional(all.names[*best]) : std::nullopt;
}

std::string of(const std::string& workload, const char* subject) { return workload + ", " + subject; }

}  // namespace

bool is_ours(std::string_view name) { return std::ranges::find(all_of_ours, name) != std::end(all_of_ours); }

void note_reply_targets(const std::string& workload, const server_times& found, workload::recorder& to) {
    using workload::at_least_text, workload::at_most_text, workload::note_if_any;
    if (const auto all = led_by(net_io_uring_name, found))
        note_if_any(to, at_least_text(of(workload, net_io_uring_name), *all, floor_name, 1.15));
    if (const auto all = led_by(net_epoll_name, found))
        note_if_any(to, at_most_text(of(workload, net_epoll_name), *all, floor_name, 1.06));
    for (const char* const ours : engines)
        if (const auto all = led_by(ours, found))
            if (const auto peer = best_peer(*all))
                note_if_any(to, at_least_text(of(workload, ours) + ", beside the best peer,", *all, *peer, 1.25));
    // It looks its answer up in shared memory, the other by the same engine has it.
    for (const auto& [serve, fixed] :
         {std::pair(serve_epoll_name, net_epoll_name), std::pair(serve_io_uring_name, net_io_uring_name)})
        if (const auto all = led_by(serve, found))
            note_if_any(to, at_most_text(of(workload, serve), *all, fixed, 1.15));
}

void note_pipeline_targets(const std::string& workload, const server_times& found, workload::recorder& to) {
    constexpr double most_us = 0.35;
    for (const char* const ours : engines) {
        const auto all = led_by(ours, found);
        if (!all) continue;
        const double us = workload::median_of(all->samples[0]) / 1e3;
        to.note("target: " + of(workload, ours) + " in at most " + workload::fixed_text(most_us, 2) +
                " us: " + workload::fixed_text(us, 2) + " us" + workload::verdict(us <= most_us));
    }
}

void note_client_targets(const std::string& workload, const server_times& found, workload::recorder& to) {
    for (const std::string ours : all_of_ours)
        if (const auto all = led_by(client_of(ours), found))
            workload::note_if_any(to, workload::at_most_text(workload + ", " + client_of(ours), *all, ours, 1.0));
}

void note_worker_targets(const std::string& workload, const std::vector<std::string>& subjects,
                         const server_times& found, workload::recorder& to) {
    for (const std::string& each : subjects)
        if (const auto all = led_by(with_workers(each, 2), found))
            workload::note_if_any(
                to, workload::at_most_text(workload + ", " + all->names[0], *all, with_workers(each, 1), 1.1));
}

}  // namespace holdfast::bench::http
