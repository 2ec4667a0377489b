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
#include "cogwheel/cli/forecast/network_speed.h"
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

constexpr double seconds_of_a_sum = 0.2;  // for each size

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
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const Mechanism& mechanism = find_mechanism(layer_mechanism(model, layer));
    shape.has_state |= mechanism.recurrent() != nullptr;
    shape.sub_heads = std::max<std::int64_t>(shape.sub_heads, mechanism.sub_heads());
  }
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
    return times * static_cast<double>(facts.held.learned) / device.memory_bandwidth;
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

// Collective: how many of a node's ranks make steps at once, of those that have a core for each thread, as the first
// one finds memory for them. Throws Error, on all, where there is none for one.
std::int64_t ranks_at_once(const runs::RunConfig& config, const runs::StepMemory& memory, std::int64_t slices,
                           std::int64_t with_cores, const distributed::Ranks& here) {
  const std::string what = "how many ranks make steps at once";
  ProcessesAtOnce found;
  if (here.is_first()) found = processes_at_once(config, memory, slices, std::max<std::int64_t>(1, with_cores));
  if (const std::string why = here.of_first(found.why_none, what); !why.empty())
    throw Error(expected_got("--ranks", "steps that can be measured here, or --machine with [device]", why));
  return std::stoll(here.of_first(std::to_string(found.count), what));
}

constexpr std::int64_t times_fewer_tokens = 4;

// A quarter of the rows of each slice; none where that is no whole number.
std::optional<runs::RunConfig> with_fewer_tokens(runs::RunConfig config) {
  const std::int64_t rows = runs::one_slice(config.training).batch;
  if (rows % times_fewer_tokens != 0) return std::nullopt;
  config.training.batch = rows / times_fewer_tokens * config.training.micro_batches;
  return config;
}

// A rank's slices beside those of others on this machine, then as slow as its cores are shared.
void take_this_machine(LayoutAnswer& answer, const runs::RunConfig& config,
                       const std::shared_ptr<const runs::Task>& task, const runs::StepMemory& memory,
                       const LayoutRequest& request) {
  runs::StepFacts& facts = answer.facts;
  // As many slices as a rank has make a difference to the first: none or some gradients are there before.
  const std::int64_t slices = facts.slices >= 2 * request.ranks ? 2 : 1;
  const RanksOfNode on_node = ranks_of_this_node(request.here);
  const std::int64_t of_node = answer.network.ranks_per_node, threads = at::get_num_threads(),
                     cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency()),
                     with_cores = std::min({of_node, on_node.count, cores / threads});
  const std::optional<std::int64_t> available = available_memory_bytes();
  const std::int64_t at_once = ranks_at_once(config, memory, slices, with_cores, request.here);
  const bool steps_here = on_node.place < at_once;
  const MeasuredSlice measured =
      measure_slices(config, task, slices, {.ranks = request.here, .steps_here = steps_here});
  const double shared = std::max(1.0, static_cast<double>(of_node * threads) / static_cast<double>(cores));
  facts.slice_seconds = shared * measured.passes_seconds / static_cast<double>(slices);
  facts.rest_seconds = shared * measured.rest_seconds;
  // Ranks that share a text have fewer tokens each, and as many calls.
  if (facts.shape && !facts.shape->has_state && request.ranks > 1)
    if (const std::optional<runs::RunConfig> quarter = with_fewer_tokens(config)) {
      const MeasuredSlice few =
          measure_slices(*quarter, task, slices, {.ranks = request.here, .steps_here = steps_here});
      const double fixed = (times_fewer_tokens * few.passes_seconds - measured.passes_seconds) /
                           (times_fewer_tokens - 1) / static_cast<double>(slices);
      facts.fixed_seconds = std::clamp(shared * fixed, 0.0, facts.slice_seconds);
    }
  if (available) answer.room = (*available + on_node.count * facts.program) / of_node;  // the program is here already
  answer.sources.push_back(fmt::format(
      "computation: {} of {} here, on {}{}{}", pages::counted(measured.steps, "step"), pages::counted(slices, "slice"),
      pages::counted(threads, "thread"), at_once > 1 ? fmt::format(" of each of {} ranks at once", at_once) : "",
      shared > 1
          ? fmt::format("; {} ranks share {} cores, so that each takes {:.3g} times as long", of_node, cores, shared)
          : ""));
}

// Before anything is made that steps would have freed by then.
std::int64_t program_of_largest(const distributed::Ranks& here) {
  const auto resident = static_cast<double>(resident_memory_bytes().value_or(0));
  return static_cast<std::int64_t>(largest_of_ranks(here, {resident}, "memory of ranks").front());
}

// As `here` exchanges.
runs::Machine with_network(runs::Machine machine, const distributed::Ranks& here, LayoutAnswer& answer) {
  const runs::Machine found = measure_network(here, seconds_of_a_sum).machine();
  if (machine.devices_per_node == 0) machine.devices_per_node = found.devices_per_node;
  machine.within_node = found.within_node;
  machine.between_nodes = found.between_nodes;
  answer.sources.push_back(fmt::format("communication: {} here, as `cogwheel bench network` measures them",
                                       pages::counted(here.count(), "rank")));
  if (!machine.within_node && machine.devices_per_node > 1) {
    machine.within_node = found.between_nodes;
    answer.sources.emplace_back("links within a node are taken to be those between nodes");
  }
  return machine;
}

LayoutAnswer answer_to(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                       const LayoutRequest& request) {
  LayoutAnswer answer;
  runs::StepFacts& facts = answer.facts;
  runs::Machine machine = request.machine;
  if (!machine.device) facts.program = program_of_largest(request.here);
  facts.slices = config.training.micro_batches;
  facts.moments_divide = config.training.optimizer == "adamw";
  runs::RunConfig slice = config;
  slice.training = runs::one_slice(config.training);
  const std::int64_t window = std::max<std::int64_t>(1, task->data(config.model, config.training).window);
  facts.tokens_of_slice = slice.training.batch * window;
  const runs::StepMemory memory = runs::step_memory(slice, *task);
  if (!memory.is_known())
    throw Error(expected_got("--ranks", "a model whose memory is known before it is trained", memory.unknown));
  facts.held = memory.held;
  facts.divided = memory.divided;
  if (const auto* model = config.model.get_if<LanguageModelOptions>())
    facts.shape = shape_of(*model, config.training.recompute);
  facts.refused = [task, model = config.model](std::int64_t context, std::int64_t tensor) -> std::string {
    try {
      task->expect_shared(model, context, tensor);
      return "";
    } catch (const UsageError& refusal) {
      return refusal.what();
    }
  };
  const bool has_network = machine.within_node || machine.between_nodes;
  if (request.here.count() > 1 && !machine.device && !has_network)
    machine = with_network(std::move(machine), request.here, answer);
  answer.network = runs::network_of(machine, request.ranks, request.machine_file);
  if (machine.device)
    take_device(answer, config, *machine.device);
  else
    take_this_machine(answer, config, task, memory, request);
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
  fmt::print("\nleft out:\n");
  for (const runs::Refusal& each : answer.forecast.refused) fmt::print("  {}: {}\n", each.layout, each.reason);
}

void print_answer_json(const LayoutAnswer& answer, const runs::RunConfig& config, const LayoutRequest& request) {
  using Json = nlohmann::ordered_json;
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
            {"fixed_seconds", facts.fixed_seconds},
            {"rest_seconds", facts.rest_seconds},
            {"flops_per_step", answer.flops_of_step ? Json(*answer.flops_of_step) : Json(nullptr)},
            {"room_bytes", answer.room ? Json(*answer.room) : Json(nullptr)},
            {"network",
             {{"ranks_per_node", answer.network.ranks_per_node},
              {"within_node", link_json(answer.network.within)},
              {"between_nodes", link_json(answer.network.between)}}},
            {"layouts", layouts},
            {"refused", refused}};
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

std::optional<RanksToStart> ranks_to_start(const LayoutRequest& request) {
  const runs::Machine& machine = request.machine;
  if (machine.device || request.ranks == 1) return std::nullopt;
  std::int64_t of_node =
      machine.devices_per_node > 0 ? std::min(machine.devices_per_node, request.ranks) : request.ranks;
  if (machine.within_node || machine.between_nodes)
    of_node = runs::network_of(machine, request.ranks, request.machine_file).ranks_per_node;
  constexpr std::int64_t fewest = 2, most = 8;  // more would say little of a machine that has not so many cores
  return RanksToStart{.count = std::clamp(of_node, fewest, most), .of_node = of_node};
}

void forecast_layouts(const runs::RunConfig& config, const std::shared_ptr<const runs::Task>& task,
                      const LayoutRequest& request) {
  const LayoutAnswer answer = answer_to(config, task, request);
  const std::vector<runs::Refusal>& refused = answer.forecast.refused;
  const auto too_large = [](const runs::Refusal& each) { return each.too_large; };
  if (answer.forecast.layouts.empty() && std::none_of(refused.begin(), refused.end(), too_large))
    throw UsageError(
        expected_got("--ranks", "a number of ranks that can share the step",
                     fmt::format("{} ({}: {})", request.ranks, refused.front().layout, refused.front().reason)));
  if (!request.here.is_first()) return;
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
