// SPDX-License-Identifier: Apache-2.0
// sleepers.hpp - stands in for the kernel where logical processes of one thread sleep on a futex word, ask for a lock
// or the time, or map one file twice, and tells of their calls about names of files: the linker's --wrap leads the
// headers' calls here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace holdfast::test {

/// Hears of FUTEX_WAIT and FUTEX_WAKE while a futex_watch of it lives. Must not throw.
class futex_listener {
 public:
    /// Returns: 0 woken, else the errno: EAGAIN, the word is not `seen`; ETIMEDOUT.
    virtual int sleep(const std::uint32_t* word, std::uint32_t seen) noexcept = 0;
    virtual void wake(const std::uint32_t* word) noexcept = 0;
    /// Whether whoever asks for a lock finds it free: the other is dead, though its descriptors are open.
    [[nodiscard]] virtual bool locks_are_free() const noexcept { return false; }

 protected:
    ~futex_listener() = default;
};

/// Until its end futex calls are the listener's and the clocks stand still; other system calls stay the kernel's.
/// Requires: no other is alive.
class futex_watch {
 public:
    explicit futex_watch(futex_listener& listener) noexcept;
    futex_watch(const futex_watch&) = delete;
    futex_watch& operator=(const futex_watch&) = delete;
    ~futex_watch();
};

/// Hears of calls about names of files while a name_watch of it lives: the kernel does each behind it, at once. Must
/// not throw.
class name_listener {
 public:
    /// `changes`: the name will lead elsewhere, or nowhere; else somebody asks where it leads.
    virtual void before_name_call(std::string_view path, bool changes) noexcept = 0;
    /// What the kernel's random bytes are, each time.
    virtual std::byte random_byte() noexcept = 0;

 protected:
    ~name_listener() = default;
};

/// Meanwhile nobody learns from /proc of limits, or who he is, which would take longer than all else.
/// Requires: no other is alive.
class name_watch {
 public:
    explicit name_watch(name_listener& listener) noexcept;
    name_watch(const name_watch&) = delete;
    name_watch& operator=(const name_watch&) = delete;
    ~name_watch();
};

/// Until its end mappings of the same length that handles ask for lie at one address, and the first of one length right
/// behind those of another: logical processes that open one file each share its words, and all lie in one span. Where
/// one may write, another's read-only mapping is the same.
/// Requires: no other is alive; no mapping made meanwhile outlives it.
class one_address {
 public:
    one_address();
    one_address(const one_address&) = delete;
    one_address& operator=(const one_address&) = delete;
    ~one_address();
    /// From the first of these mappings to the end of the last.
    [[nodiscard]] static std::span<std::byte> bytes() noexcept;
};

}  // namespace holdfast::test
