// SPDX-License-Identifier: Apache-2.0
// ring_source.hpp - a broadcast ring as the routes see it: its messages as JSON from any place on, and what was lost.
//
//   {"sequence":7,"type":0,"text":"..."}       or "base64":"..." for what is no UTF-8, or "record":{...} by the schema;
//                                              "restarted":true where another writer took the ring over before it
//   {"sequence":8,"type":0,"bytes":9437184,"too_large":true}       the message is there, and too long to be told
//   {"event":"lost","count":12,"sequence":21}  so many messages are gone; the next one is number 21
//
// (I1) Each number is told once: as a message, or as one of a loss.
// (I2) One call does bounded work and makes bounded text, whatever the bytes of the ring say.
// (I3) Text is exactly the message's bytes, and so is base64: nothing is replaced or escaped beyond what JSON asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/broadcast/reader.hpp"
#include "holdfast/net/request.hpp"
#include "serve/sources.hpp"

namespace holdfast::serve {

/// Messages and losses in the order of their numbers, as JSON.
struct ring_batch {
    struct item {
        std::uint64_t next = 0;  ///< the number behind it
        std::size_t end = 0;     ///< of its object in `text`
        bool loss = false;
    };
    std::uint64_t first = 0;  ///< the number of the first item
    std::string text;         ///< one object behind the other
    std::vector<item> items;

    [[nodiscard]] std::uint64_t next() const noexcept { return items.empty() ? first : items.back().next; }
    [[nodiscard]] std::uint64_t first_of(std::size_t i) const noexcept { return i == 0 ? first : items[i - 1].next; }
    [[nodiscard]] std::string_view json(std::size_t i) const noexcept {
        const std::size_t begin = i == 0 ? 0 : items[i - 1].end;
        return std::string_view(text).substr(begin, items[i].end - begin);
    }
    /// Messages lost in it.
    [[nodiscard]] std::uint64_t lost() const noexcept;
    /// The item of this number. Requires: first <= number < next().
    [[nodiscard]] std::size_t index_of(std::uint64_t number) const noexcept;
};

/// A reader that remembers a restart until there is a message to tell it with: it may be told where there is none yet.
struct ring_reader : broadcast_reader {
    using broadcast_reader::broadcast_reader;
    bool restarted = false;
};

/// Where a reading of some messages ended.
enum class ring_state : std::uint8_t {
    idle,       ///< there is no further message now
    more,       ///< a bound ended it
    contended,  ///< the writer outran every attempt; again later
    damaged,
    cut_off,  ///< the file has lost its end: what was read counts for nothing, and is not handed out
};

/// What GET answers at once.
struct ring_page {
    lookup status = lookup::found;
    ring_batch messages;      ///< losses only in front of the first message
    std::uint64_t next = 0;   ///< where to go on
    std::uint64_t lost = 0;   ///< between the number asked for and the first message
    bool older_gone = false;  ///< asked by time: the ring does not reach back so far
};

class ring_source final : public source, public std::enable_shared_from_this<ring_source> {
 public:
    explicit ring_source(const std::string& uri);
    /// Throws: what attaching throws; kind_mismatch where the segment is no broadcast ring; geometry_mismatch where it
    /// takes no record of its schema. Messages of any other length than a record's it may well hold.
    [[nodiscard]] static std::shared_ptr<ring_source> attach(const std::string& uri) {
        return std::make_shared<ring_source>(uri);
    }

    [[nodiscard]] const segment& memory() const override { return *segment_; }
    [[nodiscard]] bool broken() const override { return damaged_ || cut_off(); }
    [[nodiscard]] const std::shared_ptr<const segment>& shared() const noexcept { return segment_; }
    /// Tells this ring from any other of the same name.
    [[nodiscard]] const std::string& identity() const noexcept { return identity_; }

    /// What one call may read: (I2).
    struct bounds {
        std::size_t items = 0;
        std::size_t text_bytes = 0;             ///< the item that reaches it is the last
        std::uint64_t end = ~std::uint64_t{0};  ///< stops in front of this number
        bool up_to_a_loss = false;              ///< stops in front of a loss that is not the first item
    };
    /// Reads on from where `reader`, one of shared(), stands.
    [[nodiscard]] ring_state gather(ring_reader& reader, ring_batch& out, const bounds& up_to);

    /// Where a reader stands after it joined; its losses so far.
    struct place {
        lookup status = lookup::found;
        std::uint64_t asked = 1;  ///< the number that stands for what was asked
        std::uint64_t lost = 0;   ///< from there on
        bool older_gone = false;
        std::optional<ring_reader> reader;  ///< at number asked + lost; nothing where that is still to come
        [[nodiscard]] std::uint64_t next() const noexcept { return asked + lost; }
    };
    /// Goes to `start`. A number beyond the next to come is a place, too.
    [[nodiscard]] place join(const broadcast_start& start);

    /// Up to `limit` messages from `start` on.
    [[nodiscard]] ring_page page(const broadcast_start& start, std::size_t limit);

    /// The message that a request publishes: a record as JSON where the schema says so, else the body itself; that also
    /// where it is said to be application/octet-stream. Throws: failure 400, 415, 501.
    [[nodiscard]] std::vector<std::byte> message_of(const net::request& from) const;

    static void append_lost(std::string& out, std::uint64_t count, std::uint64_t next);

    static constexpr std::size_t message_bytes_max = std::size_t{256} << 10U;  ///< longer ones are told by their size
    static constexpr std::size_t text_bytes_max = std::size_t{2} << 20U;       ///< of one message told
    static constexpr std::size_t page_bytes_max = std::size_t{256} << 10U;     ///< reaching it ends a page

 private:
    /// The next message into buffer_, as far as that is long enough. Returns: as broadcast_reader::read, but for
    /// too_small: ok, and `whole` false.
    [[nodiscard]] broadcast_read read_on(ring_reader& reader, bool& whole);
    void append_message(std::string& out, const broadcast_read& got, bool whole) const;
    [[nodiscard]] ring_state spoilt(ring_state otherwise);

    std::shared_ptr<const segment> segment_;
    std::string identity_;
    std::optional<json_writer> records_;
    std::size_t record_bytes_ = 0;
    std::vector<std::byte> buffer_;
    bool damaged_ = false;
};

}  // namespace holdfast::serve
