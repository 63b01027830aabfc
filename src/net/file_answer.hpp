// SPDX-License-Identifier: Apache-2.0
// file_answer.hpp - a file that is the body of an answer: open, looked at once, and how it is sent piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "file_descriptor.hpp"
#include "file_places.hpp"
#include "holdfast/net/file_options.hpp"
#include "representation.hpp"

namespace holdfast::net {

/// What response::file() leaves in a response. Copies of the response share it.
struct file_answer {
    file_place place;  // none: it was made for no handler's response, and has one once it is answered with
    file_descriptor file;
    body_layout layout;
};

class response;

/// Makes the response say that there is no such file for it.
void refuse_file(response& to, file_outcome why);

/// The rest of a file_answer that is being sent.
///
/// (F1) What was announced is sent, or the sender is broken: a file that has become shorter, or cannot be read, is
/// never
///      made up for. One that has become longer is sent as far as was announced.
/// (F2) A read is of at most the piece asked for, at a place of its own (pread): two senders may share a file.
class file_sender {
 public:
    /// `place`: of an answer that has none itself.
    explicit file_sender(std::shared_ptr<const file_answer> what, file_place place = {}) noexcept
        : place_(std::move(place)), what_(std::move(what)) {}
    file_sender(const file_sender&) = delete;
    file_sender& operator=(const file_sender&) = delete;

    enum class state : std::uint8_t { more, done, broken };
    /// Appends what comes next: of the file at most `bytes`. `broken` appends nothing more of use.
    [[nodiscard]] state append(std::string& out, std::size_t bytes);

 private:
    const file_place place_;  // given back when the file is closed
    const std::shared_ptr<const file_answer> what_;
    std::size_t part_ = 0;
    std::uint64_t at_ = 0;  // in the file
    bool in_part_ = false;  // its head has gone
};

}  // namespace holdfast::net
