// SPDX-License-Identifier: Apache-2.0
// Tables as the routes of a server see them, while files lose their end under them: each answer is right or says that
// the file was cut, and none is made of the zeros that the kernel shows behind a cut.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/memory/truncation_guard.hpp"
#include "serve/sources.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using u64 = std::uint64_t;

// The segments of these tests are registered beside nobody else's.
const test::unique_directory registry("registry");
const test::scoped_environment registered("HOLDFAST_REGISTRY", registry.path());

constexpr u64 keys = 1500;
constexpr std::uintptr_t page_bytes = 4096;

struct row {
    u64 first, second;
};
using table = hash_table<u64, row>;

constexpr row row_of(u64 key) { return {key * 3 + 1, ~key}; }

/// A table in a file, as a server has it; its writer has gone.
class served_table {
 public:
    served_table() {
        auto writer = table::create(name_.uri(), {.capacity = keys});
        for (u64 key = 0; key < keys; ++key) {
            const hash_table_result done = writer.try_insert(key, row_of(key));
            EXPECT_TRUE(done);
        }
        bytes_ = writer.segment().info().total_bytes;
    }
    [[nodiscard]] std::string uri() const { return name_.uri(); }
    /// Of the file.
    [[nodiscard]] u64 bytes() const noexcept { return bytes_; }
    void cut(u64 to) const { ASSERT_EQ(::truncate(name_.path().c_str(), static_cast<off_t>(to)), 0); }
    /// Where the node of a key ends in the file. Ask before it is cut.
    [[nodiscard]] u64 end_of(u64 key) const {
        const auto reader = dynamic_hash_table_reader::attach(uri());
        const auto slot = reader.slot_of(std::as_bytes(std::span(&key, 1)));
        const auto& g = reader.geometry();
        return header_bytes + g.nodes_offset + (static_cast<u64>(slot.value()) + 1) * g.node_bytes;
    }

 private:
    test::unique_posix_name name_{"served"};
    u64 bytes_ = 0;
};

/// What a find says, with a wrong value as a failure.
serve::lookup find(serve::table_source& source, u64 key) {
    std::optional<row> seen;
    const serve::lookup said = source.find(std::as_bytes(std::span(&key, 1)), [&](auto, auto value) {
        seen.emplace();
        std::memcpy(&*seen, value.data(), sizeof *seen);
    });
    EXPECT_EQ(seen.has_value(), said == serve::lookup::found);
    if (seen) {
        EXPECT_EQ(seen->first, row_of(key).first) << key;
        EXPECT_EQ(seen->second, row_of(key).second) << key;
    }
    return said;
}

// The first: a guard stays where it was installed. Where none acts nothing may be touched to see whether it is there:
// the length of the file is asked for.
TEST(TableSource, WithoutAGuardAsksForTheLength) {
    const served_table made;
    const auto source = serve::table_source::attach(made.uri());
    if (source->memory().guarded()) GTEST_SKIP() << "needs: to be the first test of its process";
    for (u64 key = 0; key < keys; key += 7) EXPECT_EQ(find(*source, key), serve::lookup::found);
    made.cut(made.bytes() - 1);
    for (u64 key = 0; key < keys; key += 7) EXPECT_EQ(find(*source, key), serve::lookup::cut_off) << key;
}

TEST(TableSource, FindsWhatIsThereAndNothingElse) {
    memory::install_truncation_guard();
    const served_table made;
    const auto source = serve::table_source::attach(made.uri());
    EXPECT_TRUE(source->memory().guarded());
    for (u64 key = 0; key < keys; ++key) EXPECT_EQ(find(*source, key), serve::lookup::found) << key;
    for (u64 key = keys; key < 2 * keys; ++key) EXPECT_EQ(find(*source, key), serve::lookup::absent) << key;
    EXPECT_FALSE(source->broken());
}

// Inside its last page nothing is lost but what lies there: all else is answered, without a look at the file's length.
TEST(TableSource, OfAFileCutInsideItsLastPageAnswersWhatLiesBeforeIt) {
    memory::install_truncation_guard();
    const served_table made;
    const u64 last_page = (made.bytes() - 1) / page_bytes * page_bytes;
    std::vector<bool> before;
    for (u64 key = 0; key < keys; ++key) before.push_back(made.end_of(key) <= last_page);
    const auto source = serve::table_source::attach(made.uri());
    for (const u64 to : {made.bytes() - 1, last_page + 1}) {
        made.cut(to);
        u64 cut = 0;
        for (u64 key = 0; key < keys; ++key) {
            const serve::lookup said = find(*source, key);
            EXPECT_EQ(said, before[key] ? serve::lookup::found : serve::lookup::cut_off) << key << " of " << to;
            cut += said == serve::lookup::cut_off ? 1 : 0;
        }
        EXPECT_GT(cut, 0U) << "no key lies in the last page";
        EXPECT_EQ(find(*source, keys), serve::lookup::cut_off) << "what is not found may be what was lost";
        EXPECT_TRUE(source->broken());
    }
}

// With a page or more lost every answer is refused, also of those whose own page is there: the table is broken.
TEST(TableSource, OfAFileThatLostPagesAnswersNothing) {
    memory::install_truncation_guard();
    for (const bool asked_before : {false, true}) {
        for (const u64 kept : {u64{1}, u64{2}, u64{3}, u64{4}}) {  // quarters
            const served_table made;
            const auto source = serve::table_source::attach(made.uri());
            for (u64 key = 0; asked_before && key < keys; key += 7) EXPECT_EQ(find(*source, key), serve::lookup::found);
            const u64 last_page = (made.bytes() - 1) / page_bytes * page_bytes;
            made.cut(kept == 4 ? last_page : last_page * kept / 4 + 100);
            for (u64 key = 0; key < keys + 20; ++key) EXPECT_EQ(find(*source, key), serve::lookup::cut_off) << key;
            EXPECT_TRUE(source->broken());
        }
    }
}

}  // namespace
