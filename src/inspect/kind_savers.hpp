// SPDX-License-Identifier: Apache-2.0
// kind_savers.hpp - saving and restoring of the kinds that have a file of their own. Used by saver.cpp and
// restorer.cpp.
#pragma once

#include <memory>
#include <string_view>

#include "holdfast/segment.hpp"
#include "inspect/saver.hpp"

namespace holdfast::inspect {

// Each save_ writes header and contents, without the end mark; each restore_ reads the file to its end.
// Throw: as save() and restore().

[[nodiscard]] saved_writer save_queue(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                                      const save_progress& progress);
[[nodiscard]] segment restore_queue(saved_reader& file, std::string_view uri, const restore_options& options);

[[nodiscard]] saved_writer save_broadcast(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                                          const save_progress& progress);
[[nodiscard]] segment restore_broadcast(saved_reader& file, std::string_view uri, const restore_options& options);

[[nodiscard]] saved_writer save_blocks(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                                       const save_progress& progress);
[[nodiscard]] segment restore_blocks(saved_reader& file, std::string_view uri, const restore_options& options);

[[nodiscard]] saved_writer save_counters(const std::shared_ptr<const segment>& s, const saved_writer::sink& out);
[[nodiscard]] segment restore_counters(saved_reader& file, std::string_view uri, const restore_options& options);

/// `still`: whether no byte changed meanwhile.
[[nodiscard]] saved_writer save_raw(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                                    const save_progress& progress, bool& still);
[[nodiscard]] segment restore_raw(saved_reader& file, std::string_view uri, const restore_options& options);

[[nodiscard]] saved_writer save_latencies(const std::shared_ptr<const segment>& s, const saved_writer::sink& out);
[[nodiscard]] segment restore_latencies(saved_reader& file, std::string_view uri, const restore_options& options);

}  // namespace holdfast::inspect
