// SPDX-License-Identifier: Apache-2.0
// ls.cpp - which segments there are, in one line each.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "inspect/description.hpp"
#include "inspect/listing.hpp"

namespace holdfast::cli {

namespace {

struct options {
    bool json = false;
    bool quiet = false;
};

/// The name as people type it: posix: is what a bare name means.
[[nodiscard]] std::string short_name(const std::string& uri) {
    constexpr std::string_view posix = "posix:/";
    return inspect::printable(uri.starts_with(posix) ? uri.substr(posix.size()) : uri);
}

[[nodiscard]] std::string fill_text(const inspect::contents& c) {
    if (!c.size) return "-";
    if (!c.capacity) return count_text(*c.size);
    return count_text(*c.size) + " / " + count_text(*c.capacity);
}

void add_row(text_table& table, const inspect::description& d) {
    if (!d.info) {
        const std::string what(d.problem ? inspect::code_name(d.problem->code) : "unknown");
        table.add({short_name(d.uri), format("!{}", what), d.backing ? bytes_text(d.backing->allocated_bytes) : "-",
                   "-", "-"},
                  style::bad);
        return;
    }
    std::string kind(kind_name(d.info->kind));
    if (d.contents.payload && *d.contents.payload != container_kind::raw)
        kind += format("/{}", kind_name(*d.contents.payload));
    if (d.problem) kind += format(" !{}", inspect::code_name(d.problem->code));
    table.add(
        {short_name(d.uri), kind, bytes_text(d.info->total_bytes), fill_text(d.contents), inspect::writer_text(d)},
        d.problem ? style::bad : style::plain);
}

int list(const options& chosen) {
    const std::vector<std::string> names = inspect::list_segments();
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        out.begin_array();
        for (const std::string& name : names) append_json(out, inspect::describe(name));
        out.end_array();
        put(text + "\n");
        return success;
    }
    if (chosen.quiet) {
        for (const std::string& name : names) put(inspect::printable(name) + "\n");
        return success;
    }
    text_table table({"SEGMENT", "KIND", "MEMORY", "FILLED", "WRITER"});
    table.right(2).right(3);
    for (const std::string& name : names) add_row(table, inspect::describe(name));
    if (!table.empty()) table.print();
    return success;
}

}  // namespace

void add_ls(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("ls", "List segments: registered ones, and others found in /dev/shm and System V memory")
        .flag("--json", chosen->json, "an array of the objects that stat --json prints")
        .flag("-q,--quiet", chosen->quiet, "names only")
        .details("Registered segments whose memory is gone are dropped from the registry on the way.")
        .run([chosen] { return list(*chosen); });
}

}  // namespace holdfast::cli
