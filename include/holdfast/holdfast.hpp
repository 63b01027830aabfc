// SPDX-License-Identifier: Apache-2.0
// holdfast.hpp - the whole core: every container and metric, the segment beneath them, and the errors.
#pragma once

#include "holdfast/block_store.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/error.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/memory/passing.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/exponential_buckets.hpp"
#include "holdfast/metrics/histogram_bytes.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/metrics/max_of_n.hpp"
#include "holdfast/metrics/tail_tracker.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/record.hpp"
#include "holdfast/segment.hpp"
#include "holdfast/snapshot.hpp"
#include "holdfast/sorted_index.hpp"
#include "holdfast/version.hpp"
