// Every convolution against a plain loop, and bit for bit among levels, thread counts and batches.
//
// Values are small integers times a power of two in most rounds, so that every sum is exact and any
// wrong product shows; then random reals within a tolerance. Exits with 1 after a mismatch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "convolution.h"
#include "dispatch.h"
#include "parallel.h"

using namespace gradops;

namespace {

std::mt19937 generator(20240611);
int failures = 0;

ptrdiff_t draw(ptrdiff_t low, ptrdiff_t high) { return std::uniform_int_distribution<ptrdiff_t>(low, high)(generator); }

std::string describe(const ConvolutionSizes& s) {
  char text[400];
  std::snprintf(text, sizeof text,
                "%s dtype %d %s batch %td in %tdx%tdx%td filter %tdx%td out %tdx%tdx%td groups %td stride %td,%td "
                "dilation %td,%td pad %td,%td",
                s.direction == Direction::kForward ? "forward" : "gradient", static_cast<int>(s.dtype),
                s.channels_first ? "NCHW" : "NHWC", s.batch, s.in_height, s.in_width, s.in_channels, s.filter_height,
                s.filter_width, s.out_height, s.out_width, s.out_channels, s.groups, s.stride_height, s.stride_width,
                s.dilation_height, s.dilation_width, s.pad_top, s.pad_left);
  return text;
}

void fail(const ConvolutionSizes& sizes, const std::string& what) {
  if (++failures <= 20) std::printf("FAILED %s\n  %s\n", what.c_str(), describe(sizes).c_str());
}

// ---- element types, converted one value at a time by arithmetic that shares nothing with the kernels ----

double half_value(std::uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

double bfloat16_value(std::uint16_t b) {
  const std::uint32_t bits = static_cast<std::uint32_t>(b) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// The nearest of the 65536 values, ties to even, by search.
std::uint16_t nearest(double x, double (*value)(std::uint16_t), std::uint16_t infinity) {
  if (std::isnan(x)) return static_cast<std::uint16_t>(infinity | 1);
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double magnitude = std::fabs(x);
  std::uint16_t low = 0, high = infinity;  // value(low) <= magnitude
  while (high - low > 1) {
    const std::uint16_t middle = static_cast<std::uint16_t>((low + high) / 2);
    (value(middle) <= magnitude ? low : high) = middle;
  }
  if (magnitude == INFINITY) return sign | infinity;
  const double below = value(low);
  const double unit = below - value(static_cast<std::uint16_t>(low - 1));
  const double above = high == infinity ? below + unit : value(high);
  const double middle = (below + above) / 2;
  const bool up = magnitude > middle || (magnitude == middle && (low & 1));
  return static_cast<std::uint16_t>(sign | (up ? high : low));
}

double get(DType type, const std::vector<char>& array, ptrdiff_t i) {
  const char* at = array.data() + i * static_cast<ptrdiff_t>(item_size(type));
  float f;
  double d;
  std::int32_t n;
  std::uint16_t h;
  switch (type) {
    case DType::kFloat32: std::memcpy(&f, at, 4); return f;
    case DType::kFloat64: std::memcpy(&d, at, 8); return d;
    case DType::kInt32: std::memcpy(&n, at, 4); return n;
    case DType::kFloat16: std::memcpy(&h, at, 2); return half_value(h);
    default: std::memcpy(&h, at, 2); return bfloat16_value(h);
  }
}

void put(DType type, std::vector<char>& array, ptrdiff_t i, double x) {
  char* at = array.data() + i * static_cast<ptrdiff_t>(item_size(type));
  const float f = static_cast<float>(x);
  const std::uint32_t n = static_cast<std::uint32_t>(static_cast<std::int64_t>(std::isfinite(x) ? x : 0));
  std::uint16_t h;
  switch (type) {
    case DType::kFloat32: std::memcpy(at, &f, 4); return;
    case DType::kFloat64: std::memcpy(at, &x, 8); return;
    case DType::kInt32: std::memcpy(at, &n, 4); return;
    case DType::kFloat16: h = nearest(x, half_value, 0x7c00); break;
    default: h = nearest(x, bfloat16_value, 0x7f80);
  }
  std::memcpy(at, &h, 2);
}

// ---- the definition ----

struct Shape {
  ptrdiff_t height, width, channels;
  bool first;
  ptrdiff_t size() const { return height * width * channels; }
  ptrdiff_t at(ptrdiff_t n, ptrdiff_t y, ptrdiff_t x, ptrdiff_t c) const {
    return first ? ((n * channels + c) * height + y) * width + x : ((n * height + y) * width + x) * channels + c;
  }
};

Shape in_shape(const ConvolutionSizes& s) { return {s.in_height, s.in_width, s.in_channels, s.channels_first}; }
Shape out_shape(const ConvolutionSizes& s) { return {s.out_height, s.out_width, s.out_channels, s.channels_first}; }
Shape source_shape(const ConvolutionSizes& s) {
  return s.direction == Direction::kForward ? in_shape(s) : out_shape(s);
}
Shape result_shape(const ConvolutionSizes& s) {
  return s.direction == Direction::kForward ? out_shape(s) : in_shape(s);
}
ptrdiff_t filter_size(const ConvolutionSizes& s) {
  return s.filter_height * s.filter_width * (s.in_channels / s.groups) * s.out_channels;
}

// Sums, and returns the largest sum of magnitudes. Extended precision, so that float64 can be judged.
double define(const ConvolutionSizes& s, const std::vector<char>& filter, const std::vector<char>& source,
              std::vector<long double>& sums) {
  const Shape in = in_shape(s), out = out_shape(s);
  const bool forward = s.direction == Direction::kForward;
  const ptrdiff_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  sums.assign(static_cast<std::size_t>(s.batch * result_shape(s).size()), 0);
  std::vector<double> magnitudes(sums.size());
  std::vector<long double> lost(sums.size());  // Kahan's correction, for the long sums
  for (ptrdiff_t n = 0; n < s.batch; ++n)
    for (ptrdiff_t i = 0; i < s.out_height; ++i)
      for (ptrdiff_t j = 0; j < s.out_width; ++j)
        for (ptrdiff_t a = 0; a < s.filter_height; ++a)
          for (ptrdiff_t b = 0; b < s.filter_width; ++b) {
            const ptrdiff_t y = i * s.stride_height + a * s.dilation_height - s.pad_top;
            const ptrdiff_t x = j * s.stride_width + b * s.dilation_width - s.pad_left;
            if (y < 0 || y >= s.in_height || x < 0 || x >= s.in_width) continue;
            for (ptrdiff_t o = 0; o < s.out_channels; ++o)
              for (ptrdiff_t c = 0; c < group_in; ++c) {
                const ptrdiff_t in_at = in.at(n, y, x, o / group_out * group_in + c), out_at = out.at(n, i, j, o);
                const double weight =
                    get(s.dtype, filter, ((a * s.filter_width + b) * group_in + c) * s.out_channels + o);
                const long double product = static_cast<long double>(weight) * get(s.dtype, source, forward ? in_at : out_at);
                const std::size_t to = static_cast<std::size_t>(forward ? out_at : in_at);
                const long double corrected = product - lost[to], next = sums[to] + corrected;
                lost[to] = std::isfinite(next) ? (next - sums[to]) - corrected : 0;
                sums[to] = next;
                if (std::isfinite(product)) magnitudes[to] += std::fabs(static_cast<double>(product));
              }
          }
  double scale = 0;
  for (const double magnitude : magnitudes) scale = std::max(scale, magnitude);
  return scale;
}

std::vector<char> run(const ConvolutionSizes& s, const std::vector<char>& filter, const std::vector<char>& source) {
  std::vector<char> result(static_cast<std::size_t>(s.batch * result_shape(s).size()) * item_size(s.dtype), '\x7f');
  if (Convolution(s).run(filter.data(), source.data(), result.data()) != Status::kOk) fail(s, "status");
  return result;
}

// Within the tolerance classes that TensorFlow's results set, or equal to the rounded sum.
void compare(const ConvolutionSizes& s, const std::vector<char>& result, const std::vector<long double>& sums,
             double scale, bool exact) {
  std::vector<char> one(8);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const double got = get(s.dtype, result, static_cast<ptrdiff_t>(i));
    double want = static_cast<double>(sums[i]), tolerance = 0;
    if (s.dtype == DType::kInt32) want = static_cast<std::int32_t>(static_cast<std::int64_t>(want));
    if (s.dtype == DType::kFloat16 || s.dtype == DType::kBFloat16) {
      const bool half = s.dtype == DType::kFloat16;
      if (!exact) tolerance = std::fabs(want) * (half ? 0x1p-11 : 0x1p-8) + scale * 0x1p-22 + 0x1p-25;
      put(s.dtype, one, 0, want);
      want = exact ? get(s.dtype, one, 0) : want;
    }
    if (!exact && s.dtype == DType::kFloat32) tolerance = scale * 0x1p-22;
    if (!exact && s.dtype == DType::kFloat64) tolerance = scale * 0x1p-51;
    if (std::isnan(want) ? std::isnan(got) : (got == want || std::fabs(got - want) <= tolerance)) continue;
    char text[200];
    std::snprintf(text, sizeof text, "%s: element %zu is %.9g, not %.9g (tolerance %.3g)",
                  Convolution(s).algorithm().c_str(), i, got, want, tolerance);
    return fail(s, text);
  }
}

// NaN may differ in sign and payload: which operand's survives is the processor's choice.
bool same_bits(DType type, const std::vector<char>& a, const std::vector<char>& b) {
  if (a == b) return true;
  const ptrdiff_t size = static_cast<ptrdiff_t>(item_size(type)), count = static_cast<ptrdiff_t>(a.size()) / size;
  for (ptrdiff_t i = 0; i < count; ++i) {
    if (std::memcmp(a.data() + i * size, b.data() + i * size, static_cast<std::size_t>(size)) == 0) continue;
    if (!std::isnan(get(type, a, i)) || !std::isnan(get(type, b, i))) return false;
  }
  return a.size() == b.size();
}

// One case: against the definition, then every level and thread count, then images one by one.
void check(const ConvolutionSizes& s, const std::vector<char>& filter, const std::vector<char>& source, bool exact) {
  std::vector<long double> sums;
  const double scale = define(s, filter, source, sums);
  const std::vector<char> result = run(s, filter, source);
  compare(s, result, sums, scale, exact);
  const std::string best = active_level();
  for (const char* const* level = available_levels(); *level; ++level) {
    set_level(*level);
    for (int threads = 1; threads <= 3; ++threads) {
      set_num_threads(threads);
      if (!same_bits(s.dtype, run(s, filter, source), result)) {
        fail(s, Convolution(s).algorithm() + ": other bits at level " + *level + " with " + std::to_string(threads) + " threads");
      }
    }
  }
  set_level(best.c_str());
  set_num_threads(0);
  if (s.batch == 1) return;
  ConvolutionSizes single = s;
  single.batch = 1;
  const std::size_t source_bytes = source.size() / static_cast<std::size_t>(s.batch);
  std::vector<char> together;
  for (ptrdiff_t n = 0; n < s.batch; ++n) {
    const auto first = source.begin() + n * static_cast<ptrdiff_t>(source_bytes);
    const std::vector<char> image = run(single, filter, {first, first + static_cast<ptrdiff_t>(source_bytes)});
    together.insert(together.end(), image.begin(), image.end());
  }
  if (!same_bits(s.dtype, together, result)) fail(s, Convolution(s).algorithm() + ": other bits for images one by one");
}

void fill(DType type, std::vector<char>& array, ptrdiff_t count, bool exact) {
  array.resize(static_cast<std::size_t>(count) * item_size(type));
  std::normal_distribution<double> normal;
  for (ptrdiff_t i = 0; i < count; ++i) {
    put(type, array, i, exact || type == DType::kInt32 ? static_cast<double>(draw(-3, 3)) : normal(generator));
  }
}

// Sets out_height and out_width; false if the window does not fit.
bool finish(ConvolutionSizes& s, ptrdiff_t pad_bottom, ptrdiff_t pad_right) {
  const ptrdiff_t height = s.in_height + s.pad_top + pad_bottom - ((s.filter_height - 1) * s.dilation_height + 1);
  const ptrdiff_t width = s.in_width + s.pad_left + pad_right - ((s.filter_width - 1) * s.dilation_width + 1);
  if (height < 0 || width < 0) return false;
  s.out_height = height / s.stride_height + 1;
  s.out_width = width / s.stride_width + 1;
  return true;
}

ConvolutionSizes draw_sizes() {
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kInt32};
  for (;;) {
    ConvolutionSizes s{};
    s.direction = draw(0, 2) ? Direction::kInputGradient : Direction::kForward;
    s.dtype = draw(0, 1) ? DType::kFloat32 : kTypes[draw(0, 4)];
    s.channels_first = draw(0, 2) == 0;
    s.batch = draw(1, 3);
    s.in_height = draw(1, 14), s.in_width = draw(1, 40);
    s.filter_height = draw(1, 5), s.filter_width = draw(1, 5);
    s.groups = draw(0, 2) ? 1 : draw(1, 20);
    const ptrdiff_t few = draw(0, 1) ? 40 : 5;
    s.in_channels = s.groups * draw(1, s.groups > 1 ? 3 : few);
    s.out_channels = s.groups * draw(1, s.groups > 1 ? 4 : draw(0, 1) ? 90 : 5);
    s.stride_height = draw(1, 4), s.stride_width = draw(1, 4);
    s.dilation_height = draw(0, 1) ? 1 : draw(1, 3), s.dilation_width = draw(0, 1) ? 1 : draw(1, 3);
    s.pad_top = draw(0, 1) ? 0 : draw(0, 6), s.pad_left = draw(0, 1) ? 0 : draw(0, 6);
    if (finish(s, draw(0, 6), draw(0, 6))) return s;
  }
}

void random_values(const ConvolutionSizes& s) {
  const bool exact = draw(0, 2) != 0;
  std::vector<char> filter, source;
  fill(s.dtype, filter, filter_size(s), exact);
  fill(s.dtype, source, s.batch * source_shape(s).size(), exact);
  // NaN and Inf must reach exactly the pixels whose taps meet them.
  if (s.dtype != DType::kInt32 && draw(0, 5) == 0) {
    put(s.dtype, filter, draw(0, filter_size(s) - 1), draw(0, 1) ? INFINITY : NAN);
  }
  if (s.dtype != DType::kInt32 && draw(0, 5) == 0) {
    put(s.dtype, source, draw(0, source_shape(s).size() - 1), draw(0, 1) ? -INFINITY : NAN);
  }
  check(s, filter, source, exact);
}

void random_cases(int count) {
  for (int i = 0; i < count; ++i) random_values(draw_sizes());
}

// Few channels, whole or per group, at any stride: what strips and depthwise share between them.
void few_channels() {
  struct Case {
    ptrdiff_t height, width, filter, in_channels, out_channels, groups;
    ptrdiff_t stride_height, stride_width, dilation, pad, batch;
    const char* forward;  // the algorithms, channels last
    const char* gradient;
  };
  const Case cases[] = {
      {110, 128, 8, 3, 3, 3, 2, 2, 1, 3, 2, "strips", "strips"},
      {64, 70, 7, 1, 1, 1, 2, 3, 1, 3, 3, "strips", "strips"},
      {41, 67, 3, 5, 5, 5, 3, 2, 1, 1, 2, "depthwise", "depthwise"},
      {30, 44, 3, 13, 13, 13, 2, 2, 1, 1, 2, "depthwise", "depthwise"},
      {20, 44, 3, 70, 70, 70, 2, 2, 1, 1, 1, "depthwise", "depthwise"},
      {57, 59, 3, 64, 3, 1, 2, 2, 1, 1, 1, "strips", "direct"},
      {40, 50, 3, 300, 1, 1, 2, 2, 1, 1, 1, "strips", "direct"},
      {110, 131, 2, 6, 4, 2, 3, 4, 1, 0, 2, "strips", "strips"},  // some source columns meet no tap
      {48, 52, 4, 2, 2, 1, 2, 2, 3, 4, 2, "strips", "strips"},  // dilation and stride without a common factor
      {48, 52, 4, 2, 2, 1, 4, 2, 2, 3, 2, "strips", "strips"},  // and with one
      {28, 60, 5, 80, 40, 40, 1, 2, 1, 2, 2, "strips", "strips"},  // more groups than a batch of planes
  };
  for (const Case& c : cases) {
    for (const Direction direction : {Direction::kForward, Direction::kInputGradient}) {
      for (const bool channels_first : {false, true}) {
        ConvolutionSizes s{direction, draw(0, 2) ? DType::kFloat32 : draw(0, 1) ? DType::kFloat64 : DType::kInt32,
                           channels_first, c.batch, c.height, c.width, c.in_channels, c.filter, c.filter, 0, 0,
                           c.out_channels, c.groups, c.stride_height, c.stride_width, c.dilation, c.dilation, c.pad,
                           c.pad};
        finish(s, c.pad, c.pad);
        const std::string algorithm = direction == Direction::kForward ? c.forward : c.gradient;
        if (!channels_first && Convolution(s).algorithm() != algorithm) {
          fail(s, Convolution(s).algorithm() + " instead of " + algorithm);
        }
        random_values(s);
      }
    }
  }
}

// Whole layers of networks, larger than any block.
void layers() {
  const ptrdiff_t table[][9] = {
      // in height, width, channels; filter; out channels; stride, pad, groups, batch
      {14, 14, 80, 3, 330, 1, 1, 1, 2}, {30, 30, 3, 7, 64, 2, 3, 1, 2},   {12, 12, 160, 1, 700, 2, 0, 1, 1},
      {28, 28, 64, 3, 64, 1, 1, 8, 1},  {33, 61, 48, 3, 48, 1, 1, 48, 2}, {40, 40, 5, 8, 300, 4, 2, 1, 1},
      {9, 9, 2, 9, 400, 1, 4, 1, 1},    {20, 20, 4, 17, 3, 1, 8, 1, 1}};
  for (const auto& row : table) {
    for (const Direction direction : {Direction::kForward, Direction::kInputGradient}) {
      for (const bool channels_first : {false, true}) {
        ConvolutionSizes s{direction, DType::kFloat32, channels_first, row[8], row[0], row[1], row[2], row[3], row[3],
                           0, 0, row[4], row[7], row[5], row[5], 1, 1, row[6], row[6]};
        finish(s, row[6], row[6]);
        std::vector<char> filter, source;
        fill(s.dtype, filter, filter_size(s), false);
        fill(s.dtype, source, s.batch * source_shape(s).size(), false);
        check(s, filter, source, false);
      }
    }
  }
}

// Sums of very many equal terms, whose roundings all go the same way.
void long_sums() {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    for (const ptrdiff_t terms : {50000, 500000}) {
      ConvolutionSizes s{Direction::kInputGradient, dtype, false, 1, 1, 2, 2, 1, 1, 1, 2, terms, 1, 1, 1, 1, 1, 0, 0};
      std::vector<char> filter(static_cast<std::size_t>(filter_size(s)) * item_size(dtype)), source = filter;
      for (ptrdiff_t i = 0; i < 2 * terms; ++i) put(dtype, filter, i, 0.1), put(dtype, source, i, 0.1);
      check(s, filter, source, false);
    }
  }
}

// Sizes whose products would overflow int, and strides far past the image.
void extreme_attributes() {
  const ptrdiff_t big = ptrdiff_t{1} << 31;
  for (const Direction direction : {Direction::kForward, Direction::kInputGradient}) {
    // Filter of 2 with dilation 2^31 - 1: only the taps inside count.
    ConvolutionSizes dilated{direction, DType::kFloat32, false, 1, 5, 5, 3, 2, 2, 4, 4, 2, 1, 1, 1, big - 1, big - 1, 0, 0};
    dilated.out_height = dilated.out_width = 5;  // pads of big - 1 at the end
    ConvolutionSizes strided{direction, DType::kFloat32, false, 2, 6, 5, 3, 2, 3, 1, 1, 20, 1, big - 1, big - 1, 1, 1, 0, 0};
    ConvolutionSizes padded{direction, DType::kFloat32, false, 1, 4, 4, 2, 1, 1, 2, 2, 3, 1, big / 2, big / 2, 1, 1, big / 2, big / 2};
    for (const ConvolutionSizes& s : {dilated, strided, padded}) {
      std::vector<char> filter, source;
      fill(s.dtype, filter, filter_size(s), true);
      fill(s.dtype, source, s.batch * source_shape(s).size(), true);
      check(s, filter, source, true);
    }
  }
}

// Every float16 bit pattern through a 1x1 filter of 1, and roundings of products.
void half_conversions() {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    ConvolutionSizes s{Direction::kForward, dtype, false, 1, 256, 256, 1, 1, 1, 256, 256, 1, 1, 1, 1, 1, 1, 0, 0};
    std::vector<char> source(2 * 65536), filter(2);
    for (int i = 0; i < 65536; ++i) {
      const std::uint16_t bits = static_cast<std::uint16_t>(i);
      std::memcpy(source.data() + 2 * i, &bits, 2);
    }
    for (const double weight : {1.0, 1.5, 0.0107421875, 300.0}) {
      put(dtype, filter, 0, weight);
      check(s, filter, source, true);
    }
  }
}

}  // namespace

int main(int count, char** arguments) {
  random_cases(count > 1 ? std::atoi(arguments[1]) : 400);
  few_channels();
  layers();
  long_sums();
  extreme_attributes();
  half_conversions();
  std::printf(failures ? "%d failures\n" : "convolution: all right\n", failures);
  return failures ? 1 : 0;
}
