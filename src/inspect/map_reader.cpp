// SPDX-License-Identifier: Apache-2.0
#include "inspect/map_reader.hpp"

#include <utility>

#include "holdfast/detail/concat.hpp"
#include "holdfast/record/fixed_text.hpp"
#include "holdfast/record/text.hpp"
#include "inspect/attach.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::inspect {

namespace {

[[nodiscard]] bool is_text(std::string_view text) noexcept {
    while (!text.empty()) {
        const std::size_t bytes = detail::utf8_bytes(text);
        if (bytes == 0 || text.front() == '\0') return false;
        text.remove_prefix(bytes);
    }
    return true;
}

[[nodiscard]] std::string hex_of(std::string_view bytes) {
    std::string text;
    append_hex(text, bytes);
    return text;
}

void append_bytes(json_out& out, const std::string& name, std::string_view bytes) {
    if (is_text(bytes))
        out.member(name, bytes);
    else
        out.member(detail::concat(name, "_hex"), std::string_view(hex_of(bytes)));
}

}  // namespace

map_reader::map_reader(std::shared_ptr<const segment> from) : reader_(std::move(from)), keys_(memory()) {}

lookup_result map_reader::get(std::string_view key, std::string& out) const {
    hash_map_entry entry;
    if (auto reason = keys_.read(key, entry.key)) return {lookup::bad_key, 0, std::move(*reason)};
    const hash_map_found got = reader_.find(std::span<const std::byte>(entry.key), entry.value);
    switch (got.status) {
        case outcome::ok: break;
        case outcome::not_found: return {lookup::absent, 0, {}};
        case outcome::contended: return {lookup::contended, 0, {}};
        default: return {lookup::damaged, 0, {}};
    }
    entry.handle = got.handle;
    entry.ttl = got.ttl;
    entry.flags = got.flags;
    append_json(out, entry);
    return {memory().cut_off() ? lookup::cut_off : lookup::found, 0, {}};
}

void map_reader::scan(const std::function<bool(const hash_map_entry&)>& sink) const {
    const auto require_calm = [&] {
        if (reader_.fault() == errc::contended)
            throw error(errc::contended, memory().uri(),
                        "its writer changes an entry faster than it can be read; try again");
    };
    for (const hash_map_entry& entry : reader_) {
        require_calm();
        if (!sink(entry)) return require_whole(memory());
    }
    require_whole(memory());
    require_calm();
    if (const auto fault = reader_.fault())
        throw error(*fault, memory().uri(), "damage was met on the way; holdfast verify says where");
}

std::string map_reader::key_text(const hash_map_entry& entry) const {
    if (!keys_.are_records()) return std::string(characters_of(entry.key));
    if (!keys_.is_record(entry.key)) return hex_of(characters_of(entry.key));  // not of the map's own keys
    std::string text;
    for (const field& f : keys_.codec().schema().key->fields()) {
        if (!text.empty()) text += ',';
        append_text(text, f, entry.key.data());
    }
    return text;
}

void map_reader::append_json(std::string& out, const hash_map_entry& entry) const {
    json_out json(out);
    json.begin_object();
    if (keys_.is_record(entry.key)) {
        std::string key;
        keys_.codec().append_json(key, entry.key, {});
        json.key("key").raw(key);
    } else {
        append_bytes(json, "key", characters_of(entry.key));
    }
    append_bytes(json, "value", characters_of(entry.value));
    json.member("bytes", entry.value.size());
    if (entry.ttl.count() != 0)
        json.member("ttl_s", entry.ttl.count());
    else
        json.key("ttl_s").null();
    json.member("flags", entry.flags).member("handle", std::string_view(std::to_string(entry.handle)));
    json.end_object();
}

void map_reader::append_line(std::string& out, const hash_map_entry& entry) const {
    constexpr std::size_t shown_max = 60;
    out += printable(key_text(entry));
    out += detail::concat('\t', entry.value.size(), '\t');
    out += entry.ttl.count() != 0 ? std::to_string(entry.ttl.count()) : std::string("-");
    out += '\t';
    out += printable(characters_of(entry.value).substr(0, shown_max));
    if (entry.value.size() > shown_max) out += "...";
    out += '\n';
}

}  // namespace holdfast::inspect
