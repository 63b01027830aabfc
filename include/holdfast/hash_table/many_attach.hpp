// SPDX-License-Identifier: Apache-2.0
// many_attach.hpp - what one of a table's many writers asks of the others: who they are, and to be away for a while.
//
// Every writer holds byte 0 of the lease shared, and the byte of its slot exclusively. So who turns its own lock of
// byte 0 into an exclusive one is the only writer until it turns it back: the rest has ended, and nobody can come.
// Crash: both locks go with their holder.
#pragma once

#include <cerrno>
#include <cstdint>

#include "holdfast/hash_table/many_mutate.hpp"
#include "holdfast/segment/writer_slot.hpp"

namespace holdfast::detail {

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
    hash_table_recovery done;
    (void)by.settle_all(done);  // what others were killed in since this one attached
    return recount(by.bytes());
}

}  // namespace holdfast::detail
