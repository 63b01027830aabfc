// SPDX-License-Identifier: Apache-2.0
// The rig's own teeth: a container of two words that keeps its promise is passed, and each way of breaking the promise
// is found. And what hooks report: every kind of store there is, and none of a look.
//
// The container: two equal words behind a number. A store writes the words that are not in force, then the number,
// which says which are: slot = number % 2. Each mistake below is one line of it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "hooks/store_rig.hpp"
#include "hooks/survivors.hpp"
#include "hooks/volume.hpp"
#include "support/hash_table_image.hpp"

namespace {

using namespace holdfast::test;

enum class mistake { none, commit_first, in_place, recovery_grows, recovery_half, unseen, reader_stores, takes_back };

struct pair_body {
    std::uint64_t number;
    std::uint64_t slots[2][2];
    std::uint64_t taken_over[2];  // two equal words that recovery writes
};

inline mistake made = mistake::none;

// The compiler shall keep the order and the number of stores.
void put(std::uint64_t& word, std::uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_release);  // one thread: for the compiler alone
}

class pair_core {
 public:
    explicit pair_core(pair_body& body) : body_(&body) {
        if (made == mistake::recovery_grows) put(body.taken_over[0], body.taken_over[0] + 1);
        if (made == mistake::recovery_half) {  // needs its second store to be right, and nobody mends it
            if (body.taken_over[0] == body.taken_over[1]) put(body.taken_over[0], body.number);
            put(body.taken_over[1], body.number);
        }
        if (made == mistake::takes_back && body.number % 8 == 7) put(body.number, body.number - 1);
    }
    void store(std::uint64_t value) {
        const std::uint64_t next = body_->number + 1;
        std::uint64_t* slot = body_->slots[(made == mistake::in_place ? body_->number : next) % 2];
        if (made == mistake::commit_first) put(body_->number, next);
        put(slot[0], value);
        if (made == mistake::unseen)
            store_unseen(slot[1], value);
        else
            put(slot[1], value);
        if (made != mistake::commit_first && made != mistake::in_place) put(body_->number, next);
        if (made == mistake::in_place) put(body_->number, body_->number + 2);
    }
    [[nodiscard]] static std::string read(pair_body& body, std::uint64_t& value) {
        if (made == mistake::reader_stores) put(body.taken_over[0], 5);
        const std::uint64_t* slot = body.slots[body.number % 2];
        value = slot[0];
        return slot[0] == slot[1] ? "" : "torn";
    }

 private:
    // A store that no hook sees, as inline assembly would make it.
    static void store_unseen(std::uint64_t& word, std::uint64_t value) {
        asm volatile("mov %1, %0" : "=m"(word) : "r"(value) : "memory");
    }
    pair_body* body_;
};

class pair_subject {
 public:
    static constexpr unsigned length = 100;
    explicit pair_subject(std::uint64_t) : bytes_(sizeof(pair_body)), core_(body()) {}
    [[nodiscard]] std::span<std::byte> image() { return bytes_.bytes(); }
    std::string next(store_rig& rig) {
        before_ = after_++;
        rig.operate([&] { core_.store(after_); }, [&] { return survive(rig, before_); });
        return {};
    }

 private:
    [[nodiscard]] pair_body& body() { return *reinterpret_cast<pair_body*>(bytes_.bytes().data()); }
    std::string survive(store_rig& rig, std::uint64_t least) {
        std::uint64_t seen = 0, now = 0;
        if (std::string why = pair_core::read(body(), seen); !why.empty()) return why;
        if (seen < least || seen > after_) return "neither before nor after";
        if (made == mistake::recovery_half && level_ != 0 && body().taken_over[0] != body().taken_over[1])
            return "recovery was cut";
        ++level_;
        rig.recover([&] { pair_core next(body()); }, [&] { return survive(rig, seen); });
        --level_;
        if (std::string why = pair_core::read(body(), now); !why.empty()) return "recovered: " + why;
        if (now < seen) return "taken back";
        if (rig.changes_by([&] { pair_core next(body()); }) != 0) return "not idempotent";
        std::string why;
        rig.go_on([&] {
            pair_core next(body());
            next.store(now + 1);
            why = pair_core::read(body(), now);
        });
        return why;
    }
    aligned_bytes bytes_;
    pair_core core_;
    std::uint64_t before_ = 0, after_ = 0;
    unsigned level_ = 0;
};

std::string failure_with(mistake what) {
    made = what;
    const store_report report = crash_histories<pair_subject>(1, 20'000);
    made = mistake::none;
    return report.failure;
}

TEST(StoreRig, ARightContainerPasses) {
    made = mistake::none;
    const store_report report = crash_histories<pair_subject>(1, 20'000);
    EXPECT_EQ(report.failure, "");
    EXPECT_GE(report.points[0], 20'000U);
    EXPECT_EQ(report.stores, report.operations * 3);
}
TEST(StoreRig, ACommitBeforeItsBytesIsFound) {
    EXPECT_NE(failure_with(mistake::commit_first).find("torn"), std::string::npos);
}
TEST(StoreRig, AnOverwriteInPlaceIsFound) {
    EXPECT_NE(failure_with(mistake::in_place).find("torn"), std::string::npos);
}
TEST(StoreRig, ARecoveryThatDoesMoreTheSecondTimeIsFound) {
    EXPECT_NE(failure_with(mistake::recovery_grows).find("not idempotent"), std::string::npos);
}
TEST(StoreRig, ADeathInRecoveryIsTried) {
    const std::string found = failure_with(mistake::recovery_half);
    EXPECT_NE(found.find("recovery was cut"), std::string::npos);
    EXPECT_NE(found.find("2 deaths deep"), std::string::npos) << found;
}
TEST(StoreRig, AStoreWithoutAHookIsFound) {
    EXPECT_NE(failure_with(mistake::unseen).find("missed a store"), std::string::npos);
}
TEST(StoreRig, AReaderThatStoresIsFound) {
    EXPECT_NE(failure_with(mistake::reader_stores).find("a look stored"), std::string::npos);
}
TEST(StoreRig, ARecoveryThatTakesBackIsFound) {
    EXPECT_NE(failure_with(mistake::takes_back).find("taken back"), std::string::npos);
}
TEST(StoreRig, TheSameSeedFailsInTheSamePlace) {
    EXPECT_EQ(failure_with(mistake::commit_first), failure_with(mistake::commit_first));
}

// Every way to store that the containers and their users have, in front of the store and in words.
class listener final : public access_listener {
 public:
    explicit listener(std::span<std::byte> bytes) : bytes_(bytes), watch_(bytes, *this) {}
    void before_store(std::byte* at, std::size_t bytes) noexcept override {
        stored += bytes;
        ++stores;
        in_front = in_front && *at == std::byte{0};
    }
    void before_load(const std::byte*, std::size_t bytes) noexcept override { loaded += bytes; }
    std::size_t stored = 0, stores = 0, loaded = 0;
    bool in_front = true;

 private:
    std::span<std::byte> bytes_;
    access_watch watch_;
};

// The same, but the compiler knows nothing of it.
template <class T>
T unknown(T value) {
    asm volatile("" : "+r"(value) : : "memory");
    return value;
}

// What fill(bytes) is reported as: bytes in all, and stores.
template <class Fill>
void expect_reported(std::size_t bytes, std::size_t stores, Fill&& fill, const char* what) {
    alignas(64) static std::array<std::byte, 4096> area;
    area.fill(std::byte{0});
    std::byte* const hidden = unknown(area.data());
    const listener told(area);
    fill(hidden);
    EXPECT_EQ(told.stored, bytes) << what;
    EXPECT_EQ(told.stores, stores) << what;
    EXPECT_TRUE(told.in_front) << what;
}

TEST(AccessHooks, EveryKindOfStoreIsReportedBeforeItHappens) {
    std::array<std::byte, 3000> from;
    from.fill(std::byte{9});
    const std::size_t some = unknown(std::size_t{1000});
    struct record {
        std::uint64_t words[5];
    };
    record whole{{1, 2, 3, 4, 5}};
    expect_reported(8, 1, [](std::byte* at) { *reinterpret_cast<std::uint64_t*>(at) = 1; }, "a word");
    expect_reported(1, 1, [](std::byte* at) { at[3] = std::byte{1}; }, "a byte");
    expect_reported(40, 5, [&](std::byte* at) { *reinterpret_cast<record*>(at) = whole; }, "a record");
    expect_reported(1000, 125, [&](std::byte* at) { std::memcpy(at, from.data(), some); }, "memcpy");
    expect_reported(1000, 126, [&](std::byte* at) { std::memcpy(at + 4, from.data(), some); }, "memcpy, crooked");
    expect_reported(200, 25, [&](std::byte* at) { std::memcpy(at, from.data(), 200); }, "memcpy of known size");
    expect_reported(1000, 125, [&](std::byte* at) { std::memset(at, 1, some); }, "memset");
    expect_reported(96, 12, [&](std::byte* at) { std::memset(at, 1, 96); }, "memset of known size");
    expect_reported(64, 8, [&](std::byte* at) { std::memmove(at, at + 8, 64); }, "memmove");
    const auto word = [](std::byte* at) { return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)); };
    const auto half = [](std::byte* at) { return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(at)); };
    // Orders as they come: one thread.
    expect_reported(8, 1, [&](std::byte* at) { word(at).store(1, std::memory_order_relaxed); }, "atomic store");
    expect_reported(4, 1, [&](std::byte* at) { half(at).store(1, std::memory_order_seq_cst); }, "atomic store of 4");
    expect_reported(8, 1, [&](std::byte* at) { (void)word(at).exchange(1); }, "exchange");
    expect_reported(8, 1, [&](std::byte* at) { (void)word(at).fetch_add(1); }, "fetch_add");
    expect_reported(4, 1, [&](std::byte* at) { (void)half(at).fetch_or(1); }, "fetch_or");
    expect_reported(
        8, 1,
        [&](std::byte* at) {
            std::uint64_t seen = 0;
            EXPECT_TRUE(word(at).compare_exchange_strong(seen, 7));
            EXPECT_EQ(*reinterpret_cast<std::uint64_t*>(at), 7U);
        },
        "compare_exchange");
}

TEST(AccessHooks, LoadsAreReportedAndNothingOutside) {
    alignas(64) static std::array<std::uint64_t, 64> area{};
    std::uint64_t* const hidden = unknown(area.data());
    listener told(std::as_writable_bytes(std::span(area)).subspan(64, 64));
    std::uint64_t* const words = hidden;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < area.size(); ++i)
        sum += std::atomic_ref(words[i]).load(std::memory_order_acquire);  // one thread
    words[7] = sum + 1;
    words[16] = sum + 1;
    EXPECT_EQ(told.loaded, 64U);
    EXPECT_EQ(told.stored, 0U);
}

TEST(Survivors, AnOrderThatSurvivesNeedsAReasonAndOneThatDoesNotMustHaveNone) {
    const order_reasons reasons = reasons_in(
        "# remark\nqueue | A | a.hpp f | x | store release\nqueue | F | a.hpp g | y || z | load acquire\narray | B | "
        "k\n",
        "queue");
    EXPECT_EQ(reasons, (order_reasons{{"a.hpp f | x | store release", "A"}, {"a.hpp g | y || z | load acquire", "F"}}));
    const std::string one = "a.hpp f | x | store release", seldom = "a.hpp g | y || z | load acquire";
    EXPECT_TRUE(contradictions("queue", reasons, {one, seldom}, {}).empty());
    EXPECT_TRUE(contradictions("queue", reasons, {one}, {seldom}).empty());
    EXPECT_TRUE(contradictions("queue", reasons, {one}, {}).empty()) << "not come upon";
    EXPECT_EQ(contradictions("queue", reasons, {one, seldom, "new"}, {}).size(), 1U);
    EXPECT_EQ(contradictions("queue", reasons, {seldom}, {one}).size(), 1U) << "caught";
    EXPECT_EQ(contradictions("queue", reasons, {seldom}, {}).size(), 1U) << "gone";
    EXPECT_THROW((void)reasons_in("queue | I | a.hpp f | x | store release\n", "queue"), std::runtime_error);
    EXPECT_THROW((void)reasons_in("queue\n", "queue"), std::runtime_error);
    EXPECT_EQ(order_row("queue", seldom, "caught", 7),
              "| queue | a.hpp g | `y \\|\\| z` | load acquire | caught | 7 |");
}

}  // namespace
