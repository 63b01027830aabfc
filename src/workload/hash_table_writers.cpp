// SPDX-License-Identifier: Apache-2.0
// Each further writer is a process on a core of its own, attached to the same table. Updates go to any key; keys that
// are erased and inserted are of a part that each writer has for itself, so that no insert is in vain. All get the same
// part of the operations of a sample, which ends with the slowest one.
#include "workload/hash_table_writers.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "holdfast/hash_table/many.hpp"
#include "holdfast/perf_test/environment.hpp"
#include "workload/far_side.hpp"
#include "workload/hash_table_own.hpp"
#include "workload/hash_table_subject.hpp"
#include "workload/keys.hpp"
#include "workload/room.hpp"
#include "workload/targets.hpp"
#include "workload/two_sided_experiment.hpp"

namespace holdfast::workload {

namespace {

constexpr double wanted_gain = 1.6;               // of two writers over one
constexpr std::uint64_t wanted_from = 1'000'000;  // entries: in smaller tables both want the same cache lines
constexpr std::uint64_t operations_each = 64;     // the fewest of a sample

enum class change : std::uint64_t { update, churn };

/// One of so many writers of a table of so many entries.
struct writer_part {
    std::uint64_t entries, index, count;
};

/// The keys of one writer, and where it is in them. Each writer has its own.
template <class Value>
class writer_work {
 public:
    writer_work(std::span<const std::uint64_t> all, const writer_part& of)
        : updated_(draw(all.first(of.entries), questions_for(of.entries), 5 + of.index)), updates_(updated_) {
        const std::uint64_t part = of.entries / of.count;
        const auto present = all.subspan(of.index * part, part);
        const auto absent = all.subspan(of.entries + of.index * part, part);
        ring_.assign(present.begin(), present.end());
        ring_.insert(ring_.end(), absent.begin(), absent.end());
    }

    /// Throws: std::runtime_error when an operation did not do what it should.
    template <class Table>
    void run(Table& table, change what, std::uint64_t operations) {
        const std::uint64_t done = what == change::update ? update(table, operations) : churn(table, operations);
        if (done != operations)
            throw std::runtime_error("a writer did " + std::to_string(done) + " of " + std::to_string(operations) +
                                     " operations, which is wrong here");
    }

 private:
    template <class Table>
    std::uint64_t update(Table& table, std::uint64_t operations) {
        return updates_.run(operations, [&](std::span<const std::uint64_t> part) {
            std::uint64_t done = 0;
            for (const std::uint64_t key : part) done += table.update(key, value_of<Value>(key)) ? 1 : 0;
            return done;
        });
    }
    /// The keys that are there are a window of half the ring, which goes round.
    template <class Table>
    std::uint64_t churn(Table& table, std::uint64_t operations) {
        std::uint64_t done = 0;
        const std::uint64_t window = ring_.size() / 2;
        for (std::uint64_t i = 0; i < operations; ++i) {
            const std::uint64_t in = ring_[(at_ + window) % ring_.size()];
            const bool gone = static_cast<bool>(table.erase(ring_[at_]));
            done += gone && table.try_insert(in, value_of<Value>(in)) ? 1 : 0;
            at_ = (at_ + 1) % ring_.size();
        }
        return done;
    }

    std::vector<std::uint64_t> updated_, ring_;
    walk updates_;
    std::uint64_t at_ = 0;
};

template <class Table, class Value>
[[nodiscard]] Table filled(std::span<const std::uint64_t> present, page_choice pages, std::size_t writers) {
    hash_table_options options = table_options_for(present.size(), pages);
    options.writer_slots = std::max(options.writer_slots, static_cast<std::uint32_t>(writers));
    Table table = Table::create("memfd:", options);
    for (const std::uint64_t key : present)
        if (!table.try_insert(key, value_of<Value>(key)))
            throw std::runtime_error("holdfast refused an insert before it held what it was made for");
    return table;
}

/// Runs body(). Returns: the nanoseconds it took.
template <class Body>
[[nodiscard]] double timed(Body&& body) {
    const auto start = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

/// A table of many writers: this process, and one on each of the other processors.
template <class Value>
class shared_writers {
    using table_type = hash_table<std::uint64_t, Value, writers::many>;

 public:
    /// Requires: the keys outlive it.
    shared_writers(std::span<const std::uint64_t> all, const table_request& of, std::span<const unsigned> others)
        : all_(all),
          entries_(of.entries),
          table_(filled<table_type, Value>(all.first(of.entries), of.pages, others.size() + 1)),
          work_(all, {of.entries, 0, others.size() + 1}) {
        const std::size_t count = others.size() + 1;
        for (std::size_t i = 1; i < count; ++i)
            others_.push_back(std::make_unique<far_side>(
                far_place::process, others[i - 1],
                [this, i, count](far_side&, const far_order& order) { work_there({entries_, i, count}, order); }));
    }

    shared_writers(const shared_writers&) = delete;
    shared_writers& operator=(const shared_writers&) = delete;

    [[nodiscard]] const holdfast::segment& segment() const { return table_.segment(); }
    /// The one that the way between two cores is timed to, and that its user sends to rest.
    [[nodiscard]] far_side& first_other() { return *others_.front(); }

    /// So many of them at once, each with the same part of the operations. Returns: the nanoseconds until all are done.
    double run(change what, std::size_t writers, std::uint64_t operations) {
        rest_beyond(writers);
        const std::size_t further = writers - 1;
        const std::uint64_t part = operations / writers;
        awake_ = std::max(awake_, further);
        return timed([&] {
            for (std::size_t i = 0; i < further; ++i)
                others_[i]->begin({far_side::own_orders + static_cast<std::uint64_t>(what), part});
            work_.run(table_, what, operations - further * part);
            for (std::size_t i = 0; i < further; ++i) others_[i]->finish();
        });
    }
    /// Further writers look for the next order on their cores all the time, so that it begins at once. Sends those to
    /// sleep that are not of so many, all but the first other, which its user sends.
    void rest_beyond(std::size_t writers) {
        while (awake_ > std::max<std::size_t>(1, writers - 1)) others_[--awake_]->rest();
    }

 private:
    /// In another process: attached at the first order, since a writer does not survive a fork.
    void work_there(const writer_part& part, const far_order& order) {
        if (!there_) there_.emplace(table_type::attach(table_.segment().descriptors()), writer_work<Value>(all_, part));
        there_->second.run(there_->first, static_cast<change>(order.what - far_side::own_orders), order.count);
    }

    std::span<const std::uint64_t> all_;
    std::uint64_t entries_;
    table_type table_;
    writer_work<Value> work_;
    std::optional<std::pair<table_type, writer_work<Value>>> there_;
    std::size_t awake_ = 0;                          // others that may be looking for orders
    std::vector<std::unique_ptr<far_side>> others_;  // forked last, with all of the above
};

struct wanted_work {
    std::string update, churn, size_text;

    wanted_work(const std::string& who, const std::string& size)
        : update("update, " + who + ", " + size),
          churn("erase one and insert another, " + who + ", " + size),
          size_text(who + ", " + size) {}
    /// Asked for both, so that a list has both.
    [[nodiscard]] bool any(recorder& to) const {
        const bool of_updates = to.wants(update);
        return to.wants(churn) || of_updates;
    }
};

[[nodiscard]] std::uint64_t bytes_of_table(const table_request& of, std::size_t entry_bytes) {
    return of.entries * entry_bytes * 3 / 2;
}

/// One table that two may write, and one that only one may.
template <class Value>
void measure_two(const table_request& of, const wanted_work& wanted, const two_cores& cores, recorder& to) {
    using lone_table = hash_table<std::uint64_t, Value>;
    const std::vector<std::uint64_t> all = make_keys(of.entries, 2 * of.entries);
    const unsigned other[] = {cores.far};
    shared_writers<Value> shared(all, of, other);
    auto lone = filled<lone_table, Value>(std::span(all).first(of.entries), of.pages, 1);
    writer_work<Value> lone_work(all, {of.entries, 0, 2});
    const perf_test::cpu_pin pin(cores.near);
    if (of.pages == page_choice::huge)
        to.note(huge_pages_text(wanted.size_text, {{"the table of two writers", use_of(shared.segment())},
                                                   {"that of the only writer", use_of(lone.segment())}}));
    const auto measure = [&](const std::string& name, change what) {
        if (!to.wants(name)) return;
        far_side* const far = &shared.first_other();
        const std::vector<two_sided_subject> subjects = {
            {"holdfast, two writers", far, [&, what](std::uint64_t n) { return shared.run(what, 2, n); }},
            {"holdfast, one of two writers", far, [&, what](std::uint64_t n) { return shared.run(what, 1, n); }},
            {"holdfast, the only writer", far,
             [&, what](std::uint64_t n) { return timed([&] { lone_work.run(lone, what, n); }); }}};
        const sampled found = run_two_sided(to, name, subjects, operations_each);
        if (of.entries >= wanted_from)
            note_if_any(to, at_least_text(name, found, subjects[1].name, wanted_gain, "1.9"));
    };
    measure(wanted.update, change::update);
    measure(wanted.churn, change::churn);
}

/// The table's memory is of the first core's node, as this thread touches it first.
template <class Value>
void measure_several(const table_request& of, const wanted_work& wanted, std::span<const processor> cores,
                     recorder& to) {
    const perf_test::cpu_pin pin(cores.front().cpu);
    const std::vector<std::uint64_t> all = make_keys(of.entries, 2 * of.entries);
    std::vector<unsigned> others;
    for (const processor& one : cores.subspan(1)) others.push_back(one.cpu);
    shared_writers<Value> shared(all, of, others);
    if (of.pages == page_choice::huge)
        to.note(huge_pages_text(wanted.size_text, {{"the table", use_of(shared.segment())}}));
    to.note(wanted.size_text + ": on " + nodes_text(cores) + ", taken in this order; the table's memory is of node " +
            std::to_string(cores.front().node));
    const auto measure = [&](const std::string& name, change what) {
        if (!to.wants(name)) return;
        std::vector<two_sided_subject> subjects;
        for (std::size_t writers = 1;; writers = std::min(2 * writers, cores.size())) {
            subjects.push_back({"holdfast, " + std::to_string(writers) + (writers == 1 ? " writer" : " writers"),
                                &shared.first_other(),
                                [&, what, writers](std::uint64_t n) { return shared.run(what, writers, n); }});
            if (writers == cores.size()) break;
        }
        (void)run_two_sided(to, name, subjects, operations_each * cores.size());
        shared.rest_beyond(1);
    };
    measure(wanted.update, change::update);
    measure(wanted.churn, change::churn);
}

}  // namespace

void measure_two_writers(const table_request& of, std::size_t entry_bytes, const std::string& size_text, recorder& to) {
    const wanted_work wanted("two writers", size_text);
    if (!wanted.any(to)) return;
    const two_cores cores = pick_two_cores();
    if (!cores.there) return to.skip(wanted.size_text, "this process may use one processor only");
    if (const std::string lacking =
            lacking_room({.memory_bytes = 2 * bytes_of_table(of, entry_bytes) + of.entries * 64, .shared_bytes = 0});
        !lacking.empty())
        return to.skip(wanted.size_text, lacking);
    (entry_bytes == 16 ? &measure_two<table_value<1>> : &measure_two<table_value<7>>)(of, wanted, cores, to);
}

void measure_several_writers(const table_request& of, std::size_t entry_bytes, const std::string& size_text,
                             std::span<const processor> placed, recorder& to) {
    const std::vector<processor> cores = with_a_core_each(placed);
    if (cores.size() < 3) return;
    const wanted_work wanted("several writers at once", size_text);
    if (!wanted.any(to)) return;
    const std::uint64_t keys_bytes = of.entries * 64 + cores.size() * questions_for(of.entries) * 8;
    if (const std::string lacking =
            lacking_room({.memory_bytes = bytes_of_table(of, entry_bytes) + keys_bytes, .shared_bytes = 0});
        !lacking.empty())
        return to.skip(wanted.size_text, lacking);
    (entry_bytes == 16 ? &measure_several<table_value<1>> : &measure_several<table_value<7>>)(of, wanted, cores, to);
}

}  // namespace holdfast::workload
