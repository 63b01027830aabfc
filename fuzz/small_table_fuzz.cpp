// SPDX-License-Identifier: Apache-2.0
// A small table as a script of operations leaves it, killed writers included, held to a model; then with pieces of the
// input over its bytes: found in, visited, verified, recovered and written on by the next writer.
// Input: which types; how many bytes of script, two for each operation; the script; then pieces: u16 offset, u8 bytes,
// the bytes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "array_kill.hpp"
#include "holdfast/small_table/find.hpp"
#include "holdfast/small_table/verify.hpp"
#include "holdfast/small_table/write.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::detail;
using fuzz::require;
using layout::array_geometry;

struct alignas(64) line {
    std::byte bytes[64];
};

struct limit {
    std::uint64_t per_second;
    std::uint32_t burst;
};

template <class K, class V>
class subject {
 public:
    explicit subject(std::uint64_t capacity)
        : geometry_(layout::plan_array(capacity + 1, sizeof(entry))),
          memory_(static_cast<std::size_t>((geometry_.body_bytes() + sizeof(line) - 1) / sizeof(line))),
          body_(memory_.data()->bytes, static_cast<std::size_t>(geometry_.body_bytes())),
          capacity_(capacity),
          writer_(view(body_, geometry_, {})),
          always_(reader()),
          seldom_(reader()) {}

    void run(std::span<const std::uint8_t> script) {
        for (std::size_t i = 0; i + 1 < script.size(); i += 2) {
            operate(script[i], key_of(script[i + 1]), value_of(++stamp_));
            expect_model(always_, key_of(script[i + 1]));
        }
        const small_table_verification seen = verify_it(always_);
        require(seen.intact() && !seen.change_open && seen.entries == model_.size(), "intact");
        for (unsigned n = 0; n < keys; ++n) {
            expect_model(always_, key_of(static_cast<std::uint8_t>(n)));
            expect_model(seldom_, key_of(static_cast<std::uint8_t>(n)));
        }
    }

    /// Returns: whether a byte is another one now.
    bool damage(std::span<const std::uint8_t> pieces) {
        const std::vector<std::byte> before(body_.begin(), body_.end());
        while (pieces.size() > 3) {
            const std::size_t at = (pieces[0] | std::size_t{pieces[1]} << 8U) % body_.size();
            const std::size_t bytes = std::min({std::size_t{pieces[2]}, pieces.size() - 3, body_.size() - at});
            std::memcpy(body_.data() + at, pieces.data() + 3, bytes);
            pieces = pieces.subspan(3 + bytes);
        }
        return !std::equal(before.begin(), before.end(), body_.begin());
    }

    /// Of bytes that may be anything.
    void use_any_bytes() {
        finder fresh = reader();
        const small_table_verification before = verify_it(fresh);
        std::map<std::uint64_t, K> seen;
        std::uint64_t entries = 0;
        const outcome visited = fresh.visit([&](std::uint64_t place, const entry& e) {
            require(place >= 1 && place <= capacity_, "a place");
            seen.emplace(word_of_key(e.key), e.key);
            ++entries;
        });
        require(visited == outcome::ok || !before.intact(), "a visit of an intact table");
        require(!before.intact() || (entries == before.entries && entries == seen.size()), "entries");
        V value{};
        for (finder* const each : {&fresh, &always_, &seldom_})
            for (const auto& [word, key] : seen)
                require(find(*each, key, value) == outcome::ok || !before.intact() || each != &fresh, "a find");
        for (unsigned n = 0; n < keys; ++n) {
            const outcome got = find(fresh, key_of(static_cast<std::uint8_t>(n)), value);
            require(got == outcome::ok || got == outcome::not_found || !before.intact(), "an answer");
        }
        const array_recovery of_array = recover(view(body_, geometry_, {}));
        require(!of_array.journal_rejected || !before.intact(), "the journal");
        mutator next(view(body_, geometry_, {}));
        require(next.size() <= capacity_ && (next.done().doubles == 0 || !before.intact()), "what was found");
        if (before.intact()) {
            const small_table_verification after = verify_it(fresh);
            require(after.intact() && !after.change_open && next.size() == entries, "recovered");
        }
        for (const auto& [word, key] : seen) require(next.erase(key) == outcome::ok || !before.intact(), "an erase");
        std::uint64_t inserted = 0;
        while (inserted < keys && next.try_insert(key_of(static_cast<std::uint8_t>(inserted)), value) != outcome::full)
            ++inserted;
        require(inserted <= capacity_ && next.size() <= capacity_, "room");
        require(inserted == capacity_ || !before.intact(), "room in an intact table");
        finder late = reader();
        for (std::uint64_t n = 0; n < inserted; ++n)
            require(find(late, key_of(static_cast<std::uint8_t>(n)), value) == outcome::ok, "what was put in");
        (void)verify_it(late);
    }

 private:
    using entry = small_table_entry<K, V>;
    using finder = small_table_finder<K, V>;
    using mutator = small_table_mutator<K, V>;
    using view = typename mutator::view;
    static constexpr unsigned keys = 100;

    [[nodiscard]] static K key_of(std::uint8_t n) { return static_cast<K>(n % keys * 3U); }
    [[nodiscard]] static V value_of(std::uint64_t stamp) {
        std::byte bytes[sizeof(V)];
        for (std::byte& b : bytes) b = static_cast<std::byte>(stamp = stamp * 31 + 7);
        V value;
        std::memcpy(&value, bytes, sizeof value);
        return value;
    }
    [[nodiscard]] static bool same(const V& a, const V& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
    [[nodiscard]] finder reader() const {
        return {typename finder::loader(typename finder::loader::view(body_, geometry_, {})), 1};
    }
    [[nodiscard]] static outcome find(finder& in, K key, V& value) {
        auto* const to = reinterpret_cast<std::byte*>(&value);
        raw_record<V> other;
        const outcome got = in.find_at_rest(key, other.data());
        if (got != outcome::contended) {
            if (got == outcome::ok) std::memcpy(to, other.data(), sizeof value);
            return got;
        }
        return in.find(key, to);
    }
    [[nodiscard]] small_table_verification verify_it(const finder& in) const {
        const small_table_verification seen = verify(in, [&](const small_table_finding& f) {
            return f.place <= capacity_ || f.what == small_table_damage::element;
        });
        require(!seen.stopped && !seen.busy, "a check at rest");
        return seen;
    }
    void expect_model(finder& in, K key) {
        V value{};
        const auto wanted = model_.find(key);
        const outcome got = find(in, key, value);
        require(got == (wanted == model_.end() ? outcome::not_found : outcome::ok), "a find");
        require(wanted == model_.end() || same(value, wanted->second), "the value");
    }

    void operate(std::uint8_t what, K key, const V& value) {
        const bool there = model_.contains(key), full = model_.size() == capacity_;
        switch (what % 8) {
            case 0: {
                const outcome expected = there ? outcome::exists : full ? outcome::full : outcome::ok;
                require(writer_.try_insert(key, value) == expected, "try_insert");
                model_.emplace(key, value);
                if (expected == outcome::full) model_.erase(key);
                break;
            }
            case 1:
                require(writer_.insert_or_assign(key, value) == (there || !full ? outcome::ok : outcome::full),
                        "assign");
                if (there || !full) model_.insert_or_assign(key, value);
                break;
            case 2:
                require(writer_.update(key, value) == (there ? outcome::ok : outcome::not_found), "update");
                if (there) model_.insert_or_assign(key, value);
                break;
            case 3:
                require(writer_.erase(key) == (there ? outcome::ok : outcome::not_found), "erase");
                model_.erase(key);
                break;
            case 4: succeed(false, false); break;
            case 5: (void)find(seldom_, key, scratch_); break;
            default: die_in(what / 8 % 4, key, value);
        }
    }

    // `shown`: the odd generation has come to its place, and not only into the journal.
    void succeed(bool change_open, bool shown) {
        const small_table_verification seen = verify_it(always_);
        require(seen.intact() && seen.change_open == shown, "left intact");
        require(!recover(view(body_, geometry_, {})).journal_rejected, "the journal");
        writer_ = mutator(view(body_, geometry_, {}));
        require(writer_.done().change_ended == change_open && writer_.size() == model_.size(), "the next writer");
    }

    // A writer that dies in an update, or in an insert or erase behind so many of its three stores.
    void die_in(unsigned stores, K key, const V& value) {
        const bool there = model_.contains(key), full = model_.size() == capacity_;
        const bool updates = there && stores == 3, erases = there && !updates;
        if (!there && full) return succeed(false, false);
        std::uint64_t place = 0;
        for (std::uint64_t at = capacity_; at >= 1; --at) {
            const entry now = entry_at(at);
            if (there ? now.state == small_table_used && now.key == key : now.state == small_table_free) place = at;
        }
        array_mutator<typename mutator::element> array(view(body_, geometry_, {}));
        const auto store = [&](std::uint64_t at, const K* k, std::uint64_t state, const V* v) {
            raw_record<entry> made{};
            if (k != nullptr) std::memcpy(made.data() + offsetof(entry, key), k, sizeof *k);
            std::memcpy(made.data() + offsetof(entry, state), &state, sizeof state);
            if (v != nullptr) std::memcpy(made.data() + offsetof(entry, value), v, sizeof *v);
            array.store(at, 1, made.data(), sizeof(entry));
        };
        const auto store_entry = [&] {
            if (erases)
                store(place, nullptr, small_table_free, nullptr);
            else
                store(place, &key, small_table_used, &value);
        };
        const auto kill_behind = [&](std::uint64_t at, auto&& last) {
            fuzz::kill_behind_commit(view(body_, geometry_, {}), body_, geometry_, at, 1, last);
        };
        const std::uint64_t generation = always_.generation();
        if (!updates) {
            const auto store_head = [&] { store(0, nullptr, changing_after(generation), nullptr); };
            if (stores == 0) {
                kill_behind(0, store_head);
                return succeed(true, false);
            }
            store_head();
        }
        if (stores == 2)
            store_entry();
        else
            kill_behind(place, store_entry);
        if (erases)
            model_.erase(key);
        else
            model_.insert_or_assign(key, value);
        expect_model(always_, key);
        succeed(!updates, !updates);
    }
    [[nodiscard]] entry entry_at(std::uint64_t place) const {
        raw_record<entry> copy;
        require(always_.elements().load(place, copy.data()) == outcome::ok, "an entry");
        return copy.get();
    }

    array_geometry geometry_;
    std::vector<line> memory_;
    std::span<std::byte> body_;
    std::uint64_t capacity_;
    mutator writer_;
    finder always_, seldom_;  // one looks at each change, the other now and then
    std::map<K, V> model_;
    std::uint64_t stamp_ = 0;
    V scratch_{};
};

template <class K, class V>
void run(std::uint64_t capacity, std::span<const std::uint8_t> input) {
    if (input.empty()) return;
    const auto script = input.subspan(1, std::min<std::size_t>(input[0], input.size() - 1));
    subject<K, V> table(capacity);
    table.run(script);
    (void)table.damage(input.subspan(1 + script.size()));
    table.use_any_bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::span<const std::uint8_t> rest(data + 1, size - 1);
    switch (data[0] % 4) {
        case 0: run<std::uint64_t, limit>(12, rest); break;
        case 1: run<std::uint16_t, std::uint8_t>(70, rest); break;                // several groups
        case 2: run<std::int32_t, std::array<std::uint16_t, 5>>(5, rest); break;  // gaps behind the key and the value
        default: run<std::uint32_t, std::array<std::uint64_t, 150>>(3, rest); break;  // larger than a group
    }
    return 0;
}
