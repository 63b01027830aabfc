// SPDX-License-Identifier: Apache-2.0
// image_kill_metrics.hpp - counters and latencies in named segments, with the operations in which image_kill_test.cpp
// kills one of their writers.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "image_kill_subjects.hpp"
#include "support/metrics_model.hpp"

namespace holdfast::test::image_kill {

inline std::string counter_key(const counter_text& name) {
    return std::string(name.family) + "{" + std::string(name.labels) + "}";
}
inline void count_more(contents& c, const std::string& key, u64 amount) {
    const auto at = c.find(key);
    c[key] = name_of((at == c.end() ? 0 : std::stoull(at->second)) + amount);
}

// Two names are there, the first words of a third were left by one that died.
inline subject counters_subject() {
    const auto get = [](const counter_set& set, std::size_t name) {
        return set.get(counter_texts[name].family, counter_texts[name].labels);
    };
    const auto asks = [get](const char* what, std::size_t name) {
        return operation{what,
                         [get, name](const std::string& uri) {
                             return with(counter_set::attach(uri), [get, name](counter_set& s) { (void)get(s, name); });
                         },
                         [name](contents& c) { c[counter_key(counter_texts[name])] = "0"; }};
    };
    const auto counts = [get](const char* what, void (*operate)(const counter&), const char* then) {
        return operation{what,
                         [get, operate](const std::string& uri) {
                             auto set = std::make_shared<counter_set>(counter_set::attach(uri));
                             const counter of = get(*set, short_name);
                             return [set, of, operate] { operate(of); };
                         },
                         [then](contents& c) { c[counter_key(counter_texts[short_name])] = then; }};
    };
    return {"counter_set",
            [get](const std::string& uri) {
                const counter_set set = counter_set::create(uri, {.capacity = counter_names});
                get(set, short_name).add(40);
                get(set, last_name).add(41);
                segment raw = segment::attach(uri, access::read_write);
                const holdfast::detail::counter_slots slots(raw.body(), counter_names, uri);
                require(slots.install(prefix_of(words_of_name(twin_name), 3)) != nullptr, "a name begun");
                return contents{{counter_key(counter_texts[short_name]), "40"},
                                {counter_key(counter_texts[last_name]), "41"}};
            },
            [](const std::string& uri) {
                const auto reader = counter_set_reader::attach(uri);
                contents found;
                const counter_walk walk =
                    reader.for_each([&](std::string_view family, std::string_view labels, u64 value) {
                        const std::string key = counter_key({family, labels});
                        found[key] = found.contains(key) ? "twice" : name_of(value);
                        if (reader.value(family, labels) != value) found["damage"] = "found by name is another value";
                    });
                if (walk.damaged != 0) found["damage"] = "a name";
                return found;
            },
            {asks("register", long_name), asks("take up", twin_name), asks("take another's up", other_twin),
             counts(
                 "add", [](const counter& c) { c.add(2); }, "42"),
             counts(
                 "set", [](const counter& c) { c.set(7); }, "7")},
            afterwards({"register all and count",
                        [get](const std::string& uri) {
                            return with(counter_set::attach(uri), [get](counter_set& s) {
                                for (std::size_t name = 0; name < counter_names; ++name) get(s, name).add(1);
                            });
                        },
                        [](contents& c) {
                            for (const counter_text& name : counter_texts) count_more(c, counter_key(name), 1);
                        }})};
}

// Two shards, of which none has room in the word of one latency.
inline subject latencies_subject() {
    constexpr u64 full_value = 9000;
    struct recorders {
        latency_histogram histogram;
        std::vector<latency_recorder> all;
        recorders(const std::string& uri, std::size_t count) : histogram(latency_histogram::attach(uri)) {
            for (std::size_t i = 0; i < count; ++i) all.push_back(histogram.make_recorder());
        }
    };
    const auto key_of = [](u64 value) { return name_of(log_linear::lowest_of(log_linear::bucket_of(value))); };
    // By the last of so many recorders, or by one that it makes first.
    const auto records = [key_of](const char* what, std::size_t recorders_there, u64 value) {
        return operation{what,
                         [recorders_there, value](const std::string& uri) {
                             auto those = std::make_shared<recorders>(uri, recorders_there);
                             those->all.reserve(recorders_there + 1);
                             return [those, value] {
                                 if (those->all.empty()) those->all.push_back(those->histogram.make_recorder());
                                 those->all.back().record(value);
                             };
                         },
                         [key_of, value](contents& c) { count_more(c, key_of(value), 1); }};
    };
    return {"latency_histogram",
            [key_of](const std::string& uri) {
                contents made;
                const latency_histogram histogram = latency_histogram::create(uri, {.shards = 2});
                latency_recorder one = histogram.make_recorder();
                for (u64 n = 1; n < 20; ++n) {
                    one.record(n * n * n);
                    count_more(made, key_of(n * n * n), 1);
                }
                segment raw = segment::attach(uri, access::read_write);
                const holdfast::detail::latency_shards shards(raw.body(), 3, uri);
                constexpr std::uint32_t full = std::numeric_limits<std::uint32_t>::max();
                for (const std::size_t shard : {0U, 1U}) shards[shard].counts[log_linear::bucket_of(full_value)] = full;
                made[key_of(full_value)] = name_of(u64{2} * full);
                return made;
            },
            [](const std::string& uri) {
                const histogram_counts all = latency_histogram_reader::attach(uri).merged();
                contents found;
                for (std::size_t bucket = 0; bucket < all.counts().size(); ++bucket)
                    if (all.counts()[bucket] != 0)
                        found[name_of(log_linear::lowest_of(bucket))] = name_of(all.counts()[bucket]);
                return found;
            },
            {records("record", 1, 100), records("record the greatest", 1, u64{1} << 35U),
             records("record in the shard of all", 3, u64{1} << 36U), records("record in a full word", 2, full_value),
             records("take a shard and record", 0, 200)},
            afterwards({"take both shards and record",
                        [](const std::string& uri) {
                            return with(recorders(uri, 0), [](recorders& those) {
                                for (unsigned i = 0; i < 2; ++i) {
                                    those.all.push_back(those.histogram.make_recorder());
                                    require(!those.all.back().shared(), "a shard that the dead one has left");
                                    those.all.back().record(77);
                                }
                            });
                        },
                        [key_of](contents& c) { count_more(c, key_of(77), 2); }})};
}

}  // namespace holdfast::test::image_kill
