// SPDX-License-Identifier: Apache-2.0
#include "serve/rights.hpp"

#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "holdfast/segment.hpp"

namespace holdfast::serve {

namespace {

[[nodiscard]] bool holds(mode_t mode, unsigned shift, wish what) noexcept {
    const auto bits = static_cast<unsigned>(what);
    return ((mode >> shift) & bits) == bits;
}

}  // namespace

// As the kernel decides: the first class that one belongs to counts, not the kindest (path_resolution(7), shmget(2)).
bool segment_rights::step::allows(const net::peer& who, wish what) const {
    if (who.user == 0) return true;
    if (who.user == owner || who.user == creator) return holds(mode, 6, what);
    if (listed) return false;  // (I1)
    const auto is_in = [&](gid_t wanted) {
        return who.group == wanted || std::ranges::find(who.groups, wanted) != who.groups.end();
    };
    return holds(mode, is_in(group) || is_in(creators_group) ? 3 : 0, what);
}

bool segment_rights::step::allows_everybody(wish what) const { return !listed && holds(mode, 0, what); }

std::optional<segment_rights::step> segment_rights::look_at(const char* path, bool follow) {
    struct stat status{};
    if ((follow ? ::stat(path, &status) : ::lstat(path, &status)) != 0) return std::nullopt;
    const bool listed = ::lgetxattr(path, "system.posix_acl_access", nullptr, 0) > 0;
    return step{status.st_uid, status.st_uid, status.st_gid, status.st_gid, status.st_mode, listed};
}

void segment_rights::look_at_the_way(const memory::uri& name) {
    const std::unique_ptr<char, void (*)(void*)> folder(::realpath(name.directory().c_str(), nullptr), &std::free);
    if (!folder) return segment_.reset();
    for (std::string each = folder.get();; each.resize(each.rfind('/'))) {
        const std::optional<step> found = look_at(each.empty() ? "/" : each.c_str(), true);
        if (!found) return segment_.reset();
        way_.push_back(*found);
        if (each.empty() || each == "/") return;
    }
}

segment_rights segment_rights::of(const memory::uri& name) {
    segment_rights result;
    if (name.is_sysv()) {
        struct shmid_ds status{};
        const int id = detail::find_system_v(name);
        if (id < 0 || ::shmctl(id, IPC_STAT, &status) != 0) return result;
        const struct ipc_perm& p = status.shm_perm;
        result.segment_ = step{p.uid, p.cuid, p.gid, p.cgid, p.mode, false};
        return result;
    }
    if (!name.is_path()) return result;
    result.segment_ = look_at(detail::places_of(name).data().c_str(), false);
    if (result.segment_ && name.kind == memory::kind::file) result.look_at_the_way(name);
    return result;
}

bool segment_rights::allow(const net::peer& who, wish what) const {
    return segment_ && segment_->allows(who, what) &&
           std::ranges::all_of(way_, [&](const step& each) { return each.allows(who, wish::pass); });
}

bool segment_rights::allow_everybody(wish what) const {
    return segment_ && segment_->allows_everybody(what) &&
           std::ranges::all_of(way_, [](const step& each) { return each.allows_everybody(wish::pass); });
}

}  // namespace holdfast::serve
