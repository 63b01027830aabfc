// SPDX-License-Identifier: Apache-2.0
// image_kill_rings.hpp - queues and broadcasts in named segments, half full and round their end, with the operations in
// which image_kill_test.cpp kills one of their sides.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_subjects.hpp"

namespace holdfast::test::image_kill {

/// What a handle of either side does that has just come.
template <class Side>
operation by_side(const char* name, std::function<void(Side&)> operate, std::function<void(contents&)> apply) {
    return {name, [operate](const std::string& uri) { return with(Side::attach(uri), operate); }, std::move(apply)};
}
/// The same where it was in the middle of something.
template <class Side>
operation amid(const char* name, std::function<void(Side&)> begin, std::function<void(Side&)> operate,
               std::function<void(contents&)> apply) {
    return {name,
            [begin, operate](const std::string& uri) {
                Side side = Side::attach(uri);
                begin(side);
                return with(std::move(side), operate);
            },
            std::move(apply)};
}

template <class Consumer, class Text>
contents take_all(const std::string& uri, Text text) {
    contents found;
    const auto seen = queue_observer::attach(uri).verify();
    Consumer consumer = Consumer::attach(uri);
    while (const auto got = consumer.front()) {
        found[name_of(consumer.stats().messages)] = text(got);
        require(consumer.pop(), "a pop");
    }
    add_damage(found, seen.found);
    return found;
}
inline contents take_messages(const std::string& uri) {
    return take_all<queue_consumer>(uri, [](const queue_message& m) { return text_of_bytes(m.bytes); });
}
inline contents take_records(const std::string& uri) {
    return take_all<queue<session>::consumer>(uri, [](const auto& e) { return text_of_session(e.value); });
}

inline afterwards push_the_next_message() {
    return afterwards({"push",
                       [](const std::string& uri) {
                           return with(queue_producer::attach(uri), [](queue_producer& p) {
                               (void)p.try_push(bytes_of("number " + name_of(p.stats().messages)));
                           });
                       },
                       {}});
}
using record_producer = queue<session>::producer;
using record_consumer = queue<session>::consumer;
inline afterwards push_the_next_record() {
    return afterwards({"push",
                       [](const std::string& uri) {
                           return with(record_producer::attach(uri),
                                       [](record_producer& p) { (void)p.try_push(session_of(p.stats().messages)); });
                       },
                       {}});
}

// Messages by number: one that a killed consumer had not released comes again under the number it had. Of a ring of 512
// bytes; with `popped` beyond a few the next messages go round its end.
inline subject queue_subject(const char* name, u64 popped) {
    const u64 pushed = popped + 5;
    const auto by_producer = [](const char* what, auto operate, auto apply) {
        return operation{what, [operate](const std::string& uri) { return with(queue_producer::attach(uri), operate); },
                         apply};
    };
    const auto put = [](queue_producer& p, u64 from, u64 to) {
        for (u64 n = from; n < to; ++n) (void)p.try_push(bytes_of(text_of(n)));
    };
    return {name,
            [put, popped, pushed](const std::string& uri) {
                queue_options options;
                options.capacity_bytes = 512;
                queue_producer producer = queue_producer::create(uri, options);
                queue_consumer consumer = queue_consumer::attach(uri);
                contents made;
                for (u64 n = 0; n < popped; ++n) {
                    put(producer, n, n + 1);
                    require(consumer.front() && consumer.pop(), "a pop");
                }
                put(producer, popped, pushed);
                for (u64 n = popped; n < pushed; ++n) made[name_of(n)] = text_of(n);
                return made;
            },
            take_messages,
            {by_producer(
                 "push", [put, pushed](queue_producer& p) { put(p, pushed, pushed + 1); },
                 [pushed](contents& c) { c[name_of(pushed)] = text_of(pushed); }),
             by_producer(
                 "batch",
                 [put, pushed](queue_producer& p) {
                     (void)p.begin_batch();
                     put(p, pushed, pushed + 2);
                     (void)p.commit_batch();
                 },
                 [pushed](contents& c) {
                     for (u64 n = pushed; n < pushed + 2; ++n) c[name_of(n)] = text_of(n);
                 }),
             by_producer(
                 "claim",
                 [](queue_producer& p) {
                     const queue_claim room = p.try_claim(100);
                     if (!room) return;
                     std::memset(room.bytes.data(), 'c', 60);
                     (void)p.commit(60);
                 },
                 [pushed](contents& c) { c[name_of(pushed)] = std::string(60, 'c'); }),
             {"pop",
              [](const std::string& uri) {
                  return with(queue_consumer::attach(uri), [](queue_consumer& c) { (void)c.front(), (void)c.pop(); });
              },
              [popped](contents& c) { c.erase(name_of(popped)); }}},
            push_the_next_message(),
            true};
}

inline subject record_queue_subject() {
    return {"queue_of_records",
            [](const std::string& uri) {
                auto producer = record_producer::create(uri, {.capacity = 8});
                auto consumer = record_consumer::attach(uri);
                contents made;
                for (u64 n = 0; n < 7; ++n) {
                    require(static_cast<bool>(producer.try_push(session_of(n))), "a push");
                    if (n < 3) require(consumer.front() && consumer.pop(), "a pop");
                    if (n >= 3) made[name_of(n)] = name_of(n);
                }
                return made;
            },
            take_records,
            {{"push",
              [](const std::string& uri) {
                  return with(record_producer::attach(uri), [](record_producer& p) {
                      const session three[] = {session_of(7), session_of(8), session_of(9)};  // round the end
                      (void)p.try_push(three);
                  });
              },
              [](contents& c) {
                  for (const char* n : {"7", "8", "9"}) c[n] = n;
              }},
             {"claim",
              [](const std::string& uri) {
                  return with(record_producer::attach(uri), [](record_producer& p) {
                      const auto room = p.try_claim();
                      if (!room) return;
                      *room.value = session_of(7);
                      (void)p.commit();
                  });
              },
              [](contents& c) { c["7"] = "7"; }},
             {"pop",
              [](const std::string& uri) {
                  return with(record_consumer::attach(uri), [](record_consumer& c) { (void)c.front(), (void)c.pop(); });
              },
              [](contents& c) { c.erase("3"); }}},
            push_the_next_record(),
            true};
}

inline operation by_broadcaster(const char* name, std::function<void(broadcast_writer&)> operate,
                                std::function<void(contents&)> apply) {
    return {name, [operate](const std::string& uri) { return with(broadcast_writer::attach(uri), operate); },
            std::move(apply)};
}
inline contents read_ring(const std::string& uri) {
    broadcast_reader reader = broadcast_reader::attach(uri);
    contents found;
    std::vector<std::byte> bytes;
    while (const auto got = reader.read(bytes)) found[name_of(got.sequence)] = text_of_bytes(bytes);
    add_damage(found, reader.verify());
    return found;
}
inline contents make_ring(const std::string& uri, std::uint32_t readers) {
    broadcast_options options;
    options.capacity_bytes = 2048;
    options.registered_readers = readers;
    broadcast_writer writer = broadcast_writer::create(uri, options);
    contents made;
    for (u64 n = 0; n < 8; ++n) {
        require(static_cast<bool>(writer.publish(bytes_of(text_of(n)))), "a message");
        made[name_of(n + 1)] = text_of(n);
    }
    return made;
}

/// Of rings whose oldest messages go.
inline contents newest(const contents& all) {
    u64 last = 0;
    for (const auto& [number, text] : all)
        last = std::max(last, number == "damage" ? ~u64{0} : static_cast<u64>(std::stoull(number)));
    return contents{{"newest", name_of(last)}};
}

inline subject broadcast_subject() {
    return {"broadcast",
            [](const std::string& uri) { return make_ring(uri, 0); },
            read_ring,
            {by_broadcaster(
                 "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("one")); },
                 [](contents& c) { c["9"] = "one"; }),
             by_broadcaster(
                 "batch",
                 [](broadcast_writer& w) {
                     (void)w.append(bytes_of("one"));
                     (void)w.publish(bytes_of("two"));
                 },
                 [](contents& c) { c["9"] = "one", c["10"] = "two"; }),
             by_broadcaster(
                 "claim",
                 [](broadcast_writer& w) {
                     const broadcast_claim room = w.claim(100);
                     if (!room) return;
                     std::memset(room.bytes.data(), 'c', 60);
                     (void)w.commit(60);
                 },
                 [](contents& c) { c["9"] = std::string(60, 'c'); }),
             by_broadcaster(
                 "append, discard, claim, stage, commit",
                 [](broadcast_writer& w) {
                     (void)w.append(bytes_of("dropped"));
                     w.discard();
                     const broadcast_claim room = w.claim(100);
                     if (!room) return;
                     std::memset(room.bytes.data(), 's', 50);
                     (void)w.stage(50);
                     (void)w.commit();
                 },
                 [](contents& c) { c["9"] = std::string(50, 's'); }),
             by_broadcaster(
                 "publish_batch",
                 [](broadcast_writer& w) {
                     const std::span<const std::byte> two[] = {bytes_of("three"), bytes_of("four")};
                     (void)w.publish_batch(two);
                 },
                 [](contents& c) { c["9"] = "three", c["10"] = "four"; }),
             by_broadcaster(
                 "push_back", [](broadcast_writer& w) { w.push_back(bytes_of("five")); },
                 [](contents& c) { c["9"] = "five"; })},
            afterwards(by_broadcaster(
                "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("next")); },
                [](contents& c) { c[name_of(c.size() + 1)] = "next"; }))};
}

// Readers that block the writer register, move and leave; the next writer goes round the ring past who died of it, and
// all places are free.
inline subject registered_broadcast_subject() {
    const auto nothing = [](contents&) {};
    const auto by_reader = [nothing](const char* name, auto operate) {
        return operation{name,
                         [operate](const std::string& uri) {
                             auto reader = std::make_shared<std::optional<broadcast_reliable_reader>>();
                             reader->emplace(broadcast_reliable_reader::attach(uri));
                             return [reader, operate] { operate(*reader); };
                         },
                         nothing};
    };
    using maybe_reader = std::optional<broadcast_reliable_reader>;
    return {"broadcast_registered",
            [](const std::string& uri) { return newest(make_ring(uri, 2)); },
            [](const std::string& uri) { return newest(read_ring(uri)); },
            {{"register",
              [](const std::string& uri) {
                  auto memory = std::make_shared<const segment>(segment::attach(uri, access::read_only));
                  return [memory] { (void)broadcast_reliable_reader(memory); };
              },
              nothing},
             by_reader("move",
                       [](maybe_reader& r) {
                           std::byte message[100];
                           (void)r->read(message), (void)r->read(message);
                       }),
             by_reader("visit, and acknowledge",
                       [](maybe_reader& r) {
                           (void)r->visit([](std::span<const std::byte>, std::uint16_t) {});
                           r->acknowledge();
                       }),
             by_reader("read_batch, of all there is",
                       [](maybe_reader& r) {
                           std::byte room[1000];
                           const auto use = [](auto&&...) {};
                           while (r->read_batch(room, use)) {
                           }
                       }),
             by_reader("drain",
                       [](maybe_reader& r) {
                           std::vector<std::byte> buffer;
                           for ([[maybe_unused]] const auto& message : r->drain(buffer)) {
                           }
                       }),
             by_reader("enrol anew",
                       [](maybe_reader& r) {
                           (void)r->enrol({.start = broadcast_start::latest(), .policy = broadcast_policy::drop});
                       }),
             by_reader("leave", [](maybe_reader& r) { r.reset(); })},
            afterwards({"publish",
                        [](const std::string& uri) {
                            return with(broadcast_writer::attach(uri), [uri](broadcast_writer& w) {
                                for (u64 n = 0; n < 100; ++n)
                                    require(static_cast<bool>(w.publish(bytes_of(text_of(n)))), "a message");
                                const auto one = broadcast_reliable_reader::attach(uri),
                                           other = broadcast_reliable_reader::attach(uri);
                            });
                        },
                        [](contents& c) { c["newest"] = "108"; }})};
}

}  // namespace holdfast::test::image_kill
