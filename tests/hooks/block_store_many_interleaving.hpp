// SPDX-License-Identifier: Apache-2.0
// block_store_many_interleaving.hpp - two of many writers of a block store, two operations each (schedule_rig.hpp), or
// three (trio_rig.hpp). Whatever the schedule and the death: what is there is what those brought and took who were told
// so, each value is taken once, the counts are right and the full check finds nothing, before the dead one's claims are
// dropped and after; and every unit can then be allocated. The store has no more units than the steps take, and a
// writer slot more than there are writers: what is read is what schedules differ in.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "hooks/interleaving.hpp"
#include "support/block_many_bench.hpp"
#include "support/hash_table_image.hpp"

namespace holdfast::test {

template <unsigned Writers>
class block_stores_interleaving final : public interleaving {
 public:
    /// `put_small` has one unit, `put_large` two; `late` frees the last value that an enumeration meets, `keep`
    /// claims and drops, `look` is a full check.
    enum class does { put_small, put_large, free_first, replace_first, late, keep, look };
    using steps = std::array<std::array<does, 2>, Writers>;

    explicit block_stores_interleaving(const steps& of)
        : steps_(of), bytes_(static_cast<std::size_t>(geometry_.body_bytes())) {
        attach();
        first_ = put(writers_[0], value_of(0)).handle;
        other_ = put(writers_[1], value_of(1)).handle;
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        roll_ = writer_roll();
        roll_.give_way = [this] { give_way(); };
        for (unsigned p = 0; p < Writers; ++p) writers_[p] = block_writer_of(view(), roll_, p);
        log_ = {};
    }
    void died(unsigned process) override { roll_.die(process); }

    std::string run(unsigned process, unsigned number) override {
        many_block_writer& writer = writers_[process];
        entry& log = log_[process][number];
        const does what = steps_[process][number];
        log.seed = seed_of(process, number);
        switch (what) {
            case does::look: return damage_beside_writers(view().as_const());
            case does::keep: {
                if (writer.prepare(50) != outcome::ok) return "a claim was refused";
                writer.discard();
                return {};
            }
            case does::free_first: log.target = first_; break;
            case does::replace_first: log.target = first_; break;
            case does::late:
                for (const std::uint64_t h : handles_of(writer.reader())) log.target = h;
                if (log.target == 0) return {};
                break;
            case does::put_small:
            case does::put_large: break;
        }
        outcome status = outcome::ok;
        if (what == does::free_first || what == does::late) {
            status = writer.free(log.target);
        } else {
            const block_result result = put(writer, value_of(log.seed), log.target);
            status = result.status;
            log.brought = result.handle;
        }
        if (status == outcome::ok) log.taken = log.target;
        const bool lost = status == outcome::stale && log.target != 0;
        return status == outcome::ok || lost ? "" : "an operation was refused";
    }

    std::string judge(std::optional<unsigned> dead) override {
        for (const many_block_writer& writer : writers_)
            if (writer.reader().fault().get()) return "a writer latched a fault";
        if (std::string why = damage_of(view().as_const()); !why.empty()) return why;
        if (std::string why = miscounted(view().as_const()); !why.empty()) return why;
        if (std::string why = explained(dead, false); !why.empty()) return why;
        if (!dead && something_open(view())) return "the living left something open";
        many_block_writer next = block_writer_of(view(), roll_, Writers);
        if (next.recovery().counts_rebuilt) return "recovery calls the journal of a mere death damaged";
        if (std::string why = damage_of(view().as_const()); !why.empty()) return "recovered: " + why;
        if (std::string why = miscounted(view().as_const()); !why.empty()) return "recovered: " + why;
        if (std::string why = explained(dead, true); !why.empty()) return "recovered: " + why;
        if (dead && something_open(view())) return "recovered, and something is open";
        if (dead)
            if (std::string why = claimed_again(view(), roll_, *dead); !why.empty()) return why;
        return leaks(view(), next);
    }

 private:
    struct entry {
        std::uint64_t seed = 0, target = 0, brought = 0, taken = 0;
    };

    [[nodiscard]] writable_blocks view() noexcept { return {bytes_.bytes(), geometry_}; }
    [[nodiscard]] static std::uint64_t seed_of(unsigned process, unsigned number) noexcept {
        return 2 + 2 * process + number;
    }
    [[nodiscard]] block_content value_of(std::uint64_t seed) const noexcept {
        if (seed < 2) return {seed, 30 + seed};
        return {seed, steps_[(seed - 2) / 2][seed % 2] == does::put_large ? 50U : 33U};
    }

    // Whether what is there follows from what the writers were told, and from the operation that one died in.
    std::string explained(std::optional<unsigned> dead, bool recovered) {
        const block_reader reader(view().as_const());
        std::set<std::uint64_t> expected{first_, other_}, taken;
        const entry* open = nullptr;  // what the dead one was in
        for (unsigned p = 0; p < Writers; ++p)
            for (unsigned i = 0; i < operations; ++i) {
                const entry& log = log_[p][i];
                if (ended(p) <= i) {
                    if (dead == p && begun(p) > i) open = &log;
                    continue;
                }
                if (log.brought != 0) expected.insert(log.brought);
                if (log.taken != 0 && !taken.insert(log.taken).second) return "a value was taken twice";
            }
        for (const std::uint64_t handle : taken) expected.erase(handle);
        bool came = false;
        for (const std::uint64_t handle : handles_of(reader)) {
            if (taken.contains(handle)) return "a value that was taken is there";
            if (expected.erase(handle) != 0) {
                if (!holds_any(reader, handle)) return "another value under a handle";
                continue;
            }
            if (open == nullptr || came || !holds(reader, handle, value_of(open->seed))) return "a value from nowhere";
            came = true;
        }
        const bool went = open != nullptr && open->target != 0 && expected.erase(open->target) != 0;
        if (!expected.empty()) return "a value is lost";
        if (open == nullptr || open->target == 0 || !recovered) return {};
        const bool replaces = is_replacing(*open);
        const bool went_to_other = taken.contains(open->target);
        if (replaces && went && !came && !took_new(taken, reader)) return "neither the old value nor the new one";
        if (replaces && came && (went_to_other || !went)) return "both the old value and the new one";
        return {};
    }
    // Another may have met the new value by enumeration, and taken it.
    bool took_new(const std::set<std::uint64_t>& taken, const block_reader&) const {
        for (const std::uint64_t handle : taken) {
            bool known = handle == first_ || handle == other_;
            for (const auto& of : log_)
                for (const entry& log : of) known = known || log.brought == handle;
            if (!known) return true;
        }
        return false;
    }
    bool is_replacing(const entry& log) const {
        return steps_[(log.seed - 2) / 2][log.seed % 2] == does::replace_first;
    }
    bool holds_any(const block_reader& reader, std::uint64_t handle) const {
        for (std::uint64_t seed = 0; seed < 2 + 2 * Writers; ++seed)
            if (holds(reader, handle, value_of(seed))) return true;
        return false;
    }

    steps steps_;
    layout::block_store_geometry geometry_{4 * Writers, 64, Writers + 1};
    aligned_bytes bytes_;
    writer_roll roll_;
    std::array<many_block_writer, Writers> writers_;
    std::uint64_t first_ = 0, other_ = 0;
    std::array<std::array<entry, operations>, Writers> log_{};
};

using block_store_many_interleaving = block_stores_interleaving<2>;

}  // namespace holdfast::test
