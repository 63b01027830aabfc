// SPDX-License-Identifier: Apache-2.0
// dump.cpp - a segment as text that load reads back.
#include <cstdio>
#include <memory>

#include "cli/exit_code.hpp"
#include "cli/format.hpp"
#include "cli/output.hpp"
#include "cli/program.hpp"
#include "cli/progress.hpp"
#include "holdfast/memory/descriptor.hpp"
#include "holdfast/segment.hpp"
#include "inspect/dumper.hpp"

namespace holdfast::cli {

namespace {

struct options {
    std::string segment;
    std::string file;
    std::string format;
    bool no_header = false;
};

[[noreturn]] void fail(const std::string& file) {
    memory::throw_errno(errno, file, "writing the file", "check the disk and its rights");
}

/// Writes to a file beside the wanted one and renames it at the end: nobody finds half a dump there.
class output_file {
 public:
    explicit output_file(std::string path) : path_(std::move(path)), making_(path_ + ".making") {
        file_ = std::fopen(making_.c_str(), "we");
        if (file_ == nullptr) fail(path_);
    }
    output_file(const output_file&) = delete;
    output_file& operator=(const output_file&) = delete;
    ~output_file() {
        if (file_ == nullptr) return;
        std::fclose(file_);
        std::remove(making_.c_str());
    }
    void write(std::string_view text) {
        if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail(path_);
    }
    void finish() {
        const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
        if (closed && std::rename(making_.c_str(), path_.c_str()) == 0) return;
        const int reason = errno;
        std::remove(making_.c_str());
        errno = reason;
        fail(path_);
    }

 private:
    std::string path_;
    std::string making_;
    std::FILE* file_ = nullptr;
};

int dump(const options& chosen) {
    const auto reader = inspect::keyed_reader::open(chosen.segment);
    inspect::dump_options how;
    how.header = !chosen.no_header;
    how.format = chosen.format == "tsv"     ? inspect::file_format::tsv
                 : chosen.format == "jsonl" ? inspect::file_format::json_lines
                 : chosen.format == "csv"   ? inspect::file_format::csv
                                            : inspect::format_of(chosen.file);
    if (chosen.file.empty() || chosen.file == "-") {
        (void)inspect::dump(*reader, how, [](std::string_view text) { put(text); });
        return success;
    }
    output_file file(chosen.file);
    progress_line progress(true);
    std::uint64_t written = 0;
    const std::uint64_t count = inspect::dump(*reader, how, [&](std::string_view text) {
        file.write(text);
        written += text.size();
        progress.show(written, std::nullopt, written, "bytes");
    });
    progress.clear();
    file.finish();
    put(format("{}: {} records, {}\n", chosen.file, count_text(count), bytes_text(written)));
    return success;
}

}  // namespace

void add_dump(command_line& line) {
    const auto chosen = std::make_shared<options>();
    line.add("dump", "Write a hash table or an index as text that load reads back")
        .positional("SEGMENT", chosen->segment, "the segment")
        .option("-o,--output", chosen->file, "FILE", "the file, replaced at once when it is whole; default: stdout")
        .choice("--format", chosen->format, {"csv", "tsv", "jsonl"}, "default: by the file's name, else csv")
        .flag("--no-header", chosen->no_header, "leave the schema out")
        .run([chosen] { return dump(*chosen); });
}

}  // namespace holdfast::cli
