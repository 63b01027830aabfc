// SPDX-License-Identifier: Apache-2.0
// Many writers of a hash map, one of them killed. First stepped: after each changed store of an operation the image is
// what a death would leave there, and must be
//   for verify(), readers and counts, at once   intact, before or after and nothing else, used + free right
//   for a writer that was attached before       passable: it sets, updates and erases each key and needs all the room
//   for one that attaches                       recovered, nothing open, each entry under one key, never back from what
//                                               a reader saw
//   for who has the dead one's slot then        the same, beside a claim of its own
// and the takeover itself is stepped in the same way, with a third writer. Then in service: two and three writers at
// full speed, killed at random, beside a reader; what is there in the end must be what they were told, and the counts
// that they add to must be exact.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/hash_map/many.hpp"
#include "support/block_many_bench.hpp"
#include "support/capability.hpp"
#include "support/kill_rig.hpp"
#include "support/map_many_bench.hpp"
#include "support/scale.hpp"
#include "support/segment_tools.hpp"
#include "support/share.hpp"
#include "support/single_step.hpp"
#include "support/takeover_waits.hpp"
#include "support/unique_name.hpp"

namespace {

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;
using u64 = std::uint64_t;
using holdfast::detail::map_condition;

bool can_step() { return can_trace() && !sanitized; }

// ---- stepped -----------------------------------------------------------------------------------------------------

enum class fill { empty, half, nearly_full, full, colliding };
constexpr fill every_fill[] = {fill::empty, fill::half, fill::full};
constexpr const char* fill_names[] = {"empty", "half full", "nearly full", "full", "colliding"};

// What the stepped operation does to its key; nothing: the key goes.
struct change {
    std::string key;
    std::optional<map_content> after;
};

class map_step_bench {
 public:
    static constexpr u64 units = 48, one_stripe = 60, two_stripes = 400;
    static constexpr std::size_t crowd_size = 30;
    /// The table's capacity says how many stripes it has.
    explicit map_step_bench(fill how, u64 capacity = one_stripe)
        : geometry_(small_map_of_many(units, capacity)), image_(static_cast<std::size_t>(geometry_.body_bytes())) {
        EXPECT_EQ(view().table.stripe_mask != 0, capacity == two_stripes);
        many_map_writer writer[] = {map_writer_of(view(), all_live_, 0), map_writer_of(view(), all_live_, 1)};
        u64 n = 0;
        const auto add = [&](std::size_t bytes) {
            const map_content what{++n, bytes};
            if (!put(writer[n % 2], map_key(n), what)) return false;
            model_[map_key(n)] = what;
            return true;
        };
        for (unsigned i = 0; i < 3; ++i) (void)add(60);  // something was freed before, in every state, by the other
        while (!model_.empty()) {
            EXPECT_TRUE(writer[1].erase(as_key(model_.begin()->first)));
            model_.erase(model_.begin());
        }
        const std::size_t sizes[] = {8, 100, 0, 40};
        const auto used = [&] { return writer[0].reader().usage().units_used; };
        while (how == fill::half && used() < units / 2) (void)add(sizes[n % 4]);
        const auto add_one_unit = [&](const std::string& key) {
            model_[key] = {++n, 8};
            EXPECT_TRUE(put(writer[n % 2], key, model_[key]));
        };
        if (how == fill::nearly_full) {
            while (used() < units - 6) (void)add(sizes[n % 4]);
            while (used() < units - 3) add_one_unit(std::to_string(n) + "+");
        }
        for (std::size_t i = 0; how == fill::colliding && i < crowd_size; ++i) add_one_unit(crowd()[i]);
        while (how == fill::full && add(sizes[n % 4])) {
        }
        while (how == fill::full && used() < units && add(0)) {
        }
        base_.assign(image_.bytes().begin(), image_.bytes().end());
    }

    [[nodiscard]] const map_model& model() const noexcept { return model_; }
    [[nodiscard]] const step_report& takeovers() const noexcept { return takeovers_; }
    [[nodiscard]] static u64 recovered_every() { return one_in_so_many(2); }
    /// Keys of one home bucket and overflow class, more than it has places for. A colliding map has all but the last of
    /// them, and the one before that lies in another bucket.
    [[nodiscard]] static const std::vector<std::string>& crowd() {
        static const std::vector<std::string> keys = [] {
            const layout::hash_map_geometry geometry = small_map_of_many(units, one_stripe);
            shared_image none(static_cast<std::size_t>(geometry.body_bytes()));
            const writable_map view(none.bytes(), geometry);
            const auto parts_of = [&](u64 i) {
                return view.table.hash(view.digest(as_key(std::to_string(i))).bytes());
            };
            const auto wanted = parts_of(0);
            std::vector<std::string> chosen;
            for (u64 i = 0; chosen.size() <= crowd_size; ++i)
                if (const auto is = parts_of(i);
                    is.home(view.table.buckets) == wanted.home(view.table.buckets) && is.group() == wanted.group())
                    chosen.push_back(std::to_string(i));
            return chosen;
        }();
        return keys;
    }

    /// Steps operate(writer 0).
    template <class Operate>
    step_report step(const change& what, Operate&& operate) {
        image_.assign(base_);
        many_map_writer first = map_writer_of(view(), all_live_, 0);
        came_.reset();
        return single_step(
            image_, [&] { operate(first); }, [&](std::span<std::byte> image) { return check(image, what); });
    }

    /// Steps the attach of writer 1, where writer 0 died behind O4 and its record was damaged since: the repair takes a
    /// pass over all entries. Killed in it, writer 2 does it.
    step_report step_repair() {
        image_.assign(base_);
        die_before_the_table(view());
        return single_step(
            image_,
            [&] {
                writer_roll roll;
                roll.die(0);
                (void)map_writer_of(view(), roll, 1);
            },
            [&](std::span<std::byte> image) { return mended({image, geometry_}); });
    }

 private:
    [[nodiscard]] writable_map view() noexcept { return {image_.bytes(), geometry_}; }

    void die_before_the_table(const writable_map& view) {
        using holdfast::detail::map_record;
        const holdfast::detail::map_slots slots(view);
        holdfast::detail::block_many_core<rolled_locks> store(view.store, 0, rolled_locks(all_live_, 0));
        EXPECT_EQ(store.prepare(100), outcome::ok);
        map_record record;
        record.word[map_record::kind] = static_cast<u64>(entry_change::inserted);
        record.word[map_record::add] = store.pending();
        const u64 operation = slots.selector(0) / 2 + 1;
        holdfast::detail::begin_operation(slots, 0, operation, record);
        EXPECT_TRUE(store.commit());
        slots.record_at(0, operation)[8 * map_record::digest] ^= std::byte{1};
    }
    std::string mended(const writable_map& view) const {
        writer_roll roll;
        for (const unsigned dead : {0U, 1U}) roll.die(dead);
        many_map_writer next = map_writer_of(view, roll, 2);
        if (std::string text = difference(next.reader(), model_); !text.empty()) return text;
        if (something_open(view)) return "mended, and something is open";
        if (handles_of(next.reader().blocks()).size() != keys_of(next.reader()).size())
            return "mended, and an entry has no key";
        return leaks(view, next);
    }

    static std::string sound(const writable_map& view) {
        if (std::string text = damage_of(view.as_const()); !text.empty()) return text;
        return miscounted(view.store.as_const());
    }
    // What a reader finds: the model, before the change or after it; says which.
    std::string seen(const writable_map& view, const change& what, bool& after) const {
        const map_reader reader = reader_of(view.as_const());
        std::string text = difference(reader, model_);
        after = !text.empty();
        if (!after) return {};
        map_model changed = model_;
        changed.erase(what.key);
        if (what.after) changed[what.key] = *what.after;
        return difference(reader_of(view.as_const()), changed);
    }

    std::string check(std::span<std::byte> image, const change& what) {
        const writable_map view(image, geometry_);
        if (std::string text = sound(view); !text.empty()) return text;
        bool after = false;
        if (std::string text = seen(view, what, after); !text.empty()) return text;
        const std::vector<std::byte> left(image.begin(), image.end());
        if (std::string text = gone_on(view, what); !text.empty()) return "who was there before: " + text;
        std::memcpy(image.data(), left.data(), left.size());
        if (std::string text = attached(view, 1, what, after); !text.empty()) return text;
        std::memcpy(image.data(), left.data(), left.size());
        return step_takeover(left, what, after);
    }

    // Writer 1, attached all the time, meets what the dead one left when it needs it. It is made on a copy of the bytes
    // of before: nothing is recovered by its coming.
    std::string gone_on(const writable_map& view, const change& what) {
        writer_roll roll;
        many_map_writer second = map_writer_of(view, roll, 1);  // all live: it recovers nothing
        roll.die(0);
        // The dead one's key first: its stripe may be held.
        const outcome erased = second.erase(as_key(what.key)).status;
        if (erased != outcome::ok && erased != outcome::not_found) return "the key could not be erased";
        const hash_map_result inserted = put(second, what.key, {5, 1}, {map_condition::absent});
        if (inserted.status != outcome::ok && inserted.status != outcome::full) return "the key could not be inserted";
        if (inserted && !holds(second.reader(), what.key, {5, 1})) return "the key has not what it was given";
        return leaks(view, second);
    }

    std::string attached(const writable_map& view, unsigned process, const change& what, bool after) const {
        writer_roll roll;
        for (unsigned dead = 0; dead < process; ++dead) roll.die(dead);
        many_map_writer next = map_writer_of(view, roll, process);
        const hash_map_recovery& found = next.recovery();
        if (found.record_rebuilt || found.store.counts_rebuilt || found.table.journal_rejected)
            return "recovery calls what a mere death left damaged";
        bool after_now = false;
        if (std::string text = seen(view, what, after_now); !text.empty()) return "recovered: " + text;
        if (after_now != after) return "recovery took back what a reader saw, or did what none saw";
        if (std::string text = sound(view); !text.empty()) return "recovered: " + text;
        if (something_open(view)) return "recovered, and something is open";
        const std::size_t entries = handles_of(next.reader().blocks()).size();
        if (entries != keys_of(next.reader()).size() || entries != next.reader().usage().entries)
            return "recovered, and an entry has no key, or the size is wrong";
        if (std::string text = claimed_again(view.store, roll, 0); !text.empty()) return text;
        return leaks(view, next);
    }

    // The recovery by writer 1, which attaches, dies as well, and writer 2 recovers both; for one in two states that
    // have anything to recover, and all that are not like those before; in the long run for each.
    std::string step_takeover(std::span<const std::byte> left, const change& what, bool after) {
        shared_image again(left.size());
        again.assign(left);
        const writable_map view(again.bytes(), geometry_);
        if (!something_open(view) || (++met_ % recovered_every() != 0 && came_ == after)) return {};
        came_ = after;
        const step_report report = single_step(
            again,
            [&] {
                writer_roll roll;
                roll.die(0);
                (void)map_writer_of(view, roll, 1);
            },
            [&](std::span<std::byte> image) -> std::string {
                const writable_map copy(image, geometry_);
                if (std::string text = sound(copy); !text.empty()) return "in the takeover: " + text;
                std::string text = attached(copy, 2, what, after);
                return text.empty() ? text : "killed in the takeover: " + text;
            });
        takeovers_ += report;
        return report.failure;
    }

    layout::hash_map_geometry geometry_;
    shared_image image_;
    writer_roll all_live_;
    map_model model_;
    std::vector<std::byte> base_;
    u64 met_ = 1;  // the first is one
    std::optional<bool> came_;
    step_report takeovers_;
};

class HashMapManyStep : public ::testing::Test {
 protected:
    void SetUp() override {
        if (!can_step()) GTEST_SKIP() << "needs: ptrace and a build without sanitizers";
    }
    void TearDown() override {
        if (IsSkipped()) return;
        RecordProperty("steps", std::to_string(all_.steps + takeovers_.steps));
        RecordProperty("images", std::to_string(all_.images + takeovers_.images));
        std::printf(
            "%llu steps, %llu images, %.1f s; takeovers in one in %llu unfinished states: %llu steps, %llu images\n",
            static_cast<unsigned long long>(all_.steps), static_cast<unsigned long long>(all_.images), all_.seconds,
            static_cast<unsigned long long>(map_step_bench::recovered_every()),
            static_cast<unsigned long long>(takeovers_.steps), static_cast<unsigned long long>(takeovers_.images));
    }
    template <class Operate>
    void step(fill how, const change& what, Operate&& operate, u64 capacity = map_step_bench::one_stripe) {
        map_step_bench bench(how, capacity);
        const step_report report = bench.step(what, std::forward<Operate>(operate));
        EXPECT_EQ(report.failure, "") << "map " << fill_names[static_cast<int>(how)] << ", key " << what.key;
        all_ += report;
        takeovers_ += bench.takeovers();
    }
    // A short key and a long one of those that are there.
    static std::vector<std::string> victims(fill how) {
        const map_step_bench bench(how);
        std::map<bool, std::string> chosen;
        for (const auto& [key, what] : bench.model()) chosen[key.size() > 20] = key;
        std::vector<std::string> keys;
        for (const auto& [kind, key] : chosen) keys.push_back(key);
        return keys;
    }
    step_report all_, takeovers_;
};

TEST_F(HashMapManyStep, Insert) {
    const auto object = whole_object(1000, 90);
    for (const fill how : every_fill)
        for (const std::string& key : {std::string("new"), std::string(50, 'n')})
            step(how, {key, map_content{1000, 90}},
                 [&](many_map_writer& writer) { (void)writer.set(as_key(key), object, 0, {map_condition::absent}); });
    EXPECT_GT(all_.images, 100U);
    EXPECT_GT(takeovers_.images, 60U);
}

TEST_F(HashMapManyStep, Update) {
    const auto object = whole_object(2000, 40);
    for (const fill how : {fill::half, fill::full})
        for (const std::string& key : victims(how))
            step(how, {key, map_content{2000, 40}},
                 [&](many_map_writer& writer) { (void)writer.set(as_key(key), object); });
    EXPECT_GT(all_.images, 80U);
    EXPECT_GT(takeovers_.images, 60U);
}

TEST_F(HashMapManyStep, Erase) {
    for (const fill how : {fill::half, fill::full})
        for (const std::string& key : victims(how))
            step(how, {key, std::nullopt}, [&](many_map_writer& writer) { (void)writer.erase(as_key(key)); });
    EXPECT_GT(all_.images, 60U);
    EXPECT_GT(takeovers_.images, 40U);
}

TEST_F(HashMapManyStep, FetchAddAndWhatIsRefused) {
    for (const std::string& key : victims(fill::half)) {
        map_content before = map_step_bench(fill::half).model().at(key);
        if (before.bytes < 8) continue;
        before.added = 3;
        step(fill::half, {key, before}, [&](many_map_writer& writer) {
            (void)writer.fetch_add<u64>(as_key(key), 0, 3);
            (void)writer.set(as_key(key), {}, 0, {map_condition::same, 1});
            (void)writer.set(as_key("none"), {}, 0, {map_condition::present});
            (void)writer.erase(as_key(key), {map_condition::same, 1});
            (void)writer.fetch_add<u64>(as_key(key), 1 << 20, 3);
        });
    }
    EXPECT_GT(all_.images, 60U);
}

TEST_F(HashMapManyStep, ConditionsThatHold) {
    const std::string key = victims(fill::half).back();
    const auto same = [&](const many_map_writer& writer) {
        return map_condition{map_condition::same,
                             writer.reader().handle_under(holdfast::detail::digest_of(as_key(key), 42))};
    };
    const auto object = whole_object(1000, 90);
    step(fill::half, {key, std::nullopt},
         [&](many_map_writer& writer) { (void)writer.erase(as_key(key), same(writer)); });
    step(fill::half, {key, map_content{1000, 90}},
         [&](many_map_writer& writer) { (void)writer.set(as_key(key), object, 0, same(writer)); });
    EXPECT_GT(all_.images, 40U);
    EXPECT_GT(takeovers_.images, 20U);
}

TEST_F(HashMapManyStep, NearlyFull) {
    const auto object = whole_object(1000, 90);
    const std::string old = victims(fill::nearly_full).back();
    step(fill::nearly_full, {"new", map_content{1000, 90}},
         [&](many_map_writer& writer) { (void)writer.set(as_key("new"), object, 0, {map_condition::absent}); });
    step(fill::nearly_full, {old, map_content{1000, 90}},
         [&](many_map_writer& writer) { (void)writer.set(as_key(old), object); });
    EXPECT_GT(all_.images, 40U);
}

// In a bucket past a full one: what comes raises the counters of those that it went past, what goes lowers them.
TEST_F(HashMapManyStep, KeysThatCollide) {
    const auto object = whole_object(1000, 8);
    const std::string absent = map_step_bench::crowd()[map_step_bench::crowd_size];
    const std::string far = map_step_bench::crowd()[map_step_bench::crowd_size - 1];
    step(fill::colliding, {absent, map_content{1000, 8}},
         [&](many_map_writer& writer) { (void)writer.set(as_key(absent), object, 0, {map_condition::absent}); });
    step(fill::colliding, {far, map_content{1000, 8}},
         [&](many_map_writer& writer) { (void)writer.set(as_key(far), object); });
    step(fill::colliding, {far, std::nullopt}, [&](many_map_writer& writer) { (void)writer.erase(as_key(far)); });
    EXPECT_GT(all_.images, 60U);
}

// Counters that deaths left too high are made exact, by one writer while there is no other.
TEST_F(HashMapManyStep, Recount) {
    step(fill::half, {"none", std::nullopt}, [](many_map_writer& writer) {
        const auto& table = writer.table().bytes();
        for (u64 bucket = 0; bucket < 2; ++bucket)
            for (const unsigned group : {2U, 3U, 9U})
                holdfast::detail::set_counter(
                    table.line(bucket), group,
                    static_cast<std::uint8_t>(holdfast::detail::counter_of(table.line(bucket), group) + 1));
        (void)holdfast::detail::recount(table);
    });
    EXPECT_GE(all_.images, 13U) << "each counter was raised, and lowered again";
}

// The stripe of the key is not the only one: what others do meanwhile may have nothing to do with it.
TEST_F(HashMapManyStep, WithSeveralStripes) {
    const auto object = whole_object(1000, 90);
    const u64 several = map_step_bench::two_stripes;
    step(
        fill::half, {"new", map_content{1000, 90}},
        [&](many_map_writer& writer) { (void)writer.set(as_key("new"), object, 0, {map_condition::absent}); }, several);
    const std::string old = map_step_bench(fill::half).model().begin()->first;
    step(
        fill::half, {old, map_content{1000, 90}},
        [&](many_map_writer& writer) { (void)writer.set(as_key(old), object); }, several);
    step(fill::half, {old, std::nullopt}, [&](many_map_writer& writer) { (void)writer.erase(as_key(old)); }, several);
    EXPECT_GT(all_.images, 60U);
    EXPECT_GT(takeovers_.images, 40U);
}

TEST_F(HashMapManyStep, TheRepairOfADamagedRecord) {
    map_step_bench bench(fill::half);
    all_ = bench.step_repair();
    EXPECT_EQ(all_.failure, "");
    EXPECT_GT(all_.images, 10U);
}

// ---- killed at full speed ----------------------------------------------------------------------------------------

// Writers without a pause between operations, each killed by its own timer, so that the others go on beside what it
// left. Each has keys of its own, which it sets, updates and erases, and notes what it was told; all add to the same
// few counts, and set and erase the same few keys.
class HashMapManyKill : public segment_test {
 protected:
    using map = hash_map<std::string_view, writers::many>;
    static constexpr u64 own = 16, counted = 3, shared = 6, writers_max = 3;

    // Of one writer: under its key i lies whole_object(seed, bytes); 0: nothing. `next` is what the operation under way
    // would make of key `at`.
    struct diary {
        std::array<std::atomic<u64>, own> seed{}, bytes{};
        std::atomic<u64> at{own}, next_seed{0}, next_bytes{0};
        std::array<std::atomic<u64>, counted> added{}, adding{};
    };
    static std::string own_key(u64 writer, u64 i) {
        return "w" + std::to_string(writer) + "/" + std::to_string(i) + std::string(i % 3 * 20, 'k');
    }
    static std::string count_key(u64 i) { return "count of " + std::to_string(i); }
    static std::string shared_key(u64 i) { return "s" + std::to_string(i) + std::string(i % 2 * 30, 's'); }

    // What one writer does until it is killed. Exit codes tell which answer was wrong.
    static void operate(map& mine, diary& notes, takeover_watch watch, kill_progress& progress, u64 writer, u64 seed,
                        u64 round) {
        std::vector<std::byte> out;
        for (u64 i = 0;; ++i) {
            const u64 random = random_at(seed, round, i), what = random % 8;
            const std::size_t bytes = (random >> 8) % 5 == 0 ? (random >> 16) % 1500 : (random >> 16) % 120;
            watch.begin();
            progress.begin();
            if (what < 2) {
                const u64 count = (random >> 40) % counted, amount = 1 + (random >> 50) % 9;
                notes.adding[count].store(amount);
                const auto done = mine.fetch_add<u64>(count_key(count), 0, amount);
                if (done)
                    notes.added[count].fetch_add(amount);
                else if (done.status != outcome::full)
                    ::_exit(8);
                notes.adding[count].store(0);
            } else if (what < 4) {
                const std::string key = shared_key((random >> 40) % shared);
                const u64 stamp = random | 1;
                const auto object = whole_object(stamp % 1000, bytes + 8);
                const hash_map_result done = what == 2 ? mine.set(key, object) : mine.erase(key);
                if (!done && done.status != outcome::full && done.status != outcome::not_found) ::_exit(9);
            } else {
                const u64 at = (random >> 40) % own, old = notes.seed[at].load();
                const std::string key = own_key(writer, at);
                const hash_map_found found = mine.find(key, out);
                if (old == 0 ? found.status != outcome::not_found
                             : !found || out.size() != notes.bytes[at].load() || !is_whole(out, old))
                    ::_exit(10);
                const bool erases = what == 7;
                notes.next_seed.store(erases ? 0 : i + 1);
                notes.next_bytes.store(bytes);
                notes.at.store(at);
                const auto object = whole_object(i + 1, bytes);
                const hash_map_result done = erases      ? mine.erase(key)
                                             : what == 4 ? mine.insert(key, object)
                                             : what == 5 ? mine.compare_and_set(key, found ? found.handle : 0, object)
                                                         : mine.set(key, object);
                const outcome expected = erases && old == 0      ? outcome::not_found
                                         : what == 4 && old != 0 ? outcome::exists
                                                                 : outcome::ok;
                if (done.status == outcome::ok) {
                    notes.bytes[at].store(bytes);
                    notes.seed[at].store(erases ? 0 : i + 1);
                } else if (done.status != outcome::full && done.status != expected) {
                    ::_exit(11);
                }
                notes.at.store(own);
            }
            progress.end();
            watch.end(mine.takeovers());
        }
    }

    // What is there must be what the writers noted, but for what each was in; which is then noted.
    static std::string compare(const map& in, std::span<diary> diaries, std::array<u64, counted>& sums) {
        std::vector<std::byte> out;
        u64 entries = 0;
        for (u64 w = 0; w < diaries.size(); ++w) {
            diary& d = diaries[w];
            for (u64 at = 0; at < own; ++at) {
                const hash_map_found found = in.find(own_key(w, at), out);
                if (!found && found.status != outcome::not_found) return "a key of a writer's own cannot be read";
                entries += found ? 1 : 0;
                const auto is = [&](u64 seed, u64 bytes) {
                    return seed == 0 ? !found : found && out.size() == bytes && is_whole(out, seed);
                };
                if (is(d.seed[at].load(), d.bytes[at].load())) continue;
                if (at != d.at.load() || !is(d.next_seed.load(), d.next_bytes.load()))
                    return "writer " + std::to_string(w) + "'s key " + std::to_string(at) +
                           " has not what it was given";
                d.seed[at].store(d.next_seed.load());
                d.bytes[at].store(d.next_bytes.load());
            }
            d.at.store(own);
        }
        for (u64 i = 0; i < counted; ++i) {
            u64 count = 0, possible = 0;
            const hash_map_found found = in.find(count_key(i), std::as_writable_bytes(std::span(&count, 1)));
            if (!found) return "a count is lost";
            ++entries;
            for (diary& d : diaries) {
                sums[i] += d.added[i].exchange(0);
                possible += d.adding[i].load();
            }
            if (count < sums[i] || count > sums[i] + possible)
                return "a count is " + std::to_string(count) + " and should be " + std::to_string(sums[i]);
            sums[i] = count;
            for (diary& d : diaries) d.adding[i].store(0);
        }
        for (u64 i = 0; i < shared; ++i) {
            const hash_map_found found = in.find(shared_key(i), out);
            if (!found && found.status != outcome::not_found) return "a shared key cannot be read";
            entries += found ? 1 : 0;
        }
        if (in.size() != entries) return "the size is " + std::to_string(in.size()) + " of " + std::to_string(entries);
        u64 met = 0;
        for (const hash_map_entry& entry : in) met += entry.handle != 0 ? 1 : 0;
        return met == entries ? "" : "a scan met " + std::to_string(met) + " of " + std::to_string(entries);
    }
    static std::string damage(const auto& in, bool at_rest) {
        std::string text;
        const auto seen = in.verify([&](const hash_map_finding& f) {
            text += std::string(describe(f.what)) + "; ";
            return text.size() < 500;
        });
        if (at_rest && seen.busy != 0) text += "busy";
        if (at_rest && seen.store.values != seen.entries)
            text += std::to_string(seen.store.values) + " values, " + std::to_string(seen.entries) + " keys";
        return text;
    }

    // With few entries the table has one stripe, and they wait for each other all the time; with many, they work beside
    // each other.
    void run(u64 count, u64 rounds, std::uint32_t slots, u64 capacity) {
        const u64 seed = choose_seed();
        SCOPED_TRACE("repeat with HOLDFAST_TEST_SEED=" + std::to_string(seed));
        const unique_posix_name name("many-maps");
        {
            // Room for some two thirds of what they want.
            map made = map::create(
                name.uri(), {.capacity = capacity, .bytes = count * 4'500, .unit_bytes = 64, .writer_slots = slots});
            const u64 zero = 0;
            for (u64 i = 0; i < counted; ++i)
                ASSERT_TRUE(made.insert(count_key(i), std::as_bytes(std::span(&zero, 1))));
        }
        shared_image pages(sizeof(diary) * writers_max + 64);
        auto* const diaries = new (pages.bytes().data()) std::array<diary, writers_max>;
        const std::span<diary> all(diaries->data(), count);
        std::array<kill_progress, writers_max> progress;
        std::array<u64, counted> sums{};
        shared_image waits(sizeof(takeover_waits));
        auto* const told = new (waits.bytes().data()) takeover_waits;
        u64 in_flight = 0, operations = 0, finished = 0;
        std::string failure;
        u64 round = 0;
        for (; told->another(round, rounds) && failure.empty(); ++round) {
            std::optional<takeover_waits::round> meanwhile(std::in_place, *told);
            std::vector<child_process> writers;
            for (u64 w = 0; w < count; ++w) {
                // One goes early, and what it held is free once it is gone: the others then have time to meet it.
                const u64 longest = round % count == w ? 500'000 : 10'000'000;
                progress[w].reset(random_at(seed, round, w) % (longest * slowness));
                writers.emplace_back([&, w] {
                    const bool dies_attaching = round % 8 == w, outlives = takeover_watch::outlives(round, w);
                    if (dies_attaching) progress[w].ready();
                    map mine = map::attach(name.uri());
                    if (!dies_attaching && !outlives) progress[w].ready();
                    mine.set_patience(60s);
                    operate(mine, (*diaries)[w], {*told, outlives}, progress[w], w, seed + w, round);
                });
            }
            // Beside them, and beside what the first of them left.
            const auto reader = hash_map_reader<std::string_view>::attach(name.uri());
            if (round % 16 == 5) failure = damage(reader, false);
            for (child_process& writer : writers)
                if (const ended& end = writer.wait(); !end.signalled || end.signal != SIGKILL) failure = end.text();
            if (!failure.empty()) break;
            meanwhile.reset();
            // Before anybody repairs: intact.
            if (round % 4 == 0) failure = damage(reader, false);
            map next = map::attach(name.uri());
            finished += next.recovery().operation_finished ? 1 : 0;
            if (failure.empty() && round % 4 <= 1) failure = damage(next, true);
            if (failure.empty()) failure = compare(next, all, sums);
            for (u64 w = 0; w < count; ++w) {
                operations += progress[w].completed();
                in_flight += progress[w].in_flight() ? 1 : 0;
            }
            if (!failure.empty()) failure = "round " + std::to_string(round) + ": " + failure;
        }
        EXPECT_GT(in_flight, 0U);
        EXPECT_TRUE(sanitized || finished > 0);
        EXPECT_TRUE(sanitized || told->takeovers() > 0) << "nobody met at work what a dead writer left";
        if (failure.empty()) failure = emptied(name.uri());
        EXPECT_EQ(failure, "");
        RecordProperty("kills", std::to_string(count * round));
        std::printf(
            "%llu kills, %llu inside an operation, %llu operations; %llu takeovers at work, %llu rounds left one\n",
            static_cast<unsigned long long>(count * round), static_cast<unsigned long long>(in_flight),
            static_cast<unsigned long long>(operations), static_cast<unsigned long long>(told->takeovers()),
            static_cast<unsigned long long>(finished));
        told->judge();
    }
    // Every key can be erased, and then no unit is used.
    static std::string emptied(const std::string& uri) {
        map last = map::attach(uri);
        std::vector<std::string> keys;
        for (const hash_map_entry& entry : last)
            keys.emplace_back(reinterpret_cast<const char*>(entry.key.data()), entry.key.size());
        for (const std::string& key : keys)
            if (!last.erase(key)) return "a key could not be erased";
        const hash_map_usage usage = last.usage();
        if (!usage || usage.units_used != 0 || last.size() != 0) return "an emptied map is not empty";
        return damage(last, true);
    }
};

TEST_F(HashMapManyKill, TwoAtFullSpeedLoseNothingButWhatTheyWereIn) { run(2, scaled(share_of(3000)), 4, 200); }
TEST_F(HashMapManyKill, ThreeAtFullSpeed) { run(3, scaled(share_of(1500)), 3, 2000); }

}  // namespace
