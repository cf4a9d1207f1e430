// The floating-point environment of the kernels: round to nearest, subnormals kept or flushed,
// whatever the caller's thread has set (a library built with -ffast-math may have changed it).
#pragma once

#include <cstdint>

namespace gradops {

// Sets the mode of this thread, and puts the old one back. What runs in between is called through a
// pointer or is not inlined, so that no arithmetic moves past the two.
class FloatMode {
 public:
  enum Subnormals { kKeep, kFlush };

#if defined(__x86_64__)
  explicit FloatMode(Subnormals subnormals) : saved_(__builtin_ia32_stmxcsr()) {
    __builtin_ia32_ldmxcsr(subnormals == kKeep ? 0x1f80 : 0x9fc0);
  }
  ~FloatMode() { __builtin_ia32_ldmxcsr(saved_); }

 private:
  unsigned saved_;
#elif defined(__aarch64__)
  explicit FloatMode(Subnormals subnormals) {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{subnormals == kKeep ? 0u : 1u << 24}) : "memory");
  }
  ~FloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_) : "memory"); }

 private:
  std::uint64_t saved_;
#else
  explicit FloatMode(Subnormals) {}
  ~FloatMode() {}
#endif

 public:
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
};

}  // namespace gradops
