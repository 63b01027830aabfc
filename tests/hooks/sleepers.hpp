// SPDX-License-Identifier: Apache-2.0
// sleepers.hpp - stands in for the kernel where logical processes of one thread sleep on a futex word: the linker's
// --wrap leads the headers' system call here.
#pragma once

#include <cstdint>

namespace holdfast::test {

/// Hears of FUTEX_WAIT and FUTEX_WAKE while a futex_watch of it lives. Must not throw.
class futex_listener {
 public:
    /// Returns: 0 woken, else the errno: EAGAIN, the word is not `seen`; ETIMEDOUT.
    virtual int sleep(const std::uint32_t* word, std::uint32_t seen) noexcept = 0;
    virtual void wake(const std::uint32_t* word) noexcept = 0;

 protected:
    ~futex_listener() = default;
};

/// Until its end futex calls are the listener's; other system calls stay the kernel's. Requires: no other is alive.
class futex_watch {
 public:
    explicit futex_watch(futex_listener& listener) noexcept;
    futex_watch(const futex_watch&) = delete;
    futex_watch& operator=(const futex_watch&) = delete;
    ~futex_watch();
};

}  // namespace holdfast::test
