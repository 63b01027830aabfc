// SPDX-License-Identifier: Apache-2.0
// A round is a growth to twice the capacity and one back, while the writer that leads it updates random keys; beside it
// as many updates at rest. Each operation is timed by itself, so each time has a read of the clock in it. Operations go
// by some hundred; those of a hundred during which somebody else had the processor are left out.
#include "workload/hash_table_growth.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/perf_test/disturbance.hpp"
#include "holdfast/perf_test/statistics.hpp"
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

/// Random keys of a table, updated one after the other.
class timed_updates {
 public:
    explicit timed_updates(std::span<const std::uint64_t> present)
        : asked_(draw(present, questions_for(present.size()), 6)) {}

    /// Until done() says so. Returns: the microseconds of each operation that nobody disturbed.
    template <class Table, class Done>
    std::vector<double> run(Table& table, Done&& done) {
        constexpr unsigned together = 500;
        std::vector<double> undisturbed, latest;
        perf_test::disturbance_meter meter;
        while (!done()) {
            (void)meter.since_last();
            latest.clear();
            for (unsigned i = 0; i < together && !done(); ++i) {
                const std::uint64_t key = asked_[at_++ % asked_.size()];
                const auto start = clock::now();
                const bool there = static_cast<bool>(table.update(key, value_of<value>(key)));
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
void grow_and_shrink(Table& table, timed_updates& updates, seen& to) {
    const std::uint64_t small = table.geometry().capacity;
    std::vector<double> all;
    for (const std::uint64_t capacity : {2 * small, small}) {
        const auto start = clock::now();
        table.grow(capacity);
        to.begins.push_back(us_since(start));
        const std::vector<double> some = updates.run(table, [&] { return !table.growing(); });
        if (table.growth_failure()) throw *table.growth_failure();
        all.insert(all.end(), some.begin(), some.end());
    }
    to.add(std::move(all));
}

void rest(table_of_one& table, timed_updates& updates, std::uint64_t operations, seen& to) {
    std::uint64_t left = operations;
    to.add(updates.run(table, [&] { return left == 0 || --left == 0; }));
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
    const auto name_of = [&](const named_quantile& q) {
        return "update while the table grows, " + std::string(q.name) + ", " + size_text;
    };
    const std::string call = "the call that begins a growth, " + size_text;
    bool wanted = to.wants(call);
    for (const named_quantile& q : quantiles) wanted = to.wants(name_of(q)) || wanted;
    if (!wanted) return;
    // Two tables, of which one has a generation of twice the size beside itself.
    const std::uint64_t bytes = entries * 24 * 4;
    if (const std::string lacking = lacking_room({.memory_bytes = bytes, .shared_bytes = bytes}); !lacking.empty())
        return to.skip("update while the table grows, " + size_text, lacking);
    const std::vector<std::uint64_t> present = make_keys(entries, entries);
    timed_updates updates(present);
    const hash_table_options options = table_options_for(entries, pages);
    const run_names names("growth");
    const std::string uri = "posix:/" + names.prefix();
    auto one = filled<table_of_one>(uri + "-one", present, options);
    auto many = filled<table_of_many>(uri + "-many", present, options);
    if (!perf_test::disturbance_meter().sees_steal())
        to.note("growth, " + size_text + ": the system does not tell stolen time, so none was left out");
    seen grows{"holdfast, while it grows"}, shared{"holdfast, of many writers, while it grows"},
        still{"holdfast, at rest"};
    const auto pages_now = [&] { return std::pair(use_of(one.segment()), use_of(many.segment())); };
    const auto at_first = pages_now();
    const std::size_t rounds = to.options().quick || entries > 2'000'000 ? 2 : 10;
    for (std::size_t round = 0; round < rounds; ++round) {
        grow_and_shrink(one, updates, grows);
        rest(one, updates, 5 * samples_min, still);
        grow_and_shrink(many, updates, shared);
    }
    if (pages == page_choice::huge) {
        const auto moved = pages_now();
        to.note(huge_pages_text("growth, " + size_text, {{"the table at first", at_first.first},
                                                         {"once moved", moved.first},
                                                         {"that of many writers at first", at_first.second},
                                                         {"once moved", moved.second}}));
    }
    for (std::size_t q = 0; q < std::size(quantiles); ++q) {
        const std::string name = name_of(quantiles[q]);
        tell(name,
             {{&grows, &grows.of_quantile[q]}, {&shared, &shared.of_quantile[q]}, {&still, &still.of_quantile[q]}}, to);
        if (quantiles[q].part != 0.999 || !to.wants(name)) continue;
        for (const seen* subject : {&grows, &shared}) {
            if (subject->of_quantile[q].empty()) continue;
            const double us = median_of(subject->of_quantile[q]);
            to.note("target: " + name + ", " + subject->name + " at most " + fixed_text(pause_us_max, 0) +
                    " us: " + fixed_text(us, 1) + verdict(us <= pause_us_max));
        }
    }
    tell(call, {{&grows, &grows.begins}, {&shared, &shared.begins}}, to);
}

}  // namespace holdfast::workload
