#include "axis.h"

#include <algorithm>
#include <numeric>

namespace gradops {
namespace {

ptrdiff_t floor_div(ptrdiff_t a, ptrdiff_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return -floor_div(-a, b); }

struct TapRange {
  ptrdiff_t first, last;  // empty when last < first
  bool operator==(const TapRange& other) const = default;
};

constexpr TapRange kNoTaps = {0, -1};

// Taps t with first <= t <= last, or the one form of "none", so that ranges compare.
TapRange make_range(ptrdiff_t first, ptrdiff_t last) { return first <= last ? TapRange{first, last} : kNoTaps; }

// Cuts positions 0 .. count-1 into runs of equal tap ranges and calls add(first, length, range).
template <typename RangeOf, typename Add>
void for_each_run(ptrdiff_t count, RangeOf range_of, Add add) {
  for (ptrdiff_t first = 0; first < count;) {
    const TapRange range = range_of(first);
    ptrdiff_t end = first + 1;
    while (end < count && range_of(end) == range) ++end;
    add(first, end - first, range);
    first = end;
  }
}

// The gradient's result positions y with the same remainder of (y + pad) / stride meet the filter
// indices tap_first + t*tap_step, t < taps; tap t reads source position cell - t*src_step, where
// cell = (y + pad - tap_first*dilation) / stride.
struct GradientPhase {
  ptrdiff_t out_first, count;  // result positions out_first + i*stride
  ptrdiff_t tap_first, tap_step, taps;
  ptrdiff_t src_step;
};

// The phases that have taps, by ascending result position. Enumerated over the filter indices that
// exist, not over the stride, which may be huge.
std::vector<GradientPhase> tap_phases(const AxisSizes& axis) {
  const ptrdiff_t common = std::gcd(axis.stride, axis.dilation);
  const ptrdiff_t tap_step = axis.stride / common;
  const ptrdiff_t pad = axis.pad % axis.stride;
  std::vector<GradientPhase> phases;
  // The first tap_step filter indices have different remainders, and each begins a phase's taps.
  for (ptrdiff_t tap = 0; tap < std::min(axis.filter, tap_step); ++tap) {
    const ptrdiff_t remainder = (tap * axis.dilation) % axis.stride;
    const ptrdiff_t first = (remainder - pad + axis.stride) % axis.stride;
    if (first >= axis.in) continue;
    phases.push_back({first, (axis.in - 1 - first) / axis.stride + 1, tap, tap_step,
                      (axis.filter - 1 - tap) / tap_step + 1, axis.dilation / common});
  }
  std::sort(phases.begin(), phases.end(),
            [](const GradientPhase& a, const GradientPhase& b) { return a.out_first < b.out_first; });
  return phases;
}

// Adds the positions of the phases begin .. end-1, which have no taps: phase by phase or stride by
// stride, whichever makes fewer classes.
void add_tapless(std::vector<AxisClass>& classes, const AxisSizes& axis, ptrdiff_t begin, ptrdiff_t end) {
  if (begin >= end) return;
  if (end - begin <= (axis.in - 1 - begin) / axis.stride) {
    for (ptrdiff_t first = begin; first < end; ++first) {
      classes.push_back({first, axis.stride, (axis.in - 1 - first) / axis.stride + 1, 0, 0, 0, 0, 0, 1});
    }
  } else {
    for (ptrdiff_t first = begin; first < axis.in; first += axis.stride) {
      classes.push_back({first, 1, std::min(end - begin, axis.in - first), 0, 0, 0, 0, 0, 1});
    }
  }
}

}  // namespace

std::vector<AxisClass> forward_classes(const AxisSizes& axis) {
  std::vector<AxisClass> classes;
  const auto range_of = [&](ptrdiff_t out) {
    const ptrdiff_t origin = out * axis.stride - axis.pad;
    return make_range(std::max<ptrdiff_t>(0, ceil_div(-origin, axis.dilation)),
                      std::min(axis.filter - 1, floor_div(axis.in - 1 - origin, axis.dilation)));
  };
  for_each_run(axis.out, range_of, [&](ptrdiff_t first, ptrdiff_t count, TapRange range) {
    classes.push_back({first, 1, count, first * axis.stride - axis.pad + range.first * axis.dilation, axis.stride,
                       range.first, 1, range.last - range.first + 1, axis.dilation});
  });
  return classes;
}

std::vector<AxisClass> gradient_classes(const AxisSizes& axis) {
  std::vector<AxisClass> classes;
  ptrdiff_t next = 0;
  for (const GradientPhase& phase : tap_phases(axis)) {
    add_tapless(classes, axis, next, phase.out_first);
    next = phase.out_first + 1;
    const ptrdiff_t cell = (phase.out_first + axis.pad - phase.tap_first * axis.dilation) / axis.stride;
    const auto range_of = [&](ptrdiff_t i) {
      return make_range(std::max<ptrdiff_t>(0, ceil_div(cell + i - axis.out + 1, phase.src_step)),
                        std::min(phase.taps - 1, floor_div(cell + i, phase.src_step)));
    };
    for_each_run(phase.count, range_of, [&](ptrdiff_t first, ptrdiff_t count, TapRange range) {
      classes.push_back({phase.out_first + first * axis.stride, axis.stride, count,
                         cell + first - range.last * phase.src_step, 1,
                         phase.tap_first + range.last * phase.tap_step, -phase.tap_step,
                         range.last - range.first + 1, phase.src_step});
    });
  }
  add_tapless(classes, axis, next, std::min(axis.stride, axis.in));
  return classes;
}

std::vector<AxisPhase> forward_phases(const AxisSizes& axis) {
  return {{0, 1, -axis.pad, axis.stride, 0, 1, axis.filter, axis.dilation}};
}

std::vector<AxisPhase> gradient_phases(const AxisSizes& axis) {
  std::vector<AxisPhase> phases;
  // Cell q of every phase begins at q*stride - pad, so that phases with equal taps read alike.
  const auto remainder_of = [&](ptrdiff_t first) { return (first + axis.pad) % axis.stride; };
  ptrdiff_t next = 0;
  const auto add_tapless_before = [&](ptrdiff_t end) {
    for (; next < end; ++next) {
      phases.push_back({remainder_of(next) - axis.pad, axis.stride, 0, 1, 0, 0, 0, 1});
    }
  };
  for (const GradientPhase& phase : tap_phases(axis)) {
    add_tapless_before(phase.out_first);
    next = phase.out_first + 1;
    const ptrdiff_t remainder = remainder_of(phase.out_first);
    const ptrdiff_t last = phase.taps - 1;
    const ptrdiff_t shift = (remainder - phase.tap_first * axis.dilation) / axis.stride;
    phases.push_back({remainder - axis.pad, axis.stride, shift - last * phase.src_step, 1,
                      phase.tap_first + last * phase.tap_step, -phase.tap_step, phase.taps, phase.src_step});
  }
  add_tapless_before(std::min(axis.stride, axis.in));
  return phases;
}

}  // namespace gradops
