#include "cogwheel/runs/inspection_json.h"

#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/runs/shown_figure.h"

namespace cogwheel::runs {

using Json = nlohmann::ordered_json;

std::string inspection_to_json(const Inspection& inspection) {
  Json maps = Json::array();
  for (const auto& layer : inspection.maps) {
    Json heads = Json::array();
    for (const AttentionMap& map : layer) heads.push_back(map.weights);
    maps.push_back(std::move(heads));
  }
  Json json{{"mechanism", inspection.mechanism}, {"seed", inspection.seed},     {"tokens", inspection.tokens},
            {"prompt", inspection.prompt},       {"sample", inspection.sample}, {"maps", std::move(maps)}};
  if (inspection.whole_maps) json["whole_maps"] = true;
  for (const pages::TextTable& table : inspection.tables)
    json["tables"].push_back({{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}});
  for (const ShownFigure& figure : inspection.figures) json["figures"].push_back(figure_to_json(figure));
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Inspection parse_inspection(std::string_view text, std::string_view what) {
  try {
    const Json json = Json::parse(text);
    Inspection inspection{.mechanism = json.at("mechanism"),
                          .seed = json.at("seed"),
                          .tokens = json.at("tokens"),
                          .maps = {},
                          .prompt = json.at("prompt"),
                          .sample = json.at("sample")};
    inspection.whole_maps = json.value("whole_maps", false);
    const std::size_t cells = inspection.tokens.size() * inspection.tokens.size();
    for (const Json& layer : json.at("maps")) {
      inspection.maps.emplace_back();
      for (const Json& head : layer) {
        inspection.maps.back().push_back({head.get<std::vector<float>>()});
        if (inspection.maps.back().back().weights.size() != cells)
          throw Error(expected_got(what, std::to_string(cells) + " weights in a map", std::to_string(head.size())));
      }
    }
    if (json.contains("tables"))
      for (const Json& table : json.at("tables")) {
        inspection.tables.push_back({table.at("title"), table.at("columns"), table.at("rows")});
        if (inspection.tables.back().columns.empty())
          throw Error(expected_got(what, "a column at least in a table", "none"));
        for (const auto& row : inspection.tables.back().rows)
          if (row.size() != inspection.tables.back().columns.size())
            throw Error(expected_got(what, std::to_string(inspection.tables.back().columns.size()) + " cells in a row",
                                     std::to_string(row.size())));
      }
    if (json.contains("figures"))
      for (const Json& figure : json.at("figures")) inspection.figures.push_back(figure_from_json(figure, what));
    return inspection;
  } catch (const nlohmann::json::exception& error) {
    throw Error(expected_got(what, "maps and a sample as JSON", error.what()));
  }
}

}  // namespace cogwheel::runs
