#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "cogwheel/compare/record/results_csv.h"
#include "cogwheel/compare/record/shared_configuration.h"
#include "cogwheel/compare/report/sections.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/embedded.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/configuration/run_config.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::compare {
namespace {

std::string fact(const std::string& name, const std::string& value, const std::string& detail) {
  return fmt::format("    <div><dt>{}</dt><dd>{}<small>{}</small></dd></div>\n", pages::escape_html(name),
                     pages::escape_html(value), pages::escape_html(detail));
}

// "1,710–2,050", or one number where they are equal.
std::string range_text(std::vector<double> values) {
  if (values.empty()) return "none";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string from = pages::rounded_count(std::llround(*low)), to = pages::rounded_count(std::llround(*high));
  return from == to ? from : from + "–" + to;
}

template <class Value>
std::vector<double> of_plans(const Comparison& comparison, Value value) {
  std::vector<double> values;
  for (const MechanismPlan& plan : comparison.mechanisms) values.push_back(static_cast<double>(value(plan)));
  return values;
}

std::string budget_fact(const Comparison& comparison) {
  const Comparison::Settings& settings = comparison.settings;
  const std::int64_t per_step = comparison.tokens_per_step();
  const std::string unit = comparison.data.item();
  const std::string steps =
      fmt::format("{} × {} {}s = {} per run", pages::counted(settings.steps, "step"), pages::grouped(per_step), unit,
                  pages::rounded_count(settings.steps * per_step));
  const std::vector<double> parameters = of_plans(comparison, [](const auto& plan) { return plan.parameters; });
  if (comparison.match == "time") {
    const auto steps_of = of_plans(comparison, [](const auto& plan) { return plan.steps; });
    return fact("Budget", "Equal training time",
                fmt::format("{} steps × {} {}s, by each mechanism’s measured rate; {} parameters", range_text(steps_of),
                            pages::grouped(per_step), unit, range_text(parameters)));
  }
  if (comparison.match == "tokens")
    return fact("Budget", "Equal tokens", fmt::format("{}; {} parameters, not matched", steps, range_text(parameters)));
  double deviation = 0;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    const MechanismPlan& base = *comparison.plan(comparison.base_of(plan.name));
    deviation =
        std::max(deviation, std::abs(static_cast<double>(plan.parameters) / static_cast<double>(base.parameters) - 1));
  }
  const std::string within =
      deviation == 0 ? "Equal parameters" : fmt::format("Parameters within {:.2g} %", std::max(0.01, 100 * deviation));
  return fact("Budget", within, steps);
}

std::string learning_rate_fact(const Comparison& comparison) {
  if (comparison.settings.tune == 0)
    return fact("Learning rate",
                pages::learning_rate_text(comparison.configuration.training.learning_rate) + " for all",
                "not searched per mechanism");
  std::string rates;
  for (const MechanismPlan& plan : comparison.mechanisms)
    rates += (rates.empty() ? "" : ", ") + plan.title + " " + pages::learning_rate_text(plan.learning_rate);
  return fact("Learning rate", pages::counted(comparison.settings.tune, "trial") + " for each", rates);
}

// The settings that are not the default, each followed by a comma: "llama form, dropout 0.1, ".
std::string model_traits(const Comparison& comparison) {
  const runs::RunConfig& config = comparison.configuration;
  const std::string& form = comparison.settings.form;
  std::string traits;
  if (form != Comparison::Settings{}.form) traits += form + " form, ";
  const std::string position = position_beside_form(comparison);
  if (!position.empty()) traits += (position == "none" ? "no" : position) + " positions, ";
  if (const auto* model = config.model.get_if<tasks::language::LanguageModelOptions>();
      model != nullptr && model->recurrent_layer != tasks::language::LanguageModelOptions{}.recurrent_layer)
    traits += model->recurrent_layer + " recurrent layers, ";
  if (const double dropout = runs::common(config.model).dropout; dropout != 0)
    traits += fmt::format("dropout {}, ", dropout);
  if (const std::string& precision = config.training.precision; precision != runs::TrainingOptions{}.precision)
    traits += precision + " matrix products, ";
  return traits;
}

// "4 layers × 4 heads"; of recurrent cells "1 layer", for what reads their states is one for all layers.
std::string layers_text(const Comparison& comparison) {
  const runs::ConstCommonOptions model = runs::common(comparison.configuration.model);
  const std::string layers = pages::counted(model.layers, "layer");
  const std::int64_t heads = model.heads;
  if (runs::layers_have_heads(comparison.configuration.model)) return layers + " × " + pages::counted(heads, "head");
  return heads == 1 ? layers : layers + ", " + pages::counted(heads, "head");
}

// Without a line break at the hyphen: AVX-512.
std::string unbroken(std::string text) {
  for (std::size_t place = text.find('-'); place != std::string::npos; place = text.find('-', place + 3))
    text.replace(place, 1, "\u2011");
  return text;
}

std::string version_row(const std::string& name, const std::string& value) {
  return fmt::format("        <dt>{}</dt><dd>{}</dd>\n", pages::escape_html(name), pages::escape_html(value));
}

}  // namespace

std::string series_property(const Comparison& comparison, std::string_view mechanism) {
  if (const MechanismPlan* const row = comparison.plan(mechanism); row != nullptr) mechanism = row->family();
  const std::string& baseline = comparison.baseline_family();
  if (mechanism == baseline) return "--series-0";
  // The same mechanism has the same colour in every report; others take the remaining hues.
  const auto preferred = [](std::string_view name) {
    return name == "cog" ? 1 : name == "differential" ? 2 : name == "symmetric" ? 3 : 0;
  };
  if (const int slot = preferred(mechanism)) return "--series-" + std::to_string(slot);
  int slot = 4;
  std::string_view before;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    if (plan.family() == mechanism) break;
    if (plan.family() != before && plan.family() != baseline && preferred(plan.family()) == 0) ++slot;
    before = plan.family();
  }
  return "--series-" + std::to_string(slot <= 7 ? slot : 1 + (slot - 1) % 7);
}

std::string facts_html(const Comparison& comparison) {
  const runs::DataFacts& data = comparison.data;
  const Comparison::Settings& settings = comparison.settings;
  const runs::ConstCommonOptions model = runs::common(comparison.configuration.model);
  const double held_out =
      100.0 * static_cast<double>(data.held_out_tokens) / static_cast<double>(data.held_out_tokens + data.train_tokens);
  const std::string evaluated = data.evaluates_part() ? fmt::format(", of which {} {}s are evaluated",
                                                                    pages::grouped(data.evaluated_tokens), data.item())
                                                      : "";
  const std::int64_t seeds = static_cast<std::int64_t>(settings.seeds.size());
  const bool usual = comparison.task.name == runs::TaskOptions{}.name;
  const std::string drawn_from =
      data.bytes == 0 ? comparison.task.data
      : usual         ? fmt::format("{} of text as {}s; the last {:.0f} % held out{}", pages::byte_size(data.bytes),
                                    data.item(), held_out, evaluated)
                      : fmt::format("{}: {} {}s to learn from, {} held out", pages::byte_size(data.bytes),
                                    pages::grouped(data.train_tokens), data.item(), pages::grouped(data.held_out_tokens));
  // Where an item is a whole sequence, the context counts its tokens; of images it follows from their size.
  const bool whole_items = data.window == 1;
  const std::string context =
      whole_items && model.context == 0
          ? ""
          : fmt::format(", context of {} {}s", pages::grouped(model.context), whole_items ? "token" : data.item());
  const std::string trained_on =
      data.window > 1 && data.window < model.context ? fmt::format(", trained on sequences of {}", data.window) : "";
  return (usual ? "" : fact("Task", comparison.task.name, comparison.task.summary)) +
         fact("Data", data.name, drawn_from) + budget_fact(comparison) +
         fact("Seeds", seeds == 1 ? "1" : fmt::format("{}, paired", seeds),
              "same order of data, and measured on the same") +
         learning_rate_fact(comparison) +
         fact("Model", layers_text(comparison),
              fmt::format("{}{}{}{}", model_traits(comparison),
                          settings.widths.empty() ? fmt::format("width {}", model.width)
                                                  : fmt::format("widths {}", fmt::join(settings.widths, ", ")),
                          context, trained_on)) +
         fact("Machine",
              fmt::format("{}{}{}, {}", comparison.machine.device == "cpu" ? "" : comparison.machine.device + ", ",
                          comparison.machine.workers == 0
                              ? ""
                              : pages::counted(comparison.machine.workers, "worker") + " at a time, each of ",
                          pages::counted(comparison.machine.threads, "CPU thread"),
                          unbroken(comparison.machine.instructions)),
              fmt::format("{} in {}", pages::counted(static_cast<std::int64_t>(comparison.runs.size()), "run"),
                          duration_text(settings.wall_seconds)));
}

std::string versions_html(const Comparison& comparison) {
  const Comparison::Machine& machine = comparison.machine;
  std::string seeds;
  for (const std::int64_t seed : comparison.settings.seeds) seeds += (seeds.empty() ? "" : ", ") + std::to_string(seed);
  std::string preset = comparison.settings.preset;
  for (const std::string& assignment : comparison.settings.set)
    preset += (assignment == comparison.settings.set.front() ? ", with " : ", ") + assignment;
  return version_row("Cogwheel", comparison.versions.cogwheel) + version_row("PyTorch", comparison.versions.torch) +
         version_row("Compiler", comparison.versions.compiler) + version_row("System", machine.system) +
         version_row("CPU", fmt::format("{}, {}, {}, {}", machine.cpu, pages::counted(machine.cores, "core"),
                                        pages::counted(machine.threads, "thread"), machine.instructions)) +
         (machine.device == "cpu" ? "" : version_row("Device", machine.device)) +
         (machine.matrix_products.empty() ? "" : version_row("Matrix products", machine.matrix_products)) +
         (machine.bfloat16_products.empty() ? "" : version_row("bfloat16 products", machine.bfloat16_products)) +
         version_row("Memory", pages::byte_size(machine.memory_bytes)) +
         version_row("Data", comparison.data.bytes == 0 ? comparison.data.name
                                                        : fmt::format("{}, {} bytes", comparison.data.name,
                                                                      pages::grouped(comparison.data.bytes))) +
         (comparison.data.sha256.empty() ? ""
                                         : fmt::format("        <dt>SHA-256</dt><dd><code>{}</code></dd>\n",
                                                       pages::escape_html(comparison.data.sha256))) +
         version_row("Seeds", seeds) + version_row("Preset", preset);
}

std::string tuning_html(const Comparison& comparison) {
  if (comparison.tuning.empty()) return "";
  const std::string measure = pages::escape_html(comparison.task.decisive().title);
  // Only of a text is it known which part that is; of other data their task chooses it.
  const bool text = comparison.task.name == runs::TaskOptions{}.name;
  const std::string data =
      comparison.data.bytes > 0
          ? fmt::format(
                "The {} is measured on {}, on which these trials did not train; {} was not used. The final "
                "runs train on all of the training {}.",
                measure, text ? "the last tenth of the training text" : "a part of the training data",
                text ? "the held-out text" : "what is held out", text ? "text" : "data")
          : "The " + measure +
                " is measured on separate data, on which neither these trials nor the final runs train and on "
                "which the result is not measured.";
  std::string rows;
  for (const MechanismPlan& plan : comparison.mechanisms) {
    rows += fmt::format("        <tr style=\"--series:var({})\"><th scope=\"row\" class=\"series\">{}</th>",
                        series_property(comparison, plan.name), pages::escape_html(plan.title));
    for (const TuningTrial& trial : comparison.tuning)
      if (trial.mechanism == plan.name)
        rows += fmt::format("<td{}>{}{}<small>learning rate {}</small></td>", trial.chosen ? " class=\"chosen\"" : "",
                            !trial.message.empty() ? "failed"
                            : trial.value          ? pages::fixed(*trial.value, 4)
                                                   : "diverged",
                            trial.chosen ? ", chosen" : "", pages::learning_rate_text(trial.learning_rate));
    rows += "</tr>\n";
  }
  return pages::fill_template(pages::embedded::tuning_html,
                              {{"trials", pages::counted(comparison.settings.tune, "trial")},
                               {"steps", pages::grouped(comparison.tuning.front().steps)},
                               {"data", data},
                               {"rows", rows}});
}

}  // namespace cogwheel::compare
