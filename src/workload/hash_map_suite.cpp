// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_map_suite.hpp"

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/environment.hpp"
#include "workload/hash_map_own.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"
#include "workload/two_sided_experiment.hpp"

namespace holdfast::workload {

namespace {

struct map_plan {
    std::size_t value_bytes;
    std::uint64_t entries;
    const char* text;
};
constexpr map_plan plans[] = {{100, 1'000, "1000 values of 100 bytes"},
                              {100, 1'000'000, "1e6 values of 100 bytes"},
                              {1'000, 100'000, "1e5 values of 1000 bytes"}};
constexpr std::size_t quick_plans = 1;

constexpr std::uint64_t sets_a_second = 100'000;

[[nodiscard]] published_figure published() {
    return {"map of values of any size in shared memory", 5e6, "lookups/s",
            "C++ library for containers in shared memory, its description of the map of values of "
            "any size; another machine"};
}

class map_run {
 public:
    map_run(const std::vector<hash_map_kind>& kinds, const two_cores& cores, recorder& to)
        : kinds_(kinds), cores_(cores), to_(to) {}

    void run(const map_plan& plan) {
        const std::string of = std::string(", ") + plan.text;
        const struct {
            std::string name;
            loop what;
        } experiments[] = {
            {"find hit" + of, loop::find},
            {"find hit and add up in place" + of, loop::look},
            {"find miss" + of, loop::miss},
            {"find hit beside " + std::to_string(sets_a_second) + " sets a second" + of, loop::find_beside},
            {"set" + of, loop::set}};
        bool wanted[std::size(experiments)]{}, any = false;
        for (std::size_t i = 0; i < std::size(experiments); ++i) {
            wanted[i] = to_.wants(experiments[i].name);
            any = any || wanted[i];
        }
        if (!any) return;
        // Of all subjects together, and as much again for everybody else. Ours and LMDB's lie below /dev/shm, the
        // latter in pages that are two thirds full, with what it has freed and not yet taken up again.
        const std::uint64_t need = 2 * kinds_.size() * plan.entries * (plan.value_bytes + 250);
        const std::uint64_t shared = plan.entries * (5 * plan.value_bytes + 300) + (16 << 20);
        if (const std::string lacking = lacking_room({need, shared}); !lacking.empty())
            return to_.skip(plan.text, lacking);
        const perf_test::cpu_pin pin(cores_.near);
        build(plan);
        for (std::size_t i = 0; i < std::size(experiments); ++i) {
            if (!wanted[i]) continue;
            const auto& [name, what] = experiments[i];
            switch (what) {
                case loop::find: find(name); break;
                case loop::look: to_.run(alone(name, &hash_map_subject::look)); break;
                case loop::miss: to_.run(alone(name, &hash_map_subject::miss)); break;
                case loop::find_beside: find_beside(name); break;
                case loop::set: set(name); break;
            }
        }
        maps_.clear();
    }

 private:
    enum class loop : std::uint8_t { find, look, miss, find_beside, set };
    struct contender {
        std::string name;
        std::unique_ptr<hash_map_subject> map;
        std::uint64_t grows_beside = 0;
    };

    void build(const map_plan& plan) {
        if (!names_) names_.emplace("hashmap");
        for (const hash_map_kind& kind : kinds_)
            if (is_wanted_subject(to_.options(), kind.name, &kind == &kinds_.front()))
                maps_.push_back({kind.name,
                                 kind.make({.entries = plan.entries,
                                            .value_bytes = plan.value_bytes,
                                            .name = names_->prefix() + "-" + std::to_string(made_++),
                                            .far_cpu = cores_.far}),
                                 kind.grows_beside});
    }

    /// The writers rest.
    [[nodiscard]] experiment alone(const std::string& name, void (hash_map_subject::*body)(std::uint64_t)) const {
        experiment e;
        e.name = name;
        for (const contender& c : maps_) {
            hash_map_subject* const map = c.map.get();
            e.subjects.push_back({c.name, [map, body](std::uint64_t times) { (map->*body)(times); }, {}, 0});
        }
        return e;
    }
    void find(const std::string& name) {
        experiment e = alone(name, &hash_map_subject::find);
        e.published = {published()};
        const sampled found = run_sampled(to_, e);
        if (found.samples.empty()) return;
        note_if_any(to_, at_least_text(name, found, "LMDB", 3));
        note_if_any(to_, at_least_text(name, found, "boost::unordered_flat_map<std::string, std::string>", 0.8));
        note_if_any(to_, beside_published_text(name, found.samples.front(), published()));
    }
    void set(const std::string& name) {
        std::vector<two_sided_subject> subjects;
        for (const contender& c : maps_) {
            hash_map_subject* const map = c.map.get();
            subjects.push_back(timed_near(c.name, map->far(), [map](std::uint64_t times) { map->set(times); }));
        }
        (void)run_two_sided(to_, name, subjects);
    }
    void find_beside(const std::string& name) {
        beside_writers timed(sets_a_second);
        for (const contender& c : maps_) {
            hash_map_subject* const map = c.map.get();
            if (!map->beside_writer()) continue;
            if (const std::string lacking = lacking_room({.shared_bytes = c.grows_beside}); !lacking.empty()) {
                to_.skip(c.name, lacking);
                continue;
            }
            timed.add(
                c.name, map->far(), [map](std::uint64_t times) { map->find_beside(times); },
                [map] { map->begin_setting(sets_a_second); });
        }
        (void)run_two_sided(to_, name, timed.subjects());
        timed.note_slow(to_, name);
    }

    const std::vector<hash_map_kind>& kinds_;
    const two_cores cores_;
    recorder& to_;
    std::optional<run_names> names_;  // once something is made
    unsigned made_ = 0;
    std::vector<contender> maps_;
};

}  // namespace

std::vector<hash_map_kind> own_hash_map_kinds() {
    return {hash_map_kind_of<own_hash_map>(), hash_map_kind_of<standard_string_map>(),
            hash_map_kind_of<locked_string_map>()};
}

suite hash_map_suite(std::vector<hash_map_kind> kinds) {
    suite s;
    s.name = "hash_map";
    s.description =
        "values of 100 and 1000 bytes by text: found alone and beside a writer in another process, not found, set";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const hash_map_kind& kind : kinds) to.version(kind.name, kind.version);
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("all of it", "it takes two processors, and this process may use one");
        map_run run(kinds, cores, to);
        const std::size_t count = to.options().quick ? quick_plans : std::size(plans);
        for (std::size_t i = 0; i < count; ++i) run.run(plans[i]);
    };
    return s;
}

}  // namespace holdfast::workload
