// SPDX-License-Identifier: Apache-2.0
// verify.cpp - looks for damage and says where it lies.
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "inspect/verification.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::vector<std::string> segments;
    bool json = false;
};

void print(const inspect::verification& v) {
    for (const inspect::finding& f : v.findings) {
        const char* const how = f.how == inspect::severity::damage    ? "damage"
                                : f.how == inspect::severity::warning ? "warning"
                                                                      : "note";
        std::string where = f.part;
        if (!f.place.empty()) where += format(", {}", f.place);
        if (f.offset) where += format(", byte {}", *f.offset);
        put(styled(format("{}: {}: {}: {}", v.uri, how, where, inspect::printable(f.what)),
                   f.how == inspect::severity::damage ? style::bad : style::plain) +
            "\n");
    }
    if (v.intact()) {
        put(format("{}: {}", v.uri, styled("intact", style::good)));
        put(format(", {}, {} elements\n", kind_name(v.kind.value_or(container_kind::raw)), count_text(v.elements)));
        return;
    }
    const auto shown = v.findings.size();
    put(format("{}: {}", v.uri, styled(format("{} damages", count_text(v.damages)), style::bad)));
    put(shown == inspect::verification::findings_max ? format(", the first {} findings shown\n", shown) : "\n");
}

int verify(const options& chosen) {
    int code = success;
    std::string text;
    inspect::json_out out(text);
    if (chosen.json) out.begin_array();
    for (const std::string& name : chosen.segments) {
        try {
            const inspect::verification v = inspect::verify(name);
            if (chosen.json)
                append_json(out, v);
            else
                print(v);
            if (!v.intact() && code == success) code = negative;
        } catch (const error& failure) {
            say(failure.what());
            code = exit_code_of(failure.reason());
        }
    }
    if (chosen.json) put(text + "]\n");
    return code;
}

}  // namespace

void add_verify(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("verify", "Look for damage in segments: header, companion files and everything in the body")
        .positionals("SEGMENT", chosen->segments, "the segments")
        .flag("--json", chosen->json, "an array with one object a segment")
        .details(
            "Meant for segments at rest. Beside a working writer a hash table shows no false damage,\n"
            "other kinds may report what is only half done.\n"
            "Exit code 1: damage was found. Notes and warnings are no damage.")
        .run([chosen] { return verify(*chosen); });
}

}  // namespace holdfast::cli
