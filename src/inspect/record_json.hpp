// SPDX-License-Identifier: Apache-2.0
// record_json.hpp - JSON into records, by schema alone; the reverse of holdfast/record/json.hpp and the only place that
// knows the JSON parser.
//
// An object gives every field of the schema once, in any order, and nothing else. What json.hpp writes is read back to
// the same bytes (NaN payloads and damaged bool bytes apart). Besides, an ipv4 may be a number, an enum's value a
// number. Input is untrusted: any bytes at all end in a record or in a failure that says where and why.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/record/schema.hpp"

namespace holdfast::inspect {

/// Why a text is not a record: the field if one is to blame, the byte of the text from which on it is wrong, the
/// reason.
struct json_failure {
    std::string field;
    std::size_t position = 0;
    std::string reason;

    /// `field low at byte 8: '1.2.3' is not an IPv4 address`
    [[nodiscard]] std::string message() const;
};

/// Reads JSON objects into records of one schema; made once, used for many.
/// Threads: one at a time.
class record_json_reader {
 public:
    explicit record_json_reader(const record_schema& schema);
    /// Entries: an object has the fields of both parts. Throws: error(invalid_argument), see container_schema::text.
    explicit record_json_reader(const container_schema& schema);
    record_json_reader(record_json_reader&&) noexcept;
    record_json_reader& operator=(record_json_reader&&) noexcept;
    ~record_json_reader();

    /// Reads one object with nothing but white space around it. For a schema with one part that is `first`; for an
    /// entry, key and value. Bytes that belong to no field become zero. Returns: nothing if it succeeded; after a
    /// failure the records' bytes are unspecified. Throws: error(invalid_argument) if a span has another size than its
    /// part of the schema says. Cost: linear in the text, which is copied once; memory is kept for the next call.
    [[nodiscard]] std::optional<json_failure> read(std::string_view json, std::span<std::byte> first,
                                                   std::span<std::byte> second = {});

 private:
    struct state;
    std::unique_ptr<state> state_;
};

}  // namespace holdfast::inspect
