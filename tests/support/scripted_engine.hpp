// SPDX-License-Identifier: Apache-2.0
// scripted_engine.hpp - an engine without a kernel: a test says what arrives, what leaves and when, within wait().
//
// It keeps the promises of engine.hpp towards its sink and notes when its user breaks one: a shutdown before all has
// left, a send behind it, anything of a connection that was removed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/engine.hpp"

namespace holdfast::test {

class scripted_engine final : public net::engine {
 public:
    struct place {
        std::uint32_t generation = 0;
        std::string sent;      // and not left yet
        std::string left;      // on its way to the peer: the test takes it
        std::string arrived;   // kept while reading is paused, or until the next turn
        std::size_t room = 0;  // bytes that the kernel takes at once; the rest waits
        bool waits = false;
        bool paused = false;
        bool ends = false;  // behind what has arrived
        bool ended = false;
        bool shut = false;
        int send_error = 0;  // of the next send
        bool broken = false;
    };

    explicit scripted_engine(net::engine_sink& sink) : sink_(sink) {}

    /// Reports a connection from `listener` in the next turn.
    void connect(int listener) {
        script([this, listener] { sink_.on_accept({.listener = listener, .socket = 1, .only_refuse = false}); });
    }
    /// Runs `what` within the next turn.
    void script(std::function<void()> what) { script_.push_back(std::move(what)); }
    [[nodiscard]] place* find(net::connection_token token) {
        const auto at = places_.find(token.index);
        return at != places_.end() && at->second.generation == token.generation ? &at->second : nullptr;
    }
    /// Has so many bytes of output leave, and reports that: within a turn.
    void let_leave(net::connection_token token, std::size_t bytes) {
        place* const p = find(token);
        if (p == nullptr || p->broken || p->sent.empty()) return;
        bytes = std::min(bytes, p->sent.size());
        if (bytes == 0 && p->waits) return;
        p->left.append(p->sent, 0, bytes);
        p->sent.erase(0, bytes);
        p->waits = !p->sent.empty();
        sink_.on_sent(token, p->sent.size());
    }
    /// Reports what has arrived, in pieces of at most that size, unless reading is paused: within a turn.
    void let_arrive(net::connection_token token, std::size_t piece) {
        for (place* p = find(token); p != nullptr && !p->paused && !p->broken; p = find(token)) {
            if (p->arrived.empty()) {
                if (!p->ends || std::exchange(p->ended, true)) return;
                return sink_.on_end(token, 0);
            }
            std::string bytes = p->arrived.substr(0, piece);
            p->arrived.erase(0, bytes.size());
            sink_.on_bytes(token, bytes);
        }
    }
    /// Breaks the connection, and reports that: within a turn.
    void fail(net::connection_token token, int error) {
        place* const p = find(token);
        if (p == nullptr || std::exchange(p->broken, true)) return;
        sink_.on_end(token, error);
    }
    [[nodiscard]] const std::string& violations() const noexcept { return violations_; }
    [[nodiscard]] std::vector<std::string>& refused() noexcept { return refused_; }
    /// Whether connections begin with room in the kernel; else what is sent is on its way for a turn first.
    bool sends_at_once = true;
    /// What has left of connections that were removed, by index, and whether a reset ended them.
    struct past {
        net::connection_token token;
        std::string left;
        bool reset = false;
    };
    std::vector<past> removed;
    /// That it was asked to drain, and to leave.
    std::vector<int> listeners_drained, listeners_left;

    [[nodiscard]] std::string_view name() const noexcept override { return "scripted"; }
    void listen(int) override {}
    void unlisten(int) noexcept override {}
    void drain(int listener) override { listeners_drained.push_back(listener); }
    void leave(int listener) override { listeners_left.push_back(listener); }
    void watch(int) override {}
    void unwatch(int) noexcept override {}
    void finish() noexcept override {}
    [[nodiscard]] const std::shared_ptr<const net::wake_event>& waker() const noexcept override { return wake_; }
    [[nodiscard]] net::peer peer_of(const net::accepted&) const override { return {}; }
    [[nodiscard]] int take(const net::accepted&, net::connection_token token) override {
        places_[token.index] = place{};
        places_[token.index].generation = token.generation;
        places_[token.index].room = sends_at_once ? ~std::size_t{0} : 0;
        return 0;
    }
    void refuse(const net::accepted&, std::string_view reply) noexcept override { refused_.emplace_back(reply); }
    void remove(net::connection_token token, bool reset) noexcept override {
        place* const p = find(token);
        if (p == nullptr) return violated("a connection is removed twice");
        removed.push_back({token, p->left, reset});
        if (!sends_at_once) removed.back().left += p->sent;  // it was given to the kernel first
        places_.erase(token.index);
    }
    void shutdown_send(net::connection_token token) noexcept override {
        place* const p = find(token);
        if (p == nullptr) return violated("shut behind its removal");
        if (!p->sent.empty()) violated("shut while bytes have not left");
        if (std::exchange(p->shut, true)) violated("shut twice");
    }
    void pause(net::connection_token token) noexcept override {
        if (place* const p = find(token)) p->paused = true;
    }
    void resume(net::connection_token token) override {
        if (place* const p = find(token)) p->paused = false;
    }
    [[nodiscard]] sent send(net::connection_token token, std::string& bytes) override {
        place* const p = find(token);
        if (p == nullptr) {
            violated("a send behind its removal");
            return {0, 0, 9};
        }
        if (p->shut) violated("a send behind the end of sending");
        if (p->send_error != 0) p->broken = true;
        if (p->broken) {
            const std::size_t lost = p->sent.size() + bytes.size();
            bytes.clear();
            return {lost, 0, p->send_error != 0 ? p->send_error : 9};
        }
        p->sent += bytes;
        bytes.assign("somebody else's memory").clear();
        if (sends_at_once && !p->waits) {
            const std::size_t now = std::min(p->room, p->sent.size());
            p->left.append(p->sent, 0, now);
            p->sent.erase(0, now);
            p->waits = !p->sent.empty();
        }
        return {p->sent.size(), p->waits ? p->sent.size() : 0, 0};
    }
    void wait(int) override {
        sink_.on_wake();
        std::vector<std::function<void()>> now;
        now.swap(script_);
        for (const auto& each : now) each();
    }

 private:
    void violated(std::string_view what) {
        if (violations_.size() < 1000) violations_.append(what).append("\n");
    }

    const std::shared_ptr<const net::wake_event> wake_ = std::make_shared<net::wake_event>();
    net::engine_sink& sink_;
    std::map<std::uint32_t, place> places_;
    std::vector<std::function<void()>> script_;
    std::vector<std::string> refused_;
    std::string violations_;
};

}  // namespace holdfast::test
