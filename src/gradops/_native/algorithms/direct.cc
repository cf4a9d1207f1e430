#include "algorithms/direct.h"

#include <algorithm>

namespace gradops {
namespace {

// What is kept of the packed filter in L2 while pixels pass by.
constexpr ptrdiff_t kFilterBytes = 1 << 20;
// Pixels of one work item: their source and result stay in L2 too.
constexpr ptrdiff_t kChunkPixels = 384;
constexpr ptrdiff_t kFewestChunkPixels = 24;
constexpr ptrdiff_t kManyClasses = 64;

// A group's result channels in blocks of nearly equal numbers of vectors.
struct Blocks {
  ptrdiff_t lanes, vectors, count, results;
  template <typename T>
  Blocks(const Problem& problem, const DirectKernel<T>& kernel)
      : lanes(kernel.lanes), vectors(ceil_div(problem.results, lanes)), count(ceil_div(vectors, kernel.most_vectors)),
        results(problem.results) {}
  ptrdiff_t first_vector(ptrdiff_t block) const { return vectors * block / count; }
  ptrdiff_t first_channel(ptrdiff_t block) const { return first_vector(block) * lanes; }
  ptrdiff_t width(ptrdiff_t block) const { return (first_vector(block + 1) - first_vector(block)) * lanes; }
  ptrdiff_t channels(ptrdiff_t block) const { return std::min(results - first_channel(block), width(block)); }
};

// The packed filter: [group][block][tap][term][the block's vectors * lanes], zero past the channels.
template <typename T>
struct PackedFilter {
  const Problem& problem;
  const Blocks& blocks;
  T* data;

  static ptrdiff_t elements(const Problem& problem, const Blocks& blocks) {
    return problem.groups * problem.filter_height * problem.filter_width * problem.terms * blocks.vectors *
           blocks.lanes;
  }
  ptrdiff_t taps() const { return problem.filter_height * problem.filter_width; }
  T* block(ptrdiff_t group, ptrdiff_t index) const {
    return data + (group * blocks.vectors + blocks.first_vector(index)) * blocks.lanes * taps() * problem.terms;
  }

  void pack(const LayoutKernels& layout, const T* filter, ptrdiff_t group, ptrdiff_t index, ptrdiff_t tap) const {
    const ptrdiff_t width = blocks.width(index), channels = blocks.channels(index);
    const T* from = filter + tap * problem.filter_tap + group * problem.filter_group +
                    blocks.first_channel(index) * problem.filter_result;
    T* to = block(group, index) + tap * problem.terms * width;
    if (problem.filter_result == 1) {
      for (ptrdiff_t k = 0; k < problem.terms; ++k) {
        std::copy_n(from + k * problem.filter_term, channels, to + k * width);
      }
    } else {
      transpose(layout, from, problem.filter_result, to, width, channels, problem.terms);
    }
    if (channels < width) {
      for (ptrdiff_t k = 0; k < problem.terms; ++k) std::fill(to + k * width + channels, to + (k + 1) * width, T(0));
    }
  }
};

// How the result's pixels are shared: `chunks` equal parts of every class, and the row classes in
// `class_parts`. Where classes are many and small (large strides), chunks would cut them to nothing.
struct Pixels {
  ptrdiff_t chunks, class_parts;
  Pixels(const Problem& problem, ptrdiff_t other_items) : chunks(1), class_parts(1) {
    if (problem.small) return;
    const ptrdiff_t pixels = problem.batch * problem.result_height * problem.result_width;
    const ptrdiff_t row_classes = static_cast<ptrdiff_t>(problem.rows.size());
    const ptrdiff_t classes = row_classes * static_cast<ptrdiff_t>(problem.columns.size());
    const ptrdiff_t wanted = ceil_div(4 * num_threads(), other_items);
    const ptrdiff_t most = std::max<ptrdiff_t>(1, pixels / classes / kFewestChunkPixels);
    chunks = std::max(ceil_div(pixels, kChunkPixels), std::min(wanted, ceil_div(pixels, kFewestChunkPixels)));
    if (classes > kManyClasses) chunks = std::min(chunks, most);
    if (chunks < wanted) class_parts = std::min(row_classes, ceil_div(wanted, chunks));
  }
  ptrdiff_t parts() const { return chunks * class_parts; }
};

}  // namespace

double direct_cost(const Problem& problem) {
  const double pixels = static_cast<double>(problem.result_height * problem.result_width);
  const double vector = 10 * pixels + (2 + 0.57 * static_cast<double>(problem.terms)) * problem.image_taps;
  return static_cast<double>(problem.groups * ceil_div(problem.results, 16)) * vector;
}

template <typename T>
Status run_direct(const Problem& problem, const DirectKernel<T>& kernel, const LayoutKernels& layout, const T* filter,
                  const T* source, T* result) noexcept {
  const Blocks blocks(problem, kernel);
  const ptrdiff_t elements = PackedFilter<T>::elements(problem, blocks);
  const Scratch scratch(static_cast<std::size_t>(elements) * sizeof(T));
  if (!scratch) return Status::kOutOfMemory;
  const PackedFilter<T> packed{problem, blocks, scratch.as<T>()};
  const ptrdiff_t taps = packed.taps();
  for_each(problem, problem.groups * blocks.count * taps, [&](ptrdiff_t i) {
    packed.pack(layout, filter, i / taps / blocks.count, i / taps % blocks.count, i % taps);
  });

  const ImageSteps source_steps = {problem.source_height * problem.source_width * problem.source_channels,
                                   problem.source_width * problem.source_channels, problem.source_channels};
  const ImageSteps result_steps = {problem.result_height * problem.result_width * problem.result_channels,
                                   problem.result_width * problem.result_channels, problem.result_channels};
  const ptrdiff_t group_bytes = elements / problem.groups * static_cast<ptrdiff_t>(sizeof(T));
  // Many classes (large strides) have few taps each, and would be visited in vain once per part.
  const bool few_taps = static_cast<ptrdiff_t>(problem.rows.size() * problem.columns.size()) > kManyClasses;
  const ptrdiff_t block_bytes = group_bytes / blocks.count;
  const ptrdiff_t visited_bytes = few_taps ? block_bytes / (taps * problem.terms) * problem.most_terms : block_bytes;
  const ptrdiff_t tap_parts = std::max<ptrdiff_t>(1, ceil_div(visited_bytes, kFilterBytes));
  const auto run = [&](ptrdiff_t group, ptrdiff_t block, ptrdiff_t pixel_part, const Pixels& pixels) {
    DirectTask<T> task;
    task.source = source + group * problem.terms;
    task.filter = packed.block(group, block);
    task.result = result + group * problem.results + blocks.first_channel(block);
    task.source_steps = source_steps;
    task.result_steps = result_steps;
    task.batch = problem.batch;
    task.filter_width = problem.filter_width;
    task.terms = problem.terms;
    task.chain_terms = problem.chain_terms;
    task.channels = blocks.channels(block);
    task.vectors = static_cast<int>(blocks.width(block) / blocks.lanes);
    const ptrdiff_t row_classes = static_cast<ptrdiff_t>(problem.rows.size());
    const ptrdiff_t class_part = pixel_part / pixels.chunks;
    const auto first = problem.rows.begin() + row_classes * class_part / pixels.class_parts;
    const auto end = problem.rows.begin() + row_classes * (class_part + 1) / pixels.class_parts;
    for (ptrdiff_t part = 0; part < tap_parts; ++part) {
      const Share share = {pixel_part % pixels.chunks, pixels.chunks, part, tap_parts};
      for (auto rows = first; rows != end; ++rows) {
        for (const AxisClass& columns : problem.columns) kernel.run(task, *rows, columns, share);
      }
    }
  };

  // A filter that fits L2 passes whole over each chunk of pixels, so that these come from memory
  // once; else one block of it stays while all pixels pass.
  if (group_bytes <= kFilterBytes) {
    const Pixels pixels(problem, problem.groups);
    const ptrdiff_t parts = pixels.parts();
    for_each(problem, problem.groups * parts, [&](ptrdiff_t i) {
      for (ptrdiff_t block = 0; block < blocks.count; ++block) run(i / parts, block, i % parts, pixels);
    });
  } else {
    const Pixels pixels(problem, problem.groups * blocks.count);
    const ptrdiff_t parts = pixels.parts();
    for_each(problem, problem.groups * blocks.count * parts, [&](ptrdiff_t i) {
      run(i / parts / blocks.count, i / parts % blocks.count, i % parts, pixels);
    });
  }
  return Status::kOk;
}

template Status run_direct(const Problem&, const DirectKernel<float>&, const LayoutKernels&, const float*, const float*,
                           float*) noexcept;
template Status run_direct(const Problem&, const DirectKernel<double>&, const LayoutKernels&, const double*,
                           const double*, double*) noexcept;
template Status run_direct(const Problem&, const DirectKernel<std::uint32_t>&, const LayoutKernels&,
                           const std::uint32_t*, const std::uint32_t*, std::uint32_t*) noexcept;

}  // namespace gradops
