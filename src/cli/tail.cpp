// SPDX-License-Identifier: Apache-2.0
// tail.cpp - follows a broadcast, watches a queue, or consumes it: messages as lines, losses told exactly.
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/stop_signals.hpp"
#include "cli/write_access.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/record/time_text.hpp"
#include "holdfast/segment/identity.hpp"
#include "inspect/attach.hpp"
#include "inspect/follower.hpp"
#include "inspect/json_out.hpp"
#include "inspect/message_text.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string from;
    std::string since;
    std::uint64_t last = 10;
    std::uint64_t limit = 0;
    std::vector<std::string> filter;
    std::string type;
    std::string bytes = "auto";
    bool now = false;
    bool keep = false;
    bool consume = false;
    bool numbers = false;
    bool json = false;
    write_access access;
};

[[nodiscard]] std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

/// An instant: RFC 3339, or so long ago: 90s, 5m, 2h, 1d.
[[nodiscard]] std::uint64_t instant_of(const std::string& text) {
    timestamp time{};
    if (!parse_timestamp(text, time)) return time.ns > 0 ? static_cast<std::uint64_t>(time.ns) : 0;
    const std::uint64_t units[] = {1, 60, 3600, 86400};
    const std::size_t unit = text.empty() ? std::string::npos : std::string_view("smhd").find(text.back());
    const auto count = unit == std::string::npos ? std::nullopt : number_in(text.substr(0, text.size() - 1));
    constexpr std::uint64_t span_max = 100ULL * 365 * 86400;
    if (!count || *count > span_max / units[unit])
        throw error(errc::invalid_argument, "--since " + inspect::printable(text),
                    "is a time such as 2026-11-21T08:43:53Z, or a span such as 90s, 5m, 2h, 1d");
    const std::uint64_t now = detail::now_ns();
    const std::uint64_t span = *count * units[unit] * 1'000'000'000;
    return now > span ? now - span : 0;
}

[[nodiscard]] inspect::follow_start start_of(const options& chosen) {
    using from = inspect::follow_start::from;
    if (!chosen.from.empty() && !chosen.since.empty())
        throw error(errc::invalid_argument, "--from and --since", "exclude each other; give one");
    if (!chosen.since.empty()) return {from::time, instant_of(chosen.since)};
    if (chosen.from.empty()) return {from::last, chosen.last};
    if (chosen.from == "oldest") return {from::oldest, 0};
    if (chosen.from == "latest") return {from::latest, 0};
    const auto number = number_in(chosen.from);
    if (!number || *number == 0)
        throw error(errc::invalid_argument, "--from " + inspect::printable(chosen.from),
                    "is oldest, latest, or the number of a message, from 1 up");
    return {from::sequence, *number};
}

[[nodiscard]] inspect::follow_options follow_options_of(const options& chosen) {
    if (chosen.consume && (!chosen.filter.empty() || !chosen.type.empty()))
        throw error(errc::invalid_argument, "--consume", "takes every message: a filter would throw the others away");
    if (chosen.consume && (!chosen.from.empty() || !chosen.since.empty()))
        throw error(errc::invalid_argument, "--consume",
                    "begins with the oldest message; leave --from and --since out");
    return {start_of(chosen), chosen.consume, chosen.access.options()};
}

/// Says losses and the like: on stderr, or as objects between the messages.
class teller {
 public:
    teller(const options& chosen, const std::string& uri) : json_(chosen.json), uri_(uri) {}

    void joined(const inspect::followed& at, const inspect::follow_start& start) const {
        using from = inspect::follow_start::from;
        if (at.status == outcome::lapped && at.count != 0) return lost(at.count, at.sequence);
        if (at.status == outcome::lapped && start.where == from::time)
            note("older_gone", at.sequence, "the ring does not reach back to that time; it begins");
    }
    void lost(std::uint64_t count, std::uint64_t next) const {
        if (json_) {
            std::string text;
            inspect::json_out out(text);
            out.begin_object().member("event", "lost").member("count", count).member("sequence", next).end_object();
            return put(text + "\n");
        }
        say(format("{}: {} messages lost; going on with number {}", uri_, count_text(count), next));
    }
    /// Something happened before message `next`.
    void note(std::string_view event, std::uint64_t next, std::string_view text_for_people) const {
        if (json_) {
            std::string text;
            inspect::json_out out(text);
            out.begin_object().member("event", event).member("sequence", next).end_object();
            return put(text + "\n");
        }
        say(format("{}: {} with number {}", uri_, text_for_people, next));
    }

 private:
    bool json_;
    std::string uri_;
};

/// One segment followed until there is a reason to stop.
class session {
 public:
    session(const options& chosen, std::unique_ptr<inspect::follower> from, const inspect::follow_start& start,
            std::uint64_t shown)
        : chosen_(chosen),
          from_(std::move(from)),
          tell_(chosen, from_->memory().uri()),
          writer_(from_->schema(), style_of(chosen)),
          filter_(from_->schema(), chosen.filter, type_of(chosen)),
          shown_(shown) {
        tell_.joined(from_->joined(), start);
        if (start.where == inspect::follow_start::from::sequence) skip_below_ = start.value;
        if (chosen.now) end_behind_ = from_->newest();
        if (chosen.json || shown != 0) return;
        if (const std::string heading = writer_.heading(); !heading.empty())
            put(styled((chosen.numbers ? "#\t" : "") + heading, style::strong) + "\n");
    }

    enum class end : std::uint8_t { limit, nothing_more, writer_gone, replaced, stopped };
    [[nodiscard]] end run(const stop_signals& stop);
    [[nodiscard]] std::uint64_t shown() const noexcept { return shown_; }

 private:
    [[nodiscard]] static inspect::byte_style style_of(const options& chosen) {
        return chosen.bytes == "text"  ? inspect::byte_style::text
               : chosen.bytes == "hex" ? inspect::byte_style::hex
                                       : inspect::byte_style::choose;
    }
    [[nodiscard]] static std::optional<std::uint64_t> type_of(const options& chosen) {
        if (chosen.type.empty()) return std::nullopt;
        const auto number = number_in(chosen.type);
        if (!number || *number > 0xFFFF)
            throw error(errc::invalid_argument, "--type " + inspect::printable(chosen.type), "is a number up to 65535");
        return number;
    }

    /// Prints what is there. Returns: a reason to stop, or nothing when there is no further message now.
    [[nodiscard]] std::optional<end> drain(const stop_signals& stop);
    void show(const inspect::followed& got);
    void tell_lost(const inspect::followed& got) const;
    [[nodiscard]] std::optional<end> quiet();

    const options& chosen_;
    std::unique_ptr<inspect::follower> from_;
    teller tell_;
    inspect::message_writer writer_;
    inspect::message_filter filter_;
    std::vector<std::byte> message_;
    std::string text_;
    std::uint64_t shown_;
    std::uint64_t skip_below_ = 0;
    std::uint64_t end_behind_ = ~std::uint64_t{0};  // --now: what comes while it is shown is not waited for
    std::uint64_t asked_ns_ = 0;
    bool told_gone_ = false;
    bool told_blind_ = false;
};

void session::show(const inspect::followed& got) {
    text_.clear();
    if (chosen_.json) {
        text_ += format("{{\"sequence\":{},\"type\":{},", got.sequence, got.type);
        writer_.append_members(text_, message_);
        text_ += '}';
    } else {
        if (chosen_.numbers) text_ += format("{}\t", got.sequence);
        writer_.append_line(text_, message_);
    }
    text_ += '\n';
    put(text_);
    ++shown_;
}

/// What lies below the number that was asked for is no loss.
void session::tell_lost(const inspect::followed& got) const {
    const std::uint64_t first = std::max(skip_below_, got.sequence - std::min(got.count, got.sequence));
    if (first < got.sequence) tell_.lost(got.sequence - first, got.sequence);
}

std::optional<session::end> session::drain(const stop_signals& stop) {
    constexpr std::uint64_t between_flushes = 256;
    for (std::uint64_t step = 1;; ++step) {
        if (chosen_.limit != 0 && shown_ >= chosen_.limit) return end::limit;
        const inspect::followed got = from_->next(message_);
        if (got.status == outcome::ok && got.sequence > end_behind_) return end::nothing_more;
        if (got.restarted) tell_.note("restarted", got.sequence, "another writer took the ring over; it goes on");
        switch (got.status) {
            case outcome::ok:
                told_gone_ = false;
                if (got.sequence >= skip_below_ && filter_.wants(got.type, message_)) show(got);
                // What is taken is released when it has been written, and not before.
                if (chosen_.consume) {
                    flush_output();
                    from_->release();
                }
                break;
            case outcome::lapped:
                tell_lost(got);
                if (got.sequence > end_behind_) return end::nothing_more;
                break;
            case outcome::empty: return std::nullopt;
            default:
                flush_output();
                throw error(errc::corrupt, from_->memory().uri(),
                            "damage was met on the way; holdfast verify says where");
        }
        if (step % between_flushes == 0) flush_output();
        if (stop.asked()) return end::stopped;
    }
}

/// Nothing to read just now: whether there will be more. Asks the locks twenty times a second at most.
std::optional<session::end> session::quiet() {
    if (const auto fault = from_->fault())
        throw error(*fault, from_->memory().uri(), "the file was cut off while it was read; nothing more will come");
    constexpr std::uint64_t pause_ns = 50'000'000;
    const std::uint64_t now = memory::deadline::now_ns();
    if (now - asked_ns_ < pause_ns) return std::nullopt;
    asked_ns_ = now;
    inspect::require_whole(from_->memory());
    if (from_->memory().replaced()) return end::replaced;
    const std::optional<bool> gone = from_->writer_gone();
    if (!gone && !std::exchange(told_blind_, true))
        say(format(
            "{}: whether its writer lives cannot be told: its lease is missing, or not ours to look at; Ctrl-C ends",
            from_->memory().uri()));
    if (gone != true) return std::nullopt;
    if (!chosen_.keep) return end::writer_gone;
    if (!std::exchange(told_gone_, true))
        say(format("{}: its writer is gone; waiting for the next", from_->memory().uri()));
    return std::nullopt;
}

session::end session::run(const stop_signals& stop) {
    constexpr std::uint64_t pause_ns_max = 5'000'000;
    std::uint64_t pause_ns = 50'000;
    for (;;) {
        const std::uint64_t before = shown_;
        if (const auto done = drain(stop)) return *done;
        flush_output();
        if (chosen_.now) return end::nothing_more;
        if (stop.asked() || stop.reader_gone()) return end::stopped;
        if (const auto done = quiet()) {
            // What was published before its death, or the removal, is still read.
            if (const auto last = drain(stop)) return *last;
            flush_output();
            return *done;
        }
        pause_ns = shown_ != before ? 50'000 : std::min(pause_ns * 2, pause_ns_max);
        stop.nap(pause_ns);
    }
}

/// Another segment may take the name's place: waits for it. Nothing when told to stop.
[[nodiscard]] std::unique_ptr<inspect::follower> next_of_name(const options& chosen, const inspect::follow_options& how,
                                                              const stop_signals& stop) {
    say(format("{}: the segment was removed; waiting for the next of its name", inspect::printable(chosen.segment)));
    while (!stop.asked() && !stop.reader_gone()) {
        try {
            return inspect::follower::open(chosen.segment, how);
        } catch (const error& failure) {
            if (failure.reason() != errc::not_found && failure.reason() != errc::not_ready) throw;
        }
        stop.nap(20'000'000);
    }
    return nullptr;
}

int follow(const options& chosen, const stop_signals& stop) {
    inspect::follow_options how = follow_options_of(chosen);
    std::unique_ptr<inspect::follower> next = inspect::follower::open(chosen.segment, how);
    std::uint64_t shown = 0;
    for (;;) {
        session now(chosen, std::move(next), how.start, shown);
        const session::end why = now.run(stop);
        shown = now.shown();
        switch (why) {
            case session::end::limit:
            case session::end::stopped: return success;
            case session::end::nothing_more: return shown == 0 ? negative : success;
            case session::end::writer_gone:
                say(format("{}: its writer is gone and there is nothing more to read",
                           inspect::printable(chosen.segment)));
                return success;
            case session::end::replaced:
                if (!chosen.keep) {
                    say(format("{}: the segment was removed", inspect::printable(chosen.segment)));
                    return success;
                }
                how.start = {inspect::follow_start::from::oldest, 0};  // all of it is new
                next = next_of_name(chosen, how, stop);
                if (!next) return success;
        }
    }
}

}  // namespace

void add_tail(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command tail_line = line.add("tail", "Follow a broadcast, or watch or consume a queue: one message a line");
    tail_line.positional("SEGMENT", chosen->segment, "the segment")
        .option("--from", chosen->from, "WHERE",
                "oldest, latest, or a message's number; a watched queue begins at its oldest")
        .option("--since", chosen->since, "TIME",
                "broadcast: what came since then: 2026-11-21T08:43:53Z, or 90s, 5m, 2h, 1d ago")
        .option("--last", chosen->last, "N", "broadcast: begin with the last N messages; default 10")
        .option("-n,--limit", chosen->limit, "N", "end after N messages; 0: never")
        .option("--filter", chosen->filter, "FIELD=TEXT",
                "records with that text in that field; other messages: that contain TEXT")
        .option("--type", chosen->type, "N", "messages of this type number")
        .choice("--bytes", chosen->bytes, {"auto", "text", "hex"}, "how messages without a schema are shown")
        .flag("--now", chosen->now, "show what there is now, and end")
        .flag("--keep", chosen->keep,
              "wait on when the writer is gone, and for a new segment of the name when it is removed")
        .flag("--consume", chosen->consume, "queue: take the messages, as its one consumer")
        .flag("--numbers", chosen->numbers, "begin each line with the message's number")
        .flag("--json", chosen->json, "one JSON object a line; losses too")
        .details(
            "Ends with code 0 when the writer is gone (without --keep), at --limit, on Ctrl-C, and when the reader of\n"
            "its output goes away; --now ends with 1 when nothing was shown.\n"
            "A watched queue notices nothing; messages that its consumer takes before they were looked at count as\n"
            "lost. With --consume a message is released when it has been written to the output.")
        .run([chosen] { return run_until_stopped([&](const stop_signals& stop) { return follow(*chosen, stop); }); });
    chosen->access.declare(tail_line);
}

}  // namespace holdfast::cli
