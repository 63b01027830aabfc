// SPDX-License-Identifier: Apache-2.0
// hash_table.cpp - a whole hash_table on another processor than the tests' own: what its operations, single and in
// batches, answer against a map of the standard library. Run by an emulator; exits with 0 if all agree.
#include "holdfast/hash_table.hpp"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <unordered_map>
#include <vector>

#if !defined(HOLDFAST_HASH_TABLE_VECTOR)
#error "lines are matched by the scalar path here, which the tests of every other processor run, too"
#endif

namespace {

using u64 = std::uint64_t;
using table_type = holdfast::hash_table<u64, u64>;

u64 state = 7;
u64 next() {
    u64 x = state += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

unsigned wrong = 0;
void agree(bool alike, const char* what, u64 key) {
    if (alike || ++wrong > 10) return;
    std::printf("%s of key %llu differs\n", what, static_cast<unsigned long long>(key));
}

/// Keys come, mostly, until one is refused, and go from then on.
void compare(u64 capacity) {
    table_type table = table_type::create("heap:", {.capacity = capacity, .seed = capacity});
    std::unordered_map<u64, u64> model;
    const u64 range = 3 * capacity;
    std::vector<u64> keys(100);
    std::vector<std::optional<u64>> values(keys.size());
    const auto ask_many = [&] {
        for (u64& key : keys) key = next() % range;
        std::size_t there = 0;
        const std::size_t found = table.find_many(keys, values);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            const auto known = model.find(keys[i]);
            agree(values[i] == (known == model.end() ? std::nullopt : std::optional(known->second)), "find_many",
                  keys[i]);
            there += known == model.end() ? 0 : 1;
        }
        agree(found == there, "the number that find_many gives", keys[0]);
    };
    bool was_full = false;
    for (u64 turn = 0; turn < 4 * capacity; ++turn) {
        const u64 key = next() % range, value = next();
        const auto known = model.find(key);
        const bool there = known != model.end();
        const std::optional<u64> found = table.find(key);
        agree(found == (there ? std::optional(known->second) : std::nullopt), "find", key);
        if ((next() % 4 != 0) != was_full) {
            const auto done = table.try_insert(key, value);
            if (done) model.emplace(key, value);
            if (done.status == holdfast::outcome::full) was_full = true;
            agree(there ? done.status == holdfast::outcome::exists : done || was_full, "try_insert", key);
        } else {
            agree(static_cast<bool>(table.erase(key)) == there, "erase", key);
            model.erase(key);
        }
        if (next() % 8 == 0) {
            const bool done = static_cast<bool>(table.update(key, turn));
            agree(done == model.contains(key), "update", key);
            if (done) model[key] = turn;
        }
        if (turn % 256 == 0) ask_many();
    }
    agree(was_full, "the number of refused inserts", 0);
    agree(table.size() == model.size(), "size", 0);
    u64 scanned = 0;
    for (const auto& entry : table) {
        const auto known = model.find(entry.key);
        agree(known != model.end() && known->second == entry.value, "a scanned entry", entry.key);
        ++scanned;
    }
    agree(scanned == model.size(), "the number of scanned entries", scanned);
    const auto report = table.verify([](const holdfast::hash_table_finding&) { return true; });
    agree(report.findings == 0 && !table.fault(), "what verify finds", report.findings);
}

}  // namespace

int main() {
    compare(1'000);   // each key of a batch by itself
    compare(70'000);  // batches whose lines are asked for ahead
    return wrong == 0 ? 0 : 1;
}
