// SPDX-License-Identifier: Apache-2.0
// Every container's writer, killed at every image of its operations (image_kill_bench.hpp): in the states that each can
// be in, while it waits, and beside a feed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "image_kill_bench.hpp"
#include "image_kill_feed.hpp"
#include "image_kill_fills.hpp"
#include "image_kill_metrics.hpp"
#include "image_kill_objects.hpp"
#include "image_kill_queues.hpp"
#include "image_kill_rings.hpp"
#include "image_kill_subjects.hpp"
#include "image_kill_waits.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace holdfast::test::image_kill;

// Of all three image_kill_*_test.cpp.
TEST_P(ImageKill, AtEveryImageTheSegmentIsBeforeOrAfterAndGoesOn) { kill_in_every_operation(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Containers, ImageKill,
                         ::testing::Values(array_subject(), small_table_subject(), table_subject(),
                                           dynamic_table_subject(), map_subject(),
                                           crowded_map_subject("hash_map_full", true),
                                           crowded_map_subject("hash_map_of_what_is_over", false), block_subject(),
                                           queue_subject("queue", 3), queue_subject("queue_round_its_end", 11),
                                           record_queue_subject(), broadcast_subject(), registered_broadcast_subject(),
                                           snapshot_subject(), pinned_snapshot_subject(), index_subject(),
                                           counters_subject(), latencies_subject()),
                         ImageKill::name_of);

INSTANTIATE_TEST_SUITE_P(
    Fills, ImageKill,
    ::testing::Values(table_subject_when<session_table>("hash_table_empty", fill::empty),
                      table_subject_when<session_table>("hash_table_nearly_full", fill::nearly_full),
                      table_subject_when<session_table>("hash_table_full", fill::full),
                      table_subject_when<session_table>("hash_table_of_colliding_keys", fill::colliding),
                      overflowed_table_subject<session_table>("hash_table_overflowed"),
                      overflowed_table_subject<dynamic_hash_table, session_table>("hash_table_by_bytes_overflowed"),
                      queue_subject_when("queue_empty", ring::empty), queue_subject_when("queue_full", ring::full),
                      queue_subject_mid_batch(), record_queue_subject_when("queue_of_records_empty", ring::empty),
                      record_queue_subject_when("queue_of_records_full", ring::full), record_queue_subject_mid_batch(),
                      block_subject_when<block_store>("block_store_empty", fill::empty),
                      block_subject_when<block_store>("block_store_nearly_full", fill::nearly_full),
                      block_subject_when<block_store>("block_store_full", fill::full), block_subject_round_its_end(),
                      small_table_subject_when("small_table_empty", places::empty),
                      small_table_subject_when("small_table_nearly_full", places::nearly_full),
                      small_table_subject_when("small_table_full", places::full),
                      small_table_subject_when("small_table_of_places_used_again", places::used_again),
                      array_subject_of<u64>("array_of_words", 100),
                      array_subject_of<page_of_words>("array_of_pages", 4),
                      broadcast_subject_after("broadcast_empty", 0),
                      broadcast_subject_after("broadcast_round_its_end", 130), broadcast_subject_mid_batch(),
                      empty_snapshot_subject(), crowded_snapshot_subject("snapshot_nearly_full", 4),
                      crowded_snapshot_subject("snapshot_full", 3)),
    ImageKill::name_of);

// Who goes to sleep is killed, who gives up and who wakes: see image_kill_waits.hpp.
INSTANTIATE_TEST_SUITE_P(
    Waits, ImageKill,
    ::testing::Values(waiting_queue_subject<form_of_bytes>("queue_waited_on", false),
                      waiting_queue_subject<form_of_bytes>("queue_waited_on_for_room", true),
                      waiting_queue_subject<form_of_records>("queue_of_records_waited_on", false),
                      waiting_queue_subject<form_of_records>("queue_of_records_waited_on_for_room", true),
                      waiting_broadcast_subject(),
                      obstructed_broadcast_subject("broadcast_waited_on_for_room", broadcast_policy::block),
                      obstructed_broadcast_subject("broadcast_that_evicts", broadcast_policy::evict)),
    ImageKill::name_of);

INSTANTIATE_TEST_SUITE_P(Feed, ImageKill, ::testing::Values(told_map_subject()), ImageKill::name_of);

// The test's own teeth: a writer that stores into the array past the library is found at the first image.
TEST(ImageKillTeeth, AStoreThatBypassesTheContainerIsFound) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const subject of = array_subject();
    const operation scribble{"scribble",
                             [](const std::string& uri) {
                                 return with(segment::attach(uri, access::read_write), [](segment& s) {
                                     const session other = session_of(70), was = session_of(3);
                                     const auto* from = reinterpret_cast<const std::byte*>(&was);
                                     const auto body = s.body();
                                     const auto at = std::search(body.begin(), body.end(), from, from + sizeof was);
                                     if (at != body.end()) std::memcpy(&*at, &other, sizeof other);
                                 });
                             },
                             [](contents& c) { c["3"] = "70"; }};
    const image_kill_report report = death_bench(of).kill_at_every_image_of(scribble);
    EXPECT_NE(report.failure.find("killed at image 1: a reader finds"), std::string::npos) << report.failure;
}

}  // namespace
