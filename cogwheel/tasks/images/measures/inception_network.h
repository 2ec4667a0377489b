// The Inception-v3 by whose features FID is defined, for inference in float32.
//
// Szegedy et al., "Rethinking the Inception Architecture for Computer Vision" (2016), with the weights of Heusel et al.
// (2017) as pytorch-fid ports them: tensors have the names of its pt_inception-2015-12-05, and the network differs from
// torchvision's as there. Average pools leave the border's padding out of their mean; the last block, Mixed_7c, has a
// maximum in the place of the average. Images are resized to 299×299 bilinearly, without antialiasing and with
// align_corners=False.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cogwheel::tasks::images {

struct InceptionFeatures {
  // [B, 2048]: means over the 8×8 places of Mixed_7c, pool_3 of the original graph. Those of FID.
  at::Tensor pooled;
  // [B, 2023]: the first 7 of 768 channels at the 17×17 places of Mixed_6d, place by place. Those of sFID (Nash et al.,
  // "Generating Images with Sparse Representations", 2021), as the evaluator of ADM (Dhariwal and Nichol 2021) takes
  // them: "mixed_6/conv" of the original graph, whose blocks mixed … mixed_10 are Mixed_5b … Mixed_7c, is the branch
  // branch1x1 of Mixed_6d after its rectifier, and comes first in the block's output.
  at::Tensor spatial;
};

class InceptionNetwork {
 public:
  static constexpr std::int64_t pooled_features = 2048, spatial_features = 2023;

  // From a safetensors file. Throws Error that names the first tensor that is missing, of another shape or type, or not
  // finite; also for torchvision's own weights, whose tensors have these names, and for a pickle, with the line that
  // converts it. Tensors that the features do not need (fc, num_batches_tracked) may be there or not.
  explicit InceptionNetwork(const std::filesystem::path& weights);

  // Of images [B, 3 or 1, H, W], in [−1, 1]; grey images are taken as red, green and blue. Computed 16 images at a
  // time.
  InceptionFeatures operator()(const at::Tensor& images) const;

  // SHA-256 of the weights (runs/safetensors.h).
  const std::string& hash() const { return hash_; }

  // Names and shapes of the tensors that it needs, in the order of the network.
  static std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors();

 private:
  // Weight and bias of each convolution by its name, with the normalisation that follows it folded in.
  std::map<std::string, std::pair<at::Tensor, at::Tensor>> convolutions_;
  std::string hash_;
};

}  // namespace cogwheel::tasks::images
