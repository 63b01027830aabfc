// SPDX-License-Identifier: Apache-2.0
// salvage_table.cpp - entries of a hash table by their regions of 416 slots: the checksum of a region vouches for all
// keys and values in it, whatever became of their tags; or for all but one word, or one slot, that it tells. A new
// table is filled with them, so tags, counters, sizes, journals and stripes of the old one need not be right. One of
// many writers is made the same way: at rest it needs no lock, and the first journal counts for all.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/hash_table/recover.hpp"
#include "inspect/one_word.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

namespace {

using table_bytes = detail::table_view<std::byte, detail::runtime_node>;
using table_writer = detail::hash_table_mutator<detail::runtime_node>;

constexpr std::uint64_t region_slots = layout::buckets_per_region * layout::tags_per_line;

/// The slots of one region of an old table, and which of them hold an entry that goes over.
class table_region {
 public:
    /// `expected`: what the region's checksum may be. `end`: of the bytes that are there.
    table_region(const table_bytes& view, const std::byte* end, std::uint64_t region,
                 std::vector<std::uint64_t> expected)
        : view_(view), end_(end), expected_(std::move(expected)), first_(region * region_slots) {
        slots_ = std::min(region_slots, view.slots() - first_);
        for (std::uint64_t i = 0; i < slots_; ++i) {
            holds_[i] = detail::is_key_tag(tag(i));
            if (holds_[i]) sum_ += detail::digest_node(view_, node(i));
        }
    }

    /// Settles which entries go over.
    void check(salvage_log& log) {
        for (const std::uint64_t sum : expected_)
            if (sum == sum_) return;
        for (const std::uint64_t sum : expected_)
            if (mend(sum, log)) return;
        if (std::ranges::none_of(holds_, [](bool held) { return held; })) {
            if (was_never_used())
                log.mend("a checksum was damaged, not what it covers", place(0), 0);
            else
                log.lose("no tag is left of a region that may have held entries", place(0));
        }
        for (std::uint64_t i = 0; i < slots_; ++i) {
            if (!holds_[i]) continue;
            if (!is_there(i))
                log.lose("its bytes were cut off", place(i));
            else if (!is_on_path(i))
                log.lose("the key does not belong into its slot", place(i));
            else if (log.doubt("the checksum of their region does not hold", place(i)))
                continue;
            holds_[i] = false;
        }
    }

    template <class Visit>
    void for_each(Visit&& visit) const {
        for (std::uint64_t i = 0; i < slots_; ++i)
            if (holds_[i]) visit(first_ + i, node(i));
    }

 private:
    /// Whether one change explains why the sum is not the expected one.
    [[nodiscard]] bool mend(std::uint64_t expected, salvage_log& log) {
        if (differ_little(sum_, expected)) {
            log.mend("a checksum was damaged, not what it covers", place(0), 0);
            return true;
        }
        return mend_presence(expected, log) || mend_word(expected, log);
    }

    [[nodiscard]] bool mend_presence(std::uint64_t expected, salvage_log& log) {
        for (std::uint64_t i = 0; i < slots_; ++i) {
            const std::uint64_t own = detail::digest_node(view_, node(i));
            if (holds_[i] ? sum_ - own != expected : sum_ + own != expected) continue;
            holds_[i] = !holds_[i];
            if (holds_[i])
                log.mend("a tag that was lost was put right by a checksum", place(i));
            else
                log.mend("a tag without an entry was taken out by a checksum", place(i), 0);
            return true;
        }
        return false;
    }

    [[nodiscard]] bool mend_word(std::uint64_t expected, salvage_log& log) {
        std::byte* found = nullptr;
        std::uint64_t word = 0, where = 0;
        for (std::uint64_t i = 0; i < slots_; ++i) {
            if (!holds_[i]) continue;
            for (std::uint32_t w = 0; w < view_.node_words; ++w) {
                std::byte* const at = node(i) + 8 * std::size_t{w};
                const auto present = detail::load_acquire<std::uint64_t>(at);
                const std::uint64_t multiplier =
                    detail::digest_multiplier(static_cast<std::uint64_t>(at - view_.nodes));
                const std::uint64_t needed =
                    word_of_term(detail::digest_term(present, multiplier) + expected - sum_, multiplier);
                if (!differ_little(present, needed)) continue;
                if (found != nullptr) return false;
                found = at, word = needed, where = i;
            }
        }
        if (found == nullptr) return false;
        detail::store_release<std::uint64_t>(found, word);
        log.mend("one word was put right by a checksum", place(where));
        return true;
    }

    /// Nodes are zero until an entry is put there, and keep its bytes when it goes.
    [[nodiscard]] bool was_never_used() const {
        const std::span<const std::byte> nodes(node(0), static_cast<std::size_t>(slots_ * view_.node_bytes));
        return is_there(slots_ - 1) && std::ranges::all_of(nodes, [](std::byte b) { return b == std::byte{}; });
    }
    [[nodiscard]] bool is_there(std::uint64_t i) const { return node(i) + 8 * std::size_t{view_.node_words} <= end_; }
    [[nodiscard]] bool is_on_path(std::uint64_t i) const {
        const detail::hash_parts h = view_.hash(node(i));
        const std::uint64_t slot = first_ + i;
        return h.tag() == tag(i) && detail::position_on_path(view_, h, slot / layout::tags_per_line) >= 0;
    }
    [[nodiscard]] std::uint16_t tag(std::uint64_t i) const {
        const std::uint64_t slot = first_ + i;
        return detail::tag_at(view_.line(slot / layout::tags_per_line),
                              static_cast<unsigned>(slot % layout::tags_per_line));
    }
    [[nodiscard]] std::byte* node(std::uint64_t i) const {
        const std::uint64_t slot = first_ + i;
        return view_.node_at(slot / layout::tags_per_line, static_cast<unsigned>(slot % layout::tags_per_line));
    }
    [[nodiscard]] std::string place(std::uint64_t i) const { return detail::concat("slot ", first_ + i); }

    const table_bytes& view_;
    const std::byte* end_;
    std::vector<std::uint64_t> expected_;
    std::uint64_t first_;
    std::uint64_t slots_ = 0;
    std::uint64_t sum_ = 0;
    std::array<bool, region_slots> holds_{};
};

/// Finishes what killed writers left. A word that damage made look like an operation makes it sign a checksum that is
/// none: what stood there before is remembered. For the same reason no stripe is asked whose a slot was.
class settled_table {
 public:
    explicit settled_table(const table_bytes& view) {
        if (!view.has_many_writers()) settle(view);
        for (std::uint32_t writer = 0; writer < view.writers; ++writer) settle(view.as_writer(writer));
    }
    [[nodiscard]] std::vector<std::uint64_t> expected(const table_bytes& view, std::uint64_t number) const {
        std::vector<std::uint64_t> sums{digest(view, number)};
        for (const auto& [region, before] : before_)
            if (region == number && std::ranges::find(sums, before) == sums.end()) sums.push_back(before);
        return sums;
    }

 private:
    void settle(const table_bytes& view) {
        const detail::hash_table_intent intent{
            detail::load_acquire<std::uint64_t>(view.journal + layout::journal_intent_offset)};
        const std::uint64_t region = intent.slot() / region_slots;
        if (intent.is_open() && intent.slot() < view.slots()) before_.emplace_back(region, digest(view, region));
        (void)detail::recover(view);
    }
    [[nodiscard]] static std::uint64_t digest(const table_bytes& view, std::uint64_t region) {
        return detail::load_acquire<std::uint64_t>(view.digest_of(region * layout::buckets_per_region));
    }

    std::vector<std::pair<std::uint64_t, std::uint64_t>> before_;  // region, and its digest before it was settled
};

}  // namespace

void salvage_table(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    layout::hash_table_geometry g;
    require_geometry(from, layout::read_hash_table_geometry(from.spec().geometry, to.size(), g));
    if ((from.spec().policy == writers::many) != (g.writer_slots != 0))
        require_geometry(from, "policy and writer slots contradict each other");
    count_cut(from, g.lines_offset, log);  // the checksums; behind them each speaks for its region
    const table_bytes old(from.body(), g, detail::node_of(g));
    table_writer made(table_bytes(to, g, detail::node_of(g)));
    const settled_table settled(old);
    const std::byte* const end = from.present_end();
    for (std::uint64_t number = 0; number < old.regions(); ++number) {
        table_region region(old, end, number, settled.expected(old, number));
        region.check(log);
        region.for_each([&](std::uint64_t slot, const std::byte* node) {
            switch (made.try_insert(node, node + old.value_offset).status) {
                case outcome::ok: return log.keep();
                case outcome::exists:
                    return log.lose("its key stands in an earlier slot too", detail::concat("slot ", slot));
                default: return log.lose("the new table has no slot for it", detail::concat("slot ", slot));
            }
        });
    }
}

}  // namespace holdfast::inspect
