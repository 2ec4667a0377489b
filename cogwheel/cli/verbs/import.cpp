#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cogwheel/cli/commands.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/files/scratch_folder.h"
#include "cogwheel/interchange/import_run.h"
#include "cogwheel/runs/task_entry.h"

namespace cogwheel::cli {
namespace {

struct ImportArguments {
  std::string folder, images, text, out;
  std::vector<std::string> assignments;
  bool overwrite = false;
};

// Only the task knows its keys, and it reads data when it is made: of its own, where none are given for the model.
void expect_keys_of_task(const std::string& task, const std::vector<std::string>& assignments) {
  std::vector<std::string> of_task{"task.name=" + task};
  for (const std::string& assignment : assignments)
    if (assignment.starts_with("task.")) of_task.push_back(assignment);
  if (of_task.size() == 1) return;
  runs::RunConfig config;
  runs::set_options(config, of_task);
  runs::make_task(config);
}

// The data that the task is measured on, and settings of training; the weights decide the rest. Data are read as
// `evaluate` will, with the files of the run, so that what does not fit is refused here.
void set_task(interchange::ImportedModel& imported, const ImportArguments& arguments) {
  for (const std::string& assignment : arguments.assignments)
    if (assignment.starts_with("model.") || assignment.starts_with("task.name="))
      throw UsageError(expected_got("import: --set", "a key of the task, its data or training", assignment));
  runs::RunConfig& config = imported.config;
  const std::string tokenizer = config.data.tokenizer;  // the model's own, whatever is set
  if (!arguments.assignments.empty()) runs::set_options(config, arguments.assignments);
  config.data.tokenizer = tokenizer;
  auto& values = config.task.values;
  const bool of_images = config.task.name == "images" || config.task.name == "diffusion",
             of_text = config.task.name == runs::TaskOptions{}.name,
             has_tokenizer = std::any_of(imported.files.begin(), imported.files.end(),
                                         [](const runs::RunFile&file) { return file.name == runs::tokenizer_file; });
  const auto refuse = [](const char* option, const std::string& models, const std::string& got) {
    throw UsageError(expected_got(std::string("import: ") + option, "none for a " + models, got));
  };
  if (!arguments.images.empty() && !of_images)
    refuse("--images", "run of the task " + config.task.name, arguments.images);
  if (!arguments.text.empty() && !of_text) refuse("--text", "run of the task " + config.task.name, arguments.text);
  if (!arguments.text.empty() && !has_tokenizer) refuse("--text", "model without a tokenizer", arguments.text);
  if (!arguments.images.empty()) values["images"] = arguments.images;
  if (!arguments.text.empty()) config.data.text = {arguments.text};
  const auto given = [&](const char* key) {
    return values.contains(key) && values[key] != runs::ConfigValue(std::string());
  };
  const bool has_data = of_images ? given("images")
                        : of_text ? has_tokenizer && !(config.data.text.empty() && config.data.corpus.empty())
                                  : given("sentences") || given("held_out_sentences");
  if (!has_data) return expect_keys_of_task(config.task.name, arguments.assignments);
  const ScratchFolder folder;
  for (const runs::RunFile& file : imported.files) write_file(folder / file.name, file.content);
  const auto task = runs::make_task(config, folder.path());
  config = task->completed(config);
  for (const runs::RunFile& file : task->records()) imported.files.push_back(file);
  for (const std::string& note : task->notes()) imported.notes.push_back(note);
}

void import_model(const ImportArguments& arguments) {
  interchange::ImportedModel imported = interchange::read_foreign_model(arguments.folder);
  set_task(imported, arguments);
  const std::filesystem::path path =
      arguments.out.empty() ? runs::new_run_path(imported.config.name) : std::filesystem::path(arguments.out);
  interchange::write_imported_run(imported, path, arguments.overwrite);
  for (const std::string& note : imported.notes) fmt::print(stderr, "note: {}\n", note);
  fmt::print("{}: {}, {} parameters, a run of the task {}\n", path.string(), imported.architecture,
             runs::parameter_count(imported.config.model), imported.config.task.name);
}

}  // namespace

void add_import_command(CLI::App& app) {
  const auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "Make a run of a model that another program trained");
  command
      ->add_option("folder", arguments->folder,
                   "config.json, model.safetensors and a vocabulary or tokenizer; `cogwheel list architectures`")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--images", arguments->images,
                   "what `evaluate` measures on: CIFAR-10, folders of pictures by class, or .safetensors")
      ->type_name("PATH");
  command
      ->add_option("--text", arguments->text,
                   "what `evaluate` measures a language model on: a file, or a folder of some")
      ->type_name("PATH");
  command->add_option("--set", arguments->assignments, "keys of the task or of training, as in task.schedule=linear")
      ->type_name("KEY=VALUE");
  command->add_option("--out", arguments->out, "folder of the run; by default runs/<date-time>-<name>")
      ->type_name("RUN");
  command->add_flag("--overwrite", arguments->overwrite, "replace the run that --out holds");
  command->callback([arguments] { import_model(*arguments); });
}

}  // namespace cogwheel::cli
