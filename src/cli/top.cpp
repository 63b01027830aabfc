// SPDX-License-Identifier: Apache-2.0
// top.cpp - all segments, again and again: how full, how busy, who is behind, whose owner lives.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/stop_signals.hpp"
#include "holdfast/memory/waiting.hpp"
#include "holdfast/segment/identity.hpp"
#include "inspect/activity.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string interval = "1";
    std::uint64_t count = 0;
    bool once = false;
    bool json = false;
    bool readers = false;
};

[[nodiscard]] std::uint64_t interval_ns_of(const std::string& text) {
    double seconds = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (status != std::errc() || end != text.data() + text.size() || !(seconds >= 0.05 && seconds <= 86400))
        throw error(errc::invalid_argument, "--interval " + inspect::printable(text), "is seconds, from 0.05 to 86400");
    return static_cast<std::uint64_t>(seconds * 1e9);
}

[[nodiscard]] std::string short_name(const std::string& uri) {
    constexpr std::string_view posix = "posix:/";
    return inspect::printable(uri.starts_with(posix) ? uri.substr(posix.size()) : uri);
}

/// How full, in parts of a hundred where there is a limit.
[[nodiscard]] std::string fill_text(const inspect::contents& c) {
    const auto part = [](std::uint64_t used, std::uint64_t room) {
        return room == 0 ? std::string("-")
                         : format("{:.0f} %", 100.0 * static_cast<double>(used) / static_cast<double>(room));
    };
    if (c.used_bytes && c.room_bytes) return part(*c.used_bytes, *c.room_bytes);
    return c.size && c.capacity ? part(*c.size, *c.capacity) : "-";
}

/// A rate in four digits: 950, 12.3 k, 4.56 M.
[[nodiscard]] std::string rate_text(const std::optional<double>& rate) {
    if (!rate) return "-";
    if (*rate < 9999.5) return format("{:.0f}", *rate);
    if (*rate < 9.9995e6) return format("{:.1f} k", *rate / 1e3);
    return format("{:.1f} M", *rate / 1e6);
}

[[nodiscard]] std::string lag_text(const inspect::activity& seen) {
    if (!seen.readers_known) return "?";
    if (seen.readers.empty()) return "-";
    std::string text = count_text(seen.lag_max());
    if (seen.readers.size() > 1) text += format(" ({} readers)", seen.readers.size());
    return text;
}

void add_row(text_table& table, const inspect::activity& seen) {
    const inspect::description& d = seen.what;
    std::string kind = d.info ? std::string(kind_name(d.info->kind)) : std::string();
    if (d.problem) kind += format("{}!{}", kind.empty() ? "" : " ", inspect::code_name(d.problem->code));
    table.add({short_name(d.uri), kind, inspect::memory_kind_of(d.uri), d.info ? bytes_text(d.info->total_bytes) : "-",
               d.contents.size ? count_text(*d.contents.size) : "-", fill_text(d.contents), rate_text(seen.per_second),
               lag_text(seen), inspect::writer_text(d)},
              d.problem ? style::bad : style::plain);
}

void add_reader(text_table& table, const inspect::activity& seen, const inspect::reader_lag& reader) {
    const auto if_any = [](const auto& value, auto&& text) { return value ? text(*value) : std::string("-"); };
    table.add(
        {short_name(seen.what.uri), format("{}", reader.slot), count_text(reader.lag), if_any(reader.bytes, bytes_text),
         if_any(reader.lost, count_text),
         if_any(reader.blocked_ns, [](std::uint64_t ns) { return format("{:.3f} s", 1e-9 * static_cast<double>(ns)); }),
         reader.policy.empty() ? "-" : std::string(reader.policy), reader.alive ? "alive" : "dead"},
        reader.alive ? style::plain : style::bad);
}

/// Prints the first of `count` rows that `add` adds: all of them, or what leaves room for a line that says how many
/// not.
template <class Add>
void print_rows(text_table& table, std::size_t count, std::size_t room, Add&& add) {
    const std::size_t shown = count <= room ? count : room - 1;
    for (std::size_t i = 0; i < shown; ++i) add(i);
    if (!table.empty()) table.print();
    if (shown != count) put(format("and {} more\n", count - shown));
}

/// How many lines of `room` the rows of the segments get where the readers' come below them. Both are told of as far as
/// that goes; of few lines the segments get all.
[[nodiscard]] std::size_t room_of_segments(std::size_t segments, std::size_t readers, std::size_t room) {
    constexpr std::size_t between = 2;  // an empty line and a heading
    if (readers == 0 || room < between + 4) return room;
    const std::size_t of_readers = std::min(readers, (room - between) / 2);
    return std::min(segments, room - between - of_readers);
}

/// As many segments as a terminal has lines for; `lines` 0: all. With `readers` those of all segments below them.
void print(const std::vector<inspect::activity>& all, bool readers, std::size_t lines = 0) {
    std::uint64_t bytes = 0;
    std::vector<std::pair<const inspect::activity*, const inspect::reader_lag*>> rows;
    for (const inspect::activity& seen : all) {
        if (seen.what.info) bytes += seen.what.info->total_bytes;
        if (!readers) continue;
        for (const inspect::reader_lag& each : seen.readers) rows.emplace_back(&seen, &each);
    }
    put(format("{}  {} segments, {}\n", inspect::time_of(detail::now_ns()), all.size(), bytes_text(bytes)));
    text_table table({"SEGMENT", "KIND", "MEMORY", "BYTES", "SIZE", "FULL", "OPS/S", "LAG", "WRITER"});
    table.right(3).right(4).right(5).right(6).right(7);
    constexpr std::size_t other_lines = 3;  // above the rows two, and the cursor's
    const std::size_t unlimited = 2 * (all.size() + rows.size()) + 16;
    const std::size_t room = lines == 0 ? unlimited : lines > other_lines ? lines - other_lines : 1;
    const std::size_t room_above = room_of_segments(all.size(), rows.size(), room);
    print_rows(table, all.size(), room_above, [&](std::size_t i) { add_row(table, all[i]); });
    if (rows.empty() || room_above == room) return;
    put("\n");
    text_table below({"SEGMENT", "READER", "LAG", "KEEPS", "LOST", "HELD UP", "POLICY", "STATE"});
    below.right(1).right(2).right(3).right(4).right(5);
    print_rows(below, rows.size(), room - 2 - room_above,
               [&](std::size_t i) { add_reader(below, *rows[i].first, *rows[i].second); });
}

void print_json(const std::vector<inspect::activity>& all, double seconds) {
    std::string text;
    inspect::json_out out(text);
    out.begin_object().member("time", inspect::time_of(detail::now_ns())).member("interval_s", seconds);
    out.key("segments").begin_array();
    for (const inspect::activity& seen : all) append_json(out, seen);
    out.end_array().end_object();
    put(text + "\n");
}

[[nodiscard]] bool on_terminal() {
    const char* const terminal = std::getenv("TERM");
    return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr && std::string_view(terminal) != "dumb";
}

/// Draws the screen anew. What is wider than it is cut off by the terminal, rather than wrapped.
void draw(const std::vector<inspect::activity>& all, bool readers) {
    struct winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    put("\033[?7l\033[2J\033[H");
    print(all, readers, known ? size.ws_row : 0);
    put("\033[?7h");
}

/// Sleeps until the time of the next look, and reads on the way what would wrap. False when it is to end.
[[nodiscard]] bool sleep_until(std::uint64_t due_ns, inspect::activity_watch& watch, const stop_signals& stop) {
    constexpr std::uint64_t tick_ns = 100'000'000;
    for (;;) {
        if (stop.asked() || stop.reader_gone()) return false;
        const std::uint64_t now = memory::deadline::now_ns();
        if (now >= due_ns) return true;
        stop.nap(std::min(due_ns - now, tick_ns));
        watch.tick();
    }
}

int watch_all(const options& chosen, const stop_signals& stop) {
    const std::uint64_t interval_ns = interval_ns_of(chosen.interval);
    const std::uint64_t count = chosen.once ? 1 : chosen.count;
    const bool terminal = on_terminal() && !chosen.json;
    inspect::activity_watch watch;
    std::uint64_t before_ns = memory::deadline::now_ns();
    // Rates take two looks; a terminal shows the first one too.
    std::vector<inspect::activity> all = watch.look();
    if (terminal && count != 1) {
        draw(all, chosen.readers);
        flush_output();
    }
    for (std::uint64_t shown = 0; count == 0 || shown < count; ++shown) {
        if (!sleep_until(before_ns + interval_ns, watch, stop)) return success;
        all = watch.look();
        const std::uint64_t now_ns = memory::deadline::now_ns();
        if (chosen.json) {
            print_json(all, static_cast<double>(now_ns - before_ns) / 1e9);
        } else if (terminal && count != 1) {
            draw(all, chosen.readers);
        } else {
            if (!terminal && shown != 0) put("\n");
            print(all, chosen.readers);
        }
        flush_output();
        before_ns = now_ns;
    }
    return success;
}

}  // namespace

void add_top(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("top", "Watch all segments: how full, operations a second, lag of readers, living writers")
        .option("--interval", chosen->interval, "SECONDS", "between two looks; default 1")
        .option("-n,--count", chosen->count, "N", "end after N looks; 0: never")
        .flag("--once", chosen->once, "one look, after one interval: the same as -n 1")
        .flag("--readers", chosen->readers, "each reader's lag in a line of its own, below the segments")
        .flag("--json", chosen->json, "one JSON object a look, with every reader")
        .details(
            "Looks only: takes no lease and registers nowhere. OPS/S: operations on a hash table, hash map or block\n"
            "store, stores of an array, messages, versions, samples, increments. LAG: messages or versions that the\n"
            "slowest reader has yet to see, of those that say so, or ? where that cannot be seen: it takes the right\n"
            "to read NAME.peers; with --readers each of them. Ends on Ctrl-C, and when the reader of its output goes\n"
            "away.")
        .run(
            [chosen] { return run_until_stopped([&](const stop_signals& stop) { return watch_all(*chosen, stop); }); });
}

}  // namespace holdfast::cli
