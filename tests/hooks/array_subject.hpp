// SPDX-License-Identifier: Apache-2.0
// array_subject.hpp - random histories of an array under store_rig.hpp: stores of one element and of ranges, within
// and across groups, and takeovers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/array_model.hpp"

namespace holdfast::test {

/// Elements as in array_model.hpp, fewer of them: two or three groups, of which the last is not full.
struct few_narrow_elements {
    using value = std::uint64_t;
    static constexpr std::uint64_t size = 140;
};
struct few_crumb_elements {
    using value = std::array<std::uint8_t, 3>;
    static constexpr std::uint64_t size = 260;  // stamps below 4096
};
struct few_wide_elements {
    using value = std::array<std::uint64_t, 7>;
    static constexpr std::uint64_t size = 20;
};
struct few_large_elements {
    using value = std::array<std::uint64_t, 150>;
    static constexpr std::uint64_t size = 3;
};

template <class Shape>
class array_subject {
 public:
    static constexpr unsigned length = 400;

    explicit array_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(layout::plan_array(Shape::size, sizeof(value))),
          bytes_(geometry_.body_bytes()),
          array_(bytes_.bytes(), geometry_),
          model_(Shape::size, value{}) {}

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        if (random_.one_in(32)) {
            range_ = {0, 0};
            rig.operate([&] { array_ = image_type(bytes_.bytes(), geometry_); },
                        [&] { return survive(rig, either, true); });
            return {};
        }
        const std::uint64_t most = std::min<std::uint64_t>({geometry_.range_max, Shape::size, 6});
        const std::uint64_t count = random_.one_in(2) ? 1 : 1 + random_.below(most);
        // Near a border of groups as often as anywhere.
        const std::uint64_t border = std::min(geometry_.group_elements, Shape::size - count);
        range_.first = random_.one_in(2) ? random_.below(Shape::size - count + 1)
                                         : border - std::min<std::uint64_t>(border, random_.below(count + 1));
        range_.count = count;
        ++stamp_;
        values_.clear();
        for (std::uint64_t i = 0; i < count; ++i) values_.push_back(stamped_element<value>(range_.first + i, stamp_));
        seen_.assign(count, false);
        rig.operate([&] { array_.put(range_.first, values_); }, [&] { return survive(rig, either, true); });
        for (std::uint64_t i = 0; i < count; ++i) model_[range_.first + i] = values_[i];
        return {};
    }

 private:
    using value = typename Shape::value;
    using image_type = array_image<value>;
    using loader = typename image_type::loader;
    enum allowed : unsigned { neither = 0, before_only = 1, after_only = 2, either = 3 };

    // Which of the states before and after the store under way a reader finds; 0 of a mix, where narrow elements show
    // one. `changed` gets which of the elements are of the store.
    std::string state_of(const loader& in, unsigned& state, std::vector<bool>* changed) const {
        bool all = true, none = true;
        for (std::uint64_t i = 0; i < Shape::size; ++i) {
            value found{};
            if (in.load(i, reinterpret_cast<std::byte*>(&found)) != outcome::ok)
                return "element " + std::to_string(i) + " cannot be read";
            const bool open = range_.holds(i);
            const bool is_new = open && found == values_[i - range_.first];
            if (!is_new && found != model_[i]) return "element " + std::to_string(i) + " is torn or another";
            if (!open) continue;
            (is_new ? none : all) = false;
            if (changed == nullptr) continue;
            if ((*changed)[i - range_.first] && !is_new) return "element " + std::to_string(i) + " went back";
            (*changed)[i - range_.first] = is_new;
        }
        state = (none ? 1U : 0U) | (all ? 2U : 0U);
        if (geometry_.wide() && state == neither) return "a store of wide elements is seen in part";
        return {};
    }

    // `allow`: the states the next writer may find. `living`: the store is under way, not a recovery that died.
    std::string survive(store_rig& rig, unsigned allow, bool living) {
        const typename image_type::const_view view(bytes_.bytes(), geometry_, {});
        unsigned seen = neither;
        std::vector<bool> changed = seen_;
        std::string why = state_of(loader(view), seen, &changed);
        if (!why.empty()) return "a reader: " + why;
        if (living) seen_ = changed;
        if (why = image_type::damage_of(view); !why.empty()) return "verify: " + why;
        // Who saw one new element must find all of them from the next attach on.
        const unsigned from_here = (seen & before_only) != 0 ? allow : allow & after_only;
        std::optional<image_type> next;
        rig.recover([&] { next.emplace(bytes_.bytes(), geometry_); }, [&] { return survive(rig, from_here, false); });
        if (next->recovery().journal_rejected) return "recovery rejected the journal";
        unsigned now = neither;
        if (why = state_of(next->reader(), now, &changed); !why.empty()) return "recovered: " + why;
        if ((now & from_here) == 0) return "recovered: neither before nor after, or taken back";
        if (why = next->damage(); !why.empty()) return "recovered, verify: " + why;
        if (rig.changes_by([&] { next.emplace(bytes_.bytes(), geometry_); }) != 0) return "recovery is not idempotent";
        rig.go_on([&] { why = go_on(*next); });
        return why;
    }
    std::string go_on(image_type& next) const {
        const std::uint64_t at = range_.first, count = std::min<std::uint64_t>(2, Shape::size - at);
        next.store(at, count, 4000);
        next.store(0, 1, 4001);
        const auto reader = next.reader();
        for (std::uint64_t i = 0; i < count; ++i)
            if (image_type::stamp_at(reader, at + i) != (at + i == 0 ? 4001U : 4000U))
                return "the next store is not read";
        if (image_type::stamp_at(reader, 0) != 4001U) return "the next store of one is not read";
        return next.damage();
    }

    draws random_;
    layout::array_geometry geometry_;
    aligned_bytes bytes_;
    image_type array_;
    std::vector<value> model_;
    holdfast::detail::element_range range_;
    std::vector<value> values_;
    std::vector<bool> seen_;  // which elements a reader saw changed
    std::uint64_t stamp_ = 0;
};

}  // namespace holdfast::test
