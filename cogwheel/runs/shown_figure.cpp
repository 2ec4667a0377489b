#include "cogwheel/runs/shown_figure.h"

#include <cmath>
#include <limits>

#include "cogwheel/core/error.h"

namespace cogwheel::runs {

using Json = nlohmann::ordered_json;

pages::Figure drawn_figure(const ShownFigure& figure) { return figure.content_->drawn(figure.title_); }

Json figure_to_json(const ShownFigure& figure) {
  Json json = figure.content_->json();
  json["title"] = figure.title_;
  return json;
}

ShownFigure figure_from_json(const Json& json, std::string_view what) {
  const std::string kind = json.at("kind"), title = json.at("title");
  std::string known;
  for (const FigureKind& each : figure_kinds()) {
    if (each.name == kind) return each.read(json, title, what);
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  throw Error(expected_got(what, "a figure that is one of " + known, kind));
}

Json numbers_as_json(const std::vector<float>& numbers) {
  Json json = Json::array();
  for (const float number : numbers) json.push_back(std::isfinite(number) ? Json(number) : Json());
  return json;
}

std::vector<float> numbers_from_json(const Json& json) {
  std::vector<float> numbers;
  for (const Json& each : json)
    numbers.push_back(each.is_null() ? std::numeric_limits<float>::quiet_NaN() : each.get<float>());
  return numbers;
}

void expect_count(std::string_view what, std::string_view of, std::size_t expected, std::size_t got) {
  if (expected != got)
    throw Error(expected_got(what, std::to_string(expected) + " " + std::string(of), std::to_string(got)));
}

}  // namespace cogwheel::runs
