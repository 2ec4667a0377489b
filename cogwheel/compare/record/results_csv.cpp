#include "cogwheel/compare/record/results_csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cogwheel/pages/html.h"

namespace cogwheel::compare {
namespace {

std::string csv_number(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}g}", *value, digits) : "";
}

std::string latex_text(const std::string& text) {
  std::string escaped;
  for (const char character : text) {
    if (std::string_view("&%$#_{}").find(character) != std::string_view::npos) escaped += '\\';
    if (character == '\\')
      escaped += "\\textbackslash{}";
    else if (character == '~' || character == '^')
      escaped += std::string("\\") + character + "{}";
    else
      escaped += character;
  }
  return escaped;
}

std::string latex_estimate(const std::optional<double>& value, const std::optional<double>& interval) {
  if (!value) return "--";
  return interval ? fmt::format("${:.4f} \\pm {:.4f}$", *value, *interval) : fmt::format("${:.4f}$", *value);
}

}  // namespace

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char character : text) quoted += character == '"' ? "\"\"" : std::string(1, character);
  return quoted + "\"";
}

RunMeans run_means(const Comparison& comparison, std::string_view mechanism) {
  RunMeans means;
  double count = 0;
  for (const RunResult* run : comparison.runs_of(mechanism)) {
    if (run->status != RunStatus::done) continue;
    ++count;
    means.tokens_per_second += run->tokens_per_second;
    means.tokens += static_cast<double>(run->tokens);
    if (run->peak_memory_bytes)
      means.peak_memory_bytes = std::max(means.peak_memory_bytes.value_or(0), *run->peak_memory_bytes);
  }
  if (count > 0) {
    means.tokens_per_second /= count;
    means.tokens /= count;
  }
  return means;
}

std::string results_to_csv(const Comparison& comparison) {
  const runs::Measure& decisive = comparison.task.decisive();
  std::string csv = fmt::format(
      "mechanism,{},interval,difference,difference_interval,p_adjusted,bits_per_token,tokens,"
      "tokens_per_second,parameters,parameters_unmatched,peak_memory_bytes,learning_rate,seeds",
      decisive.name);
  for (const runs::Measure& measure : comparison.task.measures)
    if (measure != decisive) csv += "," + measure.name;
  const bool widths = !comparison.settings.widths.empty();
  if (widths) csv += ",series,width,parameters_without_embeddings";
  csv += "\n";
  for (const SummaryRow& row : comparison.summary) {
    const MechanismPlan& plan = *comparison.plan(row.mechanism);
    const RunMeans means = run_means(comparison, row.mechanism);
    const std::optional<double> bits =
        row.mean && !decisive.unit_in_bits().empty() ? std::optional(*row.mean / std::numbers::ln2) : std::nullopt;
    csv += fmt::format("{},{},{},{},{},{},{},{:.0f},{:.0f},{},{},{},{},{}", csv_cell(row.mechanism),
                       csv_number(row.mean, 8), csv_number(row.interval, 6), csv_number(row.difference, 6),
                       csv_number(row.difference_interval, 6), csv_number(row.p_adjusted, 4), csv_number(bits, 6),
                       means.tokens, means.tokens_per_second, plan.parameters, plan.parameters_unmatched,
                       means.peak_memory_bytes ? std::to_string(*means.peak_memory_bytes) : "",
                       csv_number(plan.learning_rate, 6), row.seeds);
    for (const runs::Measure& measure : comparison.task.measures) {
      if (measure == decisive) continue;
      const double* value = runs::find_value(row.others, measure.name);
      csv += "," + csv_number(value != nullptr ? std::optional(*value) : std::nullopt, 8);
    }
    if (widths) csv += fmt::format(",{},{},{}", csv_cell(plan.series), plan.width, plan.block_parameters);
    csv += "\n";
  }
  return csv;
}

std::string results_to_latex(const Comparison& comparison) {
  std::string latex = fmt::format(
      "% needs booktabs\n\\begin{{tabular}}{{lrrr}}\n\\toprule\nMechanism & {} & Difference to {} & $p$ "
      "(Holm) \\\\\n\\midrule\n",
      latex_text(pages::capitalised(comparison.task.decisive().title)), latex_text(comparison.baseline_family()));
  for (const SummaryRow& row : comparison.summary)
    latex +=
        fmt::format("{} & {} & {} & {} \\\\\n", latex_text(comparison.plan(row.mechanism)->title),
                    latex_estimate(row.mean, row.interval), latex_estimate(row.difference, row.difference_interval),
                    row.p_adjusted ? fmt::format("${:.2g}$", *row.p_adjusted) : "--");
  return latex + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace cogwheel::compare
