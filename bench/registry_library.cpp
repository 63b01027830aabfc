// SPDX-License-Identifier: Apache-2.0
#include "bench/registry_library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace holdfast::bench {

namespace {

[[nodiscard]] std::filesystem::path folder(std::string_view group) {
    std::string variable = "HOLDFAST_" + std::string(group) + "_PEERS";
    std::ranges::transform(variable, variable.begin(),
                           [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    if (const char* const given = std::getenv(variable.c_str())) return given;
    std::error_code failed;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
    return program.parent_path().parent_path().parent_path() / "peers" / group;
}

}  // namespace

registry_library::registry_library(std::string_view group, const std::string& name) {
    const auto path = folder(group) / ("libholdfast_" + name + ".so");
    if (!std::filesystem::exists(path)) {
        std::ifstream said(folder(group) / (name + ".missing"));
        std::getline(said, reason_);
        if (reason_.empty())
            reason_ = "not built; bench/" + std::string(group) + "/peers/build builds it, and ./dev bench calls that";
        return;
    }
    library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) reason_ = ::dlerror();
}

void* registry_library::look_up(const char* symbol) {
    void* const found = library_ == nullptr ? nullptr : ::dlsym(library_, symbol);
    if (found == nullptr) {
        lacks_ = true;
        if (reason_.empty()) reason_ = "the library is from another version of this tree; build it anew";
    }
    return found;
}

}  // namespace holdfast::bench
