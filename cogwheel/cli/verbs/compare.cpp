#include <fmt/format.h>

#include <filesystem>

#include "cogwheel/attention/mechanisms/catalogue.h"
#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/comparison_run.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/cli/number_option.h"
#include "cogwheel/cli/task_files.h"
#include "cogwheel/cli/training.h"
#include "cogwheel/cli/workers.h"
#include "cogwheel/compare/plan/plan.h"
#include "cogwheel/compare/plan/presets.h"
#include "cogwheel/compare/plan/row_tasks.h"
#include "cogwheel/compare/plan/variants.h"
#include "cogwheel/compare/record/verdict.h"
#include "cogwheel/core/error.h"
#include "cogwheel/runs/run_folder.h"

namespace cogwheel::cli {
namespace fs = std::filesystem;
namespace {

struct Arguments {
  compare::CompareRequest request;  // without its variants
  std::vector<std::string> variants;
  std::string variants_file;
  std::string out, resume;
  bool resumes = false;          // --resume was given, even with an empty name
  std::vector<std::string> add;  // rows, folder
  bool overwrite = false;
  Workers workers{.count = 0};
  std::string join;
  Definitions definitions;

  // With what its workers need to know.
  Workers used_workers() const {
    Workers used = workers;
    for (const std::string& line : definitions.lines) used.options.insert(used.options.end(), {"--define", line});
    for (const std::string& file : definitions.files)
      used.options.insert(used.options.end(), {"--mechanism-file", file});
    return used;
  }
};

void compare_in(const compare::ComparisonFolder& folder, compare::Comparison comparison, const compare::RowTasks& tasks,
                const compare::StepBudget& budget, const Workers& workers) {
  const compare::ComparisonJob job = run_comparison(folder, std::move(comparison), tasks, budget, workers);
  fmt::print("{}\n{}\n", compare::verdict(job.comparison()), folder.report_path().string());
  job.expect_success();
}

void start(const Arguments& arguments) {
  compare::CompareRequest request = arguments.request;
  if (!arguments.variants_file.empty()) request.variants = compare::read_variants(arguments.variants_file);
  for (const std::string& text : arguments.variants)
    request.variants.push_back(compare::parse_variant(text, "--variant"));
  compare::Comparison comparison = compare::plan_comparison(request);
  const compare::RowTasks tasks = compare::load_tasks(comparison);
  if (!arguments.out.empty()) expect_not_replaced(comparison.configuration, arguments.out);
  say_how_data_are_taken(*tasks.shared());
  // The last check, because afterwards the replaced files are gone.
  const auto folder = compare::ComparisonFolder::create(
      arguments.out.empty() ? runs::new_run_path("compare") : fs::path(arguments.out), arguments.overwrite);
  folder.write_records(*tasks.shared());
  runs::point_latest_at(folder.path());
  compare_in(folder, std::move(comparison), tasks, compare::requested_budget(request), arguments.used_workers());
}

void resume(const fs::path& path, const std::vector<std::string>& added, const Workers& workers) {
  const compare::ComparisonFolder folder = compare::ComparisonFolder::resume(path);
  compare::Comparison comparison = folder.read();
  compare::add_rows(comparison, added);
  const compare::RowTasks tasks = compare::load_tasks(comparison, folder.path());
  folder.expect_runs_match(comparison, tasks);
  compare_in(folder, std::move(comparison), tasks, {}, workers);
}

void compare(const Arguments& arguments) {
  register_definitions(arguments.definitions);
  if (!arguments.join.empty()) return join_comparison(arguments.join);
  const Workers workers = arguments.used_workers();
  if (arguments.resumes) return resume(arguments.resume, {}, workers);
  if (arguments.add.empty()) return start(arguments);
  resume(arguments.add.back(), {arguments.add.begin(), arguments.add.end() - 1}, workers);
}

std::string preset_help() {
  std::string help = "size of models and runs (default: small)";
  for (const runs::Preset& preset : compare::presets()) help += fmt::format("\n  {}: {}", preset.name, preset.summary);
  return help;
}

}  // namespace

void add_compare_command(CLI::App& app) {
  const auto arguments = std::make_shared<Arguments>();
  compare::CompareRequest& request = arguments->request;
  CLI::App* command = app.add_subcommand(
      "compare", "Train several mechanisms, or variants of a model, under one matched budget and write a report");
  CLI::Option* text =
      command->add_option("--text", request.text, "files or folders to train on; by default Python's standard library");
  text->type_name("PATH");
  CLI::Option* corpus = command->add_option("--corpus", request.corpus,
                                            "folders of `cogwheel data prepare` to train on, instead of a text");
  corpus->type_name("DIR");
  std::vector<CLI::Option*> settings{text, corpus};
  const auto add = [&](const std::string& name, auto& value, const std::string& help, const std::string& type) {
    CLI::Option* option = command->add_option(name, value, help)->type_name(type);
    settings.push_back(option);
    return option;
  };
  add("--task", request.task, "what is learned; cogwheel list tasks shows them (default: that of the preset)", "NAME");
  for (CLI::Option* option : add_task_file_options(*command, request.task_files)) settings.push_back(option);
  add("--attention", request.attention,
      "mechanisms, or hybrids of at most the preset's layers such as gla+softmax, separated by commas (default: "
      "the preset's; of language models softmax, Cog, Cog between softmax layers, differential and symmetric)",
      "NAMES")
      ->delimiter(',');
  add("--variant", arguments->variants,
      "rows that differ in more, or in something else, than their mechanism: a name and keys of the model, the task "
      "and "
      "the training, as in \"outer: model.mechanism=cog model.first_softmax_layers=1\"",
      "\"NAME: KEY=VALUE ...\"");
  add("--variants", arguments->variants_file, "a file with more of them, a table [variants.NAME] each", "FILE");
  settings.push_back(command
                         ->add_option_function<std::vector<std::string>>(
                             "--widths",
                             [&request](const std::vector<std::string>& widths) {
                               for (const std::string& width : widths)
                                 request.widths.push_back(parse_number("--widths", width, compare::widths_range));
                             },
                             "each row at each of these widths of its model, separated by commas: how its loss falls "
                             "with size")
                         ->delimiter(',')
                         ->type_name("N"));
  add("--preset", request.preset, preset_help(), "NAME");
  add("--form", request.form,
      "of the models: gpt (learned positions, LayerNorm, GELU) or llama (rotary positions, RMSNorm, SwiGLU) (default: "
      "that of the preset)",
      "NAME");
  add("--position", request.position, "none, learned, rotary or rotary_halves, instead of the form's", "NAME");
  add("--recurrent-layer", request.recurrent_layer,
      "of mechanisms with a state: paper, or plain, projections and gates alone (default: paper)", "KIND");
  const auto add_count = [&](const std::string& name, auto& value, const auto& range, const std::string& help,
                             const std::string& type) {
    settings.push_back(add_number(*command, name, value, range, help)->type_name(type));
  };
  add_count("--dropout", request.dropout, runs::dropout_range,
            "in training: embedding, attention weights, what layers add (default: the preset's, mostly 0)", "RATE");
  add("--device", request.device,
      "where models are and learn: cpu, cuda, cuda:1, mps or xpu, of which only cpu has been tried (default: cpu)",
      "NAME");
  add("--precision", request.precision, "of the matrix products in training: fp32 or bf16 (default: fp32)", "KIND");
  add_count("--seeds", request.seeds, compare::seeds_range, "runs of each mechanism, paired by seed (default: 3)", "K");
  add("--match", request.match, "what is equal: parameters (and tokens), time, or only tokens (default: parameters)",
      "WHAT");
  add_count("--steps", request.steps, runs::steps_range,
            "training steps of a run; by default the preset's, or as many as fit its time", "N");
  add_count("--tune", request.tune, compare::tune_range,
            "try K learning rates for each mechanism first, on a part of the training text", "K");
  add_count("--learning-rate", request.learning_rate, runs::learning_rate_range, "instead of the preset's", "RATE");
  add_count("--bytes", request.bytes, Range<std::int64_t>{1, std::int64_t{1} << 50},
            "the first bytes of the text alone (default: all, of Python's library 8 MiB)", "N");
  add("--baseline", request.baseline, "what the others are compared with (default: softmax)", "NAME");
  add("--tokenizer", request.tokenizer,
      "character, byte, or bpe: pairs of bytes, learned from the text (default: character)", "KIND");
  add("--set", request.set, "keys of the configuration instead of the preset's, as in model.width=256", "KEY=VALUE");
  add("--out", arguments->out, "folder of the comparison; by default runs/<date-time>-compare", "DIR");
  settings.push_back(command->add_flag("--overwrite", arguments->overwrite, "replace the comparison that --out holds"));
  CLI::Option* resume = command->add_option("--resume", arguments->resume, "continue an interrupted comparison");
  resume->type_name("DIR");
  CLI::Option* added =
      command->add_option("--add", arguments->add, "add a mechanism, or a variant, to the comparison in DIR");
  added->option_text("ROW DIR")->expected(2);
  const auto [workers, threads] = add_worker_options(*command, arguments->workers);
  CLI::Option* join = command->add_option("--join", arguments->join,
                                          "work on the comparison in DIR, which another process makes with --workers");
  join->type_name("DIR");
  const std::vector<CLI::Option*> own{resume, added, workers, threads};  // of the process of a comparison
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments, settings, resume, added, join, own] {
    const auto given = [](const CLI::Option* option) { return option->count() > 0; };
    const CLI::Option* keeps = given(resume) ? resume : given(added) ? added : given(join) ? join : nullptr;
    if (given(resume) && given(added))
      throw UsageError(expected_got("--resume", "no --add: adding also continues what is missing", "both"));
    for (const CLI::Option* option : settings)
      if (keeps != nullptr && given(option))
        throw UsageError(
            expected_got(keeps->get_name(), "no further options: the comparison keeps its own", option->get_name()));
    for (const CLI::Option* option : own)
      if (given(join) && given(option))
        throw UsageError(
            expected_got("--join", "no " + option->get_name() + ": this process is one worker more", "both"));
    arguments->resumes = resume->count() > 0;
    compare(*arguments);
  });
}

}  // namespace cogwheel::cli
