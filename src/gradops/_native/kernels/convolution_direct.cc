// Direct convolution: lanes over result channels, a tile of pixels in registers.
//
// Loop order, outside in: chains of at most chain_terms products, tiles of a class's pixels (these
// two the other way round where the filter is small), taps (rows, then columns, source position
// ascending), terms (source channels). A tile is up to
// kTilePixels[vectors] pixels x `vectors` vectors of channels, all of it in registers: per term the
// vectors of the packed filter are loaded once, each pixel's source element is broadcast, and
// vectors*pixels multiply-adds follow. Pixels of all images are numbered together, and tiles run
// over the ends of rows and images, so small maps fill their tiles.
//
// Traffic per tile and chain: chain*(vectors*lanes + pixels) elements read, the filter from L1 (a
// chain's part of it is 32 KB at most and serves all tiles), the source from L2; each chain after the
// first reads and writes the tile's result once more, from L2. The caller keeps a tap part of the
// packed filter and its share of the pixels in L2.
#include "convolution.h"
#include "simd.h"

namespace gradops::GRADOPS_LEVEL {
namespace {

// Pixels per tile for 1, 2, ... vectors: the sums, the filter's vectors and one broadcast fit the
// vector registers, and the pixels' pointers mostly fit the others (of 24 and 14 pixels, which the
// vector registers would allow, each broadcast first had to fetch its pointer: no faster).
// Counts between are rounded up to a multiple of kPixelStep, to bound the code.
constexpr int kMostVectors = kRegisters == 32 ? 4 : 2;
constexpr int kTilePixels[5] = {0, 12, kRegisters == 32 ? 10 : 6, 8, 6};
constexpr int kPixelStep[5] = {0, 4, 2, 1, 1};
constexpr int kMostPixels = 24;
// A filter below this streams from L2 to every tile as fast as it is used; the tile's source and
// result then stay in L1 over its chains. 1x1 layers with 256 and 512 terms gain a fifth.
constexpr ptrdiff_t kNearFilterBytes = 192 << 10;
constexpr ptrdiff_t kEndlessChain = PTRDIFF_MAX;

// a >= 0, b >= 1, without overflow
constexpr ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return a / b + (a % b != 0); }

// The chains of one result element: whole taps when several fit into a chain, else each tap's terms
// in equal pieces.
struct Chains {
  ptrdiff_t taps, terms, pieces, count;
  Chains(ptrdiff_t all_taps, ptrdiff_t all_terms, ptrdiff_t most)
      : taps(all_taps), terms(all_terms), pieces(ceil_div(all_terms, most)),
        count(pieces > 1 ? all_taps * pieces : ceil_div(all_taps, most / all_terms)) {}
};

struct Chain {
  ptrdiff_t first_tap, taps, first_term, terms;
  ptrdiff_t row, column;  // of the first tap
  bool add;               // to what is in the result
  Chain(const Chains& all, ptrdiff_t index, ptrdiff_t tap_columns) : add(index > 0) {
    if (all.pieces > 1) {
      const ptrdiff_t piece = index % all.pieces;
      first_tap = index / all.pieces;
      taps = 1;
      first_term = all.terms * piece / all.pieces;
      terms = all.terms * (piece + 1) / all.pieces - first_term;
    } else {
      first_tap = all.taps * index / all.count;
      taps = all.taps * (index + 1) / all.count - first_tap;
      first_term = 0;
      terms = all.terms;
    }
    row = first_tap / tap_columns;
    column = first_tap % tap_columns;
  }
};

// The walk over a class's taps: offsets of the first and the steps to the next.
struct TapWalk {
  ptrdiff_t columns;  // taps in a row
  ptrdiff_t source_first, source_row, source_column;
  ptrdiff_t filter_first, filter_row, filter_column;
};

template <typename T>
struct Tile {
  const T* source;
  const T* filter;
  T* result;
  ptrdiff_t pixels;                // to be written
  ptrdiff_t source_at[kMostPixels];  // beyond `pixels`: repeats of the last
  ptrdiff_t result_at[kMostPixels];
  ptrdiff_t channels;
};

// One chain in registers. Plain sums its products in one accumulator.
template <typename T, int kPixels, int kVectors>
struct Plain {
  Vec<T> sums[kPixels][kVectors] = {};
  [[gnu::always_inline]] void add(int pixel, int vector, Vec<T> a, Vec<T> b) {
    sums[pixel][vector] = fma(a, b, sums[pixel][vector]);
  }
  [[gnu::always_inline]] Vec<T> total(int pixel, int vector) const { return sums[pixel][vector]; }
};

// Compensated also carries what every product and every sum lost (Ogita, Rump and Oishi's Dot2).
template <typename T, int kPixels, int kVectors>
struct Compensated {
  Vec<T> sums[kPixels][kVectors] = {};
  Vec<T> lost[kPixels][kVectors] = {};
  [[gnu::always_inline]] void add(int pixel, int vector, Vec<T> a, Vec<T> b) {
    Vec<T>& sum = sums[pixel][vector];
    const Vec<T> product = a * b;
    const Vec<T> product_lost = fma(a, b, -product);
    const Vec<T> next = sum + product;
    const Vec<T> of_product = next - sum;
    const Vec<T> sum_lost = (sum - (next - of_product)) + (product - of_product);
    lost[pixel][vector] += product_lost + sum_lost;
    sum = next;
  }
  // An infinite sum has lost NaN; it stays what it is.
  [[gnu::always_inline]] Vec<T> total(int pixel, int vector) const {
    const Vec<T> sum = sums[pixel][vector];
    return (sum - sum == Vec<T>{}) ? sum + lost[pixel][vector] : sum;
  }
};

template <typename T, template <typename, int, int> typename Sums, int kPixels, int kVectors>
[[gnu::noinline]] void add_chain(const Tile<T>& tile, const TapWalk& walk, const Chain& chain, ptrdiff_t terms) {
  constexpr int kWidth = kVectors * kLanes<T>;
  Sums<T, kPixels, kVectors> sums;
  ptrdiff_t row = chain.row, column = chain.column;
  for (ptrdiff_t tap = 0; tap < chain.taps; ++tap) {
    const ptrdiff_t source_tap =
        walk.source_first + row * walk.source_row + column * walk.source_column + chain.first_term;
    const ptrdiff_t filter_tap = walk.filter_first + row * walk.filter_row + column * walk.filter_column;
    const T* source[kPixels];
#pragma GCC unroll 24
    for (int m = 0; m < kPixels; ++m) source[m] = tile.source + tile.source_at[m] + source_tap;
    const T* filter = tile.filter + (filter_tap * terms + chain.first_term) * kWidth;
#pragma GCC unroll 4
    for (ptrdiff_t k = 0; k < chain.terms; ++k) {
      Vec<T> weights[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) weights[v] = load(filter + k * kWidth + v * kLanes<T>);
#pragma GCC unroll 24
      for (int m = 0; m < kPixels; ++m) {
        const Vec<T> x = broadcast(source[m][k]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums.add(m, v, x, weights[v]);
      }
    }
    if (++column == walk.columns) {
      column = 0;
      ++row;
    }
  }
#pragma GCC unroll 24
  for (int m = 0; m < kPixels; ++m) {
    if (m >= tile.pixels) break;
    T* result = tile.result + tile.result_at[m];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const ptrdiff_t left = tile.channels - v * kLanes<T>;
      T* to = result + v * kLanes<T>;
      if (left >= kLanes<T>) {
        store(to, chain.add ? load(to) + sums.total(m, v) : sums.total(m, v));
      } else if (left > 0) {
        store_part(to, chain.add ? load_part(to, left) + sums.total(m, v) : sums.total(m, v), left);
      }
    }
  }
}

template <typename T>
using AddChain = void (*)(const Tile<T>&, const TapWalk&, const Chain&, ptrdiff_t terms);

// table[i] handles (i+1)*kPixelStep pixels.
template <typename T, template <typename, int, int> typename Sums, int kVectors, int kCount>
struct ChainTable {
  AddChain<T> entry[kCount];
  constexpr ChainTable() : entry{} { fill<kCount>(); }
  template <int kLeft>
  constexpr void fill() {
    if constexpr (kLeft > 0) {
      entry[kLeft - 1] = add_chain<T, Sums, kLeft * kPixelStep[kVectors], kVectors>;
      fill<kLeft - 1>();
    }
  }
};

template <typename T>
void write_zeros(const Tile<T>& tile) {
  for (ptrdiff_t m = 0; m < tile.pixels; ++m) {
    T* to = tile.result + tile.result_at[m];
    ptrdiff_t c = 0;
    for (; c + kLanes<T> <= tile.channels; c += kLanes<T>) store(to + c, Vec<T>{});
    store_part(to + c, Vec<T>{}, tile.channels - c);
  }
}

// A position among the pixels of a class, in the order image, row, column.
struct Pixel {
  ptrdiff_t image, row, column;
  Pixel(ptrdiff_t index, ptrdiff_t rows, ptrdiff_t columns)
      : image(index / (rows * columns)), row(index / columns % rows), column(index % columns) {}
  void advance(ptrdiff_t rows, ptrdiff_t columns) {
    if (++column < columns) return;
    column = 0;
    if (++row < rows) return;
    row = 0;
    ++image;
  }
};

template <typename T, template <typename, int, int> typename Sums, int kVectors, int kPixels>
void run_tiles(const DirectTask<T>& task, const AxisClass& rows, const AxisClass& columns, const Share& share,
               ptrdiff_t chain_terms) {
  constexpr int kStep = kPixelStep[kVectors];
  static constexpr ChainTable<T, Sums, kVectors, kPixels / kStep> table;
  const ptrdiff_t pixels = task.batch * rows.count * columns.count;
  const ptrdiff_t tiles = ceil_div(pixels, kPixels);
  const ptrdiff_t first_tile = tiles * share.pixel_part / share.pixel_parts;
  const ptrdiff_t end_tile = tiles * (share.pixel_part + 1) / share.pixel_parts;
  const ptrdiff_t taps = rows.taps * columns.taps;
  const Chains chains(taps, task.terms, chain_terms);
  const ptrdiff_t first_chain = chains.count * share.tap_part / share.tap_parts;
  const ptrdiff_t end_chain = chains.count * (share.tap_part + 1) / share.tap_parts;
  if (first_tile == end_tile || (taps == 0 ? share.tap_part > 0 : first_chain == end_chain)) return;

  const TapWalk walk = {columns.taps,
                        0,
                        rows.tap_src_step * task.source_steps.row,
                        columns.tap_src_step * task.source_steps.column,
                        rows.tap_first * task.filter_width + columns.tap_first,
                        rows.tap_step * task.filter_width,
                        columns.tap_step};
  Tile<T> tile;
  tile.source = task.source + rows.src_first * task.source_steps.row + columns.src_first * task.source_steps.column;
  tile.filter = task.filter;
  tile.result = task.result + rows.out_first * task.result_steps.row + columns.out_first * task.result_steps.column;
  tile.channels = task.channels;
  const ptrdiff_t source_row = rows.src_step * task.source_steps.row;
  const ptrdiff_t source_column = columns.src_step * task.source_steps.column;
  const ptrdiff_t result_row = rows.out_step * task.result_steps.row;
  const ptrdiff_t result_column = columns.out_step * task.result_steps.column;

  // Calls body for every tile, with the places of its pixels.
  const auto for_each_tile = [&](auto body) {
    ptrdiff_t done = pixels * first_tile / tiles;
    Pixel at(done, rows.count, columns.count);
    for (ptrdiff_t index = first_tile; index < end_tile; ++index) {
      const ptrdiff_t end = pixels * (index + 1) / tiles;
      tile.pixels = end - done;
      done = end;
      for (ptrdiff_t m = 0; m < tile.pixels; ++m) {
        tile.source_at[m] = at.image * task.source_steps.image + at.row * source_row + at.column * source_column;
        tile.result_at[m] = at.image * task.result_steps.image + at.row * result_row + at.column * result_column;
        at.advance(rows.count, columns.count);
      }
      body();
    }
  };
  if (taps == 0) return for_each_tile([&] { write_zeros(tile); });
  const auto add_to_tile = [&](const Chain& chain) {
    const ptrdiff_t steps = ceil_div(tile.pixels, kStep);
    for (ptrdiff_t m = tile.pixels; m < steps * kStep; ++m) tile.source_at[m] = tile.source_at[m - 1];
    table.entry[steps - 1](tile, walk, chain, task.terms);
  };
  // The order of the two loops changes no sum.
  const ptrdiff_t filter_bytes = taps * task.terms * kVectors * kVectorBytes / share.tap_parts;
  if (filter_bytes > kNearFilterBytes) {
    for (ptrdiff_t index = first_chain; index < end_chain; ++index) {
      const Chain chain(chains, index, columns.taps);
      for_each_tile([&] { add_to_tile(chain); });
    }
  } else {
    for_each_tile([&] {
      for (ptrdiff_t index = first_chain; index < end_chain; ++index) add_to_tile({chains, index, columns.taps});
    });
  }
}

template <typename T, int kVectors = kMostVectors>
void run_direct(const DirectTask<T>& task, const AxisClass& rows, const AxisClass& columns, const Share& share) {
  if constexpr (kVectors > 1) {
    if (task.vectors < kVectors) return run_direct<T, kVectors - 1>(task, rows, columns, share);
  }
  run_tiles<T, Plain, kVectors, kTilePixels[kVectors]>(task, rows, columns, share, task.chain_terms);
}

// One chain of any length: its error does not grow.
void run_compensated(const DirectTask<double>& task, const AxisClass& rows, const AxisClass& columns,
                     const Share& share) {
  run_tiles<double, Compensated, 1, 4>(task, rows, columns, share, kEndlessChain);
}

}  // namespace

extern const DirectKernels direct_kernels;
const DirectKernels direct_kernels = {{kLanes<float>, kMostVectors, run_direct<float>},
                                      {kLanes<double>, kMostVectors, run_direct<double>},
                                      {kLanes<std::uint32_t>, kMostVectors, run_direct<std::uint32_t>},
                                      {kLanes<double>, 1, run_compensated}};

}  // namespace gradops::GRADOPS_LEVEL
