// SPDX-License-Identifier: Apache-2.0
// Handles in epoll: no message is slept on, nothing is told that did not happen, the death of a writer is an event.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/memory/event_source.hpp"
#include "holdfast/queue.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using memory::event_source;
using u64 = std::uint64_t;

class EventSource : public segment_test {
 protected:
    unique_directory folder_{"event"};
    [[nodiscard]] std::string uri(std::string_view name = "s") const { return folder_.file_uri(name); }
};

/// Whether the descriptor becomes readable within so many milliseconds.
[[nodiscard]] bool readable(int fd, int ms) {
    struct pollfd one{fd, POLLIN, 0};
    return ::poll(&one, 1, ms) == 1 && (one.revents & POLLIN) != 0;
}
constexpr int long_ms = 20'000;

[[nodiscard]] std::span<const std::byte> bytes_of(const u64& number) { return std::as_bytes(std::span(&number, 1)); }

TEST_F(EventSource, AMessageIsAnEventAndNothingIsNone) {
    auto producer = queue_producer::create(uri(), {});
    event_source source(queue_consumer::attach(uri()));
    EXPECT_FALSE(readable(source.fd(), 0));
    EXPECT_EQ(source.take(), outcome::empty);  // not armed
    source.arm();
    source.arm();                              // once is enough
    EXPECT_FALSE(readable(source.fd(), 120));  // longer than a slice
    ASSERT_TRUE(producer.try_push(bytes_of(7)));
    ASSERT_TRUE(readable(source.fd(), long_ms));
    EXPECT_TRUE(readable(source.fd(), 0));  // level-triggered
    EXPECT_EQ(source.take(), outcome::ok);
    EXPECT_FALSE(readable(source.fd(), 0));
    ASSERT_TRUE(source.handle().front());
    EXPECT_TRUE(source.handle().pop());
    source.arm();
    EXPECT_EQ(source.take(), outcome::empty);  // taken back before anything happened
    EXPECT_EQ(source.handle().front().status, outcome::empty);
    EXPECT_FALSE(readable(source.fd(), 0));
}

TEST_F(EventSource, WhatWasThereBeforeArmingIsAnEvent) {
    auto producer = queue<u64>::producer::create(uri(), {.capacity = 8, .rings = false});
    ASSERT_TRUE(producer.try_push(1));
    event_source source(queue<u64>::consumer::attach(uri()));
    source.arm();
    ASSERT_TRUE(readable(source.fd(), long_ms));
    EXPECT_EQ(source.take(), outcome::ok);
    EXPECT_EQ(source.handle().try_pop().value, 1U);
    source.handle().acknowledge();
    source.arm();
    ASSERT_TRUE(producer.try_push(2));  // of a queue without bells too
    ASSERT_TRUE(readable(source.fd(), long_ms));
    EXPECT_EQ(source.take(), outcome::ok);
}

TEST_F(EventSource, ReadersOfABroadcastRegisteredOrNot) {
    auto ring = broadcast_writer::create(uri(), {.capacity_bytes = 4096, .registered_readers = 2});
    event_source unknown(broadcast_reader::attach(uri()));
    event_source registered(broadcast_reliable_reader::attach(uri()));
    unknown.arm();
    registered.arm();
    EXPECT_FALSE(readable(unknown.fd(), 10));
    EXPECT_FALSE(readable(registered.fd(), 10));
    ASSERT_TRUE(ring.publish(bytes_of(5)));
    ASSERT_TRUE(readable(unknown.fd(), long_ms));
    ASSERT_TRUE(readable(registered.fd(), long_ms));
    EXPECT_EQ(unknown.take(), outcome::ok);
    EXPECT_EQ(registered.take(), outcome::ok);
    std::vector<std::byte> message;
    EXPECT_TRUE(unknown.handle().read(message));
    EXPECT_TRUE(registered.handle().read(message));
}

TEST_F(EventSource, AProducerIsToldOfRoom) {
    auto made = queue<u64>::producer::create(uri(), {.capacity = 8});
    while (made.try_push(1)) {
    }
    auto consumer = queue<u64>::consumer::attach(uri());
    event_source source(std::move(made), [](queue<u64>::producer& producer, std::chrono::nanoseconds span) noexcept {
        return producer.wait_room(1, span);
    });
    source.arm();
    EXPECT_FALSE(readable(source.fd(), 10));
    ASSERT_TRUE(consumer.front());
    ASSERT_TRUE(consumer.pop());
    ASSERT_TRUE(readable(source.fd(), long_ms));
    EXPECT_EQ(source.take(), outcome::ok);
    EXPECT_TRUE(source.handle().try_push(2));
}

TEST_F(EventSource, TheDeathOfAWriterIsAnEventAndItsLastMessagesAreRead) {
    for (const bool ring : {false, true}) {
        const std::string name = ring ? "r" : "q";
        child_process writer([&](channel& talk) {
            std::optional<broadcast_writer> publisher;
            std::optional<queue_producer> producer;
            if (ring)
                publisher.emplace(broadcast_writer::create(uri(name), {.registered_readers = 1}));
            else
                producer.emplace(queue_producer::create(uri(name), {}));
            talk.signal();
            talk.wait();
            if (ring)
                (void)publisher->publish(bytes_of(1));
            else
                (void)producer->try_push(bytes_of(1));
            talk.signal();
            talk.wait();
        });
        ASSERT_TRUE(writer.talk().wait());
        const auto check = [&](auto& source, auto&& take_one) {
            source.arm();
            EXPECT_FALSE(readable(source.fd(), 150));  // alive and silent is no death
            writer.talk().signal();
            ASSERT_TRUE(readable(source.fd(), long_ms));
            EXPECT_EQ(source.take(), outcome::ok);
            EXPECT_TRUE(take_one());
            EXPECT_FALSE(take_one());
            source.arm();
            EXPECT_FALSE(readable(source.fd(), 10));
            writer.kill();
            ASSERT_TRUE(readable(source.fd(), long_ms));
            EXPECT_EQ(source.take(), outcome::writer_gone);
        };
        if (ring) {
            event_source source(broadcast_reliable_reader::attach(uri(name)));
            std::vector<std::byte> message;
            check(source, [&] { return static_cast<bool>(source.handle().read(message)); });
        } else {
            event_source source(queue_consumer::attach(uri(name)));
            check(source, [&] { return source.handle().front() && source.handle().pop(); });
        }
    }
}

TEST_F(EventSource, ARemovedRingIsAnEventForAnUnregisteredReader) {
    std::optional<broadcast_writer> writer(broadcast_writer::create(uri(), {.capacity_bytes = 4096}));
    event_source source(broadcast_reader::attach(uri()));
    source.arm();
    EXPECT_FALSE(readable(source.fd(), 150));  // alive and silent is no death
    EXPECT_EQ(source.take(), outcome::empty);
    writer.reset();
    segment::remove(uri());
    source.arm();
    ASSERT_TRUE(readable(source.fd(), long_ms));
    EXPECT_EQ(source.take(), outcome::writer_gone);
}

// Two queues and a pipe in one epoll; the producers rest now and then, so that both a sleeping and a running receiver
// are met. Every message must arrive: one that is slept on hangs here.
TEST_F(EventSource, ManySourcesInOneEpollSleepOnNothing) {
    const u64 total = scaled(3000);
    std::array<std::optional<queue_producer>, 2> producers;
    for (std::size_t i = 0; i < 2; ++i)
        producers[i].emplace(queue_producer::create(uri(std::to_string(i)), {.capacity_bytes = 1024}));
    std::vector<event_source<queue_consumer>> sources;
    for (std::size_t i = 0; i < 2; ++i) sources.emplace_back(queue_consumer::attach(uri(std::to_string(i))));
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const memory::descriptor epoll(::epoll_create1(EPOLL_CLOEXEC)), read_end(ends[0]), write_end(ends[1]);
    const auto add = [&](int fd, u64 tag) {
        struct epoll_event wanted{};
        wanted.events = EPOLLIN;
        wanted.data.u64 = tag;
        ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &wanted), 0);
    };
    for (std::size_t i = 0; i < 2; ++i) add(sources[i].fd(), i);
    add(read_end.get(), 2);
    std::thread producing([&] {
        for (u64 number = 0; number < total; ++number) {
            for (auto& producer : producers)
                while (!producer->try_push(bytes_of(number))) (void)producer->wait_room(8, std::chrono::seconds(1));
            if (number % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(number % 3 * 60));
        }
        (void)!::write(write_end.get(), "x", 1);
    });
    std::array<u64, 2> next{};
    const auto drain = [&](std::size_t i) {
        while (const queue_message message = sources[i].handle().front()) {
            u64 number = 0;
            std::memcpy(&number, message.bytes.data(), sizeof number);
            EXPECT_EQ(number, next[i]++);
            EXPECT_TRUE(sources[i].handle().pop());
        }
        sources[i].arm();
    };
    for (std::size_t i = 0; i < 2; ++i) drain(i);
    bool ended = false;
    while (!ended || next[0] < total || next[1] < total) {
        struct epoll_event got{};
        const int count = ::epoll_wait(epoll.get(), &got, 1, long_ms);
        EXPECT_EQ(count, 1) << "slept on a message after " << next[0] << " and " << next[1];
        if (count != 1) break;
        if (got.data.u64 == 2) {
            ended = true;
            ::epoll_ctl(epoll.get(), EPOLL_CTL_DEL, read_end.get(), nullptr);
            continue;
        }
        EXPECT_EQ(sources[got.data.u64].take(), outcome::ok);
        drain(static_cast<std::size_t>(got.data.u64));
    }
    producing.join();
    EXPECT_EQ(next[0], total);
    EXPECT_EQ(next[1], total);
}

TEST_F(EventSource, MovedAndEndedWhileArmed) {
    auto producer = queue_producer::create(uri(), {});
    {
        event_source first(queue_consumer::attach(uri()));
        first.arm();
        const int fd = first.fd();
        event_source second(std::move(first));
        EXPECT_EQ(second.fd(), fd);
        ASSERT_TRUE(producer.try_push(bytes_of(1)));
        EXPECT_TRUE(readable(second.fd(), long_ms));
        EXPECT_EQ(second.take(), outcome::ok);
        (void)second.handle().front();
        (void)second.handle().pop();
        second.arm();
    }  // ends while armed
    EXPECT_NO_THROW((void)queue_consumer::attach(uri()));  // and the place is free
}

/// The signals that a thread of ours blocks, by its entry in /proc; 0 when it has ended.
[[nodiscard]] u64 blocked_signals(const std::filesystem::path& task) {
    std::ifstream status(task / "status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
    return 0;
}

// A fault that is blocked would kill the process past the truncation guard.
TEST_F(EventSource, ItsThreadTakesNoSignalButItsOwnFaults) {
    if (sanitized) GTEST_SKIP() << "needs: a build without sanitizers, which start threads of their own";
    const auto tasks = [] {
        std::set<std::filesystem::path> found;
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) found.insert(task.path());
        return found;
    };
    const auto before = tasks();
    auto producer = queue_producer::create(uri(), {});
    event_source source(queue_consumer::attach(uri()));
    std::size_t workers = 0;
    for (const auto& task : tasks()) {
        if (before.contains(task)) continue;
        ++workers;
        u64 blocked = ~u64{0};  // with which a thread begins, before it takes its own mask
        for (int ms = 0; ms < long_ms && blocked == ~u64{0}; ++ms) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            const u64 now = blocked_signals(task);
            if ((now >> (SIGBUS - 1) & 1) == 0 && now != 0) blocked = now;
        }
        const auto is_blocked = [&](int signal) { return (blocked >> (signal - 1) & 1) != 0; };
        for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGALRM, SIGCHLD}) EXPECT_TRUE(is_blocked(signal)) << signal;
        for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) EXPECT_FALSE(is_blocked(fault)) << fault;
    }
    EXPECT_EQ(workers, 1U);
}

// What it kept open would be its parent's place at the queue, also after the parent's death.
TEST_F(EventSource, AForkedChildClosesItsCopyAndAProgramItStartsHasNone) {
    if (sanitized) GTEST_SKIP() << "needs: a fork of a process with threads, which the thread sanitizer does not take";
    const auto descriptors = [] {
        std::set<int> open;
        for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
            open.insert(std::stoi(entry.path().filename()));
        return open;
    };
    auto producer = queue_producer::create(uri(), {});
    const std::set<int> before = descriptors();
    std::optional<event_source<queue_consumer>> source(std::in_place, queue_consumer::attach(uri()));
    for (const int fd : descriptors())
        // The folder's own descriptor is gone by now.
        EXPECT_TRUE(before.contains(fd) || ::fcntl(fd, F_GETFD) < 0 || (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) << fd;
    source->arm();
    const ended child = in_child([&]() -> std::string {
        const std::size_t with = descriptors().size();
        source.reset();
        return descriptors().size() + 2 <= with ? "" : "kept open: the eventfd, and the consumer's place";
    });
    EXPECT_TRUE(child.success()) << child.text();
    ASSERT_TRUE(producer.try_push(bytes_of(1)));  // and the parent has lost nothing by it
    ASSERT_TRUE(readable(source->fd(), long_ms));
    EXPECT_EQ(source->take(), outcome::ok);
    EXPECT_EQ(refusal_of([&] { (void)queue_consumer::attach(uri()); }), errc::writer_alive);
}

TEST_F(EventSource, AForkedChildIsAnsweredAndTheParentGoesOn) {
    if (sanitized) GTEST_SKIP() << "needs: a fork of a process with threads, which the thread sanitizer does not take";
    auto producer = queue_producer::create(uri(), {});
    event_source source(queue_consumer::attach(uri()));
    source.arm();
    const ended child = in_child([&]() -> std::string {
        source.arm();
        return source.take() == outcome::read_only ? "" : "not read_only";
    });
    EXPECT_TRUE(child.success()) << child.text();
    ASSERT_TRUE(producer.try_push(bytes_of(1)));
    ASSERT_TRUE(readable(source.fd(), long_ms));
    EXPECT_EQ(source.take(), outcome::ok);
}

}  // namespace
