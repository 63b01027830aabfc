// SPDX-License-Identifier: Apache-2.0
// segment_subject.hpp - named shared memory under test: making and removing it, and coming to it by name.
//
//   create_and_remove   makes memory of the given size under a name, stores its first word, lets go of it, removes it
//   attach              opens the existing memory by name to read, reads that word, and lets go of it
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace holdfast::workload {

/// What stands in the first word: attach() of the right memory finds it.
inline constexpr std::uint64_t segment_word = 0x5eed'0f'5e9'4e47U;

template <class A>
concept segment_adapter = std::constructible_from<A, const std::string&, std::uint64_t> && requires(A& a) {
    { A::name } -> std::convertible_to<std::string_view>;
    { A::version() } -> std::convertible_to<std::string>;
    a.create();                                     // under the name, the first word stored; stays
    a.remove();                                     // of what create() made
    { a.attach() } -> std::same_as<std::uint64_t>;  // the first word
};

class segment_subject {
 public:
    segment_subject() = default;
    segment_subject(const segment_subject&) = delete;
    segment_subject& operator=(const segment_subject&) = delete;
    virtual ~segment_subject() = default;
    virtual void create() = 0;
    virtual void remove() = 0;
    virtual void create_and_remove(std::uint64_t times) = 0;
    virtual void attach(std::uint64_t times) = 0;
};

template <segment_adapter A>
class segment_loops final : public segment_subject {
 public:
    segment_loops(const std::string& name, std::uint64_t bytes) : adapter_(name, bytes) {}
    ~segment_loops() override {
        if (made_) adapter_.remove();
    }
    void create() override {
        adapter_.create();
        made_ = true;
    }
    void remove() override {
        made_ = false;
        adapter_.remove();
    }
    void create_and_remove(std::uint64_t times) override {
        for (; times > 0; --times) {
            adapter_.create();
            adapter_.remove();
        }
    }
    void attach(std::uint64_t times) override {
        for (; times > 0; --times)
            if (adapter_.attach() != segment_word)
                throw std::runtime_error(std::string(A::name) + ": attached to something else than was made");
    }

 private:
    A adapter_;
    bool made_ = false;
};

struct segment_kind {
    std::string name, version;
    std::unique_ptr<segment_subject> (*make)(const std::string& name, std::uint64_t bytes) = nullptr;
};

template <class Adapter>
[[nodiscard]] segment_kind segment_kind_of() {
    return {std::string(Adapter::name), Adapter::version(),
            [](const std::string& name, std::uint64_t bytes) -> std::unique_ptr<segment_subject> {
                return std::make_unique<segment_loops<Adapter>>(name, bytes);
            }};
}

}  // namespace holdfast::workload
