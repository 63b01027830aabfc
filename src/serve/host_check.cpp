// SPDX-License-Identifier: Apache-2.0
#include "serve/host_check.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>

#include "holdfast/net/request.hpp"

namespace holdfast::serve {

namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (out.ends_with('.')) out.pop_back();  // a name's root may be written
    return out;
}

bool is_address(const std::string& host) {
    std::array<unsigned char, 16> bytes{};
    return ::inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

std::string_view host_without_port(std::string_view authority) noexcept {
    std::size_t end = 0;
    std::string_view host;
    if (authority.starts_with('[')) {
        end = authority.find(']');
        if (end == std::string_view::npos) return {};
        host = authority.substr(1, end - 1);
        ++end;
    } else {
        end = std::min(authority.find(':'), authority.size());
        host = authority.substr(0, end);
    }
    std::string_view port = authority.substr(end);
    if (!port.empty()) {
        if (port[0] != ':') return {};
        port.remove_prefix(1);
        if (port.size() > 5 || !std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; })) return {};
    }
    return host;
}

bool is_own_origin(std::string_view origin, std::string_view authority, bool by_tls) {
    const auto is_page_of = [&](std::string_view scheme, std::string_view port) {
        if (!origin.starts_with(scheme)) return false;
        std::string_view page = origin.substr(scheme.size());
        std::string_view ours = authority;
        for (std::string_view* const each : {&page, &ours})
            if (each->ends_with(port)) each->remove_suffix(port.size());
        return !host_without_port(page).empty() && net::equal_ignoring_case(page, ours);
    };
    return is_page_of("https://", ":443") || (!by_tls && is_page_of("http://", ":80"));
}

host_check::host_check(std::vector<std::string> allowed) : allowed_(std::move(allowed)) {
    for (std::string& name : allowed_) name = lower(name);
}

bool host_check::accepts(std::string_view authority) {
    if (!accepted_.empty() && authority == accepted_) return true;
    if (!is_ours(authority)) return false;
    if (authority.size() <= remembered_bytes_max) accepted_.assign(authority);
    return true;
}

bool host_check::is_ours(std::string_view authority) const {
    const std::string host = lower(host_without_port(authority));
    if (host.empty()) return false;
    if (host == "localhost" || host.ends_with(".localhost") || is_address(host)) return true;
    return std::ranges::find(allowed_, host) != allowed_.end();
}

}  // namespace holdfast::serve
