// SPDX-License-Identifier: Apache-2.0
#include "inspect/follower.hpp"
#include "holdfast/detail/spans.hpp"

#include <algorithm>
#include <utility>

#include "holdfast/detail/concat.hpp"
#include "holdfast/queue/consumer.hpp"
#include "holdfast/queue/observer.hpp"
#include "holdfast/queue/typed.hpp"
#include "inspect/attach.hpp"
#include "inspect/newest_message.hpp"
#include "inspect/queue_watch.hpp"

namespace holdfast::inspect {

namespace {

class ring_follower final : public follower {
 public:
    ring_follower(std::shared_ptr<const segment> from, const follow_start& start)
        : follower(from), reader_(std::move(from), start_of(start)) {
        result joined = reader_.joined();
        if (start.where == follow_start::from::last) {
            // Never more than the ring has: fewer messages are no loss, nobody asked for a certain one.
            const std::uint64_t next = reader_.sequence();
            joined = reader_.join(broadcast_start::sequence(next > start.value ? next - start.value : 1));
            if (joined.status == outcome::lapped) joined = {};
        }
        if (joined.status == outcome::corrupt)
            throw error(errc::corrupt, segment_->uri(),
                        "the ring's index contradicts its records; holdfast verify says more");
        joined_ = {.status = joined.status, .count = joined.count, .sequence = reader_.sequence()};
    }

    [[nodiscard]] followed next(std::vector<std::byte>& message) override {
        const broadcast_read got = reader_.read(message);
        return {.status = got.status,
                .type = got.type,
                .restarted = got.restarted,
                .count = got.count,
                .sequence = got.sequence};
    }
    [[nodiscard]] std::optional<bool> writer_gone() override {
        const lease_state lease = lease_state_of(segment_->name());
        if (lease == lease_state::unknown || lease == lease_state::none) return std::nullopt;
        return lease == lease_state::free;
    }
    [[nodiscard]] std::uint64_t newest() override { return newest_message(segment_); }

 private:
    [[nodiscard]] static broadcast_start start_of(const follow_start& start) {
        switch (start.where) {
            case follow_start::from::oldest: return broadcast_start::oldest();
            case follow_start::from::sequence: return broadcast_start::sequence(start.value);
            case follow_start::from::time: return broadcast_start::time(start.value);
            case follow_start::from::last:
            case follow_start::from::latest: break;
        }
        return broadcast_start::latest();
    }

    broadcast_reader reader_;
};

class queue_watcher final : public follower {
 public:
    queue_watcher(std::shared_ptr<const segment> from, const follow_start& start)
        : follower(from), observer_(from, trust_anybody()), watch_(watch()) {
        if (start.where == follow_start::from::latest && !watch_.skip_to_end())
            throw error(errc::corrupt, segment_->uri(), "damage was met on the way; holdfast verify says where");
        if (start.where == follow_start::from::sequence && !watch_.skip_below(start.value))
            throw error(errc::corrupt, segment_->uri(), "damage was met on the way; holdfast verify says where");
        joined_.sequence = watch_.sequence();
        if (start.where == follow_start::from::sequence && joined_.sequence > start.value)
            joined_ = {
                .status = outcome::lapped, .count = joined_.sequence - start.value, .sequence = joined_.sequence};
    }

    [[nodiscard]] followed next(std::vector<std::byte>& message) override {
        const watched got = watch_.next(message);
        trim(observer_.geometry(), message);
        return {.status = got.status, .type = got.type, .count = got.count, .sequence = got.sequence};
    }
    [[nodiscard]] std::optional<bool> writer_gone() override {
        const std::optional<bool> alive = observer_.producer_alive();
        return alive ? std::optional(!*alive) : std::nullopt;
    }
    [[nodiscard]] std::uint64_t newest() override { return newest_message(observer_, watch_.sequence()); }

 private:
    [[nodiscard]] queue_watch watch() const {
        if (observer_.refusal()) throw *observer_.refusal();
        const layout::queue_side* const consumer = observer_.consumer_side();
        if (consumer == nullptr)
            throw error(errc::geometry_mismatch, segment_->uri(),
                        "the segment has not the slots of a queue's sides; restore it or make it anew");
        return {segment_->bytes(), observer_.geometry(), *consumer};
    }

    queue_observer observer_;
    queue_watch watch_;
};

class record_consumer final : public follower {
 public:
    record_consumer(std::shared_ptr<const segment> from, const attach_options& access)
        : follower(from), consumer_(std::move(from), {.how = delivery::at_least_once, .segment = access}) {
        joined_.sequence = sequence_ = consumer_.stats().messages + 1;
    }

    [[nodiscard]] followed next(std::vector<std::byte>& message) override {
        release();
        const queue_message got = consumer_.front();
        if (got) {
            message.assign(got.bytes.begin(), got.bytes.end());
            taken_ = true;
        }
        return {.status = got.status, .type = got.type, .sequence = got ? sequence_++ : sequence_};
    }
    void release() override {
        if (std::exchange(taken_, false)) consumer_.pop();
    }
    [[nodiscard]] std::optional<bool> writer_gone() override { return !consumer_.producer_alive(); }
    [[nodiscard]] std::uint64_t newest() override {
        return newest_message(queue_observer(segment_, trust_anybody()), sequence_);
    }

 private:
    queue_consumer consumer_;
    std::uint64_t sequence_ = 1;
    bool taken_ = false;
};

class element_consumer final : public follower {
 public:
    element_consumer(std::shared_ptr<const segment> from, const attach_options& access)
        : follower(std::move(from)),
          geometry_(detail::queue_geometry_of(*segment_, layout::queue_form::elements)),
          place_(detail::queue_place::of_consumer(*segment_, access.trust, detail::ns_of(access.lease_timeout))),
          core_(segment_->bytes(), geometry_, place_.consumer(), segment_->uri()) {
        joined_.sequence = core_.head() + 1;
    }

    [[nodiscard]] followed next(std::vector<std::byte>& message) override {
        release();
        const result there = core_.ready(1);
        const std::uint64_t number = core_.cursor() + 1;
        if (there.status != outcome::ok) return {.status = there.status, .sequence = number};
        const std::byte* const slot = core_.slot(0);
        message.assign(slot, slot + geometry_.stride);
        trim(geometry_, message);
        core_.pass(1);
        return {.status = outcome::ok, .sequence = number};
    }
    void release() override {
        if (core_.release()) detail::ring_if_asleep(core_, geometry_.rings);
    }
    [[nodiscard]] std::optional<bool> writer_gone() override { return !place_.other_lives(); }
    [[nodiscard]] std::uint64_t newest() override {
        return newest_message(queue_observer(segment_, trust_anybody()), core_.cursor() + 1);
    }

 private:
    layout::queue_geometry geometry_;
    detail::queue_place place_;
    layout::queue_element_read_core core_;
};

[[nodiscard]] std::unique_ptr<follower> follow_queue(std::shared_ptr<const segment> from,
                                                     const follow_options& options) {
    if (options.start.where == follow_start::from::time)
        throw error(errc::invalid_argument, from->uri(), "a queue keeps no times; start at its oldest message");
    if (!options.consume) return std::make_unique<queue_watcher>(std::move(from), options.start);
    from->require(container_kind::queue, queue_layout_version);
    const auto geometry = layout::queue_geometry::parse(from->info().geometry, from->bytes().size(), from->uri());
    if (geometry.form == layout::queue_form::elements)
        return std::make_unique<element_consumer>(std::move(from), options.access);
    return std::make_unique<record_consumer>(std::move(from), options.access);
}

}  // namespace

void follower::trim(const layout::queue_geometry& geometry, std::vector<std::byte>& message) const {
    if (geometry.form == layout::queue_form::elements && schema_ && schema_->bytes() < message.size())
        message.resize(schema_->bytes());
}

follower::follower(std::shared_ptr<const segment> from) : segment_(std::move(from)) {
    if (segment_->info().schema.empty()) return;
    container_schema stored = container_schema::parse(segment_->info().schema);
    if (!stored.key) schema_ = std::move(stored.value);  // messages of keys and values are shown as bytes
}

std::unique_ptr<follower> follower::open(std::string_view uri, const follow_options& options) {
    std::shared_ptr<const segment> from =
        options.consume ? std::make_shared<const segment>(segment::attach(uri, access::read_only, options.access))
                        : attach_to_look(uri);
    switch (from->info().kind) {
        case container_kind::queue: return follow_queue(std::move(from), options);
        case container_kind::broadcast:
            if (options.consume)
                throw error(errc::invalid_argument, from->uri(),
                            "a broadcast has no consumer: every reader gets every message");
            return std::make_unique<ring_follower>(std::move(from), options.start);
        default:
            throw error(errc::kind_mismatch, from->uri(),
                        detail::concat("is a ", kind_name(from->info().kind),
                                       "; only queues and broadcasts can be "
                                       "followed, holdfast scan and get show the others"));
    }
}

}  // namespace holdfast::inspect
