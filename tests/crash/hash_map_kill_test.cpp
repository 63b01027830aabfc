// SPDX-License-Identifier: Apache-2.0
// The writer of a hash map is killed by SIGKILL thousands of times at random instants, recovery included, while a
// reader process reads without pause. Attacked: torn and lost values, keys without a value, values without a key: after
// each kill used + free = capacity for whoever looks, and what is there is what the model has. Half of what is stored
// expires, by a clock that goes on with the operations, and goes in the middle of others.
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

#include "holdfast/hash_map.hpp"
#include "support/kill_rig.hpp"
#include "support/map_bench.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

constexpr std::uint64_t keys = 40;
constexpr std::size_t value_bytes_max = 420;
constexpr std::uint64_t seconds_of_a_round = 1 << 16;

// Keys 0, 8, 16, ... are stored at the start and never touched.
constexpr bool is_permanent(std::uint64_t key) { return key % 8 == 0; }

// A value says itself which it is: key, stamp, counter, then a filler that follows from key and stamp.
std::vector<std::byte> value_of(std::uint64_t key, std::uint64_t stamp, std::uint64_t counter = 0) {
    const std::size_t bytes = 24 + random_at(key, stamp, 1) % (value_bytes_max - 23);
    std::vector<std::byte> value = whole_object(random_at(key, stamp, 2), bytes);
    const std::uint64_t words[3] = {key, stamp, counter};
    std::memcpy(value.data(), words, sizeof words);
    return value;
}

struct identity {
    std::uint64_t stamp = 0, counter = 0;
    std::uint64_t expires = 0;  // second; 0: never
    friend bool operator==(const identity&, const identity&) = default;
};

// Which value of the key this is; nothing for bytes that are none.
std::optional<identity> identify(std::uint64_t key, std::span<const std::byte> value) {
    std::uint64_t words[3];
    if (value.size() < sizeof words) return std::nullopt;
    std::memcpy(words, value.data(), sizeof words);
    if (words[0] != key) return std::nullopt;
    const std::vector<std::byte> expected = value_of(key, words[1], words[2]);
    if (expected.size() != value.size() || std::memcmp(expected.data(), value.data(), value.size()) != 0)
        return std::nullopt;
    return identity{words[1], words[2], 0};
}

struct planned {
    enum kind { set, insert, update, erase, touch, add } what = set;
    std::uint64_t key = 0;
    std::uint64_t stamp = 0;
    std::uint64_t at = 0;   // second
    std::uint64_t ttl = 0;  // seconds; 0: for ever
    [[nodiscard]] std::uint64_t expires() const noexcept { return ttl == 0 ? 0 : at + ttl; }
};

// Operation i of a round: a function of (seed, round, i), known to worker and parent. Stamps only grow.
planned plan_operation(std::uint64_t seed, std::uint64_t round, std::uint64_t i) {
    const std::uint64_t random = random_at(seed, round, i);
    std::uint64_t key = (random >> 8) % keys;
    if (is_permanent(key)) ++key;
    static constexpr planned::kind kinds[] = {planned::set,   planned::set,   planned::insert, planned::update,
                                              planned::erase, planned::erase, planned::touch,  planned::add};
    const std::uint64_t at = (round + 1) * seconds_of_a_round + std::min(i / 4, seconds_of_a_round - 1);
    const std::uint64_t ttl = random >> 40 & 1U ? 1 + (random >> 41) % 12 : 0;
    return {kinds[random % 8], key, (round << 20) + i + 2, at, ttl};
}
// The same where anything may have been evicted: nobody but the map knows whether a condition holds there. By a clock
// that nobody sets nothing expires.
planned plan_unconditional(std::uint64_t seed, std::uint64_t round, std::uint64_t i) {
    planned op = plan_operation(seed, round, i);
    if (op.what != planned::erase) op.what = planned::set;
    op.ttl = 0;
    return op;
}

using states = std::map<std::uint64_t, identity>;

void reach(states& model, std::uint64_t second) {
    std::erase_if(model, [second](const auto& one) { return holdfast::detail::is_over(one.second.expires, second); });
}

void follow(states& model, const planned& op) {
    reach(model, op.at);
    const auto at = model.find(op.key);
    const bool there = at != model.end();
    if (op.what == planned::set || op.what == (there ? planned::update : planned::insert))
        model[op.key] = {op.stamp, 0, op.expires()};
    else if (there && op.what == planned::erase)
        model.erase(at);
    else if (there && op.what == planned::touch)
        at->second.expires = op.expires();
    else if (there && op.what == planned::add)
        at->second.counter += op.stamp;
}

// What is stored, or what is wrong with it.
std::string take_stock(const map_reader& reader, states& found) {
    hash_map_entry entry;
    std::uint64_t cursor = 0;
    std::map<std::string, std::uint64_t> numbers;
    for (std::uint64_t key = 0; key < keys; ++key) numbers[map_key(key)] = key;
    while (reader.next_entry(cursor, entry) == outcome::ok) {
        const std::string name(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
        const auto key = numbers.find(name);
        if (key == numbers.end()) return "a key from nowhere";
        auto is = identify(key->second, entry.value);
        if (!is) return "key " + std::to_string(key->second) + " has a torn value";
        if (entry.ttl.count() != 0) is->expires = fake_boot_seconds + static_cast<std::uint64_t>(entry.ttl.count());
        if (!found.emplace(key->second, *is).second) return "a key is met twice";
    }
    return {};
}

std::string differs(const map_reader& reader, const states& model) {
    states found;
    if (std::string text = take_stock(reader, found); !text.empty()) return text;
    if (found.size() != model.size())
        return std::to_string(found.size()) + " keys, " + std::to_string(model.size()) + " expected";
    return found == model ? "" : "a key has another value";
}

struct reader_counters {
    std::atomic<std::uint64_t> stop{0}, read{0}, missed{0};
};

// Reads whatever is there until told to stop. Returns what was wrong.
std::string read_until_stopped(const map_reader& reader, reader_counters& shared) {
    std::vector<std::byte> out(value_bytes_max + 1);
    // Relaxed: flags and counts between processes that order nothing else.
    while (shared.stop.load(std::memory_order_relaxed) == 0)
        for (std::uint64_t key = 0; key < keys; ++key) {
            const hash_map_found got = reader.find(as_key(map_key(key)), std::span(out));
            if (got.status == outcome::not_found && !is_permanent(key)) {
                shared.missed.fetch_add(1, std::memory_order_relaxed);
                continue;
            }
            if (got.status == outcome::contended) continue;
            if (!got) return "key " + std::to_string(key) + " answers: " + std::string(outcome_name(got.status));
            if (!identify(key, std::span(out).first(static_cast<std::size_t>(got.count)))) return "a torn value";
            shared.read.fetch_add(1, std::memory_order_relaxed);
        }
    return reader.fault() ? "the reader latched a fault" : "";
}

outcome run(map_writer& writer, const planned& op) {
    using holdfast::detail::map_condition;
    const std::string name = map_key(op.key);
    const auto key = as_key(name);
    const std::chrono::seconds ttl(op.ttl);
    const auto put_if = [&](const map_condition& when) {
        return writer.set(key, value_of(op.key, op.stamp), {.ttl = ttl}, when).status;
    };
    switch (op.what) {
        case planned::set: return put_if({});
        case planned::insert: return put_if({map_condition::absent});
        case planned::update: return put_if({map_condition::present});
        case planned::erase: return writer.erase(key).status;
        case planned::touch: return writer.touch(key, ttl).status;
        case planned::add: return writer.fetch_add<std::uint64_t>(key, 16, op.stamp).status;
    }
    return outcome::corrupt;
}
// Returns: whether it was done, or its condition does not hold.
bool apply(map_writer& writer, const planned& op) {
    const outcome done = run(writer, op);
    const outcome refused = op.what == planned::insert ? outcome::exists : outcome::not_found;
    return done == outcome::ok || (op.what != planned::set && done == refused);
}

// A map on plain shared bytes with room for the worst case, so that no operation is ever refused.
class kill_bench {
 public:
    explicit kill_bench(std::uint64_t seed)
        : bench_({.units = (keys + 1) * 14, .capacity = keys}),
          copy_(bench_.image().size()),
          seed_(seed),
          page_(4096),
          counters_(new(page_.bytes().data()) reader_counters) {
        map_writer map = bench_.writer();
        for (std::uint64_t key = 0; key < keys; key += 8) {
            EXPECT_TRUE(apply(map, {.what = planned::set, .key = key, .stamp = 1}));
            model_[key] = {.stamp = 1};
        }
    }

    kill_report run(std::uint64_t kills) {
        child_process reader([&]() -> std::string { return read_until_stopped(bench_.reader(), *counters_); });
        kill_report report = run_kill_rounds(
            {.rounds = kills,
             .delay_ns_max = 50'000,
             .seed = seed_,
             .met = [this] { return sanitized || in_expiry >= in_expiry_least; }},
            [&](kill_progress& progress, std::uint64_t round) {
                if (round % 4 == 0) progress.ready();  // from here on: recovery is killed, too
                map_writer map = bench_.writer();
                if (round % 4 != 0) progress.ready();
                for (std::uint64_t i = 0;; ++i) {
                    const planned op = plan_operation(seed_, round, i);
                    fake_boot_seconds = op.at;
                    progress.begin();
                    if (!apply(map, op)) ::_exit(2);
                    progress.end();
                }
            },
            [&](const kill_progress& progress, std::uint64_t round) { return verify(progress, round); });
        counters_->stop.store(1, std::memory_order_relaxed);
        if (const ended& end = reader.wait(); !end.success() && report.failure.empty())
            report.failure = "the reader: " + end.text();
        return report;
    }
    [[nodiscard]] const reader_counters& counters() const noexcept { return *counters_; }
    std::uint64_t finished = 0, in_expiry = 0;
    static constexpr std::uint64_t in_expiry_least = 50;

 private:
    // Recovers a copy: the map itself is left as the kill left it, for the next worker to recover and be killed in.
    std::string verify(const kill_progress& progress, std::uint64_t round) {
        for (std::uint64_t i = 0; i < progress.completed(); ++i) follow(model_, plan_operation(seed_, round, i));
        fake_boot_seconds = plan_operation(seed_, round, progress.completed()).at;
        reach(model_, fake_boot_seconds);
        copy_.assign(bench_.image().bytes());
        const writable_map view(copy_.bytes(), bench_.geometry());
        const auto dead = view.look();
        in_expiry += dead.is_open() && dead.record.what() == entry_change::expired ? 1U : 0U;
        if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
        if (std::string text = miscounted(view.store.as_const()); !text.empty()) return "unrepaired: " + text;
        std::string text = differs(reader_of(view.as_const()), model_);
        if (!text.empty() && progress.in_flight()) {
            follow(model_, plan_operation(seed_, round, progress.completed()));
            text = differs(reader_of(view.as_const()), model_);
        }
        if (!text.empty()) return text;
        const map_writer next(view, fake_clock(), nullptr);
        finished += next.recovery().operation_finished ? 1U : 0U;
        if (next.recovery().record_rebuilt) return "the record was called damaged";
        if (text = differs(next.reader(), model_); !text.empty()) return "recovered: " + text;
        if (text = miscounted(view.store.as_const()); !text.empty()) return "recovered: " + text;
        // More than the model has: what has expired stays until somebody comes by.
        if (next.reader().blocks().usage().values != next.reader().usage().entries)
            return "recovered: an entry without a key";
        return round % 16 == 0 ? leaks(view) : "";
    }

    map_bench bench_;
    shared_image copy_;
    std::uint64_t seed_;
    shared_image page_;
    reader_counters* counters_;
    states model_;
};

TEST(HashMapKill, ThousandsOfKillsLoseNoKeyAndNoUnit) {
    seeded_random random;
    kill_bench bench(random.seed());
    const kill_report report = bench.run(scaled(sanitized ? 2'000 : 10'000));
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.in_flight * 10, report.kills) << "the kills met too few operations";
    EXPECT_GT(bench.counters().read.load(), 0U);
    if (!sanitized) {
        EXPECT_GT(bench.finished, 0U) << "no kill came inside an operation's stores";
        EXPECT_GE(bench.in_expiry, kill_bench::in_expiry_least);
    }
    RecordProperty("kills", report.text());
    RecordProperty("reads", std::to_string(bench.counters().read.load()));
    RecordProperty("operations finished", std::to_string(bench.finished));
    RecordProperty("in an expiry", std::to_string(bench.in_expiry));
}

// The same over a real segment: lease, attach and epoch included; with eviction at work, so that what is there need not
// be all, but must be whole, the newest that was stored, and as many as came and did not go.
class HashMapSegmentKill : public segment_test {};

// What a worker's operations answered, since it attached.
struct answers {
    std::atomic<std::uint64_t> inserted{0}, erased{0};
    void note(const hash_map_result& done) noexcept {
        // Relaxed: read behind the worker's death.
        if (done && done.what == entry_change::inserted) inserted.fetch_add(1, std::memory_order_relaxed);
        if (done && done.what == entry_change::erased) erased.fetch_add(1, std::memory_order_relaxed);
    }
};

TEST_F(HashMapSegmentKill, SuccessorsGoOnWhereTheDeadStopped) {
    const unique_posix_name name("map");
    {
        (void)hash_map<std::string_view>::create(name.uri(), {.capacity = keys, .bytes = 6'000, .evict = true});
    }
    attach_options patient;
    patient.lease_timeout = std::chrono::seconds(10);
    seeded_random random;
    states model;
    shared_image page(4096);
    std::uint64_t size = 0, evicted = 0, found_in_all = 0;
    const kill_report report = run_kill_rounds(
        {.rounds = scaled(10'000), .delay_ns_max = 60'000, .seed = random.seed()},
        [&](kill_progress& progress, std::uint64_t round) {
            auto map = hash_map<std::string_view>::attach(name.uri(), patient);
            auto* const told = new (page.bytes().data()) answers;
            progress.ready();
            for (std::uint64_t i = 0;; ++i) {
                const planned op = plan_unconditional(random.seed(), round, i);
                progress.begin();
                const std::string key = map_key(op.key);
                const bool sets = op.what == planned::set;
                const hash_map_result done = sets ? map.set(key, value_of(op.key, op.stamp)) : map.erase(key);
                if (sets && !done) ::_exit(2);
                told->note(done);
                progress.end();
            }
        },
        [&](const kill_progress& progress, std::uint64_t round) -> std::string {
            const auto plan = [&](std::uint64_t i) { return plan_unconditional(random.seed(), round, i); };
            for (std::uint64_t i = 0; i < progress.completed(); ++i) follow(model, plan(i));
            const auto reader = hash_map_reader<std::string_view>::attach(name.uri());
            const readable_map view(reader.segment().bytes(), reader.geometry());
            if (std::string text = damage_of(view); !text.empty()) return text;
            if (std::string text = miscounted(view.store); !text.empty()) return "unrepaired: " + text;
            const auto next = hash_map<std::string_view>::attach(name.uri(), patient);
            if (std::string text = damage_of(view); !text.empty()) return "recovered: " + text;
            if (std::string text = miscounted(view.store); !text.empty()) return "recovered: " + text;
            states found;
            if (std::string text = take_stock(reader_of(view), found); !text.empty()) return text;
            if (next.usage().entries != found.size() || reader_of(view).blocks().usage().values != found.size())
                return "an entry without a key";
            // Of an operation in flight one step may be untold: an entry that came, or went, or went to eviction and
            // was not counted any more.
            const std::uint64_t open = progress.in_flight() ? 1 : 0;
            const answers& by = *reinterpret_cast<const answers*>(page.bytes().data());
            const std::uint64_t gone = next.usage().evicted - evicted, came = size + by.inserted,
                                went = by.erased + gone;
            if (found.size() + went + open < came || found.size() + went > came + open)
                return std::to_string(found.size()) + " keys, where " + std::to_string(came) + " came and " +
                       std::to_string(went) + " went";
            evicted += gone;
            size = found.size();
            found_in_all += found.size();
            states with_last = model;
            if (progress.in_flight()) follow(with_last, plan(progress.completed()));
            for (const auto& [key, is] : found)
                if (const auto before = model.find(key), after = with_last.find(key);
                    !(before != model.end() && before->second == is) &&
                    !(after != with_last.end() && after->second == is))
                    return "key " + std::to_string(key) + " has a value that is not its newest";
            model = found;
            return {};
        });
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(found_in_all, 4 * report.kills) << "more than a dozen values fit";
    EXPECT_GT(evicted, 0U);
    RecordProperty("kills", report.text());
}

}  // namespace
