#include "cogwheel/attention/kernels/pairwise/product_choice.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "cogwheel/attention/kernels/cpu/pair_product.h"
#include "cogwheel/attention/kernels/isa.h"
#include "cogwheel/attention/kernels/pairwise/contiguous_problem.h"
#include "cogwheel/core/bfloat16.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/kept_choice.h"
#include "cogwheel/core/process/thread_time.h"

namespace cogwheel {
namespace {

// Causal attention of one head: scores and products with weights, each of two bfloat16 numbers, in both directions.
class Measured {
  static constexpr std::int64_t length = 512, width = 64;

 public:
  Measured() {
    std::uint32_t state = 1;
    for (auto* numbers : {&problem_.query, &problem_.key, &problem_.value, &problem_.output_gradient})
      for (BFloat16& number : *numbers) {
        state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator: any numbers will do
        number.bits = bfloat16_of(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
      }
    problem_.rest.visibility.rule = {.keys = length, .causal = true};
    problem_.rest.scale = 0.125f;
  }

  double seconds(const PairProduct* product) {
    problem_.rest.pair_product = product;
    const double begin = thread_seconds();
    kernel_.forward(problem_.forward(), SerialExecutor());
    kernel_.backward(problem_.backward(), SerialExecutor());
    return thread_seconds() - begin;
  }

  // Two products forward; backward the scores again, and four of gradients.
  static constexpr double flops = 7.0 * 2 * length * (length + 1) / 2 * width;

 private:
  ContiguousProblem<float, BFloat16> problem_{
      {.queries = length, .keys = length, .head_dim = width, .value_dim = width}};
  PairwiseKernel<float> kernel_ = pairwise_kernel<float>("cog");
};

const PairProduct* pairs_of(std::string_view product) {
  for (const PairProduct& each : pair_products())
    if (each.name == product) return &each;
  return nullptr;
}

bool is_intel() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// "widened or pairs (…)".
std::string text_of(const std::vector<std::string_view>& products) {
  std::string text;
  for (const std::string_view each : products) text.append(text.empty() ? "" : " or ").append(each);
  text += " (what this machine multiplies bfloat16 by";
  if (!forced_isa().empty()) text.append(" with COGWHEEL_ISA=").append(forced_isa());
  return text + ")";
}

ProductChoice choose() {
  const std::vector<std::string_view> here = products_of_machine();
  if (const std::string_view forced = forced_product(); !forced.empty()) {
    if (std::find(here.begin(), here.end(), forced) == here.end())
      throw UsageError(expected_got("COGWHEEL_PRODUCT", text_of(here), forced));
    return {forced, pairs_of(forced), "COGWHEEL_PRODUCT"};
  }
  if (here.size() == 1) return {here.front(), pairs_of(here.front()), "this machine has no other"};
  const BestProduct best = best_product(measure_products());
  return {best.product, pairs_of(best.product), std::string(best.reason)};
}

KeptChoice<ProductChoice> kept_product;

}  // namespace

std::string_view forced_product() {
  static const std::string name = [] {
    const char* const wanted = std::getenv("COGWHEEL_PRODUCT");
    return std::string(wanted == nullptr ? "" : wanted);
  }();
  return name;
}

std::string_view usual_product() {
  const std::span<const PairProduct> pairs = pair_products();
  // Intel's processors without tiles were measured to widen faster, AMD's to be slower at it.
  if (pairs.empty() || (pairs.back().name == "pairs" && is_intel())) return widened;
  return pairs.back().name;
}

std::vector<std::string_view> products_of_machine() {
  std::vector<std::string_view> all{widened};
  if (!forced_isa().empty() || chosen_isa() != "avx512") return all;
  for (const PairProduct& each : pair_products()) all.push_back(each.name);
  std::stable_partition(all.begin(), all.end(), [](std::string_view product) { return product == usual_product(); });
  return all;
}

std::vector<ProductRate> measure_products() {
  Measured measured;
  return rates_in_turns(products_of_machine(), Measured::flops,
                        [&](std::string_view product) { return measured.seconds(pairs_of(product)); });
}

std::vector<ProductRate> rates_in_turns(const std::vector<std::string_view>& products, double flops,
                                        const std::function<double(std::string_view product)>& seconds) {
  constexpr int turns = 5, most_turns = 25;
  std::vector<ProductRate> rates;
  for (const std::string_view product : products) rates.push_back({product, 0});
  const auto is_usual = [&] { return best_product(rates).product == products.front(); };
  for (int turn = 0; turn < turns || (turn < most_turns && !is_usual()); ++turn)
    for (ProductRate& rate : rates) rate.flops = std::max(rate.flops, flops / seconds(rate.product));
  return rates;
}

BestProduct best_product(std::span<const ProductRate> rates) {
  constexpr double margin = 1.1;
  const auto fastest =
      std::max_element(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  if (fastest->flops > margin * rates.front().flops) return {fastest->product, "measured to be faster here"};
  return {rates.front().product, "usual for this kind of machine; none is faster by a tenth"};
}

const ProductChoice& product_choice() { return kept_product.get_or(choose); }

void choose_product(std::string_view product, std::string reason) {
  if (!forced_product().empty()) return;
  const auto here = products_of_machine();
  const auto found = std::find(here.begin(), here.end(), product);
  if (found == here.end()) throw UsageError(expected_got("product", text_of(here), product));
  kept_product.set({*found, pairs_of(*found), std::move(reason)});
}

const PairProduct* chosen_pair_product() { return product_choice().pairs; }

}  // namespace cogwheel
