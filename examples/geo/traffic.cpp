// SPDX-License-Identifier: Apache-2.0
#include "traffic.hpp"

#include <time.h>

#include <optional>

namespace geo {

namespace {

namespace net = holdfast::net;

void append_request(std::string& bytes, const std::string& path) {
    bytes.append("GET ").append(path).append(" HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

/// Books one result. Returns whether it is a right answer.
bool book(tally& to, const question& asked, const net::load_result& result) {
    if (result.outcome == net::load_outcome::lost) {
        if (result.sent) ++to.lost;
        return false;
    }
    if (result.outcome != net::load_outcome::response) {
        ++to.failed;
        return false;
    }
    for (std::size_t edition = 0; edition < asked.right.size(); ++edition) {
        const std::optional<std::string>& right = asked.right[edition];
        if (right ? result.status != 200 || result.body != *right : result.status != 404) continue;
        ++to.answers;
        ++(right ? to.found : to.not_found);
        if (right) ++to.by_country[asked.countries[edition]];
        if (to.by_edition.size() <= edition) to.by_edition.resize(edition + 1);
        ++to.by_edition[edition];
        to.latencies_us.push_back(static_cast<std::uint32_t>(result.latency_ns / 1000));
        return true;
    }
    if (to.wrong++ == 0)
        to.first_wrong = asked.path + " -> " + std::to_string(result.status) + " " + std::string(result.body);
    return false;
}

}  // namespace

traffic::traffic(std::uint16_t port, const std::vector<question>& questions, unsigned connections, std::uint64_t seed)
    : questions_(questions), random_(seed) {
    net::load_options options;
    options.port = port;
    options.connections = connections;
    client_ = std::make_unique<net::load_client>(
        options,
        [this](unsigned, std::string& bytes) -> std::optional<std::uint64_t> {
            const std::size_t index = random_() % questions_.size();
            append_request(bytes, questions_[index].path);
            return index;
        },
        [this](const net::load_result& result) { take(result); }, [this](unsigned, int) { ++tally_.refused; });
    thread_ = std::thread([this] { client_->run(); });
}

traffic::~traffic() {
    if (!thread_.joinable()) return;
    client_->stop();
    thread_.join();
}

void traffic::take(const net::load_result& result) {
    if (book(tally_, questions_[result.tag], result))
        answers_.fetch_add(1, std::memory_order_relaxed);  // a progress report
}

bool traffic::wait_for(std::uint64_t more) const {
    const std::uint64_t goal = answers() + more;
    std::uint64_t seen = answers();
    for (int quiet_ms = 0; answers() < goal;) {
        const struct timespec look{0, 1'000'000};
        ::nanosleep(&look, nullptr);
        quiet_ms = answers() == seen ? quiet_ms + 1 : 0;
        seen = answers();
        if (quiet_ms > 10'000) return false;
    }
    return true;
}

tally traffic::stop() {
    client_->finish();
    thread_.join();
    return std::move(tally_);
}

tally ask_each(std::uint16_t port, const std::vector<question>& questions, unsigned connections) {
    tally result;
    std::size_t next = 0;
    net::load_options options;
    options.port = port;
    options.connections = connections;
    net::load_client client(
        options,
        [&](unsigned, std::string& bytes) -> std::optional<std::uint64_t> {
            if (next == questions.size()) return std::nullopt;
            append_request(bytes, questions[next].path);
            return next++;
        },
        [&](const net::load_result& answer) { (void)book(result, questions[answer.tag], answer); });
    client.run();
    return result;
}

}  // namespace geo
