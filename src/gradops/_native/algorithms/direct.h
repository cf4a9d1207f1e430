// Direct convolution of channels-last images; any sizes.
#pragma once

#include "algorithms/problem.h"

namespace gradops {

double direct_cost(const Problem& problem);

template <typename T>
Status run_direct(const Problem& problem, const DirectKernel<T>& kernel, const LayoutKernels& layout, const T* filter,
                  const T* source, T* result) noexcept;

}  // namespace gradops
