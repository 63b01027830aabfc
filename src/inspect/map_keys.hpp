// SPDX-License-Identifier: Apache-2.0
// map_keys.hpp - keys of a hash map to and from text. A key of text is its own text; one of a record is spelled as a
// table's (entry_codec.hpp).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/segment.hpp"
#include "inspect/entry_codec.hpp"

namespace holdfast::inspect {

class map_keys {
 public:
    /// Throws: schema_mismatch.
    explicit map_keys(const segment& map);

    /// Reads a key from its text. Returns: the reason if the text is none.
    [[nodiscard]] std::optional<std::string> read(std::string_view text, std::vector<std::byte>& key) const;
    /// Whether keys are records, and these bytes one of them: then codec() shows it.
    [[nodiscard]] bool is_record(std::span<const std::byte> key) const noexcept {
        return codec_ && key.size() == codec_->key_bytes();
    }
    [[nodiscard]] bool are_records() const noexcept { return codec_.has_value(); }
    /// Requires: are_records().
    [[nodiscard]] const entry_codec& codec() const noexcept { return *codec_; }

 private:
    std::optional<entry_codec> codec_;
};

}  // namespace holdfast::inspect
