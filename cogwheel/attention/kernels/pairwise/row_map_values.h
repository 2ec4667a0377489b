// A row map element by element: f, g and N with their derivatives of up to second order, on plain numbers. Second
// derivatives of attention are composed of these; the fused kernels do not use them.
#pragma once
#include <cstdint>
#include <string_view>

namespace cogwheel {

// terms: f and g of a score. normalizer: N of a row total. energy: of a score, its exponent, whose row maximum is the
// shift, and the value at which that maximum starts; both 0 for a map without an energy. The energy has no derivatives,
// as the shift is a constant to them.
enum class RowMapFunction { terms, normalizer, energy };

// terms and energy have two values, normalizer one.
constexpr int channels_of(RowMapFunction function) { return function == RowMapFunction::normalizer ? 1 : 2; }

inline constexpr int max_derivative_order = 2;

// `count` elements of one head. The variables are the argument and then the map's P scalars, K = 1 + P of them; the
// channels are the values of the function. The derivative of channel c along variables i, j of element x is written to
// out[((c·K + i)·K + j)·channel_stride + x], with as many indices as the order says.
template <class T>
struct RowMapElements {
  RowMapFunction function = RowMapFunction::terms;
  int order = 0;  // 0 to max_derivative_order; of the energy 0
  std::int64_t count = 0;
  const T *argument = nullptr, *shift = nullptr, *visible = nullptr;
  std::int64_t shift_stride = 0, visible_stride = 0;  // from element to element
  const double* theta = nullptr;                      // [P]
  T* out = nullptr;
  std::int64_t channel_stride = 0;
};

template <class T>
struct RowMapValues {
  std::string_view mechanism;
  int variables;  // K
  void (*evaluate)(const RowMapElements<T>& elements);
};

// T is float or double. Throws UsageError: "no kernel for …".
template <class T>
const RowMapValues<T>& row_map_values(std::string_view mechanism);

// Adds a user's row map, in both types. Any thread may call; if the name has values already, they stay.
void add_row_map_values(std::string_view mechanism, const RowMapValues<float>& of_float,
                        const RowMapValues<double>& of_double);

}  // namespace cogwheel
