// SPDX-License-Identifier: Apache-2.0
// environment.hpp - where a number was taken, and what about that place makes it doubtful.
//
// Read from /proc, /sys and the compiler's macros; what the system does not tell is empty, never guessed. A root other
// than "/" reads the same files below that folder (tests do). Threads: cpu_pin concerns the calling thread; the rest is
// safe from any thread. Source: proc(5), Linux Documentation/admin-guide/pm/cpufreq.rst, personality(2).
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/perf_test/result.hpp"

namespace holdfast::perf_test {

/// How a translation unit was compiled.
struct build_facts {
    std::string compiler;  ///< "g++ 12.2.0", "clang 19.1.7"
    std::string standard;  ///< the C library: "glibc 2.36"
    bool optimised = false, assertions = false;
    std::string sanitizer;     ///< "address", "thread" or empty
    std::string instructions;  ///< widest vector set that the compiler may use: "avx2", "sse2", "neon"
    std::string flags;         ///< HOLDFAST_COMPILE_FLAGS, which linking holdfast::perf_test in CMake defines
};

struct environment {
    std::string cpu;                   ///< model as it names itself; on x86 family and model in numbers as well
    unsigned cpus_online = 0;          ///< of the machine
    unsigned cpus_usable = 0;          ///< that this thread may run on
    std::string governor, boost, smt;  ///< "powersave"; "on" or "off"; "on" or "off"
    std::string huge_pages;            ///< "always", "madvise", "never"
    std::string address_layout;        ///< "random" or "fixed"
    double load_average = -1;          ///< of the last minute; below 0: unknown
    double steal_share = -1;      ///< of all CPU time since boot that the hypervisor gave to others; below 0: unknown
    std::string virtualisation;   ///< "hypervisor", "container", both joined by ", ", or empty
    std::string kernel, machine;  ///< "Linux 6.1.0", "x86_64"
    std::uint64_t memory_bytes = 0;
    build_facts build;
    std::string revision;  ///< of git, if asked for; what is changed and not committed is not seen
    std::string clock;     ///< what single calls are timed by: tick_source
};

struct environment_options {
    std::string root = "/";  ///< where proc/ and sys/ are
    std::string repository;  ///< folder of a git working tree whose revision is wanted; empty: not asked
};

[[nodiscard]] environment this_environment(const build_facts& build, const environment_options& options = {});

/// The date and time in UTC, to the second, as RFC 3339 writes it: when a run began.
[[nodiscard]] std::string utc_now();

/// "debug-build", "sanitizer", "assertions", "governor", "boost", "smt", "load", "steal", "virtual", each with its
/// cure.
[[nodiscard]] std::vector<warning> warnings_of(const environment& where);

/// Commit that HEAD of a working tree stands for, read from git's files; empty if there is none to be found.
[[nodiscard]] std::string git_revision(const std::string& repository);

/// The nearest of a folder and those above it that is a git working tree; empty if none is. Requires: an absolute path.
[[nodiscard]] std::string repository_above(const std::string& folder);

/// The working tree in which this program was built, by the place of its file; else the one it was started in. Empty if
/// there is none.
[[nodiscard]] std::string repository_of_this_program();

/// CPUs that the calling thread may run on, ascending.
[[nodiscard]] std::vector<unsigned> usable_cpus();

/// Ties the calling thread to one CPU for the life of the object. Throws: holdfast::error (invalid_argument) for a CPU
/// that this thread may not use, naming those it may.
class cpu_pin {
 public:
    explicit cpu_pin(unsigned cpu);
    ~cpu_pin();
    cpu_pin(const cpu_pin&) = delete;
    cpu_pin& operator=(const cpu_pin&) = delete;

 private:
    cpu_set_t before_;
};

/// How the calling translation unit was compiled: defined in each of them, so that a user's flags are seen.
[[maybe_unused]] [[nodiscard]] static build_facts this_build() {
    build_facts out;
#if defined(__clang__)
    out.compiler = "clang " __clang_version__;
#elif defined(__GNUC__)
    out.compiler = "g++ " __VERSION__;
#endif
#if defined(__GLIBC__)
    out.standard = "glibc " + std::to_string(__GLIBC__) + "." + std::to_string(__GLIBC_MINOR__);
#endif
#if defined(__OPTIMIZE__)
    out.optimised = true;
#endif
#if !defined(NDEBUG) || defined(_GLIBCXX_ASSERTIONS) || defined(_GLIBCXX_DEBUG)
    out.assertions = true;
#endif
#if defined(__SANITIZE_ADDRESS__)
    out.sanitizer = "address";
#elif defined(__SANITIZE_THREAD__)
    out.sanitizer = "thread";
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
    out.sanitizer = "address";
#elif __has_feature(thread_sanitizer)
    out.sanitizer = "thread";
#endif
#endif
#if defined(__AVX512F__)
    out.instructions = "avx512";
#elif defined(__AVX2__)
    out.instructions = "avx2";
#elif defined(__AVX__)
    out.instructions = "avx";
#elif defined(__SSE2__)
    out.instructions = "sse2";
#elif defined(__ARM_NEON)
    out.instructions = "neon";
#endif
#if defined(HOLDFAST_COMPILE_FLAGS)
    out.flags = HOLDFAST_COMPILE_FLAGS;
#endif
    return out;
}

}  // namespace holdfast::perf_test
