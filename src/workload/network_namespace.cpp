// SPDX-License-Identifier: Apache-2.0
#include "workload/network_namespace.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <system_error>

namespace holdfast::workload {

namespace {

[[noreturn]] void fail(int code, const char* what) { throw std::system_error(code, std::generic_category(), what); }

[[nodiscard]] memory::descriptor this_namespace() {
    const int fd = ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0) fail(errno, "opening this thread's network namespace");
    return memory::descriptor(fd);
}

/// Takes the thread back to where it was.
class round_trip {
 public:
    round_trip() : before_(this_namespace()) {}
    round_trip(const round_trip&) = delete;
    round_trip& operator=(const round_trip&) = delete;
    ~round_trip() { (void)::setns(before_.get(), CLONE_NEWNET); }  // it was there: nothing refuses it

 private:
    memory::descriptor before_;
};

}  // namespace

network_namespace::network_namespace() {
    const round_trip back;
    if (::unshare(CLONE_NEWNET) != 0) fail(errno, "making a network namespace (it takes CAP_SYS_ADMIN)");
    space_ = this_namespace();
}

void network_namespace::within(const std::function<void()>& act) const {
    const round_trip back;
    if (::setns(space_.get(), CLONE_NEWNET) != 0) fail(errno, "entering a network namespace");
    act();
}

void network_namespace::raise_loopback() const {
    within([] {
        const memory::descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        if (!socket) fail(errno, "a socket");
        ifreq request{};
        std::string_view("lo").copy(request.ifr_name, sizeof request.ifr_name - 1);
        request.ifr_flags = IFF_UP;
        if (::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) fail(errno, "switching the loopback device on");
    });
}

}  // namespace holdfast::workload
