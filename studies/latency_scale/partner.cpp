// SPDX-License-Identifier: Apache-2.0
#include "partner.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <new>
#include <system_error>

namespace study {
namespace {

constexpr unsigned nobody = 2;

void futex(std::atomic<unsigned>* word, int operation, unsigned value) noexcept {
    ::syscall(SYS_futex, word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

void move_to(unsigned cpu) noexcept {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
}

process_partner::process_partner(unsigned cpu, const std::function<void()>& answer) {
    const pid_t parent = ::getpid();
    child_ = ::fork();
    if (child_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);  // it died before that call
    try {
        move_to(cpu);
        answer();
    } catch (...) {
        ::_exit(1);
    }
    ::_exit(0);
}

process_partner::~process_partner() {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

futex_turns::futex_turns() {
    void* const page = ::mmap(nullptr, sizeof *word_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    word_ = new (page) std::atomic<unsigned>(0);
}

futex_turns::~futex_turns() { ::munmap(word_, sizeof *word_); }

void futex_turns::hand_to(unsigned side) noexcept {
    // Release, pairs with the acquire below: the other side sees what was done before it was its turn.
    word_->store(side, std::memory_order_release);
    futex(word_, FUTEX_WAKE, side == nobody ? INT_MAX : 1);
}

bool futex_turns::wait_for(unsigned side) noexcept {
    for (;;) {
        const unsigned now = word_->load(std::memory_order_acquire);  // pairs with the release above
        if (now == side) return true;
        if (now == nobody) return false;
        futex(word_, FUTEX_WAIT, now);
    }
}

}  // namespace study
