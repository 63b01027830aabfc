// SPDX-License-Identifier: Apache-2.0
#include "inspect/map_keys.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::inspect {

map_keys::map_keys(const segment& map) {
    const std::string& schema = map.info().schema;
    if (schema.empty()) return;
    container_schema parsed;
    try {
        parsed = container_schema::parse(schema);
    } catch (const error& e) {
        throw error(errc::schema_mismatch, map.uri(),
                    std::string("the stored schema cannot be read: ").append(e.what()));
    }
    if (!parsed.key) throw error(errc::schema_mismatch, map.uri(), "its schema has no key; make the map anew");
    codec_.emplace(container_schema{.key = std::move(parsed.key), .value = std::nullopt});
}

std::optional<std::string> map_keys::read(std::string_view text, std::vector<std::byte>& key) const {
    key.assign(codec_ ? codec_->key_bytes() : text.size(), std::byte{});
    if (codec_) return codec_->read_key(text, key);
    std::ranges::transform(text, key.begin(), [](char c) { return static_cast<std::byte>(c); });
    return std::nullopt;
}

}  // namespace holdfast::inspect
