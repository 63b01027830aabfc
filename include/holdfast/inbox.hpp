// SPDX-License-Identifier: Apache-2.0
// inbox.hpp - how others change a table that one process keeps to itself: they ask, and its owner applies.
//
//     auto sessions = holdfast::hash_table<std::uint64_t, session>::create("sessions", {.capacity = 1'000'000});
//     holdfast::table_inbox inbox(sessions);        // from here on PUT, DELETE and `holdfast put` reach this process
//     for (;;) { ...; inbox.apply(64); }            // now and then: applies what waits, and answers
//
//     // in any other process that may write the table's file
//     if (auto owner = holdfast::inbox_client::attach("sessions"))
//         auto reply = owner->ask({.operation = holdfast::inbox_operation::erase, .key = bytes}, 1s);
//
// Two ordinary segments beside the table: a queue of commands, NAME.inbox, whose producer's lease a requester takes for
// the moment of one enqueue, and a ring of answers, NAME.answers, that every requester reads for its own.
//
// Steps, what a death leaves at each, and invariants: inbox/owner.hpp. Formats: inbox/messages.hpp. Why:
// docs/design/0039-inbox.md.
// Threads: the owner's handle by the thread of the table's; a client by one thread at a time.
// Crash:   no command is applied twice. One whose answer did not come was applied or not, and who asked cannot know
//          which; one that was answered stands.
// Trust:   each side copies what the other wrote before it looks, and believes no size in it.
#pragma once

#include "holdfast/inbox/client.hpp"    // IWYU pragma: export
#include "holdfast/inbox/messages.hpp"  // IWYU pragma: export
#include "holdfast/inbox/owner.hpp"     // IWYU pragma: export
