// Errors of a cache: "cache: <what>: expected …, got …".
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <string>

#include "cogwheel/core/error.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {

[[noreturn]] inline void refuse_cache(const std::string& what, const std::string& expected, const std::string& got) {
  const std::string message = expected_got("cache: " + what, expected, got);
  TORCH_CHECK_VALUE(false, message);
}

inline std::string of_entry(std::int64_t entry) { return " of entry " + std::to_string(entry); }

// One int64 for each of `count` entries, or any number of them where it is below 0; contiguous on the CPU.
inline at::Tensor checked_integers(const std::string& what, const at::Tensor& tensor, std::int64_t count) {
  const bool fits = tensor.defined() && tensor.scalar_type() == at::kLong && tensor.dim() == 1 &&
                    tensor.device().is_cpu() && (count < 0 || tensor.size(0) == count);
  if (!fits)
    refuse_cache(what, count < 0 ? "int64 [entries] on the cpu" : "int64 [" + std::to_string(count) + "] on the cpu",
                 (tensor.defined() ? c10::toString(tensor.scalar_type()) + std::string(" ") : "") + shape_text(tensor));
  return tensor.contiguous();
}

inline const std::int64_t* numbers(const at::Tensor& tensor) { return tensor.const_data_ptr<std::int64_t>(); }

// That every entry has the tokens first … first + count − 1.
inline void check_forgotten(const at::Tensor& lengths, std::int64_t first, std::int64_t count) {
  for (std::int64_t b = 0; b < lengths.numel(); ++b)
    if (first < 0 || count < 0 || first + count > numbers(lengths)[b])
      refuse_cache("forget" + of_entry(b),
                   "tokens within 0 to " + std::to_string(numbers(lengths)[b]) + " (its length)",
                   std::to_string(first) + " to " + std::to_string(first + count));
}

// Which of `count` entries a fork copies.
inline at::Tensor checked_entries(const at::Tensor& entries, std::int64_t count) {
  const at::Tensor chosen = checked_integers("fork", entries, -1);
  for (std::int64_t i = 0; i < chosen.numel(); ++i)
    if (const std::int64_t entry = numbers(chosen)[i]; entry < 0 || entry >= count)
      refuse_cache("fork", "entries 0 to " + std::to_string(count - 1), std::to_string(entry));
  return chosen;
}

}  // namespace cogwheel::ops
