// SPDX-License-Identifier: Apache-2.0
// load_job.hpp - one file on its way into one segment. Used by loader.cpp and the targets it chooses from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/loader.hpp"
#include "inspect/record_input.hpp"

namespace holdfast::inspect {

struct load_job {
    /// The schema is the given one, else the file's own, else the stored one.
    load_job(std::string segment, line_input& lines, file_format format, const load_options& chosen,
             const std::optional<table_schema>& stored);

    [[nodiscard]] const table_schema& schema() const noexcept { return records_.schema(); }

    /// Gives each record to add(key, value). Throws: input_error at the first bad line unless they are skipped.
    template <class Add>
    void read_all(Add&& add) {
        while (next()) {
            add(records_.key(), records_.value());
            line_of.push_back(records_.line());
        }
    }
    /// Throws: input_error that names the line of a record and says why it contradicts another.
    [[noreturn]] void refuse(std::uint64_t record, std::string reason) const;
    /// Room to make for records: what was asked for, or a quarter more than there are.
    [[nodiscard]] std::uint64_t capacity() const;

    std::string uri;
    const load_options& options;
    load_report report;
    std::vector<std::uint64_t> line_of;  // of each record

 private:
    [[nodiscard]] bool next();

    line_input& input_;
    record_input records_;
};

void load_table(load_job& job);
void load_index(load_job& job);
void load_snapshot(load_job& job);

}  // namespace holdfast::inspect
