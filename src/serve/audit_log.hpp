// SPDX-License-Identifier: Apache-2.0
// audit_log.hpp - who asked for which change: one line of JSON for each write, before it is made.
//
// (I1) What cannot be written down is not done: a full disk keeps the table as it is.
// (I2) A line is one write(2) to a file opened for appending, so lines of several workers do not mix. One that found no
//      room for its end is ended by the next one of this worker.
// A line behind it says when nothing was changed after all. Lines survive the death of every process; after power loss
// the last ones may be missing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "holdfast/memory/descriptor.hpp"
#include "holdfast/net/peer.hpp"

namespace holdfast::serve {

class audit_log {
 public:
    /// Opens the file, or makes it for its owner alone. Throws: no_permission, unsafe_file (no plain file), io, ...
    audit_log(std::string path, unsigned worker);

    struct change {
        const net::peer* client = nullptr;
        std::string_view action;  ///< "put", "delete", "increment"
        std::string_view segment, key;
        std::size_t body_bytes = 0;
    };
    /// Returns: the number of the line's change. Throws: failure 507; nothing is written, or a piece.
    std::uint64_t append(const change& what);
    /// Says that change `number` was not made. What cannot be written is left out: the client knows.
    void append_refusal(std::uint64_t number, int status) noexcept;

    /// Goes on in a new file once the name leads to another, or to none. Call it now and then.
    void refresh() noexcept;

 private:
    void open();
    [[nodiscard]] bool is_torn() const noexcept;
    /// Requires: room for a character more. Returns: an errno; 0 for success.
    [[nodiscard]] int write_line(std::string& line) noexcept;

    std::string path_;
    unsigned worker_;
    memory::descriptor file_;
    std::uint64_t changes_ = 0;
};

}  // namespace holdfast::serve
