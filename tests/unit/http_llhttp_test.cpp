// SPDX-License-Identifier: Apache-2.0
// Our parser of requests beside llhttp, the parser of Node.js, with none of its leniencies: we may refuse more, but
// what we take for a request it has to take for the same one, and it has to see it end at the same byte. Two servers in
// a row that see a request end at different bytes are what smuggling needs.
//
// Where we understand what it refuses, the case is in `exceptions`, by name and with the rule that is on our side.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/net/http_parser.hpp"
#include "http_mutation.hpp"
#include "http_requests.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"

#ifdef HOLDFAST_TEST_WITH_LLHTTP
#include <llhttp.h>

namespace {

using namespace holdfast;

/// What a parser makes of the first request of a stream.
struct verdict {
    enum class kind : std::uint8_t { need_more, complete, refused };
    kind what = kind::need_more;
    bool in_body = false;   // the head was taken, the body is not there yet
    std::size_t end = 0;    // complete: where the request ends
    bool persists = false;  // complete: another request may follow
    std::string contents;   // complete: method, target, version, fields and body
    std::string complaint;  // refused
};

std::string line_of(std::string_view name, std::string_view value) {
    return std::string(name).append(": ").append(value).append("\n");
}

verdict our_verdict(std::string_view stream) {
    net::request_parser parser;
    std::string bytes(stream);
    verdict v;
    switch (parser.parse(bytes)) {
        case net::parse_status::need_more: v.in_body = parser.head_complete(); return v;
        case net::parse_status::refused:
            v.what = verdict::kind::refused;
            v.complaint = std::to_string(parser.refusal_status()).append(" ").append(parser.refusal_reason());
            return v;
        case net::parse_status::complete: break;
    }
    const net::request& r = parser.message();
    v.what = verdict::kind::complete;
    v.end = parser.consumed();
    v.persists = r.keep_alive();
    v.contents =
        line_of(net::method_name(r.method()), r.target()) + line_of("HTTP/1", std::to_string(r.minor_version()));
    for (std::size_t i = 0; i < r.headers_size(); ++i) v.contents += line_of(r.header_at(i).name, r.header_at(i).value);
    v.contents += line_of("body", r.body());
    return v;
}

class llhttp_reading {
 public:
    explicit llhttp_reading(std::string_view stream) {
        llhttp_settings_t settings;
        llhttp_settings_init(&settings);
        settings.on_url = piece<&llhttp_reading::target_>;
        settings.on_body = piece<&llhttp_reading::body_>;
        settings.on_header_field = [](llhttp_t* p, const char* at, std::size_t bytes) {
            return self(p).name_.append(at, bytes), 0;
        };
        settings.on_header_value = piece<&llhttp_reading::value_>;
        settings.on_header_value_complete = [](llhttp_t* p) { return self(p).end_field(), 0; };
        settings.on_headers_complete = [](llhttp_t* p) { return self(p).in_body_ = true, 0; };
        settings.on_message_complete = [](llhttp_t* p) {
            self(p).complete_ = true;
            self(p).verdict_.persists = llhttp_should_keep_alive(p) != 0;
            return int{HPE_PAUSED};
        };
        llhttp_t parser;
        llhttp_init(&parser, HTTP_REQUEST, &settings);
        parser.data = this;
        const llhttp_errno_t code = llhttp_execute(&parser, stream.data(), stream.size());
        verdict_.in_body = in_body_;
        if (complete_) {
            verdict_.what = verdict::kind::complete;
            verdict_.end = static_cast<std::size_t>(llhttp_get_error_pos(&parser) - stream.data());
            verdict_.contents =
                line_of(llhttp_method_name(static_cast<llhttp_method_t>(parser.method)), target_) +
                line_of("HTTP/" + std::to_string(parser.http_major), std::to_string(parser.http_minor)) + fields_ +
                line_of("body", body_);
        } else if (code != HPE_OK) {
            verdict_.what = verdict::kind::refused;
            verdict_.complaint = llhttp_errno_name(code) + std::string(" ") + llhttp_get_error_reason(&parser);
        }
    }
    [[nodiscard]] const verdict& result() const { return verdict_; }

 private:
    static llhttp_reading& self(llhttp_t* parser) { return *static_cast<llhttp_reading*>(parser->data); }
    template <std::string llhttp_reading::* Into>
    static int piece(llhttp_t* parser, const char* at, std::size_t bytes) {
        return (self(parser).*Into).append(at, bytes), 0;
    }
    void end_field() {
        const std::size_t end = value_.find_last_not_of(" \t");  // its values have the white space behind them
        if (!in_body_) fields_ += line_of(name_, value_.substr(0, end + 1));  // else of a trailer, which we drop
        name_.clear(), value_.clear();
    }

    std::string target_, name_, value_, fields_, body_;
    bool in_body_ = false, complete_ = false;
    verdict verdict_;
};

// Blanks beside ';' and '=' in the lines of chunk sizes.
std::string without_bad_blanks(std::string_view stream) {
    const auto joins = [](char c) { return c == ';' || c == '='; };
    std::string out;
    while (!stream.empty()) {
        const std::size_t end = std::min(stream.find("\r\n"), stream.size() - 1) + 1;
        const std::string_view line = stream.substr(0, end);
        stream.remove_prefix(end);
        const std::size_t size = line.find_first_not_of("\n0123456789abcdefABCDEF");
        const std::size_t mark = line.find_first_not_of(" \t", size);
        if (size == 0 || mark == std::string_view::npos || line[mark] != ';') {
            out += line;
            continue;
        }
        for (std::size_t at = 0; at < line.size(); ++at) {
            const std::size_t next = line.find_first_not_of(" \t", at);
            if (next != at && next != std::string_view::npos && (joins(line[next]) || joins(out.back()))) at = next;
            out += line[at];
        }
    }
    return out;
}

// Blanks at the end of fields named Transfer-Encoding.
std::string without_blanks_behind_codings(std::string_view stream) {
    std::string out;
    while (!stream.empty()) {
        const std::size_t end = std::min(stream.find('\r'), stream.size() - 1) + 1;
        std::string_view line = stream.substr(0, end);
        stream.remove_prefix(end);
        const std::size_t name = line.starts_with('\n') ? 1 : 0;
        if (line.ends_with('\r') && net::equal_ignoring_case(line.substr(name, 18), "Transfer-Encoding:")) {
            line.remove_suffix(1);
            out.append(line.substr(0, line.find_last_not_of(" \t") + 1)).append("\r");
        } else {
            out += line;
        }
    }
    return out;
}

/// What we understand and it refuses, or ends before the body, as it does behind "Upgrade". Without the thing in
/// question the stream has to be taken alike by both.
struct exception {
    const char* name;
    const char* rule;
    std::string (*without)(std::string_view stream);
};
constexpr std::array exceptions{
    exception{
        "blanks beside ';' and '=' of a chunk extension",
        "RFC 9112 7.1.1: chunk-ext = *( BWS \";\" BWS chunk-ext-name [ BWS \"=\" BWS chunk-ext-val ] ), and RFC 9110 "
        "5.6.3: a recipient must parse for such white space and remove it",
        without_bad_blanks},
    exception{"a tab behind a transfer coding",
              "RFC 9112 5: field-line = field-name \":\" OWS field-value OWS, and RFC 9110 5.6.3: OWS = *( SP / HTAB )",
              without_blanks_behind_codings},
};

/// What must not be: empty, or what it is.
std::string disagreement(const verdict& ours, const verdict& theirs) {
    using enum verdict::kind;
    if (ours.what == refused) return {};
    if (theirs.what == refused) {
        if (ours.what == complete) return "we accept what it refuses: " + theirs.complaint;
        return ours.in_body ? "we accept a head or a part of a body that it refuses: " + theirs.complaint : "";
    }
    if (ours.what != theirs.what) return ours.what == complete ? "it wants more" : "we want more";
    if (ours.what == need_more)
        return ours.in_body == theirs.in_body ? "" : "one of us has not seen the end of the head";
    if (ours.end != theirs.end) return "ends at " + std::to_string(ours.end) + " and at " + std::to_string(theirs.end);
    if (ours.persists && !theirs.persists) return "it closes behind the request";
    return ours.contents == theirs.contents ? "" : "we read\n" + ours.contents + "it reads\n" + theirs.contents;
}

/// Compares streams, and counts, so that a comparison of refusals alone does not pass for one.
struct comparison {
    std::map<std::string, std::uint64_t> excepted;
    std::uint64_t requests = 0, refused_by_both = 0, refused_by_us = 0, unfinished = 0;

    /// Compares request by request, until one is refused or not whole. Returns: what must not be.
    std::string compare(std::string_view stream) {
        while (!stream.empty()) {
            const verdict ours = our_verdict(stream);
            const verdict theirs = llhttp_reading(stream).result();
            if (std::string what = disagreement(ours, theirs); !what.empty()) {
                if (!is_excepted(stream, ours)) return what + "\nin " + testing::PrintToString(std::string(stream));
            } else if (ours.what == verdict::kind::refused) {
                ++(theirs.what == verdict::kind::refused ? refused_by_both : refused_by_us);
            }
            if (ours.what != verdict::kind::complete) {
                unfinished += ours.what == verdict::kind::need_more ? 1 : 0;
                return {};
            }
            ++requests;
            stream.remove_prefix(ours.end);
        }
        return {};
    }
    // Whether nothing but exceptions is between them, and is nothing to us.
    bool is_excepted(std::string_view stream, const verdict& ours) {
        std::string plain(stream);
        std::vector<const char*> names;
        for (const exception& e : exceptions)
            if (std::string changed = e.without(plain); changed != plain)
                plain = std::move(changed), names.push_back(e.name);
        const verdict again = our_verdict(plain);
        if (names.empty() || again.contents != ours.contents ||
            !disagreement(again, llhttp_reading(plain).result()).empty())
            return false;
        for (const char* name : names) ++excepted[name];
        return true;
    }
    void print(std::string_view of) const {
        std::printf("%.*s: %llu requests understood alike, %llu refused by both, %llu by us alone, %llu unfinished\n",
                    static_cast<int>(of.size()), of.data(), static_cast<unsigned long long>(requests),
                    static_cast<unsigned long long>(refused_by_both), static_cast<unsigned long long>(refused_by_us),
                    static_cast<unsigned long long>(unfinished));
        for (const auto& [name, count] : excepted)
            std::printf("  exception, %s: %llu\n", name.c_str(), static_cast<unsigned long long>(count));
    }
};

TEST(HttpBesideLlhttp, AgreesOnTheTable) {
    comparison seen;
    for (const test::request_case& c : test::request_cases) EXPECT_EQ(seen.compare(c.bytes), "") << c.name;
    seen.print("table");
    EXPECT_EQ(seen.excepted.size(), 1U);
}

TEST(HttpBesideLlhttp, AgreesOnMutatedRequests) {
    test::seeded_random random;
    comparison seen;
    const std::uint64_t rounds = test::scaled(40'000);
    for (std::uint64_t round = 0; round < rounds; ++round) ASSERT_EQ(seen.compare(test::mutated_requests(random)), "");
    seen.print("mutations");
    EXPECT_GT(seen.requests, rounds / 20);
    EXPECT_GT(seen.refused_by_both, rounds / 4);
}

TEST(HttpBesideLlhttp, AgreesOnShapesOfSmuggling) {
    test::seeded_random random;
    comparison seen;
    const std::uint64_t rounds = test::scaled(20'000);
    for (const std::uint64_t tame : {6U, 12U, 40U, 200U}) {
        test::smuggling_shapes shape(random, tame);
        for (std::uint64_t round = 0; round < rounds; ++round) ASSERT_EQ(seen.compare(shape()), "");
    }
    seen.print("shapes");
    EXPECT_GT(seen.requests, rounds);
    EXPECT_GT(seen.refused_by_both, rounds);
}

}  // namespace

#else

TEST(HttpBesideLlhttp, NeedsItsSources) {
    GTEST_SKIP() << "needs the sources of llhttp in build/python_sources: ./dev setup";
}

#endif
