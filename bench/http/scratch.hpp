// SPDX-License-Identifier: Apache-2.0
// scratch.hpp - a folder of one run and the segments named after it, both removed in the end.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace holdfast::bench::http {

class scratch {
 public:
    scratch() {
        // In memory where there is such a place: files that a subject answers with are then no disk's affair.
        const std::filesystem::path base =
            ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
        std::string pattern = (base / "holdfast-http-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
        folder_ = pattern;
        table_ = folder_.filename().string() + "-table";  // the folder's name is unique, so this one is
    }
    ~scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(folder_, ignored);
        for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", ignored))
            if (entry.path().filename().string().starts_with(table_)) std::filesystem::remove(entry.path(), ignored);
    }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;

    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
    [[nodiscard]] const std::string& table() const noexcept { return table_; }

 private:
    std::filesystem::path folder_;
    std::string table_;
};

}  // namespace holdfast::bench::http
