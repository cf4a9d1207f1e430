// A convolution as the algorithms see it: both directions are one sum over taps and terms.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "axis.h"
#include "convolution.h"
#include "kernels/convolution.h"
#include "memory.h"
#include "parallel.h"

namespace gradops {

// result[pixel, r] = sum over the pixel's taps and all terms k of source[tap's pixel, k] *
// filter[tap*filter_tap + group*filter_group + k*filter_term + r*filter_result].
struct Problem {
  explicit Problem(const ConvolutionSizes& sizes);

  ptrdiff_t batch;
  ptrdiff_t groups;
  ptrdiff_t source_height, source_width, source_channels;
  ptrdiff_t result_height, result_width, result_channels;
  ptrdiff_t terms, results;  // source and result channels of one group
  ptrdiff_t filter_height, filter_width;
  ptrdiff_t filter_tap, filter_group, filter_term, filter_result;
  bool forward;
  AxisSizes row_sizes, column_sizes;
  std::vector<AxisClass> rows, columns;
  ptrdiff_t most_terms;   // of one result element
  ptrdiff_t chain_terms;  // of which one chain sums at most these
  double image_taps;     // tap and pixel pairs of an image, padding's included
  bool small;            // not worth waking a thread

  ptrdiff_t source_elements() const { return batch * source_height * source_width * source_channels; }
  ptrdiff_t result_elements() const { return batch * result_height * result_width * result_channels; }
  ptrdiff_t filter_elements() const { return filter_height * filter_width * filter_tap; }
};

// What an algorithm is chosen by: nanoseconds for one image on one core, as fitted to measurements with
// vectors of 64 bytes (those of 32 agree but for a factor near 1). Each algorithm has its *_cost.
constexpr double kNever = HUGE_VAL;

// Of taking images to channels last and back.
inline double swap_cost(const Problem& problem) {
  return 0.8 * static_cast<double>((problem.source_elements() + problem.result_elements()) / problem.batch);
}

// for_each_item, on the calling thread alone where the problem is small.
template <typename Body>
void for_each(const Problem& problem, ptrdiff_t items, Body&& body) {
  if (problem.small) {
    for (ptrdiff_t i = 0; i < items; ++i) body(i);
  } else {
    for_each_item(items, body);
  }
}

// Workspace of one call: on the stack when small, so that small calls never touch the heap.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) noexcept : block_(bytes > sizeof here_ ? allocate(bytes) : here_) {}
  ~Scratch() {
    if (block_ != here_) release(block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <typename T>
  T* as() const noexcept { return static_cast<T*>(block_); }
  explicit operator bool() const noexcept { return block_ != nullptr; }

 private:
  alignas(kAlignment) char here_[8192];
  void* block_;
};

template <typename T>
void transpose(const LayoutKernels& layout, const T* from, ptrdiff_t from_step, T* to, ptrdiff_t to_step,
               ptrdiff_t rows, ptrdiff_t columns) {
  if constexpr (sizeof(T) == 4) {
    layout.transpose32(reinterpret_cast<const std::uint32_t*>(from), from_step, reinterpret_cast<std::uint32_t*>(to),
                       to_step, rows, columns);
  } else {
    layout.transpose64(reinterpret_cast<const std::uint64_t*>(from), from_step, reinterpret_cast<std::uint64_t*>(to),
                       to_step, rows, columns);
  }
}

inline constexpr ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return a / b + (a % b != 0); }

}  // namespace gradops
