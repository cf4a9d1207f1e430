#include "memory.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "cgroup.h"

namespace gradops {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kMappedFrom = std::size_t{1} << 20;   // smaller blocks come from malloc
constexpr std::size_t kCheckedFrom = std::size_t{1} << 30;  // smaller ones are not worth reading /proc
constexpr std::size_t kLargest = PTRDIFF_MAX - 4 * kHugePage;

// The cache line in front of every block. A mapped block starts a huge page, so its header lies in
// the ordinary page mapped before it.
struct Header {
  std::size_t capacity;  // bytes of the block; 0: from malloc
  Header* next;          // in the cache: the block released before this one
};
static_assert(sizeof(Header) <= kAlignment);

Header* header_of(void* block) { return reinterpret_cast<Header*>(static_cast<char*>(block) - kAlignment); }
void* block_of(Header* header) { return reinterpret_cast<char*>(header) + kAlignment; }

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Whole huge pages where that wastes no more than a quarter; else the tail is of small pages.
std::size_t mapped_capacity(std::size_t bytes) {
  const std::size_t huge = round_up(bytes, kHugePage);
  return huge - bytes <= bytes / 4 ? huge : round_up(bytes, kPage);
}

void* map_block(std::size_t bytes) {
  const std::size_t capacity = mapped_capacity(bytes);
  const std::size_t reserved = kPage + kHugePage + capacity;
  void* mapping = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  char* base = static_cast<char*>(mapping);
  char* block = base + (round_up(reinterpret_cast<std::uintptr_t>(base) + kPage, kHugePage) -
                        reinterpret_cast<std::uintptr_t>(base));
  char* end = block + capacity;
  if (block - kPage > base) munmap(base, static_cast<std::size_t>(block - kPage - base));
  if (base + reserved > end) munmap(end, static_cast<std::size_t>(base + reserved - end));
  madvise(block, capacity, MADV_HUGEPAGE);  // a wish; kernels without huge pages refuse it
#if defined(MADV_POPULATE_WRITE)
  // Pages that are promised but not yet touched still count as available: the next allocation would
  // be granted the same memory.
  if (bytes >= kCheckedFrom) madvise(block, capacity, MADV_POPULATE_WRITE);
#endif
  header_of(block)->capacity = capacity;
  return block;
}

void unmap_list(Header* header) {
  while (header) {
    Header* next = header->next;
    munmap(static_cast<char*>(block_of(header)) - kPage, kPage + header->capacity);
    header = next;
  }
}

// ---- cache of released mapped blocks, newest first ----

// Constant-initialised and trivially destroyed, so it works before main and during exit.
struct Cache {
  std::mutex mutex;
  Header* newest = nullptr;
  std::size_t bytes = 0;
  std::size_t limit = std::size_t{256} << 20;

  // Takes out the newest block of at least `wanted` and at most a quarter more.
  Header* take(std::size_t wanted) {
    std::lock_guard lock(mutex);
    for (Header** link = &newest; *link; link = &(*link)->next) {
      Header* found = *link;
      if (found->capacity < wanted || found->capacity - wanted > wanted / 4) continue;
      *link = found->next;
      bytes -= found->capacity;
      return found;
    }
    return nullptr;
  }

  // Returns the list of blocks that no longer fit, the oldest ones.
  Header* put(Header* header) {
    std::lock_guard lock(mutex);
    header->next = nullptr;
    if (header->capacity > limit) return header;
    header->next = newest;
    newest = header;
    bytes += header->capacity;
    return shrink();
  }

  Header* set_limit(std::size_t new_limit) {
    std::lock_guard lock(mutex);
    limit = new_limit;
    return shrink();
  }

  Header* take_all() {
    std::lock_guard lock(mutex);
    bytes = 0;
    return std::exchange(newest, nullptr);
  }

 private:
  Header* shrink() {
    std::size_t kept = 0;
    Header** link = &newest;
    while (*link && (*link)->capacity <= limit - kept) {
      kept += (*link)->capacity;
      link = &(*link)->next;
    }
    bytes = kept;
    return std::exchange(*link, nullptr);
  }
};

Cache cache;

// The lock is held over a fork, so the child finds the list whole; it then starts empty, or parent
// and child would both hold the pages.
[[maybe_unused]] const int fork_handlers = pthread_atfork([] { cache.mutex.lock(); }, [] { cache.mutex.unlock(); },
                                                          [] {
                                                            cache.mutex.unlock();
                                                            empty_cache();
                                                          });

// ---- how much memory there is ----

// Overcommit lets mmap promise any amount and the kernel kills the process when it is touched; so
// ask first. SIZE_MAX where the system does not tell.
std::size_t available_memory() {
  char text[8192];
  long long available = INT64_MAX;
  if (read_small_file("/proc/meminfo", text, sizeof text)) {
    const long long kilobytes = number_after(text, "MemAvailable:", -1);
    if (kilobytes >= 0) available = kilobytes * 1024;
  }
  for_each_cgroup("memory", [&](const char* directory, int version) {
    char number[64];
    const bool unified = version == 2;
    if (!read_cgroup_file(directory, unified ? "memory.max" : "memory.limit_in_bytes", number, sizeof number)) return;
    if (number[0] < '0' || number[0] > '9') return;  // "max"
    const long long limit = std::atoll(number);
    if (!read_cgroup_file(directory, unified ? "memory.current" : "memory.usage_in_bytes", number, sizeof number)) return;
    long long usage = std::atoll(number);
    // Cached file pages count as used but are given up under pressure.
    if (read_cgroup_file(directory, "memory.stat", text, sizeof text)) {
      usage -= number_after(text, unified ? "inactive_file " : "total_inactive_file ", 0);
      usage -= number_after(text, unified ? "active_file " : "total_active_file ", 0);
    }
    available = std::min(available, std::max(0LL, limit - std::max(0LL, usage)));
  });
  return static_cast<std::size_t>(available);
}

bool may_map(std::size_t bytes) {
  if (bytes < kCheckedFrom || bytes <= available_memory()) return true;
  empty_cache();
  return bytes <= available_memory();
}

}  // namespace

void* allocate(std::size_t bytes) noexcept {
  if (bytes > kLargest) return nullptr;
  if (bytes < kMappedFrom) {
    void* raw = std::aligned_alloc(kAlignment, kAlignment + round_up(bytes, kAlignment));
    if (!raw) return nullptr;
    static_cast<Header*>(raw)->capacity = 0;
    return block_of(static_cast<Header*>(raw));
  }
  if (Header* found = cache.take(bytes)) return block_of(found);
  if (!may_map(bytes)) return nullptr;
  if (void* block = map_block(bytes)) return block;
  empty_cache();
  return map_block(bytes);
}

void release(void* block) noexcept {
  if (!block) return;
  Header* header = header_of(block);
  if (header->capacity == 0) {
    std::free(header);
  } else {
    unmap_list(cache.put(header));
  }
}

std::size_t cache_limit() noexcept {
  std::lock_guard lock(cache.mutex);
  return cache.limit;
}

void set_cache_limit(std::size_t bytes) noexcept { unmap_list(cache.set_limit(bytes)); }

void empty_cache() noexcept { unmap_list(cache.take_all()); }

}  // namespace gradops
