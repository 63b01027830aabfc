// SPDX-License-Identifier: Apache-2.0
#include "workload/block_store_suite.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "workload/block_store_own.hpp"
#include "workload/memory_pool.hpp"
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

constexpr const char* published_source =
    "C++ library for containers in shared memory, its description of the allocator of linked blocks; another machine";

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
        // Of all subjects together, and as much again for everybody else.
        const std::uint64_t need = 2 * kinds_.size() * plan.values * (plan.value_bytes + 160);
        if (const std::uint64_t there = available_memory(); there < need)
            return to_.skip(plan.text, "only " + std::to_string(there >> 20) + " MiB of memory are available");
        build(plan);
        for (const auto& one : experiments) {
            if (!to_.wants(one.name)) continue;
            experiment e;
            e.name = one.name;
            if (one.loop == &block_store_subject::read)
                e.published = {{"chains of small blocks in shared memory", 20e6, "reads/s", published_source}};
            for (const contender& c : stores_) e.subjects.push_back(timed(c, one.loop));
            to_.run(e);
            if (one.loop == &block_store_subject::read) target(one.name);
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
    void target(const std::string& name) {
        const auto bare = std::ranges::find(stores_, bare_slots::name, &contender::name);
        if (bare == stores_.end()) return;
        // Once more: the recorder keeps its samples to itself.
        perf_test::interleaved_options options;
        options.seconds = std::min(0.5, to_.options().seconds);
        const auto found = perf_test::measure_interleaved(
            {timed(stores_.front(), &block_store_subject::read), timed(*bare, &block_store_subject::read)}, options);
        const double ratio = found.ratio(1, 0).ratio;
        to_.note("target: " + name + " in at most 1.3 times the time of memcpy: " + fixed_text(ratio, 2) + " times, " +
                 fixed_text(found.subjects[0].time.median, 1) + " ns" + verdict(ratio <= 1.3));
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
