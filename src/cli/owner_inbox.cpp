// SPDX-License-Identifier: Apache-2.0
#include "cli/owner_inbox.hpp"

#include <chrono>
#include <utility>

#include "holdfast/detail/concat.hpp"
#include "holdfast/error.hpp"

namespace holdfast::cli {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;

[[noreturn]] void refuse(outcome why, const std::string& uri, const std::string& owner) {
    switch (why) {
        case outcome::full:
        case outcome::contended:
        case outcome::writer_gone:
            throw error(errc::contended, uri,
                        detail::concat("the inbox of its owner ", owner, " takes nothing now (", outcome_name(why),
                                       "); nothing was changed: try again"));
        case outcome::reader_gone:
            throw error(
                errc::io, uri,
                detail::concat("its owner ", owner, " ended before it answered; the change was made or not: look"));
        case outcome::timed_out:
            throw error(
                errc::io, uri,
                detail::concat("its owner ", owner, " did not answer within 5 s; the change was made or not: look"));
        default: throw error(errc::corrupt, uri, "the inbox of its owner is damaged; the change was made or not: look");
    }
}

}  // namespace

std::optional<owner_inbox> owner_inbox::of(const std::string& uri, const write_access& access) {
    attach_options how;
    how.trust = access.options().trust;
    std::optional<inbox_client> client = inbox_client::attach(uri, how);
    if (!client) return std::nullopt;
    return owner_inbox(dynamic_hash_table_reader::attach(uri, how), *std::move(client));
}

inbox_answer owner_inbox::ask(const inbox_command& what) {
    const std::string& uri = table_.segment().uri();
    const std::string owner = detail::concat("(process ", table_.segment().owner().pid, ")");
    const inbox_reply reply = client_.ask(what, patience);
    if (reply.status != outcome::ok) refuse(reply.status, uri, owner);
    switch (reply.answer.verdict) {
        case inbox_verdict::full:
            throw error(errc::no_space, uri, "the table is full; erase entries, or let its owner make room");
        case inbox_verdict::late:
        case inbox_verdict::closed:
            throw error(
                errc::contended, uri,
                detail::concat("its owner ", owner, " did not come to it in time; nothing was changed: try again"));
        case inbox_verdict::not_understood:
            throw error(errc::version_mismatch, uri,
                        detail::concat("its owner ", owner,
                                       " does not understand the command; nothing was changed: use "
                                       "programs of one version"));
        case inbox_verdict::damaged:
            throw error(errc::corrupt, uri, "damage was met on the way; holdfast verify says where");
        default: return reply.answer;
    }
}

}  // namespace holdfast::cli
