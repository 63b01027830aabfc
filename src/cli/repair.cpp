// SPDX-License-Identifier: Apache-2.0
// repair.cpp - puts a sound segment in the place of a damaged one, and says what was lost.
#include <memory>
#include <optional>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/output_file.hpp"
#include "cli/program.hpp"
#include "cli/write_access.hpp"
#include "inspect/repair.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string to;
    std::string report;
    bool dry_run = false;
    bool keep_doubtful = false;
    bool json = false;
    bool quiet = false;
    write_access access;
};

void print(const inspect::repair_report& done) {
    if (done.intact) {
        put(format("{}: {}, nothing to repair\n", done.uri, styled("intact", style::good)));
        if (!done.damaged.empty()) put(format("what a repair that was killed left lies in {}\n", done.damaged));
        return;
    }
    for (const inspect::salvage_sum& sum : done.sums)
        put(format("{}: {}: {}\n", inspect::fate_name(sum.what), sum.reason,
                   count_text(sum.items != 0 ? sum.items : sum.notes)));
    put(format("{}: {} kept, {} lost of {}\n", done.uri, count_text(done.kept),
               styled(count_text(done.lost), done.lost != 0 ? style::bad : style::plain),
               kind_name(done.kind.value_or(container_kind::raw))));
    if (done.dry_run) put("nothing was changed\n");
    if (!done.repaired.empty() && done.repaired != done.uri) put(format("repaired to {}\n", done.repaired));
    if (!done.damaged.empty())
        put(format("the damaged segment lies in {} until you remove it (holdfast rm)\n", done.damaged));
}

int repair(const options& chosen) {
    std::optional<output_file> file;
    constexpr mode_t private_to_owner = 0600;  // places may hold keys
    if (!chosen.report.empty()) file.emplace(chosen.report, private_to_owner);
    inspect::repair_options all;
    all.access = chosen.access.options();
    all.to = chosen.to;
    all.dry_run = chosen.dry_run;
    all.keep_doubtful = chosen.keep_doubtful;
    if (file)
        all.each = [&](const inspect::salvage_note& note) {
            std::string line;
            inspect::json_out out(line);
            append_json(out, note);
            file->write(line + "\n");
        };
    const inspect::repair_report done = inspect::repair(chosen.segment, all);
    if (chosen.json) {
        std::string text;
        inspect::json_out out(text);
        append_json(out, done);
        put(text + "\n");
    } else if (!chosen.quiet) {
        print(done);
    }
    if (file) file->finish();  // last: what was done stands, and is told, also where the report cannot be written
    return done.lost == 0 ? success : negative;
}

}  // namespace

void add_repair(command_line& line) {
    const auto chosen = std::make_shared<options>();
    command repair_line = line.add(
        "repair", "Put a sound segment in the place of one whose bytes were damaged, with all that is sound in it");
    repair_line.positional("SEGMENT", chosen->segment, "the segment, at rest: its writer has ended")
        .option("--to", chosen->to, "SEGMENT", "make the repaired segment there and leave the damaged one in its place")
        .flag("--dry-run", chosen->dry_run, "say what would be kept and lost, and change nothing")
        .flag("--keep-doubtful", chosen->keep_doubtful,
              "keep also what only a checksum that it shares with others speaks against")
        .option("--report", chosen->report, "FILE",
                "write a JSON line for each thing that was lost, doubtful or mended")
        .flag("--json", chosen->json, "print what was done as a JSON object")
        .flag("-q,--quiet", chosen->quiet, "print nothing but errors")
        .details(
            "Only needed where others damaged bytes: what a killed writer leaves, the next one finishes by itself.\n"
            "The damaged segment goes on as SEGMENT.damaged until you remove it. "
            "Exit code 0: intact, or repaired with\n"
            "all that was in it; 1: repaired, and something was lost; 4: nothing can be proved sound.")
        .run([chosen] { return repair(*chosen); });
    chosen->access.declare(repair_line);
}

}  // namespace holdfast::cli
