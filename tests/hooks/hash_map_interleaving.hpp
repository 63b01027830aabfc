// SPDX-License-Identifier: Apache-2.0
// hash_map_interleaving.hpp - two operations of a hash map's writer beside two of a reader (schedule_rig.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "hooks/interleaving.hpp"
#include "hooks/small_map.hpp"
#include "support/hash_table_image.hpp"
#include "support/linearizability.hpp"
#include "support/map_bench.hpp"

namespace holdfast::test {

/// What a key of a map has: the number of its value, 0 for none.
struct map_number_model {
    enum kind : std::uint32_t { set, erase, find };
    using state = std::uint64_t;
    static bool apply(state& s, const operation& op) {
        if (op.kind == find) return op.killed || op.answer == s;
        const bool was_there = s != 0;
        s = op.given;
        return op.kind == set || op.killed || op.answer == (was_there ? 1U : 0U);
    }
};

/// A map with two keys in a store of few units. The writer sets key 1 anew, or erases it, then sets key 0; the reader
/// finds key 1 and then that one again or key 0. Values that go are overwritten by those that come. What they did is
/// recorded, and there must be an order of instants that explains it.
class hash_map_interleaving final : public interleaving {
 public:
    hash_map_interleaving(bool erases, std::uint64_t second_look)
        : erases_(erases),
          second_look_(second_look),
          geometry_(small_map(6)),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(start()),
          reader_(reader_of(view().as_const())) {
        for (std::uint64_t n = 1; n < keys; ++n) (void)put(writer_, name(n), content(n));
        states_ = {{{0, 1}, {0, erases ? 0U : 2U}, {3, erases ? 0U : 2U}}};
    }

    [[nodiscard]] std::span<std::byte> image() override { return bytes_.bytes(); }
    void attach() override {
        writer_ = start();
        reader_ = reader_of(view().as_const());
        done_.assign(1, {.called = 1, .returned = 2, .kind = map_number_model::set, .key = 1, .given = 1});
        ticks_ = 2;
    }
    std::string run(unsigned process, unsigned operation) override {
        const std::uint64_t key = process == 1 && operation == 1 ? second_look_ : 1 - operation;
        const bool erases = process == 0 && operation == 0 && erases_;
        const std::size_t call = begin(process == 1 ? map_number_model::find
                                       : erases     ? map_number_model::erase
                                                    : map_number_model::set,
                                       key, erases ? 0 : 2 + operation);
        std::uint64_t answer = 1;
        if (process == 1) {
            if (std::string why = find(key, answer); !why.empty()) return why;
        } else if (erases) {
            if (!writer_.erase(as_key(name(1)))) return "an erase failed";
        } else if (!put(writer_, name(key), content(2 + operation))) {
            return "a set failed";
        }
        end(call, answer);
        return {};
    }
    std::string judge(std::optional<unsigned> dead) override {
        if (reader_.fault()) return "the reader latched a fault";
        std::string why = damage_of(view().as_const());
        if (!why.empty()) return why;
        if (why = miscounted(view().store.as_const()); !why.empty()) return why;
        const map_writer next = start();
        const map_reader now = reader_of(view().as_const());
        if (why = look_at_writer([] {}, [&](unsigned state) { return is(now, state); }, "the end is no state");
            !why.empty())
            return why;
        if (dead != 0U && !is(now, operations)) return "an operation had no effect";
        if (why = judge_history(now); !why.empty()) return why;
        return leaks(view());
    }
    [[nodiscard]] std::uint64_t histories() const noexcept { return histories_; }

 private:
    static constexpr std::uint64_t keys = 2;
    static std::string name(std::uint64_t n) { return n == 0 ? "another key of two words" : "1"; }
    // By number: 1 is there in the beginning, of two units.
    static constexpr map_content content(std::uint64_t n) noexcept { return {n, n == 1 ? 70U : 12U}; }
    [[nodiscard]] writable_map view() noexcept { return {bytes_.bytes(), geometry_}; }
    [[nodiscard]] map_writer start() { return map_writer(view(), fake_clock(), nullptr); }

    // The number of the value, 0 when the key is not there, nothing for a mix.
    static std::optional<std::uint64_t> number_at(const map_reader& reader, std::uint64_t key) {
        std::array<std::byte, 100> out;
        const hash_map_found got = reader.find(as_key(name(key)), std::span<std::byte>(out));
        if (got.status == outcome::not_found) return 0;
        const auto bytes = static_cast<std::size_t>(got.count);
        for (std::uint64_t n = 1; n <= 3; ++n)
            if (got && bytes == content(n).bytes && is_whole(std::span(out).first(bytes), n)) return n;
        return std::nullopt;
    }
    std::string find(std::uint64_t key, std::uint64_t& number) {
        std::optional<std::uint64_t> got;
        std::string why = look_at_writer([&] { got = number_at(reader_, key); },
                                         [&](unsigned state) { return got && *got == states_[state][key]; },
                                         "a reader got a value that was not there at the time, or a mix");
        number = got.value_or(0);
        return why;
    }

    // An operation is killed until it has ended.
    std::size_t begin(map_number_model::kind kind, std::uint64_t key, std::uint64_t given) {
        timed_ = surely(1) != 0;
        done_.push_back({.called = ++ticks_, .kind = kind, .killed = true, .key = key, .given = given});
        return done_.size() - 1;
    }
    void end(std::size_t call, std::uint64_t answer) {
        done_[call].returned = ++ticks_;
        done_[call].killed = false;
        done_[call].answer = answer;
    }
    // The last one looks at both keys behind all that was done, or died.
    std::string judge_history(const map_reader& now) {
        if (!timed_) return {};
        ++ticks_;
        for (operation& op : done_)
            if (op.killed) op.returned = ticks_;
        for (std::uint64_t key = 0; key < keys; ++key)
            end(begin(map_number_model::find, key, 0), number_at(now, key).value_or(99));
        ++histories_;
        return check_by_key<map_number_model>(done_).violation;
    }
    [[nodiscard]] bool is(const map_reader& reader, unsigned state) const {
        for (std::uint64_t n = 0; n < keys; ++n)
            if (number_at(reader, n) != states_[state][n]) return false;
        return true;
    }

    bool erases_;
    std::uint64_t second_look_;
    layout::hash_map_geometry geometry_;
    aligned_bytes bytes_;
    map_writer writer_;
    map_reader reader_;
    std::array<std::array<std::uint64_t, keys>, operations + 1> states_{};  // numbers of values
    history done_;
    std::uint64_t ticks_ = 0;      // of the only clock there is: what began and ended
    bool timed_ = true;            // not under weak memory
    std::uint64_t histories_ = 0;  // checked
};

}  // namespace holdfast::test
