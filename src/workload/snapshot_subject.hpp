// SPDX-License-Identifier: Apache-2.0
// snapshot_subject.hpp - a published object under test: what an adapter offers, and the loops that are timed.
//
// An object is a number of 64-bit words. Version v holds v in its first word and v + i in word i, so that a mixture of
// two versions is seen. What each operation means:
//   read     copies the current object, whole, to the reader's own memory
//   look     visits the current object in place and adds up its words (adapters without it: read, then add up)
//   publish  makes a new object current
// An adapter is used by one writer and one reader at once, from two threads.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "workload/keep.hpp"

namespace holdfast::workload {

template <class A>
concept snapshot_adapter = std::constructible_from<A, std::size_t> &&
                           requires(A& a, std::span<std::uint64_t> out, std::span<const std::uint64_t> object) {
                               { A::name } -> std::convertible_to<std::string_view>;
                               { A::version() } -> std::convertible_to<std::string>;
                               { a.read(out) } -> std::same_as<bool>;
                               { a.publish(object) } -> std::same_as<bool>;
                           };

template <class A>
concept looks_in_place = requires(A& a, std::uint64_t& sum) {
    { a.look(sum) } -> std::same_as<bool>;
};

/// Words that begin with a cache line: how fast a block is copied must not hang on where malloc has put it.
class word_buffer {
 public:
    explicit word_buffer(std::size_t words)
        : words_(new(std::align_val_t{line}) std::uint64_t[words]()), size_(words) {}
    word_buffer(const word_buffer&) = delete;
    word_buffer& operator=(const word_buffer&) = delete;
    ~word_buffer() { ::operator delete[](words_, std::align_val_t{line}); }
    [[nodiscard]] std::uint64_t* data() noexcept { return words_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::uint64_t& operator[](std::size_t i) noexcept { return words_[i]; }
    [[nodiscard]] std::uint64_t* begin() noexcept { return words_; }
    [[nodiscard]] std::uint64_t* end() noexcept { return words_ + size_; }
    [[nodiscard]] std::span<std::uint64_t> span() noexcept { return {words_, size_}; }

 private:
    static constexpr std::size_t line = 64;
    std::uint64_t* words_;
    std::size_t size_;
};

/// Words 0 to count - 1 of version v, added up.
[[nodiscard]] constexpr std::uint64_t sum_of_version(std::uint64_t v, std::uint64_t count) noexcept {
    return count * v + count * (count - 1) / 2;
}

class snapshot_subject {
 public:
    snapshot_subject() = default;
    snapshot_subject(const snapshot_subject&) = delete;
    snapshot_subject& operator=(const snapshot_subject&) = delete;
    virtual ~snapshot_subject() = default;

    /// Reads that many times. Throws: std::runtime_error for a torn object or one older than a former.
    virtual void read(std::uint64_t times) = 0;
    virtual void look(std::uint64_t times) = 0;
    virtual void publish(std::uint64_t times) = 0;
    [[nodiscard]] virtual bool in_place() const = 0;
};

template <snapshot_adapter A>
class snapshot_loops final : public snapshot_subject {
 public:
    explicit snapshot_loops(std::size_t words) : adapter_(words), copy_(words), object_(words) { publish(1); }

    void read(std::uint64_t times) override {
        const std::size_t last = copy_.size() - 1;
        for (; times > 0; --times) {
            if (!adapter_.read(copy_.span())) fail("a read was refused");
            keep(*copy_.data());
            // Both ends: a full comparison would be most of the time of a small object.
            if (copy_[last] != copy_[0] + last || copy_[0] < seen_) fail("a reader met a torn or an older object");
            seen_ = copy_[0];
        }
        // Whole, once a batch.
        for (std::size_t i = 0; i <= last; ++i)
            if (copy_[i] != copy_[0] + i) fail("a reader met a torn object");
    }

    void look(std::uint64_t times) override {
        if constexpr (looks_in_place<A>) {
            const std::uint64_t none = sum_of_version(0, copy_.size());
            for (; times > 0; --times) {
                std::uint64_t sum = 0;
                if (!adapter_.look(sum)) fail("a look was refused");
                // The sum of a whole version is `none` and a multiple of the number of words.
                if ((sum - none) % copy_.size() != 0) fail("a look met a torn object");
            }
        } else {
            for (; times > 0; --times) {
                if (!adapter_.read(copy_.span())) fail("a read was refused");
                std::uint64_t sum = 0;
                for (const std::uint64_t word : copy_) sum += word;
                keep(sum);
            }
        }
    }

    void publish(std::uint64_t times) override {
        for (; times > 0; --times) {
            ++version_;
            for (std::size_t i = 0; i < object_.size(); ++i) object_[i] = version_ + i;
            if (!adapter_.publish(object_.span())) fail("a publish was refused");
        }
    }

    [[nodiscard]] bool in_place() const override { return looks_in_place<A>; }

 private:
    [[noreturn]] static void fail(const char* what) { throw std::runtime_error(std::string(A::name) + ": " + what); }

    A adapter_;
    word_buffer copy_, object_;
    std::uint64_t seen_ = 0;
    std::uint64_t version_ = 0;
};

struct snapshot_kind {
    std::string name, version;
    std::unique_ptr<snapshot_subject> (*make)(std::size_t words) = nullptr;
};

template <class Adapter>
[[nodiscard]] snapshot_kind snapshot_kind_of() {
    return {std::string(Adapter::name), Adapter::version(), [](std::size_t words) -> std::unique_ptr<snapshot_subject> {
                return std::make_unique<snapshot_loops<Adapter>>(words);
            }};
}

}  // namespace holdfast::workload
