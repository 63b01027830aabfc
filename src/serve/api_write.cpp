// SPDX-License-Identifier: Apache-2.0
// api_write.cpp - the routes that change an entry, and the one that publishes. Who may:
// docs/design/0031-serving-writes.md.
#include <limits>
#include <utility>

#include "holdfast/broadcast/writer.hpp"
#include "holdfast/error.hpp"
#include "serve/answering.hpp"
#include "serve/api.hpp"
#include "serve/failure.hpp"
#include "serve/write_lease.hpp"

namespace holdfast::serve {

std::string_view api::name_of(change what) noexcept {
    constexpr std::string_view names[] = {"put", "delete", "increment"};  // as in `change`
    return names[static_cast<std::size_t>(what)];
}

// A segment's rights are looked at for each write: what was true when it was attached may be so no more.
void api::require_may_write(const exchange& it, const segment& memory) const {
    if (it.who.known()) {
        if (segment_rights::of(memory.name()).allow(*it.who.peer, wish::write)) return;
        throw failure{403, memory.uri() + ": user " + std::to_string(it.who.peer->user) +
                               " may not write this segment; its mode says who may"};
    }
    if (!token_)
        throw failure{
            403, "nobody may write by this address; ask by the unix socket, or start the server with --token-file"};
    if (!token_->is_in(it.from))
        throw failure{401, "writing needs the token of this server: Authorization: Bearer TOKEN"};
}

table_writer& api::writer_of(const std::string& uri, std::optional<table_writer>& for_now) {
    if (const auto at = writers_.find(uri); at != writers_.end()) {
        if (!at->second.writer.memory().replaced()) {
            at->second.idle_ticks = 0;
            return at->second.writer;
        }
        writers_.erase(at);
    }
    table_writer fresh(uri);
    if (!fresh.is_one_of_many()) return for_now.emplace(std::move(fresh));
    return writers_.emplace(uri, kept_writer{std::move(fresh)}).first->second.writer;
}

void api::change_entry(exchange& it, const std::string& name, const std::string& key, change what) {
    check_parameters(it.query, {});
    table_source& table = catalog_.table(name, it.who);
    require_may_write(it, table.memory());
    require_whole_content(it.from);
    if (const std::string_view type = media_type_of(it.from);
        !type.empty() && !it.from.body().empty() && !net::equal_ignoring_case(type, json_type))
        throw failure{415, "the body has to be application/json"};
    const conditions asked = conditions::of(it.from);
    const std::string& uri = table.memory().uri();
    // Once more where the inbox was closed and another one opened meanwhile.
    for (unsigned tries = 0; tries < 2; ++tries)
        if (const auto owner = owners_.of(table.memory()); owner && ask_owner(it, owner, {uri, key, what}, asked))
            return;
    std::optional<table_writer> for_now;  // gives the lease back with the request
    table_writer& writer = writer_of(uri, for_now);
    // Another segment may have got the name since its rights were looked at.
    require_may_write(it, writer.memory());
    if (writer.memory().replaced()) throw failure{503, uri + " was replaced while it was attached; ask again", 1};
    try {
        logged(it, name_of(what), uri, key, [&] { make_change(it, writer, key, what, asked); });
    } catch (const failure&) {
        if (writer.broken()) writers_.erase(std::string(uri));
        throw;
    }
}

void api::logged(const exchange& it, std::string_view action, std::string_view uri, std::string_view key,
                 const std::function<void()>& change_it) {
    refusals_logged(logged_ahead(it, action, uri, key), change_it);
}

void api::refusals_logged(std::uint64_t number, const std::function<void()>& change_it) {
    try {
        change_it();
    } catch (const failure& e) {
        log_refusal(number, e.status);
        throw;
    } catch (const error& e) {
        log_refusal(number, status_of(e.reason()));
        throw;
    }
}

std::uint64_t api::logged_ahead(const exchange& it, std::string_view action, std::string_view uri,
                                std::string_view key) {
    return audit_ ? audit_->append({it.who.peer, action, uri, key, it.from.body().size()}) : 0;
}

void api::log_refusal(std::uint64_t number, int status) noexcept {
    if (audit_) audit_->append_refusal(number, status);
}

void api::publish(exchange& it, const std::string& name) {
    check_parameters(it.query, {"type"});
    const std::uint64_t type = number_of(it.query, "type", 0);
    if (type > std::numeric_limits<std::uint16_t>::max()) throw failure{400, "type is a number up to 65535"};
    ring_source& ring = catalog_.ring(name, it.who);
    require_may_write(it, ring.memory());
    require_whole_content(it.from);
    const std::vector<std::byte> message = ring.message_of(it.from);
    const std::string& uri = ring.memory().uri();
    // The lease is ours until the end of this request.
    broadcast_writer writer = attach_to_write(uri, [&](const auto& how) { return broadcast_writer::attach(uri, how); });
    // Another segment may have got the name since its rights were looked at.
    require_may_write(it, writer.segment());
    // The message was made for the ring that the catalog knows.
    if (writer.segment().replaced() || writer.segment().info().identity != ring.memory().info().identity)
        throw failure{503, uri + " was replaced while it was attached; ask again", 1};
    logged(it, "publish", uri, {}, [&] {
        const result done = writer.publish(message, static_cast<std::uint16_t>(type));
        switch (done.status) {
            case outcome::ok: break;
            case outcome::too_large:
                throw failure{413, uri + ": the ring takes messages of " + std::to_string(done.count) +
                                       " bytes at most; send a shorter one, or make the ring larger"};
            case outcome::full: throw failure{503, uri + ": a registered reader holds the ring up; ask again", 1};
            default: throw failure{500, uri + " is damaged; holdfast verify says where"};
        }
        if (writer.segment().cut_off()) check_lookup(lookup::damaged, uri);  // there is nothing where it was written
    });
    it.to.status(201);
    answer_json(it.to, "{\"sequence\":" + std::to_string(writer.sequence()) + ",\"next\":\"" +
                           ring_id(ring, writer.sequence() + 1) + "\"}");
}

void api::make_change(exchange& it, table_writer& writer, const std::string& key, change what,
                      const conditions& asked) {
    table_writer::written done;
    switch (what) {
        case change::put: done = writer.put(key, it.from.body(), asked); break;
        case change::erase: done = writer.erase(key, asked); break;
        case change::increment: done = writer.increment(key, it.from.body(), asked); break;
    }
    if (what != change::erase) it.to.header("ETag", writer.tag_of(done).text());
    if (what == change::increment) {
        std::string body;
        writer.append_json(body, done);
        answer_json(it.to, std::move(body));
    } else {
        it.to.status(done.what == entry_change::inserted ? 201 : 204);
    }
}

void api::refresh() {
    catalog_.refresh();
    rings_.refresh();
    if (token_) token_->refresh();
    if (audit_) audit_->refresh();
    owners_.refresh();
    for (auto& [uri, kept] : writers_) ++kept.idle_ticks;
    std::erase_if(writers_, [](const auto& each) {
        const kept_writer& kept = each.second;
        return kept.idle_ticks > idle_ticks_max || kept.writer.broken() || kept.writer.memory().replaced();
    });
}

}  // namespace holdfast::serve
