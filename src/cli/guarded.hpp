// SPDX-License-Identifier: Apache-2.0
// guarded.hpp - what a program's main does around its work: whatever is thrown is said and becomes an exit code.
#pragma once

#include <exception>
#include <new>

#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "holdfast/error.hpp"

namespace holdfast::cli {

/// Returns: what work() returns, or the exit code of what it throws.
template <class Work>
[[nodiscard]] int guarded(const Work& work) noexcept {
    try {
        return work();
    } catch (const error& failure) {
        say(failure.what());
        return exit_code_of(failure.reason());
    } catch (const std::bad_alloc&) {
        say("memory: the system gave no more; free some, or ask for less");
        return no_room;
    } catch (const std::exception& failure) {
        say(failure.what());
        return failed;
    }
}

}  // namespace holdfast::cli
