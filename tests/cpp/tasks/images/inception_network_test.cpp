// The network against an independent one, whose features are in inception_features.json: inception_reference.py, in
// tests/python, has the other network and the formula of weights and images.
#include "cogwheel/tasks/images/measures/inception_network.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cogwheel/core/encoding/sha256.h"
#include "cogwheel/core/files/atomic_file.h"
#include "cogwheel/core/random.h"
#include "cogwheel/runs/safetensors.h"
#include "support/error_of.h"

namespace cogwheel::tasks::images::inception_network_test {
namespace {

class Folder {
 public:
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("cogwheel-inception-" + std::to_string(::getpid()));
};

// [0, 1), as inception_reference.uniform draws it.
at::Tensor uniform(const std::string& name, at::IntArrayRef shape) {
  const std::uint64_t start = std::stoull(sha256(name).substr(0, 16), nullptr, 16);
  at::Tensor values = torch::empty(shape, at::kDouble);
  auto* value = values.mutable_data_ptr<double>();
  for (std::int64_t index = 0; index < values.numel(); ++index)
    value[index] = static_cast<double>(mix(start + static_cast<std::uint64_t>(index)) >> 40) * 0x1p-24;
  return values;
}

at::Tensor drawn(const std::string& name, at::IntArrayRef shape) {
  const at::Tensor u = uniform(name, shape);
  if (name.ends_with("conv.weight"))
    return ((2 * u - 1) * std::sqrt(6 / static_cast<double>(shape[1] * shape[2] * shape[3]))).to(at::kFloat);
  return (name.ends_with("bn.weight") || name.ends_with("bn.running_var") ? 0.5 + u : u - 0.5).to(at::kFloat);
}

void expect_recorded(const at::Tensor& features, const nlohmann::json& recorded, std::int64_t every) {
  std::vector<double> values;
  for (const auto& image : recorded)
    for (const auto& value : image) values.push_back(value.get<double>());
  const at::Tensor expected = torch::tensor(values, at::kDouble).view({static_cast<std::int64_t>(recorded.size()), -1});
  const at::Tensor found = features.slice(1, 0, at::nullopt, every).to(at::kDouble);
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(at::allclose(found, expected, 1e-4, 1e-4)) << (found - expected).abs().max().item<double>();
}

TEST(InceptionNetwork, FeaturesAreThoseOfAnIndependentNetwork) {
  const Folder folder;
  runs::SafeTensors weights;
  for (const auto& [name, shape] : InceptionNetwork::tensors()) weights.tensors[name] = drawn(name, shape);
  weights.tensors["fc.weight"] = torch::zeros({1008, 2048});  // not needed
  weights.tensors["Mixed_5b.branch1x1.bn.num_batches_tracked"] = torch::zeros({}, at::kLong);
  runs::save_safetensors(weights, folder.path / "weights.safetensors");
  const InceptionNetwork network(folder.path / "weights.safetensors");
  EXPECT_EQ(network.hash(), runs::sha256(weights));

  const auto record = nlohmann::json::parse(read_file(INCEPTION_FEATURES));
  for (const auto& [name, shape] : std::map<std::string, std::vector<std::int64_t>>{
           {"small images", {2, 3, 24, 40}}, {"large image", {1, 3, 310, 330}}}) {
    SCOPED_TRACE(name);
    const InceptionFeatures features = network(2 * uniform(name, shape) - 1);
    EXPECT_EQ(features.pooled.sizes(), at::IntArrayRef({shape[0], InceptionNetwork::pooled_features}));
    EXPECT_EQ(features.spatial.sizes(), at::IntArrayRef({shape[0], InceptionNetwork::spatial_features}));
    expect_recorded(features.pooled, record[name]["pooled"], 8);
    expect_recorded(features.spatial, record[name]["spatial"], 10);
  }

  // Grey images are red, green and blue alike.
  const at::Tensor grey = 2 * uniform("grey", {1, 1, 12, 12}) - 1;
  EXPECT_TRUE(at::equal(network(grey).pooled, network(grey.repeat({1, 3, 1, 1})).pooled));
  EXPECT_EQ(error_of([&] {
              network(torch::zeros({1, 2, 8, 8}));
            }),
            "images: expected [images, 3 or 1 channels, height, width], got [1, 2, 8, 8]");
}

// The error of a file with the tensors of the first two layers, changed.
template <class Change>
std::string error_of_changed(const Folder& folder, const Change& change) {
  runs::SafeTensors weights;
  for (const auto& [name, shape] : InceptionNetwork::tensors())
    if (name.starts_with("Conv2d_1a") || name.starts_with("Conv2d_2a")) weights.tensors[name] = drawn(name, shape);
  change(weights.tensors);
  const std::filesystem::path path = folder.path / "weights.safetensors";
  runs::save_safetensors(weights, path);
  const std::string error = error_of([&] { InceptionNetwork network(path); });
  EXPECT_TRUE(error.starts_with(path.string() + ": expected ")) << error;
  return error.substr(std::min(error.size(), path.string().size() + 2));
}

TEST(InceptionNetwork, NamesTheTensorThatIsWrong) {
  const Folder folder;
  using Tensors = std::map<std::string, at::Tensor>;
  EXPECT_EQ(error_of_changed(folder, [](Tensors&) {}),
            "expected Conv2d_2b_3x3.conv.weight of shape [64, 32, 3, 3], got no such tensor");
  EXPECT_EQ(error_of_changed(folder, [](Tensors& tensors) { tensors.erase("Conv2d_1a_3x3.bn.running_mean"); }),
            "expected Conv2d_1a_3x3.bn.running_mean of shape [32], got no such tensor");
  EXPECT_EQ(error_of_changed(folder, [](Tensors& tensors) { tensors["Conv2d_2a_3x3.bn.bias"] = torch::zeros({31}); }),
            "expected Conv2d_2a_3x3.bn.bias of shape [32], got shape [31]");
  EXPECT_EQ(error_of_changed(folder, [](Tensors& tensors) { tensors["Conv2d_2a_3x3.bn.bias"][4] = NAN; }),
            "expected finite numbers, got NaN or infinity in Conv2d_2a_3x3.bn.bias");
  EXPECT_EQ(error_of_changed(folder, [](Tensors& tensors) { tensors["Conv2d_2a_3x3.bn.running_var"][4] = -1; }),
            "expected Conv2d_2a_3x3.bn.running_var of at least 0, got a negative number");
  EXPECT_EQ(error_of_changed(folder,
                             [](Tensors& tensors) {
                               tensors["fc.weight"] = torch::zeros({1000, 2048});
                             }),
            "expected the network of FID, of 1008 classes (pt_inception-2015-12-05), got another Inception-v3, such as "
            "torchvision's: its distances are no FID");
}

TEST(InceptionNetwork, SaysHowToConvertAPickle) {
  const Folder folder;
  const std::filesystem::path path = folder.path / "weights.pth";
  for (const auto& [bytes, kind] :
       {std::pair(std::string("PK\x03\x04 and the rest", 17), "a zip archive, as torch.save and numpy.savez write it"),
        std::pair(std::string("\x80\x02}q\x01 and the rest", 18), "a pickle")}) {
    write_file(path, bytes);
    EXPECT_EQ(error_of([&] { InceptionNetwork network(path); }),
              path.string() + ": expected a safetensors file, got " + kind +
                  "; to convert it, with the package safetensors: python3 -c \"import torch, safetensors.torch as s; "
                  "s.save_file({k: v.contiguous() for "
                  "k, v in torch.load('" +
                  path.string() + "', map_location='cpu').items()}, '" +
                  (folder.path / "weights.safetensors").string() + "')\"");
  }
  EXPECT_NE(error_of([&] { InceptionNetwork network(folder.path / "none.safetensors"); }), "");
}

}  // namespace
}  // namespace cogwheel::tasks::images::inception_network_test
