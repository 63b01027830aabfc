// SPDX-License-Identifier: Apache-2.0
// The weak memory of weak_rig.hpp itself: each litmus test shows every outcome that C++ allows without values out of
// thin air, and none that it forbids.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hooks/weak_rig.hpp"
#include "support/hash_table_image.hpp"

namespace {

using namespace holdfast::test;
constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release, seq_cst = std::memory_order_seq_cst;

// Words x, y and processes that load into registers; outcomes are the registers as text.
class litmus {
 public:
    using program = std::function<void(litmus&)>;
    explicit litmus(std::vector<program> programs) : programs_(std::move(programs)) {}

    // What 20,000 random executions gave.
    std::set<std::string> outcomes() {
        weak_rig rig(bytes_.bytes(), static_cast<unsigned>(programs_.size()));
        std::set<std::string> seen;
        for (std::uint64_t i = 0; i < 20'000; ++i) {
            for (std::uint64_t at = 0; at < 8; ++at) word(static_cast<unsigned>(at)).store(0, relaxed);
            registers = {};
            const std::string race = rig.run(
                [](void* self, unsigned number) {
                    auto& own = *static_cast<litmus*>(self);
                    own.programs_[number](own);
                },
                this, i);
            std::string text = race.empty() ? "" : "race";
            for (std::size_t r = 0; race.empty() && r < registers.size() && registers[r] != none; ++r)
                text += static_cast<char>('0' + registers[r]);
            seen.insert(text);
        }
        return seen;
    }
    void store(unsigned at, std::uint64_t value, std::memory_order order) { word(at).store(value, order); }
    std::uint64_t load(unsigned at, std::memory_order order) { return word(at).load(order); }
    [[nodiscard]] std::atomic_ref<std::uint64_t> word(unsigned at) { return std::atomic_ref(plain(at)); }
    [[nodiscard]] std::uint64_t& plain(unsigned at) {
        return reinterpret_cast<std::uint64_t*>(bytes_.bytes().data())[at];
    }

    static constexpr std::uint64_t none = 99;
    struct all_none : std::array<std::uint64_t, 4> {
        all_none() { fill(none); }
    };
    all_none registers;

 private:
    aligned_bytes bytes_{64};
    std::vector<program> programs_;
};
using outcomes = std::set<std::string>;
constexpr unsigned x = 0, y = 1;

outcomes store_buffering(std::memory_order stores, std::memory_order loads, bool fenced) {
    const auto side = [=](unsigned own, unsigned other) {
        return [=](litmus& t) {
            t.store(own, 1, stores);
            if (fenced) std::atomic_thread_fence(seq_cst);  // the point of this test
            t.registers[own] = t.load(other, loads);
        };
    };
    return litmus({side(x, y), side(y, x)}).outcomes();
}
TEST(Litmus, StoreBuffering) {
    EXPECT_EQ(store_buffering(relaxed, relaxed, false), (outcomes{"00", "01", "10", "11"}));
    EXPECT_EQ(store_buffering(release, acquire, false), (outcomes{"00", "01", "10", "11"}));
    EXPECT_EQ(store_buffering(seq_cst, seq_cst, false), (outcomes{"01", "10", "11"}));
    EXPECT_EQ(store_buffering(relaxed, relaxed, true), (outcomes{"01", "10", "11"}));
}

outcomes message_passing(std::memory_order stores, std::memory_order loads, bool fenced) {
    return litmus({[=](litmus& t) {
                       t.store(x, 1, relaxed);
                       if (fenced) std::atomic_thread_fence(release);  // pairs with the one below
                       t.store(y, 1, stores);
                   },
                   [=](litmus& t) {
                       t.registers[0] = t.load(y, loads);
                       if (fenced) std::atomic_thread_fence(acquire);  // pairs with the one above
                       t.registers[1] = t.load(x, relaxed);
                   }})
        .outcomes();
}
TEST(Litmus, MessagePassing) {
    EXPECT_EQ(message_passing(relaxed, relaxed, false), (outcomes{"00", "01", "10", "11"}));
    EXPECT_EQ(message_passing(release, relaxed, false), (outcomes{"00", "01", "10", "11"}));
    EXPECT_EQ(message_passing(relaxed, acquire, false), (outcomes{"00", "01", "10", "11"}));
    EXPECT_EQ(message_passing(release, acquire, false), (outcomes{"00", "01", "11"}));
    EXPECT_EQ(message_passing(relaxed, relaxed, true), (outcomes{"00", "01", "11"}));
}

TEST(Litmus, PlainBytesBehindARelaxedFlagAreARaceAndBehindAnAcquiredOneAreNot) {
    for (const bool right : {true, false}) {
        const outcomes seen = litmus({[=](litmus& t) {
                                          t.plain(x) = 1;
                                          t.store(y, 1, right ? release : relaxed);
                                      },
                                      [=](litmus& t) {
                                          if (t.load(y, acquire) == 1) t.registers[0] = t.plain(x);
                                      }})
                                  .outcomes();
        EXPECT_EQ(seen.contains("race"), !right);
        EXPECT_EQ(seen.contains("1"), right);
    }
}

// No values out of thin air: in this model not even the outcome that needs a load to wait for a later store.
TEST(Litmus, LoadBuffering) {
    const auto side = [](unsigned own, unsigned other) {
        return [=](litmus& t) {
            t.registers[own] = t.load(own, relaxed);
            t.store(other, 1, relaxed);
        };
    };
    EXPECT_EQ(litmus({side(x, y), side(y, x)}).outcomes(), (outcomes{"00", "01", "10"}));
}

TEST(Litmus, Coherence) {
    const outcomes seen = litmus({[](litmus& t) {
                                      t.store(x, 1, relaxed);
                                      t.store(x, 2, relaxed);
                                  },
                                  [](litmus& t) {
                                      t.registers[0] = t.load(x, relaxed);
                                      t.registers[1] = t.load(x, relaxed);
                                  }})
                              .outcomes();
    EXPECT_EQ(seen, (outcomes{"00", "01", "02", "11", "12", "22"}));
}

outcomes two_readers(std::memory_order stores, std::memory_order loads) {
    return litmus({[=](litmus& t) { t.store(x, 1, stores); }, [=](litmus& t) { t.store(y, 1, stores); },
                   [=](litmus& t) {
                       t.registers[0] = t.load(x, loads);
                       t.registers[1] = t.load(y, loads);
                   },
                   [=](litmus& t) {
                       t.registers[2] = t.load(y, loads);
                       t.registers[3] = t.load(x, loads);
                   }})
        .outcomes();
}
TEST(Litmus, IndependentReadsOfIndependentWrites) {
    EXPECT_TRUE(two_readers(release, acquire).contains("1010"));
    const outcomes strong = two_readers(seq_cst, seq_cst);
    EXPECT_FALSE(strong.contains("1010"));
    EXPECT_EQ(strong.size(), 15U);
}

TEST(Litmus, WriteToReadCausality) {
    for (const bool right : {true, false}) {
        const outcomes seen = litmus({[](litmus& t) { t.store(x, 1, relaxed); },
                                      [=](litmus& t) {
                                          t.registers[0] = t.load(x, relaxed);
                                          t.store(y, 1, right ? release : relaxed);
                                      },
                                      [](litmus& t) {
                                          t.registers[1] = t.load(y, acquire);
                                          t.registers[2] = t.load(x, relaxed);
                                      }})
                                  .outcomes();
        EXPECT_EQ(seen.contains("110"), !right);
        EXPECT_TRUE(seen.contains("111") && seen.contains("000") && seen.contains("010"));
    }
}

// An exchange passes on what came with the value it replaces, whatever its own order.
TEST(Litmus, ReleaseSequence) {
    const outcomes seen = litmus({[](litmus& t) {
                                      t.store(x, 1, relaxed);
                                      t.store(y, 1, release);
                                  },
                                  [](litmus& t) { (void)t.word(y).fetch_add(1, relaxed); },
                                  [](litmus& t) {
                                      t.registers[0] = t.load(y, acquire);
                                      t.registers[1] = t.load(x, relaxed);
                                  }})
                              .outcomes();
    EXPECT_FALSE(seen.contains("20"));
    EXPECT_TRUE(seen.contains("21") && seen.contains("10") && seen.contains("11") && seen.contains("00"));
}

// Whoever a compare-and-swap lets in comes behind the one before, also where others went on in front of it.
TEST(Litmus, ALockByCompareAndSwap) {
    const auto side = [](unsigned own) {
        return [=](litmus& t) {
            std::uint64_t free = 0;
            // Relaxed on failure: who is refused reads nothing.
            const bool taken = t.word(y).compare_exchange_strong(free, 1, std::memory_order_acq_rel, relaxed);
            t.registers[own] = taken ? t.load(x, relaxed) + 1 : 0;
            if (!taken) return;
            t.store(x, t.registers[own], relaxed);
            t.store(y, 0, release);
        };
    };
    EXPECT_EQ(litmus({side(0), side(1)}).outcomes(), (outcomes{"01", "10", "12", "21"}));
}

}  // namespace
