// SPDX-License-Identifier: Apache-2.0
// server_files.cpp - answers whose body is a file: it stands in the order of the exchanges like what answers later, and
// goes out in pieces as the connection's output has room.
#include <memory>
#include <utility>

#include "server_core.hpp"

namespace holdfast::net {

namespace {

constexpr std::size_t piece_bytes = 64U << 10U;
constexpr std::size_t ahead_bytes = 2 * piece_bytes;  // what a connection may have unsent and still be given a piece
constexpr int pieces_of_turn_max = 4;                 // then others are served (I7 of engine.hpp)

}  // namespace

bool server_core::sends_file(const response& answer, method asked) noexcept {
    return answer.has_file() && asked != method::head && answer.status() != 204 && answer.status() != 304 &&
           answer.file_->layout.bytes != 0;
}

// A place for the file of an answer that has none itself; where there is none left, the answer says so instead.
file_place server_core::place_for_file(response& answer) {
    if (answer.file_->place) return {};
    file_place place(files_);
    if (!place) {
        files_->lack();
        refuse_file(answer, file_outcome::no_descriptor);
    }
    return place;
}

// Its head is the last thing that has been put out, or waits as the last.
void server_core::enter_file(connection& c, const response& answer, file_place place) {
    if (!c.pending) {
        c.pending = std::make_unique<exchange_queue>();
        c.pending->waiting.emplace_back();
    }
    c.pending->waiting.back().file = std::make_unique<file_sender>(answer.file_, std::move(place));
    ++c.pending->files;
}

// A late answer's file is open, whatever waits before it: it counts from now on, or is refused.
void server_core::count_file(exchange_queue& pending, exchange& asked, response& late) {
    file_place place = place_for_file(late);
    if (!late.has_file()) return;
    asked.file = std::make_unique<file_sender>(late.file_, std::move(place));
    ++pending.files;
}

// Whoever waits here is called again: by on_sent while something is unsent, else by the next turn.
server_core::file_progress server_core::go_on_file(index_type index, file_sender& file) {
    const connection& c = connections_[index];
    for (int pieces = 0;; ++pieces) {
        if (out_.size() >= piece_bytes && !flush(index))
            return file_progress::waits;  // settle() sees that it is broken
        if (c.waiting != 0 || c.unsent >= ahead_bytes) return file_progress::waits;
        if (pieces == pieces_of_turn_max) {
            touch(index);
            return file_progress::waits;
        }
        switch (file.append(out_, piece_bytes)) {
            case file_sender::state::more: break;
            case file_sender::state::done: return file_progress::done;
            case file_sender::state::broken: return file_progress::broken;
        }
    }
}

}  // namespace holdfast::net
