// Names shared by every native file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gradops {

using std::ptrdiff_t;

// Element types as Python passes them (module.cc exposes the same names).
enum class DType : int { kFloat32, kFloat64, kFloat16, kBFloat16, kInt32, kUInt8, kInt8, kUInt16, kInt16, kInt64 };

constexpr std::size_t item_size(DType type) {
  switch (type) {
    case DType::kFloat64:
    case DType::kInt64: return 8;
    case DType::kFloat32:
    case DType::kInt32: return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kUInt16:
    case DType::kInt16: return 2;
    default: return 1;
  }
}

enum class Status : int { kOk, kOutOfMemory, kBadArgument };

}  // namespace gradops
