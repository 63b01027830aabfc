// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of `holdfast save`: restored into private memory or refused, as they are, and then once more with
// checksums that fit, so that every restorer meets nonsense. What is restored is sound and can be written to.
// Input: a saved file.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "holdfast/error.hpp"
#include "inspect/restorer.hpp"
#include "inspect/saved_file.hpp"
#include "inspect/saver.hpp"
#include "inspect/verification.hpp"
#include "inspect/verify_body.hpp"
#include "require.hpp"

namespace {

using namespace holdfast;
using fuzz::require;

/// A file without a name, used again for each text.
class memory_file {
 public:
    memory_file() : file_(::memfd_create("saved", MFD_CLOEXEC)) { require(file_ >= 0); }
    memory_file(const memory_file&) = delete;
    memory_file& operator=(const memory_file&) = delete;
    ~memory_file() { ::close(file_); }
    [[nodiscard]] std::string holding(std::string_view text) const {
        require(::ftruncate(file_, 0) == 0);
        require(::pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
        return "/proc/self/fd/" + std::to_string(file_);
    }

 private:
    int file_;
};

void restore(std::string_view text) {
    static const memory_file file;
    std::shared_ptr<const segment> made;
    try {
        inspect::saved_reader reader(file.holding(text));
        made = std::make_shared<const segment>(inspect::restore_segment(reader, "heap:", {}));
    } catch (const error&) {
        return;
    }
    inspect::verification found;
    inspect::verify_body(made, found);
    require(found.intact());
}

/// The same contents under checksums that fit. Numbers are small, so that no segment is large, or beyond all sense.
std::string resealed(std::span<const std::byte> left) {
    const auto take = [&](void* into, std::size_t bytes) {
        bytes = std::min(bytes, left.size());
        if (bytes != 0) std::memcpy(into, left.data(), bytes);
        left = left.subspan(bytes);
    };
    inspect::saved_header header;
    take(&header, sizeof header);
    header.magic = inspect::saved_magic;
    header.version = inspect::saved_version;
    header.peer_slots %= 64;
    for (std::uint64_t& number : header.parameters)
        if (number < std::uint64_t{1} << 62) number %= 4096 + 1;
    std::string schema(std::min<std::size_t>(header.schema_bytes, 2000), '\0');
    take(schema.data(), schema.size());
    const auto skip = [&](std::size_t bytes) { left = left.subspan(std::min(bytes, left.size())); };
    skip((8 - schema.size() % 8) % 8 + 8);
    std::string text;
    inspect::saved_writer to([&](std::string_view part) { text.append(part); }, header, schema);
    while (!left.empty()) {
        std::uint64_t head[2] = {0, 0};
        take(head, sizeof head);
        const auto part = left.first(std::min<std::size_t>(left.size(), head[0] % 8192));
        skip(part.size());
        if (!part.empty()) to.add(part, head[1]);
        skip((8 - part.size() % 8) % 8 + 8);
    }
    to.finish();
    return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
    restore({reinterpret_cast<const char*>(data), size});
    restore(resealed(input));
    return 0;
}
