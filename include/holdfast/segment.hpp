// SPDX-License-Identifier: Apache-2.0
// segment.hpp - a named or passed piece of memory that describes itself, appears whole, and has at most one writer.
//
// A segment is a 4 KiB header (layout/segment_header.hpp) and a container's body. Containers stand on it; programs use
// it directly only to list, remove or pass segments.
// (I1) Nobody ever attaches to half a segment: publication is one link (files), or one word under the lease (System V).
// (I2) Under writers::one at most one living process holds the lease; only it may store into the mapping.
// (I3) The header is copied and validated once; later decisions use the copy, never the shared bytes.
// Threads: a segment object is used by one thread at a time; the mapped bytes are the container's affair.
// Crash:   a killed creator leaves nothing or a whole segment; a killed writer's lease is free as soon as the kernel
//          has torn it down.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "holdfast/detail/spans.hpp"
#include "holdfast/error.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/memory/lock_listing.hpp"
#include "holdfast/memory/truncation_guard.hpp"
#include "holdfast/memory/uri.hpp"
#include "holdfast/segment/file_storage.hpp"
#include "holdfast/segment/registry.hpp"
#include "holdfast/segment/system_v_storage.hpp"
#include "holdfast/segment/types.hpp"

namespace holdfast {

/// An attached segment: mapping, and for writers the lease. Detaches on destruction; the segment itself stays.
/// Move-only.
class segment {
 public:
    segment(segment&&) noexcept = default;
    segment& operator=(segment&& other) noexcept {
        if (this == &other) return *this;
        watch_ = std::move(other.watch_);  // before the mapping it watches goes
        guard_ = std::move(other.guard_);
        storage_ = std::move(other.storage_);
        name_ = std::move(other.name_);
        info_ = std::move(other.info_);
        return *this;
    }
    segment(const segment&) = delete;
    segment& operator=(const segment&) = delete;
    ~segment() = default;

    /// Makes a segment and attaches to it read-write, holding the lease.
    /// `initialise(std::span<std::byte> body)` runs on the zeroed body before anybody else can see it.
    /// Throws: already_exists, writer_alive, no_space, no_permission, no_huge_pages, unsafe_file, invalid_name,
    /// invalid_argument, ... No segment is left then, unless another writer has come to it meanwhile, or
    /// somebody else planted its lease.
    /// After a crash: a creator killed at any instant leaves nothing, or the whole segment.
    template <class Initialise>
    [[nodiscard]] static segment create(std::string_view uri, const segment_spec& spec, const create_options& options,
                                        Initialise&& initialise);

    /// Attaches to an existing segment. read_write takes the lease (writers::many: shares it) and raises the epoch.
    /// Throws: not_found, not_ready, bad_magic, version_mismatch, geometry_mismatch, truncated, corrupt, writer_alive,
    /// no_permission, ...
    [[nodiscard]] static segment attach(std::string_view uri, access mode, const attach_options& options = {});

    /// Attaches to the descriptors of a memfd: or anon: segment, inherited or received over a unix socket.
    [[nodiscard]] static segment attach(const segment_descriptors& descriptors, access mode,
                                        const attach_options& options = {});

    /// The same for reading, as what no writer takes: that a program only reads is then known when it is compiled.
    [[nodiscard]] static std::shared_ptr<const segment> attach_read_only(std::string_view uri,
                                                                         const attach_options& options = {}) {
        return std::make_shared<const segment>(attach(uri, access::read_only, options));
    }
    [[nodiscard]] static std::shared_ptr<const segment> attach_read_only(const segment_descriptors& descriptors,
                                                                         const attach_options& options = {}) {
        return std::make_shared<const segment>(attach(descriptors, access::read_only, options));
    }

    /// Removes a named segment and its companions. Processes attached to it keep their mappings. Memory that is damaged
    /// is removed too. Throws: not_found, writer_alive, bad_magic (the file is not a segment at all), no_permission.
    static void remove(std::string_view uri, const attach_options& options = {});

    [[nodiscard]] const segment_info& info() const noexcept { return info_; }
    [[nodiscard]] const std::string& uri() const noexcept { return info_.uri; }

    /// Throws kind_mismatch or version_mismatch unless the body is of that kind and layout version.
    void require(container_kind kind, std::uint32_t container_version) const;

    /// The body for storing; empty unless attached read-write by this very process.
    [[nodiscard]] std::span<std::byte> body() noexcept {
        return writable() ? std::span(storage_.map.data() + header_bytes, info_.body_bytes) : std::span<std::byte>();
    }
    /// The body for reading.
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
        return {storage_.map.data() + header_bytes, info_.body_bytes};
    }

    /// Whether this handle may store: attached read-write, and not a forked copy. Cost: one load.
    [[nodiscard]] bool writable() const noexcept { return guard_.same_process(); }

    /// How often the lease has been taken, creation included.
    [[nodiscard]] std::uint64_t epoch() const noexcept {
        // Relaxed: a report; recovery does not depend on it.
        return std::atomic_ref(detail::header_of(storage_.map)->epoch).load(std::memory_order_relaxed);
    }
    /// Who holds or last held the lease. For people and logs only.
    [[nodiscard]] owner_identity owner() const;

    /// errc::truncated once the truncation guard had to act on this mapping. A cut inside the last page calls no guard:
    /// the kernel shows zeros there, and cut_off() tells.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        return watch_.truncated() ? std::optional(errc::truncated) : std::nullopt;
    }
    /// Whether the truncation guard watches this mapping.
    [[nodiscard]] bool guarded() const noexcept { return watch_.active(); }
    /// Whether the file has lost its end, wherever it was cut. Ask after the bytes were copied, before they are
    /// believed, where somebody who may write the file is not trusted to leave its length alone. What was cut off
    /// after the name led elsewhere (replaced()) is told by fault() alone; memory without a path cannot be cut off.
    /// Cost: one system call.
    [[nodiscard]] bool cut_off() const;
    /// Whether the name now leads to another segment, or to none; also where this very file is mounted under the name
    /// and has lost its own. Always false for kinds without a name. True where this process lacks the memory to ask:
    /// whoever then attaches again is told. Cost: one system call.
    [[nodiscard]] bool replaced() const noexcept;
    /// Whether this memory's content may have moved to another segment of the same name: replaced() then tells. Whoever
    /// has seen anything that was done there finds it true. Cost: one load.
    [[nodiscard]] bool moved() const noexcept {
        // R1, pairs with W1 of segment_successor. Acquire: the look at the name stays behind it. What was read before
        // stays before it by its own acquires.
        return std::atomic_ref(detail::header_of(storage_.map)->moved).load(std::memory_order_acquire) != 0;
    }

    /// What the kernel gave for pages. Cost: reads /proc.
    [[nodiscard]] memory::page_report pages() const { return memory::report_pages(storage_.map.data()); }

    /// Descriptors to hand on (memfd: and anon: only). The receiver attaches by them; they stay this object's. Whoever
    /// gets `data` may write it: readers get read_only_descriptor() instead.
    [[nodiscard]] segment_descriptors descriptors() const noexcept {
        return {storage_.data.get(), storage_.lease_to_pass.get(), storage_.peers.get()};
    }
    /// A description of the data that can only be read, to be passed to readers (memfd: and anon: only).
    /// Throws: unsupported for other kinds.
    [[nodiscard]] memory::descriptor read_only_descriptor() const {
        if (!storage_.data)
            throw error(errc::unsupported, info_.uri,
                        "only memfd: and anon: segments are passed; attach to this one by its name");
        return detail::reopen(storage_.data.get(), O_RDONLY, info_.uri);
    }
    /// The lease's descriptor, for locks on bytes behind the writer's own; -1 for readers.
    [[nodiscard]] int lease_descriptor() const noexcept { return storage_.lease.get(); }
    /// Where it is. A relative path is told from the root, so that another working folder later changes nothing.
    [[nodiscard]] const memory::uri& name() const noexcept { return name_; }

 private:
    friend class segment_successor;
    segment() = default;

    static segment create_erased(std::string_view uri, const segment_spec& spec, const create_options& options,
                                 void (*initialise)(void*, std::span<std::byte>), void* context);
    static segment adopt(memory::uri name, detail::storage storage, const layout::segment_header& header, access mode,
                         const attach_options& options);
    void enter_registry() const noexcept;
    void watch(bool writable) {
        if (writable) guard_ = memory::fork_guard::make(info_.uri);
        watch_for_truncation(writable);
    }
    void watch_for_truncation(bool writable) noexcept {
        watch_ = memory::truncation_watch::over(storage_.map.data(), storage_.map.bytes(), writable);
    }

    memory::uri name_;
    segment_info info_;
    memory::fork_guard guard_;  // made for read-write handles only
    detail::storage storage_;
    memory::truncation_watch watch_;  // released before the mapping goes
};

/// What can be known of a segment's lease without taking it.
enum class lease_state : std::uint8_t {
    free,     ///< nobody may write now
    held,     ///< a living process holds it
    unknown,  ///< it cannot be told here
    none,     ///< the kind has no lease file (heap:), or nobody has made it yet
};

/// Asks the lock of a named segment, also for those who may not open its lease, and on a read-only file system.
/// Cost: an open and one fcntl; for who may not open the lease a reading of /proc/locks. Throws: std::bad_alloc.
[[nodiscard]] inline lease_state lease_state_of(const memory::uri& name) {
    if (!name.named()) return lease_state::none;
    const std::string path = detail::places_of(name).lease();
    // For reading: a lock is asked about through any descriptor, and a read-only file system has no other.
    const memory::descriptor file = memory::open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    std::optional<bool> locked;
    if (file) {
        locked = memory::locked_elsewhere(file.get(), detail::lease_byte);
    } else if (errno == ENOENT) {
        return lease_state::none;
    } else if (errno == EACCES) {
        locked = memory::listed_as_locked(path, detail::lease_byte);
    }
    if (!locked) return lease_state::unknown;
    return *locked ? lease_state::held : lease_state::free;
}

template <class Initialise>
segment segment::create(std::string_view uri, const segment_spec& spec, const create_options& options,
                        Initialise&& initialise) {
    auto run = [&initialise](std::span<std::byte> body) { initialise(body); };
    const auto call = [](void* context, std::span<std::byte> body) { (*static_cast<decltype(run)*>(context))(body); };
    return create_erased(uri, spec, options, call, &run);
}

namespace detail {

/// The same name whatever the working folder becomes; what is shown stays as it was given. It stays as it is where the
/// way from the root does not lead there: it may be too long, or not to be searched by this user. Cost: nothing, or
/// three system calls for a relative path.
[[nodiscard]] inline memory::uri rooted(memory::uri name) {
    if (name.kind != memory::kind::file || name.name.starts_with('/')) return name;
    const std::unique_ptr<char, void (*)(void*)> folder(::getcwd(nullptr, 0), &std::free);
    if (!folder) return name;
    memory::uri absolute = name;
    absolute.name = std::string(folder.get()) + "/" + name.name;
    struct stat here{}, there{};
    const bool leads_there = ::stat(name.directory().c_str(), &here) == 0 &&
                             ::stat(absolute.directory().c_str(), &there) == 0 && memory::same_file(here, there);
    return leads_there ? absolute : name;
}

}  // namespace detail

inline segment segment::create_erased(std::string_view uri, const segment_spec& spec, const create_options& options,
                                      void (*initialise)(void*, std::span<std::byte>), void* context) {
    segment result;
    result.name_ = memory::uri::parse(uri);
    result.info_ = detail::plan(result.name_, spec, options);
    result.name_ = detail::rooted(result.name_);
    const detail::making job{result.name_, spec, options, initialise, context, result.info_.uri, result.info_};
    result.guard_ = memory::fork_guard::make(result.info_.uri);  // nothing fails behind the publication
    switch (result.name_.kind) {
        case memory::kind::posix:
        case memory::kind::file: result.storage_ = detail::create_file(job); break;
        case memory::kind::memfd:
        case memory::kind::anon: result.storage_ = detail::create_memfd(job); break;
        case memory::kind::sysv:
        case memory::kind::sysv_huge: result.storage_ = detail::create_system_v(job); break;
        case memory::kind::heap:
            memory::check_memory_limit(result.info_.total_bytes, result.info_.uri);
            result.storage_.map = memory::mapping::of_heap(result.info_.total_bytes, result.info_.uri);
            memory::apply(options.pages, result.storage_.map.data(), result.storage_.map.bytes(), true,
                          result.info_.uri);
            detail::fill(job, result.storage_.map);
            break;
    }
    result.watch_for_truncation(true);
    result.enter_registry();
    return result;
}

inline void segment::enter_registry() const noexcept {
    if (name_.named()) (void)registry::add(name_);
}

inline segment segment::adopt(memory::uri name, detail::storage storage, const layout::segment_header& header,
                              access mode, const attach_options& options) {
    segment result;
    result.info_ = detail::info_of(header, name.text());
    result.name_ = detail::rooted(std::move(name));
    result.storage_ = std::move(storage);
    const bool write = mode == access::read_write;
    memory::apply(options.pages, result.storage_.map.data(), result.storage_.map.bytes(), write, result.info_.uri);
    result.watch(write);
    if (write) {
        detail::record_owner(*detail::header_of(result.storage_.map), detail::identify_self());
        result.enter_registry();  // its creator may have been killed before it came to that
    }
    return result;
}

namespace detail {

/// Takes the name away from the segment that was about to follow this one. Returns: whether none of its owner's is
/// there. (What a stranger planted in a folder that all may write is left alone.)
[[nodiscard]] inline bool discard_successor(const memory::uri& name, const struct stat& data) noexcept {
    const std::string path = places_of(name).growing();
    if (::unlink(path.c_str()) == 0 || errno == ENOENT) return true;
    struct stat there{};
    return ::lstat(path.c_str(), &there) != 0 || there.st_uid != data.st_uid;
}

/// Finishes what a writer left that was killed while another segment was about to take the name (successor.hpp, F1 and
/// F2): the name leads here, so it never did. Whoever may not remove what it left leaves the mark, too. Requires: the
/// lease.
inline void settle_succession(const memory::uri& name, const storage& held, writers policy) {
    const std::atomic_ref moved(header_of(held.map)->moved);
    // Relaxed: nobody else stores to it while we hold the lease.
    if (policy != writers::one || moved.load(std::memory_order_relaxed) == 0) return;
    // Release, after the unlink: without the mark there is no file.
    if (discard_successor(name, held.file)) moved.store(0, std::memory_order_release);
}

}  // namespace detail

inline segment segment::attach(std::string_view uri, access mode, const attach_options& options) {
    memory::uri name = memory::uri::parse(uri);
    const std::string subject = name.text();
    if (name.is_path()) {
        auto [storage, header] = detail::attach_file(name, mode, options, subject);
        if (mode == access::read_write) detail::settle_succession(name, storage, static_cast<writers>(header.policy));
        return adopt(std::move(name), std::move(storage), header, mode, options);
    }
    if (name.is_sysv()) {
        auto [storage, header] = detail::attach_system_v(name, mode, options, subject);
        return adopt(std::move(name), std::move(storage), header, mode, options);
    }
    if (name.kind == memory::kind::memfd && !name.name.empty()) {
        segment_descriptors given;
        if (std::sscanf(name.name.c_str(), "%d,%d,%d", &given.data, &given.lease, &given.peers) >= 1)
            return attach(given, mode, options);
    }
    throw error(errc::not_found, subject,
                "memory of this kind has no name to look up; attach by its descriptors (memfd:DATA,LEASE,PEERS), or "
                "use the creator's handle");
}

inline segment segment::attach(const segment_descriptors& descriptors, access mode, const attach_options& options) {
    memory::uri name{memory::kind::memfd, std::to_string(descriptors.data), 0};
    auto [storage, header] = detail::attach_memfd(descriptors, mode, options, name.text());
    return adopt(std::move(name), std::move(storage), header, mode, options);
}

inline void segment::require(container_kind kind, std::uint32_t container_version) const {
    if (info_.kind != kind)
        throw error(errc::kind_mismatch, info_.uri,
                    "the segment holds a " + std::string(kind_name(info_.kind)) + ", not a " +
                        std::string(kind_name(kind)) + "; check the name or the type");
    if (info_.container_version != container_version)
        throw error(errc::version_mismatch, info_.uri,
                    "the " + std::string(kind_name(kind)) + " has layout version " +
                        std::to_string(info_.container_version) + " and this library reads " +
                        std::to_string(container_version) + "; use the library that wrote it, or load it anew");
    const bool shares = kind == container_kind::counter_set || kind == container_kind::latency_histogram ||
                        kind == container_kind::hash_table || kind == container_kind::block_store ||
                        kind == container_kind::hash_map || kind == container_kind::raw;
    if (info_.policy == writers::many && !shares)
        throw error(errc::geometry_mismatch, info_.uri,
                    "the header admits many writers to a " + std::string(kind_name(kind)) +
                        ", which has one; restore the segment or make it anew");
}

inline owner_identity segment::owner() const {
    layout::segment_header& header = *detail::header_of(storage_.map);
    owner_identity owner;
    // Relaxed throughout: a report that may be mixed while the holder changes.
    owner.pid = std::atomic_ref(header.owner_pid).load(std::memory_order_relaxed);
    owner.start_ticks = std::atomic_ref(header.owner_start).load(std::memory_order_relaxed);
    owner.since_ns = std::atomic_ref(header.owner_since_ns).load(std::memory_order_relaxed);
    for (char& stored : header.owner_boot_id) {
        const char c = std::atomic_ref(stored).load(std::memory_order_relaxed);
        if (c < ' ' || c > '~') break;
        owner.boot_id += c;
    }
    return owner;
}

inline bool segment::replaced() const noexcept {
    try {
        if (name_.is_sysv()) return detail::find_system_v(name_) != storage_.system_v_id;
        if (!name_.is_path()) return false;
        struct stat now{};
        // A mount of this one file leads here still when the name in its folder leads elsewhere: then it has no link.
        return ::lstat(detail::places_of(name_).data().c_str(), &now) != 0 || !memory::same_file(now, storage_.file) ||
               now.st_nlink == 0;
    } catch (const std::bad_alloc&) {
        return true;
    }
}

inline bool segment::cut_off() const {
    if (fault() == errc::truncated) return true;
    if (!name_.is_path()) return false;
    struct stat now{};
    return ::lstat(detail::places_of(name_).data().c_str(), &now) == 0 && memory::same_file(now, storage_.file) &&
           static_cast<std::uint64_t>(now.st_size) < info_.total_bytes;
}

namespace detail {

/// Refuses to remove a file that has nothing of a segment: neither its magic nor, where that is damaged, a lease file
/// beside it.
inline void require_segment_file(int fd, const places& where, const std::string& subject) {
    std::uint64_t magic = 0;
    struct stat lease{};
    const bool ours = memory::read_at(fd, &magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) &&
                      magic == layout::segment_magic;
    if (!ours && (::lstat(where.lease().c_str(), &lease) != 0 || !S_ISREG(lease.st_mode)))
        throw error(errc::bad_magic, subject,
                    "the file is not a Holdfast segment and is left alone; remove it with rm if you mean it");
}

/// Unlinks the data file that was examined. Another remover may have been faster; a file that took its place meanwhile
/// is somebody's new segment, and so are the companions. Returns: false when it is gone already, and then perhaps a new
/// segment is under way. Throws: already_exists, no_permission and others.
[[nodiscard]] inline bool unlink_data(const places& where, int fd, const std::string& subject) {
    struct stat now{};
    if (::lstat(where.data().c_str(), &now) != 0) {
        if (errno == ENOENT) return false;
        memory::throw_errno(errno, subject, "examining " + where.data());
    }
    if (!memory::still_named(where.data(), fd))
        throw error(errc::already_exists, subject,
                    "another segment took the name meanwhile and is left alone; look at it, then try again");
    if (::unlink(where.data().c_str()) != 0 && errno != ENOENT)
        memory::throw_errno(errno, subject, "removing " + where.data());
    return true;
}

/// Mode and owner of what is being removed: a lease made for the removal must not outlive it with other rights.
[[nodiscard]] inline memory::ownership rights_for_removal(const memory::uri& name, int id, int fd,
                                                          const std::string& subject) {
    if (name.is_sysv()) return rights_of(status_of(id, subject));
    struct stat status{};
    if (::fstat(fd, &status) != 0) memory::throw_errno(errno, subject, "examining the file");
    return rights_of(status);
}

}  // namespace detail

inline void segment::remove(std::string_view uri, const attach_options& options) {
    const memory::uri name = memory::uri::parse(uri);
    const std::string subject = name.text();
    if (!name.named())
        throw error(errc::invalid_name, subject, "memory of this kind has no name; it goes with its last user");
    const detail::places where = detail::places_of(name);
    memory::descriptor data;
    int id = -1;
    if (name.is_sysv()) {
        id = detail::find_system_v(name);
        if (id < 0) throw error(errc::not_found, subject, "no System V segment has this key; nothing to remove");
        detail::require_ours_system_v(id, where, subject);
    } else {
        data = memory::open_trusted(where.data(), O_RDONLY, options.trust, subject);
        if (!data) throw error(errc::not_found, subject, "no such segment; nothing to remove");
        detail::require_segment_file(data.get(), where, subject);
    }
    // An exclusive lock also keeps out every one of many writers.
    const memory::descriptor lease =
        detail::take_lease(where, writers::one, options.trust, detail::ns_of(options.lease_timeout),
                           detail::rights_for_removal(name, id, data.get(), subject), subject);
    // First: without the data a second try would find nothing to remove. Nobody leads a growth: all share the lease.
    if (name.is_path()) ::unlink(where.growing().c_str());
    if (name.is_sysv()) {
        if (::shmctl(id, IPC_RMID, nullptr) != 0) memory::throw_errno(errno, subject, "removing the System V segment");
    } else if (!detail::unlink_data(where, data.get(), subject)) {
        ::unlink(where.lease().c_str());  // the one that we hold
        throw error(errc::not_found, subject, "another process removed the segment meanwhile; nothing to remove");
    }
    ::unlink(where.peers().c_str());
    registry::remove(name);
    ::unlink(where.lease().c_str());  // last: until here the lock keeps other writers and removers out
}

}  // namespace holdfast
