#include "cogwheel/bindings/trained_model.h"

#include <c10/util/Exception.h>
#include <torch/library.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cogwheel/bindings/layer_description.h"
#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/nearest_names.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/interpret/copying.h"
#include "cogwheel/interpret/effective_attention.h"
#include "cogwheel/interpret/head_distance.h"
#include "cogwheel/interpret/head_scores.h"
#include "cogwheel/interpret/ioi_prompts.h"
#include "cogwheel/interpret/logit_attribution.h"
#include "cogwheel/interpret/matrix_rank.h"
#include "cogwheel/interpret/over_squashing.h"
#include "cogwheel/interpret/patching.h"
#include "cogwheel/interpret/path_patching.h"
#include "cogwheel/interpret/representation_distance.h"
#include "cogwheel/nn/model_holder.h"
#include "cogwheel/nn/weights/narrow_weights.h"
#include "cogwheel/ops/support/find_operator.h"
#include "cogwheel/runs/configuration/config_record.h"
#include "cogwheel/runs/run_folder.h"
#include "cogwheel/tasks/language/language_model.h"
#include "cogwheel/tasks/language/load_language_model.h"
#include "cogwheel/tasks/language/text_generation.h"
#include "cogwheel/text/text_tokens.h"
#include "cogwheel/text/tokenizer.h"

namespace cogwheel::bindings {
namespace {

interpret::Prompts prompts_of(const TrainedModel::Inputs& inputs) {
  return {runs::needed_input(inputs, "tokens"), runs::needed_input(inputs, "end"), runs::needed_input(inputs, "answer"),
          runs::needed_input(inputs, "foil")};
}

// Calls of C++ run without Python's lock, and a signal waits until Python runs again: as the kernel of this operator,
// which does nothing and raises what the handler raises, KeyboardInterrupt for Ctrl-C.
void handle_signals() {
  static const auto handle = ops::find_operator<void()>("cogwheel::handle_signals");
  handle.call();
}

at::Tensor number(double value) { return at::scalar_tensor(value, at::kDouble); }

// Of a run or new; `folder` for messages.
runs::NamedPass pass_of(const runs::RunConfig& config, const std::string& folder) {
  const runs::ModelEntry& entry = config.model.entry();
  if (entry.pass == nullptr)
    throw Error(expected_got(folder, "a language model, an encoder, a vision transformer or a U-ViT",
                             "a run of the task " + config.task.name));
  return entry.pass(config);
}

// The keys of [model], without "model.".
std::string options_text(const runs::RunConfig& config) {
  auto options = nlohmann::ordered_json::object();
  const std::string prefix = "model.";
  const auto record = runs::to_json(config);
  for (const auto& [key, value] : record.items())
    if (key.starts_with(prefix)) options[key.substr(prefix.size())] = value;
  return options.dump();
}

runs::RunConfig config_of_options(const std::string& text) {
  const auto options = nlohmann::ordered_json::parse(text);
  auto record = nlohmann::ordered_json::object();
  for (const auto& [key, value] : options.items()) record["model." + key] = value;
  return runs::config_from_json(record, "language model");
}

std::shared_ptr<const runs::RunConfig> config_of_run(const std::string& path) {
  return with_value_errors([&] {
    return std::make_shared<const runs::RunConfig>(runs::load_config(runs::RunFolder::open(path).config_path()));
  });
}

}  // namespace

TrainedModel::TrainedModel(std::shared_ptr<const runs::RunConfig> config, std::string folder, at::Device device)
    : folder_(std::move(folder)),
      config_(std::move(config)),
      topology_(config_->model.entry().name),
      options_(options_text(*config_)),
      pass_(with_value_errors([&] {
        return ParameterizedPass([config = config_, folder = folder_] { return pass_of(*config, folder); }, device);
      })) {}

TrainedModel::TrainedModel(const std::string& path) : TrainedModel(config_of_run(path), path, at::kCPU) {
  with_value_errors([&] { runs::load_weights_of(pass_.module(), *config_, runs::RunFolder::open(path)); });
}

TrainedModel::TrainedModel(const TrainedModel& other, const Inputs& parameters)
    : folder_(other.folder_),
      config_(other.config_),
      topology_(other.topology_),
      options_(other.options_),
      tokenizer_(other.tokenizer_),
      pass_(other.pass_, parameters) {}

c10::intrusive_ptr<TrainedModel> TrainedModel::language_model_of(const std::string& options, at::Device device) {
  return with_value_errors([&] {
    const auto config = std::make_shared<const runs::RunConfig>(config_of_options(options));
    return c10::intrusive_ptr<TrainedModel>::reclaim(new TrainedModel(config, "", device));
  });
}

void TrainedModel::initialize(std::int64_t seed) const {
  with_value_errors([&] { language_model().initialize(static_cast<std::uint64_t>(seed)); });
}

std::string TrainedModel::blocks() const {
  return with_value_errors([&] {
    const tasks::language::LanguageModelOptions& options = language_model().options();
    auto blocks = nlohmann::ordered_json::array();
    for (std::int64_t layer = 0; layer < options.layers; ++layer)
      blocks.push_back(description_of(tasks::language::layer_options(options, layer)));
    return blocks.dump();
  });
}

std::string TrainedModel::rotary() const {
  return with_value_errors([&] {
    const auto rotary = tasks::language::rotary_options(language_model().options());
    return (rotary ? description_of(*rotary) : nlohmann::ordered_json()).dump();
  });
}

c10::intrusive_ptr<TrainedModel> TrainedModel::with_parameters(const Inputs& parameters) const {
  return with_value_errors(
      [&] { return c10::intrusive_ptr<TrainedModel>::reclaim(new TrainedModel(*this, parameters)); });
}

std::vector<std::string> TrainedModel::inputs() const {
  std::vector<std::string> names;
  for (const runs::PassInput& input : config_->model.entry().inputs)
    names.push_back(input.name + (input.optional ? "?" : ""));
  return names;
}

at::Tensor TrainedModel::forward(const Inputs& inputs, const std::vector<std::string>& hooked,
                                 std::int64_t callback) const {
  return with_value_errors([&] { return pass_.run(inputs, hooked, callback); });
}

std::vector<at::Tensor> TrainedModel::effective_attention(const Inputs& inputs, bool by_channel) const {
  return with_value_errors([&] {
    return interpret::effective_attention([&](const nn::ForwardContext& context) { pass_.run(inputs, context); },
                                          {.by_channel = by_channel});
  });
}

const text::Tokenizer& TrainedModel::tokenizer() const {
  if (tokenizer_ == nullptr) {
    if (folder_.empty()) throw UsageError(expected_got("model", "one of a run, which has a tokenizer", "a new one"));
    const runs::RunFolder folder = runs::RunFolder::open(folder_);
    if (!std::filesystem::exists(folder.tokenizer_path()))
      throw UsageError(expected_got(folder_, "a run that reads text", "one without a tokenizer"));
    tokenizer_ = text::load_tokenizer(folder.tokenizer_path());
  }
  return *tokenizer_;
}

at::Tensor TrainedModel::tokens(const std::string& text) const {
  return with_value_errors([&] {
    const std::vector<Token> found = text::tokens_of(tokenizer(), text, "text");
    return at::tensor(std::vector<std::int64_t>(found.begin(), found.end()), at::kLong);
  });
}

std::vector<std::string> TrainedModel::pieces(const at::Tensor& tokens) const {
  return with_value_errors([&] {
    if (tokens.scalar_type() != at::kLong || tokens.dim() != 1)
      throw UsageError(expected_got("tokens", "int64 [N]", shape_text(tokens.sizes())));
    std::vector<std::string> found;
    for (std::int64_t place = 0; place < tokens.size(0); ++place) {
      const auto token = tokens[place].item<std::int64_t>();
      const std::int64_t vocabulary = tokenizer().vocabulary();
      if (token < 0 || token >= vocabulary)
        throw UsageError(expected_got("tokens", "0 to " + std::to_string(vocabulary - 1), std::to_string(token)));
      found.push_back(text::token_piece(tokenizer(), static_cast<Token>(token)));
    }
    return found;
  });
}

const text::Tokenizer* TrainedModel::tokenizer_or_null() const {
  const bool has_one = !folder_.empty() && std::filesystem::exists(runs::RunFolder::open(folder_).tokenizer_path());
  return has_one ? &tokenizer() : nullptr;
}

std::optional<std::int64_t> TrainedModel::beginning_token() const {
  return with_value_errors([&]() -> std::optional<std::int64_t> {
    const text::Tokenizer* known = tokenizer_or_null();
    return known == nullptr ? std::nullopt : known->beginning();
  });
}

std::optional<std::int64_t> TrainedModel::end_token() const {
  return with_value_errors([&]() -> std::optional<std::int64_t> {
    const text::Tokenizer* known = tokenizer_or_null();
    return known == nullptr ? std::nullopt : known->end_of_document();
  });
}

std::optional<std::int64_t> TrainedModel::token_before_texts() const {
  return with_value_errors([&]() -> std::optional<std::int64_t> {
    const text::Tokenizer* known = tokenizer_or_null();
    if (known == nullptr) return std::nullopt;
    return text::token_before_texts(*known, language_model().options().vocabulary);
  });
}

std::string TrainedModel::generate(const std::vector<at::Tensor>& given, const std::string& options_text) const {
  return with_value_errors([&] {
    language_model();  // refuses others
    auto model = nn::holder_of<tasks::language::LanguageModel>(pass_.module());
    std::vector<std::vector<Token>> prompts;
    for (const at::Tensor& prompt : given) {
      if (prompt.scalar_type() != at::kLong || prompt.dim() != 1)
        throw UsageError(expected_got("prompts", "texts, or tokens int64 [N]", shape_text(prompt.sizes())));
      const at::Tensor tokens = prompt.cpu().contiguous();
      const auto* const numbers = tokens.const_data_ptr<std::int64_t>();
      // Beyond 32 bits there are no tokens; which ones the model lacks, the generator says.
      std::vector<Token>& read = prompts.emplace_back();
      for (std::int64_t place = 0; place < tokens.numel(); ++place)
        read.push_back(static_cast<Token>(std::clamp<std::int64_t>(numbers[place], -1, 1 << 30)));
    }
    const auto options = nlohmann::json::parse(options_text);
    tasks::language::TextGenerationOptions wanted{.sampling = {.length = options.at("length"),
                                                               .repetition_penalty = options.at("repetition_penalty"),
                                                               .temperature = options.at("temperature"),
                                                               .top_k = options.at("top_k"),
                                                               .top_p = options.at("top_p"),
                                                               .min_p = options.at("min_p"),
                                                               .seed = options.at("seed"),
                                                               .stop = options.at("stop"),
                                                               .likeliest = options.at("likeliest"),
                                                               .sink = options.at("sink"),
                                                               .cache = nn::narrow_type("cache", options.at("cache"))},
                                                  .count = options.at("count"),
                                                  .batch = options.at("batch"),
                                                  .beam = options.at("beam"),
                                                  .end = {}};
    // Below 0: no token ends a text.
    if (const auto& end = options.at("end"); !end.is_null()) {
      const auto token = end.get<std::int64_t>();
      if (token >= 0) wanted.end = static_cast<Token>(std::min<std::int64_t>(token, 1 << 30));
    } else if (tokenizer_or_null() != nullptr) {
      wanted.end = tokenizer_or_null()->end_of_document();
    }
    // Made for each call, in the time of about one token: a change of the parameters need not be noticed.
    const auto narrow = narrow_weights(model, nn::narrow_type("weights", options.at("weights")));
    const nn::NarrowProducts products(narrow.get());
    const auto go_on = [](const tasks::language::GeneratedText&, std::string_view, bool) {
      handle_signals();
      return true;
    };
    auto made = nlohmann::ordered_json::array();
    for (const auto& each : tasks::language::generate_texts(model, tokenizer_or_null(), prompts, wanted, go_on))
      made.push_back(to_json(each));
    return made.dump();
  });
}

tasks::language::LanguageModelImpl& TrainedModel::language_model() const {
  auto* const model = dynamic_cast<tasks::language::LanguageModelImpl*>(&pass_.module());
  if (model == nullptr) throw UsageError(expected_got("model", "a language model", topology_));
  return *model;
}

std::vector<at::Tensor> TrainedModel::patch_activations(const Inputs& inputs, const std::string& name, bool by_token,
                                                        bool estimate) const {
  return with_value_errors([&] {
    std::vector<std::string> names;
    std::optional<nn::HookPlace> place;
    for (const nn::HookPoint& point : pass_.points()) {
      if (point.layer < 0) continue;
      const std::string of_layer(nn::hook_places()[static_cast<std::size_t>(point.place)].name);
      if (std::find(names.begin(), names.end(), of_layer) == names.end()) names.push_back(of_layer);
      if (of_layer == name) place = point.place;
    }
    if (!place) throw UsageError(expected_got("name", expected_names(name, names), name));
    const interpret::PatchingOptions options{.place = *place, .by_token = by_token};
    const interpret::Prompts prompts = prompts_of(inputs);
    const interpret::Patching patched =
        estimate
            ? interpret::attribute_patches(language_model(), prompts, runs::needed_input(inputs, "corrupted"), options)
            : interpret::patch_activations(language_model(), prompts, runs::needed_input(inputs, "corrupted"), options);
    return std::vector<at::Tensor>{number(patched.clean), number(patched.corrupted), patched.patched};
  });
}

std::vector<at::Tensor> TrainedModel::patch_paths(const Inputs& inputs, const std::vector<std::string>& receivers,
                                                  const std::vector<std::int64_t>& heads,
                                                  bool freeze_feed_forward) const {
  return with_value_errors([&] {
    interpret::PathPatchingOptions options{.freeze_feed_forward = freeze_feed_forward};
    for (std::size_t index = 0; index < receivers.size(); ++index) {
      const nn::HookPoint point = nn::find_hook_point(receivers[index], pass_.points());
      options.receivers.push_back({point.place, point.layer, heads.at(index)});
    }
    const interpret::PathPatching patched =
        interpret::patch_paths(language_model(), prompts_of(inputs), runs::needed_input(inputs, "corrupted"), options);
    return std::vector<at::Tensor>{number(patched.clean), patched.patched};
  });
}

std::tuple<std::vector<std::string>, at::Tensor> TrainedModel::attribute_logits(const Inputs& inputs) const {
  return with_value_errors([&] {
    const interpret::LogitAttribution found = interpret::attribute_logits(language_model(), prompts_of(inputs));
    return std::tuple(found.parts, found.values);
  });
}

std::vector<at::Tensor> TrainedModel::head_scores(const at::Tensor& tokens) const {
  return with_value_errors([&] {
    const interpret::HeadScores found = interpret::head_scores(language_model(), tokens);
    std::vector<at::Tensor> scores;
    for (const interpret::HeadScores::Score* each : {&found.previous, &found.duplicate, &found.induction})
      scores.push_back(at::stack({each->weight, each->magnitude}));
    return scores;
  });
}

std::vector<at::Tensor> TrainedModel::copying_scores() const {
  return with_value_errors([&] {
    const interpret::CopyingScores found = interpret::copying_scores(language_model());
    return std::vector<at::Tensor>{found.bare, found.full, number(found.null_deviation)};
  });
}

std::vector<double> TrainedModel::representation_distance(const at::Tensor& one, const at::Tensor& other) const {
  return with_value_errors([&] {
    tasks::language::LanguageModelImpl& model = language_model();
    const interpret::RepresentationDistance found =
        interpret::representation_distance(interpret::last_representation(model, one),
                                           interpret::last_representation(model, other), model.options().heads);
    return std::vector<double>{found.blocks, found.euclidean, found.relative_euclidean, found.largest,
                               found.relative_largest};
  });
}

std::vector<at::Tensor> TrainedModel::over_squashing(const at::Tensor& tokens) const {
  return with_value_errors([&] {
    const interpret::OverSquashing found = interpret::over_squashing(language_model(), tokens);
    return std::vector<at::Tensor>{found.path_product, found.path_magnitude, found.bound, found.frozen, found.full};
  });
}

TORCH_LIBRARY_FRAGMENT(cogwheel, library) {
  library.def("handle_signals() -> ()");
  library.def("matrix_rank(Tensor matrix) -> (float[] singular_values, int numerical, float[] others)",
              [](const at::Tensor& matrix) {
                return with_value_errors([&] {
                  const interpret::MatrixRank rank = interpret::matrix_rank(matrix);
                  return std::tuple(rank.singular_values, rank.numerical,
                                    std::vector<double>{rank.effective, rank.stable, rank.negative_share});
                });
              });
  library.def("score_matrices(Tensor query, Tensor key, float norm) -> (str[] names, Tensor[] matrices)",
              [](const at::Tensor& query, const at::Tensor& key, double norm) {
                return with_value_errors([&] {
                  std::tuple<std::vector<std::string>, std::vector<at::Tensor>> named;
                  for (const interpret::NamedMatrix& matrix : interpret::score_matrices(query, key, norm)) {
                    std::get<0>(named).push_back(matrix.name);
                    std::get<1>(named).push_back(matrix.values);
                  }
                  return named;
                });
              });
  library.def("head_distances(Tensor maps) -> Tensor", [](const at::Tensor& maps) {
    return with_value_errors([&] { return interpret::head_distances(maps); });
  });
  library.def("ioi_prompts(int count, int seed) -> Tensor[]", [](std::int64_t count, std::int64_t seed) {
    return with_value_errors([&] {
      if (count < 1 || seed < 0)
        throw UsageError(expected_got("ioi_prompts", "a count of 1 or more and a seed of 0 or more",
                                      std::to_string(count) + " and " + std::to_string(seed)));
      const interpret::IoiPrompts drawn = interpret::draw_ioi_prompts(count, static_cast<std::uint64_t>(seed));
      const auto places = [&](std::size_t tasks::synthetic::IoiPrompt::*place) {
        std::vector<std::int64_t> of_prompts;
        for (const tasks::synthetic::IoiPrompt& prompt : drawn.prompts)
          of_prompts.push_back(static_cast<std::int64_t>(prompt.*place));
        return at::tensor(of_prompts, at::kLong);
      };
      return std::vector<at::Tensor>{drawn.clean.tokens,
                                     drawn.clean.end,
                                     drawn.clean.answer,
                                     drawn.clean.foil,
                                     drawn.corrupted,
                                     places(&tasks::synthetic::IoiPrompt::io_at),
                                     places(&tasks::synthetic::IoiPrompt::s1_at),
                                     places(&tasks::synthetic::IoiPrompt::s2_at)};
    });
  });
  library.class_<TrainedModel>("TrainedModel")
      .def(torch::init<std::string>())
      .def("topology", [](const c10::intrusive_ptr<TrainedModel>& model) { return model->topology(); })
      .def("options", [](const c10::intrusive_ptr<TrainedModel>& model) { return model->options(); })
      .def("parameters", &TrainedModel::parameters)
      .def("with_parameters", &TrainedModel::with_parameters)
      .def_static("language_model_of", &TrainedModel::language_model_of)
      .def("initialize", &TrainedModel::initialize)
      .def("rotary", [](const c10::intrusive_ptr<TrainedModel>& model) { return model->rotary(); })
      .def("blocks", &TrainedModel::blocks)
      .def("hook_names", &TrainedModel::hook_names)
      .def("read_only_hook_names", &TrainedModel::read_only_hook_names)
      .def("on_request_hook_names", &TrainedModel::on_request_hook_names)
      .def("inputs", &TrainedModel::inputs)
      .def("forward", &TrainedModel::forward)
      .def("tokens", &TrainedModel::tokens)
      .def("pieces", &TrainedModel::pieces)
      .def("beginning_token", &TrainedModel::beginning_token)
      .def("end_token", &TrainedModel::end_token)
      .def("token_before_texts", &TrainedModel::token_before_texts)
      .def("generate", &TrainedModel::generate)
      .def("effective_attention", &TrainedModel::effective_attention)
      .def("patch_activations", &TrainedModel::patch_activations)
      .def("patch_paths", &TrainedModel::patch_paths)
      .def("attribute_logits", &TrainedModel::attribute_logits)
      .def("head_scores", &TrainedModel::head_scores)
      .def("copying_scores", &TrainedModel::copying_scores)
      .def("representation_distance", &TrainedModel::representation_distance)
      .def("over_squashing", &TrainedModel::over_squashing);
}

}  // namespace cogwheel::bindings
