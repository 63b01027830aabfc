// SPDX-License-Identifier: Apache-2.0
// check.cpp - proves the main job on real data: right answers, and state that survives kill -9 of every process.
//
//   geo_check --holdfast PROGRAM --data FOLDER [--port N]
//
// Four proofs, each printed with its figures; exit status 0 when all hold, 1 when one does not.
//   1 answers      10,000 addresses, edges of ranges among them, against an independent reading of the text files
//   2 kill -9      each worker in turn, then supervisor and all workers: no wrong answer, and counts in shared memory
//                  equal to the answers received, within the requests in flight at the kills
//   3 reload       another edition published under load: no failed and no mixed answer
//   4 figures      load time, lookups a second in process and over HTTP, memory
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "child.hpp"
#include "geo_file.hpp"
#include "geo_index.hpp"
#include "holdfast/metrics/counter_set.hpp"
#include "holdfast/segment.hpp"
#include "traffic.hpp"

namespace {

using clock_type = std::chrono::steady_clock;

double milliseconds_since(clock_type::time_point begin) {
    return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

/// What was asked of this program, and the names of this run alone.
struct settings {
    std::string program;
    std::string data;
    std::uint16_t port = 0;
    std::string folder;  ///< of this run: logs, second edition, registry
    std::string log;
    std::array<std::string, 2> index;  ///< segment names, IPv4 and IPv6
    std::string counts;
    std::uint64_t seed = 0;
};

/// Prints proofs as they are made and remembers whether all held.
class report {
 public:
    void heading(const char* text) { std::printf("%s\n", text); }
    void figure(const char* name, const std::string& value) { std::printf("     %-44s %s\n", name, value.c_str()); }
    void proof(bool holds, const std::string& what) {
        std::printf("  %s %s\n", holds ? "ok  " : "FAIL", what.c_str());
        std::fflush(stdout);
        ++(holds ? held_ : failed_);
    }
    int finish() const {
        std::printf("main job: %d proofs hold, %d do not\n", held_, failed_);
        return failed_ == 0 ? 0 : 1;
    }

 private:
    int held_ = 0;
    int failed_ = 0;
};

std::string number(double value, const char* unit, int digits = 1) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*f %s", digits, value, unit);
    return text;
}

/// A port nobody listens on at this moment.
std::uint16_t free_port() {
    const holdfast::memory::descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    struct sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    if (::bind(probe.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
        ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
        throw std::runtime_error("no free port on 127.0.0.1");
    return ntohs(at.sin_port);
}

settings parse(int count, char** words) {
    settings result;
    for (int i = 1; i + 1 < count; i += 2) {
        const std::string_view name = words[i];
        if (name == "--holdfast") result.program = words[i + 1];
        if (name == "--data") result.data = words[i + 1];
        if (name == "--port") result.port = static_cast<std::uint16_t>(std::strtoul(words[i + 1], nullptr, 10));
    }
    if (result.program.empty() || result.data.empty())
        throw std::runtime_error("usage: geo_check --holdfast PROGRAM --data FOLDER [--port N]");
    if (result.port == 0) result.port = free_port();
    std::string folder = (std::filesystem::temp_directory_path() / "holdfast-geo-XXXXXX").string();
    if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error(folder + ": no temporary folder can be made");
    result.folder = folder;
    result.log = folder + "/log";
    ::setenv("HOLDFAST_REGISTRY", (folder + "/registry").c_str(), 1);
    const std::string stem = "geo-check-" + std::to_string(::getpid());
    result.index = {stem + "-4", stem + "-6"};
    result.counts = stem + "-counts";
    const char* const chosen = std::getenv("HOLDFAST_TEST_SEED");
    result.seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : std::random_device()();
    return result;
}

/// Removes what the run made, also when it fails.
class cleaner {
 public:
    explicit cleaner(const settings& of) : of_(of) {}
    cleaner(const cleaner&) = delete;
    cleaner& operator=(const cleaner&) = delete;
    ~cleaner() {
        for (const std::string& name : {of_.index[0], of_.index[1], of_.counts, of_.counts + "-latency"}) {
            try {
                holdfast::segment::remove(name);
            } catch (const holdfast::error&) {  // was never made
            }
        }
        std::error_code ignored;
        std::filesystem::remove_all(of_.folder, ignored);
    }

 private:
    const settings& of_;
};

void load(const settings& of, geo::family which, const std::string& file) {
    const bool v4 = which == geo::family::v4;
    const std::string type = v4 ? "ipv4" : "ipv6";
    geo::run({of.program, "load", of.index[v4 ? 0 : 1], file, "--into", "snapshot", "--key", "low:" + type, "--value",
              "high:" + type + ",country:char[2]", "--range-end", "high"},
             of.log);
}

std::vector<std::string> serve_command(const settings& of) {
    return {of.program,   "serve",
            of.index[0],  of.index[1],
            "--listen",   "127.0.0.1:" + std::to_string(of.port),
            "--workers",  "auto",
            "--count",    of.index[0] + "=country",
            "--count",    of.index[1] + "=country",
            "--counters", of.counts};
}

/// Waits for the first answer to GET /healthz.
void wait_until_ready(std::uint16_t port) {
    holdfast::net::load_options options;
    options.port = port;
    options.connections = 1;
    bool ready = false;
    int refused = 0;
    holdfast::net::load_client* self = nullptr;
    holdfast::net::load_client client(
        options,
        [&](unsigned, std::string& bytes) -> std::optional<std::uint64_t> {
            if (ready) return std::nullopt;
            bytes.append("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
            return 0;
        },
        [&](const holdfast::net::load_result& result) { ready = result.status == 200; },
        [&](unsigned, int) {
            if (++refused > 20'000) self->stop();
        });
    self = &client;
    client.run();
    if (!ready) throw std::runtime_error("the server does not answer");
}

/// Lookups counted in shared memory: by index and found or not, and by country.
struct counted {
    std::uint64_t found = 0;
    std::uint64_t not_found = 0;
    std::map<std::string, std::uint64_t> by_country;
};

std::string label(std::string_view labels, std::string_view name) {
    const std::string key = std::string(name) + "=\"";
    const std::size_t at = labels.find(key);
    if (at == std::string_view::npos) return {};
    const std::size_t begin = at + key.size();
    return std::string(labels.substr(begin, labels.find('"', begin) - begin));
}

counted read_counts(const settings& of) {
    counted total;
    holdfast::counter_set_reader::attach(of.counts).for_each(
        [&](std::string_view family, std::string_view labels, std::uint64_t value) {
            if (family == "holdfast_index_lookups_total")
                (label(labels, "result") == "hit" ? total.found : total.not_found) += value;
            if (family == "holdfast_index_lookups_by_value_total") total.by_country[label(labels, "value")] += value;
        });
    return total;
}

/// Whether what was counted since `before` is what clients received, give or take `in_flight`. Fills `missing` with the
/// first difference.
bool counts_agree(const counted& before, const counted& after, const geo::tally& received, std::string& difference) {
    std::uint64_t surplus = 0;
    const auto compare = [&](const std::string& what, std::uint64_t shared, std::uint64_t answered) {
        if (shared < answered && difference.empty())
            difference = what + ": " + std::to_string(shared) + " counted, " + std::to_string(answered) + " answered";
        return shared - answered;
    };
    surplus += compare("found", after.found - before.found, received.found);
    surplus += compare("not found", after.not_found - before.not_found, received.not_found);
    for (const auto& [country, value] : after.by_country) {
        const auto earlier = before.by_country.find(country);
        const auto answers = received.by_country.find(country);
        (void)compare(country, value - (earlier == before.by_country.end() ? 0 : earlier->second),
                      answers == received.by_country.end() ? 0 : answers->second);
    }
    if (difference.empty() && surplus > received.lost)
        difference = std::to_string(surplus) + " counted beyond the answers, " + std::to_string(received.lost) +
                     " were in flight at kills";
    return difference.empty();
}

using databases = std::array<geo::database, 2>;

geo::address random_address(std::mt19937_64& random, geo::family which, const geo::database& from) {
    geo::address at{};
    if (which == geo::family::v4) {
        for (std::size_t i = 12; i < 16; ++i) at[i] = static_cast<std::uint8_t>(random());
        return at;
    }
    at = from.ranges[random() % from.ranges.size()].low;  // the space is too sparse to hit by chance
    for (std::size_t i = 4; i < 16; ++i)
        if (random() % 2 == 0) at[i] = static_cast<std::uint8_t>(random());
    return at;
}

/// `count` questions, half of them IPv4: a third at random, the others at the edges of ranges, one before and one
/// behind them.
std::vector<geo::question> make_questions(const settings& of, const std::vector<const databases*>& editions,
                                          std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<geo::question> questions;
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t which = i % 2;
        const geo::database& first = (*editions[0])[which];
        const geo::range& range = first.ranges[random() % first.ranges.size()];
        const std::array<geo::address, 6> choices{range.low,
                                                  range.high,
                                                  geo::before(range.low),
                                                  geo::next_after(range.high),
                                                  random_address(random, first.family, first),
                                                  random_address(random, first.family, first)};
        geo::address at = choices[random() % choices.size()];
        if (which == 0)
            std::fill(at.begin(), at.begin() + 12, std::uint8_t{0});  // one before 0.0.0.0 stays an IPv4 address
        geo::question question;
        question.path = "/v1/indexes/" + of.index[which] + "/" + geo::text_of(at, first.family);
        for (const databases* edition : editions) {
            const geo::range* const found = (*edition)[which].find(at);
            question.right.push_back((*edition)[which].expected(at));
            question.countries.push_back(found == nullptr ? "" : found->country);
        }
        questions.push_back(std::move(question));
    }
    return questions;
}

void prove_answers(const settings& of, report& to, const databases& data) {
    to.heading("1. answers equal those of an independent reading of the text files");
    const auto questions = make_questions(of, {&data}, 10'000, of.seed);
    const counted before = read_counts(of);
    const geo::tally got = geo::ask_each(of.port, questions, 8);
    to.proof(got.answers == questions.size() && got.wrong == 0,
             std::to_string(got.answers) + " of " + std::to_string(questions.size()) + " answers right (" +
                 std::to_string(got.found) + " in a range, " + std::to_string(got.not_found) + " in none)" +
                 (got.first_wrong.empty() ? "" : "; first wrong: " + got.first_wrong));
    std::string difference;
    to.proof(counts_agree(before, read_counts(of), got, difference) && got.lost == 0,
             difference.empty() ? "each of them counted in shared memory, country by country"
                                : "counts differ: " + difference);
}

/// Kills one worker and waits for its successor. Returns the milliseconds until the kernel shows it.
double kill_worker(const geo::child& supervisor, pid_t victim) {
    const std::vector<pid_t> before = supervisor.children();
    const auto begin = clock_type::now();
    ::kill(victim, SIGKILL);
    for (;;) {
        for (const pid_t now : supervisor.children())
            if (std::ranges::find(before, now) == before.end()) return milliseconds_since(begin);
        if (milliseconds_since(begin) > 10'000) return milliseconds_since(begin);
        const struct timespec look{0, 500'000};
        ::nanosleep(&look, nullptr);
    }
}

/// Attaches to both indexes and the counts as a fresh process would. Returns milliseconds.
double attach_everything(const settings& of) {
    const auto begin = clock_type::now();
    auto v4 = geo::index_v4::attach(of.index[0]);
    auto v6 = geo::index_v6::attach(of.index[1]);
    const auto counts = holdfast::counter_set::attach(of.counts);
    return milliseconds_since(begin);
}

void prove_survival(const settings& of, report& to, const databases& data, std::unique_ptr<geo::child>& server) {
    to.heading("2. kill -9 under constant load");
    const auto questions = make_questions(of, {&data}, 50'000, of.seed + 1);
    const counted before = read_counts(of);
    geo::traffic load(of.port, questions, 16, of.seed + 2);
    bool flowing = load.wait_for(2'000);
    double slowest_ms = 0;
    const std::vector<pid_t> workers = server->children();
    for (const pid_t worker : workers) {
        slowest_ms = std::max(slowest_ms, kill_worker(*server, worker));
        flowing = load.wait_for(2'000) && flowing;
    }
    server->kill_all();
    const double attach_ms = attach_everything(of);
    const auto begin = clock_type::now();
    server = std::make_unique<geo::child>(serve_command(of), of.log);
    wait_until_ready(of.port);
    const double restart_ms = milliseconds_since(begin);
    flowing = load.wait_for(5'000) && flowing;
    const geo::tally got = load.stop();

    to.proof(flowing && got.failed == 0, "answers kept coming after each kill: " + std::to_string(got.answers) +
                                             " in all; " + std::to_string(got.lost) +
                                             " requests were in flight at kills, " + std::to_string(got.refused) +
                                             " connections were refused while no process lived");
    to.proof(got.wrong == 0,
             got.wrong == 0 ? "no wrong answer" : std::to_string(got.wrong) + " wrong; first: " + got.first_wrong);
    std::string difference;
    to.proof(counts_agree(before, read_counts(of), got, difference),
             difference.empty() ? "counts in shared memory equal the answers received, within those in flight"
                                : "counts differ: " + difference);
    to.proof(slowest_ms < 100, "a killed worker has a successor within " + number(slowest_ms, "ms") + " (slowest of " +
                                   std::to_string(workers.size()) + ")");
    to.proof(attach_ms < 10, "both indexes and the counts attached in " + number(attach_ms, "ms", 2) +
                                 " with every former process dead");
    to.figure("first answer after a full restart", number(restart_ms, "ms"));
}

void prove_reload(const settings& of, report& to, const databases& data, const databases& second) {
    to.heading("3. another edition published under load");
    const auto questions = make_questions(of, {&data, &second}, 50'000, of.seed + 3);
    const std::array<std::string, 2> files{of.folder + "/edition-4", of.folder + "/edition-6"};
    for (std::size_t i = 0; i < 2; ++i) geo::write_database(second[i], files[i]);
    geo::traffic traffic(of.port, questions, 16, of.seed + 4);
    bool flowing = traffic.wait_for(2'000);
    load(of, geo::family::v4, files[0]);
    load(of, geo::family::v6, files[1]);
    flowing = traffic.wait_for(2'000) && flowing;
    const geo::tally got = traffic.stop();
    to.proof(flowing && got.wrong == 0 && got.failed == 0 && got.lost == 0,
             std::to_string(got.answers) + " answers during the reload: " + std::to_string(got.wrong) +
                 " mixed or wrong, " + std::to_string(got.failed + got.lost) + " failed" +
                 (got.first_wrong.empty() ? "" : "; first: " + got.first_wrong));
    to.proof(got.by_edition.size() == 2 && got.by_edition[0] > 0 && got.by_edition[1] > 0,
             "answers of both editions were seen");
    const geo::tally settled = geo::ask_each(of.port, make_questions(of, {&second}, 2'000, of.seed + 5), 8);
    to.proof(settled.answers == 2'000,
             std::to_string(settled.answers) + " of 2000 answers afterwards are of the new edition");
}

void show_figures(const settings& of, report& to, const geo::child& server, const databases& shown, double load_ms) {
    to.heading("4. figures of this machine");
    to.figure("load, both files from text to served", number(load_ms, "ms", 0));
    auto v4 = geo::index_v4::attach(of.index[0]);
    auto v6 = geo::index_v6::attach(of.index[1]);
    to.figure("lookups in process, IPv4, one thread", number(geo::lookups_per_second(v4, of.seed) / 1e6, "M/s", 2));
    to.figure("lookups in process, IPv6, one thread", number(geo::lookups_per_second(v6, of.seed) / 1e6, "M/s", 2));

    const auto questions = make_questions(of, {&shown}, 50'000, of.seed + 6);
    geo::traffic traffic(of.port, questions, 64, of.seed + 7);
    (void)traffic.wait_for(2'000);
    const std::uint64_t first = traffic.answers();
    const auto begin = clock_type::now();
    (void)traffic.wait_for(100'000);
    const double rate = static_cast<double>(traffic.answers() - first) / milliseconds_since(begin) * 1e3;
    geo::tally got = traffic.stop();
    std::ranges::sort(got.latencies_us);
    to.figure("lookups over HTTP, 64 connections, checked", number(rate / 1e3, "k/s") + " (client on the same cores)");
    if (!got.latencies_us.empty())
        to.figure("  latency median, p99", number(got.latencies_us[got.latencies_us.size() / 2], "us", 0) + ", " +
                                               number(got.latencies_us[got.latencies_us.size() * 99 / 100], "us", 0));
    to.proof(got.wrong == 0 && got.failed == 0 && got.lost == 0,
             std::to_string(got.answers) + " of them right, none wrong or failed");

    std::size_t shared = 0;
    for (const std::string& name : {of.index[0], of.index[1], of.counts})
        shared += holdfast::segment::attach(name, holdfast::access::read_only).info().total_bytes;
    std::size_t own = 0;
    for (const pid_t worker : server.children()) own = std::max(own, geo::private_resident_bytes(worker));
    to.figure("shared memory, all segments", number(static_cast<double>(shared) / 1e6, "MB"));
    to.figure("private memory of a worker", number(static_cast<double>(own) / 1e6, "MB"));
}

int check(const settings& of) {
    report to;
    const cleaner clean(of);
    std::printf("main job: IP geolocation from shared memory (seed %llu)\n", static_cast<unsigned long long>(of.seed));
    const std::array<std::string, 2> files{of.data + "/geoip", of.data + "/geoip6"};
    const databases data{geo::read_database(files[0], geo::family::v4), geo::read_database(files[1], geo::family::v6)};
    const databases second{geo::second_edition(data[0]), geo::second_edition(data[1])};
    to.figure("ranges, IPv4 and IPv6",
              std::to_string(data[0].ranges.size()) + " and " + std::to_string(data[1].ranges.size()));

    const auto begin = clock_type::now();
    load(of, geo::family::v4, files[0]);
    load(of, geo::family::v6, files[1]);
    const double load_ms = milliseconds_since(begin);
    auto server = std::make_unique<geo::child>(serve_command(of), of.log);
    wait_until_ready(of.port);

    prove_answers(of, to, data);
    prove_survival(of, to, data, server);
    prove_reload(of, to, data, second);
    show_figures(of, to, *server, second, load_ms);
    const int status = server->terminate();
    to.proof(status == 0, "the server drained and ended with status " + std::to_string(status));
    return to.finish();
}

}  // namespace

int main(int count, char** words) {
    try {
        return check(parse(count, words));
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "geo_check: %s\n", failure.what());
        return 1;
    }
}
