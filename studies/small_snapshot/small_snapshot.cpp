// SPDX-License-Identifier: Apache-2.0
// small_snapshot - how should a small object be laid out beside its snapshot's slots, and up to which size does it pay?
//
//   study_small_snapshot [--quick] [--seconds 0.5] [--out FOLDER] [--check]
//
// Objects of 16 to 512 bytes, copied by a reader that only reads: out of the slot; out of a copy in the cache line of
// `current`, which has room for 40 bytes; out of a copy in lines of its own; out of words that carry a sequence each;
// and out of a bare sequence lock, which a killed writer leaves locked. With the writer's process at rest, beside
// 100,000 publishes a second and beside a writer at full speed, which is on another core. All ways of a size take turns
// of a tenth of a millisecond, and a turn counts if the writer kept its pace in it, so that a busy machine spoils many
// turns but not the number. Prints tables; with --out writes small_snapshot.html and its charts. --check ends with an
// error if a finding that README.md states does not show. --quick: 16 and 64 bytes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../command_line.hpp"
#include "../findings.hpp"
#include "bench/peers/sequence_lock.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "ways.hpp"
#include "workload/far_side.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"

namespace {

namespace perf = holdfast::perf_test;
using namespace holdfast::workload;

struct condition {
    const char* name;
    const char* chart;
    std::optional<std::uint64_t> pace;  // of the writer; 0: full speed
};
constexpr condition conditions[] = {{"the writer rests", "at_rest", std::nullopt},
                                    {"beside 100,000 publishes a second", "beside_100000", 100'000},
                                    {"beside a writer at full speed", "full_speed", 0}};
/// Beside a writer at full speed its readers find no gap where an object has more lines than one.
constexpr std::size_t sequence_lock_bytes_at_full_speed = 40;

std::vector<snapshot_kind> all_ways() {
    return {snapshot_kind_of<study::by_slot>(), snapshot_kind_of<study::beside_current>(),
            snapshot_kind_of<study::in_lines_of_its_own>(), snapshot_kind_of<study::a_sequence_a_word>(),
            snapshot_kind_of<holdfast::bench::sequence_lock>()};
}

struct turn {
    double ns;    // a read
    double pace;  // publishes a nanosecond meanwhile
};

turn take_turn(snapshot_subject& object, const condition& beside) {
    constexpr double turn_ns = 1e5;
    constexpr std::uint64_t reads = 200;
    if (beside.pace) object.begin_publishing(*beside.pace);
    object.read(reads);  // the caches are another way's
    const std::uint64_t before = object.far().progress();
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t times = 0;
    double took = 0;
    do {
        object.read(reads);
        times += reads;
        took = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    } while (took < turn_ns);
    const std::uint64_t published = object.far().progress() - before;
    object.far().rest();
    return {took / double(times), double(published) / took};
}

/// Of the turns in which the writer had its core: those at seven tenths of its usual pace or more.
double median_ns(const std::vector<turn>& turns) {
    std::vector<double> paces, good;
    for (const turn& one : turns) paces.push_back(one.pace);
    std::ranges::sort(paces);
    const double least = 0.7 * paces[paces.size() * 9 / 10];
    for (const turn& one : turns)
        if (one.pace >= least) good.push_back(one.ns);
    return median_of(good);
}

class small_snapshots {
 public:
    small_snapshots(const study::study_options& chosen, const two_cores& cores)
        : chosen_(chosen), cores_(cores), found_(chosen.out, "Small objects of a snapshot") {
        sizes_ =
            chosen.quick ? std::vector<std::size_t>{16, 64} : std::vector<std::size_t>{16, 32, 40, 64, 128, 256, 512};
    }

    int run() {
        const perf::cpu_pin pin(cores_.near);
        found_.where(perf::this_environment(perf::this_build()));
        for (const std::size_t bytes : sizes_) time_size(bytes);
        for (const condition& beside : conditions) show(beside);
        return found_.finish("small_snapshot", chosen_.check);
    }

 private:
    void time_size(std::size_t bytes) {
        std::vector<std::pair<std::string, std::unique_ptr<snapshot_subject>>> objects;
        for (const snapshot_kind& kind : all_ways()) {
            auto object = kind.make(
                {.words = bytes / 8, .name = names_.prefix() + "-" + std::to_string(made_++), .far_cpu = cores_.far});
            if (!object) continue;
            object->open_and_verify();
            objects.emplace_back(kind.name, std::move(object));
        }
        for (const condition& beside : conditions) {
            std::map<std::string, std::vector<turn>> turns;
            const auto rounds = std::max(3, static_cast<int>(chosen_.seconds / 2e-4));
            for (int round = 0; round < rounds; ++round)
                for (auto& [name, object] : objects)
                    if (name != holdfast::bench::sequence_lock::name || beside.pace != 0U ||
                        bytes <= sequence_lock_bytes_at_full_speed)
                        turns[name].push_back(take_turn(*object, beside));
            for (const auto& [name, taken] : turns) ns_[beside.name][name][bytes] = median_ns(taken);
        }
    }

    void show(const condition& beside) {
        std::vector<std::string> headings{std::string("ns a read by size, ") + beside.name};
        for (const std::size_t bytes : sizes_) headings.push_back(std::to_string(bytes));
        std::vector<std::vector<std::string>> rows;
        study::line_chart chart{.title = std::string("A copy of an object, ") + beside.name,
                                .x_unit = "bytes",
                                .y_unit = "ns",
                                .lines = {},
                                .x_logarithmic = true};
        for (const snapshot_kind& kind : all_ways()) {
            auto& of = ns_[beside.name][kind.name];
            rows.push_back({kind.name});
            chart.lines.push_back({kind.name, {}});
            for (const std::size_t bytes : sizes_) {
                rows.back().push_back(of.contains(bytes) ? study::number(of[bytes], of[bytes] < 10 ? "%.2f" : "%.0f")
                                                         : "-");
                if (of.contains(bytes)) chart.lines.back().points.push_back({double(bytes), of[bytes]});
            }
        }
        found_.table(headings.front(), headings, rows);
        found_.chart(beside.chart, chart);
        // At rest there is a quarter to gain, which a busy machine hides in a short run.
        const double most = beside.pace == 0U ? 1 : 1.2;
        found_.expect(ns_[beside.name]["copy in the line of current"][16] < most * ns_[beside.name]["slot"][16],
                      std::string("16 bytes in the line of current are read as fast as out of a slot, ") + beside.name);
    }

    study::study_options chosen_;
    two_cores cores_;
    std::vector<std::size_t> sizes_;
    study::findings found_;
    run_names names_{"study"};
    unsigned made_ = 0;
    std::map<std::string, std::map<std::string, std::map<std::size_t, double>>> ns_;  // [condition][way][bytes]
};

}  // namespace

int main(int argc, char** argv) {
    const auto chosen = study::options_of(argc, argv, 0.5);
    if (!chosen) return 2;
    const two_cores cores = pick_two_cores();
    if (!cores.there) {
        std::printf("needs two processors: nothing was timed\n");
        return 0;
    }
    try {
        return small_snapshots(*chosen, cores).run();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "study_small_snapshot: %s\n", e.what());
        return 2;
    }
}
