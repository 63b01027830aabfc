// SPDX-License-Identifier: Apache-2.0
// system_v_storage.hpp - segments in System V shared memory, with normal pages or pages of the huge page pool.
//
// The interface has no publication step: a segment is reachable by its key as soon as it exists. So the creator holds
// the lease from before shmget() to after the magic is stored; an attacher that sees magic 0 answers not_ready; a
// creator that gains the lease and finds magic 0 knows that the maker was killed, removes the remains and goes on.
// Source: shmget(2), shmat(2), shmctl(2).
#pragma once

#include <sys/ipc.h>
#include <sys/shm.h>

#include <string>
#include <utility>

#include "holdfast/detail/spans.hpp"
#include "holdfast/memory/space.hpp"
#include "holdfast/segment/file_storage.hpp"
#include "holdfast/segment/lease.hpp"
#include "holdfast/segment/peers_file.hpp"
#include "holdfast/segment/storage.hpp"

namespace holdfast::detail {

/// The id of an existing segment, or -1.
[[nodiscard]] inline int find_system_v(const memory::uri& name) noexcept {
    return ::shmget(static_cast<key_t>(name.key), 0, 0);
}

[[nodiscard]] inline struct shmid_ds status_of(int id, const std::string& subject) {
    struct shmid_ds status{};
    if (::shmctl(id, IPC_STAT, &status) != 0) memory::throw_errno(errno, subject, "examining the System V segment");
    return status;
}

/// As of a file.
[[nodiscard]] inline memory::ownership rights_of(const struct shmid_ds& status) noexcept {
    struct stat as_a_file{};
    as_a_file.st_mode = static_cast<mode_t>(status.shm_perm.mode);
    as_a_file.st_uid = status.shm_perm.uid;
    as_a_file.st_gid = status.shm_perm.gid;
    return rights_of(as_a_file);
}

[[noreturn]] inline void throw_shmget(int number, const making& job) {
    const std::string bytes = std::to_string(job.info.total_bytes);
    if (job.name.kind == memory::kind::sysv_huge && (number == ENOMEM || number == ENOSPC))
        throw error(errc::no_huge_pages, job.subject,
                    "the pool has no free huge pages for " + bytes + " bytes; raise it (sysctl vm.nr_hugepages=" +
                        std::to_string((job.info.total_bytes + memory::huge_page_bytes - 1) / memory::huge_page_bytes) +
                        " or more), or use sysv: for normal pages");
    if (job.name.kind == memory::kind::sysv_huge && number == EPERM)
        throw error(errc::no_permission, job.subject,
                    "this user may not use huge pages; put its group into sysctl vm.hugetlb_shm_group");
    if (number == EINVAL)
        throw error(errc::no_space, job.subject,
                    bytes + " bytes exceed the largest System V segment; raise sysctl kernel.shmmax");
    if (number == ENOSPC)
        throw error(errc::no_space, job.subject,
                    "the system has no System V segment left; raise sysctl kernel.shmmni or kernel.shmall");
    memory::throw_errno(number, job.subject, "shmget");
}

/// Whether the segment was never published because its maker died. Zeroed memory under this key may as well be another
/// program's: ours was made by this user, by a maker that had put a lease file there before. Only asked while holding
/// the lease; `lease_was_there` says whether its file is an earlier maker's.
[[nodiscard]] inline bool unpublished_remains(int id, bool lease_was_there, const std::string& subject) {
    const struct shmid_ds status = status_of(id, subject);
    if (!lease_was_there || status.shm_segsz < header_bytes || status.shm_perm.cuid != ::geteuid()) return false;
    if (status.shm_nattch != 0) return false;  // a living user, and makers of ours are kept out by the lease
    const memory::mapping map = memory::mapping::of_system_v(id, status.shm_segsz, false, subject);
    return copy_header(map).magic == 0;
}

[[nodiscard]] inline bool lease_file_exists(const places& where) noexcept {
    struct stat status{};
    return ::lstat(where.lease().c_str(), &status) == 0;
}

/// Refuses to touch System V memory that is not a segment (nor what a killed maker left of one). Throws: bad_magic.
inline void require_ours_system_v(int id, const places& where, const std::string& subject) {
    const struct shmid_ds status = status_of(id, subject);
    std::uint64_t magic = ~std::uint64_t{0};
    if (status.shm_segsz >= header_bytes)
        magic = copy_header(memory::mapping::of_system_v(id, status.shm_segsz, false, subject)).magic;
    if (magic == layout::segment_magic || unpublished_remains(id, lease_file_exists(where), subject)) return;
    throw error(
        errc::bad_magic, subject,
        "this System V memory is not a Holdfast segment and is left alone; remove it with ipcrm if you mean it");
}

[[nodiscard]] inline int make_system_v(const making& job, bool lease_was_there) {
    const int huge = job.name.kind == memory::kind::sysv_huge ? SHM_HUGETLB : 0;
    for (int tries = 0; tries < 2; ++tries) {
        const int id = ::shmget(static_cast<key_t>(job.name.key), job.info.total_bytes,
                                IPC_CREAT | IPC_EXCL | huge | static_cast<int>(job.options.mode));
        if (id >= 0) return id;
        if (errno != EEXIST) throw_shmget(errno, job);
        const int existing = find_system_v(job.name);
        if (existing < 0 || !unpublished_remains(existing, lease_was_there, job.subject))
            throw_already_exists(job.subject);
        ::shmctl(existing, IPC_RMID, nullptr);
    }
    throw_already_exists(job.subject);
}

/// The lease, alone: even writers::many are made by one creator, or each would take the other's unfinished segment for
/// the remains of a dead one. While another creator holds it, waits for its segment to appear.
[[nodiscard]] inline taken_lease lease_for_system_v(const making& job, const places& where) {
    constexpr std::uint64_t creation_ns = 200'000'000;
    const std::uint64_t begin = monotonic_ns();
    for (;;) {
        try {
            return find_or_make_lease(where, writers::one, trust_of_creator(job.options), 1'000'000, job.rights(),
                                      job.subject);
        } catch (const error& failure) {
            if (failure.reason() != errc::writer_alive) throw;
            if (find_system_v(job.name) >= 0) throw_already_exists(job.subject);
            if (monotonic_ns() - begin > creation_ns) throw;
        }
    }
}

[[nodiscard]] inline storage create_system_v(const making& job) {
    const places where = places_of(job.name);
    storage result;
    auto [lease, lease_was_there] = lease_for_system_v(job, where);
    result.lease = std::move(lease);
    try {
        give_lease_rights(result.lease.get(), job.rights(), job.subject);
        memory::check_memory_limit(job.info.total_bytes, job.subject);
        result.system_v_id = make_system_v(job, lease_was_there);
    } catch (...) {
        if (!lease_was_there) ::unlink(where.lease().c_str());  // it would make a stranger's memory look like ours
        throw;
    }
    bool peers_are_ours = false;  // until then what lies at their name is somebody else's
    try {
        result.map = memory::mapping::of_system_v(result.system_v_id, job.info.total_bytes, true, job.subject);
        if (job.options.owner || job.options.group) {
            struct shmid_ds status = status_of(result.system_v_id, job.subject);
            status.shm_perm.uid = job.options.owner.value_or(status.shm_perm.uid);
            status.shm_perm.gid = job.options.group.value_or(status.shm_perm.gid);
            if (::shmctl(result.system_v_id, IPC_SET, &status) != 0)
                memory::throw_errno(errno, job.subject, "setting the owner");
        }
        memory::apply(job.options.pages, result.map.data(), result.map.bytes(), true, job.subject);
        // Reserves every page now, as fallocate does for files. Kernels before 5.14 lack it: pages then come at first
        // touch.
        if (!memory::detail::advise(result.map.data(), result.map.bytes(), memory::detail::madv_populate_write) &&
            errno != EINVAL)
            throw error(errc::no_space, job.subject,
                        "the system has no memory for " + std::to_string(job.info.total_bytes) +
                            " bytes; make the segment smaller");
        // The lease is exclusive still.
        ensure_peers(where, result.lease.get(), writers::one, job.info.identity, job.info.peer_slots,
                     job.peers_rights(), trust_of_creator(job.options), job.subject);
        peers_are_ours = job.info.peer_slots != 0;
        // Before the magic is stored: whoever finds the segment ready finds its lease open to the writers it admits.
        if (!memory::try_lock(result.lease.get(), lease_mode(job.spec.policy), lease_byte))
            memory::throw_errno(errno, job.subject, "sharing the lease");
        fill(job, result.map);
    } catch (...) {
        ::shmctl(result.system_v_id, IPC_RMID, nullptr);
        if (!lease_was_there) {  // see above
            if (peers_are_ours) ::unlink(where.peers().c_str());
            ::unlink(where.lease().c_str());
        }
        throw;
    }
    return result;
}

/// Attaches by key. Returns the storage and a validated private copy of the header.
[[nodiscard]] inline std::pair<storage, layout::segment_header> attach_system_v(const memory::uri& name, access mode,
                                                                                const attach_options& options,
                                                                                const std::string& subject) {
    const bool write = mode == access::read_write;
    const int id = find_system_v(name);
    if (id < 0 && errno == ENOENT)
        throw error(errc::not_found, subject, "no System V segment has this key; create it first (ipcs -m lists them)");
    if (id < 0) memory::throw_errno(errno, subject, "shmget");
    const struct shmid_ds status = status_of(id, subject);
    // Maker and present owner may both change it.
    const auto trusted = [&](uid_t user) { return user == ::geteuid() || user == 0 || options.trust.owner == user; };
    const uid_t owner = trusted(status.shm_perm.cuid) ? status.shm_perm.uid : status.shm_perm.cuid;
    if (!options.trust.any_owner && !trusted(owner))
        throw error(errc::unsafe_file, subject,
                    "the segment belongs to user " + std::to_string(owner) +
                        ", neither you nor root; trust that owner explicitly if you mean to");
    if (status.shm_segsz < header_bytes)
        throw error(errc::truncated, subject, "the segment is smaller than a header; it is not ours: use another key");
    storage result;
    result.system_v_id = id;
    layout::segment_header header{};
    {
        const memory::mapping look = memory::mapping::of_system_v(id, status.shm_segsz, false, subject);
        header = copy_header(look);
        require_valid(header, status.shm_segsz, layout::length_rule::at_least, subject);
        if (name.kind == memory::kind::sysv_huge &&
            memory::report_pages(look.data()).page_bytes < memory::huge_page_bytes)
            throw error(errc::no_huge_pages, subject,
                        "this segment has normal pages; attach to it as sysv:" + name.name + ", or make it anew");
    }
    if (write) {
        const places where = places_of(name);
        const memory::ownership rights = rights_of(status);
        result.lease = take_lease(where, static_cast<writers>(header.policy), options.trust,
                                  ns_of(options.lease_timeout), rights, subject);
        if (find_system_v(name) != id)
            throw error(errc::not_found, subject, "the segment was removed meanwhile; create it anew");
        memory::ownership peers_rights = rights;
        peers_rights.mode = memory::writers_mode(rights.mode);
        ensure_peers(where, result.lease.get(), static_cast<writers>(header.policy), header.identity, header.peer_slots,
                     peers_rights, options.trust, subject);
    }
    result.map = memory::mapping::of_system_v(id, header.total_bytes, write, subject);
    return {std::move(result), header};
}

}  // namespace holdfast::detail
