// SPDX-License-Identifier: Apache-2.0
#include "workload/hash_map_suite.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "workload/hash_map_own.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"

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

[[nodiscard]] published_figure published() {
    return {"map of values of any size in shared memory", 5e6, "lookups/s",
            "C++ library for containers in shared memory, its description of the map of values of "
            "any size; another machine"};
}

class map_run {
 public:
    map_run(const std::vector<hash_map_kind>& kinds, recorder& to) : kinds_(kinds), to_(to) {}

    void run(const map_plan& plan) {
        const struct {
            std::string name;
            void (hash_map_subject::*loop)(std::uint64_t);
        } experiments[] = {{std::string("find hit, ") + plan.text, &hash_map_subject::find},
                           {std::string("find hit and add up in place, ") + plan.text, &hash_map_subject::look},
                           {std::string("find miss, ") + plan.text, &hash_map_subject::miss},
                           {std::string("set, ") + plan.text, &hash_map_subject::set}};
        bool wanted = false;
        for (const auto& one : experiments) wanted = to_.wants(one.name) || wanted;
        if (!wanted) return;
        // Of all subjects together, and as much again for everybody else. Ours and LMDB's lie below /dev/shm, the
        // latter in pages that are two thirds full, with what it has freed and not yet taken up again.
        const std::uint64_t need = 2 * kinds_.size() * plan.entries * (plan.value_bytes + 250);
        const std::uint64_t shared = plan.entries * (5 * plan.value_bytes + 300) + (16 << 20);
        if (const std::string lacking = lacking_room({need, shared}); !lacking.empty())
            return to_.skip(plan.text, lacking);
        build(plan);
        for (const auto& one : experiments) {
            if (!to_.wants(one.name)) continue;
            experiment e;
            e.name = one.name;
            const bool finds = one.loop == &hash_map_subject::find;
            if (finds) e.published = {published()};
            for (const contender& c : maps_) e.subjects.push_back(timed(c, one.loop));
            const sampled found = run_sampled(to_, e);
            if (!finds || found.samples.empty()) continue;
            note_if_any(to_, at_least_text(one.name, found, "LMDB", 3));
            note_if_any(to_,
                        at_least_text(one.name, found, "boost::unordered_flat_map<std::string, std::string>", 0.8));
            note_if_any(to_, beside_published_text(one.name, found.samples.front(), published()));
        }
        maps_.clear();
    }

 private:
    struct contender {
        std::string name;
        std::unique_ptr<hash_map_subject> map;
    };

    void build(const map_plan& plan) {
        if (!names_) names_.emplace("hashmap");
        for (const hash_map_kind& kind : kinds_)
            if (is_wanted_subject(to_.options(), kind.name, &kind == &kinds_.front()))
                maps_.push_back({kind.name, kind.make({.entries = plan.entries,
                                                       .value_bytes = plan.value_bytes,
                                                       .name = names_->prefix() + "-" + std::to_string(made_++)})});
    }
    [[nodiscard]] static perf_test::subject timed(const contender& c, void (hash_map_subject::*loop)(std::uint64_t)) {
        hash_map_subject* const map = c.map.get();
        return {c.name, [map, loop](std::uint64_t times) { (map->*loop)(times); }, {}, 0};
    }
    const std::vector<hash_map_kind>& kinds_;
    recorder& to_;
    std::optional<run_names> names_;  // once something is made
    unsigned made_ = 0;
    std::vector<contender> maps_;
};

}  // namespace

std::vector<hash_map_kind> own_hash_map_kinds() {
    return {hash_map_kind_of<own_hash_map>(), hash_map_kind_of<standard_string_map>()};
}

suite hash_map_suite(std::vector<hash_map_kind> kinds) {
    suite s;
    s.name = "hash_map";
    s.description = "values of 100 and 1000 bytes by text: found, not found, set";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const hash_map_kind& kind : kinds) to.version(kind.name, kind.version);
        map_run run(kinds, to);
        const std::size_t count = to.options().quick ? quick_plans : std::size(plans);
        for (std::size_t i = 0; i < count; ++i) run.run(plans[i]);
    };
    return s;
}

}  // namespace holdfast::workload
