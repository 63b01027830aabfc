// SPDX-License-Identifier: Apache-2.0
// Any bytes as the file of a segment, header, body and peers: attached to as reader and as writer, described, verified,
// searched, scanned and dumped by name, as the program does, and asked for over HTTP, as the server shows it. Errors
// are answers.
// Input: flags (1: the header's checksum is made right; 2: the file ends where the input says; 4: the metrics are asked
// for, too, which costs most), u32 bytes of the segment, u32 bytes of its peers file, then pieces of both, one file
// behind the other: u32 offset, u16 bytes, the bytes.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/peers.hpp"
#include "holdfast/segment.hpp"
#include "inspect/attach.hpp"
#include "inspect/description.hpp"
#include "inspect/dumper.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/map_reader.hpp"
#include "inspect/metrics_reader.hpp"
#include "inspect/object_reader.hpp"
#include "inspect/verification.hpp"
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
    static const serve::shared_counts counts = serve::shared_counts::open_or_create(where.uri_of("counts"), 1);
    test::asked_server server(where.uri(), counts, answer_bytes_max);
    const auto judged = [](auto&& judge) { judge(); };  // nobody catches what an answer that may not be given throws
    server.ask_a_little(judged);
    if ((flags & 4U) != 0) (void)server.get("/metrics", judged);
    return 0;
}
