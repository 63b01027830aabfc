// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of a segment, header, body and peers: attached to as reader and as writer, described, verified,
// searched, scanned and dumped by name, watched for its rates, as the program does, and asked for over HTTP, as the
// server shows it; followed, saved, repaired and changed. Errors are answers, but what was saved restores to a sound
// segment, and what was salvaged verifies. Input: flags, u32 bytes of the segment, u32 bytes of its peers file, then
// pieces of both, one file behind the other: u32 offset, u16 bytes, the bytes. The flags:
//   1    the header's checksum is made right
//   2    the file ends where the input says
//   4    the metrics are asked for, too, which costs most
//   8    it is repaired into private memory, where its header is right: proving another takes a hundred times as long
//   16   saved and restored
//   32   followed and consumed
//   64   changed by text, merged into and grown, and written on by each writer of its kind that attaches by name
//   128  asked who holds it, and listed beside what else there is
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "golden/subjects.hpp"
#include "holdfast/array/dynamic.hpp"
#include "holdfast/broadcast.hpp"
#include "holdfast/error.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_map/registered_reader.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/grow.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "inspect/activity.hpp"
#include "inspect/attach.hpp"
#include "inspect/description.hpp"
#include "inspect/dumper.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/follower.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/listing.hpp"
#include "inspect/loader.hpp"
#include "inspect/map_keys.hpp"
#include "inspect/map_reader.hpp"
#include "inspect/metrics_reader.hpp"
#include "inspect/object_reader.hpp"
#include "inspect/processes.hpp"
#include "inspect/repair.hpp"
#include "inspect/restorer.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "inspect/verify_body.hpp"
#include "support/asked_server.hpp"

namespace {

using namespace holdfast;

constexpr std::size_t segment_bytes_max = std::size_t{64} << 10;
// A page of 1000 entries, each with all that a header's schema has room for.
constexpr std::size_t answer_bytes_max = std::size_t{8} << 20;

/// A folder in memory, gone with the program, that also takes the registry's files.
class place {
 public:
    place() {
        std::string name = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
        name += "/hf-fuzz-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) std::abort();
        folder_ = name;
        ::setenv("HOLDFAST_REGISTRY", (folder_ / "registry").c_str(), 1);
    }
    place(const place&) = delete;
    place& operator=(const place&) = delete;
    ~place() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
    }
    [[nodiscard]] std::string uri() const { return uri_of("s"); }
    [[nodiscard]] std::string uri_of(const char* name) const { return "file:" + (folder_ / name).string(); }
    void put(const char* name, std::span<const std::byte> bytes) const {
        const auto path = folder_ / name;
        std::ofstream out(path, std::ios::binary | std::ios::trunc);
        out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        out.close();
        if (!out) std::abort();
        std::filesystem::permissions(path, std::filesystem::perms{0600});
    }
    void take_away(const char* name) const { std::filesystem::remove(folder_ / name); }

 private:
    std::filesystem::path folder_;
};

class reader_of_input {
 public:
    explicit reader_of_input(std::span<const std::uint8_t> input) : left_(input) {}
    template <class Number>
    [[nodiscard]] Number number() {
        Number value = 0;
        const auto from = bytes(sizeof value);
        if (!from.empty()) std::memcpy(&value, from.data(), from.size());
        return value;
    }
    [[nodiscard]] std::span<const std::uint8_t> bytes(std::size_t count) {
        const auto part = left_.first(std::min(count, left_.size()));
        left_ = left_.subspan(part.size());
        return part;
    }
    [[nodiscard]] bool empty() const noexcept { return left_.empty(); }

 private:
    std::span<const std::uint8_t> left_;
};

void require(bool holds) {
    if (!holds) std::abort();
}

/// A file without a name that says `text`.
class memory_file {
 public:
    explicit memory_file(std::string_view text) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
        require(file_ >= 0 && ::pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    }
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file() { ::close(file_); }
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
    int file_;
};

void allowed(const std::function<void()>& look) {
    try {
        look();
    } catch (const error&) {
    }
}

void look_everywhere(const std::string& uri) {
    using namespace inspect;
    std::string text;
    allowed([&] {
        json_out out(text);
        append_json(out, describe(uri, {.pages = false}));
    });
    allowed([&] {
        json_out out(text);
        append_json(out, verify(uri));
    });
    allowed([&] {
        const auto reader = keyed_reader::open(uri);
        for (const match how : {match::exact, match::covering}) (void)reader->get("55", how, text);
        (void)reader->size();
        std::uint64_t seen = 0;
        (void)dump(*reader, {}, [&](std::string_view piece) { seen += piece.size(); });
    });
    allowed([&] {
        const map_reader map(attach_to_look(uri));
        (void)map.get("55", text);
        std::uint64_t seen = 0;
        map.scan([&](const hash_map_entry& entry) {
            text.clear();
            map.append_json(text, entry);
            return ++seen < 100;
        });
    });
    allowed([&] { for_each_counter(*attach_to_look(uri), [](auto, auto, auto) {}); });
    allowed([&] {
        json_out out(text);
        append_json(out, latencies_of(*attach_to_look(uri)));
    });
    allowed([&] { (void)read_object(attach_to_look(uri), text); });
    allowed([&] {
        const segment writer = segment::attach(uri, access::read_write);
        const peers table = peers::open(writer);
        for (std::uint32_t i = 0; i < std::min<std::uint32_t>(table.size(), 8); ++i) (void)table.slot(i)[0];
    });
}

// As top shows it: damage is a line of it, and no end.
void watch(const std::string& uri) {
    inspect::activity_watch watch;
    std::string text;
    inspect::json_out out(text);
    for (unsigned looks = 0; looks < 2; ++looks) {
        const auto seen = watch.look_at_all({uri});
        require(seen.size() == 1);
        inspect::append_json(out, seen[0]);
        (void)seen[0].lag_max();
        watch.tick();
    }
}

// As who and ls show it; which processes have it open does not depend on its bytes.
void ask_who(const std::string& uri) {
    allowed([&] {
        std::string text;
        inspect::json_out out(text);
        inspect::append_json(out, inspect::usage_of(uri, false));
    });
    (void)inspect::list_segments();
}

// What comes of the salvaged parts is checked by repair itself.
void repair_it(const std::string& uri) {
    bool sound = false;
    allowed([&] {
        (void)inspect::attach_to_look(uri);
        sound = true;
    });
    if (!sound) return;
    try {
        inspect::repair_options how;
        how.dry_run = true;
        (void)inspect::repair(uri, how);
        how.keep_doubtful = true;
        (void)inspect::repair(uri, how);
    } catch (const error& refused) {
        require(std::string_view(refused.what()).find("does not verify") == std::string_view::npos);
    }
}

// Damage is refused, so whatever is saved can be restored and is sound.
void save_and_restore(const std::string& uri) {
    std::string saved;
    bool whole = false;
    allowed([&] {
        (void)inspect::save(uri, [&](std::string_view piece) { saved.append(piece); });
        whole = true;
    });
    if (!whole) return;
    const memory_file file(saved);
    inspect::saved_reader reader(file.path());
    const auto made = std::make_shared<const segment>(inspect::restore_segment(reader, "heap:", {}));
    inspect::verification found;
    inspect::verify_body(made, found);
    require(found.intact());
}

// Any message may be taken for a change of a map: what it tells of lies within it.
void take_for_a_change(std::span<const std::byte> message) {
    const auto inside = [&](std::span<const std::byte> part) {
        return part.data() >= message.data() && part.data() + part.size() <= message.data() + message.size();
    };
    for (const unsigned type : {0U, 1U, 2U, 3U, 257U, 258U, 65535U}) {
        const auto event = hash_map_event::parse(message, static_cast<std::uint16_t>(type));
        require(!event || (inside(event->key) && (!event->value || inside(*event->value))));
    }
}

void follow(const std::string& uri) {
    constexpr int messages_max = 100;
    using from = inspect::follow_start::from;
    std::vector<std::byte> message;
    for (const inspect::follow_options& how :
         {inspect::follow_options{.start = {from::oldest, 0}}, inspect::follow_options{.start = {from::last, 3}},
          inspect::follow_options{.start = {from::time, 1'700'000'000'020'000'000}},
          inspect::follow_options{.consume = true}})
        allowed([&] {
            const auto messages = inspect::follower::open(uri, how);
            outcome got = outcome::ok;
            for (int n = 0; n < messages_max && (got == outcome::ok || got == outcome::lapped); ++n) {
                got = messages->next(message).status;
                if (got == outcome::ok) take_for_a_change(message);
                messages->release();
            }
            (void)messages->writer_gone();
            (void)messages->newest();
        });
}

/// Holds back libFuzzer's alarm, which takes the time by the clock that still_world stands still, and would find that
/// the input has taken years. What hangs meanwhile is ended by the test's own time limit.
class no_alarms {
 public:
    no_alarms() {
        ::sigset_t alarm;
        ::sigemptyset(&alarm);
        ::sigaddset(&alarm, SIGALRM);
        ::pthread_sigmask(SIG_BLOCK, &alarm, &before_);
    }
    no_alarms(const no_alarms&) = delete;
    no_alarms& operator=(const no_alarms&) = delete;
    ~no_alarms() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
    ::sigset_t before_;
};

// As programs do that know what it is: attach, recover, and some operations. All kinds that have their name for the
// front of theirs, and the two that lie in segments of another kind.
void write_on(const std::string& uri) {
    std::string kind;
    allowed([&] { kind = kind_name(inspect::attach_to_look(uri)->info().kind); });
    if (kind.empty()) return;
    const no_alarms quiet;
    const test::still_world then(test::golden_moment_ns, test::golden_seed);
    for (const test::golden_subject& each : test::golden_subjects) {
        const std::string_view name = each.name;
        if (!name.starts_with(kind) && name != "published_index" && name != "small_table") continue;
        try {
            each.go_on(uri);
        } catch (const std::runtime_error&) {  // refused to attach, or an operation was
        }
    }
}

// As put, del, load --merge and grow do it.
void change(const std::string& uri) {
    allowed([&] {
        auto table = dynamic_hash_table::attach(uri);
        table.set_patience(std::chrono::milliseconds(1));
        const inspect::entry_codec codec(table.schema());
        std::vector<std::byte> key(codec.key_bytes()), value(codec.value_bytes());
        for (const char* const text : {"5", "150"}) {
            if (codec.read_key(text, key)) return;
            (void)table.insert_or_assign(key, value);
            (void)table.modify(key, value, [&] { return !codec.change_value("visits=1", value); });
        }
        (void)table.erase_if(key, value, [&] { return !value.empty() && value[0] == std::byte{1}; });
        (void)table.erase(key);
    });
    for (const char* const text : {"5,7007,0.875,7,1\n151,1,2,3,4\n", "5,7\n151,1\n"}) {
        const memory_file records(text);
        allowed([&] {
            inspect::load_options how;
            how.format = inspect::file_format::csv;
            how.merge = true;
            (void)inspect::load(uri, records.path(), how);
        });
    }
    allowed([&] {  // the last message tells where the feed goes on
        hash_map_feed feed(broadcast_writer::attach(uri));
        (void)feed.last_told();
    });
    allowed([&] {
        auto array = dynamic_array::attach(uri);
        std::vector<std::byte> element(array.element_bytes(), std::byte{3});
        for (const std::uint64_t index : {std::uint64_t{0}, array.size() / 2, array.size() - 1}) {
            if (index >= array.size()) continue;
            array.store(index, element);
            require(array.load(index, element) == outcome::ok);
        }
    });
    allowed([&] {
        hash_map_feed feed(broadcast_writer::create("heap:", {.capacity_bytes = 4096}));
        auto map = hash_map<std::span<const std::byte>>::attach(uri, {}, {.feed = &feed});
        std::vector<std::byte> key;
        if (inspect::map_keys(map.segment()).read("key 25", key)) return;
        const std::string text(100, 'x');
        (void)map.set(key, std::as_bytes(std::span(text)), {.ttl = std::chrono::seconds(5)});
        // Some of what it asks for it notes beside the map, where the writer looks before it evicts.
        allowed([&] {
            const auto reader = hash_map_registered_reader<std::span<const std::byte>>::attach(uri);
            for (unsigned asked = 0; asked < 16; ++asked) (void)reader.find(key, std::span<std::byte>());
            (void)map.set(key, std::as_bytes(std::span(text)));
        });
        (void)map.erase(key);
    });
    allowed([&] {
        auto table = dynamic_hash_table::attach(uri);
        if (table.segment().info().policy == writers::many) return;  // leads others, which are not here
        holdfast::detail::table_growth<dynamic_hash_table> growth(table, 100);
        while (!growth.advance(table)) continue;
    });
    write_on(uri);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const place where;
    reader_of_input input({data, size});
    const auto flags = input.number<std::uint8_t>();
    const std::size_t bytes = input.number<std::uint32_t>() % (segment_bytes_max + 1);
    const std::size_t peers_bytes = input.number<std::uint32_t>() % (segment_bytes_max / 8 + 1);
    std::vector<std::byte> both(bytes + peers_bytes);
    while (!input.empty()) {
        const std::size_t at = input.number<std::uint32_t>();
        const auto piece = input.bytes(input.number<std::uint16_t>());
        if (at < both.size() && !piece.empty())
            std::memcpy(both.data() + at, piece.data(), std::min(piece.size(), both.size() - at));
    }
    if (flags % 2 != 0 && bytes >= header_bytes) {
        layout::segment_header header{};
        std::memcpy(&header, both.data(), sizeof header);
        if ((flags & 2U) == 0) {  // as long as the file is
            header.total_bytes = bytes;
            header.body_bytes = std::min<std::uint64_t>(header.body_bytes, bytes - header_bytes);
        }
        header.header_checksum = layout::checksum_of(header);
        std::memcpy(both.data(), &header, sizeof header);
    }
    where.put("s", std::span(both).first(bytes));
    if (peers_bytes != 0)
        where.put("s.peers", std::span(both).subspan(bytes));
    else
        where.take_away("s.peers");
    look_everywhere(where.uri());
    watch(where.uri());
    if ((flags & 128U) != 0) ask_who(where.uri());
    if ((flags & 8U) != 0) repair_it(where.uri());
    if ((flags & 16U) != 0) save_and_restore(where.uri());
    if ((flags & 32U) != 0) follow(where.uri());
    if ((flags & 64U) != 0) change(where.uri());
    static const serve::shared_counts counts = serve::shared_counts::open_or_create(where.uri_of("counts"), 1);
    test::asked_server server(where.uri(), counts, answer_bytes_max);
    const auto judged = [](auto&& judge) { judge(); };  // nobody catches what an answer that may not be given throws
    server.ask_a_little(judged);
    if ((flags & 4U) != 0) (void)server.get("/metrics", judged);
    return 0;
}
