// Chooses the instruction-set level once, on first use.
#pragma once

#include "kernels/convolution.h"
#include "kernels/crop.h"

namespace gradops {

// The level in use: "v2", "v3" or "v4" (x86-64 micro-architecture levels), "baseline" elsewhere.
// GRADOPS_ISA forces one, if this machine has it; else the best that processor and operating
// system offer. set_level is for tests: false, and nothing changes, where the level is missing.
const char* active_level();
bool set_level(const char* name);
// Names of the levels this machine can run, best last, ended by nullptr.
const char* const* available_levels();

const ConvolutionKernels& convolution_kernels();
const CropKernels& crop_kernels();

}  // namespace gradops
