// SPDX-License-Identifier: Apache-2.0
// A death at every store of random histories of a hash map (store_rig.hpp), and all interleavings of two operations of
// each side with few pre-emptions and a death anywhere (schedule_rig.hpp); and which of its memory orders they need
// (weak_interleaving.hpp).
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <string_view>

#include "holdfast/hash_map/queries.hpp"
#include "hooks/access_hooks.hpp"
#include "hooks/hash_map_clock_interleaving.hpp"
#include "hooks/hash_map_feed_interleaving.hpp"
#include "hooks/hash_map_feed_subject.hpp"
#include "hooks/hash_map_history_interleaving.hpp"
#include "hooks/hash_map_interleaving.hpp"
#include "hooks/hash_map_registered_interleaving.hpp"
#include "hooks/hash_map_subject.hpp"
#include "hooks/small_map.hpp"
#include "hooks/volume.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

// Somebody reckons what an entry costs to be read, again and again, while the writer erases it and puts a value of the
// whole store in its place. What has gone costs nothing, whatever lies there now, and what stands its own bytes.
class reckoning_interleaving final : public interleaving {
 public:
    reckoning_interleaving()
        : geometry_(small_map(6)),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(view(), fake_clock(), nullptr),
          handle_(put(writer_, "1", {1, 70}).handle) {}

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override { writer_ = map_writer(view(), fake_clock(), nullptr); }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0 && operation == 0) return writer_.erase(as_key("1")) ? "" : "an erase failed";
        if (process == 0) return put(writer_, "2", {2, 300}) ? "" : "a set failed";
        // Twice the store's bytes: six times the entry's, but not five times and once as much as the store.
        holdfast::detail::block_reading_budget budget(view().as_const().store);
        for (unsigned i = 0; i < 6; ++i)
            if (!budget.spend(handle_)) return "an entry that went was reckoned by what lies in its place";
        return {};
    }
    std::string judge(std::optional<unsigned>) override { return {}; }

 private:
    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }

    layout::hash_map_geometry geometry_;
    aligned_bytes bytes_;
    map_writer writer_;
    std::uint64_t handle_;
};

// A peer that leads a key to another entry at each look at its word, none of which stands; for so many looks.
class one_who_leads_elsewhere final : public access_listener {
 public:
    one_who_leads_elsewhere(const writable_map& view, std::byte* word, std::uint64_t looks)
        : store_(view.store), word_(word), left_(looks) {
        std::memcpy(&handle_, word, sizeof handle_);
    }

    void before_store(std::byte*, std::size_t) noexcept override {}
    void before_load(const std::byte* at, std::size_t) noexcept override {
        if (at != word_ || left_ == 0) return;
        --left_;
        const access_unwatched peer;
        handle_ = store_.handle(store_.index_of(handle_), store_.serial_of(handle_) + 1);
        std::memcpy(word_, &handle_, sizeof handle_);
    }
    [[nodiscard]] std::uint64_t left() const noexcept { return left_; }

 private:
    writable_blocks store_;
    std::byte* word_;
    std::uint64_t left_;
    std::uint64_t handle_ = 0;
};

// What reads of a map ask a handle for, without a segment.
struct bare_reader : holdfast::detail::hash_map_queries<bare_reader, std::string_view> {
    explicit bare_reader(const map_reader& of) : core(of) {}
    [[nodiscard]] const map_reader& core_for_queries() const noexcept { return core; }
    map_reader core;
};

TEST(HashMapScan, LeavesOutWhatIsUpdatedAllTheWhileAndSaysSo) {
    const layout::hash_map_geometry geometry = small_map(20);
    aligned_bytes bytes(static_cast<std::size_t>(geometry.body_bytes()));
    const writable_map view(bytes.bytes(), geometry);
    map_writer writer(view, fake_clock(), nullptr);
    for (const std::uint64_t n : {1U, 2U, 3U}) ASSERT_TRUE(put(writer, std::to_string(n), {n, 10}));
    const bare_reader reader(reader_of(view.as_const()));
    const std::uint64_t slot = reader.core.table().find(view.digest(as_key("2")).bytes(), nullptr);
    constexpr std::uint64_t looks = 100'000;
    one_who_leads_elsewhere peer(
        view,
        view.table.node_at(slot / layout::tags_per_line, static_cast<unsigned>(slot % layout::tags_per_line)) +
            sizeof(holdfast::detail::map_digest),
        looks);
    std::set<std::string> met;
    {
        const access_watch watch(bytes.bytes(), peer);
        for (const hash_map_entry& entry : reader)
            met.emplace(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
    }
    EXPECT_LT(peer.left(), looks) << "the word was not looked at";
    EXPECT_GT(peer.left(), 0U) << "the scan goes on for as long as its peer does";
    EXPECT_EQ(met, (std::set<std::string>{"1", "3"}));
    EXPECT_EQ(reader.core.fault(), errc::contended);
    EXPECT_TRUE(holds(reader.core, "1", {1, 10})) << "what is found is found";
    EXPECT_EQ(reader.core.broken(), outcome::corrupt);
    EXPECT_EQ(reader.core.fault(), errc::corrupt) << "damage is told before what passes";
}

TEST(StoreDeaths, HashMap) { die_at_every_store<hash_map_subject<>>("hash_map", 400'000, {8, 16}); }

TEST(StoreDeaths, HashMapFeed) {
    die_at_every_store<hash_map_feed_subject>("hash_map with a feed", 100'000, {16, 32});
    const auto told_late = static_cast<unsigned long long>(hash_map_feed_subject::told_late);
    std::printf("hash_map with a feed: %llu changes told by a successor\n", told_late);
    EXPECT_GT(told_late, 10U);
}

TEST(Interleavings, HashMap) {
    hash_map_interleaving same(false, 1), other(false, 0), erased(true, 1);
    interleave("hash_map: set, set another | find, find", same);
    interleave("hash_map: set, set another | find, find the other", other);
    interleave("hash_map: erase, set another | find, find", erased);
    const std::uint64_t histories = same.histories() + other.histories() + erased.histories();
    std::printf("hash_map: %llu histories explained\n", static_cast<unsigned long long>(histories));
    EXPECT_GT(histories, std::getenv("HOLDFAST_TEST_SCHEDULE") == nullptr ? 1000U : 0U);
}

TEST(Interleavings, HashMapFeed) {
    hash_map_feed_interleaving updates(false), erases(true);
    interleave("hash_map with a feed: set, set another | follow, follow", updates);
    interleave("hash_map with a feed: erase, set another | follow, follow", erases);
    const std::uint64_t told_late = updates.told_late() + erases.told_late();
    std::printf("hash_map with a feed: %llu changes told by a successor\n", static_cast<unsigned long long>(told_late));
    EXPECT_GE(told_late, std::getenv("HOLDFAST_TEST_SCHEDULE") == nullptr ? 100U : 0U);
}

TEST(Interleavings, HashMapFeedSuccessors) {
    hash_map_feed_interleaving updates(false), erases(true);
    interleave_successors("hash_map with a feed: set, set another, successor | follow, follow", updates);
    interleave_successors("hash_map with a feed: erase, set another, successor | follow, follow", erases);
    EXPECT_GE(updates.told_late() + erases.told_late(), std::getenv("HOLDFAST_TEST_SCHEDULE") == nullptr ? 100U : 0U);
}

TEST(Interleavings, HashMapReckoning) {
    reckoning_interleaving subject;
    interleave("hash_map: erase, set in its place | reckon, reckon", subject);
}

using act = map_key_model;

TEST(Interleavings, HashMapConditions) {
    hash_map_history_interleaving twice({{{{{act::compare_and_set}, {act::compare_and_erase}}},  //
                                          {{{act::find}, {act::find}}}}});
    hash_map_history_interleaving both({{{{{act::compare_and_set}, {act::insert, 0}}},
                                         {{{act::find}, {.kind = act::compare_and_set, .succeeds = true}}}}});
    hash_map_history_interleaving added(
        {{{{{act::fetch_add}, {act::fetch_add}}}, {{{act::find}, {.kind = act::fetch_add, .succeeds = true}}}}});
    interleave("hash_map: compare and set, compare and erase | find, find", twice);
    interleave("hash_map: compare and set, insert | find, take over and compare and set", both);
    interleave("hash_map: add, add | find, take over and add", added);
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") != nullptr) return;
    EXPECT_GT(both.histories(), 1000U);
    EXPECT_GT(both.held(), 1000U);
    EXPECT_GT(both.refused(), 1000U) << "both were done";
}

TEST(Interleavings, HashMapScans) {
    hash_map_history_interleaving changed({{{{{act::insert, 0}, {act::erase, 2}}}, {{{map_scan}, {map_scan}}}}});
    hash_map_history_interleaving evicted({{{{{act::set, 0}, {act::set, 1}}}, {{{map_scan}, {act::find, 2}}}}}, true);
    interleave("hash_map: insert, erase | scan, scan", changed);
    interleave("hash_map, full: set, set that evict | scan, find", evicted);
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") == nullptr) {
        EXPECT_GT(evicted.evicted(), 1000U);
    }
}

TEST(Interleavings, HashMapSuccessors) {
    hash_map_history_interleaving updated({{{{{act::set}, {act::set, 0}}}, {{{act::find}, {act::find}}}}});
    hash_map_history_interleaving reused({{{{{act::erase}, {act::insert, 0}}}, {{{act::find}, {act::find, 0}}}}});
    hash_map_history_interleaving added({{{{{act::fetch_add}, {act::touch}}}, {{{act::find}, {act::find}}}}});
    hash_map_history_interleaving scanned({{{{{act::update}, {act::erase, 2}}}, {{{map_scan}, {act::find, 2}}}}});
    hash_map_history_interleaving evicted({{{{{act::set, 0}, {act::set}}}, {{{act::find, 2}, {act::find}}}}}, true);
    interleave_successors("hash_map: set, set another, successor | find, find", updated);
    interleave_successors("hash_map: erase, insert, successor | find both", reused);
    interleave_successors("hash_map: add, touch, successor | find, find", added);
    interleave_successors("hash_map: update, erase, successor | scan, find", scanned);
    interleave_successors("hash_map, full: set, set that evict, successor | find, find another", evicted);
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") == nullptr) {
        EXPECT_GT(evicted.evicted(), 100U);
    }
}

void evict_beside_a_registered_reader(const char* name, hash_map_registered_interleaving::then last) {
    hash_map_registered_interleaving subject(last);
    interleave(name, subject);
    std::printf("hash_map: what a reader read was there in %llu ends, and was not in %llu\n",
                static_cast<unsigned long long>(subject.kept()), static_cast<unsigned long long>(subject.went()));
    if (std::getenv("HOLDFAST_TEST_SCHEDULE") != nullptr) return;
    EXPECT_GT(subject.kept(), 100U);
    EXPECT_GT(subject.went(), 100U);
}
TEST(Interleavings, HashMapBesideARegisteredReaderThatGoes) {
    evict_beside_a_registered_reader("hash_map, full: set, erase another | register and find, go",
                                     hash_map_registered_interleaving::then::goes);
}
TEST(Interleavings, HashMapBesideAReaderThatRegistersAnew) {
    evict_beside_a_registered_reader("hash_map, full: set, erase another | go, register anew",
                                     hash_map_registered_interleaving::then::registers_anew);
}

// An entry that lives for a second is given another life while a reader that found the old one asks for the time.
TEST(Interleavings, HashMapExpiry) {
    const map_act renewed{.kind = act::set, .ttl_s = 3}, touched{.kind = act::touch, .ttl_s = 3};
    const map_act then{.kind = act::find, .passes_time = true}, scan{.kind = map_scan, .passes_time = true};
    hash_map_history_interleaving found({{{{renewed, {act::set, 0}}}, {{then, {act::find}}}}}, false, 1);
    hash_map_history_interleaving scanned({{{{touched, {act::set, 0}}}, {{scan, {act::find}}}}}, false, 1);
    interleave("hash_map: set for longer, set another | find as time passes, find", found);
    interleave("hash_map: touch, set another | scan as time passes, find", scanned);
    expect_merging_loses_nothing(scanned, 1, true);
}

TEST(Interleavings, HashMapClock) {
    clock_interleaving subject;
    interleave("hash_map: take over from elsewhere, then from here | ask for the time, twice", subject);
}

TEST(Orders, HashMapClock) {
    clock_interleaving subject;
    expect_orders_matter("hash_map's clock", {&subject});
}
TEST(Orders, HashMap) {
    hash_map_interleaving same(false, 1), other(false, 0), erased(true, 1);
    expect_orders_matter("hash_map", {&same, &other, &erased}, 500);
}

}  // namespace
