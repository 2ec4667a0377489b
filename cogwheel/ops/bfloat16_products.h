// How a process multiplies bfloat16 numbers, in attention and in layers: for `cogwheel list kernels`, for Python, and
// as a part of what the bits of a run depend on.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cogwheel/attention/kernels/pairwise/product_choice.h"

namespace cogwheel::ops {

// Of attention's kernels (product_choice.h) or of layers (layers/matrix_product_library.h).
struct BFloat16Product {
  std::string_view where;    // "attention" or "layers"
  std::string_view product;  // "pairs", "amx" or "widened"; of layers "native" or "widened"
  std::string_view reason;   // why it is chosen
};

// Both, in that order; measures what has not been chosen yet.
std::vector<BFloat16Product> bfloat16_products();

// "pairs in attention, native in layers".
std::string bfloat16_products_text();

// With the rates of all that this machine has, measured now.
struct MeasuredProducts {
  BFloat16Product chosen;
  std::vector<ProductRate> rates;
};
std::vector<MeasuredProducts> measured_products();

// The same as JSON: [{"where": …, "product": …, "reason": …, "flops": {product: rate, …}}, …].
std::string measured_products_json();

// Takes a product again that another process chose, for a run that goes on where that one stopped. Returns a line that
// says what happens where this is not possible, or where another product is far faster here; else nothing.
std::string take_product(std::string_view where, std::string_view product);

// That line, without COGWHEEL_PRODUCT, given the rates of what this process has; it takes `otherwise` if not `product`.
std::string note_of_product(std::string_view where, std::string_view product, std::span<const ProductRate> rates,
                            std::string_view otherwise);

}  // namespace cogwheel::ops
