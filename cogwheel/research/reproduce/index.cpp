#include "cogwheel/research/reproduce/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/document.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/research/labs/finding.h"
#include "cogwheel/research/reproduce/source_name.h"

namespace cogwheel::reproduce {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *agreeing = "agrees", *contradicting = "contradicts", *undecided = "cannot tell";

// Those that somebody expects something of.
void add_findings(const Json& findings, IndexedExperiment& experiment) {
  for (const Json& finding : findings) {
    const bool told = finding.at("agrees").is_boolean();
    if (!told && !(finding.contains("verdict") && finding.at("verdict").is_string())) continue;
    labs::Finding read{.what = finding.at("what").get<std::string>(),
                       .relation = labs::Finding::find_relation(finding.at("relation").get<std::string>()),
                       .expected = finding.at("expected").get<double>(),
                       .tolerance = finding.value("tolerance", 0.0),
                       .ours = finding.at("ours").is_number() ? finding.at("ours").get<double>() : std::nan("")};
    if (finding.contains("interval")) read.tested = {.interval = finding.at("interval").get<double>()};
    experiment.lines.push_back({.claim = read.what,
                                .ours = finding.value("whose", "") == labs::Finding::bound_of_ours,
                                .expected = read.expected_text(),
                                .found = read.ours_text(),
                                .verdict = !told                              ? undecided
                                           : finding.at("agrees").get<bool>() ? agreeing
                                                                              : contradicting});
  }
}

void add_claims(const Json& claims, IndexedExperiment& experiment) {
  for (const Json& claim : claims) {
    if (!claim.at("verdict").is_string()) continue;
    std::string found =
        claim.at("mean").is_number() ? labs::number_for_readers(claim.at("mean").get<double>()) : "none";
    if (claim.at("interval").is_number()) found += " ± " + labs::number_for_readers(claim.at("interval").get<double>());
    experiment.lines.push_back({.claim = claim.at("says").get<std::string>(),
                                .ours = claim.value("ours", false),
                                .expected = claim.at("expected").get<std::string>(),
                                .found = found,
                                .verdict = claim.at("verdict").get<std::string>()});
  }
}

int place_of(const std::string& verdict) { return verdict == contradicting ? 0 : verdict == undecided ? 1 : 2; }

struct PlacedLine {
  const IndexedExperiment* experiment;
  const IndexLine* line;
};

// What disagrees comes first; within a verdict as the experiments come.
std::vector<PlacedLine> placed_lines(const IndexSummary& index) {
  std::vector<PlacedLine> lines;
  for (const IndexedExperiment& experiment : index.experiments)
    for (const IndexLine& line : experiment.lines) lines.push_back({&experiment, &line});
  std::stable_sort(lines.begin(), lines.end(), [](const PlacedLine& one, const PlacedLine& other) {
    return place_of(one.line->verdict) < place_of(other.line->verdict);
  });
  return lines;
}

pages::TextTable lines_table(const IndexSummary& index) {
  pages::TextTable table{
      .title = "", .columns = {"experiment", "claim", "whose", "expected", "found", "verdict"}, .rows = {}};
  for (const auto& [experiment, line] : placed_lines(index))
    table.rows.push_back({experiment->name, line->claim, line->ours ? "ours" : "the source's", line->expected,
                          line->found, line->verdict});
  return table;
}

pages::TextTable experiments_table(const IndexSummary& index) {
  pages::TextTable table{.title = "", .columns = {"experiment", "source", "answer", "took"}, .rows = {}};
  for (const IndexedExperiment& each : index.experiments)
    table.rows.push_back({each.name, each.source, each.problem.empty() ? each.answer : "no result: " + each.problem,
                          each.problem.empty() ? duration_text(each.seconds) : ""});
  return table;
}

std::string markdown_table(const pages::TextTable& table) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (std::string cell : cells) {
      for (std::size_t bar = cell.find('|'); bar != std::string::npos; bar = cell.find('|', bar + 2))
        cell.insert(bar, "\\");
      text += " " + cell + " |";
    }
    return text + "\n";
  };
  return line(table.columns) + line(std::vector<std::string>(table.columns.size(), "---")) + [&] {
    std::string rows;
    for (const std::vector<std::string>& row : table.rows) rows += line(row);
    return rows;
  }();
}

}  // namespace

IndexedExperiment parse_indexed(std::string_view text, std::string_view what) {
  try {
    const Json json = Json::parse(text);
    const std::int64_t schema = json.at("schema").get<std::int64_t>();
    if (schema != 2 && schema != 3) throw Error(expected_got(what, "schema 2 or 3", std::to_string(schema)));
    IndexedExperiment experiment{.name = json.at("experiment").get<std::string>(),
                                 .source = {},
                                 .question = json.at("question").get<std::string>(),
                                 .answer = json.at("answer").get<std::string>(),
                                 .created = json.at("created").get<std::string>(),
                                 .seconds = json.at("seconds").get<double>()};
    if (schema == 2) {
      experiment.source =
          std::string(source_name(experiment.name, what).document) + ", " + json.at("section").get<std::string>();
      add_findings(json.at("findings"), experiment);
    } else {
      const Json& source = json.at("source");
      experiment.source = source.at("document").get<std::string>() + ", " + source.at("place").get<std::string>();
      add_claims(json.at("claims"), experiment);
    }
    return experiment;
  } catch (const nlohmann::json::exception& error) {
    throw Error(expected_got(what, "the results of an experiment", one_line(error.what())));
  }
}

std::string index_sentence(const IndexSummary& index) {
  std::int64_t counts[3] = {}, with_result = 0, ours = 0;
  for (const IndexedExperiment& experiment : index.experiments) {
    with_result += experiment.problem.empty();
    for (const IndexLine& line : experiment.lines) ++counts[place_of(line.verdict)], ours += line.ours;
  }
  const std::int64_t missing = std::ssize(index.experiments) - with_result;
  return fmt::format("Of {} in {}{}: {} contradicted, {} agree, {} cannot be told.{}",
                     pages::counted(counts[0] + counts[1] + counts[2], "claim"),
                     pages::counted(with_result, "experiment"),
                     ours > 0 ? fmt::format(", {} of them our own", ours) : "", counts[0], counts[2], counts[1],
                     missing > 0 ? fmt::format(" {} without a result.", pages::counted(missing, "experiment")) : "");
}

std::string index_page(const IndexSummary& index) {
  pages::Document document{.title = "What the sources claim, and what was found",
                           .kind = "Cogwheel experiments",
                           .created = index.created,
                           .verdict = index_sentence(index),
                           .facts = {{"Experiments", std::to_string(index.experiments.size())}},
                           .sections = {},
                           .command = index.command,
                           .written_by = "cogwheel reproduce",
                           .version = index.version};
  document.sections.push_back({.title = "Claims",
                               .lead = "What disagrees comes first. The page of each experiment, in the folder of its "
                                       "name beside this one, says how it was found.",
                               .tables = {lines_table(index)}});
  document.sections.push_back({.title = "Experiments", .tables = {experiments_table(index)}});
  return pages::document_page(document);
}

std::string index_markdown(const IndexSummary& index) {
  return fmt::format(
      "# What the sources claim, and what was found\n\n{}\n\nMade by `{}`. What disagrees comes first.\n\n{}\n## "
      "Experiments\n\n{}",
      index_sentence(index), index.command, markdown_table(lines_table(index)),
      markdown_table(experiments_table(index)));
}

}  // namespace cogwheel::reproduce
