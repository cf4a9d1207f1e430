// Adds one row of a crop's gradient to the two image rows it was sampled from, any depth.
//
// Loop order: sample (crop column), then channels in steps of two vectors. Per step the gradient and
// four pixels are loaded, six products and four sums formed, four pixels stored; the loads of a step
// come before its stores. Nothing is kept from sample to sample.
// Traffic per sample: depth * 4 bytes of gradient from memory, which the row before had prefetched
// into L2 (the largest single gain; into L1 it evicts the image), and depth * sizeof(Image) bytes
// read and written for each of the four pixels, in L1 or L2 because the caller works in bands.
//
// Bits: every product and sum is rounded by itself, in TensorFlow's order at each pixel: top-left,
// top-right, bottom-left, bottom-right. Weights of 0 are added too (they turn Inf into NaN).
// Where two of the four pixels are one, both sums go to one register, in that order.
#include "kernels/crop.h"
#include "kernels/crop_lanes.h"

namespace gradops::GRADOPS_LEVEL {
namespace {

// Vectors of each stream per step. Two are a tenth faster than one in float32 and a third in float64;
// four are no faster.
constexpr int kParts = 2;

enum class Rows { kTwo, kSame, kOne };

struct Weights {
  float top, bottom;  // kOne: `top` is the weight of the one row
  float left, right;
};

template <int kLanes, typename Sums, typename Products>
GRADOPS_INLINE void add(Sums& sum, const Products& product) {
  Sums wide;
  convert<kLanes>(wide, product);
  sum += wide;
}

// Adds kVectors vectors of the gradient; all loads come before all stores.
template <typename Image, int kLanes, int kVectors, Rows kRows, bool kPair>
GRADOPS_INLINE void add_lanes(const float* grads, Image* top_left, Image* top_right, Image* bottom_left,
                              Image* bottom_right, const Weights& weights) {
  using Products = Lanes<float, kLanes>;
  using Sums = Lanes<Image, kLanes>;
  constexpr bool kTwoRows = kRows == Rows::kTwo;
  Products g[kVectors];
  Sums tl[kVectors], tr[kVectors], bl[kVectors], br[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    load(g[i], grads + i * kLanes);
    load(tl[i], top_left + i * kLanes);
    if constexpr (kPair) load(tr[i], top_right + i * kLanes);
    if constexpr (kTwoRows) load(bl[i], bottom_left + i * kLanes);
    if constexpr (kTwoRows && kPair) load(br[i], bottom_right + i * kLanes);
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    const Products top = weights.top * g[i];
    add<kLanes>(tl[i], weights.left * top);
    add<kLanes>(kPair ? tr[i] : tl[i], weights.right * top);
    if constexpr (kRows != Rows::kOne) {
      const Products bottom = weights.bottom * g[i];
      Sums& left = kTwoRows ? bl[i] : tl[i];
      Sums& right = kTwoRows ? br[i] : tr[i];
      add<kLanes>(left, weights.left * bottom);
      add<kLanes>(kPair ? right : left, weights.right * bottom);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    store(top_left + i * kLanes, tl[i]);
    if constexpr (kPair) store(top_right + i * kLanes, tr[i]);
    if constexpr (kTwoRows) store(bottom_left + i * kLanes, bl[i]);
    if constexpr (kTwoRows && kPair) store(bottom_right + i * kLanes, br[i]);
  }
}

template <typename Image, Rows kRows, bool kPair>
GRADOPS_INLINE void add_sample(const float* grads, const float* next, Image* top, Image* bottom, ptrdiff_t depth,
                               const Weights& weights) {
  constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(Image));
  constexpr int kStep = kLanes * kParts;
  Image *right = top + depth, *bottom_right = bottom + depth;
  ptrdiff_t d = 0;
  for (; d + kStep <= depth; d += kStep) {
#pragma GCC unroll 4
    for (int i = 0; i < kStep; i += 16) __builtin_prefetch(next + d + i, 0, 2);
    add_lanes<Image, kLanes, kParts, kRows, kPair>(grads + d, top + d, right + d, bottom + d, bottom_right + d,
                                                   weights);
  }
  if (d == depth) return;
  __builtin_prefetch(next + d, 0, 2);
  const auto add_vectors = [&]<int kCount>() __attribute__((always_inline)) {
    for (; d + kCount <= depth; d += kCount) {
      add_lanes<Image, kCount, 1, kRows, kPair>(grads + d, top + d, right + d, bottom + d, bottom_right + d, weights);
    }
  };
  add_vectors.template operator()<kLanes>();
  if constexpr (kLanes > 8) add_vectors.template operator()<8>();
  if constexpr (kLanes > 4) add_vectors.template operator()<4>();
  add_vectors.template operator()<1>();
}

template <typename Image, Rows kRows>
void add_columns(const GradientRow& row, Image* top, Image* bottom, float top_weight, float bottom_weight) {
  const ptrdiff_t depth = row.depth;
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const Weights weights{top_weight, bottom_weight, 1.0f - column.fraction, column.fraction};
    const float* grads = row.grads + column.crop * depth;
    const float* next = row.next + column.crop * depth;
    const ptrdiff_t pixel = column.lower * depth;
    if (column.step) {
      add_sample<Image, kRows, true>(grads, next, top + pixel, bottom + pixel, depth, weights);
    } else {
      add_sample<Image, kRows, false>(grads, next, top + pixel, bottom + pixel, depth, weights);
    }
  }
}

template <typename Image>
void add_row(const GradientRow& row) {
  Image* top = static_cast<Image*>(row.top);
  Image* bottom = static_cast<Image*>(row.bottom);
  const float top_weight = 1.0f - row.fraction, bottom_weight = row.fraction;
  if (!bottom) {
    add_columns<Image, Rows::kOne>(row, top, top, top_weight, 0.0f);
  } else if (!top) {
    add_columns<Image, Rows::kOne>(row, bottom, bottom, bottom_weight, 0.0f);
  } else if (top == bottom) {
    add_columns<Image, Rows::kSame>(row, top, top, top_weight, bottom_weight);
  } else {
    add_columns<Image, Rows::kTwo>(row, top, bottom, top_weight, bottom_weight);
  }
}

template <typename Image>
void add_nearest_row(const GradientRow& row) {
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const float* __restrict grads = row.grads + column.crop * row.depth;
    const float* next = row.next + column.crop * row.depth;
    Image* __restrict pixel = static_cast<Image*>(row.top) + column.lower * row.depth;
    for (ptrdiff_t d = 0; d < row.depth; d += 16) __builtin_prefetch(next + d, 0, 2);
    for (ptrdiff_t d = 0; d < row.depth; ++d) pixel[d] += static_cast<Image>(grads[d]);
  }
}

}  // namespace

extern const AddRowKernels add_row_kernels = {add_row<float>, add_row<double>, add_nearest_row<float>,
                                              add_nearest_row<double>};

}  // namespace gradops::GRADOPS_LEVEL
