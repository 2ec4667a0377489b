#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cogwheel/cli/commands.h"
#include "cogwheel/cli/definitions.h"
#include "cogwheel/core/error.h"
#include "cogwheel/models/encoder.h"
#include "cogwheel/models/language_model.h"
#include "cogwheel/models/u_vit.h"
#include "cogwheel/models/vision_transformer.h"
#include "cogwheel/storage/run_folder.h"
#include "cogwheel/storage/safetensors.h"

namespace cogwheel {
namespace {

struct ForwardArguments {
  std::string run, input, output;
  Definitions definitions;
};

struct Inputs {
  const SafeTensors& file;
  at::Tensor operator()(const char* name) const {
    const auto found = file.tensors.find(name);
    return found == file.tensors.end() ? at::Tensor() : found->second;
  }
};

template <class Model, class Options, class Compute>
at::Tensor compute(const RunConfig& config, const RunFolder& folder, const Compute& output) {
  Model model(std::get<Options>(config.model));
  load_weights_of(*model, config, folder);
  return output(model);
}

// What the model of a run makes of tensors, for tests of its other implementations.
at::Tensor output_of(const RunConfig& config, const RunFolder& folder, const Inputs& in) {
  if (std::holds_alternative<LanguageModelOptions>(config.model))
    return compute<LanguageModel, LanguageModelOptions>(config, folder,
                                                        [&](auto& model) { return model->forward(in("tokens")); });
  if (std::holds_alternative<VisionTransformerOptions>(config.model))
    return compute<VisionTransformer, VisionTransformerOptions>(
        config, folder, [&](auto& model) { return model->forward(in("images")); });
  if (std::holds_alternative<UVitOptions>(config.model))
    return compute<UVit, UVitOptions>(config, folder, [&](auto& model) {
      return model->forward(in("images"), in("time"), {.classes = in("classes"), .vectors = in("contexts")});
    });
  if (std::holds_alternative<EncoderOptions>(config.model))
    return compute<Encoder, EncoderOptions>(config, folder, [&](auto& model) {
      const at::Tensor states = model->states(in("tokens"), in("segments"));
      return model->options().classes > 0 ? model->class_logits(states.select(1, 0)) : model->word_logits(states);
    });
  throw Error(expected_got(folder.path().string(), "a language model, an encoder, a vision transformer or a U-ViT",
                           config.task.name));
}

void forward(const ForwardArguments& arguments) {
  const torch::NoGradGuard no_grad;
  register_definitions(arguments.definitions);
  const RunFolder folder = RunFolder::open(arguments.run);
  const SafeTensors input = load_safetensors(arguments.input);
  const at::Tensor output = output_of(load_config(folder.config_path()), folder, {input});
  save_safetensors({.tensors = {{"output", output.contiguous()}}, .metadata = {}}, arguments.output);
}

}  // namespace

void add_forward(CLI::App& app) {
  const auto arguments = std::make_shared<ForwardArguments>();
  CLI::App* command = app.add_subcommand("forward", "The output of a model for given tensors");
  command->group("");  // hidden
  command->add_option("run", arguments->run)->required();
  command->add_option("input", arguments->input)->required();
  command->add_option("output", arguments->output)->required();
  add_definition_options(*command, arguments->definitions);
  command->callback([arguments] { forward(*arguments); });
}

}  // namespace cogwheel
