// SPDX-License-Identifier: Apache-2.0
// table_grow_interleaving.hpp - a table of many writers grows, or shrinks: two steps of the leader beside two
// operations of another writer on the same key (schedule_rig.hpp). Whatever the schedule and the death: the answers
// have an order, both generations pass the full check, a closed stripe's key is the same in both, and who goes on leads
// to the same end.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "hooks/interleaving.hpp"
#include "support/hash_table_many_image.hpp"
#include "support/table_answer.hpp"

namespace holdfast::test {

template <class Shape>
class table_grow_interleaving final : public interleaving {
    using pair = growing_many_writer<Shape>;
    using growth = typename pair::growth;

 public:
    /// What the leader does, to the stripe of the key or to the key.
    enum class lead : std::uint32_t { open, carry, close };

    /// `far`: the key lies in another stripe than its home; else both are one. `kinds`: the other writer's operations
    /// (table_key_model).
    table_grow_interleaving(std::array<lead, 2> leads, std::array<std::uint32_t, 2> kinds, bool far, bool there,
                            bool grows = true)
        : leads_(leads),
          kinds_(kinds),
          there_(there),
          where_{many_stage<Shape>::geometry(), many_geometry_for<typename Shape::key, typename Shape::value>(
                                                    grows ? 1900 : 400, writer_roll::processes, 3)},
          bytes_(where_.bytes()) {
        pair maker(bytes_.bytes(), where_, roll_, 2);
        const many_stage<Shape> stage(maker.old());
        key_ = far ? stage.far[0] : stage.near;
        if (there_) (void)apply<Shape>(maker.old(), table_operation::try_insert, key_, first_stamp);
        if (leads_[0] != lead::open)
            for (std::uint64_t s = 0; s <= maker.old().bytes().stripe_mask; ++s) (void)maker.turn(s, growth::mirrors);
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        roll_ = writer_roll();
        roll_.give_way = [this] { give_way(); };
        for (unsigned p = 0; p < 2; ++p) processes_[p].emplace(bytes_.bytes(), where_, roll_, p);
        clock_ = 0;
        log_ = {};
        closed_ = false;
    }
    void died(unsigned process) override { roll_.die(process); }
    std::string run(unsigned process, unsigned number) override {
        if (process == 0) return take_the_lead(leads_[number]);
        operation& op = log_[number];
        op.called = ++clock_;
        op.kind = kinds_[number];
        op.key = key_;
        op.given = 10 + number;
        op.killed = true;
        many_writer<Shape>& writer = processes_[1]->old();
        const table_answer status = apply<Shape>(writer, static_cast<table_operation>(op.kind), key_, op.given);
        if (status == table_answer::contended && writer.core().met().what() == growth::closed) {
            op.called = 0;  // nothing was changed: it would go on in the next generation
            return {};
        }
        op.answer = status.number();
        op.returned = ++clock_;
        op.killed = false;
        const bool refused =
            status == table_answer::full || status == table_answer::contended || status == table_answer::corrupt;
        return refused ? "an operation was refused with status " + status.text() : "";
    }
    std::string judge(std::optional<unsigned> dead) override {
        for (auto& process : processes_)
            if (process->old().reader().fault() || process->next().reader().fault()) return "a writer latched a fault";
        if (std::string why = processes_[0]->old().damage(); !why.empty()) return "verify: " + why;
        if (std::string why = processes_[0]->next().damage(); !why.empty()) return "verify of the next one: " + why;
        pair next(bytes_.bytes(), where_, roll_, 3);
        if (!next.settled() || next.recovery().journal_rejected) return "recovery rejected the journal of a mere death";
        if (!dead && next.recovery().operation_settled) return "an operation was left open by the living";
        const std::optional<std::uint64_t> stamp = stamp_in<Shape>(next.old().reader(), key_);
        if (!stamp) return "a torn value in the end";
        const std::uint64_t home = next.home_of(key_);
        const growth word = holdfast::detail::growth_of(next.old().bytes().stripe(home));
        // Once carried, or changed since it mirrors, and settled: what a closed stripe promises.
        if (word.what() == growth::closed && stamp_in<Shape>(next.next().reader(), key_) != stamp)
            return "a stripe was closed, and its key is another one in the next generation";
        if (closed_ && word.what() != growth::closed) return "a closed stripe was opened";
        if (std::string why = one_order(*stamp); !why.empty()) return why;
        if (std::string why = next.lead(); !why.empty()) return "who leads on: " + why;
        if (stamp_in<Shape>(next.next().reader(), key_) != stamp) return "who leads on changed the key";
        pair last(bytes_.bytes(), where_, roll_, 2);
        if (last.recovery().operation_settled || last.recovery().stripes_given_back) return "something was left open";
        return {};
    }

 private:
    static constexpr std::uint64_t first_stamp = 5;

    std::string take_the_lead(lead what) {
        pair& leader = *processes_[0];
        const std::uint64_t home = leader.home_of(key_);
        outcome done = outcome::ok;
        switch (what) {
            case lead::open: done = leader.turn(home, growth::mirrors); break;
            case lead::carry: done = leader.carry(key_); break;
            case lead::close: done = leader.turn(home, growth::closed); break;
        }
        closed_ = closed_ || what == lead::close;
        if (done == outcome::not_found && what == lead::carry) return {};
        return done == outcome::ok ? "" : "the leader was refused with " + std::string(outcome_name(done));
    }
    std::string one_order(std::uint64_t stamp) {
        history all;
        for (const operation& op : log_)
            if (op.called != 0) all.push_back(op);
        ++clock_;
        for (operation& op : all)
            if (op.killed) op.returned = clock_;
        const std::uint64_t at = ++clock_;
        all.push_back({at, ++clock_, table_key_model::look, false, key_, 0, stamp});
        const history_report report = check_history<table_key_model>(all, there_ ? first_stamp : 0);
        return report.ok() ? "" : report.violation;
    }

    std::array<lead, 2> leads_;
    std::array<std::uint32_t, 2> kinds_;
    bool there_;
    typename pair::room where_;
    aligned_bytes bytes_;
    writer_roll roll_;
    std::uint64_t key_ = 0;
    std::array<std::optional<pair>, 2> processes_;
    std::array<operation, 2> log_{};
    std::uint64_t clock_ = 0;
    bool closed_ = false;
};

}  // namespace holdfast::test
