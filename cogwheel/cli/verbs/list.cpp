#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/experiments.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/ops/bfloat16_products.h"
#include "cogwheel/ops/pairwise/engines/engines.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// The width on a screen, for text with one column per code point.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

void print_table(const Rows& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], width(row[column]));
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] - width(row[column]) + 2, ' ');
    }
    fmt::print("{}\n", line);
  }
}

Rows mechanism_rows() {
  Rows rows = {{"name", "family", "level", "weights", "range", "source"}};
  for (const auto& mechanism : mechanisms()) {
    const Description& description = mechanism.description;
    rows.push_back({std::string(description.name), std::string(description.family), std::string(description.level),
                    std::string(description.formula), std::string(description.range),
                    std::string(description.citation)});
  }
  return rows;
}

// Explains that forms combine into more mechanisms than the table shows.
std::string forms_note() {
  std::string forms;
  for (const auto& mechanism : mechanisms())
    if (mechanism.pairwise() != nullptr && mechanism.pairwise()->is_form())
      forms.append(forms.empty() ? "" : ", ").append(mechanism.description.name);
  const auto composed = all_mechanisms().size() - mechanisms().size();
  return fmt::format(
      "\n{} are forms, here over softmax. Over another row map that reads\n"
      "its scores, the name of the map follows: {}, … ({} names).\n",
      forms, all_mechanisms()[mechanisms().size()].description.name, composed);
}

Rows kernel_rows() {
  Rows rows = {{"mechanism", "device", "instructions", "type", "chosen", "reason"}};
  for (const auto& kernel : ops::available_engines())
    rows.push_back({std::string(kernel.mechanism), std::string(kernel.device), std::string(kernel.isa),
                    std::string(kernel.dtype), kernel.chosen ? "yes" : "no", std::string(kernel.reason)});
  return rows;
}

// "bfloat16 in attention: pairs, usual for …; 105 GF/s of one thread, widened 60".
std::string products_note() {
  std::string note = "\nbfloat16 is multiplied, at so many GF/s of one thread (COGWHEEL_PRODUCT chooses another):\n";
  for (const auto& [chosen, rates] : ops::measured_products()) {
    std::string measured;
    for (const ProductRate& rate : rates)
      measured += fmt::format("{}{} {:.0f}", measured.empty() ? "" : ", ", rate.product, rate.flops * 1e-9);
    note += fmt::format("  in {}: {} ({}); {}\n", chosen.where, chosen.product, chosen.reason, measured);
  }
  return note;
}

// "S1-16…22, S1-46": those that follow each other in one.
std::string items_text(const std::vector<std::string>& items) {
  std::string text;
  std::int64_t last = -2;
  std::string source;
  bool run = false;
  const auto end_run = [&] {
    if (run) text += fmt::format("…{}", last);
    run = false;
  };
  for (const std::string& item : items) {
    const std::size_t dash = item.find('-');
    const std::string own = item.substr(0, dash);
    const std::int64_t number = dash == std::string::npos ? -2 : std::atoll(item.c_str() + dash + 1);
    if (own == source && number == last + 1) {
      run = true;
    } else {
      end_run();
      text += (text.empty() ? "" : ", ") + item;
    }
    source = own, last = number;
  }
  end_run();
  return text;
}

Rows experiment_rows() {
  Rows rows = {{"name", "run by", "answers", "minutes", "state", "summary"}};
  const auto state = [](const Experiment& experiment) {
    return experiment.needs.empty() ? "ready" : fmt::format("needs {}", fmt::join(experiment.needs, ", "));
  };
  for (const Experiment& each : experiments()) rows.push_back({each.name, "train", "", "", state(each), each.summary});
  for (const Experiment& each : reproductions()) {
    const ReproductionFacts facts = facts_of(each);
    rows.push_back({each.name, "reproduce", items_text(facts.items),
                    facts.minutes > 0 ? number_text(facts.minutes) : "", state(each), each.summary});
  }
  return rows;
}

Rows task_rows() {
  Rows rows = {{"name", "summary", "measures"}};
  for (const runs::TaskEntry& task : runs::tasks()) {
    std::string measures;
    for (const runs::Measure& measure : task.description.measures)
      measures += fmt::format("{}{}{}", measures.empty() ? "" : "; ", measure.title,
                              measure.unit.empty() ? "" : ", " + measure.unit);
    rows.push_back({task.description.name, task.description.summary, measures});
  }
  return rows;
}

Rows architecture_rows() {
  Rows rows = {{"name", "summary"}};
  for (const interchange::Architecture& each : interchange::architectures())
    rows.push_back({std::string(each.name), std::string(each.summary)});
  return rows;
}

struct List {
  const char* name;
  Rows (*rows)();
  std::string (*note)() = [] { return std::string(); };

  void print() const {
    print_table(rows());
    fmt::print("{}", note());
  }
};
constexpr List lists[] = {{"mechanisms", mechanism_rows, forms_note},
                          {"tasks", task_rows},
                          {"experiments", experiment_rows},
                          {"kernels", kernel_rows, products_note},
                          {"architectures", architecture_rows}};

// One of the lists, or all of them under their names.
void list(const std::optional<std::string>& what) {
  std::vector<std::string> names;
  for (const List& each : lists) {
    names.emplace_back(each.name);
    if (what == each.name) return each.print();
  }
  if (what) throw UsageError(expected_got("list", expected_names(*what, names), *what));
  for (const List& each : lists) {
    fmt::print("{}{}\n\n", each.name == lists[0].name ? "" : "\n", each.name);
    each.print();
  }
}

}  // namespace

void add_list_command(CLI::App& app) {
  const auto what = std::make_shared<std::optional<std::string>>();
  CLI::App* command = app.add_subcommand("list", "List mechanisms, tasks, experiments, kernels and architectures");
  command
      ->add_option(
          "what", *what,
          "mechanisms, tasks, experiments, kernels, or architectures to import and export; all of them if not given")
      ->type_name("WHAT");
  command->callback([what] { list(*what); });
}

}  // namespace cogwheel::cli
