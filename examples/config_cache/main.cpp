// SPDX-License-Identifier: Apache-2.0
// main.cpp - runs the processes of roles.hpp, kills one of them at random every few milliseconds, and says at the end
// what they did and whether it was right.
//
//   config_cache [--seconds S] [--workers N] [--name NAME]     exit status 0: all was right; 1: it was not
//   config_cache loader|keeper NAME WORKERS                    one of the processes; ends when it is killed
//   config_cache worker NAME NUMBER
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "holdfast/hash_map.hpp"
#include "holdfast/snapshot.hpp"
#include "roles.hpp"

extern char** environ;

namespace {

using namespace config_cache;
using clock_type = std::chrono::steady_clock;

unsigned number_of(std::string_view text) {
    unsigned number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc() || end != text.data() + text.size())
        throw std::runtime_error(std::string(text) + " is no number");
    return number;
}

/// One role's process: started, killed and started again. Killed on destruction.
class child {
 public:
    explicit child(std::vector<std::string> words) : words_(std::move(words)) { start(); }
    child(child&& other) noexcept : words_(std::move(other.words_)), pid_(std::exchange(other.pid_, -1)) {}
    child& operator=(child&&) = delete;
    ~child() { kill(); }

    void start() {
        std::vector<char*> arguments;
        for (std::string& word : words_) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        if (::posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
            throw std::runtime_error("a process cannot be started");
    }
    void kill() noexcept {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    /// Whether it has ended by itself, which none should.
    [[nodiscard]] bool ended() {
        if (pid_ <= 0 || ::waitpid(pid_, nullptr, WNOHANG) == 0) return false;
        pid_ = -1;
        return true;
    }

 private:
    std::vector<std::string> words_;
    pid_t pid_ = -1;
};

/// All processes of one run, and what they share.
class fleet {
 public:
    fleet(const std::string& name, unsigned workers) : name_(name), workers_(workers) {
        make_shared(name, workers);
        const std::string all = std::to_string(workers);
        children_.emplace_back(std::vector<std::string>{"config_cache", "loader", name, all});
        children_.emplace_back(std::vector<std::string>{"config_cache", "keeper", name, all});
        for (unsigned i = 0; i < workers; ++i)
            children_.emplace_back(std::vector<std::string>{"config_cache", "worker", name, std::to_string(i)});
    }
    fleet(const fleet&) = delete;
    fleet& operator=(const fleet&) = delete;
    ~fleet() {
        stop();
        remove_shared(name_, workers_);
    }

    /// Kills one of them and starts its successor. Returns: 0 for the loader, 1 for the keeper, 2 for a worker.
    unsigned replace_one(std::mt19937_64& random) {
        const std::size_t which = random() % children_.size();
        children_[which].kill();
        children_[which].start();
        return which < 2 ? static_cast<unsigned>(which) : 2;
    }
    [[nodiscard]] bool one_ended() {
        for (child& each : children_)
            if (each.ended()) return true;
        return false;
    }
    void stop() noexcept {
        for (child& each : children_) each.kill();
    }

 private:
    std::string name_;
    unsigned workers_;
    std::vector<child> children_;
};

/// Prints what holds and remembers what does not.
class checks {
 public:
    void operator()(bool holds, const char* what) {
        std::printf("  %s %s\n", holds ? "ok  " : "FAIL", what);
        failed_ = failed_ || !holds;
    }
    [[nodiscard]] int exit_status() const { return failed_ ? 1 : 0; }

 private:
    bool failed_ = false;
};

/// Whether each of the three does more work than it had done, within half a minute.
bool all_go_on(const counts& count) {
    const std::uint64_t editions = count.editions.value(), kept = count.kept.value(), requests = count.requests.value();
    for (const auto end = clock_type::now() + std::chrono::seconds(30); clock_type::now() < end;) {
        if (count.editions.value() > editions && count.kept.value() > kept && count.requests.value() > requests)
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

int run(unsigned seconds, unsigned workers, const std::string& name) {
    checks check;
    fleet all(name, workers);
    const counts count(name);
    std::mt19937_64 random(static_cast<std::uint64_t>(::getpid()));
    std::uint64_t kills[3] = {};
    bool ended = false;
    const auto begin = clock_type::now();
    while (!ended && clock_type::now() - begin < std::chrono::seconds(seconds)) {
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
        ++kills[all.replace_one(random)];
        ended = all.one_ended();
    }
    const double ran_s = std::chrono::duration<double>(clock_type::now() - begin).count();
    const std::uint64_t requests = count.requests.value(), hits = count.hits.value(), editions = count.editions.value();
    const bool alive = !ended && all_go_on(count);
    all.stop();

    const auto answers = holdfast::hash_map_reader<question>::attach(answers_of(name));
    std::uint64_t damages = 0;
    (void)answers.verify([&](const holdfast::hash_map_finding&) { return ++damages != 0; });
    const holdfast::hash_map_usage usage = answers.usage();
    const auto last = holdfast::snapshot<tariff>::reader::attach(tariff_of(name)).read();

    const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf("%u workers, %.1f s; killed: loader %llu times, keeper %llu, workers %llu\n", workers, ran_s,
                number(kills[0]), number(kills[1]), number(kills[2]));
    std::printf("  requests      %.0f a second, %.1f %% of them out of the cache\n",
                static_cast<double>(requests) / ran_s,
                100 * static_cast<double>(hits) / static_cast<double>(requests == 0 ? 1 : requests));
    std::printf("  tariff        %llu editions published, workers changed to a newer one %llu times\n",
                number(editions), number(count.seen.value()));
    std::printf("  cache         %llu answers kept, %llu evicted, %llu expired, %llu there now\n",
                number(count.kept.value()), number(usage.evicted), number(usage.expired), number(usage.entries));
    std::printf("  torn reads    %llu\n", number(count.torn.value()));
    check(!ended, "no process ended by itself");
    check(alive, "behind the last kill loader, keeper and workers go on");
    check(count.torn.value() == 0, "no tariff was a mix of two");
    check(count.backward.value() == 0, "no worker saw an older tariff behind a newer one");
    check(count.wrong.value() == 0, "each answer out of the cache is the computed one");
    check(count.refused.value() == 0, "the cache refused nothing");
    check(hits != 0 && count.kept.value() != 0, "answers came out of the cache");
    check(damages == 0 && usage, "the cache is whole");
    check(last && is_whole(last.value) && last.value.edition > editions, "the tariff is the last one published");
    return check.exit_status();
}

int obey(const std::vector<std::string>& words) {
    if (words.size() == 3 && words[0] == "loader") run_loader(words[1]);
    if (words.size() == 3 && words[0] == "keeper") run_keeper(words[1], number_of(words[2]));
    if (words.size() == 3 && words[0] == "worker") run_worker(words[1], number_of(words[2]));
    unsigned seconds = 5, workers = 2;
    std::string name = "config-cache-" + std::to_string(::getpid());
    for (std::size_t i = 0; i < words.size(); i += 2) {
        const std::string value = i + 1 < words.size() ? words[i + 1] : "";
        if (words[i] == "--seconds")
            seconds = number_of(value);
        else if (words[i] == "--workers")
            workers = number_of(value);
        else if (words[i] == "--name")
            name = value;
        else
            throw std::runtime_error("the words are --seconds S, --workers N and --name NAME");
    }
    if (workers == 0 || workers > 64) throw std::runtime_error("between 1 and 64 workers");
    return run(seconds, workers, name);
}

}  // namespace

int main(int argc, char** argv) try { return obey({argv + 1, argv + argc}); } catch (const std::exception& failure) {
    std::fprintf(stderr, "config_cache: %s\n", failure.what());
    return 1;
}
