// Where the samples of a crop lie on the image: the one place that computes coordinates.
#pragma once

#include "types.h"

namespace gradops {

// One sample on one axis, inside the image. It lies between pixels `lower` and `lower + step`; on a
// pixel exactly, step is 0. For the nearest method `lower` is that pixel, step and fraction are 0.
struct AxisSample {
  ptrdiff_t crop;      // index in the crop
  ptrdiff_t lower;     // pixel of the image
  float fraction;      // of the way to the next pixel
  std::int32_t step;   // 0 or 1
};

// One axis of one box.
struct Axis {
  float start, end;    // the box's edges as fractions of the image
  ptrdiff_t size;      // pixels of the image
  ptrdiff_t crop_size;
  bool nearest;
};

// Writes the samples [first, first + count) that are inside the image, in order, and returns how
// many those are. Coordinates are TensorFlow's to the bit, if subnormals are flushed (see crop.cc).
ptrdiff_t sample_axis(const Axis& axis, ptrdiff_t first, ptrdiff_t count, AxisSample* inside) noexcept;

}  // namespace gradops
