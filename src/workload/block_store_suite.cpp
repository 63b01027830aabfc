// SPDX-License-Identifier: Apache-2.0
#include "workload/block_store_suite.hpp"

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/perf_test/environment.hpp"
#include "workload/block_store_own.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"
#include "workload/two_sided_experiment.hpp"

namespace holdfast::workload {

namespace {

struct store_plan {
    std::size_t value_bytes;
    std::uint64_t values;
    const char* text;
};
constexpr store_plan plans[] = {
    {16, 1'000, "1000 values of 16 bytes"},           {100, 1'000, "1000 values of 100 bytes"},
    {1'000, 100, "100 values of 1000 bytes"},         {10'000, 20, "20 values of 10,000 bytes"},
    {300'000, 4, "4 values of 300,000 bytes"},        {100, 1'000'000, "1e6 values of 100 bytes"},
    {1'000, 200'000, "200,000 values of 1000 bytes"}, {300'000, 1'000, "1000 values of 300,000 bytes"}};
constexpr std::size_t quick_plans = 4;

constexpr std::uint64_t replaced_a_second = 100'000;
/// As many of the larger ones are more than a core can store.
[[nodiscard]] bool is_read_beside(const store_plan& plan) { return plan.value_bytes <= 1'000; }

[[nodiscard]] published_figure published() {
    return {"chains of small blocks in shared memory", 20e6, "reads/s",
            "C++ library for containers in shared memory, its description of the allocator of "
            "linked blocks; another machine"};
}

class store_run {
 public:
    store_run(const std::vector<block_store_kind>& kinds, const two_cores& cores, recorder& to)
        : kinds_(kinds), cores_(cores), to_(to) {}

    void run(const store_plan& plan) {
        const std::string of = std::string(", ") + plan.text;
        const struct {
            std::string name;
            loop what;
        } experiments[] = {
            {"read" + of, loop::read},
            {"add up in place" + of, loop::look},
            {"read beside " + std::to_string(replaced_a_second) + " replaces a second" + of, loop::read_beside},
            {"free one and store another" + of, loop::replace}};
        bool wanted[std::size(experiments)]{}, any = false;
        for (std::size_t i = 0; i < std::size(experiments); ++i) {
            if (experiments[i].what == loop::read_beside && !is_read_beside(plan)) continue;
            wanted[i] = to_.wants(experiments[i].name);
            any = any || wanted[i];
        }
        if (!any) return;
        // Of all subjects together, and as much again for everybody else. Ours, Boost's and LMDB's lie below /dev/shm,
        // the last with up to a page more for each value, and with what it has freed and not yet taken up again.
        const std::uint64_t need = 2 * kinds_.size() * plan.values * (plan.value_bytes + 160);
        const std::uint64_t shared = plan.values * (5 * plan.value_bytes + 600) + (16 << 20);
        if (const std::string lacking = lacking_room({need, shared}); !lacking.empty())
            return to_.skip(plan.text, lacking);
        const perf_test::cpu_pin pin(cores_.near);
        build(plan);
        for (std::size_t i = 0; i < std::size(experiments); ++i) {
            if (!wanted[i]) continue;
            const auto& [name, what] = experiments[i];
            switch (what) {
                case loop::read: read(name); break;
                case loop::look: to_.run(alone(name, &block_store_subject::look)); break;
                case loop::read_beside: read_beside(name); break;
                case loop::replace: replace(name); break;
            }
        }
        stores_.clear();
    }

 private:
    enum class loop : std::uint8_t { read, look, read_beside, replace };
    struct contender {
        std::string name;
        std::unique_ptr<block_store_subject> store;
        std::uint64_t grows_beside = 0;
    };

    void build(const store_plan& plan) {
        if (!names_) names_.emplace("blockstore");
        for (const block_store_kind& kind : kinds_)
            if (is_wanted_subject(to_.options(), kind.name, &kind == &kinds_.front()))
                stores_.push_back({kind.name,
                                   kind.make({.values = plan.values,
                                              .value_bytes = plan.value_bytes,
                                              .name = names_->prefix() + "-" + std::to_string(made_++),
                                              .far_cpu = cores_.far}),
                                   kind.grows_beside});
    }

    /// The writers rest.
    [[nodiscard]] experiment alone(const std::string& name, void (block_store_subject::*body)(std::uint64_t)) const {
        experiment e;
        e.name = name;
        for (const contender& c : stores_) {
            block_store_subject* const store = c.store.get();
            e.subjects.push_back({c.name, [store, body](std::uint64_t times) { (store->*body)(times); }, {}, 0});
        }
        return e;
    }
    void read(const std::string& name) {
        experiment e = alone(name, &block_store_subject::read);
        e.published = {published()};
        const sampled found = run_sampled(to_, e);
        if (found.samples.empty()) return;
        note_if_any(to_, at_most_text(name, found, bare_slots::name, 1.3));
        note_if_any(to_, beside_published_text(name, found.samples.front(), published()));
    }
    void replace(const std::string& name) {
        std::vector<two_sided_subject> subjects;
        for (const contender& c : stores_) {
            block_store_subject* const store = c.store.get();
            subjects.push_back(
                timed_near(c.name, store->far(), [store](std::uint64_t times) { store->replace(times); }));
        }
        (void)run_two_sided(to_, name, subjects);
    }
    void read_beside(const std::string& name) {
        beside_writers timed(replaced_a_second);
        for (const contender& c : stores_) {
            block_store_subject* const store = c.store.get();
            if (!store->beside_writer()) continue;
            if (const std::string lacking = lacking_room({.shared_bytes = c.grows_beside}); !lacking.empty()) {
                to_.skip(c.name, lacking);
                continue;
            }
            timed.add(
                c.name, store->far(), [store](std::uint64_t times) { store->read_beside(times); },
                [store] { store->begin_replacing(replaced_a_second); });
        }
        (void)run_two_sided(to_, name, timed.subjects());
        timed.note_slow(to_, name);
    }

    const std::vector<block_store_kind>& kinds_;
    const two_cores cores_;
    recorder& to_;
    std::optional<run_names> names_;  // once something is made
    unsigned made_ = 0;
    std::vector<contender> stores_;
};

}  // namespace

std::vector<block_store_kind> own_block_store_kinds() {
    return {block_store_kind_of<own_block_store>(), block_store_kind_of<bare_slots>(),
            block_store_kind_of<locked_strings>()};
}

suite block_store_suite(std::vector<block_store_kind> kinds) {
    suite s;
    s.name = "block_store";
    s.description =
        "values of 16 bytes to 300 KB behind handles: read alone and beside a writer in another process, looked at in "
        "place, replaced";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const block_store_kind& kind : kinds) to.version(kind.name, kind.version);
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("all of it", "it takes two processors, and this process may use one");
        store_run run(kinds, cores, to);
        const std::size_t count = to.options().quick ? quick_plans : std::size(plans);
        for (std::size_t i = 0; i < count; ++i) run.run(plans[i]);
    };
    return s;
}

}  // namespace holdfast::workload
