// SPDX-License-Identifier: Apache-2.0
// api_owner.cpp - changes of a table whose living owner makes them, by its inbox: what is asked, and what its answer is
// over HTTP. docs/design/0031-serving-writes.md, 0039-inbox.md.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "serve/answering.hpp"
#include "serve/api.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

namespace {

using namespace std::chrono_literals;

[[noreturn]] void refuse_unanswered(outcome why, const std::string& uri) {
    const char* const because = why == outcome::writer_gone ? ": its owner ended before it answered"
                                : why == outcome::corrupt   ? ": what its owner answers with is damaged"
                                                            : ": its owner did not answer in time";
    throw failure{504, uri + because + "; the change was made or not"};
}

[[noreturn]] void refuse_unsent(outcome why, const std::string& uri) {
    if (why == outcome::too_large) throw failure{400, "If-Match names more tags than the table's owner takes"};
    if (why == outcome::corrupt) throw failure{500, uri + ": its owner's inbox is damaged; nothing was changed"};
    throw failure{503,
                  uri + (why == outcome::full ? ": its owner is behind with what it was asked; ask again"
                                              : ": another process is asking its owner; ask again"),
                  1};
}

}  // namespace

/// What was asked for, kept behind its request.
struct api::asked_owner {
    std::string uri;
    change what;
    bool demands_value = false;
    std::string tag{};  // of what is put
};

void api::require_done(const owner_reply& got, const asked_owner& asked) {
    const std::string& uri = asked.uri;
    if (got.answer == nullptr) refuse_unanswered(got.why, uri);
    switch (got.answer->verdict) {
        case inbox_verdict::done: return;
        case inbox_verdict::exists: throw failure{412, uri + ": the entry is there already"};
        case inbox_verdict::stale: throw failure{412, uri + ": the entry has another value than If-Match names"};
        case inbox_verdict::not_found:
            // RFC 9110 section 13.1.1: nothing that is not there matches.
            if (asked.demands_value && asked.what != change::increment)
                throw failure{412, uri + " has no such entry to match"};
            throw failure{404, uri + " has no such entry"};
        case inbox_verdict::out_of_range: throw failure{409, uri + ": the sum does not fit into the field"};
        case inbox_verdict::full:
            throw failure{507, uri + ": the table is full; erase entries, or let its owner make room"};
        case inbox_verdict::late:
        case inbox_verdict::closed:
            throw failure{503, uri + ": its owner did not come to it in time, nothing was changed; ask again", 1};
        case inbox_verdict::not_understood:
            throw failure{500, uri + ": its owner does not understand this server; use programs of one version"};
        case inbox_verdict::damaged: throw failure{500, uri + " is damaged; holdfast verify says where"};
    }
}

inbox_command api::command_of(const exchange& it, entry_text& text, const owned_change& asked,
                              const conditions& demanded) {
    inbox_command command;
    if (asked.what == change::erase) refuse_only_new(demanded, "taken out");
    if (asked.what == change::increment) refuse_only_new(demanded, "counted up");
    text.read_key(asked.key);
    command.key = text.key();
    switch (asked.what) {
        case change::put:
            text.read_value(it.from.body());
            command.value = text.value();
            break;
        case change::erase: command.operation = inbox_operation::erase; break;
        case change::increment: {
            command.operation = inbox_operation::increment;
            const field& counted = text.counted_field(it.from.body(), command.by);
            command.field_offset = counted.offset;
            command.counted = counted.type;
        }
    }
    if (demanded.only_new()) command.condition = inbox_condition::only_new;
    if (!demanded.of_value()) return command;
    command.condition = demanded.any_value() ? inbox_condition::any_value : inbox_condition::tags;
    if (command.condition == inbox_condition::any_value) return command;
    const std::vector<std::uint64_t> tags = demanded.value_tags(text.tags());
    if (tags.size() > inbox_command::tags_max) refuse_unsent(outcome::too_large, {});
    command.tag_count = static_cast<std::uint32_t>(tags.size());
    std::ranges::copy(tags, command.tags.begin());
    return command;
}

bool api::ask_owner(exchange& it, const std::shared_ptr<owner_desk::table>& owner, const owned_change& asked,
                    const conditions& demanded) {
    const inbox_command command = command_of(it, owner->text(), asked, demanded);
    asked_owner kept{asked.uri, asked.what, demanded.of_value()};
    if (asked.what == change::put) kept.tag = owner->text().tags().of(command.value).text();
    const std::uint64_t number = logged_ahead(it, name_of(asked.what), kept.uri, asked.key);
    // The key of what is counted is told with its new value.
    std::vector<std::byte> key(command.key.begin(), command.key.end());
    const auto to = std::make_shared<net::channel>();
    const auto answer = [this, to, number, kept = std::move(kept), key = std::move(key), which = it.which,
                         weak = std::weak_ptr(owner)](const owner_reply& got) {
        net::response late;
        const bool done = answer_or_refuse(late, [&] {
            require_done(got, kept);
            if (kept.what == change::increment) {
                std::string body;
                const auto here = weak.lock();  // it calls us
                const entry_text& text = here->text();
                if (got.answer->value.size() != text.value().size())
                    throw failure{500, kept.uri + ": its owner answers otherwise than its table is"};
                late.header("ETag", text.tags().of(got.answer->value).text());
                text.append_json(body, key, got.answer->value);
                answer_json(late, std::move(body));
            } else {
                if (kept.what == change::put) late.header("ETag", kept.tag);
                late.status(got.answer->change == entry_change::inserted ? 201 : 204);
            }
        });
        // Of what nobody can tell there is no second line.
        if (!done && late.status() != 504) log_refusal(number, late.status());
        late.route(static_cast<int>(which));
        requests_.count(which, late.status());
        to->answer(std::move(late));
    };
    outcome sent{};
    refusals_logged(number, [&] {
        sent = owners_.ask(owner, command, answer);
        if (sent != outcome::ok && sent != outcome::writer_gone) refuse_unsent(sent, asked.uri);
    });
    if (sent == outcome::writer_gone) {
        log_refusal(number, 503);
        return false;
    }
    // A client that has said all it has to say waits for the answer all the same: the change may be made.
    *to = it.to.defer({.answer_timeout = 30s, .answers_half_closed = true});
    it.counted = 0;
    return true;
}

}  // namespace holdfast::serve
