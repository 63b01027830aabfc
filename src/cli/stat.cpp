// SPDX-License-Identifier: Apache-2.0
// stat.cpp - all that one segment says of itself.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "inspect/description.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    bool json = false;
};

void add_part(text_list& list, const char* title, const std::optional<record_schema>& part) {
    if (!part) return;
    std::string text;
    for (const field& f : part->fields()) text += (text.empty() ? "" : ",") + f.name + ":" + type_text(f);
    list.add(title, text + format("  ({})", bytes_text(part->bytes())));
}

[[nodiscard]] std::string lease_text(const inspect::description& d) {
    std::string text(inspect::lease_name(d.lease));
    if (d.info && d.info->policy == writers::many) text += ", shared by many writers";
    if (d.contents.writer_slots) text += format(" ({} at once)", *d.contents.writer_slots);
    if (d.owner.pid != 0)
        text += format("; last taken by process {}{} at {}", d.owner.pid, d.owner_alive ? " (running)" : " (gone)",
                       inspect::time_of(d.owner.since_ns));
    return text;
}

[[nodiscard]] std::string pages_text(const memory::page_report& pages) {
    std::string text = bytes_text(pages.page_bytes);
    text += pages.huge_bytes == 0 ? std::string(", none huge") : ", " + bytes_text(pages.huge_bytes) + " in huge pages";
    if (pages.locked_bytes != 0) text += ", " + bytes_text(pages.locked_bytes) + " locked";
    return text;
}

void add_contents(text_list& list, const inspect::contents& c) {
    if (c.payload) list.add("payload", std::string(kind_name(*c.payload)));
    if (c.version) list.add("version", *c.version == 0 ? "none published yet" : count_text(*c.version));
    if (c.size)
        list.add("filled", c.capacity ? count_text(*c.size) + " of " + count_text(*c.capacity) : count_text(*c.size));
    if (c.room_bytes)
        list.add("room", c.used_bytes ? bytes_text(*c.used_bytes) + " of " + bytes_text(*c.room_bytes) + " used"
                                      : bytes_text(*c.room_bytes));
    if (c.range_end) list.add("ranges", "from the key to " + *c.range_end);
}

void print(const inspect::description& d) {
    text_list list;
    list.add("segment", d.uri);
    if (d.info) {
        list.add("kind", format("{}, layout {}", kind_name(d.info->kind), d.info->container_version));
        if (d.schema) {
            add_part(list, "key", d.schema->key);
            add_part(list, "value", d.schema->value);
        }
        add_contents(list, d.contents);
        list.add("bytes", format("{} ({})", bytes_text(d.info->total_bytes), d.info->total_bytes));
        list.add("created", inspect::time_of(d.info->created_ns));
    }
    if (d.backing)
        list.add("memory", format("{} reserved, mode {:04o}, user {}, group {}", bytes_text(d.backing->allocated_bytes),
                                  d.backing->mode, d.backing->uid, d.backing->gid));
    if (d.pages.page_bytes != 0) list.add("pages", pages_text(d.pages));
    list.add("lease", lease_text(d));
    if (d.info) list.add("epoch", count_text(d.epoch));
    list.add("registered", d.registered ? "yes" : "no");
    list.print();
}

int describe(const options& chosen) {
    const inspect::description d = inspect::describe(chosen.segment, {.pages = true});
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        append_json(out, d);
        put(text + "\n");
    } else if (d.info || d.backing) {
        print(d);
    }
    if (!d.problem) return success;
    throw error(d.problem->code, d.uri, d.problem->text);
}

}  // namespace

void add_stat(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("stat", "Show what a segment says of itself: kind, fields, how full, pages obtained, lease")
        .positional("SEGMENT", chosen->segment, "the segment")
        .flag("--json", chosen->json, "one JSON object; a damaged segment has its problem in it")
        .run([chosen] { return describe(*chosen); });
}

}  // namespace holdfast::cli
