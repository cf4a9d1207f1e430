// Adds one row of a crop's gradient to two image rows, for at most four channels: a pixel is then
// so small that reading back what the sample before has just stored takes most of the time.
//
// Two loops over the samples, chosen by the mean distance between them:
//   direct  two pixels apart or more: load, add and store the four pixels of each sample; no sample
//           reads what the one before stored.
//   carry   closer: the pair of pixels (lower, upper) of both rows stays in registers while samples
//           fall between them. One pixel on, upper becomes lower, and only one is stored and loaded.
// Direct everywhere takes twice as long on enlarged boxes (224x224 crops of 100x100 pixels), carry
// everywhere up to half longer on patches. Registers of four floats at every level: one of eight for
// both rows was no faster on v3 and v4 (joining and splitting) and four times slower on v2.
// Traffic: each gradient is read once; the two image rows stay in L1.
//
// Bits: as in crop_add_row.cc; samples on a pixel column, whose four pixels are two, take the
// scalar path with its order of additions.
#include "kernels/crop.h"
#include "kernels/crop_lanes.h"

namespace gradops::GRADOPS_LEVEL {
namespace {

using Four = Lanes<float, 4>;

// Both rows at one or two pixels.
struct Pointers {
  float *top, *bottom;
};

// Two floats in the first lanes. Moved as one double: compilers take two through integer registers.
GRADOPS_INLINE void load_two(Four& pair, const float* source) {
  double bits;
  load(bits, source);
  pair = __builtin_bit_cast(Four, Lanes<double, 2>{bits, 0.0});
}
GRADOPS_INLINE void store_two(float* target, const Four& pair) {
  store(target, __builtin_bit_cast(Lanes<double, 2>, pair)[0]);
}

// kDepth floats in the first lanes; the others are 0.
template <int kDepth>
GRADOPS_INLINE void load_channels(Four& pixel, const float* source) {
  if constexpr (kDepth == 4) {
    load(pixel, source);
  } else {
    load_two(pixel, source);
    if constexpr (kDepth == 3) pixel[2] = source[2];
  }
}

template <int kDepth>
GRADOPS_INLINE void store_channels(float* target, const Four& pixel) {
  if constexpr (kDepth == 4) {
    store(target, pixel);
  } else {
    store_two(target, pixel);
    if constexpr (kDepth == 3) target[2] = pixel[2];
  }
}

// A sample on a pixel column: left and right are one pixel, which gets both products.
template <int kDepth>
GRADOPS_INLINE void add_on_column(const float* grads, const Pointers& rows, ptrdiff_t offset, float fraction_y,
                                  float fraction_x) {
  for (int d = 0; d < kDepth; ++d) {
    const float top = (1.0f - fraction_y) * grads[d];
    float* pixel = rows.top + offset + d;
    *pixel = *pixel + (1.0f - fraction_x) * top + fraction_x * top;
    const float bottom = fraction_y * grads[d];
    pixel = rows.bottom + offset + d;
    *pixel = *pixel + (1.0f - fraction_x) * bottom + fraction_x * bottom;
  }
}

// ---- one channel: a register of four holds (lower, upper) of top and bottom ----

GRADOPS_INLINE void load_pairs(Four& pairs, const Pointers& rows, ptrdiff_t column) {
  Four top, bottom;
  load_two(top, rows.top + column);
  load_two(bottom, rows.bottom + column);
  pairs = __builtin_shufflevector(top, bottom, 0, 1, 4, 5);
}

GRADOPS_INLINE void store_pairs(const Pointers& rows, ptrdiff_t column, const Four& pairs) {
  store_two(rows.top + column, pairs);
  store_two(rows.bottom + column, __builtin_shufflevector(pairs, pairs, 2, 3, 2, 3));
}

GRADOPS_INLINE void add_products(Four& pairs, float grad, const Four& row_weights, float fraction) {
  const float rest = 1.0f - fraction;
  pairs += Four{rest, fraction, rest, fraction} * (row_weights * grad);
}

void add_direct_1(const GradientRow row, const Pointers rows) {
  const float rest = 1.0f - row.fraction;
  const Four row_weights{rest, rest, row.fraction, row.fraction};
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    if (!column.step) {
      add_on_column<1>(row.grads + column.crop, rows, column.lower, row.fraction, column.fraction);
      continue;
    }
    Four pairs;
    load_pairs(pairs, rows, column.lower);
    add_products(pairs, row.grads[column.crop], row_weights, column.fraction);
    store_pairs(rows, column.lower, pairs);
  }
}

void add_carry_1(const GradientRow row, const Pointers rows) {
  const float rest = 1.0f - row.fraction;
  const Four row_weights{rest, rest, row.fraction, row.fraction};
  constexpr ptrdiff_t kNone = -2;  // and one more than it is no column either
  ptrdiff_t open = kNone;
  Four pairs{};
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    if (!column.step) {
      if (open != kNone) store_pairs(rows, open, pairs);
      open = kNone;
      add_on_column<1>(row.grads + column.crop, rows, column.lower, row.fraction, column.fraction);
      continue;
    }
    if (column.lower != open) {
      if (column.lower == open + 1) {
        rows.top[open] = pairs[0];
        rows.bottom[open] = pairs[2];
        pairs = Four{pairs[1], rows.top[column.lower + 1], pairs[3], rows.bottom[column.lower + 1]};
      } else {
        if (open != kNone) store_pairs(rows, open, pairs);
        load_pairs(pairs, rows, column.lower);
      }
      open = column.lower;
    }
    add_products(pairs, row.grads[column.crop], row_weights, column.fraction);
  }
  if (open != kNone) store_pairs(rows, open, pairs);
}

// ---- two to four channels: a register for each of the four pixels ----

// The same pixel of both rows.
struct Both {
  Four top, bottom;
};

template <int kDepth>
GRADOPS_INLINE void load_both(Both& pixel, const Pointers& rows, ptrdiff_t offset) {
  load_channels<kDepth>(pixel.top, rows.top + offset);
  load_channels<kDepth>(pixel.bottom, rows.bottom + offset);
}

template <int kDepth>
GRADOPS_INLINE void store_both(const Pointers& rows, ptrdiff_t offset, const Both& pixel) {
  store_channels<kDepth>(rows.top + offset, pixel.top);
  store_channels<kDepth>(rows.bottom + offset, pixel.bottom);
}

template <int kDepth>
GRADOPS_INLINE void add_both(Both& lower, Both& upper, const float* grads, float fraction_y, float fraction_x) {
  Four g;
  load_channels<kDepth>(g, grads);
  const Four top = (1.0f - fraction_y) * g, bottom = fraction_y * g;
  lower.top += (1.0f - fraction_x) * top;
  upper.top += fraction_x * top;
  lower.bottom += (1.0f - fraction_x) * bottom;
  upper.bottom += fraction_x * bottom;
}

template <int kDepth>
void add_direct(const GradientRow row, const Pointers rows) {
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const float* grads = row.grads + column.crop * kDepth;
    const ptrdiff_t offset = column.lower * kDepth;
    if (!column.step) {
      add_on_column<kDepth>(grads, rows, offset, row.fraction, column.fraction);
      continue;
    }
    Both lower, upper;
    load_both<kDepth>(lower, rows, offset);
    load_both<kDepth>(upper, rows, offset + kDepth);
    add_both<kDepth>(lower, upper, grads, row.fraction, column.fraction);
    store_both<kDepth>(rows, offset, lower);
    store_both<kDepth>(rows, offset + kDepth, upper);
  }
}

// Three channels: lower and upper are six floats in a row, moved as four and two.
void add_direct_3(const GradientRow row, const Pointers rows) {
  const float rest_y = 1.0f - row.fraction;
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const float* grads = row.grads + column.crop * 3;
    const ptrdiff_t offset = column.lower * 3;
    if (!column.step) {
      add_on_column<3>(grads, rows, offset, row.fraction, column.fraction);
      continue;
    }
    Four g, top, top_tail, bottom, bottom_tail;
    load_channels<3>(g, grads);
    load(top, rows.top + offset);
    load_two(top_tail, rows.top + offset + 4);
    load(bottom, rows.bottom + offset);
    load_two(bottom_tail, rows.bottom + offset + 4);
    const float rest_x = 1.0f - column.fraction;
    const Four weights{rest_x, rest_x, rest_x, column.fraction};
    const Four head = __builtin_shufflevector(g, g, 0, 1, 2, 0), tail = __builtin_shufflevector(g, g, 1, 2, 3, 3);
    top += weights * (rest_y * head);
    top_tail += column.fraction * (rest_y * tail);
    bottom += weights * (row.fraction * head);
    bottom_tail += column.fraction * (row.fraction * tail);
    store(rows.top + offset, top);
    store_two(rows.top + offset + 4, top_tail);
    store(rows.bottom + offset, bottom);
    store_two(rows.bottom + offset + 4, bottom_tail);
  }
}

template <int kDepth>
void add_carry(const GradientRow row, const Pointers rows) {
  constexpr ptrdiff_t kNone = -2;
  ptrdiff_t open = kNone;
  Both lower{}, upper{};
  const auto store_open = [&]() __attribute__((always_inline)) {
    if (open == kNone) return;
    store_both<kDepth>(rows, open * kDepth, lower);
    store_both<kDepth>(rows, (open + 1) * kDepth, upper);
  };
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const float* grads = row.grads + column.crop * kDepth;
    const ptrdiff_t offset = column.lower * kDepth;
    if (!column.step) {
      store_open();
      open = kNone;
      add_on_column<kDepth>(grads, rows, offset, row.fraction, column.fraction);
      continue;
    }
    if (column.lower != open) {
      if (column.lower == open + 1) {
        store_both<kDepth>(rows, offset - kDepth, lower);
        lower = upper;
      } else {
        store_open();
        load_both<kDepth>(lower, rows, offset);
      }
      load_both<kDepth>(upper, rows, offset + kDepth);
      open = column.lower;
    }
    add_both<kDepth>(lower, upper, grads, row.fraction, column.fraction);
  }
  store_open();
}

void add_narrow(const GradientRow& row) {
  if (row.count == 0) return;
  const Pointers rows{static_cast<float*>(row.top), static_cast<float*>(row.bottom)};
  ptrdiff_t distance = row.columns[row.count - 1].lower - row.columns[0].lower;
  if (distance < 0) distance = -distance;
  const bool direct = distance >= 2 * (row.count - 1);
  switch (row.depth) {
    case 1: return direct ? add_direct_1(row, rows) : add_carry_1(row, rows);
    case 2: return direct ? add_direct<2>(row, rows) : add_carry<2>(row, rows);
    case 3: return direct ? add_direct_3(row, rows) : add_carry<3>(row, rows);
    case 4: return direct ? add_direct<4>(row, rows) : add_carry<4>(row, rows);
  }
}

}  // namespace

extern const AddNarrowKernels add_narrow_kernels = {add_narrow};

}  // namespace gradops::GRADOPS_LEVEL
