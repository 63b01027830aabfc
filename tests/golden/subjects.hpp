// SPDX-License-Identifier: Apache-2.0
// subjects.hpp - the segments of which golden images are kept: how each is made, what is read out of it, and what its
// next writer does.
//
//   make      makes the segment and fills it, the same bytes each time (in a still_world)
//   describe  attaches as readers do and verifies; the contents as text. May take from a queue
//   go_on     attaches as the next writer and does a few operations
//
// What is here is what the images of tests/golden/v1 were made by: it is added to, never changed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "golden/report.hpp"
#include "holdfast/block_store/many.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_map/registered_reader.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/holdfast.hpp"
#include "support/seed.hpp"
#include "support/settable_world.hpp"

namespace holdfast::test {

struct golden_subject {
    const char* name;
    void (*make)(const std::string& uri);
    std::string (*describe)(const std::string& uri);
    void (*go_on)(const std::string& uri);
};

namespace golden {

// All fields of a record lie without gaps: what lies in a gap is nobody's.
struct session {
    std::uint64_t user;
    double score;
    std::uint32_t visits;
    std::uint32_t flags;
};
struct span_value {
    std::uint32_t last;
    std::uint32_t country;
};

inline constexpr std::int64_t ms = 1'000'000;
inline constexpr std::uint64_t messages_max = 100;  // whoever scribbles on a ring may feed its reader for ever

inline void require(bool done, const char* what) {
    if (!done) throw std::runtime_error(std::string(what) + " was refused");
}
/// Text number n: 0 to 59 bytes, readable.
inline std::string text_of(std::uint64_t n) {
    std::string text = std::to_string(n);
    text.append(":");
    const std::size_t bytes = random_at(11, 0, n) % 58;
    for (std::size_t i = 0; text.size() < bytes; ++i) text += static_cast<char>('a' + random_at(11, n, i) % 26);
    return n % 13 == 0 ? std::string() : text;
}
inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }
inline session session_of(std::uint64_t n) {
    return {n * 1000 + 7, static_cast<double>(n) / 8, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(~n)};
}
inline void add_findings(report& out, const layout::findings& found) {
    out.line("verify: ", found.count(), " findings");
    for (const auto& f : found.list()) out.line("  at ", f.offset, ": ", f.what);
}

// ---- raw ---------------------------------------------------------------------------------------------------------

inline void make_raw(const std::string& uri) {
    segment_spec spec;
    spec.schema = "value {value:u64@0}#8";
    spec.geometry[0] = 3;
    spec.body_bytes = 100;
    spec.peer_slots = 3;
    (void)segment::create(uri, spec, {}, [](std::span<std::byte> body) {
        for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<std::byte>(i);
    });
}
inline std::string describe_raw(const std::string& uri) {
    report out;
    const segment s = segment::attach(uri, access::read_only);
    describe_header(out, s);
    out.line("body ", s.bytes());
    const peers table = peers::open(s);
    for (std::uint32_t i = 0; i < table.size(); ++i)
        out.line("peer ", i, " ", std::span<const std::byte>(table.slot(i)));
    return out.text();
}
inline void raw_goes_on(const std::string& uri) {
    segment s = segment::attach(uri, access::read_write);
    s.body()[5] = std::byte{'x'};
}

// ---- hash_table --------------------------------------------------------------------------------------------------

template <class K, class V, class ValueOf>
void make_table(const std::string& uri, ValueOf value_of) {
    auto table = hash_table<K, V>::create(uri, {.capacity = 60, .seed = 1234});
    for (K n = 0; n < 50; ++n) require(static_cast<bool>(table.try_insert(n, value_of(n))), "an insert");
    for (K n = 0; n < 50; n += 4) require(static_cast<bool>(table.update(n, value_of(n + 100U))), "an update");
    for (K n = 3; n < 50; n += 7) require(static_cast<bool>(table.erase(n)), "an erase");
}
template <class K, class V, class Line>
std::string describe_table(const std::string& uri, Line add_line) {
    report out;
    const auto table = hash_table_reader<K, V>::attach(uri);
    describe_header(out, table.segment());
    out.line("size ", table.size(), " of ", table.capacity(), " in ", table.slots(), " slots");
    for (K n = 0; n < 200; ++n)  // each by its hash
        if (const auto found = table.find(n)) add_line(out, n, *found, static_cast<std::uint64_t>(*table.slot_of(n)));
    std::uint64_t scanned = 0;
    for (const auto& entry : table) scanned += entry.key < 200 ? 1 : 0;
    out.line("scanned ", scanned);
    const auto seen = table.verify([&](const hash_table_finding& f) {
        out.line("  ", describe(f.what), " in slot ", f.slot);
        return true;
    });
    out.line("verify: ", seen.entries, " entries, ", seen.findings, " findings, open ", seen.operation_open, ", armed ",
             seen.update_armed);
    return out.text();
}
inline void make_hash_table(const std::string& uri) { make_table<std::uint64_t, session>(uri, session_of); }
inline std::string describe_hash_table(const std::string& uri) {
    return describe_table<std::uint64_t, session>(uri, [](report& out, auto key, const session& v, std::uint64_t slot) {
        out.line("key ", key, " at ", slot, ": ", v.user, " ", v.score, " ", v.visits, " ", v.flags);
    });
}
inline void hash_table_goes_on(const std::string& uri) {
    auto table = hash_table<std::uint64_t, session>::attach(uri);
    require(table.insert_or_assign(150, session_of(150)).what == entry_change::inserted, "an insert");
    require(static_cast<bool>(table.update(8, session_of(9))), "an update");
    require(static_cast<bool>(table.erase(20)), "an erase");
}

// ---- hash_table of many writers ----------------------------------------------------------------------------------

using many_sessions = hash_table<std::uint64_t, session, writers::many>;

/// Nobody who scribbles on a segment keeps its writers waiting for long.
inline constexpr std::chrono::milliseconds short_patience{5};

inline void make_hash_table_many(const std::string& uri) {
    // Two stripes.
    many_sessions writers[] = {many_sessions::create(uri, {.capacity = 600, .seed = 1234, .writer_slots = 3}),
                               many_sessions::attach(uri)};
    for (std::uint64_t n = 0; n < 50; ++n)
        require(static_cast<bool>(writers[n % 2].try_insert(n, session_of(n))), "an insert");
    for (std::uint64_t n = 0; n < 50; n += 4)
        require(static_cast<bool>(writers[n / 4 % 2].update(n, session_of(n + 100))), "an update");
    for (std::uint64_t n = 3; n < 50; n += 7) require(static_cast<bool>(writers[n % 2].erase(n)), "an erase");
}
inline void hash_table_many_goes_on(const std::string& uri) {
    many_sessions first = many_sessions::attach(uri), second = many_sessions::attach(uri);
    first.set_patience(short_patience);
    second.set_patience(short_patience);
    require(first.insert_or_assign(150, session_of(150)).what == entry_change::inserted, "an insert");
    require(static_cast<bool>(second.update(8, session_of(9))), "an update");
    require(static_cast<bool>(first.erase(20)), "an erase");
    require(static_cast<bool>(second.insert_or_assign(150, session_of(151))), "an update");
}

// ---- hash_table, narrow ------------------------------------------------------------------------------------------

inline std::uint32_t small_of(std::uint32_t n) { return n * n; }
inline void make_hash_table_narrow(const std::string& uri) { make_table<std::uint32_t, std::uint32_t>(uri, small_of); }
inline std::string describe_hash_table_narrow(const std::string& uri) {
    return describe_table<std::uint32_t, std::uint32_t>(uri,
                                                        [](report& out, auto key, std::uint32_t v, std::uint64_t slot) {
                                                            out.line("key ", key, " at ", slot, ": ", v);
                                                        });
}
inline void hash_table_narrow_goes_on(const std::string& uri) {
    auto table = hash_table<std::uint32_t, std::uint32_t>::attach(uri);
    require(table.insert_or_assign(150, 1).what == entry_change::inserted, "an insert");
    require(static_cast<bool>(table.update(8, 2)), "an update");
    require(static_cast<bool>(table.erase(20)), "an erase");
}

// ---- queue -------------------------------------------------------------------------------------------------------

// Messages [from, to), every fifth time two of them in a batch.
inline void push_texts(queue_producer& producer, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n < to; ++n) {
        const bool batch = n % 5 == 0 && n + 1 < to;
        if (batch) {
            require(producer.begin_batch(), "a batch");
            require(static_cast<bool>(producer.try_push(bytes_of(text_of(n)), static_cast<std::uint16_t>(n))),
                    "a push");
            ++n;
        }
        require(static_cast<bool>(producer.try_push(bytes_of(text_of(n)), static_cast<std::uint16_t>(n))), "a push");
        if (batch) require(producer.commit_batch().count == 2, "a commit");
    }
}
inline void make_queue(const std::string& uri) {
    queue_options options;
    options.capacity_bytes = 512;
    queue_producer producer = queue_producer::create(uri, options);
    queue_consumer consumer = queue_consumer::attach(uri);
    for (std::uint64_t n = 0; n < 40; n += 4) {  // round the ring several times
        push_texts(producer, n, n + 4);
        for (int i = 0; i < 4 && n + 4 < 40; ++i) require(consumer.front() && consumer.pop(), "a pop");
    }
}
inline void describe_queue_sides(report& out, const std::string& uri) {
    const queue_observer observer = queue_observer::attach(uri);
    describe_header(out, observer.segment());
    const auto add = [&](const char* side, const queue_side_stats& s) {
        out.line(side, " at ", s.position, ", ", s.messages, " messages of ", s.bytes, " bytes");
    };
    add("producer", observer.producer());
    require(observer.consumer().has_value(), "a look at the consumer");
    add("consumer", *observer.consumer());
    const auto seen = observer.verify();
    out.line("verify: ", seen.messages, " messages, ", seen.found.count(), " findings, unsettled ", seen.unsettled);
}
inline std::string describe_queue(const std::string& uri) {
    report out;
    describe_queue_sides(out, uri);
    queue_consumer consumer = queue_consumer::attach(uri);
    std::uint64_t taken = 0;
    for (queue_message m = consumer.front(); m && taken < messages_max; m = consumer.front(), ++taken) {
        out.line("message ", m.type, ": ", m.bytes);
        require(consumer.pop(), "a pop");
    }
    return out.text();
}
inline void queue_goes_on(const std::string& uri) {
    queue_producer producer = queue_producer::attach(uri);
    queue_consumer consumer = queue_consumer::attach(uri);
    require(consumer.front() && consumer.pop(), "a pop");
    push_texts(producer, 100, 103);
}
inline void make_queue_records(const std::string& uri) {
    auto producer = queue<session>::producer::create(uri, {.capacity = 8});
    auto consumer = queue<session>::consumer::attach(uri);
    for (std::uint64_t n = 0; n < 21; ++n) {
        require(static_cast<bool>(producer.try_push(session_of(n))), "a push");
        if (n < 16) require(consumer.front() && consumer.pop(), "a pop");
    }
}
inline std::string describe_queue_records(const std::string& uri) {
    report out;
    describe_queue_sides(out, uri);
    auto consumer = queue<session>::consumer::attach(uri);
    std::uint64_t taken = 0;
    for (auto e = consumer.front(); e && taken < messages_max; e = consumer.front(), ++taken) {
        out.line("element ", e.value.user, " ", e.value.score, " ", e.value.visits, " ", e.value.flags);
        require(consumer.pop(), "a pop");
    }
    return out.text();
}
inline void queue_records_goes_on(const std::string& uri) {
    auto producer = queue<session>::producer::attach(uri);
    auto consumer = queue<session>::consumer::attach(uri);
    require(consumer.front() && consumer.pop(), "a pop");
    const session two[] = {session_of(70), session_of(71)};
    require(static_cast<bool>(producer.try_push(two)), "a push");
}

// ---- broadcast ---------------------------------------------------------------------------------------------------

inline void publish_texts(broadcast_writer& writer, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t n = from; n < to; ++n) {
        still_world::pass(ms);
        if (n % 4 == 0) require(static_cast<bool>(writer.append(bytes_of(text_of(n)), 1)), "a message of a batch");
        require(static_cast<bool>(writer.publish(bytes_of(text_of(n + 1000)), 2)), "a message");
    }
}
inline void make_broadcast(const std::string& uri) {
    broadcast_options options;
    options.capacity_bytes = 2048;
    options.registered_readers = 2;
    broadcast_writer writer = broadcast_writer::create(uri, options);
    broadcast_reliable_reader reader = broadcast_reliable_reader::attach(uri);
    std::vector<std::byte> out;
    for (std::uint64_t n = 0; n < 90; n += 3) {  // round the ring several times
        publish_texts(writer, n, n + 3);
        while (reader.read(out)) continue;
    }
}
inline std::string describe_broadcast(const std::string& uri) {
    report out;
    broadcast_reader reader = broadcast_reader::attach(uri);
    describe_header(out, reader.segment());
    out.line("oldest ", reader.sequence(), ", epoch ", reader.epoch());
    std::vector<std::byte> message;
    std::uint64_t seen = 0;
    for (auto got = reader.read(message); got && seen < messages_max; got = reader.read(message), ++seen)
        out.line("message ", got.sequence, " of type ", got.type, ": ", std::span<const std::byte>(message));
    const std::uint64_t created = reader.segment().info().created_ns;
    for (const std::uint64_t after : {0U, 50U, 80U, 85U, 90U, 200U}) {
        const result joined = reader.join(broadcast_start::time(created + after * static_cast<std::uint64_t>(ms)));
        out.line("joined after ", after, " ms: ", outcome_name(joined.status), " at ", reader.sequence());
    }
    const auto counted = broadcast_writer_report_of(reader.segment());
    out.line("takeovers ", counted.takeovers, ", refused ", counted.refused, ", evicted ", counted.evicted);
    out.line("registered ", registered_readers_of(reader.segment()).size());
    add_findings(out, reader.verify());
    return out.text();
}
inline void broadcast_goes_on(const std::string& uri) {
    broadcast_writer writer = broadcast_writer::attach(uri);
    publish_texts(writer, 500, 505);
}

// ---- snapshot ----------------------------------------------------------------------------------------------------

inline void make_snapshot(const std::string& uri) {
    snapshot_options options;
    options.slot_bytes = 300;
    options.pinned_readers = 2;
    options.slots = 4;
    snapshot_writer writer = snapshot_writer::create(uri, options);
    for (std::uint64_t n = 1; n <= 6; ++n) {
        still_world::pass(ms);
        std::string object = text_of(n);
        object.append(text_of(n + 50));
        require(static_cast<bool>(writer.publish(bytes_of(object))), "a publish");
    }
}
inline std::string describe_snapshot(const std::string& uri) {
    report out;
    snapshot_reader reader = snapshot_reader::attach(uri);
    describe_header(out, reader.segment());
    std::vector<std::byte> object;
    const auto got = reader.read(object);
    require(static_cast<bool>(got), "a read");
    out.line("version ", got.version, ": ", std::span<const std::byte>(object));
    snapshot_pinned_reader pinned = snapshot_pinned_reader::attach(uri);
    const snapshot_view view = pinned.pin();
    out.line("pinned version ", view.version(), ": ", view.bytes());
    add_findings(out, reader.verify());
    return out.text();
}
inline void snapshot_goes_on(const std::string& uri) {
    snapshot_writer writer = snapshot_writer::attach(uri);
    require(writer.publish(bytes_of(text_of(77))).version == writer.version(), "a publish");
}
inline void make_snapshot_record(const std::string& uri) {
    auto writer = snapshot<session>::create(uri, {.slots = 3});
    for (std::uint64_t n = 1; n <= 5; ++n) require(static_cast<bool>(writer.publish(session_of(n))), "a publish");
}
inline std::string describe_snapshot_record(const std::string& uri) {
    report out;
    const snapshot_reader bytes = snapshot_reader::attach(uri);
    describe_header(out, bytes.segment());
    const auto got = snapshot<session>::reader::attach(uri).read();
    require(static_cast<bool>(got), "a read");
    out.line("version ", got.version, ": ", got.value.user, " ", got.value.score, " ", got.value.visits, " ",
             got.value.flags);
    add_findings(out, bytes.verify());
    return out.text();
}
inline void snapshot_record_goes_on(const std::string& uri) {
    require(static_cast<bool>(snapshot<session>::attach(uri).publish(session_of(60))), "a publish");
}

// ---- array -------------------------------------------------------------------------------------------------------

template <class T, class ValueOf>
void make_array_of(const std::string& uri, std::uint64_t size, ValueOf value_of) {
    auto writer = array<T>::create(uri, {.size = size});
    for (std::uint64_t i = 0; i < size; i += 2) writer.store(i, value_of(i));
    std::vector<T> some;
    for (std::uint64_t i = 5; i < 12; ++i) some.push_back(value_of(i + 100));
    writer.store_range(5, some);
}
template <class T, class Line>
std::string describe_array_of(const std::string& uri, Line add_line) {
    report out;
    const auto reader = array_reader<T>::attach(uri);
    describe_header(out, reader.segment());
    for (std::uint64_t i = 0; i < reader.size(); ++i) add_line(out, i, reader[i]);
    const auto seen = reader.verify([&](const array_finding& f) {
        out.line("  ", describe(f.what), " at ", f.first);
        return true;
    });
    out.line("verify: ", seen.elements, " elements, ", seen.findings, " findings, open ", seen.store_open);
    return out.text();
}
inline void make_array(const std::string& uri) { make_array_of<session>(uri, 45, session_of); }
inline std::string describe_array(const std::string& uri) {
    return describe_array_of<session>(uri, [](report& out, std::uint64_t i, const session& v) {
        out.line("element ", i, ": ", v.user, " ", v.score, " ", v.visits, " ", v.flags);
    });
}
inline void array_goes_on(const std::string& uri) {
    auto writer = array<session>::attach(uri);
    writer.store(44, session_of(1));
    writer.modify(0, [](session& s) { ++s.visits; });
}
inline std::uint16_t half_of(std::uint64_t n) { return static_cast<std::uint16_t>(n * 77); }
inline void make_array_narrow(const std::string& uri) { make_array_of<std::uint16_t>(uri, 600, half_of); }
inline std::string describe_array_narrow(const std::string& uri) {
    return describe_array_of<std::uint16_t>(uri, [](report& out, std::uint64_t i, std::uint16_t v) {
        if (v != 0) out.line("element ", i, ": ", v);
    });
}
inline void array_narrow_goes_on(const std::string& uri) {
    auto writer = array<std::uint16_t>::attach(uri);
    writer.store(599, 1);
    writer.fetch_add(2, 3);
}

// ---- small_table -------------------------------------------------------------------------------------------------

using small_sessions = small_table<std::uint32_t, session>;

inline void make_small_table(const std::string& uri) {
    small_sessions table = small_sessions::create(uri, {.capacity = 30});
    for (std::uint32_t n = 0; n < 25; ++n) require(table.try_insert(n * n, session_of(n)) == outcome::ok, "an insert");
    for (std::uint32_t n = 0; n < 25; n += 4)
        require(table.update(n * n, session_of(n + 100)) == outcome::ok, "an update");
    for (std::uint32_t n = 3; n < 25; n += 7) require(table.erase(n * n) == outcome::ok, "an erase");
    require(table.try_insert(700, session_of(700)) == outcome::ok, "an insert");  // where the last one went
}
inline std::string describe_small_table(const std::string& uri) {
    report out;
    auto table = small_table_reader<std::uint32_t, session>::attach(uri);
    describe_header(out, table.segment());
    for (std::uint32_t key = 0; key < 800; ++key)  // each by its hash
        if (const auto v = table.find(key))
            out.line("key ", key, ": ", v->user, " ", v->score, " ", v->visits, " ", v->flags);
    std::uint64_t visited = 0;
    (void)table.visit([&](std::uint32_t, const session&) { ++visited; });
    out.line("visited ", visited, " of ", table.capacity());
    const auto seen = table.verify([&](const small_table_finding& f) {
        out.line("  ", describe(f.what), " in element ", f.place);
        return true;
    });
    out.line("verify: ", seen.entries, " entries, ", seen.findings, " findings, open ", seen.change_open);
    return out.text();
}
inline void small_table_goes_on(const std::string& uri) {
    small_sessions table = small_sessions::attach(uri);
    require(table.insert_or_assign(150, session_of(150)) == outcome::ok, "an insert");
    require(table.update(16, session_of(9)) == outcome::ok, "an update");
    require(table.erase(25) == outcome::ok, "an erase");
}

// ---- block_store -------------------------------------------------------------------------------------------------

// Value n: now and then one of many units.
inline std::string value_of(std::uint64_t n) {
    std::string value = text_of(n);
    for (std::uint64_t i = 0; n % 6 == 0 && i < 8; ++i) value.append(text_of(n + 7 * i + 1));
    return value;
}
inline void make_block_store(const std::string& uri) {
    block_store store = block_store::create(uri, {.bytes = 6000, .unit_bytes = 64});
    std::vector<std::uint64_t> handles;
    const auto keep = [&](const block_result& kept) {
        require(static_cast<bool>(kept), "a value");
        return kept.handle;
    };
    for (std::uint64_t n = 1; n <= 25; ++n) handles.push_back(keep(store.allocate(bytes_of(value_of(n)))));
    for (std::size_t i = 0; i < handles.size(); i += 3) require(store.free(handles[i]) == outcome::ok, "a free");
    for (std::size_t i = 1; i < handles.size(); i += 6)
        handles[i] = keep(store.replace(handles[i], bytes_of(value_of(i + 40))));
    (void)keep(store.allocate(bytes_of(value_of(60))));  // scattered over what was freed
}
inline std::string describe_block_store(const std::string& uri) {
    report out;
    const block_store_reader reader = block_store_reader::attach(uri);
    describe_header(out, reader.segment());
    const auto usage = reader.usage();
    out.line("units ", usage.units, ", used ", usage.units_used, ", values ", usage.values);
    std::uint64_t cursor = 0;
    std::vector<std::byte> value;
    while (const auto handle = reader.next_value(cursor)) {
        require(static_cast<bool>(reader.read(*handle, value)), "a read");
        out.line("handle ", *handle, ": ", std::span<const std::byte>(value));
    }
    const auto seen = reader.verify([&](const block_finding& f) {
        out.line("  ", describe(f.what), " in unit ", f.unit);
        return true;
    });
    out.line("verify: ", seen.values, " values, ", seen.units_used, " units, ", seen.scattered, " scattered, ",
             seen.findings, " findings, open ", seen.replacement_open);
    return out.text();
}
inline void block_store_goes_on(const std::string& uri) {
    block_store store = block_store::attach(uri);
    std::uint64_t cursor = 0;
    const auto first = store.next_value(cursor), second = store.next_value(cursor);
    require(first && second && store.free(*first) == outcome::ok, "a free");
    require(static_cast<bool>(store.replace(*second, bytes_of(value_of(36)))), "a replacement");
    require(static_cast<bool>(store.allocate(bytes_of(value_of(37)))), "a value");
}

// ---- block_store of many writers ---------------------------------------------------------------------------------

using many_blocks = basic_block_store<writers::many>;

inline void make_block_store_many(const std::string& uri) {
    many_blocks writers[] = {many_blocks::create(uri, {.bytes = 6000, .unit_bytes = 64, .writer_slots = 3}),
                             many_blocks::attach(uri)};
    std::vector<std::uint64_t> handles;
    const auto keep = [&](const block_result& kept) {
        require(static_cast<bool>(kept), "a value");
        return kept.handle;
    };
    for (std::uint64_t n = 1; n <= 25; ++n) handles.push_back(keep(writers[n % 2].allocate(bytes_of(value_of(n)))));
    for (std::size_t i = 0; i < handles.size(); i += 3)
        require(writers[i % 2].free(handles[i]) == outcome::ok, "a free");
    for (std::size_t i = 1; i < handles.size(); i += 6)
        handles[i] = keep(writers[i % 2].replace(handles[i], bytes_of(value_of(i + 40))));
    (void)keep(writers[0].allocate(bytes_of(value_of(60))));
}
inline void block_store_many_goes_on(const std::string& uri) {
    many_blocks first = many_blocks::attach(uri), second = many_blocks::attach(uri);
    std::uint64_t cursor = 0;
    const auto one = first.next_value(cursor), other = first.next_value(cursor);
    require(one && other && second.free(*one) == outcome::ok, "a free");
    require(static_cast<bool>(first.replace(*other, bytes_of(value_of(36)))), "a replacement");
    require(static_cast<bool>(second.allocate(bytes_of(value_of(37)))), "a value");
}

// ---- hash_map ----------------------------------------------------------------------------------------------------

using text_map = hash_map<std::string_view>;
using text_map_reader = hash_map_reader<std::string_view>;

inline std::uint64_t made_at() noexcept { return 5000; }
inline std::uint64_t gone_on_at() noexcept { return 5050; }
inline std::uint64_t one_zone() noexcept { return 7; }

inline std::string key_of(std::uint64_t n) {
    std::string key = "key ";
    return key.append(std::to_string(n * n));
}
inline hash_map_services services_at(std::uint64_t (*seconds)() noexcept) {
    hash_map_services services;
    services.clock = {seconds, one_zone};
    return services;
}
inline void make_hash_map(const std::string& uri) {
    hash_map_options options;
    options.capacity = 60;
    options.bytes = 8000;
    options.unit_bytes = 64;
    options.seed = 1234;
    text_map map = text_map::create(uri, options, services_at(made_at));
    for (std::uint64_t n = 0; n < 40; ++n) {
        hash_map_entry_options how;
        how.ttl = std::chrono::seconds(n % 5 == 0 ? 10 + n : 0);
        how.flags = static_cast<std::uint32_t>(n * 3);
        require(static_cast<bool>(map.insert(key_of(n), value_of(n), how)), "an insert");
    }
    for (std::uint64_t n = 0; n < 40; n += 4) require(static_cast<bool>(map.set(key_of(n), value_of(n + 50))), "a set");
    for (std::uint64_t n = 3; n < 40; n += 7) require(static_cast<bool>(map.erase(key_of(n))), "an erase");
}
inline std::string describe_hash_map(const std::string& uri) {
    report out;
    const text_map_reader reader = text_map_reader::attach(uri, {}, services_at(made_at).clock);
    describe_header(out, reader.segment());
    const hash_map_usage usage = reader.usage();
    out.line("entries ", usage.entries, ", units ", usage.units_used, " of ", usage.units, ", expired ", usage.expired);
    std::string value;
    for (std::uint64_t n = 0; n < 100; ++n)  // each by its hash
        if (const auto got = reader.find(key_of(n), value))
            out.line(key_of(n), " under ", got.handle, ", flags ", got.flags, ", seconds ", got.ttl.count(), ": ",
                     value);
    std::uint64_t cursor = 0, scanned = 0;
    for (hash_map_entry entry; reader.next_entry(cursor, entry) == outcome::ok && scanned < messages_max;) ++scanned;
    out.line("scanned ", scanned);
    const auto seen = reader.verify([](const hash_map_finding&) { return true; });
    out.line("verify: ", seen.entries, " entries, ", seen.findings, " findings, open ", seen.operation_open);
    return out.text();
}
inline void hash_map_goes_on(const std::string& uri) {
    text_map map = text_map::attach(uri, {}, services_at(gone_on_at));
    require(map.set(key_of(90), value_of(90)).what == entry_change::inserted, "an insert");
    require(map.set(key_of(8), value_of(9)).what == entry_change::updated, "an update");
    require(static_cast<bool>(map.erase(key_of(22))), "an erase");
}

// ---- hash_map that evicts, with registered readers ----------------------------------------------------------------

using registered_text_reader = hash_map_registered_reader<std::string_view>;

// Readers note by chance what they read, so none reads here.
inline void make_hash_map_registered(const std::string& uri) {
    hash_map_options options;
    options.capacity = 40;
    options.bytes = 3000;
    options.unit_bytes = 64;
    options.evict = true;
    options.registered_readers = 2;
    options.seed = 1234;
    text_map map = text_map::create(uri, options, services_at(made_at));
    const registered_text_reader there = registered_text_reader::attach(uri);
    for (std::uint64_t n = 0; n < 60; ++n) {
        require(static_cast<bool>(map.set(key_of(n), value_of(n))), "a set");
        (void)map.contains(key_of(n / 2));
    }
}
inline std::string describe_hash_map_registered(const std::string& uri) {
    report out;
    out.line(describe_hash_map(uri));
    const registered_text_reader one = registered_text_reader::attach(uri), other = registered_text_reader::attach(uri);
    for (const registered_text_reader* reader : {&one, &other}) {
        std::uint64_t found = 0;
        for (std::uint64_t n = 0; n < 100; ++n) found += reader->contains(key_of(n)) ? 1 : 0;
        out.line("found by a registered reader: ", found);
    }
    return out.text();
}
inline void hash_map_registered_goes_on(const std::string& uri) {
    text_map map = text_map::attach(uri, {}, services_at(gone_on_at));
    for (std::uint64_t n = 70; n < 80; ++n) require(static_cast<bool>(map.set(key_of(n), value_of(n))), "a set");
    const registered_text_reader there = registered_text_reader::attach(uri);
    require(static_cast<bool>(map.set(key_of(80), value_of(80))), "a set");
}

// ---- hash_map of many writers ------------------------------------------------------------------------------------

using many_texts = hash_map<std::string_view, writers::many>;

inline void make_hash_map_many(const std::string& uri) {
    hash_map_options options;
    options.capacity = 600;  // two stripes
    options.bytes = 8000;
    options.unit_bytes = 64;
    options.seed = 1234;
    options.writer_slots = 3;
    many_texts writers[] = {many_texts::create(uri, options), many_texts::attach(uri)};
    for (std::uint64_t n = 0; n < 40; ++n)
        require(static_cast<bool>(
                    writers[n % 2].insert(key_of(n), bytes_of(value_of(n)), static_cast<std::uint32_t>(n * 3))),
                "an insert");
    for (std::uint64_t n = 0; n < 40; n += 4)
        require(static_cast<bool>(writers[n / 4 % 2].set(key_of(n), bytes_of(value_of(n + 50)))), "a set");
    for (std::uint64_t n = 3; n < 40; n += 7) require(static_cast<bool>(writers[n % 2].erase(key_of(n))), "an erase");
}
inline void hash_map_many_goes_on(const std::string& uri) {
    many_texts first = many_texts::attach(uri), second = many_texts::attach(uri);
    first.set_patience(short_patience);
    second.set_patience(short_patience);
    require(first.set(key_of(90), bytes_of(value_of(90))).what == entry_change::inserted, "an insert");
    require(second.set(key_of(8), bytes_of(value_of(9))).what == entry_change::updated, "an update");
    require(static_cast<bool>(first.erase(key_of(22))), "an erase");
    require(static_cast<bool>(second.fetch_add<char>(key_of(90), 0, 1)), "a count");
}

// ---- sorted_index ------------------------------------------------------------------------------------------------

using span_index_builder = sorted_index_builder<std::uint32_t, span_value, &span_value::last>;
using span_index_reader = sorted_index_reader<std::uint32_t, span_value, &span_value::last>;
using span_index_publisher = sorted_index_publisher<std::uint32_t, span_value, &span_value::last>;

inline void fill_index(span_index_builder& builder, std::uint32_t records, std::uint32_t country) {
    for (std::uint32_t n = records; n-- > 0;) builder.add(n * 10, {n * 10 + n % 10, country + n});
}
inline std::string describe_index(const std::string& uri) {
    report out;
    span_index_reader reader = span_index_reader::attach(uri);
    describe_header(out, reader.segment());
    const auto got = reader.read([&](const span_index_reader::view& index) {
        for (const auto& entry : index)
            out.line("from ", entry.key, " to ", entry.value.last, ": ", entry.value.country);
    });
    out.line("version ", got.version, ", ", got.bytes, " bytes");
    for (const std::uint32_t key : {0U, 9U, 77U, 79U, 290U, 299U, 4'000'000'000U}) {
        const auto covering = reader.find_covering(key);
        out.line("covering ", key, ": ", covering ? covering->value.country : 0, ", exact ", bool(reader.find(key)));
    }
    add_findings(out, verify_sorted_index(reader.segment()));
    return out.text();
}
inline void make_sorted_index(const std::string& uri) {
    span_index_builder builder;
    fill_index(builder, 30, 500);
    (void)create_sorted_index(uri, builder);
}
inline void make_published_index(const std::string& uri) {
    span_index_publisher publisher = span_index_publisher::create(uri, {.records_max = 40, .slots = 3});
    for (std::uint32_t n = 1; n <= 4; ++n) {
        still_world::pass(ms);
        span_index_builder builder;
        fill_index(builder, 10 * n, 500 * n);
        require(static_cast<bool>(publisher.publish(builder)), "a publish");
    }
}
inline void published_index_goes_on(const std::string& uri) {
    span_index_publisher publisher = span_index_publisher::attach(uri);
    span_index_builder builder;
    fill_index(builder, 7, 3);
    require(static_cast<bool>(publisher.publish(builder)), "a publish");
}
// An index in a segment of its own is never written again; its lease can be taken all the same.
inline void sorted_index_goes_on(const std::string& uri) {
    segment::attach(uri, access::read_write).require(container_kind::sorted_index, sorted_index_layout_version);
}

// ---- metrics -----------------------------------------------------------------------------------------------------

inline void make_latency_histogram(const std::string& uri) {
    const latency_histogram histogram = latency_histogram::create(uri, {.shards = 2});
    latency_recorder one = histogram.make_recorder(), two = histogram.make_recorder(),
                     shared = histogram.make_recorder();
    for (std::uint64_t n = 1; n < 60; ++n) one.record(n * n * n);
    for (std::uint64_t n = 1; n < 30; ++n) two.record(n << 30);
    for (std::uint64_t n = 1; n < 10; ++n) shared.record(n);
}
inline std::string describe_latency_histogram(const std::string& uri) {
    report out;
    const latency_histogram_reader reader = latency_histogram_reader::attach(uri);
    describe_header(out, reader.segment());
    const histogram_counts all = reader.merged();
    out.line("total ", all.total(), ", sum ", all.sum(), ", least ", all.least_noted(), ", greatest ",
             all.greatest_noted());
    for (std::size_t bucket = 0; bucket < all.counts().size(); ++bucket)
        if (all.counts()[bucket] != 0)
            out.line("from ", log_linear::lowest_of(bucket), " to ", log_linear::highest_of(bucket), ": ",
                     all.counts()[bucket]);
    return out.text();
}
inline void latency_histogram_goes_on(const std::string& uri) {
    const latency_histogram histogram = latency_histogram::attach(uri);
    latency_recorder recorder = histogram.make_recorder();
    recorder.record(5);
    recorder.record(123'456'789);
}
inline void make_counter_set(const std::string& uri) {
    const counter_set set = counter_set::create(uri, {.capacity = 12});
    for (std::uint64_t n = 0; n < 8; ++n) {
        std::string label = "zone=\"";
        label.append(std::to_string(n)).append("\"");
        set.get(n % 2 == 0 ? "requests_total" : "errors_total", label).add(n * 1000 + 1);
    }
    set.get("plain_total").add(5);
}
inline std::string describe_counter_set(const std::string& uri) {
    report out;
    const counter_set_reader reader = counter_set_reader::attach(uri);
    describe_header(out, reader.segment());
    const auto walk = reader.for_each([&](std::string_view family, std::string_view labels, std::uint64_t value) {
        out.line(family, "{", labels, "} ", value);
    });
    out.line(walk.counters, " counters, ", walk.unfinished, " unfinished, ", walk.damaged, " damaged");
    out.line("plain_total by name: ", reader.value("plain_total").value_or(0));
    return out.text();
}
inline void counter_set_goes_on(const std::string& uri) {
    const counter_set set = counter_set::attach(uri);
    set.get("plain_total").add(10);
    set.get("another_total").add(1);
}

}  // namespace golden

inline constexpr golden_subject golden_subjects[] = {
    {"raw", golden::make_raw, golden::describe_raw, golden::raw_goes_on},
    {"hash_table", golden::make_hash_table, golden::describe_hash_table, golden::hash_table_goes_on},
    {"hash_table_narrow", golden::make_hash_table_narrow, golden::describe_hash_table_narrow,
     golden::hash_table_narrow_goes_on},
    {"queue", golden::make_queue, golden::describe_queue, golden::queue_goes_on},
    {"queue_records", golden::make_queue_records, golden::describe_queue_records, golden::queue_records_goes_on},
    {"broadcast", golden::make_broadcast, golden::describe_broadcast, golden::broadcast_goes_on},
    {"snapshot", golden::make_snapshot, golden::describe_snapshot, golden::snapshot_goes_on},
    {"snapshot_record", golden::make_snapshot_record, golden::describe_snapshot_record,
     golden::snapshot_record_goes_on},
    {"array", golden::make_array, golden::describe_array, golden::array_goes_on},
    {"array_narrow", golden::make_array_narrow, golden::describe_array_narrow, golden::array_narrow_goes_on},
    {"block_store", golden::make_block_store, golden::describe_block_store, golden::block_store_goes_on},
    {"hash_map", golden::make_hash_map, golden::describe_hash_map, golden::hash_map_goes_on},
    {"sorted_index", golden::make_sorted_index, golden::describe_index, golden::sorted_index_goes_on},
    {"published_index", golden::make_published_index, golden::describe_index, golden::published_index_goes_on},
    {"latency_histogram", golden::make_latency_histogram, golden::describe_latency_histogram,
     golden::latency_histogram_goes_on},
    {"counter_set", golden::make_counter_set, golden::describe_counter_set, golden::counter_set_goes_on},
    {"block_store_many", golden::make_block_store_many, golden::describe_block_store, golden::block_store_many_goes_on},
    {"hash_table_many", golden::make_hash_table_many, golden::describe_hash_table, golden::hash_table_many_goes_on},
    {"hash_map_many", golden::make_hash_map_many, golden::describe_hash_map, golden::hash_map_many_goes_on},
    {"small_table", golden::make_small_table, golden::describe_small_table, golden::small_table_goes_on},
    {"hash_map_registered", golden::make_hash_map_registered, golden::describe_hash_map_registered,
     golden::hash_map_registered_goes_on},
};

/// The moment at which all golden images were made, and the seed of their random bytes.
inline constexpr std::int64_t golden_moment_ns = 1'700'000'000'000'000'000;
inline constexpr std::uint64_t golden_seed = 1;

}  // namespace holdfast::test
