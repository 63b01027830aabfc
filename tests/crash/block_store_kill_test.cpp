// SPDX-License-Identifier: Apache-2.0
// The writer of a block store is killed by SIGKILL thousands of times at random instants, recovery included, while a
// reader process reads without pause. Attacked: torn values, lost values, and units that nobody owns: after each kill
// used + free = capacity for whoever looks, and the units in use are exactly those of the values that the model has.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/block_store.hpp"
#include "support/block_bench.hpp"
#include "support/kill_rig.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t keys = 40;
constexpr std::size_t value_bytes_max = 420;

// Values 0, 8, 16, ... are stored at the start and never touched: their handles must hold for ever.
constexpr bool is_permanent(std::uint64_t key) { return key % 8 == 0; }

// A value says itself which it is: key, stamp, then a filler that follows from both.
std::vector<std::byte> value_of(std::uint64_t key, std::uint64_t stamp) {
    const std::size_t bytes = 16 + random_at(key, stamp, 1) % (value_bytes_max - 15);
    const std::uint64_t filler = random_at(key, stamp, 2);
    std::vector<std::byte> value(bytes + 8);
    for (std::size_t at = 0; at < bytes; at += 8) {
        const std::uint64_t word = at == 0 ? key : at == 8 ? stamp : filler * (2 * at + 1);
        std::memcpy(value.data() + at, &word, 8);
    }
    value.resize(bytes);
    return value;
}

struct identity {
    std::uint64_t key = 0, stamp = 0;
};

// Which value this is; nothing for bytes that are none.
std::optional<identity> identify(std::span<const std::byte> value) {
    identity is;
    if (value.size() < 16) return std::nullopt;
    std::memcpy(&is.key, value.data(), 8);
    std::memcpy(&is.stamp, value.data() + 8, 8);
    const std::vector<std::byte> expected = value_of(is.key, is.stamp);
    if (is.key >= keys || expected.size() != value.size()) return std::nullopt;
    if (std::memcmp(expected.data(), value.data(), value.size()) != 0) return std::nullopt;
    return is;
}

struct planned {
    bool free = false;     // else the value is stored, or replaced
    bool dropped = false;  // a claim is made before, and dropped
    std::uint64_t key = 0;
    std::uint64_t stamp = 0;
};

// Operation i of a round: a function of (seed, round, i), known to worker and parent. Stamps only grow.
planned plan_operation(std::uint64_t seed, std::uint64_t round, std::uint64_t i) {
    const std::uint64_t random = random_at(seed, round, i);
    std::uint64_t key = (random >> 8) % keys;
    if (is_permanent(key)) ++key;
    return {random % 3 == 0, random / 3 % 8 == 0, key, (round << 20) + i + 2};
}

using stamps = std::map<std::uint64_t, std::uint64_t>;

void follow(stamps& model, const planned& op) {
    if (!op.free)
        model[op.key] = op.stamp;
    else
        model.erase(op.key);
}

// What is stored: for each key its stamps and handles. More than one only in the middle of a replacement.
struct inventory {
    std::multimap<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> found;
    std::string wrong;
};

inventory take_stock(const block_reader& reader) {
    inventory stock;
    std::vector<std::byte> out(value_bytes_max + 1);
    for (const std::uint64_t handle : handles_of(reader)) {
        const result got = reader.read(handle, out);
        const auto is = got ? identify(std::span(out).first(static_cast<std::size_t>(got.count))) : std::nullopt;
        if (!is) stock.wrong = "handle " + std::to_string(handle) + " has a torn value";
        if (is) stock.found.emplace(is->key, std::pair(is->stamp, handle));
    }
    return stock;
}

std::string differs(const inventory& stock, const stamps& model) {
    if (!stock.wrong.empty()) return stock.wrong;
    if (stock.found.size() != model.size())
        return std::to_string(stock.found.size()) + " values, " + std::to_string(model.size()) + " expected";
    for (const auto& [key, is] : stock.found) {
        const auto expected = model.find(key);
        if (expected == model.end()) return "key " + std::to_string(key) + " should not be there";
        if (expected->second != is.first) return "key " + std::to_string(key) + " has another stamp";
    }
    return {};
}

struct reader_counters {
    std::atomic<std::uint64_t> stop{0}, read{0}, stale{0}, counted{0};
};

// Reads whatever is there until told to stop. Returns what was wrong.
std::string read_until_stopped(const block_reader& reader, const std::vector<std::uint64_t>& permanent,
                               reader_counters& shared) {
    std::vector<std::byte> out(value_bytes_max + 1);
    // Relaxed: flags and counts between processes that order nothing else.
    while (shared.stop.load(std::memory_order_relaxed) == 0) {
        std::vector<std::uint64_t> handles = handles_of(reader);
        handles.insert(handles.end(), permanent.begin(), permanent.end());
        for (const std::uint64_t handle : handles) {
            const result got = reader.read(handle, out);
            if (got.status == outcome::stale && !std::ranges::count(permanent, handle)) {
                shared.stale.fetch_add(1, std::memory_order_relaxed);
                continue;
            }
            if (!got) return "a read answers: " + std::string(outcome_name(got.status));
            if (!identify(std::span(out).first(static_cast<std::size_t>(got.count)))) return "a torn value";
            shared.read.fetch_add(1, std::memory_order_relaxed);
        }
        if (reader.usage().status == outcome::corrupt) return "the usage is corrupt";
        // If no value came or went meanwhile, the units in use are those counted.
        const holdfast::detail::block_state before = reader.bytes().state();
        const std::uint64_t used = units_in_use(reader.bytes());
        if (!before.same_as(reader.bytes().state())) continue;
        if (before.units() != used)
            return std::to_string(before.units()) + " units counted, " + std::to_string(used) + " in use";
        shared.counted.fetch_add(1, std::memory_order_relaxed);
    }
    return {};
}

// A store on plain shared bytes with room for the worst case, so that no operation is ever refused.
class kill_bench {
 public:
    explicit kill_bench(std::uint64_t seed)
        : bench_((keys + 1) * layout::block_store_geometry{1 << 20, 64}.units_for_at_worst(value_bytes_max)),
          copy_(bench_.image().size()),
          seed_(seed),
          page_(4096),
          counters_(new(page_.bytes().data()) reader_counters) {
        block_writer writer = bench_.writer();
        for (std::uint64_t key = 0; key < keys; key += 8) {
            permanent_.push_back(store(writer, {false, false, key, 1}, value_of(key, 1), 0));
            model_[key] = 1;
        }
    }

    kill_report run(std::uint64_t kills) {
        child_process reader(
            [&]() -> std::string { return read_until_stopped(bench_.reader(), permanent_, *counters_); });
        kill_report report = run_kill_rounds(
            {.rounds = kills,
             .delay_ns_max = 50'000,
             .seed = seed_,
             .met = [&] { return sanitized || replacements_finished > 0; }},
            [&](kill_progress& progress, std::uint64_t round) {
                if (round % 4 == 0) progress.ready();  // from here on: recovery is killed, too
                work(progress, round);
            },
            [&](const kill_progress& progress, std::uint64_t round) { return verify(progress, round); });
        counters_->stop.store(1, std::memory_order_relaxed);
        if (const ended& end = reader.wait(); !end.success() && report.failure.empty())
            report.failure = "the reader: " + end.text();
        return report;
    }
    [[nodiscard]] const reader_counters& counters() const noexcept { return *counters_; }
    std::uint64_t replacements_finished = 0;
    std::uint64_t units_in_use_most = 0;

 private:
    static std::uint64_t store(block_writer& writer, const planned& op, std::span<const std::byte> value,
                               std::uint64_t replaced) {
        if (op.dropped) {
            (void)writer.prepare(value_bytes_max);
            (void)writer.write(0, value);
        }
        if (writer.prepare(value.size()) != outcome::ok) ::_exit(2);
        (void)writer.write(0, value);
        const block_result kept = writer.commit(replaced);
        if (!kept) ::_exit(3);
        return kept.handle;
    }

    void work(kill_progress& progress, std::uint64_t round) {
        block_writer writer = bench_.writer();
        std::map<std::uint64_t, std::uint64_t> handles;
        for (const auto& [key, is] : take_stock(writer.reader()).found) handles[key] = is.second;
        if (round % 4 != 0) progress.ready();
        for (std::uint64_t i = 0;; ++i) {
            const planned op = plan_operation(seed_, round, i);
            std::uint64_t& handle = handles[op.key];  // 0: none
            const std::vector<std::byte> value = value_of(op.key, op.stamp);
            progress.begin();
            if (!op.free) {
                handle = store(writer, op, value, handle);
            } else if (handle != 0) {
                if (writer.free(handle) != outcome::ok) ::_exit(4);
                handle = 0;
            }
            progress.end();
        }
    }

    // Recovers a copy: the store itself is left as the kill left it, for the next worker to recover and be killed in.
    std::string verify(const kill_progress& progress, std::uint64_t round) {
        for (std::uint64_t i = 0; i < progress.completed(); ++i) follow(model_, plan_operation(seed_, round, i));
        copy_.assign(bench_.image().bytes());
        const writable_blocks view(copy_.bytes(), bench_.geometry());
        if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return "unrepaired: " + text;
        const block_writer next(view);
        replacements_finished += next.recovery().replacement_finished ? 1 : 0;
        if (std::string text = miscounted(view.as_const()); !text.empty()) return "recovered: " + text;
        const inventory stock = take_stock(next.reader());
        std::string text = differs(stock, model_);
        if (!text.empty() && progress.in_flight()) {
            const planned op = plan_operation(seed_, round, progress.completed());
            stamps after = model_;
            follow(after, op);
            text = differs(stock, after);
            if (text.empty()) model_ = after;
        }
        if (!text.empty()) return text;
        units_in_use_most = std::max(units_in_use_most, next.units_used());
        return round % 16 == 0 ? leaks(view) : "";
    }

    block_bench bench_;
    shared_image copy_;
    std::uint64_t seed_;
    shared_image page_;
    reader_counters* counters_;
    stamps model_;
    std::vector<std::uint64_t> permanent_;
};

TEST(BlockStoreKill, TenThousandKillsLoseNoValueAndNoUnit) {
    seeded_random random;
    kill_bench bench(random.seed());
    const kill_report report = bench.run(scaled(sanitized ? 2'000 : 10'000));
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.in_flight * 10, report.kills) << "the kills met too few operations";
    EXPECT_GT(bench.counters().read.load(), 0U);
    EXPECT_GT(bench.counters().counted.load(), 0U) << "the writer never rested for as long as a count takes";
    if (!sanitized) {
        EXPECT_GT(bench.replacements_finished, 0U) << "no kill came between a commit and the end of the old value";
    }
    RecordProperty("kills", report.text());
    RecordProperty("reads", std::to_string(bench.counters().read.load()));
    RecordProperty("counted", std::to_string(bench.counters().counted.load()));
    RecordProperty("replacements finished", std::to_string(bench.replacements_finished));
}

// The same over a real segment: lease, attach and epoch included.
class BlockStoreSegmentKill : public segment_test {};

TEST_F(BlockStoreSegmentKill, SuccessorsGoOnWhereTheDeadStopped) {
    const unique_posix_name name("blocks");
    {
        (void)block_store::create(name.uri(), {.bytes = 200'000, .value_bytes = 100});
    }
    attach_options patient;
    patient.lease_timeout = std::chrono::seconds(10);
    seeded_random random;
    stamps model;
    const auto core_of = [](const block_store_reader& reader) {
        return block_reader({reader.segment().bytes(), reader.geometry()});
    };
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(10'000), .delay_ns_max = 60'000, .seed = random.seed()},
        [&](kill_progress& progress, std::uint64_t round) {
            block_store store = block_store::attach(name.uri(), patient);
            std::map<std::uint64_t, std::uint64_t> handles;
            for (const auto& [key, is] : take_stock(core_of(store.make_reader())).found) handles[key] = is.second;
            progress.ready();
            for (std::uint64_t i = 0;; ++i) {
                const planned op = plan_operation(random.seed(), round, i);
                std::uint64_t& handle = handles[op.key];
                progress.begin();
                if (!op.free) {
                    const std::vector<std::byte> value = value_of(op.key, op.stamp);
                    const block_result kept = handle == 0 ? store.allocate(value) : store.replace(handle, value);
                    if (!kept) ::_exit(2);
                    handle = kept.handle;
                } else if (handle != 0) {
                    if (store.free(handle) != outcome::ok) ::_exit(3);
                    handle = 0;
                }
                progress.end();
            }
        },
        [&](const kill_progress& progress, std::uint64_t round) -> std::string {
            for (std::uint64_t i = 0; i < progress.completed(); ++i)
                follow(model, plan_operation(random.seed(), round, i));
            const block_store_reader reader = block_store_reader::attach(name.uri());
            const readable_blocks view(reader.segment().bytes(), reader.geometry());
            if (std::string text = damage_of(view); !text.empty()) return text;
            if (std::string text = miscounted(view); !text.empty()) return "unrepaired: " + text;
            const block_store next = block_store::attach(name.uri(), patient);
            if (std::string text = miscounted(view); !text.empty()) return "recovered: " + text;
            const inventory stock = take_stock(core_of(reader));
            std::string text = differs(stock, model);
            if (!text.empty() && progress.in_flight()) {
                follow(model, plan_operation(random.seed(), round, progress.completed()));
                text = differs(stock, model);
            }
            return text;
        });
    EXPECT_TRUE(report.passed()) << report.text();
    RecordProperty("kills", report.text());
}

}  // namespace
