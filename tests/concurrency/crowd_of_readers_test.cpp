// SPDX-License-Identifier: Apache-2.0
// One writer and 32 readers, each a process of its own, on the few cores there are. Each quarter of the readers is
// stopped in turn, wherever each of them is, while the writer and the others must go on: nobody waits for a reader.
// Nothing is ever torn, what a reader lost it is told exactly, and in the end each has what the writer left.
#include <gtest/gtest.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/registered_reader.hpp"
#include "holdfast/snapshot.hpp"
#include "support/broadcast_bench.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"
#include "support/snapshot_bench.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using namespace std::chrono_literals;

constexpr std::size_t crowd = 32, quarters = 4;

/// On a page that all processes map. Relaxed where it counts; what the readers need of the writer's last word is
/// ordered by `last`.
struct alignas(64) reader_tally {
    std::atomic<u64> looks{0}, read{0}, lost{0};
};
struct shared_tally {
    std::atomic<u64> written{0};
    std::atomic<bool> enough{false}, failed{false};
    std::atomic<u64> last{0};  // what the writer says it wrote, once it is through
    std::array<reader_tally, crowd> readers;
};

void add(std::atomic<u64>& counter, u64 more = 1) { counter.fetch_add(more, std::memory_order_relaxed); }
[[nodiscard]] u64 value_of(const std::atomic<u64>& counter) { return counter.load(std::memory_order_relaxed); }

class CrowdOfReaders : public ::testing::Test {
 protected:
    static_assert(sizeof(shared_tally) <= 4096);

    /// make_writer() gives what steps, by step(), which returns a failure text, and says by last() what it wrote.
    /// open(i) gives the reader of that number: look(its tally) looks once and returns a failure text, and so does
    /// finish(last, its tally) when the writer is through.
    template <class MakeWriter, class Open>
    void run(MakeWriter&& make_writer, Open&& open) {
        child_process writer([&](channel& parent) -> std::string {
            auto writes = make_writer();
            parent.signal();
            if (!parent.wait()) return "nobody is there";
            while (!tally_.enough.load(std::memory_order_relaxed)) {
                if (std::string wrong = writes.step(); !wrong.empty()) return wrong;
                add(tally_.written);
            }
            tally_.last.store(writes.last(), std::memory_order_release);
            return {};
        });
        ASSERT_TRUE(writer.talk().wait()) << writer.wait().text();
        std::vector<child_process> readers;
        for (std::size_t i = 0; i < crowd; ++i)
            readers.emplace_back([&, i](channel& parent) -> std::string {
                auto reader = open(i);
                parent.signal();
                return look_until_the_end(reader, tally_.readers[i]);
            });
        for (child_process& reader : readers) ASSERT_TRUE(reader.talk().wait()) << reader.wait().text();
        writer.talk().signal();
        for (std::size_t stopped = 0; stopped < quarters; ++stopped) {
            const auto is_stopped = [&](std::size_t i) { return i % quarters == stopped; };
            for (std::size_t i = 0; i < crowd; ++i)
                if (is_stopped(i)) readers[i].send_signal(SIGSTOP);
            const std::string wrong = all_go_on_but(is_stopped);
            EXPECT_EQ(wrong, "") << "while readers are stopped";
            for (std::size_t i = 0; i < crowd; ++i)
                if (is_stopped(i)) readers[i].send_signal(SIGCONT);
            if (!wrong.empty()) break;
        }
        tally_.enough.store(true, std::memory_order_relaxed);
        // Before the readers end: it owes nothing to any of them.
        ASSERT_TRUE(writer.wait().success()) << writer.wait().text();
        for (child_process& reader : readers) EXPECT_TRUE(reader.wait().success()) << reader.wait().text();
    }
    [[nodiscard]] u64 sum_of(std::atomic<u64> reader_tally::* counter) const {
        u64 sum = 0;
        for (const reader_tally& reader : tally_.readers) sum += value_of(reader.*counter);
        return sum;
    }
    void say(const char* what) const {
        std::printf("%s: %llu written, %llu read, %llu lost, in %llu looks\n", what,
                    static_cast<unsigned long long>(value_of(tally_.written)),
                    static_cast<unsigned long long>(sum_of(&reader_tally::read)),
                    static_cast<unsigned long long>(sum_of(&reader_tally::lost)),
                    static_cast<unsigned long long>(sum_of(&reader_tally::looks)));
    }

    unique_posix_name name_{"crowd"};
    std::string uri_ = name_.uri();
    shared_image page_{4096};
    shared_tally& tally_ = *new (page_.bytes().data()) shared_tally;

 private:
    static constexpr auto patience = 60s;

    template <class Reader>
    [[nodiscard]] std::string look_until_the_end(Reader& reader, reader_tally& counts) {
        for (;;) {
            // R1, with the writer's store of `last`: what is looked at from here on is all that there will be.
            const u64 last = tally_.last.load(std::memory_order_acquire);
            if (last != 0) return reader.finish(last, counts);
            if (std::string wrong = reader.look(counts); !wrong.empty()) {
                tally_.failed.store(true, std::memory_order_relaxed);
                return wrong;
            }
            add(counts.looks);
        }
    }
    // Waits until the writer and each reader that runs have done as much again as is worth looking at.
    template <class Stopped>
    [[nodiscard]] std::string all_go_on_but(const Stopped& is_stopped) const {
        const u64 steps = scaled(20'000), looks = scaled(200);
        const u64 written = value_of(tally_.written);
        std::array<u64, crowd> looked{};
        for (std::size_t i = 0; i < crowd; ++i) looked[i] = value_of(tally_.readers[i].looks);
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (!tally_.failed.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < deadline) {
            bool all = value_of(tally_.written) >= written + steps;
            for (std::size_t i = 0; i < crowd; ++i)
                all = all && (is_stopped(i) || value_of(tally_.readers[i].looks) >= looked[i] + looks);
            if (all) return {};
            const timespec moment{0, 1'000'000};
            ::nanosleep(&moment, nullptr);
        }
        if (tally_.failed.load(std::memory_order_relaxed)) return "a reader failed";
        return value_of(tally_.written) < written + steps ? "the writer does not go on" : "a reader does not go on";
    }
};

// ---- broadcast: messages and counts of lost ones give each number once, whatever the reader's registration

constexpr std::size_t bytes_max = 248;

struct ring_writer {
    broadcast_writer ring;
    [[nodiscard]] std::string step() {
        return ring.publish(nth_message(ring.sequence() + 1, bytes_max)) ? "" : "a publish was refused";
    }
    [[nodiscard]] u64 last() const { return ring.sequence(); }
};

template <class Ring>
struct ring_reader {
    Ring ring;
    std::array<std::byte, bytes_max + 8> buffer{};

    [[nodiscard]] std::string look(reader_tally& counts) {
        const u64 expected = ring.sequence();
        const broadcast_read got = ring.read(buffer);
        if (got.status == outcome::lapped) add(counts.lost, got.count);
        if (got.status == outcome::lapped || got.status == outcome::empty) return {};
        if (!got) return "reading: " + std::string(outcome_name(got.status));
        add(counts.read);
        const bool right =
            got.sequence == expected &&
            is_message(std::span(buffer).first(static_cast<std::size_t>(got.count)), expected, bytes_max);
        return right ? "" : "message " + std::to_string(expected) + " is torn or another";
    }
    [[nodiscard]] std::string finish(u64 last, reader_tally& counts) {
        while (ring.sequence() <= last)
            if (std::string wrong = look(counts); !wrong.empty()) return wrong;
        const u64 told = value_of(counts.read) + value_of(counts.lost);
        return told == last ? "" : std::to_string(told) + " told of " + std::to_string(last) + " messages";
    }
};

/// Either sort of reader, behind the same calls.
template <class One, class Other>
struct either {
    std::optional<One> one;
    std::optional<Other> other;
    [[nodiscard]] std::string look(reader_tally& counts) { return one ? one->look(counts) : other->look(counts); }
    [[nodiscard]] std::string finish(u64 last, reader_tally& counts) {
        return one ? one->finish(last, counts) : other->finish(last, counts);
    }
};

TEST_F(CrowdOfReaders, OfABroadcastAreToldOfEachMessageOnceAndHoldNobodyUp) {
    broadcast_options options;
    options.capacity_bytes = 64 << 10;
    options.registered_readers = crowd / 2;
    (void)broadcast_writer::create(uri_, options);
    using plain = ring_reader<broadcast_reader>;
    using registered = ring_reader<broadcast_reliable_reader>;
    run([&] { return ring_writer{broadcast_writer::attach(uri_)}; },
        [&](std::size_t i) {
            either<plain, registered> reader;
            if (i < crowd / 2)
                reader.one = plain{broadcast_reader::attach(uri_)};
            else
                reader.other = registered{
                    broadcast_reliable_reader::attach(uri_, {.policy = broadcast_policy::drop, .patience = 1s})};
            return reader;
        });
    say("broadcast");
    EXPECT_GT(sum_of(&reader_tally::read), 0U);
    for (const reader_tally& reader : tally_.readers) EXPECT_GT(value_of(reader.lost), 0U) << "nobody overran it";
}

// ---- snapshot: whole, never older than the one before, and in the end the last one

constexpr std::size_t object_bytes = 1024;
[[nodiscard]] std::size_t length_of(u64 version) { return 8 + version * 7 % (object_bytes - 8); }

struct object_writer {
    snapshot_writer snapshot;
    u64 version = 0;
    [[nodiscard]] std::string step() {
        const auto got = snapshot.publish(whole_object(version + 1, length_of(version + 1)));
        return got && got.version == ++version ? "" : "a publish was refused";
    }
    [[nodiscard]] u64 last() const { return version; }
};
struct object_reader {
    snapshot_reader snapshot;
    u64 seen = 0;
    std::vector<std::byte> object{};

    [[nodiscard]] std::string look(reader_tally& counts) {
        const auto got = snapshot.read(object);
        // Overrun each time: told as such.
        if (got.status == outcome::contended || got.status == outcome::empty) return {};
        if (!got) return "reading: " + std::string(outcome_name(got.status));
        add(counts.read);
        if (got.version < seen) return "version " + std::to_string(got.version) + " behind a later one";
        seen = got.version;
        return object.size() == length_of(seen) && is_whole(object, seen) ? "" : "a torn object";
    }
    [[nodiscard]] std::string finish(u64 last, reader_tally& counts) {
        std::string wrong = look(counts);
        return !wrong.empty() || seen == last ? wrong : "the last version is not there";
    }
};
struct object_holder {
    snapshot_pinned_reader snapshot;
    u64 seen = 0;

    [[nodiscard]] std::string look(reader_tally& counts) {
        const snapshot_view view = snapshot.pin();
        if (view.status() == outcome::empty) return {};
        if (!view) return "pinning: " + std::string(outcome_name(view.status()));
        add(counts.read);
        if (view.version() < seen) return "version " + std::to_string(view.version()) + " behind a later one";
        seen = view.version();
        for (int time = 0; time < 2; ++time)  // it stays as long as it is looked at
            if (view.bytes().size() != length_of(seen) || !is_whole(view.bytes(), seen))
                return "what is pinned changed";
        return {};
    }
    [[nodiscard]] std::string finish(u64 last, reader_tally& counts) {
        std::string wrong = look(counts);
        return !wrong.empty() || seen == last ? wrong : "the last version is not there";
    }
};

TEST_F(CrowdOfReaders, OfASnapshotSeeWholeObjectsInOrderAndHoldNobodyUp) {
    snapshot_options options;
    options.slot_bytes = object_bytes;
    options.pinned_readers = crowd / 2;
    (void)snapshot_writer::create(uri_, options);
    run([&] { return object_writer{snapshot_writer::attach(uri_)}; },
        [&](std::size_t i) {
            either<object_reader, object_holder> reader;
            if (i < crowd / 2)
                reader.one = object_reader{snapshot_reader::attach(uri_)};
            else
                reader.other = object_holder{snapshot_pinned_reader::attach(uri_)};
            return reader;
        });
    say("snapshot");
    for (const reader_tally& reader : tally_.readers) EXPECT_GT(value_of(reader.read), 0U);
}

// ---- array: elements that say themselves whether they are whole, never older than before

struct wide_element {
    u64 index, version;
    std::array<u64, 10> derived;
    friend bool operator==(const wide_element&, const wide_element&) = default;
};
[[nodiscard]] wide_element element_of(u64 index, u64 version) {
    wide_element made{index, version, {}};
    for (u64 i = 0; i < made.derived.size(); ++i) made.derived[i] = message_word(version, index + i);
    return made;
}
constexpr u64 elements = 64, range = 8;

struct array_writer {
    array<wide_element> all;
    u64 steps = 0;
    // One element, or a range of them at once, which then is as of one moment.
    [[nodiscard]] std::string step() {
        ++steps;
        if (steps % 2 == 0) {
            all.store(range + steps / 2 % (elements - range),
                      element_of(range + steps / 2 % (elements - range), steps));
        } else {
            std::array<wide_element, range> several;
            for (u64 i = 0; i < range; ++i) several[i] = element_of(i, steps);
            all.store_range(0, several);
        }
        return {};
    }
    [[nodiscard]] u64 last() const { return steps; }
};
struct element_reader {
    array_reader<wide_element> all;
    u64 next = 0;
    std::array<u64, elements> seen{};

    [[nodiscard]] std::string look(reader_tally& counts) {
        const u64 index = next++ % elements;
        if (index < range) return look_at_range(counts);
        wide_element one{};
        const outcome got = all.load(index, one);
        if (got == outcome::contended) return {};  // told as such
        if (got != outcome::ok) return "reading: " + std::string(outcome_name(got));
        add(counts.read);
        return fault_of(one, index);
    }
    [[nodiscard]] std::string finish(u64 last, reader_tally& counts) {
        for (u64 i = 0; i < elements; ++i)
            if (std::string wrong = look(counts); !wrong.empty()) return wrong;
        u64 newest = 0;
        for (const u64 version : seen) newest = std::max(newest, version);
        return newest == last ? "" : "the last store is not there";
    }

 private:
    [[nodiscard]] std::string look_at_range(reader_tally& counts) {
        std::array<wide_element, range> several{};
        try {
            all.load_range(0, several);
        } catch (const error& e) {
            return e.code() == errc::contended ? "" : e.what();
        }
        add(counts.read);
        for (u64 i = 0; i < range; ++i) {
            if (several[i].version != several[0].version) return "a range of two moments";
            if (std::string wrong = fault_of(several[i], i); !wrong.empty()) return wrong;
        }
        return {};
    }
    [[nodiscard]] std::string fault_of(const wide_element& one, u64 index) {
        if (one.version == 0) return one == wide_element{} && seen[index] == 0 ? "" : "an element went back to nothing";
        if (one != element_of(index, one.version)) return "element " + std::to_string(index) + " is torn";
        if (one.version < seen[index]) return "element " + std::to_string(index) + " is older than before";
        seen[index] = one.version;
        return {};
    }
};

TEST_F(CrowdOfReaders, OfAnArraySeeWholeElementsInOrderAndHoldNobodyUp) {
    (void)array<wide_element>::create(uri_, {.size = elements});
    run([&] { return array_writer{array<wide_element>::attach(uri_)}; },
        [&](std::size_t) { return element_reader{array_reader<wide_element>::attach(uri_)}; });
    say("array");
    for (const reader_tally& reader : tally_.readers) EXPECT_GT(value_of(reader.read), 0U);
}

// ---- hash map: keys that stay are always there, whole and never older; others come and go

constexpr u64 stay = 40, keys = 80;
[[nodiscard]] std::size_t value_length(u64 key, u64 version) { return 16 + (key * 31 + version * 7) % 400; }

struct map_writer {
    hash_map<u64> map;
    u64 steps = 0;
    [[nodiscard]] std::string step() {
        const u64 key = (++steps * 37) % keys;
        if (key >= stay && steps % 3 == 0) {
            const hash_map_result gone = map.erase(key);
            return gone || gone.status == outcome::not_found ? "" : "an erase was refused";
        }
        std::vector<std::byte> value(value_length(key, steps));
        fill_value(value, key, steps);
        return map.set(key, value) ? "" : "a set was refused";
    }
    [[nodiscard]] u64 last() const { return steps; }

    // Its version, then bytes of that version and key alone.
    static void fill_value(std::span<std::byte> out, u64 key, u64 version) {
        std::memcpy(out.data(), &version, 8);
        fill_message(out.subspan(8), version * keys + key);
    }
};
template <class Map>
struct map_reader {
    Map map;
    u64 next = 0;
    std::array<u64, keys> seen{};
    std::vector<std::byte> value{};

    [[nodiscard]] std::string look(reader_tally& counts) {
        const u64 key = next++ % keys;
        const hash_map_found got = map.find(key, value);
        if (got.status == outcome::contended) return {};  // told as such
        if (got.status == outcome::not_found)
            return key < stay ? "key " + std::to_string(key) + ", which stays, is not found" : "";
        if (!got) return "finding: " + std::string(outcome_name(got.status));
        add(counts.read);
        u64 version = 0;
        std::memcpy(&version, value.data(), std::min<std::size_t>(8, value.size()));
        if (version < seen[key]) return "key " + std::to_string(key) + " is older than before";
        seen[key] = version;
        std::vector<std::byte> expected(value_length(key, version));
        map_writer::fill_value(expected, key, version);
        return value == expected ? "" : "the value of key " + std::to_string(key) + " is torn";
    }
    [[nodiscard]] std::string finish(u64 last, reader_tally& counts) {
        next = 0;
        for (u64 i = 0; i < keys; ++i)
            if (std::string wrong = look(counts); !wrong.empty()) return wrong;
        for (u64 key = 0; key < stay; ++key)
            if (seen[key] + keys <= last) return "the last value of key " + std::to_string(key) + " is not there";
        return {};
    }
};

TEST_F(CrowdOfReaders, OfAHashMapSeeWholeValuesInOrderAndHoldNobodyUp) {
    hash_map_options options;
    options.capacity = keys;
    options.bytes = 48 << 10;
    options.registered_readers = crowd / 2;
    {
        map_writer filled{hash_map<u64>::create(uri_, options)};
        std::vector<std::byte> value;
        for (u64 key = 0; key < stay; ++key) {
            value.resize(value_length(key, 0));
            map_writer::fill_value(value, key, 0);
            ASSERT_TRUE(filled.map.set(key, value));
        }
    }
    using plain = map_reader<hash_map_reader<u64>>;
    using registered = map_reader<hash_map_registered_reader<u64>>;
    run([&] { return map_writer{hash_map<u64>::attach(uri_)}; },
        [&](std::size_t i) {
            either<plain, registered> reader;
            if (i < crowd / 2)
                reader.one = plain{hash_map_reader<u64>::attach(uri_)};
            else
                reader.other = registered{hash_map_registered_reader<u64>::attach(uri_)};
            return reader;
        });
    say("hash_map");
    for (const reader_tally& reader : tally_.readers) EXPECT_GT(value_of(reader.read), 0U);
}

}  // namespace
