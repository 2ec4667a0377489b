#include "cogwheel/cli/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cogwheel/cli/forecast/layouts.h"
#include "cogwheel/cli/forecast/measured_slice.h"
#include "cogwheel/cli/rank_processes.h"
#include "cogwheel/cli/ranks.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/forecast/step_memory.h"
#include "cogwheel/runs/task_entry.h"
#include "cogwheel/tasks/language/training_flops.h"

namespace cogwheel::cli {
namespace {

struct Forecast {
  std::int64_t parameters = 0, slices = 0, tokens_of_step = 0;
  runs::StepMemory memory;
  std::int64_t program = 0;               // bytes of the process before there was a model
  std::optional<std::int64_t> available;  // bytes
  std::optional<tasks::language::TrainingFlops> flops;
  std::optional<MeasuredSlice> measured;
  std::optional<std::int64_t> said_of_measured = {};  // bytes that were expected of it, where known
  std::string not_measured = {};                      // why
  std::optional<double> epochs;

  std::int64_t bytes() const { return memory.bytes() + program; }
};

Forecast forecast(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task, bool knows_data) {
  Forecast found{.parameters = runs::parameter_count(config.model),
                 .slices = config.training.micro_batches,
                 .memory = {},
                 .program = resident_memory_bytes().value_or(0),
                 .available = available_memory_bytes(),
                 .flops = {},
                 .measured = {},
                 .epochs = {}};
  const runs::DataFacts data = task->data(config.model, config.training);
  found.tokens_of_step = config.training.batch * std::max<std::int64_t>(1, data.window);
  found.memory = runs::step_memory(config, *task);
  if (const auto* model = config.model.get_if<tasks::language::LanguageModelOptions>())
    found.flops = tasks::language::training_flops(*model);
  if (knows_data && data.train_tokens > 0)
    found.epochs = static_cast<double>(found.tokens_of_step) * static_cast<double>(config.training.steps) /
                   static_cast<double>(data.train_tokens);
  found.not_measured = processes_at_once(config, found.memory, 1).why_none;
  if (found.not_measured.empty()) found.measured = measure_slices(config, task, 1);
  if (found.measured && found.memory.is_known()) found.said_of_measured = found.memory.bytes_of(1) + found.program;
  return found;
}

std::optional<double> seconds_of(const Forecast& found, const runs::RunConfig& config) {
  if (!found.measured) return std::nullopt;
  return static_cast<double>(found.tokens_of_step) * static_cast<double>(config.training.steps) /
         found.measured->tokens_per_second();
}

void print_json(const Forecast& found, const runs::RunConfig& config) {
  using Json = nlohmann::ordered_json;
  Json parts = Json::array();
  for (const runs::MemoryPart& part : found.memory.parts)
    parts.push_back({{"name", part.name}, {"bytes", part.bytes}, {"reason", part.reason}});
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json json{{"name", config.name},
            {"mechanism", runs::common(config.model).mechanism},
            {"parameters", found.parameters},
            {"steps", config.training.steps},
            {"slices", found.slices},
            {"tokens_per_step", found.tokens_of_step},
            {"memory",
             {{"parts", parts},
              {"program", found.program},
              {"bytes", found.memory.is_known() ? Json(found.bytes()) : Json(nullptr)},
              {"available", or_null(found.available)}}}};
  if (!found.memory.unknown.empty()) json["memory"]["unknown"] = found.memory.unknown;
  json["flops_per_token"] =
      found.flops ? Json{{"products", found.flops->products}, {"attention", found.flops->attention}} : Json(nullptr);
  json["measured"] = found.measured ? Json{{"steps", found.measured->steps},
                                           {"tokens_per_second", found.measured->tokens_per_second()},
                                           {"said_bytes", or_null(found.said_of_measured)},
                                           {"peak_bytes", or_null(found.measured->peak)}}
                                    : Json(nullptr);
  if (!found.measured) json["not_measured"] = found.not_measured;
  json["seconds"] = or_null(seconds_of(found, config));
  json["epochs"] = or_null(found.epochs);
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void print_text(const Forecast& found, const runs::RunConfig& config, const std::string& counted) {
  fmt::print("{}: {}, {} parameters\n{} steps of {} {} in {}, {} in all\n\n", config.name,
             runs::common(config.model).mechanism, pages::grouped(found.parameters),
             pages::grouped(config.training.steps), pages::grouped(found.tokens_of_step), counted,
             pages::counted(found.slices, "slice"), pages::grouped(found.tokens_of_step * config.training.steps));
  pages::TextTable table{.title = {}, .columns = {"memory of a step", "size", ""}, .rows = {}};
  for (const runs::MemoryPart& part : found.memory.parts)
    table.rows.push_back({part.name, pages::byte_size(part.bytes), part.reason});
  if (!found.memory.unknown.empty())
    table.rows.push_back({"activations of a slice", "not known", found.memory.unknown});
  table.rows.push_back({"program", pages::byte_size(found.program), "with its libraries and data, now"});
  const std::string free = found.available ? pages::byte_size(*found.available) + " are free" : "";
  table.rows.push_back(
      {"together", (found.memory.is_known() ? "" : "more than ") + pages::byte_size(found.bytes()), free});
  fmt::print("{}\n", pages::table_text(table));
  if (found.flops)
    fmt::print("{:.4g} GFLOP for a token, forward and backward: {:.4g} in products with weights, {:.4g} in attention\n",
               found.flops->all() * 1e-9, found.flops->products * 1e-9, found.flops->attention * 1e-9);
  if (!found.measured) {
    fmt::print("not measured: {}\n", found.not_measured);
  } else {
    const MeasuredSlice& measured = *found.measured;
    fmt::print(
        "measured on {} of one slice: {} {} a second{}{}\n", pages::counted(measured.steps, "step"),
        pages::grouped(std::llround(measured.tokens_per_second())), counted,
        found.flops ? fmt::format(", {:.4g} GFLOP/s", found.flops->all() * measured.tokens_per_second() * 1e-9) : "",
        measured.peak ? fmt::format("; {} of memory at most", pages::byte_size(*measured.peak)) +
                            (found.said_of_measured
                                 ? fmt::format(", where {} was expected", pages::byte_size(*found.said_of_measured))
                                 : "")
                      : "");
    fmt::print("all steps at this speed: {}\n", days_text(*seconds_of(found, config)));
  }
  if (found.epochs) fmt::print("the data are seen {:.3g} times\n", *found.epochs);
}

// Of this process, or of all ranks that it is one of. A request that does not serve is refused by all of them, and the
// first one says it.
void forecast_of_ranks(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                       const LayoutRequest& request) {
  // Steps that are timed do not look whether they should stop, and there is nothing to keep.
  constexpr int interrupted = 130;
  if (ranks().count() > 1)
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { std::_Exit(interrupted); });
  try {
    forecast_layouts(config, task, request);
  } catch (const UsageError& error) {
    if (ranks().is_first()) throw;
    throw Said(error.exit_code());
  }
}

}  // namespace

DryRunTask dry_run_task(const runs::RunConfig& config) {
  const runs::TaskEntry& entry = runs::find_task(config.task.name);
  const bool on_text = config.task.name == runs::TaskOptions().name;
  const bool vocabulary_given = runs::common(config.model).vocabulary_or_none() > 0;
  const auto exist = [](const std::vector<std::string>& paths) {
    return !paths.empty() &&
           std::all_of(paths.begin(), paths.end(), [](const std::string& path) { return path_exists(path); });
  };
  const bool there = exist(config.data.text) || exist(config.data.corpus);
  const bool random = on_text && vocabulary_given && !there && entry.random != nullptr;
  return {.task = random ? runs::make_random_task(config, {}) : runs::make_task(config), .knows_data = !random};
}

void dry_run(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
             const DryRunOptions& options) {
  if (options.ranks > 0 || options.machine || ranks().count() > 1) {
    LayoutRequest request{.ranks = options.ranks > 0 ? options.ranks : ranks().count(),
                          .machine = options.machine.value_or(runs::Machine{}),
                          .machine_file = options.machine_file,
                          .here = ranks(),
                          .json = options.json};
    const std::optional<RanksToStart> start = ranks().count() == 1 ? ranks_to_start(request) : std::nullopt;
    if (start)
      fmt::print("{}", output_of_ranks(start->count, threads_of_each(start->of_node)));
    else
      forecast_of_ranks(config, task, request);
    return;
  }
  const Forecast found = forecast(config, task, options.knows_data);
  if (options.json)
    print_json(found, config);
  else
    print_text(found, config, task->description().counted);
}

}  // namespace cogwheel::cli
