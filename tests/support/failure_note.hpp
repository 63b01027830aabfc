// SPDX-License-Identifier: Apache-2.0
// failure_note.hpp - the first failure of any of several threads.
#pragma once

#include <atomic>

namespace holdfast::test {

/// Threads: any. Requires: texts that live for ever.
class failure_note {
 public:
    void set(const char* text) noexcept {
        const char* none = nullptr;
        text_.compare_exchange_strong(none, text);
    }
    [[nodiscard]] const char* get() const noexcept { return text_.load(); }

 private:
    std::atomic<const char*> text_{nullptr};
};

}  // namespace holdfast::test
