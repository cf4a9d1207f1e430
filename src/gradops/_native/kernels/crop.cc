// The crop kernels of one level, and the two passes over whole images that the crops need: zeros and
// the rounding of float32 sums to float16. Both read or write every byte once.
#include "kernels/crop.h"

#include "kernels/crop_half.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace gradops::GRADOPS_LEVEL {

extern const AddRowKernels add_row_kernels;
extern const AddNarrowKernels add_narrow_kernels;
extern const SampleRowKernels sample_row_kernels;

namespace {

void stream_zeros(void* target, std::size_t bytes) {
  char* begin = static_cast<char*>(target);
  std::size_t done = 0;
#if defined(__x86_64__)
  // Whole cache lines, so that the write buffers never have to read one back.
  const std::size_t misaligned = reinterpret_cast<std::uintptr_t>(begin) % 64;
  done = misaligned ? 64 - misaligned : 0;
  if (done > bytes) done = bytes;
  __builtin_memset(begin, 0, done);
  const __m128i zero = _mm_setzero_si128();
  for (; done + 64 <= bytes; done += 64) {
    __m128i* line = reinterpret_cast<__m128i*>(begin + done);
    _mm_stream_si128(line, zero);
    _mm_stream_si128(line + 1, zero);
    _mm_stream_si128(line + 2, zero);
    _mm_stream_si128(line + 3, zero);
  }
#endif
  __builtin_memset(begin + done, 0, bytes - done);
}

void end_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

void round_to_half(const float* source, std::uint16_t* target, ptrdiff_t count) {
  ptrdiff_t i = 0;
#if defined(__F16C__)
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps(source + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i_u*>(target + i), eight);
  }
#endif
  for (; i < count; ++i) target[i] = round_half_bits(source[i]);
}

}  // namespace

extern const CropKernels crop_kernels = {&add_row_kernels, &add_narrow_kernels, &sample_row_kernels, stream_zeros,
                                         end_stream, round_to_half};

}  // namespace gradops::GRADOPS_LEVEL
