// SPDX-License-Identifier: Apache-2.0
#include "workload/broadcast_suite.hpp"

#include <string>
#include <utility>

#include "workload/broadcast_own.hpp"
#include "workload/channel_runs.hpp"

namespace holdfast::workload {

namespace {

constexpr std::uint64_t small_ring = 256 << 10, large_ring = 4 << 20;
constexpr std::string_view ours = "holdfast";
[[nodiscard]] published_figure published() {
    return {"ring of one writer and many readers in shared memory", 15e6, "reads/s",
            "C++ library for containers in shared memory, its description of the ring of one writer and many readers; "
            "another machine"};
}

template <std::size_t Bytes>
using pipe_stream = kernel_stream<Bytes, false>;
template <std::size_t Bytes>
using socket_stream = kernel_stream<Bytes, true>;

class broadcast_run {
 public:
    broadcast_run(const std::vector<channel_kind>& kinds, const two_cores& cores, recorder& to)
        : runs_("broadcast", kinds, cores, to), to_(to) {}

    void run() {
        keeping_up("64 bytes one by one, ring of 4 MiB", channel_loop::stream, 64, 1);
        keeping_up("64 bytes in batches of 32, ring of 4 MiB", channel_loop::stream, 64, 32);
        keeping_up("1 KiB in batches of 16, copied in and copied out, ring of 4 MiB", channel_loop::stream, 1024, 16);
        keeping_up("1 KiB in batches of 16, copied in and added up, in place by who can, ring of 4 MiB",
                   channel_loop::add_up, 1024, 16);
        round_trips();
        flat_out();
    }

 private:
    [[nodiscard]] static bool is_peer(const channel_kind& kind) { return !kind.yardstick; }

    void keeping_up(const std::string& name, channel_loop loop, std::size_t bytes, std::size_t batch) {
        channel_plan plan{.name = name + ", a reader that keeps up",
                          .loop = loop,
                          .message_bytes = bytes,
                          .batch = batch,
                          .ring_bytes = large_ring};
        if (bytes == 64) plan.published = {published()};
        const auto found = runs_.run(plan, ours);
        if (!found) return;
        to_.note(best_peer_text(name, *found, 0, found->fastest(is_peer), 2, "the ways to readers that are here"));
    }

    void round_trips() {
        const std::string name = "8 bytes there and back";
        const auto found =
            runs_.run({.name = name, .loop = channel_loop::echo, .message_bytes = 8, .ring_bytes = small_ring}, ours);
        if (!found) return;
        to_.note(round_trip_text(name, *found));
        to_.note(best_peer_text(name, *found, 0, found->fastest(is_peer), 2, "the ways to readers that are here"));
    }

    /// The loops throw when a count of losses and the numbers on the messages disagree; so what comes here is exact.
    void flat_out() {
        const std::string name = "publish 64 bytes at full speed, whatever the reader has lost, ring of 256 KiB";
        const auto found = runs_.run({.name = name, .loop = channel_loop::publish, .ring_bytes = small_ring}, ours);
        if (!found) return;
        for (std::size_t i = 0; i < found->kinds.size(); ++i)
            to_.note((i == 0 ? "target: losses counted exactly: " : "") + found->kinds[i]->name + " counted " +
                     std::to_string(found->lost[i]) + " of " + std::to_string(found->sent[i]) +
                     " messages as lost, which is what their numbers say" + (i == 0 ? verdict(true) : ""));
    }

    channel_runs runs_;
    recorder& to_;
};

}  // namespace

std::vector<channel_kind> own_broadcast_kinds() {
    return {channel_kind_of<own_broadcast>(false), channel_kind_of<pipe_stream>(false),
            channel_kind_of<socket_stream>(false), channel_kind_of<locked_ring>(false)};
}

suite broadcast_suite(std::vector<channel_kind> kinds) {
    suite s;
    s.name = "broadcast";
    s.description = "messages of 8 bytes to 1 KiB from a writer that never waits to a reader in another process";
    s.run = [kinds = std::move(kinds)](recorder& to) {
        for (const channel_kind& kind : kinds)
            if (!kind.name.starts_with("holdfast, ")) to.version(kind.name, kind.version);  // forms of one
        const two_cores cores = pick_two_cores();
        if (!cores.there) return to.skip("all of it", "it takes two processors, and this process may use one");
        broadcast_run(kinds, cores, to).run();
    };
    return s;
}

}  // namespace holdfast::workload
