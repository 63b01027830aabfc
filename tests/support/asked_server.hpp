// SPDX-License-Identifier: Apache-2.0
// asked_server.hpp - what a worker of `holdfast serve` answers about one segment, asked in process, without a socket:
// every route that shows anything of it, and whether each answer is one that may be given.
//
// An answer is 200 with one JSON value (or an exposition) of a bounded size, or a problem (RFC 9457) whose status says
// whose fault it is. A scan goes forward and ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/http_parser.hpp"
#include "holdfast/net/response.hpp"
#include "perf_test/json_reader.hpp"
#include "serve/api.hpp"
#include "serve/shared_counts.hpp"

namespace holdfast::test {

struct served_answer {
    int status = 0;
    std::string body;
};

class asked_server {
 public:
    /// Serves `uri` alone. No answer may be longer than `body_max`. `counts` must outlive this.
    asked_server(const std::string& uri, const serve::shared_counts& counts, std::uint64_t body_max)
        : name_(percent_encoded(serve::catalog::name_of(uri))),
          body_max_(body_max),
          routes_(options_of(uri), 0, counts) {}

    /// What can be asked about entries of the segment.
    [[nodiscard]] std::vector<std::string> targets() const {
        std::vector<std::string> all;
        for (const char* const key : {"5", "50", "4294967295", "0", "key%2025"})
            for (const char* const what : {"/v1/tables/", "/v1/indexes/"})
                for (const char* const query : {"", "?fields=visits,low"})
                    all.push_back(what + name_ + "/" + key + query);
        for (const char* const query : {"?limit=1000", "?limit=1", "?cursor=18446744073709551615"})
            all.push_back("/v1/tables/" + name_ + query);
        for (const char* const query : {"?from=1&limit=1000", "?from=latest", "?from=2001-01-01T00:00:00Z"})
            all.push_back("/v1/rings/" + name_ + query);
        return all;
    }

    /// Asks the routes about the segment, a table page by page. `judged` is called with what looks at an answer, which
    /// is no part of the server. Throws: std::logic_error that says which answer may not be given.
    template <class Judged>
    void ask_everything(Judged&& judged) {
        routes_.refresh();
        for (const char* const target : {"/v1/segments", "/v1/stats"}) (void)get(target, judged);
        // Of eight turns three, since they cost as much as all the rest: each in another form.
        if (const std::size_t form = turns_++ % 8; form < std::size(forms))
            (void)ask("GET", "/metrics", "Accept: " + std::string(forms[form]) + "\r\n", {}, judged);
        for (const std::string& target : targets()) (void)ask("GET", target, "If-None-Match: \"x\"\r\n", {}, judged);
        (void)ask("POST", "/v1/tables/" + name_ + ":batchGet", {}, R"({"keys":[1,"2",3,5,8,13,21,34,55,89]})", judged);
        scan(judged);
    }

    /// One request for each way in: as fuzzing does it, which has many segments and little time.
    template <class Judged>
    void ask_a_little(Judged&& judged) {
        for (const std::string& target :
             {std::string("/v1/segments"), "/v1/tables/" + name_ + "/55", "/v1/tables/" + name_ + "?limit=1000",
              "/v1/indexes/" + name_ + "/55", "/v1/rings/" + name_})
            (void)get(target, judged);
    }

    template <class Judged>
    served_answer get(const std::string& target, Judged&& judged) {
        return ask("GET", target, {}, {}, judged);
    }
    /// One request. Throws: std::logic_error.
    template <class Judged>
    served_answer ask(std::string_view method, const std::string& target, std::string_view fields,
                      std::string_view body, Judged&& judged) {
        std::string text;
        text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: localhost\r\n").append(fields);
        if (method == "POST") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
        text.append("\r\n").append(body);
        net::request_parser parser;
        if (parser.parse(std::span(text)) != net::parse_status::complete)
            throw std::logic_error("the test's own request is refused: " + target);
        response_.reset();
        try {
            routes_.answer(parser.message(), response_);
        } catch (const std::exception& e) {
            throw std::logic_error(target + " threw: " + e.what());
        }
        std::string fault;
        judged([&] { fault = fault_of(target); });
        if (!fault.empty())
            throw std::logic_error(target + " answers " + std::to_string(response_.status()) + ": " + fault + ": " +
                                   response_.body().substr(0, 400));
        return {response_.status(), response_.body()};
    }

 private:
    static constexpr const char* forms[] = {
        "text/plain", "application/openmetrics-text; version=1.0.0",
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"};

    static serve::serve_options options_of(const std::string& uri) {
        serve::serve_options options;
        options.segments = {uri};
        return options;
    }
    static std::string percent_encoded(std::string_view text) {
        std::string out;
        for (const char c : text)
            if (c == '/' || c == ':' || c == '%')
                out += c == '/' ? "%2F" : c == ':' ? "%3A" : "%25";
            else
                out += c;
        return out;
    }
    template <class Judged>
    void scan(Judged&& judged) {
        constexpr int pages_max = 1000;
        std::uint64_t from = 0;
        for (int pages = 0; pages < pages_max; ++pages) {
            const served_answer page = get("/v1/tables/" + name_ + "?limit=7&cursor=" + std::to_string(from), judged);
            constexpr std::string_view mark = "\"next\":\"";
            const std::size_t at = page.body.rfind(mark);
            if (page.status != 200 || at == std::string::npos) return;
            const std::uint64_t next = std::strtoull(page.body.c_str() + at + mark.size(), nullptr, 10);
            if (next <= from) throw std::logic_error("a scan goes back to " + std::to_string(next));
            from = next;
        }
        throw std::logic_error("a scan does not end");
    }
    [[nodiscard]] std::string fault_of(const std::string& target) const {
        const std::string& body = response_.body();
        const bool exposition = target == "/metrics";
        const auto says = [&](std::string_view field) {
            return response_.fields().find(field) != std::string_view::npos;
        };
        if (body.size() > body_max_) return "a body of " + std::to_string(body.size()) + " bytes";
        if (response_.status() == 200 && exposition) return exposition_fault();
        perf_test::json_value value;
        try {
            value = perf_test::parse_json(body, "an answer");
        } catch (const error& e) {
            return e.what();
        }
        if (response_.status() == 200) return says("Content-Type: application/json\r\n") ? "" : "no JSON by its type";
        const auto expected = {400, 404, 500, 503};
        if (std::ranges::find(expected, response_.status()) == expected.end()) return "no answer to be given";
        if (!says("Content-Type: application/problem+json\r\n")) return "no problem by its type";
        if (value.number("status") != response_.status() || !value.text("title") || !value.text("detail"))
            return "no problem by its members";
        return {};
    }
    // Of the two that are text: whole lines, each a comment or a sample.
    [[nodiscard]] std::string exposition_fault() const {
        std::string_view text = response_.body();
        if (response_.fields().find("protobuf") != std::string_view::npos) return {};
        while (!text.empty()) {
            const std::size_t end = text.find('\n');
            if (end == std::string_view::npos) return "its last line does not end";
            const std::string_view line = text.substr(0, end);
            text.remove_prefix(end + 1);
            const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
            if (line.empty() || std::ranges::any_of(line, control) || line.find(' ') == std::string_view::npos)
                return "no line of an exposition: " + std::string(line);
        }
        return {};
    }

    std::string name_;
    std::uint64_t body_max_;
    serve::api routes_;
    net::response response_;
    std::size_t turns_ = 0;
};

}  // namespace holdfast::test
