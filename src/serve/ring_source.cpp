// SPDX-License-Identifier: Apache-2.0
#include "serve/ring_source.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "holdfast/net/response.hpp"
#include "holdfast/net/uri.hpp"
#include "inspect/record_json.hpp"
#include "serve/answering.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

namespace {

constexpr std::size_t buffer_bytes_min = 4096;
constexpr unsigned laps_max = 4;  // of one call; who is lapped so often is slower than the writer, and comes again

void append_count(std::string& out, std::uint64_t value) {
    char digits[std::numeric_limits<std::uint64_t>::digits10 + 2];
    out.append(digits, std::to_chars(std::begin(digits), std::end(digits), value).ptr);
}

// RFC 4648 section 4, padded.
void append_base64(std::string& out, std::string_view bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const auto at = [&](std::size_t i) {
        return i < bytes.size() ? std::uint32_t{static_cast<unsigned char>(bytes[i])} : 0U;
    };
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::uint32_t group = at(i) << 16U | at(i + 1) << 8U | at(i + 2);
        for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? digits[group >> (18 - 6 * k) & 63U] : '=';
    }
}

}  // namespace

std::uint64_t ring_batch::lost() const noexcept {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].loss) count += items[i].next - first_of(i);
    return count;
}

std::size_t ring_batch::index_of(std::uint64_t number) const noexcept {
    const auto at = std::ranges::upper_bound(items, number, {}, &item::next);
    return static_cast<std::size_t>(at - items.begin());
}

ring_source::ring_source(const std::string& uri)
    : segment_(std::make_shared<const segment>(segment::attach(uri, access::read_only))),
      identity_(identity_text(segment_->info().identity)) {
    const auto geometry = detail::broadcast_geometry_of(*segment_);
    if (!segment_->info().schema.empty()) {
        schema_ = container_schema::parse(segment_->info().schema);
        if (!schema_.key && schema_.value) {
            require_room(geometry.message_max());
            records_.emplace(*schema_.value);
            record_bytes_ = schema_.value->bytes();
        }
    }
    watch_size();
}

void ring_source::append_lost(std::string& out, std::uint64_t count, std::uint64_t next) {
    out += R"({"event":"lost","count":)";
    append_count(out, count);
    out += R"(,"sequence":)";
    append_count(out, next);
    out += '}';
}

broadcast_read ring_source::read_on(ring_reader& reader, bool& whole) {
    whole = true;
    for (;;) {
        broadcast_read got = reader.read(std::span(buffer_));
        reader.restarted = reader.restarted || got.restarted;
        if (got.status == outcome::too_small && got.count <= message_bytes_max) {
            buffer_.resize(std::max<std::size_t>({buffer_bytes_min, static_cast<std::size_t>(got.count),
                                                  std::min(buffer_.size() * 2, message_bytes_max)}));
            continue;  // it may be overrun meanwhile: then that is what is said
        }
        if (got.status == outcome::too_small) {
            got = reader.visit([](auto, auto) noexcept {});
            whole = false;
        }
        reader.restarted = reader.restarted || got.restarted;
        got.restarted = got.status == outcome::ok && std::exchange(reader.restarted, false);
        return got;
    }
}

void ring_source::append_message(std::string& out, const broadcast_read& got, bool whole) const {
    out += R"({"sequence":)";
    append_count(out, got.sequence);
    out += R"(,"type":)";
    append_count(out, got.type);
    if (got.restarted) out += R"(,"restarted":true)";
    const std::size_t begin = out.size();
    if (whole) {
        const std::span message(buffer_.data(), static_cast<std::size_t>(got.count));
        const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
        if (records_ && message.size() == record_bytes_) {
            out += R"(,"record":)";
            records_->append(out, message);
        } else if (net::is_utf8(text)) {
            out += R"(,"text":)";
            net::append_json_string(out, text);
        } else {
            out += R"(,"base64":")";
            append_base64(out, text);
            out += '"';
        }
    }
    if (!whole || out.size() - begin > text_bytes_max) {
        out.resize(begin);
        out += R"(,"bytes":)";
        append_count(out, got.count);
        out += R"(,"too_large":true)";
    }
    out += '}';
}

// Zeros in the place of a lost page look like the ring's end, or like damage.
ring_state ring_source::spoilt(ring_state otherwise) {
    if (cut_off()) return ring_state::cut_off;
    if (otherwise == ring_state::damaged) damaged_ = true;
    return otherwise;
}

ring_state ring_source::gather(ring_reader& reader, ring_batch& out, const bounds& up_to) {
    out.first = reader.sequence();
    out.text.clear();
    out.items.clear();
    ring_state state = ring_state::more;
    for (unsigned laps = 0; out.items.size() < up_to.items && out.text.size() < up_to.text_bytes;) {
        if (reader.sequence() >= up_to.end) break;
        bool whole = true;
        const broadcast_read got = read_on(reader, whole);
        if (got.status == outcome::ok) {
            append_message(out.text, got, whole);
            out.items.push_back({got.sequence + 1, out.text.size(), false});
        } else if (got.status == outcome::lapped && got.count != 0) {
            if (up_to.up_to_a_loss && !out.items.empty()) break;
            append_lost(out.text, got.count, got.sequence);
            out.items.push_back({got.sequence, out.text.size(), true});
            if (++laps == laps_max) break;
        } else {
            state = got.status == outcome::empty    ? ring_state::idle
                    : got.status == outcome::lapped ? ring_state::contended
                                                    : ring_state::damaged;
            break;
        }
    }
    state = spoilt(state);
    if (state == ring_state::cut_off) {
        out.text.clear();
        out.items.clear();
    }
    return state;
}

std::vector<std::byte> ring_source::message_of(const net::request& from) const {
    const std::string_view type = media_type_of(from);
    const auto body = std::as_bytes(std::span(from.body()));
    if (!records_ || net::equal_ignoring_case(type, "application/octet-stream")) return {body.begin(), body.end()};
    if (!type.empty() && !net::equal_ignoring_case(type, json_type))
        throw failure{415,
                      "messages of this ring are records: send one as application/json, or its bytes as "
                      "application/octet-stream"};
    std::vector<std::byte> record = room_for_record();
    inspect::record_json_reader reader(*schema_.value);
    if (const auto reason = reader.read(from.body(), record)) throw failure{400, "the body: " + reason->message()};
    return record;
}

namespace {

/// Nothing of a damaged ring.
std::optional<ring_reader> reader_from(const std::shared_ptr<const segment>& ring, const broadcast_start& start) {
    try {
        return std::optional<ring_reader>(std::in_place, ring, start);
    } catch (const error& e) {
        if (e.reason() != errc::corrupt) throw;
        return std::nullopt;
    }
}

}  // namespace

ring_source::place ring_source::join(const broadcast_start& start) {
    const auto refuse = [&](lookup why) {
        damaged_ = damaged_ || why == lookup::damaged;
        return place{.status = cut_off() ? lookup::cut_off : why, .reader = std::nullopt};
    };
    std::optional<ring_reader> reader = reader_from(segment_, start);
    if (!reader) return refuse(lookup::damaged);
    const result joined = reader->joined();
    const bool by_number = start.where == broadcast_start::from::sequence;
    const bool by_time = start.where == broadcast_start::from::time;
    // By time nobody knows how many are gone; a writer that outran every attempt leaves the reader at number 1.
    if (joined.status == outcome::lapped && joined.count == 0 && !(by_time && reader->sequence() > 1))
        return refuse(lookup::contended);
    if (cut_off()) return refuse(lookup::cut_off);
    place found;
    found.asked = by_number ? std::max<std::uint64_t>(start.value, 1) : reader->sequence();
    found.lost = joined.status == outcome::lapped ? joined.count : 0;
    found.older_gone = by_time && joined.status == outcome::lapped;
    if (found.next() == reader->sequence()) found.reader = std::move(reader);  // else it is still to come
    return found;
}

ring_page ring_source::page(const broadcast_start& start, std::size_t limit) {
    ring_page result;
    place from = join(start);
    result.status = from.status;
    if (from.status != lookup::found) return result;
    result.lost = from.lost;
    result.older_gone = from.older_gone;
    result.next = from.next();
    if (!from.reader) return result;
    const ring_state ended =
        gather(*from.reader, result.messages, {.items = limit, .text_bytes = page_bytes_max, .up_to_a_loss = true});
    result.next = result.messages.next();
    result.lost += result.messages.lost();
    switch (ended) {
        case ring_state::idle:
        case ring_state::more: break;
        case ring_state::contended:  // what was read until then is an answer
            if (result.messages.items.empty()) result.status = lookup::contended;
            break;
        case ring_state::damaged: result.status = lookup::damaged; break;
        case ring_state::cut_off: result.status = lookup::cut_off; break;
    }
    return result;
}

}  // namespace holdfast::serve
