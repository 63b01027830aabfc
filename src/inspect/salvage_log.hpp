// SPDX-License-Identifier: Apache-2.0
// salvage_log.hpp - what becomes of each part of a damaged segment, counted by reason.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::inspect {

enum class fate : std::uint8_t {
    lost,      ///< not in the repaired segment
    doubtful,  ///< in it because the caller wanted what may be wrong
    mended,    ///< in it as it was before the damage, which a checksum proves
};

[[nodiscard]] constexpr std::string_view fate_name(fate what) noexcept {
    switch (what) {
        case fate::lost: return "lost";
        case fate::doubtful: return "doubtful";
        case fate::mended: return "mended";
    }
    return "lost";
}

struct salvage_note {
    fate what = fate::lost;
    std::string_view reason;  ///< of a fixed list
    std::string place;        ///< in the container's terms: "slot 81"; may be empty
    std::uint64_t items = 0;  ///< entries, values, messages, elements; 0: none in itself (an index, a count)
};

/// How many items were lost for one reason, and the like.
struct salvage_sum {
    fate what = fate::lost;
    std::string_view reason;
    std::uint64_t items = 0;
    std::uint64_t notes = 0;
};

class salvage_log {
 public:
    using sink = std::function<void(const salvage_note&)>;

    salvage_log(bool keep_doubtful, sink each) : keep_doubtful_(keep_doubtful), each_(std::move(each)) {}

    void keep(std::uint64_t items = 1) noexcept { kept_ += items; }
    void lose(std::string_view reason, std::string place, std::uint64_t items = 1) {
        add({fate::lost, reason, std::move(place), items});
    }
    /// Returns: whether to keep what is in doubt. The caller then counts it as kept.
    [[nodiscard]] bool doubt(std::string_view reason, std::string place, std::uint64_t items = 1) {
        add({keep_doubtful_ ? fate::doubtful : fate::lost, reason, std::move(place), items});
        return keep_doubtful_;
    }
    void mend(std::string_view reason, std::string place, std::uint64_t items = 1) {
        add({fate::mended, reason, std::move(place), items});
    }

    [[nodiscard]] std::uint64_t kept() const noexcept { return kept_; }
    [[nodiscard]] std::uint64_t items(fate what) const noexcept {
        std::uint64_t all = 0;
        for (const salvage_sum& sum : sums_) all += sum.what == what ? sum.items : 0;
        return all;
    }
    [[nodiscard]] const std::vector<salvage_sum>& sums() const noexcept { return sums_; }
    /// The first of them.
    [[nodiscard]] const std::vector<salvage_note>& notes() const noexcept { return notes_; }
    static constexpr std::size_t notes_max = 100;

 private:
    void add(salvage_note note) {
        if (each_) each_(note);
        for (salvage_sum& sum : sums_)
            if (sum.what == note.what && sum.reason == note.reason) {
                sum.items += note.items;
                ++sum.notes;
                return remember(std::move(note));
            }
        sums_.push_back({note.what, note.reason, note.items, 1});
        remember(std::move(note));
    }
    void remember(salvage_note note) {
        if (notes_.size() < notes_max) notes_.push_back(std::move(note));
    }

    bool keep_doubtful_;
    sink each_;
    std::uint64_t kept_ = 0;
    std::vector<salvage_sum> sums_;
    std::vector<salvage_note> notes_;
};

}  // namespace holdfast::inspect
