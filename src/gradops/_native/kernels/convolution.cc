// This level's table of convolution kernels.
#include "convolution.h"

namespace gradops::GRADOPS_LEVEL {

extern const DirectKernels direct_kernels;
extern const StripKernels strip_kernels;
extern const DepthwiseKernels depthwise_kernels;
extern const LayoutKernels layout_kernels;

extern const ConvolutionKernels convolution_kernels;
const ConvolutionKernels convolution_kernels = {&direct_kernels, &strip_kernels, &depthwise_kernels, &layout_kernels};

}  // namespace gradops::GRADOPS_LEVEL
