// SPDX-License-Identifier: Apache-2.0
#include "holdfast/net/client.hpp"

#include <future>
#include <thread>
#include <utility>

#include "client_core.hpp"
#include "holdfast/error.hpp"

namespace holdfast::net {

namespace {

void check_callbacks(const client_callbacks& calls) {
    if (!calls.on_done)
        throw error(errc::invalid_argument, "client", "a request without on_done; pass a function that takes its end");
}

}  // namespace

client::client(client_options options) : core_(std::make_unique<client_core>(std::move(options))) {}
client::~client() = default;

request_id client::start(client_request asked, client_callbacks calls) {
    check_callbacks(calls);
    if (core_->is_ending()) return {};
    const std::uint64_t number = core_->take_number();
    core_->start(number, std::move(asked), std::move(calls));
    return {number};
}

request_id client::get(std::string url, std::function<void(client_result&&)> on_done) {
    client_request asked;
    asked.url = std::move(url);
    return start(std::move(asked), {.on_done = std::move(on_done)});
}

bool client::cancel(request_id request) { return core_->cancel(request); }
bool client::pause(request_id request) { return core_->pause(request); }
bool client::resume(request_id request) { return core_->resume(request); }
bool client::continue_upload(request_id request) { return core_->continue_upload(request); }
timer_id client::after(std::chrono::nanoseconds delay, std::function<void()> task) {
    return core_->after(delay, std::move(task));
}
bool client::cancel(timer_id timer) { return core_->cancel(timer); }
int client::fd() const noexcept { return core_->fd(); }
void client::turn() { core_->turn(); }
void client::run() { core_->run(); }
void client::stop() noexcept { core_->stop(); }
bool client::post(std::function<void()> task) {
    if (!task) throw error(errc::invalid_argument, "post", "no task; pass a function");
    return core_->post(std::move(task));
}
const client_counters& client::counters() const noexcept { return core_->counters(); }

struct client_thread::parts {
    explicit parts(client_options options) : carried(std::move(options)), thread([this] { carried.run(); }) {}

    client carried;
    std::thread thread;  // behind what it runs
};

client_thread::client_thread(client_options options) : parts_(std::make_unique<parts>(std::move(options))) {}

client_thread::~client_thread() {
    parts_->carried.stop();
    parts_->thread.join();
}

request_id client_thread::start(client_request asked, client_callbacks calls) {
    check_callbacks(calls);
    client_core& core = *parts_->carried.core_;
    const std::uint64_t number = core.take_number();
    // A function has to be copyable; what goes with it is moved all the same.
    auto given = std::make_shared<std::pair<client_request, client_callbacks>>(std::move(asked), std::move(calls));
    const bool taken =
        core.post([&core, number, given] { core.start(number, std::move(given->first), std::move(given->second)); });
    return {taken ? number : 0};
}

client_result client_thread::ask(client_request asked) {
    if (std::this_thread::get_id() == parts_->thread.get_id())
        throw error(errc::invalid_argument, "client_thread::ask", "called from a callback, it would wait for itself");
    auto promised = std::make_shared<std::promise<client_result>>();
    std::future<client_result> result = promised->get_future();
    const request_id started = start(
        std::move(asked), {.on_done = [promised](client_result&& made) { promised->set_value(std::move(made)); }});
    if (started.number != 0) return result.get();
    client_result ended;
    ended.error = client_error::client_ended;
    return ended;
}

void client_thread::cancel(request_id request) {
    client_core& core = *parts_->carried.core_;
    core.post([&core, request] { core.cancel(request); });
}
void client_thread::pause(request_id request) {
    client_core& core = *parts_->carried.core_;
    core.post([&core, request] { core.pause(request); });
}
void client_thread::resume(request_id request) {
    client_core& core = *parts_->carried.core_;
    core.post([&core, request] { core.resume(request); });
}
void client_thread::continue_upload(request_id request) {
    client_core& core = *parts_->carried.core_;
    core.post([&core, request] { core.continue_upload(request); });
}
bool client_thread::post(std::function<void(client&)> task) {
    if (!task) throw error(errc::invalid_argument, "post", "no task; pass a function");
    client& carried = parts_->carried;
    return carried.post([&carried, task = std::move(task)] { task(carried); });
}

}  // namespace holdfast::net
