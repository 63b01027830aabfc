// SPDX-License-Identifier: Apache-2.0
// Segments of layout v1 as they were written once, opened by this build: read, verified and written on in every kind of
// memory, with the contents that were noted beside them. And a layout that changes must not do so in silence: what is
// written today is the same byte by byte, and another layout's number is refused by name. Files of `save` likewise:
// they are restored, and written today as then.
//
// A container's layout that has to change gets a new container version, images of its own, and code that goes on
// reading these.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "golden/contents.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "inspect/saved_file.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

const std::string folder = HOLDFAST_GOLDEN_IMAGES;

struct golden_case {
    std::string name;
    const golden_subject* subject;
    friend std::ostream& operator<<(std::ostream& out, const golden_case& c) { return out << c.name; }
};

// The images in the folder; each belongs to the subject whose name it begins with: NAME, NAME_killed, NAME_growing, and
// NAME_before, what was written before something was added that older programs read over.
std::vector<golden_case> cases() {
    std::vector<golden_case> all;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".image") continue;
        std::string name = entry.path().stem().string(), of = name;
        for (const std::string_view suffix : {"_before", "_killed", "_growing"})
            if (of.ends_with(suffix)) of.resize(of.size() - suffix.size());
        const auto* const subject = std::find_if(std::begin(golden_subjects), std::end(golden_subjects),
                                                 [&](const golden_subject& s) { return of == s.name; });
        all.push_back({name, subject == std::end(golden_subjects) ? nullptr : subject});
    }
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return all;
}

class Golden : public segment_test, public ::testing::WithParamInterface<golden_case> {
 protected:
    [[nodiscard]] std::string stem() const { return folder + "/" + GetParam().name; }
    [[nodiscard]] const golden_subject& subject() const { return *GetParam().subject; }
    [[nodiscard]] golden_image image() const { return golden_image::load(stem()); }
};

TEST_P(Golden, SaysWhatItSaidWhenItWasMadeInEveryKindOfMemory) {
    ASSERT_NE(GetParam().subject, nullptr) << "no subject of that name: it was removed from subjects.hpp";
    const std::string expected = text_of_file(stem() + ".txt");
    for (const char* kind : {"file", "posix", "memfd", "sysv"}) {
        if (!image().can_lie_in(kind)) continue;
        const still_world then(golden_moment_ns, golden_seed);
        std::string text;
        const auto refused = refusal_of([&] { text = contents_of(subject(), image(), kind); });
        EXPECT_EQ(refused, std::nullopt) << kind;
        EXPECT_EQ(text, expected) << kind;
    }
}

// Readers of a golden image change nothing of it, whoever they are.
TEST_P(Golden, IsNotChangedByReaders) {
    ASSERT_NE(GetParam().subject, nullptr);
    const unique_directory place("golden");
    image().lay_at(place.file("s"));
    (void)subject().describe(place.file_uri("s"));
    EXPECT_EQ(read_file(place.file("s")), image().data);
    if (!image().growing.empty()) {
        EXPECT_EQ(read_file(place.file("s.growing")), image().growing);
    }
}

// Every number that says which layout this is: another one is refused, never read as if it were ours.
TEST_P(Golden, OfAnotherLayoutIsRefusedByName) {
    ASSERT_NE(GetParam().subject, nullptr);
    struct change {
        std::size_t offset;
        errc refused_with;
    };
    for (const change& c : {change{offsetof(layout::segment_header, layout_version), errc::version_mismatch},
                            change{offsetof(layout::segment_header, container_version), errc::version_mismatch},
                            change{offsetof(layout::segment_header, fingerprint), errc::version_mismatch}}) {
        golden_image other = image();
        // One that no kind has: the next version of a block store is that of many writers.
        other.data[c.offset] = static_cast<std::byte>(static_cast<unsigned>(other.data[c.offset]) + 100);
        layout::segment_header header{};
        std::memcpy(&header, other.data.data(), sizeof header);
        header.header_checksum = layout::checksum_of(header);
        std::memcpy(other.data.data(), &header, sizeof header);
        const placed_image placed("file", other);
        const bool of_container = c.offset == offsetof(layout::segment_header, container_version);
        if (of_container && std::string(subject().name) == "raw") continue;  // its body is its user's own
        EXPECT_EQ(refusal_of([&] { (void)subject().describe(placed.uri()); }), c.refused_with) << "byte " << c.offset;
        EXPECT_EQ(refusal_of([&] { subject().go_on(placed.uri()); }), c.refused_with) << "byte " << c.offset;
    }
}

INSTANTIATE_TEST_SUITE_P(V1, Golden, ::testing::ValuesIn(cases()), [](const auto& c) { return c.param.name; });

class GoldenSubject : public segment_test, public ::testing::WithParamInterface<golden_subject> {};

TEST_P(GoldenSubject, IsWrittenTodayAsItWasThen) {
    const still_world then(golden_moment_ns, golden_seed);
    const unique_directory place("golden");
    GetParam().make(place.file_uri("s"));
    const golden_image now = golden_image::of_file_segment(place.file("s"));
    const golden_image golden = golden_image::load(folder + "/" + GetParam().name);
    EXPECT_EQ(difference(now.data, golden.data), "")
        << "the layout, or the order in which things are put into it, is another one than that of the golden image. "
           "Where older programs read the new bytes rightly, say so in the commit and add an image beside the old one; "
           "else raise the container's version and go on reading the old one";
    EXPECT_EQ(difference(now.peers, golden.peers), "") << "the peers file";
}

// Why one image serves all kinds of memory: what differs between them is where the bytes lie.
TEST_P(GoldenSubject, HasTheSameBytesInEveryKindOfMemory) {
    const golden_image golden = golden_image::load(folder + "/" + GetParam().name);
    for (const char* kind : {"posix", "sysv"}) {
        const memory_place place(kind);
        {
            const still_world then(golden_moment_ns, golden_seed);
            GetParam().make(place.uri());
        }
        const segment s = segment::attach(place.uri(), access::read_only);
        image_bytes now(s.bytes().data() - header_bytes, s.bytes().data() + s.bytes().size());
        forget_owner(now);
        EXPECT_EQ(difference(now, golden.data), "") << kind;
    }
}

// A saved file is read for ever, also by programs whose segments are laid out in another way.
TEST_P(GoldenSubject, IsSavedTodayAsItWasThen) {
    const std::string stem = folder + "/" + GetParam().name;
    const still_world then(golden_moment_ns, golden_seed);
    EXPECT_TRUE(saved_of(golden_image::load(stem)) == text_of_file(stem + ".saved"))
        << "save writes something else than it did. Where older programs restore the new bytes rightly, say so in the "
           "commit and keep the old file beside the new one; else raise the version of saved files and go on reading "
           "the old one";
}

TEST_P(GoldenSubject, IsRestoredFromWhatWasSavedThen) {
    const std::string stem = folder + "/" + GetParam().name;
    const still_world then(golden_moment_ns, golden_seed);
    EXPECT_EQ(restored_contents_of(GetParam(), stem + ".saved"), text_of_file(stem + ".restored.txt"));
}

/// The file as another program would have saved it: its header is changed, and its contents; the checksums are right.
std::string saved_by_another(const std::string& path, const std::function<void(inspect::saved_header&)>& change,
                             const std::function<void(std::span<std::byte>)>& change_first = {}) {
    inspect::saved_reader from(path);
    inspect::saved_header header = from.header();
    change(header);
    std::string text;
    inspect::saved_writer to([&](std::string_view part) { text.append(part); }, header, from.schema());
    for (std::uint64_t items = 0; const auto section = from.next(); items = from.items()) {
        image_bytes bytes(section->begin(), section->end());
        if (change_first && items == 0) change_first(bytes);
        to.add(bytes, from.items() - items);
    }
    to.finish();
    return text;
}

// Files outlive layouts: what is saved says nothing of how it lies in memory, so it is restored whatever number the
// segment's layout had then.
TEST_P(GoldenSubject, OfAnotherLayoutIsRestoredFromItsContents) {
    const std::string stem = folder + "/" + GetParam().name;
    const still_world then(golden_moment_ns, golden_seed);
    const inspect::saved_header today = inspect::saved_reader(stem + ".saved").header();
    const bool raw = static_cast<container_kind>(today.kind) == container_kind::raw;  // which says its version, too
    const unique_directory place("another");
    const std::string file = place.file("of-another.saved");
    for (const std::uint32_t version : {0U, today.container_version + 1, ~0U}) {
        std::ofstream(file, std::ios::binary | std::ios::trunc)
            << saved_by_another(stem + ".saved", [&](auto& header) { header.container_version = version; });
        (void)inspect::restore(file, place.file_uri("s"), {});
        const std::uint32_t made = segment::attach(place.file_uri("s"), access::read_only).info().container_version;
        EXPECT_EQ(made, raw ? version : today.container_version);
        segment::remove(place.file_uri("s"));
        if (!raw) {
            EXPECT_EQ(restored_contents_of(GetParam(), file), text_of_file(stem + ".restored.txt")) << version;
        }
    }
}

// What the contents mean has a number of its own, and an image of an index has one, too. Those that are not known are
// refused by name, with what to do; nothing is made.
TEST_P(GoldenSubject, OfOtherContentsIsRefusedByName) {
    const std::string saved = folder + "/" + GetParam().name + ".saved";
    const unique_directory place("another");
    const std::string file = place.file("of-another.saved");
    const auto refused_with = [&](const std::string& text, const char* why) {
        std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
        const std::size_t before = place.entries().size();
        try {
            (void)inspect::restore(file, place.file_uri("s"), {});
            ADD_FAILURE() << "was restored: " << why;
        } catch (const error& refused) {
            EXPECT_EQ(refused.reason(), errc::version_mismatch) << refused.what();
            EXPECT_THAT(refused.what(),
                        testing::AllOf(testing::HasSubstr("of-another.saved"), testing::HasSubstr(why),
                                       testing::HasSubstr("restore it with the program that saved it")));
        }
        EXPECT_EQ(place.entries().size(), before);
    };
    for (const std::uint32_t version : {1U, ~0U})
        refused_with(saved_by_another(saved, [&](auto& header) { header.contents_version = version; }),
                     "contents of version");
    if (static_cast<container_kind>(inspect::saved_reader(saved).header().kind) == container_kind::sorted_index)
        refused_with(saved_by_another(
                         saved, [](auto&) {},
                         [](std::span<std::byte> image) {
                             image[offsetof(layout::sorted_index_header, format_version)] ^= std::byte{3};
                         }),
                     "holds an index of format 2");
}

INSTANTIATE_TEST_SUITE_P(V1, GoldenSubject, ::testing::ValuesIn(golden_subjects),
                         [](const auto& s) { return std::string(s.param.name); });

// Nothing that can be made goes without an image, and the rig's own teeth: a byte that moved is noticed.
TEST(GoldenImages, AreThereForEveryKindOfContainer) {
    std::set<container_kind> kinds;
    for (const golden_case& c : cases()) {
        layout::segment_header header{};
        std::memcpy(&header, golden_image::load(folder + "/" + c.name).data.data(), sizeof header);
        kinds.insert(static_cast<container_kind>(header.kind));
    }
    for (std::uint32_t kind = 1; !kind_name(static_cast<container_kind>(kind)).empty(); ++kind)
        EXPECT_TRUE(kinds.contains(static_cast<container_kind>(kind))) << kind_name(static_cast<container_kind>(kind));
}

// The same bytes in pages of the pool, read and written on there.
TEST(GoldenImages, SayTheSameInHugePagesOfSystemVMemory) {
    const scoped_setting pool("/proc/sys/vm/nr_hugepages", "8");
    if (!pool.changed()) GTEST_SKIP() << "needs: setting vm.nr_hugepages";
    for (const golden_case& c : cases()) {
        ASSERT_NE(c.subject, nullptr) << c.name;
        const std::string stem = folder + "/" + c.name;
        const golden_image image = golden_image::load(stem);
        if (!image.can_lie_in("sysv+huge")) continue;
        const still_world then(golden_moment_ns, golden_seed);
        std::string text;
        const auto refused = refusal_of([&] { text = contents_of(*c.subject, image, "sysv+huge"); });
        EXPECT_EQ(refused, std::nullopt) << c.name;
        EXPECT_EQ(text, text_of_file(stem + ".txt")) << c.name;
    }
    for (const golden_subject& of : golden_subjects) {
        const memory_place place("sysv+huge");
        {
            const still_world then(golden_moment_ns, golden_seed);
            of.make(place.uri());
        }
        const segment s = segment::attach(place.uri(), access::read_only);
        EXPECT_EQ(s.pages().page_bytes, memory::huge_page_bytes) << of.name;
        image_bytes now(s.bytes().data() - header_bytes, s.bytes().data() + s.bytes().size());
        forget_owner(now);
        EXPECT_EQ(difference(now, golden_image::load(folder + "/" + of.name).data), "") << of.name;
    }
}

// What a reader that followed a table finds in it, and that it is sound.
template <class Reader>
std::map<std::uint64_t, std::uint64_t> entries_of(Reader& reader) {
    std::map<std::uint64_t, std::uint64_t> all;
    for (const auto& entry : reader.current()) all.emplace(entry.key, entry.value.user);
    EXPECT_EQ(reader.current().verify([](const hash_table_finding&) { return true; }).findings, 0U);
    EXPECT_EQ(reader.size(), all.size());
    return all;
}
using following_reader = growing_hash_table_reader<std::uint64_t, golden::session>;

class GoldenGrowth : public segment_test, public ::testing::WithParamInterface<const char*> {};

TEST_P(GoldenGrowth, OfOneWriterWhoWasKilledIsGoneAndBegunAnew) {
    const placed_image placed(GetParam(), golden_image::load(folder + "/hash_table_growing"));
    const std::string next = holdfast::detail::places_of(memory::uri::parse(placed.uri())).growing();
    ASSERT_TRUE(path_exists(next));
    auto reader = following_reader::attach(placed.uri());
    const auto before = entries_of(reader);
    const std::uint64_t capacity = reader.capacity();
    auto table = growing_hash_table<std::uint64_t, golden::session>::attach(placed.uri());
    EXPECT_FALSE(path_exists(next));
    EXPECT_FALSE(table.segment().moved());
    table.grow(2 * capacity);
    while (table.advance(100)) continue;
    EXPECT_FALSE(table.growth_failure().has_value());
    EXPECT_EQ(table.capacity(), 2 * capacity);
    EXPECT_EQ(reader.capacity(), 2 * capacity);
    EXPECT_EQ(entries_of(reader), before);
}

TEST_P(GoldenGrowth, OfManyWritersWhoWereKilledIsGoneOnWith) {
    const golden_image image = golden_image::load(folder + "/hash_table_many_growing");
    layout::segment_header next{};
    ASSERT_GE(image.growing.size(), sizeof next);
    std::memcpy(&next, image.growing.data(), sizeof next);
    const placed_image placed(GetParam(), image);
    auto reader = following_reader::attach(placed.uri());
    auto before = entries_of(reader);
    auto table = golden::many_sessions::attach(placed.uri());
    ASSERT_TRUE(table.insert_or_assign(1000, golden::session_of(1000)));
    before.emplace(1000, golden::session_of(1000).user);
    while (table.advance(100)) continue;
    EXPECT_FALSE(table.growth_failure().has_value());
    EXPECT_EQ(table.segment().info().identity, next.identity);
    EXPECT_EQ(table.capacity(), 1200U);
    EXPECT_EQ(reader.capacity(), 1200U);
    EXPECT_EQ(entries_of(reader), before);
    EXPECT_FALSE(path_exists(holdfast::detail::places_of(memory::uri::parse(placed.uri())).growing()));
}

INSTANTIATE_TEST_SUITE_P(V1, GoldenGrowth, ::testing::Values("file", "posix"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST(GoldenImages, AByteThatMovedIsNoticed) {
    const golden_image golden = golden_image::load(folder + "/array");
    image_bytes moved = golden.data;
    ASSERT_GT(moved.size(), std::size_t{header_bytes} + 100);
    std::rotate(moved.end() - 40, moved.end() - 39, moved.end());  // of the last elements
    EXPECT_NE(difference(moved, golden.data), "");
    const std::string expected = text_of_file(folder + "/array.txt");
    const still_world then(golden_moment_ns, golden_seed);
    std::string text;
    const auto refused = refusal_of([&] { text = contents_of(golden_subjects[8], {moved, golden.peers, {}}, "file"); });
    EXPECT_TRUE(refused || text != expected);
}

TEST(GoldenImages, PackAndUnpackGiveTheSameBytes) {
    seeded_random random;
    for (int round = 0; round < 200; ++round) {
        image_bytes image(random.below(3000));
        for (std::uint64_t pieces = random.below(20); pieces > 0 && !image.empty(); --pieces)
            for (std::uint64_t at = random.below(image.size()), n = random.below(60); n > 0 && at < image.size();
                 --n, ++at)
                image[at] = static_cast<std::byte>(random());
        ASSERT_EQ(unpack_image(pack_image(image), "packed"), image);
    }
}

}  // namespace
