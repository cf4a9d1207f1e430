// The thread pool: independent work items, shared among a caller and sleeping workers.
#pragma once

#include <cstddef>
#include <type_traits>

namespace gradops {

// Threads a kernel may use, the caller's included: what set_num_threads was given, else
// GRADOPS_NUM_THREADS, else the processors this process may run on. At least 1.
int num_threads();
void set_num_threads(int count);  // 0 goes back to the default; negative counts are clamped to it

// Calls body(context, item) for every item in [0, items), each exactly once, in no fixed order and
// possibly at the same time. Returns when all are done. The caller takes its share, so one thread
// means a plain loop. A caller that finds the pool at work (another thread's call, or a call from
// inside a body) runs its items itself: never a deadlock, never more threads than asked for.
// body must not throw. Survives fork: a child starts with no workers and makes its own.
void parallel_for(std::ptrdiff_t items, void (*body)(void* context, std::ptrdiff_t item), void* context);

// The same for a callable, without std::function's heap: for_each_item(n, [&](std::ptrdiff_t i) {...}).
template <typename Body>
void for_each_item(std::ptrdiff_t items, Body&& body) {
  using Callable = std::remove_reference_t<Body>;
  parallel_for(
      items, [](void* context, std::ptrdiff_t item) { (*static_cast<Callable*>(context))(item); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace gradops
