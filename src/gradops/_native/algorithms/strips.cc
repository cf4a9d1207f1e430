#include "algorithms/strips.h"

#include <algorithm>
#include <atomic>

namespace gradops {
namespace {

constexpr ptrdiff_t kMostResults = 8;            // per group; more fill vectors of channels well enough
constexpr ptrdiff_t kBandBytes = 768 << 10;      // planes of one band, in L2
constexpr ptrdiff_t kBatchTerms = 64;            // channels of the groups whose planes are made together
constexpr double kLeastFlops = 500e3;            // of an image; below, making planes takes the longest

bool same_taps(const AxisPhase& a, const AxisPhase& b) {
  return a.taps == b.taps && (a.taps == 0 || a.src_offset == b.src_offset);
}

std::vector<std::vector<AxisPhase>> group_phases(const std::vector<AxisPhase>& phases) {
  std::vector<std::vector<AxisPhase>> grouped;
  for (const AxisPhase& phase : phases) {
    const auto same = std::find_if(grouped.begin(), grouped.end(),
                                   [&](const auto& other) { return same_taps(other[0], phase); });
    if (same != grouped.end()) {
      same->push_back(phase);
    } else {
      grouped.push_back({phase});
    }
  }
  return grouped;
}

void find_reach(const std::vector<AxisPhase>& phases, ptrdiff_t* offset, ptrdiff_t* reach) {
  ptrdiff_t least = PTRDIFF_MAX, most = PTRDIFF_MIN;
  for (const AxisPhase& phase : phases) {
    if (phase.taps == 0) continue;
    least = std::min(least, phase.src_offset);
    most = std::max(most, phase.src_offset + (phase.taps - 1) * phase.tap_src_step);
  }
  *offset = least <= most ? least : 0;
  *reach = least <= most ? most - least : 0;
}

std::vector<AxisPhase> phases_of(const Problem& problem, const AxisSizes& axis) {
  return problem.forward ? forward_phases(axis) : gradient_phases(axis);
}

void find_cells(const Problem& problem, const AxisSizes& axis, ptrdiff_t* first, ptrdiff_t* count) {
  *first = problem.forward ? 0 : axis.pad / axis.stride;
  *count = problem.forward ? axis.out : (axis.in - 1 + axis.pad) / axis.stride - *first + 1;
}

}  // namespace

StripPlan::StripPlan(const Problem& problem) {
  const std::vector<AxisPhase> row_phases = phases_of(problem, problem.row_sizes);
  const std::vector<AxisPhase> column_phases = phases_of(problem, problem.column_sizes);
  for (const auto& rows : group_phases(row_phases)) {
    for (const auto& columns : group_phases(column_phases)) sets.push_back({rows, columns});
  }
  find_reach(row_phases, &row_offset, &row_reach);
  find_reach(column_phases, &column_offset, &column_reach);
  find_cells(problem, problem.row_sizes, &first_row, &cell_rows);
  find_cells(problem, problem.column_sizes, &first_column, &cell_columns);
}

bool strips_suit(const Problem& problem) {
  if (problem.results > kMostResults || problem.image_flops < kLeastFlops) return false;
  if (problem.forward && (problem.row_sizes.stride > 1 || problem.column_sizes.stride > 1)) return false;
  // Strides far beyond the filter leave phases without taps; the direct kernel just skips them.
  if (problem.row_sizes.stride > 64 || problem.column_sizes.stride > 64) return false;
  const StripPlan plan(problem);
  // Strips walk the padding too, and the direct kernel leaves most lanes of 16 channels empty.
  const double useful = static_cast<double>(plan.cell_columns) / static_cast<double>(plan.cell_columns + plan.column_reach);
  const double rows = static_cast<double>(plan.cell_rows) / static_cast<double>(plan.cell_rows + plan.row_reach);
  return useful * rows * 20.0 > static_cast<double>(problem.results);
}

namespace {

// Everything one call shares among its work items.
template <typename T>
class StripRun {
 public:
  StripRun(const Problem& problem, const StripPlan& plan, const StripKernel<T>& kernel, const LayoutKernels& layout,
           bool channels_first, const T* filter, const T* source, T* result)
      : problem_(problem), plan_(plan), kernel_(kernel), layout_(layout), channels_first_(channels_first),
        filter_(filter), source_(source), result_(result) {
    pitch_ = plan.cell_columns + plan.column_reach;
    ptrdiff_t most_taps = 1;
    for (const TapSet& set : plan.sets) {
      channels_ += channels_of(set);
      weights_ += channels_of(set) * set.taps() * problem.terms;
      taps_ += set.taps();
      most_taps = std::max(most_taps, set.taps());
    }
    chain_ = std::max<ptrdiff_t>(1, kChainTerms / most_taps);
    plan_bands();
  }

  Status run() noexcept {
    const Scratch packed(static_cast<std::size_t>(problem_.groups * weights_) * sizeof(T) +
                         static_cast<std::size_t>(taps_) * sizeof(ptrdiff_t) + kAlignment);
    if (!packed) return Status::kOutOfMemory;
    offsets_ = packed.as<ptrdiff_t>();
    packed_ = reinterpret_cast<T*>(offsets_ + taps_);
    fill_offsets();
    for_each(problem_, problem_.groups, [&](ptrdiff_t group) { pack_filter(group); });
    std::atomic<bool> failed = false;
    for_each(problem_, problem_.batch * batches_ * bands_, [&](ptrdiff_t item) {
      if (!run_band(item / bands_ / batches_, item / bands_ % batches_, item % bands_)) failed = true;
    });
    return failed ? Status::kOutOfMemory : Status::kOk;
  }

 private:
  ptrdiff_t channels_of(const TapSet& set) const {
    return static_cast<ptrdiff_t>(set.rows.size() * set.columns.size()) * problem_.results;
  }

  // Bands of cell rows, pieces of terms and batches of groups; none of them changes a bit.
  void plan_bands() {
    const ptrdiff_t row_bytes = pitch_ * static_cast<ptrdiff_t>(sizeof(T));
    const ptrdiff_t room = kBandBytes / row_bytes;  // plane rows
    // A band of few rows reads its halo over and over: rather cut the terms.
    const ptrdiff_t least_rows = std::min(plan_.cell_rows + plan_.row_reach, 4 + 2 * plan_.row_reach);
    piece_ = std::min(problem_.terms, std::max<ptrdiff_t>(1, room / least_rows / chain_) * chain_);
    group_batch_ = piece_ < problem_.terms ? 1 : std::clamp<ptrdiff_t>(kBatchTerms / problem_.terms, 1, problem_.groups);
    batches_ = ceil_div(problem_.groups, group_batch_);
    const ptrdiff_t rows = std::max<ptrdiff_t>(1, room / (piece_ * group_batch_) - plan_.row_reach);
    bands_ = ceil_div(plan_.cell_rows, rows);
    if (!problem_.small) {
      const ptrdiff_t wanted = ceil_div(4 * num_threads(), problem_.batch * batches_);
      bands_ = std::max(bands_, std::min(wanted, ceil_div(plan_.cell_rows, 8)));
    }
    band_rows_ = ceil_div(plan_.cell_rows, bands_);
    plane_size_ = (band_rows_ + plan_.row_reach) * pitch_ + kStripSlack;
    // Planes a multiple of a page apart would share their cache sets.
    if (plane_size_ * static_cast<ptrdiff_t>(sizeof(T)) % 4096 < 64) plane_size_ += 2 * kStripSlack;
    result_size_ = band_rows_ * pitch_ + kStripSlack;
  }

  void fill_offsets() {
    ptrdiff_t* to = offsets_;
    for (const TapSet& set : plan_.sets) {
      const AxisPhase& rows = set.rows[0];
      const AxisPhase& columns = set.columns[0];
      for (ptrdiff_t i = 0; i < rows.taps; ++i) {
        for (ptrdiff_t j = 0; j < columns.taps; ++j) {
          *to++ = (rows.src_offset + i * rows.tap_src_step - plan_.row_offset) * pitch_ + columns.src_offset +
                  j * columns.tap_src_step - plan_.column_offset;
        }
      }
    }
  }

  // A set's channels in nearly equal blocks that the kernel has room for.
  template <typename Body>
  void for_each_block(ptrdiff_t channels, Body body) const {
    const ptrdiff_t blocks = ceil_div(channels, kernel_.most_channels);
    for (ptrdiff_t block = 0; block < blocks; ++block) {
      const ptrdiff_t first = channels * block / blocks;
      body(first, channels * (block + 1) / blocks - first);
    }
  }

  // [set][block][term][tap][channel of the block]; a set's channels run over row phase, column
  // phase, result channel.
  void pack_filter(ptrdiff_t group) const {
    T* to = packed_ + group * weights_;
    for (const TapSet& set : plan_.sets) {
      const ptrdiff_t set_columns = static_cast<ptrdiff_t>(set.columns.size());
      for_each_block(channels_of(set), [&](ptrdiff_t first, ptrdiff_t count) {
        for (ptrdiff_t k = 0; k < problem_.terms; ++k) {
          for (ptrdiff_t tap = 0; tap < set.taps(); ++tap) {
            for (ptrdiff_t c = first; c < first + count; ++c) {
              const ptrdiff_t phase = c / problem_.results;
              const AxisPhase& rows = set.rows[static_cast<std::size_t>(phase / set_columns)];
              const AxisPhase& columns = set.columns[static_cast<std::size_t>(phase % set_columns)];
              const ptrdiff_t row = rows.tap_first + tap / columns.taps * rows.tap_step;
              const ptrdiff_t column = columns.tap_first + tap % columns.taps * columns.tap_step;
              *to++ = filter_[(row * problem_.filter_width + column) * problem_.filter_tap +
                              group * problem_.filter_group + k * problem_.filter_term +
                              c % problem_.results * problem_.filter_result];
            }
          }
        }
      });
    }
  }

  bool run_band(ptrdiff_t image, ptrdiff_t batch, ptrdiff_t band) const {
    const ptrdiff_t first_group = batch * group_batch_;
    const ptrdiff_t groups = std::min(group_batch_, problem_.groups - first_group);
    const ptrdiff_t first_row = plan_.first_row + plan_.cell_rows * band / bands_;
    const ptrdiff_t rows = plan_.first_row + plan_.cell_rows * (band + 1) / bands_ - first_row;
    const ptrdiff_t plane_elements = piece_ * groups * plane_size_ + kStripSlack;
    const ptrdiff_t result_elements = channels_ * result_size_;
    const Scratch scratch(static_cast<std::size_t>(plane_elements + result_elements) * sizeof(T));
    if (!scratch) return false;
    T* planes = scratch.as<T>();
    T* sums = planes + plane_elements;
    for (ptrdiff_t term = 0; term < problem_.terms; term += piece_) {
      const ptrdiff_t terms = std::min(piece_, problem_.terms - term);
      fill_planes(planes, image, first_group * problem_.terms + term, terms * groups, first_row, rows);
      for (ptrdiff_t group = 0; group < groups; ++group) {
        add_terms(planes + group * problem_.terms * plane_size_, sums, first_group + group, term, terms, rows);
        if (term + terms == problem_.terms) scatter(sums, image, first_group + group, first_row, rows);
      }
    }
    return true;
  }

  // Source rows first_row + row_offset and on as zero-padded planes.
  void fill_planes(T* planes, ptrdiff_t image, ptrdiff_t channel, ptrdiff_t channels, ptrdiff_t first_row,
                   ptrdiff_t rows) const {
    const ptrdiff_t plane_rows = rows + plan_.row_reach;
    const ptrdiff_t origin = plan_.first_column + plan_.column_offset;  // source column at a plane row's begin
    const ptrdiff_t begin = std::clamp<ptrdiff_t>(origin, 0, problem_.source_width);
    const ptrdiff_t end = std::clamp<ptrdiff_t>(origin + pitch_, begin, problem_.source_width);
    const ptrdiff_t left = std::min(begin - origin, pitch_), width = end - begin;
    for (ptrdiff_t row = 0; row < plane_rows; ++row) {
      const ptrdiff_t y = first_row + plan_.row_offset + row;
      T* to = planes + row * pitch_;
      const bool inside = y >= 0 && y < problem_.source_height && width > 0;
      for (ptrdiff_t c = 0; c < channels; ++c) {
        T* line = to + c * plane_size_;
        if (inside) {
          std::fill_n(line, left, T(0));
          std::fill(line + left + width, line + pitch_, T(0));
        } else {
          std::fill_n(line, pitch_, T(0));
        }
      }
      if (!inside) continue;
      if (channels_first_) {
        for (ptrdiff_t c = 0; c < channels; ++c) {
          std::copy_n(source_ + ((image * problem_.source_channels + channel + c) * problem_.source_height + y) *
                                    problem_.source_width + begin,
                      width, to + c * plane_size_ + left);
        }
      } else {
        transpose(layout_,
                  source_ + ((image * problem_.source_height + y) * problem_.source_width + begin) *
                                problem_.source_channels + channel,
                  problem_.source_channels, to + left, plane_size_, width, channels);
      }
    }
    for (ptrdiff_t c = 0; c < channels; ++c) {
      std::fill_n(planes + c * plane_size_ + plane_rows * pitch_, kStripSlack, T(0));
    }
  }

  void add_terms(const T* planes, T* sums, ptrdiff_t group, ptrdiff_t term, ptrdiff_t terms, ptrdiff_t rows) const {
    StripTask<T> task;
    task.planes = planes;
    task.plane_size = plane_size_;
    task.result_size = result_size_;
    task.cells = rows * pitch_ - plan_.column_reach;
    task.terms = terms;
    task.chain_terms = chain_;
    task.add = term > 0;
    const T* filter = packed_ + group * weights_;
    task.tap_offsets = offsets_;
    for (const TapSet& set : plan_.sets) {
      task.taps = set.taps();
      if (task.taps == 0) std::fill_n(sums, channels_of(set) * result_size_, T(0));
      for_each_block(channels_of(set), [&](ptrdiff_t first, ptrdiff_t count) {
        task.filter = filter + term * task.taps * count;
        task.result = sums + first * result_size_;
        task.channels = count;
        if (task.taps > 0) kernel_.run(task);
        filter += problem_.terms * task.taps * count;
      });
      task.tap_offsets += task.taps;
      sums += channels_of(set) * result_size_;
    }
  }

  // From [channel][cell] to the result's pixels.
  void scatter(const T* sums, ptrdiff_t image, ptrdiff_t group, ptrdiff_t first_row, ptrdiff_t rows) const {
    for (const TapSet& set : plan_.sets) {
      for (const AxisPhase& row_phase : set.rows) {
        for (const AxisPhase& column_phase : set.columns) {
          for (ptrdiff_t row = 0; row < rows; ++row) {
            const ptrdiff_t y = (first_row + row) * row_phase.out_step + row_phase.out_offset;
            if (y < 0 || y >= problem_.result_height) continue;
            scatter_row(sums + row * pitch_, image, group, y, column_phase);
          }
          sums += problem_.results * result_size_;
        }
      }
    }
  }

  void scatter_row(const T* sums, ptrdiff_t image, ptrdiff_t group, ptrdiff_t y, const AxisPhase& phase) const {
    const ptrdiff_t step = phase.out_step;
    ptrdiff_t x = plan_.first_column * step + phase.out_offset, cells = plan_.cell_columns;
    if (x < 0) x += step, ++sums, --cells;  // the first and the last cell may stick out
    if (x + (cells - 1) * step >= problem_.result_width) --cells;
    const ptrdiff_t channel = group * problem_.results;
    if (channels_first_) {
      for (ptrdiff_t c = 0; c < problem_.results; ++c) {
        const T* from = sums + c * result_size_;
        T* to = result_ + ((image * problem_.result_channels + channel + c) * problem_.result_height + y) *
                              problem_.result_width + x;
        if (step == 1) {
          std::copy_n(from, cells, to);
        } else {
          for (ptrdiff_t i = 0; i < cells; ++i) to[i * step] = from[i];
        }
      }
      return;
    }
    T* to = result_ + ((image * problem_.result_height + y) * problem_.result_width + x) * problem_.result_channels +
            channel;
    const ptrdiff_t pixel = step * problem_.result_channels;
    if (problem_.results >= 4) {
      transpose(layout_, sums, result_size_, to, pixel, problem_.results, cells);
      return;
    }
    for (ptrdiff_t c = 0; c < problem_.results; ++c) {
      for (ptrdiff_t i = 0; i < cells; ++i) to[i * pixel + c] = sums[c * result_size_ + i];
    }
  }

  const Problem& problem_;
  const StripPlan& plan_;
  const StripKernel<T>& kernel_;
  const LayoutKernels& layout_;
  const bool channels_first_;
  const T* filter_;
  const T* source_;
  T* result_;
  ptrdiff_t* offsets_ = nullptr;  // of every set's taps in a plane
  T* packed_ = nullptr;
  ptrdiff_t pitch_ = 0;        // elements between plane rows: the cells of a row and the taps' reach
  ptrdiff_t plane_size_ = 0, result_size_ = 0;
  ptrdiff_t channels_ = 0, taps_ = 0;  // of all sets
  ptrdiff_t weights_ = 0;              // packed filter elements of a group
  ptrdiff_t chain_ = 1;  // terms whose products share a chain
  ptrdiff_t piece_ = 0;  // terms whose planes exist at a time, a multiple of chain_ or all
  ptrdiff_t group_batch_ = 0, batches_ = 0;
  ptrdiff_t bands_ = 0, band_rows_ = 0;
};

}  // namespace

template <typename T>
Status run_strips(const Problem& problem, const StripPlan& plan, const StripKernel<T>& kernel,
                  const LayoutKernels& layout, bool channels_first, const T* filter, const T* source,
                  T* result) noexcept {
  return StripRun<T>(problem, plan, kernel, layout, channels_first, filter, source, result).run();
}

template Status run_strips(const Problem&, const StripPlan&, const StripKernel<float>&, const LayoutKernels&, bool,
                           const float*, const float*, float*) noexcept;
template Status run_strips(const Problem&, const StripPlan&, const StripKernel<double>&, const LayoutKernels&, bool,
                           const double*, const double*, double*) noexcept;

}  // namespace gradops
