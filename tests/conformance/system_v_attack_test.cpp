// SPDX-License-Identifier: Apache-2.0
// A stranger plants something where the companions of a System V segment lie: in /dev/shm, which all may write to,
// under names that anybody can tell from the key. Attacked: nothing of it is followed, waited for or overwritten;
// writers are refused as unsafe_file, readers read on, and of a segment that was not made no memory is left.
#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "holdfast/peers.hpp"
#include "support/capability.hpp"
#include "support/planted_traps.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;

class SystemVTrap : public segment_test, public ::testing::WithParamInterface<planted> {
 protected:
    void SetUp() override {
        if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play three users";
        std::ofstream(victim_) << "precious";
        ASSERT_EQ(::chmod(elsewhere_.path().c_str(), 0755), 0);
        ASSERT_EQ(::chmod(registry_.path().c_str(), 01777), 0);
    }
    void TearDown() override {
        if (IsSkipped()) return;
        EXPECT_EQ(content_of(victim_), "precious");
        EXPECT_FALSE(entries_containing(elsewhere_.path(), ".none").size()) << "a dangling link was followed";
    }

    /// A key, and who meets what a stranger planted at its companions.
    struct scene {
        uid_t user;
        unique_system_v_name name{};
        holdfast::detail::places where = holdfast::detail::places_of(memory::uri::parse(name.uri()));

        [[nodiscard]] bool has_memory() const { return ::shmget(name.key(), 0, 0) >= 0; }
        [[nodiscard]] std::string create() const {
            return as_user(user, [this] { return make(), std::string(); });
        }
        [[nodiscard]] std::string creation_is_refused() const {
            return as_user(user, [this] { return expect_refusal(errc::unsafe_file, [this] { make(); }); });
        }
        /// With a place for readers, so that it has both companions.
        void make() const {
            segment_spec spec = pattern_spec(1);
            spec.peer_slots = 2;
            (void)segment::create(name.uri(), spec, {}, [](std::span<std::byte> body) { fill_pattern(body, 1); });
        }
        template <class Act>
        [[nodiscard]] std::string is_refused(Act&& act) const {
            return as_user(user, [&] { return expect_refusal(errc::unsafe_file, act); });
        }
        [[nodiscard]] std::string writing_is_refused() const {
            return is_refused([this] { (void)segment::attach(name.uri(), access::read_write); });
        }
        [[nodiscard]] std::string reads_on() const {
            return as_user(user, [this] { return pattern_fault(segment::attach(name.uri(), access::read_only)); });
        }
    };
    template <class Each>
    void for_each_user(Each&& each) const {
        for (const char* const setting : {"0", "1"}) {
            const scoped_setting links("/proc/sys/fs/protected_symlinks", setting);
            const scoped_setting fifos("/proc/sys/fs/protected_fifos", setting);
            for (const uid_t user : {uid_t{0}, third_user}) {
                SCOPED_TRACE("user " + std::to_string(user) + ", " + setting);
                const scene now{user};
                each(now);
                for (const std::string& companion : {now.where.lease(), now.where.peers()})
                    (void)std::remove(companion.c_str());  // directories, too
            }
        }
    }
    void plant(const std::string& path) const {
        ASSERT_EQ(as_user(stranger,
                          [&] {
                              ::umask(0);  // open to all
                              return std::string(GetParam().plant(path, victim_) ? "" : "it cannot be planted");
                          }),
                  "");
    }
    [[nodiscard]] static bool is_strangers(const std::string& path) {
        struct stat status{};
        return ::lstat(path.c_str(), &status) == 0 && status.st_uid == stranger;
    }
    [[nodiscard]] static bool is_there(const std::string& path) {
        struct stat status{};
        return ::lstat(path.c_str(), &status) == 0;
    }

    unique_directory elsewhere_{"attack"};
    std::string victim_ = elsewhere_.file("victim");
};

TEST_P(SystemVTrap, AtTheLeaseBeforeCreationIsRefusedAndNoMemoryIsLeft) {
    for_each_user([this](const scene& now) {
        plant(now.where.lease());
        EXPECT_EQ(now.creation_is_refused(), "");
        EXPECT_FALSE(now.has_memory());
        EXPECT_FALSE(is_there(now.where.peers()));
        EXPECT_TRUE(is_strangers(now.where.lease()));
    });
}

TEST_P(SystemVTrap, InThePlaceOfTheLeaseIsRefusedToWritersAndReadersReadOn) {
    for_each_user([this](const scene& now) {
        ASSERT_EQ(now.create(), "");
        ASSERT_EQ(::unlink(now.where.lease().c_str()), 0);
        plant(now.where.lease());
        EXPECT_EQ(now.writing_is_refused(), "");
        EXPECT_EQ(now.is_refused([&] { segment::remove(now.name.uri()); }), "");
        EXPECT_EQ(now.reads_on(), "");
        EXPECT_TRUE(now.has_memory());
        EXPECT_TRUE(is_strangers(now.where.lease()));
    });
}

TEST_P(SystemVTrap, AtThePeersFileBeforeCreationIsRefusedAndNothingElseIsLeft) {
    for_each_user([this](const scene& now) {
        plant(now.where.peers());
        EXPECT_EQ(now.creation_is_refused(), "");
        EXPECT_FALSE(now.has_memory());
        EXPECT_FALSE(is_there(now.where.lease()));
        EXPECT_TRUE(is_strangers(now.where.peers()));
    });
}

TEST_P(SystemVTrap, InThePlaceOfThePeersFileIsRefusedToWhoNeedsItAndReadersReadOn) {
    for_each_user([this](const scene& now) {
        ASSERT_EQ(now.create(), "");
        ASSERT_EQ(::unlink(now.where.peers().c_str()), 0);
        plant(now.where.peers());
        EXPECT_EQ(now.writing_is_refused(), "");
        EXPECT_EQ(now.is_refused([&] { (void)peers::open(segment::attach(now.name.uri(), access::read_only)); }), "");
        EXPECT_EQ(now.reads_on(), "");
        EXPECT_TRUE(is_strangers(now.where.peers()));

        ASSERT_EQ(std::remove(now.where.peers().c_str()), 0);
        EXPECT_EQ(as_user(now.user,
                          [&] {
                              (void)segment::attach(now.name.uri(), access::read_write);
                              (void)peers::open(segment::attach(now.name.uri(), access::read_only));
                              return std::string();
                          }),
                  "")
            << "the next writer makes the file anew";
    });
}

// A plain file, too, which all may write to: its owner could hold every lock in it.
std::vector<planted> all_of_anybody() {
    std::vector<planted> all(std::begin(traps), traps_of_anybody_end());
    all.push_back(
        {"file", [](const auto& path, const auto&) { return static_cast<bool>(std::ofstream(path) << "his"); }});
    return all;
}
INSTANTIATE_TEST_SUITE_P(Traps, SystemVTrap, ::testing::ValuesIn(all_of_anybody()),
                         [](const auto& trap) { return std::string(trap.param.name); });

}  // namespace
