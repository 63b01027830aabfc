// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file to load: refused with a place in it, or read; and what was read is written and read back to the
// same schema and the same records, in every format. Input: a byte that chooses the format, then the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/dumper.hpp"
#include "inspect/entry_codec.hpp"
#include "inspect/record_input.hpp"
#include "require.hpp"

namespace {

using namespace holdfast::inspect;
using holdfast::fuzz::require;

/// A file without a name that holds the text.
class memory_file {
 public:
    explicit memory_file(std::string_view text) : file_(::memfd_create("loader", MFD_CLOEXEC)) {
        require(::pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    }
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file() { ::close(file_); }
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
    int file_;
};

struct loaded {
    std::string schema;
    std::vector<std::byte> bytes;  // keys and values, one record after the other
    std::size_t records = 0;
    std::size_t bad = 0;
};

/// Reads all records, and writes them in `to` behind a header. Throws: input_error when there is no schema.
loaded read(std::string_view text, file_format from, file_format to, std::string& written) {
    const memory_file file(text);
    line_input lines(file.path());
    record_input input(lines, from, std::nullopt);
    const table_schema& schema = input.schema();
    const entry_codec codec(schema.schema);
    const std::vector<table_column> columns = columns_of(schema.schema);
    loaded result;
    result.schema = schema.text();
    append_header(written, schema, to);
    for (;;) {
        const record_input::outcome got = input.next();
        if (got == record_input::outcome::end) return result;
        if (got == record_input::outcome::bad) {
            require(!input.fault().reason.empty() && input.fault().line > 0);
            ++result.bad;
            continue;
        }
        ++result.records;
        result.bytes.insert(result.bytes.end(), input.key().begin(), input.key().end());
        result.bytes.insert(result.bytes.end(), input.value().begin(), input.value().end());
        if (to == file_format::json_lines) {
            codec.append_json(written, input.key(), input.value());
            written += '\n';
        } else {
            append_row(written, columns, to, input.key(), input.value());
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes == 0) return 0;
    constexpr file_format formats[] = {file_format::csv, file_format::tsv, file_format::json_lines};
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, bytes - 1);
    for (const file_format to : formats) {
        std::string written;
        loaded first;
        try {
            first = read(text, formats[data[0] % 3], to, written);
        } catch (const input_error& refusal) {
            require(refusal.fault().line < 1 + bytes && refusal.fault().column <= 1 + bytes);
            return 0;
        }
        if (first.bytes.size() > (1U << 20)) return 0;  // records of huge fields would only cost time
        std::string again;
        const loaded second = read(written, to, to, again);
        require(second.schema == first.schema && second.records == first.records && second.bytes == first.bytes);
        require(second.bad == 0 && again == written);
    }
    return 0;
}
