// SPDX-License-Identifier: Apache-2.0
// registry_library.hpp - a library that bench/GROUP/peers/build has made out of a registry's packages, opened at run
// time, so that everything else builds without it. One that is missing says why.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

namespace holdfast::bench {

class registry_library {
 public:
    /// Opens libholdfast_NAME.so of that group; never closes it. Where HOLDFAST_GROUP_PEERS (in capitals) names a
    /// folder, it is looked for there, else beside the folder of this build, where bench/run has it built.
    registry_library(std::string_view group, const std::string& name);

    /// Sets `function` to that symbol, or to nothing.
    template <class Function>
    void find(Function& function, const char* symbol) {
        function = reinterpret_cast<Function>(look_up(symbol));
    }
    /// Whether the library is there and had every symbol that was asked for.
    [[nodiscard]] bool whole() const noexcept { return library_ != nullptr && !lacks_; }
    /// Why it is not.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

 private:
    [[nodiscard]] void* look_up(const char* symbol);
    void* library_ = nullptr;
    bool lacks_ = false;
    std::string reason_;
};

}  // namespace holdfast::bench
