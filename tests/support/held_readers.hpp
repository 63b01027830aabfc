// SPDX-License-Identifier: Apache-2.0
// held_readers.hpp - one reader of each kind of container that attaches once and is then asked for all that there is,
// again and again, whatever happens to the memory meanwhile. Each container has about 1 MiB.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "holdfast/holdfast.hpp"
#include "support/seed.hpp"

namespace holdfast::test {

/// What a reader was told, as one number.
class told_digest {
 public:
    void add(std::span<const std::byte> bytes) noexcept {
        for (const std::byte b : bytes) add_one(static_cast<std::uint64_t>(b));
    }
    void add(std::uint64_t word) noexcept { add_one(word ^ word >> 32U); }
    [[nodiscard]] std::uint64_t value() const noexcept { return sum_; }

 private:
    void add_one(std::uint64_t word) noexcept { sum_ = (sum_ ^ word) * 0x100000001b3; }
    std::uint64_t sum_ = 0xcbf29ce484222325;
};

class held_reader {
 public:
    held_reader() = default;
    held_reader(const held_reader&) = delete;
    held_reader& operator=(const held_reader&) = delete;
    virtual ~held_reader() = default;

    /// Asks for everything; buffers are its own and new each time. Returns: a digest of what it was told.
    [[nodiscard]] virtual std::uint64_t look() = 0;
    /// Goes on from where it stands and takes what it sees: a message, or some of a ring; elsewhere it is look().
    /// Returns: false where there was nothing further.
    virtual bool read_on() = 0;
    [[nodiscard]] virtual std::optional<errc> fault() const = 0;
    [[nodiscard]] virtual bool cut_off() const = 0;
};

struct held_subject {
    const char* name;
    void (*make)(const std::string& uri);
    std::unique_ptr<held_reader> (*open)(const std::string& uri);
    std::uint64_t steps = 0;  // of read_on() to the end of what there is; 0: it has none
};

namespace held {

struct item {
    std::uint64_t id;
    std::uint64_t count;
};
struct range_end {
    std::uint32_t last;
    std::uint32_t where;
};

inline constexpr std::uint64_t looks_max = 10'000;   // whoever scribbles on a ring may feed its reader for ever,
inline constexpr std::uint64_t bytes_max = 4 << 20;  // with messages of any size

inline void require(bool done) {
    if (!done) throw std::runtime_error("a subject was not filled");
}
inline item item_of(std::uint64_t n) { return {n * 7 + 1, n * n + 3}; }
/// Value number n: some hundred bytes that are not zero, now and then some thousand.
inline std::vector<std::byte> bytes_of(std::uint64_t n) {
    std::vector<std::byte> bytes(n % 50 == 7 ? 5000 + n : 20 + random_at(3, 0, n) % 300);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(1 + (n + i) % 250);
    return bytes;
}
inline std::string key_of(std::uint64_t n) { return "key number " + std::to_string(n); }

/// A reader of the type that `attach` gives; Ask is called with it and the digest, and On, which reads on, likewise.
template <class Attach, class Ask, class On>
class reader_of final : public held_reader {
 public:
    reader_of(const std::string& uri, Attach attach, Ask ask, On on) : reader_(attach(uri)), ask_(ask), on_(on) {}
    [[nodiscard]] std::uint64_t look() override {
        told_digest told;
        ask_(reader_, told);
        return told.value();
    }
    bool read_on() override {
        told_digest told;
        return on_(reader_, told);
    }
    [[nodiscard]] std::optional<errc> fault() const override {
        if constexpr (requires { reader_.fault(); })
            return reader_.fault();
        else
            return reader_.segment().fault();
    }
    [[nodiscard]] bool cut_off() const override { return reader_.segment().cut_off(); }

 private:
    std::invoke_result_t<Attach, const std::string&> reader_;
    Ask ask_;
    On on_;
};
template <class Attach, class Ask, class On>
std::unique_ptr<held_reader> hold(const std::string& uri, Attach attach, Ask ask, On on) {
    return std::make_unique<reader_of<Attach, Ask, On>>(uri, attach, ask, on);
}
template <class Attach, class Ask>
std::unique_ptr<held_reader> hold(const std::string& uri, Attach attach, Ask ask) {
    return hold(uri, attach, ask, [ask](auto& reader, told_digest& told) {
        ask(reader, told);
        return true;
    });
}

// ---- tables and arrays

inline constexpr std::uint64_t items = 30'000;

inline void make_table(const std::string& uri) {
    auto table = hash_table<std::uint64_t, item>::create(uri, {.capacity = items + items / 8});
    for (std::uint64_t n = 0; n < items; ++n) require(static_cast<bool>(table.try_insert(n, item_of(n))));
}
inline std::unique_ptr<held_reader> open_table(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return hash_table_reader<std::uint64_t, item>::attach(at); },
        [](const auto& table, told_digest& told) {
            for (std::uint64_t n = 0; n < items; n += 3)
                if (const auto found = table.find(n)) told.add(found->id), told.add(found->count);
            for (const auto& entry : table) told.add(entry.key);
        });
}
inline void make_array(const std::string& uri) {
    auto writer = array<item>::create(uri, {.size = items});
    for (std::uint64_t n = 0; n < items; ++n) writer.store(n, item_of(n));
}
inline std::unique_ptr<held_reader> open_array(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return array_reader<item>::attach(at); },
        [](const auto& reader, told_digest& told) {
            item one{};
            for (std::uint64_t n = 0; n < reader.size(); ++n)
                if (reader.load(n, one) == outcome::ok) told.add(one.id), told.add(one.count);
        });
}

struct wide_item {
    std::uint64_t id;
    std::uint64_t rest[119];
};
inline constexpr std::uint64_t keys = 1000;

inline void make_small_table(const std::string& uri) {
    auto table = small_table<std::uint64_t, wide_item>::create(uri, {.capacity = keys});
    for (std::uint64_t n = 0; n < keys; ++n) {
        wide_item value{};
        for (std::uint64_t& word : value.rest) word = value.id = n * n + 1;
        require(table.try_insert(n, value) == outcome::ok);
    }
}
inline std::unique_ptr<held_reader> open_small_table(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return small_table_reader<std::uint64_t, wide_item>::attach(at); },
        [](auto& table, told_digest& told) {
            for (std::uint64_t n = 0; n < keys + 10; n += 3)
                if (const auto found = table.find(n)) told.add(found->id), told.add(found->rest[n % 119]);
            (void)table.visit([&](std::uint64_t key, const wide_item& value) { told.add(key), told.add(value.id); });
        });
}

// ---- values of any size

inline constexpr std::uint64_t values = 1500;

inline void make_blocks(const std::string& uri) {
    block_store store = block_store::create(uri, {.bytes = 1'000'000, .unit_bytes = 128});
    for (std::uint64_t n = 0; n < values; ++n) require(static_cast<bool>(store.allocate(bytes_of(n))));
}
inline std::unique_ptr<held_reader> open_blocks(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return block_store_reader::attach(at); },
        [](const auto& store, told_digest& told) {
            std::uint64_t cursor = 0;
            while (const auto handle = store.next_value(cursor)) {
                std::vector<std::byte> value;
                if (store.read(*handle, value)) told.add(value);
            }
        });
}
inline void make_map(const std::string& uri) {
    hash_map_options options;
    options.capacity = 2000;
    options.bytes = 1'000'000;
    options.unit_bytes = 128;
    options.registered_readers = 2;
    auto map = hash_map<std::string_view>::create(uri, options);
    for (std::uint64_t n = 0; n < values; ++n) require(static_cast<bool>(map.set(key_of(n), bytes_of(n))));
}
inline void ask_map(const auto& map, told_digest& told) {
    for (std::uint64_t n = 0; n < values; n += 2) {
        std::string value;
        if (map.find(key_of(n), value)) told.add(std::as_bytes(std::span(value)));
    }
    std::uint64_t cursor = 0, met = 0;
    for (outcome got = outcome::ok; got != outcome::empty && met < looks_max; ++met) {
        hash_map_entry entry;
        got = map.next_entry(cursor, entry);
        if (got == outcome::ok) told.add(entry.key), told.add(entry.value);
    }
}
inline std::unique_ptr<held_reader> open_map(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return hash_map_reader<std::string_view>::attach(at); },
        [](const auto& map, told_digest& told) { ask_map(map, told); });
}
inline std::unique_ptr<held_reader> open_map_registered(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return hash_map_registered_reader<std::string_view>::attach(at); },
        [](const auto& map, told_digest& told) { ask_map(map, told); });
}

// ---- rings

inline std::vector<std::byte> large_message() {
    std::vector<std::byte> message(200'000);
    for (std::size_t i = 0; i < message.size(); ++i) message[i] = static_cast<std::byte>(1 + i % 250);
    return message;
}
inline constexpr std::uint64_t messages = 200;

inline void make_queue(const std::string& uri) {
    queue_options options;
    options.capacity_bytes = 1 << 20;
    queue_producer producer = queue_producer::create(uri, options);
    const std::vector<std::byte> message = large_message();
    for (int n = 0; n < 4; ++n) require(static_cast<bool>(producer.try_push(message)));
    for (std::uint64_t n = 4; n < messages; ++n) require(static_cast<bool>(producer.try_push(bytes_of(n))));
}
inline std::unique_ptr<held_reader> open_queue(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return queue_consumer::attach(at); },
        [](auto& consumer, told_digest& told) {
            if (!consumer.wait(std::chrono::nanoseconds(0))) return;
            if (const queue_message m = consumer.front()) told.add(m.bytes);
        },
        [](auto& consumer, told_digest& told) {
            const queue_message m = consumer.front();
            if (m) told.add(m.bytes);
            return consumer.pop();
        });
}
inline constexpr std::uint64_t elements = 60'000, elements_at_once = 100;

inline void make_elements(const std::string& uri) {
    auto producer = queue<item>::producer::create(uri, {.capacity = 65'536});
    for (std::uint64_t n = 0; n < elements; ++n) require(static_cast<bool>(producer.try_push(item_of(n))));
}
inline std::unique_ptr<held_reader> open_elements(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return queue<item>::consumer::attach(at); },
        [](auto& consumer, told_digest& told) {
            if (!consumer.wait(std::chrono::nanoseconds(0))) return;
            if (const auto e = consumer.front()) told.add(e.value.id), told.add(e.value.count);
        },
        [](auto& consumer, told_digest& told) {
            const auto some = consumer.front_block(elements_at_once);
            for (const item& value : some.values) told.add(value.id), told.add(value.count);
            return consumer.pop(some.values.size());
        });
}
inline constexpr std::uint64_t published = 3000, published_at_once = 10;

inline void make_broadcast(const std::string& uri) {
    broadcast_options options;
    options.capacity_bytes = 1 << 20;
    options.registered_readers = 2;
    broadcast_writer writer = broadcast_writer::create(uri, options);
    for (std::uint64_t n = 0; n < published; ++n) require(static_cast<bool>(writer.publish(bytes_of(n), 1)));
}
/// Returns: whether there was anything.
inline bool ask_ring(auto& reader, told_digest& told, std::uint64_t most = looks_max) {
    std::uint64_t n = 0;
    for (std::uint64_t bytes = 0; n < most && bytes < bytes_max; ++n) {
        std::vector<std::byte> message;
        const broadcast_read got = reader.read(message);
        bytes += message.size();
        if (got)
            told.add(message);
        else if (got.status == outcome::lapped)
            told.add(got.count);
        else
            break;
    }
    return n != 0;
}
inline bool ask_ring_on(auto& reader, told_digest& told) { return ask_ring(reader, told, published_at_once); }
inline std::unique_ptr<held_reader> open_broadcast(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return broadcast_reader::attach(at); },
        [](auto& reader, told_digest& told) {
            if (reader.join(broadcast_start::oldest())) ask_ring(reader, told);
        },
        [](auto& reader, told_digest& told) { return ask_ring_on(reader, told); });
}
inline std::unique_ptr<held_reader> open_broadcast_registered(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return broadcast_reliable_reader::attach(at); },
        [](auto& reader, told_digest& told) {
            if (reader.enrol({})) ask_ring(reader, told);
        },
        [](auto& reader, told_digest& told) { return ask_ring_on(reader, told); });
}

// ---- objects

inline void make_snapshot(const std::string& uri) {
    snapshot_options options;
    options.slot_bytes = 300'000;
    options.pinned_readers = 2;
    snapshot_writer writer = snapshot_writer::create(uri, options);
    for (int n = 0; n < 3; ++n) require(static_cast<bool>(writer.publish(large_message())));
}
inline std::unique_ptr<held_reader> open_snapshot(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return snapshot_reader::attach(at); },
        [](auto& reader, told_digest& told) {
            std::vector<std::byte> object;
            if (reader.read(object)) told.add(object);
        });
}
inline std::unique_ptr<held_reader> open_snapshot_pinned(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return snapshot_pinned_reader::attach(at); },
        [](auto& reader, told_digest& told) {
            if (const snapshot_view view = reader.pin()) told.add(view.bytes());
        });
}

using index_builder = sorted_index_builder<std::uint32_t, range_end, &range_end::last>;
using index_reader = sorted_index_reader<std::uint32_t, range_end, &range_end::last>;
using index_publisher = sorted_index_publisher<std::uint32_t, range_end, &range_end::last>;
inline constexpr std::uint32_t ranges = 60'000;

inline void fill_index(index_builder& builder) {
    for (std::uint32_t n = 0; n < ranges; ++n) builder.add(n * 8, {n * 8 + 5, n + 1});
}
inline void make_index(const std::string& uri) {
    index_builder builder;
    fill_index(builder);
    (void)create_sorted_index(uri, builder);
}
inline void make_published_index(const std::string& uri) {
    index_publisher publisher = index_publisher::create(uri, {.records_max = ranges, .slots = 2});
    index_builder builder;
    fill_index(builder);
    require(static_cast<bool>(publisher.publish(builder)));
}
inline std::unique_ptr<held_reader> open_index(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return index_reader::attach(at); },
        [](auto& index, told_digest& told) {
            for (std::uint32_t n = 0; n < ranges; n += 5) {
                if (const auto exact = index.find(n * 8)) told.add(exact->value.where);
                if (const auto covering = index.find_covering(n * 8 + 3)) told.add(covering->value.last);
            }
        });
}

// ---- metrics

inline void make_counters(const std::string& uri) {
    const counter_set set = counter_set::create(uri, {.capacity = 4000});
    for (std::uint64_t n = 0; n < 1000; ++n)
        set.get("requests_total", "zone=\"" + std::to_string(n) + "\"").add(n * 1000 + 1);
}
inline std::unique_ptr<held_reader> open_counters(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return counter_set_reader::attach(at); },
        [](const auto& set, told_digest& told) {
            set.for_each([&](std::string_view, std::string_view labels, std::uint64_t value) {
                told.add(labels.size()), told.add(value);
            });
        });
}
inline void make_histogram(const std::string& uri) {
    const latency_histogram histogram = latency_histogram::create(uri, {.shards = 100});
    std::vector<latency_recorder> recorders;
    for (std::uint64_t shard = 0; shard < 100; ++shard) {
        recorders.push_back(histogram.make_recorder());
        for (std::uint64_t n = 1; n < 200; ++n) recorders.back().record(n * n * n + shard);
    }
}
inline std::unique_ptr<held_reader> open_histogram(const std::string& uri) {
    return hold(
        uri, [](const std::string& at) { return latency_histogram_reader::attach(at); },
        [](const auto& histogram, told_digest& told) {
            const histogram_counts all = histogram.merged();
            for (const std::uint64_t count : all.counts()) told.add(count);
        });
}

}  // namespace held

inline constexpr held_subject held_subjects[] = {
    {"hash_table", held::make_table, held::open_table},
    {"array", held::make_array, held::open_array},
    {"small_table", held::make_small_table, held::open_small_table},
    {"block_store", held::make_blocks, held::open_blocks},
    {"hash_map", held::make_map, held::open_map},
    {"hash_map_registered", held::make_map, held::open_map_registered},
    {"queue", held::make_queue, held::open_queue, held::messages},
    {"queue_records", held::make_elements, held::open_elements, held::elements / held::elements_at_once},
    {"broadcast", held::make_broadcast, held::open_broadcast, held::published / held::published_at_once},
    {"broadcast_registered", held::make_broadcast, held::open_broadcast_registered,
     held::published / held::published_at_once},
    {"snapshot", held::make_snapshot, held::open_snapshot},
    {"snapshot_pinned", held::make_snapshot, held::open_snapshot_pinned},
    {"sorted_index", held::make_index, held::open_index},
    {"published_index", held::make_published_index, held::open_index},
    {"counter_set", held::make_counters, held::open_counters},
    {"latency_histogram", held::make_histogram, held::open_histogram},
};

inline void PrintTo(const held_subject& subject, std::ostream* out) { *out << subject.name; }

}  // namespace holdfast::test
