// SPDX-License-Identifier: Apache-2.0
// task.hpp - what executors queue: a callable, and what is called instead of it when it will never run, in a node of
// one cache line.
//
// (I1) A node's storage holds a work exactly from put() until one of its three operations has returned or thrown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace holdfast::executor {

/// Why a task that was accepted does not run.
enum class cancel_reason : std::uint8_t {
    stopped,   ///< stop_now() came first
    dropped,   ///< a newer task took its place: overflow::drop_oldest
    poisoned,  ///< an earlier task of its strand failed: poison_on_error
};

/// What came of posting a task. Anything but `posted` leaves the callable as it was, unless post() says otherwise.
enum class post_status : std::uint8_t {
    posted,
    full,       ///< a limit is reached
    closed,     ///< the pool takes no more tasks
    poisoned,   ///< a task of this strand failed, and reset() has not been called since
    timed_out,  ///< the limit was still reached at the deadline
};

/// The name of a status, for messages and logs; empty for a number that is none.
[[nodiscard]] constexpr const char* status_name(post_status what) noexcept {
    switch (what) {
        case post_status::posted: return "posted";
        case post_status::full: return "full";
        case post_status::closed: return "closed";
        case post_status::poisoned: return "poisoned";
        case post_status::timed_out: return "timed out";
    }
    return "";
}

/// The cancel callback of those who give none.
struct no_cancel {
    void operator()(cancel_reason) const noexcept {}
};

/// Something that a task can be: called once without arguments.
template <class F>
concept task_callable = std::is_invocable_v<std::decay_t<F>&> && std::is_constructible_v<std::decay_t<F>, F>;

/// Something to be called with the reason instead of a task that will not run.
template <class F>
concept cancel_callable =
    std::is_invocable_v<std::decay_t<F>&, cancel_reason> && std::is_constructible_v<std::decay_t<F>, F>;

namespace detail {

template <class Run, class Cancel>
struct work {
    [[no_unique_address]] Run run;
    [[no_unique_address]] Cancel cancel;
};

struct runnable;

struct runnable_operations {
    void (*run)(runnable&) = nullptr;                    // of a task: calls and destroys it; throws what it throws
    void (*cancel)(runnable&, cancel_reason) = nullptr;  // of a task: calls the callback, and destroys both
    void (*discard)(runnable&) noexcept = nullptr;       // of a task: destroys both
    bool is_strand = false;                              // of a strand the three are not set
};

/// What a pool's queue links: a task by itself, or a strand.
struct runnable {
    runnable* next = nullptr;
    const runnable_operations* operations = nullptr;
};

inline constexpr std::size_t task_storage_bytes = 48, task_storage_align = 16;

struct alignas(64) task_node : runnable {
    alignas(task_storage_align) std::byte storage[task_storage_bytes];

    [[nodiscard]] task_node* next_task() const noexcept { return static_cast<task_node*>(next); }
};
static_assert(sizeof(task_node) == 64);

template <class Work>
inline constexpr bool fits = sizeof(Work) <= task_storage_bytes && alignof(Work) <= task_storage_align;

template <class Work>
struct work_operations {
    [[nodiscard]] static Work& of(runnable& node) noexcept {
        std::byte* const storage = static_cast<task_node&>(node).storage;
        if constexpr (fits<Work>)
            return *std::launder(reinterpret_cast<Work*>(storage));
        else
            return **std::launder(reinterpret_cast<Work**>(storage));
    }
    struct ending {
        Work& ended;
        ~ending() {
            if constexpr (fits<Work>)
                std::destroy_at(&ended);
            else
                delete &ended;
        }
    };
    static void run(runnable& node) {
        const ending end{of(node)};
        end.ended.run();
    }
    static void cancel(runnable& node, cancel_reason reason) {
        const ending end{of(node)};
        end.ended.cancel(reason);
    }
    static void discard(runnable& node) noexcept { const ending end{of(node)}; }

    static constexpr runnable_operations table{run, cancel, discard, false};
};

template <class Run, class Cancel>
using work_of = work<std::decay_t<Run>, std::decay_t<Cancel>>;

/// Throws: what copying or moving the callables throws; std::bad_alloc for those that do not fit. The node then holds
/// nothing.
template <class Run, class Cancel>
void put(task_node& node, Run&& run, Cancel&& cancel) {
    using Work = work_of<Run, Cancel>;
    if constexpr (fits<Work>)
        ::new (static_cast<void*>(node.storage)) Work{std::forward<Run>(run), std::forward<Cancel>(cancel)};
    else
        ::new (static_cast<void*>(node.storage)) Work*(new Work{std::forward<Run>(run), std::forward<Cancel>(cancel)});
    node.operations = &work_operations<Work>::table;
}

}  // namespace detail

/// Whether posting this task allocates nothing of its own: it and its cancel callback together take at most 48 bytes,
/// aligned to at most 16. Larger ones go to the heap, one allocation each. For a static_assert beside a hot post().
template <class Run, class Cancel = no_cancel>
inline constexpr bool task_fits = detail::fits<detail::work_of<Run, Cancel>>;

}  // namespace holdfast::executor
