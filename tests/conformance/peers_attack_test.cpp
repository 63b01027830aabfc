// SPDX-License-Identifier: Apache-2.0
// A stranger plants something at NAME.peers of a container with registered readers, in a folder that all may write to,
// or gives our own peers file a second name. Attacked: nothing of it is followed, waited for, filled or taken away; who
// needs the file is refused as unsafe_file, everybody else reads on, and without the trap all goes on. Many writers
// have their slots in NAME.lease: there a trap is refused, and at NAME.peers it is in nobody's way.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/block_store/many.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_table/many.hpp"
#include "holdfast/queue.hpp"
#include "holdfast/snapshot.hpp"
#include "support/capability.hpp"
#include "support/planted_traps.hpp"
#include "support/process.hpp"
#include "support/segment_tools.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using names = std::vector<std::string>;

const std::string a_text = "a message";
const auto a_message = std::as_bytes(std::span(a_text));
void require(bool done) {
    if (!done) throw std::runtime_error("a container did not do what it was asked");
}
void require_text(const auto& bytes) { require(std::ranges::equal(std::as_bytes(std::span(bytes)), a_message)); }

/// A container whose readers register, or whose writers are many. Each verb attaches, and works or throws.
struct container {
    const char* name;
    void (*make)(const std::string& uri);  // and puts a text in
    void (*write)(const std::string& uri, const attach_options& how);
    void (*read_registered)(const std::string& uri, const attach_options& how);  // finds the text
    void (*read)(const std::string& uri, const attach_options& how);  // the same, as one whom nobody knows; or none
};

const container registered[] = {
    {"broadcast",
     [](const std::string& uri) {
         require(static_cast<bool>(
             broadcast_writer::create(uri, {.capacity_bytes = 4096, .registered_readers = 2}).publish(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         require(static_cast<bool>(broadcast_writer::attach(uri, how).publish(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         std::vector<std::byte> out;
         require(static_cast<bool>(
             broadcast_reliable_reader::attach(uri, {.start = broadcast_start::oldest()}, how).read(out)));
         require_text(out);
     },
     [](const std::string& uri, const attach_options& how) {
         std::vector<std::byte> out;
         require(static_cast<bool>(broadcast_reader::attach(uri, broadcast_start::oldest(), how).read(out)));
         require_text(out);
     }},
    {"hash_map",
     [](const std::string& uri) {
         hash_map_options options;
         options.capacity = 20;
         options.registered_readers = 2;
         require(static_cast<bool>(hash_map<std::string_view>::create(uri, options).set("key", a_text)));
     },
     [](const std::string& uri, const attach_options& how) {
         require(static_cast<bool>(hash_map<std::string_view>::attach(uri, how).set("key", a_text)));
     },
     [](const std::string& uri, const attach_options& how) {
         std::string out;
         require(static_cast<bool>(hash_map_registered_reader<std::string_view>::attach(uri, how).find("key", out)));
         require_text(out);
     },
     [](const std::string& uri, const attach_options& how) {
         std::string out;
         require(static_cast<bool>(hash_map_reader<std::string_view>::attach(uri, how).find("key", out)));
         require_text(out);
     }},
    {"snapshot",
     [](const std::string& uri) {
         require(static_cast<bool>(
             snapshot_writer::create(uri, {.slot_bytes = 100, .pinned_readers = 2}).publish(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         require(static_cast<bool>(snapshot_writer::attach(uri, how).publish(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         snapshot_pinned_reader reader = snapshot_pinned_reader::attach(uri, how);
         require_text(reader.pin().bytes());
     },
     [](const std::string& uri, const attach_options& how) {
         std::vector<std::byte> out;
         require(static_cast<bool>(snapshot_reader::attach(uri, how).read(out)));
         require_text(out);
     }},
    {"queue",
     [](const std::string& uri) {
         queue_producer producer = queue_producer::create(uri, {.capacity_bytes = 4096});
         for (int i = 0; i < 10; ++i) require(static_cast<bool>(producer.try_push(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         require(static_cast<bool>(queue_producer::attach(uri, how).try_push(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         queue_consumer consumer = queue_consumer::attach(uri, {.segment = how});
         require_text(consumer.front().bytes);
         require(consumer.pop());
     },
     nullptr},
};

const container of_many[] = {
    {"hash_table",
     [](const std::string& uri) {
         using table = hash_table<std::uint64_t, std::uint64_t, writers::many>;
         require(static_cast<bool>(table::create(uri, {.capacity = 20, .writer_slots = 2}).try_insert(1, 2)));
     },
     [](const std::string& uri, const attach_options& how) {
         using table = hash_table<std::uint64_t, std::uint64_t, writers::many>;
         table one = table::attach(uri, how), other = table::attach(uri, how);
         require(one.fetch_add(1, std::uint64_t{0}) == 2U && other.fetch_add(1, std::uint64_t{0}) == 2U);
     },
     nullptr,
     [](const std::string& uri, const attach_options& how) {
         require(hash_table_reader<std::uint64_t, std::uint64_t>::attach(uri, how).find(1) == 2U);
     }},
    {"hash_map",
     [](const std::string& uri) {
         using map = hash_map<std::string_view, writers::many>;
         require(static_cast<bool>(map::create(uri, {.capacity = 20, .writer_slots = 2}).set("key", a_text)));
     },
     [](const std::string& uri, const attach_options& how) {
         using map = hash_map<std::string_view, writers::many>;
         map one = map::attach(uri, how), other = map::attach(uri, how);
         require(one.set("key", a_text) && other.set("key", a_text));
     },
     nullptr,
     [](const std::string& uri, const attach_options& how) {
         std::string out;
         require(static_cast<bool>(hash_map_reader<std::string_view>::attach(uri, how).find("key", out)));
         require_text(out);
     }},
    {"block_store",
     [](const std::string& uri) {
         using store = basic_block_store<writers::many>;
         require(static_cast<bool>(store::create(uri, {.bytes = 8192, .writer_slots = 2}).allocate(a_message)));
     },
     [](const std::string& uri, const attach_options& how) {
         using store = basic_block_store<writers::many>;
         store one = store::attach(uri, how), other = store::attach(uri, how);
         require(other.free(one.allocate(a_message).handle) == outcome::ok);
     },
     nullptr,
     [](const std::string& uri, const attach_options& how) {
         const auto reader = block_store_reader::attach(uri, how);
         std::uint64_t cursor = 0;
         std::vector<std::byte> out;
         require(static_cast<bool>(reader.read(reader.next_value(cursor).value(), out)));
         require_text(out);
     }},
};

using verb = void (*)(const std::string& uri, const attach_options& how);

/// A sticky folder of all. Who plants is a stranger, who meets it is root or a third user.
class PeersFolder : public segment_test {
 protected:
    void SetUp() override {
        if (!is_root() || !can_change_user()) GTEST_SKIP() << "needs: root, to play three users";
        std::ofstream(victim_) << "precious";
        ASSERT_EQ(::chmod(place_.path().c_str(), 01777), 0);
        ASSERT_EQ(::chmod(elsewhere_.path().c_str(), 01777), 0);
        ASSERT_EQ(::chmod(registry_.path().c_str(), 01777), 0);
    }
    [[nodiscard]] std::string path_of(const char* name) const { return place_.file(name); }
    void make(const container& kind, uid_t user) {
        ASSERT_EQ(as_user(user, [&] { return kind.make(uri_), std::string(); }), "") << kind.name;
    }
    // "" where the user may; nullptr is nobody's verb.
    [[nodiscard]] std::string may(uid_t user, verb what, const attach_options& how = {}) const {
        if (what == nullptr) return {};
        return as_user(user, [&] { return what(uri_, how), std::string(); });
    }
    [[nodiscard]] std::string is_refused(uid_t user, verb what, const attach_options& how = {}) const {
        if (what == nullptr) return {};
        return as_user(user, [&] { return expect_refusal(errc::unsafe_file, [&] { what(uri_, how); }); });
    }
    [[nodiscard]] std::string creation_is_refused(uid_t user, const container& kind) const {
        return as_user(user, [&] { return expect_refusal(errc::unsafe_file, [&] { kind.make(uri_); }); });
    }
    [[nodiscard]] bool is_strangers(const char* name) const {
        struct stat status{};
        return ::lstat(path_of(name).c_str(), &status) == 0 && status.st_uid == stranger;
    }
    [[nodiscard]] std::string write_as_stranger(const char* name, const std::string& content) const {
        return as_user(stranger, [&] {
            ::umask(0);  // open to all
            std::ofstream file(path_of(name), std::ios::binary);
            file << content << std::flush;
            return std::string(file ? "" : "it cannot be written");
        });
    }
    [[nodiscard]] names entries() const {
        names all = place_.entries();
        std::ranges::sort(all);
        return all;
    }
    void clear() const {
        for (const std::string& entry : place_.entries()) std::filesystem::remove(place_.file(entry));
    }

    unique_directory place_{"peers"}, elsewhere_{"peers"};
    std::string victim_ = elsewhere_.file("victim");
    std::string uri_ = place_.file_uri("s");
};

class PeersTrap : public PeersFolder, public ::testing::WithParamInterface<planted> {
 protected:
    void TearDown() override {
        if (IsSkipped()) return;
        EXPECT_EQ(content_of(victim_), "precious");
        EXPECT_FALSE(entries_containing(elsewhere_.path(), ".none").size()) << "a dangling link was followed";
    }
    void plant(const char* name) {
        ASSERT_EQ(
            as_user(stranger,
                    [&] {
                        ::umask(0);  // open to all
                        return std::string(GetParam().plant(path_of(name), victim_) ? "" : "it cannot be planted");
                    }),
            "");
    }
    /// Each kind, for each user, with what the kernel keeps from being opened in such a folder on and off.
    template <class Each>
    void for_each(std::span<const container> kinds, Each&& each) {
        for (const char* const setting : {"0", "1"}) {
            const scoped_setting links("/proc/sys/fs/protected_symlinks", setting);
            const scoped_setting fifos("/proc/sys/fs/protected_fifos", setting);
            for (const container& kind : kinds)
                for (const uid_t user : {uid_t{0}, third_user}) {
                    SCOPED_TRACE(std::string(kind.name) + ", user " + std::to_string(user) + ", " + setting);
                    each(kind, user);
                    clear();
                }
        }
    }
};

TEST_P(PeersTrap, BeforeCreationIsRefusedAndNothingElseIsLeft) {
    for_each(registered, [&](const container& kind, uid_t user) {
        plant("s.peers");
        EXPECT_EQ(creation_is_refused(user, kind), "");
        EXPECT_EQ(entries(), names{"s.peers"});
        EXPECT_TRUE(is_strangers("s.peers"));
    });
}

TEST_P(PeersTrap, InThePlaceOfAPeersFileIsRefusedToWhoNeedsItAndReadersReadOn) {
    for_each(registered, [&](const container& kind, uid_t user) {
        make(kind, user);
        const std::string before = content_of(path_of("s"));
        ASSERT_EQ(::unlink(path_of("s.peers").c_str()), 0);
        plant("s.peers");
        EXPECT_EQ(is_refused(user, kind.write), "");
        EXPECT_EQ(is_refused(user, kind.read_registered), "");
        EXPECT_EQ(may(user, kind.read), "");
        EXPECT_TRUE(is_strangers("s.peers"));
        EXPECT_EQ(content_of(path_of("s")), before);
        EXPECT_EQ(entries(), (names{"s", "s.lease", "s.peers"}));

        ASSERT_TRUE(std::filesystem::remove(path_of("s.peers")));
        EXPECT_EQ(may(user, kind.write), "") << "the next writer makes the file anew";
        EXPECT_EQ(may(user, kind.read_registered), "");
    });
}

// It goes with the name where the user may take it away, and whatever it is, nothing behind it does.
TEST_P(PeersTrap, BesideARemovedSegmentIsNotFollowed) {
    for_each(registered, [&](const container& kind, uid_t user) {
        make(kind, user);
        ASSERT_EQ(::unlink(path_of("s.peers").c_str()), 0);
        plant("s.peers");
        EXPECT_EQ(as_user(user, [&] { return segment::remove(uri_), std::string(); }), "");
        for (const std::string& left : place_.entries()) EXPECT_EQ(left, "s.peers");
        EXPECT_TRUE(user == 0 || is_strangers("s.peers"));
    });
}

TEST_P(PeersTrap, AtTheLeaseOfManyWritersIsRefusedAndReadersReadOn) {
    for_each(of_many, [&](const container& kind, uid_t user) {
        plant("s.lease");
        EXPECT_EQ(creation_is_refused(user, kind), "");
        EXPECT_EQ(entries(), names{"s.lease"});
        EXPECT_TRUE(is_strangers("s.lease"));
        clear();
        make(kind, user);
        ASSERT_EQ(::unlink(path_of("s.lease").c_str()), 0);
        plant("s.lease");
        EXPECT_EQ(is_refused(user, kind.write), "");
        EXPECT_EQ(may(user, kind.read), "");
        EXPECT_TRUE(is_strangers("s.lease"));
        EXPECT_EQ(entries(), (names{"s", "s.lease"}));
    });
}

TEST_P(PeersTrap, BesideAContainerOfManyWritersIsInNobodysWay) {
    for_each(of_many, [&](const container& kind, uid_t user) {
        plant("s.peers");
        make(kind, user);
        EXPECT_EQ(may(user, kind.write), "");
        EXPECT_EQ(may(user, kind.read), "");
        EXPECT_TRUE(is_strangers("s.peers"));
    });
}

// A registered reader may write the peers file and nothing else. It writes over what the file is known by, and holds
// every lock in it: the next writer makes another one, and the reader's own place is all that is lost.
TEST_F(PeersFolder, AReaderThatWritesOverTheFileAndLocksItKeepsNoWriterOut) {
    const auto spoil = [this] {
        memory::descriptor file = memory::open_at(AT_FDCWD, path_of("s.peers").c_str(), O_RDWR);
        char byte = 0;
        require(::pread(file.get(), &byte, 1, 8) == 1);
        byte = static_cast<char>(byte ^ 1);
        require(::pwrite(file.get(), &byte, 1, 8) == 1);
        require(memory::try_lock(file.get(), memory::lock_mode::exclusive, 0, header_bytes));
        return file;
    };
    for (const container& kind : registered) {
        SCOPED_TRACE(kind.name);
        make(kind, third_user);
        const memory::descriptor held = spoil();
        EXPECT_EQ(may(third_user, kind.write), "");
        EXPECT_EQ(may(third_user, kind.read_registered), "");
        EXPECT_FALSE(memory::still_named(path_of("s.peers"), held.get()));
        clear();
    }
    // Of many writers, who share the lease, the same.
    segment_spec spec = pattern_spec(1, 4096);
    spec.policy = writers::many;
    spec.peer_slots = 2;
    const segment one = segment::create(uri_, spec, {}, [](std::span<std::byte>) {});
    const memory::descriptor held = spoil();
    EXPECT_TRUE(segment::attach(uri_, access::read_write).writable());
    EXPECT_FALSE(memory::still_named(path_of("s.peers"), held.get()));
    EXPECT_TRUE(segment::attach(uri_, access::read_write).writable()) << "and those that come after it";
}

INSTANTIATE_TEST_SUITE_P(Traps, PeersTrap, ::testing::ValuesIn(std::begin(traps), traps_of_anybody_end()),
                         [](const auto& trap) { return std::string(trap.param.name); });

// Byte by byte what belongs there, and writable by all: its owner could put any position or claim into it.
TEST_F(PeersFolder, AStrangersCopyOfThePeersFileNeedsTrust) {
    for (const container& kind : registered)
        for (const uid_t user : {uid_t{0}, third_user}) {
            SCOPED_TRACE(std::string(kind.name) + ", user " + std::to_string(user));
            make(kind, user);
            const std::string right = content_of(path_of("s.peers"));
            ASSERT_EQ(::unlink(path_of("s.peers").c_str()), 0);
            ASSERT_EQ(write_as_stranger("s.peers", right), "");
            EXPECT_EQ(is_refused(user, kind.write), "");
            EXPECT_EQ(is_refused(user, kind.read_registered), "");
            EXPECT_EQ(may(user, kind.read), "");
            EXPECT_EQ(content_of(path_of("s.peers")), right);
            EXPECT_TRUE(is_strangers("s.peers"));
            attach_options trusting;
            trusting.trust.owner = stranger;
            EXPECT_EQ(may(user, kind.write, trusting), "");
            EXPECT_EQ(may(user, kind.read_registered, trusting), "");
            EXPECT_TRUE(is_strangers("s.peers")) << "a file that fits is used as it is";

            clear();
            ASSERT_EQ(write_as_stranger("s.peers", "his"), "");
            EXPECT_EQ(creation_is_refused(user, kind), "");
            EXPECT_EQ(content_of(path_of("s.peers")), "his");
            EXPECT_EQ(entries(), names{"s.peers"});
            clear();
        }
}

// Where the kernel lets a stranger link what he may not write (fs.protected_hardlinks).
class PeersLink : public PeersFolder {
 protected:
    void SetUp() override {
        PeersFolder::SetUp();
        if (!IsSkipped() && !unprotected_.changed()) GTEST_SKIP() << "needs: setting fs.protected_hardlinks";
    }
    void link_as_stranger(const std::string& from, const std::string& to) {
        ASSERT_EQ(
            as_user(stranger, [&] { return std::string(::link(from.c_str(), to.c_str()) == 0 ? "" : "cannot link"); }),
            "");
    }

 private:
    scoped_setting unprotected_{"/proc/sys/fs/protected_hardlinks", "0"};
};

// Of two segments with one peers file the readers of each would hold up the writer of the other.
TEST_F(PeersLink, OfAnotherSegmentsPeersFileIsRefusedAndThatFileLeftAlone) {
    for (const container& kind : registered)
        for (const uid_t user : {uid_t{0}, third_user}) {
            SCOPED_TRACE(std::string(kind.name) + ", user " + std::to_string(user));
            const std::string other = elsewhere_.file("other"), others = other + ".peers";
            ASSERT_EQ(as_user(user, [&] { return kind.make("file:" + other), std::string(); }), "");
            const std::string right = content_of(others);
            link_as_stranger(others, path_of("s.peers"));
            EXPECT_EQ(creation_is_refused(user, kind), "");
            EXPECT_EQ(entries(), names{"s.peers"});
            clear();

            make(kind, user);
            ASSERT_EQ(::unlink(path_of("s.peers").c_str()), 0);
            link_as_stranger(others, path_of("s.peers"));
            EXPECT_EQ(is_refused(user, kind.write), "");
            EXPECT_EQ(is_refused(user, kind.read_registered), "");
            EXPECT_EQ(may(user, kind.read), "");
            EXPECT_TRUE(std::filesystem::equivalent(path_of("s.peers"), others));
            EXPECT_EQ(content_of(others), right);
            clear();
            for (const char* suffix : {"", ".lease", ".peers"}) ::unlink((other + suffix).c_str());
        }
}

TEST_F(PeersLink, ToOurOwnPeersFileIsRefusedUntilItIsGone) {
    for (const container& kind : registered)
        for (const uid_t user : {uid_t{0}, third_user}) {
            SCOPED_TRACE(std::string(kind.name) + ", user " + std::to_string(user));
            make(kind, user);
            const std::string right = content_of(path_of("s.peers"));
            link_as_stranger(path_of("s.peers"), elsewhere_.file("second"));
            EXPECT_EQ(is_refused(user, kind.write), "");
            EXPECT_EQ(is_refused(user, kind.read_registered), "");
            EXPECT_EQ(may(user, kind.read), "");
            EXPECT_EQ(content_of(path_of("s.peers")), right);
            ASSERT_EQ(::unlink(elsewhere_.file("second").c_str()), 0);
            EXPECT_EQ(may(user, kind.write), "");
            EXPECT_EQ(may(user, kind.read_registered), "");
            clear();
        }
}

}  // namespace
