// SPDX-License-Identifier: Apache-2.0
// make_golden.cpp - writes the golden images that are missing in a folder, with what is read out of them.
//
//   ninja -C build/release golden_make && build/release/tests/golden/golden_make tests/golden/v1
//
// An image that is there stays as it is: images are only added to, so that what was ever written stays readable.
//   NAME.image, NAME.peers   the segment and its companion (image_file.hpp)
//   NAME.growing             the table that it was growing into
//   NAME.txt                 what its readers say, and what they say after its next writer
//   NAME.saved               what `holdfast save` makes of it
//   NAME.restored.txt        what the readers of a segment say that was restored from that
// NAME_killed is a segment whose writer was killed with SIGKILL in the middle of an operation that its successor
// finishes or forgets; its registered readers, where it has some, died with it. NAME_growing is a table whose writers
// were killed as it grew.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "golden/contents.hpp"
#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "support/kill_rig.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

struct killed_subject {
    const char* of;                        // golden_subject
    const char* how;                       // what follows in the image's name
    void (*work)(const std::string& uri);  // as its next writer, without end
    bool (*interesting)(const std::string& uri);
};

void update_for_ever(const std::string& uri) {
    auto table = hash_table<std::uint64_t, golden::session>::attach(uri);
    for (std::uint64_t n = 0;; ++n) (void)table.update(n % 50, golden::session_of(n));
}
bool update_is_replayed(const std::string& uri) {
    return hash_table<std::uint64_t, golden::session>::attach(uri).recovery().update_replayed;
}
void store_for_ever(const std::string& uri) {
    auto writer = array<golden::session>::attach(uri);
    for (std::uint64_t n = 0;; ++n) {
        golden::session some[6];
        for (golden::session& s : some) s = golden::session_of(n);
        writer.store_range(n % 39, some);
    }
}
void change_keys_for_ever(const std::string& uri) {
    golden::small_sessions table = golden::small_sessions::attach(uri);
    for (std::uint32_t n = 0;; ++n) {
        (void)table.insert_or_assign(800 + n % 3, golden::session_of(n));
        (void)table.erase(800 + n % 3);
    }
}
bool keys_are_being_changed(const std::string& uri) {
    return golden::small_sessions::attach(uri).recovery().change_ended;
}
bool store_is_finished(const std::string& uri) { return array<golden::session>::attach(uri).recovery().store_finished; }
void replace_for_ever(const std::string& uri) {
    block_store store = block_store::attach(uri);
    for (std::uint64_t n = 0;; ++n) {
        std::uint64_t cursor = n % 60;
        if (const auto handle = store.next_value(cursor))
            (void)store.replace(*handle, golden::bytes_of(golden::text_of(n % 50)));  // short: never full
    }
}
bool replacement_is_finished(const std::string& uri) {
    return block_store::attach(uri).recovery().replacement_finished;
}
// Two writers die at once: one in a replacement, the other with a claim.
void replace_beside_a_claim(const std::string& uri) {
    golden::many_blocks first = golden::many_blocks::attach(uri), second = golden::many_blocks::attach(uri);
    for (std::uint64_t n = 0;; ++n) {
        (void)second.prepare(n % 300);
        std::uint64_t cursor = n % 60;
        if (const auto handle = first.next_value(cursor))
            (void)first.replace(*handle, golden::bytes_of(golden::text_of(n % 50)));
    }
}
bool both_are_finished(const std::string& uri) {
    const block_store_recovery done = golden::many_blocks::attach(uri).recovery();
    return done.replacement_finished && done.claims_dropped;
}
// One of many writers dies with the stripe held.
void update_as_one_of_many(const std::string& uri) {
    auto table = golden::many_sessions::attach(uri);
    for (std::uint64_t n = 0;; ++n) (void)table.update(n % 50, golden::session_of(n));
}
bool update_of_many_is_replayed(const std::string& uri) {
    const hash_table_recovery done = golden::many_sessions::attach(uri).recovery();
    return done.update_replayed && done.stripes_given_back;
}
void set_as_one_of_many(const std::string& uri) {
    golden::many_texts map = golden::many_texts::attach(uri);
    for (std::uint64_t n = 0;; ++n) {
        (void)map.set(golden::key_of(n % 40), golden::bytes_of(golden::text_of(n % 50)));
        (void)map.erase(golden::key_of(23 + n * 7 % 17));
    }
}
bool set_of_many_is_finished(const std::string& uri) {
    const hash_map_recovery done = golden::many_texts::attach(uri).recovery();
    return done.operation_finished && done.table.stripes_given_back;
}
void push_for_ever(const std::string& uri) {
    queue_producer producer = queue_producer::attach(uri);
    queue_consumer consumer = queue_consumer::attach(uri);
    for (std::uint64_t n = 0;; n += 2) {
        while (consumer.front()) consumer.pop();
        golden::push_texts(producer, n, n + 2);
    }
}
bool push_is_unsettled(const std::string& uri) { return queue_observer::attach(uri).verify().unsettled; }

void push_records_for_ever(const std::string& uri) {
    auto producer = queue<golden::session>::producer::attach(uri);
    auto consumer = queue<golden::session>::consumer::attach(uri);
    for (;;) {
        // Two of the eight remain.
        while (producer.stats().position - consumer.stats().position > 2 && consumer.front()) consumer.pop();
        golden::session some[6];
        for (std::uint64_t i = 0; i < 6; ++i) some[i] = golden::session_of(producer.stats().position + i);
        (void)producer.try_push(some);
    }
}
// Elements lie in the ring that were not committed: nobody may ever see them.
bool records_are_uncommitted(const std::string& uri) {
    const queue_observer observer = queue_observer::attach(uri);
    const golden::session next = golden::session_of(observer.producer().position);
    const auto wanted = std::as_bytes(std::span(&next, 1));
    const auto body = observer.segment().bytes();
    return std::search(body.begin(), body.end(), wanted.begin(), wanted.end()) != body.end();
}
// A reader that is registered under the policy `block` dies with the writer, most of the ring behind it.
void publish_to_a_slow_reader(const std::string& uri) {
    broadcast_writer writer = broadcast_writer::attach(uri);
    broadcast_reliable_reader reader = broadcast_reliable_reader::attach(uri);
    std::vector<std::byte> out;
    for (std::uint64_t n = 0;; ++n)
        if (!writer.publish(golden::bytes_of(golden::text_of(n)), 3))
            while (reader.read(out)) continue;
}
bool the_dead_reader_is_in_the_way(const std::string& uri) {
    const image_bytes before = read_file(memory::uri::parse(uri).name);
    const segment ring = segment::attach(uri, access::read_only);
    const auto readers = registered_readers_of(ring);
    const auto geometry = holdfast::detail::broadcast_geometry_of(ring);
    if (readers.empty() || readers.front().behind_bytes + 5 * 64 < geometry.capacity) return false;
    // And the index lacks what the last commit would have entered: its successor does.
    (void)broadcast_writer::attach(uri);
    const image_bytes after = read_file(memory::uri::parse(uri).name);
    const auto index = static_cast<std::ptrdiff_t>(header_bytes + geometry.entry_offset(0));
    return !std::equal(before.begin() + index, before.end(), after.begin() + index);
}
// Two registered readers die with the writer, each on a version of its own.
void publish_to_pinned_readers(const std::string& uri) {
    snapshot_writer writer = snapshot_writer::attach(uri);
    snapshot_pinned_reader one = writer.make_pinned_reader(), other = writer.make_pinned_reader();
    for (std::uint64_t n = 0;; ++n) {
        (void)(n % 2 == 0 ? one : other).pin();
        (void)writer.publish(golden::bytes_of(golden::text_of(n)));
    }
}
[[nodiscard]] std::uint64_t slots_that_hold(const snapshot_reader& reader, std::uint64_t version) {
    std::uint64_t found = 0;
    for (std::uint32_t i = 0; i < reader.core().geometry().slots; ++i)
        found += reader.core().slot(i).version.load() == version ? 1 : 0;
    return found;
}
// Filled to its last byte and not yet current; both old versions are held.
bool version_is_not_current(const std::string& uri) {
    const snapshot_reader reader = snapshot_reader::attach(uri);
    const peers table = peers::open(reader.segment());
    const auto one = holdfast::detail::hazard_in(table, 0).load(), other = holdfast::detail::hazard_in(table, 1).load();
    return slots_that_hold(reader, reader.version() + 1) == 1 && one != 0 && other != 0 && one != other;
}
void publish_indexes_for_ever(const std::string& uri) {
    golden::span_index_publisher publisher = golden::span_index_publisher::attach(uri);
    for (std::uint32_t n = 1;; ++n) {
        golden::span_index_builder builder;
        golden::fill_index(builder, 10 + n % 30, n);
        (void)publisher.publish(builder);
    }
}
bool index_is_half_written(const std::string& uri) {
    return slots_that_hold(snapshot_reader::attach(uri), 0) == 1;  // of slots that have all been full
}
void set_for_ever(const std::string& uri) {
    golden::text_map map = golden::text_map::attach(uri, {}, golden::services_at(golden::made_at));
    for (std::uint64_t n = 0;; ++n) {
        (void)map.set(golden::key_of(n % 40), golden::bytes_of(golden::text_of(n % 50)));
        (void)map.erase(golden::key_of(23 + n * 7 % 17));  // others than the next writer changes
    }
}
bool map_is_open(const std::string& uri) {
    return golden::text_map_reader::attach(uri, {}, golden::services_at(golden::made_at).clock)
        .verify([](const hash_map_finding&) { return true; })
        .operation_open;
}
// Two registered readers die with the writer, each with notes of what it had read of late: of what would go soon.
void set_beside_registered_readers(const std::string& uri) {
    golden::text_map map = golden::text_map::attach(uri, {}, golden::services_at(golden::made_at));
    const auto one = golden::registered_text_reader::attach(uri), other = golden::registered_text_reader::attach(uri);
    std::string value;
    constexpr std::uint64_t keys = 69;
    for (std::uint64_t n = 0;; ++n) {
        (void)one.find(golden::key_of((n + keys - 14) % keys), value);
        (void)other.find(golden::key_of((n + keys - 18) % keys), value);
        (void)map.set(golden::key_of(n % keys), golden::bytes_of(golden::value_of(n % 50)));
    }
}
// In the middle of an operation, and the next writer evicts something else for what the dead readers had noted.
bool map_is_open_and_notes_matter(const std::string& uri) {
    golden_image image = golden_image::of_file_segment(memory::uri::parse(uri).name);
    if (!map_is_open(uri)) return false;
    const auto next_writer_of = [&] {
        const still_world then(golden_moment_ns, golden_seed);
        const placed_image placed("file", image);
        golden::hash_map_registered_goes_on(placed.uri());
        return golden::describe_hash_map_registered(placed.uri());
    };
    const std::string with_notes = next_writer_of();
    std::fill(image.peers.begin() + header_bytes, image.peers.end(), std::byte{0});
    return next_writer_of() != with_notes;
}

// Between the mark of the old table and the rename.
void grow_for_ever(const std::string& uri) {
    auto table = growing_hash_table<std::uint64_t, golden::session>::attach(uri);
    for (;;) {
        table.grow(table.capacity() < 100 ? 120 : 60);
        while (table.advance(1000)) continue;
    }
}
bool growth_is_about_to_end(const std::string& uri) {
    return path_exists(holdfast::detail::places_of(memory::uri::parse(uri)).growing()) &&
           segment::attach(uri, access::read_only).moved();
}
// Both write while one leads; what the other dies in is done in both tables.
void grow_as_one_of_many(const std::string& uri) {
    auto first = golden::many_sessions::attach(uri), second = golden::many_sessions::attach(uri);
    for (std::uint64_t n = 0;; ++n) {
        if (!first.growing()) first.grow(first.capacity() < 900 ? 1200 : 600);
        (void)first.update(n % 50, golden::session_of(n));
        (void)second.update((n + 7) % 50, golden::session_of(n));
    }
}
bool growth_is_under_way(const std::string& uri) {
    const std::string next = holdfast::detail::places_of(memory::uri::parse(uri)).growing();
    constexpr std::size_t packed_bytes_empty = 400;  // and 32 or more for each entry
    return path_exists(next) && pack_image(read_file(next)).size() > packed_bytes_empty + std::size_t{32} * 20 &&
           !segment::attach(uri, access::read_only).moved() && update_of_many_is_replayed(uri);
}

constexpr killed_subject killed_subjects[] = {
    {"hash_table", "_killed", update_for_ever, update_is_replayed},
    {"array", "_killed", store_for_ever, store_is_finished},
    {"block_store", "_killed", replace_for_ever, replacement_is_finished},
    {"block_store_many", "_killed", replace_beside_a_claim, both_are_finished},
    {"queue", "_killed", push_for_ever, push_is_unsettled},
    {"queue_records", "_killed", push_records_for_ever, records_are_uncommitted},
    {"broadcast", "_killed", publish_to_a_slow_reader, the_dead_reader_is_in_the_way},
    {"snapshot", "_killed", publish_to_pinned_readers, version_is_not_current},
    {"published_index", "_killed", publish_indexes_for_ever, index_is_half_written},
    {"hash_map", "_killed", set_for_ever, map_is_open},
    {"hash_table_many", "_killed", update_as_one_of_many, update_of_many_is_replayed},
    {"hash_map_many", "_killed", set_as_one_of_many, set_of_many_is_finished},
    {"small_table", "_killed", change_keys_for_ever, keys_are_being_changed},
    {"hash_map_registered", "_killed", set_beside_registered_readers, map_is_open_and_notes_matter},
    {"hash_table", "_growing", grow_for_ever, growth_is_about_to_end},
    {"hash_table_many", "_growing", grow_as_one_of_many, growth_is_under_way},
};

golden_image made_now(const golden_subject& subject) {
    const unique_directory place("golden");
    const scoped_environment registry("HOLDFAST_REGISTRY", place.file("registry"));
    subject.make(place.file_uri("s"));
    return golden_image::of_file_segment(place.file("s"));
}

std::optional<golden_image> killed_in_work(const killed_subject& killed, const golden_image& start) {
    constexpr std::uint64_t rounds = 20'000, delay_ns_max = 6'000'000;  // it may attach for half of that
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const unique_directory place("golden");
        const scoped_environment registry("HOLDFAST_REGISTRY", place.file("registry"));
        start.lay_at(place.file("s"));
        kill_progress progress;
        progress.reset(random_at(golden_seed, 1, round) % delay_ns_max);
        child_process child([&] {
            progress.ready();
            killed.work(place.file_uri("s"));
        });
        if (!child.wait().signalled) throw std::runtime_error("the writer ended: " + child.wait().text());
        golden_image left = golden_image::of_file_segment(place.file("s"));
        if (killed.interesting(place.file_uri("s"))) return left;
    }
    return std::nullopt;
}

void keep(const std::string& folder, const std::string& name, const golden_subject& subject,
          const golden_image& image) {
    const std::string stem = folder + "/" + name;
    image.store(stem);
    const std::string text = contents_of(subject, image, "file");
    write_file(stem + ".txt", std::as_bytes(std::span(text)));
    std::printf("%s: %zu bytes\n", name.c_str(), image.data.size());
}

void keep_saved(const std::string& folder, const golden_subject& subject) {
    const std::string stem = folder + "/" + subject.name;
    const std::string saved = saved_of(golden_image::load(stem));
    write_file(stem + ".saved", std::as_bytes(std::span(saved)));
    const std::string text = restored_contents_of(subject, stem + ".saved");
    write_file(stem + ".restored.txt", std::as_bytes(std::span(text)));
    std::printf("%s: saved in %zu bytes\n", subject.name, saved.size());
}

void make_missing(const std::string& folder) {
    for (const golden_subject& subject : golden_subjects) {
        if (path_exists(folder + "/" + subject.name + ".image")) continue;
        const still_world then(golden_moment_ns, golden_seed);
        keep(folder, subject.name, subject, made_now(subject));
    }
    for (const killed_subject& killed : killed_subjects) {
        const golden_subject& subject = *std::find_if(std::begin(golden_subjects), std::end(golden_subjects),
                                                      [&](const auto& s) { return s.name == std::string(killed.of); });
        const std::string name = std::string(killed.of) + killed.how;
        if (path_exists(folder + "/" + name + ".image")) continue;
        const auto left = killed_in_work(killed, golden_image::load(folder + "/" + killed.of));
        if (!left) throw std::runtime_error("no kill met " + name + " in an operation");
        const still_world then(golden_moment_ns, golden_seed);
        keep(folder, name, subject, *left);
    }
    for (const golden_subject& subject : golden_subjects) {
        if (path_exists(folder + "/" + subject.name + ".saved")) continue;
        const still_world then(golden_moment_ns, golden_seed);
        keep_saved(folder, subject);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: golden_make FOLDER\n");
        return 2;
    }
    try {
        make_missing(argv[1]);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "golden_make: %s\n", e.what());
        return 1;
    }
    return 0;
}
