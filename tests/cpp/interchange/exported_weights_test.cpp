// Weights on their way out: types, parts, and what stays where something goes wrong.
#include "cogwheel/interchange/exported_weights.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <tuple>

#include "cogwheel/core/error.h"
#include "cogwheel/interchange/export_run.h"
#include "cogwheel/interchange/foreign_weights.h"
#include "cogwheel/interchange/import_run.h"
#include "interchange/foreign_example.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace cogwheel::interchange::interchange_exported {
namespace {

std::map<std::string, std::string> contents_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    contents[entry.path().filename().string()] = read_file(entry.path());
  return contents;
}

// A vision transformer that was imported, to be exported in several ways.
class ExportedWeights : public testing::Test {
 protected:
  ExportedWeights() {
    vit_example().write(folder_.path() / "there");
    imported_ = read_foreign_model(folder_.path() / "there");
    write_imported_run(imported_, folder_.path() / "run");
  }

  void write(const ExportOptions& options) const {
    write_exported_model(foreign_model(imported_.config, imported_.weights, folder_.path() / "run"), back(), options);
  }
  NamedTensors read() const { return read_foreign_model(back()).weights; }
  std::filesystem::path back() const { return folder_.path() / "back"; }

  TemporaryFolder folder_;
  ImportedModel imported_;
};

TEST_F(ExportedWeights, AreCutIntoPartsWithAnIndex) {
  constexpr std::int64_t bytes = 10'000;
  write({.weights = {.shard_bytes = bytes}});
  const auto index = nlohmann::json::parse(read_file(back() / foreign_index_file));
  std::uint64_t total = 0, count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(back())) {
    const std::string name = entry.path().filename().string();
    if (!is_weights_file(name) || name == foreign_index_file) continue;
    std::uint64_t numbers = 0;
    const runs::SafeTensorsFile file(entry.path());
    for (const auto& each : file.entries()) {
      EXPECT_EQ(index["weight_map"][each.name], name);
      numbers += each.end - each.begin;
    }
    EXPECT_LE(numbers, bytes);
    EXPECT_EQ(file.metadata().at("format"), "pt");
    total += numbers;
    count += 1;
  }
  EXPECT_GE(count, 3U);
  EXPECT_TRUE(std::filesystem::exists(back() / fmt::format("model-00001-of-{:05}.safetensors", count)));
  EXPECT_EQ(index["metadata"]["total_size"], total);
  EXPECT_EQ(index["weight_map"].size(), vit_example().weights.size());
  for (const auto& [name, tensor] : read()) EXPECT_TRUE(tensor.equal(imported_.weights.at(name))) << name;

  // Parts of one tensor each, and what an export in one file leaves of them.
  write({.weights = {.shard_bytes = 1}, .overwrite = true});
  EXPECT_EQ(contents_of(back()).size(), vit_example().weights.size() + 4);  // index, configuration, pixels, marker
  write({.overwrite = true});
  const auto contents = contents_of(back());
  EXPECT_EQ(contents.size(), 4U);
  EXPECT_TRUE(contents.contains(foreign_weights_file));
  for (const auto& [name, tensor] : read()) EXPECT_TRUE(tensor.equal(imported_.weights.at(name))) << name;
}

TEST_F(ExportedWeights, AreRoundedToTheirType) {
  for (const auto& [dtype, type, name] :
       {std::tuple("bf16", at::kBFloat16, "bfloat16"), std::tuple("fp16", at::kHalf, "float16")}) {
    write({.weights = {.dtype = dtype}, .overwrite = true});
    EXPECT_EQ(nlohmann::json::parse(read_file(back() / "config.json"))["torch_dtype"], name);
    const runs::SafeTensorsFile file(back() / foreign_weights_file);
    for (const auto& each : file.entries()) EXPECT_EQ(each.type, type) << each.name;
    for (const auto& [parameter, tensor] : read())
      EXPECT_TRUE(tensor.equal(imported_.weights.at(parameter).to(type).to(at::kFloat))) << parameter;
  }
  EXPECT_THROW(write({.weights = {.dtype = "double"}, .overwrite = true}), UsageError);
}

TEST_F(ExportedWeights, ThatTheirTypeCannotHoldAreRefusedAndTheOlderExportStays) {
  write({.weights = {.shard_bytes = 20'000}});
  const auto before = contents_of(back());
  imported_.weights["head.weight"][1][2] = -70000;
  const ExportOptions half{.weights = {.dtype = "fp16"}, .overwrite = true};
  EXPECT_EQ(error_of([&] { write(half); }),
            back().string() + ": classifier.weight: expected numbers that fp16 holds, got 70000");
  EXPECT_EQ(contents_of(back()), before);
  imported_.weights["head.weight"][1][2] = 3.4e38F;
  EXPECT_NE(error_of([&] {
              write({.weights = {.dtype = "bf16"}, .overwrite = true});
            }).find("classifier.weight: expected numbers that bf16 holds"),
            std::string::npos);
  imported_.weights["head.weight"][1][2] = 65504;
  EXPECT_EQ(error_of([&] { write(half); }), "");
}

// A killed process leaves temporary files; whoever writes next removes them.
TEST_F(ExportedWeights, OfAKilledProcessAreRemoved) {
  write({});
  const auto before = contents_of(back());
  write_file(back() / ".model-00001-of-00007.safetensors.99.part", "half of it");
  write_file(back() / "model-00002-of-00007.safetensors", "renamed");
  std::filesystem::remove(back() / "config.json");
  write({.overwrite = true});
  EXPECT_EQ(contents_of(back()), before);
}

TEST(ExportedNames, AreThoseThatTransformersGives) {
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                           "model-100000-of-100001.safetensors"})
    EXPECT_TRUE(is_weights_file(name)) << name;
  for (const char* name : {"model", "mymodel.safetensors", "model-1-of-2.safetensors", "model-00001-of-.safetensors",
                           "model-00001-of-00002.safetensors.bak", "config.json", ""})
    EXPECT_FALSE(is_weights_file(name)) << name;
}

// Of a file that is cut short while it is read, and of types that are no weights.
TEST_F(ExportedWeights, ThatAreReadAgainAreThereOrRefused) {
  write({});
  const ForeignWeights weights(back());
  const auto path = back() / foreign_weights_file;
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  std::vector<std::string> left_out;
  TensorTable table("Cut");
  for (const auto& [name, tensor] : weights.tensors()) table.add(name, tensor.shape(), name);
  const std::string message = error_of([&] { table.to_ours(weights, left_out); });
  EXPECT_NE(message.find("bytes, as when it was opened, got"), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  for (const auto& [type, text] : {std::pair(at::kBool, "Bool"), std::pair(at::kDouble, "float64"),
                                   std::pair(at::kLong, "int64"), std::pair(at::kInt, "Int")}) {
    const std::string header = "{\"x\":{\"dtype\":\"" +
                               std::string(type == at::kBool     ? "BOOL"
                                           : type == at::kDouble ? "F64"
                                           : type == at::kLong   ? "I64"
                                                                 : "I32") +
                               "\",\"shape\":[2],\"data_offsets\":[0," + std::to_string(2 * c10::elementSize(type)) +
                               "]}}";
    const std::uint64_t length = header.size();
    write_file(path, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                         std::string(2 * c10::elementSize(type), '\1'));
    TensorTable one("One");
    one.add("x", {2}, "x");
    EXPECT_EQ(error_of([&] { one.to_ours(ForeignWeights(back()), left_out); }),
              path.string() + ": x: expected float32, float16 or bfloat16, got " + text);
  }
}

}  // namespace
}  // namespace cogwheel::interchange::interchange_exported
