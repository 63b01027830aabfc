// SPDX-License-Identifier: Apache-2.0
// Datagrams on loopback, and through a cable between two network namespaces: everything arrives as it was sent or is
// counted as dropped.
#include "holdfast/net/udp.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/net/server.hpp"
#include "holdfast/net/udp_receiver.hpp"
#include "holdfast/net/udp_sender.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "net/udp_control.hpp"
#include "support/capability.hpp"
#include "support/error_reason.hpp"
#include "support/process.hpp"
#include "support/seed.hpp"
#include "workload/veth_pair.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::reason_of;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Bytes that tell which datagram they are of, and where in it they stand.
std::string text_of(std::size_t bytes, std::size_t first = 0) {
    std::string text(bytes, '\0');
    for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((first + i) * 2654435761U >> 13U);
    return text;
}

/// HOLDFAST_TEST_UDP=io_uring has the receivers of these tests carried so, and skips them where this process may not.
class carrier_of_tests final : public ::testing::Environment {
 public:
    [[nodiscard]] static net::udp_carrier choice() {
        const char* const wanted = std::getenv("HOLDFAST_TEST_UDP");
        return wanted != nullptr && std::string_view(wanted) == "io_uring" ? net::udp_carrier::io_uring
                                                                           : net::udp_carrier::calls;
    }
    void SetUp() override {
        if (choice() == net::udp_carrier::calls) return;
        if (const std::string lack = net::io_uring_lack(); !lack.empty())
            GTEST_SKIP() << "[  SKIPPED ] " << lack;  // ctest looks for this
    }
};
::testing::Environment* const registered_carrier_of_tests =
    ::testing::AddGlobalTestEnvironment(std::make_unique<carrier_of_tests>().release());

net::udp_receiver receiver_of(int socket, net::udp_receiver_options options = {}) {
    options.carrier = carrier_of_tests::choice();
    return net::udp_receiver(socket, options);
}

std::string loopback_of(const net::udp_receiver& receiver, bool v6 = false) {
    return (v6 ? "[::1]:" : "127.0.0.1:") + std::to_string(net::bound_port(receiver.socket()));
}

/// A receiver, and a sender on a connected socket.
struct line {
    explicit line(const net::udp_receiver_options& options = {}, bool v6 = false,
                  const net::udp_bind_options& room = {})
        : receiver(receiver_of(net::bind_udp(v6 ? "[::1]:0" : "127.0.0.1:0", room), options)),
          socket(net::connect_udp(loopback_of(receiver, v6))),
          sender(socket) {}
    ~line() { ::close(socket); }
    line(const line&) = delete;
    line& operator=(const line&) = delete;

    /// All that is there, datagram by datagram; so many are waited for.
    std::vector<std::string> take(std::size_t wanted) {
        std::vector<std::string> all;
        for (;;) {
            const net::udp_arrivals arrivals = all.size() < wanted ? receiver.wait_receive(5s) : receiver.try_receive();
            EXPECT_EQ(arrivals.error, 0);
            if (arrivals.trains.empty()) return all;
            for (const net::datagram_train& train : arrivals.trains)
                for (std::size_t i = 0; i < train.count; ++i) all.emplace_back(train[i]);
        }
    }

    net::udp_receiver receiver;
    int socket;
    net::udp_sender sender;
};

/// `bytes`, cut as send_train cuts it.
std::vector<std::string> cut(const std::string& bytes, std::size_t segment) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < bytes.size(); at += segment) parts.push_back(bytes.substr(at, segment));
    return parts;
}

TEST(UdpTrains, OfEverySizeArriveDatagramByDatagram) {
    line to;
    std::uint64_t sent = 0, bytes = 0;
    for (const std::size_t segment : {1U, 2U, 5U, 64U, 512U, 1400U, 20'000U, 32'753U, 32'754U})
        for (const std::size_t count : {1U, 2U, 3U, 63U, 64U, 65U, 130U}) {
            if (segment * count > 200'000) continue;
            for (const std::size_t shorter : {std::size_t{0}, std::size_t{1}, segment - 1}) {
                const std::string text = text_of(segment * count - std::min(shorter, segment - 1), count);
                const auto parts = cut(text, segment);
                const net::udp_sent result = to.sender.send_train(text, segment);
                ASSERT_EQ(result.error, 0) << segment << " x " << count;
                ASSERT_EQ(result.datagrams, parts.size());
                ASSERT_TRUE(to.take(parts.size()) == parts) << segment << " x " << count << " - " << shorter;
                sent += parts.size();
                bytes += text.size();
            }
        }
    EXPECT_EQ(to.receiver.counters().datagrams, sent);
    EXPECT_EQ(to.receiver.counters().bytes, bytes);
    EXPECT_EQ(to.receiver.dropped(), 0U);
    if (to.receiver.joins() && to.sender.joins(1400)) {
        EXPECT_LT(to.receiver.counters().trains, sent / 8);  // or it would be a loop of single datagrams
    }
}

TEST(UdpTrains, SayHowTheyAreCut) {
    line to;
    if (!to.receiver.joins() || !to.sender.joins(100)) GTEST_SKIP() << "needs: a kernel with UDP_GRO and UDP_SEGMENT";
    const std::string text = text_of(950);
    ASSERT_EQ(to.sender.send_train(text, 100).datagrams, 10U);
    const net::udp_arrivals arrivals = to.receiver.wait_receive(1s);
    ASSERT_THAT(arrivals.trains, SizeIs(1));
    const net::datagram_train& train = arrivals.trains.front();
    EXPECT_EQ(train.bytes, text);
    EXPECT_EQ(train.segment_bytes, 100U);
    EXPECT_EQ(train.count, 10U);
    EXPECT_EQ(train[8].size(), 100U);
    EXPECT_EQ(train[9], text.substr(900));
    EXPECT_TRUE(train.whole(9));
    EXPECT_EQ(train.cut_bytes, 0U);
    EXPECT_EQ(train.received_ns, 0U);
    EXPECT_EQ(train.from->port(), net::bound_port(to.socket));
}

TEST(UdpDatagrams, WithoutBytesWithOneAndWithAsManyAsThereMayBe) {
    for (const bool v6 : {false, true}) {
        line to({}, v6);
        const std::size_t most = v6 ? 65'527 : 65'507;
        for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, most}) {
            const std::string text = text_of(bytes);
            const std::string_view one = text;
            EXPECT_EQ(to.sender.send_each({&one, 1}).datagrams, 1U);
            const net::udp_arrivals arrivals = to.receiver.wait_receive(1s);
            ASSERT_THAT(arrivals.trains, SizeIs(1)) << bytes;
            EXPECT_TRUE(arrivals.trains[0].bytes == text);
            EXPECT_EQ(arrivals.trains[0].count, 1U);
            EXPECT_EQ(arrivals.trains[0].segment_bytes, bytes);
            EXPECT_TRUE(arrivals.trains[0].whole(0));
        }
        EXPECT_EQ(to.sender.send_train({}, 10).datagrams, 1U);  // an empty one
        EXPECT_THAT(to.take(1), ElementsAre(""));
        const std::string larger = text_of(most + 1);
        EXPECT_EQ(to.sender.send_train(larger, larger.size()).error, EMSGSIZE);
        EXPECT_EQ(to.sender.send_train("x", 0).error, EINVAL);
        EXPECT_THAT(to.take(0), IsEmpty());
    }
}

TEST(UdpDatagrams, OfMixedSizesArriveInOrder) {
    line to;
    test::seeded_random random;
    for (int round = 0; round < 50; ++round) {
        std::vector<std::string> texts(1 + random() % 60);
        for (std::string& text : texts) text = text_of(random() % 4 == 0 ? random() % 9000 : random() % 20, random());
        std::vector<std::string_view> views(texts.begin(), texts.end());
        if (round % 2 == 0) {
            ASSERT_EQ(to.sender.send_each(views).datagrams, texts.size());
        } else {  // trains of different sizes, one behind the other
            std::vector<std::string> all;
            for (const std::string& text : texts) {
                const std::size_t segment = 1 + random() % 700;
                ASSERT_EQ(to.sender.send_train(text, segment).error, 0);
                if (text.empty()) all.emplace_back();
                for (std::string& part : cut(text, segment)) all.push_back(std::move(part));
                if (all.size() < 400) continue;
                ASSERT_TRUE(to.take(all.size()) == all);
                all.clear();
            }
            texts = std::move(all);
        }
        ASSERT_TRUE(to.take(texts.size()) == texts) << round;
    }
    EXPECT_EQ(to.receiver.dropped(), 0U);
}

TEST(UdpDatagrams, ThatFindNoRoomInTheBufferAreToldToBeCut) {
    line to({.train_bytes_max = 100});
    const std::string text = text_of(250);
    ASSERT_EQ(to.sender.send_train(text, 250).datagrams, 1U);
    net::udp_arrivals arrivals = to.receiver.wait_receive(1s);
    ASSERT_THAT(arrivals.trains, SizeIs(1));
    EXPECT_EQ(arrivals.trains[0].bytes, text.substr(0, 100));
    EXPECT_EQ(arrivals.trains[0].cut_bytes, 150U);
    EXPECT_EQ(arrivals.trains[0].count, 1U);
    EXPECT_FALSE(arrivals.trains[0].whole(0));
    EXPECT_EQ(to.receiver.counters().cut, 1U);

    ASSERT_EQ(to.sender.send_train(text.substr(0, 100), 100).datagrams, 1U);  // exactly as large
    arrivals = to.receiver.wait_receive(1s);
    ASSERT_THAT(arrivals.trains, SizeIs(1));
    EXPECT_EQ(arrivals.trains[0].cut_bytes, 0U);
    EXPECT_TRUE(arrivals.trains[0].whole(0));

    if (!to.receiver.joins() || !to.sender.joins(30)) GTEST_SKIP() << "needs: a kernel with UDP_GRO and UDP_SEGMENT";
    ASSERT_EQ(to.sender.send_train(text, 30).datagrams, 9U);
    arrivals = to.receiver.wait_receive(1s);
    ASSERT_THAT(arrivals.trains, SizeIs(1));
    const net::datagram_train& train = arrivals.trains[0];
    EXPECT_EQ(train.count, 9U);
    EXPECT_EQ(train.cut_bytes, 150U);
    EXPECT_TRUE(train.whole(2));
    EXPECT_FALSE(train.whole(3));
    EXPECT_EQ(train[3], text.substr(90, 10));
    EXPECT_EQ(train[4], "");
    EXPECT_EQ(train[8], "");
    EXPECT_FALSE(train.whole(8));
}

TEST(UdpReceiver, CountsWhatTheKernelDropsExactly) {
    line to({}, false, {.receive_buffer_bytes = 20'000});
    std::uint64_t sent = 0, between = 0;
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 500; ++i) sent += to.sender.send_train("0123456789", 10).datagrams;
        for (int quiet = 0; quiet < 2;) {  // a kernel under load may deliver a moment after the call
            const net::udp_arrivals arrivals = to.receiver.wait_receive(10ms);
            quiet = arrivals.trains.empty() ? quiet + 1 : 0;
            for (const net::datagram_train& train : arrivals.trains) between += train.dropped_before;
        }
        // Those behind the newest datagram as well, which nothing that arrived could tell of.
        EXPECT_EQ(to.receiver.counters().datagrams + to.receiver.dropped(), sent);
    }
    EXPECT_EQ(sent, 1500U);
    EXPECT_GT(to.receiver.dropped(), 1000U);
    EXPECT_GT(between, 0U);  // the first of a round knows of the round before
    EXPECT_LT(between, to.receiver.dropped());
    ASSERT_EQ(to.sender.send_train("x", 1).datagrams, 1U);
    const net::udp_arrivals arrivals = to.receiver.wait_receive(1s);
    ASSERT_THAT(arrivals.trains, SizeIs(1));
    EXPECT_EQ(between + arrivals.trains[0].dropped_before, to.receiver.dropped());
}

TEST(UdpReceiver, CountsDroppedTrainsAsOneEach) {
    line to({}, false, {.receive_buffer_bytes = 20'000});
    if (!to.receiver.joins() || !to.sender.joins(100)) GTEST_SKIP() << "needs: a kernel with UDP_GRO and UDP_SEGMENT";
    const std::string text = text_of(1000);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(to.sender.send_train(text, 100).datagrams, 10U);
    std::size_t came = 0;
    for (int quiet = 0; quiet < 2;) {
        const net::udp_arrivals arrivals = to.receiver.wait_receive(10ms);
        quiet = arrivals.trains.empty() ? quiet + 1 : 0;
        for (const net::datagram_train& train : arrivals.trains) came += train.bytes == text ? train.count : 0;
    }
    EXPECT_EQ(came, to.receiver.counters().trains * 10);  // none has lost a part
    EXPECT_EQ(to.receiver.counters().trains + to.receiver.dropped(), 100U);
}

TEST(UdpReceiver, WithoutJoiningTakesTrainsApart) {
    line to({.join = false});
    EXPECT_FALSE(to.receiver.joins());
    const std::string text = text_of(950);
    ASSERT_EQ(to.sender.send_train(text, 100).datagrams, 10U);
    EXPECT_TRUE(to.take(cut(text, 100).size()) == cut(text, 100));
    EXPECT_EQ(to.receiver.counters().trains, 10U);
}

TEST(UdpReceiver, TakesNoMoreTrainsAtOnceThanItWasGivenRoomFor) {
    line to({.trains_max = 3, .join = false});
    ASSERT_EQ(to.sender.send_train("abcdefgh", 1).datagrams, 8U);
    EXPECT_THAT(to.receiver.wait_receive(1s).trains, SizeIs(3));
    EXPECT_THAT(to.receiver.wait_receive(1s).trains, SizeIs(3));
    EXPECT_THAT(to.take(2), ElementsAre("g", "h"));
    const bool by_calls = to.receiver.carrier() == net::udp_carrier::calls;  // the last one brought nothing
    EXPECT_EQ(to.receiver.counters().calls, by_calls ? 4U : 2U);  // by io_uring the rest had come with the first
}

TEST(UdpReceiver, SaysWhenThePacketCame) {
    line to({.receive_times = true});
    const auto now = [] {
        return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() / 1ns);
    };
    const std::uint64_t before = now();
    for (int i = 0; i < 2; ++i) ASSERT_EQ(to.sender.send_train("abc", 1).datagrams, 3U);
    const std::uint64_t after = now();
    // The kernel begins to take times a moment after it was asked; what came before has the time at which it was read.
    const std::uint64_t earliest = before - 1'000'000'000;
    const net::udp_arrivals arrivals = to.receiver.wait_receive(1s);
    ASSERT_FALSE(arrivals.trains.empty());
    for (const net::datagram_train& train : arrivals.trains) {
        EXPECT_GE(train.received_ns, earliest);
        EXPECT_LE(train.received_ns, after + 1'000'000'000);
    }
}

TEST(UdpReceiver, WaitsUntilTheTimeIsOverOrSomethingComes) {
    const int socket = net::bind_udp("127.0.0.1:0");
    ASSERT_EQ(::fcntl(socket, F_SETFL, O_NONBLOCK), 0);  // it waits all the same
    net::udp_receiver receiver = receiver_of(socket);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(receiver.try_receive().trains, IsEmpty());
    EXPECT_THAT(receiver.wait_receive(0ms).trains, IsEmpty());
    const net::udp_arrivals nothing = receiver.wait_receive(30ms);
    EXPECT_THAT(nothing.trains, IsEmpty());
    EXPECT_EQ(nothing.error, 0);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 30ms);

    test::child_process child([to = loopback_of(receiver)](test::channel& talk) {
        const int from = net::connect_udp(to);
        if (!talk.wait()) return 1;
        return net::udp_sender(from).send_train("now", 3).datagrams == 1 ? 0 : 1;
    });
    child.talk().signal();
    const net::udp_arrivals arrivals = receiver.wait_receive(60s);
    ASSERT_THAT(arrivals.trains, SizeIs(1));
    EXPECT_EQ(arrivals.trains[0].bytes, "now");
    EXPECT_TRUE(child.wait().success());
}

TEST(UdpReceiver, AnswersItsSenders) {
    for (const bool v6 : {false, true}) {
        line to({}, v6), other({}, v6);
        const net::udp_address there(loopback_of(other.receiver, v6));
        net::udp_sender from_there(other.receiver.socket());
        ASSERT_EQ(from_there.send_train("abcdef", 2, net::udp_address(loopback_of(to.receiver, v6))).datagrams, 3U);
        net::udp_arrivals arrivals = to.receiver.wait_receive(1s);
        ASSERT_FALSE(arrivals.trains.empty());
        EXPECT_EQ(*arrivals.trains[0].from, there);
        net::udp_sender back(to.receiver.socket());
        const std::array<std::string_view, 2> answers{"yes", ""};
        EXPECT_EQ(back.send_each(answers, *arrivals.trains[0].from).datagrams, 2U);
        EXPECT_THAT(other.take(2), ElementsAre("yes", ""));
    }
}

TEST(UdpReceiver, TellsThatNobodyListens) {
    int nobody = net::bind_udp("127.0.0.1:0");
    const std::string there = "127.0.0.1:" + std::to_string(net::bound_port(nobody));
    net::udp_receiver receiver = receiver_of(net::connect_udp(there));
    ::close(nobody);
    net::udp_sender sender(receiver.socket());
    ASSERT_EQ(sender.send_train("x", 1).error, 0);
    const net::udp_arrivals arrivals = receiver.wait_receive(1s);
    EXPECT_THAT(arrivals.trains, IsEmpty());
    EXPECT_EQ(arrivals.error, ECONNREFUSED);
    EXPECT_EQ(receiver.wait_receive(1ms).error, 0);
}

TEST(UdpSender, SendsEachByItselfWhereTheSocketMayNotJoin) {
    line to;
    const int off = 1;  // without checksums the kernel joins nothing
    ASSERT_EQ(::setsockopt(to.socket, SOL_SOCKET, SO_NO_CHECK, &off, sizeof off), 0);
    const std::string text = text_of(10'000);
    for (int i = 0; i < 2; ++i) {
        const net::udp_sent sent = to.sender.send_train(text, 100);
        EXPECT_EQ(sent.error, 0);
        EXPECT_EQ(sent.datagrams, 100U);
        EXPECT_TRUE(to.take(cut(text, 100).size()) == cut(text, 100));
    }
    EXPECT_FALSE(to.sender.joins(100));
    EXPECT_EQ(to.receiver.counters().trains, 200U);
}

TEST(UdpSender, LearnsNothingFromAnAddressThatIsWrong) {
    line to;
    const bool joined = to.sender.joins(100);
    const int unconnected = net::bind_udp("127.0.0.1:0");
    net::udp_sender sender(unconnected);
    EXPECT_NE(sender.send_train(text_of(1000), 100).error, 0);  // to nobody
    EXPECT_NE(sender.send_train(text_of(1000), 100, net::udp_address("[::1]:9")).error, 0);
    EXPECT_NE(sender.send_train(text_of(1000), 100, net::udp_address("127.0.0.1:0")).error, 0);
    EXPECT_EQ(sender.joins(100), joined);
    EXPECT_EQ(sender.send_train(text_of(1000), 100, net::udp_address(loopback_of(to.receiver))).datagrams, 10U);
    EXPECT_THAT(to.take(10), SizeIs(10));
    ::close(unconnected);
}

TEST(UdpGroup, SpreadsByTheCpuThatHandlesThePacket) {
    const std::vector<unsigned> cpus = perf_test::usable_cpus();
    const auto odd = std::ranges::find_if(cpus, [](unsigned cpu) { return cpu % 2 == 1; });
    const auto even = std::ranges::find_if(cpus, [](unsigned cpu) { return cpu % 2 == 0; });
    if (odd == cpus.end() || even == cpus.end()) GTEST_SKIP() << "needs: a processor of odd and one of even number";
    const auto moved = test::read_setting("/sys/class/net/lo/queues/rx-0/rps_cpus");
    if (moved && moved->find_first_not_of("0,") != std::string::npos)
        GTEST_SKIP() << "needs: packets of loopback handled by their sender's processor (rps_cpus of lo is " << *moved
                     << ")";
    const std::vector<int> sockets = net::bind_udp_group("127.0.0.1:0", 2);
    ASSERT_THAT(sockets, SizeIs(2));
    ASSERT_EQ(net::bound_port(sockets[0]), net::bound_port(sockets[1]));
    net::udp_receiver receivers[] = {receiver_of(sockets[0]), receiver_of(sockets[1])};
    for (const unsigned cpu : {*even, *odd, *even}) {
        const perf_test::cpu_pin pin(cpu);  // loopback delivers on the sender's processor
        for (int flow = 0; flow < 20; ++flow) {
            const int from = net::connect_udp(loopback_of(receivers[0]));
            ASSERT_EQ(net::udp_sender(from).send_train("abc", 1).datagrams, 3U);
            ::close(from);
            const net::udp_arrivals arrivals = receivers[cpu % 2].wait_receive(1s);
            ASSERT_FALSE(arrivals.trains.empty()) << "processor " << cpu << ", flow " << flow;
            while (!receivers[cpu % 2].try_receive().trains.empty()) {
            }
            ASSERT_THAT(receivers[1 - cpu % 2].try_receive().trains, IsEmpty());
        }
    }
    EXPECT_EQ(receivers[0].counters().datagrams, 120U);
    EXPECT_EQ(receivers[1].counters().datagrams, 60U);
}

TEST(UdpGroup, SpreadsByFlowWithoutLosingAny) {
    const std::vector<int> sockets = net::bind_udp_group("127.0.0.1:0", 3, net::udp_spread::by_flow);
    std::vector<net::udp_receiver> receivers;
    for (const int socket : sockets) receivers.push_back(receiver_of(socket));
    for (int flow = 0; flow < 100; ++flow) {
        const int from = net::connect_udp(loopback_of(receivers[0]));
        const std::array<std::string_view, 3> texts{"a", "bb", "ccc"};
        ASSERT_EQ(net::udp_sender(from).send_each(texts).datagrams, 3U);
        ::close(from);
    }
    std::uint64_t sum = 0;
    for (net::udp_receiver& receiver : receivers) {
        for (;;) {
            const net::udp_arrivals arrivals = receiver.wait_receive(50ms);
            if (arrivals.trains.empty()) break;
            for (const net::datagram_train& train : arrivals.trains) sum += train.count;
        }
        EXPECT_GT(receiver.counters().datagrams, 0U);      // 100 flows miss one of three with 7e-18
        EXPECT_EQ(receiver.counters().datagrams % 3, 0U);  // a flow stays with its receiver
    }
    EXPECT_EQ(sum, 300U);
}

// Linux counts a port of a group of the same user among the free ones for whoever may share it. In a network with two
// ports there is room for two groups, each of its own.
TEST(UdpGroup, ThatTakesAnyPortIsAloneOnIt) {
    const auto child = test::in_child([]() -> std::string {
        std::ofstream ports;
        if (::unshare(CLONE_NEWNET) == 0) ports.open("/proc/sys/net/ipv4/ip_local_port_range");
        if (!(ports << "40000 40001" << std::flush)) return "no network";
        const std::vector<int> first = net::bind_udp_group("0.0.0.0:0", 2);
        const int second = net::bind_udp("0.0.0.0:0", {.reuse_port = true});
        if (net::bound_port(first[0]) != net::bound_port(first[1])) return "a group of two ports";
        if (net::bound_port(second) == net::bound_port(first[0])) return "both groups have the same port";
        net::spread_by_cpu(second, 1);  // of a group, though alone in it
        try {
            (void)net::bind_udp_group("0.0.0.0:0", 1);
        } catch (const error& e) {
            return e.reason() == errc::already_exists ? "" : e.what();
        }
        return "a third group joined one of the others";
    });
    if (child.failure == "no network") GTEST_SKIP() << "needs: network namespaces";
    EXPECT_TRUE(child.success()) << child.text();
}

TEST(UdpBind, ErrorsNameTheAddressAndTheCure) {
    for (const char* const wrong : {"", "x", "127.0.0.1", "127.0.0.1:65536", "[::1:5", "256.1.1.1:1", "::1:9x"})
        EXPECT_EQ(reason_of([&] { (void)net::bind_udp(wrong); }), errc::invalid_argument) << wrong;
    const net::udp_receiver taken(net::bind_udp("127.0.0.1:0"));
    EXPECT_EQ(reason_of([&] { (void)net::bind_udp(loopback_of(taken)); }), errc::already_exists);
    EXPECT_EQ(reason_of([&] { (void)net::bind_udp("192.0.2.1:9"); }), errc::not_found);
    try {
        ::close(net::connect_udp("255.255.255.255:9"));
        ADD_FAILURE() << "a broadcast address was taken";
    } catch (const error& e) {
        EXPECT_EQ(e.reason(), errc::no_permission);
        EXPECT_THAT(e.what(), AllOf(HasSubstr("broadcast"), HasSubstr(";")));
    }
    EXPECT_EQ(reason_of([&] {
                  (void)net::bind_udp("127.0.0.1:0",
                                      {.receive_buffer_bytes = 1 << 14, .receive_buffer_bytes_min = 1 << 20});
              }),
              errc::no_space);
    EXPECT_EQ(reason_of([] { (void)net::bind_udp_group("127.0.0.1:0", 0); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([] { (void)net::bind_udp_group("127.0.0.1:0", 5000); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::spread_by_cpu(taken.socket(), 0); }), errc::invalid_argument);
    EXPECT_EQ(reason_of([&] { net::spread_by_cpu(taken.socket(), 2); }), errc::invalid_argument);  // of no group
    for (const net::udp_receiver_options& wrong : std::initializer_list<net::udp_receiver_options>{
             {.trains_max = 0}, {.trains_max = 1025}, {.train_bytes_max = 0}, {.train_bytes_max = 65'537}}) {
        const int socket = net::bind_udp("127.0.0.1:0");
        EXPECT_EQ(reason_of([&] { net::udp_receiver receiver = receiver_of(socket, wrong); }), errc::invalid_argument);
        EXPECT_EQ(::fcntl(socket, F_GETFD), -1) << "left open";
    }
    EXPECT_EQ(reason_of([] { net::udp_receiver receiver = receiver_of(net::listen_tcp("127.0.0.1:0")); }),
              errc::invalid_argument);
    EXPECT_EQ(reason_of([] { net::udp_receiver receiver = receiver_of(-1); }), errc::invalid_argument);
}

TEST(UdpBind, TellsTheRoomThatTheKernelGave) {
    const net::udp_receiver small(net::bind_udp("127.0.0.1:0", {.receive_buffer_bytes = 1 << 14}));
    EXPECT_EQ(net::receive_buffer_bytes(small.socket()), std::size_t{1} << 14U);
    const net::udp_receiver asked(
        net::bind_udp("127.0.0.1:0", {.receive_buffer_bytes = 100'000, .receive_buffer_bytes_min = 100'000}));
    EXPECT_EQ(net::receive_buffer_bytes(asked.socket()), 100'000U);
    EXPECT_EQ(reason_of([] { (void)net::receive_buffer_bytes(-1); }), errc::io);
}

TEST(UdpAddress, IsTextAndBack) {
    for (const char* const text : {"127.0.0.1:53", "[::1]:65535", "10.0.0.7:0", "[2001:db8::7]:1"})
        EXPECT_EQ(net::udp_address(text).text(), text);
    EXPECT_EQ(net::udp_address().text(), "");
    EXPECT_TRUE(net::udp_address().empty());
    EXPECT_EQ(net::udp_address().port(), 0);
    EXPECT_EQ(net::udp_address("127.0.0.1:53"), net::udp_address("localhost:53"));
    EXPECT_FALSE(net::udp_address("127.0.0.1:53") == net::udp_address("127.0.0.1:54"));
    EXPECT_FALSE(net::udp_address("127.0.0.1:53") == net::udp_address("127.0.0.2:53"));
    EXPECT_FALSE(net::udp_address("127.0.0.1:53") == net::udp_address("[::1]:53"));
    EXPECT_FALSE(net::udp_address("[::2]:53") == net::udp_address("[::1]:53"));
    EXPECT_TRUE(net::udp_address() == net::udp_address());
}

TEST(UdpControl, CountsOf32BitsAreFollowedIn64) {
    net::drop_count count(0xffff'fff0U);
    EXPECT_EQ(count.advance(0xffff'fff0U), 0U);
    EXPECT_EQ(count.advance(0xffff'ffffU), 15U);
    EXPECT_EQ(count.advance(9), 10U);
    EXPECT_EQ(count.advance(0xffff'ffffU), 0U);  // one that comes late
    EXPECT_EQ(count.advance(9), 0U);
    for (int i = 0; i < 5; ++i) (void)count.advance(static_cast<std::uint32_t>(9 + (i + 1) * 0x4000'0000LL));
    EXPECT_EQ(count.total(), 25 + 5 * std::uint64_t{0x4000'0000});
}

TEST(UdpControl, TrainsAreCutAsTheKernelSaid) {
    const std::string text = text_of(100);
    const net::udp_address from("127.0.0.1:1");
    const auto count_of = [&](std::size_t wire, std::size_t room, std::size_t segment) {
        return net::make_train(text.data(), wire, room, {.segment_bytes = segment, .received_ns = 0, .drops = {}},
                               from);
    };
    EXPECT_EQ(count_of(100, 100, 0).count, 1U);
    EXPECT_EQ(count_of(100, 100, 100).count, 1U);
    EXPECT_EQ(count_of(100, 100, 1000).segment_bytes, 100U);
    EXPECT_EQ(count_of(100, 100, 99).count, 2U);
    EXPECT_EQ(count_of(100, 100, 1).count, 100U);
    EXPECT_EQ(count_of(0, 100, 7).count, 1U);
    EXPECT_EQ(count_of(0, 100, 7)[0], "");
    EXPECT_EQ(count_of(100, 30, 40).cut_bytes, 70U);
    EXPECT_FALSE(count_of(100, 30, 40).whole(0));
}

/// Datagrams between two namespaces, or a skip where no cable can be laid.
class UdpCable : public testing::Test {
 protected:
    void SetUp() override {
        try {
            cable_.emplace();
        } catch (const std::system_error& refused) {
            GTEST_SKIP() << "needs: network namespaces (" << refused.what() << ")";
        }
    }
    std::optional<workload::veth_pair> cable_;
};

TEST_F(UdpCable, CarriesTrainsAndWhatIsLargerThanItsPackets) {
    int near = -1, far = -1;
    cable_->within(0, [&] { near = net::bind_udp("10.73.0.1:4000"); });
    cable_->within(1, [&] { far = net::connect_udp("10.73.0.1:4000"); });
    net::udp_receiver receiver = receiver_of(near);
    net::udp_sender sender(far);
    const auto carried = [&](std::size_t bytes, std::size_t segment) {
        const std::string text = text_of(bytes, segment);
        const auto parts = cut(text, segment);
        const net::udp_sent sent = sender.send_train(text, segment);
        EXPECT_EQ(sent.error, 0) << bytes << " by " << segment;
        EXPECT_EQ(sent.datagrams, parts.size());
        std::vector<std::string> came;
        while (came.size() < parts.size()) {
            const net::udp_arrivals arrivals = receiver.wait_receive(5s);
            if (arrivals.trains.empty()) break;
            for (const net::datagram_train& train : arrivals.trains)
                for (std::size_t i = 0; i < train.count; ++i) came.emplace_back(train[i]);
        }
        EXPECT_TRUE(came == parts) << bytes << " by " << segment;
    };
    for (const std::size_t segment : {5U, 512U, 1400U, 1472U}) carried(segment * 100 + 3, segment);
    EXPECT_LT(receiver.counters().trains, receiver.counters().datagrams / 8);
    // More than a packet: each datagram travels in pieces of its own, and the sender has learnt where that begins.
    EXPECT_TRUE(sender.joins(2000));
    for (const std::size_t segment : {2000U, 2000U, 1400U, 20'000U}) carried(segment * 5, segment);
    EXPECT_FALSE(sender.joins(2000));
    EXPECT_TRUE(sender.joins(1472));
    carried(60'000, 60'000);
    EXPECT_EQ(receiver.dropped(), 0U);
    ::close(far);
}

TEST_F(UdpCable, LeavesNothingAndNobodyWithinIt) {
    const auto interfaces = [] {
        std::vector<std::string> names;
        struct if_nameindex* const all = ::if_nameindex();
        for (auto* one = all; one != nullptr && one->if_index != 0; ++one) names.emplace_back(one->if_name);
        ::if_freenameindex(all);
        return names;
    };
    const auto here = interfaces();
    EXPECT_THAT(here, testing::Not(Contains("holdfast0")));
    cable_->within(0, [&] { EXPECT_THAT(interfaces(), ElementsAre("lo", "holdfast0")); });
    cable_->within(1, [&] { EXPECT_THAT(interfaces(), ElementsAre("lo", "holdfast1")); });
    EXPECT_THROW(cable_->within(0, [] { throw std::runtime_error("from within"); }), std::runtime_error);
    EXPECT_EQ(interfaces(), here);
    const workload::veth_pair second;  // of the same names, for nobody else sees them
    EXPECT_EQ(interfaces(), here);
}

}  // namespace
