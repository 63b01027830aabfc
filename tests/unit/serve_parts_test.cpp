// SPDX-License-Identifier: Apache-2.0
// Parts of the server that need no socket: who may call us what, a worker's command line, keys from text, counts.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/http_parser.hpp"
#include "inspect/json_keys.hpp"
#include "serve/audit_log.hpp"
#include "serve/conditions.hpp"
#include "serve/failure.hpp"
#include "serve/host_check.hpp"
#include "serve/rate_limits.hpp"
#include "serve/rights.hpp"
#include "serve/shared_counts.hpp"
#include "serve/worker_arguments.hpp"
#include "serve/write_token.hpp"
#include "support/unique_name.hpp"

namespace {

// The segments of these tests are registered beside nobody else's.
const holdfast::test::unique_directory registry("registry");
const holdfast::test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

using namespace holdfast;

TEST(HostCheck, SplitsOffThePort) {
    EXPECT_EQ(serve::host_without_port("example.org:8080"), "example.org");
    EXPECT_EQ(serve::host_without_port("example.org"), "example.org");
    EXPECT_EQ(serve::host_without_port("example.org:"), "example.org");
    EXPECT_EQ(serve::host_without_port("[::1]:80"), "::1");
    for (const char* bad : {"[::1", "[::1]80", "a:b", "a:123456", "::1", "", ":80"})
        EXPECT_EQ(serve::host_without_port(bad), "") << bad;
}

TEST(HostCheck, TakesAddressesLocalhostAndWhatIsAllowed) {
    serve::host_check check({"State.Example"});
    for (const char* good : {"127.0.0.1", "10.1.2.3:80", "[2001:db8::1]", "localhost", "LocalHost:1", "localhost.",
                             "a.localhost", "state.example", "STATE.EXAMPLE.:443"})
        EXPECT_TRUE(check.accepts(good)) << good;
    for (const char* bad : {"", "example", "evil.state.example", "state.example.evil", "127.0.0.1.nip.example",
                            "localhost.example", "1.2.3", "0x7f.1"})
        EXPECT_FALSE(check.accepts(bad)) << bad;
}

// The last one that was accepted is remembered, and lets nobody else in.
TEST(HostCheck, RemembersWhatItAcceptedAndNothingElse) {
    serve::host_check check({"state.example"});
    const std::string longest = std::string(400, 'a') + ".localhost";
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(check.accepts(""));
        EXPECT_TRUE(check.accepts("state.example:80"));
        EXPECT_TRUE(check.accepts("state.example:80"));
        for (const char* bad :
             {"", "state.example:8o", "state.exampl", "xstate.example:80", "state.example:80x", "evil"})
            EXPECT_FALSE(check.accepts(bad)) << bad;
        EXPECT_TRUE(check.accepts(longest));
        EXPECT_FALSE(check.accepts(longest + "x"));
        EXPECT_TRUE(check.accepts("127.0.0.1"));
        EXPECT_FALSE(check.accepts("127.0.0.1x"));
    }
}

TEST(OwnOrigin, IsOurNameAndPortUnderEitherScheme) {
    for (const auto& [origin, host] : {std::pair{"http://127.0.0.1:8080", "127.0.0.1:8080"},
                                       {"http://LocalHost", "localhost:80"},
                                       {"http://localhost:80", "localhost"},
                                       {"https://state.example", "State.Example:443"},
                                       {"http://[::1]:8080", "[::1]:8080"}})
        EXPECT_TRUE(serve::is_own_origin(origin, host, false)) << origin << " at " << host;
    for (const auto& [origin, host] : {std::pair{"null", "127.0.0.1:8080"},
                                       {"", ""},
                                       {"http://", ""},
                                       {"http://127.0.0.1:3000", "127.0.0.1:8080"},
                                       {"http://localhost:8080", "127.0.0.1:8080"},
                                       {"http://evil.example", "127.0.0.1"},
                                       {"http://127.0.0.1:8080/x", "127.0.0.1:8080"},
                                       {"127.0.0.1:8080", "127.0.0.1:8080"},
                                       {"file://127.0.0.1", "127.0.0.1"},
                                       {"http://127.0.0.1:8080 http://evil.example", "127.0.0.1:8080"}})
        EXPECT_FALSE(serve::is_own_origin(origin, host, false)) << origin << " at " << host;
}

// A page of the same name that came without TLS is whoever's stands in between.
TEST(OwnOrigin, ByTlsIsThatOfAPageThatCameByTls) {
    EXPECT_TRUE(serve::is_own_origin("https://state.example", "state.example", true));
    EXPECT_TRUE(serve::is_own_origin("https://state.example:8443", "state.example:8443", true));
    EXPECT_FALSE(serve::is_own_origin("http://state.example", "state.example", true));
    EXPECT_FALSE(serve::is_own_origin("http://state.example:443", "state.example:443", true));
}

net::peer user_in(uid_t user, gid_t group, std::vector<gid_t> groups = {}) {
    net::peer who;
    who.way = net::peer_way::unix_socket;
    who.user = user;
    who.group = group;
    who.groups = std::move(groups);
    return who;
}

// The first class that one belongs to counts: an owner without the bit is refused although everybody has it.
TEST(SegmentRights, AreThoseOfTheFile) {
    const test::unique_directory folder("rights");
    const std::string path = folder.path() + "/t";
    {
        std::ofstream(path) << "x";
    }
    const uid_t me = ::geteuid();
    const gid_t mine = ::getegid();
    ::chmod(folder.path().c_str(), 0755);
    const auto rights = [&](mode_t mode) {
        EXPECT_EQ(::chmod(path.c_str(), mode), 0);
        return serve::segment_rights::of(memory::uri::parse("file:" + path));
    };
    const net::peer owner = user_in(me, 70000), member = user_in(70001, 70000, {70002, mine}),
                    primary = user_in(70001, mine), other = user_in(70001, 70000), root = user_in(0, 0);
    using serve::wish;
    const serve::segment_rights shared = rights(0640);
    EXPECT_TRUE(shared.allow(member, wish::read) && shared.allow(primary, wish::read));
    EXPECT_FALSE(shared.allow(member, wish::write) || shared.allow(other, wish::read));
    EXPECT_TRUE(shared.allow(owner, wish::write) && shared.allow(root, wish::write));
    EXPECT_FALSE(shared.allow_everybody(wish::read));
    const serve::segment_rights odd = rights(0026);
    EXPECT_TRUE(odd.allow(other, wish::write));
    EXPECT_FALSE(odd.allow(member, wish::read) || odd.allow(member, wish::write)) << "one writes what one maps";
    EXPECT_EQ(odd.allow(owner, wish::read), me == 0) << "an owner without the bit";
    EXPECT_TRUE(odd.allow_everybody(wish::write));
    EXPECT_FALSE(rights(0604).allow_everybody(wish::write));
}

TEST(SegmentRights, NeedTheWayToAFile) {
    const test::unique_directory folder("rights");
    const std::string path = folder.path() + "/t";
    {
        std::ofstream(path) << "x";
    }
    ::chmod(path.c_str(), 0666);
    ::chmod(folder.path().c_str(), 0700);
    const auto closed = serve::segment_rights::of(memory::uri::parse("file:" + path));
    EXPECT_FALSE(closed.allow(user_in(70001, 70000), serve::wish::read) || closed.allow_everybody(serve::wish::read));
    EXPECT_TRUE(closed.allow(user_in(::geteuid(), 70000), serve::wish::write));
    const auto gone = serve::segment_rights::of(memory::uri::parse("file:" + path + "-gone"));
    EXPECT_FALSE(gone.allow(user_in(0, 0), serve::wish::read)) << "even root, of nothing";
}

TEST(EntryTags, HaveANumberWhereTheyAreOurs) {
    for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{0x0123456789abcdef}, ~std::uint64_t{0}})
        EXPECT_EQ(serve::number_of_tag(serve::entity_tag(number).text()), number);
    for (const char* other :
         {"", "*", R"("")", R"("x")", R"(W/"0123456789abcdef")", R"("0123456789ABCDEF")", R"("0123456789abcde")",
          R"("0123456789abcdef0")", R"("-123456789abcdef")", "00123456789abcdef0", R"("0x23456789abcdef")"})
        EXPECT_EQ(serve::number_of_tag(other), std::nullopt) << other;
}

TEST(EntryTags, NameTheValueAndTheSchemaAndNothingElse) {
    const container_schema schema = container_schema::parse("key {key:u64@0}#8\nvalue {user:u64@0}#8");
    const serve::entry_tags tags(schema);
    const auto tag = [&](std::string_view text) { return std::string(tags.of(std::as_bytes(std::span(text))).text()); };
    EXPECT_EQ(tag("value"), tag("value"));
    EXPECT_EQ(serve::entry_tags(schema).of({}).text(), tags.of({}).text());
    for (const char* other : {"key {key:u64@0}#8\nvalue {visits:u64@0}#8", "key {id:u64@0}#8\nvalue {user:u64@0}#8",
                              "key {key:u64@0}#8\nvalue {user:i64@0}#8"})
        EXPECT_NE(serve::entry_tags(container_schema::parse(other)).of({}).text(), tags.of({}).text()) << other;
    EXPECT_EQ(serve::entity_tag(0x0123456789abcdef).text(), R"("0123456789abcdef")");
    EXPECT_EQ(serve::entity_tag().text(), "");
    std::set<std::string> all;
    for (std::size_t bytes = 0; bytes < 40; ++bytes)
        for (const char last : {'\0', 'x'}) all.insert(tag(std::string(bytes, 'a') + last));
    EXPECT_EQ(all.size(), 80U);
    EXPECT_EQ(tag("v").size(), 18U);
    EXPECT_TRUE(serve::names_tag(R"("a" , "b")", R"("b")"));
    EXPECT_TRUE(serve::names_tag("*", R"("b")"));
    EXPECT_FALSE(serve::names_tag(R"(W/"b")", R"("b")")) << "RFC 9110 section 8.8.3.2";
    EXPECT_FALSE(serve::names_tag(R"("bb", b)", R"("b")"));
    EXPECT_FALSE(serve::names_tag(R"("a,*,b")", R"("b")")) << "a comma and an asterisk of one tag";
}

TEST(WriteToken, LetsInWhoSendsItOnceAndNobodyElse) {
    const test::unique_directory folder("token");
    const std::string path = folder.file("t");
    const auto write = [&](std::string_view text, mode_t mode = 0600) {
        ::unlink(path.c_str());
        std::ofstream(path) << text;
        ::chmod(path.c_str(), mode);
    };
    const auto accepts = [](const serve::write_token& token, std::string_view fields) {
        net::request_parser parser;
        std::string text = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n" + std::string(fields) + "\r\n";
        EXPECT_EQ(parser.parse(text), net::parse_status::complete);
        return token.is_in(parser.message());
    };
    write("0123456789abcdef\n");
    serve::write_token token(path);
    EXPECT_TRUE(accepts(token, "Authorization: Bearer 0123456789abcdef\r\n"));
    EXPECT_TRUE(accepts(token, "Authorization: bearer 0123456789abcdef\r\n"));
    for (const char* const fields :
         {"", "Authorization: 0123456789abcdef\r\n", "Authorization: Bearer 0123456789abcdeF\r\n",
          "Authorization: Bearer 0123456789abcde\r\n", "Authorization: Bearer 0123456789abcdef0\r\n",
          "Authorization: Bearer \r\n", "Authorization: Basic 0123456789abcdef\r\n",
          "Authorization: Bearer 0123456789abcdef\r\nAuthorization: Bearer 0123456789abcdef\r\n"})
        EXPECT_FALSE(accepts(token, fields)) << fields;
    write("another-token-of-mine");
    token.refresh();
    EXPECT_FALSE(accepts(token, "Authorization: Bearer 0123456789abcdef\r\n"));
    EXPECT_TRUE(accepts(token, "Authorization: Bearer another-token-of-mine\r\n"));
    ::chmod(path.c_str(), 0640);
    token.refresh();
    EXPECT_FALSE(accepts(token, "Authorization: Bearer another-token-of-mine\r\n")) << "others may have read it";
    ::chmod(path.c_str(), 0600);
    token.refresh();
    EXPECT_TRUE(accepts(token, "Authorization: Bearer another-token-of-mine\r\n"));
    ::unlink(path.c_str());
    token.refresh();
    EXPECT_FALSE(accepts(token, "Authorization: Bearer another-token-of-mine\r\n"));
    EXPECT_FALSE(accepts(token, "Authorization: Bearer \r\n"));
    EXPECT_THROW(serve::write_token{path}, error);
    for (const auto& [text, mode] : {std::pair{"0123456789abcde", 0600},
                                     {"", 0600},
                                     {"0123456789 abcdef", 0600},
                                     {"0123456789abcdef\nx", 0600},
                                     {"0123456789abcdef", 0604},
                                     {"0123456789abcdef", 0620}}) {
        write(text, static_cast<mode_t>(mode));
        EXPECT_THROW(serve::write_token{path}, error) << text << " of mode " << mode;
    }
}

net::peer at(std::string address) {
    net::peer who;
    who.way = net::peer_way::tcp;
    who.address = std::move(address);
    return who;
}

constexpr std::uint64_t second_ns = 1'000'000'000;

TEST(RateLimits, ASecondsWorthMayComeAtOnceAndThenEachInItsTime) {
    serve::rate_limits limits(10, 0);
    const net::peer one = at("10.0.0.1"), other = at("10.0.0.2");
    const std::uint64_t start = 5 * second_ns;
    for (int i = 0; i < 10; ++i) EXPECT_EQ(limits.admit(&one, start), 0U) << i;
    EXPECT_EQ(limits.admit(&one, start), second_ns / 10);
    EXPECT_EQ(limits.admit(&one, start + second_ns / 10 - 1), 1U) << "who is refused pays nothing for it";
    EXPECT_EQ(limits.admit(&one, start + second_ns / 10), 0U);
    EXPECT_EQ(limits.admit(&other, start), 0U);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(limits.admit(&one, start + 60 * second_ns), 0U) << "no more than is full";
    EXPECT_NE(limits.admit(&one, start + 60 * second_ns), 0U);
}

TEST(RateLimits, OfAllHoldsBesideThatOfOne) {
    serve::rate_limits limits(10, 15);
    const net::peer one = at("10.0.0.1"), other = user_in(7, 7), third;
    for (int i = 0; i < 10; ++i) EXPECT_EQ(limits.admit(&one, second_ns), 0U);
    EXPECT_NE(limits.admit(&one, second_ns), 0U);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(limits.admit(&other, second_ns), 0U) << i;
    EXPECT_NE(limits.admit(&other, second_ns), 0U);
    EXPECT_NE(limits.admit(&third, second_ns), 0U);
    EXPECT_NE(limits.admit(nullptr, second_ns), 0U);
    EXPECT_FALSE(serve::rate_limits(0, 0).any());
    serve::rate_limits tiny(0, 1);
    EXPECT_EQ(tiny.admit(nullptr, second_ns), 0U);
    EXPECT_EQ(tiny.admit(nullptr, second_ns), second_ns);
}

// Who has a whole network of addresses is one client; who has very many shares a bucket with others, and so does
// memory.
TEST(RateLimits, AreOfANetworkInIpv6AndBoundedInAll) {
    serve::rate_limits limits(2, 0);
    const net::peer a = at("2001:db8::1"), b = at("2001:db8::ffff:2"), c = at("2001:db8:0:1::1");
    EXPECT_EQ(limits.admit(&a, second_ns), 0U);
    EXPECT_EQ(limits.admit(&b, second_ns), 0U);
    EXPECT_NE(limits.admit(&a, second_ns), 0U);
    EXPECT_EQ(limits.admit(&c, second_ns), 0U);
    unsigned refused = 0;
    for (std::size_t i = 0; i < serve::rate_limits::clients_max + 10; ++i) {
        const net::peer who = user_in(static_cast<uid_t>(i), 0);
        refused += limits.admit(&who, second_ns) != 0 ? 1U : 0U;
    }
    EXPECT_GE(refused, 8U);
    const net::peer fresh = user_in(1'000'000, 0);
    EXPECT_NE(limits.admit(&fresh, second_ns), 0U);
    EXPECT_EQ(limits.admit(&fresh, 3 * second_ns), 0U) << "those who are gone are forgotten";
}

TEST(AuditLog, HasALineForEachChangeAndGoesOnInANewFile) {
    const test::unique_directory folder("audit");
    const std::string path = folder.file("log");
    const auto text = [](const std::string& file) {
        std::ifstream in(file);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    serve::audit_log log(path, 3);
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    const net::peer user = user_in(5, 6), address = at("::1");
    const std::uint64_t first = log.append({&user, "put", "posix:/t", "a\"\n\xff", 7});
    const std::uint64_t second = log.append({&address, "delete", "posix:/t", "b", 0});
    log.append_refusal(second, 412);
    EXPECT_LT(first, second);
    const std::string written = text(path);
    EXPECT_EQ(std::ranges::count(written, '\n'), 3) << written;
    for (const char* const part :
         {R"("user":5,"group":6)", R"("address":"::1")", R"("action":"put")", R"("body_bytes":7)", R"("key":"a\"\n)",
          R"("action":"refused","status":412)", R"("worker":3)"})
        EXPECT_NE(written.find(part), std::string::npos) << part << " in " << written;
    ASSERT_EQ(std::rename(path.c_str(), folder.file("old").c_str()), 0);
    log.refresh();
    (void)log.append({nullptr, "put", "posix:/t", "c", 0});
    EXPECT_EQ(text(folder.file("old")), written);
    EXPECT_NE(text(path).find(R"("key":"c")"), std::string::npos);
    EXPECT_THROW((serve::audit_log{folder.path(), 0}), error) << "a folder";
}

// The piece of a line may be another worker's, or that of the server before.
TEST(AuditLog, BeginsANewLineBehindATornOneOfAnother) {
    const test::unique_directory folder("audit");
    const std::string path = folder.file("log");
    std::ofstream(path) << R"({"action":"put","ke)";
    serve::audit_log log(path, 0), other(path, 1);
    (void)log.append({nullptr, "put", "posix:/t", "a", 0});
    std::ofstream(path, std::ios::app) << R"({"time_ms":17)";
    (void)other.append({nullptr, "put", "posix:/t", "b", 0});
    (void)log.append({nullptr, "put", "posix:/t", "c", 0});
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    ASSERT_EQ(lines.size(), 5U);
    EXPECT_EQ(lines[0], R"({"action":"put","ke)");
    EXPECT_EQ(lines[2], R"({"time_ms":17)");
    for (const std::size_t whole : {1U, 3U, 4U}) {
        EXPECT_TRUE(lines[whole].starts_with("{\"time_ms\"")) << lines[whole];
        EXPECT_TRUE(lines[whole].ends_with("}")) << lines[whole];
    }
}

TEST(AuditLog, WithoutRoomRefusesAndEndsTheTornLineLater) {
    const test::unique_directory folder("audit");
    const std::string path = folder.file("log");
    serve::audit_log log(path, 0);
    (void)log.append({nullptr, "put", "posix:/t", "a", 0});
    struct stat status{};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    struct rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
    struct rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(status.st_size) + 10;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
    for (int i = 0; i < 3; ++i) {
        try {
            (void)log.append({nullptr, "put", "posix:/t", "lost", 0});
            ADD_FAILURE() << "there was room";
        } catch (const serve::failure& e) {
            EXPECT_EQ(e.status, 507);
        }
    }
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    std::signal(SIGXFSZ, handler);
    (void)log.append({nullptr, "put", "posix:/t", "z", 0});
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_EQ(lines[1].size(), 10U) << "a piece of the first line without room";
    EXPECT_TRUE(lines[2].starts_with('{') && lines[2].ends_with('}') && lines[2].find("\"z\"") != std::string::npos)
        << lines[2];
}

TEST(WorkerArguments, ReadBackWhatWasWritten) {
    serve::worker_arguments sent;
    sent.index = 3;
    sent.listeners = {7, 11};
    sent.unix_listener = 10;
    sent.lifeline = 8;
    sent.ready = 9;
    sent.options.listen = "[::1]:8080";
    sent.options.unix_path = "/run/a socket";
    sent.options.segments = {"geo4", "file:/srv/with=sign"};
    sent.options.private_too = true;
    sent.options.write = true;
    sent.options.token_file = "/etc/a token";
    sent.options.audit_log = "/var/log/a log";
    sent.options.rate_of_one = 30;
    sent.options.rate_of_all = 31;
    sent.options.allowed_hosts = {"state.example"};
    sent.options.counts = {{"file:/a=b", "country"}};
    sent.options.name = "counts";
    sent.options.limits = {.message = {1, 2, 3, 4, 5, 6},
                           .connections_max = 17,
                           .output_bytes_max = 18,
                           .held_bytes_max = 19,
                           .header_timeout_ms = 20,
                           .body_timeout_ms = 21,
                           .idle_timeout_ms = 22,
                           .write_timeout_ms = 23,
                           .linger_timeout_ms = 24,
                           .answer_timeout_ms = 27,
                           .pipeline_max = 28,
                           .websocket_ping_ms = 32,
                           .websocket_close_ms = 33,
                           .drain_idle_ms = 25,
                           .drain_timeout_ms = 26};
    const std::vector<std::string> words = sent.words();
    const std::vector<std::string_view> views(words.begin(), words.end());
    const serve::worker_arguments got = serve::worker_arguments::parse(views);
    EXPECT_EQ(got.words(), words);
    EXPECT_EQ(got.listeners, sent.listeners);
    EXPECT_EQ(got.options.counts[0].segment, "file:/a=b");
    EXPECT_EQ(got.options.segments, sent.options.segments);
    EXPECT_TRUE(got.options.private_too);
    EXPECT_EQ(got.options.limits, sent.options.limits);
}

TEST(WorkerArguments, RefuseWhatNoSupervisorSays) {
    using words = std::vector<std::string_view>;
    for (const words& bad :
         {words{}, words{"--index=1"}, words{"--nothing=1"}, words{"index=1"}, words{"--index=x"}, words{"--index="},
          words{"--private=2"}, words{"--listener=-1", "--lifeline=2", "--ready=3"},
          words{"--listener=1", "--lifeline=2", "--ready=3", "--count-by=geo4"}})
        EXPECT_THROW((void)serve::worker_arguments::parse(bad), error);
}

TEST(Limits, AreSetByName) {
    net::limits limits;
    serve::set_limit(limits, "connections-max=50000");
    serve::set_limit(limits, "body-bytes-max=7");
    serve::set_limit(limits, "drain-timeout-ms=4294967295");
    net::limits wanted;
    wanted.connections_max = 50000;
    wanted.message.body_bytes_max = 7;
    wanted.drain_timeout_ms = 4294967295;
    EXPECT_EQ(limits, wanted);
    for (const char* const bad :
         {"", "=", "connections-max", "connections-max=", "connections-max=0", "connections-max=-1",
          "connections-max=1x", "connections_max=1", "drain-timeout-ms=4294967296", "=7"})
        EXPECT_THROW(serve::set_limit(limits, bad), error) << bad;
    EXPECT_EQ(limits, wanted);
}

TEST(CountBy, NeedsASegmentAndAField) {
    EXPECT_EQ(serve::count_by::parse("geo4=country").field, "country");
    for (const char* bad : {"", "geo4", "=country", "geo4=", "="})
        EXPECT_THROW((void)serve::count_by::parse(bad), error) << bad;
}

TEST(JsonKeys, TakesStringsAndNumbers) {
    std::string why;
    EXPECT_EQ(inspect::parse_json_keys(R"({"keys":["a\u0041",7,-3,18446744073709551615]})", 10, why),
              (std::vector<std::string>{"aA", "7", "-3", "18446744073709551615"}));
    EXPECT_EQ(inspect::parse_json_keys(R"({"keys":[]})", 10, why), std::vector<std::string>{});
    for (const char* bad :
         {"", "x", "[]", "{}", R"({"keys":{}})", R"({"keys":[null]})", R"({"keys":[[1]]})", R"({"keys":[1,2,3]})",
          R"({"x":1,"keys":[1]})", R"({"keys":[1],"keys":[2]})", "{\"keys\":[\"\xFF\"]}"}) {
        why.clear();
        EXPECT_EQ(inspect::parse_json_keys(bad, 2, why), std::nullopt) << bad;
        EXPECT_NE(why, "") << bad;
    }
}

TEST(SharedCounts, AreMadeOnceAndJoinedEverAfter) {
    const test::unique_posix_name name("counts");
    const auto first = serve::shared_counts::open_or_create(name.uri(), 2);
    const auto second = serve::shared_counts::open_or_create(name.uri(), 2);
    serve::request_counters one(first.counters, 0);
    serve::request_counters two(second.counters, 0);
    one.count(serve::route::health, 200);
    two.count(serve::route::health, 204);
    two.count(serve::route::health, 404);
    two.count(serve::route::none, 999);
    const auto value = [&](const char* route, const char* status) {
        std::string labels = metric_label("route", route);
        append_metric_label(labels, "status", status);
        append_metric_label(labels, "worker", "0");
        return counter_set_reader::attach(name.uri()).value(serve::requests_family, labels);
    };
    EXPECT_EQ(value("/healthz", "2xx"), 2U);
    EXPECT_EQ(value("/healthz", "4xx"), 1U);
    EXPECT_EQ(value("none", "0xx"), 1U);
}

TEST(SharedCounts, WhatALoopCountsIsAddedOnceAndBySuccessorsToo) {
    const counter_set set = counter_set::create("heap:", {.capacity = 4096});
    const auto value = [&](std::string_view family, std::string_view labels) {
        std::optional<std::uint64_t> found;
        set.for_each([&](std::string_view f, std::string_view l, std::uint64_t count) {
            if (f == family && l == labels) found = count;
        });
        return found;
    };
    net::server_counters now;
    {
        serve::loop_counters first(set, 3);
        std::size_t series = 0;
        set.for_each([&](auto, auto, auto) { ++series; });
        EXPECT_GE(series, 10U) << "an alarm needs zeros to compare with";
        now.header_timeouts = 20;
        now.files_cut = 5;
        now.answer_timeouts = 6;
        now.open = 7;
        first.publish(now);
        first.publish(now);
        now.header_timeouts = 21;
        now.over_descriptors = 2;
        now.out_of_buffers = 3;
        first.publish(now);
    }
    EXPECT_EQ(value(serve::timeouts_family, R"(waiting_for="head",worker="3")"), 21U);
    EXPECT_EQ(value(serve::timeouts_family, R"(waiting_for="body",worker="3")"), 0U);
    EXPECT_EQ(value(serve::turned_away_family, R"(reason="descriptors",worker="3")"), 2U);
    EXPECT_EQ(value(serve::shortages_family, R"(of="buffers",worker="3")"), 3U);
    EXPECT_EQ(value(serve::shortages_family, R"(of="completions",worker="3")"), 0U);
    EXPECT_EQ(value(serve::files_cut_family, R"(worker="3")"), 5U);
    EXPECT_EQ(value(serve::timeouts_family, R"(waiting_for="answer",worker="3")"), 6U);
    EXPECT_EQ(value(serve::open_family, R"(worker="3")"), 7U);
    serve::loop_counters second(set, 3);
    now = {};
    now.header_timeouts = 4;
    second.publish(now);
    EXPECT_EQ(value(serve::timeouts_family, R"(waiting_for="head",worker="3")"), 25U);
    EXPECT_EQ(value(serve::open_family, R"(worker="3")"), 0U);
    now.open = 9;
    now.header_timeouts = 5;
    second.publish(now, false);
    EXPECT_EQ(value(serve::timeouts_family, R"(waiting_for="head",worker="3")"), 26U);
    EXPECT_EQ(value(serve::open_family, R"(worker="3")"), 0U) << "a successor's by now";
}

// Values come from data that a client chooses among: however many there are, the set does not fill up with them.
TEST(SharedCounts, ValuesBeyondTheLimitAreCountedTogether) {
    const counter_set set = counter_set::create("heap:", {.capacity = 4096});
    serve::lookup_counters counters(set, "geo4", "country");
    for (int i = 0; i < 3000; ++i) counters.value(std::string("v").append(std::to_string(i)));
    counters.value(std::string(100, 'x'));
    counters.value("v0");
    std::map<std::string, std::uint64_t> seen;
    set.for_each([&](std::string_view family, std::string_view labels, std::uint64_t count) {
        if (family == serve::values_family) seen[*metric_label_value(labels, "value")] += count;
    });
    EXPECT_EQ(seen.size(), serve::lookup_counters::values_max + 1);
    EXPECT_EQ(seen["v0"], 2U);
    EXPECT_EQ(seen["(other)"], 3001U - serve::lookup_counters::values_max);
}

TEST(SharedCounts, FullSetCostsCountsNotAnswers) {
    const counter_set set = counter_set::create("heap:", {.capacity = 1});
    (void)set.get("taken");
    serve::lookup_counters lookups(set, "geo4", "country");
    serve::request_counters requests(set, 0);
    lookups.hit();
    lookups.miss();
    lookups.value("US");
    lookups.value("US");
    requests.count(serve::route::index_get, 200);
    serve::loop_counters(set, 0).publish({});
    std::size_t seen = 0;
    set.for_each([&](auto, auto, auto) { ++seen; });
    EXPECT_EQ(seen, 1U);
}

}  // namespace
