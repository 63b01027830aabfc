// SPDX-License-Identifier: Apache-2.0
// damaged_segment.hpp - a segment that need not be sound: its lease, its header as far as that can be proved, and its
// bytes to work on.
//
// (I1) Stores into body() are this process's own: the segment keeps every byte that it has.
// (I2) Bytes that the memory lacks (it was cut short) are zero.
// (I3) While the object lives nobody else has the lease, nor the consumer's side of a queue.
// Whoever ignores the lease may still change what is read: like all shared bytes they are input.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/layout/queue_layout.hpp"
#include "holdfast/memory/mapping.hpp"
#include "holdfast/memory/truncation_guard.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::inspect {

class damaged_segment {
 public:
    /// Throws: not_found, no_permission, unsafe_file, writer_alive (naming who writes); corrupt where the header cannot
    /// be proved; invalid_name for memory without a name.
    [[nodiscard]] static damaged_segment open(std::string_view uri, const attach_options& options);

    [[nodiscard]] const memory::uri& name() const noexcept { return name_; }
    [[nodiscard]] std::string uri() const { return name_.text(); }
    /// What a segment of the same kind and rights is made with.
    [[nodiscard]] const segment_spec& spec() const noexcept { return spec_; }
    [[nodiscard]] const create_options& rights() const noexcept { return rights_; }
    [[nodiscard]] const identity_array& identity() const noexcept { return identity_; }
    /// Whether the header is another than the one that lies there.
    [[nodiscard]] bool header_rebuilt() const noexcept { return rebuilt_; }
    [[nodiscard]] std::uint64_t missing_bytes() const noexcept { return missing_; }
    [[nodiscard]] std::span<std::byte> body() const noexcept {
        return {image_.data() + header_bytes, static_cast<std::size_t>(spec_.body_bytes)};
    }
    /// The beginning of body() that the memory has; the rest was cut off (I2).
    [[nodiscard]] std::span<std::byte> present() const noexcept {
        return body().first(static_cast<std::size_t>(present_));
    }
    /// Where it ends.
    [[nodiscard]] const std::byte* present_end() const noexcept { return body().data() + present_; }
    /// Of a queue: a copy of the consumer's side, if it can be seen and belongs to this segment.
    [[nodiscard]] const layout::queue_side* consumer() const noexcept { return consumer_.get(); }

 private:
    damaged_segment() = default;
    void open_file(const attach_options& options);
    void open_system_v(const attach_options& options);
    void take_over(const layout::segment_header& stored, std::uint64_t memory_bytes);
    void keep_rights(mode_t mode, uid_t owner, gid_t group);
    void find_consumer(const attach_options& options);

    memory::uri name_;
    memory::descriptor lease_, peers_;
    segment_spec spec_;
    create_options rights_;
    identity_array identity_{};
    bool rebuilt_ = false;
    std::uint64_t missing_ = 0;
    std::uint64_t present_ = 0;  // bytes of the body
    memory::mapping image_;
    memory::truncation_watch watch_;  // released before the mapping goes
    std::unique_ptr<layout::queue_side> consumer_;
};

}  // namespace holdfast::inspect
