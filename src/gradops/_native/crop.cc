#include "crop.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <initializer_list>

#include "dispatch.h"
#include "float_mode.h"
#include "memory.h"
#include "parallel.h"
#include "sample_grid.h"

namespace gradops {
namespace {

constexpr ptrdiff_t kBandBytes = ptrdiff_t{512} << 10;    // image rows of a work item: stays in L2
constexpr ptrdiff_t kBandsPerThread = 6;                  // evens out bands with few and many boxes
constexpr ptrdiff_t kSerialBytes = ptrdiff_t{128} << 10;  // less traffic than this is not worth a wake-up
constexpr ptrdiff_t kStreamedBytes = ptrdiff_t{8} << 20;  // for larger images see zero(); crops larger are written past the caches
constexpr ptrdiff_t kChunk = 256;                         // samples computed at a time, on the stack

// False, and nothing else is meaningful, if the product does not fit.
bool multiply(ptrdiff_t& product, std::initializer_list<ptrdiff_t> factors) {
  product = 1;
  bool overflows = false;
  for (const ptrdiff_t factor : factors) overflows |= __builtin_mul_overflow(product, factor, &product);
  return !overflows;
}

ptrdiff_t divide_up(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }

Axis rows_of(const CropSizes& sizes, const float* boxes, ptrdiff_t box) {
  return {boxes[4 * box], boxes[4 * box + 2], sizes.height, sizes.crop_height, sizes.method == Method::kNearest};
}
Axis columns_of(const CropSizes& sizes, const float* boxes, ptrdiff_t box) {
  return {boxes[4 * box + 1], boxes[4 * box + 3], sizes.width, sizes.crop_width, sizes.method == Method::kNearest};
}

// The samples along x, a chunk of crop columns at a time; most crops are one chunk, which then
// serves all rows of the box.
class Columns {
 public:
  Columns(const CropSizes& sizes, const float* boxes) : sizes_(sizes), boxes_(boxes) {}

  // Sets the samples of crop columns [first, first + kChunk).
  void select(ptrdiff_t box, ptrdiff_t first) {
    if (box == box_ && first == first_) return;
    box_ = box;
    first_ = first;
    width_ = std::min(kChunk, sizes_.crop_width - first);
    count_ = sample_axis(columns_of(sizes_, boxes_, box), first, width_, samples_);
  }

  const AxisSample* begin() const { return samples_; }
  ptrdiff_t count() const { return count_; }
  ptrdiff_t width() const { return width_; }  // crop columns of the chunk, inside the image or not

 private:
  const CropSizes& sizes_;
  const float* boxes_;
  ptrdiff_t box_ = -1, first_ = 0, width_ = 0, count_ = 0;
  AxisSample samples_[kChunk];
};

// Runs the items on this thread where waking another would cost more than it brings.
template <typename Body>
void for_each(ptrdiff_t items, bool serial, Body&& body) {
  if (!serial) return for_each_item(items, body);
  for (ptrdiff_t item = 0; item < items; ++item) body(item);
}

// ---- the gradient with respect to the image ----

// A crop row that adds to rows `lower` and `lower + step`, counted over all images.
struct Entry {
  ptrdiff_t box, crop_row;
  ptrdiff_t lower;
  float fraction;
  std::int32_t step;
};

// The image rows are cut into bands, and each band has the list of the entries that touch it, in
// the order of boxes and crop rows. An entry on the border of two bands is in both lists, and each
// band adds to its own row only. So no pixel belongs to two work items, and the sums at a pixel are
// in TensorFlow's order whatever the bands.
class Gradient {
 public:
  Gradient(const CropSizes& sizes, DType type, const float* grads, const float* boxes, const std::int32_t* box_ind,
           void* image)
      : sizes_(sizes), type_(type), kernels_(crop_kernels()), grads_(grads), boxes_(boxes), box_ind_(box_ind),
        image_(static_cast<char*>(image)) {}

  Status run() {
    if (!measure()) return Status::kBadArgument;
    if (rows_ == 0 || row_elements_ == 0) return Status::kOk;
    const bool serial = image_bytes_ + grads_bytes_ < kSerialBytes;
    cut_bands(serial ? 1 : num_threads());
    Block ends(static_cast<std::size_t>(bands_ + 1) * sizeof(ptrdiff_t));
    if (!ends) return Status::kOutOfMemory;
    ends_ = ends.as<ptrdiff_t>();
    const ptrdiff_t entries = count_entries();
    Block sorted(static_cast<std::size_t>(entries) * sizeof(Entry));
    if (!sorted) return Status::kOutOfMemory;
    entries_ = sorted.as<Entry>();
    fill_entries();
    for_each(bands_, serial, [this](ptrdiff_t band) { write_band(band); });
    return status_.load(std::memory_order_relaxed);
  }

 private:
  bool measure() {
    ptrdiff_t largest;  // no byte offset may overflow
    if (!multiply(largest, {sizes_.batch, sizes_.height, sizes_.width, sizes_.depth, 8})) return false;
    if (!multiply(largest, {sizes_.num_boxes, sizes_.crop_height, sizes_.crop_width, sizes_.depth, 64})) return false;
    if (!multiply(largest, {sizes_.num_boxes, sizes_.crop_height, 2 * ptrdiff_t{sizeof(Entry)}})) return false;
    rows_ = sizes_.batch * sizes_.height;
    row_elements_ = sizes_.width * sizes_.depth;
    item_bytes_ = static_cast<ptrdiff_t>(item_size(type_));
    image_bytes_ = rows_ * row_elements_ * item_bytes_;
    crop_row_elements_ = sizes_.crop_width * sizes_.depth;
    grads_bytes_ = sizes_.num_boxes * sizes_.crop_height * crop_row_elements_ * 4;
    return true;
  }

  void cut_bands(ptrdiff_t threads) {
    const ptrdiff_t sum_bytes = type_ == DType::kFloat64 ? 8 : 4;
    band_rows_ = std::clamp<ptrdiff_t>(kBandBytes / (row_elements_ * sum_bytes), 1, rows_);
    if (threads > 1) {
      while (band_rows_ > 1 && divide_up(rows_, band_rows_) < threads * kBandsPerThread) band_rows_ /= 2;
    }
    bands_ = divide_up(rows_, band_rows_);
  }

  // Calls visit(band, entry) for every list that an entry belongs to, in the order of the lists.
  template <typename Visit>
  void for_each_entry(Visit&& visit) {
    const FloatMode mode(FloatMode::kFlush);  // as TensorFlow's kernel threads
    AxisSample samples[kChunk];
    for (ptrdiff_t box = 0; box < sizes_.num_boxes; ++box) {
      const Axis axis = rows_of(sizes_, boxes_, box);
      const ptrdiff_t image_row = box_ind_[box] * sizes_.height;
      for (ptrdiff_t first = 0; first < sizes_.crop_height; first += kChunk) {
        const ptrdiff_t count = sample_axis(axis, first, std::min(kChunk, sizes_.crop_height - first), samples);
        for (ptrdiff_t i = 0; i < count; ++i) {
          const AxisSample& sample = samples[i];
          const Entry entry{box, sample.crop, image_row + sample.lower, sample.fraction, sample.step};
          const ptrdiff_t band = entry.lower / band_rows_;
          visit(band, entry);
          if ((band + 1) * band_rows_ == entry.lower + entry.step) visit(band + 1, entry);
        }
      }
    }
  }

  // A counting sort. First ends_[band] is where the list of the band begins; filling moves it to
  // where it ends, and that is where the next one begins.
  ptrdiff_t count_entries() {
    std::fill_n(ends_, bands_ + 1, 0);
    for_each_entry([this](ptrdiff_t band, const Entry&) { ++ends_[band + 1]; });
    for (ptrdiff_t band = 0; band < bands_; ++band) ends_[band + 1] += ends_[band];
    return ends_[bands_];
  }
  void fill_entries() {
    for_each_entry([this](ptrdiff_t band, const Entry& entry) { entries_[ends_[band]++] = entry; });
  }

  // The work item: writes the image rows of one band.
  void write_band(ptrdiff_t band) {
    const ptrdiff_t first_row = band * band_rows_;
    const ptrdiff_t elements = std::min(band_rows_, rows_ - first_row) * row_elements_;
    char* target = image_ + first_row * row_elements_ * item_bytes_;
    const std::size_t target_bytes = static_cast<std::size_t>(elements * item_bytes_);
    const Entry* begin = entries_ + (band ? ends_[band - 1] : 0);
    const Entry* end = entries_ + ends_[band];
    if (type_ != DType::kFloat16 || begin == end) {
      zero(target, target_bytes, end - begin);
      add_entries(begin, end, first_row, target);
    } else {  // sums in float32, rounded once
      Block sums(static_cast<std::size_t>(elements) * sizeof(float));
      if (!sums) return status_.store(Status::kOutOfMemory, std::memory_order_relaxed);
      std::memset(sums.as<float>(), 0, static_cast<std::size_t>(elements) * sizeof(float));
      add_entries(begin, end, first_row, sums.as<char>());
      kernels_.round_to_half(sums.as<float>(), reinterpret_cast<std::uint16_t*>(target), elements);
    }
  }

  // Zeros a band. In a large image of which the samples touch little, the zeros go past the caches:
  // twice as fast, while each pixel touched has then to be fetched from memory.
  void zero(char* target, std::size_t bytes, ptrdiff_t entries) const {
    const std::size_t touched = static_cast<std::size_t>(entries * crop_row_elements_ * 4 * item_bytes_);
    if (image_bytes_ > kStreamedBytes && touched < bytes / 2) {
      kernels_.stream_zeros(target, bytes);
      kernels_.end_stream();
    } else {
      std::memset(target, 0, bytes);
    }
  }

  // Adds the entries to the band that begins with image row `first_row` at `band_sums`.
  void add_entries(const Entry* begin, const Entry* end, ptrdiff_t first_row, char* band_sums) {
    const FloatMode mode(FloatMode::kFlush);  // as TensorFlow's kernel threads
    const ptrdiff_t row_bytes = row_elements_ * (type_ == DType::kFloat64 ? 8 : 4);
    const auto row_sums = [&](ptrdiff_t row) -> void* {
      row -= first_row;
      return row >= 0 && row < band_rows_ ? band_sums + row * row_bytes : nullptr;
    };
    const auto add = kernel();
    const bool narrow = type_ != DType::kFloat64 && sizes_.method == Method::kBilinear && sizes_.depth <= kMaxNarrowDepth;
    Columns columns(sizes_, boxes_);
    for (const Entry* entry = begin; entry < end; ++entry) {
      GradientRow row;
      row.grads = grads_row(*entry);
      row.next = entry + 1 < end ? grads_row(entry[1]) : row.grads;
      row.top = row_sums(entry->lower);
      row.bottom = row_sums(entry->lower + entry->step);
      row.depth = sizes_.depth;
      row.fraction = entry->fraction;
      const bool two_rows = row.top && row.bottom && row.top != row.bottom;
      for (ptrdiff_t first = 0; first < sizes_.crop_width; first += kChunk) {
        columns.select(entry->box, first);
        row.columns = columns.begin();
        row.count = columns.count();
        (narrow && two_rows ? kernels_.add_narrow->float32 : add)(row);
      }
    }
  }

  const float* grads_row(const Entry& entry) const {
    return grads_ + (entry.box * sizes_.crop_height + entry.crop_row) * crop_row_elements_;
  }

  void (*kernel() const)(const GradientRow&) {
    const AddRowKernels& add = *kernels_.add_row;
    if (sizes_.method == Method::kNearest) return type_ == DType::kFloat64 ? add.nearest_float64 : add.nearest_float32;
    return type_ == DType::kFloat64 ? add.float64 : add.float32;
  }

  const CropSizes& sizes_;
  const DType type_;
  const CropKernels& kernels_;
  const float* grads_;
  const float* boxes_;
  const std::int32_t* box_ind_;
  char* image_;

  ptrdiff_t rows_ = 0, row_elements_ = 0, item_bytes_ = 0, image_bytes_ = 0;
  ptrdiff_t crop_row_elements_ = 0, grads_bytes_ = 0;
  ptrdiff_t band_rows_ = 0, bands_ = 0;
  ptrdiff_t* ends_ = nullptr;
  Entry* entries_ = nullptr;
  std::atomic<Status> status_{Status::kOk};
};

// ---- the forward op ----

// Every crop row is a work item's own, so nothing depends on how they are dealt out.
class Sampler {
 public:
  Sampler(const CropSizes& sizes, DType type, const void* image, const float* boxes, const std::int32_t* box_ind,
          float extrapolation_value, float* crops)
      : sizes_(sizes), kernels_(crop_kernels()), image_(static_cast<const char*>(image)), boxes_(boxes),
        box_ind_(box_ind), crops_(crops), extrapolation_value_(extrapolation_value), type_(type) {}

  Status run() {
    ptrdiff_t largest;  // no byte offset may overflow
    if (!multiply(largest, {sizes_.batch, sizes_.height, sizes_.width, sizes_.depth, 8})) return Status::kBadArgument;
    if (!multiply(largest, {sizes_.num_boxes, sizes_.crop_height, sizes_.crop_width, sizes_.depth, 4}))
      return Status::kBadArgument;
    if (largest == 0) return Status::kOk;
    stream_ = largest > kStreamedBytes;
    const ptrdiff_t rows = sizes_.num_boxes * sizes_.crop_height;
    const ptrdiff_t row_bytes = sizes_.crop_width * sizes_.depth * 4;
    const ptrdiff_t item_rows = std::max<ptrdiff_t>(kItemBytes / row_bytes, 1);
    for_each(divide_up(rows, item_rows), largest < kSerialBytes, [&](ptrdiff_t item) {
      write_rows(item * item_rows, std::min((item + 1) * item_rows, rows));
    });
    return Status::kOk;
  }

 private:
  static constexpr ptrdiff_t kItemBytes = ptrdiff_t{64} << 10;

  // The work item: crop rows [first, end), counted over all boxes.
  void write_rows(ptrdiff_t first, ptrdiff_t end) {
    const FloatMode mode(FloatMode::kFlush);  // as TensorFlow's kernel threads
    Columns columns(sizes_, boxes_);
    ptrdiff_t box = first / sizes_.crop_height, crop_row = first % sizes_.crop_height;
    for (ptrdiff_t row = first; row < end; ++row) {
      write_row(box, crop_row, columns);
      if (++crop_row == sizes_.crop_height) {
        crop_row = 0;
        ++box;
      }
    }
    if (stream_) kernels_.end_stream();
  }

  void write_row(ptrdiff_t box, ptrdiff_t crop_row, Columns& columns) {
    const ptrdiff_t row_elements = sizes_.crop_width * sizes_.depth;
    float* crops = crops_ + (box * sizes_.crop_height + crop_row) * row_elements;
    AxisSample y;
    if (sample_axis(rows_of(sizes_, boxes_, box), crop_row, 1, &y) == 0) return extrapolate(crops, row_elements);
    SampledRow row;
    row.crops = crops;
    row.top = image_row(box, y.lower);
    row.bottom = image_row(box, y.lower + y.step);
    row.depth = sizes_.depth;
    row.fraction = y.fraction;
    row.stream = stream_;
    for (ptrdiff_t first = 0; first < sizes_.crop_width; first += kChunk) {
      columns.select(box, first);
      row.columns = columns.begin();
      row.count = columns.count();
      extrapolate_between(columns, first, crops);
      kernel()(row);
    }
  }

  // The cells of the chunk that begins at crop column `first` and have no sample.
  void extrapolate_between(const Columns& columns, ptrdiff_t first, float* crops) {
    if (columns.count() == columns.width()) return;
    ptrdiff_t next = first;
    const auto fill_to = [&](ptrdiff_t column) {
      if (column > next) extrapolate(crops + next * sizes_.depth, (column - next) * sizes_.depth);
      next = column + 1;
    };
    for (ptrdiff_t i = 0; i < columns.count(); ++i) fill_to(columns.begin()[i].crop);
    fill_to(first + columns.width());
  }

  void extrapolate(float* crops, ptrdiff_t count) const { std::fill_n(crops, count, extrapolation_value_); }

  const char* image_row(ptrdiff_t box, ptrdiff_t row) const {
    const ptrdiff_t row_bytes = sizes_.width * sizes_.depth * static_cast<ptrdiff_t>(item_size(type_));
    return image_ + (box_ind_[box] * sizes_.height + row) * row_bytes;
  }

  void (*kernel() const)(const SampledRow&) {
    const int type = static_cast<int>(type_);
    return sizes_.method == Method::kNearest ? kernels_.sample_row->nearest[type] : kernels_.sample_row->bilinear[type];
  }

  const CropSizes& sizes_;
  const CropKernels& kernels_;
  const char* image_;
  const float* boxes_;
  const std::int32_t* box_ind_;
  float* crops_;
  const float extrapolation_value_;
  const DType type_;
  bool stream_ = false;
};

}  // namespace

Status crop_and_resize(const CropSizes& sizes, DType image_type, const void* image, const float* boxes,
                       const std::int32_t* box_ind, float extrapolation_value, float* crops) noexcept {
  const FloatMode mode(FloatMode::kKeep);
  return Sampler(sizes, image_type, image, boxes, box_ind, extrapolation_value, crops).run();
}

Status crop_and_resize_grad_image(const CropSizes& sizes, DType image_type, const float* grads, const float* boxes,
                                  const std::int32_t* box_ind, void* image) noexcept {
  const FloatMode mode(FloatMode::kKeep);
  if (image_type != DType::kFloat32 && image_type != DType::kFloat64 && image_type != DType::kFloat16) {
    return Status::kBadArgument;
  }
  return Gradient(sizes, image_type, grads, boxes, box_ind, image).run();
}

}  // namespace gradops
