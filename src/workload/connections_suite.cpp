// SPDX-License-Identifier: Apache-2.0
#include "workload/connections_suite.hpp"

#include <signal.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "holdfast/perf_test/environment.hpp"
#include "workload/command.hpp"
#include "workload/connections/connection_run.hpp"
#include "workload/connections/forked_process.hpp"
#include "workload/http_load/interruption.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

namespace {

using connections::interval_found;
using connections::run_found;
using connections::run_plan;

constexpr double user_bytes_target = 256;
constexpr std::size_t published_connections = 600'000;
constexpr double published_answers_per_second = 18'760;
constexpr const char* http_kit_source =
    "http-kit, 600k concurrent HTTP connections: one PC, the client on it as well, a heap of 3 GB";

/// 600000 as 600,000.
std::string grouped(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0) text += ',';
        text += digits[i];
    }
    return text;
}

struct connection_line {
    std::size_t count = 0;
    bool quick = false;

    [[nodiscard]] std::string text() const {
        return grouped(count) + " connections" + (quick ? ", a hundredth of the idle times" : "");
    }
    [[nodiscard]] std::string named(const char* what) const { return text() + ": " + what; }
};

struct figure {
    const char* name;
    const char* unit;
    bool higher_is_better;
    std::function<std::vector<double>(const run_found&)> samples;
    double published = 0;  // of http-kit, at published_connections; 0: none
};

std::vector<double> answers_per_second(const run_found& found) {
    std::vector<double> samples;
    for (const interval_found& one : found.intervals) samples.push_back(static_cast<double>(one.answers) / one.seconds);
    return samples;
}

std::function<std::vector<double>(const run_found&)> of_each(double interval_found::* what) {
    return [what](const run_found& found) {
        std::vector<double> samples;
        for (const interval_found& one : found.intervals) samples.push_back(one.*what);
        return samples;
    };
}

const std::vector<figure>& figures() {
    static const std::vector<figure> all{
        {"opened", "connections/s", true,
         [](const run_found& found) {
             return std::vector<double>{static_cast<double>(found.opened) / found.opening_seconds};
         },
         static_cast<double>(published_connections) / 183},
        {"answers", "answers/s", true, answers_per_second, published_answers_per_second},
        {"server's memory a connection", "bytes", false, of_each(&interval_found::user_bytes)},
        {"server's memory in all, a connection", "bytes", false, of_each(&interval_found::user_bytes_in_all)},
        {"kernel's memory a connection, both ends", "bytes", false, of_each(&interval_found::kernel_bytes)},
        {"server time an answer", "us", false, of_each(&interval_found::server_us)},
        {"requests of 10 busy connections meanwhile", "requests/s", true,
         [](const run_found& found) {
             return found.busy.answers == 0
                        ? std::vector<double>()
                        : std::vector<double>{static_cast<double>(found.busy.answers) / found.busy.seconds};
         },
         31'400},
        {"p50", "us", false, of_each(&interval_found::p50_us)},
        {"p99", "us", false, of_each(&interval_found::p99_us)},
        {"p99.9", "us", false, of_each(&interval_found::p999_us)},
    };
    return all;
}

std::chrono::milliseconds held_for() {
    const char* const text = std::getenv("HOLDFAST_CONNECTIONS_SECONDS");
    if (text == nullptr || *text == '\0') return std::chrono::seconds(60);
    unsigned seconds = 0;
    const std::string_view word(text);
    const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), seconds);
    if (code != std::errc{} || end != word.data() + word.size() || seconds < 1 || seconds > 86'400)
        throw usage_error("HOLDFAST_CONNECTIONS_SECONDS=" + std::string(word) + ": is a number from 1 to 86400");
    return std::chrono::seconds(seconds);
}

/// What a step takes beyond the figures, in words.
std::string account_of(const connection_line& line, const std::string& who, const run_plan& plan,
                       const run_found& found) {
    double seconds = 0, client_us = 0, bytes = 0;
    for (const interval_found& one : found.intervals) {
        seconds += one.seconds;
        bytes += static_cast<double>(one.body_bytes);
        client_us += one.client_us / static_cast<double>(found.intervals.size());
    }
    std::string text = line.text() + ", " + who + ": " + grouped(found.opened) + " opened in " +
                       fixed_text(found.opening_seconds, 1) + " s, " + grouped(found.refused) + " refused";
    if (!found.refusal.empty()) text += " (" + found.refusal + ")";
    text += ", " + grouped(found.lost) + " lost, " + grouped(found.timed_out) + " without an answer in time; " +
            std::to_string(plan.spread.servers) + " server and " + std::to_string(plan.spread.clients) +
            " client processes; " + fixed_text(bytes / seconds / 1e6, 1) + " MB/s of bodies over " +
            fixed_text(seconds, 0) + " s, all compared; the client took " + fixed_text(client_us, 1) +
            " us of processor time an answer";
    if (!found.kernel_objects.empty()) text += "; bytes of the kernel's objects a connection: " + found.kernel_objects;
    return text;
}

class connection_steps {
 public:
    connection_steps(const std::vector<connections::subject>& subjects, recorder& to)
        : to_(to), descriptors_(connections::descriptors_max()) {
        for (const connections::subject& one : subjects)
            if (is_wanted_subject(to.options(), one.name, one.ours)) subjects_.push_back(&one);
        try {
            own_.emplace();
            own_->raise_loopback();
        } catch (const std::system_error& refused) {
            own_.reset();
            to.note(std::string("in the network namespace of this process: ") + refused.what());
        }
        there_ = [this](const std::function<void()>& act) { own_ ? own_->within(act) : act(); };
    }

    void run(const connection_line& line) {
        run_plan plan{.spread = connections::plan_processes(line.count, descriptors_, perf_test::usable_cpus().size())};
        plan.interval = held_for() / static_cast<int>(plan.intervals);
        if (line.quick) {
            plan.idle = {.least = plan.idle.least / 100, .most = plan.idle.most / 100};
            plan.settle = std::chrono::milliseconds(100);
            plan.interval = std::chrono::milliseconds(100);
            plan.busy_requests = 2'000;
        }
        std::vector<std::string> names;
        std::vector<run_found> all;
        for (const connections::subject* const who : subjects_) {
            const std::optional<run_found> found = run(line, plan, *who);
            if (!found) continue;
            names.push_back(who->name);
            all.push_back(*found);
        }
        if (!all.empty()) report(line, plan, names, all);
    }

 private:
    std::optional<run_found> run(const connection_line& line, const run_plan& plan, const connections::subject& who) {
        const std::string what = line.text() + ", " + who.name;
        try {
            connections::machine_facts machine;
            there_([&] { machine = connections::look_at_machine(own_.has_value()); });
            if (const auto lacks = connections::lacks_of(plan.spread, machine); !lacks.empty()) {
                std::string text = line.text() + ": ";
                for (const std::string& one : lacks) text += (&one == &lacks.front() ? "" : "; ") + one;
                to_.skip(who.name, text);
                return std::nullopt;
            }
            to_.version(who.name, who.version());
            const auto progress = [&](std::string_view told) { to_.progress(what + ": " + std::string(told)); };
            run_found found = connections::run_connections(who, plan, there_, progress);
            to_.progress({});
            to_.note(account_of(line, who.name, plan, found));
            to_.note(what + ": " + who.how);
            return found;
        } catch (const connections::unavailable& reason) {
            to_.skip(who.name, reason.what());
        } catch (const http::interrupted&) {
            throw;
        } catch (const std::exception& failure) {
            to_.progress({});
            if (who.ours) throw std::runtime_error(what + ": " + failure.what());
            to_.skip(who.name, line.text() + ": " + failure.what());
        }
        return std::nullopt;
    }

    void report(const connection_line& line, const run_plan& plan, const std::vector<std::string>& names,
                const std::vector<run_found>& all) {
        for (const figure& one : figures()) {
            if (!to_.wants(line.named(one.name))) continue;
            std::vector<std::vector<double>> samples;
            for (const run_found& found : all) samples.push_back(one.samples(found));
            sample_context context{.unpaired = true};
            if (one.published != 0 && line.count == published_connections)
                context.published = {{"http-kit", one.published, one.unit, http_kit_source}};
            to_.add(line.named(one.name), one.unit, names, samples, one.higher_is_better, context);
        }
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (!is_ours(names[i])) continue;
            note_held_target(line, names[i], all[i]);
            note_busy_target(line, plan, names[i], all[i].busy);
            const double bytes = median_of(of_each(&interval_found::user_bytes)(all[i]));
            to_.note("target: " + line.text() + ", " + names[i] + " in at most " + fixed_text(user_bytes_target, 0) +
                     " bytes of its own a connection: " + fixed_text(bytes, 0) + " bytes" +
                     verdict(bytes <= user_bytes_target));
        }
    }

    void note_held_target(const connection_line& line, const std::string& who, const run_found& found) {
        to_.note("target: " + line.text() + ", " + who + ", all held and answered: " + grouped(found.opened) +
                 " opened, " + grouped(found.refused) + " refused, " + grouped(found.lost) + " lost, " +
                 grouped(found.timed_out) + " without an answer in time" +
                 verdict(found.opened == line.count && found.refused + found.lost + found.timed_out == 0));
        if (line.count != published_connections) return;
        const double rate = median_of(answers_per_second(found));
        to_.note("target: " + line.text() + ", " + who + ", at least the published " +
                 fixed_text(published_answers_per_second, 0) + " answers a second: " + fixed_text(rate, 0) +
                 verdict(rate >= published_answers_per_second));
    }

    [[nodiscard]] bool is_ours(const std::string& name) const {
        return std::ranges::any_of(subjects_,
                                   [&](const connections::subject* one) { return one->ours && one->name == name; });
    }

    void note_busy_target(const connection_line& line, const run_plan& plan, const std::string& who,
                          const connections::busy_found& found) {
        std::string text = "target: " + line.text() + ", " + who + ", " + grouped(plan.busy_requests) +
                           " requests from " + std::to_string(connections::busy_connections) +
                           " more connections meanwhile, none failed: " + grouped(found.answers) + " answered, ";
        if (!found.failure.empty()) text += found.failure + ", ";
        to_.note(text + grouped(found.lost) + " of those held were lost meanwhile" +
                 verdict(found.none_failed(plan.busy_requests)));
    }

    recorder& to_;
    std::size_t descriptors_;
    std::vector<const connections::subject*> subjects_;
    std::optional<network_namespace> own_;
    connections::somewhere there_;
};

std::vector<connection_line> lines_of(bool quick) {
    if (quick) return {{5'000, true}};
    return {{10'000}, {100'000}, {published_connections}, {1'000'000}};
}

}  // namespace

std::vector<connections::subject> own_connection_subjects() {
    return {connections::net_epoll(), connections::net_io_uring()};
}

suite connections_suite(std::vector<connections::subject> subjects) {
    suite s;
    s.name = "connections";
    s.description =
        "10,000 to 1,000,000 connections that ask, idle 5 to 45 s and ask again: held, memory of each, latency";
    s.run = [subjects = std::move(subjects)](recorder& to) {
        std::vector<connection_line> lines;
        for (const connection_line& line : lines_of(to.options().quick)) {
            bool wanted = false;
            for (const figure& one : figures()) wanted = to.wants(line.named(one.name)) || wanted;
            if (wanted) lines.push_back(line);
        }
        if (lines.empty()) return;
        int signal = 0;
        {
            const http::interruption_watch watch;
            try {
                connection_steps steps(subjects, to);
                for (const connection_line& line : lines) steps.run(line);
            } catch (const http::interrupted& e) {
                signal = e.signal;
            }
        }
        if (signal != 0) ::raise(signal);  // all processes are gone; now it does what it does to any program
        if (signal != 0) throw http::interrupted(signal);  // unless the program ignores it
    };
    return s;
}

}  // namespace holdfast::workload
