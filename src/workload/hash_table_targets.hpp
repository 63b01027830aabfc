// SPDX-License-Identifier: Apache-2.0
// hash_table_targets.hpp - what is asked of the hash table beside its peers, as the lines `target: ...` of its suite.
// Beside Boost's map, which can be filled to several loads, it is judged by the load at which that map is best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "workload/memory_pool.hpp"
#include "workload/suite.hpp"
#include "workload/targets.hpp"

namespace holdfast::workload {

/// The targets of a table of so many entries on such pages, each with the aim beyond what is asked. Each note_*() says
/// what is to be said of one experiment, by its samples; of peers that were not timed, that nothing is judged by them.
class hash_table_targets {
 public:
    hash_table_targets(std::uint64_t entries, page_choice pages, recorder& to)
        : entries_(entries), pages_(pages), to_(to) {}

    void note_find(const std::string& name, bool hit, const sampled& found) const;
    void note_batches(const std::string& name, const sampled& found) const;
    void note_chain(const std::string& name, const sampled& found) const;
    void note_insert(const std::string& name, const sampled& found) const;
    void note_beside_writer(const std::string& name, const sampled& found) const;
    /// Of bytes an entry: those of 16 bytes have a bound; all are to take no more than the tables to be left behind.
    void note_memory(const std::string& name, std::size_t entry_bytes, const sampled& found) const;
    /// Of every experiment: ahead of the tables that are to be left behind.
    void note_ahead(const std::string& name, const sampled& found) const;

 private:
    [[nodiscard]] bool in_memory() const { return entries_ >= 1'000'000; }  // a table that no near cache holds
    [[nodiscard]] double find_wanted(bool hit) const;
    void note_beside(const std::string& what, const sampled& found) const;
    void note_least(const std::string& name, const sampled& found, const std::string& peer, double times,
                    std::string_view aim) const;
    void note_most(const std::string& name, const sampled& found, const std::string& peer, double times,
                   std::string_view aim) const;

    std::uint64_t entries_;
    page_choice pages_;
    recorder& to_;
};

}  // namespace holdfast::workload
