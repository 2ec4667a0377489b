#include "cogwheel/tasks/images/measures/inception_network.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "cogwheel/core/error.h"
#include "cogwheel/core/wording/shape_text.h"
#include "cogwheel/runs/foreign_file.h"

namespace cogwheel::tasks::images {
namespace {

constexpr double norm_epsilon = 1e-3;
constexpr std::int64_t image_size = 299, images_at_a_time = 16, spatial_channels = 7;
const std::string spatial_block = "Mixed_6d";

// A convolution without bias, its normalisation over the batch's running statistics, and a rectifier.
struct Layer {
  std::string name;
  std::int64_t outputs, height, width;  // of the kernel
  std::int64_t stride = 1;
  bool padded = true;  // by half the kernel: the size stays
};

enum class Pool { none, average, maximum, halving_maximum };

// What is concatenated for one branch: a pool, the layers one after the other, and then, where there are any, those of
// `split` side by side.
struct Branch {
  Pool pool = Pool::none;
  std::vector<Layer> layers = {}, split = {};
};

struct Block {
  std::string name;
  std::vector<Branch> branches;
};

Layer square(const char* name, std::int64_t outputs, std::int64_t kernel) { return {name, outputs, kernel, kernel}; }
Layer row(const char* name, std::int64_t outputs, std::int64_t width) { return {name, outputs, 1, width}; }
Layer column(const char* name, std::int64_t outputs, std::int64_t height) { return {name, outputs, height, 1}; }
Layer halving(const char* name, std::int64_t outputs) { return {name, outputs, 3, 3, 2, false}; }

// 35×35 places.
Block block_35(const char* name, std::int64_t pool_outputs) {
  return {
      name,
      {{.layers = {square("branch1x1", 64, 1)}},
       {.layers = {square("branch5x5_1", 48, 1), square("branch5x5_2", 64, 5)}},
       {.layers = {square("branch3x3dbl_1", 64, 1), square("branch3x3dbl_2", 96, 3), square("branch3x3dbl_3", 96, 3)}},
       {.pool = Pool::average, .layers = {square("branch_pool", pool_outputs, 1)}}}};
}

// 17×17 places; kernels of 7×7 are a row and a column, in `inner` channels.
Block block_17(const char* name, std::int64_t inner) {
  return {
      name,
      {{.layers = {square("branch1x1", 192, 1)}},
       {.layers = {square("branch7x7_1", inner, 1), row("branch7x7_2", inner, 7), column("branch7x7_3", 192, 7)}},
       {.layers = {square("branch7x7dbl_1", inner, 1), column("branch7x7dbl_2", inner, 7),
                   row("branch7x7dbl_3", inner, 7), column("branch7x7dbl_4", inner, 7), row("branch7x7dbl_5", 192, 7)}},
       {.pool = Pool::average, .layers = {square("branch_pool", 192, 1)}}}};
}

// 8×8 places.
Block block_8(const char* name, Pool pool) {
  return {name,
          {{.layers = {square("branch1x1", 320, 1)}},
           {.layers = {square("branch3x3_1", 384, 1)},
            .split = {row("branch3x3_2a", 384, 3), column("branch3x3_2b", 384, 3)}},
           {.layers = {square("branch3x3dbl_1", 448, 1), square("branch3x3dbl_2", 384, 3)},
            .split = {row("branch3x3dbl_3a", 384, 3), column("branch3x3dbl_3b", 384, 3)}},
           {.pool = pool, .layers = {square("branch_pool", 192, 1)}}}};
}

Block stem(std::vector<Layer> layers, Pool pool = Pool::none) {
  return {"", {{.pool = pool, .layers = std::move(layers)}}};
}

const std::vector<Block>& network() {
  static const std::vector<Block> blocks{
      stem({halving("Conv2d_1a_3x3", 32), Layer{"Conv2d_2a_3x3", 32, 3, 3, 1, false}, square("Conv2d_2b_3x3", 64, 3)}),
      stem({square("Conv2d_3b_1x1", 80, 1), Layer{"Conv2d_4a_3x3", 192, 3, 3, 1, false}}, Pool::halving_maximum),
      stem({}, Pool::halving_maximum),
      block_35("Mixed_5b", 32),
      block_35("Mixed_5c", 64),
      block_35("Mixed_5d", 64),
      {"Mixed_6a",
       {{.layers = {halving("branch3x3", 384)}},
        {.layers = {square("branch3x3dbl_1", 64, 1), square("branch3x3dbl_2", 96, 3), halving("branch3x3dbl_3", 96)}},
        {.pool = Pool::halving_maximum}}},
      block_17("Mixed_6b", 128),
      block_17("Mixed_6c", 160),
      block_17("Mixed_6d", 160),
      block_17("Mixed_6e", 192),
      {"Mixed_7a",
       {{.layers = {square("branch3x3_1", 192, 1), halving("branch3x3_2", 320)}},
        {.layers = {square("branch7x7x3_1", 192, 1), row("branch7x7x3_2", 192, 7), column("branch7x7x3_3", 192, 7),
                    halving("branch7x7x3_4", 192)}},
        {.pool = Pool::halving_maximum}}},
      block_8("Mixed_7b", Pool::average),
      block_8("Mixed_7c", Pool::maximum)};
  return blocks;
}

std::string full_name(const Block& block, const Layer& layer) {
  return block.name.empty() ? layer.name : block.name + "." + layer.name;
}

// visit(full name, layer, input channels) for every layer, in order.
template <class Visit>
void for_layers(const Visit& visit) {
  std::int64_t inputs = 3;
  for (const Block& block : network()) {
    std::int64_t outputs = 0;
    for (const Branch& branch : block.branches) {
      std::int64_t channels = inputs;
      for (const Layer& layer : branch.layers) {
        visit(full_name(block, layer), layer, channels);
        channels = layer.outputs;
      }
      std::int64_t together = 0;
      for (const Layer& layer : branch.split) {
        visit(full_name(block, layer), layer, channels);
        together += layer.outputs;
      }
      outputs += branch.split.empty() ? channels : together;
    }
    inputs = outputs;
  }
}

at::Tensor pooled(const at::Tensor& x, Pool pool) {
  switch (pool) {
    case Pool::none:
      return x;
    case Pool::average:
      return at::avg_pool2d(x, 3, 1, 1, /*ceil_mode=*/false, /*count_include_pad=*/false);
    case Pool::maximum:
      return at::max_pool2d(x, 3, 1, 1);
    case Pool::halving_maximum:
      return at::max_pool2d(x, 3, 2);
  }
  return x;
}

// Weight and bias by name.
using Convolutions = std::map<std::string, std::pair<at::Tensor, at::Tensor>>;

at::Tensor layer_output(const Convolutions& convolutions, const Block& block, const Layer& layer, const at::Tensor& x) {
  const auto& [weight, bias] = convolutions.at(full_name(block, layer));
  const std::vector<std::int64_t> padding{layer.padded ? layer.height / 2 : 0, layer.padded ? layer.width / 2 : 0};
  return at::conv2d(x, weight, bias, layer.stride, padding).relu_();
}

at::Tensor block_output(const Convolutions& convolutions, const Block& block, const at::Tensor& x) {
  std::vector<at::Tensor> outputs;
  for (const Branch& branch : block.branches) {
    at::Tensor y = pooled(x, branch.pool);
    for (const Layer& layer : branch.layers) y = layer_output(convolutions, block, layer, y);
    for (const Layer& layer : branch.split) outputs.push_back(layer_output(convolutions, block, layer, y));
    if (branch.split.empty()) outputs.push_back(y);
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs, 1);
}

InceptionFeatures features_of(const Convolutions& convolutions, const at::Tensor& images) {
  InceptionFeatures features;
  // Images in [−1, 1] resized are 2x − 1 of those in [0, 1] resized, as pytorch-fid has it: the resize is linear.
  at::Tensor x = at::upsample_bilinear2d(images, {image_size, image_size}, /*align_corners=*/false);
  x = x.contiguous(at::MemoryFormat::ChannelsLast);
  for (const Block& block : network()) {
    x = block_output(convolutions, block, x);
    if (block.name == spatial_block)
      features.spatial = x.narrow(1, 0, spatial_channels).permute({0, 2, 3, 1}).flatten(1).contiguous();
  }
  features.pooled = at::mean(x, {2, 3});
  return features;
}

// In float64: what the features need, checked.
at::Tensor checked(const runs::SafeTensors& file, const std::string& name, at::IntArrayRef shape,
                   const std::filesystem::path& path) {
  const auto found = file.tensors.find(name);
  const std::string expected = name + " of shape " + shape_text(shape);
  if (found == file.tensors.end()) throw Error(expected_got(path.string(), expected, "no such tensor"));
  const at::Tensor& tensor = found->second;
  if (tensor.sizes() != shape)
    throw Error(expected_got(path.string(), expected, "shape " + shape_text(tensor.sizes())));
  if (!tensor.is_floating_point())
    throw Error(expected_got(path.string(), name + " of a floating type", at::toString(tensor.scalar_type())));
  if (!at::isfinite(tensor).all().item<bool>())
    throw Error(expected_got(path.string(), "finite numbers", "NaN or infinity in " + name));
  return tensor.to(at::kDouble);
}

void expect_not_torchvisions(const runs::SafeTensors& file, const std::filesystem::path& path) {
  const auto classifier = file.tensors.find("fc.weight");
  const bool other_classes =
      classifier != file.tensors.end() && classifier->second.sizes() != at::IntArrayRef({1008, 2048});
  if (other_classes || file.tensors.contains("AuxLogits.fc.weight"))
    throw Error(expected_got(path.string(), "the network of FID, of 1008 classes (pt_inception-2015-12-05)",
                             "another Inception-v3, such as torchvision's: its distances are no FID"));
}

}  // namespace

std::vector<std::pair<std::string, std::vector<std::int64_t>>> InceptionNetwork::tensors() {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> all;
  for_layers([&](const std::string& name, const Layer& layer, std::int64_t inputs) {
    all.push_back({name + ".conv.weight", {layer.outputs, inputs, layer.height, layer.width}});
    for (const char* statistic : {"weight", "bias", "running_mean", "running_var"})
      all.push_back({name + ".bn." + statistic, {layer.outputs}});
  });
  return all;
}

InceptionNetwork::InceptionNetwork(const std::filesystem::path& weights) {
  const c10::NoGradGuard no_grad;
  const std::string converted = std::filesystem::path(weights).replace_extension(".safetensors").string();
  const runs::SafeTensors file = runs::load_safetensors_or_say(
      weights, "import torch, safetensors.torch as s; s.save_file({k: v.contiguous() for k, v in torch.load('" +
                   weights.string() + "', map_location='cpu').items()}, '" + converted + "')");
  expect_not_torchvisions(file, weights);
  for_layers([&](const std::string& name, const Layer& layer, std::int64_t inputs) {
    const auto tensor = [&](const char* part, at::IntArrayRef shape) {
      return checked(file, name + part, shape, weights);
    };
    const at::Tensor kernel = tensor(".conv.weight", {layer.outputs, inputs, layer.height, layer.width});
    const at::Tensor gain = tensor(".bn.weight", {layer.outputs}), offset = tensor(".bn.bias", {layer.outputs});
    const at::Tensor mean = tensor(".bn.running_mean", {layer.outputs});
    const at::Tensor variance = tensor(".bn.running_var", {layer.outputs});
    if (variance.min().item<double>() < 0)
      throw Error(expected_got(weights.string(), name + ".bn.running_var of at least 0", "a negative number"));
    const at::Tensor scale = gain / (variance + norm_epsilon).sqrt();
    // oneDNN is up to twice as fast where the channels of a place lie together.
    convolutions_[name] = {
        (kernel * scale.view({-1, 1, 1, 1})).to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast),
        (offset - mean * scale).to(at::kFloat)};
  });
  hash_ = runs::sha256(file);
}

InceptionFeatures InceptionNetwork::operator()(const at::Tensor& images) const {
  const c10::NoGradGuard no_grad;
  if (images.dim() != 4 || images.size(0) < 1 || (images.size(1) != 1 && images.size(1) != 3))
    throw Error(expected_got("images", "[images, 3 or 1 channels, height, width]", shape_text(images.sizes())));
  const at::Tensor colours = images.to(at::kFloat).expand({-1, 3, -1, -1});
  std::vector<at::Tensor> all_pooled, all_spatial;
  for (std::int64_t first = 0; first < colours.size(0); first += images_at_a_time) {
    const std::int64_t count = std::min(images_at_a_time, colours.size(0) - first);
    const InceptionFeatures features = features_of(convolutions_, colours.narrow(0, first, count));
    all_pooled.push_back(features.pooled), all_spatial.push_back(features.spatial);
  }
  return {.pooled = at::cat(all_pooled), .spatial = at::cat(all_spatial)};
}

}  // namespace cogwheel::tasks::images
