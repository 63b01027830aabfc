// SPDX-License-Identifier: Apache-2.0
// linearizability.hpp - whether a recorded history could have come from operations that happened at single instants.
//
//   check_history            any object, given by a model: a state and apply(state, operation)
//   check_by_key             the same, for objects that are many independent ones: each key's history by itself
//   check_versions           a register with one writer, whose n-th write gives version n: linear in time
//
// An operation took effect at one instant between its call and its return. One whose process was killed in it has no
// return: it took effect at most once, and not after the moment at which its successor had recovered the object, which
// is its `returned`. Two operations of which one returned when the other was called, by the clock, count as concurrent.
// Source: Wing, Gong, Testing and verifying concurrent objects, JPDC 1993; the configurations are kept and pruned at
// each return as in Lowe, Testing for linearizability, CCPE 2017.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::test {

/// One operation of a history. What `kind`, `key` and the numbers mean is the model's affair.
struct operation {
    std::uint64_t called = 0;    // ns
    std::uint64_t returned = 0;  // ns
    std::uint32_t kind = 0;
    bool killed = false;  // without an answer; see above
    std::uint64_t key = 0;
    std::uint64_t given = 0;   // argument
    std::uint64_t answer = 0;  // what it returned, unless killed
    // Further ones, where an operation has them.
    std::uint64_t expected = 0;  // argument
    std::uint64_t time = 0;      // argument: what the object's own clock said before the call
    std::uint64_t found = 0;     // answer

    [[nodiscard]] std::string text() const {
        const auto further = [](const char* name, std::uint64_t n) {
            return n == 0 ? std::string() : name + std::to_string(n);
        };
        return "kind " + std::to_string(kind) + " of key " + std::to_string(key) + ", given " + std::to_string(given) +
               further(", expected ", expected) + further(", at ", time) +
               (killed ? std::string(", killed") : ", answer " + std::to_string(answer) + further(", found ", found)) +
               ", [" + std::to_string(called) + ", " + std::to_string(returned) + "]";
    }
};
using history = std::vector<operation>;

struct history_report {
    std::string violation;  // empty: there is an order
    std::uint64_t operations = 0;
    std::uint64_t killed = 0;
    std::size_t configurations_max = 0;

    [[nodiscard]] bool ok() const noexcept { return violation.empty(); }
    void add(const history_report& other) {
        if (violation.empty()) violation = other.violation;
        operations += other.operations;
        killed += other.killed;
        configurations_max = std::max(configurations_max, other.configurations_max);
    }
};

namespace rig {

/// All orders that are still possible, after the operations that returned so far: the state that each leads to, and
/// which of the operations under way it has let happen already.
template <class Model>
class configurations {
 public:
    using state = typename Model::state;
    static constexpr unsigned open_max = 64;

    configurations(const state& initial) : now_{{initial, 0}} {}

    void call(const operation& op, unsigned slot) {
        open_ |= bit(slot);
        operations_[slot] = &op;
    }
    /// The operation must have happened by now, or, killed, may have.
    void end(unsigned slot) {
        std::vector<configuration> next;
        seen_.clear();
        for (const configuration& c : now_) {
            if ((c.happened & bit(slot)) != 0) {
                keep(next, {c.value, c.happened & ~bit(slot)});
            } else {
                if (operations_[slot]->killed) keep(next, c);
                search(c, slot, next);
            }
        }
        open_ &= ~bit(slot);
        now_ = std::move(next);
    }
    [[nodiscard]] std::size_t size() const noexcept { return now_.size(); }

 private:
    struct configuration {
        state value;
        std::uint64_t happened;
        friend bool operator==(const configuration&, const configuration&) = default;
    };
    [[nodiscard]] static constexpr std::uint64_t bit(unsigned slot) noexcept { return std::uint64_t{1} << slot; }
    static bool keep(std::vector<configuration>& in, const configuration& c) {
        if (std::find(in.begin(), in.end(), c) != in.end()) return false;
        in.push_back(c);
        return true;
    }
    /// Lets operations under way happen, in every order, until the one in `last` has.
    void search(const configuration& from, unsigned last, std::vector<configuration>& into) {
        if (!keep(seen_, from)) return;
        for (std::uint64_t rest = open_ & ~from.happened; rest != 0; rest &= rest - 1) {
            const auto slot = static_cast<unsigned>(__builtin_ctzll(rest));
            configuration next = from;
            if (!Model::apply(next.value, *operations_[slot])) continue;
            if (slot == last) {
                keep(into, next);
            } else {
                next.happened |= bit(slot);
                search(next, last, into);
            }
        }
    }

    std::vector<configuration> now_, seen_;
    const operation* operations_[open_max] = {};
    std::uint64_t open_ = 0;
};

}  // namespace rig

/// Whether the history is linearizable. Model: `state`, compared by ==; static bool apply(state&, const operation&),
/// which changes the state and returns whether the answer is the one that it gives (any, for a killed operation).
/// Requires: at most 64 operations under way at once. Cost: linear in the history, exponential in those under way.
template <class Model>
[[nodiscard]] history_report check_history(const history& all, const typename Model::state& initial = {}) {
    struct event {
        std::uint64_t at;
        bool end;
        std::size_t index;
    };
    std::vector<event> events;
    events.reserve(2 * all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        events.push_back({all[i].called, false, i});
        events.push_back({all[i].returned, true, i});
    }
    // At one instant calls come first: then the operations are concurrent.
    std::sort(events.begin(), events.end(), [](const event& a, const event& b) {
        return a.at != b.at ? a.at < b.at : a.end != b.end ? b.end : a.index < b.index;
    });
    history_report report;
    rig::configurations<Model> possible(initial);
    std::vector<unsigned> slot_of(all.size());
    std::uint64_t taken = 0;
    for (const event& e : events) {
        const operation& op = all[e.index];
        if (!e.end) {
            if (op.called > op.returned || ~taken == 0) {
                report.violation = "no history: " + op.text();
                return report;
            }
            slot_of[e.index] = static_cast<unsigned>(__builtin_ctzll(~taken));
            taken |= std::uint64_t{1} << slot_of[e.index];
            possible.call(op, slot_of[e.index]);
            continue;
        }
        taken &= ~(std::uint64_t{1} << slot_of[e.index]);
        possible.end(slot_of[e.index]);
        ++report.operations;
        report.killed += op.killed ? 1 : 0;
        report.configurations_max = std::max(report.configurations_max, possible.size());
        if (possible.size() != 0) continue;
        report.violation = "no order explains " + op.text();
        for (const operation& other : all)  // what it met
            if (other.returned + 20'000 >= op.called && other.called <= op.returned && &other != &op &&
                report.violation.size() < 4000)
                report.violation += "\n    beside " + other.text();
        return report;
    }
    return report;
}

/// As check_history, each key's history by itself: an object made of independent ones is linearizable if and only if
/// each of them is. Source: Herlihy, Wing, Linearizability, TOPLAS 1990, theorem 1 (locality).
template <class Model>
[[nodiscard]] history_report check_by_key(const history& all, const typename Model::state& initial = {}) {
    std::map<std::uint64_t, history> parts;
    for (const operation& op : all) parts[op.key].push_back(op);
    history_report report;
    for (const auto& [key, part] : parts) report.add(check_history<Model>(part, initial));
    return report;
}

/// A register with one writer at a time: `writes` in the order in which they were made, each of the version after the
/// one before. A killed write whose version the next one has too did not happen; one that the next goes on from did.
/// Reads answer the version they saw, 0 before the first. Cost: n log n.
[[nodiscard]] inline history_report check_versions(const history& writes, history reads) {
    history_report report;
    report.operations = writes.size() + reads.size();
    // When a version can have come to be seen first, and when at the latest.
    struct moments {
        std::uint64_t first = 0, latest = 0;
    };
    std::vector<moments> of(1);
    for (std::size_t i = 0; i < writes.size(); ++i) {
        const operation& w = writes[i];
        report.killed += w.killed ? 1 : 0;
        const bool again = w.given + 1 == of.size() && i > 0 && writes[i - 1].killed;
        if (w.given != of.size() && !again) {
            report.violation = "versions do not follow each other: " + w.text();
            return report;
        }
        if (again) of.pop_back();
        of.push_back({w.called, w.returned});
    }
    // Whether the last one happened, if it was killed, only reads can tell.
    const bool open = !writes.empty() && writes.back().killed;
    if (open && std::none_of(reads.begin(), reads.end(), [&](const auto& r) { return r.answer >= of.size() - 1; }))
        of.pop_back();
    // From a version on, the earliest moment at which a later one was surely there.
    std::vector<std::uint64_t> overtaken(of.size() + 1, ~std::uint64_t{0});
    for (std::size_t v = of.size(); v-- > 0;)
        overtaken[v] = std::min(overtaken[v + 1], v + 1 < of.size() ? of[v + 1].latest : ~std::uint64_t{0});
    std::sort(reads.begin(), reads.end(), [](const auto& a, const auto& b) { return a.called < b.called; });
    std::vector<const operation*> by_return;
    for (const operation& r : reads) by_return.push_back(&r);
    std::sort(by_return.begin(), by_return.end(), [](auto* a, auto* b) { return a->returned < b->returned; });
    std::uint64_t seen = 0;  // by reads that had returned
    std::size_t returned = 0;
    for (const operation& r : reads) {
        for (; returned < by_return.size() && by_return[returned]->returned < r.called; ++returned)
            seen = std::max(seen, by_return[returned]->answer);
        if (r.answer >= of.size())
            report.violation = "a version that nobody wrote: " + r.text();
        else if (of[r.answer].first > r.returned)
            report.violation = "a version from the future: " + r.text();
        else if (overtaken[r.answer] < r.called)
            report.violation = "a version that had been replaced: " + r.text();
        else if (r.answer < seen)
            report.violation = "version " + std::to_string(seen) + " had been read before: " + r.text();
        if (!report.ok()) return report;
    }
    return report;
}

}  // namespace holdfast::test
