// Conv2D and Conv2DBackpropInput: plan once from sizes, run many times on arrays.
#pragma once

#include <string>

#include "types.h"

namespace gradops {

enum class Direction : int { kForward, kInputGradient };

// Everything that decides a convolution, validated by Python (ops/_convolution.py): all sizes are
// at least 1, out_height and out_width are what padding, stride and dilation make of the input.
struct ConvolutionSizes {
  Direction direction;
  DType dtype;
  bool channels_first;  // NCHW instead of NHWC
  ptrdiff_t batch;
  ptrdiff_t in_height, in_width, in_channels;    // of Conv2D's input: the gradient's result
  ptrdiff_t filter_height, filter_width;         // HWIO: (height, width, in_channels/groups, out_channels)
  ptrdiff_t out_height, out_width, out_channels; // of Conv2D's output: the gradient's out_backprop
  ptrdiff_t groups;
  ptrdiff_t stride_height, stride_width;
  ptrdiff_t dilation_height, dilation_width;
  ptrdiff_t pad_top, pad_left;
};

// The plan holds no pointer into an array and is immutable: threads may share it.
class Convolution {
 public:
  explicit Convolution(const ConvolutionSizes& sizes);  // may throw std::bad_alloc
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  // source is Conv2D's input (forward) or out_backprop (gradient); result the other. C-contiguous
  // arrays of the plan's dtype. Never throws; kOutOfMemory when workspace cannot be had.
  Status run(const void* filter, const void* source, void* result) const noexcept;

  const ConvolutionSizes& sizes() const;
  // Name of the algorithm that a call with a finite filter takes, for explanations and tests.
  std::string algorithm() const;

 private:
  struct Plan;
  Plan* plan_;
};

}  // namespace gradops
