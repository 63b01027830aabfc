// SPDX-License-Identifier: Apache-2.0
// load_table.cpp - records into hash tables: a new one, whole at once, or added to one that is there.
#include <cstring>

#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "inspect/load_job.hpp"

namespace holdfast::inspect {

namespace {

/// The file's records in memory, side by side.
struct staged_records {
    std::size_t key_bytes = 0;
    std::size_t value_bytes = 0;
    std::vector<std::byte> keys;
    std::vector<std::byte> values;

    [[nodiscard]] std::span<const std::byte> key(std::uint64_t i) const noexcept {
        return {keys.data() + i * key_bytes, key_bytes};
    }
    [[nodiscard]] std::span<const std::byte> value(std::uint64_t i) const noexcept {
        return {values.data() + i * value_bytes, value_bytes};
    }
};

[[nodiscard]] staged_records stage(load_job& job) {
    const container_schema& schema = job.schema().schema;
    if (!schema.value)
        throw error(errc::invalid_argument, job.uri,
                    "a hash table needs a value beside the key; name one, or load --into sorted_index");
    staged_records all;
    all.key_bytes = schema.key->bytes();
    all.value_bytes = schema.value->bytes();
    job.read_all([&](auto key, auto value) {
        all.keys.insert(all.keys.end(), key.begin(), key.end());
        all.values.insert(all.values.end(), value.begin(), value.end());
    });
    return all;
}

/// Throws: input_error. Only called when there is an earlier record of the same key.
[[noreturn]] void refuse_second(const load_job& job, const staged_records& all, std::uint64_t record) {
    std::uint64_t first = 0;
    while (std::memcmp(all.key(first).data(), all.key(record).data(), all.key_bytes) != 0) ++first;
    job.refuse(record, detail::concat("the record has the same key as line ", job.line_of[first]));
}

using table_mutator = detail::hash_table_mutator<detail::runtime_node>;

/// Makes a table of the staged records, whole at once.
[[nodiscard]] segment create_table(std::string_view uri, std::uint64_t capacity, const load_job& job,
                                   const staged_records& all, writers policy = writers::one) {
    hash_table_options wanted;
    wanted.capacity = capacity;
    wanted.segment = job.options.create;
    wanted.writer_slots = job.options.writer_slots;
    return detail::create_hash_table(
        uri, wanted, job.schema().schema,
        [&](std::span<std::byte> body, const layout::hash_table_geometry& g) {
            table_mutator table(table_mutator::view(body, g, detail::node_of(g)));
            for (std::uint64_t i = 0; i < job.report.records; ++i) {
                const table_mutator::result result = table.try_insert(all.key(i).data(), all.value(i).data());
                if (result.status == outcome::exists) refuse_second(job, all, i);
                if (result.status != outcome::ok)
                    throw error(errc::no_space, job.uri,
                                detail::concat("the table is full after ", i, " records; raise --capacity"));
            }
        },
        policy);
}

/// Why a record was refused behind `added` others.
[[noreturn]] void refuse_rest(const load_job& job, outcome why, std::uint64_t added) {
    const std::string done = detail::concat(added, " of ", job.report.records, " records are in the table, ");
    if (why == outcome::contended)
        throw error(errc::contended, job.uri,
                    done +
                        "the next waits for another writer that does not go on; end that one (holdfast who shows "
                        "it) and load once more");
    if (why == outcome::full)
        throw error(errc::no_space, job.uri,
                    done + "and others filled it meanwhile; erase entries, or make it anew with more room");
    throw error(errc::corrupt, job.uri, done + "the next was refused; holdfast verify says what is wrong");
}

void merge(load_job& job, const staged_records& all, dynamic_hash_table& table) {
    // In private memory first: records of the file that share a key are found before anything is changed.
    (void)create_table("heap:", job.report.records + 16, job, all);
    std::uint64_t fresh = 0;
    for (std::uint64_t i = 0; i < job.report.records; ++i) fresh += table.contains(all.key(i)) ? 0 : 1;
    if (table.size() + fresh > table.capacity())
        throw error(errc::no_space, job.uri,
                    detail::concat("the table has ", table.size(), " entries of ", table.capacity(),
                                   " and the file adds ", fresh,
                                   table.geometry().writer_slots == 0
                                       ? "; make room first (holdfast grow)"
                                       : "; save it and restore it with more room (holdfast restore --capacity)"));
    for (std::uint64_t i = 0; i < job.report.records; ++i)
        if (const hash_table_result done = table.insert_or_assign(all.key(i), all.value(i)); !done)
            refuse_rest(job, done.status, i);
}

}  // namespace

void load_table(load_job& job) {
    job.report.kind = container_kind::hash_table;
    if (job.report.created) {
        const staged_records all = stage(job);
        const writers policy = job.options.writer_slots != 0 ? writers::many : writers::one;
        job.report.bytes = create_table(job.uri, job.capacity(), job, all, policy).info().total_bytes;
        return;
    }
    // Taken before the file is read: a living writer is told at once, not after a minute.
    dynamic_hash_table table = dynamic_hash_table::attach(job.uri, job.options.attach);
    merge(job, stage(job), table);
    job.report.bytes = table.segment().info().total_bytes;
}

}  // namespace holdfast::inspect
