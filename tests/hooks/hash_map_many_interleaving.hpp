// SPDX-License-Identifier: Apache-2.0
// hash_map_many_interleaving.hpp - two of many writers of a hash map, two operations each (schedule_rig.hpp), or three
// (trio_rig.hpp). Whatever the schedule and the death: an order of instants explains what they were told and what is
// there in the end, the full check finds nothing, before the dead one's part is finished and after; then each entry has
// a key, and all room can be had.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hooks/hash_map_interleaving.hpp"
#include "hooks/interleaving.hpp"
#include "support/block_many_bench.hpp"
#include "support/hash_table_image.hpp"
#include "support/linearizability.hpp"
#include "support/map_many_bench.hpp"

namespace holdfast::test {

template <unsigned Writers>
class hash_maps_interleaving final : public interleaving {
    static_assert(Writers < writer_roll::processes);  // the last is who comes when they are done

 public:
    struct step {
        map_number_model::kind what = map_number_model::set;
        std::uint64_t key = 0;
        bool checks = true;  // a find: then the full check, which takes ten times as long
    };
    using steps = std::array<std::array<step, 2>, Writers>;

    static constexpr std::uint64_t one_stripe = 30, two_stripes = 600;

    /// Key 1 is there in the beginning. The table's capacity says how many stripes it has; of two, each key has one.
    explicit hash_maps_interleaving(const steps& of, std::uint64_t capacity = one_stripe)
        : steps_(of),
          geometry_(small_map_of_many(units, capacity)),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())) {
        while (capacity == two_stripes && stripe_of(name(0)) == stripe_of(name(1))) other_ += "+";
        attach();
        (void)put(writers_[0], name(1), content(1));
        attach();
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        roll_ = writer_roll();
        roll_.give_way = [this] { give_way(); };
        for (unsigned p = 0; p < Writers; ++p) writers_[p] = map_writer_of(view(), roll_, p);
        done_.assign(1, {.called = 1, .returned = 2, .kind = map_number_model::set, .key = 1, .given = 1});
        ticks_ = 2;
        known_.fill(ticks_);
    }
    void died(unsigned process) override { roll_.die(process); }

    std::string run(unsigned process, unsigned number) override {
        many_map_writer& writer = writers_[process];
        const step& does = steps_[process][number];
        const std::uint64_t stamp = 2 + 2 * process + number;
        const std::size_t call = begin(does.what, does.key, does.what == map_number_model::set ? stamp : 0);
        // In weak memory a find may tell of a time before: of any since the process's own last operation.
        if (does.what == map_number_model::find && surely(done_[call].called) == 0)
            done_[call].called = known_[process] + 1;
        std::uint64_t answer = 1;
        switch (does.what) {
            case map_number_model::set:
                if (!put(writer, name(does.key), content(stamp))) return "a set was refused";
                break;
            case map_number_model::erase: {
                const outcome got = writer.erase(as_key(name(does.key))).status;
                if (got != outcome::ok && got != outcome::not_found) return "an erase was refused";
                answer = got == outcome::ok ? 1 : 0;
                break;
            }
            case map_number_model::find: {
                const std::optional<std::uint64_t> got = number_at(writer.reader(), does.key);
                if (!got) return "a mix was found";
                answer = *got;
                if (!does.checks) break;
                if (std::string why = damage_of(view().as_const()); !why.empty() && why != "verify: busy")
                    return "beside a writer: " + why;
                break;
            }
        }
        end(call, answer);
        known_[process] = done_[call].returned;
        return {};
    }

    std::string judge(std::optional<unsigned> dead) override {
        for (const many_map_writer& writer : writers_)
            if (writer.fault()) return "a writer latched a fault";
        if (std::string why = damage_of(view().as_const()); !why.empty()) return why;
        if (std::string why = miscounted(view().store.as_const()); !why.empty()) return why;
        if (!dead && something_open(view())) return "the living left something open";
        many_map_writer next = map_writer_of(view(), roll_, 3);
        if (next.recovery().record_rebuilt) return "recovery calls the record of a mere death damaged";
        if (std::string why = damage_of(view().as_const()); !why.empty()) return "recovered: " + why;
        if (dead && something_open(view())) return "recovered, and something is open";
        if (handles_of(next.reader().blocks()).size() != keys_of(next.reader()).size())
            return "recovered, and an entry has no key";
        if (std::string why = judge_history(next.reader()); !why.empty()) return why;
        if (dead)
            if (std::string why = claimed_again(view().store, roll_, *dead); !why.empty()) return why;
        return leaks(view(), next);
    }

 private:
    static constexpr std::uint64_t keys = 2;
    // Two for each entry, and for each writer a value that comes and one that goes, and some.
    static constexpr std::uint64_t units = 2 + 6 * Writers;
    [[nodiscard]] std::string name(std::uint64_t n) const { return n == 0 ? other_ : "1"; }
    [[nodiscard]] std::uint64_t stripe_of(const std::string& key) {
        const auto& table = view().table;
        return table.stripe_of(view().hash(as_key(key)).home(table.buckets));
    }
    // By number: of one unit or two.
    static constexpr map_content content(std::uint64_t n) noexcept { return {n, n % 2 == 1 ? 70U : 12U}; }
    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }

    // The number of the value, 0 when the key is not there, nothing for a mix.
    [[nodiscard]] std::optional<std::uint64_t> number_at(const map_reader& reader, std::uint64_t key) const {
        std::array<std::byte, 100> out;
        const hash_map_found got = reader.find(as_key(name(key)), std::span<std::byte>(out));
        if (got.status == outcome::not_found) return 0;
        const auto bytes = static_cast<std::size_t>(got.count);
        for (std::uint64_t n = 1; n < 2 + 2 * Writers; ++n)
            if (got && bytes == content(n).bytes && is_whole(std::span(out).first(bytes), n)) return n;
        return std::nullopt;
    }

    std::uint64_t tick() noexcept { return ticks_ += 2; }
    // An operation is killed until it has ended.
    std::size_t begin(map_number_model::kind kind, std::uint64_t key, std::uint64_t given) {
        done_.push_back({.called = tick(), .kind = kind, .killed = true, .key = key, .given = given});
        return done_.size() - 1;
    }
    void end(std::size_t call, std::uint64_t answer) {
        done_[call].returned = tick();
        done_[call].killed = false;
        done_[call].answer = answer;
    }
    // The last one looks at both keys behind all that was done, or died.
    std::string judge_history(const map_reader& now) {
        (void)tick();
        for (operation& op : done_)
            if (op.killed) op.returned = ticks_;
        for (std::uint64_t key = 0; key < keys; ++key)
            end(begin(map_number_model::find, key, 0), number_at(now, key).value_or(99));
        return check_by_key<map_number_model>(done_).violation;
    }

    steps steps_;
    std::string other_ = "another key of two words";
    layout::hash_map_geometry geometry_;
    aligned_bytes bytes_;
    writer_roll roll_;
    std::array<many_map_writer, Writers> writers_;
    history done_;
    std::uint64_t ticks_ = 0;                     // of the only clock there is: what began and ended; even
    std::array<std::uint64_t, Writers> known_{};  // when a process's last operation ended
};

using hash_map_many_interleaving = hash_maps_interleaving<2>;

}  // namespace holdfast::test
