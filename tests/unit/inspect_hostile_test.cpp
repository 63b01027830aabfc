// SPDX-License-Identifier: Apache-2.0
// Attacks everything that looks into segments: flipped bits, hostile words and true checksums over lies, in every kind.
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/array.hpp"
#include "holdfast/block_store.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table.hpp"
#include "holdfast/memory/truncation_guard.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/metrics/latency_histogram.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "inspect/activity.hpp"
#include "inspect/attach.hpp"
#include "inspect/description.hpp"
#include "inspect/dumper.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/loader.hpp"
#include "inspect/map_reader.hpp"
#include "inspect/metrics_reader.hpp"
#include "inspect/object_reader.hpp"
#include "inspect/processes.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "support/scale.hpp"
#include "support/seed.hpp"
#include "support/unique_name.hpp"

namespace holdfast::inspect {
namespace {

struct point {
    std::int32_t x, y;
};

/// A file with a line for each of `rows` records.
class input_text {
 public:
    explicit input_text(std::uint64_t rows) : folder_("inspect") {
        std::string text = "low:u32:key,high:u32:end,name:char[6]\n";
        for (std::uint64_t i = 0; i < rows; ++i)
            text += std::to_string(i * 10) + "," + std::to_string(i * 10 + 8) + ",n" + std::to_string(i) + "\n";
        FILE* const file = std::fopen(path().c_str(), "we");
        std::fwrite(text.data(), 1, text.size(), file);
        std::fclose(file);
    }
    [[nodiscard]] std::string path() const { return folder_.file("rows.csv"); }

 private:
    test::unique_directory folder_;
};

void make_loaded(const std::string& uri, load_target into) {
    const input_text rows(60);
    load_options options;
    options.into = into;
    options.capacity = 64;
    options.pinned_readers = into == load_target::snapshot ? 2 : 0;
    const load_report done = load(uri, rows.path(), options);
    ASSERT_EQ(done.records, 60U);
}

void make_record(const std::string& uri) {
    auto writer = snapshot<point>::create(uri);
    for (int i = 0; i < 5; ++i) writer.publish({i, -i});
}

void make_ring(const std::string& uri) {
    broadcast_options options;
    options.capacity_bytes = 4096;
    options.registered_readers = 2;
    auto writer = broadcast_writer::create(uri, options);
    for (std::size_t i = 0; i < 200; ++i) writer.publish(std::vector<std::byte>(i % 100));
}

void make_queue(const std::string& uri) {
    queue_options options;
    options.capacity_bytes = 4096;
    auto producer = queue_producer::create(uri, options);
    queue_consumer consumer = producer.make_consumer();
    for (std::size_t i = 0; i < 200; ++i) {
        producer.push_back(std::vector<std::byte>(i % 100));
        if (i < 190) (void)(consumer.front() && consumer.pop());
    }
}

void make_queue_of_records(const std::string& uri) {
    auto producer = queue<point>::producer::create(uri, {.capacity = 64});
    for (int i = 0; i < 40; ++i) producer.push_back({i, -i});
}

void make_counters(const std::string& uri) {
    const counter_set set = counter_set::create(uri, {.capacity = 32});
    for (int i = 0; i < 10; ++i) set.get("family_total", "worker=\"" + std::to_string(i) + "\"").add(7);
}

void make_latencies(const std::string& uri) {
    const auto histogram = latency_histogram::create(uri, {.shards = 2});
    latency_recorder recorder = histogram.make_recorder();
    for (std::uint64_t ns = 1; ns < 5000; ns += 7) recorder.record(ns);
}

void make_blocks(const std::string& uri) {
    block_store store = block_store::create(uri, {.bytes = 4096, .value_bytes = 100});
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < 8; ++i) last = store.allocate(std::vector<std::byte>(i * 40, std::byte{7})).handle;
    ASSERT_TRUE(store.replace(last, std::vector<std::byte>(500, std::byte{9})));
}

void make_map(const std::string& uri) {
    auto map =
        hash_map<std::string_view>::create(uri, {.capacity = 20, .bytes = 4096, .unit_bytes = 64, .evict = true});
    for (std::size_t i = 0; i < 8; ++i)
        ASSERT_TRUE(map.set(std::to_string(i * 11), std::vector<std::byte>(i * 40, std::byte{7}),
                            {.ttl = std::chrono::seconds(i * 1000)}));
    ASSERT_TRUE(map.set("55", "again"));
    ASSERT_TRUE(map.erase("11"));
}

struct sample {
    double x, y;
    std::uint32_t n;
};

void make_array(const std::string& uri) {
    auto samples = array<sample>::create(uri, {.size = 100});
    for (std::uint64_t i = 0; i < 90; ++i) samples.store(i, {static_cast<double>(i), 1, 2});
    samples.store_range(20, std::vector<sample>(50, sample{7, 8, 9}));
}

struct kind_of_segment {
    const char* name;
    std::function<void(const std::string&)> make;
    bool keyed = false;  // for keyed_reader
};

const std::vector<kind_of_segment>& kinds() {
    static const std::vector<kind_of_segment> all{
        {"array", make_array, true},
        {"hash_table", [](const std::string& uri) { make_loaded(uri, load_target::hash_table); }, true},
        {"sorted_index", [](const std::string& uri) { make_loaded(uri, load_target::sorted_index); }, true},
        {"snapshot_of_index", [](const std::string& uri) { make_loaded(uri, load_target::snapshot); }},
        {"snapshot_of_record", make_record},
        {"counter_set", make_counters},
        {"latency_histogram", make_latencies},
        {"broadcast", make_ring},
        {"block_store", make_blocks},
        {"hash_map", make_map},
        {"queue", make_queue},
        {"queue_of_records", make_queue_of_records},
    };
    return all;
}

/// Runs everything that looks. Errors are answers; a crash, a sanitizer's report or a time-out is not.
void look_everywhere(const std::string& uri) {
    const auto allowed = [](const std::function<void()>& look) {
        try {
            look();
        } catch (const error&) {
        }
    };
    std::string text;
    json_out out(text);
    append_json(out, describe(uri, {.pages = false}));
    allowed([&] {
        json_out json(text);
        append_json(json, verify(uri));
    });
    allowed([&] {
        const auto reader = keyed_reader::open(uri);
        for (const char* key : {"0", "55", "599", "4294967295"})
            for (const match how : {match::exact, match::covering}) (void)reader->get(key, how, text);
        (void)reader->size();
        std::uint64_t seen = 0;
        (void)dump(*reader, {}, [&](std::string_view piece) { seen += piece.size(); });
    });
    allowed([&] {
        const map_reader map(attach_to_look(uri));
        for (const char* key : {"0", "55", "599"}) (void)map.get(key, text);
        std::uint64_t seen = 0;
        map.scan([&](const hash_map_entry& entry) {
            text.clear();
            map.append_json(text, entry);
            map.append_line(text, entry);
            return ++seen < 1000;
        });
    });
    allowed([&] { for_each_counter(*attach_to_look(uri), [](auto, auto, auto) {}); });
    allowed([&] { walk_counters(*attach_to_look(uri), [](auto, auto, auto) { return true; }); });
    allowed([&] {
        json_out json(text);
        append_json(json, latencies_of(*attach_to_look(uri)));
    });
    allowed([&] { (void)read_object(attach_to_look(uri), text); });
}

/// The bytes of a segment's file, to be changed and put right again.
class image_file {
 public:
    explicit image_file(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
        bytes_.resize(static_cast<std::size_t>(::lseek(file_, 0, SEEK_END)));
        EXPECT_EQ(::pread(file_, bytes_.data(), bytes_.size(), 0), static_cast<ssize_t>(bytes_.size()));
    }
    image_file(const image_file&) = delete;
    image_file& operator=(const image_file&) = delete;
    ~image_file() { ::close(file_); }

    [[nodiscard]] const std::vector<std::byte>& bytes() const noexcept { return bytes_; }
    void write(const std::vector<std::byte>& bytes) const {
        ASSERT_EQ(::pwrite(file_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    void restore() const { write(bytes_); }
    void cut(std::size_t bytes) const { ASSERT_EQ(::ftruncate(file_, static_cast<off_t>(bytes)), 0); }

 private:
    int file_;
    std::vector<std::byte> bytes_;
};

void sign(std::vector<std::byte>& image) {
    layout::segment_header header{};
    std::memcpy(&header, image.data(), sizeof header);
    header.header_checksum = layout::checksum_of(header);
    std::memcpy(image.data(), &header, sizeof header);
}

class InspectHostile : public ::testing::TestWithParam<std::size_t> {
 protected:
    void SetUp() override { kinds()[GetParam()].make(name_.uri()); }
    const test::unique_directory registry_{"registry"};
    const test::scoped_environment registered_{"HOLDFAST_REGISTRY", registry_.path()};
    const test::unique_posix_name name_{"inspect"};
};

TEST_P(InspectHostile, SoundSegmentIsIntact) {
    const verification found = verify(name_.uri());
    EXPECT_TRUE(found.intact());
    EXPECT_GT(found.elements, 0U);
    for (const finding& f : found.findings) ADD_FAILURE() << f.part << ": " << f.what;
    EXPECT_FALSE(describe(name_.uri()).problem);
}

TEST_P(InspectHostile, EveryFlippedBitOfTheImmutableHeaderIsFound) {
    const image_file file(name_.path());
    for (std::size_t at = 0; at < offsetof(layout::segment_header, epoch); ++at) {
        std::vector<std::byte> broken = file.bytes();
        broken[at] ^= static_cast<std::byte>(1U << (at % 8));
        file.write(broken);
        const verification found = verify(name_.uri());
        EXPECT_FALSE(found.intact()) << "byte " << at;
        ASSERT_FALSE(found.findings.empty());
        EXPECT_EQ(found.findings.front().part, "header");
    }
    file.restore();
}

TEST_P(InspectHostile, LiesUnderATrueChecksumNeverCrash) {
    test::seeded_random random;
    const image_file file(name_.path());
    constexpr std::size_t words_begin = offsetof(layout::segment_header, kind);
    constexpr std::size_t words_end = offsetof(layout::segment_header, header_checksum);
    const std::uint64_t size = file.bytes().size();
    const std::vector<std::uint64_t> lies{
        0, 1, 2, 255, 256, 4096, size, size - 4096, ~std::uint64_t{0}, std::uint64_t{1} << 63};
    for (std::uint64_t round = 0; round < test::scaled(400); ++round) {
        std::vector<std::byte> broken = file.bytes();
        for (std::uint64_t lie = 0; lie <= random.below(2); ++lie) {
            // Half of the lies in the numbers, half in the schema's text.
            const std::size_t limit =
                random.below(2) == 0 ? offsetof(layout::segment_header, reserved_geometry) : words_end;
            const std::size_t at = words_begin + random.below(limit - words_begin - 8);
            if (random.below(2) == 0) {
                broken[at] ^= static_cast<std::byte>(1U << random.below(8));
            } else {
                const std::uint64_t word = lies[random.below(lies.size())];
                std::memcpy(broken.data() + at / 8 * 8, &word, sizeof word);
            }
        }
        sign(broken);
        file.write(broken);
        look_everywhere(name_.uri());
    }
    file.restore();
}

TEST_P(InspectHostile, DamagedBodiesNeverCrash) {
    test::seeded_random random;
    const image_file file(name_.path());
    for (std::uint64_t round = 0; round < test::scaled(400); ++round) {
        std::vector<std::byte> broken = file.bytes();
        for (std::uint64_t hit = 0; hit <= random.below(8); ++hit) {
            // The beginning of a body steers the rest, so it is hit most.
            const std::uint64_t span = broken.size() - header_bytes;
            const std::size_t at = header_bytes + random.below(random.below(span) + 1);
            broken[at] = static_cast<std::byte>(random.below(256));
        }
        file.write(broken);
        look_everywhere(name_.uri());
    }
    file.restore();
    EXPECT_TRUE(verify(name_.uri()).intact());
}

TEST_P(InspectHostile, GarbledBodiesNeverCrash) {
    test::seeded_random random;
    const image_file file(name_.path());
    for (int fill = 0; fill < 4; ++fill) {
        std::vector<std::byte> broken = file.bytes();
        for (std::size_t at = header_bytes; at < broken.size(); ++at)
            broken[at] = fill == 0   ? std::byte{0xff}
                         : fill == 1 ? std::byte{0}
                                     : static_cast<std::byte>(random.below(256));
        file.write(broken);
        look_everywhere(name_.uri());
    }
    file.restore();
}

TEST_P(InspectHostile, CutOffFilesAreDamageNotSignals) {
    const image_file file(name_.path());
    for (const std::size_t left :
         {std::size_t{8}, std::size_t{4095}, header_bytes, file.bytes().size() / 2, file.bytes().size() - 1}) {
        file.restore();
        file.cut(left);
        EXPECT_FALSE(verify(name_.uri()).intact()) << left;
        look_everywhere(name_.uri());
    }
}

activity look_at(activity_watch& watch, const std::string& uri) {
    for (const activity& seen : watch.look())
        if (seen.what.uri == uri) return seen;
    return {};
}

// Cut after it was attached to, inside the page that the file now ends in: no signal is raised, zeros are read.
TEST_P(InspectHostile, FilesCutInsideTheirLastPageUnderAReaderAreDamage) {
    const image_file file(name_.path());
    const std::size_t in_last_page = (file.bytes().size() - 1) % 4096 + 1;
    for (const std::size_t lost : {std::size_t{1}, std::size_t{8}, in_last_page / 2, in_last_page - 1}) {
        const auto cut = [&] { file.cut(file.bytes().size() - lost); };
        std::string text;
        file.restore();
        const auto held = attach_to_look(name_.uri());
        cut();
        EXPECT_FALSE(verify(held).intact()) << lost;
        EXPECT_THROW((void)save(held, [](std::string_view) {}), error) << lost;
        file.restore();
        activity_watch watch;
        EXPECT_FALSE(look_at(watch, name_.uri()).what.problem) << lost;
        cut();
        const activity seen = look_at(watch, name_.uri());
        ASSERT_TRUE(seen.what.problem) << lost;
        EXPECT_EQ(seen.what.problem->code, errc::truncated) << lost;
        EXPECT_FALSE(seen.operations || seen.per_second || !seen.readers.empty()) << lost << ": told of zeros";
        if (held->info().kind == container_kind::snapshot) {
            EXPECT_NE(read_object(held, text).status, lookup::found) << lost;
        } else if (held->info().kind == container_kind::hash_map) {
            file.restore();
            const map_reader map(attach_to_look(name_.uri()));
            cut();
            EXPECT_NE(map.get("55", text).status, lookup::found) << lost;
            EXPECT_THROW(map.scan([](const hash_map_entry&) { return true; }), error) << lost;
        } else if (kinds()[GetParam()].keyed) {
            file.restore();
            const auto reader = keyed_reader::open(name_.uri());
            cut();
            EXPECT_NE(reader->get("50", match::exact, text).status, lookup::found) << lost;
            EXPECT_THROW((void)dump(*reader, {}, [](std::string_view) {}), error) << lost;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, InspectHostile, ::testing::Range<std::size_t>(0, kinds().size()),
                         [](const auto& chosen) { return std::string(kinds()[chosen.param].name); });

// What stat and who say of a ring: messages that can still be read, the number of the last, and its readers' slots
// without the writer's.
TEST(InspectBroadcast, MessagesAndReadersAreCounted) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_posix_name name("inspect");
    make_ring(name.uri());
    const contents counted = describe(name.uri()).contents;
    EXPECT_EQ(counted.version, 200U);
    EXPECT_EQ(counted.size, verify(name.uri()).elements);
    EXPECT_GT(counted.size, 0U);
    auto writer = broadcast_writer::attach(name.uri());
    EXPECT_TRUE(usage_of(name.uri()).readers.empty());
    const auto reader = broadcast_reliable_reader::attach(name.uri());
    EXPECT_EQ(usage_of(name.uri()).reader_slots, 2U);
    EXPECT_EQ(usage_of(name.uri()).readers, std::vector<std::uint32_t>{0});
}

// A file cut off after it was mapped: the guard turns the signal into zeros, and the reader is told.
TEST(InspectTruncation, AFileCutOffUnderAReaderIsAnError) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_posix_name name("inspect");
    memory::install_truncation_guard();
    make_loaded(name.uri(), load_target::hash_table);
    const auto reader = keyed_reader::open(name.uri());
    image_file(name.path()).cut(header_bytes);
    EXPECT_THROW((void)dump(*reader, {}, [](std::string_view) {}), error);
    EXPECT_EQ(reader->fault(), errc::truncated);
}

// Any single flipped bit in the bytes of an index is found: a checksum covers them all.
TEST(InspectVerify, EveryFlippedBitOfAnIndexIsFound) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_posix_name name("inspect");
    make_loaded(name.uri(), load_target::sorted_index);
    const image_file file(name.path());
    const std::size_t step = test::scaled(100) >= 100 ? 1 : 7;
    for (std::size_t at = header_bytes; at < file.bytes().size(); at += step) {
        std::vector<std::byte> broken = file.bytes();
        broken[at] ^= static_cast<std::byte>(1U << (at % 8));
        file.write(broken);
        EXPECT_FALSE(verify(name.uri()).intact()) << "byte " << at;
    }
}

// A header that promises terabytes, true to itself, over a file of that size that holds nothing: neither memory nor
// time is spent in proportion to the promise.
TEST(InspectVerify, ASparseFileOfATerabyteIsDamageAtOnce) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_directory folder("sparse");
    make_loaded(folder.file_uri("t"), load_target::hash_table);
    const std::string path = folder.file("t");
    std::vector<std::byte> head(header_bytes);
    const memory::descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd);
    ASSERT_EQ(::pread(fd.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
    layout::segment_header header{};
    std::memcpy(&header, head.data(), sizeof header);
    layout::hash_table_geometry g;
    std::array<std::uint64_t, 16> words{};
    std::copy_n(std::begin(header.geometry), words.size(), words.begin());
    ASSERT_EQ(layout::read_hash_table_geometry(words, header.body_bytes, g), nullptr);
    g = layout::plan_hash_table({.capacity = (std::uint64_t{1} << 40) / (g.node_bytes + 3) / 103 * 100,
                                 .key_bytes = g.key_bytes,
                                 .value_bytes = g.value_bytes,
                                 .seed = g.seed});
    words = layout::geometry_words_of(g);
    std::copy(words.begin(), words.end(), std::begin(header.geometry));
    header.body_bytes = g.body_bytes();
    header.total_bytes = header_bytes + g.body_bytes();
    ASSERT_GT(header.total_bytes, std::uint64_t{900} << 30);
    std::memcpy(head.data(), &header, sizeof header);
    sign(head);
    ASSERT_EQ(::pwrite(fd.get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
    if (::ftruncate(fd.get(), static_cast<off_t>(header.total_bytes)) != 0)
        GTEST_SKIP() << "needs: a file system with files of a terabyte";
    rusage before{}, after{};
    ASSERT_EQ(::getrusage(RUSAGE_SELF, &before), 0);
    const verification found = verify(folder.file_uri("t"));
    ASSERT_EQ(::getrusage(RUSAGE_SELF, &after), 0);
    EXPECT_FALSE(found.intact());
    ASSERT_EQ(found.damages, 1U);
    EXPECT_NE(found.findings[0].what.find("have no memory of their own"), std::string::npos) << found.findings[0].what;
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
    EXPECT_LT(after.ru_utime.tv_sec - before.ru_utime.tv_sec, 5);
}

// Copies made by programs that leave zeros out are worth a warning, and are looked at.
TEST(InspectVerify, AFewHolesAreAWarningAndTheBodyIsStillChecked) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_directory folder("sparse");
    (void)hash_table<std::uint64_t, std::uint64_t>::create(folder.file_uri("t"), {.capacity = 10'000});
    const std::string path = folder.file("t");
    const memory::descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd);
    if (::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 65536, 65536) != 0)
        GTEST_SKIP() << "needs: a file system that can punch holes";
    const verification found = verify(folder.file_uri("t"));
    EXPECT_TRUE(found.intact());  // the table is empty: zeros everywhere
    ASSERT_EQ(found.findings.size(), 1U);
    EXPECT_EQ(found.findings[0].how, severity::warning);
    EXPECT_EQ(found.elements, 0U);
}

// A value's byte has no other witness than the checksum; its finding says which slots.
TEST(InspectVerify, AFlippedValueByteOfATableIsFoundWithItsSlots) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_posix_name name("inspect");
    {
        auto table = hash_table<std::uint64_t, std::uint64_t>::create(name.uri(), {.capacity = 700, .seed = 3});
        for (std::uint64_t i = 0; i < 700; ++i) ASSERT_TRUE(table.try_insert(i, i));
    }
    const auto reader = hash_table_reader<std::uint64_t, std::uint64_t>::attach(name.uri());
    const image_file file(name.path());
    for (std::uint64_t key = 0; key < 700; key += 23) {
        const auto slot = static_cast<std::uint64_t>(reader.slot_of(key).value());
        std::vector<std::byte> broken = file.bytes();
        const std::uint64_t node = header_bytes + reader.geometry().nodes_offset + slot * 16;
        broken[node + 8 + key % 8] ^= static_cast<std::byte>(1U << (key % 8));
        file.write(broken);
        const verification found = verify(name.uri());
        ASSERT_EQ(found.damages, 1U);
        const std::uint64_t first = slot / 416 * 416;
        const std::uint64_t last = std::min(first + 416, reader.slots()) - 1;
        EXPECT_EQ(found.findings[0].place, "slots " + std::to_string(first) + ".." + std::to_string(last));
        EXPECT_EQ(found.findings[0].offset, header_bytes + reader.geometry().nodes_offset + first * 16);
        EXPECT_EQ(found.findings[0].what, "the checksum does not match the keys and values");
    }
}

TEST(InspectVerify, MissingCompanionsAreWarningsNotDamage) {
    const test::unique_directory registry("registry");
    const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());
    const test::unique_posix_name name("inspect");
    make_loaded(name.uri(), load_target::snapshot);
    ASSERT_EQ(::unlink((name.path() + ".lease").c_str()), 0);
    ASSERT_EQ(::unlink((name.path() + ".peers").c_str()), 0);
    const verification found = verify(name.uri());
    EXPECT_TRUE(found.intact());
    ASSERT_EQ(found.findings.size(), 2U);
    EXPECT_EQ(found.findings[0].part, "lease");
    EXPECT_EQ(found.findings[1].part, "peers");
    EXPECT_EQ(found.findings[1].how, severity::warning);
}

}  // namespace
}  // namespace holdfast::inspect
