// SPDX-License-Identifier: Apache-2.0
// successor.hpp - memory that is to take a segment's name in one step, under its readers: made without a name, filled
// in peace, renamed.
//
// take_place(), step by step, and what a kill after each leaves. The lease lies in a file of its own, is held
// throughout and goes over.
//   before  the successor has no name and goes with its maker            NAME as it was
//   F1 the old segment is marked (segment::moved())                      the same; its next writer clears the mark
//   F2 the successor is linked as NAME.growing                           the same; its next writer removes that first
//   F3 NAME.growing is renamed to NAME: the commit                       NAME is the successor; the old one has no name
// (I1) When NAME leads to another segment, the old one is marked.
// (I2) NAME.growing is there only while the segment under NAME is marked. The name is ours: uri::parse refuses it.
// With many writers (writers::many) all must come to the successor before the commit. Who replaces the segment holds a
// byte of the lease for it (hash_table/many_grow.hpp), and F2 comes first, by announce(); commit() is F1 and F3. What
// was announced and given up has a mark of its own, and no name as far as that can be had: it is never committed. So
// who finds a segment unmarked behind what it read there has read what held then, and who finds it marked asks the
// name: segment::replaced().
// Threads: one object is used by one thread, that of the segment's writer.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "holdfast/segment.hpp"

namespace holdfast {

/// A segment that will take another's name, or vanish. Move-only.
class segment_successor {
 public:
    /// Makes the memory, with the rights of `old`, and its header. Its body has no pages yet; `pages` is asked of them
    /// as they come. Requires: `old` is writable; of writers::many, no other is under way. Throws: unsupported where
    /// the kind of memory has no name in a folder, no_permission to others than root and the owner, no_space, and what
    /// making a file throws. Cost: some ten system calls.
    [[nodiscard]] static segment_successor begin(const segment& old, const segment_spec& spec,
                                                 const memory::page_policy& pages = {}) {
        segment_successor made(old, spec);
        made.pages_ = pages;
        made.make_memory(old, spec);
        return made;
    }

    /// Reserves up to so many bytes more, or makes a huge page of 2 MiB that are. Returns: whether all are reserved.
    /// Throws: no_space, io; no_permission where pages shall be locked and may not be. Cost: one system call, some
    /// 0.3 us for each 4 KiB; one more each for pages that are mapped at once and for locked ones. A huge page is
    /// copied together, some 0.2 ms.
    bool reserve(std::uint64_t bytes) {
        const std::uint64_t total = made_->info().total_bytes;
        std::byte* const data = made_->storage_.map.data();
        if (pages_.huge && reserved_ - collapsed_ >= memory::huge_page_bytes) {
            // One that cannot be had stays small, as with every segment.
            (void)memory::detail::advise(data + collapsed_, memory::huge_page_bytes, memory::detail::madv_collapse);
            collapsed_ += memory::huge_page_bytes;
        } else if (const std::uint64_t step = std::min(bytes, total - reserved_); step != 0) {
            memory::reserve_range(file_.fd(), reserved_, step, total, made_->uri());
            memory::apply({.prefault = pages_.prefault, .lock = pages_.lock}, data + reserved_, step, true,
                          made_->uri());
            reserved_ += step;
        }
        return reserved_ == total && !(pages_.huge && reserved_ - collapsed_ >= memory::huge_page_bytes);
    }
    [[nodiscard]] std::uint64_t reserved() const noexcept { return reserved_; }

    /// The segment, writable by this process. Its body may be touched once reserve() has returned true.
    [[nodiscard]] const std::shared_ptr<segment>& get() const noexcept { return made_; }

    /// Takes the place of `old`, the segment given to begin(), and its lease: `old` is not writable any more.
    /// Requires: all is reserved; the body is whole. Throws: already_exists, not_found, io and others; nothing is
    /// changed then. Cost: five system calls.
    void take_place(segment& old) {
        const detail::places where = detail::places_of(old.name());
        const std::atomic_ref mark(detail::header_of(old.storage_.map)->moved);
        // F1: W1, pairs with R1 in segment::moved(). Whoever has seen what is stored after the commit finds it: we
        // store that later, or one who has seen the rename. Release: what was stored before is not newer than the mark.
        mark.store(1, std::memory_order_release);
        try {
            publish(where, old);
        } catch (...) {
            // I2: as long as the file cannot be taken away the mark stays, and the next writer tries again.
            if (::unlink(where.growing().c_str()) == 0 || errno == ENOENT) mark.store(0, std::memory_order_release);
            throw;
        }
        inherit(old, *made_);
    }

    // ---- many writers ----

    /// F2. Requires: all is reserved; the body is whole. Throws: already_exists, io and others.
    void announce(const segment& old) {
        if (!file_.publish(detail::places_of(old.name()).growing_name(), old.uri()))
            throw error(errc::already_exists, old.uri(),
                        detail::places_of(old.name()).growing() + " is in the way and not ours; remove it");
    }
    /// What was announced to take the place of `old` and was not given up, writable by this process; nullptr if there
    /// is nothing: what was made for another segment of the name, or has other rights, is none. Throws: what
    /// segment::attach throws.
    [[nodiscard]] static std::shared_ptr<segment> announced(const segment& old, const memory::trust& whom) {
        if (!old.name().is_path()) return nullptr;
        std::shared_ptr<segment> next = mapped(old, detail::places_of(old.name()).growing(), whom);
        if (next && !is_for(old, *next)) return nullptr;
        // Acquire: pairs with give_up().
        if (next && std::atomic_ref(detail::header_of(next->storage_.map)->moved).load(std::memory_order_acquire) != 0)
            return nullptr;
        return next;
    }
    /// What the name leads to now. Throws: not_found, and what segment::attach throws.
    [[nodiscard]] static std::shared_ptr<segment> under_the_name(const segment& old, const memory::trust& whom) {
        std::shared_ptr<segment> next = mapped(old, detail::places_of(old.name()).data(), whom);
        if (!next) throw error(errc::not_found, old.uri(), "the segment was removed meanwhile; make it anew");
        return next;
    }
    /// Whether these two are one file.
    [[nodiscard]] static bool same(const segment& a, const segment& b) noexcept {
        return memory::same_file(a.storage_.file, b.storage_.file);
    }
    /// Whether this process may give the successor the owner that the old one has.
    [[nodiscard]] static bool may_replace(const segment& old) noexcept {
        return ::geteuid() == 0 || ::geteuid() == old.storage_.file.st_uid;
    }
    /// F1, F3. Requires: `next` was announced; nobody writes either of them. Throws: not_found, io and others: then the
    /// name leads where it did. Cost: four system calls.
    static void commit(segment& old, const segment& next) {
        const detail::places where = detail::places_of(old.name());
        const std::atomic_ref mark(detail::header_of(old.storage_.map)->moved);
        mark.store(1, std::memory_order_release);  // F1: W1, as in take_place()
        try {
            struct stat status{};
            if (::lstat(where.growing().c_str(), &status) != 0 || !memory::same_file(status, next.storage_.file))
                throw error(errc::not_found, old.uri(),
                            where.growing() + " was removed by somebody else; leave it alone, and grow again");
            if (next.moved())
                throw error(errc::not_found, old.uri(), "another process has given the growth up; grow again");
            (void)status_of(old);
            if (::rename(where.growing().c_str(), where.data().c_str()) != 0)
                memory::throw_errno(errno, old.uri(), "taking the name");
        } catch (...) {
            unmark(old);
            throw;
        }
    }
    /// Takes the mark away that a leader left which was killed before the commit. Requires: the name leads to `old`.
    static void unmark(segment& old) noexcept {
        // W1, as the mark itself. Who finds the mark still asks the name once more.
        std::atomic_ref(detail::header_of(old.storage_.map)->moved).store(0, std::memory_order_release);
    }
    /// Whatever was announced for `old` is never committed from now on. `next`: what is mapped of it. Throws: io and
    /// others, where it cannot be told to anybody.
    static void give_up(segment& old, segment* next) {
        // Release, pairs with announced(). Who leads next finds it, behind the lead's lock; whoever does not, brings
        // over to what never takes the name.
        if (next != nullptr)
            std::atomic_ref(detail::header_of(next->storage_.map)->moved).store(1, std::memory_order_release);
        if (old.name().is_path() && ::unlink(detail::places_of(old.name()).growing().c_str()) != 0 && errno != ENOENT &&
            next == nullptr)
            memory::throw_errno(errno, old.uri(), "removing what a growth left");
        unmark(old);
    }
    /// The lease of `old` is that of `next` from now on. `old` is not writable any more.
    static void inherit(segment& old, segment& next) noexcept {
        next.storage_.lease = std::move(old.storage_.lease);
        old.guard_ = {};
    }

 private:
    /// The file of a segment that follows `old`, without a lease; nullptr if there is none.
    [[nodiscard]] static std::shared_ptr<segment> mapped(const segment& old, const std::string& path,
                                                         const memory::trust& whom) {
        const memory::descriptor file = memory::open_trusted(path, O_RDWR, whom, old.uri());
        if (!file) return nullptr;
        const layout::segment_header header = detail::read_header(file.get(), old.uri());
        segment next;
        next.name_ = old.name();
        next.info_ = detail::info_of(header, old.uri());
        if (::fstat(file.get(), &next.storage_.file) != 0)
            memory::throw_errno(errno, old.uri(), "examining the next generation");
        next.storage_.map = memory::mapping::of_file(file.get(), header.total_bytes, true, old.uri());
        next.watch(true);
        return std::make_shared<segment>(std::move(next));
    }

    /// The identity of a successor: its second half tells which segment it was made for. Not a secret: who may write
    /// the folder is trusted with the names in it.
    [[nodiscard]] static identity_array identity_after(const segment& old, identity_array fresh) noexcept {
        std::uint64_t first = 0, second = 0, own = 0;
        std::memcpy(&first, old.info().identity.data(), sizeof first);
        std::memcpy(&second, old.info().identity.data() + sizeof first, sizeof second);
        std::memcpy(&own, fresh.data(), sizeof own);
        const std::uint64_t mixed = ((first ^ std::rotl(second, 32)) * 0x9E37'79B9'7F4A'7C15U) ^ own;
        std::memcpy(fresh.data() + sizeof own, &mixed, sizeof mixed);
        return fresh;
    }
    /// Whether it was made for this very segment, and nobody else may open it than the segment itself.
    [[nodiscard]] static bool is_for(const segment& old, const segment& next) {
        if (next.info().identity != identity_after(old, next.info().identity)) return false;
        struct stat now{};
        if (::lstat(detail::places_of(old.name()).data().c_str(), &now) != 0 ||
            !memory::same_file(now, old.storage_.file))
            return true;  // it has the name already, or nothing has
        const struct stat& its = next.storage_.file;
        return its.st_uid == now.st_uid && its.st_gid == now.st_gid && (its.st_mode & 0777) == (now.st_mode & 0777);
    }

    segment_successor(const segment& old, const segment_spec& spec) : file_(unnamed_beside(old, spec)) {}

    [[nodiscard]] static memory::unpublished_file unnamed_beside(const segment& old, const segment_spec& spec) {
        if (!old.name().is_path())
            throw error(errc::unsupported, old.uri(),
                        "only posix: and file: segments have a name that another can take under its readers; dump it "
                        "and load it into a larger one");
        if (!old.writable())
            throw error(errc::read_only, old.uri(), "only a writer may replace a segment; attach read-write");
        const detail::places where = detail::places_of(old.name());
        memory::check_file_size_limit(spec.body_bytes + header_bytes, old.uri());
        // Nobody else has our lease, so it is nobody's. Of many writers the leader sees to it (give_up()).
        if (old.info().policy == writers::one) ::unlink(where.growing().c_str());
        return memory::unpublished_file::make(where.directory, where.data_name, old.uri());
    }

    void make_memory(const segment& old, const segment_spec& spec) {
        const std::string subject = old.uri();
        const struct stat status = status_of(old);
        if (::geteuid() != 0 && ::geteuid() != status.st_uid)
            throw error(errc::no_permission, subject,
                        "the segment belongs to user " + std::to_string(status.st_uid) +
                            ", and its readers would not trust another owner; do it as that user or as root");
        memory::ownership rights = detail::rights_of(status);
        struct stat fresh{};
        if (::fstat(file_.fd(), &fresh) != 0) memory::throw_errno(errno, subject, "examining the new generation");
        if (fresh.st_gid != status.st_gid) rights.group = status.st_gid;
        memory::set_ownership(file_.fd(), rights, subject);

        create_options options;
        options.mode = rights.mode;
        segment made;
        made.name_ = old.name();
        made.info_ = detail::plan(made.name_, spec, options);
        made.info_.uri = subject;  // as it was given
        made.info_.identity = identity_after(old, made.info_.identity);
        if (detail::lies_in_memory(file_.fd())) memory::check_memory_limit(made.info_.total_bytes, subject);
        memory::check_free_room(file_.fd(), made.info_.total_bytes, subject);
        if (::ftruncate(file_.fd(), static_cast<off_t>(made.info_.total_bytes)) != 0)
            memory::throw_errno(errno, subject, "giving the new generation its size");
        memory::reserve_range(file_.fd(), 0, header_bytes, made.info_.total_bytes, subject);
        reserved_ = header_bytes;
        made.storage_.map = memory::mapping::of_file(file_.fd(), made.info_.total_bytes, true, subject);
        std::byte* const data = made.storage_.map.data();
        if (pages_.huge) (void)memory::detail::advise(data, made.storage_.map.bytes(), MADV_HUGEPAGE);
        memory::apply({.lock = pages_.lock}, data, header_bytes, true, subject);
        const detail::making job{made.name_, spec,    options,   [](void*, std::span<std::byte>) {},
                                 nullptr,    subject, made.info_};
        detail::fill(job, made.storage_.map);
        // Relaxed: nobody else has it. Epochs go on, as the lease does.
        std::atomic_ref(detail::header_of(made.storage_.map)->epoch).store(old.epoch(), std::memory_order_relaxed);
        if (::fstat(file_.fd(), &made.storage_.file) != 0)
            memory::throw_errno(errno, subject, "examining the new generation");
        made.watch(true);
        made_ = std::make_shared<segment>(std::move(made));
    }

    /// The file under the name. Throws: not_found unless it is the segment's own.
    [[nodiscard]] static struct stat status_of(const segment& old) {
        struct stat status{};
        if (::lstat(detail::places_of(old.name()).data().c_str(), &status) != 0 ||
            !memory::same_file(status, old.storage_.file))
            throw error(errc::not_found, old.uri(),
                        "the name was removed or leads to another segment, so there is no place to take; look at it "
                        "(holdfast ls)");
        return status;
    }

    /// F2, F3.
    void publish(const detail::places& where, const segment& old) {
        if (!file_.publish(where.growing_name(), old.uri()))
            throw error(errc::already_exists, old.uri(), where.growing() + " is in the way and not ours; remove it");
        (void)status_of(old);
        if (::rename(where.growing().c_str(), where.data().c_str()) != 0)
            memory::throw_errno(errno, old.uri(), "taking the name");
    }

    memory::unpublished_file file_;
    std::shared_ptr<segment> made_;
    memory::page_policy pages_;
    std::uint64_t reserved_ = 0;
    std::uint64_t collapsed_ = 0;  // huge pages: asked for up to here
};

}  // namespace holdfast
