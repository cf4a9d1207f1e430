#include "dispatch.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace gradops {
namespace {

struct Level {
  const char* name;
  const ConvolutionKernels* convolution;
  const CropKernels* crop;
};

#if defined(__x86_64__)
constexpr Level kLevels[] = {
    {"v2", &v2::convolution_kernels, &v2::crop_kernels},
    {"v3", &v3::convolution_kernels, &v3::crop_kernels},
    {"v4", &v4::convolution_kernels, &v4::crop_kernels},
};

// Both ask processor and operating system (which must save the wide registers).
#if defined(__clang__) && __clang_major__ < 18  // does not know the levels' names
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}
bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#else
bool has_v3() { return __builtin_cpu_supports("x86-64-v3"); }
bool has_v4() { return __builtin_cpu_supports("x86-64-v4"); }
#endif

int count_available() {
  __builtin_cpu_init();
  return has_v4() ? 3 : has_v3() ? 2 : 1;  // nothing below v2 is supported
}
#else
constexpr Level kLevels[] = {{"baseline", &baseline::convolution_kernels, &baseline::crop_kernels}};

int count_available() { return 1; }
#endif

// Null if this machine lacks the level, or nobody has heard of it.
const Level* find_level(const char* name) {
  const int available = count_available();
  for (int i = 0; i < available; ++i) {
    if (std::strcmp(kLevels[i].name, name) == 0) return &kLevels[i];
  }
  return nullptr;
}

std::atomic<const Level*> chosen{nullptr};

const Level& level() {
  const Level* current = chosen.load(std::memory_order_acquire);
  if (current) return *current;
  // A wrong name is ignored here: Python looks at the variable and raises.
  const char* forced = std::getenv("GRADOPS_ISA");
  const Level* best = forced ? find_level(forced) : nullptr;
  if (!best) best = &kLevels[count_available() - 1];
  // If set_level came in between, its choice stands.
  return chosen.compare_exchange_strong(current, best, std::memory_order_acq_rel) ? *best : *current;
}

}  // namespace

const char* active_level() { return level().name; }

bool set_level(const char* name) {
  const Level* found = find_level(name);
  if (found) chosen.store(found, std::memory_order_release);
  return found != nullptr;
}

const char* const* available_levels() {
  constexpr int kCount = sizeof kLevels / sizeof *kLevels;
  struct Names {
    const char* names[kCount + 1] = {};
    Names() {
      for (int i = count_available() - 1; i >= 0; --i) names[i] = kLevels[i].name;
    }
  };
  static const Names available;
  return available.names;
}

const ConvolutionKernels& convolution_kernels() { return *level().convolution; }
const CropKernels& crop_kernels() { return *level().crop; }

}  // namespace gradops
