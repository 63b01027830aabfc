// SPDX-License-Identifier: Apache-2.0
#include "inspect/saved_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/error.hpp"
#include "holdfast/layout/segment_header.hpp"
#include "inspect/json_out.hpp"

namespace holdfast::inspect {

namespace {

constexpr std::size_t section_head_bytes = 16;

[[nodiscard]] constexpr std::size_t padded(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

[[nodiscard]] memory::descriptor open_to_read(const std::string& path) {
    if (path == "-") return memory::descriptor(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    memory::descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        throw error(errc_of_errno(errno), printable(path),
                    detail::concat("cannot be opened: ", memory::errno_text(errno)));
    return file;
}

}  // namespace

saved_writer::saved_writer(sink out, saved_header header, std::string_view schema) : out_(std::move(out)) {
    header.schema_bytes = static_cast<std::uint32_t>(schema.size());
    section_.resize(sizeof header + padded(schema.size()));
    std::memcpy(section_.data(), &header, sizeof header);
    if (!schema.empty()) std::memcpy(section_.data() + sizeof header, schema.data(), schema.size());
    write(section_);
    section_.clear();
    section_.reserve(section_head_bytes + section_bytes_max);
    section_.resize(section_head_bytes);
}

void saved_writer::write(std::span<const std::byte> bytes) {
    sum_ = detail::checksum(bytes, sum_);
    out_(characters_of(bytes));
    out_(characters_of(std::as_bytes(std::span(&sum_, 1))));
    bytes_ += bytes.size() + sizeof sum_;
}

void saved_writer::flush() {
    const std::uint64_t head[2] = {section_.size() - section_head_bytes, section_items_};
    std::memcpy(section_.data(), head, sizeof head);
    section_.resize(section_head_bytes + padded(head[0]));
    write(section_);
    section_.assign(section_head_bytes, std::byte{});
    section_items_ = 0;
}

void saved_writer::add(std::span<const std::byte> bytes, std::uint64_t items) {
    if (section_.size() + bytes.size() > section_head_bytes + section_bytes_max && section_.size() > section_head_bytes)
        flush();
    while (!bytes.empty()) {
        if (section_.size() == section_head_bytes + section_bytes_max) flush();
        const std::size_t part = std::min(bytes.size(), section_head_bytes + section_bytes_max - section_.size());
        const std::size_t at = section_.size();
        section_.resize(at + part);
        detail::copy_from_shared(section_.data() + at, bytes.data(), part);
        bytes = bytes.subspan(part);
    }
    count(items);
}

void saved_writer::finish() {
    if (section_.size() > section_head_bytes) flush();
    section_items_ = items_;
    flush();
}

saved_reader::saved_reader(const std::string& path)
    : name_(path == "-" ? "standard input" : printable(path)), file_(open_to_read(path)) {
    std::vector<std::byte> head(sizeof header_);
    read(head);
    std::memcpy(&header_, head.data(), sizeof header_);
    if (header_.magic != saved_magic) throw error(errc::bad_magic, name_, "not a file that holdfast save wrote");
    if (header_.version != saved_version)
        throw error(errc::version_mismatch, name_,
                    detail::concat("format ", header_.version, ", this program reads ", saved_version,
                                   "; restore it with the program that saved it, or a newer one"));
    if (header_.schema_bytes > schema_bytes_max) refuse_damaged();
    head.resize(sizeof header_ + padded(header_.schema_bytes));
    read(std::span(head).subspan(sizeof header_));
    std::uint64_t sum = 0;
    read(std::as_writable_bytes(std::span(&sum, 1)));
    sum_ = detail::checksum(head);
    if (sum != sum_) refuse_damaged();
    if (header_.fingerprint != layout::platform_fingerprint)
        throw error(errc::version_mismatch, name_,
                    "saved on a platform with another byte order or word size; dump it there and load it here");
    if (header_.contents_version != saved_contents_version)
        throw error(
            errc::version_mismatch, name_,
            detail::concat("contents of version ", header_.contents_version, ", this program reads ",
                           saved_contents_version, "; restore it with the program that saved it, or a newer one"));
    schema_ = characters_of(std::span(head).subspan(sizeof header_, header_.schema_bytes));
}

std::optional<std::uint64_t> saved_reader::file_bytes() const {
    struct stat status{};
    if (::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
    return static_cast<std::uint64_t>(status.st_size);
}

void saved_reader::read(std::span<std::byte> into) {
    while (!into.empty()) {
        const ssize_t got = ::read(file_.get(), into.data(), into.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0)
            throw error(errc_of_errno(errno), name_, detail::concat("cannot be read: ", memory::errno_text(errno)));
        if (got == 0)
            throw error(
                errc::truncated, name_,
                detail::concat("ends after ", offset_, " bytes, before its end mark; the save was cut short or ",
                               "the file was; take another copy"));
        offset_ += static_cast<std::uint64_t>(got);
        into = into.subspan(static_cast<std::size_t>(got));
    }
}

void saved_reader::refuse_damaged() const {
    throw error(errc::corrupt, name_,
                detail::concat("damaged in the ", offset_,
                               " bytes up to here: a checksum does not match; take another "
                               "copy"));
}

std::optional<std::span<const std::byte>> saved_reader::next() {
    if (ended_) return std::nullopt;
    section_.resize(section_head_bytes);
    read(section_);
    std::uint64_t head[2];
    std::memcpy(head, section_.data(), sizeof head);
    if (head[0] > section_bytes_max) refuse_damaged();
    contents_offset_ = offset_;
    section_.resize(section_head_bytes + padded(head[0]));
    read(std::span(section_).subspan(section_head_bytes));
    std::uint64_t sum = 0;
    read(std::as_writable_bytes(std::span(&sum, 1)));
    sum_ = detail::checksum(section_, sum_);
    if (sum != sum_) refuse_damaged();
    if (head[0] != 0) {
        items_ += head[1];
        return std::span<const std::byte>(section_).subspan(section_head_bytes, head[0]);
    }
    std::byte more{};
    if (head[1] != items_ || ::read(file_.get(), &more, 1) > 0) refuse_damaged();
    ended_ = true;
    return std::nullopt;
}

}  // namespace holdfast::inspect
