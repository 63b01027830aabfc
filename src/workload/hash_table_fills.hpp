// SPDX-License-Identifier: Apache-2.0
// hash_table_fills.hpp - tables filled to what they were made for, again and again: a sample is a whole table.
//
// (F1) Before a table is emptied it is asked for its keys. To empty one may mean to go through all of it, as of ours,
// or
//      to touch its metadata alone, as of boost::unordered_flat_map: what lies in the caches then would be filled
//      faster. So the memory of each has been read right before, as far as the caches hold it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "workload/hash_table_subject.hpp"
#include "workload/suite.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

/// A way to fill a table.
struct table_filling {
    std::string name;
    hash_table_subject* table;
    std::uint64_t (hash_table_subject::*insert)(hash_table_subject::keys);
};

/// As many rounds as the time gives. Its bodies throw std::runtime_error if an insert is refused. Requires: tables and
/// keys outlive it.
[[nodiscard]] experiment fill_experiment(const std::string& name, const std::vector<table_filling>& fillings,
                                         hash_table_subject::keys all);

struct fill_rounds {
    std::size_t rounds;
    std::size_t retakes;  ///< of a sample that something else disturbed
};

/// That many rounds, where the time would give too many or too few, written down with what was disturbed. Requires: the
/// tables hold all keys. Throws: std::runtime_error if an insert is refused.
sampled time_fills(recorder& to, const std::string& name, const std::vector<table_filling>& fillings,
                   hash_table_subject::keys all, const fill_rounds& wanted);

}  // namespace holdfast::workload
