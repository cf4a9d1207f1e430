// float16 and bfloat16 to float32 and back, for the crop kernels. Everything here is inlined.
#pragma once

#include "kernels/crop_lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace gradops::GRADOPS_LEVEL {
namespace {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

GRADOPS_INLINE float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
GRADOPS_INLINE std::uint32_t bits_of(float value) { return __builtin_bit_cast(std::uint32_t, value); }

// Rounds to nearest even.
GRADOPS_INLINE std::uint16_t round_half_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  std::uint32_t half;
  if (rest >= 0x47800000u) {  // 2^16 and more, Inf, NaN
    half = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (rest < 0x38800000u) {  // below 2^-14: adding 1/2 rounds at float16's last place
    half = bits_of(float_of(rest) + 0.5f) - 0x3f000000u;
  } else {
    half = (rest - (0x70u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

// Integer arithmetic apart from one subtraction of normal numbers, so flushing of subnormals, which
// is on in the crops, does not touch float16's subnormals.
template <int kLanes>
GRADOPS_INLINE void widen_half_bits(Lanes<float, kLanes>& values, const Half* source) {
  using Floats = Lanes<float, kLanes>;
  using Words = Lanes<std::uint32_t, kLanes>;
  Lanes<std::uint16_t, kLanes> half;
  load(half, &source->bits);
  Words bits;
  convert<kLanes>(bits, half);
  const Words sign = (bits & 0x8000u) << 16, rest = (bits & 0x7fffu) << 13;
  const Words inf_or_nan = rest + (0xe0u << 23), normal = rest + (0x70u << 23);
  const Floats subnormal = __builtin_bit_cast(Floats, rest + (0x71u << 23)) - 0x1p-14f;  // 2^-14 (1 + m) - 2^-14
  const Words finite = rest >= (0x0400u << 13) ? normal : __builtin_bit_cast(Words, subnormal);
  values = __builtin_bit_cast(Floats, sign | (rest >= (0x7c00u << 13) ? inf_or_nan : finite));
}

template <int kLanes>
GRADOPS_INLINE void widen_half(Lanes<float, kLanes>& values, const Half* source) {
#if defined(__F16C__)
  const auto eight = [source](int at) __attribute__((always_inline)) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(source + at)));
  };
  if constexpr (kLanes == 16) {
    values = __builtin_shufflevector(eight(0), eight(8), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return;
  } else if constexpr (kLanes == 8) {
    values = eight(0);
    return;
  }
#endif
  widen_half_bits<kLanes>(values, source);
}

template <int kLanes>
GRADOPS_INLINE void widen_bfloat16(Lanes<float, kLanes>& values, const BFloat16* source) {
  if constexpr (kLanes == 1) {
    values = float_of(static_cast<std::uint32_t>(source->bits) << 16);
  } else {
    Lanes<std::uint16_t, kLanes> narrow;
    __builtin_memcpy(&narrow, source, sizeof narrow);
    const auto bits = __builtin_convertvector(narrow, Lanes<std::uint32_t, kLanes>) << 16;
    __builtin_memcpy(&values, &bits, sizeof values);
  }
}

}  // namespace
}  // namespace gradops::GRADOPS_LEVEL
