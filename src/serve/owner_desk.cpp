// SPDX-License-Identifier: Apache-2.0
#include "serve/owner_desk.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/hash_table/dynamic.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/segment.hpp"

namespace holdfast::serve {

namespace {

using namespace std::chrono_literals;

constexpr auto owner_patience = 5s;
constexpr auto word_of_lateness = 200ms;  // how long behind that the owner may say that it came too late
constexpr auto enqueue_patience = 5ms;
constexpr std::uint64_t pause_ns_min = 100'000, pause_ns_max = 4'000'000;
constexpr std::uint64_t owner_looks_ns = 20'000'000;
constexpr unsigned answers_at_once = 1024;  // whoever may write the ring may fill it without end

}  // namespace

std::shared_ptr<owner_desk::table> owner_desk::of(const segment& memory) {
    const std::string& uri = memory.uri();
    if (memory.info().policy == writers::many || lease_state_of(memory.name()) != lease_state::held) return nullptr;
    if (const auto at = tables_.find(uri); at != tables_.end()) {
        const inbox_client& client = at->second->client_;
        if (client.owner_alive() && !client.fault()) return at->second;
        tables_.erase(at);  // who waits there is told by its turns
    }
    std::optional<inbox_client> client = inbox_client::attach(uri);
    if (!client) return nullptr;
    // The name may have left `memory` for another table, which the inbox is of. While an inbox is open the name leads
    // to its table, or to what that has grown into, of the same fields: these are good for the inbox's life.
    const container_schema schema = dynamic_hash_table_reader::attach(uri).schema();
    if (!client->owner_alive()) return nullptr;
    return tables_.emplace(uri, std::make_shared<table>(*std::move(client), schema, uri)).first->second;
}

outcome owner_desk::ask(const std::shared_ptr<table>& owner, const inbox_command& what, told later) {
    owner->idle_ticks_ = 0;
    if (owner->waiting_.size() >= table::waiting_max) return outcome::full;
    const result sent = owner->client_.send(what, owner_patience, enqueue_patience);
    if (!sent) return sent.status;
    constexpr std::chrono::nanoseconds longest = owner_patience + word_of_lateness;
    owner->waiting_.emplace(sent.count, table::waiting{memory::deadline::now_ns() + longest.count(), std::move(later)});
    owner->pause_ns_ = pause_ns_min;
    schedule(owner);
    return outcome::ok;
}

void owner_desk::schedule(const std::shared_ptr<table>& owner) {
    if (std::exchange(owner->scheduled_, true)) return;
    loop_->after(std::chrono::nanoseconds(owner->pause_ns_), [this, owner] { turn(owner); });
}

void owner_desk::turn(const std::shared_ptr<table>& owner) {
    owner->scheduled_ = false;
    auto& waiting = owner->waiting_;
    const std::uint64_t now = memory::deadline::now_ns();
    bool owned = true;
    if (now - owner->looked_after_owner_ns_ >= owner_looks_ns) {
        owner->looked_after_owner_ns_ = now;
        owned = owner->client_.owner_alive();  // before the look: what it said last is seen
    }
    unsigned taken = 0;
    for (; taken < answers_at_once; ++taken) {
        const std::optional<inbox_answer> answer = owner->client_.next();
        if (!answer) break;
        if (auto asked = waiting.extract(answer->id.sequence)) asked.mapped().later({&*answer});
    }
    const bool damaged = owner->client_.fault().has_value();
    // Behind so many answers, of whomever, there may be more: what an owner said last is seen before it counts as gone.
    const bool more = taken == answers_at_once || (!owned && owner->client_.wait(0ns).status == outcome::ok);
    for (auto at = waiting.begin(); at != waiting.end();) {
        if ((owned || more) && !damaged && now < at->second.until_ns) {
            ++at;
            continue;
        }
        const told later = std::move(at->second.later);
        at = waiting.erase(at);
        later({nullptr, damaged ? outcome::corrupt : owned ? outcome::timed_out : outcome::writer_gone});
    }
    if (waiting.empty()) return;
    if (!owned) owner->looked_after_owner_ns_ = 0;  // the next turn asks again
    owner->pause_ns_ = taken != 0 || more ? pause_ns_min : std::min(owner->pause_ns_ * 2, pause_ns_max);
    schedule(owner);
}

void owner_desk::refresh() {
    std::erase_if(tables_, [](const auto& each) {
        table& owner = *each.second;
        return owner.waiting_.empty() && ++owner.idle_ticks_ > idle_ticks_max;
    });
}

}  // namespace holdfast::serve
