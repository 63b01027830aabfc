// SPDX-License-Identifier: Apache-2.0
// queue_subject.hpp - random histories of a queue of bytes and of a queue of elements under store_rig.hpp. Either side
// dies; the other lives on with what it knows privately, or both are taken over, in either order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hooks/store_rig.hpp"
#include "support/hash_table_image.hpp"
#include "support/queue_bench.hpp"

namespace holdfast::test {

/// What a queue holds, and what the operation under way adds at the end or takes from the front.
template <class Item>
struct queue_model {
    std::deque<Item> held;
    std::size_t adding = 0;  // the last so many are held only if the operation was committed
    std::size_t taking = 0;  // the first so many are gone if it was

    void settle(bool added) {
        if (!added) held.erase(held.end() - static_cast<std::ptrdiff_t>(adding), held.end());
        held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(taking));
        adding = taking = 0;
    }
};

class queue_subject {
 public:
    static constexpr unsigned length = 600;

    explicit queue_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(layout::queue_geometry::of_bytes(random_.one_in(3) ? 512 : 256, true, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(make_writer()),
          reader_(make_reader()) {}

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        committed_ = false;
        head_ = reader_.head();
        const std::uint64_t what = random_.below(16);
        bool added = true;
        if (what < 5)
            added = push(rig, 1, random_.one_in(3));
        else if (what < 8)
            added = push(rig, 2 + random_.below(3), random_.one_in(3));
        else if (what < 14)
            pop(rig);
        else
            takeover(rig, what == 14);
        model_.settle(added);
        return {};
    }

 private:
    struct item {
        std::uint64_t seed;
        std::size_t bytes;
    };

    [[nodiscard]] layout::queue_write_core make_writer() {
        return {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
    }
    [[nodiscard]] layout::queue_read_core make_reader() {
        return {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
    }

    // One message, or several as a batch; perhaps behind a claim or a batch that is dropped.
    bool push(store_rig& rig, std::size_t count, bool drop_first) {
        const std::size_t longest = static_cast<std::size_t>(layout::ring_message_max(geometry_.capacity));
        for (std::size_t i = 0; i < count; ++i)
            model_.held.push_back({++seed_, random_.below(random_.one_in(4) ? longest + 1 : 41)});
        model_.adding = count;
        const std::size_t dropped = random_.below(longest + 1);
        bool done = false;
        rig.operate(
            [&] {
                if (drop_first) drop(dropped, count > 1);
                if (count > 1) writer_.begin_batch();
                done = true;
                for (std::size_t i = model_.held.size() - count; done && i < model_.held.size(); ++i)
                    done = static_cast<bool>(push_message(writer_, model_.held[i].seed, model_.held[i].bytes));
                if (count > 1 && done) (void)writer_.commit_batch();
                if (count > 1 && !done) writer_.discard_batch();
            },
            [&] { return survive(rig, committed_, true); });
        return done;
    }
    void drop(std::size_t bytes, bool batch) {
        if (batch) {
            writer_.begin_batch();
            (void)push_message(writer_, 3, bytes / 2);
            (void)push_message(writer_, 4, 3);
            writer_.discard_batch();
            return;
        }
        const queue_claim room = writer_.try_claim(bytes);
        if (!room) return;
        std::memset(room.bytes.data(), 0x77, room.bytes.size());
        writer_.discard();
    }
    void pop(store_rig& rig) {
        model_.taking = std::min<std::size_t>(model_.held.size(), 1 + random_.below(4));
        rig.operate(
            [&] {
                for (std::size_t i = 0; i < model_.taking; ++i) {
                    (void)reader_.front();
                    reader_.next();
                }
                reader_.release();
            },
            [&] { return survive(rig, committed_, true); });
    }
    void takeover(store_rig& rig, bool producer) {
        rig.operate(
            [&] {
                if (producer)
                    writer_ = make_writer();
                else
                    reader_ = make_reader();
            },
            [&] { return survive(rig, committed_, true); });
    }

    // Reads all there is by a copy of `reader`, which does not release: nothing is stored.
    // Returns: how many messages, or what is wrong with them.
    std::string read_all(layout::queue_read_core reader, std::size_t from, std::size_t& until) const {
        for (until = from; const queue_message found = reader.front(); ++until) {
            if (until == model_.held.size()) return "a message that nobody sent";
            if (!is_message(found, model_.held[until].seed, model_.held[until].bytes))
                return "message " + std::to_string(until) + " is another or damaged";
            reader.next();
        }
        return reader.fault() ? "a reader latched a fault" : "";
    }
    // Whether the operation under way is seen as committed.
    std::string judge(const layout::queue_read_core& reader, bool& committed) const {
        const std::size_t sure = model_.held.size() - model_.adding;
        std::size_t from = 0, until = 0;
        if (model_.taking != 0 && reader.head() != head_) from = model_.taking;
        if (std::string why = read_all(reader, from, until); !why.empty()) return why;
        if (until != sure && until != model_.held.size()) return "a transaction is there in part, or messages are lost";
        committed = model_.taking != 0 ? from != 0 : model_.adding != 0 && until == model_.held.size();
        return {};
    }

    // `committed`: somebody saw the operation as done. `living`: it is under way, not a recovery that died.
    std::string survive(store_rig& rig, bool committed, bool living) {
        std::string why = sound();
        if (!why.empty()) return why;
        bool now = false;
        if (model_.taking == 0) {  // the consumer lives on, and knows where it was
            if (why = judge(reader_, now); !why.empty()) return "the living consumer: " + why;
            if (committed && !now) return "what was seen was taken back";
        }
        const bool seen = committed || now;
        if (living) committed_ = seen;
        const bool producer_first = rig.random().one_in(2);
        std::optional<layout::queue_write_core> writer;
        std::optional<layout::queue_read_core> reader;
        const auto again = [&] { return survive(rig, seen, false); };
        if (producer_first) rig.recover([&] { writer.emplace(make_writer()); }, again);
        rig.recover([&] { reader.emplace(make_reader()); }, again);
        if (!producer_first) rig.recover([&] { writer.emplace(make_writer()); }, again);
        if (rig.changes_by([&] { (void)make_writer(), (void)make_reader(); }) != 0) return "recovery is not idempotent";
        if (why = sound(); !why.empty()) return "recovered, " + why;
        if (why = judge(*reader, now); !why.empty()) return "recovered: " + why;
        if (seen && !now) return "recovery took back what was seen";
        if (living && model_.taking != 0) committed_ = now;
        rig.go_on([&] { why = go_on(*writer, *reader); });
        return why;
    }
    std::string sound() {
        const auto seen = layout::verify_queue(bytes_.bytes(), geometry_, &consumer_side_in(bytes_.bytes()));
        return seen.found.empty() ? "" : "verify: " + seen.found.list()[0].what;
    }
    // Takes everything, then sends and takes a batch through whatever the ring looks like.
    std::string go_on(layout::queue_write_core& writer, layout::queue_read_core& reader) {
        while (reader.front()) {
            reader.next();
            reader.release();
        }
        writer.begin_batch();
        if (!push_message(writer, 900, 21) || !push_message(writer, 901, 90) || !writer.commit_batch())
            return "the next batch failed";
        for (const item& sent : {item{900, 21}, item{901, 90}}) {
            if (!is_message(reader.front(), sent.seed, sent.bytes)) return "the next message is another";
            reader.next();
            reader.release();
        }
        if (!(reader.counts() == writer.counts())) return "the sides' counts differ";
        return sound();
    }

    draws random_;
    layout::queue_geometry geometry_;
    aligned_bytes bytes_;
    layout::queue_write_core writer_;
    layout::queue_read_core reader_;
    queue_model<item> model_;
    std::uint64_t seed_ = 1000;
    std::uint64_t head_ = 0;  // before the operation
    bool committed_ = false;  // somebody saw the operation under way as done
};

class elements_subject {
 public:
    static constexpr unsigned length = 600;
    static constexpr std::uint64_t capacity = 8, stride = 24;

    explicit elements_subject(std::uint64_t seed)
        : random_(seed),
          geometry_(layout::queue_geometry::of_elements(capacity, stride, true, "bench")),
          bytes_(static_cast<std::size_t>(geometry_.body_bytes())),
          writer_(make_writer()),
          reader_(make_reader()) {}

    [[nodiscard]] std::span<std::byte> image() noexcept { return bytes_.bytes(); }

    std::string next(store_rig& rig) {
        const std::uint64_t what = random_.below(8), count = 1 + random_.below(3);
        head_ = reader_.head();
        tail_ = writer_.tail();
        adding_ = taking_ = 0;
        committed_ = false;
        if (what < 3 && writer_.room(count) == outcome::ok) {
            adding_ = count;
            rig.operate(
                [&] {
                    for (std::uint64_t i = 0; i < count; ++i) fill(writer_.slot(i), tail_ + i);
                    writer_.publish(count);
                },
                [&] { return survive(rig, committed_, true); });
        } else if (what < 6 && reader_.ready(count)) {
            taking_ = reader_.ready(count).count;
            rig.operate([&] { reader_.pass(taking_), reader_.release(); },
                        [&] { return survive(rig, committed_, true); });
        } else if (what == 6) {
            rig.operate([&] { writer_ = make_writer(); }, [&] { return survive(rig, committed_, true); });
        } else {
            rig.operate([&] { reader_ = make_reader(); }, [&] { return survive(rig, committed_, true); });
        }
        return {};
    }

 private:
    [[nodiscard]] layout::queue_element_write_core make_writer() {
        return {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
    }
    [[nodiscard]] layout::queue_element_read_core make_reader() {
        return {bytes_.bytes(), geometry_, consumer_side_in(bytes_.bytes()), "bench"};
    }
    // Plain stores, as the users of queue<T> make them.
    static void fill(std::byte* slot, std::uint64_t number) {
        std::uint64_t words[3];
        for (std::size_t i = 0; i < 3; ++i) words[i] = message_word(number, i);
        std::memcpy(slot, words, sizeof words);
    }
    static bool is_element(const std::byte* slot, std::uint64_t number) {
        std::uint64_t words[3];
        std::memcpy(words, slot, sizeof words);
        for (std::size_t i = 0; i < 3; ++i)
            if (words[i] != message_word(number, i)) return false;
        return true;
    }
    static std::uint64_t message_word(std::uint64_t number, std::size_t index) noexcept {
        return (number + 1) * 0x9E3779B97F4A7C15U + index * 0xD1342543DE82EF95U;
    }

    // All that a copy of `reader` finds, without releasing; whether the operation under way was committed.
    std::string judge(layout::queue_element_read_core reader, bool& committed) const {
        const std::uint64_t head = reader.head();
        std::uint64_t at = head;
        for (; reader.ready(1); reader.pass(1), ++at)
            if (!is_element(reader.slot(0), at)) return "element " + std::to_string(at) + " is another or mixed";
        if (reader.fault()) return "a reader latched a fault";
        if (head != head_ && head != head_ + taking_) return "the head is " + std::to_string(head);
        if (at != tail_ && at != tail_ + adding_) return "the tail is " + std::to_string(at);
        committed = (taking_ != 0 && head != head_) || (adding_ != 0 && at != tail_);
        return {};
    }

    // As above.
    std::string survive(store_rig& rig, bool committed, bool living) {
        bool now = false;
        std::string why = sound();
        if (!why.empty()) return why;
        if (taking_ == 0)
            if (why = judge(reader_, now); !why.empty()) return "the living consumer: " + why;
        const bool seen = committed || now;
        const bool producer_first = rig.random().one_in(2);
        std::optional<layout::queue_element_write_core> writer;
        std::optional<layout::queue_element_read_core> reader;
        const auto again = [&] { return survive(rig, seen, false); };
        if (producer_first) rig.recover([&] { writer.emplace(make_writer()); }, again);
        rig.recover([&] { reader.emplace(make_reader()); }, again);
        if (!producer_first) rig.recover([&] { writer.emplace(make_writer()); }, again);
        if (rig.changes_by([&] { (void)make_writer(), (void)make_reader(); }) != 0) return "recovery is not idempotent";
        if (why = judge(*reader, now); !why.empty()) return "recovered: " + why;
        if (seen && !now) return "what was seen was taken back";
        if (living) committed_ = now;
        rig.go_on([&] { why = go_on(*writer, *reader); });
        return why;
    }
    std::string sound() {
        const auto seen = layout::verify_queue(bytes_.bytes(), geometry_, &consumer_side_in(bytes_.bytes()));
        return seen.found.empty() ? "" : "verify: " + seen.found.list()[0].what;
    }
    std::string go_on(layout::queue_element_write_core& writer, layout::queue_element_read_core& reader) {
        while (reader.ready(1)) {
            reader.pass(1);
            reader.release();
        }
        const std::uint64_t from = writer.tail();
        if (writer.room(capacity) != outcome::ok) return "no room in an empty ring";
        for (std::uint64_t i = 0; i < capacity; ++i) fill(writer.slot(i), from + i);
        writer.publish(capacity);
        for (std::uint64_t i = 0; i < capacity; ++i) {
            if (!reader.ready(1) || !is_element(reader.slot(0), from + i)) return "the next element is another";
            reader.pass(1);
        }
        reader.release();
        return sound();
    }

    draws random_;
    layout::queue_geometry geometry_;
    aligned_bytes bytes_;
    layout::queue_element_write_core writer_;
    layout::queue_element_read_core reader_;
    std::uint64_t head_ = 0, tail_ = 0, adding_ = 0, taking_ = 0;
    bool committed_ = false;
};

}  // namespace holdfast::test
