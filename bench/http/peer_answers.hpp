// SPDX-License-Identifier: Apache-2.0
// peer_answers.hpp - what the peers written in C++ answer: the JSON of an entry that is computed from its id, or found
// in a map.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "http/computed.hpp"

namespace holdfast::bench::http {

class peer_answers {
 public:
    /// computed, or lookup in the records of `csv` ("id,user,name" a line). Throws: std::runtime_error.
    peer_answers(std::string_view kind, const char* csv) : lookup_(kind == "lookup") {
        if (!lookup_) return;
        std::ifstream file(csv);
        for (std::string line; std::getline(file, line);) add(line);
        if (records_.empty()) throw std::runtime_error(std::string(csv) + " has no records");
    }

    /// Appends the JSON of the entry whose id is the last part of the path. Returns: false if there is none.
    [[nodiscard]] bool append(std::string& body, std::string_view path) const {
        const std::optional<std::uint64_t> id = number_in(path.substr(path.rfind('/') + 1));
        if (!id) return false;
        if (!lookup_) {
            const computed_entry made = computed_from(*id);
            append_json(body, *id, made.user, made.name());
            return true;
        }
        const auto found = records_.find(*id);
        if (found == records_.end()) return false;
        append_json(body, *id, found->second.user, found->second.name);
        return true;
    }

 private:
    struct entry {
        std::uint64_t user = 0;
        std::string name;
    };

    static std::optional<std::uint64_t> number_in(std::string_view text) {
        std::uint64_t number = 0;
        const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
        return code == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
    }

    void add(std::string_view line) {
        const std::size_t first = line.find(','), second = line.find(',', first + 1);
        const auto id = number_in(line.substr(0, first));
        const auto user = second == line.npos ? std::nullopt : number_in(line.substr(first + 1, second - first - 1));
        if (!id || !user) throw std::runtime_error("no record: " + std::string(line));
        records_[*id] = {*user, std::string(line.substr(second + 1))};
    }

    static void append_number(std::string& body, std::uint64_t number) {
        char digits[20];
        body.append(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    }

    static void append_json(std::string& body, std::uint64_t id, std::uint64_t user, std::string_view name) {
        append_number(body.append("{\"id\":"), id);
        append_number(body.append(",\"user\":"), user);
        body += ",\"name\":\"";
        for (const char c : name) {
            if (c == '"' || c == '\\') body += '\\';
            body += c;
        }
        body += "\"}";
    }

    bool lookup_;
    boost::unordered_flat_map<std::uint64_t, entry> records_;
};

}  // namespace holdfast::bench::http
