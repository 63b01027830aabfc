// SPDX-License-Identifier: Apache-2.0
// latency_histogram.hpp - latencies of many processes in one place: recorded in about a nanosecond, exact in number,
// read by anyone, kept when every writer is dead.
//
//   auto histogram = holdfast::latency_histogram::create("latency", {.shards = 64});   // once
//   holdfast::latency_recorder recorder = histogram.make_recorder();                   // once a thread
//   recorder.record(elapsed_ns);                                                       // often
//   holdfast::latency_histogram_reader::attach("latency").merged().quantile(0.99)      // anywhere
//
// 1 ns to 18 minutes in buckets at most 1/64 wide (log_linear.hpp), 9 KiB a shard. Each recorder writes a shard of its
// own with plain stores; when all are taken it shares the last one by atomic additions, which is right and about 3
// times slower.
// Threads: a recorder belongs to one thread; everything else may run together in any process.
// Crash:   no finished record is lost. A shard is claimed by a lock that the kernel frees with its holder (peers.hpp),
//          and the next owner counts on. Only `heap:` memory, which ends with its process, uses a word for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/layout/latency_histogram_layout.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "holdfast/metrics/histogram_counts.hpp"
#include "holdfast/metrics/latency_shards.hpp"
#include "holdfast/metrics/log_linear.hpp"
#include "holdfast/metrics/recorder_lines.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

namespace detail {

inline constexpr std::uint32_t latency_histogram_version = 2;

[[nodiscard]] inline latency_shards latency_shards_of(const segment& memory, std::span<std::byte> body) {
    memory.require(container_kind::latency_histogram, latency_histogram_version);
    const geometry_array& geometry = memory.info().geometry;
    if (geometry[1] != sizeof(layout::latency_shard) || geometry[2] != log_linear::sub_bucket_bits ||
        geometry[3] != log_linear::exponent_max)
        throw error(errc::geometry_mismatch, memory.uri(),
                    "buckets of another shape than this library's; use the version that made the segment");
    return {body, geometry[0], memory.uri()};
}

/// What the recorders of one handle share: the mapping, and who of them has which shard.
class latency_claims {
 public:
    explicit latency_claims(holdfast::segment memory, const memory::trust& whom)
        : memory_(std::move(memory)), shards_(latency_shards_of(memory_, memory_.body())) {
        if (memory_.name().kind == memory::kind::heap) return;
        if (memory_.info().peer_slots != shards_.owned())
            throw error(errc::geometry_mismatch, memory_.uri(),
                        "locks and shards differ in number; make the segment anew");
        peers_.emplace(peers::open(memory_, whom));
    }

    /// A line for one recorder: with a shard of its own, or with the shared one alone when all others are taken.
    /// Throws: no_space, unsupported, bad_alloc.
    [[nodiscard]] recorder_line* claim() {
        const std::lock_guard hold(mutex_);
        recorder_line* const line = lines_.take({}, memory_.uri());
        std::size_t shard = 0;
        if (peers_)
            shard = peers_->claim().value_or(static_cast<std::uint32_t>(shards_.owned()));
        else
            while (shard < shards_.owned() && !shards_.claim(shard)) ++shard;
        *line = shards_.line(shard);
        return line;
    }

    void give_back(recorder_line* line) noexcept {
        const std::lock_guard hold(mutex_);
        if (line->shard != nullptr) {
            const auto shard = static_cast<std::size_t>(line->shard - &shards_[0]);
            if (peers_)
                peers_->release(static_cast<std::uint32_t>(shard));
            else
                shards_.give_back(shard);
        }
        lines_.give_back(line);
    }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return memory_; }
    [[nodiscard]] const latency_shards& shards() const noexcept { return shards_; }

 private:
    holdfast::segment memory_;
    latency_shards shards_;
    std::mutex mutex_;  // peers and lines are for one thread at a time; claims are rare
    std::optional<peers> peers_;
    recorder_lines lines_;
};

}  // namespace detail

/// Records latencies; move-only, gives its shard back on destruction.
class latency_recorder {
 public:
    latency_recorder(latency_recorder&& other) noexcept : claims_(std::move(other.claims_)), line_(other.line_) {}
    latency_recorder& operator=(latency_recorder&& other) noexcept {
        if (this == &other) return *this;
        // The old shard is given back now, not by whoever has it next.
        std::destroy_at(this);
        std::construct_at(this, std::move(other));
        return *this;
    }
    ~latency_recorder() {
        // In a forked child the line is the parent's, and so is the lock: neither is ours to give back.
        if (claims_ && claims_->segment().writable()) claims_->give_back(line_);
    }

    /// Counts one latency. Wait-free, 1 to 2 ns; in a forked child it does nothing: attach there.
    void record(std::uint64_t value_ns) noexcept { detail::record_value(*line_, value_ns); }

    /// Whether all shards were taken, so that this recorder shares one.
    [[nodiscard]] bool shared() const noexcept { return line_->shard == nullptr; }

 private:
    friend class latency_histogram;
    explicit latency_recorder(std::shared_ptr<detail::latency_claims> claims)
        : claims_(std::move(claims)), line_(claims_->claim()) {}

    std::shared_ptr<detail::latency_claims> claims_;
    detail::recorder_line* line_;
};

struct latency_histogram_options {
    std::uint32_t shards = 64;  ///< recorders that write at full speed at the same time, 1 to 4095; 9 KiB each
    create_options segment{};
};

/// The handle from which recorders come.
class latency_histogram {
 public:
    /// Makes a histogram. Throws: what segment::create throws; invalid_argument for a number of shards outside 1 to
    /// 4095.
    [[nodiscard]] static latency_histogram create(std::string_view uri, const latency_histogram_options& options = {}) {
        if (options.shards == 0 || options.shards >= layout::latency_shards_max)
            throw error(errc::invalid_argument, std::string(uri), "a latency histogram has 1 to 4095 shards");
        segment_spec spec;
        spec.kind = container_kind::latency_histogram;
        spec.container_version = detail::latency_histogram_version;
        spec.policy = writers::many;
        spec.geometry[0] = options.shards + 1;  // and the shared one
        spec.geometry[1] = sizeof(layout::latency_shard);
        spec.geometry[2] = log_linear::sub_bucket_bits;
        spec.geometry[3] = log_linear::exponent_max;
        spec.body_bytes = layout::latency_shard_bytes(spec.geometry[0]);
        if (memory::uri::parse(uri).kind != memory::kind::heap) spec.peer_slots = options.shards;
        // Zero bytes are empty shards: there is nothing to initialise.
        return latency_histogram(segment::create(uri, spec, options.segment, [](std::span<std::byte>) {}),
                                 trust_of_creator(options.segment));
    }

    /// Joins the writers of a histogram. Throws: what segment::attach and peers::open throw; kind_mismatch,
    /// version_mismatch, geometry_mismatch.
    [[nodiscard]] static latency_histogram attach(std::string_view uri, const attach_options& options = {}) {
        return latency_histogram(segment::attach(uri, access::read_write, options), options.trust);
    }

    /// A recorder for one thread. Threads: any. Cost: a system call for each shard that is taken already.
    [[nodiscard]] latency_recorder make_recorder() const {
        if (!segment().writable())
            throw error(errc::forked, segment().uri(), "the handle was inherited by fork; attach in this process");
        return latency_recorder(claims_);
    }

    /// All that was ever recorded, by the living and the dead. Cost: about 1 us a shard.
    [[nodiscard]] histogram_counts merged() const { return claims_->shards().merged(); }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return claims_->segment(); }

 private:
    explicit latency_histogram(holdfast::segment memory, const memory::trust& whom)
        : claims_(std::make_shared<detail::latency_claims>(std::move(memory), whom)) {}

    std::shared_ptr<detail::latency_claims> claims_;
};

/// The read-only view; needs read permission and disturbs nobody.
class latency_histogram_reader {
 public:
    /// Throws: what segment::attach throws; kind_mismatch, version_mismatch, geometry_mismatch.
    [[nodiscard]] static latency_histogram_reader attach(std::string_view uri) {
        return latency_histogram_reader(segment::attach(uri, access::read_only));
    }

    /// All that was ever recorded. Counts only grow, so two copies can be subtracted (histogram_counts::since).
    [[nodiscard]] histogram_counts merged() const { return shards_.merged(); }

    [[nodiscard]] const holdfast::segment& segment() const noexcept { return memory_; }

 private:
    explicit latency_histogram_reader(holdfast::segment memory) : memory_(std::move(memory)) {
        const std::span<const std::byte> bytes = memory_.bytes();
        // Never written through: this class only loads, and the mapping is read-only.
        shards_ = detail::latency_shards_of(memory_, {const_cast<std::byte*>(bytes.data()), bytes.size()});
    }

    holdfast::segment memory_;
    detail::latency_shards shards_;
};

}  // namespace holdfast
