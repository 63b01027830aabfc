// SPDX-License-Identifier: Apache-2.0
// Copies of maps, arrays, snapshots, queues of elements and small tables that are saved while their writer works:
// between any two parts of a file it does some steps more. Each value says whose it is and of which generation, so that
// a copy is asked for what saver.hpp promises of its kind: values whole, none older than what could be read before the
// save, and all that stayed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/small_table.hpp"
#include "holdfast/snapshot.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/snapshot_bench.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;

/// A writer's thread, which does step(1), step(2) and so on for as long as this lives.
class at_work {
 public:
    template <class Step>
    explicit at_work(Step step)
        : thread_([this, step = std::move(step)](const std::stop_token& enough) mutable {
              for (u64 n = 1; !enough.stop_requested(); ++n) {
                  step(n);
                  done_.store(n, std::memory_order_release);
              }
          }) {}
    [[nodiscard]] u64 done() const noexcept { return done_.load(std::memory_order_acquire); }
    /// No step beyond it has begun before this call.
    [[nodiscard]] u64 begun() const noexcept { return done() + 1; }
    void wait_for(u64 steps) const noexcept {
        for (const u64 goal = done() + steps; done() < goal;) std::this_thread::yield();
    }

 private:
    std::atomic<u64> done_{0};
    std::jthread thread_;  // ends before what it uses goes
};

class SaveBesideWriter : public segment_test {
 protected:
    [[nodiscard]] std::string uri(std::string_view name = "s") const { return folder.file_uri(name); }
    /// Saves what lies at uri(), with `steps` of the writer's between any two parts of the file, of each of which
    /// part_comes() is told, and restores it. Returns: the copy's URI; nothing where the writer left no quiet moment.
    template <class Part>
    [[nodiscard]] std::optional<std::string> copy_beside(const at_work& writer, u64 steps, Part&& part_comes) {
        std::string text;
        const auto refused = refusal_of([&] {
            (void)inspect::save(uri(), [&](std::string_view part) {
                part_comes();
                text.append(part);
                writer.wait_for(steps);
            });
        });
        if (refused) {
            EXPECT_EQ(refused->code, errc::contended) << *refused;
            return std::nullopt;
        }
        if (++copies > 1) segment::remove(copy_uri());
        restore(text, copy_uri());
        const inspect::verification found = inspect::verify(copy_uri());
        EXPECT_TRUE(found.intact()) << found.findings.front().what;
        return copy_uri();
    }
    [[nodiscard]] std::optional<std::string> copy_beside(const at_work& writer, u64 steps) {
        return copy_beside(writer, steps, [] {});
    }
    void restore(const std::string& text, const std::string& to) const {
        std::ofstream(folder.file("saved"), std::ios::binary | std::ios::trunc) << text;
        (void)inspect::restore(folder.file("saved"), to, {});
    }
    [[nodiscard]] std::string copy_uri() const { return uri("copy"); }

    unique_directory folder{"save-beside-writer"};
    u64 copies = 0;
};

/// Whose it is, of which generation, and words that are functions of both.
template <std::size_t N>
[[nodiscard]] std::array<u64, N> record_of(u64 key, u64 generation) {
    std::array<u64, N> made{key, generation};
    for (std::size_t i = 2; i < N; ++i) made[i] = random_at(key, generation, i);
    return made;
}
template <std::size_t N>
[[nodiscard]] bool is_whole(const std::array<u64, N>& record, u64 key) {
    return record == record_of<N>(key, record[1]);
}

// ---- hash_map

/// The value of a key whose generation is kept beside it, as its flags.
[[nodiscard]] std::vector<std::byte> value_of(u64 number, std::uint32_t generation) {
    return whole_object(number << 32U | generation, (number * 37 + generation * 101U) % 1500);
}
[[nodiscard]] std::string key_of(char sort, u64 number) { return sort + std::to_string(number); }

TEST_F(SaveBesideWriter, OfAHashMapHasAllThatStaysAndOfWhatIsReplacedTheOldOrTheNew) {
    constexpr u64 stay = 1500, replaced = 300, moving = 100;
    auto map = hash_map<std::string_view>::create(
        uri(), {.capacity = 2 * (stay + replaced + moving), .bytes = 6'000'000, .unit_bytes = 128});
    for (u64 i = 0; i < stay; ++i) ASSERT_TRUE(map.set(key_of('s', i), value_of(i, 7), {.ttl = {}, .flags = 7}));
    for (u64 i = 0; i < replaced; ++i) ASSERT_TRUE(map.set(key_of('r', i), value_of(i, 0)));
    const auto reader = hash_map_reader<std::string_view>::attach(uri());
    const at_work writer([&](u64 n) {
        const auto generation = static_cast<std::uint32_t>(n);
        const auto put = [&](char sort, u64 number) {
            const auto done = map.set(key_of(sort, number), value_of(number, generation), {.flags = generation});
            if (!done) ADD_FAILURE() << sort << number << ": " << outcome_name(done.status);
        };
        put('r', n % replaced);
        if (n % 3 != 2)
            put('m', n % moving);
        else
            (void)map.erase(key_of('m', (n + 50) % moving));
    });
    for (u64 round = 0; round < scaled(10); ++round) {
        std::vector<std::byte> value;
        std::array<std::uint32_t, replaced> seen{};  // before the save
        for (u64 i = 0; i < replaced; ++i) seen[i] = reader.find(key_of('r', i), value).flags;
        const auto made = copy_beside(writer, 100);
        if (!made) continue;
        const u64 begun = writer.begun();
        const auto copy = hash_map_reader<std::string_view>::attach(*made);
        for (u64 i = 0; i < stay; ++i) {
            const hash_map_found found = copy.find(key_of('s', i), value);
            ASSERT_TRUE(found) << i;
            ASSERT_EQ(found.flags, 7U) << i;
            ASSERT_EQ(value, value_of(i, 7)) << i;
        }
        for (u64 i = 0; i < replaced; ++i) {
            const hash_map_found found = copy.find(key_of('r', i), value);
            ASSERT_TRUE(found) << i;
            ASSERT_GE(found.flags, seen[i]) << i;
            ASSERT_LE(found.flags, begun) << i;
        }
        for (const hash_map_entry& entry : copy) {
            const std::string key(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
            ASSERT_EQ(entry.value, value_of(std::stoull(key.substr(1)), entry.flags)) << key;
        }
    }
    EXPECT_GT(copies, 0U);
}

// ---- array

// Elements by the 4 KiB: some stay, some are stored one by one, and half of them always together, which is one store.
TEST_F(SaveBesideWriter, OfAnArrayHasWholeElementsAndRangesOfOneMoment) {
    using element = std::array<u64, 8>;
    constexpr u64 range = 4096 / sizeof(element), ranges = 640, size = ranges * range;
    auto elements = array<element>::create(uri(), {.size = size});
    ASSERT_EQ(elements.range_max(), range);
    for (u64 i = 0; i < size; ++i) elements.store(i, record_of<8>(i, 0));
    const auto reader = array_reader<element>::attach(uri());
    std::vector<element> together(range);
    const at_work writer([&](u64 n) {
        const u64 one = (random_at(1, 0, n) % (ranges / 4) * 4 + 3) * range + n % range;
        elements.store(one, record_of<8>(one, n));
        if (n % 8 != 0) return;
        const u64 first = n / 8 % (ranges / 2) * 2 * range;
        for (u64 i = 0; i < range; ++i) together[i] = record_of<8>(first + i, n);
        elements.store_range(first, together);
    });
    for (u64 round = 0; round < scaled(10); ++round) {
        std::vector<u64> seen(size);  // before the save
        for (u64 i = 0; i < size; ++i) seen[i] = reader[i][1];
        const auto made = copy_beside(writer, 500);
        if (!made) continue;
        const u64 begun = writer.begun();
        const auto copy = array_reader<element>::attach(*made);
        ASSERT_EQ(copy.size(), size);
        for (u64 i = 0; i < size; ++i) {
            const element now = copy[i];
            ASSERT_TRUE(is_whole(now, i)) << i << " is torn";
            ASSERT_GE(now[1], seen[i]) << i;
            ASSERT_LE(now[1], i / range % 4 == 1 ? 0 : begun) << i;
            if (i / range % 2 == 0) {
                ASSERT_EQ(now[1], copy[i / range * range][1]) << i << ": a part of a range";
            }
        }
    }
    EXPECT_GT(copies, 0U);
}

// Of one range, over and over.
TEST_F(SaveBesideWriter, OfAnArrayThatIsStoredToWithoutPauseIsNotRefused) {
    using element = std::array<u64, 8>;
    constexpr u64 range = 4096 / sizeof(element), size = 3 * range;
    auto elements = array<element>::create(uri(), {.size = size});
    for (u64 i = 0; i < size; ++i) elements.store(i, record_of<8>(i, 0));
    const at_work writer([&](u64 n) {
        for (u64 i = range; i < 2 * range; ++i) elements.store(i, record_of<8>(i, n));
    });
    for (u64 round = 0; round < scaled(10); ++round) {
        const auto made = copy_beside(writer, 0);
        ASSERT_TRUE(made);
        const auto copy = array_reader<element>::attach(*made);
        for (u64 i = 0; i < size; ++i) ASSERT_TRUE(is_whole<8>(copy[i], i)) << i << " is torn";
    }
}

// One word each: no copy of it can be torn, but one that is older than the save, or another element's.
TEST_F(SaveBesideWriter, OfAnArrayOfWordsHasEachAsItWasMeanwhile) {
    constexpr u64 size = 300'000;
    auto words = array<u64>::create(uri(), {.size = size});
    for (u64 i = 0; i < size; ++i) words.store(i, i << 40U);
    const auto reader = array_reader<u64>::attach(uri());
    const at_work writer([&](u64 n) {
        const u64 one = random_at(2, 0, n) % size;
        words.store(one, one << 40U | n);
    });
    for (u64 round = 0; round < scaled(5); ++round) {
        std::vector<u64> seen(reader.begin(), reader.end());
        const auto made = copy_beside(writer, 2000);
        if (!made) continue;
        const u64 begun = writer.begun();
        const auto copy = array_reader<u64>::attach(*made);
        ASSERT_EQ(copy.size(), size);
        for (u64 i = 0; i < size; ++i) {
            const u64 now = copy[i];
            ASSERT_GE(now, seen[i]) << i;
            ASSERT_LE(now, i << 40U | begun) << i;
        }
    }
    EXPECT_GT(copies, 0U);
}

// ---- snapshot

/// Its number, and behind it bytes that tell it, too, as its length does.
[[nodiscard]] std::size_t bytes_of_object(u64 number) { return sizeof number + number * 7919 % 400'000; }
void fill_object(std::span<std::byte> object, u64 number) {
    std::memset(object.data(), static_cast<int>(number % 251), object.size());
    std::memcpy(object.data(), &number, sizeof number);
}
/// The number of the current object, if that is whole.
[[nodiscard]] std::optional<u64> number_of_object(snapshot_reader& reader) {
    std::vector<std::byte> object;
    if (reader.read(object).status != outcome::ok || object.size() < sizeof(u64)) return std::nullopt;
    u64 number = 0;
    std::memcpy(&number, object.data(), sizeof number);
    std::vector<std::byte> expected(bytes_of_object(number));
    fill_object(expected, number);
    return object == expected ? std::optional(number) : std::nullopt;
}

TEST_F(SaveBesideWriter, OfASnapshotIsAWholeObjectNotOlderThanTheSave) {
    auto objects = snapshot_writer::create(uri(), {.slot_bytes = 400'000 + sizeof(u64), .slots = 2});
    const auto publish = [&](u64 number) {
        const prepare_result room = objects.prepare(bytes_of_object(number));
        if (!room) return false;
        fill_object(room.bytes, number);
        return static_cast<bool>(objects.commit(room.bytes.size()));
    };
    ASSERT_TRUE(publish(0));
    auto reader = snapshot_reader::attach(uri());
    const at_work writer([&](u64 n) {
        if (!publish(n)) ADD_FAILURE() << n;
    });
    u64 others = 0;  // than the one that was read before
    for (u64 round = 0; round < scaled(200); ++round) {
        const auto seen = number_of_object(reader);
        const auto made = copy_beside(writer, 0);
        ASSERT_TRUE(made) << "a second has a moment in which two slots are enough";
        const u64 begun = writer.begun();
        auto copy = snapshot_reader::attach(*made);
        const auto number = number_of_object(copy);
        ASSERT_TRUE(number) << "torn";
        ASSERT_GE(*number, seen.value_or(0));
        ASSERT_LE(*number, begun);
        others += seen && *number != *seen ? 1 : 0;
    }
    EXPECT_GT(copies, 0U);
    EXPECT_TRUE(sanitized || others > 0) << "nothing was published while it was saved";
}

// ---- queue of elements

// Numbers from 1 on. A copy may lack, between those that it has, only what the consumer took meanwhile.
TEST_F(SaveBesideWriter, OfAQueueOfElementsHasAllThatWaitsInItsOrder) {
    using element = std::array<u64, 8>;
    constexpr u64 capacity = 65'536, batch = 64;
    auto producer = queue<element>::producer::create(uri(), {.capacity = capacity});
    auto consumer = queue<element>::consumer::attach(uri());
    std::atomic<u64> put{0}, taking{0}, taken{0};
    const auto put_some = [&] {
        for (u64 i = 0, number = put.load() + 1; i < batch; ++i, ++number) {
            if (!producer.try_push(record_of<8>(number, ~number))) return;
            put.store(number);
        }
    };
    for (u64 n = 0; n < capacity / batch; ++n) put_some();
    ASSERT_EQ(put.load(), capacity);
    const at_work writer([&](u64 n) {
        for (u64 i = random_at(3, 0, n) % (2 * batch); i > 0; --i) {
            taking.store(taken.load() + 1);
            if (!consumer.front() || !consumer.pop()) break;
            taken.store(taking.load());
        }
        put_some();
    });
    u64 gaps = 0;
    for (u64 round = 0; round < scaled(16); ++round) {
        const u64 gone = taken, waiting = put;
        // Now and then so many that the consumer overtakes the copy.
        std::vector<u64> going;  // as each part comes
        const auto made = copy_beside(writer, 1 + random_at(4, 0, round) % 200, [&] { going.push_back(taking); });
        ASSERT_TRUE(made) << "nobody who looks at a queue is kept waiting";
        // Behind the last look at the queue come its last section and the end mark, two parts each.
        ASSERT_GT(going.size(), 4U);
        const u64 gone_later = going[going.size() - 4], begun = put + batch;
        auto copy = queue<element>::consumer::attach(*made);
        u64 last = gone, read = 0;
        for (auto got = copy.try_pop(); got; got = copy.try_pop(), ++read) {
            const u64 number = got.value[0];
            ASSERT_EQ(got.value, record_of<8>(number, ~number)) << "torn";
            ASSERT_GT(number, last) << "consumed before the save, or out of order";
            ASSERT_LE(number, begun);
            ASSERT_TRUE(number == last + 1 || number - 1 <= gone_later) << "lost: " << last + 1 << " to " << number - 1;
            gaps += number == last + 1 || read == 0 ? 0 : 1;
            last = number;
        }
        ASSERT_GE(std::max(last, gone_later), waiting) << "lost at the end";
        ASSERT_LE(read, capacity);
    }
    EXPECT_TRUE(sanitized || gaps > 0) << "the consumer overtook none";
}

// ---- small_table

// What was saved and then went, and comes again in front of the save, is in the file twice, and once in the copy.
TEST_F(SaveBesideWriter, OfASmallTableHasAKeyThatComesAgainElsewhereOnce) {
    using record = std::array<u64, 100>;
    constexpr u64 entries = 4000;  // several parts of a file
    auto table = small_table<u64, record>::create(uri(), {.capacity = entries + 1});
    for (u64 key = 0; key < entries; ++key) ASSERT_EQ(table.try_insert(key, record_of<100>(key, 0)), outcome::ok);
    std::string text;
    bool moved = false;
    (void)inspect::save(uri(), [&](std::string_view part) {
        text.append(part);
        if (moved || text.size() < 1'000) return;
        moved = true;
        EXPECT_EQ(table.erase(0), outcome::ok);
        EXPECT_EQ(table.try_insert(entries, record_of<100>(entries, 0)), outcome::ok);
        EXPECT_EQ(table.try_insert(0, record_of<100>(0, 7)), outcome::ok);
    });
    ASSERT_TRUE(moved);
    restore(text, copy_uri());
    auto copy = small_table_reader<u64, record>::attach(copy_uri());
    EXPECT_TRUE(copy.verify([](const small_table_finding& found) {
                        ADD_FAILURE() << describe(found.what) << " at " << found.place;
                        return true;
                    })
                    .intact());
    EXPECT_EQ(copy.size(), entries);  // the one that came behind the save is not there
    const auto found = copy.find(0);
    ASSERT_TRUE(found);
    EXPECT_EQ((*found)[1], 7U);
}

// The same fields without what else makes a small table: elements stay, whatever they hold.
TEST_F(SaveBesideWriter, OfAnArrayThatIsLikeASmallTableHasAllItsElements) {
    using entry = small_table_entry<u64, u64>;
    for (const u64 head : {u64{0}, u64{4}}) {
        const std::string name = "like" + std::to_string(head);
        auto elements = array<entry>::create(uri(name), {.size = 5});
        elements.store(0, {0, head, 0});
        for (u64 i = 1; i < 4; ++i) elements.store(i, {5, 1, i});
        elements.store(4, {6, 0, 9});  // free, and not empty
        std::string text;
        (void)inspect::save(uri(name), [&](std::string_view part) { text.append(part); });
        restore(text, uri(name + "copy"));
        const auto copy = array_reader<entry>::attach(uri(name + "copy"));
        for (u64 i = 1; i < 4; ++i) {
            EXPECT_EQ(copy[i].key, 5U);
            EXPECT_EQ(copy[i].value, i);
        }
        EXPECT_EQ(copy[4].value, 9U);
    }
}

// Beside a writer at work.
TEST_F(SaveBesideWriter, OfASmallTableHasAllKeysThatStayEachOnce) {
    using record = std::array<u64, 100>;
    constexpr u64 stay = 1000, updated = 1000, moving = 100, from = 1'000'000;
    auto table = small_table<u64, record>::create(uri(), {.capacity = stay + updated + moving});
    for (u64 key = 0; key < stay + updated; ++key)
        ASSERT_EQ(table.try_insert(key * 7919, record_of<100>(key, 0)), outcome::ok);
    auto reader = small_table_reader<u64, record>::attach(uri());
    const at_work writer([&](u64 n) {
        const u64 key = stay + n % updated;
        if (table.update(key * 7919, record_of<100>(key, n)) != outcome::ok) ADD_FAILURE() << key;
        if (n % 4 != 0) return;
        if (n / 4 > moving / 2) (void)table.erase((from + n / 4 - moving / 2) * 7919);
        if (table.try_insert((from + n / 4) * 7919, record_of<100>(from + n / 4, n)) != outcome::ok) ADD_FAILURE() << n;
    });
    for (u64 round = 0; round < scaled(10); ++round) {
        std::vector<u64> seen(stay + updated);
        for (u64 key = 0; key < stay + updated; ++key) {
            const auto found = reader.find(key * 7919);
            ASSERT_TRUE(found) << key;
            seen[key] = (*found)[1];
        }
        const auto made = copy_beside(writer, 50);
        if (!made) continue;
        const u64 begun = writer.begun();
        auto copy = small_table_reader<u64, record>::attach(*made);
        for (u64 key = 0; key < stay + updated; ++key) {
            const auto found = copy.find(key * 7919);
            ASSERT_TRUE(found && is_whole(*found, key)) << key;
            ASSERT_GE((*found)[1], seen[key]) << key;
            ASSERT_LE((*found)[1], key < stay ? 0 : begun) << key;
        }
        u64 come = 0;
        ASSERT_EQ(copy.visit([&](u64 key, const record& value) {
            if (!is_whole(value, key / 7919)) ADD_FAILURE() << key;
            come += value[0] >= from ? 1 : 0;
        }),
                  outcome::ok);
        EXPECT_EQ(copy.size(), stay + updated + come);
        EXPECT_TRUE(copy.verify([](const small_table_finding& found) {
                            ADD_FAILURE() << describe(found.what) << " at " << found.place;
                            return true;
                        })
                        .intact());
        auto next = small_table<u64, record>::attach(*made);
        EXPECT_EQ(next.recovery().doubles, 0U);
        EXPECT_EQ(next.insert_or_assign(5, record_of<100>(5, 1)), outcome::ok);
    }
    EXPECT_GT(copies, 0U);
}

}  // namespace
