// SPDX-License-Identifier: Apache-2.0
// channel_subject.hpp - a way for messages from one core to another: what an adapter offers, and the loops timed.
//
// Messages have one size, B bytes, and lie side by side in the sender's own memory; a batch of them is handed over at
// once where the adapter can, and one by one where not. What each loop times:
//   stream   the near side sends so many, the far side copies them out; until the far side has the last one
//   add_up   the same, but the far side adds up all words of every message: where it lies in the channel, by adapters
//            that can, else of its copy
//   echo     the near side sends one and waits until the far side has sent it back, so many times
//   publish  the near side sends so many, whatever the far side does, which may lose some (lossy adapters only)
// In the first two every byte of a message is written once by the near side, which copies it from its own memory into
// the channel (into a place that was claimed there, where the adapter can), and read once by the far one. A sender that
// would overrun its receiver stays half a ring behind what the far side says it has taken, so nothing may be lost. In
// the clocked loop of `stream` the far side looks at the first and the last message of what it takes and counts, in
// that of `add_up` it compares the sum as well; before the clock starts all bytes of all messages are compared once. A
// lost, doubled, torn or misplaced message ends the run.
//
// Message number i is message i mod n of a pattern that stays in the first-level cache; its first word is unique in it.
// `publish` writes the number itself into the first word.
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "workload/far_side.hpp"
#include "workload/keys.hpp"
#include "workload/snapshot_subject.hpp"
#include "workload/words.hpp"

namespace holdfast::workload {

struct channel_request {
    std::uint64_t ring_bytes = 0;  ///< room for messages, rounded as the adapter needs
    std::string name;              ///< unused in shared memory; what is made begins with it
    std::size_t batch = 1;         ///< messages handed over at once
    unsigned far_cpu = 0;
    std::uint64_t kind = 0;    ///< for adapters that serve several kinds: which one
    const void* of = nullptr;  ///< likewise: where it comes from
};

/// Made before the other side is there, on the near side. Each end is opened on the side that uses it, the sending one
/// first. send() and receive() say how many messages went or came, 0 when there is no room or nothing there.
template <class A>
concept channel_adapter = std::constructible_from<A, const channel_request&, std::string_view> &&
                          requires(A& a, std::span<const std::byte> messages, std::span<std::byte> out) {
                              { A::name } -> std::convertible_to<std::string_view>;
                              { A::version() } -> std::convertible_to<std::string>;
                              { A::place } -> std::convertible_to<far_place>;
                              { A::message_bytes } -> std::convertible_to<std::size_t>;
                              a.open_sender();
                              a.open_receiver();
                              { a.send(messages) } -> std::same_as<std::size_t>;
                              { a.receive(out) } -> std::same_as<std::size_t>;
                          };

/// One whose receiver may miss messages, and says how many.
template <class A>
concept lossy_adapter = channel_adapter<A> && requires(A& a) {
    { a.lost() } -> std::same_as<std::uint64_t>;
};

/// One whose sender overruns a receiver that is a whole ring behind: such a one, or one that keeps no count.
template <class A>
concept overrunning_adapter = lossy_adapter<A> || (channel_adapter<A> && requires { requires A::overruns; });

/// What a far side has seen of messages that it did not copy.
struct words_seen {
    std::uint64_t sum = 0;              ///< of all words of all messages
    std::uint64_t first = 0, last = 0;  ///< the first words of the first and of the last message

    /// A message at any address, all of it looked at.
    template <std::size_t Bytes>
    void add(const void* message, bool is_first) noexcept {
        std::memcpy(&last, message, 8);
        if (is_first) first = last;
        sum += sum_of_words(message, Bytes);
    }
};

/// One that can read messages where they lie: takes up to `most`, or as many as are there if it cannot take fewer.
template <class A>
concept adds_up_in_place = channel_adapter<A> && requires(A& a, std::size_t most, words_seen& seen) {
    { a.add_up(most, seen) } -> std::same_as<std::size_t>;
};

/// What is sent.
class message_pattern : public word_buffer {
 public:
    explicit message_pattern(std::size_t words) : word_buffer(words) {
        for (std::size_t i = 0; i < words; ++i) (*this)[i] = scramble(i);
    }
};

class channel_subject {
 public:
    channel_subject() = default;
    channel_subject(const channel_subject&) = delete;
    channel_subject& operator=(const channel_subject&) = delete;
    virtual ~channel_subject() = default;

    /// Opens both ends, and compares every byte of some thousand messages. Throws: std::runtime_error.
    virtual void open_and_verify(bool both_ways) = 0;
    /// Nanoseconds for so many.
    virtual double stream(std::uint64_t count) = 0;
    virtual double add_up(std::uint64_t count) = 0;
    virtual double echo(std::uint64_t count) = 0;
    virtual double publish(std::uint64_t count) = 0;
    /// Of all messages published so far: those that the far side missed.
    [[nodiscard]] virtual std::uint64_t lost() const = 0;
    [[nodiscard]] virtual std::uint64_t published() const = 0;
    [[nodiscard]] virtual far_side& far() = 0;
};

template <channel_adapter A>
class channel_loops final : public channel_subject {
    enum orders : std::uint64_t {
        open_senders = far_side::own_orders,
        open_receivers,
        take,
        take_and_compare,
        take_and_add,
        send_back,
        follow
    };
    static constexpr std::size_t bytes = A::message_bytes;
    static constexpr std::size_t pattern_bytes = 8192;

 public:
    explicit channel_loops(const channel_request& request)
        : batch_(request.batch),
          count_(std::max(std::bit_ceil(request.batch), pattern_bytes / bytes)),
          laps_(2 * request.ring_bytes / bytes),
          window_(std::max<std::uint64_t>(request.ring_bytes / (bytes + 16) / 2, 1)),
          pattern_(count_ * bytes / 8),
          taken_(batch_ * bytes / 8),
          there_(request, "there"),
          back_(request, "back"),
          far_(A::place, request.far_cpu, [this](far_side& far, const far_order& order) { carry_out(far, order); }) {}

    void open_and_verify(bool both_ways) override {
        both_ways_ = both_ways;
        far_.carry_out({open_senders, both_ways ? 1U : 0U});
        there_.open_sender();
        far_.carry_out({open_receivers, 1});
        if (both_ways) back_.open_receiver();
        (void)stream_as(take_and_compare, 20 * count_);
        (void)add_up(2 * count_);
        (void)stream_as(
            take, laps_ / batch_ * batch_);  // the pages of a ring are there, on both sides, before anything is timed
        if (both_ways) (void)echo(100);
        far_.rest();
    }

    double stream(std::uint64_t count) override { return stream_as(take, count); }
    double add_up(std::uint64_t count) override { return stream_as(take_and_add, count); }

    double echo(std::uint64_t count) override {
        far_.begin({send_back, count});
        patience wait(far_);
        word_buffer answer(bytes / 8);
        const auto begin = clock::now();
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::span message = messages(i & (count_ - 1), 1);
            while (there_.send(message) == 0) wait();
            while (back_.receive(as_bytes(answer)) == 0) wait();
            if (answer[0] != first_word(i)) fail("another message came back than was sent");
        }
        const double took = since(begin);
        far_.finish();
        return took;
    }

    double publish(std::uint64_t count) override {
        if constexpr (lossy_adapter<A>) {
            far_.progress().store(0);
            far_.begin({follow, count});
            word_buffer own(batch_ * bytes / 8);
            patience wait(far_);
            // The far side has to stand at the end of the former ones first.
            while (far_.progress().load(std::memory_order_acquire) != published_ + 1) wait();  // pairs with follow_all
            const auto begin = clock::now();
            for (std::uint64_t done = 0; done < count;) {
                const std::size_t now = static_cast<std::size_t>(std::min<std::uint64_t>(batch_, count - done));
                for (std::size_t i = 0; i < now; ++i) own[i * bytes / 8] = published_ + done + i + 1;
                const std::size_t sent = there_.send(as_bytes(own).first(now * bytes));
                if (sent == 0) wait();
                done += sent;
            }
            const double took = since(begin);
            published_ += count;
            far_.finish();
            lost_ += far_.progress().load(std::memory_order_acquire);  // pairs with the last store of follow_all
            return took;
        } else {
            (void)count;
            fail("it cannot send to somebody who does not take");
        }
    }

    [[nodiscard]] std::uint64_t lost() const override { return lost_; }
    [[nodiscard]] std::uint64_t published() const override { return published_; }
    [[nodiscard]] far_side& far() override { return far_; }

 private:
    using clock = std::chrono::steady_clock;
    [[nodiscard]] static double since(clock::time_point begin) {
        return std::chrono::duration<double, std::nano>(clock::now() - begin).count();
    }
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }
    [[nodiscard]] static std::span<std::byte> as_bytes(word_buffer& words) {
        return std::as_writable_bytes(words.span());
    }
    [[nodiscard]] std::span<const std::byte> messages(std::size_t from, std::size_t count) {
        return as_bytes(pattern_).subspan(from * bytes, count * bytes);
    }
    [[nodiscard]] std::uint64_t first_word(std::uint64_t number) {
        return pattern_[(number & (count_ - 1)) * bytes / 8];
    }

    double stream_as(orders how, std::uint64_t count) {
        if constexpr (overrunning_adapter<A>) far_.progress().store(0);
        far_.begin({how, count});
        patience wait(far_);
        std::uint64_t behind = 0;  // what the far side has taken, when last asked
        const auto begin = clock::now();
        for (std::uint64_t sent = 0; sent < count;) {
            const std::uint64_t at = near_at_ & (count_ - 1);
            const std::uint64_t now = std::min({std::uint64_t{batch_}, count - sent, count_ - at});
            if constexpr (overrunning_adapter<A>) {
                while (sent + now - behind > window_ && sent != behind) {
                    behind = far_.progress().load(std::memory_order_acquire);  // pairs with the store in take_all()
                    wait.rest();
                }
            }
            const std::size_t went = there_.send(messages(at, static_cast<std::size_t>(now)));
            if (went == 0) wait.rest();
            sent += went;
            near_at_ += went;
        }
        far_.finish();
        return since(begin);
    }

    // ---- the far side
    void carry_out(far_side& far, const far_order& order) {
        switch (order.what) {
            case open_senders:
                if (order.count != 0) back_.open_sender();
                return;
            case open_receivers: return there_.open_receiver();
            case take: return take_all<false>(far, order.count);
            case take_and_compare: return take_all<true>(far, order.count);
            case take_and_add: return add_all_up(far, order.count);
            case send_back: return send_all_back(far, order.count);
            case follow: return follow_all(far, order.count);
            default: fail("an order that is none");
        }
    }

    template <bool Compare>
    void take_all(far_side& far, std::uint64_t count) {
        take_each(far, count, [this](std::size_t most) {
            const std::size_t came = there_.receive(as_bytes(taken_).first(most * bytes));
            if (came == 0) return came;
            require_place(came, taken_[0], taken_[(came - 1) * bytes / 8]);
            if constexpr (Compare) compare(came);
            return came;
        });
    }
    void add_all_up(far_side& far, std::uint64_t count) {
        const std::uint64_t from = far_at_;
        std::uint64_t sum = 0;
        take_each(far, count, [this, &sum](std::size_t most) {
            if constexpr (adds_up_in_place<A>) {
                words_seen seen;
                const std::size_t came = there_.add_up(most, seen);
                if (came != 0) require_place(came, seen.first, seen.last);
                sum += seen.sum;
                return came;
            } else {
                const std::size_t came = there_.receive(as_bytes(taken_).first(most * bytes));
                if (came != 0) require_place(came, taken_[0], taken_[(came - 1) * bytes / 8]);
                sum += sum_of_words(taken_.data(), came * bytes);
                return came;
            }
        });
        if (sum != sum_of_messages(from, count)) fail("the words of the messages are not those sent");
    }
    /// Calls take(most), which says how many came, until all of `count` have.
    template <class Take>
    void take_each(far_side& far, std::uint64_t count, Take&& take_some) {
        patience wait(far);
        std::uint64_t said = 0;
        for (std::uint64_t got = 0; got < count;) {
            const std::size_t came = take_some(static_cast<std::size_t>(std::min<std::uint64_t>(batch_, count - got)));
            if (came == 0) {
                wait.rest();
                continue;
            }
            got += came;
            far_at_ += came;
            if constexpr (overrunning_adapter<A>) {
                if (got - said < window_ / 4 && got != count) continue;
                said = got;
                far.progress().store(got, std::memory_order_release);  // pairs with the load in stream_as()
            }
        }
        if constexpr (lossy_adapter<A>) {
            if (there_.lost() != lost_before_) fail("it lost messages that it had room for");
        }
    }
    void require_place(std::size_t came, std::uint64_t first, std::uint64_t last) {
        if (first != first_word(far_at_) || last != first_word(far_at_ + came - 1))
            fail("a message is lost, doubled or out of place");
    }
    void compare(std::size_t came) {
        for (std::size_t i = 0; i < came; ++i) {
            const auto expected = messages((far_at_ + i) & (count_ - 1), 1);
            if (std::memcmp(as_bytes(taken_).data() + i * bytes, expected.data(), bytes) != 0)
                fail("a message came with other bytes than were sent");
        }
    }
    /// All words of so many messages from that number on.
    [[nodiscard]] std::uint64_t sum_of_messages(std::uint64_t from, std::uint64_t count) {
        const std::uint64_t laps = count / count_;
        std::uint64_t sum = laps == 0 ? 0 : laps * sum_of_words(pattern_.data(), count_ * bytes);
        for (std::uint64_t i = laps * count_; i < count; ++i)
            sum += sum_of_words(messages((from + i) & (count_ - 1), 1).data(), bytes);
        return sum;
    }

    void send_all_back(far_side& far, std::uint64_t count) {
        patience wait(far);
        word_buffer message(bytes / 8);
        for (std::uint64_t i = 0; i < count; ++i) {
            while (there_.receive(as_bytes(message)) == 0) wait();
            while (back_.send(as_bytes(message)) == 0) wait();
        }
    }

    /// Takes numbered messages up to the last one, whatever is lost before it.
    void follow_all(far_side& far, std::uint64_t count) {
        if constexpr (lossy_adapter<A>) {
            patience wait(far);
            const std::uint64_t begin = followed_, end = begin + count, lost_before = there_.lost();
            far.progress().store(begin + 1, std::memory_order_release);  // pairs with the load in publish()
            std::uint64_t got = 0;
            while (followed_ != end) {
                const std::size_t came = there_.receive(as_bytes(taken_));
                if (came == 0) wait();
                for (std::size_t i = 0; i < came; ++i) {
                    const std::uint64_t number = taken_[i * bytes / 8];
                    if (number <= followed_ || number > end) fail("a message is doubled, torn or out of place");
                    followed_ = number;
                    ++got;
                }
            }
            lost_before_ = there_.lost();
            if (got + (lost_before_ - lost_before) != count) fail("its count of lost messages is wrong");
            far.progress().store(lost_before_ - lost_before, std::memory_order_release);  // pairs with publish()
        } else {
            (void)far, (void)count;
        }
    }

    const std::size_t batch_;
    const std::uint64_t count_;   // messages of the pattern, a power of two
    const std::uint64_t laps_;    // messages that go twice round the ring
    const std::uint64_t window_;  // messages that a sender that overruns may be ahead
    message_pattern pattern_;
    word_buffer taken_;  // far side
    A there_, back_;
    bool both_ways_ = false;
    std::uint64_t near_at_ = 0;                     // near side: number of the next message
    std::uint64_t published_ = 0, lost_ = 0;        // near side
    std::uint64_t far_at_ = 0;                      // far side: number of the next message
    std::uint64_t followed_ = 0, lost_before_ = 0;  // far side
    far_side far_;                                  // last: it starts with all of the above in place
};

/// What the suites know of an adapter.
struct channel_kind {
    std::string name, version;
    bool spsc_queue = false;  ///< a queue between two threads or processes, not a way of the system's
    bool lossy = false;       ///< lossy_adapter
    bool in_place = false;    ///< adds_up_in_place
    /// Nothing for a size of message that the adapter has not.
    std::function<std::unique_ptr<channel_subject>(std::size_t message_bytes, const channel_request& request)> make;
    bool yardstick = false;  ///< written for the comparison, as the least that is possible: no peer
};

/// The loops over an adapter for messages of that size; nothing for a size that is none of the suites'.
template <template <std::size_t> class Adapter>
[[nodiscard]] std::unique_ptr<channel_subject> make_channel(std::size_t message_bytes, const channel_request& request) {
    switch (message_bytes) {
        case 8: return std::make_unique<channel_loops<Adapter<8>>>(request);
        case 64: return std::make_unique<channel_loops<Adapter<64>>>(request);
        case 1024: return std::make_unique<channel_loops<Adapter<1024>>>(request);
        default: return nullptr;
    }
}

template <template <std::size_t> class Adapter>
[[nodiscard]] channel_kind channel_kind_of(bool spsc_queue) {
    return {std::string(Adapter<64>::name), Adapter<64>::version(),        spsc_queue,
            lossy_adapter<Adapter<64>>,     adds_up_in_place<Adapter<64>>, make_channel<Adapter>};
}

}  // namespace holdfast::workload
