// SPDX-License-Identifier: Apache-2.0
// Writers of hash maps, of one writer and of many, killed at every image of every operation, in every state of the map
// (image_kill_bench.hpp).
#include <gtest/gtest.h>

#include <vector>

#include "image_kill_bench.hpp"
#include "image_kill_maps.hpp"
#include "image_kill_registered.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace holdfast::test::image_kill;

// As the *_step_tests fill them, with every operation.
template <class Map>
std::vector<subject> maps_in_every_state(const std::vector<const char*>& names) {
    return {map_subject_when<Map>(names[0], fill::empty), map_subject_when<Map>(names[1], fill::nearly_full),
            map_subject_when<Map>(names[2], fill::full), map_subject_when<Map>(names[3], fill::colliding),
            overflowed_map_subject<Map>(names[4])};
}
INSTANTIATE_TEST_SUITE_P(Maps, ImageKill,
                         ::testing::ValuesIn(maps_in_every_state<text_map>(
                             {"hash_map_empty", "hash_map_nearly_full", "hash_map_full_of_short_ones",
                              "hash_map_of_colliding_keys", "hash_map_overflowed"})),
                         ImageKill::name_of);
INSTANTIATE_TEST_SUITE_P(MapsOfMany, ImageKill,
                         ::testing::ValuesIn(maps_in_every_state<many_texts>(
                             {"hash_map_many_empty", "hash_map_many_nearly_full", "hash_map_many_full",
                              "hash_map_many_of_colliding_keys", "hash_map_many_overflowed"})),
                         ImageKill::name_of);

// A registered reader is killed, and the writer that takes its notes: see image_kill_registered.hpp.
INSTANTIATE_TEST_SUITE_P(Registered, ImageKill, ::testing::Values(registered_map_subject()), ImageKill::name_of);

}  // namespace
