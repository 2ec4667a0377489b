#include "cogwheel/ops/bfloat16_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cogwheel/ops/layers/matrix_product_library.h"

namespace cogwheel::ops {
namespace {

struct Place {
  std::string_view name;
  BFloat16Product (*chosen)();
  std::vector<ProductRate> (*measure)();
  void (*choose)(std::string_view product, std::string reason);
};
const Place places[] = {
    {"attention",
     [] {
       return BFloat16Product{"attention", product_choice().product, product_choice().reason};
     },
     measure_products, choose_product},
    {"layers",
     [] {
       return BFloat16Product{"layers", layer_product_choice().product, layer_product_choice().reason};
     },
     measure_layer_products, choose_layer_product},
};

}  // namespace

std::vector<BFloat16Product> bfloat16_products() {
  std::vector<BFloat16Product> products;
  for (const Place& place : places) products.push_back(place.chosen());
  return products;
}

std::string bfloat16_products_text() {
  std::string text;
  for (const BFloat16Product& each : bfloat16_products())
    text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", each.product, each.where);
  return text;
}

std::vector<MeasuredProducts> measured_products() {
  std::vector<MeasuredProducts> all;
  for (const Place& place : places) all.push_back({place.chosen(), place.measure()});
  return all;
}

std::string measured_products_json() {
  auto all = nlohmann::ordered_json::array();
  for (const auto& [chosen, rates] : measured_products()) {
    auto flops = nlohmann::ordered_json::object();
    for (const ProductRate& rate : rates) flops[std::string(rate.product)] = rate.flops;
    all.push_back({{"where", chosen.where}, {"product", chosen.product}, {"reason", chosen.reason}, {"flops", flops}});
  }
  return all.dump();
}

std::string note_of_product(std::string_view where, std::string_view product, std::span<const ProductRate> rates,
                            std::string_view otherwise) {
  const auto found =
      std::find_if(rates.begin(), rates.end(), [&](const ProductRate& rate) { return rate.product == product; });
  if (found == rates.end())
    return fmt::format(
        "{} multiplied bfloat16 by {}, which this process lacks: it goes on by {}, and the bits may differ "
        "from here on",
        where, product, otherwise);
  const ProductRate& fastest =
      *std::max_element(rates.begin(), rates.end(), [](const auto& a, const auto& b) { return a.flops < b.flops; });
  constexpr double far = 1.5;
  if (fastest.flops < far * found->flops) return {};
  return fmt::format(
      "{} multiplied bfloat16 by {}, and goes on so for the sake of its bits: here it is {:.1f} times slower "
      "than {} (COGWHEEL_PRODUCT decides otherwise)",
      where, product, fastest.flops / found->flops, fastest.product);
}

std::string take_product(std::string_view where, std::string_view product) {
  const auto place =
      std::find_if(std::begin(places), std::end(places), [&](const Place& each) { return each.name == where; });
  if (place == std::end(places)) return {};
  if (!forced_product().empty()) {
    const std::string_view here = place->chosen().product;
    if (here == product) return {};
    return fmt::format("{} multiplied bfloat16 by {}, COGWHEEL_PRODUCT asks for {}: the bits may differ from here on",
                       where, product, here);
  }
  const std::vector<ProductRate> rates = place->measure();
  const bool here = std::any_of(rates.begin(), rates.end(), [&](const auto& rate) { return rate.product == product; });
  if (here) place->choose(product, "that of the run that goes on");
  return note_of_product(where, product, rates, place->chosen().product);
}

}  // namespace cogwheel::ops
