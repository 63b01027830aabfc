// SPDX-License-Identifier: Apache-2.0
// A round is a growth to twice the capacity and one back, while the writer that leads it updates random keys; beside it
// as many updates at rest. Each operation is timed by itself, so each time has a read of the clock in it. Operations go
// by some hundred; those of a hundred during which somebody else had the processor are left out. In rounds of their own
// somebody else is timed in the same way, on another processor: a reader, and a writer that does not lead.
#include "workload/hash_table_growth.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "holdfast/perf_test/statistics.hpp"
#include "workload/far_side.hpp"
#include "workload/hash_table_own.hpp"
#include "workload/hash_table_subject.hpp"
#include "workload/keys.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

namespace {

using clock = std::chrono::steady_clock;
using value = table_value<1>;
using table_of_one = growing_hash_table<std::uint64_t, value>;
using reader_of_one = growing_hash_table_reader<std::uint64_t, value>;
using table_of_many = hash_table<std::uint64_t, value, writers::many>;

constexpr double pause_us_max = 200;  // p99.9 of what nobody disturbed
struct named_quantile {
    const char* name;
    double part;
};
constexpr named_quantile quantiles[] = {{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}, {"the longest", 1}};
constexpr std::size_t samples_min = 10'000;  // ten of them lie above the p99.9

[[nodiscard]] double us_since(clock::time_point start) {
    return std::chrono::duration<double, std::micro>(clock::now() - start).count();
}

/// Random keys of a table, one after the other.
class timed_keys {
 public:
    explicit timed_keys(std::span<const std::uint64_t> present, std::uint64_t seed = 6)
        : asked_(draw(present, questions_for(present.size()), seed)) {}

    /// operate(key) for one after the other until done() says so. Returns: the microseconds of each that nobody
    /// disturbed. Throws: std::runtime_error when one is false.
    template <class Operate, class Done>
    std::vector<double> run(Operate&& operate, Done&& done) {
        constexpr unsigned together = 500;
        std::vector<double> undisturbed, latest;
        perf_test::disturbance_meter meter;
        while (!done()) {
            (void)meter.since_last();
            latest.clear();
            for (unsigned i = 0; i < together && !done(); ++i) {
                const std::uint64_t key = asked_[at_++ % asked_.size()];
                const auto start = clock::now();
                const bool there = operate(key);
                latest.push_back(us_since(start));
                if (!there) throw std::runtime_error("a key was not found while its table grew");
            }
            if (!meter.since_last().any()) undisturbed.insert(undisturbed.end(), latest.begin(), latest.end());
        }
        return undisturbed;
    }

 private:
    std::vector<std::uint64_t> asked_;
    std::size_t at_ = 0;
};

/// What the rounds of one subject gave: a sample of each quantile for each round, and of the call that begins.
struct seen {
    std::string name;
    std::array<std::vector<double>, std::size(quantiles)> of_quantile{};
    std::vector<double> begins{};

    void add(std::vector<double> us) {
        if (us.size() < samples_min) return;
        std::ranges::sort(us);
        for (std::size_t q = 0; q < std::size(quantiles); ++q)
            of_quantile[q].push_back(perf_test::percentile_of_sorted(us, quantiles[q].part));
    }
};

template <class Table>
[[nodiscard]] Table filled(const std::string& uri, std::span<const std::uint64_t> present,
                           const hash_table_options& options) {
    Table table = Table::create(uri, options);
    for (const std::uint64_t key : present)
        if (!table.try_insert(key, value_of<value>(key)))
            throw std::runtime_error("holdfast refused an insert before it held what it was made for");
    return table;
}

template <class Table>
[[nodiscard]] auto updates_of(Table& table) {
    return [&table](std::uint64_t key) { return static_cast<bool>(table.update(key, value_of<value>(key))); };
}

template <class Table>
void grow_and_shrink(Table& table, timed_keys& keys, seen& to) {
    const std::uint64_t small = table.geometry().capacity;
    std::vector<double> all;
    for (const std::uint64_t capacity : {2 * small, small}) {
        const auto start = clock::now();
        table.grow(capacity);
        to.begins.push_back(us_since(start));
        const std::vector<double> some = keys.run(updates_of(table), [&] { return !table.growing(); });
        if (table.growth_failure()) throw *table.growth_failure();
        all.insert(all.end(), some.begin(), some.end());
    }
    to.add(std::move(all));
}

template <class Operate>
void rest(Operate operate, timed_keys& keys, seen& to) {
    std::uint64_t left = 5 * samples_min;
    to.add(keys.run(operate, [&] { return left == 0 || --left == 0; }));
}

/// One growth and back led by this thread, which is not timed, beside who is: operate(key), in a thread of its own.
template <class Table, class Operate>
void grow_beside(Table& table, timed_keys& leading, const two_cores& cores, Operate operate, timed_keys& keys,
                 seen& to) {
    std::exception_ptr failed;
    std::vector<double> times;
    {
        const std::jthread other([&](const std::stop_token& over) {
            try {
                const perf_test::cpu_pin tied(cores.far);
                times = keys.run(operate, [&] { return over.stop_requested(); });
            } catch (...) {
                failed = std::current_exception();
            }
        });
        const perf_test::cpu_pin tied(cores.near);
        seen untold{""};
        grow_and_shrink(table, leading, untold);
    }
    if (failed) std::rethrow_exception(failed);
    to.add(std::move(times));
}

void tell(const std::string& name, const std::vector<std::pair<const seen*, const std::vector<double>*>>& all,
          recorder& to) {
    if (!to.wants(name)) return;
    std::vector<std::string> names;
    std::vector<std::vector<double>> samples;
    for (const auto& [subject, of] : all) {
        if (of->empty()) {
            to.skip(subject->name + ": " + name, "somebody else had the processor in each round");
            continue;
        }
        names.push_back(subject->name);
        samples.push_back(*of);
    }
    if (!names.empty()) to.add(name, "us", names, samples, false);
}

}  // namespace

void measure_growth(std::uint64_t entries, page_choice pages, const std::string& size_text, recorder& to) {
    const auto name_of = [&](const char* what, const named_quantile& q) {
        return std::string(what) + " while the table grows, " + q.name + ", " + size_text;
    };
    const std::string call = "the call that begins a growth, " + size_text;
    bool wanted = to.wants(call);
    for (const char* what : {"update", "find hit"})
        for (const named_quantile& q : quantiles) wanted = to.wants(name_of(what, q)) || wanted;
    if (!wanted) return;
    // Two tables, of which one has a generation of twice the size beside itself.
    const std::uint64_t bytes = entries * 24 * 4;
    if (const std::string lacking = lacking_room({.memory_bytes = bytes, .shared_bytes = bytes}); !lacking.empty())
        return to.skip("update while the table grows, " + size_text, lacking);
    const std::vector<std::uint64_t> present = make_keys(entries, entries);
    timed_keys updates(present), others(present, 7);
    const hash_table_options options = table_options_for(entries, pages);
    const run_names names("growth");
    const std::string uri = "posix:/" + names.prefix();
    auto one = filled<table_of_one>(uri + "-one", present, options);
    auto many = filled<table_of_many>(uri + "-many", present, options);
    if (!perf_test::disturbance_meter().sees_steal())
        to.note("growth, " + size_text + ": the system does not tell stolen time, so none was left out");
    seen grows{"holdfast, while it grows"}, shared{"holdfast, of many writers, while it grows"},
        still{"holdfast, at rest"}, second{"holdfast, of many writers, one that does not lead"};
    seen reads{"holdfast, while it grows"}, reads_still{"holdfast, at rest"};
    const two_cores cores = pick_two_cores();
    if (!cores.there)
        to.skip("another writer, and a reader, while the table grows, " + size_text,
                "this process may use one processor only");
    const auto pages_now = [&] { return std::pair(use_of(one.segment()), use_of(many.segment())); };
    const auto at_first = pages_now();
    const std::size_t rounds = to.options().quick || entries > 2'000'000 ? 2 : 10;
    for (std::size_t round = 0; round < rounds; ++round) {
        grow_and_shrink(one, updates, grows);
        rest(updates_of(one), updates, still);
        grow_and_shrink(many, updates, shared);
        if (!cores.there) continue;
        // Attached for this only: what they map is not freed by those above.
        auto reader = reader_of_one::attach(uri + "-one");
        const auto find = [&reader](std::uint64_t key) { return reader.find(key).has_value(); };
        rest(find, others, reads_still);
        grow_beside(one, updates, cores, find, others, reads);
        auto follower = table_of_many::attach(uri + "-many");
        grow_beside(many, updates, cores, updates_of(follower), others, second);
    }
    if (pages == page_choice::huge) {
        const auto moved = pages_now();
        to.note(huge_pages_text("growth, " + size_text, {{"the table at first", at_first.first},
                                                         {"once moved", moved.first},
                                                         {"that of many writers at first", at_first.second},
                                                         {"once moved", moved.second}}));
    }
    const auto tell_quantiles = [&](const char* what, const std::vector<const seen*>& all, const seen& at_rest) {
        for (std::size_t q = 0; q < std::size(quantiles); ++q) {
            const std::string name = name_of(what, quantiles[q]);
            std::vector<std::pair<const seen*, const std::vector<double>*>> samples;
            for (const seen* subject : all) samples.emplace_back(subject, &subject->of_quantile[q]);
            samples.emplace_back(&at_rest, &at_rest.of_quantile[q]);
            tell(name, samples, to);
            if (quantiles[q].part != 0.999 || !to.wants(name)) continue;
            for (const seen* subject : all) {
                if (subject->of_quantile[q].empty()) continue;
                const double us = median_of(subject->of_quantile[q]);
                to.note("target: " + name + ", " + subject->name + " at most " + fixed_text(pause_us_max, 0) +
                        " us: " + fixed_text(us, 1) + verdict(us <= pause_us_max));
            }
        }
    };
    std::vector<const seen*> writers{&grows, &shared};
    if (cores.there) writers.push_back(&second);
    tell_quantiles("update", writers, still);
    if (cores.there) tell_quantiles("find hit", {&reads}, reads_still);
    tell(call, {{&grows, &grows.begins}, {&shared, &shared.begins}}, to);
}

}  // namespace holdfast::workload
