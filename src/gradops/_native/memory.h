// Aligned blocks for results and workspace, and the small cache that saves their page faults.
#pragma once

#include <cstddef>

namespace gradops {

constexpr std::size_t kAlignment = 64;  // one cache line, and what JAX needs to borrow without a copy

// A block of at least `bytes` bytes, 64-byte aligned, contents undefined; nullptr if there is no
// memory. Blocks of a megabyte and more are 2 MB aligned with huge pages advised and come from the
// cache of released blocks when it holds one of fitting size (at most a quarter larger than asked).
void* allocate(std::size_t bytes) noexcept;
void release(void* block) noexcept;

// Most bytes the cache may hold (default 256 MB); a released block that does not fit is unmapped.
std::size_t cache_limit() noexcept;
void set_cache_limit(std::size_t bytes) noexcept;
void empty_cache() noexcept;

// Owns one block; get() is null when the allocation failed.
class Block {
 public:
  explicit Block(std::size_t bytes) noexcept : data_(allocate(bytes)) {}
  ~Block() { release(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  template <typename T>
  T* as() const noexcept { return static_cast<T*>(data_); }
  explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  void* data_;
};

}  // namespace gradops
