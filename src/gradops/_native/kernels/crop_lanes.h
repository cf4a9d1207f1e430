// Small vectors for the crop kernels. Everything here is inlined into its user.
#pragma once

#include "types.h"

#define GRADOPS_INLINE [[gnu::always_inline]] inline

namespace gradops::GRADOPS_LEVEL {
namespace {

// The level's registers. Wider vector types compile too, but through memory (2.5 times slower on v3).
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// A vector of kLanes elements, or the plain element for one lane.
template <typename Element, int kLanes>
struct LanesOf {
  typedef Element Type __attribute__((vector_size(sizeof(Element) * kLanes)));
};
template <typename Element>
struct LanesOf<Element, 1> {
  using Type = Element;
};
template <typename Element, int kLanes>
using Lanes = typename LanesOf<Element, kLanes>::Type;

// Unaligned. The copies are local, so that a vector in a structure may stay in a register.
template <typename Vector, typename Element>
GRADOPS_INLINE void load(Vector& vector, const Element* source) {
  Vector copy;
  __builtin_memcpy(&copy, source, sizeof copy);
  vector = copy;
}
template <typename Vector, typename Element>
GRADOPS_INLINE void store(Element* target, const Vector& vector) {
  const Vector copy = vector;
  __builtin_memcpy(target, &copy, sizeof copy);
}

// The same numbers in another element type.
template <int kLanes, typename To, typename From>
GRADOPS_INLINE void convert(To& to, const From& from) {
  if constexpr (kLanes == 1) {
    to = static_cast<To>(from);
  } else {
    to = __builtin_convertvector(from, To);
  }
}

}  // namespace
}  // namespace gradops::GRADOPS_LEVEL
