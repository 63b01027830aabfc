// SPDX-License-Identifier: Apache-2.0
#include "tls_engine.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "place_table.hpp"
#include "tls_session.hpp"

namespace holdfast::net {

namespace {

constexpr char tls_first_byte = 22;                                      // of a record that belongs to a handshake
constexpr std::size_t tls_plain_bytes_max = 16U << 10U;                  // of a record
constexpr std::size_t tls_kept_capacity_max = 256U << 10U;               // of the shared buffers
constexpr std::string_view tls_busy("\x15\x03\x03\x00\x02\x02\x50", 7);  // a fatal alert: internal_error

class tls_engine final : public engine, private engine_sink {
 public:
    tls_engine(engine_sink& sink, std::vector<tls_listener> listeners,
               const std::function<std::unique_ptr<engine>(engine_sink&)>& make)
        : sink_(sink),
          listeners_(std::move(listeners)),
          plain_(std::make_unique<std::array<char, tls_plain_bytes_max>>()),
          below_(make(*this)) {}

    [[nodiscard]] std::string_view name() const noexcept override { return below_->name(); }
    [[nodiscard]] engine_shortages shortages() const noexcept override { return below_->shortages(); }
    void listen(int listener) override { below_->listen(listener); }
    void unlisten(int listener) noexcept override { below_->unlisten(listener); }
    void drain(int listener) override { below_->drain(listener); }
    void leave(int listener) override { below_->leave(listener); }
    void watch(int fd) override { below_->watch(fd); }
    void unwatch(int fd) noexcept override { below_->unwatch(fd); }
    void finish() noexcept override { below_->finish(); }
    [[nodiscard]] const std::shared_ptr<const wake_event>& waker() const noexcept override { return below_->waker(); }
    [[nodiscard]] peer peer_of(const accepted& arrival) const override { return below_->peer_of(arrival); }

    [[nodiscard]] bool secures(int listener) const noexcept override { return secured_by(listener) != nullptr; }

    [[nodiscard]] int take(const accepted& arrival, connection_token connection) override {
        const tls_listener* const listener = secured_by(arrival.listener);
        links_.grow(connection.index + std::size_t{1});
        auto fresh = listener != nullptr ? std::make_unique<link>(*listener, connection) : nullptr;
        const int code = below_->take(arrival, connection);
        if (code == 0) links_[connection.index] = std::move(fresh);
        return code;
    }

    void refuse(const accepted& arrival, std::string_view reply) noexcept override {
        below_->refuse(arrival, secures(arrival.listener) ? tls_busy : reply);
    }

    void remove(connection_token connection, bool reset) noexcept override {
        if (link* const l = find(connection)) {
            if (!reset && l->state == stage::open && !l->broken && l->unsent == 0) say_goodbye(*l);
            if (reading_ == l) reading_ = nullptr;
            links_[connection.index].reset();
        }
        below_->remove(connection, reset);
    }

    void shutdown_send(connection_token connection) noexcept override {
        link* const l = find(connection);
        if (l == nullptr) return below_->shutdown_send(connection);
        std::string& out = output_of(*l);
        if (l->state == stage::open && !l->broken) l->session->close(out);
        l->state = stage::over;
        l->session.reset();
        std::string().swap(l->held);  // nobody reads it any more
        l->shut = true;
        if (!out.empty()) note(*l, below_->send(connection, out));
        l->shut_due = l->unsent != 0;  // close_notify is on its way
        if (!l->shut_due) below_->shutdown_send(connection);
    }

    void pause(connection_token connection) override {
        if (link* const l = find(connection)) l->paused = true;
        below_->pause(connection);
    }

    void resume(connection_token connection) override {
        if (link* const l = find(connection); l != nullptr && std::exchange(l->paused, false) && l->stalled)
            resumed_.push_back(connection);
        below_->resume(connection);
    }

    [[nodiscard]] std::size_t held(connection_token connection) const noexcept override {
        const link* const l = find(connection);
        return (l != nullptr ? l->held.size() : 0) + below_->held(connection);
    }

    [[nodiscard]] sent send(connection_token connection, std::string& bytes) override {
        link* const l = find(connection);
        if (l == nullptr) return below_->send(connection, bytes);
        const std::size_t given = bytes.size();
        std::string& out = output_of(*l);
        const std::size_t before = out.size();
        const bool written = l->state == stage::open && !l->broken && l->session->write(bytes, out);
        bytes.clear();
        if (!written) {
            out.clear();
            l->broken = true;
            return {l->unsent + given, 0, EPIPE};
        }
        const std::size_t overhead = out.size() - before - given;
        if (corking_ && &out == &cork_) {  // (S4)
            l->told = l->unsent + out.size();
            return {l->told, l->waits ? l->told : 0, 0, overhead};
        }
        sent result = below_->send(connection, out);
        note(*l, result);
        l->told = l->unsent;
        result.overhead = overhead;
        trim(out);
        return result;
    }

    void wait(int timeout_ms) override { below_->wait(resumed_.empty() ? timeout_ms : 0); }

 private:
    enum class stage : std::uint8_t {
        silent,   // nothing has come
        shaking,  // the handshake is under way; there is no session before the first record of it is whole (S2)
        open,
        over,  // our side is shut, or TLS has failed: there is no session, and what comes is thrown away
    };

    struct link {
        link(const tls_listener& of, connection_token named) : listener(&of), token(named) {}

        const tls_listener* listener;
        connection_token token;
        stage state = stage::silent;
        bool secured = false;  // the handshake has been made, and that reported
        bool paused = false;
        bool stalled = false;         // something is left to be reported when it is paused no more
        bool notified = false;        // the peer said close_notify
        bool below_ended = false;     // and its side of the connection is shut
        bool ended = false;           // that has been reported
        bool broken = false;          // nothing more is to be reported (I1)
        bool shut = false;            // the server has asked for it,
        bool shut_due = false;        // and it is done when what is unsent has left
        bool waits = false;           // what is unsent has no room in the kernel
        std::uint32_t own_bytes = 0;  // said by TLS itself since all had left (S3)
        std::size_t shaken_bytes = 0;
        std::size_t unsent = 0;  // of the engine below
        std::size_t told = 0;    // and what the server knows of it
        std::unique_ptr<tls_session> session;
        std::string held;  // received and not looked at: while it is stalled, or the first record is not whole
    };

    [[nodiscard]] link* find(connection_token connection) const noexcept {
        if (connection.index >= links_.size()) return nullptr;
        link* const l = links_[connection.index].get();
        return l != nullptr && l->token.generation == connection.generation ? l : nullptr;
    }
    [[nodiscard]] const tls_listener* secured_by(int listener) const noexcept {
        const auto found = std::ranges::find(listeners_, listener, &tls_listener::listener);
        return found != listeners_.end() ? &*found : nullptr;
    }

    // Of the connection that is being read from, what leaves behind the report; else a place for the time of a send.
    [[nodiscard]] std::string& output_of(const link& l) noexcept { return reading_ == &l ? cork_ : out_; }
    static void trim(std::string& buffer) noexcept {
        if (buffer.capacity() > tls_kept_capacity_max) std::string().swap(buffer);
    }
    static void note(link& l, const sent& result) noexcept {
        l.unsent = result.unsent;
        l.waits = result.waiting != 0;
        if (l.unsent == 0) l.own_bytes = 0;
        l.broken |= result.error != 0;
    }

    // --- reports of the engine below

    void on_wake() override {
        sink_.on_wake();
        turn_.swap(resumed_);
        for (const connection_token connection : turn_) take_up(connection);
        turn_.clear();
    }
    void on_accept(accepted arrival) override { sink_.on_accept(arrival); }
    void on_accept_paused() override { sink_.on_accept_paused(); }
    void on_drained(int listener) override { sink_.on_drained(listener); }
    void on_watched(int fd) override { sink_.on_watched(fd); }
    void on_held(connection_token connection) override { sink_.on_held(connection); }

    void on_bytes(connection_token connection, std::span<char> bytes) override {
        link* const l = find(connection);
        if (l == nullptr) return sink_.on_bytes(connection, bytes);
        if (l->broken || l->notified) return;
        if (l->state == stage::over) {
            if (!l->ended) sink_.on_bytes(connection, bytes);  // who counts what it throws away
        } else if (l->stalled) {
            l->held.append(bytes.data(), bytes.size());
        } else {
            receive(*l, bytes);
        }
    }

    void on_end(connection_token connection, int error) override {
        link* l = find(connection);
        if (l == nullptr) return sink_.on_end(connection, error);
        if (l->broken) return;
        l->below_ended = true;
        if (l->state == stage::shaking) {
            l->state = stage::over;
            l->session.reset();
            sink_.on_tls(connection, tls_event::cut);
            l = find(connection);
            if (l == nullptr) return;
        }
        if (error == 0) return input_ends(*l);
        l->broken = true;
        sink_.on_end(connection, error);
    }

    void on_sent(connection_token connection, std::size_t unsent) override {
        link* const l = find(connection);
        if (l == nullptr) return sink_.on_sent(connection, unsent);
        note(*l, {unsent, unsent, 0});
        if (l->broken || (!l->secured && !l->shut)) return;
        if (l->shut) {
            if (unsent == 0 && std::exchange(l->shut_due, false)) below_->shutdown_send(connection);
            return;
        }
        l->told = unsent;
        sink_.on_sent(connection, unsent);
    }

    // --- input

    void receive(link& l, std::span<const char> input) {
        const connection_token connection = l.token;
        std::string kept;
        if (!l.session && !greet(l, input, kept)) return;
        reading_ = &l;
        if (l.state == stage::open || shake(l, input)) read(connection, input);
        reading_ = nullptr;
        cork_.clear();  // of a connection that is gone
        trim(cork_);
    }

    // The first bytes. They are kept until the first record is whole (S2), and stand behind `kept` then. Returns
    // whether there is a session to look at `input`.
    [[nodiscard]] bool greet(link& l, std::span<const char>& input, std::string& kept) {
        constexpr std::size_t header_bytes = 5;
        const char first = l.held.empty() ? input.front() : l.held.front();
        const bool handshake = first == tls_first_byte;
        if (handshake && l.state == stage::silent) l.state = stage::shaking;
        const auto byte = [&](std::size_t at) -> std::size_t {
            return static_cast<unsigned char>(at < l.held.size() ? l.held[at] : input[at - l.held.size()]);
        };
        const std::size_t there = l.held.size() + input.size();
        const std::size_t record = there < header_bytes ? 0 : byte(3) << 8U | byte(4);
        if (handshake && record <= tls_plain_bytes_max) {
            if (there < header_bytes || there < header_bytes + record) {
                l.held.append(input.data(), input.size());
                return false;
            }
            l.session = tls_session::begin(*l.listener);
        }
        if (!l.session) {
            l.state = stage::over;
            const bool request = first >= 'A' && first <= 'Z';
            sink_.on_tls(l.token, request ? tls_event::plain : tls_event::refused);
            return false;
        }
        if (l.held.empty()) return true;
        kept = std::exchange(l.held, {}).append(input.data(), input.size());
        input = kept;
        return true;
    }

    // Returns whether bytes may be read now.
    [[nodiscard]] bool shake(link& l, std::span<const char>& input) {
        const connection_token connection = l.token;
        l.shaken_bytes += input.size();
        tls_status status = l.session->shake(input, cork_);
        if (status == tls_status::more && l.shaken_bytes > tls_handshake_bytes_max) status = tls_status::failed;
        if (status == tls_status::failed) return fail(l, tls_event::refused), false;
        if (status == tls_status::done) l.state = stage::open;
        if (!flush(l) || status != tls_status::done || find(connection) != &l) return false;
        l.secured = true;
        sink_.on_tls(connection, l.session->resumed() ? tls_event::resumed : tls_event::secured);
        return find(connection) == &l;
    }

    void read(connection_token connection, std::span<const char> input) {
        link* l = find(connection);
        while (l != nullptr && l->state == stage::open && !l->broken) {
            if (l->paused) {
                l->stalled = true;
                l->held.assign(input.data(), input.size());
                break;
            }
            const std::size_t before = cork_.size();
            auto [status, bytes] = l->session->read(input, *plain_, cork_);
            l->own_bytes += static_cast<std::uint32_t>(cork_.size() - before);
            if (l->own_bytes > tls_own_bytes_max) status = tls_status::failed;
            if (status == tls_status::done) {
                corking_ = !input.empty();
                sink_.on_bytes(connection, {plain_->data(), bytes});
                corking_ = false;
                l = find(connection);
                continue;
            }
            if (status == tls_status::failed) return fail(*l, tls_event::broken);
            l->notified = status == tls_status::ended;
            break;
        }
        if (l == nullptr || !flush(*l)) return;
        l = find(connection);  // the server has been told, and may have removed it
        if (l != nullptr) input_ends(*l);
    }

    void take_up(connection_token connection) {
        link* const l = find(connection);
        if (l == nullptr || l->paused || l->broken || !std::exchange(l->stalled, false)) return;
        const std::string held = std::exchange(l->held, {});
        if (l->state == stage::open && !l->notified) return receive(*l, held);
        input_ends(*l);
    }

    // Reports the end of input, if it has come and nothing stands before it.
    void input_ends(link& l) {
        if (l.ended || l.stalled || (!l.notified && !l.below_ended)) return;
        if (l.paused) {
            l.stalled = true;
            return;
        }
        const connection_token connection = l.token;
        l.ended = true;
        if (!l.notified && l.state == stage::open) sink_.on_tls(connection, tls_event::truncated);
        if (find(connection) != nullptr) sink_.on_end(connection, 0);
    }

    // --- output

    // Sends what was corked. Returns: false when the connection is broken, and that has been reported.
    [[nodiscard]] bool flush(link& l) {
        if (cork_.empty()) return true;
        const connection_token connection = l.token;
        const sent result = below_->send(connection, cork_);
        note(l, result);
        if (result.error != 0) {
            if (!l.secured) sink_.on_tls(connection, tls_event::cut);
            if (find(connection) != nullptr) sink_.on_end(connection, result.error);
            return false;
        }
        // What has no room is told at once (I5), and that all has left. What is on its way reports for itself.
        const bool news = result.waiting != 0 || (result.unsent == 0 && l.told != 0);
        if (!l.secured || !news) return true;
        l.told = result.unsent;
        sink_.on_sent(connection, result.unsent);
        return true;
    }

    // The last word is an alert, if it can be said.
    void fail(link& l, tls_event why) {
        const connection_token connection = l.token;
        l.state = stage::over;
        l.session.reset();
        if (flush(l) && find(connection) == &l) sink_.on_tls(connection, why);
    }

    void say_goodbye(link& l) noexcept {
        try {
            std::string& out = output_of(l);
            l.session->close(out);
            (void)below_->send(l.token, out);
        } catch (const std::bad_alloc&) {
            // then without
        }
    }

    engine_sink& sink_;
    const std::vector<tls_listener> listeners_;
    std::unique_ptr<std::array<char, tls_plain_bytes_max>> plain_;  // of the record being read
    place_table<std::unique_ptr<link>> links_;                      // by connection index; nothing without TLS
    std::vector<connection_token> resumed_;                         // have something left to report
    std::vector<connection_token> turn_;
    std::string out_;                // of a send
    std::string cork_;               // of the connection being read from
    const link* reading_ = nullptr;  // it
    bool corking_ = false;           // more of it follows in this report
    std::unique_ptr<engine> below_;  // reports to us: it goes first
};

}  // namespace

std::unique_ptr<engine> make_tls_engine(engine_sink& sink, std::vector<tls_listener> listeners,
                                        const std::function<std::unique_ptr<engine>(engine_sink&)>& make) {
    return std::make_unique<tls_engine>(sink, std::move(listeners), make);
}

}  // namespace holdfast::net
