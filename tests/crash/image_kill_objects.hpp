// SPDX-License-Identifier: Apache-2.0
// image_kill_objects.hpp - snapshots and a published index in named segments, with the operations in which
// image_kill_test.cpp kills their writer, or a reader that pins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "image_kill_subjects.hpp"
#include "support/process.hpp"

namespace holdfast::test::image_kill {

inline operation publish_object(u64 n) {
    return {"publish",
            [n](const std::string& uri) {
                return with(snapshot_writer::attach(uri),
                            [n](snapshot_writer& w) { (void)w.publish(bytes_of(std::string(30 * n, 'a'))); });
            },
            [n](contents& c) { c["object"] = std::string(30 * n, 'a'); }};
}
inline contents make_snapshot(const std::string& uri, std::uint32_t readers) {
    snapshot_options options;
    options.slot_bytes = 300;
    options.slots = 3 + readers;
    options.pinned_readers = readers;
    snapshot_writer writer = snapshot_writer::create(uri, options);
    for (u64 n = 1; n < 5; ++n) require(static_cast<bool>(writer.publish(bytes_of(std::string(n, 'b')))), "a publish");
    return contents{{"object", "bbbb"}};
}
inline contents read_snapshot(const std::string& uri) {
    snapshot_reader reader = snapshot_reader::attach(uri);
    std::vector<std::byte> bytes;
    contents found;
    if (reader.read(bytes)) found["object"] = text_of_bytes(bytes);
    add_damage(found, reader.verify());
    return found;
}

inline subject snapshot_subject() {
    return {"snapshot",
            [](const std::string& uri) { return make_snapshot(uri, 0); },
            read_snapshot,
            {publish_object(4),
             {"prepare and commit",
              [](const std::string& uri) {
                  return with(snapshot_writer::attach(uri), [](snapshot_writer& w) {
                      const auto room = w.prepare(200);
                      if (!room) return;
                      std::memset(room.bytes.data(), 'c', 60);
                      (void)w.commit(60);
                  });
              },
              [](contents& c) { c["object"] = std::string(60, 'c'); }},
             {"prepare, discard, publish",
              [](const std::string& uri) {
                  return with(snapshot_writer::attach(uri), [](snapshot_writer& w) {
                      const auto room = w.prepare(200);
                      if (!room) return;
                      std::memset(room.bytes.data(), 'd', 60);
                      w.discard();
                      (void)w.publish(bytes_of("kept"));
                  });
              },
              [](contents& c) { c["object"] = "kept"; }}},
            afterwards(publish_object(7))};
}

/// Of nothing yet.
inline subject empty_snapshot_subject() {
    subject made = snapshot_subject();
    made.name = "snapshot_empty";
    made.make = [](const std::string& uri) {
        snapshot_options options;
        options.slot_bytes = 300;
        options.slots = 3;
        (void)snapshot_writer::create(uri, options);
        return contents{};
    };
    return made;
}

struct pinned {
    snapshot_pinned_reader reader;
    snapshot_view view;
    explicit pinned(const std::string& uri) : reader(snapshot_pinned_reader::attach(uri)), view(reader.pin()) {
        require(static_cast<bool>(view), "a pin");
    }
};

/// Two readers keep an object each, a third is current: of so many slots one is left, or none.
inline subject crowded_snapshot_subject(const char* name, std::uint32_t slots) {
    const bool full = slots == 3;
    const auto living = std::make_shared<std::vector<std::unique_ptr<pinned>>>();
    subject made = snapshot_subject();
    made.name = name;
    made.make = [living, slots](const std::string& uri) {
        snapshot_options options;
        options.slot_bytes = 300;
        options.slots = slots;
        options.pinned_readers = 2;
        snapshot_writer writer = snapshot_writer::create(uri, options);
        living->clear();
        for (u64 n = 1; n <= 3; ++n) {
            require(static_cast<bool>(writer.publish(bytes_of(std::string(n, 'b')))), "a publish");
            if (n < 3) living->push_back(std::make_unique<pinned>(uri));
        }
        return contents{{"object", "bbb"}};
    };
    made.read = [living](const std::string& uri) {
        contents found = read_snapshot(uri);
        for (u64 n = 0; n < living->size(); ++n)
            if (text_of_bytes((*living)[n]->view.bytes()) != std::string(n + 1, 'b'))
                found["damage"] = "what is pinned has changed";
        return found;
    };
    if (full)
        made.operations = {{"a refused publish",
                            [](const std::string& uri) {
                                return with(snapshot_writer::attach(uri), [](snapshot_writer& w) {
                                    require(w.publish(bytes_of(std::string(300, 'x'))).status == outcome::full,
                                            "no slot");
                                });
                            },
                            [](contents&) {}}};
    made.next = afterwards({"publish, where there is a slot",
                            [living, full](const std::string& uri) {
                                if (full) living->clear();
                                return publish_object(7).start(uri);
                            },
                            publish_object(7).apply});
    return made;
}

// One reader keeps the object pinned while the writer publishes into every slot there is; another was killed as it did.
inline subject pinned_snapshot_subject() {
    const auto living = std::make_shared<std::unique_ptr<pinned>>();
    return {"snapshot_pinned",
            [living](const std::string& uri) {
                contents made = make_snapshot(uri, 2);
                child_process dead([&](channel& parent) {
                    const pinned last(uri);
                    parent.signal();
                    parent.wait();
                });
                require(dead.talk().wait(), "a reader that dies");
                (void)dead.kill();
                *living = std::make_unique<pinned>(uri);
                return made;
            },
            [living](const std::string& uri) {
                contents found = read_snapshot(uri);
                if (text_of_bytes((*living)->view.bytes()) != "bbbb") found["damage"] = "what is pinned has changed";
                return found;
            },
            {publish_object(4),
             {"pin",
              [](const std::string& uri) {
                  return with(snapshot_pinned_reader::attach(uri), [](snapshot_pinned_reader& r) { (void)r.pin(); });
              },
              [](contents&) {}},
             {"pin, and release",
              [](const std::string& uri) {
                  return with(snapshot_pinned_reader::attach(uri), [](snapshot_pinned_reader& r) {
                      (void)r.pin();
                      r.release();
                  });
              },
              [](contents&) {}}},
            afterwards({"publish",
                        [](const std::string& uri) {
                            return with(snapshot_writer::attach(uri), [](snapshot_writer& w) {
                                for (u64 n = 1; n <= 10; ++n)
                                    require(static_cast<bool>(w.publish(bytes_of(std::string(30 * n, 'a')))),
                                            "a publish");
                            });
                        },
                        [](contents& c) { c["object"] = std::string(300, 'a'); }})};
}

inline subject index_subject() {
    const auto fill = [](golden::span_index_builder& builder, u64 n) {
        golden::fill_index(builder, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(100 * n));
    };
    const auto holds = [](contents& c, u64 records) {
        c.clear();
        for (u64 n = 0; n < records; ++n) c[name_of(n * 10)] = name_of(100 * records + n);
    };
    const auto publish = [fill, holds](u64 n) {
        return operation{"publish",
                         [fill, n](const std::string& uri) {
                             auto builder = std::make_shared<golden::span_index_builder>();
                             fill(*builder, n);
                             return with(golden::span_index_publisher::attach(uri),
                                         [builder](golden::span_index_publisher& p) { (void)p.publish(*builder); });
                         },
                         [holds, n](contents& c) { holds(c, n); }};
    };
    return {"published_index",
            [fill, holds](const std::string& uri) {
                auto publisher = golden::span_index_publisher::create(uri, {.records_max = 10, .slots = 3});
                golden::span_index_builder builder;
                fill(builder, 6);
                require(static_cast<bool>(publisher.publish(builder)), "a publish");
                contents made;
                holds(made, 6);
                return made;
            },
            [](const std::string& uri) {
                golden::span_index_reader reader = golden::span_index_reader::attach(uri);
                contents found;
                (void)reader.read([&](const golden::span_index_reader::view& index) {
                    found.clear();
                    for (const auto& entry : index) found[name_of(entry.key)] = name_of(entry.value.country);
                });
                add_damage(found, verify_sorted_index(reader.segment()));
                return found;
            },
            {publish(4)},
            afterwards(publish(5))};
}

}  // namespace holdfast::test::image_kill
