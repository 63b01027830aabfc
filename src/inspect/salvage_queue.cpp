// SPDX-License-Identifier: Apache-2.0
// salvage_queue.cpp - messages that wait, by the chain of their records. Payloads have no checksum. What vouches for
// the chain is where it ends, how many messages it has, and of how many bytes: each side counts both
// (queue_layout.hpp).
//
// One record's word may be damaged, in one byte: there is at most one change of it with which the chain ends where the
// producer stands and all counts agree, unless chance has another. Numbers begin anew, as after a restore.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "holdfast/detail/concat.hpp"
#include "holdfast/detail/shared_bytes.hpp"
#include "holdfast/detail/shared_copy.hpp"
#include "holdfast/queue.hpp"
#include "inspect/salvage.hpp"

namespace holdfast::inspect {

namespace {

/// Where messages lie; what they are is read there, so that a ring of empty ones takes half its own size of memory.
struct message_chain {
    std::uint64_t head = 0;
    std::vector<std::uint32_t> words;  // of messages, behind the head
    std::uint64_t end = 0;
    std::uint64_t bytes = 0;   // of payload
    bool whole = false;        // ends where nothing was published yet
    std::uint64_t mended = 0;  // position of a word that is another one than the ring has; 0 and 0: none
    std::uint64_t word = 0;

    [[nodiscard]] layout::queue_counts counts() const { return {words.size(), bytes}; }
    [[nodiscard]] std::uint64_t position(std::uint32_t at) const { return head + layout::ring_word_bytes * at; }
    void add(std::uint64_t position) {
        words.push_back(static_cast<std::uint32_t>((position - head) / layout::ring_word_bytes));
    }
};

/// The ring of an old queue.
class old_ring {
 public:
    old_ring(const damaged_segment& from, std::uint64_t capacity)
        : ring_(from.body().data() + layout::queue_ring_offset), end_(from.present_end()), capacity_(capacity) {}

    [[nodiscard]] std::uint64_t word(std::uint64_t position) const {
        return detail::shared_load<std::uint64_t>(ring_ + (position & (capacity_ - 1)));
    }
    [[nodiscard]] layout::ring_word record(std::uint64_t position, std::uint64_t value) const {
        return layout::ring_decode(value, layout::ring_room(position, capacity_));
    }
    [[nodiscard]] layout::ring_word record(std::uint64_t position) const { return record(position, word(position)); }
    [[nodiscard]] const std::byte* payload(std::uint64_t position) const {
        return ring_ + (position & (capacity_ - 1)) + layout::ring_word_bytes;
    }
    [[nodiscard]] std::uint64_t capacity() const { return capacity_; }
    /// Whether the word at a position, and so many bytes behind it, were not cut off.
    [[nodiscard]] bool has(std::uint64_t position, std::uint64_t payload_bytes = 0) const {
        return payload(position) + payload_bytes <= end_;
    }

    /// From a head to the first word that is not ready, or none.
    [[nodiscard]] message_chain walk(std::uint64_t head) const {
        message_chain chain;
        chain.head = head;
        std::uint64_t messages = 0;
        follow(chain, [&](std::uint64_t, const layout::ring_word&) { ++messages; });
        chain.words.reserve(static_cast<std::size_t>(messages));
        follow(chain, [&](std::uint64_t position, const layout::ring_word& message) {
            chain.add(position);
            chain.bytes += message.length;
        });
        return chain;
    }
    /// The message that a chain has there; another kind where its word was changed meanwhile.
    [[nodiscard]] layout::ring_word message(const message_chain& of, std::uint64_t position) const {
        return of.word != 0 && position == of.mended ? record(position, of.word) : record(position);
    }

 private:
    /// Runs on_message(position, word) over the messages of a chain, and sees where it ends.
    template <class OnMessage>
    void follow(message_chain& chain, OnMessage&& on_message) const {
        for (chain.end = chain.head;;) {
            const layout::ring_word next = record(chain.end);
            chain.whole = next.kind == layout::ring_word_kind::not_ready;
            if (chain.whole || next.kind == layout::ring_word_kind::corrupt ||
                chain.end + next.bytes - chain.head > capacity_ - layout::ring_word_bytes)
                return;
            if (next.kind == layout::ring_word_kind::message) on_message(chain.end, next);
            chain.end += next.bytes;
        }
    }

    const std::byte* ring_;
    const std::byte* end_;  // of what is there
    std::uint64_t capacity_;
};

/// Runs visit(word) over the words that differ from one in one byte.
template <class Visit>
void for_each_near(std::uint64_t word, Visit&& visit) {
    for (unsigned byte = 0; byte < 8; ++byte)
        for (std::uint64_t value = 0; value < 256; ++value)
            if (const std::uint64_t near = (word & ~(std::uint64_t{0xFF} << 8 * byte)) | value << 8 * byte;
                near != word)
                visit(near);
}

/// What the chains that begin at each position in front of the tail hold, if they end at the tail.
class chains_to_tail {
 public:
    static constexpr std::uint64_t bytes_max = std::uint64_t{64} << 20;  // some seconds, and twice the memory

    chains_to_tail(const old_ring& ring, std::uint64_t head, std::uint64_t tail)
        : head_(head), tail_(tail), at_(static_cast<std::size_t>((tail - head) / 8 + 1)) {
        at_.back().reaches = true;
        for (std::uint64_t position = tail; position > head;) {
            position -= 8;
            const layout::ring_word next = ring.record(position);
            const bool record =
                next.kind == layout::ring_word_kind::message || next.kind == layout::ring_word_kind::skip;
            if (!record || next.bytes > tail - position) continue;
            const bool message = next.kind == layout::ring_word_kind::message;
            const entry& rest = at_[index(position + next.bytes)];
            at_[index(position)] = {rest.bytes + next.length * (message ? 1 : 0), rest.messages + (message ? 1U : 0U),
                                    rest.reaches};
        }
    }
    [[nodiscard]] bool reaches(std::uint64_t position, std::uint64_t messages, std::uint64_t bytes) const {
        if (position < head_ || position > tail_ || position % 8 != 0) return false;
        const entry& found = at_[index(position)];
        return found.reaches && found.messages == messages && found.bytes == bytes;
    }

 private:
    struct entry {
        std::uint64_t bytes = 0;
        std::uint32_t messages = 0;
        bool reaches = false;
    };
    [[nodiscard]] std::size_t index(std::uint64_t position) const {
        return static_cast<std::size_t>((position - head_) / 8);
    }
    std::uint64_t head_, tail_;
    std::vector<entry> at_;
};

class queue_salvager {
 public:
    queue_salvager(const damaged_segment& from, const layout::queue_geometry& g, salvage_log& log)
        : ring_(from, g.capacity),
          producer_(*reinterpret_cast<const layout::queue_side*>(from.body().data() + layout::queue_producer_offset)),
          consumer_(from.consumer()),
          tail_(producer_.position.load(std::memory_order_relaxed)),  // relaxed, here and below: at rest
          log_(log) {}

    /// The messages that go over.
    [[nodiscard]] message_chain run() {
        const std::vector<std::uint64_t> heads = possible_heads();
        for (const std::uint64_t head : heads)
            if (auto chain = sound_chain(head)) return std::move(*chain);
        for (const std::uint64_t head : heads)
            if (auto chain = mended_chain(head)) return std::move(*chain);
        return doubtful_chain(heads);
    }
    [[nodiscard]] const old_ring& ring() const noexcept { return ring_; }

 private:
    /// Where the consumer may stand: where it says, else where its counts do, the earlier first: what comes twice is
    /// not lost. Without its side: at the beginning, while that has not been overwritten.
    [[nodiscard]] std::vector<std::uint64_t> possible_heads() const {
        std::vector<std::uint64_t> heads;
        const auto add = [&](std::uint64_t head) {
            if (head % 8 == 0 && std::ranges::find(heads, head) == heads.end()) heads.push_back(head);
        };
        if (consumer_ == nullptr) {
            if (tail_ <= ring_.capacity() - layout::ring_word_bytes) add(0);
            return heads;
        }
        add(consumer_->position.load(std::memory_order_relaxed));
        std::uint64_t counted[2];
        for (unsigned i = 0; i < 2; ++i) counted[i] = consumer_->ledgers[i].position.load(std::memory_order_relaxed);
        add(std::min(counted[0], counted[1]));
        add(std::max(counted[0], counted[1]));
        return heads;
    }
    [[nodiscard]] std::optional<layout::queue_counts> head_counts(std::uint64_t head) const {
        if (consumer_ == nullptr) return head == 0 ? std::optional(layout::queue_counts{}) : std::nullopt;
        const auto found = layout::queue_counter::at(*consumer_, head);
        return found ? std::optional(found->counts()) : std::nullopt;
    }
    /// What the sides count from a head to a tail.
    [[nodiscard]] std::optional<layout::queue_counts> expected(std::uint64_t head, std::uint64_t tail) const {
        const auto from = head_counts(head);
        const auto to = layout::queue_counter::at(producer_, tail);
        if (!from || !to) return std::nullopt;
        return layout::queue_counts{to->counts().messages - from->messages, to->counts().bytes - from->bytes};
    }

    /// The chain as it lies there, if it can be believed.
    [[nodiscard]] std::optional<message_chain> sound_chain(std::uint64_t head) {
        message_chain chain = ring_.walk(head);
        if (!chain.whole) return std::nullopt;
        // Behind the cut a zero does not say that nothing was published there; the producer's position does.
        if (chain.end != tail_ && !ring_.has(chain.end)) return std::nullopt;
        const auto counts = expected(head, chain.end);
        if (counts && *counts == chain.counts()) return note_if_odd(std::move(chain));
        if (chain.end != tail_ || consumer_ == nullptr || consumer_->position.load(std::memory_order_relaxed) != head)
            return std::nullopt;
        // The chain leads from one side to the other. Counts that are missing, or of which one agrees, are what was
        // damaged; but lengths may have changed within the record's padding.
        if (!counts || counts->bytes == chain.bytes) return note_counts(std::move(chain));
        if (counts->messages != chain.words.size()) return std::nullopt;
        doubt_lengths(chain, counts->bytes - chain.bytes);
        return chain;
    }
    [[nodiscard]] message_chain note_if_odd(message_chain chain) {
        if (chain.end != tail_) log_.mend("the producer's position was put right by its counts", "", 0);
        return chain;
    }
    [[nodiscard]] message_chain note_counts(message_chain chain) {
        log_.mend("the sides' counts were damaged, not the messages", "", 0);
        return chain;
    }
    /// Leaves out each message that may be the one whose length is off by so much.
    void doubt_lengths(message_chain& chain, std::uint64_t off) {
        std::erase_if(chain.words, [&](std::uint32_t at) {
            const std::uint64_t position = chain.position(at), there = ring_.word(position);
            const std::uint64_t length = ring_.record(position, there).length;
            bool possible = false;
            for_each_near(there, [&](std::uint64_t word) {
                const layout::ring_word near = ring_.record(position, word);
                possible |= near.kind == layout::ring_word_kind::message && near.length == length + off &&
                            near.bytes == layout::ring_record_bytes(length);
            });
            return possible && !log_.doubt("its length, or the sides' count of bytes, is damaged", place(position));
        });
    }

    /// The chain with one record's word put right.
    [[nodiscard]] std::optional<message_chain> mended_chain(std::uint64_t head) {
        if (tail_ % 8 != 0 || head > tail_ || tail_ - head > ring_.capacity() - layout::ring_word_bytes ||
            tail_ - head > chains_to_tail::bytes_max)
            return std::nullopt;
        const auto counts = expected(head, tail_);
        if (!counts) return std::nullopt;
        const chains_to_tail rests(ring_, head, tail_);
        std::uint64_t at = head, messages = 0, bytes = 0, where = 0, word = 0;
        unsigned found = 0;
        for (;;) {
            for_each_near(ring_.word(at), [&](std::uint64_t near) {
                const layout::ring_word next = ring_.record(at, near);
                const bool message = next.kind == layout::ring_word_kind::message;
                if (!message && next.kind != layout::ring_word_kind::skip) return;
                const std::uint64_t more = message ? 1 : 0, payload = message ? next.length : 0;
                if (!rests.reaches(at + next.bytes, counts->messages - messages - more,
                                   counts->bytes - bytes - payload))
                    return;
                ++found;
                where = at, word = near;
            });
            const layout::ring_word next = ring_.record(at);
            if (next.bytes == 0 || next.bytes > tail_ - at) break;
            if (next.kind == layout::ring_word_kind::message) ++messages, bytes += next.length;
            at += next.bytes;
            if (at >= tail_) break;
        }
        if (found != 1) return std::nullopt;
        const layout::ring_word right = ring_.record(where, word);
        message_chain chain;
        chain.head = head, chain.mended = where, chain.word = word;
        chain.words.reserve(static_cast<std::size_t>(counts->messages));  // as many words lead to the tail
        for (chain.end = head; chain.end < tail_;) {
            const layout::ring_word next = ring_.message(chain, chain.end);
            // As it was when the chain was found, unless somebody stores to the old queue after all.
            if (next.bytes == 0 || next.bytes > tail_ - chain.end) return std::nullopt;
            if (next.kind == layout::ring_word_kind::message) chain.add(chain.end);
            chain.end += next.bytes;
        }
        const bool goes_over = right.kind == layout::ring_word_kind::message && ring_.has(where, right.length);
        log_.mend("a record's word was put right by the sides' counts", place(where), goes_over ? 1 : 0);
        return chain;
    }

    /// What a chain that nothing vouches for seems to hold. What the sides count beyond that is lost, and one message
    /// at least where the chain does not end at the producer: it published up to there.
    [[nodiscard]] message_chain doubtful_chain(const std::vector<std::uint64_t>& heads) {
        if (heads.empty()) {
            log_.lose("the consumer's place is gone, so nothing tells which messages wait", "");
            return {};
        }
        message_chain chain = ring_.walk(heads.front());
        const auto counts = expected(heads.front(), tail_);
        const std::uint64_t known = counts && counts->messages <= ring_.capacity() / 8 ? counts->messages : 0;
        const std::uint64_t cut = std::erase_if(chain.words, [&](std::uint32_t at) {
            return !ring_.has(chain.position(at), ring_.message(chain, chain.position(at)).length);
        });
        const std::uint64_t there = chain.words.size(), beyond = known - std::min(known, there);
        const std::uint64_t lost = std::max({beyond, cut, std::uint64_t{there == 0 || chain.end != tail_}});
        if (lost != 0) log_.lose("records do not lead to them", place(chain.end), lost);
        if (there == 0 || !log_.doubt("records do not lead to where the producer stands", place(heads.front()), there))
            return {};
        return chain;
    }
    [[nodiscard]] static std::string place(std::uint64_t position) { return detail::concat("position ", position); }

    old_ring ring_;
    const layout::queue_side& producer_;
    const layout::queue_side* consumer_;
    std::uint64_t tail_;
    salvage_log& log_;
};

void salvage_records(const damaged_segment& from, const layout::queue_geometry& g, std::span<std::byte> to,
                     salvage_log& log) {
    queue_salvager salvager(from, g, log);
    const auto nobody = std::make_unique<layout::queue_side>();  // a consumer that has taken nothing yet
    layout::queue_write_core made(to, g, *nobody, from.uri());
    const message_chain chain = salvager.run();
    for (const std::uint32_t at : chain.words) {
        const std::uint64_t position = chain.position(at);
        const layout::ring_word message = salvager.ring().message(chain, position);
        if (!salvager.ring().has(position, message.length)) {
            log.lose("its bytes were cut off", detail::concat("position ", position));
            continue;
        }
        const queue_claim room = made.try_claim(message.length);
        if (!room) {
            log.lose("the new queue has no room for it", detail::concat("position ", position));
            continue;
        }
        detail::copy_from_shared(room.bytes.data(), salvager.ring().payload(position), room.bytes.size());
        (void)made.commit(message.length, message.type);
        log.keep();
    }
}

void salvage_elements(const damaged_segment& from, const layout::queue_geometry& g, std::span<std::byte> to,
                      salvage_log& log) {
    const auto& producer =
        *reinterpret_cast<const layout::queue_side*>(from.body().data() + layout::queue_producer_offset);
    const std::uint64_t tail = producer.position.load(std::memory_order_relaxed);  // relaxed: at rest
    std::uint64_t head = 0;
    if (from.consumer() != nullptr)
        head = from.consumer()->position.load(std::memory_order_relaxed);  // relaxed: as above
    if (head > tail || tail - head > g.capacity) {
        log.lose("the sides' positions contradict each other, so nothing tells which elements wait",
                 detail::concat("head ", head, ", tail ", tail));
        return;
    }
    const auto nobody = std::make_unique<layout::queue_side>();
    layout::queue_element_write_core made(to, g, *nobody, from.uri());
    for (std::uint64_t at = head; at != tail; ++at) {
        const std::uint64_t offset = layout::queue_ring_offset + (at & (g.capacity - 1)) * g.stride;
        if (offset + g.stride > from.present().size()) {
            log.lose("its bytes were cut off", detail::concat("element ", at));
            continue;
        }
        const std::byte* const slot = from.body().data() + offset;
        detail::copy_from_shared(made.slot(0), slot, static_cast<std::size_t>(g.stride));
        made.publish(1);
        log.keep();
    }
}

}  // namespace

void salvage_queue(const damaged_segment& from, std::span<std::byte> to, salvage_log& log) {
    const auto g = layout::queue_geometry::parse(from.spec().geometry, to.size(), from.uri());
    count_cut(from, layout::queue_producer_offset + sizeof(layout::queue_side), log);
    if (g.form == layout::queue_form::elements)
        salvage_elements(from, g, to, log);
    else
        salvage_records(from, g, to, log);
}

}  // namespace holdfast::inspect
