// SPDX-License-Identifier: Apache-2.0
#include "serve/worker_arguments.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>

#include "holdfast/error.hpp"

namespace holdfast::serve {

namespace {

void read_number(std::string_view name, std::string_view text, bool& into) {
    if (text != "0" && text != "1")
        throw error(errc::invalid_argument, std::string(name),
                    "neither 0 nor 1; workers are started by holdfast serve alone");
    into = text == "1";
}

template <class Number>
void read_number(std::string_view name, std::string_view text, Number& into) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), into);
    if (code != std::errc{} || end != text.data() + text.size())
        throw error(errc::invalid_argument, std::string(name),
                    "not a number; workers are started by holdfast serve alone");
}

/// Calls visit(name, member) for each limit. A limit more does not compile until it is named here.
template <class Limits, class Visit>
void each_limit(Limits& limits, Visit&& visit) {
    auto& [message, connections_max, output_bytes_max, held_bytes_max, header_timeout_ms, body_timeout_ms,
           idle_timeout_ms, write_timeout_ms, linger_timeout_ms, answer_timeout_ms, pipeline_max, websocket_ping_ms,
           websocket_close_ms, drain_idle_ms, drain_timeout_ms] = limits;
    auto& [target_bytes_max, header_bytes_max, headers_max, body_bytes_max, chunk_extension_bytes_max,
           trailer_bytes_max] = message;
    visit("target-bytes-max", target_bytes_max);
    visit("header-bytes-max", header_bytes_max);
    visit("headers-max", headers_max);
    visit("body-bytes-max", body_bytes_max);
    visit("chunk-extension-bytes-max", chunk_extension_bytes_max);
    visit("trailer-bytes-max", trailer_bytes_max);
    visit("connections-max", connections_max);
    visit("output-bytes-max", output_bytes_max);
    visit("held-bytes-max", held_bytes_max);
    visit("header-timeout-ms", header_timeout_ms);
    visit("body-timeout-ms", body_timeout_ms);
    visit("idle-timeout-ms", idle_timeout_ms);
    visit("write-timeout-ms", write_timeout_ms);
    visit("linger-timeout-ms", linger_timeout_ms);
    visit("answer-timeout-ms", answer_timeout_ms);
    visit("pipeline-max", pipeline_max);
    visit("websocket-ping-ms", websocket_ping_ms);
    visit("websocket-close-ms", websocket_close_ms);
    visit("drain-idle-ms", drain_idle_ms);
    visit("drain-timeout-ms", drain_timeout_ms);
}

/// Calls visit(name, member) for each setting, so that writing and reading cannot drift apart.
template <class Arguments, class Visit>
void each_setting(Arguments& arguments, Visit&& visit) {
    visit("index", arguments.index);
    visit("listener", arguments.listeners);
    visit("cpu", arguments.cpus);
    visit("unix-listener", arguments.unix_listener);
    visit("lifeline", arguments.lifeline);
    visit("ready", arguments.ready);
    auto& options = arguments.options;
    visit("listen", options.listen);
    visit("unix", options.unix_path);
    visit("workers", options.workers);
    visit("name", options.name);
    visit("segment", options.segments);
    visit("tls-certificate", options.tls_certificate);
    visit("tls-key", options.tls_key);
    visit("private", options.private_too);
    visit("write", options.write);
    visit("token-file", options.token_file);
    visit("audit-log", options.audit_log);
    visit("rate-of-one", options.rate_of_one);
    visit("rate-of-all", options.rate_of_all);
    visit("allowed-host", options.allowed_hosts);
    visit("count-by", options.counts);
    visit("engine", options.engine);
    visit("steer", options.steer);
    each_limit(options.limits, visit);
}

std::string word(std::string_view name, std::string_view value) {
    return "--" + std::string(name) + "=" + std::string(value);
}

}  // namespace

count_by count_by::parse(std::string_view text) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
        throw error(errc::invalid_argument, std::string(text), "write SEGMENT=FIELD, for example geo4=country");
    return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

void set_limit(net::limits& limits, std::string_view text) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::string_view name = text.substr(0, equals);
    const std::string_view number = text.substr(std::min(equals + 1, text.size()));
    std::string names;
    bool known = false;
    each_limit(limits, [&](std::string_view each, auto& into) {
        names.append(names.empty() ? "" : ", ").append(each);
        if (each != name) return;
        known = true;
        auto value = into;
        const auto [end, code] = std::from_chars(number.data(), number.data() + number.size(), value);
        if (code != std::errc{} || end != number.data() + number.size() || value == 0)
            throw error(errc::invalid_argument, "--limit " + std::string(text),
                        "is no number from 1 to " + std::to_string(std::numeric_limits<decltype(value)>::max()));
        into = value;
    });
    if (!known)
        throw error(errc::invalid_argument, "--limit " + std::string(text),
                    "no limit is called that; there are " + names);
}

bool serve_options::steers_by_cpu() const {
    if (steer == "cpu") return true;
    if (steer == "flow") return false;
    throw error(errc::invalid_argument, "--steer", "is flow, or cpu");
}

net::engine_choice serve_options::engine_choice() const {
    if (engine == "epoll") return net::engine_choice::epoll;
    if (engine == "io_uring") return net::engine_choice::io_uring;
    if (engine == "auto") return net::engine_choice::automatic;
    throw error(errc::invalid_argument, "--engine", "is epoll, io_uring, or auto");
}

std::vector<std::string> worker_arguments::words() const {
    std::vector<std::string> out;
    each_setting(*this, [&](std::string_view name, const auto& value) {
        using value_type = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_integral_v<value_type>) {
            out.push_back(word(name, std::to_string(value)));
        } else if constexpr (std::is_same_v<value_type, std::string>) {
            out.push_back(word(name, value));
        } else {
            for (const auto& item : value) {
                if constexpr (std::is_same_v<value_type, std::vector<int>>)
                    out.push_back(word(name, std::to_string(item)));
                else if constexpr (std::is_same_v<value_type, std::vector<count_by>>)
                    out.push_back(word(name, item.segment + "=" + item.field));
                else
                    out.push_back(word(name, item));
            }
        }
    });
    return out;
}

worker_arguments worker_arguments::parse(std::span<const std::string_view> words) {
    worker_arguments arguments;
    for (const std::string_view text : words) {
        const std::size_t equals = text.find('=');
        bool known = false;
        each_setting(arguments, [&](std::string_view name, auto& into) {
            if (known || equals == std::string_view::npos || text.substr(0, equals) != "--" + std::string(name)) return;
            known = true;
            const std::string_view value = text.substr(equals + 1);
            using value_type = std::remove_cvref_t<decltype(into)>;
            if constexpr (std::is_integral_v<value_type>)
                read_number(name, value, into);
            else if constexpr (std::is_same_v<value_type, std::string>)
                into = std::string(value);
            else if constexpr (std::is_same_v<value_type, std::vector<int>>)
                read_number(name, value, into.emplace_back());
            else if constexpr (std::is_same_v<value_type, std::vector<count_by>>)
                into.push_back(count_by::parse(value));
            else
                into.emplace_back(value);
        });
        if (!known)
            throw error(errc::invalid_argument, std::string(text),
                        "no setting of a worker; run holdfast serve instead");
    }
    if (arguments.listeners.empty() || std::ranges::any_of(arguments.listeners, [](int fd) { return fd < 0; }) ||
        arguments.lifeline < 0 || arguments.ready < 0)
        throw error(errc::invalid_argument, std::string(worker_command),
                    "descriptors are missing; run holdfast serve instead");
    return arguments;
}

}  // namespace holdfast::serve
