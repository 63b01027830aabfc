// SPDX-License-Identifier: Apache-2.0
// supervisor.hpp - the process that keeps the workers running.
//
// (I1) The listeners are the supervisor's and stay open while a worker is down: connections that arrive then wait in
//      the kernel's queue for the next worker instead of being refused. None is closed before the end, nor when a
//      successor takes over, which has them then: a queue that nobody holds is lost. For the same reason a successor
//      makes none: what came to its own would be lost should it not become the owner.
// (I2) A worker lives no longer than the supervisor: it holds the read end of a pipe whose only write end is here.
// (I3) A dead worker is started again at once. Only one that keeps dying (more than restarts_at_once times in
//      restart_window_ns) waits, so that a fault in every start does not eat the machine. A successor whose workers die
//      before it is ready gives up: its predecessor serves, and turns every other one away until then.
// (I4) Whatever a worker does, a stop ends: those that are still there a second after the drain's own limit are killed.
// (I5) Of a supervisor and its successor one is the owner: of the gauges, of the unix socket's file and of the door. A
//      supervisor gives that up once its successor's workers answer, and not before.
// Files: supervisor.cpp the workers' lives; supervisor_sockets.cpp listeners; supervisor_counts.cpp gauges;
// supervisor_succession.cpp both sides of taking over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/memory/descriptor.hpp"
#include "serve/serve.hpp"
#include "serve/shared_counts.hpp"
#include "serve/take_over.hpp"

namespace holdfast::serve {

class supervisor {
 public:
    /// Makes listeners, or takes them over, and counts and pipes; starts nothing. Throws: error.
    explicit supervisor(serve_options options);
    supervisor(const supervisor&) = delete;
    supervisor& operator=(const supervisor&) = delete;
    ~supervisor();

    /// Starts the workers and keeps them until a signal says stop, or a successor takes over. Returns: the exit code.
    int run();

    /// CLOCK_MONOTONIC.
    [[nodiscard]] static std::uint64_t now_ns() noexcept;

    static constexpr std::size_t restarts_at_once = 20;
    static constexpr std::uint64_t restart_window_ns = 10'000'000'000;
    static constexpr std::uint64_t restart_delay_ns = 1'000'000'000;
    static constexpr std::size_t deaths_before_ready_max = 5;           // of a successor's workers, all together
    static constexpr std::uint64_t caller_patience_ns = 5'000'000'000;  // from a connection to what it wants

 private:
    struct worker {
        std::vector<int> listeners;  // of queues_
        std::vector<int> cpus;       // whose connections come to these; none: it may run anywhere
        pid_t pid = -1;
        bool answered = false;  // since it was started
        bool ever_answered = false;
        std::uint64_t started_s = 0;       // since 1970
        std::uint64_t start_again_ns = 0;  // monotonic; 0: not waiting
        std::deque<std::uint64_t> deaths;  // of the last restart_window_ns
        counter restarts, pid_gauge, started_gauge, open_gauge;
    };

    // supervisor_sockets.cpp
    void make_listeners();
    void take_listeners();
    void share_queues();
    void choose_cpus();
    void steer() const;
    void make_unix_listener();
    void remember_unix_file();
    void remove_unix_path() const;
    void make_door();

    // supervisor_counts.cpp
    void make_counts();
    void renew_counts();
    void bind_gauges();
    void zero_gauges() const;
    void publish_gauges() const;

    // supervisor_succession.cpp
    void find_predecessor();
    void say_ready();
    [[nodiscard]] bool gives_up(std::size_t index, int status);
    void on_predecessor();
    void become_owner();
    void start_successor();
    void on_door();
    void on_successor();
    void give_listeners();
    void forget_successor(std::string_view why);
    void hand_over(bool unix_too);
    void on_successor_death(int status);

    void start(std::size_t index);
    void on_signals();
    void on_ready();
    void reap();
    void on_death(std::size_t index, int status);
    void begin_stop(int exit_code, std::optional<char> others_accept = {});
    void kill_workers() const;
    void start_those_waiting();
    void wait_for_events();
    [[nodiscard]] int wait_ms() const;
    [[nodiscard]] bool any_alive() const;
    void announce_when_ready();
    void announce() const;
    void tell_withheld() const;

    serve_options options_;
    std::vector<std::string> command_;   // to be run again by start_successor()
    std::string address_;                // as the door is named
    std::uint64_t predecessor_pid_ = 0;  // of this server; 0: none
    std::uint64_t started_by_ = 0;       // the server that is to be succeeded, and no other; 0: any
    std::uint64_t descriptors_ = 0;      // that each worker may have open
    std::string engine_;                 // what the workers will have, and why where that is not plain
    std::uint16_t port_ = 0;
    std::vector<memory::descriptor> queues_;  // of the address
    std::vector<worker> workers_;
    std::vector<unsigned> cpus_;        // that connections are steered by, in the order of their queues
    memory::descriptor unix_listener_;  // the first worker's
    std::uint64_t unix_inode_ = 0;      // of its file; 0: not ours to remove
    bool unix_taken_ = false;
    std::unique_ptr<shared_counts> counts_;
    memory::descriptor signals_;
    memory::descriptor lifeline_read_, lifeline_write_;
    memory::descriptor ready_read_, ready_write_;
    std::size_t answering_ = 0;
    bool announced_ = false;
    bool stopping_ = false;
    unsigned stops_asked_ = 0;
    std::uint64_t kill_at_ns_ = 0;  // monotonic; once stopping
    int exit_code_ = 0;

    bool owner_ = true;           // (I5)
    take_over_link predecessor_;  // while it has not said that all is ours
    bool said_ready_ = false;
    std::size_t deaths_before_ready_ = 0;
    memory::descriptor door_;
    std::uint64_t door_again_ns_ = 0;  // monotonic: it is left alone until then; 0: it is not
    caller successor_;                 // that asked to take over
    bool successor_has_listeners_ = false;
    std::uint64_t successor_deadline_ns_ = 0;  // by when it has to say what it wants; 0: it has
    pid_t successor_child_ = -1;               // that start_successor() made
    bool handed_over_ = false;
};

/// How a process ended, in words.
[[nodiscard]] std::string describe_end(int status);

}  // namespace holdfast::serve
