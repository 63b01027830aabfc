// SPDX-License-Identifier: Apache-2.0
// tls_fuzz.cpp - what a client of TLS sends, and may have had changed on its way, to a server's side (tls_engine.hpp).
//
// The first byte says what is sent (bits 0 and 1): 0 for the bytes from the third on; else what a client of OpenSSL
// said to this server as the program began, by TLS 1.3 (1), by TLS 1.2 (2), or by a ticket (3), with those bytes as
// edits of it, four each. Bit 2: the server pauses behind each record. The second byte is the size of the cuts.
// What OpenSSL draws is ours, and begins anew with each connection of the server. So a server says the same again, what
// was said to it can be said again, and streams may be compared.
// (F1) Neither cuts nor pauses change what is reported.
// (F2) Whatever is changed on the way, the server reads what the client said, in order, from its beginning.
// (F3) What the server says is whole records.
// (F4) engine.hpp's promises hold, and each connection's end is reported once.
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mutation.hpp"
#include "net/tls_engine.hpp"
#include "require.hpp"
#include "support/scripted_engine.hpp"
#include "support/tls_peer.hpp"

namespace {

using namespace holdfast;
using fuzz::numbers;
using fuzz::require;

// --- what OpenSSL draws

/// From what it is drawn for the time of a call.
class drawing {
 public:
    explicit drawing(numbers& from) noexcept : before_(std::exchange(now_, &from)) {}
    ~drawing() { now_ = before_; }
    drawing(const drawing&) = delete;
    drawing& operator=(const drawing&) = delete;

    static int draw(unsigned char* into, int bytes) {
        static numbers otherwise(1);
        numbers& from = now_ != nullptr ? *now_ : otherwise;
        for (int i = 0; i < bytes; ++i) into[i] = static_cast<unsigned char>(from());
        return 1;
    }
    /// OpenSSL draws by draw() from now on.
    static void begin() {
        static const RAND_METHOD ours{
            .seed = nullptr, .bytes = draw, .cleanup = nullptr, .add = nullptr, .pseudorand = draw, .status = [] {
                return 1;
            }};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // what is to take its place is a provider of 300 lines
        RAND_set_rand_method(&ours);
#pragma GCC diagnostic pop
    }

 private:
    static inline numbers* now_ = nullptr;
    numbers* before_;
};

// --- the server

constexpr int with_tls = 7;
constexpr net::connection_token here{.index = 0, .generation = 1};

/// One connection of a server that answers each record.
class answering_server final : public net::engine_sink {
 public:
    answering_server(const net::tls_credentials& credentials, bool pauses) : pauses_(pauses) {
        const drawing now(random_);
        engine_ = net::make_tls_engine(*this, {{.listener = with_tls, .credentials = credentials}},
                                       [this](net::engine_sink& sink) {
                                           auto made = std::make_unique<test::scripted_engine>(sink);
                                           below_ = made.get();
                                           return made;
                                       });
        below_->connect(with_tls);
        turn();
    }

    /// The bytes arrive, in pieces of at most that size. Returns: what the server says to it.
    std::string hear(std::string_view bytes, std::size_t piece) {
        below_->find(here)->arrived.append(bytes);
        do {
            if (std::exchange(paused_, false)) engine_->resume(here);
            below_->script([this, piece] { below_->let_arrive(here, piece); });
            turn();
        } while (paused_);
        return std::exchange(below_->find(here)->left, {});
    }
    /// The client has gone. Returns: the server's last words.
    std::string end(bool reset) {
        below_->find(here)->ends = true;
        std::string said = hear({}, 1);
        require(ended_, "F4: the end is reported");
        const drawing now(random_);
        engine_->remove(here, reset);
        require(below_->removed.size() == 1, "F4: it is removed below");
        require(below_->violations().empty(), "F4: the engine below is used as it may be");
        return said + below_->removed.front().left;
    }
    /// All reports: a record in brackets, an event as a digit, the end as $.
    [[nodiscard]] const std::string& reports() const noexcept { return reports_; }
    [[nodiscard]] const std::string& received() const noexcept { return received_; }

    void on_wake() override {}
    void on_accept(net::accepted arrival) override { require(engine_->take(arrival, here) == 0, "it is taken"); }
    void on_accept_paused() override {}
    void on_drained(int) override {}
    void on_watched(int) override {}
    void on_bytes(net::connection_token token, std::span<char> bytes) override {
        reported(token);
        require(!paused_, "F4: no bytes of a paused connection");
        require(!ended_, "F4: no bytes behind the end");
        require(!bytes.empty(), "F4: no report of nothing");
        if (shut_) return;  // thrown away
        require(secured_, "F4: no bytes before the handshake is made");
        reports_.append("[").append(bytes.data(), bytes.size()).append("]");
        received_.append(bytes.data(), bytes.size());
        std::ranges::fill(bytes, '!');
        std::string answer = "answer";
        require(engine_->send(here, answer).error == 0, "an answer can be sent");
        if (!pauses_) return;
        paused_ = true;
        engine_->pause(here);
    }
    void on_end(net::connection_token token, int error) override {
        reported(token);
        require(error == 0, "F4: nothing breaks that does not below");
        require(!paused_, "F4: no end of a paused connection");
        require(!std::exchange(ended_, true), "F4: one end");
        reports_ += '$';
    }
    void on_sent(net::connection_token token, std::size_t unsent) override {
        reported(token);
        require(unsent == 0, "all leaves at once");
    }
    void on_tls(net::connection_token token, net::tls_event what) override {
        reported(token);
        require(!ended_, "F4: nothing of TLS behind the end");
        reports_ += static_cast<char>('0' + static_cast<int>(what));
        switch (what) {
            case net::tls_event::secured:
            case net::tls_event::resumed: require(!std::exchange(secured_, true), "F4: one handshake"); return;
            case net::tls_event::cut:
            case net::tls_event::truncated: return;
            case net::tls_event::plain:
            case net::tls_event::refused:
            case net::tls_event::broken:
                require(!std::exchange(shut_, true), "F4: it fails once");
                return engine_->shutdown_send(here);
        }
    }

 private:
    void turn() {
        const drawing now(random_);
        waiting_ = true;
        engine_->wait(0);
        waiting_ = false;
    }
    void reported(net::connection_token token) const {
        require(waiting_, "F4: reports come within wait()");
        require(token.index == here.index && token.generation == here.generation, "F4: of that connection");
    }

    numbers random_{2};
    test::scripted_engine* below_ = nullptr;
    std::unique_ptr<net::engine> engine_;
    bool pauses_;
    bool waiting_ = false;
    bool paused_ = false;
    bool secured_ = false;
    bool shut_ = false;
    bool ended_ = false;
    std::string reports_;
    std::string received_;
};

void check_records(std::string_view said) {  // (F3)
    while (!said.empty()) {
        require(said.size() >= 5, "F3: a whole header");
        const auto byte = [&](std::size_t at) -> std::size_t { return static_cast<unsigned char>(said[at]); };
        const std::size_t payload = byte(3) << 8U | byte(4);
        require(byte(0) >= 20 && byte(0) <= 23, "F3: a record of TLS");  // of the version that a client claims
        require(said.size() >= 5 + payload, "F3: a whole record");
        said.remove_prefix(5 + payload);
    }
}

// --- the conversations

/// What a client said.
struct conversation {
    std::vector<std::string> records;  // as they were sent
    std::string text;                  // in them
    std::string reports;               // what the server makes of that
};

void split_into(std::vector<std::string>& records, std::string_view bytes) {
    while (!bytes.empty()) {
        const std::size_t payload =
            static_cast<std::size_t>(static_cast<unsigned char>(bytes[3])) << 8U | static_cast<unsigned char>(bytes[4]);
        records.emplace_back(bytes.substr(0, 5 + payload));
        bytes.remove_prefix(5 + payload);
    }
}

conversation hold(const net::tls_credentials& credentials, const test::tls_client_options& wanted,
                  test::tls_ptr<SSL_SESSION>& ticket) {
    numbers random(wanted.session != nullptr ? 5 : 3 + static_cast<std::uint64_t>(wanted.version_max != 0));
    const drawing now(random);
    answering_server server(credentials, false);
    test::tls_client_end client(wanted);
    conversation made;
    const auto exchange = [&] {
        const std::string said = client.take();
        split_into(made.records, said);
        client.feed(server.hear(said, said.size() + 1));
    };
    while (!client.shake()) {
        require(!client.failed(), "the client is content");
        exchange();
    }
    exchange();
    for (const std::string& text :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(600, 'x'), std::string("last")}) {
        client.read();
        client.write(text);
        made.text += text;
        made.reports += "[" + text + "]";
        exchange();
        if (SSL_version(client.get()) != TLS1_3_VERSION) continue;
        SSL_key_update(client.get(), SSL_KEY_UPDATE_REQUESTED);
        (void)SSL_do_handshake(client.get());
        exchange();
    }
    client.read();
    require(client.received() == "answeransweranswer", "the client was answered");
    if (client.session() != nullptr && SSL_SESSION_up_ref(client.session()) == 1) ticket.reset(client.session());
    client.notify();
    exchange();
    return made;
}

/// (F2) Four bytes an edit: what, which record, where in it (from the end with the top bit of `what`), a value.
std::string edited(std::vector<std::string> records, std::span<const std::uint8_t> edits) {
    for (; edits.size() >= 4 && !records.empty(); edits = edits.subspan(4)) {
        const auto which = static_cast<std::ptrdiff_t>(edits[1] % records.size());
        const auto place = records.begin() + which;
        std::string& record = *place;
        std::size_t at = std::min<std::size_t>(edits[2], record.size());
        if ((edits[0] & 0x80U) != 0) at = record.size() - at;
        const auto value = static_cast<char>(edits[3]);
        switch (edits[0] % 0x80U % 10) {
            case 0:
                if (at < record.size()) record[at] = static_cast<char>(record[at] ^ value);
                break;
            case 1: record.insert(at, 1, value); break;
            case 2: record.erase(at, edits[3]); break;
            case 3: record.resize(at); break;
            case 4: records.erase(place); break;
            case 5: records.insert(place, std::string(record)); break;
            case 6: std::swap(record, records[edits[3] % records.size()]); break;
            case 7: records.insert(place, std::string{value, 3, 3, 0, 9} + std::string(9, '\1')); break;
            case 8: records.erase(place, records.end()); break;
            default: {  // a record as two of its type
                if (at < 6 || at >= record.size()) break;
                const std::string payload = record.substr(5), head = record.substr(0, 3);
                const auto framed = [&](std::string_view part) {
                    return (head + static_cast<char>(part.size() >> 8U) + static_cast<char>(part.size())).append(part);
                };
                record = framed(std::string_view(payload).substr(0, at - 5)) +
                         framed(std::string_view(payload).substr(at - 5));
            }
        }
    }
    std::string stream;
    for (const std::string& each : records) stream += each;
    return stream;
}

struct found {
    std::string reports;
    std::string received;

    friend bool operator==(const found&, const found&) = default;
};

class subject {
 public:
    subject() {
        test::tls_ptr<SSL_SESSION> ticket;
        spoken_.push_back(hold(credentials_, {}, ticket));
        test::tls_ptr<SSL_SESSION> other;
        spoken_.push_back(hold(credentials_, {.version_max = TLS1_2_VERSION}, other));
        require(ticket != nullptr, "the server gives tickets");
        spoken_.push_back(hold(credentials_, {.session = ticket.get()}, other));
        for (const conversation& each : spoken_) {  // else nothing would be reached behind a handshake, and nobody know
            const auto how = &each == &spoken_.back() ? net::tls_event::resumed : net::tls_event::secured;
            require(hear(edited(each.records, {}), 16384, false).reports ==
                        std::string(1, static_cast<char>('0' + static_cast<int>(how))) + each.reports + "$",
                    "what was said is heard again");
        }
    }

    [[nodiscard]] const conversation& spoken(unsigned which) const { return spoken_.at(which); }

    [[nodiscard]] found hear(std::string_view stream, std::size_t piece, bool pauses) const {
        answering_server server(credentials_, pauses);
        std::string said = server.hear(stream, piece);
        said += server.end(piece % 2 == 0);
        check_records(said);
        return {server.reports(), server.received()};
    }

 private:
    struct begun {
        begun() { drawing::begin(); }
    };

    begun begun_;  // before anything is drawn
    net::tls_credentials credentials_{test::tls_folder().write_pair()};
    std::vector<conversation> spoken_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    static const subject server;
    if (bytes < 2) return 0;
    const unsigned what = data[0] % 4;
    const bool pauses = (data[0] & 4U) != 0;
    const std::size_t piece = data[1] + std::size_t{1};
    const std::span<const std::uint8_t> rest(data + 2, bytes - 2);
    std::string stream =
        what == 0 ? std::string(rest.begin(), rest.end())
                  : edited(server.spoken(what - 1).records, rest.first(std::min<std::size_t>(rest.size(), 64)));
    stream.resize(std::min<std::size_t>(stream.size(), 16384));  // below what a handshake may take: it counts by cuts
    const found whole = server.hear(stream, stream.size() + 1, false);
    require(server.hear(stream, piece, pauses) == whole, "F1: cuts and pauses change nothing");
    if (stream.size() <= 256) require(server.hear(stream, 1, false) == whole, "F1: nor does it byte by byte");
    if (what != 0) require(server.spoken(what - 1).text.starts_with(whole.received), "F2: it is what the client said");
    return 0;
}
