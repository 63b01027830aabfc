// SPDX-License-Identifier: Apache-2.0
// What becomes of a caller's URL, method and fields: a head that says that and nothing else, or a refusal.
#include "net/client_url.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace {

using namespace holdfast;

// "host port target", or what is wrong.
std::string parsed(std::string_view text) {
    net::client_url url;
    if (const std::string_view wrong = parse_client_url(text, url); !wrong.empty()) return std::string(wrong);
    return url.scheme + " " + url.host + " " + std::to_string(url.port) + " " + url.target + " as " + url.authority();
}

TEST(ClientUrl, IsTakenApart) {
    EXPECT_EQ(parsed("http://example.org"), "http example.org 80 / as example.org");
    EXPECT_EQ(parsed("HTTP://Example.ORG:8080/a/b?c=d&e=%20?f#g"),
              "http example.org 8080 /a/b?c=d&e=%20?f as example.org:8080");
    EXPECT_EQ(parsed("http://[::1]:81/"), "http ::1 81 / as [::1]:81");
    EXPECT_EQ(parsed("http://[2001:db8::7]?q"), "http 2001:db8::7 80 /?q as [2001:db8::7]");
    EXPECT_EQ(parsed("http://127.0.0.1:/x"), "http 127.0.0.1 80 /x as 127.0.0.1");
    EXPECT_EQ(parsed("http://a_b.c-d.:80#/"), "http a_b.c-d. 80 / as a_b.c-d.");
    EXPECT_EQ(parsed("https://a:443/"), "https a 443 / as a");
    EXPECT_EQ(parsed("https://a:80/"), "https a 80 / as a:80");
    EXPECT_EQ(parsed("http://1and1.com/"), "http 1and1.com 80 / as 1and1.com");
}

TEST(ClientUrl, IsRefusedRatherThanRepaired) {
    using namespace std::string_view_literals;
    for (const std::string_view text : {""sv,
                                        "example.org"sv,
                                        "ftp://a/"sv,
                                        "http:/a"sv,
                                        "http://"sv,
                                        "http:///x"sv,
                                        "http://?x"sv,
                                        "http://:80/"sv,
                                        "http://user@a/"sv,
                                        "http://user:pw@a/"sv,
                                        "http://a:80@b/"sv,
                                        "http://a b/"sv,
                                        "http://a/b c"sv,
                                        "http://a/\r\nX: y"sv,
                                        "http://a/\nX"sv,
                                        "http://a\r\n/"sv,
                                        "http://a/\0"sv,
                                        "http://a\0b/"sv,
                                        "http://a/\xc3\xa9"sv,
                                        "http://\xc3\xa9/"sv,
                                        "http://a/%"sv,
                                        "http://a/%g0"sv,
                                        "http://a/%0"sv,
                                        "http://a/<x>"sv,
                                        "http://a/\"x\""sv,
                                        "http://a/|"sv,
                                        "http://a/["sv,
                                        "http://a\\b/"sv,
                                        "http://a%2eb/"sv,
                                        "http://a:0/"sv,
                                        "http://a:65536/"sv,
                                        "http://a:-1/"sv,
                                        "http://a:+1/"sv,
                                        "http://a:8 0/"sv,
                                        "http://a:b/"sv,
                                        "http://a:80:80/"sv,
                                        "http://[::1/"sv,
                                        "http://::1/"sv,
                                        "http://[::1]x/"sv,
                                        "http://[::1]80/"sv,
                                        "http://[fe80::1%25eth0]/"sv,
                                        "http://[127.0.0.1]/"sv,
                                        "http://[::1\0]/"sv,
                                        "http://127.1/"sv,
                                        "http://1/"sv,
                                        "http://0x7f.1/"sv,
                                        "http://0x7f000001/"sv,
                                        "http://127.0.0.256/"sv,
                                        "http://127.0.0.1./"sv,
                                        "http://./"sv,
                                        "http://../"sv,
                                        "http://.example.org/"sv,
                                        "https://.example.org/"sv,
                                        "http://a..b/"sv,
                                        "http://a../"sv,
                                        "http://a,b/"sv,
                                        " http://a/"sv,
                                        "http://a/ "sv})
        EXPECT_EQ(parsed(text).find(" as "), std::string::npos) << text << " is " << parsed(text);
    EXPECT_EQ(parsed("http://a/" + std::string(70000, 'x')), "the URL is too long");
    EXPECT_EQ(parsed("http://" + std::string(300, 'x') + "/"), "the host of the URL is too long");
}

// The head of a request for http://test/x, or what is wrong.
std::string head_of(const net::client_request& asked) {
    net::client_url url;
    EXPECT_EQ(parse_client_url("http://test/x", url), "");
    std::string head;
    const std::string_view wrong = make_request_head(asked, url, head);
    return wrong.empty() ? head : "refused: " + std::string(wrong);
}

TEST(ClientUrl, MakesHeads) {
    const auto upload = [](std::string&) { return net::upload_step::end; };
    EXPECT_EQ(head_of({}), "GET /x HTTP/1.1\r\nHost: test\r\n\r\n");
    EXPECT_EQ(head_of({.method = "POST"}), "POST /x HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n");
    EXPECT_EQ(head_of({.method = "DELETE", .body = "ab", .close = true}),
              "DELETE /x HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
    EXPECT_EQ(head_of({.method = "PUT", .upload = upload}),
              "PUT /x HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
    EXPECT_EQ(head_of({.method = "PUT", .upload = upload, .upload_bytes = 7}),
              "PUT /x HTTP/1.1\r\nHost: test\r\nContent-Length: 7\r\n\r\n");
    EXPECT_EQ(head_of({.headers = {{"Accept", "a, b"}, {"X-Empty", ""}, {"X-Utf8", "\xc3\xa9\t!"}}}),
              "GET /x HTTP/1.1\r\nHost: test\r\nAccept: a, b\r\nX-Empty: \r\nX-Utf8: \xc3\xa9\t!\r\n\r\n");
}

TEST(ClientUrl, LetsNoFieldBecomeTwo) {
    using namespace std::string_literals;
    for (const std::string& value :
         {"a\r\nB: c"s, "a\nB: c"s, "a\rB"s, "a\0b"s, "a\x7f"s, "\x01"s, " a"s, "a "s, "\t"s})
        EXPECT_TRUE(head_of({.headers = {{"A", value}}}).starts_with("refused")) << value;
    for (const std::string& name :
         {""s, "A:"s, "A B"s, "A\r\nB"s, "A\0"s, "\xc3\xa9"s, "Host"s, "content-length"s, "Transfer-Encoding"s,
          "CONNECTION"s, "Keep-Alive"s, "TE"s, "Trailer"s, "Upgrade"s, "Expect"s, "Proxy-Connection"s})
        EXPECT_TRUE(head_of({.headers = {{name, "x"}}}).starts_with("refused")) << name;
    for (const std::string& method : {""s, "GET "s, "GET / HTTP/1.1\r\nA: b\r\n\r\nGET"s, "G\0T"s, "CONNECT"s})
        EXPECT_TRUE(head_of({.method = method}).starts_with("refused")) << method;
    EXPECT_TRUE(head_of({.method = "TRACE", .body = "x"}).starts_with("refused"));
    EXPECT_TRUE(head_of({.upload_bytes = 3}).starts_with("refused"));
    EXPECT_TRUE(
        head_of({.body = "x", .upload = [](std::string&) { return net::upload_step::end; }}).starts_with("refused"));
}

}  // namespace
