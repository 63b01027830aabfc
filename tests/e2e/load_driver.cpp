// SPDX-License-Identifier: Apache-2.0
// load_driver.cpp - net::load_client in a process of its own, for servers that are replaced under its load.
//
//   load_driver PORT CONNECTIONS PIPELINE [REQUEST ANSWER]...
//
// REQUEST is a file that holds one request, ANSWER a text that the body of its answer has in it; connection i asks the
// i-th of them, modulo their number. A line of the standard input is answered by a line as soon as every connection has
// had an answer since. When the input ends no more is asked, and one line of JSON says what became of all requests.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/load_client.hpp"

namespace {

using namespace holdfast;

struct exchange {
    std::string request, answer;
};

/// What became of each request, and which connections were answered lately.
class account {
 public:
    account(unsigned connections, std::vector<exchange> exchanges)
        : exchanges_(std::move(exchanges)), links_(connections) {}

    // The load's thread.
    std::optional<std::uint64_t> next(unsigned connection, std::string& bytes) {
        links_[connection].told_to_close = false;
        bytes += exchange_of(connection).request;
        return made_++;
    }
    void take(const net::load_result& result) {
        link& of = links_[result.connection];
        if (result.outcome != net::load_outcome::response) {
            // The server has not looked at them, and says so: RFC 9112 section 9.6.
            behind_last_ += result.outcome == net::load_outcome::lost && of.told_to_close ? 1 : 0;
            return;
        }
        of.told_to_close = result.head.find("\r\nConnection: close\r\n") != std::string_view::npos;
        const bool right =
            result.status == 200 && result.body.find(exchange_of(result.connection).answer) != std::string_view::npos;
        if (!right && wrong_++ == 0) std::cerr << result.head << result.body << std::endl;
        count_in(of);
    }

    // Any one other thread.
    void wait_for_all() {
        const unsigned round = ++round_;
        for (unsigned done = done_; done != round; done = done_) done_.wait(done);
    }

    /// After the end of both.
    void print(const net::load_counters& of) const {
        std::cout << "{\"connected\": " << of.connected << ", \"requests\": " << of.requests
                  << ", \"responses\": " << of.responses << ", \"behind_last\": " << behind_last_
                  << ", \"refused\": " << of.refused << ", \"lost\": " << of.lost - behind_last_
                  << ", \"timed_out\": " << of.timed_out << ", \"malformed\": " << of.malformed
                  << ", \"wrong\": " << wrong_ << "}" << std::endl;
    }

 private:
    struct link {
        bool told_to_close = false;
        unsigned round = 0;  // of its last answer
    };

    [[nodiscard]] const exchange& exchange_of(unsigned connection) const {
        return exchanges_[connection % exchanges_.size()];
    }
    void count_in(link& of) {
        const unsigned round = round_;
        if (of.round == round) return;
        of.round = round;
        if (std::exchange(counted_round_, round) != round) counted_ = 0;
        if (++counted_ < links_.size()) return;
        done_ = round;
        done_.notify_one();
    }

    std::vector<exchange> exchanges_;
    std::vector<link> links_;
    std::uint64_t made_ = 0, behind_last_ = 0, wrong_ = 0;
    unsigned counted_round_ = 0;
    std::size_t counted_ = 0;  // connections with an answer in that round
    std::atomic<unsigned> round_{0};
    std::atomic<unsigned> done_{0};
};

unsigned number(const char* word) { return static_cast<unsigned>(std::strtoul(word, nullptr, 10)); }

std::string contents(const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(std::string("no file ") + path);
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int count, char** words) {
    try {
        if (count < 6 || count % 2 != 0)
            throw std::invalid_argument("PORT CONNECTIONS PIPELINE [REQUEST ANSWER]... is to be given");
        std::vector<exchange> exchanges;
        for (int i = 4; i < count; i += 2) exchanges.push_back({contents(words[i]), words[i + 1]});
        const unsigned connections = number(words[2]);
        account book(connections, std::move(exchanges));
        net::load_client client(
            {.port = static_cast<std::uint16_t>(number(words[1])),
             .connections = connections,
             .pipeline = number(words[3]),
             .request_timeout = std::chrono::seconds(60)},
            [&](unsigned connection, std::string& bytes) { return book.next(connection, bytes); },
            [&](const net::load_result& result) { book.take(result); });
        std::thread load([&] { client.run(); });
        for (std::string line; std::getline(std::cin, line);) {
            book.wait_for_all();
            std::cout << "each has an answer" << std::endl;
        }
        client.finish();
        load.join();
        book.print(client.counters());
        return 0;
    } catch (const std::exception& e) {
        std::cerr << "load_driver: " << e.what() << std::endl;
        return 1;
    }
}
