// SPDX-License-Identifier: Apache-2.0
// array_interleaving.hpp - two stores of an array's writer beside two loads (schedule_rig.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/array_model.hpp"

namespace holdfast::test {

template <class T>
class array_interleaving final : public interleaving {
 public:
    using range = holdfast::detail::element_range;

    /// Stores, and loads: of one element, or of a range; a load of no element is a full check.
    array_interleaving(std::uint64_t size, std::array<range, 2> stores, std::array<range, 2> loads)
        : stores_(stores),
          loads_(loads),
          geometry_(layout::plan_array(size, sizeof(T))),
          bytes_(geometry_.body_bytes()),
          writer_(bytes_.bytes(), geometry_) {
        for (std::uint64_t i = 0; i < size; ++i) writer_.store(i, 1, 1);
        states_[0].assign(size, 1);
        for (unsigned i = 0; i < operations; ++i) {
            states_[i + 1] = states_[i];
            for (std::uint64_t at = 0; at < stores[i].count; ++at) {
                states_[i + 1][stores[i].first + at] = 2 + i;
                values_[i].push_back(stamped_element<T>(stores[i].first + at, 2 + i));
            }
        }
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_ = image_type(bytes_.bytes(), geometry_);
        successor_.reset();
        last_seen_.assign(states_[0].size(), 0);
    }
    std::string succeed() override {
        successor_.emplace(bytes_.bytes(), geometry_);
        if (successor_->recovery().journal_rejected) return "recovery rejected the journal";
        const unsigned lost = begun(0) - 1;
        successor_->put(stores_[lost].first, values_[lost]);
        return {};
    }
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            writer_.put(stores_[operation].first, values_[operation]);
            return {};
        }
        const range wanted = loads_[operation];
        if (wanted.count == 0) return verified();
        return geometry_.wide() ? load_wide(wanted) : load_narrow(wanted);
    }
    std::string judge(std::optional<unsigned> dead) override {
        const image_type next(bytes_.bytes(), geometry_);
        if (next.recovery().journal_rejected) return "recovery rejected the journal";
        std::string why = next.damage();
        if (!why.empty()) return "verify: " + why;
        const unsigned least = dead == 0U ? ended(0) : operations;
        for (unsigned state = least; state <= operations && state <= begun(0); ++state) {
            if (!array_difference<loader, T>(next.reader(), states_[state]).empty()) continue;
            for (std::uint64_t i = 0; i < states_[state].size(); ++i)
                if (states_[state][i] < last_seen_[i]) return "an element went back";
            return {};
        }
        return "the end is no state";
    }

 private:
    using image_type = array_image<T>;
    using loader = typename image_type::loader;

    std::string load_wide(range wanted) {
        std::array<T, 8> out;
        outcome got = outcome::ok;
        return look_at_writer(
            [&] {
                auto* const to = reinterpret_cast<std::byte*>(out.data());
                got = wanted.count == 1 ? writer_.reader().load(wanted.first, to)
                                        : writer_.reader().load_range(wanted.first, wanted.count, to);
            },
            [&](unsigned state) {
                for (std::uint64_t i = 0; i < wanted.count; ++i)
                    if (stamp_of_element<T>(wanted.first + i, out[i]) != states_[state][wanted.first + i]) return false;
                return got == outcome::ok;
            },
            "a reader got elements that were not there at the time, or a mix");
    }
    // Each by itself, and none going back.
    std::string load_narrow(range wanted) {
        for (std::uint64_t i = wanted.first; i < wanted.first + wanted.count; ++i) {
            const unsigned least = ended(0);
            const auto stamp = image_type::stamp_at(writer_.reader(), i);
            const unsigned most = begun(0);
            if (!stamp || *stamp < states_[least][i] || *stamp > states_[most][i] || *stamp < last_seen_[i])
                return "a reader got an element that was not there at the time";
            last_seen_[i] = *stamp;
        }
        return {};
    }
    std::string verified() const {
        std::string text;
        (void)holdfast::detail::verify(writer_.bytes_view().as_const(), [&](const array_finding& f) {
            text = "verify beside a writer: " + std::string(describe(f.what));
            return false;
        });
        return text;
    }

    std::array<range, 2> stores_, loads_;
    layout::array_geometry geometry_;
    aligned_bytes bytes_;
    image_type writer_;
    std::optional<image_type> successor_;
    std::array<array_model, operations + 1> states_;
    std::array<std::vector<T>, operations> values_;
    array_model last_seen_;  // of narrow elements
};

}  // namespace holdfast::test
