// Samples one row of a crop from the two image rows around it.
//
// Loop order: sample (crop column), then channels in steps of 16, 8, 4 and 1. Per step four pixels
// are loaded and converted to float32, three interpolations formed, one cell stored.
// Traffic per sample: four pixels read (boxes overlap, so mostly from L2), depth * 4 bytes written;
// crops larger than the caches are written past them, which saves reading their lines first.
//
// Bits: top = left + (right - left) * x for both rows, then the same between them along y; each
// operation rounded by itself. Pixels are read even when their weight is 0.
#include "kernels/crop.h"
#include "kernels/crop_half.h"
#include "kernels/crop_lanes.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace gradops::GRADOPS_LEVEL {
namespace {

// kLanes values of pixels, as float32.
template <int kLanes, typename Pixel>
GRADOPS_INLINE void load_floats(Lanes<float, kLanes>& values, const Pixel* source) {
  if constexpr (__is_same(Pixel, Half)) {
    widen_half<kLanes>(values, source);
  } else if constexpr (__is_same(Pixel, BFloat16)) {
    widen_bfloat16<kLanes>(values, source);
  } else {
    Lanes<Pixel, kLanes> pixels;
    load(pixels, source);
    // Through every size between: a longer step GCC 12 takes lane by lane.
    if constexpr (sizeof(Pixel) == 1) {
      Lanes<std::int16_t, kLanes> wider;
      Lanes<std::int32_t, kLanes> widest;
      convert<kLanes>(wider, pixels);
      convert<kLanes>(widest, wider);
      convert<kLanes>(values, widest);
    } else if constexpr (sizeof(Pixel) == 2) {
      Lanes<std::int32_t, kLanes> wider;
      convert<kLanes>(wider, pixels);
      convert<kLanes>(values, wider);
    } else {
      convert<kLanes>(values, pixels);
    }
  }
}

// Stores past the caches where the level has such stores for whole registers; `target` is aligned.
GRADOPS_INLINE void stream(float* target, const Lanes<float, kVectorBytes / 4>& values) {
#if defined(__AVX512F__)
  _mm512_stream_ps(target, values);
#elif defined(__AVX2__)
  _mm256_stream_ps(target, values);
#elif defined(__SSE2__)
  _mm_stream_ps(target, values);
#else
  store(target, values);
#endif
}

template <typename Pixel, int kLanes, bool kStream = false>
GRADOPS_INLINE void sample_lanes(float* crops, const Pixel* top, const Pixel* bottom, ptrdiff_t right, float x,
                                 float y) {
  Lanes<float, kLanes> tl, tr, bl, br;
  load_floats<kLanes>(tl, top);
  load_floats<kLanes>(tr, top + right);
  load_floats<kLanes>(bl, bottom);
  load_floats<kLanes>(br, bottom + right);
  tl += (tr - tl) * x;
  bl += (br - bl) * x;
  tl += (bl - tl) * y;
  if constexpr (kStream) {
    stream(crops, tl);
  } else {
    store(crops, tl);
  }
}

template <typename Pixel, bool kStream>
GRADOPS_INLINE void sample_columns(const SampledRow& row) {
  constexpr int kLanes = kVectorBytes / 4;
  const ptrdiff_t depth = row.depth;
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const Pixel* top = static_cast<const Pixel*>(row.top) + column.lower * depth;
    const Pixel* bottom = static_cast<const Pixel*>(row.bottom) + column.lower * depth;
    float* crops = row.crops + column.crop * depth;
    const ptrdiff_t right = column.step * depth;
    const float x = column.fraction, y = row.fraction;
    ptrdiff_t d = 0;
    const auto sample_vectors = [&]<int kCount, bool kPast>() __attribute__((always_inline)) {
      for (; d + kCount <= depth; d += kCount) {
        sample_lanes<Pixel, kCount, kPast>(crops + d, top + d, bottom + d, right, x, y);
      }
    };
    sample_vectors.template operator()<kLanes, kStream>();
    if constexpr (kStream) continue;  // nothing is left
    if constexpr (kLanes > 8) sample_vectors.template operator()<8, false>();
    if constexpr (kLanes > 4) sample_vectors.template operator()<4, false>();
    sample_vectors.template operator()<1, false>();
  }
}

template <typename Pixel>
void sample_row(const SampledRow& row) {
  const bool whole_vectors = reinterpret_cast<std::uintptr_t>(row.crops) % kVectorBytes == 0 &&
                             row.depth * ptrdiff_t{sizeof(float)} % kVectorBytes == 0;
  if (row.stream && whole_vectors) {
    sample_columns<Pixel, true>(row);
  } else {
    sample_columns<Pixel, false>(row);
  }
}

template <typename Pixel>
void sample_nearest_row(const SampledRow& row) {
  const ptrdiff_t depth = row.depth;
  for (ptrdiff_t i = 0; i < row.count; ++i) {
    const AxisSample column = row.columns[i];
    const Pixel* pixel = static_cast<const Pixel*>(row.top) + column.lower * depth;
    float* crops = row.crops + column.crop * depth;
    ptrdiff_t d = 0;
    for (; d + 8 <= depth; d += 8) {
      Lanes<float, 8> values;
      load_floats<8>(values, pixel + d);
      store(crops + d, values);
    }
    for (; d < depth; ++d) load_floats<1>(crops[d], pixel + d);
  }
}

}  // namespace

// In the order of DType.
extern const SampleRowKernels sample_row_kernels = {
    {sample_row<float>, sample_row<double>, sample_row<Half>, sample_row<BFloat16>, sample_row<std::int32_t>,
     sample_row<std::uint8_t>, sample_row<std::int8_t>, sample_row<std::uint16_t>, sample_row<std::int16_t>,
     sample_row<std::int64_t>},
    {sample_nearest_row<float>, sample_nearest_row<double>, sample_nearest_row<Half>, sample_nearest_row<BFloat16>,
     sample_nearest_row<std::int32_t>, sample_nearest_row<std::uint8_t>, sample_nearest_row<std::int8_t>,
     sample_nearest_row<std::uint16_t>, sample_nearest_row<std::int16_t>, sample_nearest_row<std::int64_t>}};

}  // namespace gradops::GRADOPS_LEVEL
