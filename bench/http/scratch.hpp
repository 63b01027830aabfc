// SPDX-License-Identifier: Apache-2.0
// scratch.hpp - a folder of one run and the segments named after it, all removed in the end (workload/run_names.hpp).
//
// In memory where there is such a place: files that a subject answers with are then no disk's affair.
#pragma once

#include <filesystem>
#include <string>

#include "workload/run_names.hpp"

namespace holdfast::bench::http {

class scratch {
 public:
    scratch() : folder_(names_.folder() / (names_.prefix() + "-files")) { std::filesystem::create_directory(folder_); }

    [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
    [[nodiscard]] std::string table() const { return names_.prefix() + "-table"; }

 private:
    workload::run_names names_{"http"};
    std::filesystem::path folder_;
};

}  // namespace holdfast::bench::http
