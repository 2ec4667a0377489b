#include "cogwheel/ops/support/checks.h"

#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <sstream>

#include "cogwheel/attention/kernels/pairwise/pairwise.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"

namespace cogwheel::ops {
namespace {

void check_tensor(std::string_view argument, const at::Tensor& tensor) {
  if (!tensor.defined()) refuse(argument, "a tensor", "nothing");
  if (tensor.dim() != 4)
    refuse(argument, "4 dimensions [batch, heads, length, width]",
           std::to_string(tensor.dim()) + " " + shape_text(tensor));
  check_numbers("attention", argument, tensor);
}

std::string of_attention(std::string_view argument) { return "attention: " + std::string(argument); }

void check_heads(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  check_tensor(argument, tensor);
  check_device(argument, tensor, query);
  if (tensor.scalar_type() != query.scalar_type()) refuse_dtype(of_attention(argument), tensor, query, "query");
  if (tensor.sym_size(0) != query.sym_size(0))
    refuse(std::string(argument) + " batch", size_text(query.sym_size(0)) + " (as query)",
           size_text(tensor.sym_size(0)));
}

}  // namespace

void refuse_argument(std::string_view what, const std::string& expected, const std::string& got) {
  const std::string message = expected_got(what, expected, got);
  TORCH_CHECK_VALUE(false, message);
}

void refuse(std::string_view argument, const std::string& expected, const std::string& got) {
  refuse_argument(of_attention(argument), expected, got);
}

void refuse_device(std::string_view what, const at::Tensor& tensor, const at::Tensor& other, std::string_view name) {
  refuse_argument(std::string(what) + " device", other.device().str() + " (as " + std::string(name) + ")",
                  tensor.device().str());
}

void refuse_dtype(std::string_view what, const at::Tensor& tensor, const at::Tensor& other, std::string_view name) {
  refuse_argument(std::string(what) + " dtype",
                  std::string(c10::toString(other.scalar_type())) + " (as " + std::string(name) + ")",
                  c10::toString(tensor.scalar_type()));
}

void check_numbers(std::string_view operation, std::string_view argument, const at::Tensor& tensor) {
  const auto what = [&] { return std::string(operation) + ": " + std::string(argument); };
  if (tensor.layout() != at::kStrided) refuse_argument(what(), "a dense tensor", c10::str(tensor.layout()));
  const at::ScalarType type = tensor.scalar_type();
  if (type != at::kFloat && type != at::kDouble && type != at::kBFloat16 && type != at::kHalf)
    refuse_argument(what() + " dtype", "float32, float64, bfloat16 or float16", c10::toString(type));
}

at::ScalarType computed_type(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kBFloat16 || type == at::kHalf ? at::kFloat : type;
}

at::ScalarType widest_type(const at::Tensor& tensor) { return tensor.is_mps() ? at::kFloat : at::kDouble; }

void check_device(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  if (tensor.device() != query.device()) refuse_device(of_attention(argument), tensor, query, "query");
}

void check_device_of_x(std::string_view what, const at::Tensor& tensor, const at::Tensor& x) {
  if (tensor.device() != x.device()) refuse_device(what, tensor, x, "x");
}

void check_like(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  const at::ScalarType type = tensor.scalar_type();
  if (type != query.scalar_type() && type != computed_type(query))
    refuse_dtype(of_attention(argument), tensor, query, "query");
  check_device(argument, tensor, query);
}

void check_beside_x(const std::string& what, const at::Tensor& tensor, const at::Tensor& x, c10::SymIntArrayRef sizes) {
  check_device_of_x(what, tensor, x);
  if (tensor.scalar_type() != x.scalar_type()) refuse_dtype(what, tensor, x, "x");
  if (tensor.sym_sizes() != sizes) refuse_argument(what, shape_text(sizes), shape_text(tensor));
}

std::string size_text(const c10::SymInt& size) {
  std::ostringstream out;
  out << size;
  return out.str();
}

std::string shape_text(c10::SymIntArrayRef sizes) { return cogwheel::shape_text<c10::SymIntArrayRef>(sizes); }

std::string shape_text(const at::Tensor& tensor) {
  return tensor.defined() ? shape_text(tensor.sym_sizes()) : "nothing";
}

void check_head_dim(std::string_view argument, const c10::SymInt& width) {
  if (width < min_head_dim || width > max_head_dim)
    refuse(argument, std::to_string(min_head_dim) + " to " + std::to_string(max_head_dim), size_text(width));
}

void check_query_key(const at::Tensor& query, const at::Tensor& key, std::int64_t sub_heads, bool one_width) {
  check_tensor("query", query);
  check_heads("key", key, query);
  const c10::SymInt head_dim = query.sym_size(3);
  check_head_dim("query head_dim", head_dim);
  if (!one_width) check_head_dim("key head_dim", key.sym_size(3));
  if (one_width && key.sym_size(3) != head_dim)
    refuse("key head_dim", size_text(head_dim) + " (as query)", size_text(key.sym_size(3)));
  const c10::SymInt query_heads = query.sym_size(1), key_heads = key.sym_size(1);
  if (sub_heads > 1)
    for (const auto& [name, heads] : {std::pair("query heads", query_heads), std::pair("key heads", key_heads)})
      if (heads % sub_heads != 0)
        refuse(name, "a multiple of " + std::to_string(sub_heads) + " (adjacent sub-heads)", size_text(heads));
  if (key_heads < 1 || query_heads % key_heads != 0)
    refuse("key heads", "a divisor of the " + size_text(query_heads) + " query heads", size_text(key_heads));
}

void check_heads_of_values(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           std::int64_t sub_heads, bool one_width) {
  check_query_key(query, key, sub_heads, one_width);
  check_heads("value", value, query);
  if (value.sym_size(2) != key.sym_size(2))
    refuse("value length", size_text(key.sym_size(2)) + " (as key)", size_text(value.sym_size(2)));
  if (value.sym_size(1) * sub_heads != key.sym_size(1))
    refuse("value heads",
           size_text(key.sym_size(1) / sub_heads) + (sub_heads > 1 ? " (one for the sub-heads of a key)" : " (as key)"),
           size_text(value.sym_size(1)));
}

void check_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, std::int64_t sub_heads,
                     bool one_width) {
  check_heads_of_values(query, key, value, sub_heads, one_width);
  if (value.sym_size(3) < 1) refuse("value width", "1 or more", size_text(value.sym_size(3)));
}

void check_lengths(const at::Tensor& lengths, std::int64_t keys) {
  if (!lengths.is_cpu()) return;
  const at::Tensor numbers = lengths.contiguous();
  for (std::int64_t b = 0; b < numbers.numel(); ++b)
    if (const std::int64_t length = numbers.const_data_ptr<std::int64_t>()[b]; length < 0 || length > keys)
      refuse("key_lengths", "0 to " + std::to_string(keys) + " (the keys)", std::to_string(length));
}

}  // namespace cogwheel::ops
