// SPDX-License-Identifier: Apache-2.0
// supervisor.hpp - the process that keeps the workers running.
//
// (I1) The listeners are the supervisor's and stay open while a worker is down: connections that arrive then wait in
//      the kernel's queue for the next worker instead of being refused.
// (I2) A worker lives no longer than the supervisor: it holds the read end of a pipe whose only write end is here.
// (I3) A dead worker is started again at once. Only one that keeps dying (more than restarts_at_once times in
//      restart_window_ns) waits, so that a fault in every start does not eat the machine.
// (I4) Whatever a worker does, a stop ends: those that are still there a second after the drain's own limit are killed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/memory/descriptor.hpp"
#include "serve/serve.hpp"
#include "serve/shared_counts.hpp"

namespace holdfast::serve {

class supervisor {
 public:
    /// Makes listeners, counts and pipes; starts nothing. Throws: error.
    explicit supervisor(serve_options options);
    supervisor(const supervisor&) = delete;
    supervisor& operator=(const supervisor&) = delete;
    ~supervisor();

    /// Starts the workers and keeps them until a signal says stop. Returns: the exit code.
    int run();

    static constexpr std::size_t restarts_at_once = 20;
    static constexpr std::uint64_t restart_window_ns = 10'000'000'000;
    static constexpr std::uint64_t restart_delay_ns = 1'000'000'000;

 private:
    struct worker {
        memory::descriptor listener;
        pid_t pid = -1;
        bool answered = false;  // since it was started
        bool ever_answered = false;
        std::uint64_t start_again_ns = 0;  // monotonic; 0: not waiting
        std::deque<std::uint64_t> deaths;  // of the last restart_window_ns
        counter restarts, pid_gauge, started_gauge, open_gauge;
    };

    void make_listeners();
    void make_unix_listener();
    void remove_unix_path() const;
    void make_counts();
    void renew_counts();
    void bind_gauges();
    void start(std::size_t index);
    void on_signals();
    void on_ready();
    void reap();
    void on_death(std::size_t index, int status);
    void begin_stop(int exit_code);
    void kill_workers() const;
    void start_those_waiting();
    [[nodiscard]] int wait_ms() const;
    [[nodiscard]] bool any_alive() const;
    void announce() const;
    void tell_withheld() const;

    serve_options options_;
    std::uint64_t descriptors_ = 0;  // that each worker may have open
    std::string engine_;             // what the workers will have, and why where that is not plain
    std::uint16_t port_ = 0;
    std::vector<worker> workers_;
    memory::descriptor unix_listener_;  // the first worker's
    std::uint64_t unix_inode_ = 0;      // of its file
    std::unique_ptr<shared_counts> counts_;
    memory::descriptor signals_;
    memory::descriptor lifeline_read_, lifeline_write_;
    memory::descriptor ready_read_, ready_write_;
    std::size_t answering_ = 0;
    bool announced_ = false;
    bool stopping_ = false;
    std::uint64_t kill_at_ns_ = 0;  // monotonic; once stopping
    int exit_code_ = 0;
};

}  // namespace holdfast::serve
