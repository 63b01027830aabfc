// SPDX-License-Identifier: Apache-2.0
// roles.hpp - the processes of the example. Each may be killed at any instruction; its successor goes on.
//
//   loader    publishes the next edition of the tariff, made from the one that is there, every 50 ms
//   worker    answers questions by the newest tariff: out of the cache, else it computes, and tells the keeper
//   keeper    puts into the cache what the workers computed; the only one who may
//
// All that they share is named after one prefix: NAME-tariff (snapshot), NAME-answers (hash_map), NAME-computed-N (a
// queue from worker N to the keeper), NAME-counts (counter_set).
#pragma once

#include <string>
#include <string_view>

#include "holdfast/metrics/counter_set.hpp"
#include "tariff.hpp"

namespace config_cache {

[[nodiscard]] inline std::string tariff_of(const std::string& name) { return name + "-tariff"; }
[[nodiscard]] inline std::string answers_of(const std::string& name) { return name + "-answers"; }
[[nodiscard]] inline std::string counts_of(const std::string& name) { return name + "-counts"; }
[[nodiscard]] inline std::string computed_of(const std::string& name, unsigned worker) {
    return name + "-computed-" + std::to_string(worker);
}

/// What they count together, whoever of them is killed.
struct counts {
    explicit counts(const std::string& name)
        : set(holdfast::counter_set::attach(counts_of(name))),
          editions(set.get("editions_total")),
          requests(set.get("requests_total")),
          hits(set.get("hits_total")),
          computed(set.get("computed_total")),
          untold(set.get("untold_total")),
          kept(set.get("kept_total")),
          refused(set.get("refused_total")),
          seen(set.get("editions_seen_total")),
          torn(set.get("torn_total")),
          backward(set.get("backward_total")),
          wrong(set.get("wrong_total")) {}

    holdfast::counter_set set;
    holdfast::counter editions, requests, hits, computed;
    holdfast::counter untold;    ///< computed while the queue to the keeper was full
    holdfast::counter kept;      ///< put into the cache
    holdfast::counter refused;   ///< not taken by the cache; must be 0
    holdfast::counter seen;      ///< editions that a worker changed to
    holdfast::counter torn;      ///< tariffs that were a mix of two; must be 0
    holdfast::counter backward;  ///< tariffs older than one seen before; must be 0
    holdfast::counter wrong;     ///< answers out of the cache that differ from a computed one; must be 0
};

/// Makes all that the processes share. Throws: holdfast::error.
void make_shared(const std::string& name, unsigned workers);
/// Takes it away again. What is not there is no error.
void remove_shared(const std::string& name, unsigned workers) noexcept;

/// Each runs until it is killed. Throws: holdfast::error.
[[noreturn]] void run_loader(const std::string& name);
[[noreturn]] void run_keeper(const std::string& name, unsigned workers);
[[noreturn]] void run_worker(const std::string& name, unsigned worker);

}  // namespace config_cache
