// SPDX-License-Identifier: Apache-2.0
// uring_files.hpp - a ring's own table of sockets ("direct descriptors"): connections that are no descriptors of the
// process, and so do not count against its limit.
//
// (F1) A socket is the table's from adopt() until remove(), and in it at one place. Operations name the place, with
//      IOSQE_FIXED_FILE.
// (F2) The kernel makes no table larger than the process's limit of descriptors, so one ring holds about that many
// more. (F3) Before Linux 6.13 what was removed stayed open until every older operation of the ring had ended, of
// whichever
//      socket: an idle connection would have kept others from being closed. So a table is made only where the kernel,
//      asked, closes at once (check_direct()).
// Source: io_uring_register(2), IORING_REGISTER_FILES2 and IORING_REGISTER_FILES_UPDATE.
#pragma once

#include <linux/io_uring.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <vector>

#include "uring_probe.hpp"
#include "uring_ring.hpp"

namespace holdfast::net {

class uring_files {
 public:
    /// At most `most` places; sockets below `from` stay descriptors (-1: as long as a quarter of the limit is left).
    uring_files(std::uint32_t most, int from) noexcept
        : most_(most), from_(from < 0 ? most_descriptors() / 4 * 3 : from) {}

    /// Whether a socket of this number is to go into the table.
    [[nodiscard]] bool wants(int fd) const noexcept { return fd >= from_ && most_ != 0; }

    /// Takes the socket into the table and closes the descriptor. Returns: its place; -1 when there is none, and the
    /// descriptor stays the caller's. The ring must be enabled, by this thread.
    [[nodiscard]] int adopt(const uring_ring& ring, int fd) noexcept {
        if (!made_ && !make(ring)) most_ = 0;
        if (free_.empty()) return -1;
        const auto place = static_cast<int>(free_.back());
        if (!put(ring, place, fd)) return -1;
        free_.pop_back();
        ::close(fd);
        return place;
    }

    /// Closes the socket at `place`. Requires: no operation on it is under way.
    void remove(const uring_ring& ring, int place) noexcept {
        if (put(ring, place, -1)) free_.push_back(static_cast<std::uint32_t>(place));  // never more than it held
    }

 private:
    static constexpr std::uint32_t places_max = 1U << 20U;

    [[nodiscard]] static int most_descriptors() noexcept {
        rlimit limit{};
        if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
        return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, places_max));
    }

    [[nodiscard]] bool make(const uring_ring& ring) noexcept {
        made_ = true;
        try {
            check_direct();
            std::vector<std::uint32_t> places(std::min(most_, static_cast<std::uint32_t>(most_descriptors())));
            io_uring_rsrc_register table{};
            table.nr = static_cast<std::uint32_t>(places.size());
            table.flags = IORING_RSRC_REGISTER_SPARSE;
            if (ring.configure(IORING_REGISTER_FILES2, &table, sizeof table) < 0) return false;
            std::iota(places.rbegin(), places.rend(), 0U);
            free_ = std::move(places);
        } catch (const std::exception&) {  // connections stay descriptors
            return false;
        }
        return true;
    }

    [[nodiscard]] static bool put(const uring_ring& ring, int place, int fd) noexcept {
        io_uring_files_update update{};
        update.offset = static_cast<std::uint32_t>(place);
        update.fds = reinterpret_cast<std::uint64_t>(&fd);
        return ring.configure(IORING_REGISTER_FILES_UPDATE, &update, 1) == 1;
    }

    std::uint32_t most_;
    int from_;
    bool made_ = false;                // or tried
    std::vector<std::uint32_t> free_;  // the lowest last
};

}  // namespace holdfast::net
