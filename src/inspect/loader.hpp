// SPDX-License-Identifier: Apache-2.0
// loader.hpp - a text file becomes a hash table, a sorted index, or the next version of a snapshot of sorted indexes.
//
// (I1) The whole file is read and checked before anything is published: a file that is refused changes nothing. A new
// segment appears with its records in it; a snapshot goes from one whole index to the next. Only a merge into an
// existing table is visible record by record; it begins after the file was checked. Beside other writers of the table
// it may stop in between, and says where.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/segment.hpp"
#include "inspect/json_out.hpp"
#include "inspect/record_input.hpp"
#include "inspect/table_schema.hpp"

namespace holdfast::inspect {

/// What a file is loaded into.
enum class load_target : std::uint8_t {
    automatic,  ///< what the segment is; a new one: snapshot for ranges, else hash_table
    hash_table,
    sorted_index,
    snapshot,  ///< of sorted indexes
};

struct load_progress {
    std::uint64_t records = 0;
    std::uint64_t bytes_read = 0;
    std::optional<std::uint64_t> bytes_total;
};

struct load_options {
    std::optional<file_format> format;   ///< default: by the file's name
    std::optional<table_schema> schema;  ///< default: what the file says, else the existing segment's
    load_target into = load_target::automatic;
    bool allow_empty = false;          ///< let a file without records take the place of an index that has some
    bool skip_bad = false;             ///< leave out lines that cannot be read; contradicting records always stop
    bool merge = false;                ///< allow adding to, and overwriting in, an existing hash table
    std::uint64_t capacity = 0;        ///< records to make room for; 0: a quarter more than the file has
    std::uint32_t writer_slots = 0;    ///< of a new hash table: how many may write at once; 0: one, without locks
    std::uint32_t slots = 0;           ///< snapshot: versions kept; 0: 4, or more for pinned readers
    std::uint32_t pinned_readers = 0;  ///< snapshot: registered readers there may be
    create_options create{};           ///< of a new segment
    attach_options attach{};           ///< to one that is there
    std::function<void(const load_progress&)> on_progress{};  ///< now and then while reading
    std::function<void(const input_fault&)> on_bad{};         ///< each line left out
};

struct load_report {
    std::string uri;
    container_kind kind = container_kind::raw;
    bool created = false;
    std::uint64_t records = 0;
    std::uint64_t skipped = 0;
    std::uint64_t version = 0;  ///< snapshot: the one that was published
    std::uint64_t bytes = 0;    ///< of the whole segment
};

/// Loads `file` ("-": standard input) into the segment `uri`.
/// Throws: input_error (what stands in the file); already_exists, schema_mismatch, no_space, writer_alive and others.
load_report load(std::string_view uri, const std::string& file, const load_options& options);

void append_json(json_out& out, const load_report& report);

}  // namespace holdfast::inspect
