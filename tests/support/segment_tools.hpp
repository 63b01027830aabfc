// SPDX-License-Identifier: Apache-2.0
// segment_tools.hpp - segments with a known content, and what is said when something about one fails.
#pragma once

#include <gtest/gtest.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/segment.hpp"
#include "support/seed.hpp"
#include "support/unique_name.hpp"

namespace holdfast::test {

/// The errc that `action` throws, with its text; nothing when it succeeds. Any other exception passes through.
struct refusal {
    errc code;
    std::string text;
    friend bool operator==(const refusal& a, errc b) noexcept { return a.code == b; }
    friend std::ostream& operator<<(std::ostream& out, const refusal& r) { return out << r.text; }
};

template <class Action>
[[nodiscard]] std::optional<refusal> refusal_of(Action&& action) {
    try {
        std::forward<Action>(action)();
    } catch (const error& e) {
        return refusal{e.reason(), e.what()};
    }
    return std::nullopt;
}

/// "" when `action` is refused with `wanted` and a cure; else what happened instead. Usable in a forked child.
template <class Action>
[[nodiscard]] std::string expect_refusal(errc wanted, Action&& action) {
    const std::optional<refusal> got = refusal_of(std::forward<Action>(action));
    if (!got) return "not refused, where \"" + make_error_code(wanted).message() + "\" is due";
    if (got->code != wanted)
        return "refused with another code than \"" + make_error_code(wanted).message() + "\": " + got->text;
    return {};
}

inline constexpr std::size_t pattern_bytes = std::size_t{64} << 10;

/// A raw segment of 64 KiB whose words are all functions of `seed`.
[[nodiscard]] inline segment_spec pattern_spec(std::uint64_t seed, std::size_t body_bytes = pattern_bytes) {
    segment_spec spec;
    spec.kind = container_kind::raw;
    spec.schema = "value {value:u64@0}#8";
    spec.geometry[0] = seed;
    spec.body_bytes = body_bytes;
    return spec;
}

inline void fill_pattern(std::span<std::byte> body, std::uint64_t seed) noexcept {
    for (std::size_t at = 0; at + 8 <= body.size(); at += 8) {
        const std::uint64_t word = random_at(seed, 0, at);
        std::memcpy(body.data() + at, &word, 8);
    }
}

/// "" when the body carries the pattern of the seed in its geometry, that is, is whole.
[[nodiscard]] inline std::string pattern_fault(const segment& s) {
    const std::span<const std::byte> body = s.bytes();
    if (body.size() != s.info().body_bytes) return "the body has another size than the header says";
    for (std::size_t at = 0; at + 8 <= body.size(); at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, body.data() + at, 8);
        if (word != random_at(s.info().geometry[0], 0, at))
            return "byte " + std::to_string(at) + " is not the creator's";
    }
    return {};
}

[[nodiscard]] inline segment create_pattern(const std::string& uri, std::uint64_t seed,
                                            const create_options& options = {},
                                            std::size_t body_bytes = pattern_bytes) {
    return segment::create(uri, pattern_spec(seed, body_bytes), options,
                           [&](std::span<std::byte> body) { fill_pattern(body, seed); });
}

/// "" when there is no segment of that name or a whole one. A System V segment has its name before its content; until
/// then it says not_ready, which counts as none.
[[nodiscard]] inline std::string nothing_or_whole(const std::string& uri, bool& there) {
    there = false;
    std::string fault;
    const auto refused = refusal_of([&] {
        const segment s = segment::attach(uri, access::read_only);
        there = true;
        fault = pattern_fault(s);
    });
    const bool unready = refused && refused->code == errc::not_ready && uri.starts_with("sysv");
    if (refused && refused->code != errc::not_found && !unready) return "attaching: " + refused->text;
    return fault;
}

/// A System V key that nobody uses; what is made under it goes with it.
class unique_system_v_name {
 public:
    explicit unique_system_v_name(bool huge = false) {
        do key_ = 1 + static_cast<key_t>(std::random_device()() % 0x7FFFFFFEU);
        while (::shmget(key_, 0, 0) >= 0);
        uri_ = (huge ? "sysv+huge:" : "sysv:") + std::to_string(key_);
    }
    unique_system_v_name(const unique_system_v_name&) = delete;
    unique_system_v_name& operator=(const unique_system_v_name&) = delete;
    ~unique_system_v_name() {
        if (owner_ != ::getpid()) return;
        if (const int id = ::shmget(key_, 0, 0); id >= 0) ::shmctl(id, IPC_RMID, nullptr);
        const auto where = holdfast::detail::places_of(memory::uri::parse(uri_));
        ::unlink(where.lease().c_str());
        ::unlink(where.peers().c_str());
    }
    [[nodiscard]] const std::string& uri() const noexcept { return uri_; }
    [[nodiscard]] key_t key() const noexcept { return key_; }

 private:
    key_t key_ = 0;
    std::string uri_;
    pid_t owner_ = ::getpid();
};

/// Tests of segments register what they create in a directory of their own.
class segment_test : public ::testing::Test {
 protected:
    unique_directory registry_{"registry"};
    scoped_environment environment_{"HOLDFAST_REGISTRY", registry_.path()};
};

}  // namespace holdfast::test
