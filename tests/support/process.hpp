// SPDX-License-Identifier: Apache-2.0
// process.hpp - a forked child that runs a function of the test, with a pipe each way, ended and reaped whatever
// happens.
//
// The child must not use gtest assertions (they would be recorded in a process nobody asks). It reports by what it
// returns or throws: an int is its exit code; a std::string is a failure text (empty: all is well); nothing is success;
// an exception is a failure with its what(). The parent sees it as ended::failure.
// Waiting is done on pipes and on the child's end, never by sleeping. A child dies with the thread that forked it.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

// Present only in programs built for coverage: _exit() alone would lose what the child has counted.
extern "C" __attribute__((weak)) int __llvm_profile_write_file(void);

namespace holdfast::test {

inline constexpr int failed_exit_code = 113;  // a child that threw or returned a failure text

/// How a child ended.
struct ended {
    bool exited = false;
    int code = 0;
    bool signalled = false;
    int signal = 0;
    std::string failure;  // what the child said about it

    [[nodiscard]] bool success() const noexcept { return exited && code == 0; }
    [[nodiscard]] std::string text() const {
        if (signalled) return "killed by signal " + std::to_string(signal);
        return "exit code " + std::to_string(code) + (failure.empty() ? "" : ": " + failure);
    }
};

namespace rig {

class descriptor {
 public:
    descriptor() = default;
    explicit descriptor(int fd) noexcept : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() { close(); }
    void close() noexcept {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    [[nodiscard]] int get() const noexcept { return fd_; }

 private:
    int fd_ = -1;
};

struct pipe_pair {
    descriptor read_end, write_end;
    static pipe_pair make() {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
        return {descriptor(ends[0]), descriptor(ends[1])};
    }
};

inline bool read_all(int fd, void* into, std::size_t bytes) noexcept {
    auto* to = static_cast<char*>(into);
    while (bytes > 0) {
        const ssize_t got = ::read(fd, to, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        to += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

inline bool write_all(int fd, const void* from, std::size_t bytes) noexcept {
    const auto* at = static_cast<const char*>(from);
    while (bytes > 0) {
        const ssize_t put = ::write(fd, at, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        bytes -= static_cast<std::size_t>(put);
    }
    return true;
}

}  // namespace rig

/// One end of the talk between parent and child: fixed-size values, or bare signals of one byte.
class channel {
 public:
    channel(int read_fd, int write_fd) noexcept : read_fd_(read_fd), write_fd_(write_fd) {}

    /// Returns: false when the other side is gone.
    template <class T>
    bool send(const T& value) noexcept {
        static_assert(std::is_trivially_copyable_v<T>);
        return rig::write_all(write_fd_, &value, sizeof value);
    }
    /// Waits for the other side. Returns: nothing when it is gone.
    template <class T>
    std::optional<T> receive() noexcept {
        static_assert(std::is_trivially_copyable_v<T>);
        T value;
        if (!rig::read_all(read_fd_, &value, sizeof value)) return std::nullopt;
        return value;
    }
    bool signal() noexcept { return send('x'); }
    bool wait() noexcept { return receive<char>().has_value(); }

    [[nodiscard]] int read_fd() const noexcept { return read_fd_; }

 private:
    int read_fd_, write_fd_;
};

/// A forked child running `body`, which may take a channel& to talk to the parent.
class child_process {
 public:
    template <class Body>
    explicit child_process(Body&& body) {
        auto down = rig::pipe_pair::make(), up = rig::pipe_pair::make(), report = rig::pipe_pair::make();
        const pid_t parent = ::getpid();
        pid_ = ::fork();
        if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (pid_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (::getppid() != parent) ::_exit(failed_exit_code);
            down.write_end.close();
            up.read_end.close();
            channel talk(down.read_end.get(), up.write_end.get());
            run_and_exit(std::forward<Body>(body), talk, report.write_end.get());
        }
        read_end_ = std::move(up.read_end);
        write_end_ = std::move(down.write_end);
        report_ = std::move(report.read_end);
    }
    child_process(child_process&& other) noexcept
        : pid_(std::exchange(other.pid_, -1)),
          read_end_(std::move(other.read_end_)),
          write_end_(std::move(other.write_end_)),
          report_(std::move(other.report_)),
          ended_(std::move(other.ended_)) {}
    child_process& operator=(child_process&&) = delete;
    ~child_process() {
        if (pid_ > 0 && !ended_) {
            ::kill(pid_, SIGKILL);
            wait();
        }
    }

    [[nodiscard]] pid_t pid() const noexcept { return pid_; }
    /// The parent's end.
    [[nodiscard]] channel talk() const noexcept { return {read_end_.get(), write_end_.get()}; }
    void send_signal(int number) const noexcept { ::kill(pid_, number); }

    /// Waits for the child's end and reaps it. Repeated calls give the same answer.
    const ended& wait() {
        if (ended_) return *ended_;
        ended result;
        char buffer[512];
        // The report pipe closes when the child ends; a grandchild may hold it, so it is drained only after the
        // reaping.
        int status = 0;
        while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        result.exited = WIFEXITED(status);
        result.code = result.exited ? WEXITSTATUS(status) : 0;
        result.signalled = WIFSIGNALED(status);
        result.signal = result.signalled ? WTERMSIG(status) : 0;
        ::fcntl(report_.get(), F_SETFL, O_NONBLOCK);
        for (ssize_t got; (got = ::read(report_.get(), buffer, sizeof buffer)) > 0;)
            result.failure.append(buffer, static_cast<std::size_t>(got));
        ended_ = std::move(result);
        return *ended_;
    }
    /// SIGKILL, then wait().
    const ended& kill() {
        if (!ended_) ::kill(pid_, SIGKILL);
        return wait();
    }

 private:
    template <class Body>
    [[noreturn]] static void run_and_exit(Body&& body, channel& talk, int report_fd) {
        const auto call = [&]() -> decltype(auto) {
            if constexpr (std::is_invocable_v<Body, channel&>)
                return std::forward<Body>(body)(talk);
            else
                return std::forward<Body>(body)();
        };
        int code = 0;
        std::string failure;
        try {
            using result = std::remove_cvref_t<decltype(call())>;
            if constexpr (std::is_void_v<result>)
                call();
            else if constexpr (std::is_same_v<result, std::string>)
                failure = call();
            else
                code = call();
        } catch (const std::exception& e) {
            failure = std::string("exception: ") + e.what();
        } catch (...) {
            failure = "exception of an unknown type";
        }
        if (!failure.empty()) {
            code = failed_exit_code;
            failure.resize(
                std::min<std::size_t>(failure.size(), 4000));  // fits the pipe: the parent reads it afterwards
            rig::write_all(report_fd, failure.data(), failure.size());
        }
        if (&__llvm_profile_write_file != nullptr) __llvm_profile_write_file();
        ::_exit(code);
    }

    pid_t pid_ = -1;
    rig::descriptor read_end_, write_end_, report_;
    std::optional<ended> ended_;
};

/// Runs `body` in a child of its own and waits for it: for what would change the whole process (user ids, mounts,
/// limits).
template <class Body>
[[nodiscard]] ended in_child(Body&& body) {
    child_process child(std::forward<Body>(body));
    return child.wait();
}

}  // namespace holdfast::test
