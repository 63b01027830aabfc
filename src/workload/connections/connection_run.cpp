// SPDX-License-Identifier: Apache-2.0
#include "workload/connections/connection_run.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "workload/connections/byte_exchange.hpp"
#include "workload/connections/connection_board.hpp"
#include "workload/connections/forked_process.hpp"
#include "workload/http_load/interruption.hpp"
#include "workload/http_load/load_generator.hpp"

namespace holdfast::workload::connections {

namespace {

using clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look{50};
constexpr std::chrono::seconds opening_patience{60};  // without a single one more
constexpr std::chrono::seconds end_patience{60};
constexpr std::size_t warming = 16;  // connections for each worker
// For each worker, until its base is looked at: io_uring's 1024 receive buffers are touched one after the other, and
// some workers have a quarter of their share of connections.
constexpr std::uint64_t warming_answers = 4 * 1024;

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

/// What an earlier run has given back the kernel keeps for a moment: waits until its memory falls no more.
void await_rest() {
    constexpr int looks_max = 100;
    constexpr int still_wanted = 3;
    std::uint64_t last = kernel_bytes_now().slab;
    for (int look_number = 0, still = 0; look_number < looks_max && still < still_wanted; ++look_number) {
        std::this_thread::sleep_for(look);
        http::check_interruption();
        const std::uint64_t now = kernel_bytes_now().slab;
        still = now + now / 500 < last ? 0 : still + 1;
        last = now;
    }
}

/// Client processes on a board, and orders to them.
class crew {
 public:
    crew(std::size_t connections, std::size_t processes, std::uint16_t port, const idle_times& idle,
         const somewhere& there)
        : told_(processes) {
        const net::socket_address server = http::loopback(port);
        there([&] {
            for (std::size_t i = 0; i < processes; ++i) {
                const std::size_t first = connections * i / processes, end = connections * (i + 1) / processes;
                const client_plan plan{.server = server,
                                       .connections = end - first,
                                       .first = first,
                                       .number = i,
                                       .processes = processes,
                                       .idle = idle};
                clients_.push_back(std::make_unique<forked_process>([this, &plan] { run_client(plan, told_); }));
            }
        });
    }
    /// Tells them to stop, and waits for them.
    ~crew() {
        told_.to_all().stop.store(1, std::memory_order_relaxed);  // relaxed: an order by itself
        const auto end = clock::now() + end_patience;
        while (clock::now() < end && !std::ranges::all_of(clients_, [](const auto& one) { return one->ended(); }))
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    crew(const crew&) = delete;
    crew& operator=(const crew&) = delete;

    void begin() { told_.to_all().begin.store(1, std::memory_order_relaxed); }  // relaxed: an order by itself
    void measure(std::int32_t interval) {
        told_.to_all().interval.store(interval, std::memory_order_relaxed);  // relaxed: an order by itself
    }
    [[nodiscard]] board& told() noexcept { return told_; }
    [[nodiscard]] std::uint64_t failed() {
        return told_.sum(&client_words::refused) + told_.sum(&client_words::lost) + told_.sum(&client_words::timed_out);
    }
    [[nodiscard]] std::vector<pid_t> processes() const {
        std::vector<pid_t> all;
        for (const auto& one : clients_) all.push_back(one->pid());
        return all;
    }
    /// Throws: std::runtime_error when one of them has ended.
    void check() {
        for (const auto& one : clients_)
            if (one->ended())
                throw std::runtime_error("a client has ended: " +
                                         (one->complaint().empty() ? std::string("killed") : one->complaint()));
    }
    [[nodiscard]] std::string refusal() {
        for (std::size_t i = 0; i < told_.clients(); ++i) {
            const std::int32_t why = told_.of(i).refusal.load(std::memory_order_relaxed);  // relaxed: a word by itself
            if (why == 503) return "answered 503";
            if (why != 0) return std::generic_category().message(why);
        }
        return {};
    }

 private:
    board told_;
    std::vector<std::unique_ptr<forked_process>> clients_;
};

class one_run {
 public:
    one_run(const run_plan& plan, running_server& server, const somewhere& there,
            const std::function<void(std::string_view)>& progress)
        : plan_(plan), server_(server), there_(there), progress_(progress) {}

    run_found run() {
        warm_up();
        crew clients(plan_.spread.connections, plan_.spread.clients, server_.port(), plan_.idle, there_);
        // As many processes share the program's pages now as will when it is looked at again.
        user_before_ = user_bytes(server_.processes());
        kernel_before_ = kernel_bytes_now().sum();
        const auto objects = slab_bytes();
        open(clients);
        pause(clients, plan_.settle, "settling");
        for (std::size_t i = 0; i < plan_.intervals; ++i) measure(clients, i);
        clients.measure(no_interval);
        found_.kernel_objects = growth_text(objects, slab_bytes(), held(clients));
        ask_beside(clients);
        note_counts(clients);
        progress_("closing");
        return found_;
    }

 private:
    void check(crew& clients) {
        http::check_interruption();
        clients.check();
        if (const std::string why = server_.complaint(); !why.empty()) throw std::runtime_error(why);
    }

    void wait_until_open(crew& clients, std::size_t count, const char* what) {
        const auto begin = clock::now();
        auto moved = begin;
        std::uint64_t last = 0;
        while (true) {
            check(clients);
            const std::uint64_t opened = clients.told().sum(&client_words::opened), failed = clients.failed();
            if (opened + failed >= count) return;
            if (opened + failed != last) moved = clock::now();
            last = opened + failed;
            if (clock::now() > moved + opening_patience)
                throw std::runtime_error(std::to_string(opened) + " of " + std::to_string(count) +
                                         " connections were opened, and then no more");
            progress_(std::string(what) + " " + std::to_string(opened) + " of " + std::to_string(count) + ", " +
                      std::to_string(static_cast<long>(static_cast<double>(opened) / (seconds_since(begin) + 1e-3))) +
                      " a second");
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }

    /// Some connections for each worker, so that what a server makes once is there before it is looked at.
    void warm_up() {
        crew clients(warming * plan_.spread.servers, 1, server_.port(), plan_.idle, there_);
        clients.begin();
        wait_until_open(clients, warming * plan_.spread.servers, "warming up,");
        if (clients.told().sum(&client_words::opened) == 0)
            throw std::runtime_error("the server takes no connection: " + clients.refusal());
        (void)ask(static_cast<unsigned>(warming * plan_.spread.servers), warming_answers * plan_.spread.servers);
        check(clients);
    }

    /// So many answers over connections of this process, as fast as they come. Throws: what run_load throws.
    [[nodiscard]] http::load_outcome ask(unsigned connections, std::uint64_t answers) {
        http::load_plan plan{.server = http::loopback(server_.port()), .connections = connections};
        plan.warm_up = std::chrono::nanoseconds(0);
        plan.duration = std::chrono::nanoseconds(1);
        plan.answers_min = answers;
        plan.patience = std::chrono::seconds(30);  // as the clients that hold theirs
        plan.spin = false;
        const std::vector<http::exchange> all{
            {.request = std::string("GET ") + bytes_path + " HTTP/1.1\r\nHost: localhost\r\n\r\n",
             .body = random_bytes()}};
        http::load_outcome outcome;
        there_([&] { outcome = http::run_load(plan, all); });
        return outcome;
    }

    /// A few connections that ask as fast as they are answered, while all are held.
    void ask_beside(crew& clients) {
        note_counts(clients);
        const std::uint64_t gone = found_.lost + found_.timed_out;
        progress_("asking from " + std::to_string(busy_connections) + " more");
        try {
            const http::load_outcome outcome = ask(busy_connections, plan_.busy_requests);
            found_.busy.answers = outcome.answers;
            found_.busy.seconds = outcome.seconds;
        } catch (const http::server_failed& failure) {
            found_.busy.failure = failure.what();
        }
        check(clients);
        note_counts(clients);
        found_.busy.lost = found_.lost + found_.timed_out - gone;
    }

    void open(crew& clients) {
        const auto begin = clock::now();
        clients.begin();
        wait_until_open(clients, plan_.spread.connections, "opened");
        found_.opening_seconds = seconds_since(begin);
        note_counts(clients);
        if (found_.held() == 0) throw std::runtime_error("no connection could be opened: " + found_.refusal);
    }

    void pause(crew& clients, std::chrono::milliseconds time, const std::string& what) {
        const auto end = clock::now() + time;
        while (clock::now() < end) {
            check(clients);
            progress_(what + ", " + std::to_string(clients.told().sum(&client_words::answers)) + " answers");
            std::this_thread::sleep_for(std::min<clock::duration>(look, end - clock::now()));
        }
    }

    void measure(crew& clients, std::size_t number) {
        const std::vector<pid_t> askers = clients.processes();
        board& told = clients.told();
        const auto begin = clock::now();
        const std::uint64_t answers = told.sum(&client_words::answers), bytes = told.sum(&client_words::body_bytes);
        const std::uint64_t server_ns = processor_ns(server_.processes()), client_ns = processor_ns(askers);
        clients.measure(static_cast<std::int32_t>(number));
        pause(clients, plan_.interval,
              "measuring " + std::to_string(number + 1) + " of " + std::to_string(plan_.intervals));
        // On a machine that stands still an interval lasts until there is something to tell of it.
        for (const auto end = clock::now() + opening_patience; told.latencies(number).total() == 0;) {
            if (clock::now() > end) throw std::runtime_error("no answer came while it was measured");
            pause(clients, look, "waiting for an answer");
        }
        interval_found one;
        one.seconds = seconds_since(begin);
        one.answers = told.sum(&client_words::answers) - answers;
        one.body_bytes = told.sum(&client_words::body_bytes) - bytes;
        const auto each_us = [&](std::uint64_t before, const std::vector<pid_t>& processes) {
            return static_cast<double>(processor_ns(processes) - before) * 1e-3 /
                   static_cast<double>(std::max<std::uint64_t>(one.answers, 1));
        };
        one.server_us = each_us(server_ns, server_.processes());
        one.client_us = each_us(client_ns, askers);
        look_at_memory(one, static_cast<double>(held(clients)));
        const histogram_counts latencies = told.latencies(number);
        const auto level = [&](double q) {
            const auto at = latencies.quantile(q);
            return at ? at->estimate * 1e-3 : 0;
        };
        one.p50_us = level(0.5);
        one.p99_us = level(0.99);
        one.p999_us = level(0.999);
        found_.intervals.push_back(one);
    }

    void look_at_memory(interval_found& one, double held) {
        const std::uint64_t user = user_bytes(server_.processes()), kernel = kernel_bytes_now().sum();
        const auto grown = [&](std::uint64_t now, std::uint64_t before) {
            return (static_cast<double>(now) - static_cast<double>(before)) / held;
        };
        one.user_bytes = grown(user, user_before_);
        one.user_bytes_in_all = static_cast<double>(user) / held;
        one.kernel_bytes = grown(kernel, kernel_before_);
    }

    [[nodiscard]] std::uint64_t held(crew& clients) {
        note_counts(clients);
        return std::max<std::uint64_t>(found_.held(), 1);
    }

    void note_counts(crew& clients) {
        board& told = clients.told();
        found_.opened = told.sum(&client_words::opened);
        found_.refused = told.sum(&client_words::refused);
        found_.lost = told.sum(&client_words::lost);
        found_.timed_out = told.sum(&client_words::timed_out);
        found_.refusal = clients.refusal();
    }

    const run_plan& plan_;
    running_server& server_;
    const somewhere& there_;
    const std::function<void(std::string_view)>& progress_;
    run_found found_;
    std::uint64_t user_before_ = 0, kernel_before_ = 0;
};

}  // namespace

run_found run_connections(const subject& which, const run_plan& plan, const somewhere& there,
                          const std::function<void(std::string_view)>& progress) {
    await_rest();
    std::unique_ptr<running_server> server;
    // Twice its share, where its descriptors suffice: what a server reserves for each that may come is in its memory.
    const std::size_t share = plan.spread.connections / plan.spread.servers + warming;
    there([&] {
        server = which.start({.workers = plan.spread.servers,
                              .descriptors = plan.spread.descriptors,
                              .connections = std::min(plan.spread.server_holds, 2 * share)});
    });
    return one_run(plan, *server, there, progress).run();
}

}  // namespace holdfast::workload::connections
