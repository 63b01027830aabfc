// SPDX-License-Identifier: Apache-2.0
#include "child.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

extern char** environ;

namespace geo {

namespace {

std::string content_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

child::child(const std::vector<std::string>& arguments, const std::string& log) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    std::vector<char*> words;
    for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
    words.push_back(nullptr);
    const int failure = ::posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) throw std::runtime_error(arguments[0] + " cannot be started; build it first (./dev build)");
}

child::~child() {
    if (pid_ > 0) kill_all();
}

std::vector<pid_t> child::children() const {
    const std::string id = std::to_string(pid_);
    std::istringstream list(content_of("/proc/" + id + "/task/" + id + "/children"));
    return {std::istream_iterator<pid_t>(list), std::istream_iterator<pid_t>()};
}

int child::wait() {
    if (pid_ <= 0) return status_;
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return status_;
}

int child::terminate() {
    if (pid_ > 0) ::kill(pid_, SIGTERM);
    return wait();
}

void child::kill_all() {
    const std::vector<pid_t> workers = children();
    ::kill(pid_, SIGKILL);
    for (const pid_t worker : workers) ::kill(worker, SIGKILL);
    wait();
}

void run(const std::vector<std::string>& arguments, const std::string& log) {
    child program(arguments, log);
    if (const int status = program.wait(); status != 0)
        throw std::runtime_error(arguments[0] + " " + arguments[1] + " ended with " + std::to_string(status) + ":\n" +
                                 content_of(log));
}

std::size_t private_resident_bytes(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string word; status >> word;) {
        std::size_t kilobytes = 0;
        if (word == "RssAnon:" && status >> kilobytes) return kilobytes * 1024;
    }
    return 0;
}

}  // namespace geo
