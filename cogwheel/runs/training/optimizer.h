// The optimiser of a run: AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019) through
// libtorch's fused kernel, one pass over each tensor, which torch::optim::AdamW in C++ is not; and, where it is asked
// for, Muon (muon.h) of the hidden matrices.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cogwheel/runs/configuration/training_options.h"
#include "cogwheel/runs/training/width_scaling.h"

namespace cogwheel::runs {

class DividedMoments;
class DividedWeights;

class Optimizer {
 public:
  struct Parameter {
    std::string name;
    at::Tensor value;
    at::Tensor first_moment;   // where ranks divide moments, this rank's stretch, flat
    at::Tensor second_moment;  // undefined of a hidden matrix under Muon, which has none
    std::int64_t first_step = 0;
  };

  // `hidden`: the names of those that Muon takes; `first_steps`: of those that begin to learn later, the first step,
  // counted from 0, that changes them. Until then they need no gradient, and their moments count from there.
  // `scaling`: of rates, of which none are of hidden matrices under Muon. `divided`, which outlives it: of which of the
  // parameters this rank has a share alone. `moments`, too: null where each rank updates all of them. With either
  // `clip_gradients`, `step` and `measured_step` are collective.
  Optimizer(const std::vector<std::pair<std::string, at::Tensor>>& parameters, const TrainingOptions& options,
            const std::set<std::string>& hidden = {}, const std::map<std::string, std::int64_t>& first_steps = {},
            const WidthScaling& scaling = {}, const DividedWeights* divided = nullptr,
            DividedMoments* moments = nullptr);

  // Clips the gradients to options.clip and returns their global norm before; NaN or infinite if a gradient is.
  double clip_gradients();
  void step(double learning_rate);
  // The same, with the norm of all updates over that of all weights before.
  double measured_step(double learning_rate);
  void zero_moments();
  void zero_gradients();  // frees them: the next backward pass stores instead of accumulating

  std::int64_t steps_done() const { return steps_done_; }
  void set_steps_done(std::int64_t steps) { steps_done_ = steps; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  std::vector<at::Tensor> values() const;
  // The indices of the parameters that the next step changes.
  std::vector<std::size_t> learning() const;
  // Of one parameter; where none has come, one that adds nothing, made here.
  at::Tensor gradient(std::size_t index);
  // Where ranks divide moments: the gradients of what learns, of which this rank has its stretches, flat; instead of
  // those of the parameters.
  void take_own_gradients(std::vector<at::Tensor> of_learning);

 private:
  // What of a parameter is updated here: all of it, or this rank's stretch.
  at::Tensor updated(const at::Tensor& parameter) const;
  // Of that, rows with a rate of their own (numbers, of a stretch), or, where `count` is 0, all.
  struct Rows {
    std::size_t parameter;
    bool is_share;
    std::int64_t first, count;
    at::Tensor of(const at::Tensor& tensor) const { return count == 0 ? tensor : tensor.narrow(0, first, count); }
  };
  // Tensors with the same weight decay, first step and rate, in the form that the fused kernel takes.
  struct Group {
    std::vector<Rows> rows;
    std::vector<at::Tensor> values, first_moments, second_moments, steps;
    double weight_decay;
    std::int64_t first_step;
    double rate;  // a factor of the step's
  };
  Group& group_of(double weight_decay, std::int64_t first_step, double rate);
  // Of a step after those that are done.
  bool learns(std::int64_t first_step) const { return first_step <= steps_done_; }
  void add_to(Group& group, std::size_t index, std::int64_t first, std::int64_t count);
  void add_rows(Group& group, std::size_t index, std::int64_t first, std::int64_t count);
  at::Tensor gradient_of_updated(std::size_t index) const;
  void update_all(double learning_rate);
  void send_weights();
  void update(Group& group, double learning_rate);
  void update_matrix(Parameter& matrix, double learning_rate);
  bool is_divided(const Parameter& parameter) const;
  // The sum of squares over all parameters, from those of what is whole here and of shares.
  double squares_of_all(double of_whole, double of_shares) const;
  // Of all that learn, of which this rank has its stretches.
  double squares_of_stretches(const std::vector<at::Tensor>& own, const std::string& what);
  double measured_stretches_step(double learning_rate);

  TrainingOptions options_;
  std::vector<Parameter> parameters_;
  std::vector<Group> groups_;          // of AdamW
  std::vector<std::size_t> matrices_;  // of Muon, as indices of parameters_
  std::int64_t steps_done_ = 0;
  const DividedWeights* divided_;
  DividedMoments* moments_;
  std::vector<at::Tensor> own_gradients_;  // of parameters_, where moments are divided
};

}  // namespace cogwheel::runs
