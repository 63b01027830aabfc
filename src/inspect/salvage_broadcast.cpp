// SPDX-License-Identifier: Apache-2.0
// salvage_broadcast.cpp - messages of a ring, by the chain of their records and the index that counts them. Payloads
// have no checksum. An entry of the index that a walk meets at its position, with its number, vouches for all records
// before it: a record whose word was damaged would have led past it, or to another number.
//
// A ring has no gaps. So what goes over is the newest stretch that the index vouches for, up to the tail where the last
// records lead to it. Numbers are kept. Times are those of the repair, as after a restore.
#include <algorithm>
#include <optional>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

namespace {

using boundary = layout::broadcast_boundary;

class old_broadcast {
 public:
    old_broadcast(const damaged_segment& from, const layout::broadcast_geometry& g)
        : g_(g), view_(from.body(), g), end_(from.present_end()) {
        for (std::uint64_t place = 0; place < g.entries(); ++place) {
            // Relaxed: at rest.
            const std::uint64_t tag = view_.entry(place).tag.load(std::memory_order_relaxed);
            if (tag == 0 || ((tag - 1) & (g.entries() - 1)) != place || tag > layout::broadcast_position_max) continue;
            const auto found = view_.boundary(tag - 1);
            if (found && found->sequence <= layout::broadcast_position_max) index_.push_back(*found);
        }
        std::ranges::sort(index_, {}, &boundary::position);
        agreed_.assign(index_.size(), false);
        if (index_.empty()) return;
        // A tag, its place and the position all belong to one stride, so the newest entry is a true one, whatever its
        // number. What lies a ring and more below the horizon was overwritten, also where it looks like records.
        const boundary newest = index_.back();
        const std::uint64_t stored = view_.horizon();
        const std::uint64_t reached = walk(index_.size() - 1).reached + layout::ring_word_bytes;
        const bool possible = stored % g.stride == 0 && stored >= newest.position &&
                              stored - newest.position <= 2 * g.chain_max() + 2 * g.stride;
        const std::uint64_t least = (reached + g.stride - 1) / g.stride * g.stride;
        const std::uint64_t horizon = possible ? std::max(stored, least) : least + g.chain_max() + g.stride;
        horizon_holds_ = possible;
        const auto oldest = std::ranges::find_if(
            index_, [&](const boundary& entry) { return entry.position + g.capacity >= (possible ? horizon : least); });
        if (oldest != index_.end()) oldest_ = oldest->sequence;
        std::erase_if(index_, [&](const boundary& entry) { return entry.position + g.capacity < horizon; });
        agreed_.assign(index_.size(), false);
    }

    struct stretch {
        boundary first;               // where it begins
        boundary end;                 // behind its last message
        std::uint64_t confirmed = 0;  // entries of the index that it met
        bool to_tail = false;         // ends where nothing was published yet
        std::uint64_t reached = 0;    // how far it was walked
    };

    /// The newest stretch that holds, as long as it can be.
    [[nodiscard]] std::optional<stretch> newest() {
        std::optional<stretch> best;
        for (std::size_t i = 0; i < index_.size(); ++i) {
            if (agreed_[i]) continue;  // a walk that came by there led on as one from there would
            const stretch found = walk(i);
            if (found.confirmed == 0 && !found.to_tail) continue;  // nothing vouches for any of it
            // The same end: the one that begins earlier, which comes first. An end further on is newer. A stretch from
            // a damaged entry confirms nothing but itself, and must not beat one that others confirm.
            const auto rank = [](const stretch& s) {
                return std::pair(s.confirmed != 0 || s.first.position == 0, s.end.position);
            };
            if (!best || rank(found) > rank(*best)) best = found;
        }
        return best;
    }
    /// The number behind the newest that the index knows.
    [[nodiscard]] std::uint64_t newest_known() const {
        std::uint64_t newest = 1;
        for (const boundary& entry : index_)
            if (entry.sequence < layout::broadcast_position_max) newest = std::max(newest, entry.sequence);
        return newest;
    }

    /// The number of the oldest message that may still have been there, as far as the index tells.
    [[nodiscard]] std::optional<std::uint64_t> oldest() const noexcept { return oldest_; }
    /// Whether the horizon is one of this ring's; without it, the oldest messages cannot be told from overwritten ones.
    [[nodiscard]] bool horizon_holds() const noexcept { return horizon_holds_; }

    /// Runs visit(position, record) over the messages of a stretch.
    template <class Visit>
    void for_each(const stretch& over, Visit&& visit) const {
        for (std::uint64_t at = over.first.position; at < over.end.position;) {
            const layout::ring_word record = view_.record_at(at);
            if (record.bytes == 0) return;
            if (record.kind == layout::ring_word_kind::message) visit(at, record);
            at += record.bytes;
        }
    }
    [[nodiscard]] const std::byte* payload(std::uint64_t position) const {
        return view_.at(position) + layout::ring_word_bytes;
    }

 private:
    /// Whether the word at a position, and so many bytes behind it, were not cut off.
    [[nodiscard]] bool has(std::uint64_t position, std::uint64_t payload_bytes) const {
        return payload(position) + payload_bytes <= end_;
    }
    /// From an entry on, to the tail or to the last entry that agrees.
    [[nodiscard]] stretch walk(std::size_t start) {
        const boundary from = index_[start];
        stretch found{from, from, 0, false, from.position};
        boundary at = from;
        std::size_t next = start + 1;
        for (; next < index_.size() && index_[next].position == from.position; ++next)
            agreed_[next] = agreed_[next] || index_[next].sequence == from.sequence;
        bool contradicted = false;  // by an entry behind the last one that agreed
        for (bool skipped = false;;) {
            for (; next < index_.size() && index_[next].position <= at.position; ++next) {
                contradicted = index_[next].position != at.position || index_[next].sequence != at.sequence;
                if (contradicted) continue;
                found.end = at;
                ++found.confirmed;
                agreed_[next] = true;
            }
            if (records_left_ == 0) return found;
            --records_left_;
            if (!has(at.position, 0)) return found;
            const layout::ring_word record = view_.record_at(at.position);
            if (record.kind == layout::ring_word_kind::not_ready && !skipped) {
                found.to_tail = !contradicted && next == index_.size();
                if (found.to_tail) found.end = at;
                return found;
            }
            const bool message = record.kind == layout::ring_word_kind::message && record.length <= g_.message_max() &&
                                 has(at.position, record.length);
            const bool skip =
                record.kind == layout::ring_word_kind::skip && !skipped && record.bytes <= g_.capacity / 4;
            if ((!message && !skip) || at.position + record.bytes - from.position > g_.capacity) return found;
            at.position += record.bytes;
            found.reached = at.position;
            if (message) ++at.sequence;
            skipped = skip;
        }
    }

    layout::broadcast_geometry g_;
    layout::broadcast_view view_;
    const std::byte* end_;         // of what was not cut off
    std::vector<boundary> index_;  // by position
    std::optional<std::uint64_t> oldest_;
    bool horizon_holds_ = false;
    std::vector<bool> agreed_;                      // whether a walk met the entry, with its number
    std::uint64_t records_left_ = 2 * g_.capacity;  // that walks may still meet, whatever the index says
};

}  // namespace

void salvage_broadcast(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const auto g = layout::broadcast_geometry::parse(from.spec().geometry, to.size(), from.uri());
    old_broadcast old(from, g);
    const auto kept = old.newest();
    const std::uint64_t first = kept ? kept->first.sequence : old.newest_known();

    const layout::broadcast_clocks clocks{[]() noexcept { return detail::now_ns(); },
                                          []() noexcept { return detail::now_ns(); }};
    layout::broadcast_write_core::format(to, g, detail::now_ns());
    // Relaxed: nobody else has the bytes yet.
    reinterpret_cast<layout::broadcast_entry*>(to.data() + g.entry_offset(0))
        ->sequence.store(first, std::memory_order_relaxed);
    layout::broadcast_write_core made(to, g, clocks, from.uri(), layout::ring_origin::just_made);
    layout::no_broadcast_slots none;
    std::vector<std::byte> message;
    if (kept)
        old.for_each(*kept, [&](std::uint64_t position, const layout::ring_word& record) {
            message.resize(static_cast<std::size_t>(record.length));
            detail::copy_from_shared(message.data(), old.payload(position), message.size());
            (void)made.append(message, record.type, none);
            (void)made.commit();
        });
    layout::findings none_expected;
    const layout::broadcast_checked checked = layout::verify_broadcast(to, g, none_expected);
    log.keep(checked.messages);

    // What the old ring had besides: as far as the index tells.
    const std::optional<std::uint64_t> oldest = old.oldest();
    if (kept && oldest && *oldest < kept->first.sequence)
        log.lose(old.horizon_holds() ? "messages in front of damaged records; a ring has no gaps"
                                     : "the oldest messages: what tells whether they were overwritten is damaged",
                 detail::concat("numbers ", *oldest, "..", kept->first.sequence - 1), kept->first.sequence - *oldest);
    if (kept && !kept->to_tail)
        log.lose("messages behind damaged records, as many as there were; numbers go on from the last that was kept",
                 detail::concat("numbers from ", kept->end.sequence), 1);
    if (!kept) log.lose("no record is where the index says, so nothing tells the messages", "", 1);
    if (kept && checked.oldest > kept->first.sequence)
        log.lose("the oldest messages, which the new ring has no room for",
                 detail::concat("numbers ", kept->first.sequence, "..", checked.oldest - 1),
                 checked.oldest - kept->first.sequence);
}

}  // namespace holdfast::inspect
