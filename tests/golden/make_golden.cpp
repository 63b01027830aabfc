// SPDX-License-Identifier: Apache-2.0
// make_golden.cpp - writes the golden images that are missing in a folder, with what is read out of them.
//
//   ninja -C build/release golden_make && build/release/tests/golden/golden_make tests/golden/v1
//
// An image that is there stays as it is: images are only added to, so that what was ever written stays readable.
//   NAME.image, NAME.peers   the segment and its companion (image_file.hpp)
//   NAME.txt                 what its readers say, and what they say after its next writer
// NAME_killed is a segment whose writer was killed with SIGKILL in the middle of an operation that its successor
// finishes.
#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "golden/contents.hpp"
#include "golden/image_file.hpp"
#include "golden/subjects.hpp"
#include "support/kill_rig.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

struct killed_subject {
    const char* of;                        // golden_subject
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
void push_for_ever(const std::string& uri) {
    queue_producer producer = queue_producer::attach(uri);
    queue_consumer consumer = queue_consumer::attach(uri);
    for (std::uint64_t n = 0;; n += 2) {
        while (consumer.front()) consumer.pop();
        golden::push_texts(producer, n, n + 2);
    }
}
bool push_is_unsettled(const std::string& uri) { return queue_observer::attach(uri).verify().unsettled; }

constexpr killed_subject killed_subjects[] = {
    {"hash_table", update_for_ever, update_is_replayed},
    {"array", store_for_ever, store_is_finished},
    {"block_store", replace_for_ever, replacement_is_finished},
    {"queue", push_for_ever, push_is_unsettled},
};

golden_image made_now(const golden_subject& subject) {
    const unique_directory place("golden");
    const scoped_environment registry("HOLDFAST_REGISTRY", place.file("registry"));
    subject.make(place.file_uri("s"));
    return golden_image::of_file_segment(place.file("s"));
}

std::optional<golden_image> killed_in_work(const killed_subject& killed, const golden_image& start) {
    constexpr std::uint64_t rounds = 20'000;
    for (std::uint64_t round = 0; round < rounds; ++round) {
        const unique_directory place("golden");
        const scoped_environment registry("HOLDFAST_REGISTRY", place.file("registry"));
        write_file(place.file("s"), start.data);
        if (!start.peers.empty()) write_file(place.file("s.peers"), start.peers);
        kill_progress progress;
        progress.reset(random_at(golden_seed, 1, round) % 300'000);
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

bool is_there(const std::string& folder, const std::string& name) {
    return ::access((folder + "/" + name + ".image").c_str(), F_OK) == 0;
}

void make_missing(const std::string& folder) {
    for (const golden_subject& subject : golden_subjects) {
        if (is_there(folder, subject.name)) continue;
        const still_world then(golden_moment_ns, golden_seed);
        keep(folder, subject.name, subject, made_now(subject));
    }
    for (const killed_subject& killed : killed_subjects) {
        const golden_subject& subject = *std::find_if(std::begin(golden_subjects), std::end(golden_subjects),
                                                      [&](const auto& s) { return s.name == std::string(killed.of); });
        const std::string name = std::string(killed.of) + "_killed";
        if (is_there(folder, name)) continue;
        const auto left = killed_in_work(killed, golden_image::load(folder + "/" + killed.of));
        if (!left) throw std::runtime_error("no kill met " + name + " in an operation");
        const still_world then(golden_moment_ns, golden_seed);
        keep(folder, name, subject, *left);
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
