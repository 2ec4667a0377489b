#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/core/atomic_file.h"
#include "cogwheel/core/utc_time.h"
#include "cogwheel/report/evaluation_page.h"
#include "cogwheel/tasks/tasks.h"

namespace cogwheel {
namespace {

struct EvaluateArguments {
  std::string run, out;
  ExaminationOptions examination;
  Definitions definitions;
};

void evaluate(const EvaluateArguments& arguments) {
  register_definitions(arguments.definitions);
  const RunFolder folder = RunFolder::open(arguments.run);
  const RunConfig config = load_config(folder.config_path());
  const EvaluationOfRun evaluation = [&] {
    ExaminationOptions options = arguments.examination;
    options.folder = folder.path();
    options.progress = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
    return evaluate_run(*make_task(config, folder.path()), config, folder, options);
  }();
  const std::filesystem::path out = arguments.out.empty() ? folder.path() : std::filesystem::path(arguments.out);
  std::filesystem::create_directories(out);
  write_file(out / evaluation_json_file, evaluation_to_json(evaluation));
  write_file(out / evaluation_page_file, evaluation_page(evaluation, arguments.run, utc_now(), COGWHEEL_VERSION));
  fmt::print("{}\n{}\n", evaluation_verdict(evaluation), (out / evaluation_page_file).string());
}

}  // namespace

void add_evaluate(CLI::App& app) {
  const auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand("evaluate", "Measure a trained model, and write a page of what it does");
  command->add_option("run", arguments->run, "the folder of the run, such as runs/latest")
      ->required()
      ->type_name("RUN");
  command->add_option("--out", arguments->out, "folder of the page; by default that of the run")->type_name("DIR");
  ExaminationOptions& examination = arguments->examination;
  command
      ->add_option("--samples", examination.samples,
                   "of diffusion: draw so many images and measure how near they are to those of the data")
      ->type_name("N");
  command->add_option("--sampler", examination.sampler, "from noise to image, as of sample")->type_name("NAME");
  command->add_option("--sampler-steps", examination.sampler_steps, "of the sampler")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--seed", examination.seed, "of what is drawn at random; by default that of the run")
      ->type_name("S");
  command
      ->add_option("--inception", examination.inception,
                   "weights of Inception-v3 as pytorch-fid names them, for FID; else a classifier is trained here")
      ->type_name("FILE");
  command->add_option("--classifier-steps", examination.classifier_steps, "of the training of that classifier")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--references", examination.references, "mean and covariance of other images' features")
      ->type_name("FILE");
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace cogwheel
