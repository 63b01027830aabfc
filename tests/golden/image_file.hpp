// SPDX-License-Identifier: Apache-2.0
// image_file.hpp - a segment's bytes in a small file, and back in any kind of memory.
//
// The file: "HFGOLD1\n", the length of the image (8 bytes), then for each piece of it that is not zero its offset and
// its length (8 bytes each) and its bytes. All else is zero.
#pragma once

#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "holdfast/layout/block_store_layout.hpp"
#include "holdfast/layout/hash_map_layout.hpp"
#include "holdfast/layout/hash_table_layout.hpp"
#include "holdfast/segment.hpp"
#include "support/memory_kinds.hpp"
#include "support/process.hpp"

namespace holdfast::test {

using image_bytes = std::vector<std::byte>;

inline constexpr char golden_magic[] = "HFGOLD1\n";
inline constexpr std::size_t golden_magic_bytes = sizeof golden_magic - 1;

[[nodiscard]] inline image_bytes read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) throw std::runtime_error(path + " cannot be read");
    const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}
[[nodiscard]] inline std::string text_of_file(const std::string& path) {
    const image_bytes bytes = read_file(path);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void write_file(const std::string& path, std::span<const std::byte> bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.flush();
    if (!out) throw std::runtime_error(path + " cannot be written");
    if (::chmod(path.c_str(), 0600) != 0) throw std::system_error(errno, std::generic_category(), path);
}

/// The pieces of `image` between which at least 32 bytes are zero.
[[nodiscard]] inline image_bytes pack_image(std::span<const std::byte> image) {
    constexpr std::size_t gap = 32;
    image_bytes out;
    const auto put = [&out](const void* from, std::size_t bytes) {
        const auto* at = static_cast<const std::byte*>(from);
        out.insert(out.end(), at, at + bytes);
    };
    const auto put_number = [&](std::uint64_t number) { put(&number, sizeof number); };
    put(golden_magic, golden_magic_bytes);
    put_number(image.size());
    const auto is_set = [](std::byte b) { return b != std::byte{0}; };
    for (auto from = std::find_if(image.begin(), image.end(), is_set); from != image.end();) {
        auto to = from;  // behind the last byte that is set, so far
        for (auto next = from; next != image.end() && static_cast<std::size_t>(next - to) < gap; ++next)
            if (is_set(*next)) to = next + 1;
        put_number(static_cast<std::uint64_t>(from - image.begin()));
        put_number(static_cast<std::uint64_t>(to - from));
        put(&*from, static_cast<std::size_t>(to - from));
        from = std::find_if(to, image.end(), is_set);
    }
    return out;
}

[[nodiscard]] inline image_bytes unpack_image(std::span<const std::byte> packed, const std::string& name) {
    constexpr std::uint64_t image_bytes_max = 1 << 24;
    std::size_t at = 0;
    const auto take = [&](std::size_t bytes) {
        if (packed.size() - at < bytes) throw std::runtime_error(name + " ends too early");
        at += bytes;
        return packed.data() + at - bytes;
    };
    const auto take_number = [&] {
        std::uint64_t number = 0;
        std::memcpy(&number, take(sizeof number), sizeof number);
        return number;
    };
    if (std::memcmp(take(golden_magic_bytes), golden_magic, golden_magic_bytes) != 0)
        throw std::runtime_error(name + " is no golden image");
    const std::uint64_t size = take_number();
    if (size > image_bytes_max) throw std::runtime_error(name + " is too large");
    image_bytes image(static_cast<std::size_t>(size));
    while (at < packed.size()) {
        const std::uint64_t offset = take_number(), bytes = take_number();
        if (offset > size || bytes > size - offset) throw std::runtime_error(name + " has a piece outside the image");
        std::memcpy(image.data() + offset, take(static_cast<std::size_t>(bytes)), static_cast<std::size_t>(bytes));
    }
    return image;
}

/// Zeroes the pids of writer slots, which lie so far apart.
inline void forget_writers(std::span<std::byte> image, std::uint64_t first, std::uint64_t stride, std::uint64_t slots) {
    for (std::uint64_t slot = 0; slot < slots; ++slot)
        std::memset(image.data() + header_bytes + first + slot * stride, 0, 8);
}

/// What of an image depends on the process that made it: who holds the lease, and the writer slots. Zero in golden
/// images.
inline void forget_owner(std::span<std::byte> image) {
    constexpr std::size_t from = offsetof(layout::segment_header, owner_pid);
    constexpr std::size_t to = offsetof(layout::segment_header, moved);
    std::fill(image.begin() + from, image.begin() + to, std::byte{0});
    layout::segment_header header;
    std::memcpy(&header, image.data(), sizeof header);
    const auto of_blocks = [&](const layout::block_store_geometry& g, std::uint64_t at) {
        if (g.writer_slots == 0) return;
        forget_writers(image, at + g.journals_offset() + layout::block_journal_pid_offset, layout::block_journal_bytes,
                       g.writer_slots);
    };
    const auto of_table = [&](const layout::hash_table_geometry& g) {
        forget_writers(image, g.journal_offset + layout::journal_pid_offset, g.journal_bytes(), g.writer_slots);
    };
    const auto& words = header.geometry;
    const std::uint64_t body = header.body_bytes;
    layout::block_store_geometry blocks;
    layout::hash_table_geometry table;
    layout::hash_map_geometry map;
    switch (static_cast<container_kind>(header.kind)) {
        case container_kind::block_store:
            if (layout::read_block_store_geometry(words, body, blocks) == nullptr) of_blocks(blocks, 0);
            break;
        case container_kind::hash_table:
            if (layout::read_hash_table_geometry(words, body, table) == nullptr) of_table(table);
            break;
        case container_kind::hash_map:
            if (layout::read_hash_map_geometry(words, body, map) != nullptr) break;
            of_table(map.table);
            of_blocks(map.store, map.store_offset());
            break;
        default: break;
    }
}

[[nodiscard]] inline bool path_exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

/// The image of a segment and, where it has them, of its peers file and of the table that it was growing into.
struct golden_image {
    image_bytes data, peers, growing;

    [[nodiscard]] static golden_image of_file_segment(const std::string& path) {
        golden_image image;
        image.data = read_file(path);
        forget_owner(image.data);
        if (path_exists(path + ".peers")) image.peers = read_file(path + ".peers");
        if (!path_exists(path + ".growing")) return image;
        image.growing = read_file(path + ".growing");
        forget_owner(image.growing);
        return image;
    }
    [[nodiscard]] static golden_image load(const std::string& stem) {
        const auto unpacked = [](const std::string& path) { return unpack_image(read_file(path), path); };
        golden_image image;
        image.data = unpacked(stem + ".image");
        if (path_exists(stem + ".peers")) image.peers = unpacked(stem + ".peers");
        if (path_exists(stem + ".growing")) image.growing = unpacked(stem + ".growing");
        return image;
    }
    void store(const std::string& stem) const {
        write_file(stem + ".image", pack_image(data));
        if (!peers.empty()) write_file(stem + ".peers", pack_image(peers));
        if (!growing.empty()) write_file(stem + ".growing", pack_image(growing));
    }
    /// Puts its files where of_file_segment() took them.
    void lay_at(const std::string& path) const {
        write_file(path, data);
        if (!peers.empty()) write_file(path + ".peers", peers);
        if (!growing.empty()) write_file(path + ".growing", growing);
    }
    /// Tables grow where names lead to files.
    [[nodiscard]] bool can_lie_in(std::string_view kind) const {
        return growing.empty() || kind == "file" || kind == "posix";
    }
};

/// A golden image as a segment in memory of a kind that it can lie in; gone with this object.
class placed_image {
 public:
    placed_image(const std::string& kind, const golden_image& image) : place_(kind), uri_(place_.uri()) {
        if (kind == "memfd") {
            place_in_descriptors(image);
            return;
        }
        const auto where = holdfast::detail::places_of(memory::uri::parse(uri_));
        if (!memory::uri::parse(uri_).is_sysv()) {
            image.lay_at(where.data());
            return;
        }
        if (!image.peers.empty()) write_file(where.peers(), image.peers);
        place_in_system_v(image.data);
    }
    [[nodiscard]] const std::string& uri() const noexcept { return uri_; }

 private:
    void place_in_system_v(std::span<const std::byte> data) const {
        const memory::uri name = memory::uri::parse(uri_);
        const int huge = name.kind == memory::kind::sysv_huge ? SHM_HUGETLB : 0;
        const int id = ::shmget(static_cast<key_t>(name.key), data.size(), IPC_CREAT | IPC_EXCL | huge | 0600);
        void* const at = id < 0 ? MAP_FAILED : ::shmat(id, nullptr, 0);
        if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "System V memory");
        std::memcpy(at, data.data(), data.size());
        ::shmdt(at);
    }
    void place_in_descriptors(const golden_image& image) {
        const auto make = [&](std::span<const std::byte> bytes, bool sealed) {
            rig::descriptor& file = files_.emplace_back(::memfd_create("golden", MFD_CLOEXEC | MFD_ALLOW_SEALING));
            if (file.get() < 0 || !rig::write_all(file.get(), bytes.data(), bytes.size()) ||
                (sealed && ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0))
                throw std::system_error(errno, std::generic_category(), "memfd");
            return std::to_string(file.get());
        };
        uri_ = "memfd:" + make(image.data, true);
        uri_ += "," + make({}, false);
        if (!image.peers.empty()) uri_ += "," + make(image.peers, true);
    }

    memory_place place_;
    std::string uri_;
    std::vector<rig::descriptor> files_;
};

/// The first byte in which two images differ, or nothing.
[[nodiscard]] inline std::string difference(const image_bytes& a, const image_bytes& b) {
    if (a.size() != b.size()) return std::to_string(a.size()) + " bytes for " + std::to_string(b.size());
    const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin());
    if (left == a.end()) return {};
    const auto at = static_cast<std::size_t>(left - a.begin());
    return at < header_bytes ? "byte " + std::to_string(at) + " of the header"
                             : "byte " + std::to_string(at - header_bytes) + " of the body";
}

}  // namespace holdfast::test
