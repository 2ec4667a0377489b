#include "cogwheel/research/inspect/study_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/document.h"

namespace cogwheel::inspect {
namespace {

using Json = nlohmann::ordered_json;

// Longer tables are in their CSV alone, which the JSON names.
constexpr std::ptrdiff_t most_rows_in_json = 20'000;

bool is_number(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false).is_number(); }

// A cell's number, and what stands after it: a percent sign, or half of an interval. Texts are none of these.
struct CellParts {
  std::string value, interval = {};
  bool percent = false;
};
CellParts parts_of(const std::string& cell) {
  constexpr std::string_view plus_minus = " ± ", percent = " %";
  const std::size_t at = cell.find(plus_minus);
  if (at != std::string::npos) {
    const std::string number = cell.substr(0, at), interval = cell.substr(at + plus_minus.size());
    if (is_number(number) && is_number(interval)) return {number, interval};
  }
  if (cell.ends_with(percent))
    if (const std::string number = cell.substr(0, cell.size() - percent.size()); is_number(number))
      return {.value = number, .percent = true};
  return {cell};
}

// The table as files have it, for programs to read: an interval has a column of its own, and a percentage is said by
// the name of the column.
pages::TextTable as_in_files(const pages::TextTable& table) {
  pages::TextTable found{table.title, {}, std::vector<std::vector<std::string>>(table.rows.size())};
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    std::vector<CellParts> cells;
    for (const auto& row : table.rows) cells.push_back(parts_of(row[column]));
    const bool intervals = std::ranges::any_of(cells, [](const auto&cell) { return !cell.interval.empty(); }),
               shares = std::ranges::any_of(cells, &CellParts::percent);
    const std::string name = table.columns[column] + (shares ? ", %" : "");
    found.columns.push_back(name);
    if (intervals) found.columns.push_back(name + ", interval of 95 %: ±");
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      found.rows[row].push_back(cells[row].value);
      if (intervals) found.rows[row].push_back(cells[row].interval);
    }
  }
  return found;
}

// Numbers where every cell of the column is one, or empty: then null. Else texts.
Json values_of(const pages::TextTable& table) {
  Json rows(table.rows.size(), Json::array());
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    const bool numbers =
        std::ranges::all_of(table.rows, [&](const auto& row) { return row[column].empty() || is_number(row[column]); });
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      const std::string& cell = table.rows[row][column];
      rows[row].push_back(!numbers ? Json(cell) : cell.empty() ? Json() : Json::parse(cell));
    }
  }
  return rows;
}

// The table as pages have it, for people to read: mechanisms, and groups of runs that are named by them, have their
// titles.
pages::TextTable as_on_page(pages::TextTable table, const std::vector<std::string>& mechanisms) {
  for (std::size_t column = 0; column < table.columns.size(); ++column) {
    if (table.columns[column] != "mechanism" && table.columns[column] != "model" && table.columns[column] != "runs")
      continue;
    for (auto& row : table.rows)
      for (const std::string& mechanism : mechanisms) {
        if (row[column] != mechanism && !row[column].starts_with(mechanism + between_softmax_layers)) continue;
        row[column].replace(0, mechanism.size(), mechanism_title(mechanism));
        break;
      }
  }
  return table;
}

}  // namespace

std::vector<std::string> files_of_study(const std::filesystem::path& folder) {
  std::vector<std::string> files{study_page_file, study_json_file};
  try {
    const Json before = Json::parse(read_file(folder / study_json_file));
    for (const Json& table : before.at("tables"))
      if (const std::string name = table.at("name"); name.find('/') == std::string::npos)
        files.push_back(name + ".csv");
  } catch (const std::exception&) {  // none, or not of ours
  }
  return files;
}

std::string study_csv(const pages::TextTable& shown) {
  const pages::TextTable table = as_in_files(shown);
  std::string csv;
  const auto add = [&](const std::vector<std::string>& cells) {
    std::vector<std::string> quoted;
    for (const std::string& each : cells) quoted.push_back(compare::csv_cell(each));
    csv += fmt::format("{}\n", fmt::join(quoted, ","));
  };
  add(table.columns);
  for (const auto& row : table.rows) add(row);
  return csv;
}

std::string study_page(const FinishedStudy& study) {
  pages::Document document{.title = study.study->title,
                           .kind = "Cogwheel study",
                           .created = study.created,
                           .verdict = study.result.answer,
                           .facts = {{"Study", study.study->name, {}}},
                           .command = study.command,
                           .written_by = "cogwheel inspect",
                           .version = study.version};
  for (std::size_t run = 0; run < study.runs.size(); ++run)
    document.facts.push_back(
        {"Run", study.runs[run],
         mechanism_title(study.mechanisms[run]) + ", checkpoint SHA-256 " + study.checkpoints[run].substr(0, 12)});
  document.facts.push_back({"Took", duration_text(study.seconds), study.cpu});
  // Pictures first: tables are long.
  pages::DocumentSection found{.title = "What was found", .lead = study.study->question},
      numbers{.title = "In numbers"};
  for (const pages::LineChart& chart : study.result.charts) found.figures.push_back(pages::line_chart_figure(chart));
  found.figures.insert(found.figures.end(), study.result.figures.begin(), study.result.figures.end());
  for (const StudyTable& table : study.result.tables)
    if (table.on_page)
      (found.figures.empty() ? found : numbers).tables.push_back(as_on_page(table.table, study.mechanisms));
  document.sections.push_back(std::move(found));
  if (!numbers.tables.empty()) document.sections.push_back(std::move(numbers));
  pages::DocumentSection minded{.title = "What to mind"};
  for (const std::string& note : study.result.notes) minded.remarks.emplace_back("Less than was asked for:", note);
  minded.remarks.insert(minded.remarks.end(), study.result.remarks.begin(), study.result.remarks.end());
  document.sections.push_back(std::move(minded));
  pages::TextTable parameters{"", {"parameter", "value", "what it is", "range"}, {}};
  for (const LabParameter& parameter : study.parameters.all())
    parameters.rows.push_back({parameter.name, parameter.text(), parameter.meaning, parameter.range_text()});
  document.sections.push_back(
      {.title = "Parameters", .lead = "Change them with --set name=value.", .tables = {parameters}});
  return pages::document_page(document);
}

std::string study_json(const FinishedStudy& study) {
  Json parameters = Json::object(), runs = Json::array(), tables = Json::array(), remarks = Json::array();
  for (const LabParameter& parameter : study.parameters.all())
    parameters[parameter.name] = Json::parse(parameter.text());
  for (std::size_t run = 0; run < study.runs.size(); ++run)
    runs.push_back({{"run", study.runs[run]},
                    {"mechanism", study.mechanisms[run]},
                    {"checkpoint_sha256", study.checkpoints[run]}});
  for (const StudyTable& each : study.result.tables) {
    const pages::TextTable table = as_in_files(each.table);
    Json found{{"name", each.file}, {"title", table.title}, {"columns", table.columns}};
    if (std::ssize(table.rows) > most_rows_in_json)
      found["file"] = each.file + ".csv";
    else
      found["rows"] = values_of(table);
    tables.push_back(std::move(found));
  }
  Json numbers = Json::array();
  for (const NumbersOfRuns& each : study.result.numbers)
    numbers.push_back(
        {{"name", each.name}, {"place", each.place ? Json(*each.place) : Json()}, {"values", each.values}});
  for (const std::string& note : study.result.notes) remarks.push_back(note);
  for (const auto& [about, text] : study.result.remarks) remarks.push_back(about + " " + text);
  const Json json{{"schema", 1},
                  {"study", study.study->name},
                  {"question", study.study->question},
                  {"answer", study.result.answer},
                  {"command", study.command},
                  {"version", study.version},
                  {"created", study.created},
                  {"cpu", study.cpu},
                  {"seconds", study.seconds},
                  {"parameters", std::move(parameters)},
                  {"runs", std::move(runs)},
                  {"numbers", std::move(numbers)},
                  {"tables", std::move(tables)},
                  {"remarks", std::move(remarks)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace cogwheel::inspect
