// A small comparison with everything in it: three mechanisms, two seeds, one run that diverged.
#pragma once
#include "cogwheel/compare/record/comparison.h"
#include "cogwheel/runs/default_task.h"
#include "cogwheel/runs/inspection.h"
#include "cogwheel/tasks/language/language_model_options.h"

namespace cogwheel::compare {

inline Comparison example_comparison() {
  Comparison comparison;
  comparison.command = "cogwheel compare --text a.txt --seeds 2 --steps 40";
  comparison.created = "2026-03-12T10:20:30Z";
  comparison.versions = {.cogwheel = "0.1.0", .torch = "2.13.0", .compiler = "GCC 12.2", .chart_js = "3.9.1"};
  comparison.machine = {.cpu = "A CPU",
                        .instructions = "AVX2",
                        .matrix_products = "MKL",
                        .system = "Linux",
                        .cores = 2,
                        .threads = 2,
                        .memory_bytes = 8LL << 30};
  comparison.task = runs::describe_language_modelling("character");
  comparison.data = {.name = "a.txt",
                     .tokenizer = "character",
                     .sha256 = std::string(64, 'a'),
                     .text = {"a.txt"},
                     .byte_limit = 0,
                     .bytes = 5000,
                     .vocabulary = 30,
                     .train_tokens = 4500,
                     .held_out_tokens = 500,
                     .evaluated_tokens = 500,
                     .curve_tokens = 256};
  comparison.settings = {.preset = "tiny", .steps = 40, .tune = 2, .wall_seconds = 75, .seeds = {1, 2}};
  comparison.configuration.model =
      tasks::language::LanguageModelOptions{.context = 16, .layers = 2, .heads = 2, .width = 32};
  comparison.configuration.training.batch = 4;
  comparison.match = "parameters";
  comparison.baseline = "softmax";
  const auto plan = [](const char* name, const char* title, std::int64_t unmatched) {
    return MechanismPlan{.name = name,
                         .title = title,
                         .formula = "w < v & \"q\"",
                         .steps = 40,
                         .learning_rate = 1e-3,
                         .heads = 2,
                         .feed_forward = 128,
                         .parameters = 10000,
                         .parameters_unmatched = unmatched};
  };
  comparison.mechanisms = {plan("softmax", "Softmax", 10000), plan("cog", "Cog", 10000),
                           plan("symmetric", "Symmetric", 9000)};
  comparison.tuning = {{.mechanism = "cog", .learning_rate = 5e-4, .steps = 20, .value = 2.5},
                       {.mechanism = "cog", .learning_rate = 2e-3, .steps = 20, .value = {}, .chosen = true}};
  const auto run = [](const char* mechanism, std::int64_t seed, double loss) {
    return RunResult{
        .mechanism = mechanism,
        .seed = seed,
        .learning_rate = 1e-3,
        .parameters = 10000,
        .tokens = 2560,
        .seconds = 1.5,
        .tokens_per_second = 1706.7,
        .peak_memory_bytes = 200LL << 20,
        .status = RunStatus::done,
        .message = "",
        .measured = {{"held_out_loss", loss}},
        .curve = {{20, loss + 0.5, {{"held_out_loss", loss + 0.4}}}, {40, loss + 0.1, {{"held_out_loss", loss}}}}};
  };
  comparison.runs = {run("softmax", 1, 2.0), run("cog", 1, 1.9),  run("symmetric", 1, 2.1),
                     run("softmax", 2, 2.1), run("cog", 2, 1.99), run("symmetric", 2, 2.2)};
  RunResult& diverged = comparison.runs.back();
  diverged.status = RunStatus::diverged;
  diverged.message = "loss <nan>";
  diverged.measured.clear();
  diverged.peak_memory_bytes.reset();
  diverged.curve.back().measured.clear();
  comparison.summary = summarize(comparison);
  return comparison;
}

inline std::vector<runs::Inspection> example_inspections() {
  std::vector<runs::Inspection> inspections;
  for (const char* mechanism : {"softmax", "cog"})
    inspections.push_back({.mechanism = mechanism,
                           .seed = 1,
                           .tokens = {"<", "&"},
                           .maps = {{{{1, 0, 0.5F, 0.5F}}}},
                           .prompt = "</script><script>alert(1)</script>",
                           .sample = "<img src=x onerror=alert(1)>"});
  return inspections;
}

}  // namespace cogwheel::compare
