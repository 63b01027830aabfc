// SPDX-License-Identifier: Apache-2.0
#include "workload/channel_runs.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "holdfast/perf_test/environment.hpp"
#include "workload/room.hpp"

namespace holdfast::workload {

std::size_t channel_findings::place_of(std::string_view name) const {
    for (std::size_t i = 0; i < kinds.size(); ++i)
        if (kinds[i]->name == name) return i;
    throw std::runtime_error("no subject " + std::string(name));
}

std::optional<channel_findings> channel_runs::run(const channel_plan& plan, std::string_view ours) {
    if (!to_.wants(plan.name)) return std::nullopt;
    if (!names_) names_.emplace(suite_);
    channel_findings found;
    std::vector<const channel_kind*> order;
    for (const channel_kind& kind : kinds_)
        if (is_wanted_subject(to_.options(), kind.name, kind.name.starts_with("holdfast"))) order.push_back(&kind);
    const auto first = std::ranges::find_if(order, [&](const channel_kind* kind) { return kind->name == ours; });
    if (first != order.end()) std::rotate(order.begin(), first, first + 1);

    // A ring each way for each, most of them below /dev/shm, and what is around it.
    const std::uint64_t need = order.size() * 2 * (2 * plan.ring_bytes + (1 << 20));
    if (const std::string lacking = lacking_room({2 * need, need}); !lacking.empty()) {
        to_.skip(plan.name, lacking);
        return std::nullopt;
    }
    const perf_test::cpu_pin pin(cores_.near);
    std::vector<std::unique_ptr<channel_subject>> channels;
    std::vector<two_sided_subject> subjects;
    std::vector<std::string> names;
    for (const channel_kind* const kind : order) {
        auto channel = kind->make(plan.message_bytes, {.ring_bytes = plan.ring_bytes,
                                                       .name = names_->prefix() + "-" + std::to_string(made_++),
                                                       .batch = plan.batch,
                                                       .far_cpu = cores_.far});
        if (!channel || (plan.loop == channel_loop::publish && !kind->lossy)) continue;
        channel->open_and_verify(plan.loop == channel_loop::echo);
        channel_subject* const c = channel.get();
        const auto run = [c, loop = plan.loop](std::uint64_t count) {
            switch (loop) {
                case channel_loop::stream: return c->stream(count);
                case channel_loop::add_up: return c->add_up(count);
                case channel_loop::echo: return c->echo(count);
                case channel_loop::publish: break;
            }
            return c->publish(count);
        };
        subjects.push_back({kind->name, &c->far(), run});
        names.push_back(kind->name + (plan.loop == channel_loop::add_up && kind->in_place ? ", in place" : ""));
        found.kinds.push_back(kind);
        channels.push_back(std::move(channel));
    }
    two_sided_options timing = two_sided_timing(to_.options());
    timing.operations_min = std::max<std::uint64_t>(timing.operations_min, plan.batch);
    found.timed = measure_two_sided(subjects, timing);
    for (const auto& channel : channels) {
        found.lost.push_back(channel->lost());
        found.sent.push_back(channel->published());
    }
    auto samples = found.timed.samples;
    if (plan.loop == channel_loop::echo) {
        names.emplace_back("one cache line there and back, nothing else");
        samples.push_back(found.timed.line_ns);
        names.emplace_back("a cache line each way, nothing else");
        samples.push_back(found.timed.two_lines_ns);
    }
    to_.add(plan.name, "ns", names, samples, false, {.published = plan.published});
    to_.note(plan.name + ": " + line_text(found.timed));
    for (const published_figure& one : plan.published)
        note_if_any(to_, beside_published_text(plan.name, found.timed.samples.front(), one));
    return found;
}

std::string best_peer_text(const std::string& what, const channel_findings& found, std::size_t ours,
                           std::optional<std::size_t> best, double times, const std::string& whom) {
    std::string text = "target: " + what + " at least " + fixed_text(times, 1) + " times as fast as the fastest of " +
                       whom + ", by its median";
    if (!best) return text + ": none is here to compare with";
    const double ratio = times_faster(found.timed.samples[ours], found.timed.samples[*best]);
    return text + ": " + fixed_text(ratio, 2) + " times " + found.kinds[*best]->name + verdict(ratio >= times);
}

std::string round_trip_text(const std::string& what, const channel_findings& found) {
    const double one = times_faster(found.timed.line_ns, found.timed.samples[0]);
    const double two = times_faster(found.timed.two_lines_ns, found.timed.samples[0]);
    return "target: " + what + " in at most 1.2 times a bare line's time: " + fixed_text(one, 2) +
           " times that of one line stored to by both sides" + verdict(one <= 1.2) + ", " + fixed_text(two, 2) +
           " times that of a line each way, which is the least for two channels" + verdict(two <= 1.2);
}

}  // namespace holdfast::workload
