// SPDX-License-Identifier: Apache-2.0
// A consumer's program: it compiles against the installed headers, and what it uses works.
#include <holdfast/holdfast.hpp>
#if WITH_NET
#include <unistd.h>
#include <holdfast/net/listener.hpp>
#endif

#include <cstdint>
#include <cstdio>
#include <string_view>

namespace {

struct setting {
    int limit;
    int share;
};

bool a_snapshot_holds_what_was_published() {
    auto writer = holdfast::snapshot<setting>::create("heap:");
    auto reader = writer.make_reader();
    writer.publish({.limit = 7, .share = 30});
    const auto found = reader.read();
    return found && found.value.limit == 7 && found.value.share == 30;
}

bool a_hash_table_finds_what_was_inserted() {
    auto table = holdfast::hash_table<std::uint64_t, setting>::create("heap:", {.capacity = 1000});
    table.insert_or_assign(42, {.limit = 7, .share = 30});
    const auto found = table.make_reader().find(42);
    return found && found->limit == 7 && !table.contains(43);
}

bool errors_name_their_subject() {
    try {
        static_cast<void>(holdfast::snapshot<setting>::attach("posix:/holdfast-consumer-nobody-makes-this"));
    } catch (const holdfast::error& e) {
        return e.reason() == holdfast::errc::not_found &&
               std::string_view(e.what()).find("nobody-makes-this") != std::string_view::npos;
    }
    return false;
}

bool the_network_front_is_linked() {
#if WITH_NET
    const int listener = holdfast::net::listen_tcp("127.0.0.1:0");
    const bool bound = holdfast::net::bound_port(listener) != 0;
    ::close(listener);
    return bound;
#else
    return true;
#endif
}

}  // namespace

int main() {
    static_assert(HOLDFAST_VERSION_MAJOR >= 0);
    if (!a_snapshot_holds_what_was_published() || !a_hash_table_finds_what_was_inserted()) return 1;
    if (!errors_name_their_subject() || !the_network_front_is_linked()) return 1;
    std::printf("holdfast %s\n", holdfast::version_text);
    return 0;
}
