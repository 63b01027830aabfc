// SPDX-License-Identifier: Apache-2.0
// The peers of the suites queue and broadcast. Those of a registry come from the libraries that
// bench/channels/peers/build makes, opened at run time: of a library that is missing, each peer is named as skipped
// with the reason.
#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/peers.hpp"
#include "bench/peers/channel_library.hpp"
#include "bench/peers/sequence_ring.hpp"
#include "bench/registry_library.hpp"
#ifdef HOLDFAST_BENCH_BOOST
#include "bench/peers/boost_spsc_queue.hpp"
#endif
#ifdef HOLDFAST_BENCH_RWQUEUE
#include "bench/peers/reader_writer_queue.hpp"
#endif
#ifdef HOLDFAST_BENCH_RWCIRCULAR
#include "bench/peers/reader_writer_circular_buffer.hpp"
#endif
#ifdef HOLDFAST_BENCH_LIBCDS
#include "bench/peers/weak_ring_buffer.hpp"
#endif
#ifdef HOLDFAST_BENCH_CONCURRENTQUEUE
#include "bench/peers/concurrent_queue.hpp"
#endif
#ifdef HOLDFAST_BENCH_ATOMIC_QUEUE
#include "bench/peers/atomic_queue.hpp"
#endif
#ifdef HOLDFAST_BENCH_CK
#include "bench/peers/ck_ring.hpp"
#endif
#ifdef HOLDFAST_BENCH_JACK
#include "bench/peers/jack_ring_buffer.hpp"
#endif
#ifdef HOLDFAST_BENCH_SPA
#include "bench/peers/spa_ring_buffer.hpp"
#endif
#ifdef HOLDFAST_BENCH_QB
#include "bench/peers/qb_ring_buffer.hpp"
#endif
#ifdef HOLDFAST_BENCH_ICEORYX
#include "bench/peers/iceoryx_fifo.hpp"
#endif

namespace holdfast::bench {

namespace {

using workload::channel_kind;
using workload::channel_request;

struct source {
    std::string name;
    std::vector<std::string> queues, rings;  // by the names under which they are missed
    channel_library library = {};
    bool there = false;
    std::string reason = {};
};

/// Opened once, and never closed: kinds refer to it.
[[nodiscard]] const std::array<source, 2>& sources() {
    static const std::array<source, 2> all = [] {
        std::array<source, 2> opened{
            {{"channels",
              {"rtrb (Rust)", "ringbuf (Rust)", "heapless spsc (Rust)", "disruptor (Rust)",
               "crossbeam ArrayQueue (Rust)", "crossbeam-channel (Rust)", "crossfire spsc (Rust)"},
              {"tokio::sync::broadcast (Rust)"}},
             {"iceoryx2", {"iceoryx2 publish-subscribe"}, {"iceoryx2 publish-subscribe with overflow"}}}};
        for (source& from : opened) {
            registry_library file("channels", from.name);
            channel_library& l = from.library;
            file.find(l.kinds, "channel_kinds");
            file.find(l.name, "channel_name");
            file.find(l.version, "channel_version");
            file.find(l.form, "channel_form");
            file.find(l.make, "channel_new");
            file.find(l.free, "channel_free");
            file.find(l.open, "channel_open");
            file.find(l.send, "channel_send");
            file.find(l.receive, "channel_receive");
            file.find(l.lost, "channel_lost");
            file.find(l.in_place, "channel_in_place");
            file.find(l.add_up, "channel_add_up");
            from.there = file.whole();
            from.reason = file.reason();
        }
        return opened;
    }();
    return all;
}

template <template <std::size_t> class Channel>
[[nodiscard]] std::unique_ptr<workload::channel_subject> made(bool reads_in_place, std::size_t bytes,
                                                              const channel_request& request) {
    return reads_in_place ? workload::make_channel<in_place<Channel>::template channel>(bytes, request)
                          : workload::make_channel<Channel>(bytes, request);
}

/// Kinds of the registries' libraries, queues or rings.
void add_registry_kinds(bool rings, std::vector<channel_kind>& kinds, std::vector<absent_peer>& absent) {
    for (const source& from : sources()) {
        const channel_library& library = from.library;
        if (!from.there) {
            for (const std::string& peer : rings ? from.rings : from.queues) absent.push_back({peer, from.reason});
            continue;
        }
        for (std::uint32_t kind = 0; kind < library.kinds(); ++kind) {
            const std::uint32_t form = library.form(kind);
            if ((form != 0) != rings) continue;
            const bool in_place = library.in_place(kind);
            const auto make = [kind, form, in_place, &library](std::size_t bytes, channel_request request) {
                request.kind = kind;
                request.of = &library;
                return form == 0   ? made<library_channel>(in_place, bytes, request)
                       : form == 1 ? made<counting_library_channel>(in_place, bytes, request)
                                   : made<ring_library_channel>(in_place, bytes, request);
            };
            kinds.push_back({library.name(kind), library.version(kind), !rings, form == 1, in_place, make});
        }
    }
}

}  // namespace

std::vector<channel_kind> queue_kinds(std::vector<absent_peer>& absent) {
    std::vector<channel_kind> kinds = workload::own_queue_kinds();
#ifdef HOLDFAST_BENCH_BOOST
    kinds.push_back(workload::channel_kind_of<boost_spsc_queue>(true));
#else
    absent.push_back({"boost::lockfree::spsc_queue", "not compiled in: install libboost1.81-dev or newer"});
#endif
#ifdef HOLDFAST_BENCH_RWQUEUE
    kinds.push_back(workload::channel_kind_of<reader_writer_queue>(true));
#else
    absent.push_back({"moodycamel::ReaderWriterQueue", "not compiled in: install libreaderwriterqueue-dev"});
#endif
#ifdef HOLDFAST_BENCH_RWCIRCULAR
    kinds.push_back(workload::channel_kind_of<reader_writer_circular_buffer>(true));
#else
    absent.push_back(
        {"moodycamel::BlockingReaderWriterCircularBuffer", "not compiled in: install libreaderwriterqueue-dev"});
#endif
#ifdef HOLDFAST_BENCH_LIBCDS
    kinds.push_back(workload::channel_kind_of<weak_ring_buffer>(true));
#else
    absent.push_back({"cds::container::WeakRingBuffer", "not compiled in: install libcds-dev"});
#endif
#ifdef HOLDFAST_BENCH_CONCURRENTQUEUE
    kinds.push_back(workload::channel_kind_of<concurrent_queue>(true));
#else
    absent.push_back({"moodycamel::ConcurrentQueue", "not compiled in: install libconcurrentqueue-dev"});
#endif
#ifdef HOLDFAST_BENCH_ATOMIC_QUEUE
    kinds.push_back(workload::channel_kind_of<atomic_queue_channel>(true));
#else
    absent.push_back({"atomic_queue", "not compiled in: install libatomic-queue-dev"});
#endif
#ifdef HOLDFAST_BENCH_CK
    kinds.push_back(workload::channel_kind_of<ck_ring_queue>(true));
#else
    absent.push_back({"ck_ring", "not compiled in: install libck-dev"});
#endif
#ifdef HOLDFAST_BENCH_JACK
    kinds.push_back(workload::channel_kind_of<jack_ring_buffer>(true));
#else
    absent.push_back({"jack_ringbuffer", "not compiled in: install libjack-jackd2-dev"});
#endif
#ifdef HOLDFAST_BENCH_SPA
    kinds.push_back(workload::channel_kind_of<spa_ring_buffer>(true));
#else
    absent.push_back({"spa_ringbuffer", "not compiled in: install libspa-0.2-dev"});
#endif
#ifdef HOLDFAST_BENCH_QB
    kinds.push_back(workload::channel_kind_of<qb_ring_buffer>(true));
#else
    absent.push_back({"qb_rb", "not compiled in: install libqb-dev"});
#endif
#ifdef HOLDFAST_BENCH_ICEORYX
    kinds.push_back(workload::channel_kind_of<iceoryx_fifo>(true));
#else
    absent.push_back({"iox::concurrent::FiFo", "not compiled in: install libiceoryx-hoofs-dev"});
#endif
    add_registry_kinds(false, kinds, absent);
    return kinds;
}

std::vector<channel_kind> broadcast_kinds(std::vector<absent_peer>& absent) {
    std::vector<channel_kind> kinds = workload::own_broadcast_kinds();
    kinds.push_back(workload::channel_kind_of<sequence_ring>(false));
    kinds.back().yardstick = true;
    add_registry_kinds(true, kinds, absent);
    return kinds;
}

}  // namespace holdfast::bench
