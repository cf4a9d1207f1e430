// Vectors of one level and the fused multiply-add, the same bits at every level.
//
// Arithmetic is GCC's and Clang's vector extension; only what that lacks (fma, loads of part of a
// vector) is spelled per level. Everything has internal linkage: no symbol leaves a level.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace gradops::GRADOPS_LEVEL {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kRegisters = 32;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kRegisters = 16;
#else
constexpr int kVectorBytes = 16;
#if defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif
#endif

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kVectorBytes)));
};
template <typename T>
using Vec = typename VectorOf<T>::type;

template <typename T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <typename T>
[[gnu::always_inline]] inline Vec<T> load(const T* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <typename T>
[[gnu::always_inline]] inline void store(T* p, Vec<T> v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// x - 0 is x for every x, -0 and NaN included; compilers see a plain broadcast.
template <typename T>
[[gnu::always_inline]] inline Vec<T> broadcast(T x) {
  return x - Vec<T>{};
}

#if defined(__AVX2__) && !defined(__AVX512F__)

// All ones in the first `count` lanes. Sign bits are what masked moves look at.
template <typename T>
[[gnu::always_inline]] inline __m256i first_lanes(std::ptrdiff_t count) {
  if constexpr (sizeof(T) == 4) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  } else {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
}

[[gnu::always_inline]] inline Vec<float> load_masked(const float* p, __m256i mask) {
  return (Vec<float>)_mm256_maskload_ps(p, mask);
}
[[gnu::always_inline]] inline Vec<double> load_masked(const double* p, __m256i mask) {
  return (Vec<double>)_mm256_maskload_pd(p, mask);
}
[[gnu::always_inline]] inline Vec<std::uint32_t> load_masked(const std::uint32_t* p, __m256i mask) {
  return (Vec<std::uint32_t>)_mm256_maskload_epi32(reinterpret_cast<const int*>(p), mask);
}
[[gnu::always_inline]] inline Vec<std::uint64_t> load_masked(const std::uint64_t* p, __m256i mask) {
  return (Vec<std::uint64_t>)_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), mask);
}

[[gnu::always_inline]] inline void store_masked(float* p, __m256i mask, Vec<float> v) {
  _mm256_maskstore_ps(p, mask, (__m256)v);
}
[[gnu::always_inline]] inline void store_masked(double* p, __m256i mask, Vec<double> v) {
  _mm256_maskstore_pd(p, mask, (__m256d)v);
}
[[gnu::always_inline]] inline void store_masked(std::uint32_t* p, __m256i mask, Vec<std::uint32_t> v) {
  _mm256_maskstore_epi32(reinterpret_cast<int*>(p), mask, (__m256i)v);
}
[[gnu::always_inline]] inline void store_masked(std::uint64_t* p, __m256i mask, Vec<std::uint64_t> v) {
  _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), mask, (__m256i)v);
}

#endif

// The first `count` lanes, 0 <= count <= kLanes<T>; the others are zero and their memory untouched.
// Lanes with constant numbers stay in registers; with v[i] GCC would go through memory and stall.
template <typename T>
[[gnu::always_inline]] inline Vec<T> load_part(const T* p, std::ptrdiff_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1u << count) - 1), p);
  } else {
    return (Vec<T>)_mm512_maskz_loadu_epi64(static_cast<__mmask8>((1u << count) - 1), p);
  }
#elif defined(__AVX2__)
  return load_masked(p, first_lanes<T>(count));
#else
  Vec<T> v{};
#pragma GCC unroll 4
  for (int i = 0; i < kLanes<T>; ++i) {
    if (i < count) v[i] = p[i];
  }
  return v;
#endif
}

template <typename T>
[[gnu::always_inline]] inline void store_part(T* p, Vec<T> v, std::ptrdiff_t count) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(p, static_cast<__mmask16>((1u << count) - 1), (__m512i)v);
  } else {
    _mm512_mask_storeu_epi64(p, static_cast<__mmask8>((1u << count) - 1), (__m512i)v);
  }
#elif defined(__AVX2__)
  store_masked(p, first_lanes<T>(count), v);
#else
#pragma GCC unroll 4
  for (int i = 0; i < kLanes<T>; ++i) {
    if (i < count) p[i] = v[i];
  }
#endif
}

// Keeps a loaded value in its register: GCC 12 otherwise repeats the load in every use.
template <typename T>
[[gnu::always_inline]] inline Vec<T> loaded(Vec<T> v) {
#if defined(__x86_64__)
  asm("" : "+v"(v));
#elif defined(__aarch64__)
  asm("" : "+w"(v));
#endif
  return v;
}

// a*b + c, rounded once. Integers wrap.
[[gnu::always_inline]] inline Vec<std::uint32_t> fma(Vec<std::uint32_t> a, Vec<std::uint32_t> b,
                                                     Vec<std::uint32_t> c) {
  return a * b + c;
}

#if defined(__AVX512F__)

[[gnu::always_inline]] inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
[[gnu::always_inline]] inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}

#elif defined(__FMA__)

[[gnu::always_inline]] inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
[[gnu::always_inline]] inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}

#elif defined(__aarch64__)

[[gnu::always_inline]] inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return (Vec<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
[[gnu::always_inline]] inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return (Vec<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}

#else

// No instruction: about fifteen times slower, the same bits. The product of two floats is exact in
// double. Its sum with c is rounded to odd there (the last bit set when anything was lost), which
// makes the final rounding to float the only one: 53 bits are at least two more than 24.
typedef double DoublePair __attribute__((vector_size(16)));
typedef std::int64_t IntegerPair __attribute__((vector_size(16)));

[[gnu::always_inline]] inline DoublePair round_sum_to_odd(DoublePair product, DoublePair c) {
  const DoublePair sum = product + c;
  const DoublePair of_product = sum - c;
  const DoublePair of_c = sum - of_product;
  const DoublePair lost = (product - of_product) + (c - of_c);
  const IntegerPair up = (lost > 0.0) & (sum > 0.0), down = (lost > 0.0) & (sum < 0.0);
  const IntegerPair up_negative = (lost < 0.0) & (sum < 0.0), down_positive = (lost < 0.0) & (sum > 0.0);
  const IntegerPair bits = (IntegerPair)sum;
  const IntegerPair even = (bits & 1) - 1;  // all ones where the last bit is 0
  // Masks are -1: away from zero adds one to the bits, towards zero takes one off. NaN and Inf lose
  // nothing that compares, so they stay.
  return (DoublePair)(bits + (even & ((down | down_positive) - (up | up_negative))));
}

[[gnu::always_inline]] inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  const DoublePair low = round_sum_to_odd(DoublePair{a[0], a[1]} * DoublePair{b[0], b[1]}, DoublePair{c[0], c[1]});
  const DoublePair high = round_sum_to_odd(DoublePair{a[2], a[3]} * DoublePair{b[2], b[3]}, DoublePair{c[2], c[3]});
  return Vec<float>{static_cast<float>(low[0]), static_cast<float>(low[1]), static_cast<float>(high[0]),
                    static_cast<float>(high[1])};
}
// The C library's fma is right and slow (a function call for each lane).
[[gnu::always_inline]] inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return Vec<double>{__builtin_fma(a[0], b[0], c[0]), __builtin_fma(a[1], b[1], c[1])};
}

#endif

}  // namespace
}  // namespace gradops::GRADOPS_LEVEL
