#include "cogwheel/tasks/translation/alignment_figure.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "cogwheel/core/error.h"
#include "cogwheel/pages/attention_map_code.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"

namespace cogwheel::tasks::translation {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* alignment_kind = "alignment";

const WordLink* link_at(const std::vector<WordLink>& links, std::int64_t source, std::int64_t target) {
  const auto found = std::find_if(links.begin(), links.end(),
                                  [&](const WordLink& link) { return link.source == source && link.target == target; });
  return found == links.end() ? nullptr : &*found;
}

std::string cell(const AlignmentFigure& figure, const AlignmentPanel& panel, std::size_t target, std::size_t source) {
  const float weight = panel.weights[target * figure.source.size() + source];
  const WordLink* link = link_at(panel.gold, static_cast<std::int64_t>(source), static_cast<std::int64_t>(target));
  std::string classes = link == nullptr ? "" : link->sure ? "gold" : "gold possible";
  if (!std::isfinite(weight)) classes += classes.empty() ? "none" : " none";
  std::string attributes = classes.empty() ? "" : fmt::format(" class=\"{}\"", classes);
  const int code = std::isfinite(weight) ? pages::weight_code(weight) : 0;
  if (code != 0) attributes += fmt::format(" style=\"--at:{:.1f}%\"", 50 + 50 * code / 127.0);
  const std::string value = std::isfinite(weight) ? pages::fixed(static_cast<double>(weight), 2) : "not a number";
  return fmt::format("<td{} title=\"{} ← {}: {}\">{}</td>", attributes, pages::escape_html(figure.target[target]),
                     pages::escape_html(figure.source[source]), value, value);
}

std::string panel_html(const AlignmentFigure& figure, const AlignmentPanel& panel) {
  if (panel.weights.size() != figure.source.size() * figure.target.size())
    throw std::logic_error(expected_got(
        "alignment figure: " + panel.title,
        fmt::format("{} weights, of {} target and {} source words", figure.source.size() * figure.target.size(),
                    figure.target.size(), figure.source.size()),
        std::to_string(panel.weights.size())));
  const std::string facts =
      panel.error_rate ? fmt::format(" <small>error rate {}</small>", pages::fixed(*panel.error_rate, 3)) : "";
  const std::string head = panel.title.empty() && facts.empty()
                               ? ""
                               : fmt::format("      <h3>{}{}</h3>\n", pages::escape_html(panel.title), facts);
  std::string columns, rows;
  for (const std::string& word : figure.source)
    columns += fmt::format("<th scope=\"col\"><span>{}</span></th>", pages::escape_html(word));
  for (std::size_t target = 0; target < figure.target.size(); ++target) {
    rows += fmt::format("        <tr><th scope=\"row\">{}</th>", pages::escape_html(figure.target[target]));
    for (std::size_t source = 0; source < figure.source.size(); ++source) rows += cell(figure, panel, target, source);
    rows += "</tr>\n";
  }
  return pages::fill_template(
      pages::embedded::alignment_html,
      {{"head", head}, {"words", std::to_string(figure.source.size())}, {"columns", columns}, {"rows", rows}});
}

AlignmentFigure alignment_from(const Json& json, std::string_view what) {
  AlignmentFigure figure{
      .caption = json.at("caption"), .source = json.at("source"), .target = json.at("target"), .panels = {}};
  for (const Json& each : json.at("panels")) {
    AlignmentPanel panel{
        .title = each.at("title"), .weights = runs::numbers_from_json(each.at("weights")), .error_rate = {}};
    runs::expect_count(what, "weights of an alignment", figure.source.size() * figure.target.size(),
                       panel.weights.size());
    for (const Json& link : each.at("gold"))
      panel.gold.push_back({.source = link.at(0), .target = link.at(1), .sure = link.at(2)});
    if (const Json& rate = each.at("error_rate"); !rate.is_null()) panel.error_rate = rate.get<double>();
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

}  // namespace

AlignmentPanel gold_panel(std::string title, const std::vector<WordLink>& gold, std::size_t targets,
                          std::size_t sources) {
  AlignmentPanel panel{.title = std::move(title), .weights = std::vector<float>(targets * sources), .error_rate = {}};
  for (const WordLink& link : gold)
    panel.weights.at(static_cast<std::size_t>(link.target) * sources + static_cast<std::size_t>(link.source)) =
        link.sure ? 1.0F : 0.25F;
  return panel;
}

std::string alignment_html(const AlignmentFigure& figure) {
  std::string panels;
  bool gold = false, possible = false;
  for (const AlignmentPanel& panel : figure.panels) {
    panels += panel_html(figure, panel);
    for (const WordLink& link : panel.gold) gold = true, possible |= !link.sure;
  }
  std::string marks = gold ? " Outlined: the words that belong together" : "";
  if (gold) marks += possible ? "; dotted, possibly." : ".";
  return pages::fill_template(pages::embedded::alignments_html,
                              {{"caption", pages::escape_html(figure.caption)}, {"panels", panels}, {"marks", marks}});
}

pages::Figure drawn_figure(const AlignmentFigure& figure, const std::string& title) {
  return {.title = title, .html = alignment_html(figure)};
}

Json figure_json(const AlignmentFigure& figure) {
  Json panels = Json::array();
  for (const AlignmentPanel& panel : figure.panels) {
    Json gold = Json::array();
    for (const WordLink& link : panel.gold) gold.push_back({link.source, link.target, link.sure});
    panels.push_back({{"title", panel.title},
                      {"weights", runs::numbers_as_json(panel.weights)},
                      {"gold", std::move(gold)},
                      {"error_rate", panel.error_rate ? Json(*panel.error_rate) : Json()}});
  }
  return {{"kind", alignment_kind},
          {"source", figure.source},
          {"target", figure.target},
          {"panels", std::move(panels)},
          {"caption", figure.caption}};
}

runs::FigureKind alignment_figure() {
  return {alignment_kind, [](const Json& json, const std::string& title, std::string_view what) {
            return runs::ShownFigure(title, alignment_from(json, what));
          }};
}

}  // namespace cogwheel::tasks::translation
