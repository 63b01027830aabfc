// SPDX-License-Identifier: Apache-2.0
// saved_file.hpp - what a segment holds as a stream of bytes that checks itself: what `save` writes and `restore`
// reads.
//
// Format v1 (little-endian, every part a multiple of 8 bytes)
//   header    saved_header; then the schema's text, zero-padded; then u64 checksum of both
//   section   u64 bytes, u64 items; then that many bytes, zero-padded; then u64 checksum
//   end       a section of no bytes; its items are those of all sections
// (I1) Contents, not memory: keys, values, published objects. So a file outlives the layout that the segment had:
//      whether a program can read it is told by contents_version, never by container_version.
// (I2) Each checksum goes on from the one before it: sections that are missing, doubled or in another order are found.
// (I3) Until its checksum was right, a number of the file is used for nothing but to read on, and never for more than
//      section_bytes_max.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/memory/descriptor.hpp"

namespace holdfast::inspect {

inline constexpr std::uint64_t saved_magic = 0x3144455641534648;  // "HFSAVED1" in memory order
inline constexpr std::uint32_t saved_version = 1;
inline constexpr std::uint32_t saved_contents_version = 0;  // of every kind, so far
inline constexpr std::size_t section_bytes_max = std::size_t{1} << 20;

struct saved_header {
    std::uint64_t magic = saved_magic;
    std::uint32_t version = saved_version;
    std::uint32_t kind = 0;               ///< container_kind
    std::uint32_t container_version = 0;  ///< layout of the segment that was saved
    std::uint32_t schema_bytes = 0;
    std::uint64_t fingerprint = 0;  ///< platform that the records' bytes are of
    std::uint64_t saved_ns = 0;     ///< since the Unix epoch
    std::uint32_t peer_slots = 0;
    std::uint32_t contents_version = saved_contents_version;  ///< of what parameters and sections mean, by kind
    std::array<std::uint8_t, 16> identity{};                  ///< of the segment that was saved
    std::array<std::uint64_t, 16> parameters{};               ///< what the kind needs to be made anew: saver.cpp
};
static_assert(sizeof(saved_header) == 192);

class saved_writer {
 public:
    using sink = std::function<void(std::string_view)>;

    /// Writes the header. Requires: schema of at most schema_bytes_max bytes.
    saved_writer(sink out, saved_header header, std::string_view schema);

    /// Appends bytes, which may be shared and changing; `items` of what is counted end with them. They lie in one
    /// section if one can hold them. Requires: some bytes.
    void add(std::span<const std::byte> bytes, std::uint64_t items);
    /// As much more has been added, of items that were added in several pieces.
    void count(std::uint64_t items) noexcept {
        section_items_ += items;
        items_ += items;
    }
    /// Without it the file is recognised as cut short.
    void finish();

    [[nodiscard]] std::uint64_t items() const noexcept { return items_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
    void flush();
    void write(std::span<const std::byte> bytes);

    sink out_;
    std::vector<std::byte> section_;
    std::uint64_t section_items_ = 0, items_ = 0, bytes_ = 0, sum_ = 0;
};

class saved_reader {
 public:
    /// Opens a file ("-": standard input) and reads its header. Throws: not_found, no_permission, io; bad_magic,
    /// version_mismatch, truncated, corrupt.
    explicit saved_reader(const std::string& path);

    [[nodiscard]] const saved_header& header() const noexcept { return header_; }
    [[nodiscard]] const std::string& schema() const noexcept { return schema_; }
    /// Bytes of a plain file; nothing of a pipe.
    [[nodiscard]] std::optional<std::uint64_t> file_bytes() const;
    /// What messages call the file.
    [[nodiscard]] const std::string& name() const noexcept { return name_; }

    /// The next section, valid until the next call; nothing behind the last. Throws: truncated, corrupt, io.
    [[nodiscard]] std::optional<std::span<const std::byte>> next();
    /// Where in the file the contents of the last section begin.
    [[nodiscard]] std::uint64_t contents_offset() const noexcept { return contents_offset_; }
    /// Counted so far; all of them once next() gave nothing.
    [[nodiscard]] std::uint64_t items() const noexcept { return items_; }

 private:
    void read(std::span<std::byte> into);
    [[noreturn]] void refuse_damaged() const;

    std::string name_;
    memory::descriptor file_;
    saved_header header_;
    std::string schema_;
    std::vector<std::byte> section_;
    std::uint64_t items_ = 0, offset_ = 0, contents_offset_ = 0, sum_ = 0;
    bool ended_ = false;
};

}  // namespace holdfast::inspect
