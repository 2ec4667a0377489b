#include "cogwheel/compare/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>

#include "cogwheel/attention/mechanisms/layer_pattern.h"
#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/compare/report/sections.h"
#include "cogwheel/compare/report/task_tables.h"
#include "cogwheel/pages/attention_map_code.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/page_scripts.h"
#include "cogwheel/runs/shown_figure.h"

namespace cogwheel::compare {
namespace {

using Json = nlohmann::ordered_json;

// A note for readers of a mechanism's maps.
std::string map_note(const Comparison& comparison, const MechanismPlan& plan) {
  std::string note;
  if (ties_keys(plan.mechanism())) note = "Keys are tied to queries, so the diagonal is strong.";
  for (const std::string& name : names_of_pattern(plan.mechanism())) {
    const Mechanism* mechanism = mechanism_or_null(name);
    if (mechanism != nullptr && mechanism->recurrent() != nullptr)
      note = "What a state makes of values, as if it were weights of them.";
  }
  const MechanismPlan* base = comparison.plan(comparison.base_of(plan.name));
  if (plan.heads * 2 == base->heads && comparison.match == "parameters")
    note = "Half as many heads of double width, so that parameters match.";
  return note;
}

Json maps_json(const Comparison& comparison, const std::vector<const runs::Inspection*>& inspections) {
  Json heads = Json::object(), notes = Json::object();
  for (const runs::Inspection* inspection : inspections) {
    Json layers = Json::array();
    for (const auto& layer : inspection->maps) {
      Json codes = Json::array();
      for (const runs::AttentionMap& map : layer)
        codes.push_back(pages::encode_attention_map(map.weights, static_cast<std::int64_t>(inspection->tokens.size()),
                                                    inspection->whole_maps));
      layers.push_back(std::move(codes));
    }
    heads[std::to_string(inspection->seed)][inspection->mechanism] = std::move(layers);
  }
  for (const MechanismPlan& plan : comparison.mechanisms) notes[plan.name] = map_note(comparison, plan);
  const bool whole = inspections.front()->whole_maps;
  return {{"tokens", inspections.front()->tokens},
          {"whole", whole},
          {"coding",
           std::string("int8 of sign(a)*sqrt(|a|)*127, ") + (whole ? "" : "lower triangle, ") + "row by row, base64"},
          {"notes", notes},
          {"heads", heads}};
}

bool of_images(const Comparison& comparison) { return comparison.task.item == "image"; }

// What attends in a map: items of a text, but patches of an image and tokens of a sentence, which is the item itself.
std::string attending_item(const Comparison& comparison) {
  if (of_images(comparison)) return "patch";
  return comparison.task.counted == "tokens" ? comparison.data.item() : "token";
}

// What patterns of a map mean, by what it is of.
std::string hints_html(const Comparison& comparison, const runs::Inspection& inspection) {
  const std::string item = attending_item(comparison);
  std::vector<std::pair<std::string, std::string>> hints{
      {"Vertical stripe", "a " + item + " that every query attends to; at the left edge, a sink"}};
  if (of_images(comparison)) {
    hints.emplace_back("Diagonal", "the patch itself; beside it, its neighbours in the row");
    hints.emplace_back("Lines parallel to it", "a patch above or below");
    hints.emplace_back("Scattered dots", "matches of content, such as the same colour");
    hints.emplace_back("2,3", "the patch in row 2 and column 3");
  } else {
    const bool letters = item == "character" || item == "byte";
    hints.emplace_back("Diagonal", inspection.whole_maps ? "the " + item + " itself, or a fixed distance from it"
                                                         : std::string("a fixed distance back"));
    if (letters) hints.emplace_back("Steps", "the word so far");
    hints.emplace_back("Scattered dots",
                       "matches of content, such as the same " + std::string(letters ? "letter" : item));
  }
  std::string html;
  for (const auto& [what, meaning] : hints)
    html += fmt::format("        <div><dt>{}</dt><dd>{}</dd></div>\n", pages::escape_html(what),
                        pages::escape_html(meaning));
  return html;
}

std::string data_json(const Comparison& comparison, const std::vector<const runs::Inspection*>& inspections) {
  Json labels = Json::object(), series = Json::object(), bases = Json::object();
  for (const MechanismPlan& plan : comparison.mechanisms) {
    labels[plan.name] = plan.title;
    bases[plan.name] = comparison.base_of(plan.name);
    series[plan.name] = series_property(comparison, plan.name);
  }
  Json data{{"results", results_as_json(comparison)},
            {"labels", labels},
            {"series", series},
            {"bases", bases},
            {"item", attending_item(comparison)},
            {"measure", comparison.task.decisive().name},
            {"downloads", {{"csv", results_to_csv(comparison)}, {"tex", results_to_latex(comparison)}}}};
  if (!inspections.empty()) data["maps"] = maps_json(comparison, inspections);
  return pages::escape_script_json(data.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string samples_html(const Comparison& comparison, const std::vector<const runs::Inspection*>& inspections) {
  if (inspections.empty()) return "";
  std::string figures;
  const std::int64_t seed = inspections.front()->seed;
  for (const runs::Inspection* inspection : inspections) {
    if (inspection->seed != seed) continue;
    // HTML drops a line break right after <pre>: the one before <b>.
    figures += pages::fill_template(pages::embedded::sample_html,
                                    {{"series", series_property(comparison, inspection->mechanism)},
                                     {"title", pages::escape_html(comparison.plan(inspection->mechanism)->title)},
                                     {"prompt", pages::escape_html(inspection->prompt)},
                                     {"sample", pages::escape_html(inspection->sample)}});
  }
  if (figures.empty()) return "";
  return pages::fill_template(pages::embedded::samples_html,
                              {{"seed", std::to_string(seed)},
                               {"sampling", pages::escape_html(comparison.task.sampling)},
                               {"figures", figures}});
}

// The figures of each mechanism's model of the first seed.
std::string shown_html(const Comparison& comparison, const std::vector<const runs::Inspection*>& inspections) {
  if (inspections.empty()) return "";
  std::string figures;
  const std::int64_t seed = inspections.front()->seed;
  for (const runs::Inspection* inspection : inspections) {
    if (inspection->seed != seed) continue;
    for (const runs::ShownFigure& shown : inspection->figures) {
      const pages::Figure figure = runs::drawn_figure(shown);
      figures += fmt::format(
          "    <figure class=\"exhibit\" style=\"--series:var({})\"><h3><span class=\"series\">{}</span>: {}</h3>\n"
          "{}\n<figcaption>{}</figcaption></figure>\n",
          series_property(comparison, inspection->mechanism),
          pages::escape_html(comparison.plan(inspection->mechanism)->title), pages::escape_html(figure.title),
          figure.html, pages::escape_html(figure.caption));
    }
  }
  return pages::fill_template(pages::embedded::shown_html, {{"seed", std::to_string(seed)},
                                                            {"sampling", pages::escape_html(comparison.task.sampling)},
                                                            {"figures", figures}});
}

std::string curves_lead(const Comparison& comparison) {
  const auto seeds = comparison.settings.seeds.size();
  const runs::DataFacts& data = comparison.data;
  const std::string lines = seeds == 1 ? "One seed, so no band."
                                       : fmt::format("Line: mean of {} seeds; band: lowest to highest seed.", seeds);
  if (data.curve_tokens >= data.evaluated_tokens) return lines;
  return lines + fmt::format(
                     " {} is here that of {} {}s among the {} of the table, the same for every run, "
                     "so that ends differ a little from it.",
                     pages::escape_html(pages::capitalised(comparison.task.decisive().title)),
                     pages::grouped(data.curve_tokens), pages::escape_html(data.item()),
                     pages::grouped(data.evaluated_tokens));
}

// Those of mechanisms in the comparison that have what is asked for, ordered by seed and then as the mechanisms are.
template <class Has>
std::vector<const runs::Inspection*> those_with(const Comparison& comparison,
                                                const std::vector<runs::Inspection>& inspections, Has has) {
  std::vector<const runs::Inspection*> found;
  for (const std::int64_t seed : comparison.settings.seeds)
    for (const MechanismPlan& plan : comparison.mechanisms)
      for (const runs::Inspection& inspection : inspections)
        if (inspection.seed == seed && inspection.mechanism == plan.name && has(inspection))
          found.push_back(&inspection);
  return found;
}

// Maps of one passage.
std::vector<const runs::Inspection*> those_with_maps(const Comparison& comparison,
                                                     const std::vector<runs::Inspection>& inspections) {
  const std::vector<std::string>* tokens = nullptr;
  return those_with(comparison, inspections, [&](const runs::Inspection& inspection) {
    if (inspection.maps.empty() || (tokens != nullptr && inspection.tokens != *tokens)) return false;
    tokens = &inspection.tokens;
    return true;
  });
}

std::string contents_html(bool widths, bool tuning, bool curves, bool dynamics, bool heads, bool figures, bool samples,
                          const std::vector<TaskTable>& tables) {
  std::string html;
  const auto add = [&](std::string_view id, std::string_view name) {
    html += fmt::format("    <li><a href=\"#{}\">{}</a></li>\n", id, name);
  };
  add("result", "Result");
  if (widths) add("task-table-sizes", "Sizes");
  if (tuning) add("tuning", "Learning rates");
  if (curves) add("curves", "Curves");
  if (dynamics) add("dynamics", "Heads over training");
  if (heads) add("heads", "Heads");
  for (std::size_t index = 0; index < tables.size(); ++index)
    add("task-table-" + std::to_string(index), pages::escape_html(tables[index].title));
  if (figures) add("shown", "What the models make");
  if (samples) add("samples", "Samples");
  add("limits", "What this cannot tell");
  add("reproduce", "Reproduce");
  return html;
}

std::string reproduce_lead(const Comparison& comparison) {
  if (comparison.match == "time")
    return "The steps follow from rates measured on this machine, so elsewhere they differ.";
  if (comparison.machine.device != "cpu")
    return pages::escape_html("The same numbers but for rounding: " + comparison.machine.device +
                              " may add in another order each time.");
  return "The same numbers, bit for bit, on the same CPU type with the same number of threads.";
}

// One option per line, so that a long command is readable.
std::string command_html(const std::string& command) {
  std::string text = command;
  for (std::size_t place = text.find(" --"); place != std::string::npos; place = text.find(" --", place + 5))
    text.replace(place, 1, " \\\n  ");
  return pages::escape_html(text);
}

}  // namespace

std::string title_of(const Comparison& comparison) {
  const std::size_t widths = std::max<std::size_t>(1, comparison.settings.widths.size()),
                    count = comparison.mechanisms.size() / widths;
  std::string word = pages::number_word(static_cast<std::int64_t>(count));
  word.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(word.front())));
  const bool variants = std::any_of(comparison.mechanisms.begin(), comparison.mechanisms.end(),
                                    [](const MechanismPlan& plan) { return !plan.is_mechanism(); });
  const std::string what = variants ? " variant" : " attention mechanism";
  const std::string sizes =
      widths == 1 ? "" : " at " + pages::number_word(static_cast<std::int64_t>(widths)) + " widths";
  return word + what + (count == 1 ? sizes : "s" + sizes + " under one budget");
}

std::string verdict_html(const Comparison& comparison) {
  std::string html;
  for (const VerdictPart& part : verdict_parts(comparison))
    html += part.mechanism.empty()
                ? pages::escape_html(pages::with_powers(part.text))
                : fmt::format("<span class=\"series\" style=\"--series:var({})\">{}</span>",
                              series_property(comparison, part.mechanism), pages::escape_html(part.text));
  return html;
}

std::string chart_js_version() {
  const std::string_view marker = "Chart.js v";
  const std::size_t place = pages::embedded::chart_js.find(marker);
  if (place == std::string_view::npos) return "of an unknown version";
  const std::size_t start = place + marker.size();
  const std::size_t end = pages::embedded::chart_js.find_first_not_of("0123456789.", start);
  return std::string(pages::embedded::chart_js.substr(start, end - start));
}

std::string report_page(const Comparison& comparison, const std::vector<runs::Inspection>& inspections) {
  const std::vector<const runs::Inspection*> with_maps = those_with_maps(comparison, inspections);
  const std::vector<TaskTable> tables = task_tables(
      comparison, those_with(comparison, inspections,
                             [](const runs::Inspection& inspection) { return !inspection.tables.empty(); }));
  const auto with_samples = those_with(comparison, inspections,
                                       [](const runs::Inspection& inspection) { return !inspection.sample.empty(); });
  const auto with_figures = those_with(comparison, inspections,
                                       [](const runs::Inspection& inspection) { return !inspection.figures.empty(); });
  const bool curves = std::any_of(comparison.runs.begin(), comparison.runs.end(),
                                  [](const RunResult& run) { return run.curve.size() > 1; });
  const bool dynamics = std::any_of(comparison.runs.begin(), comparison.runs.end(), [](const RunResult& run) {
    return std::count_if(run.curve.begin(), run.curve.end(),
                         [](const CurvePoint& point) { return !point.heads.empty(); }) > 1;
  });
  const runs::Measure& measure = comparison.task.decisive();
  const auto section = [&](std::string_view text) {
    return pages::fill_template(text, [&](std::string_view name) -> std::string {
      if (name == "item") return pages::escape_html(attending_item(comparison));
      if (name == "hints") return hints_html(comparison, *with_maps.front());
      if (name == "hidden")
        return with_maps.front()->whole_maps
                   ? ""
                   : pages::escape_html(" Grey: later " + attending_item(comparison) + "s, not visible.");
      if (name == "unit") return pages::escape_html(measure.unit);
      if (name == "measure") return pages::escape_html(pages::capitalised(measure.title));
      if (name == "label") return pages::escape_html(pages::capitalised(measure.label));
      if (name == "lead") return curves_lead(comparison);
      return pages::escape_html(baseline_in_sentence(comparison));
    });
  };
  pages::PageScripts scripts;
  scripts.add(pages::embedded::chart_js);
  scripts.add(pages::fill_template(pages::embedded::report_page_js,
                                   {{"page_js", std::string(pages::embedded::page_js)},
                                    {"report_js", std::string(pages::embedded::report_js)},
                                    {"curves_js", std::string(pages::embedded::curves_js)},
                                    {"dynamics_js", std::string(pages::embedded::dynamics_js)},
                                    {"attention_maps_js", std::string(pages::embedded::attention_maps_js)},
                                    {"heads_js", std::string(pages::embedded::heads_js)}}));
  const std::map<std::string_view, std::string> values{
      {"generator", pages::escape_html("Cogwheel " + comparison.versions.cogwheel)},
      {"created", pages::escape_html(comparison.created)},
      {"date", pages::escape_html(pages::date_text(comparison.created))},
      {"title", pages::escape_html(title_of(comparison))},
      {"verdict", verdict_html(comparison)},
      {"verdict_text", pages::escape_html(pages::with_powers(verdict(comparison)))},
      {"css", std::string(pages::embedded::report_css)},
      {"facts", facts_html(comparison)},
      {"contents", contents_html(!comparison.settings.widths.empty(), !comparison.tuning.empty(), curves, dynamics,
                                 !with_maps.empty(), !with_figures.empty(), !with_samples.empty(), tables)},
      {"result_lead", pages::escape_html(fmt::format("{}{}; {} is better.", pages::capitalised(measure.title),
                                                     measure.unit.empty() ? "" : " in " + measure.unit,
                                                     measure.lower_is_better ? "lower" : "higher"))},
      {"table", table_html(comparison)},
      {"notes", notes_html(comparison)},
      {"widths", widths_html(comparison)},
      {"tuning", tuning_html(comparison)},
      {"curves", curves ? section(pages::embedded::curves_html) : ""},
      {"dynamics", dynamics ? std::string(pages::embedded::dynamics_html) : ""},
      {"heads", with_maps.empty() ? "" : section(pages::embedded::heads_html)},
      {"samples",
       task_tables_html(tables) + shown_html(comparison, with_figures) + samples_html(comparison, with_samples)},
      {"limits", limits_html(comparison)},
      {"reproduce_lead", reproduce_lead(comparison)},
      {"command", command_html(comparison.command)},
      {"versions", versions_html(comparison)},
      {"chart_js_version", pages::escape_html(chart_js_version())},
      {"data", data_json(comparison, with_maps)},
      {"policy", scripts.policy()},
      {"scripts", scripts.html()},
  };
  return pages::fill_template(pages::embedded::report_html, values);
}

}  // namespace cogwheel::compare
