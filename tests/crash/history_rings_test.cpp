// SPDX-License-Identifier: Apache-2.0
// Queues, broadcasts, snapshots and published indexes under real load, their processes killed and stopped at random:
// every recorded history could have come from operations that happened at single instants, each of a killed process at
// most once and before its successor went on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "support/history_test.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

constexpr u64 content_bytes_max = 400;
u64 content_bytes(u64 n) { return 8 * (1 + random_at(5, 0, n) % (content_bytes_max / 8)); }

/// Message or object number n: 8 to 400 bytes that show whether they are whole.
std::vector<std::byte> content_of(u64 n) {
    std::vector<std::byte> bytes(content_bytes(n));
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
        const u64 word = i == 0 ? n : random_at(5, n, i);
        std::memcpy(bytes.data() + i, &word, 8);
    }
    return bytes;
}
/// Its number, and ~0 for bytes that are none.
u64 number_in(std::span<const std::byte> bytes) {
    u64 n = ~u64{0};
    if (bytes.size() >= 8) std::memcpy(&n, bytes.data(), 8);
    const std::vector<std::byte> whole = content_of(n);
    return std::equal(whole.begin(), whole.end(), bytes.begin(), bytes.end()) ? n : ~u64{0};
}
constexpr u64 no_number = ~u64{0};

// ---- queue -------------------------------------------------------------------------------------------------------

enum : std::uint32_t { push_kind, front_kind, pop_kind };

/// What messages [from, to) take of a ring, and what it loses at most at its end: "full" is judged by both.
struct ring_of_bytes {
    static constexpr u64 capacity = 8192;
    // Before what waits wraps and before what comes does, and the word behind all.
    static constexpr u64 lost_max = 2 * layout::ring_record_bytes(content_bytes_max) + layout::ring_word_bytes;
    static u64 taken(u64 from, u64 to) {
        u64 bytes = 0;
        for (; from < to; ++from) bytes += layout::ring_record_bytes(content_bytes(from));
        return bytes;
    }
};
struct ring_of_records {
    static constexpr u64 capacity = 64, lost_max = 0;
    static u64 taken(u64 from, u64 to) { return to - from; }
};

template <class Ring>
struct fifo_model {
    struct state {
        u64 head = 0, tail = 0;
        friend bool operator==(const state&, const state&) = default;
    };
    static bool apply(state& s, const operation& op) {
        switch (op.kind) {
            case push_kind: {  // `key` messages, of which the first is number `given`; 1: full
                if (op.given != s.tail) return false;
                const u64 taken = Ring::taken(s.head, s.tail + op.key);
                if (!op.killed && op.answer != 0) return taken + Ring::lost_max > Ring::capacity;
                if (taken > Ring::capacity) return false;
                s.tail += op.key;
                return true;
            }
            case front_kind:  // the number + 1; 0: empty
                return op.killed || (op.answer == 0 ? s.head == s.tail : s.head < s.tail && op.answer == s.head + 1);
            default: return s.head++ < s.tail;
        }
    }
};

class QueueHistory : public history_test {
 protected:
    /// Judges a run, and counts the pushes that found no room.
    template <class Ring>
    history_report judge(const history_run& run) {
        const history all = run.all();
        full_ += static_cast<u64>(std::count_if(all.begin(), all.end(), [](const operation& op) {
            return op.kind == push_kind && !op.killed && op.answer != 0;
        }));
        return check_history<fifo_model<Ring>>(all);
    }
    void TearDown() override {
        EXPECT_GT(full_, 0U) << "no push found the queue full";
        RecordProperty("full", std::to_string(full_));
    }
    /// Notes how a push ended. Of several in a row that find no room the first is one to be judged.
    static void note(history_worker& me, bool full, bool& was_full) {
        if (full && was_full)
            me.log().cancel();
        else
            me.log().done(full ? 1 : 0);
        was_full = full;
    }

 private:
    u64 full_ = 0;
};

TEST_F(QueueHistory, OfBytesIsLinearizable) {
    check_rounds(
        8,
        [&](const std::string& uri) {
            queue_options options;
            options.capacity_bytes = ring_of_bytes::capacity;
            (void)queue_producer::create(uri, options);
            const auto push = [uri](history_worker& me) -> std::string {
                me.mortal();
                queue_producer producer = queue_producer::attach(uri, patient());
                me.attached();
                bool was_full = false;
                for (u64 next = producer.stats().messages; me.go_on();) {
                    const u64 count = me.below(4) == 0 ? 3 : 1;
                    me.log().call(push_kind, count, next);
                    std::vector<std::vector<std::byte>> batch;
                    for (u64 i = 0; i < count; ++i) batch.push_back(content_of(next + i));
                    const result put = count == 1 ? producer.try_push(batch[0]) : producer.try_push_all(batch);
                    const bool full = put.status == outcome::full;
                    if (!put && !full) return "a push answers " + std::string(outcome_name(put.status));
                    note(me, full, was_full);
                    if (!full) next += count;
                }
                return {};
            };
            const auto pop = [uri](history_worker& me) -> std::string {
                me.mortal();
                queue_consumer consumer = queue_consumer::attach(uri, {delivery::at_least_once, patient()});
                me.attached();
                while (me.go_on()) {
                    me.log().call(front_kind, 0, 0);
                    const queue_message found = consumer.front();
                    if (!found && found.status != outcome::empty)
                        return "front answers " + std::string(outcome_name(found.status));
                    const u64 number = found ? number_in(found.bytes) : 0;
                    if (number == no_number) return "a torn message";
                    me.log().done(found ? number + 1 : 0);
                    if (!found || me.below(4) == 0) continue;
                    me.log().call(pop_kind, 0, 0);
                    if (!consumer.pop()) return "pop refused what front gave";
                    me.log().done(0);
                }
                return {};
            };
            return std::vector<history_role>{{push, true, 60'000}, {pop, true, 60'000}};
        },
        [](const std::string& uri) {
            (void)queue_producer::attach(uri, patient());
            (void)queue_consumer::attach(uri, {delivery::at_least_once, patient()});
        },
        [&](const history_run& run) { return judge<ring_of_bytes>(run); });
}

TEST_F(QueueHistory, OfRecordsIsLinearizable) {
    using numbers = queue<u64>;
    check_rounds(
        8,
        [&](const std::string& uri) {
            (void)numbers::producer::create(uri, {.capacity = ring_of_records::capacity});
            const auto push = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto producer = numbers::producer::attach(uri, patient());
                me.attached();
                bool was_full = false;
                for (u64 next = producer.stats().messages; me.go_on();) {
                    const u64 count = me.below(4) == 0 ? 3 : 1;
                    const u64 batch[] = {next, next + 1, next + 2};
                    me.log().call(push_kind, count, next);
                    const result put = producer.try_push(std::span<const u64>(batch, count));
                    const bool full = put.status == outcome::full;
                    if (!put && !full) return "a push answers " + std::string(outcome_name(put.status));
                    note(me, full, was_full);
                    if (!full) next += count;
                }
                return {};
            };
            const auto pop = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto consumer = numbers::consumer::attach(uri, {delivery::at_least_once, patient()});
                me.attached();
                while (me.go_on()) {
                    me.log().call(front_kind, 0, 0);
                    const auto found = consumer.front();
                    if (!found && found.status != outcome::empty)
                        return "front answers " + std::string(outcome_name(found.status));
                    me.log().done(found ? found.value + 1 : 0);
                    if (!found || me.below(4) == 0) continue;
                    me.log().call(pop_kind, 0, 0);
                    if (!consumer.pop()) return "pop refused what front gave";
                    me.log().done(0);
                }
                return {};
            };
            return std::vector<history_role>{{push, true, 60'000}, {pop, true, 60'000}};
        },
        [](const std::string& uri) {
            (void)numbers::producer::attach(uri, patient());
            (void)numbers::consumer::attach(uri, {delivery::at_least_once, patient()});
        },
        [&](const history_run& run) { return judge<ring_of_records>(run); });
}

// ---- broadcast ---------------------------------------------------------------------------------------------------

enum : std::uint32_t { publish_kind, read_kind };

// Each reader has a place of its own, so all that readers share is how far the writer is.
struct log_model {
    using state = u64;  // number of the newest message
    static bool apply(state& s, const operation& op) {
        if (op.kind == publish_kind) {  // `key` messages at once, of which the first is number `given`
            if (op.given != s + 1) return false;
            s += op.key;
            return true;
        }
        // Message number `given` was there, or was not yet.
        return op.killed || (op.answer != 0 ? s >= op.given : s < op.given);
    }
};

class BroadcastHistory : public history_test {};

TEST_F(BroadcastHistory, IsLinearizable) {
    check_rounds(
        8,
        [&](const std::string& uri) {
            broadcast_options options;
            options.capacity_bytes = 16'384;
            options.registered_readers = 2;
            (void)broadcast_writer::create(uri, options);
            const auto publish = [uri](history_worker& me) -> std::string {
                me.mortal();
                broadcast_writer writer = broadcast_writer::attach(uri, patient());
                me.attached();
                while (me.go_on()) {
                    const u64 first = writer.sequence() + 1, count = me.below(4) == 0 ? 3 : 1;
                    std::vector<std::vector<std::byte>> batch;
                    for (u64 i = 0; i < count; ++i) batch.push_back(content_of(first + i));
                    me.log().call(publish_kind, count, first);
                    const result done = writer.publish_batch(batch);
                    if (done.status == outcome::full) {
                        me.log().cancel();
                        continue;
                    }
                    if (done.count != count) return "a publish answers " + std::string(outcome_name(done.status));
                    me.log().done(0);
                }
                return {};
            };
            const auto follow = [](history_worker& me, auto reader) -> std::string {
                me.attached();
                std::vector<std::byte> out;
                while (me.go_on()) {
                    const u64 next = reader.sequence();
                    me.log().call(read_kind, 0, next);
                    const broadcast_read got = reader.read(out);
                    if (got.status == outcome::lapped) {
                        if (reader.sequence() != next + got.count) return "the loss is not exact";
                        me.log().cancel();
                        continue;
                    }
                    if (!got && got.status != outcome::empty)
                        return "a read answers " + std::string(outcome_name(got.status));
                    if (got && (got.sequence != next || number_in(out) != next)) return "another message";
                    me.log().done(got ? 1 : 0);
                }
                return {};
            };
            const auto look = [uri, follow](history_worker& me) {
                me.mortal();
                return follow(me, broadcast_reader::attach(uri, broadcast_start::latest()));
            };
            const auto hold = [uri, follow](history_worker& me) {
                me.mortal();
                return follow(me, broadcast_reliable_reader::attach(uri));
            };
            return std::vector<history_role>{{publish, true}, {look, true}, {look}, {hold, true}};
        },
        [](const std::string& uri) { (void)broadcast_writer::attach(uri, patient()); },
        [](const history_run& run) { return check_history<log_model>(run.all()); });
}

// ---- snapshot ----------------------------------------------------------------------------------------------------

class SnapshotHistory : public history_test {};

history_report judge_versions(const history_run& run) {
    history reads = run.of(1, run.of_role.size());
    std::erase_if(reads, [](const operation& op) { return op.killed; });
    return check_versions(run.of_role[0], reads);
}

TEST_F(SnapshotHistory, IsLinearizable) {
    check_rounds(
        8,
        [&](const std::string& uri) {
            snapshot_options options;
            options.slot_bytes = 400;
            options.pinned_readers = 2;
            (void)snapshot_writer::create(uri, options);
            const auto publish = [uri](history_worker& me) -> std::string {
                me.mortal();
                snapshot_writer writer = snapshot_writer::attach(uri, patient());
                me.attached();
                while (me.go_on()) {
                    const u64 version = writer.version() + 1;
                    const std::vector<std::byte> object = content_of(version);
                    me.log().call(publish_kind, 0, version);
                    const publish_result done = writer.publish(object);
                    if (done.version != version) return "a publish was refused";
                    me.log().done(0);
                }
                return {};
            };
            const auto copy = [uri](history_worker& me) -> std::string {
                me.mortal();
                snapshot_reader reader = snapshot_reader::attach(uri);
                me.attached();
                std::vector<std::byte> out;
                while (me.go_on()) {
                    me.log().call(read_kind, 0, 0);
                    const auto got = reader.read(out);
                    if (got.status == outcome::contended) {
                        me.log().cancel();
                        continue;
                    }
                    if (!got && got.status != outcome::empty) return "a read was refused";
                    if (got && number_in(out) != got.version) return "another version's object";
                    me.log().done(got ? got.version : 0);
                }
                return {};
            };
            const auto pin = [uri](history_worker& me) -> std::string {
                me.mortal();
                snapshot_pinned_reader reader = snapshot_pinned_reader::attach(uri);
                me.attached();
                while (me.go_on()) {
                    me.log().call(read_kind, 0, 0);
                    const snapshot_view view = reader.pin();
                    if (!view && view.status() != outcome::empty) return "a pin was refused";
                    me.log().done(view ? view.version() : 0);
                    if (view && number_in(view.bytes()) != view.version()) return "another version's object is pinned";
                }
                return {};
            };
            return std::vector<history_role>{{publish, true}, {copy, true}, {copy}, {pin, true}};
        },
        [](const std::string& uri) { (void)snapshot_writer::attach(uri, patient()); }, judge_versions);
}

constexpr u64 records = 20;

TEST_F(SnapshotHistory, OfIndexesIsLinearizable) {
    using publisher = sorted_index_publisher<u64, u64>;
    check_rounds(
        8,
        [&](const std::string& uri) {
            (void)publisher::create(uri, {.records_max = records});
            const auto publish = [uri](history_worker& me) -> std::string {
                me.mortal();
                publisher mine = publisher::attach(uri, patient());
                me.attached();
                while (me.go_on()) {
                    const u64 version = mine.version() + 1;
                    publisher::builder builder;
                    for (u64 key = 0; key < records; ++key) builder.add(key, random_at(version, 2, key));
                    me.log().call(publish_kind, 0, version);
                    if (mine.publish(builder).version != version) return "a publish was refused";
                    me.log().done(0);
                }
                return {};
            };
            const auto find = [uri](history_worker& me) -> std::string {
                me.mortal();
                auto reader = publisher::reader_type::attach(uri);
                me.attached();
                while (me.go_on()) {
                    const u64 key = me.below(records);
                    me.log().call(read_kind, 0, 0);
                    const auto got = reader.find(key);
                    if (got.status == outcome::contended) {
                        me.log().cancel();
                        continue;
                    }
                    if (!got && got.status != outcome::empty) return "a lookup was refused";
                    if (got && got.entry.value != random_at(got.version, 2, key)) return "a record of another version";
                    me.log().done(got ? got.version : 0);
                }
                return {};
            };
            return std::vector<history_role>{{publish, true}, {find, true}, {find}};
        },
        [](const std::string& uri) { (void)publisher::attach(uri, patient()); }, judge_versions);
}

}  // namespace
