// What a notebook shows of Python's objects, as HTML and as text: operators of str, which python/cogwheel/shown.py
// calls.
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/bindings/parameterized_pass.h"
#include "cogwheel/compare/comparison_folder.h"
#include "cogwheel/compare/record/results_json.h"
#include "cogwheel/compare/report/shown_comparison.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/ops/numerics_card.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/pages/notebook_output.h"

namespace cogwheel::bindings {
namespace {
namespace fs = std::filesystem;

using HtmlAndText = std::tuple<std::string, std::string>;

HtmlAndText both(const pages::NotebookOutput& output) { return {output.html, output.text}; }

// A table below a line that says what it is of.
HtmlAndText titled(const std::string& what, const std::string& of, const pages::TextTable& table) {
  const std::string html = fmt::format("<p class=\"output-kind\"><b>{}</b>{}</p>\n{}", pages::escape_html(what),
                                       pages::escape_html(of), pages::table_html(table));
  return {pages::notebook_html(html), what + of + "\n" + pages::table_text(table)};
}

compare::Comparison comparison_of(const std::string& results) { return compare::parse_results(results, "results"); }

// results.json of a comparison, checked, with its summary computed again.
std::string comparison_results(const std::string& folder) {
  const fs::path path = fs::path(folder) / "results.json";
  std::error_code problem;
  if (folder.empty() || !fs::exists(path, problem))
    throw UsageError(expected_got("results", "the folder of a comparison, with its results.json", folder));
  return compare::results_to_json(compare::parse_results(read_file(path), path.string()));
}

std::string run_of_comparison(const std::string& folder, const std::string& results, const std::string& mechanism,
                              std::int64_t seed) {
  const compare::Comparison comparison = comparison_of(results);
  if (comparison.run(mechanism, seed) == nullptr) {
    std::vector<std::string> mechanisms, seeds;
    for (const compare::MechanismPlan& plan : comparison.mechanisms) mechanisms.push_back(plan.name);
    if (comparison.plan(mechanism) == nullptr)
      throw UsageError(expected_got("load: mechanism", expected_names(mechanism, mechanisms), mechanism));
    for (const compare::RunResult* run : comparison.runs_of(mechanism)) seeds.push_back(std::to_string(run->seed));
    throw UsageError(expected_got("load: seed",
                                  seeds.empty() ? "a run of " + mechanism + ", of which none was started"
                                                : "one of " + fmt::format("{}", fmt::join(seeds, ", ")),
                                  std::to_string(seed)));
  }
  return compare::run_path(folder, mechanism, seed).string();
}

HtmlAndText shown_mechanism(const std::string& name) {
  const Mechanism& mechanism = find_mechanism(name);
  const Description& about = mechanism.description;
  std::vector<std::pair<std::string, std::string>> facts{{"range", std::string(about.range)}};
  if (!about.citation.empty()) facts.emplace_back("source", about.citation);
  if (!mechanism.definition.empty()) facts.emplace_back("definition", one_line(mechanism.definition));
  // Others have nothing that is measured.
  if (mechanism.is_row_map() || mechanism.recurrent() != nullptr) {
    const authoring::NumericsCard card = ops::numerics_card(mechanism);
    for (const auto& fact : card.facts)
      if (fact.second != about.formula) facts.push_back(fact);
    for (const std::string& problem : card.problems) facts.emplace_back("problem", problem);
  }
  std::string html = fmt::format(
      "<div class=\"output-title\"><h3>{}</h3> <code>{}</code> <span class=\"muted\">{}, {}</span></div>\n<p "
      "class=\"output-formula\">{}</p>\n<dl class=\"versions\">\n",
      pages::escape_html(about.title), pages::escape_html(about.name), pages::escape_html(about.family),
      pages::escape_html(about.level), pages::escape_html(about.formula));
  std::string text = fmt::format("{} ({}): {}\n", about.title, about.name, about.formula);
  std::size_t widest = 0;
  for (const auto& [what, found] : facts) widest = std::max(widest, what.size());
  for (const auto& [what, found] : facts) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", pages::escape_html(what), pages::escape_html(found));
    text += fmt::format("  {:<{}}  {}\n", what, widest, found);
  }
  return {pages::notebook_html(html + "</dl>\n"), text};
}

HtmlAndText shown_mechanisms(const std::vector<std::string>& names) {
  pages::TextTable table{.title = "", .columns = {"name", "title", "weights or state", "source"}, .rows = {}};
  for (const std::string& name : names) {
    const Description& about = find_mechanism(name).description;
    table.rows.push_back(
        {std::string(about.name), std::string(about.title), std::string(about.formula), std::string(about.citation)});
  }
  return titled(pages::counted(static_cast<std::int64_t>(table.rows.size()), "mechanism"), "", table);
}

// Of numbers [batch, heads, queries], by name, one of which is `keys`: means over the queries that see two keys or more
// and have such a number.
HtmlAndText shown_statistics(const std::vector<at::Tensor>& numbers, const std::vector<std::string>& names) {
  const auto keys_at = std::find(names.begin(), names.end(), "keys");
  if (numbers.empty() || numbers.size() != names.size() || keys_at == names.end())
    throw UsageError(expected_got("statistics", "a name for each, keys among them", shape_text(names)));
  for (const at::Tensor& number : numbers)
    if (number.dim() != 3 || number.sizes() != numbers.front().sizes())
      throw UsageError(expected_got("statistics", "[B, H, N] each", shape_text(number.sizes())));
  const at::Tensor keys = numbers[static_cast<std::size_t>(keys_at - names.begin())].to(at::kCPU);
  const at::Tensor several = keys >= 2;
  const bool any = several.any().item<bool>();
  const at::Tensor counts = any ? several : at::ones_like(several);
  pages::TextTable table{.title = "", .columns = {"head"}, .rows = {}};
  for (std::int64_t head = 0; head < keys.size(1); ++head) table.rows.push_back({"H" + std::to_string(head)});
  for (std::size_t index = 0; index < numbers.size(); ++index) {
    table.columns.push_back(names[index]);
    const at::Tensor number = numbers[index].to(at::kCPU).to(at::kDouble);
    const at::Tensor known = counts.logical_and(number.isfinite());
    const at::Tensor means = at::where(known, number, at::zeros_like(number)).sum({0, 2}) / known.sum({0, 2});
    for (std::int64_t head = 0; head < keys.size(1); ++head) {
      const auto mean = means[head].item<double>();
      table.rows[static_cast<std::size_t>(head)].push_back(std::isfinite(mean) ? pages::fixed(mean, 3) : "–");
    }
  }
  return titled("Attention statistics",
                fmt::format(": means over {} queries{}", counts.sum().item<std::int64_t>() / keys.size(1),
                            any ? " that see two keys or more" : ""),
                table);
}

// The largest maps that are shown: more points than a screen has tell nothing.
constexpr std::int64_t most_tokens = 512, most_weights = 4'000'000;

HtmlAndText shown_attention(const std::vector<at::Tensor>& layers, const std::vector<std::string>& tokens) {
  const char* const expected = "[N, N], [heads, N, N] or [layers, heads, N, N]";
  pages::NotebookHeads shown{.tokens = tokens, .layers = {}};
  std::int64_t weights = 0;
  for (const at::Tensor& layer : layers) {
    const std::int64_t size = layer.dim() == 3 ? layer.size(1) : -1;
    if (size < 1 || layer.size(2) != size || layer.size(0) < 1 || !layer.is_floating_point())
      throw UsageError(expected_got("show_attention: weights", expected, shape_text(layer.sizes())));
    if (size > most_tokens)
      throw UsageError(
          expected_got("show_attention: weights", fmt::format("at most {} tokens", most_tokens), std::to_string(size)));
    if (shown.tokens.empty())
      for (std::int64_t token = 0; token < size; ++token) shown.tokens.push_back(std::to_string(token));
    if (static_cast<std::int64_t>(shown.tokens.size()) != size)
      throw UsageError(expected_got("show_attention: tokens", pages::counted(size, "token") + " (as weights)",
                                    std::to_string(shown.tokens.size())));
    weights += layer.numel();
    if (weights > most_weights)
      throw UsageError(expected_got("show_attention: weights",
                                    fmt::format("at most {} in all", pages::grouped(most_weights)),
                                    pages::grouped(weights) + " or more"));
    const at::Tensor numbers = layer.detach().to(at::kCPU).to(at::kFloat).contiguous();
    const float* const first = numbers.const_data_ptr<float>();
    std::vector<std::vector<float>> heads;
    for (std::int64_t head = 0; head < layer.size(0); ++head)
      heads.emplace_back(first + head * size * size, first + (head + 1) * size * size);
    shown.layers.push_back(std::move(heads));
  }
  if (shown.layers.empty()) throw UsageError(expected_got("show_attention: weights", expected, "no layer"));
  return both(pages::notebook_heads(shown));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("comparison_results(str folder) -> str",
              [](const std::string& folder) { return with_value_errors([&] { return comparison_results(folder); }); });
  library.def(
      "run_of_comparison(str folder, str results, str mechanism, int seed) -> str",
      [](const std::string& folder, const std::string& results, const std::string& mechanism, std::int64_t seed) {
        return with_value_errors([&] { return run_of_comparison(folder, results, mechanism, seed); });
      });
  library.def("shown_comparison(str results, str report) -> (str html, str text)", [](const std::string& results,
                                                                                      const std::string& report) {
    return with_value_errors([&] { return both(compare::shown_comparison(comparison_of(results), report)); });
  });
  library.def("shown_mechanism(str name) -> (str html, str text)",
              [](const std::string& name) { return with_value_errors([&] { return shown_mechanism(name); }); });
  library.def("shown_mechanisms(str[] names) -> (str html, str text)", [](const std::vector<std::string>& names) {
    return with_value_errors([&] { return shown_mechanisms(names); });
  });
  library.def("shown_statistics(Tensor[] numbers, str[] names) -> (str html, str text)",
              [](const std::vector<at::Tensor>& numbers, const std::vector<std::string>& names) {
                return with_value_errors([&] { return shown_statistics(numbers, names); });
              });
  library.def("shown_attention(Tensor[] layers, str[] tokens) -> (str html, str text)",
              [](const std::vector<at::Tensor>& layers, const std::vector<std::string>& tokens) {
                return with_value_errors([&] { return shown_attention(layers, tokens); });
              });
}

}  // namespace cogwheel::bindings
