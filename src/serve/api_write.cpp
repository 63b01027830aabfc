// SPDX-License-Identifier: Apache-2.0
// api_write.cpp - the routes that change an entry. Who may: docs/design/0031-serving-writes.md.
#include <utility>

#include "holdfast/error.hpp"
#include "serve/answering.hpp"
#include "serve/api.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

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
    if (const auto type = it.from.header("Content-Type"); type && !it.from.body().empty()) {
        const std::string_view plain = type->substr(0, type->find(';'));
        if (!net::equal_ignoring_case(plain.substr(0, plain.find_last_not_of(" \t") + 1), json_type))
            throw failure{415, "the body has to be application/json"};
    }
    const conditions asked = conditions::of(it.from);
    const std::string& uri = table.memory().uri();
    std::optional<table_writer> for_now;  // gives the lease back with the request
    table_writer& writer = writer_of(uri, for_now);
    // Another segment may have got the name since its rights were looked at.
    require_may_write(it, writer.memory());
    if (writer.memory().replaced()) throw failure{503, uri + " was replaced while it was attached; ask again", 1};
    constexpr std::string_view actions[] = {"put", "delete", "increment"};  // as in `change`
    std::uint64_t number = 0;
    if (audit_)
        number =
            audit_->append({it.who.peer, actions[static_cast<std::size_t>(what)], uri, key, it.from.body().size()});
    try {
        make_change(it, table, writer, key, what, asked);
    } catch (const failure& e) {
        if (audit_) audit_->append_refusal(number, e.status);
        if (writer.broken()) writers_.erase(uri);
        throw;
    }
}

void api::make_change(exchange& it, table_source& table, table_writer& writer, const std::string& key, change what,
                      const conditions& asked) {
    table_writer::written done;
    switch (what) {
        case change::put: done = writer.put(key, it.from.body(), asked); break;
        case change::erase: done = writer.erase(key, asked); break;
        case change::increment: done = writer.increment(key, it.from.body(), asked); break;
    }
    if (what != change::erase) it.to.header("ETag", tag_of(done.value));
    if (what == change::increment) {
        std::string body;
        table.writer().append(body, done.key, done.value);
        answer_json(it.to, std::move(body));
    } else {
        it.to.status(done.what == entry_change::inserted ? 201 : 204);
    }
}

void api::refresh() {
    catalog_.refresh();
    if (token_) token_->refresh();
    if (audit_) audit_->refresh();
    for (auto& [uri, kept] : writers_) ++kept.idle_ticks;
    std::erase_if(writers_, [](const auto& each) {
        const kept_writer& kept = each.second;
        return kept.idle_ticks > idle_ticks_max || kept.writer.broken() || kept.writer.memory().replaced();
    });
}

}  // namespace holdfast::serve
