// SPDX-License-Identifier: Apache-2.0
// image_kill_waits.hpp - rings on which somebody sleeps, or is woken, with the instants at which image_kill_test.cpp
// kills who goes to sleep, who gives up and who wakes. Asleep nobody stores: a death then leaves what one in front of
// it does. Whoever comes next goes on, and wakes or is woken in its turn.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_rings.hpp"
#include "image_kill_subjects.hpp"

namespace holdfast::test::image_kill {

/// Over before the first sleep: a stepped process takes longer for its looks. What it stores is the same.
inline constexpr std::chrono::nanoseconds no_time{1};

// ---- queues ------------------------------------------------------------------------------------------------------

/// What a dead consumer leaves that slept, or was about to.
inline void leave_consumer_asleep(const std::string& uri) {
    const segment memory = segment::attach(uri, access::read_only);
    const peers table = peers::open(memory);
    auto& side = *reinterpret_cast<layout::queue_side*>(table.slot(layout::queue_consumer_slot).data());
    side.waiting.store(1);
}
/// And a producer, for the first room that there is.
inline void leave_producer_asleep(const std::string& uri) {
    segment memory = segment::attach(uri, access::read_write);
    reinterpret_cast<layout::queue_side*>(memory.body().data() + layout::queue_producer_offset)->waiting.store(1);
}

struct form_of_bytes {
    using producer = queue_producer;
    using consumer = queue_consumer;
    static constexpr u64 room = 100;
    static producer create(const std::string& uri) {
        queue_options options;
        options.capacity_bytes = 512;
        return queue_producer::create(uri, options);
    }
    static bool put(producer& by, u64 n) { return static_cast<bool>(by.try_push(bytes_of("number " + name_of(n)))); }
    static std::string text(u64 n) { return "number " + name_of(n); }
    static contents take(const std::string& uri) { return take_messages(uri); }
};
struct form_of_records {
    using producer = queue<session>::producer;
    using consumer = queue<session>::consumer;
    static constexpr u64 room = 1;
    static producer create(const std::string& uri) { return producer::create(uri, {.capacity = 8}); }
    static bool put(producer& by, u64 n) { return static_cast<bool>(by.try_push(session_of(n))); }
    static std::string text(u64 n) { return name_of(n); }
    static contents take(const std::string& uri) { return take_records(uri); }
};

/// Empty, its consumer asleep; or full, its producer.
template <class Form>
subject waiting_queue_subject(const char* name, bool full) {
    using producer_of = typename Form::producer;
    using consumer_of = typename Form::consumer;
    const auto nothing = [](contents&) {};
    subject made{name,
                 [full](const std::string& uri) {
                     producer_of producer = Form::create(uri);
                     consumer_of consumer = consumer_of::attach(uri);
                     contents there;
                     u64 n = 0;
                     for (; n < 3; ++n) {
                         require(Form::put(producer, n), "a push");
                         require(consumer.front() && consumer.pop(), "a pop");
                     }
                     for (; full && Form::put(producer, n); ++n) there[name_of(n)] = Form::text(n);
                     return there;
                 },
                 Form::take,
                 {},
                 afterwards({"push",
                             [](const std::string& uri) {
                                 return with(producer_of::attach(uri), [uri](producer_of& producer) {
                                     require(Form::put(producer, producer.stats().messages), "a push");
                                     consumer_of consumer = consumer_of::attach(uri);
                                     require(static_cast<bool>(consumer.wait(no_time)), "a wait for what is there");
                                 });
                             },
                             {}}),
                 true};
    if (full) {
        made.operations = {{"wait for room",
                            [](const std::string& uri) {
                                return with(producer_of::attach(uri),
                                            [](producer_of& p) { (void)p.wait_room(Form::room, no_time); });
                            },
                            nothing},
                           {"pop that wakes",
                            [](const std::string& uri) {
                                leave_producer_asleep(uri);
                                return with(consumer_of::attach(uri), [](consumer_of& c) {
                                    require(c.front() && c.pop(), "a pop");
                                    require(c.stats().rung == 1, "a ring");
                                });
                            },
                            [](contents& c) { c.erase("3"); }}};
        return made;
    }
    made.operations = {{"wait",
                        [](const std::string& uri) {
                            return with(consumer_of::attach(uri), [](consumer_of& c) { (void)c.wait(no_time); });
                        },
                        nothing},
                       {"push that wakes",
                        [](const std::string& uri) {
                            leave_consumer_asleep(uri);
                            return with(producer_of::attach(uri), [](producer_of& p) {
                                require(Form::put(p, 3), "a push");
                                require(p.stats().rung == 1, "a ring");
                            });
                        },
                        [](contents& c) { c["3"] = Form::text(3); }}};
    return made;
}

// ---- broadcasts --------------------------------------------------------------------------------------------------

inline bool publish_one(broadcast_writer& by) { return static_cast<bool>(by.publish(bytes_of(std::string(60, 'm')))); }
inline void count_newest(contents& c, u64 more) { c["newest"] = name_of(std::stoull(c["newest"]) + more); }

/// A registered reader goes to sleep on the ring, is woken, and wakes a writer by what it has read.
inline subject waiting_broadcast_subject() {
    struct board {
        segment memory;
        peers table;
        explicit board(const std::string& uri)
            : memory(segment::attach(uri, access::read_only)), table(peers::open(memory)) {}
        [[nodiscard]] layout::broadcast_board& words() const { return holdfast::detail::broadcast_board_in(table); }
    };
    const auto nothing = [](contents&) {};
    return {"broadcast_that_is_waited_on",
            [](const std::string& uri) { return newest(make_ring(uri, 2)); },
            [](const std::string& uri) { return newest(read_ring(uri)); },
            {{"wait",
              [](const std::string& uri) {
                  broadcast_reliable_reader reader = broadcast_reliable_reader::attach(uri);
                  std::vector<std::byte> message;
                  while (reader.read(message)) {
                  }
                  return with(std::move(reader), [](broadcast_reliable_reader& r) { (void)r.wait(no_time); });
              },
              nothing},
             {"publish that wakes",
              [](const std::string& uri) {
                  auto seen = std::make_shared<board>(uri);
                  seen->words().asleep.store(1);
                  return with(broadcast_writer::attach(uri), [seen](broadcast_writer& w) {
                      require(publish_one(w), "a message");
                      require(seen->words().asleep.load() == 0, "a ring");
                  });
              },
              [](contents& c) { count_newest(c, 1); }},
             {"read that wakes",
              [](const std::string& uri) {
                  {
                      segment memory = segment::attach(uri, access::read_write);
                      reinterpret_cast<layout::broadcast_control*>(memory.body().data())->blocked.store(1);
                  }
                  auto seen = std::make_shared<board>(uri);
                  return with(broadcast_reliable_reader::attach(uri), [seen](broadcast_reliable_reader& r) {
                      const std::uint32_t rung = seen->words().bell.load();
                      std::byte message[100];
                      require(r.read(message) && r.read(message), "two messages");
                      require(seen->words().bell.load() != rung, "a ring");
                  });
              },
              nothing}},
            afterwards({"publish",
                        [](const std::string& uri) {
                            return with(broadcast_writer::attach(uri), [uri](broadcast_writer& w) {
                                for (u64 n = 0; n < 100; ++n) require(publish_one(w), "a message");
                                auto one = broadcast_reliable_reader::attach(uri),
                                     other = broadcast_reliable_reader::attach(uri);
                                require(static_cast<bool>(one.wait(no_time)), "a wait for what is there");
                            });
                        },
                        [](contents& c) { count_newest(c, 100); }})};
}

/// A living reader stands in the writer's way, which waits for room; or it evicts the reader, and has room.
inline subject obstructed_broadcast_subject(const char* name, broadcast_policy policy) {
    using reader_of = broadcast_reliable_reader;
    const auto living = std::make_shared<std::optional<reader_of>>();
    const auto fill = [living](const std::string& uri, broadcast_policy how, u64 most) {
        (void)make_ring(uri, 2);
        living->emplace(reader_of::attach(uri, {.policy = how, .patience = std::chrono::nanoseconds(0)}));
        broadcast_writer writer = broadcast_writer::attach(uri);
        u64 published = 0;
        while (published < most && publish_one(writer)) ++published;
        return contents{{"newest", name_of(writer.sequence())}, {"published", name_of(published)}};
    };
    const bool blocks = policy == broadcast_policy::block;
    subject made{name,
                 [fill, blocks](const std::string& uri) {
                     contents filled = fill(blocks ? uri : uri + "-measure", broadcast_policy::block, 1000);
                     if (!blocks) filled = fill(uri, broadcast_policy::evict, std::stoull(filled["published"]));
                     filled.erase("published");
                     return filled;
                 },
                 [](const std::string& uri) { return newest(read_ring(uri)); },
                 {},
                 afterwards({"publish",
                             [living](const std::string& uri) {
                                 return with(broadcast_writer::attach(uri), [living](broadcast_writer& w) {
                                     std::vector<std::byte> message;
                                     for (int n = 0; n < 1000 && (*living)->read(message).status != outcome::empty;
                                          ++n) {
                                     }
                                     require(publish_one(w), "a message");
                                     require(static_cast<bool>((*living)->wait(no_time)), "a wait for what is there");
                                 });
                             },
                             [](contents& c) { count_newest(c, 1); }})};
    if (blocks) {
        made.operations = {by_broadcaster(
            "wait for room", [](broadcast_writer& w) { (void)w.wait_room(100, no_time); }, [](contents&) {})};
    } else {
        made.operations = {by_broadcaster(
            "publish that evicts", [](broadcast_writer& w) { require(publish_one(w), "a message"); },
            [](contents& c) { count_newest(c, 1); })};
    }
    return made;
}

}  // namespace holdfast::test::image_kill
