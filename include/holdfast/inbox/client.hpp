// SPDX-License-Identifier: Apache-2.0
// client.hpp - the side of an inbox that asks. See inbox.hpp.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/detail/random_seed.hpp"
#include "holdfast/detail/spans.hpp"
#include "holdfast/error.hpp"
#include "holdfast/inbox/messages.hpp"
#include "holdfast/inbox/places.hpp"
#include "holdfast/memory/fork_guard.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/outcome.hpp"
#include "holdfast/queue/producer.hpp"
#include "holdfast/segment.hpp"

namespace holdfast {

/// What came of a command that was sent and waited for.
struct inbox_reply {
    /// ok: `answer` says the rest. Nothing was changed: full, contended, writer_gone before it was sent, too_large, as
    /// send() says. Nothing may be concluded: timed_out, reader_gone (the owner ended meanwhile), corrupt.
    outcome status = outcome::timed_out;
    inbox_answer answer{};
};

/// Sends commands to a table's owner. Move-only.
///
/// Threads: one at a time. After a crash: of the client amid send(): nothing of the command is there, or all of it. A
/// forked child's is another client from its first call on: answers to what its parent sent are its parent's. A client
/// that was moved from must not be used.
class inbox_client {
 public:
    /// Looks whether a living process has an inbox open for this table. Needs the right to read the table, and for
    /// send() the right to write it. Returns: nothing where there is none.
    /// Throws: no_permission, unsafe_file, io, ... of what cannot be told.
    [[nodiscard]] static std::optional<inbox_client> attach(std::string_view table,
                                                            const attach_options& options = {}) {
        const memory::uri name = memory::uri::parse(table);
        if (!name.is_path()) return std::nullopt;
        try {
            detail::inbox_places places = detail::inbox_places::of(name);
            auto ring = segment::attach_read_only(places.answers, options);
            if (!detail::holds_inbox_answers(*ring)) return std::nullopt;
            inbox_client result(std::move(places), std::move(ring), options);
            return result.owner_alive() ? std::optional(std::move(result)) : std::nullopt;
        } catch (const error& e) {
            // A file that is no whole segment is somebody's else, and no ring of answers.
            constexpr errc none[] = {errc::not_found, errc::invalid_name, errc::bad_magic, errc::not_ready,
                                     errc::truncated};
            if (std::ranges::find(none, e.reason()) != std::end(none)) return std::nullopt;
            throw;
        }
    }
    inbox_client(inbox_client&&) noexcept = default;
    inbox_client& operator=(inbox_client&&) noexcept = default;
    inbox_client(const inbox_client&) = delete;
    inbox_client& operator=(const inbox_client&) = delete;
    ~inbox_client() = default;

    /// Puts a command into the inbox, to be applied within `timeout` or not at all.
    /// Returns: ok with its sequence as `count`; full (the owner is behind); contended (another requester is amid
    /// this: after `patience`); writer_gone (the owner ended, or opened another inbox: attach anew); too_large (more
    /// tags, key or value than a command has); corrupt. Unless ok, nothing was sent. Throws: corrupt, no_permission,
    /// io, ...
    /// Cost: about 85 us, mostly system calls: the lease of the queue is taken for the moment.
    result send(const inbox_command& what, std::chrono::nanoseconds timeout,
                std::chrono::nanoseconds patience = std::chrono::milliseconds(20)) {
        return send_until(what, memory::deadline::after(timeout), patience);
    }

    /// The next answer to a command of this client, in a buffer of its own: good until the next call.
    /// Returns: nothing where there is none now. Cost: of each answer to others a copy, 1024 of these at most.
    /// Throws: io (no random bytes), no_space, in a forked child.
    [[nodiscard]] std::optional<inbox_answer> next() {
        be_own();
        for (unsigned looked = 0; looked < others_max; ++looked) {
            const broadcast_read got = reader_.read(buffer_);
            if (got.status == outcome::lapped) continue;
            if (!got) return std::nullopt;
            const std::optional<inbox_answer> answer = detail::decode_answer(buffer_);
            if (answer && answer->id.client == client_) return answer;
        }
        return std::nullopt;
    }
    /// Waits until next() may have something. Returns: ok; timed_out; writer_gone (the owner ended or closed its inbox,
    /// and there is nothing more). It looks by itself, each 0.05 to 1 ms.
    result wait(std::chrono::nanoseconds timeout) noexcept {
        const memory::deadline until = memory::deadline::after(timeout);
        for (;;) {
            const std::uint64_t left = until.left_ns();
            const bool owned = is_owned();  // before the look: what the owner said last is seen by it
            const auto span = std::chrono::nanoseconds(owned ? std::min(left, slice_ns) : 0);
            if (const result got = reader_.wait(span); got.status == outcome::ok) return got;
            if (!owned) return {outcome::writer_gone, 0};
            if (left == 0) return {outcome::timed_out, 0};
        }
    }

    /// Sends a command and waits for its answer, whose value is good until the next call. Answers to commands that were
    /// sent before and not waited for are passed over. Throws: as send().
    [[nodiscard]] inbox_reply ask(const inbox_command& what, std::chrono::nanoseconds timeout) {
        const memory::deadline until = memory::deadline::after(timeout);
        const result sent = send_until(what, until, std::min<std::chrono::nanoseconds>(timeout, ask_patience));
        if (!sent) return {sent.status, {}};
        for (;;) {
            while (const std::optional<inbox_answer> answer = next()) {
                if (answer->id.sequence == sent.count) return {outcome::ok, *answer};
                if (until.left_ns() == 0) return {outcome::timed_out, {}};  // who fills the ring keeps nobody
            }
            if (fault()) return {outcome::corrupt, {}};
            const result news = wait(std::chrono::nanoseconds(until.left_ns()));
            if (news && until.left_ns() != 0) continue;
            return {news.status == outcome::writer_gone ? outcome::reader_gone : outcome::timed_out, {}};
        }
    }

    /// Whether the owner's inbox is open; true also where that cannot be told. Cost: an open and a lock call.
    [[nodiscard]] bool owner_alive() const {
        const lease_state state = lease_state_of(reader_.segment().name());
        return (state == lease_state::held || state == lease_state::unknown) && !reader_.segment().replaced();
    }
    /// Who it is in what it sends. Drawn by attach(), and once more by a forked child's first send() or next().
    [[nodiscard]] std::uint64_t client() const noexcept { return client_; }
    /// Of the answers: errc::corrupt once a look met damage, errc::truncated if the file was cut under us.
    [[nodiscard]] std::optional<errc> fault() const noexcept { return reader_.fault(); }

 private:
    static constexpr unsigned others_max = 1024;
    static constexpr std::chrono::nanoseconds ask_patience = std::chrono::seconds(1);
    static constexpr std::uint64_t slice_ns = 20'000'000;

    inbox_client(detail::inbox_places places, std::shared_ptr<const holdfast::segment> answers,
                 const attach_options& options)
        : places_(std::move(places)),
          options_(options),
          reader_(std::move(answers), broadcast_start::latest()),
          guard_(memory::fork_guard::make(places_.answers)),
          client_(detail::random_seed(places_.answers)) {}

    /// A forked child inherits number and count: its commands would be answered to its parent, too.
    void be_own() {
        if (guard_.same_process()) return;
        client_ = detail::random_seed(places_.answers);
        guard_ = memory::fork_guard::make(places_.answers);
    }

    /// Whether the owner is there, where that can be told; else it is taken to be.
    [[nodiscard]] bool is_owned() const noexcept {
        try {
            return owner_alive();
        } catch (const std::exception&) {  // no memory for a path
            return true;
        }
    }

    result send_until(const inbox_command& what, const memory::deadline& until, std::chrono::nanoseconds patience) {
        be_own();
        attach_options how = options_;
        how.lease_timeout = patience;
        try {
            queue_producer producer = queue_producer::attach(places_.commands, how);
            // Behind the lease: an opening removes the queue first, which takes the lease. So while the name leads to
            // this queue, and that of the answers to ours, they belong together.
            if (producer.segment().replaced() || reader_.segment().replaced() || !producer.consumer_alive())
                return {outcome::writer_gone, 0};
            return push(producer, what, until.at_ns());
        } catch (const error& e) {
            if (e.reason() == errc::writer_alive) return {outcome::contended, 0};
            if (e.reason() == errc::not_found || e.reason() == errc::kind_mismatch) return {outcome::writer_gone, 0};
            throw;
        }
    }
    result push(queue_producer& producer, const inbox_command& what, std::uint64_t deadline_ns) {
        const std::size_t bytes = detail::inbox_command_bytes_max(what.key.size(), what.value.size());
        const queue_claim room = producer.try_claim(bytes);
        if (!room) return {room.status, 0};
        const inbox_id id{client_, ++sequence_};
        const std::size_t used = detail::encode_command(room.bytes, id, deadline_ns, what);
        if (used == 0) return {outcome::too_large, 0};
        const result done = producer.commit(used);
        return {done.status, done ? sequence_ : 0};
    }

    detail::inbox_places places_;
    attach_options options_;
    broadcast_reader reader_;
    memory::fork_guard guard_;
    std::uint64_t client_;
    std::uint64_t sequence_ = 0;
    std::vector<std::byte> buffer_;
};

}  // namespace holdfast
