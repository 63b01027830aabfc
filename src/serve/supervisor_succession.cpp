// SPDX-License-Identifier: Apache-2.0
// supervisor_succession.cpp - taking over from a supervisor, and handing over to one: docs/design/0037-hot-restart.md.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "holdfast/error.hpp"
#include "holdfast/net/hand_over.hpp"
#include "serve/processes.hpp"
#include "serve/supervisor.hpp"
#include "serve/worker_arguments.hpp"

namespace holdfast::serve {

namespace {

using heard = take_over_link::state;

}  // namespace

// --- as the successor

void supervisor::say_ready() {
    if (!predecessor_ || std::exchange(said_ready_, true)) return;
    (void)predecessor_.say(take_over_word::ready, unix_taken_ ? 1 : 0);  // one that is away is heard to be
}

/// Not where the predecessor has died: then there is nobody else. Nor once it may have been told that all is ours.
bool supervisor::gives_up(std::size_t index, int status) {
    if (!predecessor_ || said_ready_ || ++deaths_before_ready_ < deaths_before_ready_max || !predecessor_.alive())
        return false;
    std::fprintf(stderr,
                 "holdfast serve: worker %zu %s, and %zu died so before this server was ready; not taking over from "
                 "the one at %s, which serves on; mend this program or its arguments, then start it again\n",
                 index, describe_end(status).c_str(), deaths_before_ready_, address_.c_str());
    return true;
}

void supervisor::on_predecessor() {
    take_over_message message;
    switch (predecessor_.hear(message)) {
        case heard::silent: return;
        case heard::said:
            if (message.word == take_over_word::yours && said_ready_) return become_owner();
            if (message.word == take_over_word::stopping) {
                std::fprintf(stderr, "holdfast serve: the server at %s was told to stop; not taking over from it\n",
                             address_.c_str());
                return begin_stop(1);
            }
            if (message.word == take_over_word::refused) {
                std::fprintf(stderr, "holdfast serve: the server at %s serves on by itself; not taking over from it\n",
                             address_.c_str());
                return begin_stop(1);
            }
            [[fallthrough]];
        case heard::nonsense:
        case heard::otherwise:
            std::fprintf(stderr, "holdfast serve: the server at %s said what makes no sense; not taking over from it\n",
                         address_.c_str());
            return begin_stop(1);
        case heard::away:  // killed: its workers drain, and its queues are in our hands
            std::fprintf(stderr, "holdfast serve: the server at %s has died; going on in its place\n",
                         address_.c_str());
            return become_owner();
    }
}

void supervisor::become_owner() {
    predecessor_.close();
    owner_ = true;
    remember_unix_file();
    zero_gauges();  // also of workers that the predecessor had and we have not
    publish_gauges();
    make_door();
    try {
        steer();
    } catch (const error& e) {  // serving goes on as it was
        std::fprintf(stderr, "holdfast serve: %s; connections are spread as before\n", e.what());
    }
}

// --- as the predecessor

/// Runs the program that lies at our path now, as we were run; it finds us by the address.
void supervisor::start_successor() {
    if (successor_.link || successor_child_ > 0) {
        std::fprintf(stderr, "holdfast serve: a successor is about to take over already\n");
        return;
    }
    if (!door_ || !announced_ || command_.empty() || ::getpid() == 1) {
        std::fprintf(stderr, "holdfast serve: no successor can take over: %s\n",
                     ::getpid() == 1 ? "all of this container ends with process 1; put an init before it"
                                     : "this server does not serve yet, or has no door");
        return;
    }
    std::vector<char*> words;
    for (std::string& word : command_) words.push_back(word.data());
    words.push_back(nullptr);
    ::setenv(take_over_variable, address_.c_str(), 1);
    ::setenv(take_over_from_variable, std::to_string(::getpid()).c_str(), 1);
    const pid_t pid = ::fork();
    if (pid == 0) {
        sigset_t none;
        ::sigemptyset(&none);
        ::sigprocmask(SIG_SETMASK, &none, nullptr);
        ::signal(SIGPIPE, SIG_DFL);             // as programs expect it; it may be a script by now
        ::execvp(words.front(), words.data());  // one thread here: what it may allocate is no danger
        ::_exit(127);
    }
    ::unsetenv(take_over_variable);
    ::unsetenv(take_over_from_variable);
    if (pid < 0)
        std::fprintf(stderr, "holdfast serve: no successor: fork: %s\n", std::strerror(errno));
    else
        successor_child_ = pid;
}

void supervisor::on_successor_death(int status) {
    successor_child_ = -1;
    if (stopping_) return;
    std::fprintf(stderr, "holdfast serve: the successor %s%s; serving on\n", describe_end(status).c_str(),
                 WIFEXITED(status) && WEXITSTATUS(status) == 127 ? " (it could not be run)" : "");
}

void supervisor::on_door() {
    if (now_ns() < door_again_ns_) return;
    door_again_ns_ = 0;
    auto came = answer_door(door_.get());
    if (!came) {
        // Out of descriptors: poll(2) would come back for it at once, and again.
        if (errno != EAGAIN && errno != EACCES) door_again_ns_ = now_ns() + restart_delay_ns;
        return;
    }
    if (successor_.link || !announced_) {
        (void)came->link.say(take_over_word::busy);
        return;
    }
    successor_ = std::move(*came);
    successor_has_listeners_ = false;
    successor_deadline_ns_ = now_ns() + caller_patience_ns;
}

void supervisor::on_successor() {
    take_over_message message;
    switch (successor_.link.hear(message)) {
        case heard::silent:
            if (successor_deadline_ns_ != 0 && now_ns() >= successor_deadline_ns_)
                forget_successor("did not say what it wants");
            return;
        case heard::away: return forget_successor("went away before it was ready");
        case heard::nonsense: return forget_successor("said what makes no sense");
        case heard::otherwise:
            (void)successor_.link.say(take_over_word::refused);  // with our version
            return forget_successor("is of another version, which hands over otherwise");
        case heard::said: break;
    }
    if (message.word == take_over_word::take_over && !successor_has_listeners_) return give_listeners();
    if (message.word != take_over_word::ready || !successor_has_listeners_)
        return forget_successor("said what makes no sense");
    // One that has been killed since would leave nobody.
    if (!successor_.link.alive()) return forget_successor("went away as it was ready");
    hand_over(message.number == 1);
}

void supervisor::give_listeners() {
    std::vector<int> listeners;
    for (const memory::descriptor& each : queues_) listeners.push_back(each.get());
    if (unix_listener_) listeners.push_back(unix_listener_.get());
    listeners.push_back(door_.get());
    if (!successor_.link.say(take_over_word::accepted, static_cast<std::uint32_t>(::getpid())))
        return forget_successor("went away before it was ready");
    try {
        net::send_listeners(successor_.link.fd(), listeners);
    } catch (const error& e) {
        return forget_successor(e.what());
    }
    successor_has_listeners_ = true;
    successor_deadline_ns_ = 0;  // it may take what time it wants: we serve
}

void supervisor::forget_successor(std::string_view why) {
    std::fprintf(stderr, "holdfast serve: process %llu, which was to take over, %.*s; serving on\n",
                 static_cast<unsigned long long>(successor_.process), static_cast<int>(why.size()), why.data());
    // One that has the listeners would take an end without a word for our death.
    if (successor_has_listeners_) (void)successor_.link.say(take_over_word::refused);
    successor_ = caller();
    successor_has_listeners_ = false;
    successor_deadline_ns_ = 0;
}

/// (I5) From here on the successor is the owner.
void supervisor::hand_over(bool unix_too) {
    handed_over_ = true;
    owner_ = false;
    std::fprintf(stderr, "holdfast serve: process %llu has taken over; finishing what is under way\n",
                 static_cast<unsigned long long>(successor_.process));
    tell_service_manager("MAINPID=" + std::to_string(successor_.process));
    // Who waits for the unix socket that it did not take is answered before that is closed; the others may be left.
    const bool all_taken = unix_too || !unix_listener_;
    if (unix_too) unix_inode_ = 0;
    begin_stop(0, all_taken ? lifeline_others_accept : lifeline_others_accept_tcp);
    (void)successor_.link.say(take_over_word::yours);
    successor_.link.close();
}

}  // namespace holdfast::serve
