// SPDX-License-Identifier: Apache-2.0
// A hash table that becomes larger and smaller under its name, by one writer or by two of many, while a peer who may
// write its files stores any bytes into them: into the generation that has the name, and into the next one of many
// writers, NAME.growing. Nobody is led outside a mapping or made to work without end; while nobody but the writers has
// stored anything each answer is what a model says, in whatever generation.
//
// Input: byte 0: many writers (1), the capacity (the rest). Then steps {operation, number, length, bytes}; a writer is
// bytes[0] % 2, a key number % 64:
//   0  a key is given the value bytes[0]; 1 is inserted; 2 is updated; 3 is erased; 4 is counted on by 3
//   5  it is looked for, by both writers and by the reader that follows; at a place that was kept, too
//   6  a growth begins, to a capacity of 1 + 8 * number; 7 it goes on by `number` steps; 8 it is given up
//   9  a writer leaves, and another comes; a growth that it led has no leader meanwhile
//   10 all is scanned and verified; 11 the reader that follows attaches anew
//   12 bytes[1...] over the file of NAME, at 8 * (number + 256 * bytes[0]); 13 over that of NAME.growing
//   14 bytes[1...] over either file, at 8 * number behind the first stripe, or the journal of a table of one
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "holdfast/hash_table.hpp"
#include "holdfast/hash_table/growing.hpp"
#include "holdfast/hash_table/many.hpp"
#include "hostile_file.hpp"
#include "require.hpp"
#include "script.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using fuzz::require;
using fuzz::step;
using u64 = std::uint64_t;

constexpr std::size_t steps_max = 64;
constexpr unsigned growths_max = 6;  // each may wait half a second for one that looks stopped in the next generation
constexpr u64 keys = 64, no_value = ~u64{0};

/// A table with one handle that writes.
struct of_one {
    using table = growing_hash_table<u64, u64>;
    static constexpr std::size_t handles = 1;
    static constexpr std::uint32_t writer_slots = 0;
    static void be_impatient(table&) {}
};
/// A table that two handles write in turn.
struct of_many {
    using table = hash_table<u64, u64, writers::many>;
    static constexpr std::size_t handles = 2;
    static constexpr std::uint32_t writer_slots = 3;
    static void be_impatient(table& each) { each.set_patience(1ms); }
};

template <class Kind>
class world {
 public:
    explicit world(std::uint8_t shape) {
        writers_[0].emplace(
            table::create(uri(), {.capacity = u64{1} + shape / 2 * 4, .seed = 11, .writer_slots = Kind::writer_slots}));
        for (std::size_t i = 0; i < Kind::handles; ++i) come(i);
        follower_.emplace(follower::attach(uri()));
    }
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    ~world() {
        for (auto& each : writers_) each.reset();
        for (const char* const suffix : {"", ".growing", ".lease", ".peers"}) std::filesystem::remove(path(suffix));
    }

    void take(const step& s) {
        auto& writer = writers_[s.byte() % Kind::handles];
        if (s.operation % 15 < 5) {
            if (writer) change(*writer, s);
            return;
        }
        switch (s.operation % 15) {
            case 5: look(s.number % keys); break;
            case 6: grow(writer, 1 + u64{8} * s.number); break;
            case 7:
                if (writer) (void)writer->advance(s.number);
                break;
            case 8:
                if (writer) writer->stop_growing();
                break;
            case 9:
                writer.reset();
                come(s.byte() % Kind::handles);
                break;
            case 10: look_at_all(); break;
            case 11: follow_anew(); break;
            case 12: hurt("", s.place(), s.cover()); break;
            case 13: hurt(".growing", s.place(), s.cover()); break;
            default: hurt_stripe(writer, s);
        }
    }
    /// Ends what a script has left open, and looks at all of it.
    void end() {
        // One step in 65 may wait 20 ms for a stripe that looks owned.
        const u64 steps = sound_ ? 100'000 : 500;
        for (auto& writer : writers_)
            if (writer) expect(!writer->advance(steps), "a growth ends");
        // What looks busy for ever costs each question a hundred thousand attempts.
        for (u64 key = 0; key < (sound_ ? keys : 4); ++key) look(key);
        look_at_all();
    }

 private:
    using table = typename Kind::table;
    using follower = growing_hash_table_reader<u64, u64>;

    [[nodiscard]] static test::unique_directory& folder() {
        static test::unique_directory made("hf-fuzz", std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp");
        static test::scoped_environment registry("HOLDFAST_REGISTRY", made.file("registry"));
        return made;
    }
    [[nodiscard]] static std::string path(const char* suffix) { return folder().file(std::string("t") + suffix); }
    [[nodiscard]] static std::string uri() { return folder().file_uri("t"); }
    /// While nobody else has stored anything.
    void expect(bool holds, const char* what) const { require(holds || !sound_, what); }

    void come(std::size_t i) {
        try {
            if (!writers_[i]) writers_[i].emplace(table::attach(uri()));
            Kind::be_impatient(*writers_[i]);
        } catch (const error& refused) {
            expect(false, refused.what());
        }
    }
    void change(table& writer, const step& s) {
        const u64 key = s.number % keys, value = s.byte();
        const bool there = model_.contains(key);
        const auto answers = [&](const hash_table_result& got, outcome want, entry_change what) {
            expect(got.status == want && (want != outcome::ok || got.what == what), "a writer's answer");
        };
        const entry_change stored = there ? entry_change::updated : entry_change::inserted;
        hash_table_result got;
        switch (s.operation % 15) {
            case 0:
                got = writer.insert_or_assign(key, value);
                if (got.status == outcome::full) return expect(!there && is_full(writer), "it is full");
                answers(got, outcome::ok, stored);
                model_[key] = value;
                break;
            case 1:
                got = writer.try_insert(key, value);
                if (got.status == outcome::full) return expect(!there && is_full(writer), "it is full");
                answers(got, there ? outcome::exists : outcome::ok, stored);
                if (!there) model_[key] = value;
                break;
            case 2:
                answers(writer.update(key, value), there ? outcome::ok : outcome::not_found, entry_change::updated);
                if (there) model_[key] = value;
                break;
            case 3:
                answers(writer.erase(key), there ? outcome::ok : outcome::not_found, entry_change::erased);
                model_.erase(key);
                break;
            default:
                answers(writer.modify(key, [](u64& number) noexcept { number += 3; }),
                        there ? outcome::ok : outcome::not_found, entry_change::updated);
                if (there) model_[key] += 3;
        }
        if (got && got.slot) kept_ = detail::place_in(writer, got.slot);
        expect(!writer.fault(), "a writer of a sound table finds no fault");
    }
    [[nodiscard]] bool is_full(const table& writer) const { return model_.size() >= writer.capacity(); }

    void look(u64 key) {
        const auto at = model_.find(key);
        const bool there = at != model_.end();
        const u64 want = there ? at->second : no_value;
        for (auto& writer : writers_)
            if (writer) expect(writer->find(key).value_or(no_value) == want, "a writer's find");
        expect(follower_->find(key).value_or(no_value) == want && follower_->contains(key) == there, "a reader's find");
        if (const auto place = follower_->place_of(key)) kept_ = place;
        if (!kept_) return;
        hash_table_entry<u64, u64> entry{};
        const outcome seen = follower_->entry_at(*kept_, entry);
        expect(seen == outcome::ok || seen == outcome::not_found || seen == outcome::stale, "an entry at a place");
        if (seen == outcome::ok) expect(model_.contains(entry.key) && model_[entry.key] == entry.value, "the entry");
    }
    void look_at_all() {
        const auto newest = follower_->current();
        u64 seen = 0;
        for (const auto& each : newest) {
            ++seen;
            expect(model_.contains(each.key) && model_[each.key] == each.value, "a scanned entry");
        }
        require(seen <= newest.slots(), "a scan ends");
        expect(seen == model_.size() && newest.size() == seen, "the number of entries");
        u64 told = 0;
        const auto report = newest.verify([&](const hash_table_finding&) { return ++told < 100; });
        expect(report.intact(), "it verifies");
        for (auto& writer : writers_) {
            if (!writer) continue;
            u64 met = 0;
            for (const auto& each : *writer) met += model_.contains(each.key) ? 1 : 0;
            expect(met == model_.size(), "a writer's scan");
        }
    }
    void grow(std::optional<table>& writer, u64 capacity) {
        if (!writer || growths_ == growths_max) return;
        ++growths_;
        try {
            writer->grow(capacity);
        } catch (const error& refused) {
            expect(refused.code() == errc::invalid_argument || refused.code() == errc::contended, refused.what());
        }
    }
    void follow_anew() {
        try {
            follower_.emplace(follower::attach(uri()));
        } catch (const error& refused) {
            expect(false, refused.what());
        }
    }
    void hurt(const char* suffix, std::size_t at, std::span<const std::byte> bytes) {
        if (bytes.empty() || !std::filesystem::exists(path(suffix))) return;
        sound_ = false;
        fuzz::lay_over(fuzz::hostile_file(path(suffix)).bytes(), at, bytes);
    }
    /// Where what a growth asks of others stands.
    void hurt_stripe(const std::optional<table>& writer, const step& s) {
        if (!writer) return;
        const auto& g = writer->geometry();
        const u64 at = header_bytes + (Kind::writer_slots != 0 ? g.stripes_offset : g.journal_offset);
        hurt(s.byte() % 4 < 2 ? "" : ".growing", static_cast<std::size_t>(at) + std::size_t{8} * s.number, s.cover());
    }

    std::array<std::optional<table>, Kind::handles> writers_;
    std::optional<follower> follower_;
    std::map<u64, u64> model_;
    std::optional<hash_table_place> kept_;
    unsigned growths_ = 0;
    bool sound_ = true;
};

template <class Kind>
void run(std::uint8_t shape, std::span<const std::byte> script) {
    world<Kind> all(shape);
    fuzz::for_each_step(script, steps_max, [&](const step& next) { all.take(next); });
    all.end();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const auto script = std::as_bytes(std::span(data, size)).subspan(1);
    data[0] % 2 != 0 ? run<of_many>(data[0], script) : run<of_one>(data[0], script);
    return 0;
}
