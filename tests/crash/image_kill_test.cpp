// SPDX-License-Identifier: Apache-2.0
// Every container in a named segment, its writer killed for real at every distinct image of an operation: the operation
// is stepped once to learn what it leaves in the segment and its peers file after each store, and then once more for
// each of these images, in a process of its own that dies there by SIGKILL. Lock, lease and names are as that death
// leaves them. Then, by name:
//   a reader      finds all that was there before the operation, or all that it does; verify() finds nothing
//   a writer      takes over and recovers; never back from what a reader saw
//   the next one  of its operations works
// The *_step_tests look at the same images in copies, in every state of the containers' cores.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "support/capability.hpp"
#include "support/scale.hpp"
#include "support/single_step.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using golden::bytes_of;
using golden::require;
using golden::session;
using golden::session_of;
using golden::text_of;
using u64 = std::uint64_t;

/// What a container holds, as a reader finds it; "damage" is the name of what verify() finds.
using contents = std::map<std::string, std::string>;

struct operation {
    const char* name = "";
    /// Attaches as the writer, and returns what it then does.
    std::function<std::function<void()>(const std::string& uri)> start;
    std::function<void(contents&)> apply;
    /// A reader may meet both what it replaces and what it brings, until the next writer comes.
    bool both_between = false;
};

struct subject {
    const char* name;
    std::function<contents(const std::string& uri)> make;
    std::function<contents(const std::string& uri)> read;
    std::vector<operation> operations;
    operation next;
    bool reading_takes = false;  // what was read is gone
    friend std::ostream& operator<<(std::ostream& out, const subject& s) { return out << s.name; }
};

template <class Handle, class Operate>
std::function<void()> with(Handle handle, Operate operate) {
    return [shared = std::make_shared<Handle>(std::move(handle)), operate] { operate(*shared); };
}

std::string name_of(u64 n) { return std::to_string(n); }
std::string text_of_bytes(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string text_of_session(const session& s) {
    const bool whole = s.user % 1000 == 7 && s.visits == s.user / 1000 && s.flags == ~s.visits;
    return whole ? name_of(s.user / 1000) : "torn";
}
template <class Findings>
void add_damage(contents& to, const Findings& found) {
    if (!found.empty()) to["damage"] = found.list()[0].what;
}

// ---- stores ------------------------------------------------------------------------------------------------------

using wide_array = array<session>;

subject array_subject() {
    constexpr u64 size = 12;
    return {"array",
            [](const std::string& uri) {
                auto writer = wide_array::create(uri, {.size = size});
                contents made;
                for (u64 i = 0; i < size; ++i) writer.store(i, session_of(i)), made[name_of(i)] = name_of(i);
                return made;
            },
            [](const std::string& uri) {
                const auto reader = array_reader<session>::attach(uri);
                contents found;
                for (u64 i = 0; i < reader.size(); ++i) found[name_of(i)] = text_of_session(reader[i]);
                if (!reader.verify([](const array_finding&) { return true; }).intact()) found["damage"] = "array";
                return found;
            },
            {{"store",
              [](const std::string& uri) {
                  return with(wide_array::attach(uri), [](wide_array& a) { a.store(3, session_of(70)); });
              },
              [](contents& c) { c["3"] = "70"; }},
             {"store_range",
              [](const std::string& uri) {
                  return with(wide_array::attach(uri), [](wide_array& a) {
                      const session three[] = {session_of(80), session_of(81), session_of(82)};
                      a.store_range(4, three);
                  });
              },
              [](contents& c) { c["4"] = "80", c["5"] = "81", c["6"] = "82"; }}},
            {"store",
             [](const std::string& uri) {
                 return with(wide_array::attach(uri), [](wide_array& a) { a.store(5, session_of(90)); });
             },
             [](contents& c) { c["5"] = "90"; }}};
}

using session_table = hash_table<u64, session>;

subject table_subject() {
    const auto table_operation = [](const char* name, auto operate, auto apply) {
        return operation{name, [operate](const std::string& uri) { return with(session_table::attach(uri), operate); },
                         apply};
    };
    return {"hash_table",
            [](const std::string& uri) {
                auto table = session_table::create(uri, {.capacity = 50, .seed = 7});
                contents made;
                for (u64 n = 0; n < 25; ++n) {
                    require(static_cast<bool>(table.try_insert(n, session_of(n))), "an insert");
                    made[name_of(n)] = name_of(n);
                }
                return made;
            },
            [](const std::string& uri) {
                const auto table = hash_table_reader<u64, session>::attach(uri);
                contents found;
                for (const auto& entry : table) {
                    const auto by_key = table.find(entry.key);
                    found[name_of(entry.key)] = by_key ? text_of_session(*by_key) : "not found by its key";
                }
                if (!table.verify([](const hash_table_finding&) { return true; }).intact()) found["damage"] = "table";
                return found;
            },
            {table_operation(
                 "insert", [](session_table& t) { (void)t.try_insert(100, session_of(100)); },
                 [](contents& c) { c["100"] = "100"; }),
             table_operation(
                 "update", [](session_table& t) { (void)t.update(8, session_of(200)); },
                 [](contents& c) { c["8"] = "200"; }),
             table_operation(
                 "erase", [](session_table& t) { (void)t.erase(9); }, [](contents& c) { c.erase("9"); })},
            table_operation(
                "insert_or_assign", [](session_table& t) { (void)t.insert_or_assign(8, session_of(300)); },
                [](contents& c) { c["8"] = "300"; })};
}

using text_map = golden::text_map;

subject map_subject() {
    const auto map_operation = [](const char* name, auto operate, auto apply) {
        return operation{name,
                         [operate](const std::string& uri) {
                             return with(text_map::attach(uri, {}, golden::services_at(golden::made_at)), operate);
                         },
                         apply};
    };
    return {"hash_map",
            [](const std::string& uri) {
                hash_map_options options;
                options.capacity = 30;
                options.bytes = 4000;
                options.unit_bytes = 64;
                options.seed = 7;
                text_map map = text_map::create(uri, options, golden::services_at(golden::made_at));
                contents made;
                for (u64 n = 1; n <= 15; ++n) {
                    require(static_cast<bool>(map.insert(golden::key_of(n), golden::value_of(n))), "an insert");
                    made[golden::key_of(n)] = golden::value_of(n);
                }
                return made;
            },
            [](const std::string& uri) {
                const auto map = golden::text_map_reader::attach(uri, {}, golden::services_at(golden::made_at).clock);
                contents found;
                u64 cursor = 0, met = 0;
                std::string value;
                for (hash_map_entry entry; map.next_entry(cursor, entry) == outcome::ok && met < 100; ++met) {
                    const std::string key = text_of_bytes(entry.key);
                    const bool by_key = map.find(key, value) && value == text_of_bytes(entry.value);
                    found[key] = by_key ? value : "not found by its key";
                }
                const auto usage = map.usage();
                if (usage.status != outcome::ok || usage.units_used > usage.units) found["damage"] = "counts";
                if (!map.verify([](const hash_map_finding&) { return true; }).intact()) found["damage"] = "map";
                return found;
            },
            {map_operation(
                 "insert", [](text_map& m) { (void)m.set("new", std::string(70, 'v')); },  // of two units
                 [](contents& c) { c["new"] = std::string(70, 'v'); }),
             map_operation(
                 "update", [](text_map& m) { (void)m.set(golden::key_of(6), golden::value_of(2)); },
                 [](contents& c) { c[golden::key_of(6)] = golden::value_of(2); }),
             map_operation(
                 "erase", [](text_map& m) { (void)m.erase(golden::key_of(12)); },
                 [](contents& c) { c.erase(golden::key_of(12)); })},
            map_operation(
                "set", [](text_map& m) { (void)m.set(golden::key_of(6), "next"); },
                [](contents& c) { c[golden::key_of(6)] = "next"; })};
}

// Values differ, so that each stands for its handle; the first one's handle is known before.
subject block_subject() {
    const auto first_of = [](block_store& store) {
        u64 cursor = 0;
        return store.next_value(cursor).value_or(0);
    };
    const auto store_operation = [](const char* name, auto operate, auto apply, bool both = false) {
        return operation{name, [operate](const std::string& uri) { return with(block_store::attach(uri), operate); },
                         apply, both};
    };
    const auto value = [](u64 n) { return name_of(n) + " " + std::string(n * 17 % 200, 'x'); };
    return {"block_store",
            [value](const std::string& uri) {
                block_store store = block_store::create(uri, {.bytes = 3000, .unit_bytes = 64});
                contents made;
                for (u64 n = 1; n <= 8; ++n) {
                    require(static_cast<bool>(store.allocate(bytes_of(value(n)))), "a value");
                    made[value(n)] = "";
                }
                return made;
            },
            [](const std::string& uri) {
                const auto reader = block_store_reader::attach(uri);
                contents found;
                u64 cursor = 0;
                std::vector<std::byte> bytes;
                while (const auto handle = reader.next_value(cursor)) {
                    const bool whole = static_cast<bool>(reader.read(*handle, bytes));
                    found[whole ? text_of_bytes(bytes) : "unreadable"] = "";
                }
                const auto usage = reader.usage();
                if (usage.units_used > usage.units) found["damage"] = "counts";
                if (!reader.verify([](const block_finding&) { return true; }).intact()) found["damage"] = "store";
                return found;
            },
            {store_operation(
                 "allocate", [value](block_store& s) { (void)s.allocate(bytes_of(value(20))); },
                 [value](contents& c) { c[value(20)] = ""; }),
             store_operation(
                 "free", [first_of](block_store& s) { (void)s.free(first_of(s)); },
                 [value](contents& c) { c.erase(value(1)); }),
             store_operation(
                 "replace", [first_of, value](block_store& s) { (void)s.replace(first_of(s), bytes_of(value(21))); },
                 [value](contents& c) { c.erase(value(1)), c[value(21)] = ""; }, true)},
            store_operation(
                "allocate", [value](block_store& s) { (void)s.allocate(bytes_of(value(30))); },
                [value](contents& c) { c[value(30)] = ""; })};
}

// ---- rings -------------------------------------------------------------------------------------------------------

// Messages by number: one that a killed consumer had not released comes again under the number it had.
subject queue_subject() {
    const auto by_producer = [](const char* name, auto operate, auto apply) {
        return operation{name, [operate](const std::string& uri) { return with(queue_producer::attach(uri), operate); },
                         apply};
    };
    const auto put = [](queue_producer& p, u64 from, u64 to) {
        for (u64 n = from; n < to; ++n) (void)p.try_push(bytes_of(text_of(n)));
    };
    return {"queue",
            [put](const std::string& uri) {
                queue_options options;
                options.capacity_bytes = 512;
                queue_producer producer = queue_producer::create(uri, options);
                queue_consumer consumer = queue_consumer::attach(uri);
                put(producer, 0, 6);
                for (int i = 0; i < 3; ++i) require(consumer.front() && consumer.pop(), "a pop");
                put(producer, 6, 8);
                contents made;
                for (u64 n = 3; n < 8; ++n) made[name_of(n)] = text_of(n);
                return made;
            },
            [](const std::string& uri) {
                contents found;
                const auto seen = queue_observer::attach(uri).verify();
                queue_consumer consumer = queue_consumer::attach(uri);
                while (const queue_message m = consumer.front()) {
                    found[name_of(consumer.stats().messages)] = text_of_bytes(m.bytes);
                    require(consumer.pop(), "a pop");
                }
                add_damage(found, seen.found);
                return found;
            },
            {by_producer(
                 "push", [put](queue_producer& p) { put(p, 8, 9); }, [](contents& c) { c["8"] = text_of(8); }),
             by_producer(
                 "batch",
                 [put](queue_producer& p) {
                     (void)p.begin_batch();
                     put(p, 8, 10);
                     (void)p.commit_batch();
                 },
                 [](contents& c) { c["8"] = text_of(8), c["9"] = text_of(9); }),
             {"pop",
              [](const std::string& uri) {
                  return with(queue_consumer::attach(uri), [](queue_consumer& c) { (void)c.front(), (void)c.pop(); });
              },
              [](contents& c) { c.erase("3"); }}},
            {"push",
             [](const std::string& uri) {
                 return with(queue_producer::attach(uri), [](queue_producer& p) {
                     (void)p.try_push(bytes_of("number " + name_of(p.stats().messages)));
                 });
             },
             {}},
            true};
}

subject record_queue_subject() {
    using producer_of = queue<session>::producer;
    using consumer_of = queue<session>::consumer;
    return {"queue_of_records",
            [](const std::string& uri) {
                auto producer = producer_of::create(uri, {.capacity = 8});
                auto consumer = consumer_of::attach(uri);
                contents made;
                for (u64 n = 0; n < 7; ++n) {
                    require(static_cast<bool>(producer.try_push(session_of(n))), "a push");
                    if (n < 3) require(consumer.front() && consumer.pop(), "a pop");
                    if (n >= 3) made[name_of(n)] = name_of(n);
                }
                return made;
            },
            [](const std::string& uri) {
                contents found;
                const auto seen = queue_observer::attach(uri).verify();
                auto consumer = consumer_of::attach(uri);
                while (const auto e = consumer.front()) {
                    found[name_of(consumer.stats().messages)] = text_of_session(e.value);
                    require(consumer.pop(), "a pop");
                }
                add_damage(found, seen.found);
                return found;
            },
            {{"push",
              [](const std::string& uri) {
                  return with(producer_of::attach(uri), [](producer_of& p) {
                      const session three[] = {session_of(7), session_of(8), session_of(9)};  // round the end
                      (void)p.try_push(three);
                  });
              },
              [](contents& c) {
                  for (const char* n : {"7", "8", "9"}) c[n] = n;
              }},
             {"pop",
              [](const std::string& uri) {
                  return with(consumer_of::attach(uri), [](consumer_of& c) { (void)c.front(), (void)c.pop(); });
              },
              [](contents& c) { c.erase("3"); }}},
            {"push",
             [](const std::string& uri) {
                 return with(producer_of::attach(uri),
                             [](producer_of& p) { (void)p.try_push(session_of(p.stats().messages)); });
             },
             {}},
            true};
}

subject broadcast_subject() {
    const auto by_writer = [](const char* name, auto operate, auto apply) {
        return operation{
            name, [operate](const std::string& uri) { return with(broadcast_writer::attach(uri), operate); }, apply};
    };
    return {"broadcast",
            [](const std::string& uri) {
                broadcast_options options;
                options.capacity_bytes = 2048;
                broadcast_writer writer = broadcast_writer::create(uri, options);
                contents made;
                for (u64 n = 0; n < 8; ++n) {
                    require(static_cast<bool>(writer.publish(bytes_of(text_of(n)))), "a message");
                    made[name_of(n + 1)] = text_of(n);
                }
                return made;
            },
            [](const std::string& uri) {
                broadcast_reader reader = broadcast_reader::attach(uri);
                contents found;
                std::vector<std::byte> bytes;
                while (const auto got = reader.read(bytes)) found[name_of(got.sequence)] = text_of_bytes(bytes);
                add_damage(found, reader.verify());
                return found;
            },
            {by_writer(
                 "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("one")); },
                 [](contents& c) { c["9"] = "one"; }),
             by_writer(
                 "batch",
                 [](broadcast_writer& w) {
                     (void)w.append(bytes_of("one"));
                     (void)w.publish(bytes_of("two"));
                 },
                 [](contents& c) { c["9"] = "one", c["10"] = "two"; })},
            by_writer(
                "publish", [](broadcast_writer& w) { (void)w.publish(bytes_of("next")); },
                [](contents& c) { c[name_of(c.size() + 1)] = "next"; })};
}

// ---- whole objects -----------------------------------------------------------------------------------------------

subject snapshot_subject() {
    const auto publish = [](u64 n) {
        return operation{"publish",
                         [n](const std::string& uri) {
                             return with(snapshot_writer::attach(uri), [n](snapshot_writer& w) {
                                 (void)w.publish(bytes_of(std::string(30 * n, 'a')));
                             });
                         },
                         [n](contents& c) { c["object"] = std::string(30 * n, 'a'); }};
    };
    return {"snapshot",
            [](const std::string& uri) {
                snapshot_options options;
                options.slot_bytes = 300;
                options.slots = 3;
                snapshot_writer writer = snapshot_writer::create(uri, options);
                for (u64 n = 1; n < 5; ++n)
                    require(static_cast<bool>(writer.publish(bytes_of(std::string(n, 'b')))), "a publish");
                return contents{{"object", "bbbb"}};
            },
            [](const std::string& uri) {
                snapshot_reader reader = snapshot_reader::attach(uri);
                std::vector<std::byte> bytes;
                contents found;
                if (reader.read(bytes)) found["object"] = text_of_bytes(bytes);
                add_damage(found, reader.verify());
                return found;
            },
            {publish(4)},
            publish(7)};
}

subject index_subject() {
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
                                         [builder](auto& publisher) { (void)publisher.publish(*builder); });
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
            publish(5)};
}

// ---- the deaths --------------------------------------------------------------------------------------------------

/// A file that others write, as it is now.
class watched_file {
 public:
    explicit watched_file(const std::string& path) {
        const rig::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        struct stat about{};
        if (file.get() < 0 || ::fstat(file.get(), &about) != 0) return;
        size_ = static_cast<std::size_t>(about.st_size);
        if (size_ == 0) return;
        void* const at = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
        if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), path);
        data_ = static_cast<const std::byte*>(at);
    }
    watched_file(const watched_file&) = delete;
    watched_file& operator=(const watched_file&) = delete;
    ~watched_file() {
        if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
    }
    void add_to(std::vector<std::byte>& image) const { image.insert(image.end(), data_, data_ + size_); }

 private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// A container in a segment of files, made anew for each death, byte by byte the same.
class death_bench {
 public:
    explicit death_bench(const subject& of) : subject_(of) {}

    image_kill_report kill_at_every_image_of(const operation& what) {
        return kill_at_every_image([&] { prepare(); }, [&] { return what.start(uri_); }, [&] { return image(); },
                                   [&](u64) { return survives(what); });
    }

 private:
    void prepare() {
        data_.reset(), peers_.reset();
        then_.emplace(golden_moment_ns, golden_seed);
        const std::string path = place_.file("s" + std::to_string(++made_));
        uri_ = "file:" + path;
        before_ = subject_.make(uri_);
        data_.emplace(path), peers_.emplace(path + ".peers");
    }
    [[nodiscard]] std::vector<std::byte> image() const {
        std::vector<std::byte> bytes;
        data_->add_to(bytes);
        forget_owner(bytes);
        peers_->add_to(bytes);
        return bytes;
    }

    std::string survives(const operation& what) {
        contents after = before_, both = before_;
        what.apply(after);
        both.insert(after.begin(), after.end());

        const contents seen = subject_.read(uri_);
        const bool between = what.both_between && seen == both;
        if (seen != before_ && seen != after && !between) return "a reader finds " + text_of_contents(seen);
        if (subject_.reading_takes) return goes_on_after_taking();
        const auto next = subject_.next.start(uri_);  // recovers
        contents now = subject_.read(uri_);
        if (now != after && (now != before_ || seen != before_)) return "recovered: " + text_of_contents(now);
        next();
        subject_.next.apply(now);
        const contents found = subject_.read(uri_);
        return found == now ? "" : "after the next operation: " + text_of_contents(found);
    }
    // All messages were taken by the reader before; the next one comes with the next number.
    std::string goes_on_after_taking() {
        subject_.next.start(uri_)();
        const contents found = subject_.read(uri_);
        if (found.size() != 1 || found.contains("damage")) return "the next message: " + text_of_contents(found);
        const auto& [number, text] = *found.begin();
        return text == number || text == "number " + number ? "" : "the next message: " + text_of_contents(found);
    }
    static std::string text_of_contents(const contents& of) {
        std::string text;
        for (const auto& [key, value] : of) text.append(key).append(": ").append(value).append("; ");
        return text;
    }

    const subject& subject_;
    unique_directory place_{"image-kill"};
    scoped_environment registry_{"HOLDFAST_REGISTRY", place_.file("registry")};
    std::optional<still_world> then_;
    u64 made_ = 0;
    std::string uri_;
    contents before_;
    std::optional<watched_file> data_, peers_;
};

class ImageKill : public ::testing::TestWithParam<subject> {};

TEST_P(ImageKill, AtEveryImageTheSegmentIsBeforeOrAfterAndGoesOn) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    u64 kills = 0, steps = 0;
    for (const operation& what : GetParam().operations) {
        const image_kill_report report = death_bench(GetParam()).kill_at_every_image_of(what);
        EXPECT_TRUE(report.passed()) << what.name << ": " << report.failure;
        EXPECT_GT(report.images, 1U) << what.name << ": its stores were not seen";
        kills += report.kills, steps += report.steps;
        std::printf("%s, %s: %llu images and kills, %.1f s\n", GetParam().name, what.name,
                    static_cast<unsigned long long>(report.kills), report.seconds);
    }
    RecordProperty("kills", std::to_string(kills));
    RecordProperty("steps", std::to_string(steps));
}

INSTANTIATE_TEST_SUITE_P(Containers, ImageKill,
                         ::testing::Values(array_subject(), table_subject(), map_subject(), block_subject(),
                                           queue_subject(), record_queue_subject(), broadcast_subject(),
                                           snapshot_subject(), index_subject()),
                         [](const auto& s) { return std::string(s.param.name); });

// The test's own teeth: a writer that stores into the array past the library is found at the first image.
TEST(ImageKillTeeth, AStoreThatBypassesTheContainerIsFound) {
    if (!can_trace() || sanitized) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    const subject of = array_subject();
    const operation scribble{"scribble",
                             [](const std::string& uri) {
                                 return with(segment::attach(uri, access::read_write), [](segment& s) {
                                     const session other = session_of(70), was = session_of(3);
                                     const auto* from = reinterpret_cast<const std::byte*>(&was);
                                     const auto body = s.body();
                                     const auto at = std::search(body.begin(), body.end(), from, from + sizeof was);
                                     if (at != body.end()) std::memcpy(&*at, &other, sizeof other);
                                 });
                             },
                             [](contents& c) { c["3"] = "70"; }};
    const image_kill_report report = death_bench(of).kill_at_every_image_of(scribble);
    EXPECT_NE(report.failure.find("killed at image 1: a reader finds"), std::string::npos) << report.failure;
}

}  // namespace
