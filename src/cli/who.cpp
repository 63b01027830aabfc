// SPDX-License-Identifier: Apache-2.0
// who.cpp - who writes, reads and has a segment mapped.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "inspect/processes.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    bool json = false;
};

[[nodiscard]] std::string writer_text(const inspect::usage& who) {
    std::string text(inspect::lease_name(who.lease));
    if (who.owner.pid == 0) return text;
    const std::string since = inspect::time_of(who.owner.since_ns);
    if (who.owner_alive)
        return text + format("; process {} ({}) took it at {}", who.owner.pid, who.owner_command, since);
    return text + format("; last taken by process {}, now gone, at {}", who.owner.pid, since);
}

[[nodiscard]] std::string writers_text(const inspect::usage& who) {
    std::string text = format("{} of {} slots", who.writers.size(), who.writer_slots);
    const char* before = ": process ";
    for (const writer_slot_holder& w : who.writers) {
        text += before + std::to_string(w.pid);
        before = ", ";
    }
    return text;
}

void print(const inspect::usage& who) {
    text_list list;
    list.add("segment", who.uri);
    list.add("lease", writer_text(who));
    if (who.writer_slots != 0) list.add("writers", writers_text(who));
    if (who.reader_slots != 0)
        list.add("readers", format("{} registered of {} slots", who.readers.size(), who.reader_slots));
    list.print();
    text_table table({"PID", "COMMAND", "ACCESS", "LEASE", "PEERS"});
    table.right(0);
    for (const inspect::attached_process& p : who.processes)
        table.add({std::to_string(p.pid), p.command,
                   p.writes_data ? "read-write"
                   : p.maps_data ? "read"
                                 : "-",
                   p.opens_lease ? "open" : "-", p.maps_peers ? "mapped" : "-"});
    if (!table.empty()) table.print();
}

int show(const options& chosen) {
    const inspect::usage who = inspect::usage_of(chosen.segment);
    if (!chosen.json) {
        print(who);
        return success;
    }
    std::string text;
    inspect::json_out out(text);
    append_json(out, who);
    put(text + "\n");
    return success;
}

}  // namespace

void add_who(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("who", "Show who holds the lease, which registered readers live, which processes have it mapped")
        .positional("SEGMENT", chosen->segment, "the segment")
        .flag("--json", chosen->json, "one JSON object")
        .details(
            "Lease and readers are asked of the kernel's locks. Processes come from /proc, where other users'\n"
            "processes show to root only.")
        .run([chosen] { return show(*chosen); });
}

}  // namespace holdfast::cli
