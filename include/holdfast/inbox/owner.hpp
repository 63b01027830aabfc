// SPDX-License-Identifier: Apache-2.0
// owner.hpp - the side of an inbox that applies commands: a table's one writer. See inbox.hpp.
//
// Steps, each of which a death may follow; what it leaves and who mends it: docs/design/0039-inbox.md.
//   opening    O1 a predecessor's NAME.inbox removed, under its producer's lease: nobody is amid an enqueue
//              O2 its NAME.answers removed
//              O3 NAME.answers made
//              O4 NAME.inbox made, then its consumer's place taken: from here on commands come
//   a command  A1 copied
//              A2 released (the queue's head): nobody takes it once more
//              A3 applied (the table's commit)
//              A4 answered (the ring's commit)
//   closing    C1 NAME.inbox removed, as O1
//              C2 what was in it answered `closed`
//              C3 NAME.answers removed
// (I1) A queue of commands has one life, that of the handle that made it: no command is applied twice, and none of an
//      earlier life later.
// (I2) NAME.inbox exists only while its NAME.answers does, which its schema marks as ours: nothing else is removed.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/error.hpp"
#include "holdfast/inbox/messages.hpp"
#include "holdfast/inbox/places.hpp"
#include "holdfast/inbox/target.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/queue/consumer.hpp"
#include "holdfast/queue/producer.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

struct inbox_options {
    /// Of each of the two rings, at least; each has room for eight of its longest messages.
    std::uint64_t capacity_bytes = 256 * 1024;
    /// How long opening and closing wait for who is amid an enqueue.
    std::chrono::nanoseconds patience = std::chrono::seconds(1);
    /// Whose leftovers are removed beside one's own and root's. Where it names no owner, root trusts the table's.
    memory::trust trust{};
};

/// What an inbox did since it was opened.
struct inbox_counts {
    std::uint64_t taken = 0;    ///< commands, all that follow included
    std::uint64_t done = 0;     ///< the table was changed
    std::uint64_t refused = 0;  ///< the table said no: a condition, a range, no room, damage
    std::uint64_t late = 0;     ///< met behind their deadline, or when the inbox was closed
    std::uint64_t misfits = 0;  ///< not understood
};

/// The inbox of a table of one writer: hash_table<K, V>, growing_hash_table<K, V> or dynamic_hash_table.
///
/// Threads: it is used, and destroyed, by the thread that uses the table's handle, which it must not outlive.
/// After a crash: what was not taken is not applied, what was taken is applied once or not; see above.
template <class Table>
class table_inbox {
 public:
    /// Opens it: from here on requesters that may write the table may send commands. What an earlier owner left is
    /// removed with all that was in it. Both segments get mode, owner and group of the table's.
    /// Throws: unsupported (a table of many writers, or without a path), not_found (the name leads to this table no
    /// more), invalid_name, already_exists (the names belong to something else), writer_alive (the table has one open,
    /// or a requester is stopped amid an enqueue); what segment::create throws.
    explicit table_inbox(Table& table, const inbox_options& options = {})
        : target_(table), options_(options), places_(detail::inbox_places::of(table.segment().name())) {
        const create_options rights = rights_of(table.segment());
        // Root gives both to the table's owner, whom it believed when it attached. An earlier inbox was his, too.
        if (!options_.trust.owner) options_.trust.owner = rights.owner;
        remove_leftovers();
        const std::size_t command_bytes = detail::inbox_command_bytes_max(target_.key_bytes(), target_.value_bytes());
        answer_.resize(detail::inbox_answer_bytes(target_.value_bytes()));
        command_.resize(command_bytes);
        make_answers(rights);
        try {
            make_commands(rights);
        } catch (const error& e) {
            abandon(e.reason() != errc::already_exists);
            throw;
        } catch (...) {  // no memory
            abandon(true);
            throw;
        }
    }
    table_inbox(const table_inbox&) = delete;
    table_inbox& operator=(const table_inbox&) = delete;
    /// As close(). In a forked child nothing is removed.
    ~table_inbox() { close(); }

    /// Applies up to `most` of the commands that wait, and answers each.
    /// Returns: ok and how many were taken; empty; corrupt (fault() says so, too: close it and open another), read_only
    /// (closed, or inherited by fork). Throws: what a growing table's operations throw; that command is taken.
    /// Cost: for each command an operation of the table, a copy of it and of its answer, some ten stores; a system call
    /// where a requester sleeps for room. No allocation.
    result apply(std::uint64_t most = 64) {
        if (!is_ours()) return {outcome::read_only, 0};
        result done{outcome::ok, 0};
        for (; done.count < most; ++done.count) {
            const queue_message message = commands_->front();
            if (!message) {
                if (done.count == 0 || message.status == outcome::corrupt) done.status = message.status;
                break;
            }
            const detail::received_command received = take(message);
            if (received.id) answer(judged(*received.id, received));
        }
        return done;
    }

    /// Waits until apply() has something to say. Returns: ok; timed_out; read_only. Spins, then sleeps; a requester
    /// wakes it, and one that was killed before it could costs 0.1 s at most.
    result wait(std::chrono::nanoseconds timeout) noexcept {
        if (!is_ours()) return {outcome::read_only, 0};
        const memory::deadline until = memory::deadline::after(timeout);
        for (;;) {
            const std::uint64_t left = until.left_ns();
            // Producers come and go: that there is none now means nothing.
            const result got = commands_->wait(std::chrono::nanoseconds(std::min<std::uint64_t>(left, nap_ns)));
            if (got.status != outcome::writer_gone && got.status != outcome::timed_out) return got;
            if (left == 0) return {outcome::timed_out, 0};
        }
    }

    /// Ends it: no further command comes, those that wait are answered `closed`, unapplied, and both segments are
    /// removed. Where a requester is stopped amid an enqueue both stay until the next opening, and nobody owns them.
    void close() noexcept {
        if (!is_ours()) return;
        // Names that lead elsewhere by now belong to a later owner's inbox.
        const bool removed = commands_->segment().replaced() || remove_quietly(places_.commands);
        // With the name gone nobody adds to it. Where it could not be removed: those that are there now.
        for (std::uint64_t left = commands_->capacity_bytes() / 8; left != 0; --left) {
            const queue_message message = commands_->front();
            if (!message) break;
            const detail::received_command received = take(message);
            if (!received.id) continue;
            ++counts_.late;
            answer({*received.id, inbox_verdict::closed});
        }
        const bool answers_are_ours = !answers_->segment().replaced();
        commands_.reset();
        answers_.reset();                                                        // its lease would keep the removal out
        if (removed && answers_are_ours) (void)remove_quietly(places_.answers);  // (I2)
    }

    [[nodiscard]] const inbox_counts& counts() const noexcept { return counts_; }
    /// errc::corrupt once the queue met damage, errc::truncated if a file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept {
        if (!commands_) return std::nullopt;
        const std::optional<errc> of_commands = commands_->fault();
        return of_commands ? of_commands : answers_->segment().fault();
    }

 private:
    static constexpr std::uint64_t nap_ns = 100'000'000;

    [[nodiscard]] bool is_ours() const noexcept { return answers_ && answers_->segment().writable(); }

    void make_answers(const create_options& rights) {
        broadcast_options ring;
        ring.capacity_bytes = std::max<std::uint64_t>(options_.capacity_bytes, 8 * (answer_.size() + 64));
        ring.schema = detail::inbox_answer_schema(target_.value_bytes()).text();
        ring.segment = rights;
        answers_.emplace(broadcast_writer::create(places_.answers, ring));
    }
    void make_commands(const create_options& rights) {
        queue_options queue;
        queue.capacity_bytes = std::max<std::uint64_t>(options_.capacity_bytes, 8 * (command_.size() + 64));
        queue.segment = rights;
        (void)queue_producer::create(places_.commands, queue);  // its lease is the requesters'
        queue_consumer_options how;
        how.segment.trust = options_.trust;
        commands_.emplace(queue_consumer::attach(places_.commands, how));
    }
    /// What an opening had made that failed goes, the queue first (I2). What cannot go stays for the next opening.
    void abandon(bool queue_is_ours) noexcept {
        commands_.reset();
        const bool free = !queue_is_ours || remove_quietly(places_.commands);
        answers_.reset();  // its lease would keep the removal out
        if (free) (void)remove_quietly(places_.answers);
    }

    /// Copies a message (its sender could still write it), and releases it: A1, A2.
    [[nodiscard]] detail::received_command take(const queue_message& message) noexcept {
        ++counts_.taken;
        const std::size_t bytes = std::min(message.bytes.size(), command_.size());
        const bool whole = bytes == message.bytes.size();
        detail::copy_from_shared(command_.data(), message.bytes.data(), bytes);
        commands_->pop();
        detail::received_command received = detail::decode_command(std::span(command_).first(bytes));
        if (!whole) received.what.reset();  // longer than any of this table's
        return received;
    }
    /// A3.
    [[nodiscard]] inbox_answer judged(const inbox_id& id, const detail::received_command& received) {
        inbox_answer result{id};
        if (received.what && memory::deadline::now_ns() > received.deadline_ns)
            result.verdict = inbox_verdict::late;
        else if (received.what)
            result = target_.apply(id, *received.what);
        switch (result.verdict) {
            case inbox_verdict::done: ++counts_.done; break;
            case inbox_verdict::late: ++counts_.late; break;
            case inbox_verdict::not_understood: ++counts_.misfits; break;
            default: ++counts_.refused;
        }
        return result;
    }
    /// A4. Nobody is in the way of this ring, and its messages fit.
    void answer(const inbox_answer& what) noexcept {
        detail::encode_answer(answer_, what);
        (void)answers_->publish(answer_);
    }

    void remove_leftovers() const {
        const bool commands = exists(places_.commands), answers = exists(places_.answers);
        if (!commands && !answers) return;
        const auto refuse = [](const std::string& uri) {
            throw error(errc::already_exists, uri,
                        "the name belongs to the table's inbox, and holds something else; remove or rename that");
        };
        if (!answers) refuse(places_.commands);
        attach_options look;
        look.trust = options_.trust;
        if (!detail::holds_inbox_answers(segment::attach(places_.answers, access::read_only, look)))
            refuse(places_.answers);
        // An inbox that is open keeps this lease, and nothing is removed.
        (void)segment::attach(places_.answers, access::read_write, removal());
        if (commands) {
            if (segment::attach(places_.commands, access::read_only, look).info().kind != container_kind::queue)
                refuse(places_.commands);
            segment::remove(places_.commands, removal());
        }
        segment::remove(places_.answers, removal());
    }
    [[nodiscard]] static bool exists(const std::string& uri) {
        struct stat status{};
        const std::string path = detail::places_of(memory::uri::parse(uri)).data();
        if (::lstat(path.c_str(), &status) == 0) return true;
        if (errno == ENOENT) return false;
        memory::throw_errno(errno, uri, "examining " + path);
    }
    [[nodiscard]] attach_options removal() const {
        attach_options how;
        how.trust = options_.trust;
        how.lease_timeout = options_.patience;
        return how;
    }
    /// Returns: whether the name is free. The next opening tries again, and tells.
    [[nodiscard]] bool remove_quietly(const std::string& uri) const noexcept {
        try {
            segment::remove(uri, removal());
            return true;
        } catch (const error& e) {
            return e.reason() == errc::not_found;
        } catch (const std::exception&) {  // no memory
            return false;
        }
    }
    /// Whoever may write the table may command, whoever may read it may see answers. Throws: not_found and others.
    [[nodiscard]] static create_options rights_of(const segment& table) {
        struct stat status{};
        const std::string path = detail::places_of(table.name()).data();
        const int reason = ::lstat(path.c_str(), &status) == 0 ? 0 : errno;
        // Behind that look, which was at the table's own file then: of another one nobody trusts the owner.
        if (table.replaced())
            throw error(errc::not_found, table.uri(),
                        "the name leads to this table no more, so nobody would find its inbox; make the table anew");
        if (reason != 0) memory::throw_errno(reason, table.uri(), "examining " + path);
        const memory::ownership rights = detail::rights_of(status);
        create_options result;
        result.mode = rights.mode;
        result.owner = rights.owner;
        result.group = rights.group;
        if (!result.group && status.st_gid != ::getegid()) result.group = status.st_gid;
        return result;
    }

    detail::inbox_target<Table> target_;
    inbox_options options_;
    detail::inbox_places places_;
    std::optional<broadcast_writer> answers_;
    std::optional<queue_consumer> commands_;
    std::vector<std::byte> command_, answer_;  // one at a time
    inbox_counts counts_;
};

}  // namespace holdfast
