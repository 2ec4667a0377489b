#include "cogwheel/runs/head_statistics_json.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace cogwheel::runs {
namespace {

// JSON has no NaN or infinity.
nlohmann::ordered_json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return std::strtod(text, nullptr);
}

}  // namespace

nlohmann::ordered_json heads_to_json(const nn::StatisticsOfHeads& heads) {
  auto json = nlohmann::ordered_json::object();
  for (const nn::HeadStatistic& statistic : nn::head_statistics) {
    const auto has = [&](const nn::HeadStatistics& head) { return !std::isnan(head.*statistic.member); };
    if (std::none_of(heads.begin(), heads.end(), [&](const auto& layer) { return std::ranges::any_of(layer, has); }))
      continue;
    auto layers = nlohmann::ordered_json::array();
    for (const auto& layer : heads) {
      auto numbers = nlohmann::ordered_json::array();
      for (const nn::HeadStatistics& head : layer) numbers.push_back(rounded(head.*statistic.member));
      layers.push_back(std::move(numbers));
    }
    json[std::string(statistic.name)] = std::move(layers);
  }
  return json;
}

nn::StatisticsOfHeads heads_from_json(const nlohmann::ordered_json& json) {
  nn::StatisticsOfHeads heads;
  for (const nn::HeadStatistic& statistic : nn::head_statistics) {
    const auto found = json.find(std::string(statistic.name));
    if (found == json.end()) continue;
    heads.resize(std::max(heads.size(), found->size()));
    for (std::size_t l = 0; l < found->size(); ++l) {
      heads[l].resize(std::max(heads[l].size(), found->at(l).size()));
      for (std::size_t h = 0; h < found->at(l).size(); ++h) {
        const auto& number = found->at(l).at(h);
        heads[l][h].*statistic.member = number.is_null() ? std::nan("") : number.get<double>();
      }
    }
  }
  return heads;
}

}  // namespace cogwheel::runs
