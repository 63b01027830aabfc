// SPDX-License-Identifier: Apache-2.0
// get.cpp - one answer out of a segment: the entry of a key, a counter, a snapshot's object, a histogram's quantiles.
#include <cmath>
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "holdfast/detail/concat.hpp"
#include "inspect/attach.hpp"
#include "inspect/keyed_reader.hpp"
#include "inspect/map_reader.hpp"
#include "inspect/metrics_reader.hpp"
#include "inspect/object_reader.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string key;
    bool exact = false;
    bool json = false;
};

[[noreturn]] void refuse_key(const std::string& uri, const std::string& why) {
    throw error(errc::invalid_argument, uri, why);
}

int answer(inspect::lookup status, const options& chosen, const std::string& uri) {
    switch (status) {
        case inspect::lookup::found: return success;
        case inspect::lookup::bad_key:
        case inspect::lookup::absent: say(format("{}: no entry for {}", uri, inspect::printable(chosen.key))); break;
        case inspect::lookup::empty: say(format("{}: nothing was published yet", uri)); break;
        case inspect::lookup::contended:
            throw error(errc::contended, uri, "its writer changes it faster than it can be read; try again");
        case inspect::lookup::damaged:
            throw error(errc::corrupt, uri, "damage was met on the way; holdfast verify says where");
        case inspect::lookup::cut_off:
            throw error(errc::truncated, uri,
                        "the file was cut off while it was read; restore the segment or make it anew");
    }
    return negative;
}

int get_entry(const options& chosen) {
    const auto reader = inspect::keyed_reader::open(chosen.segment);
    const std::string& uri = reader->memory().uri();
    if (chosen.key.empty()) refuse_key(uri, "name the key that you ask for");
    std::string text;
    const auto how = chosen.exact ? inspect::match::exact : inspect::match::covering;
    const inspect::lookup_result result = reader->get(chosen.key, how, text);
    if (result.status == inspect::lookup::bad_key)
        refuse_key(uri, detail::concat("the key is none of this segment's: ", result.reason));
    if (result) put(text + "\n");
    return answer(result.status, chosen, uri);
}

int get_counter(const options& chosen, const segment& from) {
    if (chosen.key.empty()) refuse_key(from.uri(), "name the key that you ask for");
    std::string text;
    bool found = false;
    const auto look_at = [&](std::string_view family, std::string_view labels, std::uint64_t value) {
        std::string name(family);
        if (!labels.empty()) name = detail::concat(family, "{", labels, "}");
        if (name != chosen.key) return true;
        found = true;
        if (chosen.json) {
            inspect::json_out out(text);
            out.begin_object().member("name", family).member("labels", labels).member("value", value).end_object();
        } else {
            text = std::to_string(value);
        }
        return false;
    };
    const counter_walk met = inspect::walk_counters(from, look_at);
    inspect::require_whole(from);
    // A name that cannot be read or found may be the one that was asked for.
    const auto missing = met.damaged != 0 ? inspect::lookup::damaged : inspect::lookup::absent;
    if (!found) return answer(missing, chosen, from.uri());
    put(text + "\n");
    return success;
}

void print(const histogram_counts& counts) {
    text_list list;
    list.add("count", count_text(counts.total()));
    for (const double q : {0.0, 0.5, 0.9, 0.99, 0.999, 1.0})
        if (const auto found = counts.quantile(q))
            list.add(format("p{}", q * 100), format("{:.0f} ns  ({} to {}, {:.0f} %)", found->estimate, found->lower,
                                                    found->upper, std::floor(found->confidence * 100)));
    list.print();
}

int get_latencies(const options& chosen, const segment& from) {
    const histogram_counts counts = inspect::latencies_of(from);
    inspect::require_whole(from);
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        inspect::append_json(out, counts);
        put(text + "\n");
    } else {
        print(counts);
    }
    return counts.total() == 0 ? negative : success;
}

int get_object(const options& chosen, const std::shared_ptr<const segment>& from) {
    std::string text;
    const inspect::lookup_result result = inspect::read_object(from, text);
    if (result) put(text);
    return answer(result.status, chosen, from->uri());
}

int get_from_map(const options& chosen, const std::shared_ptr<const segment>& from) {
    const inspect::map_reader map(from);
    if (chosen.key.empty()) refuse_key(from->uri(), "name the key that you ask for");
    std::string text;
    const inspect::lookup_result result = map.get(chosen.key, text);
    if (result.status == inspect::lookup::bad_key)
        refuse_key(from->uri(), detail::concat("the key is none of this segment's: ", result.reason));
    if (result) put(text + "\n");
    return answer(result.status, chosen, from->uri());
}

int get(const options& chosen) {
    const std::shared_ptr<const segment> from = inspect::attach_to_look(chosen.segment);
    switch (from->info().kind) {
        case container_kind::counter_set: return get_counter(chosen, *from);
        case container_kind::latency_histogram: return get_latencies(chosen, *from);
        case container_kind::hash_map: return get_from_map(chosen, from);
        case container_kind::snapshot:
            if (!inspect::publishes_index(*from)) return get_object(chosen, from);
            break;
        default: break;
    }
    return get_entry(chosen);
}

}  // namespace

void add_get(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("get", "Look a key up and print its entry as JSON; in an index of ranges the one that covers the key")
        .positional("SEGMENT", chosen->segment, "the segment")
        .positional("KEY", chosen->key, "the key; of several fields FIELD=TEXT,... or TEXT,TEXT", false)
        .flag("--exact", chosen->exact, "only the range that begins with the key")
        .flag("--json", chosen->json, "JSON also for counters and histograms")
        .details(
            "A key that begins with - stands behind --. A counter's key is NAME or NAME{LABELS}, an array's\n"
            "elements have their index. A snapshot of plain objects and a histogram have no key. "
            "Exit code 1: there is\n"
            "no such entry.")
        .run([chosen] { return get(*chosen); });
}

}  // namespace holdfast::cli
