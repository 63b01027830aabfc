// SPDX-License-Identifier: Apache-2.0
#include "workload/block_store_suite.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "workload/block_store_own.hpp"
#include "workload/room.hpp"
#include "workload/run_names.hpp"
#include "workload/targets.hpp"

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

[[nodiscard]] published_figure published() {
    return {"chains of small blocks in shared memory", 20e6, "reads/s",
            "C++ library for containers in shared memory, its description of the allocator of "
            "linked blocks; another machine"};
}

class store_run {
 public:
    store_run(const std::vector<block_store_kind>& kinds, recorder& to) : kinds_(kinds), to_(to) {}

    void run(const store_plan& plan) {
        const struct {
            std::string name;
            void (block_store_subject::*loop)(std::uint64_t);
        } experiments[] = {{std::string("read, ") + plan.text, &block_store_subject::read},
                           {std::string("add up in place, ") + plan.text, &block_store_subject::look},
                           {std::string("free one and store another, ") + plan.text, &block_store_subject::replace}};
        bool wanted = false;
        for (const auto& one : experiments) wanted = to_.wants(one.name) || wanted;
        if (!wanted) return;
        // Of all subjects together, and as much again for everybody else. Ours, Boost's and LMDB's lie below /dev/shm,
        // the last with up to a page more for each value, and with what it has freed and not yet taken up again.
        const std::uint64_t need = 2 * kinds_.size() * plan.values * (plan.value_bytes + 160);
        const std::uint64_t shared = plan.values * (5 * plan.value_bytes + 600) + (16 << 20);
        if (const std::string lacking = lacking_room({need, shared}); !lacking.empty())
            return to_.skip(plan.text, lacking);
        build(plan);
        for (const auto& one : experiments) {
            if (!to_.wants(one.name)) continue;
            experiment e;
            e.name = one.name;
            const bool reads = one.loop == &block_store_subject::read;
            if (reads) e.published = {published()};
            for (const contender& c : stores_) e.subjects.push_back(timed(c, one.loop));
            const sampled found = run_sampled(to_, e);
            if (!reads || found.samples.empty()) continue;
            note_if_any(to_, at_most_text(one.name, found, bare_slots::name, 1.3));
            note_if_any(to_, beside_published_text(one.name, found.samples.front(), published()));
        }
        stores_.clear();
    }

 private:
    struct contender {
        std::string name;
        std::unique_ptr<block_store_subject> store;
    };

    void build(const store_plan& plan) {
        if (!names_) names_.emplace("blockstore");
        for (const block_store_kind& kind : kinds_)
            if (is_wanted_subject(to_.options(), kind.name, &kind == &kinds_.front()))
                stores_.push_back({kind.name, kind.make({.values = plan.values,
                                                         .value_bytes = plan.value_bytes,
                                                         .name = names_->prefix() + "-" + std::to_string(made_++)})});
    }
    [[nodiscard]] static perf_test::subject timed(const contender& c,
                                                  void (block_store_subject::*loop)(std::uint64_t)) {
        block_store_subject* const store = c.store.get();
        return {c.name, [store, loop](std::uint64_t times) { (store->*loop)(times); }, {}, 0};
    }
    const std::vector<block_store_kind>& kinds_;
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
    s.description = "values of 16 bytes to 300 KB behind handles: read, looked at in place, replaced";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const block_store_kind& kind : kinds) to.version(kind.name, kind.version);
        store_run run(kinds, to);
        const std::size_t count = to.options().quick ? quick_plans : std::size(plans);
        for (std::size_t i = 0; i < count; ++i) run.run(plans[i]);
    };
    return s;
}

}  // namespace holdfast::workload
