// SPDX-License-Identifier: Apache-2.0
// types.hpp - what is said when a segment is made or attached, and what is known of one.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "holdfast/layout/segment_header.hpp"
#include "holdfast/memory/page_policy.hpp"
#include "holdfast/memory/shared_file.hpp"

namespace holdfast {

/// What a mapping may do. read_write takes the lease.
enum class access : std::uint8_t { read_only, read_write };

/// What a container asks of a new segment.
struct segment_spec {
    container_kind kind = container_kind::raw;
    std::uint32_t container_version = 1;  ///< layout version of the body
    writers policy = writers::one;
    std::string schema;         ///< canonical schema text, at most schema_bytes_max bytes
    geometry_array geometry{};  ///< the container's own numbers, immutable once published
    std::uint64_t body_bytes = 0;
    std::uint32_t peer_slots = 0;  ///< slots for registered readers; 0 = no companion for them
};

/// Rights and pages of a new segment. The mode is set explicitly; the umask plays no part.
struct create_options {
    mode_t mode = 0600;
    std::optional<uid_t> owner;
    std::optional<gid_t> group;
    /// Mode of NAME.peers, which registered readers write. Default: whoever may write the segment.
    std::optional<mode_t> peers_mode;
    memory::page_policy pages;
};

/// Whose companions a creator believes: those that it, or one before it, gave to the owner that it works for, too.
[[nodiscard]] inline memory::trust trust_of_creator(const create_options& options) noexcept {
    return {.any_owner = false, .owner = options.owner};
}

struct attach_options {
    memory::trust trust{};  ///< whose segments are accepted beside one's own and root's
    /// How long read_write waits for a dying holder; 0: refuses at once.
    std::chrono::nanoseconds lease_timeout{};
    memory::page_policy pages{};
};

/// The private, validated copy of a segment's header.
struct segment_info {
    std::string uri;
    container_kind kind = container_kind::raw;
    std::uint32_t container_version = 0;
    writers policy = writers::one;
    std::string schema;
    geometry_array geometry{};
    std::uint64_t total_bytes = 0;
    std::uint64_t body_bytes = 0;
    std::uint64_t created_ns = 0;  ///< nanoseconds since the Unix epoch
    identity_array identity{};
    std::uint32_t peer_slots = 0;
};

/// Descriptors of a memfd: or anon: segment, to be inherited or passed; -1 where there is none.
struct segment_descriptors {
    int data = -1;
    int lease = -1;  ///< give it to writers only
    int peers = -1;  ///< give it to registered readers only
};

}  // namespace holdfast
