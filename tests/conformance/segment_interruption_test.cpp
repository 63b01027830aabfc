// SPDX-License-Identifier: Apache-2.0
// Signals and failing system calls in the middle of create, attach and remove: a signal changes nothing, a call that
// fails, once or for good, is an error of ours, nothing stays open, and what remains is no segment or a whole one.
#include <gtest/gtest.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "support/capability.hpp"
#include "support/held_readers.hpp"
#include "support/process.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/system_call_faults.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

std::atomic<std::uint64_t> signals_taken{0};

// A timer whose handler interrupts system calls instead of restarting them.
class signal_storm {
 public:
    explicit signal_storm(long period_us) {
        struct sigaction action{};
        action.sa_handler = [](int) {
            signals_taken.fetch_add(1, std::memory_order_relaxed);
        };  // a count, ordering nothing
        ::sigaction(SIGALRM, &action, nullptr);
        const itimerval timer{.it_interval = {0, period_us}, .it_value = {0, period_us}};
        ::setitimer(ITIMER_REAL, &timer, nullptr);
    }
    signal_storm(const signal_storm&) = delete;
    signal_storm& operator=(const signal_storm&) = delete;
    ~signal_storm() {
        const itimerval off{};
        ::setitimer(ITIMER_REAL, &off, nullptr);
    }
};

class SegmentInterruption : public segment_test {
 protected:
    unique_directory disk_{"storm"};
    unique_posix_name posix_{"storm"};
    unique_system_v_name system_v_;
};

TEST_F(SegmentInterruption, AStormOfSignalsChangesNothing) {
    for (const std::string& uri : {posix_.uri(), disk_.file_uri("s"), system_v_.uri()}) {
        const ended end = in_child([&]() -> std::string {
            const signal_storm storm(100);
            for (std::uint64_t round = 0; round < scaled(200); ++round) {
                {
                    const segment made = create_pattern(uri, round);
                    if (std::string fault = pattern_fault(made); !fault.empty()) return fault;
                    if (std::string fault = pattern_fault(segment::attach(uri, access::read_only)); !fault.empty())
                        return fault;
                }
                if (!segment::attach(uri, access::read_write).writable()) return "not writable";
                segment::remove(uri);
            }
            return signals_taken.load(std::memory_order_relaxed) > 0 ? "" : "no signal came";
        });
        EXPECT_TRUE(end.success()) << uri << ": " << end.text();
    }
}

// Reserving takes long on tmpfs and starts over when interrupted; it must end all the same.
TEST_F(SegmentInterruption, AStormOfSignalsDoesNotKeepALargeReservationFromEnding) {
    const ended end = in_child([&]() -> std::string {
        const signal_storm storm(200);
        const segment made = create_pattern(posix_.uri(), 1, {}, std::size_t{96} << 20);
        return made.writable() ? "" : "not writable";
    });
    EXPECT_TRUE(end.success()) << end.text();
}

struct fault {
    int error;
    fault_span span;
};

// A place of one kind of memory for a segment that is made again and again; what is passed instead of being named is
// kept by its descriptors.
class fault_place {
 public:
    explicit fault_place(const std::string& kind) : kind_(kind) {}

    [[nodiscard]] bool named() const { return kind_ != "memfd"; }
    [[nodiscard]] std::string uri_to_create() const {
        if (kind_ == "file") return disk_.file_uri("s");
        if (kind_ == "posix") return posix_.uri();
        return kind_ == "sysv" ? system_v_.uri() : "memfd:";
    }
    [[nodiscard]] std::string uri() const {
        if (named()) return uri_to_create();
        return "memfd:" + std::to_string(data_.get()) + "," + std::to_string(lease_.get()) +
               (peers_ ? "," + std::to_string(peers_.get()) : "");
    }
    /// Nothing is left of a former one.
    void clear() {
        for (memory::descriptor* one : {&data_, &lease_, &peers_}) one->reset();
        for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
        posix_.remove();
        if (const int id = ::shmget(system_v_.key(), 0, 0); id >= 0) ::shmctl(id, IPC_RMID, nullptr);
        const auto where = holdfast::detail::places_of(memory::uri::parse(system_v_.uri()));
        for (const std::string& path : {where.lease(), where.peers()}) ::unlink(path.c_str());
    }
    /// Keeps a passed segment whose maker is about to let go of it.
    void keep(const segment& made) {
        if (named()) return;
        const segment_descriptors own = made.descriptors();
        data_ = memory::descriptor(::fcntl(own.data, F_DUPFD_CLOEXEC, 3));
        lease_ = memory::descriptor(::fcntl(own.lease, F_DUPFD_CLOEXEC, 3));
        if (own.peers >= 0) peers_ = memory::descriptor(::fcntl(own.peers, F_DUPFD_CLOEXEC, 3));
    }
    /// A file that was never published, or its name's half.
    [[nodiscard]] std::string half_made(bool there) const {
        for (const std::vector<std::string>& entries : {disk_.entries(), posix_.entries()})
            for (const std::string& entry : entries)
                if (entry.ends_with(".making") || (!there && (entry == "s" || entry == posix_.token())))
                    return "left behind: " + entry;
        return {};
    }

 private:
    std::string kind_;
    unique_directory disk_{"faults"};
    unique_posix_name posix_{"faults"};
    unique_system_v_name system_v_;
    memory::descriptor data_, lease_, peers_;
};

// A sanitizer's own calls, of which there are many more, would fail too.
constexpr const char* needs_no_sanitizer = "needs: a build without sanitizers";

// Fails each system call of `operation`, and asks `after` (did it succeed?) about what is left.
class FailingCalls : public segment_test {
 protected:
    template <class Prepare, class Operation, class After>
    void fail_each(const std::string& what, const std::string& subject, const fault& how, Prepare&& prepare,
                   Operation&& operation, After&& after) {
        if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
        std::uint64_t refused = 0;
        const step_report report = fail_each_system_call(
            how.error, how.span, prepare, [&] { return outcome_of(operation, subject); }, may_fail,
            [&](const faulted_run& run) -> std::string {
                if (!run.uncaught.empty()) return run.uncaught;
                if (run.result == 3) return "the error does not say of what";
                if (!run.left_open.empty()) return "left open: " + run.left_open;
                refused += run.result != 0 ? 1 : 0;
                if (run.number < 0 && run.result != 0) return "fails without a fault";
                return after(run.result == 0);
            });
        EXPECT_EQ(report.failure, "") << what;
        EXPECT_GT(report.steps, 4U) << what;
        EXPECT_GT(refused, 2U) << what << ": hardly any failure was noticed";
        std::printf("%s, errno %d, %s: %llu calls failed, %llu times the operation did\n", what.c_str(), how.error,
                    name_of(how.span), static_cast<unsigned long long>(report.steps),
                    static_cast<unsigned long long>(refused));
    }
};

class FailingCall : public FailingCalls, public ::testing::WithParamInterface<std::tuple<std::string, fault>> {
 protected:
    void SetUp() override {
        const auto& [kind, how] = GetParam();
        if (sanitized && (how.span == fault_span::for_good || kind != "file")) GTEST_SKIP() << needs_no_sanitizer;
    }
    template <class Prepare, class Operation, class After>
    void fail_each(const char* what, Prepare&& prepare, Operation&& operation, After&& after) {
        const auto& [kind, how] = GetParam();
        FailingCalls::fail_each(std::string(what) + " " + kind, place_.named() ? place_.uri_to_create() : "memfd:", how,
                                prepare, operation, after);
    }
    void make_raw() {
        place_.clear();
        place_.keep(create_pattern(place_.uri_to_create(), 1, {}, 4096));
    }
    // Nothing, or a segment that is whole and that the next writer gets; if nothing, the next creation works.
    template <class Whole, class Create>
    [[nodiscard]] std::string judge_creation(bool succeeded, Whole&& whole, Create&& create) {
        if (!place_.named()) return {};
        bool there = false;
        const auto refused = refusal_of([&] {
            (void)segment::attach(place_.uri(), access::read_only);
            there = true;
        });
        const bool none = refused && (refused->code == errc::not_found || refused->code == errc::not_ready);
        if (refused && !none) return "attaching: " + refused->text;
        if (succeeded && !there) return "create() succeeded and there is no segment";
        if (std::string left = place_.half_made(there); !left.empty()) return left;
        if (!there) create();
        return whole();
    }

    fault_place place_{std::get<0>(GetParam())};
};

std::string raw_is_whole(const std::string& uri) {
    const segment writer = segment::attach(uri, access::read_write);
    return writer.writable() ? pattern_fault(writer) : "the next writer cannot write";
}

TEST_P(FailingCall, InCreationLeavesNothingOrAWholeSegment) {
    const auto create = [&] { (void)create_pattern(place_.uri_to_create(), 1, {}, 4096); };
    fail_each(
        "create", [&] { place_.clear(); }, create,
        [&](bool succeeded) { return judge_creation(succeeded, [&] { return raw_is_whole(place_.uri()); }, create); });
}

TEST_P(FailingCall, InAttachingLeavesTheSegmentWhole) {
    for (const auto mode : {access::read_write, access::read_only})
        fail_each(
            mode == access::read_write ? "attach for writing" : "attach for reading", [&] { make_raw(); },
            [&] { (void)segment::attach(place_.uri(), mode); }, [&](bool) { return raw_is_whole(place_.uri()); });
}

TEST_P(FailingCall, InRemovingLeavesNothingOrAWholeSegment) {
    if (!place_.named()) return;  // it goes with its last user
    fail_each(
        "remove", [&] { make_raw(); }, [&] { segment::remove(place_.uri()); },
        [&](bool succeeded) -> std::string {
            bool there = false;
            std::string fault = nothing_or_whole(place_.uri(), there);
            if (succeeded && there) return "remove() succeeded and the segment is there";
            if (there) segment::remove(place_.uri());
            if (!fault.empty()) return fault;
            make_raw();  // whatever was left of the companions is in nobody's way
            return raw_is_whole(place_.uri());
        });
}

// ---- a container with registered readers: the peers file is part of all that is made and attached to

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
const std::string ring_messages[] = {"one", "two", "three"};

broadcast_writer make_ring(const std::string& uri) {
    broadcast_options options;
    options.capacity_bytes = 4096;
    options.registered_readers = 2;
    broadcast_writer writer = broadcast_writer::create(uri, options);
    for (const std::string& text : ring_messages) (void)writer.publish(bytes_of(text));
    return writer;
}

// "" where the ring has its messages, if it had any, and takes a writer and as many readers as it was made for.
std::string ring_is_whole(const std::string& uri) {
    broadcast_reader reader = broadcast_reader::attach(uri);
    if (!reader.verify().empty()) return "the ring is damaged";
    std::vector<std::byte> message;
    std::uint64_t read = 0;
    for (; reader.read(message); ++read)
        if (read >= std::size(ring_messages) || !std::ranges::equal(message, bytes_of(ring_messages[read])))
            return "another message";
    if (read != 0 && read != std::size(ring_messages)) return "a message is missing";
    broadcast_writer writer = broadcast_writer::attach(uri);
    const broadcast_registration latest{.start = broadcast_start::latest()};
    broadcast_reliable_reader first = broadcast_reliable_reader::attach(uri, latest);
    broadcast_reliable_reader second = broadcast_reliable_reader::attach(uri, latest);
    if (!writer.publish(bytes_of("next"))) return "the next writer cannot publish";
    return reader.read(message) && first.read(message) && second.read(message) ? ""
                                                                               : "a reader misses the next message";
}

TEST_P(FailingCall, InCreationOfARingWithReadersLeavesNothingOrAWholeRing) {
    const auto create = [&] { (void)make_ring(place_.uri_to_create()); };
    fail_each(
        "create a ring", [&] { place_.clear(); }, create,
        [&](bool succeeded) { return judge_creation(succeeded, [&] { return ring_is_whole(place_.uri()); }, create); });
}

TEST_P(FailingCall, InJoiningARingLeavesItWholeAndItsPlacesFree) {
    const auto make = [&] {
        place_.clear();
        const broadcast_writer made = make_ring(place_.uri_to_create());
        place_.keep(made.segment());
    };
    const auto whole = [&](bool) { return ring_is_whole(place_.uri()); };
    fail_each("attach a ring's writer", make, [&] { (void)broadcast_writer::attach(place_.uri()); }, whole);
    fail_each("attach a ring's reader", make, [&] { (void)broadcast_reader::attach(place_.uri()); }, whole);
    fail_each("register a ring's reader", make, [&] { (void)broadcast_reliable_reader::attach(place_.uri()); }, whole);
    if (!place_.named()) return;
    // A creator that was killed before it came to them: the next writer makes the companions.
    const auto bare = [&] {
        make();
        const auto where = holdfast::detail::places_of(memory::uri::parse(place_.uri()));
        for (const std::string& path : {where.lease(), where.peers()}) ::unlink(path.c_str());
    };
    fail_each("attach a bare ring's writer", bare, [&] { (void)broadcast_writer::attach(place_.uri()); }, whole);
}

// ---- a reader of each kind of container

class FailingAttach : public FailingCalls, public ::testing::WithParamInterface<held_subject> {
 protected:
    void SetUp() override {
        if (sanitized) GTEST_SKIP() << needs_no_sanitizer;
    }
};

TEST_P(FailingAttach, LeavesTheContainerAsItWasAndTheNextReaderReadsIt) {
    const unique_directory disk("faults");
    const std::string uri = disk.file_uri("s");
    GetParam().make(uri);
    const std::uint64_t sound = GetParam().open(uri)->look();
    for (const fault& how : {fault{EIO, fault_span::once}, fault{ENOMEM, fault_span::for_good}})
        fail_each(
            std::string("attach ") + GetParam().name, uri, how, [] {}, [&] { (void)GetParam().open(uri); },
            [&](bool) -> std::string {
                const std::unique_ptr<held_reader> next = GetParam().open(uri);
                return next->look() == sound && !next->fault() ? "" : "the next reader reads something else";
            });
}

INSTANTIATE_TEST_SUITE_P(Kinds, FailingAttach, ::testing::ValuesIn(held_subjects),
                         [](const auto& subject) { return std::string(subject.param.name); });

// An interrupted call is repeated, so nothing at all may fail.
TEST_F(SegmentInterruption, EachCallInterruptedOnceIsRepeated) {
    if (!can_trace() || !can_fail_system_calls) GTEST_SKIP() << "needs: ptrace on x86-64";
    const std::string uri = disk_.file_uri("s");
    const auto interruptible = [](long number) {
        return number == SYS_openat || number == SYS_fallocate || number == SYS_fcntl || number == SYS_pread64;
    };
    const step_report report = fail_each_system_call(
        EINTR, fault_span::once,
        [&] {
            for (const std::string& entry : disk_.entries()) ::unlink(disk_.file(entry).c_str());
        },
        [&] {
            return outcome_of(
                [&] {
                    {
                        (void)create_pattern(uri, 1, {}, 4096);
                    }
                    (void)segment::attach(uri, access::read_write);
                    segment::remove(uri);
                },
                uri);
        },
        interruptible,
        [&](const faulted_run& run) -> std::string {
            if (!run.uncaught.empty()) return run.uncaught;
            return run.result == 0 ? "" : "an interruption was taken for a failure";
        });
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.steps, 10U);
}

std::string fault_name(const ::testing::TestParamInfo<std::tuple<std::string, fault>>& value) {
    const auto& [kind, how] = value.param;
    return kind + "_errno_" + std::to_string(how.error) + "_" + name_of(how.span);
}
INSTANTIATE_TEST_SUITE_P(
    Errno, FailingCall,
    ::testing::Combine(::testing::Values("file"),
                       ::testing::Values(fault{EIO, fault_span::once}, fault{ENOMEM, fault_span::once},
                                         fault{EMFILE, fault_span::once}, fault{ENOSPC, fault_span::once},
                                         fault{EACCES, fault_span::once}, fault{EIO, fault_span::for_good},
                                         fault{ENOSPC, fault_span::for_good})),
    fault_name);
INSTANTIATE_TEST_SUITE_P(Memory, FailingCall,
                         ::testing::Combine(::testing::Values("posix", "sysv", "memfd"),
                                            ::testing::Values(fault{EIO, fault_span::once},
                                                              fault{ENOMEM, fault_span::for_good})),
                         fault_name);

}  // namespace
