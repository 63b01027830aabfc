// SPDX-License-Identifier: Apache-2.0
// storage.hpp - the memory behind a segment while a process uses it, and the header's way in and out of it.
#pragma once

#include <sys/ipc.h>
#include <sys/shm.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "holdfast/layout/segment_header.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/memory/mapping.hpp"
#include "holdfast/memory/uri.hpp"
#include "holdfast/segment/identity.hpp"
#include "holdfast/segment/types.hpp"

namespace holdfast::detail {

/// Mapping, lock and descriptors of an attached segment.
struct storage {
    memory::mapping map;
    memory::descriptor lease;  ///< empty for readers and heap:
    memory::descriptor data;   ///< this and the next two: memfd: and anon: only
    /// An unlocked description of the lease, for handing on: the locked one would keep the lock with whoever receives
    /// it.
    memory::descriptor lease_to_pass;
    memory::descriptor peers;
    struct stat file{};  ///< posix: and file: only: which file it is
    int system_v_id = -1;
};

/// A segment being made: what was asked, and the code that fills its body.
struct making {
    const memory::uri& name;
    const segment_spec& spec;
    const create_options& options;
    void (*initialise)(void* context, std::span<std::byte> body);
    void* context;
    std::string subject;
    segment_info info;

    [[nodiscard]] memory::ownership rights() const { return {options.mode, options.owner, options.group}; }
    [[nodiscard]] memory::ownership peers_rights() const {
        return {options.peers_mode.value_or(memory::writers_mode(options.mode)), options.owner, options.group};
    }
};

[[nodiscard]] inline layout::segment_header* header_of(const memory::mapping& map) noexcept {
    return reinterpret_cast<layout::segment_header*>(map.data());
}

/// Checks a specification and turns it into the information that the header will hold. Throws: invalid_argument.
[[nodiscard]] inline segment_info plan(const memory::uri& name, const segment_spec& spec,
                                       const create_options& options) {
    const std::string subject = name.text();
    const auto refuse = [&](std::string_view why) { throw error(errc::invalid_argument, subject, why); };
    if (kind_name(spec.kind).empty()) refuse("unknown container kind; name one of container_kind");
    if (spec.schema.size() > schema_bytes_max)
        refuse("the schema text is longer than 2560 bytes; use fewer or shorter field names");
    if (spec.body_bytes == 0 || spec.body_bytes > (std::uint64_t{1} << 46))
        refuse("the body must have between 1 byte and 64 TiB; check the capacity");
    if (spec.peer_slots > peer_slots_max) refuse("at most 4096 peer slots are possible; ask for fewer");
    for (const mode_t mode : {options.mode, options.peers_mode.value_or(0600)})
        if ((mode & ~mode_t{0777}) != 0 || (mode & 0600) != 0600)
            refuse("the mode must let the owner read and write and hold permission bits only; for example 0640");
    if (name.is_memfd() && !name.name.empty()) refuse("memfd:FD,... names existing memory; create with memfd: alone");
    segment_info info;
    info.uri = subject;
    info.kind = spec.kind;
    info.container_version = spec.container_version;
    info.policy = spec.policy;
    info.schema = spec.schema;
    info.geometry = spec.geometry;
    info.body_bytes = spec.body_bytes;
    info.total_bytes = spec.body_bytes + header_bytes;
    info.created_ns = now_ns();
    info.identity = random_identity(subject);
    info.peer_slots = spec.peer_slots;
    return info;
}

/// The information in a validated private copy of a header.
[[nodiscard]] inline segment_info info_of(const layout::segment_header& header, std::string uri) {
    segment_info info;
    info.uri = std::move(uri);
    info.kind = static_cast<container_kind>(header.kind);
    info.container_version = header.container_version;
    info.policy = static_cast<writers>(header.policy);
    info.schema.assign(header.schema.data(), header.schema_bytes);
    info.geometry = header.geometry;
    info.total_bytes = header.total_bytes;
    info.body_bytes = header.body_bytes;
    info.created_ns = header.created_ns;
    info.identity = header.identity;
    info.peer_slots = header.peer_slots;
    return info;
}

/// Records the new holder: epoch + 1, then who it is. Only the lease holder (or one of many writers) calls it.
inline void record_owner(layout::segment_header& header, const owner_identity& owner) noexcept {
    // Relaxed throughout: people read these, and recovery never depends on them. fetch_add because under writers::many
    // two may attach at once.
    std::atomic_ref(header.epoch).fetch_add(1, std::memory_order_relaxed);
    std::atomic_ref(header.owner_pid).store(owner.pid, std::memory_order_relaxed);
    std::atomic_ref(header.owner_start).store(owner.start_ticks, std::memory_order_relaxed);
    std::atomic_ref(header.owner_since_ns).store(owner.since_ns, std::memory_order_relaxed);
    for (std::size_t i = 0; i < header.owner_boot_id.size(); ++i)
        std::atomic_ref(header.owner_boot_id[i])
            .store(i < owner.boot_id.size() ? owner.boot_id[i] : '\0', std::memory_order_relaxed);
}

/// Writes header and body of a segment nobody else can use yet; the magic comes last.
inline void fill(const making& job, const memory::mapping& map) {
    layout::segment_header header{};
    header.layout_version = layout::segment_layout_version;
    header.kind = static_cast<std::uint32_t>(job.info.kind);
    header.container_version = job.info.container_version;
    header.policy = static_cast<std::uint32_t>(job.info.policy);
    header.fingerprint = layout::platform_fingerprint;
    header.total_bytes = job.info.total_bytes;
    header.body_bytes = job.info.body_bytes;
    header.created_ns = job.info.created_ns;
    header.identity = job.info.identity;
    header.peer_slots = job.info.peer_slots;
    header.schema_bytes = static_cast<std::uint32_t>(job.info.schema.size());
    header.geometry = job.info.geometry;
    std::memcpy(header.schema.data(), job.info.schema.data(), job.info.schema.size());
    header.header_checksum = layout::checksum_of(header);

    layout::segment_header* const stored = header_of(map);
    constexpr std::size_t magic_bytes = sizeof stored->magic;
    std::memcpy(map.data() + magic_bytes, reinterpret_cast<const std::byte*>(&header) + magic_bytes,
                sizeof header - magic_bytes);
    job.initialise(job.context, {map.data() + header_bytes, job.info.body_bytes});
    record_owner(*stored, identify_self());
    // W1, pairs with R1 in copy_header(). Weaker would let a System V attacher see the magic before what it vouches
    // for; the other kinds are not reachable yet.
    std::atomic_ref(stored->magic).store(layout::segment_magic, std::memory_order_release);
}

/// A private copy of a mapped header, for kinds without a file to read it from.
[[nodiscard]] inline layout::segment_header copy_header(const memory::mapping& map) noexcept {
    layout::segment_header copy{};
    layout::segment_header* const stored = header_of(map);
    // R1, pairs with W1 in fill().
    const std::uint64_t magic = std::atomic_ref(stored->magic).load(std::memory_order_acquire);
    std::memcpy(&copy, stored, sizeof copy);
    copy.magic = magic;
    return copy;
}

/// Validates a private copy; throws what is wrong with it.
inline void require_valid(const layout::segment_header& header, std::uint64_t memory_bytes, layout::length_rule rule,
                          const std::string& subject) {
    if (const auto fault = layout::validate(header, memory_bytes, rule)) throw error(fault->code, subject, fault->text);
}

/// Reads and validates the header of an opened file.
[[nodiscard]] inline layout::segment_header read_header(int fd, const std::string& subject) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) memory::throw_errno(errno, subject, "examining the file");
    layout::segment_header header{};
    const ssize_t got = memory::read_at(fd, &header, sizeof header, 0);
    if (got < 0) memory::throw_errno(errno, subject, "reading the header");
    if (static_cast<std::size_t>(got) < sizeof header)
        throw error(
            errc::truncated, subject,
            "the file has " + std::to_string(got) + " bytes, less than a header; restore the segment or make it anew");
    require_valid(header, static_cast<std::uint64_t>(status.st_size), layout::length_rule::exact, subject);
    return header;
}

}  // namespace holdfast::detail
