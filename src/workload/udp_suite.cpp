// SPDX-License-Identifier: Apache-2.0
#include "workload/udp_suite.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/net/server.hpp"
#include "workload/targets.hpp"
#include "workload/udp_traffic.hpp"

namespace holdfast::workload {

namespace {

constexpr std::array<std::size_t, 4> sizes{5, 512, 1400, 60'000};
constexpr const char* plain_name = "recvfrom, sent by sendto";

/// With ours by io_uring as well, where this process may use it.
std::vector<udp_way> with_ring(std::vector<udp_way> ways) {
    if (net::io_uring_lack().empty())
        ways.push_back({"holdfast::net, by io_uring", udp_receiving::by_ring, udp_sending::by_train});
    return ways;
}

// Ours first; then the published loop, then what tells the two ends of ours apart.
const std::vector<udp_way>& one_receiver() {
    static const std::vector<udp_way> ways = with_ring({
        {"holdfast::net", udp_receiving::by_train, udp_sending::by_train},
        {plain_name, udp_receiving::by_recvfrom, udp_sending::by_sendto},
        {"recvfrom, sent in trains", udp_receiving::by_recvfrom, udp_sending::by_train},
        {"holdfast::net, sent by sendto", udp_receiving::by_train, udp_sending::by_sendto},
    });
    return ways;
}

const std::vector<udp_way>& two_receivers() {
    using net::udp_spread;
    static const std::vector<udp_way> ways{
        {"holdfast::net", udp_receiving::by_train, udp_sending::by_train, udp_spread::by_cpu},
        {"holdfast::net, spread by flow", udp_receiving::by_train, udp_sending::by_train, udp_spread::by_flow},
        {plain_name, udp_receiving::by_recvfrom, udp_sending::by_sendto, udp_spread::by_flow},
        {"recvfrom, sent by sendto, spread by CPU", udp_receiving::by_recvfrom, udp_sending::by_sendto,
         udp_spread::by_cpu},
    };
    return ways;
}

struct udp_line {
    std::size_t bytes = 0;
    std::size_t receivers = 1;
    bool cable = false;

    [[nodiscard]] std::string text() const {
        return std::to_string(bytes) + " bytes, " + (cable ? "from namespace to namespace" : "loopback") +
               (receivers == 1 ? "" : ", two receivers and two senders of 16 flows");
    }
    [[nodiscard]] std::string rate() const { return "received: " + text(); }
    [[nodiscard]] std::string cpu() const { return "receiver's time a datagram: " + text(); }
};

std::vector<udp_line> all_lines() {
    std::vector<udp_line> lines;
    for (const bool cable : {false, true}) {
        for (const std::size_t bytes : sizes) lines.push_back({bytes, 1, cable});
        for (const std::size_t bytes : {5U, 1400U}) lines.push_back({bytes, 2, cable});
    }
    return lines;
}

/// What others found for one thread with a plain loop.
std::vector<published_figure> published_of(const udp_line& line) {
    struct row {
        std::size_t bytes;
        double laptop, cloud, hosts;  // 0: none
    };
    constexpr std::array rows{row{5, 330e3, 210e3, 120e3}, row{512, 320e3, 200e3, 0}, row{1400, 0, 0, 80e3},
                              row{60'000, 100e3, 43e3, 0}};
    std::vector<published_figure> found;
    if (line.receivers != 1) return found;
    const auto add = [&](double value, const char* subject, const char* source) {
        if (value != 0) found.push_back({subject, value, "datagrams/s", source});
    };
    for (const row& one : rows) {
        if (one.bytes != line.bytes) continue;
        if (line.cable) {
            add(one.hosts, "a loop of one thread, between two hosts", "measured limit of one receiving thread");
        } else {
            add(one.laptop, "a loop of one thread, laptop", "measured limit of one receiving thread, loopback");
            add(one.cloud, "a loop of one thread, cloud VM", "measured limit of one receiving thread, loopback");
        }
    }
    return found;
}

class udp_runs {
 public:
    udp_runs(const two_cores& cores, recorder& to) : cores_(cores), to_(to) {
        const double seconds = to.options().quick ? std::min(to.options().seconds, 0.15) : to.options().seconds;
        if (seconds < 0.01) rounds_ = 1;  // a trial
        turn_ = std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9 / static_cast<double>(rounds_)));
    }

    void run(const std::vector<udp_line>& lines) {
        for (const udp_line& line : lines) {
            if (line.cable && !cable_ && !lay_cable()) return;
            if (line.receivers == 2 && cores_.near % 2 == cores_.far % 2) {
                to_.skip(line.rate(),
                         "the two processors that this run may use have numbers that are both even or both "
                         "odd, so that one of two receivers would get all");
                continue;
            }
            measure(line);
        }
    }

 private:
    [[nodiscard]] bool lay_cable() {
        try {
            cable_ = std::make_unique<veth_pair>();
            return true;
        } catch (const std::system_error& refused) {
            to_.skip("from namespace to namespace", refused.what() + std::string("; run as root"));
            return false;
        }
    }

    [[nodiscard]] udp_course course_of(const udp_line& line) const {
        udp_course course;
        course.cable = line.cable ? cable_.get() : nullptr;
        course.datagram_bytes = line.bytes;
        if (line.receivers == 1) {
            course.cpus = {cores_.near};
            course.sender_cpus = {cores_.far};
        } else {  // receiver i is for the processors whose number is i modulo 2
            const bool near_is_even = cores_.near % 2 == 0;
            course.cpus = {near_is_even ? cores_.near : cores_.far, near_is_even ? cores_.far : cores_.near};
            course.sender_cpus = course.cpus;
            course.flows = 16;
        }
        return course;
    }

    void measure(const udp_line& line) {
        const udp_course course = course_of(line);
        const std::vector<udp_way>& all = line.receivers == 1 ? one_receiver() : two_receivers();
        std::vector<std::unique_ptr<udp_traffic>> made;
        std::vector<std::string> names, units;
        for (const udp_way& way : all) {
            if (!is_wanted_subject(to_.options(), way.name, &way == &all.front())) continue;
            made.push_back(std::make_unique<udp_traffic>(way, course));
            names.push_back(way.name);
            // A receiver that takes no trains is given each datagram by itself.
            const bool joined = way.sending == udp_sending::by_train && way.receiving != udp_receiving::by_recvfrom;
            units.emplace_back(joined ? "trains" : "datagrams");
        }
        std::vector<std::vector<double>> rates(made.size()), cpu(made.size());
        std::vector<udp_turn> totals(made.size());
        for (std::size_t round = 0; round < rounds_; ++round)
            for (std::size_t turn = 0; turn < made.size(); ++turn) {
                const std::size_t i = (round + turn) % made.size();
                const udp_turn one = made[i]->run(turn_);
                rates[i].push_back(one.rate_hz);
                cpu[i].push_back(one.receiver_cpu_ns);
                totals[i].sent += one.sent;
                totals[i].received += one.received;
                totals[i].dropped += one.dropped;
            }
        if (to_.wants(line.rate()))
            to_.add(line.rate(), "datagrams/s", names, rates, true, {.published = published_of(line)});
        if (to_.wants(line.cpu())) to_.add(line.cpu(), "ns", names, cpu, false);
        note_losses(line, names, units, totals, made.front()->buffer_bytes());
    }

    void note_losses(const udp_line& line, const std::vector<std::string>& names, const std::vector<std::string>& units,
                     const std::vector<udp_turn>& totals, std::size_t buffer_bytes) {
        std::string text =
            line.text() + ": lost on the way, with queues of " + std::to_string(buffer_bytes) + " bytes:";
        for (std::size_t i = 0; i < names.size(); ++i) {
            const udp_turn& one = totals[i];
            const std::uint64_t lost = one.sent - one.received;
            const double share = one.sent == 0 ? 0 : 100 * static_cast<double>(lost) / static_cast<double>(one.sent);
            text += (i == 0 ? " " : "; ") + names[i] + " " + std::to_string(lost) + " of " + std::to_string(one.sent) +
                    " (" + fixed_text(share, 1) + " %; the kernel tells of " + std::to_string(one.dropped) + " " +
                    units[i] + ")";
        }
        to_.note(text);
    }

    const two_cores cores_;
    recorder& to_;
    std::size_t rounds_ = 7;
    std::chrono::nanoseconds turn_{};
    std::unique_ptr<veth_pair> cable_;
};

}  // namespace

suite udp_suite() {
    suite s;
    s.name = "udp";
    s.description =
        "datagrams of 5 bytes to 60 kB to one and two threads, over loopback and between two network namespaces";
    s.run = [](recorder& to) {
        std::vector<udp_line> lines;
        for (const udp_line& line : all_lines()) {
            const bool rate = to.wants(line.rate());  // both are asked: who lists the experiments hears of both
            if (to.wants(line.cpu()) || rate) lines.push_back(line);
        }
        if (lines.empty()) return;
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("udp", "it takes two processors, one for each side");
        udp_runs(cores, to).run(lines);
    };
    return s;
}

}  // namespace holdfast::workload
