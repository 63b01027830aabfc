// SPDX-License-Identifier: Apache-2.0
#include "workload/veth_pair.hpp"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>

namespace holdfast::workload {

namespace {

constexpr std::array<std::string_view, 2> interfaces{"holdfast0", "holdfast1"};

[[noreturn]] void fail(int code, const std::string& what) {
    throw std::system_error(code, std::generic_category(), what);
}

/// A request to make a link: attributes one behind the other, some of them around others.
class link_request {
 public:
    link_request() {
        header().nlmsg_type = RTM_NEWLINK;
        header().nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
        header().nlmsg_len = NLMSG_LENGTH(sizeof(ifinfomsg));
    }
    void add(unsigned short type, const void* value, std::size_t bytes) {
        const std::size_t begin = open(type);
        append(value, bytes);
        close(begin);
    }
    void add(unsigned short type, std::string_view text) { add(type, text.data(), text.size()); }
    [[nodiscard]] std::size_t open(unsigned short type) {
        const std::size_t begin = header().nlmsg_len;
        const rtattr attribute{.rta_len = 0, .rta_type = type};
        append(&attribute, sizeof attribute);
        return begin;
    }
    void close(std::size_t begin) {
        const auto bytes = static_cast<unsigned short>(header().nlmsg_len - begin);
        std::memcpy(bytes_.data() + begin + offsetof(rtattr, rta_len), &bytes, sizeof bytes);
    }
    void append(const void* value, std::size_t bytes) {
        std::memcpy(bytes_.data() + header().nlmsg_len, value, bytes);  // our own few attributes: they fit
        header().nlmsg_len += static_cast<std::uint32_t>(NLMSG_ALIGN(bytes));
    }
    /// Returns: 0, or the errno that the kernel answers with.
    [[nodiscard]] int carry_out() {
        const memory::descriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
        if (!socket || ::send(socket.get(), bytes_.data(), header().nlmsg_len, 0) < 0) return errno;
        struct {
            nlmsghdr header;
            nlmsgerr answer;
            std::array<char, 512> quoted;  // the request
        } reply{};
        const ssize_t came = ::recv(socket.get(), &reply, sizeof reply, 0);
        if (came < 0) return errno;
        return reply.header.nlmsg_type == NLMSG_ERROR ? -reply.answer.error : EPROTO;
    }

 private:
    [[nodiscard]] nlmsghdr& header() noexcept { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
    alignas(nlmsghdr) std::array<char, 512> bytes_{};
};

/// Makes the cable here, its other end there.
void lay_cable(int there) {
    link_request request;
    request.add(IFLA_IFNAME, interfaces[0]);
    const std::size_t info = request.open(IFLA_LINKINFO);
    request.add(IFLA_INFO_KIND, "veth");
    const std::size_t data = request.open(IFLA_INFO_DATA);
    const std::size_t peer = request.open(VETH_INFO_PEER);
    const ifinfomsg any{};
    request.append(&any, sizeof any);
    request.add(IFLA_IFNAME, interfaces[1]);
    request.add(IFLA_NET_NS_FD, &there, sizeof there);
    for (const std::size_t open : {peer, data, info}) request.close(open);
    if (const int code = request.carry_out(); code != 0) fail(code, "making a veth pair");
}

void configure(std::string_view interface, std::string_view address) {
    const memory::descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) fail(errno, "a socket");
    ifreq request{};
    interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
    const auto set = [&](unsigned long what) {
        if (::ioctl(socket.get(), what, &request) != 0) fail(errno, "giving an address to " + std::string(interface));
    };
    sockaddr_in name{};
    name.sin_family = AF_INET;
    ::inet_pton(AF_INET, std::string(address).c_str(), &name.sin_addr);
    std::memcpy(&request.ifr_addr, &name, sizeof name);
    set(SIOCSIFADDR);
    ::inet_pton(AF_INET, "255.255.255.0", &name.sin_addr);
    std::memcpy(&request.ifr_netmask, &name, sizeof name);
    set(SIOCSIFNETMASK);
    request.ifr_flags = IFF_UP;
    set(SIOCSIFFLAGS);
}

}  // namespace

veth_pair::veth_pair() {
    within(0, [this] { lay_cable(namespaces_[1].descriptor()); });
    for (std::size_t end = 0; end < namespaces_.size(); ++end)
        within(end, [end] { configure(interfaces[end], addresses[end]); });
}

void veth_pair::within(std::size_t end, const std::function<void()>& act) const { namespaces_.at(end).within(act); }

}  // namespace holdfast::workload
