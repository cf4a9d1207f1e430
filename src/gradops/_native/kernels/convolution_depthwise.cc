// Depthwise convolution: one source channel for each result channel, lanes over channels.
//
// Loop order, outside in: result rows of a class, tiles of kPixels columns, vectors of channels,
// chains, taps. Per tap the filter's vector is loaded once, in place, and each pixel loads its source
// vector for one multiply-add. The last vector of channels overlaps the one before it rather than
// be a partial one: the sums that both form are the same.
//
// Traffic: each source vector is loaded once per tap it serves, from L1 but for the first time.
#include "convolution.h"
#include "simd.h"

namespace gradops::GRADOPS_LEVEL {
namespace {

constexpr int kPixels = 8;

template <typename T>
struct Run {  // pixels of one row, all of one class
  const T* source;
  T* result;
  ptrdiff_t source_column, result_column;
};

template <typename T, int kCount, bool kWhole>
[[gnu::always_inline]] inline void add_pixels(const DepthwiseTask<T>& task, const AxisClass& rows,
                                              const AxisClass& columns, const Run<T>& run, ptrdiff_t channel) {
  const ptrdiff_t lanes = task.channels - channel;
  const auto read = [&](const T* p) { return kWhole ? load(p) : load_part(p, lanes); };
  const ptrdiff_t taps = rows.taps * columns.taps;
  const ptrdiff_t source_row = rows.tap_src_step * task.source_steps.row;
  const ptrdiff_t source_column = columns.tap_src_step * task.source_steps.column;
  Vec<T> totals[kCount] = {};
  ptrdiff_t row = 0, column = 0;
  for (ptrdiff_t first = 0; first < taps; first += task.chain_taps) {
    const ptrdiff_t end = first + task.chain_taps < taps ? first + task.chain_taps : taps;
    Vec<T> sums[kCount] = {};
    for (ptrdiff_t tap = first; tap < end; ++tap) {
      const ptrdiff_t index = (rows.tap_first + row * rows.tap_step) * task.filter_width + columns.tap_first +
                              column * columns.tap_step;
      const Vec<T> weight = read(task.filter + index * task.channels + channel);
      const T* source = run.source + row * source_row + column * source_column + channel;
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i) sums[i] = fma(read(source + i * run.source_column), weight, sums[i]);
      if (++column == columns.taps) {
        column = 0;
        ++row;
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) totals[i] += sums[i];
  }
#pragma GCC unroll 8
  for (int i = 0; i < kCount; ++i) {
    T* to = run.result + i * run.result_column + channel;
    if constexpr (kWhole) {
      store(to, totals[i]);
    } else {
      store_part(to, totals[i], lanes);
    }
  }
}

template <typename T, int kCount>
void add_tile(const DepthwiseTask<T>& task, const AxisClass& rows, const AxisClass& columns, const Run<T>& run) {
  const ptrdiff_t last = task.channels - kLanes<T>;
  if (last < 0) return add_pixels<T, kCount, false>(task, rows, columns, run, 0);
  for (ptrdiff_t channel = 0; channel < last; channel += kLanes<T>) {
    add_pixels<T, kCount, true>(task, rows, columns, run, channel);
  }
  add_pixels<T, kCount, true>(task, rows, columns, run, last);
}

template <typename T>
void run_depthwise(const DepthwiseTask<T>& task, const AxisClass& rows, const AxisClass& columns,
                   const Share& share) {
  const ptrdiff_t lines = task.batch * rows.count;
  const ptrdiff_t end = lines * (share.pixel_part + 1) / share.pixel_parts;
  for (ptrdiff_t line = lines * share.pixel_part / share.pixel_parts; line < end; ++line) {
    const ptrdiff_t image = line / rows.count, row = line % rows.count;
    Run<T> run;
    run.source_column = columns.src_step * task.source_steps.column;
    run.result_column = columns.out_step * task.result_steps.column;
    run.source = task.source + image * task.source_steps.image +
                 (rows.src_first + row * rows.src_step) * task.source_steps.row +
                 columns.src_first * task.source_steps.column;
    run.result = task.result + image * task.result_steps.image +
                 (rows.out_first + row * rows.out_step) * task.result_steps.row +
                 columns.out_first * task.result_steps.column;
    ptrdiff_t left = columns.count;
    for (; left >= kPixels; left -= kPixels) {
      add_tile<T, kPixels>(task, rows, columns, run);
      run.source += kPixels * run.source_column;
      run.result += kPixels * run.result_column;
    }
    for (; left > 0; --left) {
      add_tile<T, 1>(task, rows, columns, run);
      run.source += run.source_column;
      run.result += run.result_column;
    }
  }
}

}  // namespace

extern const DepthwiseKernels depthwise_kernels;
const DepthwiseKernels depthwise_kernels = {run_depthwise<float>, run_depthwise<double>,
                                            run_depthwise<std::uint32_t>};

}  // namespace gradops::GRADOPS_LEVEL
