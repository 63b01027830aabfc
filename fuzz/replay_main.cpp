// SPDX-License-Identifier: Apache-2.0
// replay_main.cpp - runs a fuzz target over files instead of under libFuzzer, so that every compiler and sanitizer can.
//
// usage: X_fuzz FOLDER|FILE...   each file once, in the order of names. The name is printed before the run, so that a
// crash is preceded by the input that caused it. A folder without a file is a mistake, not a success.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);

namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& place) {
    std::vector<std::filesystem::path> files;
    if (!std::filesystem::is_directory(place)) return {place};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

bool replay(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
        std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
        return false;
    }
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    std::fprintf(stderr, "%s: %zu bytes\n", file.c_str(), bytes.size());
    // A copy of exactly this size on the heap: the address sanitizer then sees a read of one byte too many.
    const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
    LLVMFuzzerTestOneInput(input.data(), input.size());
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::size_t replayed = 0;
    for (int i = 1; i < argc; ++i) {
        const std::vector<std::filesystem::path> files = files_of(argv[i]);
        if (files.empty()) std::fprintf(stderr, "%s: holds no input; add at least one file\n", argv[i]);
        for (const auto& file : files) {
            if (!replay(file)) return 1;
            ++replayed;
        }
        if (files.empty()) return 1;
    }
    if (replayed == 0) {
        std::fprintf(stderr, "usage: %s FOLDER|FILE...\n", argv[0]);
        return 2;
    }
    std::printf("%zu inputs replayed\n", replayed);
    return 0;
}
