#include "cogwheel/cli/forecast/layouts.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/cli/forecast/measured_slice.h"
#include "cogwheel/compare/record/machine.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/process/memory.h"
#include "cogwheel/core/wording/duration_text.h"
#include "cogwheel/pages/exhibits.h"
#include "cogwheel/pages/html.h"
#include "cogwheel/runs/forecast/layout_cost.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "cogwheel/tasks/language/training_flops.h"

namespace cogwheel::cli {
namespace {

using tasks::language::LanguageModelOptions;

// More would say little of a machine that has not so many cores.
constexpr std::int64_t most_ranks_measured = 8;

runs::TransformerShape shape_of(const LanguageModelOptions& model, std::int64_t recompute) {
  runs::TransformerShape shape{.layers = model.layers,
                               .width = model.width,
                               .heads = model.heads,
                               .key_heads = model.key_value_heads > 0 ? model.key_value_heads : model.heads,
                               .head_dim = model.used_head_dim(),
                               .feed_forward = model.feed_forward_width(),
                               .vocabulary = model.vocabulary,
                               .context = model.context,
                               .recompute = recompute};
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    shape.has_state |= find_mechanism(layer_mechanism(model, layer)).recurrent() != nullptr;
  return shape;
}

struct LayoutAnswer {
  runs::StepFacts facts;
  runs::Network network;
  std::optional<std::int64_t> room;          // bytes of a rank
  std::vector<std::string> sources = {};     // where rates are from
  std::optional<double> flops_of_step = {};  // what is computed again is not among them
  runs::LayoutForecast forecast = {};
};

// By formulas: a slice's multiplications and additions, and the memory that the rest goes through.
void take_device(LayoutAnswer& answer, const runs::RunConfig& config, const runs::Device& device) {
  const auto* model = config.model.get_if<LanguageModelOptions>();
  if (model == nullptr)
    throw UsageError(
        expected_got("--machine: device", "a language model, whose work is counted", "task " + config.task.name));
  runs::StepFacts& facts = answer.facts;
  const double flops = static_cast<double>(facts.tokens_of_slice) * tasks::language::training_flops(*model).all();
  answer.flops_of_step = flops * static_cast<double>(facts.slices);
  // A third of the work is forward.
  const double again = facts.shape->recompute == 0 ? 0 : 1.0 / (3.0 * static_cast<double>(facts.shape->recompute));
  const auto through_memory = [&](double times) {
    return times * static_cast<double>(facts.learned) / device.memory_bandwidth;
  };
  constexpr double of_sum = 3, of_norm = 1;  // two gradients read and one written; one read
  // AdamW reads weights, gradients and moments, and writes all but gradients; Muon has a moment less of most.
  constexpr double of_optimizer = 7, of_average = 3;
  facts.slice_seconds =
      flops * (1 + again) / (device.flops_per_second * device.achieved) + through_memory(facts.slices > 1 ? of_sum : 0);
  facts.rest_seconds = through_memory(of_norm + of_optimizer + (config.training.ema > 0 ? of_average : 0));
  answer.room = static_cast<std::int64_t>(device.memory);
  answer.sources.push_back(fmt::format("computation: {:.4g} TFLOP/s of a device, of which {:.3g} % are reached",
                                       device.flops_per_second * 1e-12, 100 * device.achieved));
}

// A rank's slices alone on this machine, then as slow as its cores are shared.
void take_this_machine(LayoutAnswer& answer, const runs::RunConfig& config,
                       const std::shared_ptr<const runs::Task>& task, const LayoutRequest& request) {
  runs::StepFacts& facts = answer.facts;
  // As many slices as a rank has make a difference to the first: none or some gradients are there before.
  const std::int64_t slices = facts.slices >= 2 * request.ranks ? 2 : 1;
  if (const std::string why = why_not_measured(config, task, slices); !why.empty())
    throw Error(expected_got("--ranks", "steps that can be measured here, or --machine with [device]", why));
  const std::int64_t here = answer.network.ranks_per_node, threads = request.threads_here(here);
  at::set_num_threads(static_cast<int>(threads));
  const MeasuredSlice measured = measure_slices(config, task, slices, facts.program);
  const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const double shared = std::max(1.0, static_cast<double>(here * threads) / static_cast<double>(cores));
  facts.slice_seconds = shared * measured.passes_seconds / static_cast<double>(slices);
  facts.rest_seconds = shared * measured.rest_seconds;
  if (const auto available = available_memory_bytes()) answer.room = *available / here;
  answer.sources.push_back(fmt::format(
      "computation: {} of {} here, on {}{}", pages::counted(measured.steps, "step"), pages::counted(slices, "slice"),
      pages::counted(threads, "thread"),
      shared > 1
          ? fmt::format("; {} ranks share {} cores, so that each takes {:.3g} times as long", here, cores, shared)
          : ""));
}

LayoutAnswer answer_to(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                       const LayoutRequest& request) {
  LayoutAnswer answer;
  runs::StepFacts& facts = answer.facts;
  facts.slices = config.training.micro_batches;
  facts.moments_divide = config.training.optimizer == "adamw";
  runs::RunConfig slice = config;
  slice.training = runs::one_slice(config.training);
  const std::int64_t window = std::max<std::int64_t>(1, task->data(config.model, config.training).window);
  facts.tokens_of_slice = slice.training.batch * window;
  const runs::StepMemory alone = runs::step_memory(slice, *task);
  slice.training.batch *= 2;
  slice.training.micro_batches = 2;
  const runs::StepMemory among = facts.slices > 1 ? runs::step_memory(slice, *task) : alone;
  for (const runs::StepMemory* each : {&alone, &among})
    if (!each->is_known())
      throw Error(expected_got("--ranks", "a model whose memory is known before it is trained", each->unknown));
  facts.alone = alone.held;
  facts.among = among.held;
  facts.learned = alone.learned;
  facts.divided = alone.divided;
  if (const auto* model = config.model.get_if<LanguageModelOptions>())
    facts.shape = shape_of(*model, config.training.recompute);
  runs::Machine machine = request.machine;
  const bool has_network = machine.within_node || machine.between_nodes;
  if (request.ranks > 1 && !machine.device) {
    const NetworkSpeed here = request.network_here(std::min(request.ranks, most_ranks_measured));
    facts.program = here.resident_bytes + request.data_bytes;
    if (!has_network) {
      machine.within_node = here.machine().within_node;
      answer.sources.push_back(fmt::format("communication: {} here, as `cogwheel bench network` measures them",
                                           pages::counted(here.ranks, "rank")));
    }
  } else if (!machine.device) {
    facts.program = resident_memory_bytes().value_or(0);
  }
  answer.network = runs::network_of(machine, request.ranks, request.machine_file);
  if (machine.device)
    take_device(answer, config, *machine.device);
  else
    take_this_machine(answer, config, task, request);
  answer.forecast = runs::layout_forecast(request.ranks, facts, answer.network, answer.room);
  return answer;
}

std::string seconds_cell(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : fmt::format("{:.3g} s", seconds);
}

std::string hours_cell(double hours) {
  return hours < 100 ? fmt::format("{:.3g}", hours) : pages::grouped(std::llround(hours));
}

double run_seconds(const runs::LayoutCost& cost, const runs::RunConfig& config) {
  return cost.step_seconds() * static_cast<double>(config.training.steps);
}

double rank_hours(const runs::LayoutCost& cost, const runs::RunConfig& config) {
  constexpr double seconds_of_hour = 3600;
  return run_seconds(cost, config) * static_cast<double>(cost.layout.ranks()) / seconds_of_hour;
}

void print_answer(const LayoutAnswer& answer, const runs::RunConfig& config, const LayoutRequest& request) {
  const std::string& name = request.machine.name;
  fmt::print("{}: {}, {} parameters; {} in {}, {} each\n{}{}\n", config.name, runs::common(config.model).mechanism,
             pages::grouped(runs::parameter_count(config.model)), pages::counted(config.training.steps, "step"),
             pages::counted(answer.facts.slices, "slice"), pages::counted(answer.facts.tokens_of_slice, "token"),
             pages::counted(request.ranks, "rank"), name.empty() ? "" : " of " + name);
  for (const std::string& source : answer.sources) fmt::print("{}\n", source);
  if (!answer.forecast.layouts.empty()) {
    pages::TextTable table{.title = {},
                           .columns = {"layout", "memory of a rank", "computation", "communication", "a step",
                                       "the run", "rank hours", "in this build"},
                           .rows = {}};
    for (const runs::LayoutCost& cost : answer.forecast.layouts)
      table.rows.push_back({cost.layout.text(), pages::byte_size(cost.bytes()), seconds_cell(cost.computation),
                            seconds_cell(cost.communication), seconds_cell(cost.step_seconds()),
                            days_text(run_seconds(cost, config)), hours_cell(rank_hours(cost, config)),
                            cost.layout.missing().empty() ? "yes, on CPUs" : "no: " + cost.layout.missing()});
    fmt::print("\n{}", pages::table_text(table));
  }
  if (answer.forecast.refused.empty()) return;
  fmt::print("\nnot possible:\n");
  for (const runs::Refusal& each : answer.forecast.refused) fmt::print("  {}: {}\n", each.layout, each.reason);
}

void print_answer_json(const LayoutAnswer& answer, const runs::RunConfig& config, const LayoutRequest& request) {
  using Json = nlohmann::ordered_json;
  const auto link = [](const runs::Link& each) {
    return Json{{"latency", each.latency}, {"bandwidth", each.bandwidth}};
  };
  Json layouts = Json::array(), refused = Json::array();
  for (const runs::LayoutCost& cost : answer.forecast.layouts) {
    Json memory = Json::object();
    for (const runs::MemoryPart& each : cost.memory) memory[each.name] = each.bytes;
    layouts.push_back({{"name", cost.layout.text()},
                       {"data", cost.layout.data},
                       {"context", cost.layout.context},
                       {"tensor", cost.layout.tensor},
                       {"divides_moments", cost.layout.divides_moments},
                       {"runs", cost.layout.missing().empty()},
                       {"memory", memory},
                       {"bytes", cost.bytes()},
                       {"computation_seconds", cost.computation},
                       {"communication_seconds", cost.communication},
                       {"step_seconds", cost.step_seconds()},
                       {"seconds", run_seconds(cost, config)},
                       {"rank_hours", rank_hours(cost, config)}});
  }
  for (const runs::Refusal& each : answer.forecast.refused)
    refused.push_back({{"name", each.layout}, {"reason", each.reason}, {"too_large", each.too_large}});
  const runs::StepFacts& facts = answer.facts;
  Json json{{"name", config.name},
            {"parameters", runs::parameter_count(config.model)},
            {"steps", config.training.steps},
            {"slices", facts.slices},
            {"tokens_per_step", facts.slices * facts.tokens_of_slice},
            {"ranks", request.ranks},
            {"machine", request.machine.name},
            {"sources", answer.sources},
            {"slice_seconds", facts.slice_seconds},
            {"rest_seconds", facts.rest_seconds},
            {"flops_per_step", answer.flops_of_step ? Json(*answer.flops_of_step) : Json(nullptr)},
            {"room_bytes", answer.room ? Json(*answer.room) : Json(nullptr)},
            {"network",
             {{"ranks_per_node", answer.network.ranks_per_node},
              {"within_node", link(answer.network.within)},
              {"between_nodes", link(answer.network.between)}}},
            {"layouts", layouts},
            {"refused", refused}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

void forecast_layouts(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                      const LayoutRequest& request) {
  const LayoutAnswer answer = answer_to(config, task, request);
  const std::vector<runs::Refusal>& refused = answer.forecast.refused;
  const auto too_large = [](const runs::Refusal& each) { return each.too_large; };
  if (answer.forecast.layouts.empty() && std::none_of(refused.begin(), refused.end(), too_large))
    throw UsageError(
        expected_got("--ranks", "a number of ranks that can share the step",
                     fmt::format("{} ({}: {})", request.ranks, refused.front().layout, refused.front().reason)));
  if (request.json)
    print_answer_json(answer, config, request);
  else
    print_answer(answer, config, request);
}

std::string days_text(double seconds) {
  constexpr double seconds_of_day = 86'400, few = 10;
  const double days = seconds / seconds_of_day;
  if (days < 2) return duration_text(seconds);
  return days < few ? fmt::format("{:.1f} days", days) : fmt::format("{} days", pages::grouped(std::llround(days)));
}

}  // namespace cogwheel::cli
