// SPDX-License-Identifier: Apache-2.0
// many_attach.hpp - how a handle becomes one of a table's many writers, and how it has the table to itself for a while.
//
// Every writer holds byte 0 of the lease shared, and the byte of its slot exclusively. So who turns its own lock of
// byte 0 into an exclusive one is the only writer until it turns it back: the rest has ended, and nobody can come.
// Crash: both locks go with their holder.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "holdfast/hash_table/many_mutate.hpp"
#include "holdfast/segment/writer_slot.hpp"

namespace holdfast::detail {

/// Takes a free writer slot of the table in `s`, and finishes what dead writers left undone. `as` is the slot's writer
/// then. Requires: s is writable and `view` its body. Throws: writer_alive where no slot is free in time.
template <class Mutator>
[[nodiscard]] hash_table_recovery join_writers(const segment& s, const typename Mutator::view& view,
                                               std::uint64_t timeout_ns, Mutator& as) {
    constexpr std::uint64_t patience_ns = 1'000'000'000;
    const std::uint32_t slot = claim_writer_slot(s, view.writers, timeout_ns);
    const writer_slot_locks locks(s.lease_descriptor(), patience_ns);
    const hash_table_recovery recovery = recover_as(view, slot, locks);
    store_release<std::uint64_t>(view.journal_at(slot) + layout::journal_pid_offset,
                                 static_cast<std::uint64_t>(::getpid()));
    as = Mutator(view, slot, locks);
    return recovery;
}

/// The pid that the holder of a writer slot wrote down. For people.
template <class Byte, class Node>
[[nodiscard]] std::uint64_t pid_of_writer(const table_view<Byte, Node>& view, std::uint32_t slot) noexcept {
    return load_relaxed<std::uint64_t>(view.journal_at(slot) + layout::journal_pid_offset);  // relaxed: a report
}

/// Keeps all other writers away while it lives. Requires: the caller is one of the writers.
class only_writer {
 public:
    /// Throws: writer_alive while there is another.
    explicit only_writer(const segment& s) : lease_(s.lease_descriptor()) {
        if (lease_ < 0 || memory::try_lock(lease_, memory::lock_mode::exclusive, lease_byte)) return;
        if (errno != EAGAIN) memory::throw_errno(errno, s.uri(), "locking the lease");
        throw error(errc::writer_alive, s.uri(),
                    "this needs the table without other writers, and there are some (holdfast who shows them); do it "
                    "when they have ended");
    }
    only_writer(const only_writer&) = delete;
    only_writer& operator=(const only_writer&) = delete;
    ~only_writer() {
        // Never refused: nobody else has a lock on it.
        if (lease_ >= 0) (void)memory::try_lock(lease_, memory::lock_mode::shared, lease_byte);
    }

 private:
    int lease_;
};

/// recount() of a table of many writers, by one of them that is in no operation. Throws: writer_alive, contended,
/// std::bad_alloc.
template <class Mutator>
std::uint64_t recount_alone(const segment& s, Mutator& by) {
    if (by.is_changing())
        throw error(errc::contended, s.uri(), "a change of an entry is under way in this handle; recount behind it");
    const only_writer alone(s);
    (void)recover_as(by.bytes(), by.writer(), by.locks());  // what others were killed in since this one attached
    return recount(by.bytes());
}

}  // namespace holdfast::detail
