// Transposes and conversions: what brings arrays into the shapes and types the kernels want.
//
// Transpose, loop order: bands of 4 blocks of source columns, blocks of rows, blocks of the band's
// columns (so a row's lines are read four at a time); a block of lanes x lanes is
// loaded, transposed in registers in log2(lanes) rounds of shuffles, and stored. Each element is
// read and written once; both sides touch whole vectors. Blocks at the ends overlap their neighbours
// rather than be partial, where there are lanes rows or columns. A few rows or columns go one by one,
// as loops over a step that compilers know and turn into shuffles where it is small.
//
// Conversions are integer and float operations on whole lanes, plain loops that compilers vectorise:
// the same bits at every level. Rounding is to nearest, ties to even; NaN stays NaN.
#include "convolution.h"
#include "simd.h"

namespace gradops::GRADOPS_LEVEL {
namespace {

constexpr ptrdiff_t kFewLines = 4;  // rows or columns; blocks of them would be mostly empty

constexpr ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
constexpr ptrdiff_t larger(ptrdiff_t a, ptrdiff_t b) { return a < b ? b : a; }

// Exchanges the off-diagonal halves of every 2*kDistance wide square.
template <typename T, int kDistance, int... kLane>
struct SwapRows {
  static constexpr int kCount = sizeof...(kLane);
  [[gnu::always_inline]] static void run(Vec<T>& a, Vec<T>& b) {
    const Vec<T> low = __builtin_shufflevector(a, b, ((kLane & kDistance) ? kCount + kLane - kDistance : kLane)...);
    b = __builtin_shufflevector(a, b, ((kLane & kDistance) ? kCount + kLane : kLane + kDistance)...);
    a = low;
  }
};

template <typename T, int kDistance, int kLeft, int... kLane>
struct MakeSwap : MakeSwap<T, kDistance, kLeft - 1, kLeft - 1, kLane...> {};
template <typename T, int kDistance, int... kLane>
struct MakeSwap<T, kDistance, 0, kLane...> : SwapRows<T, kDistance, kLane...> {};

template <typename T, int kDistance>
[[gnu::always_inline]] inline void transpose_rounds(Vec<T> (&block)[kLanes<T>]) {
  if constexpr (kDistance > 0) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) {
      if ((i & kDistance) == 0) MakeSwap<T, kDistance, kLanes<T>>::run(block[i], block[i + kDistance]);
    }
    transpose_rounds<T, kDistance / 2>(block);
  }
}

template <typename T>
[[gnu::always_inline]] inline void transpose_whole(const T* from, ptrdiff_t from_step, T* to, ptrdiff_t to_step) {
  Vec<T> block[kLanes<T>];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) block[i] = load(from + i * from_step);
  transpose_rounds<T, kLanes<T> / 2>(block);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) store(to + i * to_step, block[i]);
}

template <typename T>
[[gnu::noinline]] void transpose_part(const T* from, ptrdiff_t from_step, T* to, ptrdiff_t to_step, ptrdiff_t rows,
                                      ptrdiff_t columns) {
  Vec<T> block[kLanes<T>];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) block[i] = i < rows ? load_part(from + i * from_step, columns) : Vec<T>{};
  transpose_rounds<T, kLanes<T> / 2>(block);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes<T>; ++i) {
    if (i < columns) store_part(to + i * to_step, block[i], rows);
  }
}

// to[i] = from[i*kStep].
template <typename T, ptrdiff_t kStep>
void gather_known(const T* __restrict from, T* __restrict to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = from[i * kStep];
}

template <typename T>
void gather(const T* __restrict from, ptrdiff_t step, T* __restrict to, ptrdiff_t count) {
  switch (step) {
    case 1: return gather_known<T, 1>(from, to, count);
    case 2: return gather_known<T, 2>(from, to, count);
    case 3: return gather_known<T, 3>(from, to, count);
    case 4: return gather_known<T, 4>(from, to, count);
    default:
      for (ptrdiff_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

// to[i*kRows + r] = from[r*from_step + i]: interleaves all there is.
template <typename T, int kRows>
void interleave(const T* __restrict from, ptrdiff_t from_step, T* __restrict to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) to[i * kRows + r] = from[r * from_step + i];
  }
}

template <typename T>
void scatter(const T* __restrict from, ptrdiff_t from_step, T* __restrict to, ptrdiff_t to_step, ptrdiff_t rows,
             ptrdiff_t columns) {
  if (rows == to_step) {
    switch (rows) {
      case 1: return gather_known<T, 1>(from, to, columns);
      case 2: return interleave<T, 2>(from, from_step, to, columns);
      case 3: return interleave<T, 3>(from, from_step, to, columns);
      case 4: return interleave<T, 4>(from, from_step, to, columns);
    }
  }
  for (ptrdiff_t i = 0; i < columns; ++i) {
    for (ptrdiff_t r = 0; r < rows; ++r) to[i * to_step + r] = from[r * from_step + i];
  }
}

template <typename T>
void transpose_blocks(const T* from, ptrdiff_t from_step, T* to, ptrdiff_t to_step, ptrdiff_t rows,
                      ptrdiff_t columns) {
  constexpr ptrdiff_t kBlock = kLanes<T>, kBand = 4 * kBlock;
  for (ptrdiff_t band = 0; band < columns; band += kBand) {
    const ptrdiff_t band_end = columns - band < kBand ? columns : band + kBand;
    for (ptrdiff_t block_row = 0; block_row < rows; block_row += kBlock) {
      const ptrdiff_t r = smaller(block_row, larger(rows - kBlock, 0));
      for (ptrdiff_t block_column = band; block_column < band_end; block_column += kBlock) {
        const ptrdiff_t c = smaller(block_column, larger(columns - kBlock, 0));
        const T* block_from = from + r * from_step + c;
        T* block_to = to + c * to_step + r;
        if (rows >= kBlock && columns >= kBlock) {
          transpose_whole(block_from, from_step, block_to, to_step);
        } else {
          transpose_part(block_from, from_step, block_to, to_step, smaller(rows, kBlock), smaller(columns, kBlock));
        }
      }
    }
  }
}

template <typename T>
void transpose(const T* from, ptrdiff_t from_step, T* to, ptrdiff_t to_step, ptrdiff_t rows, ptrdiff_t columns) {
  if (columns <= 2 || (columns <= kFewLines && from_step <= kFewLines)) {
    for (ptrdiff_t c = 0; c < columns; ++c) gather(from + c, from_step, to + c * to_step, rows);
  } else if (rows <= kFewLines) {
    scatter(from, from_step, to, to_step, rows, columns);
  } else {
    transpose_blocks(from, from_step, to, to_step, rows, columns);
  }
}

std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}

float float_of(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}

void widen_half(const std::uint16_t* from, float* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    const std::uint32_t half = from[i];
    // The exponent is 112 too small as it stands; scaling mends it, subnormal halves included.
    std::uint32_t bits = bits_of(float_of((half & 0x7fff) << 13) * 0x1p112f);
    bits |= (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;
    to[i] = float_of(bits | (half & 0x8000) << 16);
  }
}

void widen_bfloat16(const std::uint16_t* from, float* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = float_of(static_cast<std::uint32_t>(from[i]) << 16);
}

void widen_float(const float* from, double* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = from[i];
}

void round_to_half(const float* from, std::uint16_t* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    const std::uint32_t all = bits_of(from[i]);
    const std::uint32_t bits = all & 0x7fffffff;
    // Below the smallest normal half the unit is 2^-24, that of floats in [0.5, 1): the addition rounds.
    const std::uint32_t subnormal = bits_of(float_of(bits) + 0.5f) - bits_of(0.5f);
    // Else rebias and round by adding just under half a unit, or half if the last kept bit is odd.
    // A carry may run into the exponent, up to Inf, as it should.
    const std::uint32_t normal = (bits - (112u << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
    const std::uint32_t special = bits > 0x7f800000 ? 0x7e00 | ((bits >> 13) & 0x1ff) : 0x7c00;
    std::uint32_t half = bits < 0x38800000 ? subnormal : normal;
    half = bits >= 0x47800000 ? special : half;
    to[i] = static_cast<std::uint16_t>(half | (all >> 16 & 0x8000));
  }
}

void round_to_bfloat16(const float* from, std::uint16_t* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    const std::uint32_t bits = bits_of(from[i]);
    const std::uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const std::uint32_t nan = bits >> 16 | 0x40;
    to[i] = static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

void round_to_float(const double* from, float* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

}  // namespace

extern const LayoutKernels layout_kernels;
const LayoutKernels layout_kernels = {transpose<std::uint32_t>, transpose<std::uint64_t>,
                                      widen_half,               widen_bfloat16,
                                      widen_float,              round_to_half,
                                      round_to_bfloat16,        round_to_float};

}  // namespace gradops::GRADOPS_LEVEL
