// SPDX-License-Identifier: Apache-2.0
// follower.hpp - the messages of a broadcast ring or a queue, one after the other, by what the segment says of itself.
//
// A ring is read as any reader reads it, unknown to its writer. A queue is watched (queue_watch.hpp): nobody notices,
// and what its consumer takes first is missed and counted. Or it is consumed: then this is its one consumer, and a
// message is released when release() says that it was dealt with; whoever dies before gets it delivered again.
// Threads: one at a time. Whatever the bytes hold, answers stay within them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/record/schema.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::inspect {

/// Where following starts.
struct follow_start {
    enum class from : std::uint8_t { last, oldest, latest, sequence, time };
    from where = from::last;
    std::uint64_t value = 10;  ///< last: so many messages; sequence: a number; time: nanoseconds since the Unix epoch
};

struct follow_options {
    follow_start start{};
    bool consume = false;     ///< queue: take the messages as its consumer
    attach_options access{};  ///< consume: whom to trust, how long to wait for a dying consumer's place
};

/// What one step gave.
struct followed {
    outcome status = outcome::empty;  ///< ok; empty; lapped (count: messages lost); corrupt
    std::uint16_t type = 0;
    bool restarted = false;  ///< ring: a writer took it over since the last message
    std::uint64_t count = 0;
    std::uint64_t sequence = 0;  ///< ok: the message's number, from 1; else of the next one
};

class follower {
 public:
    /// Throws: as segment::attach; kind_mismatch for other kinds; version_, geometry_, schema_mismatch, corrupt;
    /// invalid_argument for a start that a queue does not have; writer_alive while another consumer lives (consume);
    /// no_permission and others where a queue's consumer side (NAME.peers) cannot be seen.
    [[nodiscard]] static std::unique_ptr<follower> open(std::string_view uri, const follow_options& options);
    virtual ~follower() = default;
    follower(const follower&) = delete;
    follower& operator=(const follower&) = delete;

    /// The next message into `message`, whose size becomes its own. Allocates at most the longest the ring can hold.
    [[nodiscard]] virtual followed next(std::vector<std::byte>& message) = 0;
    /// consume: gives back to the producer what next() gave. Elsewhere nothing.
    virtual void release() {}
    /// Whether no process may write any more; nothing where this user may not know. Cost: a system call or two.
    [[nodiscard]] virtual std::optional<bool> writer_gone() = 0;
    /// A number that no message there is now exceeds, and that later ones do. Throws: corrupt, contended.
    [[nodiscard]] virtual std::uint64_t newest() = 0;

    /// How the start went: ok; lapped, where it lies before the oldest message left (count: messages between, 0 where
    /// nobody knows); empty, where the number is still to come.
    [[nodiscard]] const followed& joined() const noexcept { return joined_; }
    /// What the messages are, where the segment says so. A message of another size than its bytes() is none.
    [[nodiscard]] const std::optional<record_schema>& schema() const noexcept { return schema_; }
    [[nodiscard]] const segment& memory() const noexcept { return *segment_; }
    /// errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept { return segment_->fault(); }

 protected:
    explicit follower(std::shared_ptr<const segment> from);
    /// Takes the padding of an element's slot away.
    void trim(const layout::queue_geometry& geometry, std::vector<std::byte>& message) const;

    std::shared_ptr<const segment> segment_;
    std::optional<record_schema> schema_;
    followed joined_{.status = outcome::ok};
};

}  // namespace holdfast::inspect
