// SPDX-License-Identifier: Apache-2.0
// fibers.hpp - functions that take turns in one thread, each on a stack of its own.
//
// A fiber can be left for good in the middle: its stack is used again, and no destructor runs on it. Not instrumented
// (access_hooks.hpp): it is the schedule's own machinery.
#pragma once

#include <csetjmp>
#include <cstddef>
#include <memory>

namespace holdfast::test {

class fiber {
 public:
    fiber();
    fiber(const fiber&) = delete;
    fiber& operator=(const fiber&) = delete;
    ~fiber();

    /// Makes run(context) what the next resume() begins with; whatever it was doing is dropped.
    void begin(void (*run)(void*), void* context) noexcept;
    /// Runs it until it calls leave() or ends. Requires: begun and not ended; called from outside of any fiber.
    void resume() noexcept;
    /// Back to resume(). Requires: called on this fiber.
    void leave() noexcept;
    [[nodiscard]] bool ended() const noexcept { return ended_; }

 private:
    static void enter(unsigned high, unsigned low) noexcept;

    static constexpr std::size_t stack_bytes = 256 * 1024;
    struct context;
    std::unique_ptr<context> own_;
    void (*run_)(void*) = nullptr;
    void* argument_ = nullptr;
    bool started_ = false, ended_ = true;
};

}  // namespace holdfast::test
