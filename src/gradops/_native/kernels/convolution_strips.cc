// Convolution to few result channels: lanes over cells, a strip of a row in registers.
//
// The source comes as zero-padded planes, one per term (source channel), in which every tap is a
// constant offset, so a flat line of cells can be walked across the ends of rows.
// Loop order, outside in: strips of `vectors` vectors of cells, chains, terms, taps. Per tap the
// strip's vectors are loaded once (unaligned), each channel's weight is broadcast, and
// vectors*channels multiply-adds follow, all sums in registers.
//
// Traffic per strip: terms*taps*(vectors*lanes + channels) elements read; the strip's few plane rows
// stay in L1 over the taps, so L2 gives each plane element once per row of taps at most.
#include "convolution.h"
#include "simd.h"

namespace gradops::GRADOPS_LEVEL {
namespace {

constexpr int kMostChannels = kRegisters == 32 ? 12 : 6;

// Vectors per strip for a number of channels: sums, one weight per channel and one strip vector fit
// the registers (or the strip's vectors and one weight, where there are more channels).
constexpr int strip_vectors(int channels) {
  int vectors = 8;
  while (vectors > 1 && channels * vectors + (channels < vectors ? channels : vectors) + 1 > kRegisters) --vectors;
  return vectors;
}

template <typename T, int kChannels, int kVectors>
[[gnu::noinline]] void add_strip(const StripTask<T>& task, ptrdiff_t cell) {
  const ptrdiff_t chain_taps = task.taps < task.chain_taps ? task.taps : task.chain_taps;
  bool add = task.add;
  for (ptrdiff_t first = 0; first < task.terms; first += task.chain_terms) {
    const ptrdiff_t end = first + task.chain_terms < task.terms ? first + task.chain_terms : task.terms;
    for (ptrdiff_t first_tap = 0; first_tap < task.taps; first_tap += chain_taps) {
      const ptrdiff_t end_tap = first_tap + chain_taps < task.taps ? first_tap + chain_taps : task.taps;
      Vec<T> sums[kChannels][kVectors] = {};
      for (ptrdiff_t k = first; k < end; ++k) {
        const T* plane = task.planes + k * task.plane_size + cell;
        const T* filter = task.filter + k * task.taps * kChannels;
        for (ptrdiff_t tap = first_tap; tap < end_tap; ++tap) {
          const T* strip = plane + task.tap_offsets[tap];
          const T* weights = filter + tap * kChannels;
          if constexpr (kChannels <= kVectors) {
            Vec<T> weight[kChannels];
#pragma GCC unroll 12
            for (int c = 0; c < kChannels; ++c) weight[c] = broadcast(weights[c]);
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) {
              const Vec<T> x = loaded<T>(load(strip + v * kLanes<T>));
#pragma GCC unroll 12
              for (int c = 0; c < kChannels; ++c) sums[c][v] = fma(x, weight[c], sums[c][v]);
            }
          } else {
            Vec<T> x[kVectors];
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v) x[v] = loaded<T>(load(strip + v * kLanes<T>));
#pragma GCC unroll 12
            for (int c = 0; c < kChannels; ++c) {
              const Vec<T> weight = broadcast(weights[c]);
#pragma GCC unroll 8
              for (int v = 0; v < kVectors; ++v) sums[c][v] = fma(x[v], weight, sums[c][v]);
            }
          }
        }
      }
#pragma GCC unroll 12
      for (int c = 0; c < kChannels; ++c) {
        T* to = task.result + c * task.result_size + cell;
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          store(to + v * kLanes<T>, add ? load(to + v * kLanes<T>) + sums[c][v] : sums[c][v]);
        }
      }
      add = true;
    }
  }
}

template <typename T, int kChannels, int kVectors>
[[gnu::always_inline]] inline void add_short_strip(const StripTask<T>& task, ptrdiff_t cell, ptrdiff_t vectors) {
  if constexpr (kVectors > 1) {
    if (vectors < kVectors) return add_short_strip<T, kChannels, kVectors - 1>(task, cell, vectors);
  }
  add_strip<T, kChannels, kVectors>(task, cell);
}

// Strips of nearly equal numbers of vectors.
template <typename T, int kChannels = kMostChannels>
void run_strips(const StripTask<T>& task) {
  if constexpr (kChannels > 1) {
    if (task.channels < kChannels) return run_strips<T, kChannels - 1>(task);
  }
  constexpr int kVectors = strip_vectors(kChannels);
  const ptrdiff_t vectors = (task.cells + kLanes<T> - 1) / kLanes<T>;
  const ptrdiff_t strips = (vectors + kVectors - 1) / kVectors;
  for (ptrdiff_t i = 0; i < strips; ++i) {
    const ptrdiff_t first = vectors * i / strips;
    add_short_strip<T, kChannels, kVectors>(task, first * kLanes<T>, vectors * (i + 1) / strips - first);
  }
}

}  // namespace

extern const StripKernels strip_kernels;
const StripKernels strip_kernels = {{kLanes<float>, kMostChannels, run_strips<float>},
                                    {kLanes<double>, kMostChannels, run_strips<double>},
                                    {kLanes<std::uint32_t>, kMostChannels, run_strips<std::uint32_t>}};

}  // namespace gradops::GRADOPS_LEVEL
