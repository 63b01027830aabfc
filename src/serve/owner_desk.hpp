// SPDX-License-Identifier: Apache-2.0
// owner_desk.hpp - changes that a table's living owner makes for this worker's clients, by its inbox: sent at once,
// answered later. docs/design/0039-inbox.md.
//
// (I1) Whoever asked is told once: the owner's answer, or why there is none. What was sent is never written by another
//      way.
// (I2) Nothing here waits, but for another requester's enqueue, some milliseconds at most.
// Threads: the loop's alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "holdfast/inbox.hpp"
#include "holdfast/net/server.hpp"
#include "serve/entry_text.hpp"

namespace holdfast::serve {

/// What became of a command; `answer` is nothing where nobody can tell, and then `why` says it.
struct owner_reply {
    const inbox_answer* answer = nullptr;
    outcome why = outcome::ok;  ///< timed_out; writer_gone: the owner ended; corrupt: its answers are damaged
};

class owner_desk {
 public:
    using told = std::function<void(const owner_reply&)>;
    class table;

    /// Says whose timers to use. Before the first request, and it must outlive the last.
    void run_on(net::server& loop) noexcept { loop_ = &loop; }

    /// The inbox of the living owner of what has this segment's name now. Returns: null where there is none, or many
    /// writers. Throws: failure 404, error.
    [[nodiscard]] std::shared_ptr<table> of(const segment& memory);
    /// Sends a command. `later` is called on the loop, not within this. Returns: ok; else nothing was sent: writer_gone
    /// (ask of() again), full, contended, too_large. Throws: error.
    outcome ask(const std::shared_ptr<table>& owner, const inbox_command& what, told later);

    /// Call it some times a second: lets go of what nobody asks any more.
    void refresh();

 private:
    void schedule(const std::shared_ptr<table>& owner);
    void turn(const std::shared_ptr<table>& owner);

    static constexpr unsigned idle_ticks_max = 20;  // of refresh(), a second
    net::server* loop_ = nullptr;
    std::unordered_map<std::string, std::shared_ptr<table>> tables_;  // by URI
};

/// One life of one table's inbox, as this worker knows it.
class owner_desk::table {
 public:
    table(inbox_client client, const container_schema& schema, const std::string& uri)
        : client_(std::move(client)), text_(schema, uri) {}
    [[nodiscard]] entry_text& text() noexcept { return text_; }

 private:
    friend class owner_desk;
    struct waiting {
        std::uint64_t until_ns;
        told later;
    };
    static constexpr std::size_t waiting_max = 4096;

    inbox_client client_;
    entry_text text_;
    std::unordered_map<std::uint64_t, waiting> waiting_;  // by sequence
    std::uint64_t pause_ns_ = 0;
    std::uint64_t looked_after_owner_ns_ = 0;
    bool scheduled_ = false;
    unsigned idle_ticks_ = 0;
};

}  // namespace holdfast::serve
