// The weights of a model that lie in shares on the ranks that share its heads (parallel.tensor), and all that belongs
// to them: gradients, moments, averages.
//
// In the model a share stands where the whole parameter was, under its name, so that what goes through a model's
// parameters need not know. What does: a norm over all weights, an optimiser that reads whole matrices, files, and
// whoever uses the model elsewhere than in training steps.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/distributed/group.h"
#include "cogwheel/runs/training/width_scaling.h"

namespace torch::nn {
class Module;
}

namespace cogwheel::runs {

class DividedWeights {
 public:
  // Of `ranks`, this one: the parameters that the model divides become shares (nn/ranks/divided_parameter.h). With one
  // rank nothing is divided, and nothing below exchanges anything.
  DividedWeights(torch::nn::Module& model, std::int64_t rank, std::int64_t ranks);

  // The ranks that have the other shares. Makes them where it is first called, which is collective.
  using MakeGroup = std::function<const distributed::Group&()>;
  void set_group(MakeGroup make) { group_ = std::move(make); }

  bool empty() const { return places_.empty(); }
  bool contains(const std::string& parameter) const { return places_.contains(parameter); }

  // Of a parameter, or of what has a number for each of its numbers: the sizes of the whole; this rank's share of it;
  // and, collective, the whole of all shares. Of what is not divided: itself.
  std::vector<std::int64_t> whole_sizes(const std::string& parameter, const at::Tensor& share) const;
  at::Tensor share(const std::string& parameter, const at::Tensor& whole) const;
  at::Tensor whole(const std::string& parameter, const at::Tensor& share, const std::string& what) const;
  // Which rows of the shares have factors.
  WidthScaling shares(const WidthScaling& of_whole) const;

  // Collective: Σ over the ranks of what each has.
  double sum(double own, const std::string& what) const;

  // Collective. While such an object exists, the model has its whole parameters, on every rank.
  class WholeInModel {
   public:
    WholeInModel(const DividedWeights& weights, torch::nn::Module& model, const std::string& what);
    ~WholeInModel();
    WholeInModel(const WholeInModel&) = delete;
    WholeInModel& operator=(const WholeInModel&) = delete;

   private:
    WholeInModel() = default;
    std::vector<std::pair<at::Tensor, at::Tensor>> parameters_and_shares_;
  };

 private:
  struct Place {
    std::int64_t dim;
    std::vector<std::int64_t> parts;  // of the whole
    std::vector<std::int64_t> sizes;
  };
  const Place* find(const std::string& parameter) const;

  std::int64_t rank_, ranks_;
  std::map<std::string, Place> places_;  // by parameter
  MakeGroup group_;
};

}  // namespace cogwheel::runs
