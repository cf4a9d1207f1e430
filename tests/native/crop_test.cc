// Tests of the crops against plain loops written from the definition, for every level and several
// thread counts, bit for bit. Prints what failed.
#include "crop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "dispatch.h"
#include "parallel.h"

namespace {

using gradops::CropSizes;
using gradops::DType;
using gradops::Method;
using gradops::Status;
using std::ptrdiff_t;
using std::size_t;

int failures = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("FAILED: %s\n", what);
  ++failures;
}

// Equal bits, or both NaN.
template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != a[i] && b[i] != b[i]) continue;
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return false;
  }
  return a.size() == b.size();
}

// ---- the definition ----

struct Position {
  bool inside;
  float at;
};

Position position(float start, float end, ptrdiff_t size, ptrdiff_t crop_size, ptrdiff_t i) {
  const float last = static_cast<float>(size - 1);
  float at;
  if (crop_size > 1) {
    const float scale = (end - start) * last / static_cast<float>(crop_size - 1);
    at = start * last + static_cast<float>(i) * scale;
  } else {
    at = static_cast<float>(0.5 * static_cast<double>(start + end) * static_cast<double>(last));
  }
  return {at >= 0 && at <= last, at};
}

// Calls visit(box, row, column, y, x) for every sample, in TensorFlow's order.
template <typename Visit>
void for_each_sample(const CropSizes& s, const std::vector<float>& boxes, Visit visit) {
  for (ptrdiff_t box = 0; box < s.num_boxes; ++box) {
    const float* edges = boxes.data() + 4 * box;
    for (ptrdiff_t row = 0; row < s.crop_height; ++row) {
      const Position y = position(edges[0], edges[2], s.height, s.crop_height, row);
      for (ptrdiff_t column = 0; column < s.crop_width; ++column) {
        visit(box, row, column, y, position(edges[1], edges[3], s.width, s.crop_width, column));
      }
    }
  }
}

ptrdiff_t pixel(const CropSizes& s, ptrdiff_t image, float y, float x) {
  return ((image * s.height + static_cast<ptrdiff_t>(y)) * s.width + static_cast<ptrdiff_t>(x)) * s.depth;
}

template <typename T>
std::vector<T> expected_gradient(const CropSizes& s, const std::vector<float>& grads, const std::vector<float>& boxes,
                                 const std::vector<std::int32_t>& box_ind) {
  std::vector<T> image(static_cast<size_t>(s.batch * s.height * s.width * s.depth));
  for_each_sample(s, boxes, [&](ptrdiff_t box, ptrdiff_t row, ptrdiff_t column, Position y, Position x) {
    if (!y.inside || !x.inside) return;
    const ptrdiff_t of = box_ind[static_cast<size_t>(box)];
    const float* g = grads.data() + ((box * s.crop_height + row) * s.crop_width + column) * s.depth;
    if (s.method == Method::kNearest) {
      T* to = image.data() + pixel(s, of, std::round(y.at), std::round(x.at));
      for (ptrdiff_t d = 0; d < s.depth; ++d) to[d] += static_cast<T>(g[d]);
      return;
    }
    const float top = std::floor(y.at), bottom = std::ceil(y.at), left = std::floor(x.at), right = std::ceil(x.at);
    const float fy = y.at - top, fx = x.at - left;
    for (ptrdiff_t d = 0; d < s.depth; ++d) {
      const float to_top = (1 - fy) * g[d], to_bottom = fy * g[d];
      image[static_cast<size_t>(pixel(s, of, top, left) + d)] += static_cast<T>((1 - fx) * to_top);
      image[static_cast<size_t>(pixel(s, of, top, right) + d)] += static_cast<T>(fx * to_top);
      image[static_cast<size_t>(pixel(s, of, bottom, left) + d)] += static_cast<T>((1 - fx) * to_bottom);
      image[static_cast<size_t>(pixel(s, of, bottom, right) + d)] += static_cast<T>(fx * to_bottom);
    }
  });
  return image;
}

template <typename T>
std::vector<float> expected_crops(const CropSizes& s, const std::vector<T>& image, const std::vector<float>& boxes,
                                  const std::vector<std::int32_t>& box_ind, float extrapolation) {
  std::vector<float> crops(static_cast<size_t>(s.num_boxes * s.crop_height * s.crop_width * s.depth), extrapolation);
  for_each_sample(s, boxes, [&](ptrdiff_t box, ptrdiff_t row, ptrdiff_t column, Position y, Position x) {
    if (!y.inside || !x.inside) return;
    const ptrdiff_t of = box_ind[static_cast<size_t>(box)];
    float* to = crops.data() + ((box * s.crop_height + row) * s.crop_width + column) * s.depth;
    const auto value = [&](float row_at, float column_at, ptrdiff_t d) {
      return static_cast<float>(image[static_cast<size_t>(pixel(s, of, row_at, column_at) + d)]);
    };
    for (ptrdiff_t d = 0; d < s.depth; ++d) {
      if (s.method == Method::kNearest) {
        to[d] = value(std::round(y.at), std::round(x.at), d);
        continue;
      }
      const float top_row = std::floor(y.at), bottom_row = std::ceil(y.at);
      const float left = std::floor(x.at), right = std::ceil(x.at);
      const float fy = y.at - top_row, fx = x.at - left;
      const float tl = value(top_row, left, d), bl = value(bottom_row, left, d);
      const float top = tl + (value(top_row, right, d) - tl) * fx;
      const float bottom = bl + (value(bottom_row, right, d) - bl) * fx;
      to[d] = top + (bottom - top) * fy;
    }
  });
  return crops;
}

// ---- random cases ----

std::mt19937 random_bits(7);

template <typename T>
T pick(std::initializer_list<T> choices) {
  return choices.begin()[random_bits() % choices.size()];
}
float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(random_bits); }

struct Case {
  CropSizes sizes;
  std::vector<float> grads, boxes;
  std::vector<std::int32_t> box_ind;
};

Case random_case() {
  Case c;
  CropSizes& s = c.sizes;
  s.method = pick({Method::kBilinear, Method::kBilinear, Method::kNearest});
  s.batch = pick<ptrdiff_t>({1, 2, 3});
  s.height = pick<ptrdiff_t>({1, 2, 3, 8, 25});
  s.width = pick<ptrdiff_t>({1, 2, 3, 8, 25});
  s.depth = pick<ptrdiff_t>({1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 31, 32, 33, 64, 70});
  s.num_boxes = pick<ptrdiff_t>({0, 1, 2, 9});
  s.crop_height = pick<ptrdiff_t>({1, 2, 3, 7, 14});
  s.crop_width = pick<ptrdiff_t>({1, 2, 3, 7, 14, 270});
  c.grads.resize(static_cast<size_t>(s.num_boxes * s.crop_height * s.crop_width * s.depth));
  for (float& g : c.grads) g = uniform(-1, 1);
  if (random_bits() % 4 == 0) {
    for (float& g : c.grads) {
      if (random_bits() % 50 == 0) g = pick({INFINITY, -INFINITY, NAN});
    }
  }
  const int kind = static_cast<int>(random_bits() % 3);
  for (ptrdiff_t i = 0; i < 4 * s.num_boxes; ++i) {
    c.boxes.push_back(kind == 0   ? static_cast<float>(random_bits() % 13) / 8 - 0.25f  // on the grid, often
                      : kind == 1 ? uniform(-0.3f, 1.3f)
                                  : uniform(0.4f, 0.6f));  // crops finer than the image
  }
  for (ptrdiff_t i = 0; i < s.num_boxes; ++i) {
    c.box_ind.push_back(static_cast<std::int32_t>(random_bits() % static_cast<unsigned>(s.batch)));
  }
  return c;
}

template <typename Body>
void for_each_setting(Body body) {
  for (const char* const* level = gradops::available_levels(); *level; ++level) {
    gradops::set_level(*level);
    for (int threads : {1, 3}) {
      gradops::set_num_threads(threads);
      body();
    }
  }
}

template <typename T>
void check_gradient(const Case& c, DType type) {
  const std::vector<T> want = expected_gradient<T>(c.sizes, c.grads, c.boxes, c.box_ind);
  for_each_setting([&] {
    std::vector<T> image(want.size(), T(99));
    const Status status = gradops::crop_and_resize_grad_image(c.sizes, type, c.grads.data(), c.boxes.data(),
                                                              c.box_ind.data(), image.data());
    check(status == Status::kOk && same(image, want), "the gradient is the definition's");
  });
}

template <typename T>
void check_crops(const Case& c, DType type) {
  std::vector<T> image(static_cast<size_t>(c.sizes.batch * c.sizes.height * c.sizes.width * c.sizes.depth));
  for (T& value : image) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(static_cast<std::uint64_t>(random_bits()) << 32 | random_bits());
    } else {
      value = static_cast<T>(uniform(-1, 1));
    }
  }
  const float extrapolation = uniform(-1, 1);
  const std::vector<float> want = expected_crops(c.sizes, image, c.boxes, c.box_ind, extrapolation);
  for_each_setting([&] {
    std::vector<float> crops(want.size(), 99.0f);
    const Status status = gradops::crop_and_resize(c.sizes, type, image.data(), c.boxes.data(), c.box_ind.data(),
                                                   extrapolation, crops.data());
    check(status == Status::kOk && same(crops, want), "the crops are the definition's");
  });
}

void random_cases_match_the_definition() {
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case();
    check_gradient<float>(c, DType::kFloat32);
    check_gradient<double>(c, DType::kFloat64);
    check_crops<float>(c, DType::kFloat32);
    switch (i % 7) {
      case 0: check_crops<double>(c, DType::kFloat64); break;
      case 1: check_crops<std::int32_t>(c, DType::kInt32); break;
      case 2: check_crops<std::uint8_t>(c, DType::kUInt8); break;
      case 3: check_crops<std::int8_t>(c, DType::kInt8); break;
      case 4: check_crops<std::uint16_t>(c, DType::kUInt16); break;
      case 5: check_crops<std::int16_t>(c, DType::kInt16); break;
      case 6: check_crops<std::int64_t>(c, DType::kInt64); break;
    }
  }
}

// ---- float16 ----

void float16_gradients_round_once_to_even() {
  // One pixel, one box of one sample on it for each addend.
  struct { float a, b; std::uint16_t bits; } cases[] = {
      {2048.0f, 1.0f, 0x6800}, {2048.0f, 3.0f, 0x6802}, {1.0f, 0x1p-11f, 0x3c00}, {1.0f, 0x1.8p-10f, 0x3c02},
      {65504.0f, 15.0f, 0x7bff}, {65504.0f, 16.0f, 0x7c00}, {-65504.0f, -16.0f, 0xfc00}, {0x1p-24f, 0.0f, 0x0001},
      {0x1p-25f, 0.0f, 0x0000}, {0x1.8p-25f, 0.0f, 0x0001}, {0x1.ffcp-15f, 0.0f, 0x0400}, {-0x1p-24f, 0.0f, 0x8001},
      {INFINITY, 0.0f, 0x7c00},
  };
  for (const auto& c : cases) {
    const CropSizes sizes{Method::kNearest, 1, 1, 1, 1, 2, 1, 1};
    const float grads[2] = {c.a, c.b}, boxes[8] = {};
    const std::int32_t box_ind[2] = {};
    for_each_setting([&] {
      std::uint16_t image = 99;
      gradops::crop_and_resize_grad_image(sizes, DType::kFloat16, grads, boxes, box_ind, &image);
      check(image == c.bits, "a float16 sum is rounded once");
    });
  }
}

void float16_images_widen_exactly() {
  std::vector<std::uint16_t> image(1 << 16);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint16_t>(i);
  const CropSizes sizes{Method::kNearest, 1, 1, 1, 1 << 16, 1, 1, 1};
  const float boxes[4] = {};
  const std::int32_t box_ind[1] = {};
  for_each_setting([&] {
    std::vector<float> crops(image.size());
    gradops::crop_and_resize(sizes, DType::kFloat16, image.data(), boxes, box_ind, 0, crops.data());
    bool right = true;
    for (size_t i = 0; i < image.size(); ++i) {
      const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
      if (exponent == 31 && mantissa) {
        right = right && std::isnan(crops[i]);
        continue;
      }
      float value = exponent == 31  ? INFINITY
                    : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                    : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
      if (i >> 15) value = -value;
      right = right && std::memcmp(&value, &crops[i], 4) == 0;
    }
    check(right, "every float16 widens exactly");
  });
}

// ---- single facts of TensorFlow's ----

float gradient_at(const CropSizes& sizes, std::vector<float> boxes, std::vector<float> grads, size_t at) {
  std::vector<float> image(static_cast<size_t>(sizes.batch * sizes.height * sizes.width * sizes.depth), 99.0f);
  std::vector<std::int32_t> box_ind(static_cast<size_t>(sizes.num_boxes));
  gradops::crop_and_resize_grad_image(sizes, DType::kFloat32, grads.data(), boxes.data(), box_ind.data(), image.data());
  return image[at];
}

void subnormals_are_zero() {
  const CropSizes nearest{Method::kNearest, 1, 3, 1, 1, 1, 2, 1};
  for_each_setting([&] {
    check(gradient_at(nearest, {-1e-45f, 0, 1, 0}, {1, 2}, 0) == 1, "a box that starts at -1e-45 starts at 0");
    check(gradient_at(nearest, {-1.2e-38f, 0, 1, 0}, {1, 2}, 0) == 0, "a box that starts at -1.2e-38 is outside");
    check(gradient_at(nearest, {0, 0, 1, 0}, {1e-39f, 2}, 0) == 0, "a subnormal gradient counts as 0");
    volatile float tiny = 1e-39f;
    check(tiny * 1.0f != 0, "the caller keeps its subnormals");
  });
}

void nothing_outside_is_touched() {
  const CropSizes one{Method::kBilinear, 1, 3, 3, 1, 1, 2, 2};
  for_each_setting([&] {
    for (const float edge : {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e30f}) {
      for (size_t i = 0; i < 9; ++i) {
        check(gradient_at(one, {edge, 0, -edge, 1}, {1, 2, 3, 4}, i) == 0, "a wild row adds nothing");
        check(gradient_at(one, {0, edge, 1, -edge}, {1, 2, 3, 4}, i) == 0, "a wild column adds nothing");
      }
    }
    // TensorFlow writes past the end here: float(16777219) is 16777220.
    const CropSizes tall{Method::kNearest, 1, 16777220, 1, 1, 1, 1, 1};
    check(gradient_at(tall, {1, 0, 1, 0}, {1}, 16777219) == 0, "a sample past the end is dropped");
    // The last sample lands at 3.0000002, so pixel 3 gets 3 and not 4.
    const CropSizes rounded{Method::kBilinear, 1, 4, 1, 1, 1, 22, 1};
    check(gradient_at(rounded, {0, 0, 1, 0}, std::vector<float>(22, 1.0f), 3) < 3.5f, "a rounded coordinate is outside");
  });
}

void empty_calls_do_nothing() {
  for_each_setting([&] {
    for (int zero = 0; zero < 7; ++zero) {
      ptrdiff_t n[7] = {2, 3, 3, 2, 2, 2, 2};
      n[zero] = 0;
      const CropSizes s{Method::kBilinear, n[0], n[1], n[2], n[3], n[4], n[5], n[6]};
      std::vector<float> image(36, 99.0f), grads(16, 1.0f), boxes(8, 0.5f);
      const std::int32_t box_ind[2] = {0, 0};
      const size_t size = static_cast<size_t>(n[0] * n[1] * n[2] * n[3]);
      if (size == 0) continue;  // a box then has no image, which the caller must refuse
      check(gradops::crop_and_resize_grad_image(s, DType::kFloat32, grads.data(), boxes.data(), box_ind, image.data()) ==
                Status::kOk, "an empty gradient is taken");
      check(std::all_of(image.begin(), image.begin() + static_cast<ptrdiff_t>(size), [](float v) { return v == 0; }) &&
                (size == 36 || image[size] == 99), "and gives zeros, no more");
      check(gradops::crop_and_resize(s, DType::kFloat32, image.data(), boxes.data(), box_ind, 0, grads.data()) ==
                Status::kOk && grads[0] == 1, "empty crops are taken");
    }
  });
}

void impossible_sizes_are_refused() {
  const ptrdiff_t huge = ptrdiff_t{1} << 40;
  const CropSizes s{Method::kBilinear, huge, huge, 1, 1, 1, 1, 1};
  float value = 0;
  const float boxes[4] = {};
  const std::int32_t box_ind[1] = {};
  check(gradops::crop_and_resize_grad_image(s, DType::kFloat32, &value, boxes, box_ind, &value) == Status::kBadArgument,
        "an impossible image");
  check(gradops::crop_and_resize_grad_image({Method::kBilinear, 1, 1, 1, 1, 1, 1, 1}, DType::kInt32, &value, boxes,
                                            box_ind, &value) == Status::kBadArgument, "a gradient of integers");
}

}  // namespace

int main() {
  random_cases_match_the_definition();
  float16_gradients_round_once_to_even();
  float16_images_widen_exactly();
  subnormals_are_zero();
  nothing_outside_is_touched();
  empty_calls_do_nothing();
  impossible_sizes_are_refused();
  std::printf(failures ? "%d checks failed\n" : "all checks passed\n", failures);
  return failures != 0;
}
