// SPDX-License-Identifier: Apache-2.0
#include "inspect/damaged_segment.hpp"
#include "holdfast/detail/spans.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "inspect/header_rebuild.hpp"
#include "inspect/processes.hpp"

namespace holdfast::inspect {

namespace {

using layout::segment_header;

/// The lease, whatever the header says of how many writers there may be. Throws: writer_alive that says who it is.
[[nodiscard]] memory::descriptor take_lease_alone(const memory::uri& name, const attach_options& options,
                                                  const memory::ownership& rights) {
    try {
        return detail::take_lease(detail::places_of(name), writers::one, options.trust,
                                  detail::ns_of(options.lease_timeout), rights, name.text());
    } catch (const error& failure) {
        if (failure.reason() != errc::writer_alive) throw;
        std::string who = "a living process holds the lease";
        try {
            const usage used = usage_of(name.text());
            if (used.owner_alive)
                who = detail::concat("process ", used.owner.pid, " (", used.owner_command, ") writes");
        } catch (const error&) {  // who it is cannot be read; that it lives is certain
        }
        throw error(errc::writer_alive, name.text(), who + "; end it first: a segment is repaired at rest");
    }
}

/// Private memory of so many bytes that begins as the file does.
[[nodiscard]] memory::mapping private_image(int fd, std::uint64_t file_bytes, std::uint64_t bytes,
                                            const std::string& subject) {
    memory::mapping image = memory::mapping::of_heap(static_cast<std::size_t>(bytes), subject);
    const auto present = static_cast<std::size_t>(std::min(file_bytes, bytes));
    if (present != 0 &&
        ::mmap(image.data(), present, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        memory::throw_errno(errno, subject, detail::concat("mapping ", present, " bytes"));
    return image;
}

[[noreturn]] void refuse_header(const std::string& subject) {
    throw error(errc::corrupt, subject,
                "the header is damaged beyond what its checksum can put right, so nothing tells what the bytes are; "
                "restore the last save (holdfast restore), or make the segment anew");
}

}  // namespace

damaged_segment damaged_segment::open(std::string_view uri, const attach_options& options) {
    damaged_segment result;
    result.name_ = memory::uri::parse(uri);
    if (result.name_.is_path())
        result.open_file(options);
    else if (result.name_.is_sysv())
        result.open_system_v(options);
    else
        throw error(errc::invalid_name, result.name_.text(),
                    "memory of this kind has no name to repair it under; its creator can make it anew");
    if (result.spec_.kind == container_kind::queue) result.find_consumer(options);
    return result;
}

/// What the header says, as far as it is or can be made sound.
void damaged_segment::take_over(const segment_header& stored, std::uint64_t memory_bytes) {
    segment_header header = stored;
    const auto rule = name_.is_sysv() ? layout::length_rule::at_least : layout::length_rule::exact;
    if (layout::validate(header, memory_bytes, rule)) {
        const std::optional<segment_header> proved = rebuild_header(stored, memory_bytes);
        if (!proved || proved->body_bytes != proved->total_bytes - header_bytes || proved->body_bytes == 0)
            refuse_header(uri());
        header = *proved;
        rebuilt_ = std::memcmp(&header, &stored, offsetof(segment_header, reserved_checksum)) != 0;
        // The sizes are proved, so this is what was cut off, or put behind the end.
        if (const auto fault = layout::validate(header, header.total_bytes, rule))
            throw error(fault->code, uri(), fault->text);
    }
    const segment_info info = detail::info_of(header, uri());
    spec_.kind = info.kind;
    spec_.container_version = info.container_version;
    spec_.policy = info.policy;
    spec_.schema = info.schema;
    spec_.geometry = info.geometry;
    spec_.body_bytes = info.body_bytes;
    spec_.peer_slots = info.peer_slots;
    identity_ = info.identity;
    missing_ = info.total_bytes > memory_bytes ? info.total_bytes - memory_bytes : 0;
    present_ = std::min(info.body_bytes, memory_bytes - std::min<std::uint64_t>(memory_bytes, header_bytes));
}

/// The new one's rights are those of the old memory and of its companion.
void damaged_segment::keep_rights(mode_t mode, uid_t owner, gid_t group) {
    rights_.mode = (mode & 0777) | 0600;
    // Where this user may not give them, making the new one says so: nobody shall lose rights in silence.
    rights_.owner = owner;
    rights_.group = group;
    struct stat peers{};
    if (::lstat(detail::places_of(name_).peers().c_str(), &peers) == 0 && S_ISREG(peers.st_mode))
        rights_.peers_mode = peers.st_mode & 0777;
}

void damaged_segment::open_file(const attach_options& options) {
    const detail::places where = detail::places_of(name_);
    const std::string subject = uri();
    memory::descriptor file;
    struct stat status{};
    for (unsigned tries = 0;; ++tries) {
        file = memory::open_trusted(where.data(), O_RDWR, options.trust, subject);
        if (!file) throw error(errc::not_found, subject, "no such segment; check the name (holdfast ls)");
        detail::require_segment_file(file.get(), where, subject);
        if (::fstat(file.get(), &status) != 0) memory::throw_errno(errno, subject, "examining the file");
        lease_ = take_lease_alone(name_, options, detail::rights_of(status));
        if (memory::still_named(where.data(), file.get())) break;
        if (tries == 100)  // replaced each time while we waited for the lease
            throw error(errc::io, subject, "the segment is replaced without end; stop whatever does that");
    }
    if (::fstat(file.get(), &status) != 0) memory::throw_errno(errno, subject, "examining the file");
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    segment_header stored{};
    if (memory::read_at(file.get(), &stored, sizeof stored, 0) < 0)
        memory::throw_errno(errno, subject, "reading the header");
    take_over(stored, bytes);
    image_ = private_image(file.get(), bytes, header_bytes + spec_.body_bytes, subject);
    watch_ = memory::truncation_watch::over(image_.data(), image_.bytes(), true);
    keep_rights(status.st_mode, status.st_uid, status.st_gid);
}

void damaged_segment::open_system_v(const attach_options& options) {
    const std::string subject = uri();
    const int id = detail::find_system_v(name_);
    if (id < 0) throw error(errc::not_found, subject, "no System V segment has this key (ipcs -m lists them)");
    const struct shmid_ds status = detail::status_of(id, subject);
    const uid_t owner = status.shm_perm.uid;
    if (!options.trust.any_owner && owner != ::geteuid() && owner != 0 && options.trust.owner != owner)
        throw error(errc::unsafe_file, subject,
                    detail::concat("the segment belongs to user ", owner,
                                   ", neither you nor root; trust that owner explicitly if you mean to"));
    detail::require_ours_system_v(id, detail::places_of(name_), subject);
    keep_rights(static_cast<mode_t>(status.shm_perm.mode), owner, status.shm_perm.gid);
    memory::ownership of_lease = detail::rights_of(status);
    of_lease.mode = rights_.mode;
    lease_ = take_lease_alone(name_, options, of_lease);
    const memory::mapping look = memory::mapping::of_system_v(id, status.shm_segsz, false, subject);
    take_over(detail::copy_header(look), status.shm_segsz);
    // The interface has no private mapping.
    const std::uint64_t bytes = header_bytes + spec_.body_bytes;
    memory::check_memory_limit(bytes, subject);
    image_ = memory::mapping::of_heap(static_cast<std::size_t>(bytes), subject);
    detail::copy_from_shared(image_.data(), look.data(),
                             static_cast<std::size_t>(std::min<std::uint64_t>(bytes, status.shm_segsz)));
}

void damaged_segment::find_consumer(const attach_options& options) {
    const std::string path = detail::places_of(name_).peers();
    peers_ = memory::open_trusted(path, O_RDWR, options.trust, uri());
    if (!peers_) return;
    if (!memory::try_lock(peers_.get(), memory::lock_mode::exclusive,
                          layout::peer_slot_offset(layout::queue_consumer_slot)))
        throw error(
            errc::writer_alive, uri(),
            "a living consumer takes messages (holdfast who shows it); end it first, or it would take them twice");
    // Of an earlier segment of this name, such as the damaged one whose repair was killed before the peers changed
    // places: what its consumer took says nothing of these messages.
    if (!detail::peers_match(peers_.get(), identity_, spec_.peer_slots, uri())) return;
    consumer_ = std::make_unique<layout::queue_side>();
    const auto at = static_cast<off_t>(layout::peer_slot_offset(layout::queue_consumer_slot));
    if (::pread(peers_.get(), static_cast<void*>(consumer_.get()), sizeof(layout::queue_side), at) !=
        static_cast<ssize_t>(sizeof(layout::queue_side)))
        consumer_.reset();
}

}  // namespace holdfast::inspect
