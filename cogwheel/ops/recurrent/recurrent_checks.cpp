#include "cogwheel/ops/recurrent/recurrent_checks.h"

#include <ATen/Dispatch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/ops/support/checks.h"

namespace cogwheel::ops {
namespace {

std::string of_recurrent(std::string_view argument) { return "recurrent: " + std::string(argument); }

void check_rank_and_type(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  if (tensor.dim() != 4)
    refuse_recurrent(argument, "4 dimensions [batch, heads, tokens, width]",
                     std::to_string(tensor.dim()) + " " + shape_text(tensor));
  check_numbers("recurrent", argument, tensor);
  if (tensor.scalar_type() != query.scalar_type()) refuse_dtype(of_recurrent(argument), tensor, query, "query");
}

void check_device_of_query(std::string_view argument, const at::Tensor& tensor, const at::Tensor& query) {
  if (tensor.device() != query.device()) refuse_device(of_recurrent(argument), tensor, query, "query");
}

void check_dense(std::string_view argument, const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided) refuse_recurrent(argument, "a dense tensor", c10::str(tensor.layout()));
}

void check_recurrent_sizes(std::string_view argument, const at::Tensor& tensor, c10::SymIntArrayRef sizes) {
  if (tensor.sym_sizes() != sizes) refuse_recurrent(argument, shape_text(sizes), shape_text(tensor));
}

// The sizes of axes; S and R are as large as they come.
std::vector<c10::SymInt> sizes_of(std::string_view axes, const at::Tensor& query, const at::Tensor& value,
                                  const at::Tensor& tensor, const std::optional<c10::SymInt>& slots) {
  std::vector<c10::SymInt> sizes;
  for (const char axis : axes) {
    const auto place = static_cast<std::int64_t>(sizes.size());
    const c10::SymInt as_given = place < tensor.dim() ? tensor.sym_size(place) : c10::SymInt(1);
    switch (axis) {
      case 'B':
        sizes.push_back(query.sym_size(0));
        break;
      case 'H':
        sizes.push_back(query.sym_size(1));
        break;
      case 'N':
        sizes.push_back(query.sym_size(2));
        break;
      case 'D':
        sizes.push_back(query.sym_size(3));
        break;
      case 'V':
        sizes.push_back(value.sym_size(3));
        break;
      case 'S':
        sizes.push_back(slots.value_or(as_given));
        break;
      default:
        sizes.push_back(as_given);
    }
  }
  return sizes;
}

const char* expected_of(Values values) {
  switch (values) {
    case Values::number:
      return "numbers";
    case Values::at_most_0:
      return "values of at most 0";
    case Values::above_0:
      return "values above 0";
    case Values::above_0_to_1:
      return "values above 0, up to 1";
    case Values::from_0_to_2:
      return "values in 0…2";
    case Values::at_least_0:
      return "values of at least 0";
    case Values::below_0:
      return "values below 0";
    default:
      return "any";
  }
}

// The first number that is not allowed, or `end`. A NaN must not be.
template <class T, class Allowed>
const T* first_refused(const T* begin, const T* end, const Allowed& allowed) {
  // As wide as T, which makes the compiler take several at once.
  std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t> refused = 0;
  for (const T* x = begin; x != end; ++x) refused |= allowed(*x) ? 0 : 1;
  return refused == 0 ? end : std::find_if_not(begin, end, allowed);
}

template <class T>
const T* first_refused(const T* begin, const T* end, Values values) {
  static constexpr T largest = std::numeric_limits<T>::max();
  switch (values) {
    case Values::number:
      return first_refused(begin, end, [](T x) { return x == x; });
    case Values::at_most_0:
      return first_refused(begin, end, [](T x) { return x <= T(0); });
    case Values::above_0:
      return first_refused(begin, end, [](T x) { return x > T(0); });
    case Values::above_0_to_1:
      return first_refused(begin, end, [](T x) { return (x > T(0)) & (x <= T(1)); });
    case Values::from_0_to_2:
      return first_refused(begin, end, [](T x) { return (x >= T(0)) & (x <= T(2)); });
    case Values::at_least_0:
      return first_refused(begin, end, [](T x) { return (x >= T(0)) & (x <= largest); });
    case Values::below_0:
      return first_refused(begin, end, [](T x) { return (x < T(0)) & (x >= -largest); });
    default:
      return end;
  }
}

bool has_data(const at::Tensor& tensor) {
  return tensor.is_cpu() && !tensor.key_set().has_any(c10::DispatchKeySet(
                                {c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched,
                                 c10::DispatchKey::FuncTorchGradWrapper, c10::DispatchKey::Functionalize}));
}

}  // namespace

void refuse_recurrent(std::string_view argument, const std::string& expected, const std::string& got) {
  refuse_argument(of_recurrent(argument), expected, got);
}

void refuse_recurrent_derivative(const char* got) {
  const std::string message = expected_got(of_recurrent("derivatives"), "first ones, by a backward pass", got);
  C10_THROW_ERROR(NotImplementedError, message);
}

const RecurrentLaw& checked_recurrent_law(std::string_view mechanism) {
  if (const RecurrentLaw* law = find_recurrent_law(mechanism)) return *law;
  if (mechanism_or_null(mechanism))
    refuse_recurrent("mechanism", "a recurrent one (cogwheel.attention takes this one)", std::string(mechanism));
  std::vector<std::string> known;
  for (const Mechanism& each : all_mechanisms())
    if (each.recurrent() != nullptr) known.emplace_back(each.description.name);
  refuse_recurrent("mechanism", expected_names(mechanism, known), std::string(mechanism));
}

void check_recurrent(const std::optional<at::Tensor>& query, const std::optional<at::Tensor>& key,
                     const at::Tensor& value) {
  if (query) {
    check_rank_and_type("query", *query, *query);
    if (query->sym_size(3) < 1) refuse_recurrent("query head_dim", "1 or more", size_text(query->sym_size(3)));
  }
  if (key) {
    check_rank_and_type("key", *key, *query);
    check_device_of_query("key", *key, *query);
    check_recurrent_sizes("key", *key, query->sym_sizes());
  }
  check_rank_and_type("value", value, query.value_or(value));
  check_device_of_query("value", value, query.value_or(value));
  if (value.sym_size(3) < 1) refuse_recurrent("value width", "1 or more", size_text(value.sym_size(3)));
  if (query)
    check_recurrent_sizes("value", value,
                          {query->sym_size(0), query->sym_size(1), query->sym_size(2), value.sym_size(3)});
}

void check_head_dim(const at::Tensor& query) {
  if (query.dim() == 4 && query.sym_size(3) > max_key_width)
    refuse_recurrent("query head_dim", "1 to " + std::to_string(max_key_width), size_text(query.sym_size(3)));
}

std::string_view chosen_axes(std::string_view axes, std::int64_t dimensions) {
  for (std::string_view rest = axes; !rest.empty();) {
    const std::size_t end = std::min(rest.find('|'), rest.size());
    if (static_cast<std::int64_t>(end) == dimensions) return rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return axes.substr(0, axes.find('|'));
}

void check_recurrent_axes(std::string_view name, const at::Tensor& tensor, const at::Tensor& query,
                          const at::Tensor& value, std::string_view axes, std::optional<c10::SymInt> slots,
                          std::string_view like) {
  check_dense(name, tensor);
  const at::ScalarType type = tensor.scalar_type();
  if (type != query.scalar_type() && type != computed_type(query))
    refuse_dtype(of_recurrent(name), tensor, query, like);
  if (tensor.device() != query.device()) refuse_device(of_recurrent(name), tensor, query, like);
  check_recurrent_sizes(name, tensor, sizes_of(chosen_axes(axes, tensor.dim()), query, value, tensor, slots));
}

void check_computed(std::string_view name, const at::Tensor& tensor) {
  if (computed_type(tensor) != tensor.scalar_type())
    refuse_recurrent(std::string(name) + " dtype", "float32 or float64", c10::toString(tensor.scalar_type()));
}

void check_recurrent_state(std::string_view name, const at::Tensor& state, const at::Tensor& query,
                           c10::SymIntArrayRef sizes) {
  check_dense(name, state);
  if (state.scalar_type() != computed_type(query))
    refuse_recurrent(std::string(name) + " dtype", c10::toString(computed_type(query)),
                     c10::toString(state.scalar_type()));
  check_device_of_query(name, state, query);
  check_recurrent_sizes(name, state, sizes);
}

void check_sequence_bounds(const at::Tensor& cu_seqlens_, std::int64_t tokens) {
  const at::Tensor cu_seqlens = cu_seqlens_.to(at::kLong).contiguous();
  const auto* ends = cu_seqlens.const_data_ptr<std::int64_t>();
  const std::int64_t last = cu_seqlens.numel() - 1;
  if (ends[0] != 0) refuse_recurrent("cu_seqlens", "0 first", std::to_string(ends[0]));
  for (std::int64_t i = 0; i < last; ++i)
    if (ends[i + 1] < ends[i])
      refuse_recurrent("cu_seqlens", "numbers that do not decrease",
                       std::to_string(ends[i + 1]) + " after " + std::to_string(ends[i]));
  if (ends[last] != tokens)
    refuse_recurrent("cu_seqlens", std::to_string(tokens) + " last (as query)", std::to_string(ends[last]));
}

void check_sequences(const at::Tensor& cu_seqlens, const at::Tensor& query) {
  if (cu_seqlens.scalar_type() != at::kInt && cu_seqlens.scalar_type() != at::kLong)
    refuse_recurrent("cu_seqlens dtype", "int32 or int64", c10::toString(cu_seqlens.scalar_type()));
  if (cu_seqlens.dim() != 1 || cu_seqlens.sym_size(0) < 2)
    refuse_recurrent("cu_seqlens", "[sequences + 1], at least 2 numbers", shape_text(cu_seqlens));
  if (query.sym_size(0) != 1) refuse_recurrent("query batch", "1 beside cu_seqlens", size_text(query.sym_size(0)));
  if (has_data(cu_seqlens)) check_sequence_bounds(cu_seqlens, query.size(2));
}

void check_recurrent_values(std::string_view name, const at::Tensor& tensor, Values values) {
  if (values == Values::any || !has_data(tensor)) return;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "cogwheel::recurrent", [&] {
    const at::Tensor numbers = tensor.contiguous();
    const scalar_t *begin = numbers.const_data_ptr<scalar_t>(), *end = begin + numbers.numel();
    const scalar_t* refused = first_refused(begin, end, values);
    if (refused == end) return;
    std::ostringstream got;
    got << *refused;
    const auto number = static_cast<double>(*refused);
    const bool infinite = std::isinf(number) && (values == Values::below_0) == (number < 0);
    refuse_recurrent(name, infinite ? "finite values" : expected_of(values), got.str());
  });
}

}  // namespace cogwheel::ops
