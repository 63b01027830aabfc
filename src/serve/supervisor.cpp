// SPDX-License-Identifier: Apache-2.0
#include "serve/supervisor.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "holdfast/error.hpp"
#include "holdfast/memory/uri.hpp"
#include "holdfast/net/listener.hpp"
#include "holdfast/record/schema.hpp"
#include "serve/audit_log.hpp"
#include "serve/catalog.hpp"
#include "serve/processes.hpp"
#include "serve/worker_arguments.hpp"
#include "serve/write_token.hpp"

namespace holdfast::serve {

namespace {

std::pair<memory::descriptor, memory::descriptor> make_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) memory::throw_errno(errno, "supervisor", "pipe2");
    return {memory::descriptor(ends[0]), memory::descriptor(ends[1])};
}

memory::descriptor watch_signals() {
    // Whoever reads our output may be gone by the time we say something: that must not end what serves.
    ::signal(SIGPIPE, SIG_IGN);
    sigset_t wanted;
    ::sigemptyset(&wanted);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD}) ::sigaddset(&wanted, signal);
    if (::sigprocmask(SIG_BLOCK, &wanted, nullptr) != 0) memory::throw_errno(errno, "supervisor", "sigprocmask");
    memory::descriptor fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd) memory::throw_errno(errno, "supervisor", "signalfd");
    return fd;
}

/// In the child: gives the worker its descriptors and no blocked signals, and becomes it. Only async-signal-safe calls.
/// SIGPIPE stays ignored, as a worker has it: one that cannot say why it does not start must not look like a crash.
[[noreturn]] void become(char* const* words, std::span<const int> inherited) noexcept {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int fd : inherited)
        if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
    ::execv("/proc/self/exe", words);
    ::_exit(127);
}

/// Every name is checked here, once, before anything is made: a worker would say it again for each of them.
void check_names(const serve_options& options) {
    (void)catalog(options.segments);
    if (!options.name.empty()) {
        const memory::uri name = memory::uri::parse(options.name);
        if (!name.named())
            throw error(errc::invalid_name, options.name,
                        "memory without a name cannot hold the counts of several processes; use posix: or file:");
        (void)memory::uri::parse(shared_counts::latency_name(options.name));
    }
    for (const count_by& each : options.counts) {
        (void)memory::uri::parse(each.segment);
        if (!detail::is_field_name(each.field))
            throw error(errc::invalid_argument, "--count " + each.segment + "=" + each.field,
                        "no field is called that; write SEGMENT=FIELD, for example geo4=country");
    }
}

/// What the workers will have, in words for people; with the reason where that is not what was wished most.
std::string engine_text(const serve_options& options) {
    const net::engine_choice wanted = options.engine_choice();
    if (wanted == net::engine_choice::epoll) return "epoll";
    const std::string lack = net::io_uring_lack();
    if (lack.empty()) return "io_uring";
    if (wanted == net::engine_choice::io_uring)
        throw error(errc::unsupported, "--engine io_uring", lack + "; --engine auto takes epoll then");
    return "epoll (" + lack + ")";
}

/// Raises this process's bound on open descriptors, which workers inherit, as far as it may. Returns: what it is then.
std::uint64_t raise_descriptor_limit() {
    struct rlimit now{};
    if (::getrlimit(RLIMIT_NOFILE, &now) != 0) memory::throw_errno(errno, "supervisor", "getrlimit");
    const rlim_t before = std::exchange(now.rlim_cur, now.rlim_max);
    if (before != now.rlim_max && ::setrlimit(RLIMIT_NOFILE, &now) != 0) now.rlim_cur = before;
    return now.rlim_cur;
}

}  // namespace

std::string describe_end(int status) {
    if (WIFSIGNALED(status)) return "was killed by signal " + std::to_string(WTERMSIG(status));
    return "ended with code " + std::to_string(WEXITSTATUS(status));
}

std::uint64_t supervisor::now_ns() noexcept {
    struct timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

supervisor::supervisor(serve_options options) : options_(std::move(options)), command_(own_command_line()) {
    find_predecessor();
    if (options_.workers == 0) options_.workers = std::max(1U, std::thread::hardware_concurrency());
    if (options_.workers > 1024)
        throw error(errc::invalid_argument, std::to_string(options_.workers),
                    "that many workers help nobody; 1 to 1024, or auto");
    check_names(options_);
    if (!options_.write && !options_.token_file.empty())
        throw error(errc::invalid_argument, "--token-file", "lets clients write, which only --write allows");
    if (!options_.token_file.empty()) (void)write_token(options_.token_file);
    if (!options_.write && !options_.audit_log.empty())
        throw error(errc::invalid_argument, "--audit-log", "is told of changes, which only --write allows");
    if (!options_.audit_log.empty()) (void)audit_log(options_.audit_log, 0);
    engine_ = engine_text(options_);
    choose_cpus();
    descriptors_ = raise_descriptor_limit();
    workers_ = std::vector<worker>(options_.workers);
    signals_ = watch_signals();
    if (options_.take_over)
        take_listeners();
    else
        make_listeners();
    if (options_.name.empty()) options_.name = "holdfast-serve-" + std::to_string(port_);
    make_counts();
    make_unix_listener();
    if (owner_) make_door();
    std::tie(lifeline_read_, lifeline_write_) = make_pipe();
    std::tie(ready_read_, ready_write_) = make_pipe();
}

supervisor::~supervisor() { remove_unix_path(); }

/// Whom to succeed: the server at our address; or whoever started us has said so, and then the address is its own.
void supervisor::find_predecessor() {
    if (const char* const told = std::getenv(take_over_variable)) {
        options_.listen = net::plain_address(told);
        options_.take_over = true;
        ::unsetenv(take_over_variable);
        if (const char* const from = std::getenv(take_over_from_variable))
            started_by_ = std::strtoull(from, nullptr, 10);
        ::unsetenv(take_over_from_variable);
    }
    if (options_.take_over) address_ = net::plain_address(options_.listen);
}

void supervisor::start(std::size_t index) {
    worker& it = workers_[index];
    try {
        renew_counts();
    } catch (const error& e) {
        std::fprintf(stderr, "holdfast serve: %s; trying again in a second\n", e.what());
        it.start_again_ns = now_ns() + restart_delay_ns;
        return;
    }
    worker_arguments arguments;
    arguments.index = static_cast<unsigned>(index);
    arguments.listeners = it.listeners;
    arguments.cpus = it.cpus;
    if (index == 0) arguments.unix_listener = unix_listener_.get();
    arguments.lifeline = lifeline_read_.get();
    arguments.ready = ready_write_.get();
    arguments.options = options_;
    std::vector<std::string> words{"holdfast", std::string(worker_command)};
    for (std::string& word : arguments.words()) words.push_back(std::move(word));
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);

    std::vector<int> inherited = arguments.listeners;
    inherited.insert(inherited.end(), {arguments.unix_listener, arguments.lifeline, arguments.ready});

    it.start_again_ns = 0;
    it.answered = false;
    const pid_t pid = ::fork();
    if (pid == 0) become(pointers.data(), inherited);
    if (pid < 0) {  // out of processes or memory: try again in a while
        it.start_again_ns = now_ns() + restart_delay_ns;
        return;
    }
    it.pid = pid;
    it.started_s = static_cast<std::uint64_t>(::time(nullptr));
    publish_gauges();
}

int supervisor::run() {
    for (std::size_t i = 0; i < workers_.size(); ++i) start(i);
    while (!stopping_ || any_alive()) {
        wait_for_events();
        on_ready();
        on_signals();
        if (!stopping_ && predecessor_) on_predecessor();
        if (!stopping_ && owner_ && door_) on_door();
        if (!stopping_ && successor_.link) on_successor();
        if (!stopping_) announce_when_ready();
        if (!stopping_) start_those_waiting();
        if (stopping_ && now_ns() >= kill_at_ns_) kill_workers();
    }
    return exit_code_;
}

void supervisor::wait_for_events() {
    std::vector<struct pollfd> events{{signals_.get(), POLLIN, 0}, {ready_read_.get(), POLLIN, 0}};
    if (!stopping_)
        // A descriptor of -1 is passed over.
        for (const int fd : {predecessor_.fd(), owner_ && door_again_ns_ == 0 ? door_.get() : -1, successor_.link.fd()})
            events.push_back({fd, POLLIN, 0});
    if (::poll(events.data(), events.size(), wait_ms()) < 0 && errno != EINTR)
        memory::throw_errno(errno, "supervisor", "poll");
}

void supervisor::on_signals() {
    struct signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        switch (static_cast<int>(info.ssi_signo)) {
            case SIGHUP:  // they read certificates again
                for (const worker& each : workers_)
                    if (each.pid > 0 && each.answered) ::kill(each.pid, SIGHUP);
                break;
            case SIGUSR2:
                if (!stopping_) start_successor();
                break;
            case SIGTERM:
            case SIGINT:
                ++stops_asked_;
                if (!stopping_)
                    begin_stop(0);
                else if (stops_asked_ > 1 || !handed_over_)  // asked twice: no more waiting for clients
                    kill_workers();
                break;
            default: break;  // SIGCHLD: reap() below
        }
    }
    reap();
}

void supervisor::kill_workers() const {
    for (const worker& each : workers_)
        if (each.pid > 0) ::kill(each.pid, SIGKILL);
}

/// `others_accept` is what the workers are told (worker_arguments.hpp); nothing: they are the last to accept.
void supervisor::begin_stop(int exit_code, std::optional<char> others_accept) {
    stopping_ = true;
    exit_code_ = exit_code;
    // A worker that is stopped, or hangs, never notices: it gets what a drain may take and a second more.
    kill_at_ns_ = now_ns() + (std::uint64_t{options_.limits.drain_timeout_ms} + 1000) * 1'000'000;
    if (owner_) tell_service_manager("STOPPING=1");
    if (!handed_over_ && successor_.link) {
        (void)successor_.link.say(take_over_word::stopping);
        successor_.link.close();
    }
    door_.reset();
    // Our copies first: a worker that drains must be the last one of this server to hold its listener.
    for (worker& each : workers_) each.listeners.clear();
    queues_.clear();
    remove_unix_path();
    unix_listener_.reset();
    predecessor_.close();  // it serves on
    if (others_accept) {
        // Each worker reads one byte. There is room for as many, in a pipe that nothing else is written to.
        const std::string marks(workers_.size(), *others_accept);
        while (::write(lifeline_write_.get(), marks.data(), marks.size()) < 0 && errno == EINTR) {
        }
    }
    lifeline_write_.reset();
}

void supervisor::on_ready() {
    std::uint16_t index = 0;  // a write of that size to a pipe is never split
    while (::read(ready_read_.get(), &index, sizeof index) == static_cast<ssize_t>(sizeof index)) {
        if (index >= workers_.size()) continue;
        worker& it = workers_[index];
        if (!it.ever_answered) ++answering_;
        it.answered = it.ever_answered = true;
    }
    if (answering_ == workers_.size()) say_ready();
}

void supervisor::announce_when_ready() {
    if (announced_ || !owner_ || answering_ != workers_.size()) return;
    announced_ = true;
    announce();
    tell_service_manager("READY=1");
}

/// Says what a registry holds that strangers will not be shown: silence would look like segments that are lost.
void supervisor::tell_withheld() const {
    try {
        std::vector<std::string> names = catalog(options_.segments, options_.private_too).withheld();
        std::erase_if(names, [&](const std::string& uri) {
            return uri == counts_->counters.segment().uri() || uri == counts_->latency.segment().uri();
        });
        if (names.empty()) return;
        std::fprintf(
            stderr,
            "holdfast serve: %s%s not served: not everybody may read %s, and anybody here may call this server; "
            "name what is to be served, or give --private\n",
            names.front().c_str(),
            names.size() == 1 ? " is" : (" and " + std::to_string(names.size() - 1) + " more are").c_str(),
            names.size() == 1 ? "it" : "them");
    } catch (const error&) {  // nobody can tell for now
    }
}

void supervisor::announce() const {
    tell_withheld();
    const std::string path = options_.unix_path.empty() ? "" : " and unix:" + options_.unix_path;
    std::printf("serving http%s://%s%s with %zu worker%s by %s%s; %llu descriptors each; counts in %s\n",
                options_.tls_certificate.empty() ? "" : "s", options_.listen.c_str(), detail::printable(path).c_str(),
                workers_.size(), workers_.size() == 1 ? "" : "s", engine_.c_str(),
                cpus_.empty() ? "" : ", steered by CPU", static_cast<unsigned long long>(descriptors_),
                options_.name.c_str());
    std::fflush(stdout);
}

void supervisor::reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
        const auto found = std::ranges::find(workers_, pid, &worker::pid);
        if (found != workers_.end())
            on_death(static_cast<std::size_t>(found - workers_.begin()), status);
        else if (pid == successor_child_)
            on_successor_death(status);
    }
}

void supervisor::on_death(std::size_t index, int status) {
    worker& it = workers_[index];
    it.pid = -1;
    if (owner_) {
        it.pid_gauge.set(0);
        it.open_gauge.set(0);
    }
    if (stopping_) return;
    if (!it.ever_answered && WIFEXITED(status)) {  // it has said why; trying again would say the same
        std::fprintf(stderr, "holdfast serve: worker %zu cannot start (%s)\n", index, describe_end(status).c_str());
        return begin_stop(1);
    }
    if (gives_up(index, status)) return begin_stop(1);
    const std::uint64_t now = now_ns();
    it.deaths.push_back(now);
    while (now - it.deaths.front() > restart_window_ns) it.deaths.pop_front();
    const bool loops = it.deaths.size() > restarts_at_once;
    std::fprintf(stderr, "holdfast serve: worker %zu %s; %s\n", index, describe_end(status).c_str(),
                 loops ? "it keeps dying: next start in a second" : "starting it again");
    it.restarts.add();
    if (loops)
        it.start_again_ns = now + restart_delay_ns;
    else
        start(index);
}

void supervisor::start_those_waiting() {
    const std::uint64_t now = now_ns();
    for (std::size_t i = 0; i < workers_.size(); ++i)
        if (workers_[i].start_again_ns != 0 && workers_[i].start_again_ns <= now) start(i);
}

int supervisor::wait_ms() const {
    std::uint64_t soonest = stopping_ ? kill_at_ns_ : 0;
    const auto wake_at = [&](std::uint64_t when_ns) {
        if (!stopping_ && when_ns != 0 && (soonest == 0 || when_ns < soonest)) soonest = when_ns;
    };
    for (const worker& each : workers_) wake_at(each.start_again_ns);
    wake_at(successor_deadline_ns_);
    wake_at(door_again_ns_);
    if (soonest == 0) return -1;
    const std::uint64_t now = now_ns();
    if (soonest <= now) return stopping_ ? 100 : 0;  // killed already: their end comes as SIGCHLD
    return static_cast<int>((soonest - now) / 1'000'000 + 1);
}

bool supervisor::any_alive() const {
    return std::ranges::any_of(workers_, [](const worker& each) { return each.pid > 0; });
}

int run(const serve_options& options) { return supervisor(options).run(); }

}  // namespace holdfast::serve
