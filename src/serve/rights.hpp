// SPDX-License-Identifier: Apache-2.0
// rights.hpp - what the owner and the mode of a segment let a client of this server do.
//
// Over a unix socket the kernel says who asks, and gets what it could open by itself: no more, whatever this process
// may. (I1) What cannot be judged is refused: a segment that is gone, an access control list, which the mode does not
// show.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "holdfast/memory/uri.hpp"
#include "holdfast/net/peer.hpp"

namespace holdfast::serve {

/// Bits of a mode that a client needs.
enum class wish : unsigned {
    pass = 1,  ///< through a folder
    read = 4,
    write = 6,  ///< whoever writes maps the segment for both
};

/// Owner and mode of one segment, and of the folders that lead to it; as they were when it was looked at.
class segment_rights {
 public:
    /// Nobody may do anything.
    segment_rights() = default;
    /// Cost: a system call or two, for a file: some for each folder.
    [[nodiscard]] static segment_rights of(const memory::uri& name);

    /// Whether a user of this machine may. Requires: who.way == unix_socket.
    [[nodiscard]] bool allow(const net::peer& who, wish what) const;
    /// Whether any user of this machine may.
    [[nodiscard]] bool allow_everybody(wish what) const;

    [[nodiscard]] bool operator==(const segment_rights&) const = default;

 private:
    struct step {
        uid_t owner = 0, creator = 0;  // a file has one of each
        gid_t group = 0, creators_group = 0;
        mode_t mode = 0;
        bool listed = false;  // has an access control list

        [[nodiscard]] bool operator==(const step&) const = default;
        [[nodiscard]] bool allows(const net::peer& who, wish what) const;
        [[nodiscard]] bool allows_everybody(wish what) const;
    };
    [[nodiscard]] static std::optional<step> look_at(const char* path, bool follow);
    void look_at_the_way(const memory::uri& name);

    std::optional<step> segment_;
    std::vector<step> way_;
};

/// Who asks, and so which rule holds.
struct viewer {
    /// Nothing, or not by a unix socket: a stranger.
    const net::peer* peer = nullptr;

    [[nodiscard]] bool known() const noexcept { return peer != nullptr && peer->way == net::peer_way::unix_socket; }
};

/// A client as it is kept behind its request; of a stranger there is nothing to keep.
[[nodiscard]] inline std::optional<net::peer> kept(viewer who) {
    return who.known() ? std::optional(*who.peer) : std::nullopt;
}
/// Good as long as what was kept.
[[nodiscard]] inline viewer viewer_of(const std::optional<net::peer>& who) noexcept { return {who ? &*who : nullptr}; }

}  // namespace holdfast::serve
