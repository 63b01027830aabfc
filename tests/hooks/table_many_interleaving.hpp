// SPDX-License-Identifier: Apache-2.0
// table_many_interleaving.hpp - two of many writers of a hash table, two operations each (schedule_rig.hpp), or three
// (trio_rig.hpp). Whatever the schedule and the death: the answers and the end have an order that explains them,
// nothing is there twice, the full check finds nothing, before the dead one's stripes are given back and after.
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

template <class Shape, unsigned Writers = 2>
class table_many_interleaving final : public interleaving {
    static_assert(Writers < writer_roll::processes);  // the last is who comes when they are done

 public:
    /// Keys of the stage: they are not there, unless `there` says so.
    enum key_name : unsigned { near, far, far_back, beside_far };
    static constexpr std::uint32_t check = 99;  // a full one, by whoever: no operation on the key
    struct step {
        std::uint32_t kind;  // table_key_model, or check
        key_name key;
        std::uint64_t expected = 0;  // take's
    };
    static constexpr std::uint64_t first_stamp = 5;  // of those that are there
    /// What an operation gives its key.
    [[nodiscard]] static constexpr std::uint64_t stamp_of_step(unsigned process, unsigned number) {
        return 10 + 2 * process + number;
    }

    table_many_interleaving(std::array<std::array<step, 2>, Writers> steps, std::array<bool, 4> there)
        : steps_(steps),
          geometry_(many_stage<Shape>::geometry()),
          bytes_(geometry_.body_bytes()),
          maker_(bytes_.bytes(), geometry_, roll_, 2),
          stage_(maker_),
          keys_{stage_.near, stage_.far[0], stage_.far[1], stage_.beside_far},
          there_(there) {
        for (unsigned k = 0; k < keys_.size(); ++k)
            if (there_[k]) (void)apply<Shape>(maker_, table_operation::try_insert, keys_[k], first_stamp);
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        roll_ = writer_roll();
        roll_.give_way = [this] { give_way(); };
        for (unsigned p = 0; p < Writers; ++p) writers_[p] = many_writer<Shape>(bytes_.bytes(), geometry_, roll_, p);
        clock_ = 0;
        log_ = {};
    }
    void died(unsigned process) override { roll_.die(process); }
    std::string run(unsigned process, unsigned number) override {
        const step what = steps_[process][number];
        if (what.kind == check) return verified();
        operation& op = log_[process][number];
        op.called = ++clock_;
        op.kind = what.kind;
        op.key = keys_[what.key];
        op.given = stamp_of_step(process, number);
        op.expected = what.expected;
        op.killed = true;
        std::string wrong = perform(writers_[process], op);
        op.returned = ++clock_;
        op.killed = false;
        return wrong;
    }
    std::string judge(std::optional<unsigned> dead) override {
        const auto view = maker_.bytes().as_const();
        if (std::string why = shaped_table<Shape>::damage_of(view); !why.empty()) return "verify: " + why;
        for (const many_writer<Shape>& writer : writers_)
            if (writer.reader().fault()) return "a writer latched a fault";
        many_writer<Shape> next(bytes_.bytes(), geometry_, roll_, 3);
        if (next.recovery().journal_rejected) return "recovery rejected the journal of a mere death";
        if (!dead && next.recovery().operation_settled) return "an operation was left open by the living";
        history all;
        for (const auto& of_process : log_)
            for (const operation& op : of_process)
                if (op.called != 0) all.push_back(op);
        ++clock_;
        for (operation& op : all)
            if (op.killed) op.returned = clock_;
        std::uint64_t entries = many_stage<Shape>::entries();
        for (unsigned k = 0; k < keys_.size(); ++k) {
            const std::optional<std::uint64_t> stamp = stamp_in<Shape>(next.reader(), keys_[k]);
            if (!stamp) return "a torn value in the end";
            if (copies_of(view, nth_key<Shape>(keys_[k])) != (*stamp == 0 ? 0 : 1)) return "a key is there twice";
            entries += *stamp == 0 ? 0 : 1;
            const std::uint64_t at = ++clock_;
            all.push_back({at, ++clock_, table_key_model::look, false, keys_[k], 0, *stamp});
        }
        if (next.reader().size() != entries) return "the size is " + std::to_string(next.reader().size());
        for (unsigned k = 0; k < keys_.size(); ++k) {
            history of_key;
            for (const operation& op : all)
                if (op.key == keys_[k]) of_key.push_back(op);
            const history_report report = check_history<table_key_model>(of_key, there_[k] ? first_stamp : 0);
            if (!report.ok()) return report.violation;
        }
        for (const std::uint64_t key : keys_) {  // every stripe is free
            (void)apply<Shape>(next, table_operation::insert_or_assign, key, 90);
            if (stamp_in<Shape>(next.reader(), key) != 90U) return "the next writer's value is not there";
        }
        return next.damage();
    }

 private:
    std::string perform(many_writer<Shape>& writer, operation& op) {
        if (op.kind == table_key_model::look) {
            const std::optional<std::uint64_t> stamp = stamp_in<Shape>(writer.reader(), op.key);
            if (!stamp) return "a torn value";
            op.answer = *stamp;
            return {};
        }
        table_answer status;
        if (op.kind == table_key_model::swap) {
            typename Shape::value before{};
            status = writer.swap(nth_key<Shape>(op.key), stamped_value<Shape>(op.key, op.given), before);
            const auto stamp =
                status == table_answer::updated ? stamp_of<Shape>(op.key, before) : std::optional<std::uint64_t>(0);
            if (!stamp) return "a torn value was to be changed";
            op.answer = *stamp;
        } else if (op.kind == table_key_model::take) {
            status = writer.take(nth_key<Shape>(op.key), stamped_value<Shape>(op.key, op.expected));
            op.answer = status.number();
        } else {
            status = apply<Shape>(writer, static_cast<table_operation>(op.kind), op.key, op.given);
            op.answer = status.number();
        }
        const bool refused =
            status == table_answer::full || status == table_answer::contended || status == table_answer::corrupt;
        return refused ? "an operation was refused with status " + status.text() : "";
    }

    // No false alarm beside a writer. It may be busy: the writer is stopped in the middle.
    std::string verified() const {
        std::string text;
        (void)holdfast::detail::verify(maker_.bytes().as_const(), [&](const hash_table_finding& f) {
            text = "verify beside a writer: " + std::string(describe(f.what));
            return false;
        });
        return text;
    }

    std::array<std::array<step, 2>, Writers> steps_;
    layout::hash_table_geometry geometry_;
    aligned_bytes bytes_;
    writer_roll roll_;
    many_writer<Shape> maker_;
    many_stage<Shape> stage_;
    std::array<std::uint64_t, 4> keys_;
    std::array<bool, 4> there_;
    std::array<many_writer<Shape>, Writers> writers_;
    std::array<std::array<operation, 2>, Writers> log_{};
    std::uint64_t clock_ = 0;
};

}  // namespace holdfast::test
