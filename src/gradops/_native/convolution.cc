#include "convolution.h"

#include <algorithm>
#include <memory>

#include "algorithms/depthwise.h"
#include "algorithms/direct.h"
#include "algorithms/problem.h"
#include "algorithms/strips.h"
#include "dispatch.h"
#include "float_mode.h"

namespace gradops {
namespace {

enum class Algorithm { kDirect, kStrips, kDepthwise, kLong };

// Sums of more products than this are formed in the next wider type, or compensated: chains of
// products added one after another would drift by more than a few units.
constexpr ptrdiff_t kLongReduction = 32768;

// By the sizes of one image only, so that no image's bits depend on its batch, thread count or
// instruction set.
Algorithm choose(const Problem& problem, const ConvolutionSizes& sizes, bool finite_filter = true) {
  if (sizes.dtype != DType::kInt32 && problem.most_terms > kLongReduction) return Algorithm::kLong;
  const double depthwise = depthwise_cost(problem), direct = direct_cost(problem);
  const double swap = sizes.channels_first ? swap_cost(problem) : 0;
  // Strips multiply the padding's zeros and read either layout.
  if (finite_filter && strips_cost(problem) < std::min(depthwise, direct) + swap) return Algorithm::kStrips;
  return depthwise < direct ? Algorithm::kDepthwise : Algorithm::kDirect;
}

constexpr ptrdiff_t kConvertItem = 1 << 15;  // elements

// to[i] = kernel(from[i]), shared among threads.
template <typename From, typename To>
void convert(void (*kernel)(const From*, To*, ptrdiff_t), const From* from, To* to, ptrdiff_t count) {
  const auto part = [&](ptrdiff_t i) {
    const ptrdiff_t first = i * kConvertItem;
    kernel(from + first, to + first, std::min(kConvertItem, count - first));
  };
  const ptrdiff_t items = ceil_div(count, kConvertItem);
  if (items == 1) return part(0);
  for_each_item(items, part);
}

// Images from channels first to channels last, or back.
template <typename T>
void swap_layout(const Problem& problem, const LayoutKernels& layout, bool to_channels_last, const T* from, T* to,
                 ptrdiff_t pixels, ptrdiff_t channels) {
  constexpr ptrdiff_t kPixels = 512;
  const ptrdiff_t parts = ceil_div(pixels, kPixels);
  for_each(problem, problem.batch * parts, [&](ptrdiff_t i) {
    const ptrdiff_t image = i / parts * pixels * channels, first = i % parts * kPixels;
    const ptrdiff_t count = std::min(kPixels, pixels - first);
    if (to_channels_last) {
      transpose(layout, from + image + first, pixels, to + image + first * channels, channels, channels, count);
    } else {
      transpose(layout, from + image + first * channels, channels, to + image + first, pixels, count, channels);
    }
  });
}

bool all_finite(const std::uint32_t*, ptrdiff_t) { return true; }

template <typename T>
bool all_finite(const T* values, ptrdiff_t count) {
  T sum = 0;  // stays 0 until a NaN or an Inf comes by
  for (ptrdiff_t i = 0; i < count; ++i) sum += values[i] - values[i] == T(0) ? T(0) : T(1);
  return sum == T(0);
}

template <typename T>
std::size_t bytes(ptrdiff_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); }

}  // namespace

struct Convolution::Plan {
  explicit Plan(const ConvolutionSizes& all)
      : sizes(all), problem(all), algorithm(choose(problem, all)), without_strips(choose(problem, all, false)),
        strips(algorithm == Algorithm::kStrips ? std::make_unique<StripPlan>(problem) : nullptr) {}

  ConvolutionSizes sizes;
  Problem problem;
  Algorithm algorithm, without_strips;
  std::unique_ptr<StripPlan> strips;

  // Runs `body(source, result)`, a Status, on channels-last images.
  template <typename T, typename Body>
  Status on_channels_last(const T* source, T* result, Body body) const noexcept {
    const LayoutKernels& layout = *convolution_kernels().layout;
    const ptrdiff_t source_pixels = problem.source_height * problem.source_width;
    const ptrdiff_t result_pixels = problem.result_height * problem.result_width;
    // With one channel or one pixel both layouts are the same memory.
    const bool swap_source = sizes.channels_first && source_pixels > 1 && problem.source_channels > 1;
    const bool swap_result = sizes.channels_first && result_pixels > 1 && problem.result_channels > 1;
    const Scratch source_scratch(swap_source ? bytes<T>(problem.source_elements()) : 0);
    const Scratch result_scratch(swap_result ? bytes<T>(problem.result_elements()) : 0);
    if (!source_scratch || !result_scratch) return Status::kOutOfMemory;
    if (swap_source) {
      T* to = source_scratch.as<T>();
      swap_layout(problem, layout, true, source, to, source_pixels, problem.source_channels);
      source = to;
    }
    T* to = swap_result ? result_scratch.as<T>() : result;
    const Status status = body(source, to);
    if (status == Status::kOk && swap_result) {
      swap_layout(problem, layout, false, to, result, result_pixels, problem.result_channels);
    }
    return status;
  }

  template <typename T>
  Status direct(const DirectKernel<T>& kernel, const T* filter, const T* source, T* result) const noexcept {
    return on_channels_last(source, result, [&](const T* from, T* to) {
      return run_direct(problem, kernel, *convolution_kernels().layout, filter, from, to);
    });
  }

  // All but kLong.
  template <typename T>
  Status short_sums(const DirectKernel<T>& direct_kernel, const StripKernel<T>& strip_kernel,
                    RunDepthwise<T> depthwise_kernel, const T* filter, const T* source, T* result) const noexcept {
    if (algorithm == Algorithm::kStrips && all_finite(filter, problem.filter_elements())) {
      return run_strips(problem, *strips, strip_kernel, *convolution_kernels().layout, sizes.channels_first, filter,
                        source, result);
    }
    if (without_strips == Algorithm::kDirect) return direct(direct_kernel, filter, source, result);
    return on_channels_last(source, result, [&](const T* from, T* to) {
      return run_depthwise(problem, depthwise_kernel, filter, from, to);
    });
  }

  Status run_i32(const std::uint32_t* filter, const std::uint32_t* source, std::uint32_t* result) const noexcept {
    const ConvolutionKernels& kernels = convolution_kernels();
    return short_sums(kernels.direct->i32, kernels.strips->i32, kernels.depthwise->i32, filter, source, result);
  }

  Status run_f64(const double* filter, const double* source, double* result) const noexcept {
    const ConvolutionKernels& kernels = convolution_kernels();
    if (algorithm == Algorithm::kLong) return direct(kernels.direct->compensated_f64, filter, source, result);
    return short_sums(kernels.direct->f64, kernels.strips->f64, kernels.depthwise->f64, filter, source, result);
  }

  Status run_f32(const float* filter, const float* source, float* result) const noexcept {
    const ConvolutionKernels& kernels = convolution_kernels();
    if (algorithm == Algorithm::kLong) {
      const LayoutKernels& layout = *kernels.layout;
      return run_wider<double>(layout.widen_float, layout.round_to_float, filter, source, result,
                               [&](const double* wide_filter, const double* wide_source, double* wide_result) {
                                 return direct(kernels.direct->f64, wide_filter, wide_source, wide_result);
                               });
    }
    return short_sums(kernels.direct->f32, kernels.strips->f32, kernels.depthwise->f32, filter, source, result);
  }

  // body(filter, source, result) on arrays widened to Wide, its result rounded once. (A long sum of
  // float16 or bfloat16 goes through two such steps: rounded to float, then to its type.)
  template <typename Wide, typename T, typename Body>
  Status run_wider(void (*widen)(const T*, Wide*, ptrdiff_t), void (*round)(const Wide*, T*, ptrdiff_t),
                   const T* filter, const T* source, T* result, Body body) const noexcept {
    const Scratch wide_filter(bytes<Wide>(problem.filter_elements()));
    const Scratch wide_source(bytes<Wide>(problem.source_elements()));
    const Scratch wide_result(bytes<Wide>(problem.result_elements()));
    if (!wide_filter || !wide_source || !wide_result) return Status::kOutOfMemory;
    convert(widen, filter, wide_filter.as<Wide>(), problem.filter_elements());
    convert(widen, source, wide_source.as<Wide>(), problem.source_elements());
    const Status status = body(wide_filter.as<Wide>(), wide_source.as<Wide>(), wide_result.as<Wide>());
    if (status == Status::kOk) convert(round, wide_result.as<Wide>(), result, problem.result_elements());
    return status;
  }

  Status run_16(void (*widen)(const std::uint16_t*, float*, ptrdiff_t),
                void (*round)(const float*, std::uint16_t*, ptrdiff_t), const void* filter, const void* source,
                void* result) const noexcept {
    return run_wider<float>(widen, round, static_cast<const std::uint16_t*>(filter),
                            static_cast<const std::uint16_t*>(source), static_cast<std::uint16_t*>(result),
                            [&](const float* wide_filter, const float* wide_source, float* wide_result) {
                              return run_f32(wide_filter, wide_source, wide_result);
                            });
  }

  Status run(const void* filter, const void* source, void* result) const noexcept {
    const LayoutKernels& layout = *convolution_kernels().layout;
    switch (sizes.dtype) {
      case DType::kFloat32:
        return run_f32(static_cast<const float*>(filter), static_cast<const float*>(source),
                       static_cast<float*>(result));
      case DType::kFloat64:
        return run_f64(static_cast<const double*>(filter), static_cast<const double*>(source),
                       static_cast<double*>(result));
      case DType::kInt32:
        return run_i32(static_cast<const std::uint32_t*>(filter), static_cast<const std::uint32_t*>(source),
                       static_cast<std::uint32_t*>(result));
      case DType::kFloat16: return run_16(layout.widen_half, layout.round_to_half, filter, source, result);
      case DType::kBFloat16: return run_16(layout.widen_bfloat16, layout.round_to_bfloat16, filter, source, result);
      default: return Status::kBadArgument;
    }
  }
};

Convolution::Convolution(const ConvolutionSizes& sizes) : plan_(new Plan(sizes)) {}

Convolution::~Convolution() { delete plan_; }

Status Convolution::run(const void* filter, const void* source, void* result) const noexcept {
  const FloatMode mode(FloatMode::kKeep);
  return plan_->run(filter, source, result);
}

const ConvolutionSizes& Convolution::sizes() const { return plan_->sizes; }

std::string Convolution::algorithm() const {
  switch (plan_->algorithm) {
    case Algorithm::kStrips: return "strips";
    case Algorithm::kDepthwise: return "depthwise";
    case Algorithm::kLong: return sizes().dtype == DType::kFloat64 ? "compensated" : "wide";
    default: return "direct";
  }
}

}  // namespace gradops
