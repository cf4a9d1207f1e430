// The convolution kernels of one instruction-set level, as plain functions on raw memory.
//
// Every level computes the same bits: what a vector lane or a tile is differs, but each result
// element is summed in an order that depends on the sizes of one image only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "axis.h"

namespace gradops {

// A result element's products form chains of fused multiply-adds of at most this many terms, each
// begun at zero; the chains' sums are added one after another. Longer chains lose accuracy: 256 terms
// are 1-2% faster than 128, 32 are 7-10% slower. A short sum has few chains, so shorter ones halve
// its error; a long sum would gain little. `terms` is the most that any result element sums.
constexpr ptrdiff_t longest_chain(ptrdiff_t terms) { return terms <= 128 ? 32 : 128; }

// Distances in elements between neighbours of one array of images.
struct ImageSteps {
  ptrdiff_t image, row, column;  // channels are contiguous
};

// One part of the work of one class, cut so that the same part of every class lies in the same
// region of the images (pixels) and reads about the same part of the filter (taps).
struct Share {
  ptrdiff_t pixel_part, pixel_parts;
  ptrdiff_t tap_part, tap_parts;
};

// Lanes over result channels; see kernels/convolution_direct.cc.
template <typename T>
struct DirectTask {
  const T* source;  // the group's first channel
  const T* filter;  // packed [filter row][filter column][term][vectors * lanes], 64-byte aligned
  T* result;        // the block's first channel
  ImageSteps source_steps, result_steps;
  ptrdiff_t batch;
  ptrdiff_t filter_width;
  ptrdiff_t terms;     // source channels of the group
  ptrdiff_t chain_terms;
  ptrdiff_t channels;  // result channels of the block, at most vectors * lanes
  int vectors;         // 1 .. the kernel's most_vectors
};

template <typename T>
struct DirectKernel {
  int lanes;
  int most_vectors;
  void (*run)(const DirectTask<T>& task, const AxisClass& rows, const AxisClass& columns, const Share& share);
};

struct DirectKernels {
  DirectKernel<float> f32;
  DirectKernel<double> f64;
  DirectKernel<std::uint32_t> i32;
  // About ten times slower, with the error of one rounding however long the reduction.
  DirectKernel<double> compensated_f64;
};

// Lanes over cells of a row; see kernels/convolution_strips.cc.
template <typename T>
struct StripTask {
  const T* planes;  // [term][plane_size], readable kStripSlack elements past the cells' last tap
  const ptrdiff_t* tap_offsets;
  const T* filter;  // packed [term][tap][channels]
  T* result;        // [channel][result_size], writable kStripSlack elements past `cells`
  ptrdiff_t plane_size, result_size;
  ptrdiff_t cells;
  ptrdiff_t taps;
  ptrdiff_t terms;
  ptrdiff_t channels;
  ptrdiff_t chain_terms, chain_taps;  // whose products form one chain
  bool add;               // to what is in result
};
constexpr ptrdiff_t kStripSlack = 16;

template <typename T>
struct StripKernel {
  int lanes;
  int most_channels;
  void (*run)(const StripTask<T>& task);
};

struct StripKernels {
  StripKernel<float> f32;
  StripKernel<double> f64;
  StripKernel<std::uint32_t> i32;
};

// One source channel for each result channel; see kernels/convolution_depthwise.cc.
template <typename T>
struct DepthwiseTask {
  const T* source;
  const T* filter;  // [filter row][filter column][channel]
  T* result;
  ImageSteps source_steps, result_steps;
  ptrdiff_t batch;
  ptrdiff_t filter_width;
  ptrdiff_t chain_taps;
  ptrdiff_t channels;
};

struct DepthwiseKernels {
  void (*f32)(const DepthwiseTask<float>&, const AxisClass& rows, const AxisClass& columns, const Share&);
  void (*f64)(const DepthwiseTask<double>&, const AxisClass& rows, const AxisClass& columns, const Share&);
  void (*i32)(const DepthwiseTask<std::uint32_t>&, const AxisClass& rows, const AxisClass& columns, const Share&);
};

// Copies and conversions; see kernels/convolution_layout.cc.
struct LayoutKernels {
  // to[c*to_step + r] = from[r*from_step + c] for r < rows, c < columns.
  void (*transpose32)(const std::uint32_t* from, ptrdiff_t from_step, std::uint32_t* to, ptrdiff_t to_step,
                      ptrdiff_t rows, ptrdiff_t columns);
  void (*transpose64)(const std::uint64_t* from, ptrdiff_t from_step, std::uint64_t* to, ptrdiff_t to_step,
                      ptrdiff_t rows, ptrdiff_t columns);
  void (*widen_half)(const std::uint16_t* from, float* to, ptrdiff_t count);
  void (*widen_bfloat16)(const std::uint16_t* from, float* to, ptrdiff_t count);
  void (*widen_float)(const float* from, double* to, ptrdiff_t count);
  void (*round_to_half)(const float* from, std::uint16_t* to, ptrdiff_t count);
  void (*round_to_bfloat16)(const float* from, std::uint16_t* to, ptrdiff_t count);
  void (*round_to_float)(const double* from, float* to, ptrdiff_t count);
};

struct ConvolutionKernels {
  const DirectKernels* direct;
  const StripKernels* strips;
  const DepthwiseKernels* depthwise;
  const LayoutKernels* layout;
};

#if defined(__x86_64__) || defined(_M_X64)
namespace v2 {
extern const ConvolutionKernels convolution_kernels;
}
namespace v3 {
extern const ConvolutionKernels convolution_kernels;
}
namespace v4 {
extern const ConvolutionKernels convolution_kernels;
}
#else
namespace baseline {
extern const ConvolutionKernels convolution_kernels;
}
#endif

}  // namespace gradops
