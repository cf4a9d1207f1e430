#include "algorithms/strips.h"

#include <algorithm>
#include <atomic>

namespace gradops {
namespace {

constexpr ptrdiff_t kMostResults = 8;            // per group; more fill vectors of channels well enough
constexpr ptrdiff_t kBandBytes = 768 << 10;      // planes of one band, in L2
constexpr ptrdiff_t kSumsBytes = 4 * kBandBytes; // and its sums, about
constexpr ptrdiff_t kLeastRows = 8;              // of a band, unless its planes need fewer
constexpr double kSetupNanoseconds = 6000;       // of one call, whatever it computes
constexpr ptrdiff_t kBatchTerms = 64;            // channels of the groups whose planes are made together

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

// Source offsets of the phases' taps.
std::vector<ptrdiff_t> tap_offsets(const std::vector<AxisPhase>& phases) {
  std::vector<ptrdiff_t> offsets;
  for (const AxisPhase& phase : phases) {
    for (ptrdiff_t j = 0; j < phase.taps; ++j) offsets.push_back(phase.src_offset + j * phase.tap_src_step);
  }
  if (offsets.empty()) offsets.push_back(0);
  return offsets;
}

std::vector<AxisPhase> phases_of(const Problem& problem, const AxisSizes& axis) {
  return problem.forward ? forward_phases(axis) : gradient_phases(axis);
}

}  // namespace

StripAxis::StripAxis(const AxisSizes& sizes, bool forward, const std::vector<AxisPhase>& phases)
    : first(forward ? 0 : sizes.pad / sizes.stride),
      cells(forward ? sizes.out : (sizes.in - 1 + sizes.pad) / sizes.stride - first + 1), step(phases[0].src_step) {
  const std::vector<ptrdiff_t> offsets = tap_offsets(phases);
  const auto [least, most] = std::minmax_element(offsets.begin(), offsets.end());
  offset = *least;
  reach = (*most - offset) / step;
  for (const ptrdiff_t at : offsets) residues.push_back((at - offset) % step);
  std::sort(residues.begin(), residues.end());
  residues.erase(std::unique(residues.begin(), residues.end()), residues.end());
}

ptrdiff_t StripAxis::line_of(ptrdiff_t src_offset) const {
  return std::lower_bound(residues.begin(), residues.end(), (src_offset - offset) % step) - residues.begin();
}

StripPlan::StripPlan(const Problem& problem)
    : StripPlan(problem, phases_of(problem, problem.row_sizes), phases_of(problem, problem.column_sizes)) {}

StripPlan::StripPlan(const Problem& problem, const std::vector<AxisPhase>& row_phases,
                     const std::vector<AxisPhase>& column_phases)
    : rows(problem.row_sizes, problem.forward, row_phases),
      columns(problem.column_sizes, problem.forward, column_phases) {
  for (const auto& row_set : group_phases(row_phases)) {
    for (const auto& column_set : group_phases(column_phases)) sets.push_back({row_set, column_set});
  }
}

double strips_cost(const Problem& problem) {
  if (problem.results > kMostResults) return kNever;
  // The gradient's strides far beyond the filter leave phases without taps; the others just skip them.
  if (!problem.forward && (problem.row_sizes.stride > 64 || problem.column_sizes.stride > 64)) return kNever;
  const StripPlan plan(problem);
  const auto product = [](ptrdiff_t a, ptrdiff_t b) { return static_cast<double>(a) * static_cast<double>(b); };
  const double terms = static_cast<double>(problem.terms);
  const double cells = product(plan.rows.cells, plan.columns.length());  // those at the rows' ends are padding
  const double plane =
      product(plan.rows.lines(), plan.rows.length()) * product(plan.columns.lines(), plan.columns.length());
  double group = 500 + 0.7 * terms * plane;
  for (const TapSet& set : plan.sets) {
    const double channels = product(set.phases(), problem.results);
    group += cells * (0.7 * channels + terms * static_cast<double>(set.taps()) * (0.06 + 0.03 * channels));
  }
  return kSetupNanoseconds + static_cast<double>(problem.groups) * group;
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
    pitch_ = plan.columns.length();
    ptrdiff_t most_taps = 1;
    for (const TapSet& set : plan.sets) {
      channels_ += channels_of(set);
      weights_ += channels_of(set) * set.taps() * problem.terms;
      taps_ += set.taps();
      most_taps = std::max(most_taps, set.taps());
    }
    chain_ = std::max<ptrdiff_t>(1, problem.chain_terms / most_taps);
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
  ptrdiff_t channels_of(const TapSet& set) const { return set.phases() * problem_.results; }

  // Bands of cell rows, pieces of terms and batches of groups; none of them changes a bit.
  void plan_bands() {
    const ptrdiff_t lines = plan_.rows.lines() * plan_.columns.lines();
    const ptrdiff_t row_bytes = lines * pitch_ * static_cast<ptrdiff_t>(sizeof(T));
    const ptrdiff_t room = kBandBytes / row_bytes;  // rows of cells in planes
    // A band of few rows reads its halo over and over: rather cut the terms.
    const ptrdiff_t least_rows = std::min(plan_.rows.length(), 4 + 2 * plan_.rows.reach);
    piece_ = std::min(problem_.terms, std::max<ptrdiff_t>(1, room / least_rows / chain_) * chain_);
    group_batch_ =
        piece_ < problem_.terms ? 1 : std::clamp<ptrdiff_t>(kBatchTerms / problem_.terms, 1, problem_.groups);
    batches_ = ceil_div(problem_.groups, group_batch_);
    // Channels of channels-last pixels are neighbours: groups written one by one would go over each
    // pixel again and again.
    sums_groups_ = channels_first_ ? 1 : group_batch_;
    const ptrdiff_t rows = std::max<ptrdiff_t>(1, room / (piece_ * group_batch_) - plan_.rows.reach);
    // Large strides make many sums of few planes.
    const ptrdiff_t sums_bytes =
        sums_groups_ * channels_ * plan_.rows.cells * pitch_ * static_cast<ptrdiff_t>(sizeof(T));
    bands_ = std::max(ceil_div(plan_.rows.cells, rows),
                      std::min(ceil_div(sums_bytes, kSumsBytes), ceil_div(plan_.rows.cells, kLeastRows)));
    if (!problem_.small) {
      const ptrdiff_t wanted = ceil_div(4 * num_threads(), problem_.batch * batches_);
      bands_ = std::max(bands_, std::min(wanted, ceil_div(plan_.rows.cells, kLeastRows)));
    }
    band_rows_ = ceil_div(plan_.rows.cells, bands_);
    part_size_ = off_pages((band_rows_ + plan_.rows.reach) * pitch_ + kStripSlack);
    plane_size_ = off_pages(lines * part_size_);
    result_size_ = off_pages(band_rows_ * pitch_ + kStripSlack);
  }

  // What lies a multiple of a page apart would share its cache sets.
  static ptrdiff_t off_pages(ptrdiff_t elements) {
    const bool shares = elements * static_cast<ptrdiff_t>(sizeof(T)) % 4096 < 64;
    return shares ? elements + 2 * kStripSlack : elements;
  }

  void fill_offsets() {
    ptrdiff_t* to = offsets_;
    for (const TapSet& set : plan_.sets) {
      const AxisPhase& rows = set.rows[0];
      const AxisPhase& columns = set.columns[0];
      for (ptrdiff_t i = 0; i < rows.taps; ++i) {
        for (ptrdiff_t j = 0; j < columns.taps; ++j) {
          const ptrdiff_t row = rows.src_offset + i * rows.tap_src_step;
          const ptrdiff_t column = columns.src_offset + j * columns.tap_src_step;
          *to++ = (plan_.rows.line_of(row) * plan_.columns.lines() + plan_.columns.line_of(column)) * part_size_ +
                  plan_.rows.place_of(row) * pitch_ + plan_.columns.place_of(column);
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

  // [set][block][term][tap][channel of the block]; a set's channels run over result channel, row
  // phase, column phase.
  void pack_filter(ptrdiff_t group) const {
    T* to = packed_ + group * weights_;
    for (const TapSet& set : plan_.sets) {
      const ptrdiff_t set_columns = static_cast<ptrdiff_t>(set.columns.size());
      for_each_block(channels_of(set), [&](ptrdiff_t first, ptrdiff_t count) {
        for (ptrdiff_t k = 0; k < problem_.terms; ++k) {
          for (ptrdiff_t tap = 0; tap < set.taps(); ++tap) {
            for (ptrdiff_t c = first; c < first + count; ++c) {
              const ptrdiff_t phase = c % set.phases();
              const AxisPhase& rows = set.rows[static_cast<std::size_t>(phase / set_columns)];
              const AxisPhase& columns = set.columns[static_cast<std::size_t>(phase % set_columns)];
              const ptrdiff_t row = rows.tap_first + tap / columns.taps * rows.tap_step;
              const ptrdiff_t column = columns.tap_first + tap % columns.taps * columns.tap_step;
              *to++ = filter_[(row * problem_.filter_width + column) * problem_.filter_tap +
                              group * problem_.filter_group + k * problem_.filter_term +
                              c / set.phases() * problem_.filter_result];
            }
          }
        }
      });
    }
  }

  bool run_band(ptrdiff_t image, ptrdiff_t batch, ptrdiff_t band) const {
    const ptrdiff_t first_group = batch * group_batch_;
    const ptrdiff_t groups = std::min(group_batch_, problem_.groups - first_group);
    const ptrdiff_t first_row = plan_.rows.first + plan_.rows.cells * band / bands_;
    const ptrdiff_t rows = plan_.rows.first + plan_.rows.cells * (band + 1) / bands_ - first_row;
    const ptrdiff_t plane_elements = piece_ * groups * plane_size_ + kStripSlack;
    const ptrdiff_t result_elements = sums_groups_ * channels_ * result_size_;
    const Scratch scratch(static_cast<std::size_t>(plane_elements + result_elements) * sizeof(T));
    if (!scratch) return false;
    T* planes = scratch.as<T>();
    T* sums = planes + plane_elements;
    for (ptrdiff_t term = 0; term < problem_.terms; term += piece_) {
      const ptrdiff_t terms = std::min(piece_, problem_.terms - term);
      fill_planes(planes, image, first_group * problem_.terms + term, terms * groups, first_row, rows);
      for (ptrdiff_t group = 0; group < groups; ++group) {
        const ptrdiff_t place = group % sums_groups_;
        add_terms(planes + group * problem_.terms * plane_size_, sums, place, first_group + group, term, terms, rows);
        if (term + terms < problem_.terms || (place + 1 < sums_groups_ && group + 1 < groups)) continue;
        scatter(sums, image, first_group + group - place, place + 1, first_row, rows);
      }
    }
    return true;
  }

  // The source rows of cells first_row and on as zero-padded planes: [channel][row line][column line]
  // [row place][column place].
  void fill_planes(T* planes, ptrdiff_t image, ptrdiff_t channel, ptrdiff_t channels, ptrdiff_t first_row,
                   ptrdiff_t rows) const {
    const ptrdiff_t places = rows + plan_.rows.reach;
    for (const ptrdiff_t row_residue : plan_.rows.residues) {
      for (ptrdiff_t place = 0; place < places; ++place) {
        const ptrdiff_t y = (first_row + place) * plan_.rows.step + plan_.rows.offset + row_residue;
        T* to = planes + place * pitch_;
        for (const ptrdiff_t column_residue : plan_.columns.residues) {
          fill_line(to, image, channel, channels, y, plan_.columns.offset + column_residue);
          to += part_size_;
        }
      }
      for (ptrdiff_t i = 0; i < plan_.columns.lines(); ++i) {
        for (ptrdiff_t c = 0; c < channels; ++c) {
          std::fill_n(planes + c * plane_size_ + places * pitch_, kStripSlack, T(0));
        }
        planes += part_size_;
      }
    }
  }

  // Every channel's source pixels (y, q*step + offset) for the cells q of a row.
  void fill_line(T* to, ptrdiff_t image, ptrdiff_t channel, ptrdiff_t channels, ptrdiff_t y, ptrdiff_t offset) const {
    const ptrdiff_t step = plan_.columns.step;
    const ptrdiff_t origin = plan_.columns.first * step + offset;  // source column of the first
    const bool inside = y >= 0 && y < problem_.source_height;
    const ptrdiff_t left = std::min(pitch_, ceil_div(std::max<ptrdiff_t>(0, -origin), step));
    const ptrdiff_t columns_left = std::max<ptrdiff_t>(0, problem_.source_width - origin);
    const ptrdiff_t end = inside ? std::clamp(ceil_div(columns_left, step), left, pitch_) : left;
    for (ptrdiff_t c = 0; c < channels; ++c) {
      std::fill_n(to + c * plane_size_, left, T(0));
      std::fill(to + c * plane_size_ + end, to + c * plane_size_ + pitch_, T(0));
    }
    if (end == left) return;
    const ptrdiff_t x = origin + left * step;
    if (!channels_first_) {
      transpose(layout_,
                source_ + ((image * problem_.source_height + y) * problem_.source_width + x) *
                              problem_.source_channels + channel,
                step * problem_.source_channels, to + left, plane_size_, end - left, channels);
      return;
    }
    for (ptrdiff_t c = 0; c < channels; ++c) {
      transpose(layout_,
                source_ + ((image * problem_.source_channels + channel + c) * problem_.source_height + y) *
                              problem_.source_width + x,
                step, to + c * plane_size_ + left, ptrdiff_t{0}, end - left, ptrdiff_t{1});
    }
  }

  // Into sums [set][one of sums_groups_][channel][cell].
  void add_terms(const T* planes, T* sums, ptrdiff_t place, ptrdiff_t group, ptrdiff_t term, ptrdiff_t terms,
                 ptrdiff_t rows) const {
    StripTask<T> task;
    task.planes = planes;
    task.plane_size = plane_size_;
    task.result_size = result_size_;
    task.cells = rows * pitch_ - plan_.columns.reach;
    task.terms = terms;
    task.chain_terms = chain_;
    task.chain_taps = problem_.chain_terms;
    task.add = term > 0;
    const T* filter = packed_ + group * weights_;
    task.tap_offsets = offsets_;
    for (const TapSet& set : plan_.sets) {
      task.taps = set.taps();
      T* group_sums = sums + place * channels_of(set) * result_size_;
      if (task.taps == 0) std::fill_n(group_sums, channels_of(set) * result_size_, T(0));
      for_each_block(channels_of(set), [&](ptrdiff_t first, ptrdiff_t count) {
        task.filter = filter + term * task.taps * count;
        task.result = group_sums + first * result_size_;
        task.channels = count;
        if (task.taps > 0) kernel_.run(task);
        filter += problem_.terms * task.taps * count;
      });
      task.tap_offsets += task.taps;
      sums += sums_groups_ * channels_of(set) * result_size_;
    }
  }

  // From sums, as add_terms leaves them, to the result's pixels.
  void scatter(const T* sums, ptrdiff_t image, ptrdiff_t first_group, ptrdiff_t groups, ptrdiff_t first_row,
               ptrdiff_t rows) const {
    // Row by row, so that a pixel's line is in L1 for all of its phases.
    for (ptrdiff_t row = 0; row < rows; ++row) {
      const T* set_sums = sums + row * pitch_;
      for (const TapSet& set : plan_.sets) {
        const T* from = set_sums;
        for (const AxisPhase& row_phase : set.rows) {
          const ptrdiff_t y = (first_row + row) * row_phase.out_step + row_phase.out_offset;
          for (const AxisPhase& column_phase : set.columns) {
            if (y >= 0 && y < problem_.result_height) {
              scatter_row(from, set.phases() * result_size_, image, first_group, groups, y, column_phase);
            }
            from += result_size_;
          }
        }
        set_sums += sums_groups_ * channels_of(set) * result_size_;
      }
    }
  }

  void scatter_row(const T* sums, ptrdiff_t sums_step, ptrdiff_t image, ptrdiff_t first_group, ptrdiff_t groups,
                   ptrdiff_t y, const AxisPhase& phase) const {
    const ptrdiff_t step = phase.out_step;
    ptrdiff_t x = plan_.columns.first * step + phase.out_offset, cells = plan_.columns.cells;
    if (x < 0) x += step, ++sums, --cells;  // the first and the last cell may stick out
    if (x + (cells - 1) * step >= problem_.result_width) --cells;
    const ptrdiff_t channel = first_group * problem_.results, channels = groups * problem_.results;
    if (!channels_first_) {
      T* to = result_ + ((image * problem_.result_height + y) * problem_.result_width + x) * problem_.result_channels;
      transpose(layout_, sums, sums_step, to + channel, step * problem_.result_channels, channels, cells);
      return;
    }
    for (ptrdiff_t c = 0; c < channels; ++c) {
      T* to = result_ + ((image * problem_.result_channels + channel + c) * problem_.result_height + y) *
                            problem_.result_width + x;
      const T* from = sums + c * sums_step;
      if (step == 1) {
        std::copy_n(from, cells, to);
      } else {
        for (ptrdiff_t i = 0; i < cells; ++i) to[i * step] = from[i];
      }
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
  ptrdiff_t pitch_ = 0;        // elements between rows of cells: those of a row and the taps' reach
  ptrdiff_t part_size_ = 0;    // of one row line and column line of a plane
  ptrdiff_t plane_size_ = 0, result_size_ = 0;
  ptrdiff_t channels_ = 0, taps_ = 0;  // of all sets
  ptrdiff_t weights_ = 0;              // packed filter elements of a group
  ptrdiff_t chain_ = 1;  // terms whose products share a chain
  ptrdiff_t piece_ = 0;  // terms whose planes exist at a time, a multiple of chain_ or all
  ptrdiff_t group_batch_ = 0, batches_ = 0;
  ptrdiff_t sums_groups_ = 0;  // groups whose sums are written together
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
template Status run_strips(const Problem&, const StripPlan&, const StripKernel<std::uint32_t>&, const LayoutKernels&,
                           bool, const std::uint32_t*, const std::uint32_t*, std::uint32_t*) noexcept;

}  // namespace gradops
