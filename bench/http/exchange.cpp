// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.hpp"

#include "http/computed.hpp"

namespace holdfast::bench::http {

std::vector<record> make_records(std::size_t count) {
    std::vector<record> records;
    records.reserve(count);
    for (std::uint64_t id = 1; id <= count; ++id) {
        const computed_entry made = computed_from(id);
        records.push_back({.id = id, .user = made.user, .name = std::string(made.name())});
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
