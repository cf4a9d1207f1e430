// What the crop kernels of one instruction-set level offer. Plain pointers and sizes only.
#pragma once

#include "sample_grid.h"
#include "types.h"

namespace gradops {

// One row of a crop's gradient and the image rows that it is added to. The element type of the
// image rows is the kernel's.
struct GradientRow {
  const float* grads;         // [crop_width][depth]
  const float* next;          // the row that comes next, to be prefetched; may be `grads`
  void* top;                  // [width][depth]; null: another band's, not to be touched
  void* bottom;               // likewise; equal to top where the sample is on a pixel row
  const AxisSample* columns;  // the samples inside the image
  ptrdiff_t count;            // of columns
  ptrdiff_t depth;
  float fraction;             // of the way from top to bottom
};

struct AddRowKernels {
  void (*float32)(const GradientRow& row);
  void (*float64)(const GradientRow& row);
  void (*nearest_float32)(const GradientRow& row);  // adds to top, which must not be null
  void (*nearest_float64)(const GradientRow& row);
};

constexpr ptrdiff_t kMaxNarrowDepth = 4;

// Rows of at most kMaxNarrowDepth channels, both image rows given and different.
struct AddNarrowKernels {
  void (*float32)(const GradientRow& row);
};

// One row of a crop and the image rows that it samples.
struct SampledRow {
  float* crops;               // [crop_width][depth]
  const void* top;            // [width][depth] of the image's type
  const void* bottom;         // equal to top where the sample is on a pixel row
  const AxisSample* columns;  // the samples inside the image
  ptrdiff_t count;            // of columns
  ptrdiff_t depth;
  float fraction;             // of the way from top to bottom
  bool stream;                // whether to write past the caches; end_stream() must follow
};

// Indexed by DType; null where there is no kernel. They write the cells of `columns` only.
struct SampleRowKernels {
  void (*bilinear[10])(const SampledRow& row);
  void (*nearest[10])(const SampledRow& row);
};

struct CropKernels {
  const AddRowKernels* add_row;
  const AddNarrowKernels* add_narrow;
  const SampleRowKernels* sample_row;
  // Zeros past the caches, for memory that is not read again soon.
  void (*stream_zeros)(void* target, std::size_t bytes);
  // Makes stores past the caches visible to other threads in order.
  void (*end_stream)();
  // float16 bits, rounded to nearest even.
  void (*round_to_half)(const float* source, std::uint16_t* target, ptrdiff_t count);
};

#if defined(__x86_64__)
namespace v2 { extern const CropKernels crop_kernels; }
namespace v3 { extern const CropKernels crop_kernels; }
namespace v4 { extern const CropKernels crop_kernels; }
#else
namespace baseline { extern const CropKernels crop_kernels; }
#endif

}  // namespace gradops
