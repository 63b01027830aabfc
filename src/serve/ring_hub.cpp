// SPDX-License-Identifier: Apache-2.0
#include "serve/ring_hub.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "holdfast/net/event_stream.hpp"
#include "inspect/json_out.hpp"
#include "serve/answering.hpp"

namespace holdfast::serve {

namespace {

using inspect::json_out;

/// {"event":"joined","ring":"1a2b3c4d","sequence":7}; "older_gone": asked by time, and the ring does not reach back.
std::string joined_json(const std::string& ring, const ring_source::place& at) {
    std::string text;
    json_out json(text);
    json.begin_object().member("event", "joined").member("ring", ring).member("sequence", at.asked);
    if (at.older_gone) json.member("older_gone", true);
    json.end_object();
    return text;
}

constexpr auto first_of = [](const auto& told) { return told.batch.first; };

net::shared_bytes shared(std::string&& text) { return std::make_shared<const std::string>(std::move(text)); }

}  // namespace

std::string ring_id(const ring_source& of, std::uint64_t number) {
    return of.identity() + "-" + std::to_string(number);
}

ring_hub::ring_hub(std::shared_ptr<ring_source> from, ring_counts& counts) : source_(std::move(from)), counts_(counts) {
    ring_source::place at = source_->join(broadcast_start::latest());
    check_lookup(at.status, source_->memory().uri());
    reader_ = std::move(at.reader);
}

ring_note ring_hub::lost_note(std::uint64_t count, std::uint64_t next) {
    ring_note note{"lost", ring_id(*source_, next - 1), {}};
    ring_source::append_lost(note.json, count, next);
    counts_.lost += count;
    return note;
}

void ring_hub::append_item(std::string& out, const ring_batch::item& what, std::string_view json) const {
    const std::string id = ring_id(*source_, what.next - 1);
    net::append_event(out, {.data = json, .event = what.loss ? "lost" : "", .id = id});
}

void ring_hub::add(const std::shared_ptr<ring_subscriber>& who, const broadcast_start& start,
                   std::vector<ring_note> opening) {
    ring_source::place at = source_->join(start);
    check_lookup(at.status, source_->memory().uri());
    std::ranges::move(opening, std::back_inserter(who->notes));
    who->notes.push_back({"joined", ring_id(*source_, at.asked - 1), joined_json(source_->identity(), at)});
    if (at.lost != 0) who->notes.push_back(lost_note(at.lost, at.next()));
    who->next = at.next();
    who->own.reset();
    if (who->next < head()) who->own = std::move(at.reader);
    subscribers_.push_back(who);
}

void ring_hub::wait(ring_waiter who) {
    overtaken_ = overtaken_ || who.next < head();
    waiters_.push_back(std::move(who));
}

// --- telling

void ring_hub::greet(ring_subscriber& who) {
    unsigned own_batches = 1;
    advance(who, own_batches);
}

bool ring_hub::advance(ring_subscriber& who, unsigned& own_batches) {
    bool sent = false;
    while (!who.gone && (who.next < head() || !who.notes.empty())) {
        const std::size_t queued = who.out->queued_bytes();
        if (queued > queued_bytes_max) break;
        if (!who.notes.empty()) {
            sent = tell_notes(who) || sent;
            continue;
        }
        if (told* const at = in_window(who.next)) {
            // A batch alone may be larger than what may wait; it has the queue for itself then.
            if (queued != 0 && queued + at->batch.text.size() > queued_bytes_max) break;
            who.own.reset();
            tell(who, *at);
        } else {
            if (queued != 0 || own_batches == 0) break;
            --own_batches;
            if (!read_own(who)) break;
        }
        sent = true;
    }
    return sent;
}

bool ring_hub::tell_notes(ring_subscriber& who) {
    std::string text;
    std::vector<ring_note> notes = std::exchange(who.notes, {});
    for (ring_note& note : notes) {
        if (who.form == ring_form::frames) {
            if (!who.out->send(shared(std::move(note.json)))) who.gone = true;
        } else {
            net::append_event(text, {.data = note.json, .event = note.event, .id = note.id});
        }
    }
    if (!text.empty() && !who.out->send(shared(std::move(text)))) who.gone = true;
    return !who.gone;
}

void ring_hub::tell(ring_subscriber& who, told& what) {
    ring_batch& batch = what.batch;
    if (who.next != batch.first) return tell_rest(who, batch);
    if (who.form == ring_form::events) {
        if (!what.events) {
            std::string text;
            for (std::size_t i = 0; i < batch.items.size(); ++i) append_item(text, batch.items[i], batch.json(i));
            what.events = shared(std::move(text));
        }
        if (!who.out->send(what.events)) who.gone = true;
    } else {
        if (what.frames.empty())
            for (std::size_t i = 0; i < batch.items.size(); ++i)
                what.frames.push_back(shared(std::string(batch.json(i))));
        for (const net::shared_bytes& each : what.frames)
            if (!who.gone && !who.out->send(each)) who.gone = true;
    }
    const std::uint64_t lost = batch.lost();
    counts_.lost += lost;
    counts_.delivered += batch.next() - batch.first - lost;
    who.next = batch.next();
}

/// From the middle of a batch: for who joined there.
void ring_hub::tell_rest(ring_subscriber& who, const ring_batch& from) {
    std::string text;
    for (std::size_t i = from.index_of(who.next); i < from.items.size() && !who.gone; ++i) {
        const ring_batch::item& item = from.items[i];
        std::string json(from.json(i));
        if (item.loss)
            counts_.lost += item.next - who.next;
        else
            ++counts_.delivered;
        if (who.form == ring_form::events)
            append_item(text, item, json);
        else if (!who.out->send(shared(std::move(json))))
            who.gone = true;
        who.next = item.next;
    }
    if (!text.empty() && !who.out->send(shared(std::move(text)))) who.gone = true;
}

bool ring_hub::read_own(ring_subscriber& who) {
    if (!who.own) {
        ring_source::place at = source_->join(broadcast_start::sequence(who.next));
        if (at.status == lookup::contended || (at.status == lookup::found && !at.reader)) return false;
        if (at.status != lookup::found) return end(who, ring_end::damaged), false;
        who.own = std::move(at.reader);
        if (at.lost != 0) {
            who.notes.push_back(lost_note(at.lost, at.next()));
            who.next = at.next();
            return true;  // the notes go first
        }
    }
    told fresh;
    const ring_state ended = source_->gather(*who.own, fresh.batch, batch_bounds(window_behind(who.next)));
    if (!fresh.batch.items.empty()) tell(who, fresh);
    if (ended == ring_state::damaged || ended == ring_state::cut_off) end(who, ring_end::damaged);
    return !fresh.batch.items.empty() && !who.gone;
}

ring_hub::told* ring_hub::in_window(std::uint64_t number) {
    if (window_.empty() || number < window_.front().batch.first) return nullptr;
    told* at = &window_.back();  // where nearly all are
    if (number < at->batch.first) at = &*std::prev(std::ranges::upper_bound(window_, number, {}, first_of));
    if (number >= at->batch.next()) return nullptr;
    // Who joined within what the hub lost may still find it in the ring.
    const std::size_t item = at->batch.index_of(number);
    return at->batch.items[item].loss && number != at->batch.first_of(item) ? nullptr : at;
}

/// Where the window goes on behind a number that it does not have.
std::uint64_t ring_hub::window_behind(std::uint64_t number) const {
    const auto behind = std::ranges::upper_bound(window_, number, {}, first_of);
    return behind == window_.end() ? head() : behind->batch.first;
}

// --- turns

ring_hub::pace ring_hub::turn() {
    sweep();
    told fresh;
    ring_state ended = ring_state::more;
    if (!std::exchange(unserved_, false)) ended = source_->gather(*reader_, fresh.batch, batch_bounds());
    const bool news = !fresh.batch.items.empty();
    if (news) {
        counts_.read += fresh.batch.next() - fresh.batch.first - fresh.batch.lost();
        window_bytes_ += fresh.batch.text.size();
        window_.push_back(std::move(fresh));
        trim_window();
        told_since_ = true;
    }
    unsigned own_batches = own_batches_max;
    unsigned served = 0;
    const std::size_t count = subscribers_.size(), first = first_;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = (first + i) % count;
        ring_subscriber& who = *subscribers_[at];
        if (who.next >= head() && who.notes.empty()) continue;
        if (served == served_max) {
            unserved_ = true;
            first_ = at;
            break;
        }
        if (own_batches != 0) first_ = at;  // who finds nothing left of this turn's bound is first in the next
        if (advance(who, own_batches)) ++served;
    }
    if (news || std::exchange(overtaken_, false) || unanswered_)
        unanswered_ = answer_waiters([this](const ring_waiter& w) { return w.next < head(); }, answered_max);
    if (ended == ring_state::damaged || ended == ring_state::cut_off) end_all(ring_end::damaged);
    if (ended == ring_state::more || unserved_ || unanswered_ || own_batches == 0) return pace::at_once;
    return news || served != 0 ? pace::soon : pace::idle;
}

void ring_hub::trim_window() {
    while (window_.size() > 1 && window_bytes_ > window_bytes_max) {
        window_bytes_ -= window_.front().batch.text.size();
        window_.pop_front();
    }
}

void ring_hub::sweep() {
    std::erase_if(subscribers_, [](const auto& each) { return each->gone; });
    std::erase_if(waiters_, [](const ring_waiter& each) { return each.gone && *each.gone; });
}

bool ring_hub::answer_waiters(const std::function<bool(const ring_waiter&)>& is_due, std::size_t most) {
    const auto due = std::ranges::partition(waiters_, [&](const ring_waiter& each) { return !is_due(each); });
    const auto rest = due.begin() + static_cast<std::ptrdiff_t>(std::min(most, due.size()));
    const bool left = rest != due.end();
    std::vector<ring_waiter> now(std::make_move_iterator(due.begin()), std::make_move_iterator(rest));
    waiters_.erase(due.begin(), rest);
    for (const ring_waiter& each : now)  // what they do may add to waiters_
        if (!each.gone || !*each.gone) each.answer();
    return left;
}

void ring_hub::expire(std::uint64_t now_ns) {
    (void)answer_waiters([now_ns](const ring_waiter& w) { return w.deadline_ns <= now_ns; });
}

void ring_hub::release_waiters() {
    (void)answer_waiters([](const ring_waiter&) { return true; });
}

void ring_hub::comment() {
    if (std::exchange(told_since_, false)) return;
    std::string text;
    net::append_event_comment(text);
    const net::shared_bytes sign = shared(std::move(text));
    for (const auto& each : subscribers_)
        if (each->form == ring_form::events && !each->gone && each->out->queued_bytes() == 0 && !each->out->send(sign))
            each->gone = true;
}

void ring_hub::end(ring_subscriber& who, ring_end why) {
    if (std::exchange(who.gone, true)) return;
    who.own.reset();
    who.out->close(why);
}

void ring_hub::end_all(ring_end why) {
    for (const auto& each : subscribers_) end(*each, why);
    subscribers_.clear();
    release_waiters();
}

std::vector<std::shared_ptr<ring_subscriber>> ring_hub::take_subscribers() {
    sweep();
    for (const auto& each : subscribers_) {
        each->own.reset();
        if (each->next >= head()) continue;
        each->notes.push_back(lost_note(head() - each->next, head()));
        each->next = head();
    }
    return std::exchange(subscribers_, {});
}

}  // namespace holdfast::serve
