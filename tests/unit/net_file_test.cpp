// SPDX-License-Identifier: Apache-2.0
// Answers from files: what is opened and what is refused, conditions and ranges, order, back-pressure, and files that
// change while they are sent. Conditions and ranges by themselves: http_conditional_test.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/executor/thread_pool.hpp"
#include "holdfast/net/server.hpp"
#include "support/http_client.hpp"
#include "support/http_server.hpp"
#include "support/seed.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using net::file_outcome;
using test::get;
using test::http_client;
using test::running_server;

std::string bytes_of(std::size_t size, std::uint64_t seed = 1) {
    std::string text(size, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(test::random_at(seed, 3, i));
    return text;
}

/// A folder of files, gone with the test.
class folder {
 public:
    [[nodiscard]] std::string at(std::string_view name) const { return where_.path() + "/" + std::string(name); }
    std::string write(std::string_view name, std::string_view bytes) const {
        const std::string path = at(name);
        std::FILE* const file = std::fopen(path.c_str(), "w");
        EXPECT_NE(file, nullptr);
        if (file == nullptr) return path;
        EXPECT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), file), bytes.size());
        std::fclose(file);
        return path;
    }
    /// A file of that size, which takes no room.
    std::string stretch(std::string_view name, off_t size) const {
        std::string path = write(name, "");
        EXPECT_EQ(::truncate(path.c_str(), size), 0);
        return path;
    }

 private:
    test::unique_directory where_{"net_file"};
};

/// Serves what lies in the folder by its name; the outcome goes into a field.
net::handler files_of(const folder& in, net::file_options options = {}) {
    return [&in, options](const net::request& asked, net::response& to) {
        if (asked.path() == "/other") {
            to.body("other");
            return;
        }
        const file_outcome outcome = to.file(asked, in.at(asked.path().substr(1)), options);
        to.header("Outcome", std::to_string(static_cast<int>(outcome)));
    };
}

TEST(ServerFile, IsSentWholeWhateverItsSize) {
    const folder in;
    running_server server(files_of(in, {.content_type = "text/x"}));
    server.start();
    http_client client(server.port());
    int number = 0;
    for (const std::size_t size : {0U, 1U, 65535U, 65536U, 65537U, 131072U, 300000U, 2000000U}) {
        const std::string name = std::to_string(number++), body = bytes_of(size, size);
        in.write(name, body);
        const auto reply = client.ask(get("/" + name));
        EXPECT_EQ(reply.status, 200);
        EXPECT_TRUE(reply.body == body) << size;
        EXPECT_EQ(reply.field("Content-Type"), "text/x");
        EXPECT_EQ(reply.field("Accept-Ranges"), "bytes");
        EXPECT_EQ(reply.field("Last-Modified").size(), reply.field("Date").size());
        client.send("HEAD /" + name + " HTTP/1.1\r\nHost: a\r\n\r\n");
        const auto head = client.reply(true);
        EXPECT_EQ(head.field("Content-Length"), std::to_string(size));
        EXPECT_EQ(head.field("ETag").substr(head.field("ETag").find('"')),
                  reply.field("ETag").substr(reply.field("ETag").find('"')));
    }
    EXPECT_EQ(client.ask(get("/other")).body, "other") << "the connection is whole";
}

// Attacks I1 of server.hpp.
TEST(ServerFile, PipelinedFilesComeInOrderBetweenOtherAnswers) {
    const folder in;
    const std::string small = bytes_of(100), large = bytes_of(200000);
    in.write("small", small);
    in.write("large", large);
    running_server server(files_of(in));
    server.start();
    http_client client(server.port());
    constexpr int rounds = 30;
    std::jthread sender([&] {
        std::string all;
        for (int i = 0; i < rounds; ++i)
            all += get("/large") + get("/other") + get("/small") + get("/none") + get("/small");
        client.send(all);
    });
    for (int i = 0; i < rounds; ++i) {
        ASSERT_TRUE(client.reply().body == large);
        ASSERT_EQ(client.reply().body, "other");
        ASSERT_TRUE(client.reply().body == small);
        ASSERT_EQ(client.reply().status, 404);
        ASSERT_TRUE(client.reply().body == small);
    }
}

TEST(ServerFile, RequestsCutAtEveryByteAreAnsweredAlike) {
    const folder in;
    const std::string body = bytes_of(1000);
    in.write("file", body);
    running_server server(files_of(in));
    server.start();
    const std::string request = get("/file", "Range: bytes=0-9,500-509\r\n");
    std::string first;
    http_client client(server.port());
    for (std::size_t cut = 1; cut < request.size(); ++cut) {
        client.send(request.substr(0, cut));
        client.send(request.substr(cut));
        const auto reply = client.reply();
        ASSERT_EQ(reply.status, 206);
        std::string text = reply.body;
        const std::string boundary = text.substr(2, 32);
        for (std::size_t at = 0; (at = text.find(boundary)) != std::string::npos;) text.replace(at, 32, "B");
        if (first.empty()) first = text;
        ASSERT_EQ(text, first) << cut;
    }
    EXPECT_EQ(first,
              "--B\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 0-9/1000\r\n\r\n" +
                  body.substr(0, 10) +
                  "\r\n--B\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes 500-509/1000\r\n\r\n" +
                  body.substr(500, 10) + "\r\n--B--\r\n");
}

TEST(ServerFile, RangesOfALargeFileAreItsBytes) {
    const folder in;
    const std::string body = bytes_of(1000000);
    in.write("file", body);
    running_server server(files_of(in));
    server.start();
    http_client client(server.port());
    for (const auto& [first, last] : std::vector<std::pair<std::size_t, std::size_t>>{
             {0, 0}, {0, 65535}, {1, 65536}, {65535, 65536}, {999999, 999999}, {5, 900000}}) {
        const auto reply =
            client.ask(get("/file", "Range: bytes=" + std::to_string(first) + "-" + std::to_string(last) + "\r\n"));
        EXPECT_EQ(reply.status, 206);
        EXPECT_TRUE(reply.body == body.substr(first, last - first + 1));
        EXPECT_EQ(reply.field("Content-Range"),
                  "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/1000000");
    }
    const auto parts = client.ask(get("/file", "Range: bytes=-200000,0-299999\r\n"));
    EXPECT_EQ(parts.status, 206);
    EXPECT_NE(parts.body.find(body.substr(800000)), std::string::npos);
    EXPECT_LT(parts.body.find(body.substr(800000)), parts.body.find(body.substr(0, 300000)));
    EXPECT_EQ(client.ask(get("/file", "Range: bytes=1000000-\r\n")).field("Content-Range"), "bytes */1000000");
    EXPECT_EQ(client.ask(get("/other")).body, "other");
}

TEST(ServerFile, ConditionsAreJudgedByItsValidators) {
    const folder in;
    in.write("file", "0123456789");
    running_server server(files_of(in));
    server.start();
    http_client client(server.port());
    const auto whole = client.ask(get("/file"));
    const std::string tag = whole.field("ETag"), date = whole.field("Last-Modified");
    const auto unchanged = client.ask(get("/file", "If-None-Match: " + tag + "\r\n"));
    EXPECT_EQ(unchanged.status, 304);
    EXPECT_EQ(unchanged.field("Content-Type"), "");
    EXPECT_EQ(client.ask(get("/file", "If-Modified-Since: " + date + "\r\n")).status, 304);
    EXPECT_EQ(client.ask(get("/file", "If-Match: \"other\"\r\n")).status, 412);
    EXPECT_EQ(client.ask(get("/file", "If-Range: \"other\"\r\nRange: bytes=0-1\r\n")).status, 200);
    EXPECT_EQ(client.ask(get("/file", "If-Range: " + date + "\r\nRange: bytes=0-1\r\n")).status, 200);
    in.write("file", "9876543210");
    const auto changed = client.ask(get("/file", "If-None-Match: " + tag + "\r\n"));
    EXPECT_EQ(changed.status, 200);
    EXPECT_EQ(changed.body, "9876543210");
}

// A file that was left alone has a strong tag, a fresh one a weak tag: file_tag::by_age.
TEST(ServerFile, ATagIsStrongOnceTheFileWasLeftAlone) {
    const folder in;
    in.write("fresh", "x");
    running_server server([&](const net::request& asked, net::response& to) {
        if (asked.path() == "/old")
            to.file(asked, "/etc/passwd");
        else if (asked.path() == "/weak")
            to.file(asked, "/etc/passwd", {.tag = net::file_tag::weak});
        else if (asked.path() == "/none")
            to.file(asked, "/etc/passwd", {.tag = net::file_tag::none});
        else
            to.file(asked, in.at("fresh"));
    });
    server.start();
    http_client client(server.port());
    const std::string tag = client.ask(get("/old")).field("ETag");
    EXPECT_TRUE(tag.starts_with('"')) << tag;
    EXPECT_EQ(client.ask(get("/old", "If-Range: " + tag + "\r\nRange: bytes=0-1\r\n")).status, 206);
    EXPECT_EQ(client.ask(get("/old", "If-Match: " + tag + "\r\n")).status, 200);
    EXPECT_EQ(client.ask(get("/weak")).field("ETag"), "W/" + tag);
    EXPECT_EQ(client.ask(get("/weak", "If-Range: " + tag + "\r\nRange: bytes=0-1\r\n")).status, 200);
    EXPECT_EQ(client.ask(get("/none")).field("ETag"), "");
    EXPECT_NE(client.ask(get("/none")).field("Last-Modified"), "");
}

TEST(ServerFile, WhatIsNoPlainFileIsRefused) {
    const folder in;
    in.write("file", "text");
    ASSERT_EQ(::mkdir(in.at("folder").c_str(), 0700), 0);
    ASSERT_EQ(::mkfifo(in.at("fifo").c_str(), 0600), 0);
    ASSERT_EQ(::symlink("file", in.at("link").c_str()), 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path, sizeof name.sun_path, "%s", in.at("socket").c_str());
    const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::bind(listening, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    ::close(listening);
    running_server server([&](const net::request& asked, net::response& to) {
        const std::string path = asked.path() == "/device" ? "/dev/null"
                                 : asked.path() == "/nul"  ? in.at(std::string("file\0.txt", 9))
                                                           : in.at(asked.path().substr(1));
        const file_outcome outcome = to.file(asked, path);
        EXPECT_EQ(to.has_file(), outcome == file_outcome::sent);
        to.header("Outcome", std::to_string(static_cast<int>(outcome)));
    });
    server.start();
    http_client client(server.port());
    const auto outcome = [&](const char* path, int status) {
        const auto reply = client.ask(get(path));
        EXPECT_EQ(reply.status, status) << path;
        return static_cast<file_outcome>(std::stoi(reply.field("Outcome")));
    };
    EXPECT_EQ(outcome("/file", 200), file_outcome::sent);
    for (const char* path : {"/folder", "/fifo", "/socket", "/device"})
        EXPECT_EQ(outcome(path, 404), file_outcome::not_a_file) << path;
    for (const char* path : {"/none", "/link", "/nul", "/file/below"})
        EXPECT_EQ(outcome(path, 404), file_outcome::not_found) << path;
    if (::geteuid() != 0) {
        in.write("secret", "x");
        ASSERT_EQ(::chmod(in.at("secret").c_str(), 0), 0);
        EXPECT_EQ(outcome("/secret", 403), file_outcome::forbidden);
    }
}

TEST(ServerFile, APathCannotLeaveItsFolder) {
    const folder in;
    in.write("outside", "secret");
    ASSERT_EQ(::mkdir(in.at("www").c_str(), 0700), 0);
    ASSERT_EQ(::mkdir(in.at("www/sub").c_str(), 0700), 0);
    in.write("www/file", "text");
    ASSERT_EQ(::symlink("../outside", in.at("www/out").c_str()), 0);
    ASSERT_EQ(::symlink("file", in.at("www/link").c_str()), 0);
    ASSERT_EQ(::symlink("..", in.at("www/up").c_str()), 0);
    const int root = ::open(in.at("www").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    running_server server([&](const net::request& asked, net::response& to) {
        to.file(asked, std::string(asked.header("Path").value_or("")),
                {.follow_links = asked.path() == "/follow", .folder = root});
    });
    server.start();
    http_client client(server.port());
    const auto status = [&](const char* how, const std::string& path) {
        return client.ask(get(how, "Path: " + path + "\r\n")).status;
    };
    EXPECT_EQ(status("/plain", "file"), 200);
    EXPECT_EQ(status("/plain", "sub/../file"), 200);
    EXPECT_EQ(status("/plain", "link"), 404);
    EXPECT_EQ(status("/follow", "link"), 200);
    for (const char* how : {"/plain", "/follow"})
        for (const std::string& path :
             {std::string("../outside"), std::string("sub/../../outside"), in.at("outside"), std::string("out"),
              std::string("up/outside"), std::string("/etc/passwd"), std::string("."), std::string()})
            EXPECT_EQ(status(how, path), 404) << path;
    ::close(root);
}

TEST(ServerFile, AnOpenFileIsTakenAndClosed) {
    const folder in;
    const std::string path = in.write("file", "text");
    std::atomic<int> descriptor{-1};
    running_server server([&](const net::request& asked, net::response& to) {
        const int fd = asked.path() == "/pipe" ? ::open("/dev/null", O_RDONLY | O_CLOEXEC)
                                               : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        descriptor = fd;
        if (to.file(asked, fd) == file_outcome::sent && asked.path() == "/instead") to.body("instead");
    });
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/")).body, "text");
    EXPECT_EQ(client.ask(get("/instead")).body, "instead");
    EXPECT_EQ(client.ask(get("/pipe")).status, 404);
    EXPECT_EQ(client.ask(get("/")).body, "text");
    server.stop();
    EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1) << "closed";
}

TEST(ServerFile, ALateAnswerIsAFileAsWell) {
    const folder in;
    const std::string body = bytes_of(300000);
    const std::string path = in.write("file", body);
    std::list<std::jthread> threads;
    running_server server([&](const net::request& asked, net::response& to) {
        if (asked.path() == "/now") {
            to.body("now");
            return;
        }
        net::response late;
        late.file(asked, path);
        if (asked.path() == "/last") late.close();
        const bool after_the_last = asked.path() == "/never";  // its channel may have ended with the connection
        threads.emplace_back([channel = to.defer(), late, after_the_last]() mutable {
            const auto status = channel.answer(std::move(late));
            EXPECT_TRUE(status == net::channel_status::ok || (after_the_last && status == net::channel_status::closed));
        });
    });
    server.start();
    http_client client(server.port());
    client.send(get("/a", "Range: bytes=5-100004\r\n") + get("/now") + get("/b") +
                "HEAD /c HTTP/1.1\r\nHost: a\r\n\r\n" + get("/d") + get("/last") + get("/never"));
    EXPECT_TRUE(client.reply().body == body.substr(5, 100000));
    EXPECT_EQ(client.reply().body, "now");
    EXPECT_TRUE(client.reply().body == body);
    EXPECT_EQ(client.reply(true).field("Content-Length"), "300000");
    EXPECT_TRUE(client.reply().body == body);
    const auto last = client.reply();
    EXPECT_TRUE(last.body == body);
    EXPECT_EQ(last.field("Connection"), "close");
    EXPECT_TRUE(client.ended());
}

// --- slow readers, and files that change

TEST(ServerFile, SlowReadersHoldAPieceEachAndOthersGoOn) {
    const folder in;
    constexpr off_t size = 8 << 20;
    in.stretch("large", size);
    net::server_options options;
    options.limits.held_bytes_max = 1U << 20U;  // of four readers that stand still
    running_server server(files_of(in), std::move(options));
    server.start();
    std::list<http_client> readers;
    for (int i = 0; i < 4; ++i)
        readers.emplace_back(server.port(), http_client::options{.receive_buffer = 8192}).send(get("/large"));
    http_client other(server.port());
    for (int i = 0; i < 50; ++i) EXPECT_EQ(other.ask(get("/other")).body, "other");
    for (auto& reader : readers) EXPECT_EQ(reader.reply().body.size(), static_cast<std::size_t>(size));
    server.stop();
    EXPECT_EQ(server.counters().over_held_bytes, 0U);
    EXPECT_EQ(server.counters().files_cut, 0U);
}

TEST(ServerFile, AClientThatShutsItsSideStillGetsTheFile) {
    const folder in;
    const std::string body = bytes_of(1000000);
    in.write("file", body);
    running_server server(files_of(in));
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192});
    client.send(get("/file"));
    client.shutdown_send();
    EXPECT_TRUE(client.reply().body == body);
    EXPECT_TRUE(client.ended());
}

// Attacks F1 of file_answer.hpp: it is larger than what the kernel takes for one connection.
TEST(ServerFile, AFileThatShrinksEndsTheConnection) {
    const folder in;
    const std::string path = in.stretch("large", 64 << 20);
    running_server server(files_of(in));
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192});
    client.send(get("/large"));
    const std::string head = client.read_to("\r\n\r\n");
    EXPECT_NE(head.find("Content-Length: 67108864\r\n"), std::string::npos);
    ASSERT_EQ(::truncate(path.c_str(), 1000), 0);
    EXPECT_THROW((void)client.take(64U << 20U), std::exception);
    EXPECT_EQ(http_client(server.port()).ask(get("/large")).body.size(), 1000U);
    server.stop();
    EXPECT_EQ(server.counters().files_cut, 1U);
}

TEST(ServerFile, OfAFileThatGrowsTheAnnouncedLengthIsSent) {
    const folder in;
    constexpr off_t size = 16 << 20;
    const std::string path = in.stretch("large", size);
    running_server server(files_of(in));
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192});
    client.send(get("/large") + get("/other"));
    (void)client.read_to("\r\n\r\n");
    ASSERT_EQ(::truncate(path.c_str(), 2 * size), 0);
    EXPECT_EQ(client.take(static_cast<std::size_t>(size)).size(), static_cast<std::size_t>(size));
    EXPECT_EQ(client.reply().body, "other");
}

TEST(ServerFile, DrainSendsWhatIsUnderWay) {
    const folder in;
    constexpr off_t size = 8 << 20;
    in.stretch("large", size);
    running_server server(files_of(in));
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192});
    client.send(get("/large"));
    const std::string head = client.read_to("\r\n\r\n");
    server.get().drain();
    EXPECT_EQ(client.take(static_cast<std::size_t>(size)).size(), static_cast<std::size_t>(size));
    EXPECT_TRUE(client.ended());
    server.join();
}

// --- descriptors

TEST(ServerFile, FilesBeyondTheMostAreAnswered503UntilOneIsDone) {
    const folder in;
    in.stretch("large", 64 << 20);
    in.write("small", "text");
    net::server_options options;
    options.files_max = 1;
    running_server server(files_of(in), std::move(options));
    server.start();
    auto reader = std::make_unique<http_client>(server.port(), http_client::options{.receive_buffer = 8192});
    reader->send(get("/large"));
    (void)reader->read_to("\r\n\r\n");
    http_client other(server.port());
    const auto refused = other.ask(get("/small"));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.field("Retry-After"), "1");
    EXPECT_EQ(refused.field("Outcome"), std::to_string(static_cast<int>(file_outcome::no_descriptor)));
    reader->reset();  // its descriptor is free again once the loop knows
    for (auto reply = other.ask(get("/small")); reply.status != 200; reply = other.ask(get("/small")))
        ASSERT_EQ(reply.status, 503);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(other.ask(get("/small")).body, "text") << "each gives its place back";
    server.stop();
    EXPECT_GE(server.counters().over_descriptors, 1U);
}

std::size_t open_descriptors() {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

/// Whether a running server counts so many, within what a test may take.
bool comes_to(net::server& server, std::uint64_t net::server_counters::* which, std::uint64_t wanted) {
    const auto last = std::chrono::steady_clock::now() + http_client::deadline;
    std::atomic<std::uint64_t> count{0};
    while (count < wanted && std::chrono::steady_clock::now() < last) {
        std::atomic<bool> told{false};
        EXPECT_TRUE(server.post([&] {
            count = server.counters().*which;
            told = true;
            told.notify_all();
        }));
        told.wait(false);
    }
    return count >= wanted;
}

/// Whose handler runs in a pool.
net::server_options handled_in_pool(std::size_t files_max) {
    net::server_options options;
    options.files_max = files_max;
    options.pool = std::make_shared<executor::thread_pool>(executor::pool_options{.workers = 2});
    options.handle_on_pool = [](const net::request& asked) { return asked.path() != "/other"; };
    return options;
}

/// Of a server that may have one file open: while somebody reads a large one, others are told 503; then each has its
/// turn. Returns: the refusal.
test::http_reply one_file_at_a_time(const folder& in, running_server& server) {
    in.stretch("large", 64 << 20);
    in.write("small", "text");
    server.start();
    http_client reader(server.port(), {.receive_buffer = 8192}), other(server.port());
    reader.send(get("/large"));
    (void)reader.read_to("\r\n\r\n");
    auto refused = other.ask(get("/small"));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.field("Retry-After"), "1");
    reader.reset();
    for (auto reply = other.ask(get("/small")); reply.status != 200; reply = other.ask(get("/small")))
        if (reply.status != 503) {
            ADD_FAILURE() << "status " << reply.status;
            break;
        }
    for (int i = 0; i < 10; ++i) EXPECT_EQ(other.ask(get("/small")).body, "text") << "each gives its place back";
    server.stop();
    EXPECT_GE(server.counters().over_descriptors, 1U);
    return refused;
}
net::server_options one_file() {
    net::server_options options;
    options.files_max = 1;
    return options;
}

TEST(ServerFile, FilesOfThePoolAreCountedAndToldAlike) {
    const folder in;
    running_server server(files_of(in), handled_in_pool(1));
    EXPECT_EQ(one_file_at_a_time(in, server).field("Outcome"),
              std::to_string(static_cast<int>(file_outcome::no_descriptor)));
}

// The response of a late answer knows no server until it is answered with.
TEST(ServerFile, LateFilesBeyondTheMostBecome503) {
    const folder in;
    running_server server(
        [&](const net::request& asked, net::response& to) {
            net::response late;
            EXPECT_EQ(late.file(asked, in.at(asked.path().substr(1))), file_outcome::sent);
            EXPECT_EQ(to.defer().answer(std::move(late)), net::channel_status::ok);
        },
        one_file());
    (void)one_file_at_a_time(in, server);
}

// A handler may put together its response elsewhere, where nothing is known of the server.
TEST(ServerFile, FilesOfResponsesThatAreAssignedCount) {
    const folder in;
    running_server server(
        [&](const net::request& asked, net::response& to) {
            net::response made;
            EXPECT_EQ(made.file(asked, in.at(asked.path().substr(1))), file_outcome::sent);
            to = std::move(made);
        },
        one_file());
    (void)one_file_at_a_time(in, server);
}

// All of them are open behind the first; they count for their connection, too, which is read from no more. The pool
// opens the first when all are with it: else the connection would be paused for those that are open.
TEST(ServerFile, FilesThatWaitBehindOthersCount) {
    constexpr int files_max = 8, asked_for = 20;
    const folder in;
    in.stretch("large", 64 << 20);
    in.write("small", "text");
    std::atomic<int> handed_over{0};
    net::server_options options = handled_in_pool(files_max);
    options.handle_on_pool = [&](const net::request& asked) {
        if (asked.path() == "/large") ++handed_over;
        handed_over.notify_all();
        return asked.path() != "/other";
    };
    const net::handler open_file = files_of(in);
    running_server server(
        [&](const net::request& asked, net::response& to) {
            if (asked.path() == "/large")
                for (int now = handed_over; now < asked_for; now = handed_over) handed_over.wait(now);
            open_file(asked, to);
        },
        options);
    server.start();
    http_client client(server.port(), {.receive_buffer = 8192}), other(server.port());
    EXPECT_EQ(other.ask(get("/other")).body, "other");
    const std::size_t before = open_descriptors();
    std::string pipeline;
    for (int i = 0; i < asked_for; ++i) pipeline += get("/large");
    client.send(pipeline);
    EXPECT_TRUE(comes_to(server.get(), &net::server_counters::over_descriptors, asked_for - files_max));
    handed_over = asked_for;  // so that a test that fails does not hang
    handed_over.notify_all();
    EXPECT_LE(open_descriptors(), before + files_max + 1) << "the client's own is one";
    client.send(get("/other"));
    EXPECT_TRUE(comes_to(server.get(), &net::server_counters::read_pauses, 1));
    EXPECT_EQ(other.ask(get("/small")).status, 503);
    client.reset();
    for (auto reply = other.ask(get("/small")); reply.status != 200; reply = other.ask(get("/small")))
        ASSERT_EQ(reply.status, 503);
}

TEST(ServerFile, WithoutADescriptorLeftItIs503) {
    const folder in;
    in.write("small", "text");
    running_server server(files_of(in));
    server.start();
    http_client client(server.port());
    EXPECT_EQ(client.ask(get("/small")).status, 200);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few = before;
    few.rlim_cur = 200;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::vector<int> taken;
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
    const auto reply = client.ask(get("/small"));
    for (const int fd : taken) ::close(fd);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(client.ask(get("/small")).body, "text");
    server.stop();
    EXPECT_EQ(server.counters().over_descriptors, 1U);
}

}  // namespace
