// What the models here have otherwise is refused by name, never taken for something else.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "cogwheel/interchange/export_run.h"
#include "cogwheel/interchange/import_run.h"
#include "cogwheel/tasks/images/vision_transformer_options.h"
#include "cogwheel/tasks/language/language_model_options.h"
#include "interchange/foreign_example.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace cogwheel::interchange::interchange_refusals {
namespace {

// The message for a folder that was changed, less the path of the folder.
std::string refusal(ForeignExample example, const std::function<void(ForeignExample&)>& change) {
  change(example);
  const TemporaryFolder temporary;
  example.write(temporary.path());
  std::string message = error_of([&] { read_foreign_model(temporary.path()); });
  const std::string place = temporary.path().string() + "/";
  EXPECT_TRUE(message.starts_with(place)) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message.substr(std::min(place.size(), message.size()));
}

std::string with_key(const ForeignExample& example, const char* key, const nlohmann::json& value) {
  return refusal(example, [&](ForeignExample& each) { each.config[key] = value; });
}

TEST(InterchangeRefuses, ConfigurationsThatComputeSomethingElse) {
  EXPECT_EQ(with_key(bert_example(false), "hidden_act", "relu"),
            "config.json: hidden_act: expected \"gelu\", as the models here have it, got \"relu\"");
  EXPECT_EQ(with_key(bert_example(false), "position_embedding_type", "relative_key"),
            "config.json: position_embedding_type: expected \"absolute\", as the models here have it, got "
            "\"relative_key\"");
  EXPECT_EQ(with_key(vit_example(), "layer_norm_eps", 1e-6),
            "config.json: layer_norm_eps: expected 1e-12, as the models here have it, got 1e-06");
  EXPECT_EQ(with_key(vit_example(), "qkv_bias", false),
            "config.json: qkv_bias: expected true, as the models here have it, got false");
  EXPECT_EQ(with_key(bert_example(true), "problem_type", "regression"),
            "config.json: problem_type: expected \"single_label_classification\", as the models here have it, got "
            "\"regression\"");
  EXPECT_EQ(with_key(u_vit_example(), "mlp_time_embed", true),
            "config.json: mlp_time_embed: expected false, as the models here have it, got true");
  EXPECT_EQ(
      with_key(vit_example(), "layer_scale", 0.1),
      "config.json: expected keys whose meaning is known here (remove it if it changes nothing), got layer_scale: "
      "0.1");
  EXPECT_EQ(with_key(vit_example(), "num_attention_heads", 5),
            "config.json: heads: expected a divisor of the width (24), got 5");
  EXPECT_EQ(with_key(vit_example(), "image_size", {8, 8}),
            "config.json: image_size: expected a whole number, 1 to 16384, got [8,8]");
  EXPECT_EQ(with_key(vit_example(), "id2label", {{"0", "ant"}, {"2", "bee"}}),
            "config.json: id2label: expected names under the keys 0 to 1, got \"2\": \"bee\"");
  EXPECT_EQ(
      with_key(vit_example(), "architectures", {"ViTModel"}),
      "config.json: architectures: expected one of BertForMaskedLM, BertForSequenceClassification, "
      "ViTForImageClassification, UViT, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
      "DiffLlamaForCausalLM, GPT2LMHeadModel, CogwheelForCausalLM, got ViTModel");
}

TEST(InterchangeRefuses, TensorsThatAreMissingStrangeOrIllShaped) {
  const std::string query = "bert.encoder.layer.1.attention.self.key.weight", words = "cls.predictions.decoder.weight";
  const auto with = [&](const std::function<void(NamedTensors&)>& change) {
    return refusal(bert_example(false), [&](ForeignExample& each) { change(each.weights); });
  };
  EXPECT_EQ(with([&](NamedTensors& weights) { weights.erase(query); }),
            "model.safetensors: expected " + query + " of shape [24, 24], got no such tensor");
  EXPECT_EQ(with([&](NamedTensors& weights) {
              weights[query] = at::zeros({24, 23});
            }),
            "model.safetensors: expected " + query + " of shape [24, 24], got shape [24, 23]");
  EXPECT_EQ(with([&](NamedTensors& weights) {
              weights[query] = at::zeros({24, 24}, at::kDouble);
            }),
            "model.safetensors: " + query + ": expected float32, float16 or bfloat16, got float64");
  EXPECT_EQ(with([&](NamedTensors& weights) { weights[query][3][4] = std::numeric_limits<float>::infinity(); }),
            "model.safetensors: " + query + ": expected finite numbers, got NaN or infinity");
  EXPECT_EQ(with([&](NamedTensors& weights) { weights["bert.encoder.layer.2.x"] = at::zeros({1}); }),
            "model.safetensors: expected the tensors of BertForMaskedLM, got another, bert.encoder.layer.2.x");
  EXPECT_EQ(with([&](NamedTensors& weights) {
              weights[words] = at::zeros({20, 24});
            }),
            "model.safetensors: " + words +
                ": expected the numbers of bert.embeddings.word_embeddings.weight, to which it is tied, got others");
}

TEST(InterchangeRefuses, OtherTokenizersAndPixels) {
  EXPECT_EQ(refusal(bert_example(true), [](ForeignExample& each) { each.vocabulary += "z\n"; }),
            "vocab.txt: expected 20 pieces, as vocab_size of config.json says, got 21");
  const TemporaryFolder temporary;
  vit_example().write(temporary.path());
  temporary.write("preprocessor_config.json", R"({"image_mean": [0.485, 0.456, 0.406]})");
  const std::string message = error_of([&] { read_foreign_model(temporary.path()); });
  EXPECT_NE(message.find("image_mean: expected [0.5,0.5,0.5], as images are scaled here, got [0.485,0.456,0.406]"),
            std::string::npos)
      << message;
  bert_example(false).write(temporary.path() / "bert");
  temporary.write("bert/tokenizer_config.json", R"({"do_lower_case": true, "strip_accents": false})");
  EXPECT_EQ(error_of([&] { read_foreign_model(temporary.path() / "bert"); }),
            (temporary.path() / "bert/tokenizer_config.json").string() + ": strip_accents: expected true, got false");
}

TEST(InterchangeRefuses, PicklesAndSaysHowToConvertThem) {
  const TemporaryFolder temporary;
  vit_example().write(temporary.path());
  std::filesystem::rename(temporary.path() / "model.safetensors", temporary.path() / "pytorch_model.bin");
  const std::string message = error_of([&] { read_foreign_model(temporary.path()); });
  EXPECT_NE(message.find("pytorch_model.bin alone, a pickle; to convert it"), std::string::npos) << message;
}

TEST(InterchangeRefuses, ToExportWhatNoArchitectureKnows) {
  const TemporaryFolder temporary;
  vit_example().write(temporary.path() / "there");
  ImportedModel imported = read_foreign_model(temporary.path() / "there");
  write_imported_run(imported, temporary.path() / "run");
  const auto refused = [&](const std::function<void(tasks::images::VisionTransformerOptions&)>& change) {
    runs::RunConfig config = imported.config;
    change(config.model.as<tasks::images::VisionTransformerOptions>());
    const std::string said = error_of([&] { foreign_model(config, imported.weights, temporary.path() / "run"); });
    const std::string run = (temporary.path() / "run").string() + ": ";
    return said.starts_with(run) ? said.substr(run.size()) : said;
  };
  EXPECT_EQ(refused([](tasks::images::VisionTransformerOptions& options) { options.mechanism = "cog"; }),
            "model.mechanism of layer 0: expected softmax, the only attention of ViTForImageClassification, got cog");
  EXPECT_EQ(refused([](tasks::images::VisionTransformerOptions& options) { options.mechanism = "softmax+symmetric"; }),
            "model.mechanism of layer 1: expected softmax, the only attention of ViTForImageClassification, got "
            "symmetric");
  EXPECT_EQ(refused([](tasks::images::VisionTransformerOptions& options) { options.pooling = "mean"; }),
            "model.pooling: expected class, as in every ViTForImageClassification, got mean");
  // Cog in no layer at all is softmax.
  EXPECT_EQ(refused([](tasks::images::VisionTransformerOptions& options) {
              options.mechanism = "cog", options.first_softmax_layers = 2;
            }),
            "");
  runs::RunConfig language = imported.config;
  language.model = tasks::language::LanguageModelOptions{.mechanism = "cog"};
  EXPECT_EQ(error_of([&] { foreign_model(language, {}, "run", "GPT2LMHeadModel"); }),
            "run: model.mechanism of layer 0: expected softmax, as in every GPT2LMHeadModel, got cog");
  language.model = tasks::language::LanguageModelOptions{.mechanism = "softmax"};
  EXPECT_EQ(error_of([&] { foreign_model(language, {}, "run", "LlamaForCausalLM"); }),
            "run: model.norm: expected rms, as in every LlamaForCausalLM, got layer");
  EXPECT_EQ(error_of([&] { foreign_model(language, {}, "run", "BertForMaskedLM"); }),
            "run: expected a model of the form of BertForMaskedLM, got one of another");
}

}  // namespace
}  // namespace cogwheel::interchange::interchange_refusals
