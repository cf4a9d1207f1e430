// Compiled once, not per level, and without contraction: a fused or reordered operation moves
// samples near the image's border in or out.
#include "sample_grid.h"

namespace gradops {

// noinline: the caller has set the flushing of subnormals, and no operation may move before that.
[[gnu::noinline]] ptrdiff_t sample_axis(const Axis& axis, ptrdiff_t first, ptrdiff_t count,
                                        AxisSample* inside) noexcept {
  const float last_pixel = static_cast<float>(axis.size - 1);
  const double limit = static_cast<double>(axis.size - 1);
  float origin, scale = 0.0f;
  if (axis.crop_size > 1) {
    scale = (axis.end - axis.start) * last_pixel / static_cast<float>(axis.crop_size - 1);
    origin = axis.start * last_pixel;
  } else {  // the middle of the box, in double as TensorFlow has it
    origin = static_cast<float>(0.5 * static_cast<double>(axis.start + axis.end) * limit);
  }
  AxisSample* next = inside;
  for (ptrdiff_t i = first; i < first + count; ++i) {
    const float position = axis.crop_size > 1 ? origin + static_cast<float>(i) * scale : origin;
    // TensorFlow compares with float(size - 1), which may be larger than size - 1 from 2^24 on and
    // then lets a sample past the end. A NaN (infinity minus infinity, 0 times infinity) is outside.
    const double exact = static_cast<double>(position);
    if (!(exact >= 0.0 && exact <= limit)) continue;
    // Positions are not negative, so truncation is floor; the fraction is exact.
    const ptrdiff_t floor = static_cast<ptrdiff_t>(position);
    const float fraction = position - static_cast<float>(floor);
    if (axis.nearest) {  // halves go up, away from zero
      *next++ = {i, floor + (fraction >= 0.5f), 0.0f, 0};
    } else {
      *next++ = {i, floor, fraction, fraction > 0.0f};
    }
  }
  return next - inside;
}

}  // namespace gradops
