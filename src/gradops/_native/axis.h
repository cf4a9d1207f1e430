// One spatial axis of a convolution as arithmetic progressions. Pure integers, no tensors.
//
// Both directions become the same thing: every result position is a sum over taps, and tap j reads
// one source position. Positions that use the same taps form a class, so padding is never
// multiplied: a position at the border simply belongs to a class with fewer taps.
#pragma once

#include <cstddef>
#include <vector>

namespace gradops {

using std::ptrdiff_t;

// Result positions out_first + i*out_step, 0 <= i < count. Each sums `taps` products: tap j is
// filter index tap_first + j*tap_step and reads source position src_first + i*src_step +
// j*tap_src_step. Source positions ascend with j (tap_src_step >= 1): the order of TensorFlow's sums.
struct AxisClass {
  ptrdiff_t out_first, out_step, count;
  ptrdiff_t src_first, src_step;
  ptrdiff_t tap_first, tap_step, taps;
  ptrdiff_t tap_src_step;
};

// The same without regard to borders, for kernels that read a zero-padded source: cell q of a phase
// is result position out_offset + q*out_step, and its tap j reads source position q*src_step +
// src_offset + j*tap_src_step. Some cells lie outside the result, some taps outside the source.
struct AxisPhase {
  ptrdiff_t out_offset, out_step;
  ptrdiff_t src_offset, src_step;
  ptrdiff_t tap_first, tap_step, taps;
  ptrdiff_t tap_src_step;
};

struct AxisSizes {
  ptrdiff_t in, filter, out;  // Conv2D's input, filter and output
  ptrdiff_t stride, dilation, pad;
};

// The classes cover every result position once. Positions without taps make few classes, however
// large the stride: about the root of their number for each filter index, at most.
// forward: from input to output; gradient: from out_backprop to the input's gradient.
std::vector<AxisClass> forward_classes(const AxisSizes& axis);
std::vector<AxisClass> gradient_classes(const AxisSizes& axis);

// The phases that own result positions, all of one src_step: as many as the stride has positions.
std::vector<AxisPhase> forward_phases(const AxisSizes& axis);
std::vector<AxisPhase> gradient_phases(const AxisSizes& axis);

}  // namespace gradops
