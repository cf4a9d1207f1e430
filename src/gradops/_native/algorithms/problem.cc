#include "algorithms/problem.h"

#include <algorithm>

namespace gradops {
namespace {

constexpr double kSmallFlops = 200e3;  // below, waking a thread costs more than it saves

ptrdiff_t most_taps(const std::vector<AxisClass>& classes) {
  ptrdiff_t most = 0;
  for (const AxisClass& c : classes) most = std::max(most, c.taps);
  return most;
}

}  // namespace

Problem::Problem(const ConvolutionSizes& s)
    : batch(s.batch), groups(s.groups), filter_height(s.filter_height), filter_width(s.filter_width),
      forward(s.direction == Direction::kForward),
      row_sizes{s.in_height, s.filter_height, s.out_height, s.stride_height, s.dilation_height, s.pad_top},
      column_sizes{s.in_width, s.filter_width, s.out_width, s.stride_width, s.dilation_width, s.pad_left} {
  const ptrdiff_t group_in = s.in_channels / s.groups, group_out = s.out_channels / s.groups;
  filter_tap = group_in * s.out_channels;
  filter_group = group_out;
  if (forward) {
    source_height = s.in_height, source_width = s.in_width, source_channels = s.in_channels;
    result_height = s.out_height, result_width = s.out_width, result_channels = s.out_channels;
    terms = group_in, results = group_out;
    filter_term = s.out_channels, filter_result = 1;
    rows = forward_classes(row_sizes), columns = forward_classes(column_sizes);
  } else {
    source_height = s.out_height, source_width = s.out_width, source_channels = s.out_channels;
    result_height = s.in_height, result_width = s.in_width, result_channels = s.in_channels;
    terms = group_out, results = group_in;
    filter_term = 1, filter_result = s.out_channels;
    rows = gradient_classes(row_sizes), columns = gradient_classes(column_sizes);
  }
  most_terms = most_taps(rows) * most_taps(columns) * terms;
  chain_terms = longest_chain(most_terms);
  image_taps = static_cast<double>(filter_height * filter_width) * static_cast<double>(s.out_height) *
               static_cast<double>(s.out_width);
  const double flops = 2.0 * static_cast<double>(s.batch * filter_tap) * image_taps;
  small = flops + static_cast<double>(result_elements()) < kSmallFlops;
}

}  // namespace gradops
