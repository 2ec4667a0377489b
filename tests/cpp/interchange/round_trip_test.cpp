// Importing and exporting again gives the same bits; the run in between is one that other commands read.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstring>

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/architecture.h"
#include "cogwheel/interchange/export_run.h"
#include "cogwheel/interchange/import_run.h"
#include "cogwheel/runs/task.h"
#include "cogwheel/text/word_piece.h"
#include "interchange/foreign_example.h"
#include "support/temporary_folder.h"

namespace cogwheel::interchange::interchange_round_trip {
namespace {

NamedTensors numbers_of(const std::vector<OutgoingTensor>& tensors) {
  NamedTensors numbers;
  for (const OutgoingTensor& each : tensors) numbers[each.name] = each.numbers();
  return numbers;
}

void expect_same_bits(const NamedTensors& got, const NamedTensors& expected) {
  EXPECT_EQ(got.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_TRUE(got.at(name).equal(tensor)) << name;
  }
}

TEST(Interchange, RoundTripsBitForBit) {
  for (const ForeignExample& example : all_foreign_examples()) {
    const TemporaryFolder temporary;
    const auto there = temporary.path() / "there", run = temporary.path() / "run", back = temporary.path() / "back";
    example.write(there);
    const ImportedModel imported = read_foreign_model(there);
    EXPECT_TRUE(imported.notes.empty());
    const runs::RunFolder folder = write_imported_run(imported, run);
    const auto module = runs::make_model(imported.config.model);
    runs::load_weights_of(*module, imported.config, folder);
    for (const auto& parameter : module->named_parameters())
      EXPECT_TRUE(parameter.value().equal(imported.weights.at(parameter.key()))) << parameter.key();

    const ExportedModel exported = foreign_model(imported.config, imported.weights, run);
    write_exported_model(exported, back);
    const runs::SafeTensors file = runs::load_safetensors(back / "model.safetensors");
    EXPECT_EQ(file.metadata.at("format"), "pt");
    expect_same_bits(file.tensors, example.weights);
    const auto config = nlohmann::ordered_json::parse(read_file(back / "config.json"));
    for (const auto& [key, value] : example.config.items()) {
      if (key == "_name_or_path" || key == "transformers_version") continue;
      EXPECT_EQ(config.value(key, nlohmann::ordered_json()), value) << key;
    }
    if (!example.vocabulary.empty()) {
      EXPECT_EQ(read_file(back / "vocab.txt"), example.vocabulary);
    }

    // And once more, from what was exported.
    const ImportedModel again = read_foreign_model(back);
    expect_same_bits(again.weights, imported.weights);
    EXPECT_EQ(runs::to_toml(again.config), runs::to_toml(imported.config));
    for (std::size_t file_index = 0; file_index < imported.files.size(); ++file_index)
      EXPECT_EQ(again.files[file_index].content, imported.files[file_index].content);
  }
}

TEST(Interchange, ExportsARunOnDisk) {
  const TemporaryFolder temporary;
  vit_example().write(temporary.path() / "there");
  const auto run = temporary.path() / "run", back = temporary.path() / "back";
  write_imported_run(read_foreign_model(temporary.path() / "there"), run);
  EXPECT_EQ(export_run(runs::RunFolder::open(run), back).architecture, "ViTForImageClassification");
  expect_same_bits(runs::load_safetensors(back / "model.safetensors").tensors, vit_example().weights);
  EXPECT_THROW(export_run(runs::RunFolder::open(run), back), UsageError);
  EXPECT_NO_THROW(export_run(runs::RunFolder::open(run), back, {.overwrite = true}));
  EXPECT_THROW(export_run(runs::RunFolder::open(run), run, {.overwrite = true}), Error);  // a run is no export
  EXPECT_TRUE(std::filesystem::exists(run / "config.toml"));
}

TEST(Interchange, TakesWhatPublishedFilesOfBertHold) {
  ForeignExample example = bert_example(false);
  const NamedTensors plain = example.weights;
  const auto rename = [&](const std::string& from, const std::string& to) {
    auto node = example.weights.extract(from);
    node.key() = to;
    example.weights.insert(std::move(node));
  };
  rename("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma");
  rename("bert.encoder.layer.1.output.LayerNorm.bias", "bert.encoder.layer.1.output.LayerNorm.beta");
  example.weights["cls.predictions.decoder.weight"] = plain.at("bert.embeddings.word_embeddings.weight");
  example.weights["cls.predictions.decoder.bias"] = plain.at("cls.predictions.bias");
  example.weights["bert.embeddings.position_ids"] = at::arange(9, at::kLong).unsqueeze(0);
  example.linear("bert.pooler.dense", example_width, example_width);
  example.linear("cls.seq_relationship", example_width, 2);
  const TemporaryFolder temporary;
  example.write(temporary.path() / "there");
  const ImportedModel imported = read_foreign_model(temporary.path() / "there");
  ASSERT_EQ(imported.notes.size(), 1U);
  EXPECT_NE(imported.notes[0].find("bert.pooler.dense.bias"), std::string::npos);
  EXPECT_NE(imported.notes[0].find("cls.seq_relationship.weight"), std::string::npos);
  write_imported_run(imported, temporary.path() / "run");
  expect_same_bits(numbers_of(foreign_model(imported.config, imported.weights, temporary.path() / "run").weights),
                   plain);
}

TEST(Interchange, ReadsEitherFileOfAVocabulary) {
  ForeignExample example = bert_example(false);
  const TemporaryFolder temporary;
  example.write(temporary.path());
  temporary.write("tokenizer_config.json", R"({"do_lower_case": false})");
  const auto of_lines = read_foreign_model(temporary.path()).files.front().content;
  EXPECT_NE(of_lines.find("\"cased\": true"), std::string::npos);
  nlohmann::json whole = {
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"continuing_subword_prefix", "##"}}},
      {"normalizer", {{"type", "BertNormalizer"}, {"lowercase", false}, {"clean_text", true}}}};
  std::istringstream lines(example.vocabulary);
  std::string piece;
  for (int token = 0; std::getline(lines, piece); ++token) whole["model"]["vocab"][piece] = token;
  temporary.write("tokenizer.json", whole.dump());
  std::filesystem::remove(temporary.path() / "vocab.txt");
  EXPECT_EQ(read_foreign_model(temporary.path()).files.front().content, of_lines);
}

TEST(SafeTensorsFile, WidensHalfPrecision) {
  const std::vector<float> values{1.5F, -0.25F, 3.0F, 65504.0F};
  const at::Tensor expected = at::tensor(values);
  for (const auto& [name, type] : {std::pair{"F16", at::kHalf}, std::pair{"BF16", at::kBFloat16}}) {
    const at::Tensor narrow = expected.to(type);
    const std::string header = R"({"x":{"dtype":")" + std::string(name) + R"(","shape":[4],"data_offsets":[0,8]}})";
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length + header.size() + 8, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    std::memcpy(bytes.data() + sizeof length, header.data(), header.size());
    std::memcpy(bytes.data() + sizeof length + header.size(), narrow.const_data_ptr(), 8);
    const TemporaryFolder temporary;
    const at::Tensor read = runs::load_safetensors(temporary.write("x.safetensors", bytes)).tensors.at("x");
    EXPECT_EQ(read.scalar_type(), at::kFloat);
    EXPECT_TRUE(read.equal(narrow.to(at::kFloat))) << name;
  }
}

}  // namespace
}  // namespace cogwheel::interchange::interchange_round_trip
