// SPDX-License-Identifier: Apache-2.0
// channel_library.hpp - queues and rings of a registry, behind the C interface of the libraries that
// bench/channels/peers/build makes. Both sides are threads of one process. A batch of messages is one call; messages
// one by one pay an indirect call each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "workload/channel_subject.hpp"

namespace holdfast::bench {

struct channel_library {
    std::uint32_t (*kinds)() = nullptr;
    const char* (*name)(std::uint32_t) = nullptr;
    const char* (*version)(std::uint32_t) = nullptr;
    std::uint32_t (*form)(std::uint32_t) = nullptr;  // 0: queue; 1: ring that counts what is lost; 2: ring
    void* (*make)(std::uint32_t, std::size_t message_bytes, std::size_t capacity, const char* name) = nullptr;
    void (*free)(void*) = nullptr;
    bool (*open)(void*, bool sends) = nullptr;
    std::size_t (*send)(void*, const std::byte*, std::size_t) = nullptr;
    std::size_t (*receive)(void*, std::byte*, std::size_t) = nullptr;
    std::uint64_t (*lost)(void*) = nullptr;
    bool (*in_place)(std::uint32_t) =
        nullptr;  // whether add_up reads messages where they lie; else it is not to be called
    std::size_t (*add_up)(void*, std::size_t most, workload::words_seen*) = nullptr;
};

template <std::size_t Bytes>
class library_channel {
 public:
    static constexpr std::string_view name = "a channel of a registry";
    static constexpr workload::far_place place = workload::far_place::thread;
    static constexpr std::size_t message_bytes = Bytes;
    static std::string version() { return {}; }

    library_channel(const workload::channel_request& request, std::string_view way)
        : library_(*static_cast<const channel_library*>(request.of)),
          channel_(library_.make(static_cast<std::uint32_t>(request.kind), Bytes, request.ring_bytes / Bytes,
                                 (request.name + "/" + std::string(way)).c_str()),
                   library_.free) {
        if (!channel_) throw std::runtime_error("the library has no such channel");
    }
    void open_sender() { open(true); }
    void open_receiver() { open(false); }
    std::size_t send(std::span<const std::byte> messages) {
        return good(library_.send(channel_.get(), messages.data(), messages.size() / Bytes));
    }
    std::size_t receive(std::span<std::byte> out) {
        return good(library_.receive(channel_.get(), out.data(), out.size() / Bytes));
    }

 protected:
    [[nodiscard]] std::uint64_t lost_messages() const { return library_.lost(channel_.get()); }

    std::size_t add_up_messages(std::size_t most, workload::words_seen& seen) {
        return good(library_.add_up(channel_.get(), most, &seen));
    }

 private:
    void open(bool sends) {
        if (!library_.open(channel_.get(), sends)) throw std::runtime_error("the library could not open the channel");
    }
    static std::size_t good(std::size_t count) {
        if (count == ~std::size_t{0}) throw std::runtime_error("the library could not move a message");
        return count;
    }
    const channel_library& library_;
    std::unique_ptr<void, void (*)(void*)> channel_;
};

/// One that reads messages where they lie.
template <template <std::size_t> class Channel>
struct in_place {
    template <std::size_t Bytes>
    class channel : public Channel<Bytes> {
     public:
        using Channel<Bytes>::Channel;
        std::size_t add_up(std::size_t most, workload::words_seen& seen) { return this->add_up_messages(most, seen); }
    };
};

/// One that overruns its reader.
template <std::size_t Bytes>
class ring_library_channel : public library_channel<Bytes> {
 public:
    static constexpr bool overruns = true;
    using library_channel<Bytes>::library_channel;
};

/// One that counts what its reader has lost.
template <std::size_t Bytes>
class counting_library_channel : public library_channel<Bytes> {
 public:
    using library_channel<Bytes>::library_channel;
    [[nodiscard]] std::uint64_t lost() const { return this->lost_messages(); }
};

}  // namespace holdfast::bench
