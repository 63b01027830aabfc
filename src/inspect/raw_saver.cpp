// SPDX-License-Identifier: Apache-2.0
// raw_saver.cpp - segments without a container in saved files: bytes whose meaning is their program's own. The
// parameters of saved_header are the words of its geometry. The contents are the length of the body and who may write
// (u64 each), then the body.
//
// Nothing tells when such a body is whole: its writer follows no protocol that we know. So it is read twice, and where
// both readings are the same, what is saved lay there at one moment between them. Where not, it is saved all the same,
// each word as it was at some moment, and save_report::still says so.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "holdfast/detail/checksum.hpp"
#include "holdfast/detail/words.hpp"
#include "inspect/kind_savers.hpp"
#include "inspect/saver_parts.hpp"

namespace holdfast::inspect {

namespace {

struct saved_raw {
    std::uint64_t body_bytes = 0;
    std::uint64_t policy = 0;  // writers
};

constexpr std::size_t piece_bytes = std::size_t{64} << 10;

/// Copies bytes that others may be storing to, each aligned word as a whole. Acquire: the second reading stays behind
/// the first.
void copy_words(std::span<std::byte> into, const std::byte* from) {
    std::size_t at = 0;
    for (; at + 8 <= into.size(); at += 8) {
        const auto word = detail::load_acquire<std::uint64_t>(from + at);
        std::memcpy(into.data() + at, &word, 8);
    }
    for (; at < into.size(); ++at) into[at] = static_cast<std::byte>(detail::load_acquire<std::uint8_t>(from + at));
}

/// Reads the body piece by piece; take(piece). Returns: the checksum of what was read.
template <class Take>
std::uint64_t read_body(std::span<const std::byte> body, std::vector<std::byte>& room, Take&& take) {
    std::uint64_t sum = 0;
    for (std::size_t at = 0; at < body.size(); at += piece_bytes) {
        const auto piece = std::span(room).first(std::min(piece_bytes, body.size() - at));
        copy_words(piece, body.data() + at);
        sum = detail::checksum(piece, sum);
        take(std::span<const std::byte>(piece));
    }
    return sum;
}

}  // namespace

saved_writer save_raw(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                      const save_progress& progress, bool& still) {
    const saved_raw head{s->bytes().size(), static_cast<std::uint64_t>(s->info().policy)};
    std::vector<std::byte> room(std::min(piece_bytes, s->bytes().size()));
    const std::uint64_t before = read_body(s->bytes(), room, [](auto) {});
    saved_header header = header_of(*s);
    header.parameters = s->info().geometry;
    saved_writer file(out, header, s->info().schema);
    file.add(std::as_bytes(std::span(&head, 1)), 0);
    const std::uint64_t saved = read_body(s->bytes(), room, [&](std::span<const std::byte> piece) {
        file.add(piece, piece.size());
        if (progress) progress(file.items());
    });
    require_no_fault(*s, s->fault());
    still = before == saved;
    return file;
}

segment restore_raw(saved_reader& file, std::string_view uri, const restore_options& options) {
    section_stream from(file);
    const auto head = from.read<saved_raw>();
    const auto policy = static_cast<writers>(head.policy);
    if (head.policy > 2 || (policy != writers::one && policy != writers::many))
        refuse_contents(file, "it does not say who may write");
    if (head.body_bytes > file.file_bytes().value_or(head.body_bytes))
        refuse_contents(file, "it says that its body is larger than the file");
    segment_spec spec;
    spec.container_version = file.header().container_version;
    spec.policy = policy;
    spec.schema = file.schema();
    spec.geometry = file.header().parameters;
    spec.body_bytes = head.body_bytes;
    spec.peer_slots = file.header().peer_slots;
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        for (std::size_t at = 0; at < body.size(); at += section_bytes_max) {
            from.read(body.subspan(at, std::min(section_bytes_max, body.size() - at)));
            if (options.progress) options.progress(at);
        }
        if (from.more()) refuse_contents(file, "it holds more bytes than it says");
    });
}

}  // namespace holdfast::inspect
