// SPDX-License-Identifier: Apache-2.0
// The second writer is a process on a core of its own, attached to the same table. Updates go to any key; keys that are
// erased and inserted are of a half that each writer has for itself, so that no insert is in vain. Both get half of the
// operations of a sample, which ends with the slower one.
#include "workload/hash_table_writers.hpp"

#include <chrono>
#include <memory>
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
#include "workload/two_sided.hpp"

namespace holdfast::workload {

namespace {

constexpr double wanted_gain = 1.6;               // of two writers over one
constexpr std::uint64_t wanted_from = 1'000'000;  // entries: in smaller tables both want the same cache lines

enum class change : std::uint64_t { update, churn };

/// The keys of one writer, and where it is in them. Each side has its own.
template <class Value>
class writer_work {
 public:
    writer_work(std::span<const std::uint64_t> all, std::uint64_t entries, std::uint64_t half)
        : updated_(draw(all.first(entries), questions_for(entries), 5 + half)), updates_(updated_) {
        const std::span<const std::uint64_t> present = all.first(entries), absent = all.subspan(entries);
        const std::uint64_t part = entries / 2;
        ring_.assign(present.begin() + static_cast<std::ptrdiff_t>(half * part),
                     present.begin() + static_cast<std::ptrdiff_t>((half + 1) * part));
        ring_.insert(ring_.end(), absent.begin() + static_cast<std::ptrdiff_t>(half * part),
                     absent.begin() + static_cast<std::ptrdiff_t>((half + 1) * part));
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
[[nodiscard]] Table filled(std::span<const std::uint64_t> present, page_choice pages) {
    Table table = Table::create("memfd:", table_options_for(present.size(), pages));
    for (const std::uint64_t key : present)
        if (!table.try_insert(key, value_of<Value>(key)))
            throw std::runtime_error("holdfast refused an insert before it held what it was made for");
    return table;
}

/// One table that two may write, one that only one may, and the process that is the second writer.
template <class Value>
class two_writers {
    using shared_table = hash_table<std::uint64_t, Value, writers::many>;
    using lone_table = hash_table<std::uint64_t, Value>;

 public:
    two_writers(const table_request& of, const two_cores& cores)
        : all_(make_keys(of.entries, 2 * of.entries)),
          shared_(filled<shared_table, Value>(std::span(all_).first(of.entries), of.pages)),
          lone_(filled<lone_table, Value>(std::span(all_).first(of.entries), of.pages)),
          shared_work_(all_, of.entries, 0),
          lone_work_(all_, of.entries, 0),
          other_work_(all_, of.entries, 1),
          far_(far_place::process, cores.far, [this](far_side&, const far_order& order) { work_there(order); }) {}

    void note_pages(const std::string& size_text, recorder& to) const {
        to.note(huge_pages_text("two writers, " + size_text, {{"the table of two writers", use_of(shared_.segment())},
                                                              {"that of the only writer", use_of(lone_.segment())}}));
    }

    void measure(const std::string& name, change what, recorder& to) {
        if (!to.wants(name)) return;
        const std::vector<two_sided_subject> subjects = {
            {"holdfast, two writers", &far_, [this, what](std::uint64_t n) { return together(what, n); }},
            {"holdfast, one of two writers", &far_,
             [this, what](std::uint64_t n) { return alone(shared_, shared_work_, what, n); }},
            {"holdfast, the only writer", &far_,
             [this, what](std::uint64_t n) { return alone(lone_, lone_work_, what, n); }}};
        const two_sided_result timed = measure_two_sided(subjects, two_sided_timing(to.options()));
        sampled found{{subjects[0].name, subjects[1].name, subjects[2].name}, timed.samples};
        to.add(name, "ns", found.names, found.samples, false);
        to.note(name + ": " + line_text(timed));
        if (all_.size() / 2 >= wanted_from)
            note_if_any(to, at_least_text(name, found, subjects[1].name, wanted_gain, "1.9"));
    }

 private:
    using clock = std::chrono::steady_clock;

    [[nodiscard]] static double since(clock::time_point start) {
        return std::chrono::duration<double, std::nano>(clock::now() - start).count();
    }
    double together(change what, std::uint64_t operations) {
        const auto start = clock::now();
        far_.begin({far_side::own_orders + static_cast<std::uint64_t>(what), operations / 2});
        shared_work_.run(shared_, what, operations - operations / 2);
        far_.finish();
        return since(start);
    }
    template <class Table>
    static double alone(Table& table, writer_work<Value>& work, change what, std::uint64_t operations) {
        const auto start = clock::now();
        work.run(table, what, operations);
        return since(start);
    }
    /// In the other process: attached at the first order, since a writer does not survive a fork.
    void work_there(const far_order& order) {
        if (!attached_)
            attached_ = std::make_unique<shared_table>(shared_table::attach(shared_.segment().descriptors()));
        other_work_.run(*attached_, static_cast<change>(order.what - far_side::own_orders), order.count);
    }

    std::vector<std::uint64_t> all_;
    shared_table shared_;
    lone_table lone_;
    writer_work<Value> shared_work_, lone_work_, other_work_;
    std::unique_ptr<shared_table> attached_;
    far_side far_;  // forked last, with all of the above
};

struct wanted_work {
    std::string update, churn, size_text;
};

template <class Value>
void measure_both(const table_request& of, const wanted_work& wanted, const two_cores& cores, recorder& to) {
    two_writers<Value> both(of, cores);
    const perf_test::cpu_pin pin(cores.near);  // behind the fork: the far side has a core of its own
    if (of.pages == page_choice::huge) both.note_pages(wanted.size_text, to);
    both.measure(wanted.update, change::update, to);
    both.measure(wanted.churn, change::churn, to);
}

}  // namespace

void measure_two_writers(const table_request& of, std::size_t entry_bytes, const std::string& size_text, recorder& to) {
    const wanted_work wanted{"update, two writers, " + size_text,
                             "erase one and insert another, two writers, " + size_text, size_text};
    const bool any = to.wants(wanted.update);
    if (!to.wants(wanted.churn) && !any) return;
    const two_cores cores = pick_two_cores();
    if (!cores.there) return to.skip("two writers, " + size_text, "this process may use one processor only");
    const std::uint64_t table_bytes = of.entries * entry_bytes * 3 / 2;
    if (const std::string lacking =
            lacking_room({.memory_bytes = 2 * table_bytes + of.entries * 64, .shared_bytes = 0});
        !lacking.empty())
        return to.skip("two writers, " + size_text, lacking);
    (entry_bytes == 16 ? &measure_both<table_value<1>> : &measure_both<table_value<7>>)(of, wanted, cores, to);
}

}  // namespace holdfast::workload
