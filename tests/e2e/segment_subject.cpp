// SPDX-License-Identifier: Apache-2.0
// segment_subject.cpp - a living owner of segments for the tests of the program: it makes or opens one, then obeys the
// lines of its standard input and answers each by a line, until the input ends or it is killed.
//
//   segment_subject ring NAME BYTES [READERS]      put TEXT | batch N TEXT | flood TEXT | hold
//   segment_subject trades NAME BYTES              put ID PRICE VENUE            (a ring of records)
//   segment_subject queue NAME BYTES               put TEXT | flood TEXT | take N | leave
//   segment_subject typed NAME CAPACITY            put NUMBER | many COUNT
//   segment_subject blocks NAME BYTES              put TEXT | free HANDLE | get HANDLE | claim N
//   segment_subject shared_blocks NAME BYTES       the same                      (a store of many writers)
//   segment_subject latencies NAME SHARDS          put NS
//   segment_subject counters NAME CAPACITY         put FAMILY AMOUNT
//   segment_subject array NAME SIZE                put INDEX NUMBER
//   segment_subject map NAME CAPACITY              put KEY TEXT                  (a hash map of texts)
//   segment_subject users NAME CAPACITY            put NUMBER TEXT               (a hash map whose keys are numbers)
//   segment_subject shared_map NAME CAPACITY       put KEY TEXT                  (a hash map of many writers)
//   segment_subject objects NAME BYTES             put TEXT                      (a snapshot of bytes)
//   segment_subject prices NAME 0                  put ID PRICE VENUE            (a snapshot of a record)
//   segment_subject raw NAME BYTES                put OFFSET TEXT              (no container)
//   segment_subject inbox NAME 0                   apply N | run                 (a table that is there, and its inbox)
//   segment_subject any NAME 0                     nothing: holds the lease of whatever is there
// A NAME that is there already is attached to: BYTES and the like are then not looked at.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/block_store/many.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/inbox.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"

namespace {

using namespace holdfast;

struct trade {
    std::uint64_t id;
    double price;
    char venue[8];
};

[[nodiscard]] std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// Makes a container, or attaches to the one that is there.
template <class Make, class Attach>
[[nodiscard]] auto open(Make&& make, Attach&& attach) {
    try {
        return make();
    } catch (const error& failure) {
        if (failure.reason() != errc::already_exists) throw;
        return attach();
    }
}

[[nodiscard]] std::string name_of(outcome what) { return std::string(outcome_name(what)); }

/// Reads lines and answers them; `obey` gives the answer to one command, or throws.
void talk(const std::function<std::string(const std::string&, std::istringstream&)>& obey) {
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string verb;
        words >> verb;
        std::cout << obey(verb, words) << std::endl;
    }
}

[[nodiscard]] std::string rest_of(std::istringstream& words) {
    std::string text;
    std::getline(words >> std::ws, text);
    return text;
}

template <class T>
[[nodiscard]] T next(std::istringstream& words) {
    T value{};
    words >> value;
    return value;
}

void own_any(const std::string& name) {
    const segment held = segment::attach(name, access::read_write);
    talk([](const std::string&, std::istringstream&) { return std::string("held"); });
}

void own_ring(const std::string& name, std::uint64_t bytes, std::uint32_t readers) {
    auto ring =
        open([&] { return broadcast_writer::create(name, {.capacity_bytes = bytes, .registered_readers = readers}); },
             [&] { return broadcast_writer::attach(name); });
    std::vector<broadcast_reliable_reader> held;
    talk([&](const std::string& verb, std::istringstream& words) {
        if (verb == "put") return name_of(ring.publish(bytes_of(rest_of(words))).status);
        if (verb == "batch") {
            const auto count = next<std::uint64_t>(words);
            const std::string text = rest_of(words);
            for (std::uint64_t i = 0; i < count; ++i) (void)ring.publish(bytes_of(text + std::to_string(i)));
            return std::to_string(ring.sequence());
        }
        if (verb == "flood") {  // until it is killed
            for (const std::string text = rest_of(words);;) (void)ring.publish(bytes_of(text));
        }
        if (verb == "hold") {
            held.push_back(broadcast_reliable_reader::attach(name));
            return std::to_string(held.size());
        }
        return std::string("what?");
    });
}

void own_trades(const std::string& name, std::uint64_t bytes) {
    auto ring = open(
        [&] {
            return broadcast_writer::create(
                name, {.capacity_bytes = bytes, .schema = container_schema{std::nullopt, schema_of<trade>()}.text()});
        },
        [&] { return broadcast_writer::attach(name); });
    talk([&](const std::string&, std::istringstream& words) {
        trade made{};
        made.id = next<std::uint64_t>(words);
        made.price = next<double>(words);
        const auto venue = next<std::string>(words);
        venue.copy(made.venue, sizeof made.venue);
        return name_of(ring.publish(std::as_bytes(std::span(&made, 1))).status);
    });
}

void own_inbox(const std::string& name) {
    attach_options how;
    how.lease_timeout = std::chrono::seconds(10);  // a server may be writing for its clients
    auto table = dynamic_hash_table::attach(name, how);
    table_inbox inbox(table);
    talk([&](const std::string& verb, std::istringstream& words) {
        if (verb == "run") {  // until it is killed
            for (;;) (void)(inbox.wait(std::chrono::seconds(1)) && inbox.apply());
        }
        const std::uint64_t until = inbox.counts().taken + next<std::uint64_t>(words);
        while (inbox.counts().taken < until && inbox.wait(std::chrono::seconds(20))) (void)inbox.apply(1);
        return std::to_string(inbox.counts().done);
    });
}

void own_queue(const std::string& name, std::uint64_t bytes) {
    auto producer = open([&] { return queue_producer::create(name, {.capacity_bytes = bytes}); },
                         [&] { return queue_producer::attach(name); });
    std::optional<queue_consumer> consumer;
    talk([&](const std::string& verb, std::istringstream& words) {
        if (verb == "put") return name_of(producer.try_push(bytes_of(rest_of(words))).status);
        if (verb == "flood") {  // until it is killed
            for (const std::string text = rest_of(words);;) (void)producer.try_push(bytes_of(text));
        }
        if (verb == "take") {
            if (!consumer) consumer.emplace(queue_consumer::attach(name));
            std::uint64_t taken = 0;
            for (auto left = next<std::uint64_t>(words); left > 0 && consumer->front(); --left, ++taken)
                (void)consumer->pop();
            return std::to_string(taken);
        }
        if (verb == "leave") consumer.reset();
        return std::string("left");
    });
}

void own_typed(const std::string& name, std::uint64_t capacity) {
    using numbers = queue<std::uint64_t>;
    auto producer = open([&] { return numbers::producer::create(name, {.capacity = capacity}); },
                         [&] { return numbers::producer::attach(name); });
    talk([&](const std::string& verb, std::istringstream& words) {
        if (verb == "many") {
            const auto count = next<std::uint64_t>(words);
            for (std::uint64_t i = 0; i < count; ++i) (void)producer.try_push(i);
            return std::to_string(count);
        }
        return name_of(producer.try_push(next<std::uint64_t>(words)).status);
    });
}

void own_objects(const std::string& name, std::uint64_t bytes) {
    auto objects = open([&] { return snapshot_writer::create(name, {.slot_bytes = bytes}); },
                        [&] { return snapshot_writer::attach(name); });
    talk([&](const std::string&, std::istringstream& words) {
        return name_of(objects.publish(bytes_of(rest_of(words))).status);
    });
}

void own_prices(const std::string& name) {
    auto prices = open([&] { return snapshot<trade>::create(name); }, [&] { return snapshot<trade>::attach(name); });
    talk([&](const std::string&, std::istringstream& words) {
        trade one{};
        one.id = next<std::uint64_t>(words);
        one.price = next<double>(words);
        rest_of(words).copy(one.venue, sizeof one.venue);
        return name_of(prices.publish(one).status);
    });
}

template <writers Policy>
void own_blocks(const std::string& name, std::uint64_t bytes) {
    using blocks = basic_block_store<Policy>;
    auto store = open([&] { return blocks::create(name, {.bytes = bytes}); }, [&] { return blocks::attach(name); });
    talk([&](const std::string& verb, std::istringstream& words) {
        if (verb == "put") {
            const block_result made = store.allocate(bytes_of(rest_of(words)));
            return made ? std::to_string(made.handle) : name_of(made.status);
        }
        if (verb == "free") return name_of(store.free(next<std::uint64_t>(words)));
        if (verb == "claim") return name_of(store.prepare(next<std::uint64_t>(words)));
        std::vector<std::byte> value;
        const result got = store.read(next<std::uint64_t>(words), value);
        return got ? std::string(reinterpret_cast<const char*>(value.data()), value.size()) : name_of(got.status);
    });
}

void own_latencies(const std::string& name, std::uint64_t shards) {
    auto all = open([&] { return latency_histogram::create(name, {.shards = static_cast<std::uint32_t>(shards)}); },
                    [&] { return latency_histogram::attach(name); });
    latency_recorder recorder = all.make_recorder();
    talk([&](const std::string&, std::istringstream& words) {
        recorder.record(next<std::uint64_t>(words));
        return std::string("ok");
    });
}

void own_counters(const std::string& name, std::uint64_t capacity) {
    const auto set = open([&] { return counter_set::create(name, {.capacity = capacity}); },
                          [&] { return counter_set::attach(name); });
    talk([&](const std::string&, std::istringstream& words) {
        const auto family = next<std::string>(words);
        set.get(family).add(next<std::uint64_t>(words));
        return std::string("ok");
    });
}

void own_array(const std::string& name, std::uint64_t size) {
    auto numbers = open([&] { return array<std::uint64_t>::create(name, {.size = size}); },
                        [&] { return array<std::uint64_t>::attach(name); });
    talk([&](const std::string&, std::istringstream& words) {
        const auto index = next<std::uint64_t>(words);
        if (index >= numbers.size()) return std::string("none");
        numbers.store(index, next<std::uint64_t>(words));
        return std::string("ok");
    });
}

void own_raw(const std::string& name, std::uint64_t bytes) {
    segment_spec spec;
    spec.body_bytes = bytes;
    segment held = segment::create(name, spec, {}, [](std::span<std::byte>) {});
    talk([&](const std::string&, std::istringstream& words) {
        const auto offset = next<std::uint64_t>(words);
        const std::string text = rest_of(words);
        if (offset > bytes || text.size() > bytes - offset) return std::string("none");
        std::copy_n(bytes_of(text).begin(), text.size(), held.body().begin() + static_cast<std::ptrdiff_t>(offset));
        return std::string("ok");
    });
}

template <class Key, class Word, writers Policy = writers::one>
void own_map(const std::string& name, std::uint64_t capacity) {
    using map_type = hash_map<Key, Policy>;
    auto map = open([&] { return map_type::create(name, {.capacity = capacity, .key_name = "user"}); },
                    [&] { return map_type::attach(name); });
    talk([&](const std::string&, std::istringstream& words) {
        const auto key = next<Word>(words);
        return name_of(map.set(Key(key), rest_of(words)).status);
    });
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const std::vector<std::string> words(argv + 1, argv + argc);
        const std::uint64_t size = std::stoull(words.at(2));
        const std::uint32_t readers = words.size() > 3 ? static_cast<std::uint32_t>(std::stoul(words[3])) : 0;
        const std::string& what = words[0];
        if (what == "ring") own_ring(words[1], size, readers);
        if (what == "trades") own_trades(words[1], size);
        if (what == "queue") own_queue(words[1], size);
        if (what == "typed") own_typed(words[1], size);
        if (what == "blocks") own_blocks<writers::one>(words[1], size);
        if (what == "shared_blocks") own_blocks<writers::many>(words[1], size);
        if (what == "latencies") own_latencies(words[1], size);
        if (what == "counters") own_counters(words[1], size);
        if (what == "array") own_array(words[1], size);
        if (what == "map") own_map<std::string_view, std::string>(words[1], size);
        if (what == "shared_map") own_map<std::string_view, std::string, writers::many>(words[1], size);
        if (what == "objects") own_objects(words[1], size);
        if (what == "prices") own_prices(words[1]);
        if (what == "raw") own_raw(words[1], size);
        if (what == "inbox") own_inbox(words[1]);
        if (what == "any") own_any(words[1]);
        if (what == "users") own_map<std::uint32_t, std::uint32_t>(words[1], size);
        return 0;
    } catch (const std::exception& failure) {
        std::cerr << failure.what() << std::endl;
        return 1;
    }
}
