// Convolution to few result channels per group: lanes over cells of the stride grid.
#pragma once

#include <vector>

#include "algorithms/problem.h"

namespace gradops {

// Row and column phases that read through the same taps share a set: their channels are computed
// together, as if they were one cell's.
struct TapSet {
  std::vector<AxisPhase> rows, columns;
  ptrdiff_t taps() const { return rows[0].taps * columns[0].taps; }
};

struct StripPlan {
  explicit StripPlan(const Problem& problem);

  std::vector<TapSet> sets;
  ptrdiff_t first_row, cell_rows, first_column, cell_columns;  // cells that own result pixels
  ptrdiff_t row_offset, row_reach;                             // least source offset of a tap; greatest less least
  ptrdiff_t column_offset, column_reach;
};

// Whether strips can do this problem, and are the better choice by its sizes.
bool strips_suit(const Problem& problem);

// A filter value that is not finite must not meet the padding's zeros: the caller checks.
template <typename T>
Status run_strips(const Problem& problem, const StripPlan& plan, const StripKernel<T>& kernel,
                  const LayoutKernels& layout, bool channels_first, const T* filter, const T* source,
                  T* result) noexcept;

}  // namespace gradops
