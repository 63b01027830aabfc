// SPDX-License-Identifier: Apache-2.0
// record_source.hpp - what the readers of all text formats have in common. Used by them only; see record_input.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inspect/record_input.hpp"

namespace holdfast::inspect {

class record_input::source {
 public:
    explicit source(line_input& lines) noexcept : lines_(lines) {}
    virtual ~source() = default;
    source(const source&) = delete;
    source& operator=(const source&) = delete;

    [[nodiscard]] virtual outcome next() = 0;

    [[nodiscard]] const table_schema& schema() const noexcept { return *schema_; }
    [[nodiscard]] std::span<const std::byte> key() const noexcept { return key_; }
    [[nodiscard]] std::span<const std::byte> value() const noexcept { return value_; }
    [[nodiscard]] std::uint64_t line() const noexcept { return lines_.line(); }
    [[nodiscard]] const input_fault& fault() const noexcept { return fault_; }

 protected:
    void set_schema(table_schema schema);
    void set_fault(std::size_t column, std::string reason);
    /// Throws what set_fault() was told: for faults that leave nothing to go on with.
    [[noreturn]] void refuse(std::size_t column, std::string reason);
    [[nodiscard]] bool has_schema() const noexcept { return schema_.has_value(); }
    [[nodiscard]] line_input& lines() noexcept { return lines_; }
    [[nodiscard]] std::vector<std::byte>& key_room() noexcept { return key_; }
    [[nodiscard]] std::vector<std::byte>& value_room() noexcept { return value_; }

 private:
    line_input& lines_;
    std::optional<table_schema> schema_;
    std::vector<std::byte> key_;
    std::vector<std::byte> value_;
    input_fault fault_;
};

inline constexpr std::string_view schema_cure =
    "no schema: give --schema NAME:TYPE,... or --key and --value, or begin the file with ";

}  // namespace holdfast::inspect
