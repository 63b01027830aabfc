// SPDX-License-Identifier: Apache-2.0
#include "serve/audit_log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/error.hpp"
#include "inspect/json_out.hpp"
#include "serve/failure.hpp"

namespace holdfast::serve {

namespace {

using inspect::json_out;

std::uint64_t time_ms_now() noexcept {
    struct timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

void append_client(json_out& json, const net::peer* client) {
    json.key("client").begin_object();
    if (client != nullptr && client->way == net::peer_way::unix_socket)
        json.member("user", std::uint64_t{client->user})
            .member("group", std::uint64_t{client->group})
            .member("process", static_cast<std::uint64_t>(client->process));
    else if (client != nullptr && client->way == net::peer_way::tcp)
        json.member("address", client->address);
    json.end_object();
}

}  // namespace

audit_log::audit_log(std::string path, unsigned worker) : path_(std::move(path)), worker_(worker) { open(); }

void audit_log::open() {
    constexpr int how = O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK;
    memory::descriptor file = memory::open_at(AT_FDCWD, path_.c_str(), O_RDWR | how, 0600);
    if (!file && errno == EACCES) file = memory::open_at(AT_FDCWD, path_.c_str(), O_WRONLY | how, 0600);
    if (!file) memory::throw_errno(errno, path_, "opening the audit log");
    struct stat status{};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
        throw error(errc::unsafe_file, path_, "is no plain file; name another one for the audit log");
    file_ = std::move(file);
}

// Whether the file ends in a piece of a line: one that found no room, of this process or another. Of a file that it may
// not read it does not know.
bool audit_log::is_torn() const noexcept {
    struct stat status{};
    char last = '\n';
    if (::fstat(file_.get(), &status) != 0 || status.st_size == 0) return false;
    return ::pread(file_.get(), &last, 1, status.st_size - 1) == 1 && last != '\n';
}

int audit_log::write_line(std::string& line) noexcept {
    if (is_torn()) line.insert(line.begin(), '\n');  // its room is reserved
    ssize_t count = -1;
    do count = ::write(file_.get(), line.data(), line.size());
    while (count < 0 && errno == EINTR);
    if (count == static_cast<ssize_t>(line.size())) return 0;
    return count < 0 ? errno : ENOSPC;
}

std::uint64_t audit_log::append(const change& what) {
    std::string line;
    json_out json(line);
    const std::uint64_t number = ++changes_;
    json.begin_object().member("time_ms", time_ms_now()).member("worker", std::uint64_t{worker_});
    json.member("process", static_cast<std::uint64_t>(::getpid())).member("change", number);
    json.member("action", what.action);
    append_client(json, what.client);
    json.member("segment", what.segment).member("key", what.key);
    json.member("body_bytes", static_cast<std::uint64_t>(what.body_bytes)).end_object();
    line += '\n';
    line.reserve(line.size() + 1);
    if (const int code = write_line(line); code != 0)
        throw failure{507, "the audit log cannot be written (" + memory::errno_text(code) +
                               "); nothing was changed: make room for it"};
    return number;
}

void audit_log::append_refusal(std::uint64_t number, int status) noexcept try {
    std::string line;
    json_out json(line);
    json.begin_object().member("time_ms", time_ms_now()).member("worker", std::uint64_t{worker_});
    json.member("process", static_cast<std::uint64_t>(::getpid())).member("change", number);
    json.member("action", "refused").member("status", static_cast<std::uint64_t>(status)).end_object();
    line += '\n';
    line.reserve(line.size() + 1);
    (void)write_line(line);
} catch (...) {  // no memory for the line
}

void audit_log::refresh() noexcept {
    struct stat named{};
    struct stat held{};
    const bool same = ::stat(path_.c_str(), &named) == 0 && ::fstat(file_.get(), &held) == 0 &&
                      named.st_ino == held.st_ino && named.st_dev == held.st_dev;
    if (same) return;
    try {
        open();
    } catch (const std::exception&) {  // goes on in the file that it has
    }
}

}  // namespace holdfast::serve
