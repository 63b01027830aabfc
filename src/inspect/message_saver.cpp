// SPDX-License-Identifier: Apache-2.0
// message_saver.cpp - queues and broadcasts in saved files. The parameters of saved_header:
//   queue      0 form, 1 capacity, 2 stride, 3 rings
//   broadcast  0 capacity, 1 registered readers, 2 number of the first message saved
// A message is a record's word as in the ring (type, length + 1) and its bytes, one behind the other; an element of a
// queue of elements is its slot.
#include <algorithm>
#include <atomic>
#include <optional>
#include <vector>

#include "holdfast/broadcast.hpp"
#include "holdfast/queue.hpp"
#include "inspect/attach.hpp"
#include "inspect/kind_savers.hpp"
#include "inspect/newest_message.hpp"
#include "inspect/queue_watch.hpp"
#include "inspect/saver_parts.hpp"

namespace holdfast::inspect {

namespace {

void add_message(saved_writer& file, std::uint16_t type, std::span<const std::byte> message) {
    const std::uint64_t word = layout::ring_message_word(message.size(), type);
    file.add(std::as_bytes(std::span(&word, 1)), 0);
    if (!message.empty()) file.add(message, 0);
    file.count(1);
}

struct saved_message {
    std::uint64_t length = 0;
    std::uint16_t type = 0;
};

/// What stands before a message's bytes. Throws: corrupt for what no saver writes.
[[nodiscard]] saved_message message_in(section_stream& from, const saved_reader& file, std::uint64_t length_max) {
    const std::uint64_t at = from.offset();
    const layout::ring_word word =
        layout::ring_decode(from.read<std::uint64_t>(), layout::ring_record_bytes(layout::ring_length_max));
    if (word.kind != layout::ring_word_kind::message || word.length > length_max)
        refuse_contents(file, at, "a message is longer than its ring allows");
    return {word.length, word.type};
}

void report(const save_progress& progress, std::uint64_t items) {
    if (progress && items % items_between_reports == 0) progress(items);
}

/// The messages of a ring from some number on without a gap, up to what was its newest when the save began at least.
/// (I1) Never more bytes than the ring has. The number of the newest is taken before the oldest is looked for, so what
///      lies between lay in the ring at one time; what came later is taken while there is room.
class ring_stretch {
 public:
    explicit ring_stretch(const std::shared_ptr<const segment>& s)
        : room_(detail::broadcast_geometry_of(*s).capacity),
          newest_(newest_message(s)),
          goal_(newest_),
          reader_(s),
          first_(reader_.sequence()) {
        for (unsigned attempts = 64; reader_.sequence() <= goal_ || first_ > goal_;) {
            const broadcast_read got = reader_.read(message_);
            if (got.status == outcome::corrupt) require_no_fault(*s, errc::corrupt);
            if (got.status == outcome::empty) return;
            if (got.status == outcome::ok && !append(got)) return;
            if (got.status == outcome::ok) continue;
            // Overrun: what was read lies before a gap, and older than all that the ring still has.
            if (--attempts == 0) require_no_fault(*s, errc::contended);
            bytes_.clear();
            count_ = 0;
            first_ = reader_.sequence();
            goal_ = std::max(goal_, newest_message(s));
        }
    }
    [[nodiscard]] std::uint64_t first() const noexcept { return first_; }
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

 private:
    /// False: enough is there, and this would be too much.
    [[nodiscard]] bool append(const broadcast_read& got) {
        const std::uint64_t word = layout::ring_message_word(message_.size(), got.type);
        if (bytes_.size() + sizeof word + message_.size() > room_) {
            if (got.sequence > newest_) return false;
            require_no_fault(reader_.segment(), errc::corrupt);  // as much was never in it at once
        }
        const auto* const head = reinterpret_cast<const std::byte*>(&word);
        bytes_.insert(bytes_.end(), head, head + sizeof word);
        bytes_.insert(bytes_.end(), message_.begin(), message_.end());
        ++count_;
        return true;
    }

    std::uint64_t room_;
    std::uint64_t newest_;  // when the save began
    std::uint64_t goal_;
    broadcast_reader reader_;
    std::uint64_t first_;
    std::uint64_t count_ = 0;
    std::vector<std::byte> message_;
    std::vector<std::byte> bytes_;
};

void fill_queue(saved_reader& file, std::span<std::byte> body, const layout::queue_geometry& geometry,
                const std::string& uri, const save_progress& progress) {
    const auto consumer = std::make_unique<layout::queue_side>();  // one that has taken nothing yet
    section_stream from(file);
    if (geometry.form == layout::queue_form::elements) {
        layout::queue_element_write_core core(body, geometry, *consumer, uri);
        while (from.more()) {
            if (core.room(1) != outcome::ok) refuse_contents(file, "it holds more elements than its queue");
            from.read({core.slot(0), static_cast<std::size_t>(geometry.stride)});
            core.publish(1);
            report(progress, core.tail());
        }
        return;
    }
    layout::queue_write_core core(body, geometry, *consumer, uri);
    while (from.more()) {
        const saved_message next = message_in(from, file, layout::ring_message_max(geometry.capacity));
        const queue_claim room = core.try_claim(next.length);
        if (!room) refuse_contents(file, "its messages do not fit into its queue");
        from.read(room.bytes);
        (void)core.commit(next.length, next.type);
        report(progress, core.counts().messages);
    }
}

void fill_ring(saved_reader& file, std::span<std::byte> body, const layout::broadcast_geometry& geometry,
               std::uint64_t first, const std::string& uri, const save_progress& progress) {
    const layout::broadcast_clocks clocks{[]() noexcept { return detail::now_ns(); },
                                          []() noexcept { return detail::now_ns(); }};
    layout::broadcast_write_core::format(body, geometry, detail::now_ns());
    // Numbers go on from where they were: readers that know theirs find it, or learn how many are gone.
    // Relaxed: nobody else has the bytes yet.
    reinterpret_cast<layout::broadcast_entry*>(body.data() + geometry.entry_offset(0))
        ->sequence.store(first, std::memory_order_relaxed);
    layout::broadcast_write_core core(body, geometry, clocks, uri, layout::ring_origin::just_made);
    layout::no_broadcast_slots none;
    section_stream from(file);
    while (from.more()) {
        const saved_message next = message_in(from, file, geometry.message_max());
        const broadcast_claim room = core.claim(next.length, none);
        if (!room) refuse_contents(file, "its messages do not fit into its ring");
        from.read(room.bytes);
        if (core.stage(next.length, next.type) != outcome::ok || !core.commit())
            refuse_contents(file, "its messages do not fit into its ring");
        report(progress, core.published());
    }
}

}  // namespace

/// What waited at the beginning and was not taken meanwhile is all there; what was taken meanwhile may be.
saved_writer save_queue(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                        const save_progress& progress) {
    const queue_observer observer(s, trust_anybody());
    if (observer.refusal()) throw *observer.refusal();
    if (observer.consumer_side() == nullptr) require_no_fault(*s, errc::geometry_mismatch);
    const layout::queue_geometry& g = observer.geometry();
    saved_header header = header_of(*s);
    std::ranges::copy(g.words(), header.parameters.begin());
    saved_writer file(out, header, s->info().schema);
    const bool elements = g.form == layout::queue_form::elements;
    queue_watch watch(s->bytes(), g, *observer.consumer_side());
    // What comes later belongs to a later moment.
    const std::uint64_t newest = newest_message(observer, watch.sequence());
    std::vector<std::byte> message;
    std::uint64_t room = g.ring_bytes() - (elements ? 0 : layout::ring_word_bytes);
    for (;;) {
        const watched got = watch.next(message);
        if (got.status == outcome::lapped && got.sequence <= newest) {  // taken: no longer in the queue
            if (watch.overtaken_for_long())
                throw error(errc::contended, s->uri(), "its consumer is as fast as this; save again when it rests");
            continue;
        }
        if (got.status == outcome::corrupt) require_no_fault(*s, errc::corrupt);
        const std::uint64_t taken = elements ? g.stride : layout::ring_record_bytes(message.size());
        if (got.status != outcome::ok || got.sequence > newest || taken > room) return file;
        room -= taken;
        if (elements)
            file.add(message, 1);
        else
            add_message(file, got.type, message);
        report(progress, file.items());
    }
}

segment restore_queue(saved_reader& file, std::string_view uri, const restore_options& options) {
    const std::span<const std::uint64_t> words(file.header().parameters);
    // Bounded before the product: parse() compares it with what it is told.
    const std::uint64_t ring =
        words[1] <= layout::queue_elements_max && words[2] <= layout::queue_stride_max ? words[1] * words[2] : 0;
    const auto geometry = layout::queue_geometry::parse(words, layout::queue_ring_offset + ring, file.name());
    segment_spec spec = detail::queue_spec(geometry);
    spec.schema = file.schema();
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        fill_queue(file, body, geometry, std::string(uri), options.progress);
    });
}

saved_writer save_broadcast(const std::shared_ptr<const segment>& s, const saved_writer::sink& out,
                            const save_progress& progress) {
    const layout::broadcast_geometry g = detail::broadcast_geometry_of(*s);
    const ring_stretch messages(s);
    saved_header header = header_of(*s);
    header.parameters = {g.capacity, g.readers, messages.first()};
    saved_writer file(out, header, s->info().schema);
    if (messages.count() != 0) file.add(messages.bytes(), messages.count());
    if (progress) progress(file.items());
    return file;
}

segment restore_broadcast(saved_reader& file, std::string_view uri, const restore_options& options) {
    const auto& parameters = file.header().parameters;
    if (parameters[2] == 0 || parameters[2] > layout::broadcast_position_max)
        refuse_contents(file, "the number of its first message is out of range");
    const auto geometry = layout::broadcast_geometry::make(parameters[0], parameters[1], file.name());
    if (geometry.capacity != parameters[0]) refuse_contents(file, "its capacity is no ring's");
    segment_spec spec;
    spec.kind = container_kind::broadcast;
    spec.container_version = broadcast_layout_version;
    spec.schema = file.schema();
    std::ranges::copy(geometry.words(), spec.geometry.begin());
    spec.body_bytes = geometry.body_bytes();
    spec.peer_slots = geometry.readers == 0 ? 0 : geometry.readers + 1;  // and the board
    return segment::create(uri, spec, options.create, [&](std::span<std::byte> body) {
        fill_ring(file, body, geometry, parameters[2], std::string(uri), options.progress);
    });
}

}  // namespace holdfast::inspect
