// Bindings only: the extension module gradops._core. Arrays come in checked by Python (ops/); what
// can be checked cheaply is checked again, since a wrong size here would be a wild write.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cxxabi.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "convolution.h"
#include "crop.h"
#include "dispatch.h"
#include "memory.h"
#include "parallel.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace gradops {
namespace {

using ReadOnly = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Writable = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::c_contig, nb::device::cpu>;
using Indices = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void raise_unless_ok(Status status) {
  if (status == Status::kOutOfMemory) throw std::bad_alloc();
  if (status != Status::kOk) throw std::invalid_argument("arguments do not fit each other");
}

// Runs work() without the GIL. A thread that wants the GIL back while the interpreter shuts down is
// ended by Python before 3.14, by unwinding its stack, which would abort the process in the first
// function that must not throw: such a thread, a daemon, sleeps on instead until the process is gone.
template <typename Work>
Status without_gil(Work work) {
  PyThreadState* state = PyEval_SaveThread();
  const Status status = work();
#if defined(__GLIBCXX__)
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  PyEval_RestoreThread(state);
#endif
  return status;
}

void require(bool condition, const char* what) {
  if (!condition) throw std::invalid_argument(what);
}

DType dtype_named(const std::string& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float64") return DType::kFloat64;
  if (name == "float16") return DType::kFloat16;
  if (name == "bfloat16") return DType::kBFloat16;
  if (name == "int32") return DType::kInt32;
  throw std::invalid_argument("unknown element type " + name);
}

DType dtype_of(const nb::dlpack::dtype& type) {
  if (type == nb::dtype<float>()) return DType::kFloat32;
  if (type == nb::dtype<double>()) return DType::kFloat64;
  if (type == nb::dtype<std::int32_t>()) return DType::kInt32;
  if (type == nb::dtype<std::uint8_t>()) return DType::kUInt8;
  if (type == nb::dtype<std::int8_t>()) return DType::kInt8;
  if (type == nb::dtype<std::uint16_t>()) return DType::kUInt16;
  if (type == nb::dtype<std::int16_t>()) return DType::kInt16;
  if (type == nb::dtype<std::int64_t>()) return DType::kInt64;
  if (type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) && type.bits == 16)
    return DType::kFloat16;
  throw std::invalid_argument("unknown element type");
}

Method method_named(const std::string& name) {
  return name == "nearest" ? Method::kNearest : Method::kBilinear;
}

void run_convolution(const Convolution& plan, const ReadOnly& filter, const ReadOnly& source,
                     const Writable& result) {
  const ConvolutionSizes& s = plan.sizes();
  const std::size_t item = item_size(s.dtype);
  const auto bytes = [item](ptrdiff_t a, ptrdiff_t b, ptrdiff_t c, ptrdiff_t d) {
    return static_cast<std::size_t>(a * b * c * d) * item;
  };
  const std::size_t input = bytes(s.batch, s.in_height, s.in_width, s.in_channels);
  const std::size_t output = bytes(s.batch, s.out_height, s.out_width, s.out_channels);
  const bool forward = s.direction == Direction::kForward;
  require(filter.nbytes() == bytes(s.filter_height, s.filter_width, s.in_channels / s.groups, s.out_channels) &&
              source.nbytes() == (forward ? input : output) && result.nbytes() == (forward ? output : input),
          "arrays do not have the sizes of the plan");
  raise_unless_ok(without_gil([&] { return plan.run(filter.data(), source.data(), result.data()); }));
}

CropSizes crop_sizes(const std::string& method, const nb::ndarray<>& image, const nb::ndarray<>& crops,
                     const Floats& boxes, const Indices& box_ind) {
  require(image.ndim() == 4 && crops.ndim() == 4 && image.shape(3) == crops.shape(3), "image and crops do not fit");
  require(boxes.ndim() == 2 && boxes.shape(1) == 4 && boxes.shape(0) == crops.shape(0) &&
              box_ind.shape(0) == crops.shape(0),
          "boxes and crops do not fit");
  const auto size = [](const nb::ndarray<>& a, std::size_t i) { return static_cast<ptrdiff_t>(a.shape(i)); };
  return {method_named(method), size(image, 0), size(image, 1), size(image, 2), size(image, 3),
          size(crops, 0),       size(crops, 1), size(crops, 2)};
}

void bind_crop_and_resize(const std::string& method, const ReadOnly& image, const Floats& boxes,
                          const Indices& box_ind, double extrapolation_value, const Writable& crops) {
  const CropSizes sizes = crop_sizes(method, nb::ndarray<>(image), nb::ndarray<>(crops), boxes, box_ind);
  require(crops.dtype() == nb::dtype<float>(), "crops are float32");
  const DType type = dtype_of(image.dtype());
  raise_unless_ok(without_gil([&] {
    return crop_and_resize(sizes, type, image.data(), boxes.data(), box_ind.data(),
                           static_cast<float>(extrapolation_value), static_cast<float*>(crops.data()));
  }));
}

void bind_crop_and_resize_grad_image(const std::string& method, const Floats& grads, const Floats& boxes,
                                     const Indices& box_ind, const Writable& image) {
  const CropSizes sizes = crop_sizes(method, nb::ndarray<>(image), nb::ndarray<>(grads), boxes, box_ind);
  const DType type = dtype_of(image.dtype());
  raise_unless_ok(without_gil([&] {
    return crop_and_resize_grad_image(sizes, type, grads.data(), boxes.data(), box_ind.data(), image.data());
  }));
}

using Bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

Bytes allocate_bytes(std::size_t size) {
  void* block = allocate(size ? size : 1);
  if (!block) throw std::bad_alloc();
  nb::capsule owner(block, [](void* p) noexcept { release(p); });
  return Bytes(block, {size}, owner);
}

std::vector<std::string> level_names() {
  std::vector<std::string> names;
  for (const char* const* name = available_levels(); *name; ++name) names.emplace_back(*name);
  return names;
}

}  // namespace
}  // namespace gradops

NB_MODULE(_core, m) {
  using namespace gradops;
  // Plans live in Python's caches until the interpreter is gone: nanobind would call that a leak.
  nb::set_leak_warnings(false);
  m.doc() = "The loops of gradops. Private: everything here trusts that Python has checked its arguments.";

  nb::class_<Convolution>(m, "Convolution", "One convolution of fixed sizes; see native/convolution.h.")
      .def(
          "__init__",
          [](Convolution* self, const std::string& direction, const std::string& dtype, bool channels_first,
             ptrdiff_t batch, ptrdiff_t in_height, ptrdiff_t in_width, ptrdiff_t in_channels,
             ptrdiff_t filter_height, ptrdiff_t filter_width, ptrdiff_t out_height, ptrdiff_t out_width,
             ptrdiff_t out_channels, ptrdiff_t groups, ptrdiff_t stride_height, ptrdiff_t stride_width,
             ptrdiff_t dilation_height, ptrdiff_t dilation_width, ptrdiff_t pad_top, ptrdiff_t pad_left) {
            new (self) Convolution(ConvolutionSizes{
                direction == "forward" ? Direction::kForward : Direction::kInputGradient, dtype_named(dtype),
                channels_first, batch, in_height, in_width, in_channels, filter_height, filter_width, out_height,
                out_width, out_channels, groups, stride_height, stride_width, dilation_height, dilation_width,
                pad_top, pad_left});
          },
          "direction"_a, "dtype"_a, "channels_first"_a, "batch"_a, "in_height"_a, "in_width"_a, "in_channels"_a,
          "filter_height"_a, "filter_width"_a, "out_height"_a, "out_width"_a, "out_channels"_a, "groups"_a,
          "stride_height"_a, "stride_width"_a, "dilation_height"_a, "dilation_width"_a, "pad_top"_a, "pad_left"_a)
      .def("run", &run_convolution, "filter"_a.noconvert(), "source"_a.noconvert(), "result"_a.noconvert())
      .def_prop_ro("algorithm", &Convolution::algorithm);

  m.def("crop_and_resize", &bind_crop_and_resize, "method"_a, "image"_a.noconvert(), "boxes"_a.noconvert(),
        "box_ind"_a.noconvert(), "extrapolation_value"_a, "crops"_a.noconvert());
  m.def("crop_and_resize_grad_image", &bind_crop_and_resize_grad_image, "method"_a, "grads"_a.noconvert(),
        "boxes"_a.noconvert(), "box_ind"_a.noconvert(), "image"_a.noconvert());

  m.def("allocate", &allocate_bytes, "size"_a, "A new 1-D uint8 array, 64-byte aligned, contents undefined.");
  m.def("empty_cache", &empty_cache);
  m.def("cache_limit", &cache_limit);
  m.def("set_cache_limit", &set_cache_limit, "size"_a);

  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads, "count"_a);
  m.def("active_level", &active_level);
  m.def("available_levels", &level_names);
  m.def("set_level", [](const std::string& name) { return set_level(name.c_str()); }, "name"_a);
}
