// Convolution with one source and one result channel per group, of channels-last images.
#pragma once

#include "algorithms/problem.h"

namespace gradops {

inline double depthwise_cost(const Problem& problem) {
  if (problem.terms > 1 || problem.results > 1 || problem.groups == 1) return kNever;
  const double pixels = static_cast<double>(problem.result_height * problem.result_width);
  return static_cast<double>(ceil_div(problem.groups, 16)) * (2.5 * pixels + 1.8 * problem.image_taps);
}

template <typename T>
using RunDepthwise = void (*)(const DepthwiseTask<T>&, const AxisClass& rows, const AxisClass& columns, const Share&);

template <typename T>
Status run_depthwise(const Problem& problem, RunDepthwise<T> kernel, const T* filter, const T* source,
                     T* result) noexcept {
  DepthwiseTask<T> task;
  task.source = source;
  task.filter = filter;
  task.result = result;
  task.channels = problem.groups;
  task.source_steps = {problem.source_height * problem.source_width * task.channels,
                       problem.source_width * task.channels, task.channels};
  task.result_steps = {problem.result_height * problem.result_width * task.channels,
                       problem.result_width * task.channels, task.channels};
  task.batch = problem.batch;
  task.filter_width = problem.filter_width;
  task.chain_taps = problem.chain_terms;
  // Bands of about 4 rows: enough to meet the rows just read again in L2.
  const ptrdiff_t chunks = problem.small ? 1 : ceil_div(problem.batch * problem.result_height, 4);
  for_each(problem, chunks, [&](ptrdiff_t chunk) {
    const Share share = {chunk, chunks, 0, 1};
    for (const AxisClass& rows : problem.rows) {
      for (const AxisClass& columns : problem.columns) kernel(task, rows, columns, share);
    }
  });
  return Status::kOk;
}

}  // namespace gradops
