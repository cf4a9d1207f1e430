// Tests of the thread pool, the block allocator and the choice of level. Prints what failed.
#include "parallel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "dispatch.h"
#include "memory.h"

namespace {

using std::ptrdiff_t;

int failures = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

bool every_item_runs_once(ptrdiff_t items) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(items));
  gradops::for_each_item(items, [&](ptrdiff_t item) { runs[static_cast<std::size_t>(item)].fetch_add(1); });
  for (const auto& count : runs) {
    if (count != 1) return false;
  }
  return true;
}

// Runs `body` in a forked child; true if it returned true and the child ended by itself in time.
template <typename Body>
bool in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang ends the child with a signal
    std::_Exit(body() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void every_item_runs_once_for_any_thread_count() {
  for (int threads : {1, 2, 3, 8, 0}) {
    gradops::set_num_threads(threads);
    for (ptrdiff_t items : {0, 1, 2, 7, 1000}) check(every_item_runs_once(items), "every item runs once");
  }
  for (int i = 0; i < 20000; ++i) check(every_item_runs_once(3), "many small calls");
}

void thread_counts_are_clamped() {
  gradops::set_num_threads(3);
  check(gradops::num_threads() == 3, "set_num_threads(3)");
  gradops::set_num_threads(-5);
  check(gradops::num_threads() >= 1, "a negative count is the default");
}

void nested_calls_finish() {
  gradops::set_num_threads(4);
  std::atomic<int> runs{0};
  gradops::for_each_item(16, [&](ptrdiff_t) { gradops::for_each_item(16, [&](ptrdiff_t) { ++runs; }); });
  check(runs == 256, "nested calls");
}

void concurrent_callers_finish() {
  gradops::set_num_threads(4);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) wrong += !every_item_runs_once(20);
    });
  }
  for (auto& caller : callers) caller.join();
  check(wrong == 0, "concurrent callers");
}

void a_forked_child_has_its_own_pool() {
  gradops::set_num_threads(3);
  every_item_runs_once(100);
  check(in_child([] { return every_item_runs_once(1000); }), "child after use");
  check(in_child([] { return in_child([] { return every_item_runs_once(1000); }); }), "child of a child");
  check(every_item_runs_once(1000), "parent after fork");
}

void a_fork_during_work_leaves_both_usable() {
  gradops::set_num_threads(3);
  std::atomic<bool> stop{false};
  std::thread worker([&] {
    while (!stop) {
      every_item_runs_once(50);
      gradops::Block block(std::size_t{3} << 20);
    }
  });
  for (int i = 0; i < 100; ++i) {
    const bool child = in_child([] {
      gradops::Block block(std::size_t{3} << 20);
      if (block) std::memset(block.as<char>(), 1, std::size_t{3} << 20);
      return block && every_item_runs_once(100);
    });
    check(child, "child of a fork during work");
  }
  stop = true;
  worker.join();
  check(every_item_runs_once(1000), "parent after forks during work");
}

void blocks_are_aligned_and_cached() {
  gradops::empty_cache();
  for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{1} << 20, (std::size_t{5} << 20) + 3}) {
    gradops::Block block(bytes);
    check(static_cast<bool>(block), "a block is given");
    check(reinterpret_cast<std::uintptr_t>(block.as<char>()) % gradops::kAlignment == 0, "a block is aligned");
    if (block) std::memset(block.as<char>(), 1, bytes);
  }
  void* first = gradops::allocate(std::size_t{8} << 20);
  check(reinterpret_cast<std::uintptr_t>(first) % (2 << 20) == 0, "a big block starts a huge page");
  gradops::release(first);
  void* again = gradops::allocate((std::size_t{8} << 20) - 100);
  check(again == first, "a released block is used again");
  gradops::release(again);
  void* small = gradops::allocate(std::size_t{4} << 20);
  check(small != first, "a block far too large is not used");
  gradops::release(small);
  gradops::release(nullptr);

  const std::size_t limit = gradops::cache_limit();
  gradops::set_cache_limit(0);
  gradops::release(gradops::allocate(std::size_t{8} << 20));
  gradops::set_cache_limit(limit);
  check(gradops::cache_limit() == limit, "the limit is kept");
}

void absurd_sizes_are_refused() {
  for (std::size_t bytes : {SIZE_MAX, SIZE_MAX / 2, std::size_t{1} << 62, std::size_t{1} << 50, std::size_t{1} << 46}) {
    check(gradops::allocate(bytes) == nullptr, "an absurd size is refused");
  }
}

void blocks_may_be_shared_among_threads() {
  gradops::set_cache_limit(std::size_t{16} << 20);  // small, so that blocks are evicted
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (std::size_t k = 0; k < 300; ++k) {
        gradops::Block block((std::size_t{1} << 20) * (1 + (k * 7 + i) % 6));
        if (block) *block.as<char>() = 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  gradops::set_cache_limit(std::size_t{256} << 20);
  gradops::empty_cache();
}

void levels_can_be_set() {
  check(!gradops::set_level("v9") && !gradops::set_level(""), "an unknown level is refused");
  const char* const* names = gradops::available_levels();
  check(names[0] != nullptr, "there is a level");
  for (; *names; ++names) {
    check(gradops::set_level(*names), "an available level can be set");
    check(std::strcmp(gradops::active_level(), *names) == 0, "and is then active");
  }
}

void report_the_cost_of_a_call() {
  gradops::set_num_threads(2);
  const auto start = std::chrono::steady_clock::now();
  std::atomic<int> runs{0};
  for (int i = 0; i < 10000; ++i) gradops::for_each_item(2, [&](ptrdiff_t) { ++runs; });
  const double time = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("a call of two empty items on two threads: %.2f microseconds\n", time * 1e2);
}

}  // namespace

int main() {
  every_item_runs_once_for_any_thread_count();
  thread_counts_are_clamped();
  nested_calls_finish();
  concurrent_callers_finish();
  a_forked_child_has_its_own_pool();
  a_fork_during_work_leaves_both_usable();
  blocks_are_aligned_and_cached();
  absurd_sizes_are_refused();
  blocks_may_be_shared_among_threads();
  levels_can_be_set();
  report_the_cost_of_a_call();
  std::printf(failures ? "%d checks failed\n" : "all checks passed\n", failures);
  return failures != 0;
}
