// SPDX-License-Identifier: Apache-2.0
// rings_suite.hpp - a ring that `holdfast serve` shows to many subscribers, by each of the three ways and on either
// engine.
//
// The writer of the ring is this process, as a program of one's own would be: a message is published into shared
// memory, and the server finds it there. One worker on a core of its own, the subscribers on another
// (ring_followers.hpp). There are no peers: what is compared are the ways and the engines. So there are no latencies at
// a share of a subject's own rate either, which tell servers apart that are loaded differently: one message under way
// is the ring at rest, where none waits for another, and 16 are its saturation; what lies between, lies between these.
// Threads: one at a time; the calling thread is pinned while it runs.
#pragma once

#include "http/http_suite.hpp"
#include "workload/suite.hpp"

namespace holdfast::bench::rings {

[[nodiscard]] workload::suite rings_suite(http::suite_options options);
/// With the options of the http suite from the environment, when it runs.
[[nodiscard]] workload::suite rings_suite();

}  // namespace holdfast::bench::rings
