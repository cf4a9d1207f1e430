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
  ptrdiff_t phases() const { return static_cast<ptrdiff_t>(rows.size() * columns.size()); }
};

// How cells of one axis read the source. Cell q's tap at source position q*step + offset + d finds it
// in line d % step, d / step cells on: the source is stored as lines of equal remainders, so that
// neighbouring cells' taps are neighbours whatever the step.
struct StripAxis {
  StripAxis(const AxisSizes& sizes, bool forward, const std::vector<AxisPhase>& phases);

  ptrdiff_t first, cells;         // that own result positions
  ptrdiff_t step;                 // source positions from one cell to the next
  ptrdiff_t offset;               // least source offset of a tap
  ptrdiff_t reach;                // cells from a cell to its furthest tap
  std::vector<ptrdiff_t> residues;  // d % step of each line that a tap reads, ascending

  ptrdiff_t lines() const { return static_cast<ptrdiff_t>(residues.size()); }
  ptrdiff_t length() const { return cells + reach; }
  ptrdiff_t line_of(ptrdiff_t src_offset) const;
  ptrdiff_t place_of(ptrdiff_t src_offset) const { return (src_offset - offset) / step; }
};

struct StripPlan {
  explicit StripPlan(const Problem& problem);

  StripAxis rows, columns;
  std::vector<TapSet> sets;

 private:
  StripPlan(const Problem& problem, const std::vector<AxisPhase>& row_phases,
            const std::vector<AxisPhase>& column_phases);
};

double strips_cost(const Problem& problem);

// A filter value that is not finite must not meet the padding's zeros: the caller checks.
template <typename T>
Status run_strips(const Problem& problem, const StripPlan& plan, const StripKernel<T>& kernel,
                  const LayoutKernels& layout, bool channels_first, const T* filter, const T* source,
                  T* result) noexcept;

}  // namespace gradops
