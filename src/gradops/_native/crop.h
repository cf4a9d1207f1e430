// CropAndResize and CropAndResizeGradImage.
#pragma once

#include "types.h"

namespace gradops {

enum class Method : int { kBilinear, kNearest };

// Validated by Python (ops/_crop.py): sizes at least 1, box_ind in [0, batch), boxes finite.
struct CropSizes {
  Method method;
  ptrdiff_t batch, height, width, depth;        // of the image, NHWC
  ptrdiff_t num_boxes, crop_height, crop_width;
};

// crops[b, i, j, :] = image sampled at box b; image of `image_type`, crops float32.
Status crop_and_resize(const CropSizes& sizes, DType image_type, const void* image, const float* boxes,
                       const std::int32_t* box_ind, float extrapolation_value, float* crops) noexcept;

// image = adjoint of the above (with extrapolation 0) applied to grads (float32); image is written
// whole. image_type kFloat32 and kFloat64 have TensorFlow's bits; kFloat16 sums in float32 and
// rounds once.
Status crop_and_resize_grad_image(const CropSizes& sizes, DType image_type, const float* grads,
                                  const float* boxes, const std::int32_t* box_ind, void* image) noexcept;

}  // namespace gradops
