// SPDX-License-Identifier: Apache-2.0
// replay_main.cpp - runs a fuzz target without libFuzzer, so that every compiler and sanitizer can.
//
// usage: X_fuzz FOLDER|FILE...            each file once, in the order of names
//        X_fuzz --mutate N FOLDER|FILE... then N inputs made from those files by mutation.hpp; HOLDFAST_TEST_SCALE
//                                         multiplies N, HOLDFAST_TEST_SEED repeats a run
//        X_fuzz --make SEED ROUND FILE FOLDER|FILE...   writes one such input to FILE, to be kept
//
// A file's name is printed before its run, and a mutated input that ends the program, or takes more than 10 seconds,
// is told by its number. A folder without a file is a mistake, not a success.
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "mutation.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes);
// Of the sanitizers, where there is one.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using holdfast::fuzz::input;

std::vector<std::filesystem::path> files_of(const std::filesystem::path& place) {
    std::vector<std::filesystem::path> files;
    if (!std::filesystem::is_directory(place)) return {place};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(place))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    if (files.empty()) std::fprintf(stderr, "%s: holds no input; add at least one file\n", place.c_str());
    return files;
}

bool read(const std::filesystem::path& file, input& into) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
        std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
        return false;
    }
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    // A copy of exactly this size on the heap: the address sanitizer then sees a read of one byte too many.
    into.assign(bytes.begin(), bytes.end());
    into.shrink_to_fit();
    return true;
}

// Reads all files. Returns: whether there were some, and all could be read.
bool read_all(std::span<char*> places, std::vector<input>& corpus, bool run) {
    for (const char* place : places) {
        const std::vector<std::filesystem::path> files = files_of(place);
        if (files.empty()) return false;
        for (const auto& file : files) {
            if (!read(file, corpus.emplace_back())) return false;
            if (!run) continue;
            std::fprintf(stderr, "%s: %zu bytes\n", file.c_str(), corpus.back().size());
            LLVMFuzzerTestOneInput(corpus.back().data(), corpus.back().size());
        }
    }
    return !corpus.empty();
}

// What signal handlers may look at.
std::atomic<std::uint64_t> seed_now{0}, round_now{0}, round_of_last_look{0};
char subject_name[256];

// Nothing but write(): this runs in signal handlers.
void say(const char* text) { (void)!::write(STDERR_FILENO, text, std::strlen(text)); }
void say(std::uint64_t number) {
    char digits[21];
    std::size_t at = sizeof digits;
    digits[--at] = '\0';
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) != 0);
    say(digits + at);
}
void name_the_input() {
    say("\nin an input made by mutation; keep it: ");
    say(subject_name);
    say(" --make ");
    say(seed_now);
    say(" ");
    say(round_now);
    say(" FILE CORPUS\n");
}
void on_signal(int number) {
    name_the_input();
    ::signal(number, SIG_DFL);
    ::raise(number);
}
void on_timer(int) {
    if (round_of_last_look.exchange(round_now) != round_now) return;
    say("\nno end within 10 seconds ");
    name_the_input();
    std::abort();
}

void watch(const char* program) {
    std::snprintf(subject_name, sizeof subject_name, "%s", program);
    round_of_last_look = ~std::uint64_t{0};
    if (__sanitizer_set_death_callback != nullptr) {
        __sanitizer_set_death_callback(name_the_input);
    } else {
        for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) ::signal(number, on_signal);
        // Whoever asks for more has believed a length that it read. (The sanitizers reserve address space by the TB.)
        const rlimit memory{std::size_t{1} << 30, std::size_t{1} << 30};
        ::setrlimit(RLIMIT_AS, &memory);
    }
    ::signal(SIGABRT, on_signal);
    ::signal(SIGALRM, on_timer);
    const itimerval every{.it_interval = {10, 0}, .it_value = {10, 0}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
}

std::uint64_t number_of(const char* text) { return std::strtoull(text, nullptr, 0); }

std::uint64_t chosen_seed() {
    if (const char* text = std::getenv("HOLDFAST_TEST_SEED"); text != nullptr && *text != '\0') return number_of(text);
    std::random_device entropy;
    return (std::uint64_t{entropy()} << 32) | entropy();
}

std::uint64_t scaled(std::uint64_t count) {
    const char* text = std::getenv("HOLDFAST_TEST_SCALE");
    const double scale = text != nullptr ? std::strtod(text, nullptr) : 1;
    return scale > 0 && scale <= 1e6 ? static_cast<std::uint64_t>(static_cast<double>(count) * scale) : count;
}

int mutate(const char* program, std::uint64_t count, std::span<char*> places) {
    std::vector<input> corpus;
    if (!read_all(places, corpus, true)) return 1;
    const std::uint64_t seed = chosen_seed(), rounds = scaled(count);
    seed_now = seed;
    std::fprintf(stderr, "HOLDFAST_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
    watch(program);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        round_now = round;
        input made = holdfast::fuzz::mutated(corpus, seed, round);
        made.shrink_to_fit();
        LLVMFuzzerTestOneInput(made.data(), made.size());
    }
    std::printf("%zu inputs replayed, %llu executions of mutated ones\n", corpus.size(),
                static_cast<unsigned long long>(rounds));
    return 0;
}

int make(std::uint64_t seed, std::uint64_t round, const char* to, std::span<char*> places) {
    std::vector<input> corpus;
    if (!read_all(places, corpus, false)) return 1;
    const input made = holdfast::fuzz::mutated(corpus, seed, round);
    std::ofstream out(to, std::ios::binary);
    out.write(reinterpret_cast<const char*>(made.data()), static_cast<std::streamsize>(made.size()));
    out.flush();
    return out ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> arguments(argv, static_cast<std::size_t>(argc));
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "--mutate" && argc > 3) return mutate(argv[0], number_of(argv[2]), arguments.subspan(3));
    if (verb == "--make" && argc > 5)
        return make(number_of(argv[2]), number_of(argv[3]), argv[4], arguments.subspan(5));
    if (argc < 2 || verb.starts_with("--")) {
        std::fprintf(stderr, "usage: %s [--mutate N] FOLDER|FILE...\n", argv[0]);
        return 2;
    }
    std::vector<input> corpus;
    if (!read_all(arguments.subspan(1), corpus, true)) return 1;
    std::printf("%zu inputs replayed\n", corpus.size());
    return 0;
}
