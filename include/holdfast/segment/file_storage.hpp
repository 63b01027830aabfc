// SPDX-License-Identifier: Apache-2.0
// file_storage.hpp - segments in named files (posix:, file:) and in sealed anonymous ones (memfd:, anon:).
//
// Creation of a named segment, and what a kill after each step leaves:
//   1. lease taken: the existing file's, or a fresh one that has no name yet      nothing new has a name
//   2. data built in a file without a name, pages reserved, header and body written   nothing
//   3. data linked to NAME (the commit point: a second creator loses here)         a whole segment; the next writer
//   makes the companions
//   4. lease linked to NAME.lease                                                   the same
//   5. peers linked to NAME.peers                                                   the same, complete
#pragma once

#include <sys/mman.h>
#include <sys/vfs.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "holdfast/detail/spans.hpp"
#include "holdfast/memory/shared_file.hpp"
#include "holdfast/memory/space.hpp"
#include "holdfast/segment/lease.hpp"
#include "holdfast/segment/peers_file.hpp"
#include "holdfast/segment/storage.hpp"

namespace holdfast::detail {

[[nodiscard]] inline bool name_taken(const std::string& path, const std::string& subject) {
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) return false;
    if (!S_ISREG(status.st_mode))
        throw error(errc::unsafe_file, subject,
                    path + " is a symbolic link or not a plain file; remove it or choose another name");
    return true;
}

[[noreturn]] inline void throw_already_exists(const std::string& subject) {
    throw error(errc::already_exists, subject, "the name is taken; attach to it, or remove it first (holdfast rm)");
}

/// The existing lease of a name without data, if there is one. While another creator holds it, waits for its data to
/// appear.
[[nodiscard]] inline std::optional<memory::descriptor> lease_for_creation(const making& job, const places& where) {
    constexpr std::uint64_t creation_ns = 200'000'000;
    const std::uint64_t begin = monotonic_ns();
    for (;;) {
        if (name_taken(where.data(), job.subject)) throw_already_exists(job.subject);
        try {
            return take_existing_lease(where, job.spec.policy, trust_of_creator(job.options), 1'000'000, job.subject);
        } catch (const error& failure) {
            if (failure.reason() != errc::writer_alive || monotonic_ns() - begin > creation_ns) throw;
        }
    }
}

[[nodiscard]] inline bool lies_in_memory(int fd) noexcept {
    constexpr auto tmpfs_magic = 0x01021994L;  // statfs(2)
    struct statfs status{};
    return ::fstatfs(fd, &status) == 0 && status.f_type == tmpfs_magic;
}

/// Huge page file systems round lengths to 2 MiB, which header, mapping and file size here do not. Throws: unsupported.
inline void refuse_huge_file_system(int fd, const std::string& subject) {
    constexpr auto hugetlbfs_magic = 0x958458f6L;  // statfs(2)
    struct statfs status{};
    if (::fstatfs(fd, &status) == 0 && status.f_type == hugetlbfs_magic)
        throw error(errc::unsupported, subject,
                    "files on hugetlbfs are not supported; use sysv+huge:, or ask for huge pages of posix: memory");
}

/// Reserves, maps and fills the file of a new segment.
[[nodiscard]] inline memory::mapping build_in_file(const making& job, int fd) {
    memory::set_ownership(fd, job.rights(), job.subject);
    refuse_huge_file_system(fd, job.subject);
    if (lies_in_memory(fd)) memory::check_memory_limit(job.info.total_bytes, job.subject);
    memory::reserve_file(fd, job.info.total_bytes, job.subject);
    memory::mapping map = memory::mapping::of_file(fd, job.info.total_bytes, true, job.subject);
    memory::apply(job.options.pages, map.data(), map.bytes(), true, job.subject);
    fill(job, map);
    return map;
}

/// The creator's lease gets its name. A writer that attached after the data was linked may have made one first: then it
/// owns the segment, unless it goes at once. Throws: writer_alive; the segment stays, whole.
[[nodiscard]] inline memory::descriptor settle_lease(const making& job, const places& where,
                                                     std::optional<memory::descriptor> held,
                                                     std::optional<memory::unpublished_file> fresh) {
    constexpr std::uint64_t patience_ns = 200'000'000;
    if (held) return std::move(*held);
    if (fresh->publish(where.lease_name, job.subject)) return fresh->release();
    return take_lease(where, job.spec.policy, trust_of_creator(job.options), patience_ns, job.rights(), job.subject);
}

[[nodiscard]] inline storage create_file(const making& job) {
    const places where = places_of(job.name);
    storage result;
    std::optional<memory::descriptor> held = lease_for_creation(job, where);
    std::optional<memory::unpublished_file> fresh;
    if (held)
        give_lease_rights(held->get(), job.rights(), job.subject);
    else
        fresh.emplace(make_lease(where, job.spec.policy, job.rights(), job.subject));

    memory::unpublished_file data = memory::unpublished_file::make(where.directory, where.data_name, job.subject);
    result.map = build_in_file(job, data.fd());
    if (!data.publish(where.data_name, job.subject)) {
        (void)name_taken(where.data(), job.subject);
        throw_already_exists(job.subject);
    }
    if (::fstat(data.fd(), &result.file) != 0) memory::throw_errno(errno, job.subject, "examining the new file");
    const bool lease_was_there = held.has_value();
    result.lease = settle_lease(job, where, std::move(held), std::move(fresh));
    try {
        ensure_peers(where, result.lease.get(), job.spec.policy, job.info.identity, job.info.peer_slots,
                     job.peers_rights(), trust_of_creator(job.options), job.subject);
    } catch (...) {  // no room, or a name planted: what creates nothing leaves nothing
        // Of many writers another may be in it by now, who shares the lease: then the segment is his, and stays whole.
        const bool alone = job.spec.policy == writers::one ||
                           memory::try_lock(result.lease.get(), memory::lock_mode::exclusive, lease_byte);
        if (alone && memory::still_named(where.data(), data.fd())) ::unlink(where.data().c_str());
        // Last, as in removal: until here the lock keeps other writers out.
        if (alone && !lease_was_there && memory::still_named(where.lease(), result.lease.get()))
            ::unlink(where.lease().c_str());
        throw;
    }
    return result;
}

/// Whether this process may give files of its own to that group. What a user namespace shows of groups that it does
/// not know is none.
[[nodiscard]] inline bool is_of_group(gid_t group) noexcept {
    constexpr gid_t unknown = 65534;  // user_namespaces(7), overflowgid
    return group == ::getegid() || (group != unknown && ::group_member(group) != 0);
}

/// What companions get that somebody else than the creator makes.
[[nodiscard]] inline memory::ownership rights_of(const struct stat& status) noexcept {
    const mode_t mode = status.st_mode & 0777;
    if (::geteuid() == 0) return {mode, status.st_uid, status.st_gid};
    // A successor under another user than the owner cannot give its files away; then it makes them its own. To a group
    // only its members can.
    return {mode, std::nullopt, is_of_group(status.st_gid) ? std::optional(status.st_gid) : std::nullopt};
}

/// Attaches to a named file. Returns the storage and a validated private copy of the header.
[[nodiscard]] inline std::pair<storage, layout::segment_header> attach_file(const memory::uri& name, access mode,
                                                                            const attach_options& options,
                                                                            const std::string& subject) {
    const places where = places_of(name);
    const bool write = mode == access::read_write;
    for (int tries = 0; tries < 100; ++tries) {
        storage result;
        const memory::descriptor file =
            memory::open_trusted(where.data(), write ? O_RDWR : O_RDONLY, options.trust, subject);
        if (!file)
            throw error(errc::not_found, subject, "no such segment; create it first, or check the name (holdfast ls)");
        refuse_huge_file_system(file.get(), subject);
        const layout::segment_header header = read_header(file.get(), subject);
        if (::fstat(file.get(), &result.file) != 0) memory::throw_errno(errno, subject, "examining the file");
        if (write) {
            const memory::ownership rights = rights_of(result.file);
            result.lease = take_lease(where, static_cast<writers>(header.policy), options.trust,
                                      ns_of(options.lease_timeout), rights, subject);
            if (!memory::still_named(where.data(), file.get()))
                continue;  // removed or replaced while we waited for the lease
            memory::ownership peers_rights = rights;
            peers_rights.mode = memory::writers_mode(rights.mode);
            ensure_peers(where, result.lease.get(), static_cast<writers>(header.policy), header.identity,
                         header.peer_slots, peers_rights, options.trust, subject);
        }
        result.map = memory::mapping::of_file(file.get(), header.total_bytes, write, subject);
        return {std::move(result), header};
    }
    throw error(errc::io, subject, "the segment is replaced without end; stop whatever does that");
}

[[nodiscard]] inline memory::descriptor make_memfd(const char* label, const std::string& subject) {
    memory::descriptor file(::memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!file) memory::throw_errno(errno, subject, "memfd_create");
    return file;
}

/// Fixes the size for ever: nobody can cut the file off under a mapping.
inline void seal(int fd, const std::string& subject) {
    if (::fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        memory::throw_errno(errno, subject, "sealing the memory");
}

/// A description of our own of a descriptor that was inherited or received: locks must not be shared with its giver.
[[nodiscard]] inline memory::descriptor reopen(int fd, int flags, const std::string& subject) {
    memory::descriptor own = memory::open_at(AT_FDCWD, memory::proc_path(fd).c_str(), flags);
    if (!own)
        memory::throw_errno(errno, subject, "opening descriptor " + std::to_string(fd) + " anew",
                            "pass an open descriptor of the segment");
    return own;
}

[[nodiscard]] inline memory::descriptor duplicate(int fd, const std::string& subject) {
    memory::descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!copy) memory::throw_errno(errno, subject, "duplicating descriptor " + std::to_string(fd));
    return copy;
}

[[nodiscard]] inline storage create_memfd(const making& job) {
    storage result;
    memory::descriptor data = make_memfd("holdfast", job.subject);
    result.map = build_in_file(job, data.get());
    seal(data.get(), job.subject);
    memory::descriptor lease = make_memfd("holdfast.lease", job.subject);
    memory::ownership lease_rights = job.rights();
    lease_rights.mode = memory::writers_mode(job.options.mode);
    memory::set_ownership(lease.get(), lease_rights, job.subject);
    if (!memory::try_lock(lease.get(), lease_mode(job.spec.policy), lease_byte))
        memory::throw_errno(errno, job.subject, "locking the lease");
    if (job.info.peer_slots != 0) {
        result.peers = make_memfd("holdfast.peers", job.subject);
        memory::set_ownership(result.peers.get(), job.peers_rights(), job.subject);
        fill_peers(result.peers.get(), job.info.identity, job.info.peer_slots, job.subject);
        seal(result.peers.get(), job.subject);
    }
    result.lease_to_pass = reopen(lease.get(), O_RDWR, job.subject);
    result.lease = std::move(lease);
    result.data = std::move(data);
    return result;
}

/// Attaches to inherited or received descriptors. The data must be sealed against truncation.
[[nodiscard]] inline std::pair<storage, layout::segment_header> attach_memfd(const segment_descriptors& given,
                                                                             access mode, const attach_options& options,
                                                                             const std::string& subject) {
    const bool write = mode == access::read_write;
    const int seals = ::fcntl(given.data, F_GET_SEALS);
    if (seals < 0)
        memory::throw_errno(errno, subject, "asking for the seals", "pass the descriptor of a memfd: or anon: segment");
    if ((seals & F_SEAL_SHRINK) == 0)
        throw error(errc::unsafe_file, subject,
                    "the memory is not sealed against truncation; create it as memfd: or anon: segment");
    const layout::segment_header header = read_header(given.data, subject);
    storage result;
    if (write) {
        if (given.lease < 0)
            throw error(errc::no_permission, subject,
                        "no lease descriptor was given, so this process may only read; attach read-only");
        result.lease = reopen(given.lease, O_RDWR, subject);
        if (!lock_within(result.lease.get(), lease_mode(static_cast<writers>(header.policy)),
                         ns_of(options.lease_timeout), subject))
            throw_writer_alive(subject);
    }
    result.map = memory::mapping::of_file(given.data, header.total_bytes, write, subject);
    result.data = duplicate(given.data, subject);
    if (given.lease >= 0) result.lease_to_pass = duplicate(given.lease, subject);
    if (given.peers >= 0) result.peers = duplicate(given.peers, subject);
    return {std::move(result), header};
}

}  // namespace holdfast::detail
