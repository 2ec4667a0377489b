// How this process multiplies bfloat16 numbers: by which product, chosen by how fast attention runs with it here.
//
// What a processor says it has does not tell. Some multiply pairs of bfloat16 (AVX512-BF16) at half the rate at which
// they multiply float32, so that widening is faster; with tiles (AMX) widening is far behind. Each product adds in an
// order of its own, and the bits of a run depend on it: one choice serves all directions and all calls.
//
// Machines of one kind must choose alike, whatever else they do meanwhile: the usual product of their kind is chosen
// unless another is ahead by a tenth.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cogwheel {

struct PairProduct;  // cpu/pair_product.h

// float32 products of numbers that are widened as they are read. Every machine has it; others are PairProduct::name.
inline constexpr std::string_view widened = "widened";

struct ProductRate {
  std::string_view product;
  double flops;  // a second of one thread, of attention forward and backward
};

struct ProductChoice {
  std::string_view product = widened;
  const PairProduct* pairs = nullptr;  // null for widened
  std::string reason;
};

// The choice, made and remembered at the first call, which measures for some ten milliseconds where this machine has
// several products; or that of the environment's COGWHEEL_PRODUCT. Throws UsageError where that names none of this
// machine's products.
const ProductChoice& product_choice();

// Chooses for the rest of the process, as a run does that continues one; COGWHEEL_PRODUCT still decides. The product is
// one of products_of_machine(). Not while a kernel runs, nor between a forward pass and its backward.
void choose_product(std::string_view product, std::string reason);

// What machines of this kind multiply fastest by, as far as known.
std::string_view usual_product();

// What this machine has, given the instruction set of the process, the usual one first.
std::vector<std::string_view> products_of_machine();

// Measures them, in that order, by the processor time of this thread.
std::vector<ProductRate> measure_products();

// The rate of each: `flops` of a call over the seconds of the best of several, taking turns; of many, while another
// than the first is ahead by a tenth, which on a busy machine may be chance.
std::vector<ProductRate> rates_in_turns(const std::vector<std::string_view>& products, double flops,
                                        const std::function<double(std::string_view product)>& seconds);

// The fastest, if it is ahead of the first by a tenth; else the first. `reason` says which.
struct BestProduct {
  std::string_view product, reason;
};
BestProduct best_product(std::span<const ProductRate> rates);

// COGWHEEL_PRODUCT as of the first call; empty if it is not set.
std::string_view forced_product();

}  // namespace cogwheel
