// SPDX-License-Identifier: Apache-2.0
// Any bytes as the body of a counter set or of a latency histogram, and as the state of both estimators: read, and
// written to by whoever comes next. Then a run of operations by script against a model, some of which die half-way.
// The lowest bit of the first byte says which. A set of three slots: value and name of each. A histogram of one shard
// and the shared one: owner, sum and extremes of each, then counts: u16 which, u32 how many; the 64 bytes behind the
// first are the estimators', too.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "holdfast/metrics/max_of_n.hpp"
#include "holdfast/metrics/tail_tracker.hpp"
#include "require.hpp"
#include "support/metrics_model.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using fuzz::require;
using holdfast::detail::counter_slots;
using holdfast::detail::latency_shards;
using bytes_in = std::span<const std::uint8_t>;

struct alignas(64) line {
    std::byte bytes[64];
};
std::span<std::byte> bytes_of(std::vector<line>& memory, std::size_t bytes) {
    memory.assign((bytes + sizeof(line) - 1) / sizeof(line), line{});
    return {memory.data()->bytes, bytes};
}
bytes_in take(bytes_in& from, std::size_t bytes) {
    const bytes_in taken = from.first(std::min(bytes, from.size()));
    from = from.subspan(taken.size());
    return taken;
}
void put(void* to, bytes_in from) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

// ---- counters

void any_set(std::span<std::byte> body) {
    const counter_slots set(body, body.size() / sizeof(layout::counter_slot), "fuzz");
    const auto walk_all = [&] {
        std::size_t shown = 0;
        const counter_walk walk = set.for_each([&](std::string_view family, std::string_view labels, std::uint64_t) {
            ++shown;
            require(valid_metric_family(family) && valid_metric_labels(labels));
            const auto words = layout::encode_counter_name(family, labels);
            require(words && set.find(*words) != nullptr);
        });
        require(shown == walk.counters && walk.counters + walk.unfinished + walk.damaged <= set.capacity());
        return walk;
    };
    const counter_walk before = walk_all();
    for (std::size_t name = 0; name < counter_names; ++name) {
        layout::counter_slot* const slot = set.install(words_of_name(name));
        require(slot == set.find(words_of_name(name)));
        if (slot == nullptr) continue;
        const std::uint64_t value = counter(slot->value).value();
        counter(slot->value).add(3);
        require(counter(slot->value).value() == value + 3);
    }
    require(walk_all().counters >= before.counters);
}

void set_by_script(std::span<std::byte> body, bytes_in script) {
    std::memset(body.data(), 0, body.size());
    const counter_slots set(body, body.size() / sizeof(layout::counter_slot), "fuzz");
    counter_values model{};
    for (const std::uint8_t step : script) {
        const std::size_t name = step % counter_names;
        const layout::counter_name_words& words = words_of_name(name);
        const bool room = !has_no_room(slots_in(body), words);
        if (step >= 192) {
            (void)set.install(prefix_of(words, 1 + step % (length_of(words) - 1)));
            continue;
        }
        layout::counter_slot* const slot = set.install(words);
        require((slot != nullptr) == room);
        if (slot == nullptr) continue;
        counter(slot->value).add(step);
        model[name] = model[name].value_or(0) + step;
    }
    const counters_found found = counters_in(set);
    require(found.wrong.empty() && found.values == model && differs_by_name(set, model).empty());
}

// ---- latencies

void is_sound(const histogram_counts& all) {
    const std::uint64_t total = all.total();
    for (const double q : {0.0, 0.5, 1.0}) {
        const auto got = all.quantile(q);
        require(got.has_value() == (total != 0));
        if (got) require(got->lower <= got->upper && got->confidence >= 0 && got->confidence <= 1);
    }
}

void any_histogram(std::span<std::byte> body, bytes_in values) {
    const latency_shards all(body, 2, "fuzz");
    const histogram_counts before = all.merged();
    is_sound(before);
    (void)all.claim(0);
    require(!all.claim(0));
    std::array lines{all.line(0), all.line(1)};
    std::uint64_t records = 0;
    std::array<std::size_t, 12> buckets{};
    for (; records < buckets.size() && !values.empty(); ++records) {
        std::uint64_t value = 0;
        put(&value, take(values, 8));
        holdfast::detail::record_value(lines[records % 2], value);
        buckets[records] = log_linear::bucket_of(value);
    }
    const histogram_counts now = all.merged();
    is_sound(now);
    require(now.total() == before.total() + records);
    for (std::uint64_t i = 0; i < records; ++i) require(now.counts()[buckets[i]] > before.counts()[buckets[i]]);
    all.give_back(0);
    require(all.claim(0));
}

void histogram_by_script(std::span<std::byte> body, bytes_in script) {
    std::memset(body.data(), 0, body.size());
    const latency_shards all(body, 2, "fuzz");
    histogram_counts model;
    std::array lines{all.line(0), all.line(1)};
    for (const std::uint8_t step : script) {
        if (step >= 224) lines[step % 2] = all.line(step % 2);  // another owner
        const std::uint64_t value = std::uint64_t{step % 32U} << (step / 32U * 6U);
        holdfast::detail::record_value(lines[step % 2], value);
        model.record(value);
    }
    const histogram_counts found = all.merged();
    require(std::equal(found.counts().begin(), found.counts().end(), model.counts().begin()));
    require(found.sum() == model.sum() && found.least_noted() == model.least_noted() &&
            found.greatest_noted() == model.greatest_noted());
}

void any_estimators(bytes_in state, std::uint64_t n) {
    max_of_n_state blocks;
    tail_state tail;
    put(&blocks, take(state, sizeof blocks));
    put(&tail, take(state, sizeof tail));
    max_of_n estimator(blocks, n);
    for (std::uint64_t i = 0; i <= n; ++i) {
        const std::uint64_t before = estimator.total().blocks;
        estimator.record(static_cast<std::int64_t>(i));
        require(estimator.total().blocks - before <= 1);
    }
    histogram_counts maxima;
    tail_tracker tracker(tail, maxima);
    for (std::uint64_t i = 0; i < tail_block; ++i) tracker.record(i);
    require(maxima.total() == 1 && tail.seen < tail_block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const bool counters = data[0] % 2 == 0;
    bytes_in input(data + 1, size - 1);
    const bytes_in script = input.first(std::min<std::size_t>(input.size(), 200));
    std::vector<line> memory;
    if (counters) {
        const std::span<std::byte> body = bytes_of(memory, 3 * sizeof(layout::counter_slot));
        for (std::size_t slot = 0; slot < 3; ++slot) {
            std::byte* const at = body.data() + slot * sizeof(layout::counter_slot);
            put(at, take(input, 8));
            put(at + offsetof(layout::counter_slot, words), take(input, layout::counter_words * 8));
        }
        any_set(body);
        set_by_script(body, script);
        return 0;
    }
    any_estimators(input, 1 + data[0] / 16U);
    const std::span<std::byte> body = bytes_of(memory, layout::latency_shard_bytes(2));
    latency_shards all(body, 2, "fuzz");
    put(&all[0], take(input, 32));
    put(&all.shared(), take(input, 32));
    for (std::size_t i = 0; i < 64 && !input.empty(); ++i) {
        std::uint16_t which = 0;
        std::uint32_t count = 0;
        put(&which, take(input, sizeof which));
        put(&count, take(input, sizeof count));
        const std::size_t bucket = which / 2U % log_linear::buckets;
        if (which % 2 == 0)
            all[0].counts[bucket] = count;
        else
            all.shared().counts[bucket] = count;
    }
    any_histogram(body, script);
    histogram_by_script(body, script);
    return 0;
}
