#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/folder_lock.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/surgery/convert_run.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::cli {
namespace {

using nn::Fate;
using surgery::LayerSwaps;
using surgery::MeasuredConversion;
using surgery::RunConversion;
using Json = nlohmann::ordered_json;

struct ConvertArguments {
  std::string run, out;
  std::vector<std::string> assignments, text;
  bool one_by_one = false, overwrite = false, json = false;
  Definitions definitions;
};

constexpr std::pair<Fate, const char*> fates[]{
    {Fate::copied, "copied"}, {Fate::changed, "changed"}, {Fate::created, "new"}, {Fate::lost, "lost"}};

std::string mechanism_at(const runs::RunConfig& config, std::int64_t layer) {
  return tasks::language::layer_mechanism(config.model.as<tasks::language::LanguageModelOptions>(), layer);
}

void print_json(const RunConversion& conversion, const MeasuredConversion& measured, const LayerSwaps* swaps,
                const std::string& out) {
  Json json{{"out", out.empty() ? Json(nullptr) : Json(out)}};
  for (const auto& [fate, name] : fates) {
    Json parts = Json::array();
    for (const auto& part : conversion.parts())
      if (part.fate == fate)
        parts.push_back(part.how.empty() ? Json(part.name) : Json{{"name", part.name}, {"how", part.how}});
    json[name] = std::move(parts);
  }
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  json["measure"] = measured.measure;
  json["before"] = or_null(measured.before);
  json["after"] = or_null(measured.after);
  json["tokens"] = measured.tokens;
  if (!measured.unknown.empty()) json["unknown"] = measured.unknown;
  if (swaps != nullptr) {
    const auto cost_of = [&](const surgery::SwapCost& cost) -> Json {
      return {{"loss", cost.loss}, {"divergence", cost.divergence}, {"agreement", cost.agreement}};
    };
    Json layers = Json::array();
    for (std::size_t layer = 0; layer < swaps->layers.size(); ++layer) {
      const auto number = static_cast<std::int64_t>(layer);
      Json row{{"layer", layer},
               {"before", mechanism_at(conversion.before(), number)},
               {"after", mechanism_at(conversion.config(), number)}};
      row.update(cost_of(swaps->layers[layer]));
      layers.push_back(std::move(row));
    }
    json["one_by_one"] = {
        {"tokens", swaps->tokens}, {"loss", swaps->loss}, {"layers", std::move(layers)}, {"all", cost_of(swaps->all)}};
  }
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

// The layer whose swap costs most comes first: it is the one to leave as it is.
void print_swaps(const RunConversion& conversion, const LayerSwaps& swaps) {
  const auto cells = [&](std::string name, std::string mechanisms, const surgery::SwapCost& cost) {
    return std::vector<std::string>{std::move(name),
                                    std::move(mechanisms),
                                    fmt::format("{:.4f}", cost.loss),
                                    fmt::format("{:+.4f}", cost.loss - swaps.loss),
                                    fmt::format("{:.4f}", cost.divergence),
                                    fmt::format("{:.1f} %", 100 * cost.agreement)};
  };
  pages::TextTable table{
      .title = {}, .columns = {"layer", "swap", "loss", "cost", "KL", "same next token"}, .rows = {}};
  std::vector<std::size_t> order(swaps.layers.size());
  for (std::size_t layer = 0; layer < order.size(); ++layer) order[layer] = layer;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return swaps.layers[a].divergence > swaps.layers[b].divergence;
  });
  for (const std::size_t layer : order) {
    const auto number = static_cast<std::int64_t>(layer);
    table.rows.push_back(
        cells(std::to_string(layer),
              mechanism_at(conversion.before(), number) + " → " + mechanism_at(conversion.config(), number),
              swaps.layers[layer]));
  }
  table.rows.push_back(cells("all", "the converted run", swaps.all));
  fmt::print(
      "\neach layer alone, before any step, over {} held-out tokens; loss {:.4f} nats as it was; the dearest first\n{}",
      swaps.tokens, swaps.loss, pages::table_text(table));
}

void print_text(const RunConversion& conversion, const MeasuredConversion& measured, const LayerSwaps* swaps,
                const std::string& out) {
  const std::int64_t layers = runs::common(conversion.config().model).layers;
  for (const auto& [fate, name] : fates) {
    const std::vector<std::string> lines = nn::lines_of(conversion.parts(), fate, layers);
    if (lines.empty()) continue;
    fmt::print("{}\n", name);
    for (const std::string& line : lines) fmt::print("  {}\n", line);
  }
  if (measured.before)
    fmt::print("{} over {} held-out tokens: {:.4f} before, {:.4f} after, before any step\n", measured.label,
               measured.tokens, *measured.before, *measured.after);
  else
    fmt::print("{} is not measured: {}\n", measured.label, measured.unknown);
  if (swaps != nullptr) print_swaps(conversion, *swaps);
  if (!out.empty())
    fmt::print("{}: {}, {} parameters; `--set task.start={}` trains it on\n", out,
               runs::common(conversion.config().model).mechanism, runs::parameter_count(conversion.config().model),
               out);
}

void convert(const ConvertArguments& arguments) {
  register_definitions(arguments.definitions);
  const runs::RunFolder run = runs::RunFolder::open(arguments.run);
  // A table of swaps needs no run beside it.
  const bool writes = !arguments.out.empty() || !arguments.one_by_one;
  if (arguments.overwrite && arguments.out.empty())
    throw UsageError(expected_got("convert: --overwrite", "--out with it", "none"));
  const std::string out = !writes                  ? std::string()
                          : !arguments.out.empty() ? arguments.out
                                                   : runs::new_run_path(runs::name_of_run(run.path())).string();
  if (writes) expect_room(out, runs::run_kind, arguments.overwrite);
  const RunConversion conversion(run, arguments.assignments, arguments.text);
  LayerSwaps swaps;
  if (arguments.one_by_one) swaps = conversion.one_by_one();  // before the run is there, as it may be refused
  if (writes) conversion.write(out, arguments.overwrite);
  const MeasuredConversion measured = conversion.measure();
  const LayerSwaps* const shown = arguments.one_by_one ? &swaps : nullptr;
  if (arguments.json)
    print_json(conversion, measured, shown, out);
  else
    print_text(conversion, measured, shown, out);
}

}  // namespace

void add_convert_command(CLI::App& app) {
  const auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command =
      app.add_subcommand("convert", "Give a trained language model another mechanism, and keep what both have");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  command->add_option("--set", arguments->assignments, "keys of the model, as in model.mechanism=cog")
      ->type_name("KEY=VALUE");
  command
      ->add_option("--text", arguments->text,
                   "files or folders to measure on, for a run without a text or in the place of its own")
      ->type_name("PATH");
  command->add_flag("--one-by-one", arguments->one_by_one,
                    "also what the swap of each layer alone costs; without --out, nothing is written");
  command->add_option("--out", arguments->out, "folder of the new run; by default runs/<date-time>-<name of the run>")
      ->type_name("RUN2");
  command->add_flag("--overwrite", arguments->overwrite, "replace the run that --out holds");
  command->add_flag("--json", arguments->json, "what was done as JSON");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { convert(*arguments); });
}

}  // namespace cogwheel::cli
