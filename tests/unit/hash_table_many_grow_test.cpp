// SPDX-License-Identifier: Apache-2.0
// What a handle of many writers keeps of the generation that it has left. How a table of many writers grows is tested
// in hash_table_many_test.cpp.
#include "holdfast/hash_table/many_grow.hpp"

#include <gtest/gtest.h>
#include <sys/statfs.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/many.hpp"
#include "support/capability.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using u64 = std::uint64_t;
using counts = hash_table<u64, u64, writers::many>;

class HashTableManyLeft : public segment_test {
 protected:
    /// In a file system of its own a table grows and shrinks beside an Asker, whose memory goes by its questions:
    /// asks(asker, key) is one, about a key that is there.
    template <class Asker, class Question>
    void expect_that_questions_let_go(Question&& asks) {
        if (!can_mount_tmpfs()) GTEST_SKIP() << "needs: mounting a tmpfs in a private mount namespace";
        const ended end = in_child([&]() -> std::string {
            if (!enter_private_mounts() || !mount_tmpfs(place_.path(), "size=32m")) return "no tmpfs";
            const std::string uri = place_.file_uri("t");
            constexpr u64 entries = 80'000, questions_max = 100;
            counts leader = counts::create(uri, {.capacity = entries, .writer_slots = 4});  // some 1.5 MB
            for (u64 n = 0; n < entries; ++n) (void)leader.try_insert(n, n * n);
            const u64 one = used(), bytes = leader.segment().info().total_bytes;
            if (one < bytes) return "the table takes " + std::to_string(one);
            Asker asker = Asker::attach(uri);
            for (const u64 capacity : {2 * entries, entries}) {
                leader.grow(capacity);
                while (leader.advance()) {
                }
                if (leader.growth_failure()) return leader.growth_failure()->what();
            }
            if (used() < one + bytes) return "the old table's memory went while it was mapped";
            u64 questions = 0;
            for (; used() > one && questions < questions_max; ++questions)
                if (!asks(asker, questions)) return "key " + std::to_string(questions) + " is not found";
            if (questions == questions_max) return "of the old table " + std::to_string(used() - one) + " bytes stay";
            // The first one goes over, and each of the others has a piece.
            if (questions <= bytes / holdfast::detail::retired_mapping::bytes_a_step)
                return "it was let go of by " + std::to_string(questions) + " questions";
            return asks(asker, 1) && asker.capacity() == entries ? "" : "it is in another generation";
        });
        EXPECT_TRUE(end.success()) << end.text();
    }

 private:
    [[nodiscard]] u64 used() const {
        struct statfs now{};
        if (::statfs(place_.path().c_str(), &now) != 0) return 0;
        return (now.f_blocks - now.f_bfree) * static_cast<u64>(now.f_bsize);
    }
    unique_directory place_{"left"};
};

TEST_F(HashTableManyLeft, AHandleThatOnlyAsksLetsGoOfTheOldTableInPieces) {
    expect_that_questions_let_go<counts>([](const counts& of, u64 n) { return of.find(n) == n * n; });
}
TEST_F(HashTableManyLeft, SoDoesOneThatKnowsNoTypes) {
    expect_that_questions_let_go<dynamic_hash_table>([](const dynamic_hash_table& of, u64 n) {
        u64 value = 0;
        return of.find(std::as_bytes(std::span(&n, 1)), std::as_writable_bytes(std::span(&value, 1))) && value == n * n;
    });
}

}  // namespace
