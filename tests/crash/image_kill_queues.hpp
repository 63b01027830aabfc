// SPDX-License-Identifier: Apache-2.0
// image_kill_queues.hpp - queues of messages and of records in named segments that are empty, full, or in the middle of
// a batch, a claim or a block when image_kill_test.cpp kills one of their two sides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_rings.hpp"
#include "image_kill_subjects.hpp"
#include "image_kill_waits.hpp"

namespace holdfast::test::image_kill {

enum class ring { empty, half, full };

/// A queue that was used before, and as many messages as the state wants, by their numbers from 3 on.
template <class Form>
contents make_queue(const std::string& uri, ring how) {
    typename Form::producer producer = Form::create(uri);
    typename Form::consumer consumer = Form::consumer::attach(uri);
    contents there;
    u64 n = 0;
    for (; n < 3; ++n) {
        require(Form::put(producer, n), "a push");
        require(consumer.front() && consumer.pop(), "a pop");
    }
    for (; (how == ring::full || (how == ring::half && n < 7)) && Form::put(producer, n); ++n)
        there[name_of(n)] = Form::text(n);
    return there;
}
/// The next number, and what comes under it.
inline void push_into(contents& c, std::initializer_list<std::string> texts) {
    u64 next = 3;
    for (const auto& [number, text] : c) next = std::max<u64>(next, std::stoull(number) + 1);
    for (const std::string& text : texts) c[name_of(next++)] = text;
}
inline void pop_from(contents& c, u64 count) {
    for (u64 n = 3; n < 3 + count; ++n) c.erase(name_of(n));
}

inline void nothing_of_it(contents&) {}

// ---- of messages -------------------------------------------------------------------------------------------------

inline std::vector<operation> message_pushes() {
    return {by_side<queue_producer>(
                "try_push", [](queue_producer& p) { (void)p.try_push(bytes_of("one")); },
                [](contents& c) { push_into(c, {"one"}); }),
            by_side<queue_producer>(
                "try_push_all",
                [](queue_producer& p) {
                    const std::span<const std::byte> two[] = {bytes_of("one"), bytes_of("two")};
                    (void)p.try_push_all(two);
                },
                [](contents& c) { push_into(c, {"one", "two"}); }),
            by_side<queue_producer>(
                "push_back", [](queue_producer& p) { p.push_back(bytes_of("one")); },
                [](contents& c) { push_into(c, {"one"}); }),
            by_side<queue_producer>(
                "try_claim, discard, try_claim, commit",
                [](queue_producer& p) {
                    if (const queue_claim dropped = p.try_claim(40)) std::memset(dropped.bytes.data(), 'd', 40);
                    p.discard();
                    const queue_claim room = p.try_claim(40);
                    if (!room) return;
                    std::memset(room.bytes.data(), 'c', 30);
                    (void)p.commit(30);
                },
                [](contents& c) { push_into(c, {std::string(30, 'c')}); }),
            by_side<queue_producer>(
                "begin_batch, try_push, discard_batch, begin_batch, try_push, commit_batch",
                [](queue_producer& p) {
                    (void)p.begin_batch();
                    (void)p.try_push(bytes_of("dropped"));
                    p.discard_batch();
                    (void)p.begin_batch();
                    (void)p.try_push(bytes_of("one"));
                    (void)p.try_push(bytes_of("two"));
                    (void)p.commit_batch();
                },
                [](contents& c) { push_into(c, {"one", "two"}); })};
}
inline std::vector<operation> message_pops() {
    return {by_side<queue_consumer>(
                "front, pop", [](queue_consumer& c) { (void)c.front(), (void)c.pop(); },
                [](contents& c) { pop_from(c, 1); }),
            by_side<queue_consumer>(
                "try_pop, acknowledge",
                [](queue_consumer& c) {
                    std::byte out[100];
                    (void)c.try_pop(out);
                    c.acknowledge();
                },
                [](contents& c) { pop_from(c, 1); }),
            by_side<queue_consumer>(
                "drain", [](queue_consumer& c) { (void)c.drain(3, [](const queue_message&) {}); },
                [](contents& c) { pop_from(c, 3); }),
            by_side<queue_consumer>(
                "messages, up to the second",
                [](queue_consumer& c) {
                    u64 seen = 0;
                    for ([[maybe_unused]] const auto& message : c.messages())
                        if (++seen == 2) break;
                },
                [](contents& c) { pop_from(c, 1); })};
}

inline subject queue_subject_when(const char* name, ring how) {
    subject made{name,
                 [how](const std::string& uri) { return make_queue<form_of_bytes>(uri, how); },
                 take_messages,
                 {},
                 push_the_next_message(),
                 true};
    if (how == ring::empty) made.operations = message_pushes();
    if (how == ring::full) {
        made.operations = message_pops();
        made.operations.push_back(by_side<queue_producer>(
            "a refused try_push",
            [](queue_producer& p) {
                require(p.try_push(bytes_of(std::string(100, 'x'))).status == outcome::full, "no room");
            },
            nothing_of_it));
    }
    return made;
}

/// Its producer has two messages in an open batch; the consumer takes what was there before.
inline subject queue_subject_mid_batch() {
    const auto begin = [](queue_producer& by) {
        require(by.begin_batch() && by.try_push(bytes_of("one")) && by.try_push(bytes_of("two")), "an open batch");
    };
    const auto changes = [begin](const char* name, std::function<void(queue_producer&)> operate,
                                 std::function<void(contents&)> apply) {
        return amid<queue_producer>(name, begin, std::move(operate), std::move(apply));
    };
    subject made{
        "queue_mid_batch",
        [](const std::string& uri) { return make_queue<form_of_bytes>(uri, ring::half); },
        take_messages,
        {changes(
             "try_push into the batch", [](queue_producer& p) { (void)p.try_push(bytes_of("three")); }, nothing_of_it),
         changes(
             "commit_batch", [](queue_producer& p) { (void)p.commit_batch(); },
             [](contents& c) { push_into(c, {"one", "two"}); }),
         changes(
             "try_claim, commit, commit_batch",
             [](queue_producer& p) {
                 const queue_claim room = p.try_claim(40);
                 if (!room) return;
                 std::memset(room.bytes.data(), 'c', 30);
                 (void)p.commit(30);
                 (void)p.commit_batch();
             },
             [](contents& c) { push_into(c, {"one", "two", std::string(30, 'c')}); }),
         changes(
             "discard_batch, try_push",
             [](queue_producer& p) {
                 p.discard_batch();
                 (void)p.try_push(bytes_of("three"));
             },
             [](contents& c) { push_into(c, {"three"}); })},
        push_the_next_message(),
        true};
    made.operations.push_back({"pop beside an open batch",
                               [begin](const std::string& uri) -> std::function<void()> {
                                   auto producer = std::make_shared<queue_producer>(queue_producer::attach(uri));
                                   begin(*producer);
                                   auto pop = with(queue_consumer::attach(uri),
                                                   [](queue_consumer& c) { (void)c.front(), (void)c.pop(); });
                                   return [producer, pop] { pop(); };
                               },
                               [](contents& c) { pop_from(c, 1); }});
    return made;
}

// ---- of records --------------------------------------------------------------------------------------------------

inline std::vector<operation> record_pushes() {
    return {by_side<record_producer>(
                "try_push of one", [](record_producer& p) { (void)p.try_push(session_of(40)); },
                [](contents& c) { push_into(c, {"40"}); }),
            by_side<record_producer>(
                "try_push of some",
                [](record_producer& p) {
                    const session some[] = {session_of(40), session_of(41), session_of(42)};
                    (void)p.try_push(some);
                },
                [](contents& c) { push_into(c, {"40", "41", "42"}); }),
            by_side<record_producer>(
                "push_back", [](record_producer& p) { p.push_back(session_of(40)); },
                [](contents& c) { push_into(c, {"40"}); }),
            by_side<record_producer>(
                "try_claim, discard, try_claim, commit",
                [](record_producer& p) {
                    if (const auto dropped = p.try_claim()) *dropped.value = session_of(50);
                    p.discard();
                    const auto room = p.try_claim();
                    if (!room) return;
                    *room.value = session_of(40);
                    (void)p.commit();
                },
                [](contents& c) { push_into(c, {"40"}); })};
}
inline std::vector<operation> record_pops() {
    return {by_side<record_consumer>(
                "front, pop", [](record_consumer& c) { (void)c.front(), (void)c.pop(); },
                [](contents& c) { pop_from(c, 1); }),
            by_side<record_consumer>(
                "front_block, pop of two", [](record_consumer& c) { (void)c.front_block(4), (void)c.pop(2); },
                [](contents& c) { pop_from(c, 2); }),
            by_side<record_consumer>(
                "try_pop, acknowledge",
                [](record_consumer& c) {
                    (void)c.try_pop();
                    c.acknowledge();
                },
                [](contents& c) { pop_from(c, 1); }),
            by_side<record_consumer>(
                "try_pop of some, acknowledge",
                [](record_consumer& c) {
                    session some[3];
                    (void)c.try_pop(some);
                    c.acknowledge();
                },
                [](contents& c) { pop_from(c, 3); }),
            by_side<record_consumer>(
                "drain", [](record_consumer& c) { (void)c.drain(3, [](const session&) {}); },
                [](contents& c) { pop_from(c, 3); }),
            by_side<record_consumer>(
                "values, up to the second",
                [](record_consumer& c) {
                    u64 seen = 0;
                    for ([[maybe_unused]] const session& value : c.values())
                        if (++seen == 2) break;
                },
                [](contents& c) { pop_from(c, 1); })};
}

inline subject record_queue_subject_when(const char* name, ring how) {
    subject made{name,
                 [how](const std::string& uri) { return make_queue<form_of_records>(uri, how); },
                 take_records,
                 {},
                 push_the_next_record(),
                 true};
    if (how == ring::empty) made.operations = record_pushes();
    if (how == ring::full) {
        made.operations = record_pops();
        made.operations.push_back(by_side<record_producer>(
            "a refused try_push",
            [](record_producer& p) { require(p.try_push(session_of(40)).status == outcome::full, "no room"); },
            nothing_of_it));
    }
    return made;
}

/// Its producer has filled a slot that it claimed, its consumer has released a part of a block.
inline subject record_queue_subject_mid_batch() {
    return {
        "queue_of_records_mid_batch",
        [](const std::string& uri) { return make_queue<form_of_records>(uri, ring::half); },
        take_records,
        {amid<record_producer>(
             "commit of a claim", [](auto& by) { *by.try_claim().value = session_of(40); },
             [](record_producer& p) { (void)p.commit(); }, [](contents& c) { push_into(c, {"40"}); }),
         amid<record_producer>(
             "try_push beside a claim", [](auto& by) { *by.try_claim().value = session_of(50); },
             [](record_producer& p) { (void)p.try_push(session_of(40)); }, [](contents& c) { push_into(c, {"40"}); }),
         amid<record_consumer>(
             "pop of a part of a block", [](auto& by) { (void)by.front_block(3); },
             [](record_consumer& c) { (void)c.pop(2); }, [](contents& c) { pop_from(c, 2); })},
        push_the_next_record(),
        true};
}

}  // namespace holdfast::test::image_kill
