// SPDX-License-Identifier: Apache-2.0
#include "workload/array_suite.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/environment.hpp"
#include "workload/array_own.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"
#include "workload/two_sided_experiment.hpp"

namespace holdfast::workload {

namespace {

constexpr std::uint64_t stores_a_second = 100'000;
constexpr std::uint64_t warming_loads = 2000;  // before a sample: the small sets have 2048 lines

struct array_plan {
    std::size_t element_bytes;
    std::uint64_t data_bytes;
    const char* text;
};
// In a second-level cache, and beyond all caches.
constexpr array_plan plans[] = {
    {8, 128 << 10, "8 bytes, 128 KiB of them"},   {64, 128 << 10, "64 bytes, 128 KiB of them"},
    {1024, 128 << 10, "1 KiB, 128 KiB of them"},  {8, 256 << 20, "8 bytes, 256 MiB of them"},
    {64, 256 << 20, "64 bytes, 256 MiB of them"}, {1024, 256 << 20, "1 KiB, 256 MiB of them"}};
constexpr std::size_t quick_plans = 3;

class array_run {
 public:
    array_run(const std::vector<array_kind>& kinds, const two_cores& cores, recorder& to)
        : kinds_(kinds), cores_(cores), to_(to) {}

    void run(const array_plan& plan) {
        const std::string of = std::string(", elements of ") + plan.text;
        const std::string titles[] = {
            "load" + of, "load beside " + std::to_string(stores_a_second) + " stores a second" + of, "store" + of};
        bool wanted[3];
        for (std::size_t i = 0; i < 3; ++i) wanted[i] = to_.wants(titles[i]);
        if (!wanted[0] && !wanted[1] && !wanted[2]) return;
        // Ours lies below /dev/shm, with what tells a torn element beside it; of the memory as much again for all
        // others.
        const std::uint64_t each = plan.data_bytes / 2 * 3 + (1 << 20);
        if (const std::string lacking = lacking_room({2 * kinds_.size() * each, each}); !lacking.empty())
            return to_.skip(std::string("elements of ") + plan.text, lacking);
        const perf_test::cpu_pin pin(cores_.near);
        build(plan);
        if (wanted[0]) load_alone(titles[0]);
        if (wanted[1]) load_beside(titles[1]);
        if (wanted[2]) store(titles[2]);
        arrays_.clear();
    }

 private:
    struct contender {
        std::string name;
        std::unique_ptr<array_subject> array;
    };

    void build(const array_plan& plan) {
        if (!names_) names_.emplace("array");
        for (const array_kind& kind : kinds_) {
            if (!is_wanted_subject(to_.options(), kind.name, &kind == &kinds_.front())) continue;
            auto array = kind.make(plan.element_bytes, {.size = plan.data_bytes / plan.element_bytes,
                                                        .name = names_->prefix() + "-" + std::to_string(made_++),
                                                        .far_cpu = cores_.far});
            if (!array) continue;
            array->open_and_verify();
            arrays_.push_back({kind.name, std::move(array)});
        }
    }

    void load_alone(const std::string& name) {
        experiment e;
        e.name = name;
        for (const contender& c : arrays_) e.subjects.push_back(loading(c));
        note_if_any(to_, at_most_text(name, run_sampled(to_, e), bare_array<8>::name, 1.3));
    }
    [[nodiscard]] static perf_test::subject loading(const contender& c) {
        array_subject* const array = c.array.get();
        return {c.name, [array](std::uint64_t times) { array->load(times); }, [array] { array->load(warming_loads); },
                0};
    }

    void load_beside(const std::string& name) {
        beside_writers timed(stores_a_second);
        for (const contender& c : arrays_) {
            if (!c.array->beside_writer()) continue;
            array_subject* const array = c.array.get();
            timed.add(
                c.name, array->far(), [array](std::uint64_t times) { array->load(times); },
                [array] { array->begin_stores(stores_a_second); });
        }
        (void)run_two_sided(to_, name, timed.subjects(), warming_loads);
        timed.note_slow(to_, name);
    }

    void store(const std::string& name) {
        std::vector<two_sided_subject> subjects;
        for (const contender& c : arrays_) {
            array_subject* const array = c.array.get();
            subjects.push_back(timed_near(c.name, array->far(), [array](std::uint64_t times) { array->store(times); }));
        }
        (void)run_two_sided(to_, name, subjects, warming_loads);
    }

    const std::vector<array_kind>& kinds_;
    const two_cores cores_;
    recorder& to_;
    std::optional<run_names> names_;  // once something is made
    unsigned made_ = 0;
    std::vector<contender> arrays_;
};

}  // namespace

std::vector<array_kind> own_array_kinds() {
    return {array_kind_of<own_array>(), array_kind_of<bare_array>(), array_kind_of<locked_array>()};
}

suite array_suite(std::vector<array_kind> kinds) {
    suite s;
    s.name = "array";
    s.description = "elements of 8 bytes to 1 KiB: loaded alone and beside a writer in another process, stored";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const array_kind& kind : kinds) to.version(kind.name, kind.version);
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("all of it", "it takes two processors, and this process may use one");
        array_run run(kinds, cores, to);
        const std::size_t count = to.options().quick ? quick_plans : std::size(plans);
        for (std::size_t i = 0; i < count; ++i) run.run(plans[i]);
    };
    return s;
}

}  // namespace holdfast::workload
