// SPDX-License-Identifier: Apache-2.0
// estimator_interleaving.hpp - two samples of a block estimator's writer (max_of_n.hpp), each of which ends a block,
// beside two looks (schedule_rig.hpp): never a count with another's sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "holdfast/metrics/max_of_n.hpp"
#include "hooks/interleaving.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

class estimator_interleaving final : public interleaving {
 public:
    /// Behind so many blocks.
    explicit estimator_interleaving(std::uint64_t before) : before_(before), bytes_(sizeof(max_of_n_state)) {
        for (std::uint64_t i = 0; i < before; ++i) max_of_n(state(), 1).record(sample_of(i));
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {}
    std::string run(unsigned process, unsigned operation) override {
        if (process == 0) {
            max_of_n(state(), 1).record(sample_of(before_ + operation));
            return {};
        }
        max_of_n_total got;
        return look_at_writer([&] { got = read(state()); }, [&](unsigned done) { return is(got, before_ + done); },
                              "a look got a count with another's sum, or one that was not there at the time");
    }
    std::string succeed() override { return run(0, begun(0) - 1); }
    std::string judge(std::optional<unsigned> dead) override {
        const max_of_n_total got = read(state());
        const unsigned least = dead == 0U ? ended(0) : operations;
        for (unsigned done = least; done <= operations && done <= begun(0); ++done) {
            if (!is(got, before_ + done)) continue;
            max_of_n next(state(), 1);
            next.record(1000);
            return next.total().blocks == got.blocks + 1 && next.total().sum == got.sum + 1000
                       ? ""
                       : "the next block is not counted";
        }
        return "the end is no state";
    }

 private:
    [[nodiscard]] max_of_n_state& state() noexcept { return *reinterpret_cast<max_of_n_state*>(bytes_.bytes().data()); }
    // Powers of two: each sum of some tells which.
    [[nodiscard]] static std::int64_t sample_of(std::uint64_t number) { return std::int64_t{1} << number; }
    [[nodiscard]] static bool is(const max_of_n_total& got, std::uint64_t blocks) {
        return got.blocks == blocks && got.sum == static_cast<double>((std::uint64_t{1} << blocks) - 1);
    }

    std::uint64_t before_;
    aligned_bytes bytes_;
};

}  // namespace holdfast::test
