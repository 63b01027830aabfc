// SPDX-License-Identifier: Apache-2.0
#include "workload/queue_suite.hpp"

#include <string>
#include <utility>

#include "workload/channel_runs.hpp"
#include "workload/queue_own.hpp"

namespace holdfast::workload {

namespace {

constexpr std::uint64_t small_ring = 256 << 10, large_ring = 4 << 20;  // below and above a second-level cache
[[nodiscard]] published_figure published() {
    return {"queue of one writer and one reader in shared memory", 12e6, "writes/s",
            "C++ library for containers in shared memory, its description of the queue of one writer and one reader; "
            "another machine"};
}

template <std::size_t Bytes>
using typed_queue = own_typed_queue<Bytes, false>;
template <std::size_t Bytes>
using typed_queue_with_bell = own_typed_queue<Bytes, true>;
template <std::size_t Bytes>
using byte_queue = own_byte_queue<Bytes, false>;
template <std::size_t Bytes>
using byte_queue_with_bell = own_byte_queue<Bytes, true>;
template <std::size_t Bytes>
using pipe_stream = kernel_stream<Bytes, false>;
template <std::size_t Bytes>
using socket_stream = kernel_stream<Bytes, true>;

constexpr std::string_view typed = "holdfast, queue<T>", records = "holdfast";
constexpr const char* rivals = "queues between two threads or processes";

[[nodiscard]] bool is_spsc(const channel_kind& kind) { return kind.spsc_queue; }

class queue_run {
 public:
    queue_run(const std::vector<channel_kind>& kinds, const two_cores& cores, recorder& to)
        : runs_("queue", kinds, cores, to), to_(to) {}

    void run() {
        numbers("ring of 256 KiB", small_ring);
        numbers("ring of 4 MiB", large_ring);
        (void)runs_.run({.name = "8 bytes one by one, ring of 256 KiB",
                         .message_bytes = 8,
                         .ring_bytes = small_ring,
                         .published = {published()}},
                        typed);
        (void)runs_.run(
            {.name = "64 bytes one by one, ring of 256 KiB", .ring_bytes = small_ring, .published = {published()}},
            records);
        batches_of_64("ring of 256 KiB", small_ring, 24);
        batches_of_64("ring of 4 MiB", large_ring, 80);
        kibibytes();
        round_trips();
    }

 private:
    void numbers(const std::string& ring, std::uint64_t bytes) {
        const std::string name = "8 bytes in batches of 64, " + ring;
        const auto found = runs_.run({.name = name, .message_bytes = 8, .batch = 64, .ring_bytes = bytes}, typed);
        if (!found) return;
        to_.note(best_peer_text(name, *found, 0, found->fastest(is_spsc), 2, rivals));
        const double millions = 1e3 / median_of(found->timed.samples[0]), wanted = bytes == large_ring ? 800 : 200;
        to_.note("target: " + name + ", at least " + fixed_text(wanted, 0) +
                 " million a second: " + fixed_text(millions, 0) + verdict(millions >= wanted));
    }

    void batches_of_64(const std::string& ring, std::uint64_t bytes, double wanted) {
        const std::string name = "64 bytes in batches of 32, " + ring;
        const auto found = runs_.run({.name = name, .batch = 32, .ring_bytes = bytes}, records);
        if (!found) return;
        const double millions = 1e3 / median_of(found->timed.samples[0]);
        to_.note("target: " + name + ", at least " + fixed_text(wanted, 0) +
                 " million a second: " + fixed_text(millions, 0) + verdict(millions >= wanted));
        to_.note(best_peer_text(name + ", by queue<T>,", *found, found->place_of(typed), found->fastest(is_spsc), 2,
                                rivals));
    }

    /// Gigabytes of messages a second: each byte counts once, and both sides touch all of them.
    void kibibytes() {
        const auto time = [this](const std::string& name, channel_loop loop) {
            return runs_.run({.name = name, .loop = loop, .message_bytes = 1024, .batch = 16, .ring_bytes = large_ring},
                             records);
        };
        const auto rate = [](const channel_findings& found, std::string_view subject) {
            return 1024 / median_of(found.timed.samples[found.place_of(subject)]);
        };
        const std::string copied = "1 KiB in batches of 16, copied in and copied out, ring of 4 MiB";
        if (const auto found = time(copied, channel_loop::stream)) {
            const double ours = rate(*found, records);
            to_.note("target: " + copied + ", at least 30 GB/s: " + fixed_text(ours, 1) + verdict(ours >= 30) + ", " +
                     fixed_text(rate(*found, typed), 1) + " by queue<T>");
            beside_the_fastest(copied, *found);
        }
        const std::string added = "1 KiB in batches of 16, copied in and added up, in place by who can, ring of 4 MiB";
        if (const auto found = time(added, channel_loop::add_up)) {
            to_.note(added + ": " + fixed_text(rate(*found, records), 1) + " GB/s in place, nothing copied out, " +
                     fixed_text(rate(*found, typed), 1) + " by queue<T>");
            beside_the_fastest(added, *found);
        }
    }
    /// Both of ours: records, and elements.
    void beside_the_fastest(const std::string& name, const channel_findings& found) {
        const auto best = found.fastest(is_spsc);
        to_.note(best_peer_text(name, found, 0, best, 2, rivals));
        to_.note(best_peer_text(name + ", by queue<T>,", found, found.place_of(typed), best, 2, rivals));
    }

    void round_trips() {
        const std::string name = "8 bytes there and back";
        const auto found = runs_.run(
            {.name = name, .loop = channel_loop::echo, .message_bytes = 8, .ring_bytes = small_ring}, records);
        if (!found) return;
        to_.note(round_trip_text(name, *found));
    }

    channel_runs runs_;
    recorder& to_;
};

}  // namespace

std::vector<channel_kind> own_queue_kinds() {
    return {channel_kind_of<byte_queue>(true),           channel_kind_of<typed_queue>(true),
            channel_kind_of<byte_queue_with_bell>(true), channel_kind_of<typed_queue_with_bell>(true),
            channel_kind_of<pipe_stream>(false),         channel_kind_of<socket_stream>(false),
            channel_kind_of<locked_deque>(false)};
}

suite queue_suite(std::vector<channel_kind> kinds) {
    suite s;
    s.name = "queue";
    s.description = "messages of 8 bytes to 1 KiB from a process on one core to one on another, and there and back";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const channel_kind& kind : kinds)
            if (!kind.name.starts_with("holdfast, ")) to.version(kind.name, kind.version);  // forms of one
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("all of it", "it takes two processors, and this process may use one");
        queue_run(kinds, cores, to).run();
    };
    return s;
}

}  // namespace holdfast::workload
