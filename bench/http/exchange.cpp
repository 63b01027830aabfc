// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.hpp"

#include <string_view>

namespace holdfast::bench::http {

std::vector<record> make_records(std::size_t count) {
    std::vector<record> records;
    records.reserve(count);
    for (std::uint64_t id = 1; id <= count; ++id) {
        const std::uint64_t mixed = id * 0x9E3779B97F4A7C15U;  // golden ratio: spreads, and is the same everywhere
        std::string name;
        for (std::uint64_t letters = mixed >> 20U, left = 3 + (mixed >> 61U) % 6; left > 0; --left, letters /= 26)
            name += static_cast<char>('a' + letters % 26);
        records.push_back({.id = id, .user = mixed >> 32U, .name = std::move(name)});
    }
    return records;
}

std::string csv_of(const std::vector<record>& records) {
    std::string text;
    for (const record& r : records)
        text.append(std::to_string(r.id)).append(",").append(std::to_string(r.user)).append(",").append(r.name) += '\n';
    return text;
}

std::string json_of(const record& r) {
    return "{\"id\":" + std::to_string(r.id) + ",\"user\":" + std::to_string(r.user) + ",\"name\":\"" + r.name + "\"}";
}

std::string path_of(const std::string& table, const record& r) {
    return "/v1/tables/" + table + "/" + std::to_string(r.id);
}

std::vector<exchange> make_exchanges(const std::string& table, const std::vector<record>& records, bool close) {
    std::vector<exchange> exchanges;
    exchanges.reserve(records.size());
    for (const record& r : records) {
        std::string request =
            "GET " + path_of(table, r) + " HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n";
        if (close) request += "Connection: close\r\n";
        request += "\r\n";
        exchanges.push_back({.request = std::move(request), .body = json_of(r)});
    }
    return exchanges;
}

}  // namespace holdfast::bench::http
