// SPDX-License-Identifier: Apache-2.0
// One of many writers, one whose table grows, and the successors of killed writers, killed at every image of what they
// do (image_kill_bench.hpp).
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_bench.hpp"
#include "image_kill_feed.hpp"
#include "image_kill_fills.hpp"
#include "image_kill_growth.hpp"
#include "image_kill_many.hpp"
#include "image_kill_objects.hpp"
#include "image_kill_rings.hpp"
#include "image_kill_subjects.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace holdfast::test::image_kill;

// One of many writers is killed, and another one is there: see image_kill_many.hpp.
INSTANTIATE_TEST_SUITE_P(ManyWriters, ImageKill,
                         ::testing::Values(many_table_subject("hash_table_many", goes_first::who_lives),
                                           many_table_subject("hash_table_many_and_a_newcomer", goes_first::newcomer),
                                           many_blocks_subject("block_store_many", goes_first::who_lives),
                                           many_blocks_subject("block_store_many_and_a_newcomer", goes_first::newcomer),
                                           many_map_subject("hash_map_many", goes_first::who_lives),
                                           many_map_subject("hash_map_many_and_a_newcomer", goes_first::newcomer)),
                         ImageKill::name_of);

INSTANTIATE_TEST_SUITE_P(
    FillsOfMany, ImageKill,
    ::testing::Values(table_subject_when<many_sessions>("hash_table_many_empty", fill::empty),
                      table_subject_when<many_sessions>("hash_table_many_nearly_full", fill::nearly_full),
                      table_subject_when<many_sessions>("hash_table_many_full", fill::full),
                      table_subject_when<many_sessions>("hash_table_many_of_colliding_keys", fill::colliding),
                      block_subject_when<many_blocks>("block_store_many_empty", fill::empty),
                      block_subject_when<many_blocks>("block_store_many_nearly_full", fill::nearly_full),
                      block_subject_when<many_blocks>("block_store_many_full", fill::full)),
    ImageKill::name_of);

INSTANTIATE_TEST_SUITE_P(Overflowed, ImageKill,
                         ::testing::Values(overflowed_table_subject<many_sessions>("hash_table_many_overflowed"),
                                           overflowed_table_subject<growing_sessions>("hash_table_growing_overflowed")),
                         ImageKill::name_of);

constexpr growth_way shrinking{large_capacity, small_capacity, 8}, stripes_grow{striped_capacity, 2 * striped_capacity},
    stripes_shrink{striped_capacity, large_capacity};
INSTANTIATE_TEST_SUITE_P(
    Growth, ImageKill,
    ::testing::Values(growing_table_subject(), growing_many_subject("hash_table_many_growing", goes_first::who_lives),
                      growing_many_subject("hash_table_many_growing_and_a_newcomer", goes_first::newcomer),
                      growing_many_subject("hash_table_many_shrinking", goes_first::who_lives, shrinking)),
    ImageKill::name_of);

INSTANTIATE_TEST_SUITE_P(
    GrowthOfStripes, ImageKill,
    ::testing::Values(
        half_asked_subject("hash_table_many_growing_stripes", goes_first::who_lives, stripes_grow),
        half_asked_subject("hash_table_many_growing_stripes_and_a_newcomer", goes_first::newcomer, stripes_grow),
        half_asked_subject("hash_table_many_shrinking_stripes", goes_first::who_lives, stripes_shrink),
        half_asked_subject("hash_table_many_shrinking_stripes_and_a_newcomer", goes_first::newcomer, stripes_shrink)),
    ImageKill::name_of);

// How a writer comes to the image at which it is killed.
struct way_to_death {
    rig::place_of_change to;
    std::vector<std::byte> before;
};
using start_of = decltype(operation::start);

/// Makes the subject's container and kills its writer at that image of an operation, as `known` says where it is known.
/// Returns: what was there before, and the way; none where the operation is over by then.
std::pair<contents, std::optional<way_to_death>> kill_at(const subject& of, const operation& what, u64 at,
                                                         const std::optional<way_to_death>& known,
                                                         const std::string& uri) {
    const auto begin = [&] { return what.start(uri); };
    contents before = of.make(uri);
    watched_place place(of, uri);
    const look shared{place};
    rig::image_walk walk(begin, shared, known ? known->to : rig::place_of_change{});
    way_to_death way;
    if (known) {
        require(walk.image() == known->before, "the same way as before");
        require(walk.next(), "so long an operation");
        way = *known;
    }
    for (u64 i = 0; !known && i < at; ++i) {
        way.before = walk.image();
        if (!walk.next(way.to)) return {std::move(before), std::nullopt};
    }
    require(walk.kill(), "a death");
    return {std::move(before), std::move(way)};
}

/// The way to that image, or to the one next to it behind which `start` has something to put right. How many images
/// there are depends on how wide the stores of memcpy and memset are, which is the processor's and the compiler's.
way_to_death way_to_a_repair(const subject& of, const operation& what, u64 at, const start_of& start,
                             const std::string& uri) {
    constexpr u64 farthest = 32;
    const u64 drawn = world.random_drawn;
    const std::int64_t now = world.frozen_ns;
    for (u64 i = 0; i <= 2 * farthest; ++i) {
        const u64 image = i % 2 == 0 ? at - i / 2 : at + (i + 1) / 2;
        if (image == 0 || image > at + farthest) continue;  // at - i / 2 may be below 0
        const std::string tried = uri + "-" + std::to_string(image);
        const auto way = kill_at(of, what, image, std::nullopt, tried).second;
        world.random_drawn = drawn, world.frozen_ns = now;  // as if nothing had been tried
        if (!way) continue;
        watched_place place(of, tried);
        const look shared{place};
        const auto begin = [&] { return start(tried); };
        rig::image_walk successor(begin, shared);
        if (successor.next()) return *way;
    }
    throw std::runtime_error(std::string(what.name) + ": no image near leaves anything to put right");
}

/// The subject as its writer left it when it was killed at that image of an operation, or near it. What is stepped is
/// `start`'s: the next writer recovers, or dies of it.
subject killed_before(const subject& of, std::size_t which, u64 at, start_of start) {
    const operation was = of.operations[which];
    subject recovering = of;
    recovering.make = [of, was, at, start,
                       known = std::make_shared<std::optional<way_to_death>>()](const std::string& uri) {
        if (!*known) *known = way_to_a_repair(of, was, at, start, uri);
        return kill_at(of, was, at, *known, uri).first;
    };
    recovering.operations.assign(1,
                                 operation{"attach", std::move(start), was.apply, was.both_between, was.evicted_max});
    return recovering;
}

// The successor of a killed writer is itself killed, at every image of its attach. By name, from its first instruction:
template <class Writer>
std::function<void()> attach_to(const std::string& uri) {
    return [uri] { (void)Writer::attach(uri); };
}
// Where the lease is taken, and the rest is to come:
template <class Writer, class... More>
auto take_over_with(const More&... more) {
    return [=](const std::string& uri) -> std::function<void()> {
        auto memory = std::make_shared<segment>(segment::attach(uri, access::read_write));
        return [=] { (void)Writer(std::move(*memory), more...); };
    };
}
// Those whose next writer has something to put right there: killed at that image of an operation.
subject array_killed() { return killed_before(array_subject(), 1, 13, attach_to<wide_array>); }
subject lines_killed() { return killed_before(small_table_subject(), 0, 25, attach_to<session_lines>); }
subject table_killed() { return killed_before(table_subject(), 1, 9, attach_to<session_table>); }
subject blocks_killed() { return killed_before(block_subject(), 2, 25, attach_to<block_store>); }
subject map_killed() {
    return killed_before(map_subject(), 1, 21, take_over_with<text_map>(golden::services_at(golden::gone_on_at)));
}
subject ring_killed() { return killed_before(broadcast_subject(), 2, 6, take_over_with<broadcast_writer>()); }
subject object_killed() { return killed_before(snapshot_subject(), 2, 11, take_over_with<snapshot_writer>()); }
subject messages_killed() { return killed_before(queue_subject("queue", 3), 1, 11, take_over_with<queue_producer>()); }
INSTANTIATE_TEST_SUITE_P(Recovery, ImageKill,
                         ::testing::Values(array_killed(), lines_killed(), table_killed(), blocks_killed(),
                                           map_killed(), ring_killed(), object_killed(), messages_killed()),
                         ImageKill::name_of);

// Behind other operations a recovery does other things: an entry that no key leads to goes, or one that was erased,
// evicted or over; a change is told; and a value that was given back goes, or one that another takes the place of.
subject killed_as(const char* name, const subject& of, std::size_t which, u64 at, start_of start) {
    subject killed = killed_before(of, which, at, std::move(start));
    killed.name = name;
    return killed;
}
subject map_killed_as(const char* name, const subject& of, std::size_t which, u64 at) {
    return killed_as(name, of, which, at, take_over_with<text_map>(golden::services_at(golden::gone_on_at)));
}
std::function<void()> take_over_to_tell(const std::string& uri) {
    auto feed = std::make_shared<hash_map_feed>(broadcast_writer::attach(ring_of(uri)));
    auto memory = std::make_shared<segment>(segment::attach(uri, access::read_write));
    return [feed, memory] { (void)text_map(std::move(*memory), told_map::services(*feed)); };
}
subject told_map_killed(const char* name, std::size_t which, u64 at) {
    return killed_as(name, told_map_subject(), which, at, take_over_to_tell);
}
INSTANTIATE_TEST_SUITE_P(
    RecoveryOfOtherOperations, ImageKill,
    ::testing::Values(map_killed_as("hash_map_insert", map_subject(), 0, 22),
                      map_killed_as("hash_map_erase", map_subject(), 2, 11),
                      map_killed_as("hash_map_eviction", crowded_map_subject("", true), 0, 11),
                      map_killed_as("hash_map_set_that_evicts", crowded_map_subject("", true), 0, 46),
                      map_killed_as("hash_map_of_what_is_over", crowded_map_subject("", false), 0, 13),
                      told_map_killed("hash_map_feed_erase", 0, 10), told_map_killed("hash_map_feed_insert", 1, 32),
                      told_map_killed("hash_map_feed_update", 2, 28),
                      killed_as("block_store_free", block_subject(), 1, 9, take_over_with<block_store>()),
                      killed_as("block_store_commit", block_subject(), 3, 32, take_over_with<block_store>())),
    ImageKill::name_of);

// Of many writers: a newcomer recovers what the dead one left, and dies of it.
subject many_table_killed(goes_first who) {
    return killed_before(many_table_subject("hash_table_many", who), 1, 12, attach_to<many_sessions>);
}
subject many_blocks_killed(goes_first who) {
    return killed_before(many_blocks_subject("block_store_many", who), 2, 25, attach_to<many_blocks>);
}
subject many_map_killed(goes_first who) {
    return killed_before(many_map_subject("hash_map_many", who), 1, 30, attach_to<many_texts>);
}
INSTANTIATE_TEST_SUITE_P(RecoveryOfMany, ImageKill,
                         ::testing::Values(many_table_killed(goes_first::who_lives),
                                           many_blocks_killed(goes_first::who_lives),
                                           many_map_killed(goes_first::who_lives)),
                         ImageKill::name_of);

// Killed in its recovery, too: who recovers then is the third, and the fourth goes on.
subject killed_again(const subject& killed, u64 at, start_of start) {
    return killed_before(killed, 0, at, std::move(start));
}
INSTANTIATE_TEST_SUITE_P(
    TwiceOver, ImageKill,
    ::testing::Values(killed_again(array_killed(), 1, attach_to<wide_array>),
                      killed_again(lines_killed(), 4, attach_to<session_lines>),
                      killed_again(table_killed(), 4, attach_to<session_table>),
                      killed_again(blocks_killed(), 1, attach_to<block_store>),
                      killed_again(map_killed(), 4, take_over_with<text_map>(golden::services_at(golden::gone_on_at))),
                      killed_again(told_map_killed("hash_map_feed_update", 2, 28), 4, take_over_to_tell),
                      killed_again(ring_killed(), 2, take_over_with<broadcast_writer>()),
                      killed_again(object_killed(), 1, take_over_with<snapshot_writer>()),
                      killed_again(many_table_killed(goes_first::newcomer), 4, attach_to<many_sessions>),
                      killed_again(many_blocks_killed(goes_first::newcomer), 2, attach_to<many_blocks>),
                      killed_again(many_map_killed(goes_first::newcomer), 4, attach_to<many_texts>)),
    ImageKill::name_of);

}  // namespace
