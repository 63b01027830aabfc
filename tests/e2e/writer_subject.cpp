// SPDX-License-Identifier: Apache-2.0
// writer_subject.cpp - a function for each operation of a writer, for the test that reads their machine code
// (one_writer_test.py). Compiled twice: for tables, stores and maps of one writer, and of many.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#ifdef HOLDFAST_SUBJECT_OF_MANY
#include "holdfast/block_store/many.hpp"
#include "holdfast/hash_map/many.hpp"
#include "holdfast/hash_table/many.hpp"
#else
#include "holdfast/block_store.hpp"
#include "holdfast/hash_map.hpp"
#include "holdfast/hash_table.hpp"
#endif

namespace {

#ifdef HOLDFAST_SUBJECT_OF_MANY
constexpr auto policy = holdfast::writers::many;
#else
constexpr auto policy = holdfast::writers::one;
#endif
using u64 = std::uint64_t;
using bytes = std::span<const std::byte>;
using seven_words = std::array<u64, 7>;
using narrow = holdfast::hash_table<u64, u64, policy>;
using wide = holdfast::hash_table<u64, seven_words, policy>;
using store = holdfast::basic_block_store<policy>;
using map = holdfast::hash_map<std::string_view, policy>;

}  // namespace

// What the test looks at: each by its name, and all that it calls or jumps to.
#define HOLDFAST_OPERATION extern "C" [[gnu::noinline, gnu::used]] bool

HOLDFAST_OPERATION operation_narrow_find(narrow& t, u64 key, u64& value) { return t.find(key, value); }
HOLDFAST_OPERATION operation_narrow_insert(narrow& t, u64 key, u64 value) { return bool(t.try_insert(key, value)); }
HOLDFAST_OPERATION operation_narrow_assign(narrow& t, u64 key, u64 value) {
    return bool(t.insert_or_assign(key, value));
}
HOLDFAST_OPERATION operation_narrow_update(narrow& t, u64 key, u64 value) { return bool(t.update(key, value)); }
HOLDFAST_OPERATION operation_narrow_modify(narrow& t, u64 key) {
    return bool(t.modify(key, [](u64& value) noexcept { ++value; }));
}
HOLDFAST_OPERATION operation_narrow_insert_many(narrow& t, std::span<const u64> keys) {
    return t.try_insert_many(keys, keys) != 0;
}
HOLDFAST_OPERATION operation_narrow_erase(narrow& t, u64 key) { return bool(t.erase(key)); }

HOLDFAST_OPERATION operation_wide_find(wide& t, u64 key, seven_words& value) { return t.find(key, value); }
HOLDFAST_OPERATION operation_wide_insert(wide& t, u64 key, const seven_words& value) {
    return bool(t.try_insert(key, value));
}
HOLDFAST_OPERATION operation_wide_update(wide& t, u64 key, const seven_words& value) {
    return bool(t.update(key, value));
}
HOLDFAST_OPERATION operation_wide_erase(wide& t, u64 key) { return bool(t.erase(key)); }

HOLDFAST_OPERATION operation_store_allocate(store& s, bytes value) { return bool(s.allocate(value)); }
HOLDFAST_OPERATION operation_store_replace(store& s, u64 handle, bytes value) { return bool(s.replace(handle, value)); }
HOLDFAST_OPERATION operation_store_free(store& s, u64 handle) { return s.free(handle) == holdfast::outcome::ok; }
HOLDFAST_OPERATION operation_store_read(store& s, u64 handle, std::span<std::byte> out) {
    return bool(s.read(handle, out));
}

HOLDFAST_OPERATION operation_map_find(map& m, std::string_view key, std::span<std::byte> out) {
    return bool(m.find(key, out));
}
HOLDFAST_OPERATION operation_map_set(map& m, std::string_view key, bytes value) { return bool(m.set(key, value)); }
HOLDFAST_OPERATION operation_map_insert(map& m, std::string_view key, bytes value) {
    return bool(m.insert(key, value));
}
HOLDFAST_OPERATION operation_map_update(map& m, std::string_view key, bytes value) {
    return bool(m.update(key, value));
}
HOLDFAST_OPERATION operation_map_add(map& m, std::string_view key) {
    return bool(m.template fetch_add<u64>(key, 0, 1));
}
HOLDFAST_OPERATION operation_map_erase(map& m, std::string_view key) { return bool(m.erase(key)); }

int main() {
    auto numbers = narrow::create("heap:", {.capacity = 100});
    auto words = wide::create("heap:", {.capacity = 100});
    auto texts = store::create("heap:", {.bytes = 1 << 16});
    auto cache = map::create("heap:", {.capacity = 100, .evict = policy == holdfast::writers::one});
    const std::array<u64, 2> keys{1, 2};
    const std::array<std::byte, 100> value{};
    std::array<std::byte, 100> out{};
    seven_words seven{};
    u64 word = 0;
    const u64 first = texts.allocate(value).handle, second = texts.allocate(value).handle;
    for (const bool done : {operation_narrow_insert(numbers, 1, 1),     operation_narrow_assign(numbers, 2, 2),
                            operation_narrow_update(numbers, 2, 3),     operation_narrow_modify(numbers, 2),
                            operation_narrow_find(numbers, 2, word),    word == 4,
                            operation_narrow_erase(numbers, 2),         operation_narrow_insert_many(numbers, keys),
                            operation_wide_insert(words, 1, seven),     operation_wide_update(words, 1, seven),
                            operation_wide_find(words, 1, seven),       operation_wide_erase(words, 1),
                            operation_store_allocate(texts, value),     operation_store_read(texts, first, out),
                            operation_store_replace(texts, first, out), operation_store_free(texts, second),
                            operation_map_insert(cache, "a", value),    operation_map_set(cache, "a", value),
                            operation_map_update(cache, "a", value),    operation_map_add(cache, "a"),
                            operation_map_find(cache, "a", out),        operation_map_erase(cache, "a")})
        if (!done) return 1;
    return 0;
}
