// The format of Quick, Draw! (Ha and Eck 2017): one drawing in JSON a line.
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/tasks/handwriting/stroke_files.h"

namespace cogwheel::tasks::handwriting {

StrokeSequence parse_quick_draw(const std::string& json, const std::string& name, bool word_as_text) {
  std::vector<PenStroke> strokes;
  std::string text;
  try {
    const nlohmann::json line = nlohmann::json::parse(json);
    for (const nlohmann::json& stroke : line.at("drawing")) {
      const nlohmann::json &xs = stroke.at(0), &ys = stroke.at(1);
      if (!xs.is_array() || !ys.is_array() || xs.size() != ys.size())
        throw Error(expected_got(name, "as many x as y in each stroke",
                                 std::to_string(xs.size()) + " and " + std::to_string(ys.size())));
      strokes.emplace_back();
      for (std::size_t index = 0; index < xs.size(); ++index)
        strokes.back().push_back({xs[index].get<double>(), ys[index].get<double>()});
    }
    if (word_as_text) text = line.at("word").get<std::string>();
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(
        expected_got(name, "a drawing in JSON", "what is none from byte " + std::to_string(error.byte) + " on"));
  } catch (const nlohmann::json::exception&) {
    throw Error(expected_got(
        name,
        std::string("\"drawing\", a list of strokes [[x, …], [y, …], …]") + (word_as_text ? ", and \"word\"" : ""),
        "another form"));
  }
  StrokeSequence sequence = sequence_of(strokes, name);
  sequence.text = std::move(text);
  return sequence;
}

}  // namespace cogwheel::tasks::handwriting
