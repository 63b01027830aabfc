// SPDX-License-Identifier: Apache-2.0
// fibers.cpp - a fiber is entered by ucontext, once, and from then on switched to by longjmp without signal masks: tens
// of nanoseconds instead of two system calls.
#include "hooks/fibers.hpp"

#include <ucontext.h>

#include <cstdint>
#include <vector>

namespace holdfast::test {

struct fiber::context {
    context() : stack(stack_bytes) {}
    std::vector<std::byte> stack;
    ucontext_t entry{}, outside_entry{};
    std::jmp_buf inside, outside;
};

fiber::fiber() : own_(std::make_unique<context>()) {}
fiber::~fiber() = default;

void fiber::begin(void (*run)(void*), void* argument) noexcept {
    run_ = run;
    argument_ = argument;
    started_ = false;
    ended_ = false;
}

void fiber::enter(unsigned high, unsigned low) noexcept {
    auto* const self = reinterpret_cast<fiber*>(static_cast<std::uintptr_t>(high) << 32U | low);
    self->run_(self->argument_);
    self->ended_ = true;
    _longjmp(self->own_->outside, 1);
}

void fiber::resume() noexcept {
    if (_setjmp(own_->outside) != 0) return;
    if (started_) _longjmp(own_->inside, 1);
    started_ = true;
    ::getcontext(&own_->entry);
    own_->entry.uc_stack.ss_sp = own_->stack.data();
    own_->entry.uc_stack.ss_size = own_->stack.size();
    own_->entry.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&own_->entry, reinterpret_cast<void (*)()>(&fiber::enter), 2, static_cast<unsigned>(self >> 32U),
                  static_cast<unsigned>(self));
    ::setcontext(&own_->entry);
}

void fiber::leave() noexcept {
    if (_setjmp(own_->inside) == 0) _longjmp(own_->outside, 1);
}

}  // namespace holdfast::test
