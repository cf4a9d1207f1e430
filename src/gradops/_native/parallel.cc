#include "parallel.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "cgroup.h"
#include "float_mode.h"

namespace gradops {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kSpins = 400;  // about 5 microseconds: the gap between two kernels of one operator

void spin_once() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

template <typename Condition>
bool spin_until(Condition condition) {
  for (int i = 0; i < kSpins; ++i) {
    if (condition()) return true;
    spin_once();
  }
  return false;
}

// ---- how many threads ----

int affinity_count() {
  // A fixed cpu_set_t ends at 1024 processors; the kernel refuses a mask smaller than its own.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 16; capacity *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(capacity));
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return count;
    if (errno != EINVAL) break;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Processors that a control group's time quota is worth, rounded up; kMaxThreads without a quota.
int quota_count() {
  int count = kMaxThreads;
  for_each_cgroup("cpu", [&](const char* directory, int version) {
    char text[128];
    long long quota = -1, period = 0;
    if (version == 2) {
      if (!read_cgroup_file(directory, "cpu.max", text, sizeof text)) return;
      if (std::sscanf(text, "%lld %lld", &quota, &period) != 2) return;  // "max 100000"
    } else {
      if (!read_cgroup_file(directory, "cpu.cfs_quota_us", text, sizeof text)) return;
      quota = std::atoll(text);
      if (!read_cgroup_file(directory, "cpu.cfs_period_us", text, sizeof text)) return;
      period = std::atoll(text);
    }
    if (quota <= 0 || period <= 0) return;
    count = static_cast<int>(std::min<long long>(count, (quota - 1) / period + 1));
  });
  return count;
}

// A positive whole number, or 0 for anything else.
int threads_from_environment() {
  const char* text = std::getenv("GRADOPS_NUM_THREADS");
  if (!text || *text < '0' || *text > '9') return 0;
  char* end = nullptr;
  const long count = std::strtol(text, &end, 10);  // overflow gives LONG_MAX, clamped below
  return *end == '\0' ? static_cast<int>(std::min<long>(count, kMaxThreads)) : 0;
}

int default_threads() {
  // Not a function-local static: its guard could be held by another thread while this one forks.
  static std::atomic<int> known{0};
  int count = known.load(std::memory_order_relaxed);
  if (count == 0) {
    count = threads_from_environment();
    if (count == 0) count = std::clamp(std::min(affinity_count(), quota_count()), 1, kMaxThreads);
    known.store(count, std::memory_order_relaxed);
  }
  return count;
}

std::atomic<int> requested_threads{0};  // 0: the default

// ---- the pool ----

struct Job {
  void (*body)(void*, std::ptrdiff_t);
  void* context;
  std::ptrdiff_t items;
  std::atomic<std::ptrdiff_t> next{0};

  void work() {
    for (;;) {
      const std::ptrdiff_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= items) return;
      body(context, item);
    }
  }
};

// One job at a time, which lives on its caller's stack. A worker takes a seat under the lock and
// leaves under the lock, so the caller, once it has withdrawn the free seats and seen the taken ones
// empty, knows that nobody looks at the job any more.
class Pool {
 public:
  // False if the pool was busy and nothing was done.
  bool run(Job& job, int threads) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const int seats = static_cast<int>(std::min<std::ptrdiff_t>(threads, job.items)) - 1;
    {
      std::lock_guard lock(mutex_);
      hire(seats);
      job_ = &job;
      seats_.store(std::min(seats, workers_), std::memory_order_relaxed);
    }
    for (int i = 0; i < seats; ++i) wake_.notify_one();  // no system call while workers still spin
    job.work();
    {
      std::unique_lock lock(mutex_);
      seats_.store(0, std::memory_order_relaxed);
      job_ = nullptr;
    }
    const auto all_left = [this] { return inside_.load(std::memory_order_acquire) == 0; };
    if (!spin_until(all_left)) {
      std::unique_lock lock(mutex_);
      left_.wait(lock, all_left);
    }
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  // Workers come when they are first wanted and stay. If the system has no thread left, fewer do.
  void hire(int wanted) {
    if (workers_ >= wanted) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the program's signals are for its own threads
    try {
      for (; workers_ < wanted; ++workers_) std::thread([this] { serve(); }).detach();
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void serve() {
    const FloatMode mode(FloatMode::kKeep);  // not that of the thread that happened to hire this one
    const auto seat_free = [this] { return seats_.load(std::memory_order_relaxed) > 0; };
    for (;;) {
      spin_until(seat_free);
      Job* job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, seat_free);
        seats_.fetch_sub(1, std::memory_order_relaxed);
        inside_.fetch_add(1, std::memory_order_relaxed);
        job = job_;
      }
      job->work();
      std::lock_guard lock(mutex_);
      // The release makes this worker's results visible to a caller that only spins.
      if (inside_.fetch_sub(1, std::memory_order_release) == 1) left_.notify_one();
    }
  }

  std::atomic<bool> busy_{false};  // held by the one caller whose job is running
  std::mutex mutex_;               // guards everything below
  std::condition_variable wake_, left_;
  Job* job_ = nullptr;
  int workers_ = 0;
  std::atomic<int> seats_{0};   // workers that may still join; atomic so that it can be spun on
  std::atomic<int> inside_{0};  // workers that have joined and not left
};

// Never destroyed: at process exit the workers sleep on, and no destructor has to wait for them.
std::atomic<Pool*> shared_pool{nullptr};

Pool* pool() {
  Pool* current = shared_pool.load(std::memory_order_acquire);
  if (current) return current;
  Pool* made = new (std::nothrow) Pool;
  if (!made) return nullptr;
  if (shared_pool.compare_exchange_strong(current, made, std::memory_order_acq_rel)) return made;
  delete made;  // another thread was first; this one never had workers
  return current;
}

// A forked child has none of the workers, and locks in whatever state other threads held them: it
// forgets the pool, and makes its own when it needs one.
[[maybe_unused]] const int fork_handler =
    pthread_atfork(nullptr, nullptr, [] { shared_pool.store(nullptr, std::memory_order_release); });

}  // namespace

int num_threads() {
  const int count = requested_threads.load(std::memory_order_relaxed);
  return count > 0 ? count : default_threads();
}

void set_num_threads(int count) {
  requested_threads.store(std::clamp(count, 0, kMaxThreads), std::memory_order_relaxed);
}

void parallel_for(std::ptrdiff_t items, void (*body)(void* context, std::ptrdiff_t item), void* context) {
  const int threads = items > 1 ? num_threads() : 1;
  if (threads > 1) {
    Job job{body, context, items};
    Pool* shared = pool();
    if (shared && shared->run(job, threads)) return;
  }
  for (std::ptrdiff_t item = 0; item < items; ++item) body(context, item);
}

}  // namespace gradops
